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
