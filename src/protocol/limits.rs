//! The bounds of the protocol, and the assertions that hold them together.

use std::time::Duration;

use crate::model::size::KIB;

/// Regions of one service: [`crate::model::ids::RegionSet`] has a bit for each.
pub const REGIONS: usize = 16;
/// The audit's scales (R17): an entry was fresh within one if its change was announced that soon
/// after first sight.
pub const AUDIT_WINDOWS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60)];
/// Suspicions followed at once. At the smallest budget, fewer can be opened within the longest
/// window.
pub const AUDIT_SUSPICIONS: usize = 1024;
/// Longest wait for the second look at a suspicion. It is the next to be asked about, so by then
/// the task that was to look is gone, or nothing is asked about.
pub const AUDIT_SECOND_LOOK: Duration = Duration::from_secs(600);
/// Violations remembered; the oldest is dropped first.
pub const AUDIT_VIOLATIONS: usize = 64;
/// A record key in an announcement.
pub const RECORD_KEY_BYTES: usize = 2 * KIB;
/// A record type in an announcement.
pub const RECORD_TYPE_BYTES: usize = 256;
/// A publisher's name in an announcement.
pub const PUBLISHER_BYTES: usize = 256;
/// Slots of the table that keeps the floors of records without an entry (docs/freshness.md, State).
pub const FLOOR_SLOTS: usize = 1 << 20;
/// The window in which a flood of announcements is recognised by what it does to that table.
pub const FLOOD_WINDOW: Duration = Duration::from_secs(60);
/// Records announced for the first time in a window that make a flood: a sixteenth of the table.
pub const FLOOD_RECORDS: u32 = 1 << 16;
/// Slots lost in a window that make an overflow: by then most fills count as provisional (R2).
pub const FLOOD_LOSSES: u32 = RECORD_SHARDS as u32;
pub const PUBLISHERS_PER_REGION: usize = 256;
/// Difference between our calendar and SNS's up to which no RESET is taken for later, or earlier,
/// than it is. Only what came of a topic in the last minute tells more exactly (R19).
pub const CALENDAR_SKEW: Duration = Duration::from_secs(30);
/// RESETs remembered per region, to tell a copy of one from another RESET; and in all, to tell
/// replies from before one from those after it.
pub const RESETS: usize = 256;
/// Holes remembered per publisher. Beyond that the epoch moves at once.
pub const HOLES_PER_PUBLISHER: usize = 64;
/// Time for which a strong proof (a message) lets entries keep their full TTL (R9).
pub const STRONG_LEASE: Duration = Duration::from_secs(15);
/// Time for which the poll of a weak proof does so (R9).
pub const WEAK_LEASE: Duration = Duration::from_secs(75);
/// Time for which a look at the subscription's attributes counts, which weak proof needs as well
/// (R9). Two failed looks in a row fit in between.
pub const ATTESTED_FOR: Duration = Duration::from_secs(300);
/// Time from subscribing to the beginning of the weak grade.
pub const WEAK_PROOF_AFTER: Duration = Duration::from_secs(60);
/// Time past its lease for which a region stays SUSPECT. With a strong lease, it is DEAD after 60 s
/// of silence.
pub const SUSPECT_FOR: Duration = Duration::from_secs(45);
/// Time for which a new subscription may go without a strong proof before it is DEAD. Where the
/// weak grade is allowed, it gets a weak lease on top.
pub const PROBING_WAIT: Duration = Duration::from_secs(60);
/// The first and the longest wait before a subscription is made anew. The wait doubles with each
/// subscription that dies unproven.
pub const RESUBSCRIBE_WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// No step for this long means that the process was paused: the silence is its own and not a
/// region's.
pub const PAUSE: Duration = Duration::from_secs(10);
/// Time for which a hole in a publisher's numbers may stay open before the region's epoch moves
/// (R10).
pub const HOLE_WINDOW: Duration = Duration::from_secs(10);
/// Window in which what cannot be decoded or verified moves a region's epoch at most once, the last
/// of it at the end (R14).
pub const UNREAD_WINDOW: Duration = Duration::from_secs(10);
/// Time for which the smallest lag of arriving messages is collected before a new window begins.
pub const LAG_WINDOW: Duration = Duration::from_secs(30);
/// A publisher counts for its region's watermark if a message of its came within this time.
pub const ACTIVE_PUBLISHER: Duration = Duration::from_secs(60);
/// Time for which messages that a publisher sent before its first one received here may stay
/// missing (R10). Its own messages may have overtaken each other, and after a (re)start every other
/// publisher sends within a heartbeat.
pub const PAST_WINDOW: Duration = Duration::from_secs(5);
/// After subscribing, a message of each active publisher arrives within a heartbeat; one second
/// more is for the way.
pub const ACQUAINTANCE: Duration = Duration::from_secs(6);
/// Heartbeats per publisher that may wait for an earlier hole to close.
pub const WAITING_HEARTBEATS: usize = 8;
/// Copies of a path heartbeat within one slot share one number.
pub const HEARTBEAT_SLOT: Duration = Duration::from_secs(5);
/// Most slots ahead of its receipt that a path heartbeat may claim to be.
pub const HEARTBEAT_SLOTS_AHEAD: u64 = 2;
/// A record read within this time is refetched as soon as a change is announced.
pub const READ_LATELY: Duration = Duration::from_secs(60);
/// Refetches that one announcement may start. The rest of a mass RELOAD waits for readers.
pub const REFETCHES_PER_STEP: usize = 1024;
/// The records are split into this many shards, each with its own lock.
pub const RECORD_SHARDS: usize = 64;
/// Longest delay of an announcement whose version was served before it arrived (R21).
pub const GROWTH_WAIT: Duration = Duration::from_secs(20);
/// An announcement usually takes less than this. Where none of its type has ever met what is read,
/// this is long enough to tell.
pub const GROWTH_SOON: Duration = Duration::from_secs(3);
/// Records followed at once that were served at a version nobody has announced yet.
pub const GROWTHS: usize = 256;
/// Time for which no bound is stated for a record type after one of its changes was never
/// announced: as long as the audit takes by default to look at everything (R21).
pub const WIRING_DOUBT: Duration = Duration::from_secs(600);
/// Announced keys of one region and type that hold a key that is read, or differ from one by letter
/// case, before that counts as more than chance (R21).
pub const MISNAMED_KEYS: u64 = 3;
/// Time for which a region's keys in another letter case count after the last of them: by then, what
/// was stored meanwhile has been asked for again (R21).
pub const CASE_DOUBT: Duration = Duration::from_secs(3_600);
/// The fewest and the most records whose floor is doubted at once (R15).
pub const DOUBTS: (usize, usize) = (16_384, 1 << 20);
/// Between those two, there is one doubt for this many bytes of the store.
pub const DOUBTED_BYTES: u64 = 4 * KIB as u64;

const _: () = assert!(REGIONS <= 16, "a RegionSet has sixteen bits");
const _: () = assert!(FLOOR_SLOTS.is_power_of_two());
const _: () = assert!(AUDIT_WINDOWS[0].as_millis() < AUDIT_WINDOWS[1].as_millis());
const _: () = assert!(AUDIT_WINDOWS[1].as_millis() < AUDIT_WINDOWS[2].as_millis());
const _: () = assert!(RECORD_SHARDS.is_power_of_two() && RECORD_SHARDS < FLOOR_SLOTS / 4);
const _: () = assert!(RECORD_SHARDS <= DOUBTS.0 && DOUBTS.0 <= DOUBTS.1);
const _: () = assert!(HOLE_WINDOW.as_millis() < STRONG_LEASE.as_millis());
const _: () = assert!(PAST_WINDOW.as_millis() < HOLE_WINDOW.as_millis());
const _: () = assert!(STRONG_LEASE.as_millis() + SUSPECT_FOR.as_millis() == 60_000);
