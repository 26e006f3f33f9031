//! One record's state (floor, generation and marker) in a cell that entries keep beside them.
//! `merge` computes the next state, and `records` alone stores it, under the lock of the record's
//! shard. Hits and votes read it through [`Record::snapshot`], which only returns a state that was
//! stored whole.
//!
//! Why a sequence lock over atomics rather than a swapped `Arc`: a hit reads seven words of one cache
//! line and writes nothing, a change allocates nothing, and a million cells cost 64 bytes each
//! instead of two allocations. Writers are rare, and the shard's lock keeps them apart. A reader
//! retries only while a writer is between its first and its last store.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use super::stamp::Stamp;
use crate::model::ids::{Generation, RecordId, RegionId, RegionSet, TypeId, Version};
use crate::model::time::Moment;
use crate::protocol::limits;
use crate::switch::{Rule, is_on};

/// A record's state, shared by the entries that show it. Read without a lock.
#[derive(Debug)]
pub struct Record {
    /// The hash of [`Record::id`].
    hash: u64,
    record_type: TypeId,
    /// A [`Stamp`].
    floor_at: AtomicU16,
    /// Even when whole, odd while being written.
    sequence: AtomicU32,
    /// The marker's regions in the low half, flags above.
    bits: AtomicU32,
    floor: AtomicU64,
    generation: AtomicU64,
    unversioned: AtomicU64,
    marked_at: AtomicU64,
    /// Whole seconds since boot, rounded up; zero if never.
    unversioned_at: AtomicU32,
    /// Seconds since boot of the latest read, and the flag [`PRESENT`]. Not part of the snapshot.
    read_at: AtomicU32,
    /// R2: a request sent before this (seconds since boot, rounded up) may have missed an
    /// announcement whose slot was lost. Zero if none was lost.
    lost_until: u32,
}

const _: () = assert!(size_of::<Record>() == 64, "a cache line, and with what counts its holders 80 bytes");

/// A record's state at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Nothing below it is stored or served as fresh (R1).
    pub floor: Version,
    /// Time at which the floor was last stated: when such an announcement was published, or such a
    /// reply made (R19).
    pub floor_at: Stamp,
    /// Moved by announcements (R3).
    pub generation: Generation,
    /// The newest announcement, if one is remembered.
    pub marker: Option<Marker>,
    /// The newest generation moved by something without a credible version (a change without one, a
    /// RELOAD, a jump). What belongs to an older one is below, whatever version it states.
    pub unversioned: Generation,
    /// Time of that move, or up to as late as the marker; [`Moment::ZERO`] if it never was (R8).
    pub unversioned_at: Moment,
    /// The marker announced exactly the floor. Further regions that announce it join the marker
    /// (R13).
    pub at_floor: bool,
    /// A CHANGED stands behind the floor, so an absence without a version is below it (R6).
    pub changed: bool,
    /// The newest write through this sidecar, for as long as it matters which region took it (R20):
    /// see [`Self::as_of`].
    pub written: Option<Written>,
    /// R15: a version jumped, or the floor was dropped because no region reached it. Until that is
    /// settled, nothing is CONFIRMED and answers are labelled.
    pub escaped: bool,
}

/// The newest announcement: what it was, when, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The regions that announced this change; the first of them moved the generation. All of them,
    /// if something newer was served since.
    pub regions: RegionSet,
    /// Time at which the announcement that moved the generation arrived (R8).
    pub at: Moment,
    /// DELETED rather than CHANGED.
    pub deleted: bool,
}

/// A write of the record through this sidecar (R20). The reader of now may be its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The region that took it.
    pub by: RegionId,
    pub claim: Claim,
}

/// Extent to which the floor speaks for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Its reply stated a version, which is the floor.
    Stated,
    /// It stated none, and the marker is of the same span of `worst_lag`.
    Unstated,
    /// It stated none, and the marker is of the next span, with which the write is over.
    UnstatedBefore,
}

/// Time is cut into spans of `worst_lag`. Two bits that tell this span from the one before are
/// enough to end a write in time, however often the record is announced.
pub(crate) fn span_of(at: Moment, worst_lag: Duration) -> u128 {
    at.since(Moment::ZERO).as_nanos() / worst_lag.as_nanos().max(1)
}

impl Marker {
    /// True if nobody announced what is newest now, so that only the marker's time counts.
    pub fn is_surpassed(&self) -> bool {
        self.regions == RegionSet::ALL
    }
}

/// A region showed the record.
const PRESENT: u32 = 1 << 31;

const MARKED: u32 = 1 << 16;
const DELETED: u32 = 1 << 17;
const AT_FLOOR: u32 = 1 << 18;
const CHANGED: u32 = 1 << 19;
/// Two bits: none, or a claim.
const CLAIM: u32 = 20;
/// Four bits: who took the write.
const TAKER: u32 = 22;
const ESCAPED: u32 = 1 << 26;

