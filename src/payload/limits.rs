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

/// Largest descriptor set that is read.
pub(crate) const SCHEMA_BYTES: usize = 16 * MIB;
/// How much memory its parts may take while it is read.
pub(crate) const SCHEMA_MEMORY_BYTES: usize = 512 * MIB;
/// How deep messages may lie in one another, a map's entries and what an `Any` holds included:
/// what Protobuf's own readers allow.
pub(crate) const FORM_DEPTH: usize = 100;
/// Largest body that is converted, and that is made by it.
pub(crate) const FORM_BYTES: usize = 64 * MIB;
/// How many fields and elements of one record are held at once while its JSON is printed.
pub(crate) const FORM_FIELDS: usize = 4 << 20;
