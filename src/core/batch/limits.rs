//! The bounds of batches.

use std::time::Duration;

use crate::http::limits::{REPLY_BODY_BYTES, REQUEST_BODY_BYTES};
use crate::model::size::{KIB, MIB};

/// Keys of one batch; more get 413.
pub(crate) const BATCH_KEYS: usize = 1000;
/// The body of a batch request in bytes; more gets 413.
pub(crate) const BATCH_BODY_BYTES: usize = MIB;
/// Keys of one batch that are asked for at once; the others follow.
pub(crate) const WAVE: usize = 128;
/// The share of a region's permits that all batches together may take: one in so many.
pub(crate) const PERMITS_SHARE: usize = 2;
/// Keys of one batch that are asked for at once where each takes a request of its own.
pub(crate) const SINGLES: usize = 32;
/// Bytes of an answer that are put together before they are sent.
pub(crate) const CHUNK_BYTES: usize = 64 * KIB;
/// An answer of up to about so many bytes that is there at once is sent whole.
pub(crate) const WHOLE_BYTES: usize = 256 * KIB;
/// Added to the time that a part waited, before it is cut to whole seconds.
pub(crate) const ALMOST_A_SECOND: Duration = Duration::from_millis(990);
/// What a batch counts for in the budget of bodies, in bytes: besides its own body two chunks, and
/// so much per key.
pub(crate) const HELD_PER_KEY: u64 = 256;
/// How long a region's legs wait for the other fills of their batch to begin, and how long later
/// ones for each other.
pub(crate) const GATHER_WAIT: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(2));
/// Bytes of stored bodies that are held for one batch; more are looked up again when their turn
/// comes.
pub(crate) const HELD_BYTES: usize = 4 * MIB;
/// For how long a region that took no batch is asked for one key at a time.
pub(crate) const UNABLE_FOR: Duration = Duration::from_secs(60);
/// The expected size of a part of which nothing is stored, in bytes.
pub(crate) const PART_BYTES: usize = 16 * KIB;
/// How deep a record that stands in an answer as JSON may be: .NET reads 64 levels, most other
/// parsers more, and the answer has three of its own.
pub(crate) const EMBEDDED_DEPTH: usize = 60;
/// What a part says besides its body, in bytes, as a rule.
pub(crate) const PART_HEAD_BYTES: usize = 160;
/// What a part of a region's answer takes besides its body at most, in bytes.
pub(crate) const PART_OVERHEAD_BYTES: usize = KIB;
/// Expected bytes of what one request to a region brings.
pub(crate) const BATCH_REPLY_BYTES: usize = REPLY_BODY_BYTES;
/// A larger body is checked, and a larger answer read, on a thread of its own.
pub(crate) const INLINE_BYTES: usize = 256 * KIB;

const _: () = assert!(BATCH_BODY_BYTES <= REQUEST_BODY_BYTES && WAVE <= BATCH_KEYS);