impl Written {
    const fn to_bits(self) -> u32 {
        let claim = match self.claim {
            Claim::Stated => 1,
            Claim::Unstated => 2,
            Claim::UnstatedBefore => 3,
        };
        claim << CLAIM | (self.by.0 as u32) << TAKER
    }

    const fn from_bits(bits: u32) -> Option<Self> {
        let claim = match bits >> CLAIM & 3 {
            0 => return None,
            1 => Claim::Stated,
            2 => Claim::Unstated,
            _ => Claim::UnstatedBefore,
        };
        Some(Self { by: RegionId((bits >> TAKER & 15) as u8), claim })
    }
}

impl Snapshot {
    /// True if something that shows this record at `version`, and was requested in `generation`, is
    /// neither below the floor (R1) nor older than an announcement (R3).
    ///
    /// With a credible version: it is at or above the floor, and no announcement without a version
    /// came since. Without one: no announcement at all came since.
    pub fn matches(&self, version: Version, generation: Generation) -> bool {
        if version.is_credible() && is_on(Rule::R1) {
            version.0 >= self.floor.0 && generation.0 >= self.unversioned.0
        } else {
            generation.0 >= self.generation.0
        }
    }

    /// The state as it counts in a race that began when it was `begun`. A region that announced
    /// since then may have answered from before its change, and everybody who waits for this race
    /// came before the announcement (R3). So the announcers are those of the beginning (R4).
    pub const fn announced_by(self, begun: &Self) -> Self {
        Self { marker: begun.marker, at_floor: begun.at_floor, written: begun.written, ..self }
    }

    /// R5: whether the floor speaks for the newest announcement, to a request sent at `sent`. A
    /// change without a credible version leaves the floor where it was. Only `worst_lag` later does
    /// every region show what was announced.
    pub fn floor_speaks(&self, sent: Moment, worst_lag: Duration) -> bool {
        let stated = self.generation > self.unversioned && self.unstated_by().is_none();
        stated || self.marker.is_none_or(|marker| marker.at + worst_lag <= sent)
    }

    /// R8: since when everything that was said of the record stated a version. What was made after
    /// that, at or above the floor, lacks none of it. It does not matter what was announced since: a
    /// late announcement from before a RELOAD proves nothing about that RELOAD. `None` while a write
    /// without a version counts.
    pub fn stated_since(&self) -> Option<Moment> {
        self.unstated_by().is_none().then_some(self.unversioned_at)
    }

    /// R20: the region that took a write which states no version. No other region is known to have
    /// it.
    pub fn unstated_by(&self) -> Option<RegionId> {
        self.written.filter(|written| written.claim != Claim::Stated).map(|written| written.by)
    }

    /// The state as it counts for somebody who asks at `now`: with the own write only while that
    /// counts. `worst_lag` after the newest announcement, all regions have what was written before.
    /// And a write is over at the end of the span after its own, whatever is announced.
    pub fn as_of(self, now: Moment, worst_lag: Duration) -> Self {
        Self {
            written: self.written.filter(|written| {
                let Some(marker) = self.marker else { return false };
                let same_span = span_of(marker.at, worst_lag) >= span_of(now, worst_lag);
                now.since(marker.at) <= worst_lag && (written.claim != Claim::UnstatedBefore || same_span)
            }),
            ..self
        }
    }

    /// R1, R19: somebody stated `version` at `at`, which is known at `now`. If that is the floor by
    /// now, it counts from then on, or from when it was last stated before.
    pub(crate) fn note_stated(&mut self, version: Version, before: Version, at: Moment, now: Moment) {
        if version != self.floor || version == Version::NONE {
            return;
        }
        let stamp = Stamp::of(at, now);
        self.floor_at = if before == Version::NONE { stamp } else { self.floor_at.or_later(stamp, now) };
    }

    /// True if this says more than an absent record's default would.
    pub(crate) const fn is_worth_keeping(&self) -> bool {
        self.floor.0 > 0 || self.marker.is_some()
    }

    /// Returns the state with a marker no later than `latest`, a moment at or after the
    /// announcement. A slot rounds the time up, and a request within that millisecond must not look
    /// as if it came before the announcement (R4, R8).
    pub(crate) fn marked_by(self, latest: Moment) -> Self {
        let marker = self.marker.map(|marker| Marker { at: marker.at.min(latest), ..marker });
        Self { marker, unversioned_at: self.unversioned_at.min(latest), ..self }
    }

    pub(crate) fn to_bits(self) -> u32 {
        let marker =
            self.marker.map_or(0, |marker| MARKED | flag(marker.deleted, DELETED) | u32::from(marker.regions.0));
        let state = flag(self.at_floor, AT_FLOOR) | flag(self.changed, CHANGED) | flag(self.escaped, ESCAPED);
        marker | state | self.written.map_or(0, Written::to_bits)
    }

