//! The bounds of batches.

use std::time::Duration;

use crate::model::size::{KIB, MIB};
use crate::race::gather::limits::BATCH_KEYS;
pub(crate) use crate::race::gather::limits::{INLINE_BYTES, PART_BYTES, SINGLES};

/// Keys of one batch that are asked for at once; the others follow.
pub(crate) const WAVE: usize = 128;
/// The share of a region's permits that all batches together may take: one in so many.
pub(crate) const PERMITS_SHARE: usize = 2;
/// Bytes of an answer that are put together before they are sent.
pub(crate) const CHUNK_BYTES: usize = 64 * KIB;
/// An answer of up to about so many bytes that is there at once is sent whole.
pub(crate) const WHOLE_BYTES: usize = 256 * KIB;
/// Added to the time that a part waited, before it is cut to whole seconds.
pub(crate) const ALMOST_A_SECOND: Duration = Duration::from_millis(990);
/// Cost of each key of a batch in the budget of bodies, in bytes, besides the batch's own body and
/// two chunks.
pub(crate) const HELD_PER_KEY: u64 = 256;
/// Bytes of stored bodies that are held for one batch; more are looked up again when their turn
/// comes.
pub(crate) const HELD_BYTES: usize = 4 * MIB;
/// Largest depth of a record that stands in an answer as JSON: .NET reads 64 levels, most other
/// parsers more, and the answer has three of its own.
pub(crate) const EMBEDDED_DEPTH: usize = 60;
/// Usual size of a part without its body, in bytes.
pub(crate) const PART_HEAD_BYTES: usize = 160;

const _: () = assert!(WAVE <= BATCH_KEYS);
