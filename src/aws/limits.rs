//! Bounds of the AWS module.

use std::time::Duration;

use crate::cache::limits::ENVELOPE_BYTES;
use crate::model::size::KIB;
use crate::protocol::limits::REGIONS;

/// Signing certificates kept, for all regions: two each, so that a new one finds room.
pub(crate) const CERTIFICATES: usize = 32;
/// Slots for URLs that have not yielded a certificate yet: being fetched, or recently fetched
/// without success.
pub(crate) const UNKNOWN_CERTIFICATES: usize = 32;
/// Largest signing certificate, including its chain, in bytes.
pub(crate) const CERTIFICATE_BYTES: usize = 64 * KIB;
/// Most certificates in one served chain.
pub(crate) const CERTIFICATE_CHAIN: usize = 8;
/// Longest time for a certificate fetch, including the wait for a permit.
pub(crate) const CERTIFICATE_WAIT: Duration = Duration::from_secs(5);
/// Certificate fetches running at once.
pub(crate) const CERTIFICATE_FETCHES: usize = 4;
/// Lifetime of the outcome of a certificate fetch, before the same URL is fetched again.
pub(crate) const CERTIFICATE_PAUSE: Duration = Duration::from_secs(1);
/// Message ids remembered per process, to drop second copies before they are verified.
pub(crate) const REMEMBERED_MESSAGES: usize = 65_536;
/// Longest time for one AWS call including its retries, and for one attempt.
pub(crate) const AWS_CALL_WAIT: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(4));
pub(crate) const AWS_ATTEMPTS: u32 = 3;
/// Largest profile or token file, in bytes. A pipe or device would have no end.
pub(crate) const PROFILE_FILE_BYTES: u64 = 1024 * KIB as u64;
/// Time for which settings of the SDK that cannot be used stand before they are read again.
pub(crate) const SETTINGS_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Deadline of a single read of a table. The SDK does not repeat it: a region hedges, and others try
/// again.
pub(crate) const READ_WAIT: Duration = Duration::from_secs(1);
/// Deadline of one call to a region's STS, after which the next region's is asked.
pub(crate) const STS_WAIT: Duration = Duration::from_secs(4);
/// Wait of a long poll for a message. SQS allows no more.
pub(crate) const POLL_WAIT: Duration = Duration::from_secs(20);
/// Longest time for a long poll in total, after which the connection counts as dead.
pub(crate) const POLL_ANSWER_WAIT: Duration = Duration::from_secs(25);
/// Visibility timeout of a received message, after which one that could not be applied comes back.
pub(crate) const VISIBILITY: Duration = Duration::from_secs(30);
/// Retention of a message that nobody takes. By then the lease has long expired (R9).
pub(crate) const RETENTION: Duration = Duration::from_secs(300);

const _: () = assert!(2 * REGIONS <= CERTIFICATES);
const _: () = assert!(CERTIFICATE_FETCHES < UNKNOWN_CERTIFICATES, "fetches under way must leave room for others");
const _: () = assert!(CERTIFICATE_BYTES < ENVELOPE_BYTES);
const _: () = assert!(POLL_WAIT.as_millis() < POLL_ANSWER_WAIT.as_millis());
const _: () = assert!(CERTIFICATE_WAIT.as_millis() < VISIBILITY.as_millis(), "applied before it comes again");
const _: () = assert!(VISIBILITY.as_millis() < RETENTION.as_millis(), "a message that failed comes again");
const _: () = assert!(AWS_CALL_WAIT.1.as_millis() < AWS_CALL_WAIT.0.as_millis());
