//! The bounds of shapes.

use std::time::Duration;

use crate::model::size::KIB;

/// Size in bytes of the buffer in which a thread writes its answers' own header values. It is
/// reused.
pub const HEADER_VALUES_BYTES: usize = 4 * KIB;
/// Bytes of it that must be free to write one value without asking for more.
pub const HEADER_VALUE_ROOM: usize = 256;
/// For how long regions are asked for JSON after one of them proved to have no Protobuf.
pub const JSON_ALONE: Duration = Duration::from_secs(600);
/// Largest body that is derived where requests are served, bytes; larger ones go to a thread of
/// their own.
pub const INLINE_DERIVE_BYTES: usize = 32 * KIB;
/// Smallest body that a node compresses, and zstd's level for it: a dozen microseconds for 1 KiB.
pub const COMPRESSED_BYTES: usize = KIB;
pub const ZSTD_LEVEL: i32 = 3;
