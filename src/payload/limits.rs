//! Bounds of the payload module.

use crate::http::limits::REPLY_BODY_BYTES;
use crate::model::size::{KIB, MIB};

/// Upper bound on the decoded bytes of a compressed body for its digest.
pub(crate) const DECODED_BODY_BYTES: u64 = 64 * MIB as u64;
/// Upper bound on content codings that are removed from one body for its digest.
pub(crate) const CONTENT_CODINGS: usize = 4;
/// Largest zstd window, as a power of two: 8 MiB, the most that RFC 9659 allows for the content
/// coding.
pub(crate) const ZSTD_WINDOW_LOG: u32 = 23;

/// Most bytes that one zstd block of at least [`ZSTD_BLOCK_HEADER_BYTES`] decodes to (RFC 8878, 3.1.1.2).
pub(crate) const ZSTD_BLOCK_BYTES: u64 = 128 * KIB as u64;
pub(crate) const ZSTD_BLOCK_HEADER_BYTES: u64 = 3;
/// Highest level that bodies are compressed at: above it the window grows beyond 8 MiB.
pub(crate) const ZSTD_LEVEL: i32 = 19;
/// Most bytes that deflate makes of one.
pub(crate) const DEFLATE_RATIO: usize = 1032;
/// First buffer of a body whose coding does not state how long it becomes, bytes.
pub(crate) const DECODED_AT_FIRST: usize = 16 * KIB;
/// Largest compression dictionary, bytes.
pub(crate) const DICTIONARY_BYTES: usize = crate::config::limits::DICTIONARY_BYTES as usize;

const _: () = assert!(REPLY_BODY_BYTES as u64 <= DECODED_BODY_BYTES);
// RFC 9842, 5: who takes `dcz` takes windows of 1.25 x the dictionary if that is more than 8 MiB.
const _: () = assert!(DICTIONARY_BYTES / 4 * 5 <= 1 << ZSTD_WINDOW_LOG);
/// Largest body whose digest is worked out where requests are served, bytes; larger ones go to a
/// thread of their own.
pub(crate) const INLINE_DIGEST_BYTES: usize = 32 * KIB;
/// Largest JSON body that is compared by what it means where the same content is looked for, bytes:
/// read, it takes some ten times as much.
pub(crate) const JSON_DIGEST_BYTES: usize = 256 * KIB;

/// Upper bound on the paths of a mask, as it is written.
pub(crate) const MASK_PATHS: usize = 64;
/// Upper bound on the names of a path of a mask.
pub(crate) const MASK_DEPTH: usize = 16;
/// The longest mask, as it is written and in its canonical form.
pub(crate) const MASK_BYTES: usize = 4 * KIB;
/// Depth to which a projection follows objects and lists; serde_json's own bound.
pub(crate) const NESTING: usize = 128;
/// From which size on an index of a body is worth making.
pub(crate) const INDEXED_BODY_BYTES: usize = 16 * KIB;
/// An index takes at most one in this many bytes of its body: 5 %.
pub(crate) const INDEX_SHARE: usize = 20;
/// Divisor of the share of an index that the places of containers may take.
pub(crate) const CONTAINERS_SHARE: usize = 5;
/// The smallest container whose place is worth keeping: skipping it takes about as long as finding
/// its place.
pub(crate) const CONTAINER_BYTES: usize = 256;
/// Memory of a route for the masks that its callers sent, in bytes.
pub(crate) const MASKS_BYTES: usize = 64 * KIB;
/// Upper bound on the masks that a route remembers, and on the answers of an index: looking through
/// them takes 0.1 us.
pub(crate) const RECENT_ENTRIES: usize = 256;

// A mask's children are distinguished in 64 bits, and counted in a byte.
const _: () = assert!(MASK_PATHS <= 64);
// Places in a body are kept in four bytes.
const _: () = assert!(REPLY_BODY_BYTES <= u32::MAX as usize);
/// Largest descriptor set that is read.
pub(crate) const SCHEMA_BYTES: usize = 16 * MIB;
/// Upper bound on the memory of its parts while it is read.
pub(crate) const SCHEMA_MEMORY_BYTES: usize = 512 * MIB;
/// Depth of nested messages, a map's entries and the content of an `Any` included: the bound of
/// Protobuf's own readers.
pub(crate) const FORM_DEPTH: usize = 100;
/// Largest body that is converted, and that is made by it.
pub(crate) const FORM_BYTES: usize = 64 * MIB;
/// Upper bound on the fields and elements of one record that are held while its JSON is printed.
pub(crate) const FORM_FIELDS: usize = 4 << 20;

/// Largest body, of either side, that is compared.
pub(crate) const COMPARED_BYTES: usize = 4 * MIB;
/// Upper bound on the values of one body that are held while it is compared.
pub(crate) const COMPARED_VALUES: usize = 1 << 18;
/// Upper bound on the pointers that one comparison distinguishes.
pub(crate) const COMPARED_POINTERS: usize = 64;
/// Longest pointer, bytes: where it would grow beyond that, what lies deeper goes by it.
pub(crate) const POINTER_BYTES: usize = 256;
/// Without a schema: longest name of a member that is reported, and most members of an object whose
/// names are. A larger object is taken for a map.
pub(crate) const SHOWN_NAME_BYTES: usize = 40;
pub(crate) const SHOWN_MEMBERS: usize = 128;
