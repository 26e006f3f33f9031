//! Bounds of the sidecar's own credentials.

use std::time::Duration;

/// Interval between two looks at a file with a secret or a certificate.
pub(crate) const WATCH_EVERY: Duration = Duration::from_secs(1);
/// Part of a token's life after which it is renewed, from and to: half of it, with jitter.
pub(super) const RENEWAL: (f64, f64) = (0.45, 0.55);
/// Time before its end from which a token is not used any more; a quarter of a short life.
pub(super) const UNUSED_BEFORE_END: Duration = Duration::from_secs(30);
/// First and longest wait after a mint that failed.
pub(super) const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// First and longest time from one discarded token to the next.
pub(super) const DISCARD_EVERY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));
/// Shortest life with which a token is of use, and the longest that is believed.
pub(super) const LIFE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_hours(24));
/// Life of a token whose issuer states none.
pub(super) const UNSTATED_LIFE: Duration = Duration::from_secs(300);
/// Time by which a token's `iat` is earlier than this machine's clock, which may be ahead of regions'.
pub(super) const DATED_BACK: Duration = Duration::from_mins(2);
/// Life of AWS keys that have no end: they may be replaced all the same.
pub(super) const UNSTATED_LIFE_OF_KEYS: Duration = Duration::from_hours(1);
/// Difference between a region's clock and a signature's time from which a refusal is put down to it.
pub(super) const CLOCK_DIFFERENCE: Duration = Duration::from_mins(4);
/// Longest time for one mint.
pub(crate) const MINT_WAIT: Duration = Duration::from_secs(15);
/// Longest time for an answer of an OAuth server.
pub(super) const OAUTH_WAIT: Duration = Duration::from_secs(5);
/// Largest answer of an OAuth server, in bytes.
pub(super) const OAUTH_ANSWER_BYTES: usize = 64 << 10;
/// Largest token, in bytes: regions take no larger header.
pub(super) const TOKEN_BYTES: usize = 8 << 10;

const _: () = assert!(RENEWAL.0 < RENEWAL.1 && RENEWAL.1 < 0.75, "a token is renewed before its use ends");
const _: () = assert!(OAUTH_WAIT.as_millis() < MINT_WAIT.as_millis());
