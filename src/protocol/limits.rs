//! The bounds of this room. What a user may tune has its default and range here.

use std::time::Duration;

use crate::model::size::KIB;

/// Regions of one service: a [`crate::model::ids::RegionSet`] has a bit for each.
pub const REGIONS: usize = 16;
/// The audit's scales (R17): an entry is fresh within one when its change was announced that soon after first sight.
pub const AUDIT_WINDOWS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60)];
/// Suspicions that are followed at once; at the least budget, fewer can be opened within the longest window.
pub const AUDIT_SUSPICIONS: usize = 1024;
/// Violations remembered; the oldest goes first.
pub const AUDIT_VIOLATIONS: usize = 64;
/// A record key in an announcement, bytes.
pub const RECORD_KEY_BYTES: usize = 2 * KIB;
/// A record type in an announcement, bytes.
pub const RECORD_TYPE_BYTES: usize = 256;
/// A publisher's name in an announcement, bytes.
pub const PUBLISHER_BYTES: usize = 256;
/// Slots of the table that keeps floors of records without an entry (FRESHNESS.md, State).
pub const FLOOR_SLOTS: usize = 1 << 20;
/// The window in which a flood of announcements is told by what it does to that table.
pub const FLOOD_WINDOW: Duration = Duration::from_secs(60);
/// Records announced for the first time in a window that make a flood: a sixteenth of the table.
pub const FLOOD_RECORDS: u32 = 1 << 16;
/// Slots lost in a window that make an overflow: by then most fills count as provisional (R2).
pub const FLOOD_LOSSES: u32 = RECORD_SHARDS as u32;
/// Publishers remembered per region.
pub const PUBLISHERS_PER_REGION: usize = 256;
/// RESETs remembered per region, so that a copy of one is told from another; and in all, so that replies from before one are
/// told from those after it.
pub const RESETS: usize = 256;
/// Holes remembered per publisher; beyond it the epoch moves at once.
pub const HOLES_PER_PUBLISHER: usize = 64;
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
/// How long a hole in a publisher's numbers may stay open before the region's epoch moves (R10).
pub const HOLE_WINDOW: Duration = Duration::from_secs(10);
/// What cannot be decoded, or verified, moves a region's epoch at most once in this (R14), the last at its end.
pub const UNREAD_WINDOW: Duration = Duration::from_secs(10);
/// How long the least lag of arriving messages is gathered before it is gathered anew.
pub const LAG_WINDOW: Duration = Duration::from_secs(30);
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

const _: () = assert!(REGIONS <= 16, "a RegionSet has sixteen bits");
const _: () = assert!(FLOOR_SLOTS.is_power_of_two());
const _: () = assert!(AUDIT_WINDOWS[0].as_millis() < AUDIT_WINDOWS[1].as_millis());
const _: () = assert!(AUDIT_WINDOWS[1].as_millis() < AUDIT_WINDOWS[2].as_millis());
const _: () = assert!(RECORD_SHARDS.is_power_of_two() && RECORD_SHARDS < FLOOR_SLOTS / 4);
const _: () = assert!(RECORD_SHARDS <= DOUBTS.0 && DOUBTS.0 <= DOUBTS.1);
const _: () = assert!(HOLE_WINDOW.as_millis() < STRONG_LEASE.as_millis());
const _: () = assert!(PAST_WINDOW.as_millis() < HOLE_WINDOW.as_millis());
const _: () = assert!(STRONG_LEASE.as_millis() + SUSPECT_FOR.as_millis() == 60_000);