    pub(crate) fn from_bits(bits: u32, marked_at: Moment) -> Self {
        let marker =
            Marker { regions: RegionSet((bits & 0xffff) as u16), at: marked_at, deleted: bits & DELETED != 0 };
        Self {
            marker: (bits & MARKED != 0).then_some(marker),
            at_floor: bits & AT_FLOOR != 0,
            changed: bits & CHANGED != 0,
            written: Written::from_bits(bits),
            escaped: bits & ESCAPED != 0,
            ..Self::default()
        }
    }
}

const fn flag(is_set: bool, bit: u32) -> u32 {
    if is_set { bit } else { 0 }
}

impl Record {
    /// A cell in this state; see `may_have_missed` for `lost_until`.
    pub(crate) fn new(id: RecordId, state: Snapshot, lost_until: Moment) -> Self {
        let record = Self { lost_until: seconds_up(lost_until), ..Self::unheard(id) };
        record.store(state);
        record
    }

    /// The cell of a record of which nothing is known.
    pub(crate) fn unheard(id: RecordId) -> Self {
        Self {
            hash: id.hash,
            record_type: id.record_type,
            floor_at: AtomicU16::new(0),
            sequence: AtomicU32::new(0),
            bits: AtomicU32::new(0),
            floor: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            unversioned: AtomicU64::new(0),
            marked_at: AtomicU64::new(0),
            unversioned_at: AtomicU32::new(0),
            read_at: AtomicU32::new(0),
            lost_until: 0,
        }
    }

    pub const fn id(&self) -> RecordId {
        RecordId { record_type: self.record_type, hash: self.hash }
    }

