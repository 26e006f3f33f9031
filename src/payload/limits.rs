//! Bounds of the payload module.

use crate::http::limits::REPLY_BODY_BYTES;
use crate::model::size::{KIB, MIB};

/// How many bytes a compressed body may decode to for its digest.
pub(crate) const DECODED_BODY_BYTES: u64 = 64 * MIB as u64;
/// How many content codings are removed from one body for its digest.
pub(crate) const CONTENT_CODINGS: usize = 4;
/// Largest zstd window, as a power of two: 8 MiB, the most that RFC 9659 allows for the content
/// coding.
pub(crate) const ZSTD_WINDOW_LOG: u32 = 23;

const _: () = assert!(REPLY_BODY_BYTES as u64 <= DECODED_BODY_BYTES);
/// Largest body whose digest is worked out where requests are served, bytes; larger ones go to a
/// thread of their own.
pub(crate) const INLINE_DIGEST_BYTES: usize = 32 * KIB;

/// How many paths a mask may have, as it is written.
pub(crate) const MASK_PATHS: usize = 64;
/// How many names a path of a mask may have.
pub(crate) const MASK_DEPTH: usize = 16;
/// The longest mask, as it is written and in its canonical form.
pub(crate) const MASK_BYTES: usize = 4 * KIB;
/// How deep a projection follows objects and lists; serde_json's own bound.
pub(crate) const NESTING: usize = 128;
/// From which size on an index of a body is worth making.
pub(crate) const INDEXED_BODY_BYTES: usize = 16 * KIB;
/// An index takes at most one in this many bytes of its body: 5 %.
pub(crate) const INDEX_SHARE: usize = 20;
/// Of which at most one in this many goes to the places of containers.
pub(crate) const CONTAINERS_SHARE: usize = 5;
/// The smallest container whose place is worth keeping: skipping it takes about as long as finding
/// its place.
pub(crate) const CONTAINER_BYTES: usize = 256;
/// What a route remembers of the masks that its callers sent.
pub(crate) const MASKS_BYTES: usize = 64 * KIB;
/// How many masks a route remembers, and how many answers an index: looking through them takes
/// 0.1 us.
pub(crate) const RECENT_ENTRIES: usize = 256;

// A mask's children are told apart in 64 bits, and counted in a byte.
const _: () = assert!(MASK_PATHS <= 64);
// Places in a body are kept in four bytes.
const _: () = assert!(REPLY_BODY_BYTES <= u32::MAX as usize);
