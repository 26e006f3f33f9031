//! Bounds of the freshness protocol: leases, windows, and what is remembered of records.

use std::time::Duration;

use super::KIB;

/// How long a strong proof (a message) carries full-length entries (R9).
pub const STRONG_LEASE: Duration = Duration::from_secs(15);
/// How long a weak proof's poll does (R9).
pub const WEAK_LEASE: Duration = Duration::from_secs(75);
/// How long the look at the subscription's attributes does that weak proof needs as well (R9): two that could not be had in a
/// row may come between.
pub const ATTESTED_FOR: Duration = Duration::from_secs(300);
/// How long after subscribing the weak grade begins.
pub const WEAK_PROOF_AFTER: Duration = Duration::from_secs(60);
/// How long past its lease a region stays SUSPECT: 60 s of silence with a strong lease, then DEAD.
pub const SUSPECT_FOR: Duration = Duration::from_secs(45);
/// How long a made subscription may stay without a strong proof before it is DEAD; with the weak grade allowed it
/// gets a weak lease on top.
pub const PROBING_WAIT: Duration = Duration::from_secs(60);
/// First and longest wait before a subscription is made anew; it doubles with each that dies unproven.
pub const RESUBSCRIBE_WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// No step for this long: the process was paused, and the silence is its own rather than a region's.
pub const PAUSE: Duration = Duration::from_secs(10);
/// By how much the calendar must have run ahead of the clock since boot to be taken for a pause that the latter did not
/// count (R9): more than a leap second's worth of noise would be too much, and less is no lease's concern.
pub const UNCOUNTED_PAUSE: Duration = Duration::from_secs(1);
/// The two are compared only when they could be read within this of each other.
pub const WATCH_PRECISION: Duration = Duration::from_millis(100);
/// How long a hole in a publisher's numbers may stay open before the region's epoch moves (R10).
pub const HOLE_WINDOW: Duration = Duration::from_secs(10);
/// What cannot be decoded, or verified, moves a region's epoch at most once in this (R14), the last at its end.
pub const UNREAD_WINDOW: Duration = Duration::from_secs(10);
/// How long the least lag of arriving messages is gathered before it is gathered anew.
pub const LAG_WINDOW: Duration = Duration::from_secs(30);
/// By how much all messages must be stamped too early, or one too late, until an operator is told to look at the clocks.
pub const CLOCK_SKEW: Duration = Duration::from_secs(2);
/// How long an operator is told that a subscription was lost.
pub const LOSS_SHOWN: Duration = Duration::from_secs(600);
/// A publisher counts for its region's watermark when it was heard in this.
pub const ACTIVE_PUBLISHER: Duration = Duration::from_secs(60);
/// How long what a publisher said before it was first heard may be missing: its own messages may have overtaken each
/// other, and after a (re)start every other publisher is heard within a heartbeat (R10).
pub const PAST_WINDOW: Duration = Duration::from_secs(5);
/// After a subscription was made each active publisher is heard within a heartbeat; one second for the way.
pub const ACQUAINTANCE: Duration = Duration::from_secs(6);
/// Heartbeats per publisher that wait for a hole before them to close.
pub const WAITING_HEARTBEATS: usize = 8;
/// The slot in which copies of a path heartbeat share one number.
pub const HEARTBEAT_SLOT: Duration = Duration::from_secs(5);
/// How many slots ahead of its receipt a path heartbeat may claim to be.
pub const HEARTBEAT_SLOTS_AHEAD: u64 = 2;
/// A record read in this is refetched as soon as a change is announced.
pub const READ_LATELY: Duration = Duration::from_secs(60);
/// Refetches that one announcement may start; the rest of a mass RELOAD waits for readers.
pub const REFETCHES_PER_STEP: usize = 1024;
/// Shards that share the records' locks.
pub const RECORD_SHARDS: usize = 64;
/// How long an announcement may take that tells of a version which was served before it (R21).
pub const GROWTH_WAIT: Duration = Duration::from_secs(20);
/// An announcement usually takes less: where none of its type ever met what is read, this is long enough to tell.
pub const GROWTH_SOON: Duration = Duration::from_secs(3);
/// Records at once that were served at a version which nobody has announced yet.
pub const GROWTHS: usize = 256;
/// How long no bound is stated for a record type of which a change was never announced: as long as the audit takes by default
/// to look at everything (R21).
pub const WIRING_DOUBT: Duration = Duration::from_secs(600);
/// Records whose floor is doubted (R15) at once, at least and at most.
pub const DOUBTS: (usize, usize) = (16_384, 1 << 20);
/// Between them there is one doubt for so many bytes of the store.
pub const DOUBTED_BYTES: u64 = 4 * KIB as u64;
/// Versions from here on are nobody's (R15).
pub const VERSION_CEILING: u64 = 1 << 62;
