//! The bounds of races and of what regions are asked.

use std::time::Duration;

use crate::model::size::KIB;
use crate::protocol::limits::{AUDIT_SUSPICIONS, AUDIT_WINDOWS};

/// Largest body, compressed and not, that is decompressed where requests are served; larger ones go
/// to a thread of their own.
pub const INLINE_DECODE_BYTES: usize = 32 * KIB;
/// The audit's share of the background budget: the rest is for rechecks and refetches.
pub const AUDIT_SHARE: f64 = 0.5;
/// The share of the background budget up to which upstreams are compared: nothing else waits for
/// that.
pub const CHECK_SHARE: f64 = 0.25;
/// Longest wait for missing attempts once all others have answered below the floor.
pub const LATE_ATTEMPT_WAIT: Duration = Duration::from_millis(500);
/// Used as the p95 of a region that has not answered yet.
pub const HEDGE_WAIT: Duration = Duration::from_millis(250);
/// Most tokens for extra attempts that a region can hold.
pub const TOKENS_PER_REGION: f64 = 512.0;
/// Tokens that a region gets back per second whatever it answers.
pub const TOKENS_PER_SECOND: f64 = 2.0;
/// Latencies kept per region for its p50 and p95.
pub const LATENCIES: usize = 128;
/// Failures in a row that make a region an outlier.
pub const OUTLIER_FAILURES: u32 = 5;
/// The window in which a share of failures makes a region an outlier, and the fewest attempts that it
/// takes.
pub const OUTLIER_WINDOW: (Duration, u32) = (Duration::from_secs(10), 20);
/// The share of failures in a window that makes a region an outlier.
pub const OUTLIER_SHARE: f64 = 0.5;
/// First and longest wait before an outlier is probed again.
pub const PROBE_WAIT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// Longest Retry-After that is obeyed.
pub const RETRY_AFTER: Duration = Duration::from_secs(60);
/// Background attempts per second and region, if a fifth of the foreground's is less.
pub const BACKGROUND_ATTEMPTS_PER_SECOND: u32 = 20;
/// Background attempts as a share of foreground ones.
pub const BACKGROUND_SHARE: f64 = 0.2;

const _: () =
    assert!(BACKGROUND_ATTEMPTS_PER_SECOND as u64 * AUDIT_WINDOWS[2].as_secs() / 2 < AUDIT_SUSPICIONS as u64);