    /// Floor, generation and marker, consistent with each other: a seqlock read. Inlined, since a hit
    /// needs little of it.
    #[inline(always)]
    pub fn snapshot(&self) -> Snapshot {
        let mut tries = 0u32;
        loop {
            let before = self.sequence.load(Ordering::Acquire);
            if before & 1 == 0 {
                let bits = self.bits.load(Ordering::Relaxed);
                let marked_at = Moment::from_nanos(self.marked_at.load(Ordering::Relaxed));
                let floor = Version(self.floor.load(Ordering::Relaxed));
                let floor_at = Stamp(self.floor_at.load(Ordering::Relaxed));
                let generation = Generation(self.generation.load(Ordering::Relaxed));
                let unversioned = Generation(self.unversioned.load(Ordering::Relaxed));
                let unversioned_at = moment_of(self.unversioned_at.load(Ordering::Relaxed));
                // Orders the loads above before the second look at the sequence.
                fence(Ordering::Acquire);
                if self.sequence.load(Ordering::Relaxed) == before {
                    let rest = Snapshot::from_bits(bits, marked_at);
                    return Snapshot { floor, floor_at, generation, unversioned, unversioned_at, ..rest };
                }
            }
            tries += 1;
            // A writer that lost its core halfway needs ours to go on.
            if tries.is_multiple_of(64) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }

    /// Replaces the state. The caller holds the lock of the record's shard, so there is one writer
    /// at a time.
    pub(crate) fn store(&self, state: Snapshot) {
        let before = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(before.wrapping_add(1), Ordering::Relaxed);
        // Orders the odd sequence before the stores below.
        fence(Ordering::Release);
        self.bits.store(state.to_bits(), Ordering::Relaxed);
        let marked_at = state.marker.map_or(Moment::ZERO, |marker| marker.at);
        self.marked_at.store(marked_at.as_nanos(), Ordering::Relaxed);
        self.floor.store(state.floor.0, Ordering::Relaxed);
        self.floor_at.store(state.floor_at.0, Ordering::Relaxed);
        self.generation.store(state.generation.0, Ordering::Relaxed);
        self.unversioned.store(state.unversioned.0, Ordering::Relaxed);
        self.unversioned_at.store(seconds_up(state.unversioned_at), Ordering::Relaxed);
        self.sequence.store(before.wrapping_add(2), Ordering::Release);
    }

    /// Notes a reader. Writes at most once a second, so that a hot record's cache line stays
    /// shared.
    pub(crate) fn note_read(&self, now: Moment) {
        let (second, before) = (seconds(now), self.read_at.load(Ordering::Relaxed));
        if before & !PRESENT != second {
            self.read_at.store(second | before & PRESENT, Ordering::Relaxed);
        }
    }

    /// R21: a region showed the record. An absence would show nothing: it could be of any key.
    pub fn note_present(&self) {
        if self.read_at.load(Ordering::Relaxed) & PRESENT == 0 {
            self.read_at.fetch_or(PRESENT, Ordering::Relaxed);
        }
    }

    /// True if a region has returned the record since this cell was made.
    pub(crate) fn was_present(&self) -> bool {
        self.read_at.load(Ordering::Relaxed) & PRESENT != 0
    }

    /// True if somebody read it in the last minute.
    pub fn was_read_lately(&self, now: Moment) -> bool {
        let read_at = self.read_at.load(Ordering::Relaxed) & !PRESENT;
        let lately = limits::READ_LATELY.as_secs();
        read_at != 0 && u64::from(seconds(now).saturating_sub(read_at)) <= lately
    }

    /// R2: whether a request sent at `sent` is too early to be sure of a lagging region, because
    /// the cell began from nothing while an evicted slot might have been this record's.
    pub(crate) fn may_have_missed(&self, sent: Moment) -> bool {
        sent < moment_of(self.lost_until)
    }
}

/// Whole seconds since boot, rounded up: what was said must not look older than it is.
fn seconds_up(at: Moment) -> u32 {
    u32::try_from(at.as_nanos().div_ceil(1_000_000_000)).unwrap_or(u32::MAX)
}

const fn moment_of(seconds: u32) -> Moment {
    Moment::from_nanos(seconds as u64 * 1_000_000_000)
}

/// Whole seconds since boot. Zero is kept for "never".
fn seconds(now: Moment) -> u32 {
    u32::try_from(now.since(Moment::ZERO).as_secs()).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ID: RecordId = RecordId { record_type: TypeId(1), hash: 2 };

    fn after(millis: u64) -> Moment {
        Moment::ZERO + Duration::from_millis(millis)
    }

    fn full(number: u64) -> Snapshot {
        Snapshot {
            floor: Version(number),
            floor_at: Stamp(number as u16),
            generation: Generation(number),
            unversioned: Generation(number),
            unversioned_at: moment_of(number as u32),
            marker: Some(Marker {
                regions: RegionSet::EMPTY.with(RegionId((number % 16) as u8)),
                at: Moment::from_nanos(number),
                deleted: number.is_multiple_of(2),
            }),
            at_floor: number.is_multiple_of(3),
            changed: number.is_multiple_of(5),
            written: number.is_multiple_of(11).then_some(Written {
                by: RegionId((number % 13) as u8),
                claim: [Claim::Stated, Claim::Unstated, Claim::UnstatedBefore][(number % 3) as usize],
            }),
            escaped: number.is_multiple_of(7),
        }
    }

    #[test]
    fn cell_returns_stored_state() {
        for number in 0..300 {
            assert_eq!(Record::new(ID, full(number), Moment::ZERO).snapshot(), full(number));
        }
        assert_eq!((Record::unheard(ID).snapshot(), Record::unheard(ID).id()), (Snapshot::default(), ID));
    }

    #[test]
    fn reader_never_sees_torn_change() {
        let record = Record::new(ID, full(1), Moment::ZERO);
        std::thread::scope(|scope| {
            scope.spawn(|| (1..200_000).for_each(|number| record.store(full(number))));
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut newest = 0;
                    while newest < 199_999 {
                        let seen = record.snapshot();
                        assert_eq!(seen, full(seen.floor.0), "all parts belong to one change");
                        assert!(seen.floor.0 >= newest, "a later read is not older");
                        newest = seen.floor.0;
                    }
                });
            }
        });
    }

    /// R2. Rounded the other way, what was sent in the last second would count as safe.
    #[test]
    fn lost_slot_time_is_rounded_up() {
        let record = Record::new(ID, Snapshot::default(), after(7_001));
        assert!(record.may_have_missed(after(7_000)) && record.may_have_missed(after(7_999)));
        assert!(!record.may_have_missed(after(8_000)));
        assert!(!Record::unheard(ID).may_have_missed(Moment::ZERO));
    }

    #[test]
    fn a_read_counts_for_a_minute() {
        let record = Record::unheard(ID);
        let start = Moment::ZERO + Duration::from_secs(1_000);
        assert!(!record.was_read_lately(start));
        record.note_read(start);
        assert!(record.was_read_lately(start + Duration::from_secs(60)));
        assert!(!record.was_read_lately(start + Duration::from_secs(61)));
    }

    /// R1, R3.
    #[test]
    fn floor_judges_versions_generation_judges_versionless() {
        let state = Snapshot {
            floor: Version(5),
            generation: Generation(9),
            unversioned: Generation(7),
            ..Snapshot::default()
        };
        assert!(state.matches(Version(5), Generation(7)), "announced with its version since: still the newest");
        assert!(!state.matches(Version(4), Generation(9)), "below the floor");
        assert!(!state.matches(Version(5), Generation(6)), "a change without a version came since");
        assert!(!state.matches(Version::NONE, Generation(8)), "nothing but the generation can tell");
        assert!(state.matches(Version::NONE, Generation(9)));
        assert!(!state.matches(Version(u64::MAX), Generation(8)), "R15: no version at all");
    }
}
