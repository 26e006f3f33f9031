//! The bounds of batches as regions are sent them.

use std::time::Duration;

use crate::http::limits::{REPLY_BODY_BYTES, REQUEST_BODY_BYTES};
use crate::model::size::{KIB, MIB};

/// Keys of one batch; more get 413.
pub(crate) const BATCH_KEYS: usize = 1000;
/// The body of a batch request in bytes; more gets 413.
pub(crate) const BATCH_BODY_BYTES: usize = MIB;
/// Keys of one batch that are asked for at once where each takes a request of its own.
pub(crate) const SINGLES: usize = 32;
/// Wait of a region's attempts for the other fills of their batch to begin, and of later attempts for each
/// other.
pub(crate) const GATHER_WAIT: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(2));
/// For how long a region that took no batch is asked for one key at a time.
pub(crate) const UNABLE_FOR: Duration = Duration::from_secs(60);
/// The expected size of a part of which nothing is stored, in bytes.
pub(crate) const PART_BYTES: usize = 16 * KIB;
/// Upper bound in bytes on a part of a region's answer, without its body.
pub(crate) const PART_OVERHEAD_BYTES: usize = KIB;
/// Expected bytes of what one request to a region brings.
pub(crate) const BATCH_REPLY_BYTES: usize = REPLY_BODY_BYTES;
/// A larger body is checked, and a larger answer read, on a thread of its own.
pub(crate) const INLINE_BYTES: usize = 256 * KIB;

const _: () = assert!(BATCH_BODY_BYTES <= REQUEST_BODY_BYTES);
