//! The bounds of this room. What a user may tune has its default and range here.

use crate::http::limits::REPLY_BODY_BYTES;
use crate::model::size::MIB;

/// What a compressed body may decode to for its digest, bytes.
pub const DECODED_BODY_BYTES: u64 = 64 * MIB as u64;
/// Content codings of one body that are taken off for its digest.
pub const CONTENT_CODINGS: usize = 4;
/// Largest zstd window, as a power of two: 8 MiB, what RFC 9659 allows the content coding.
pub const ZSTD_WINDOW_LOG: u32 = 23;

const _: () = assert!(REPLY_BODY_BYTES as u64 <= DECODED_BODY_BYTES);
