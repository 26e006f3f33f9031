//! Records: floors, generations, slots, and what their loss means (R1, R2, R13).

use proptest::prelude::*;

use super::*;
use crate::model::ids::{RegionId, TypeId};
use crate::protocol::record::Marker;
use crate::protocol::stamp::Stamp;

mod late_resets;

const A: RegionId = RegionId(0);
const B: RegionId = RegionId(1);
const LAG: Duration = Duration::from_secs(60);

fn at(seconds: u64) -> Moment {
    Moment::ZERO + Duration::from_secs(10_000 + seconds)
}

fn id(hash: u64) -> RecordId {
    RecordId { record_type: TypeId((hash % 2) as u16), hash }
}

fn only(region: RegionId) -> RegionSet {
    RegionSet::EMPTY.with(region)
}

fn records(slots: usize) -> Records {
    Records::new(RecordCapacity::new(slots, 0), LAG, 1_000_000, at(0))
}

fn change(records: &Records, hash: u64, region: RegionId, version: u64, now: Moment) -> Vec<Action> {
    let mut actions = Vec::new();
    let said = Announced { region, version: Some(Version(version)), at: now, deleted: false, written: false };
    records.announce(id(hash), said, now, &mut actions);
    actions
}

fn served(records: &Records, hash: u64, region: RegionId, version: u64, now: Moment) -> Vec<Action> {
    let record = records.pin(id(hash));
    let actions = records.served(&record, Version(version), region, now, now);
    drop(record);
    records.release(id(hash));
    actions
}

/// Every reachable region answers a race for record 7 below its floor, with 5 at most.
fn below(records: &Records, reachable: RegionSet, now: Moment) -> Vec<Action> {
    let record = records.pin(id(7));
    let actions = records.below_floor(&record, Version(5), reachable, now, now);
    drop(record);
    records.release(id(7));
    actions
}

fn floor(records: &Records, hash: u64) -> u64 {
    let record = records.pin(id(hash));
    let floor = record.snapshot().floor.0;
    drop(record);
    records.release(id(hash));
    floor
}

/// R4, R8: a slot keeps whole milliseconds, and what is asked for in the same one was asked for
/// after the announcement.
#[test]
fn slot_marker_never_postdates_announcement() {
    let records = records(1 << 12);
    let announced = at(1) + Duration::from_nanos(1_400);
    change(&records, 7, B, 5, announced);
    let marker = records.pin(id(7)).snapshot().marker.expect("it was announced");
    assert_eq!(marker.at, announced);
}

/// R2.
#[test]
fn announcement_without_entry_leaves_record_state() {
    let records = records(1 << 12);
    change(&records, 7, B, 5, at(1));
    assert_eq!(records.held(), 0);
    let state = records.pin(id(7)).snapshot();
    assert_eq!(state.floor, Version(5));
    assert!(state.generation > Generation(0));
    let marker = state.marker.unwrap();
    assert_eq!((marker.regions, marker.at, marker.deleted), (RegionSet::EMPTY.with(B), at(1), false));
    assert!(!records.may_have_missed(id(7), at(1)));
}

/// R1.
#[test]
fn state_survives_cell_slot_round_trip() {
    let records = records(1 << 12);
    let record = records.pin(id(7));
    change(&records, 7, A, 5, at(1));
    change(&records, 7, B, 5, at(2));
    let before = record.snapshot();
    records.release(id(7));
    assert_eq!(records.held(), 1, "an entry still holds it");
    drop(record);
    records.release(id(7));
    assert_eq!(records.held(), 0);
    assert_eq!(before.unversioned, Generation::default());
    let kept = records.pin(id(7)).snapshot();
    let floor_at = Stamp::from_byte(before.floor_at.to_byte());
    assert_eq!(kept, Snapshot { floor_at, ..before });
}

#[test]
fn early_released_cell_is_swept_later() {
    let records = records(1 << 12);
    let record = records.pin(id(7));
    change(&records, 7, A, 5, at(1));
    records.release(id(7));
    drop(record);
    (0..limits::RECORD_SHARDS as u64).for_each(|second| records.sweep(at(second)));
    assert_eq!(records.held(), 0);
    assert_eq!(floor(&records, 7), 5);
}

/// R2: eviction in mid-fill and before it.
#[test]
fn fill_after_lost_slot_is_suspect() {
    let records = records(limits::RECORD_SHARDS * 4);
    let busy = records.pin(id(99));
    for hash in 1..=5 {
        change(&records, hash, A, 5, at(hash));
    }
    assert!(!records.may_have_missed(id(2), at(6)), "its slot is there");
    assert!(!records.may_have_missed(id(99), at(6)), "it was held while the slot was lost");
    drop(busy);
    assert!(records.may_have_missed(id(1), at(5 + 59)), "the oldest slot made way at 5");
    assert!(!records.may_have_missed(id(1), at(5 + 60)));
    let record = records.pin(id(1));
    assert!(records.may_have_missed(id(1), at(5 + 59)), "a cell that began from nothing is no better");
    assert!(record.snapshot().generation > Generation(0), "R3: it reads as the last lost generation");
}

/// R15.
#[test]
fn unreached_floor_is_dropped_after_lag() {
    let records = records(1 << 12);
    let record = records.pin(id(7));
    change(&records, 7, A, 9, at(0));
    let everybody = RegionSet::first(2);
    assert_eq!(below(&records, everybody, at(1)), []);
    assert_eq!(below(&records, everybody, at(61)), [], "not longer than the worst lag");
    assert_eq!(below(&records, RegionSet::EMPTY, at(62)), [], "nobody was reached");
    assert_eq!(below(&records, everybody, at(62)), [Action::Alarm(A, Alarm::FloorDropped)]);
    let state = record.snapshot();
    assert_eq!((state.floor, state.escaped), (Version(5), true));
    assert!(state.marker.is_some_and(|marker| marker.is_surpassed()), "who announced it does not matter any more");
    assert!(state.matches(Version(5), state.generation));
}

/// R15.
#[test]
fn dropped_floor_returns_with_second_region() {
    let records = records(1 << 12);
    change(&records, 7, A, 9, at(0));
    below(&records, RegionSet::first(2), at(1));
    below(&records, RegionSet::first(2), at(62));
    change(&records, 7, A, 9, at(63));
    change(&records, 7, B, 9, at(63));
    assert_eq!(floor(&records, 7), 5, "said again, even by another");
    served(&records, 7, A, 9, at(64));
    assert_eq!(floor(&records, 7), 5, "A had announced it");
    assert!(records.pin(id(7)).snapshot().escaped);
    change(&records, 7, B, 6, at(65));
    assert_eq!(floor(&records, 7), 6, "ordinary versions go on");
    assert!(!records.pin(id(7)).snapshot().escaped, "and end the labelling");
    change(&records, 7, A, 9, at(66));
    assert_eq!(floor(&records, 7), 6, "9 stays doubted");
    served(&records, 7, B, 9, at(67));
    assert_eq!(floor(&records, 7), 9);
    assert!(!records.pin(id(7)).snapshot().escaped);
}

/// R15: who announced it was the first.
#[test]
fn non_announcer_restores_dropped_floor() {
    let records = records(1 << 12);
    change(&records, 7, A, 9, at(0));
    below(&records, RegionSet::first(2), at(1));
    below(&records, RegionSet::first(2), at(62));
    assert_eq!(floor(&records, 7), 5);
    served(&records, 7, B, 9, at(63));
    assert_eq!(floor(&records, 7), 9);
}

/// R15: the time below the floor counts only while it is the same floor and nobody reached it.
#[test]
fn reached_or_raised_floor_watched_anew() {
    let records = records(1 << 12);
    let everybody = RegionSet::first(2);
    change(&records, 7, A, 9, at(0));
    below(&records, everybody, at(1));
    served(&records, 7, A, 9, at(2));
    assert_eq!(below(&records, everybody, at(100)), []);
    change(&records, 7, A, 10, at(101));
    assert_eq!(below(&records, everybody, at(161)), []);
    assert_eq!(floor(&records, 7), 10);
}

/// R15: an earlier doubt does not stand in the way.
#[test]
fn reached_floor_watched_anew_despite_doubt() {
    let records = records(1 << 12);
    let everybody = RegionSet::first(2);
    change(&records, 7, A, 9, at(0));
    below(&records, everybody, at(1));
    assert_eq!(below(&records, everybody, at(62)).len(), 1);
    change(&records, 7, B, 6, at(63));
    below(&records, everybody, at(64));
    served(&records, 7, B, 6, at(65));
    assert_eq!(below(&records, everybody, at(200)), []);
    assert_eq!(floor(&records, 7), 6);
}

/// R15: a region restored from a backup says MAX, in a message and in a reply.
#[test]
fn version_beyond_ceiling_is_never_floor() {
    let records = records(1 << 12);
    change(&records, 7, A, 5, at(0));
    assert_eq!(change(&records, 7, A, u64::MAX, at(1)), [Action::Alarm(A, Alarm::VersionJump)]);
    for (region, seconds) in [(A, 2), (B, 3), (A, 4)] {
        served(&records, 7, region, u64::MAX, at(seconds));
        assert_eq!(floor(&records, 7), 5);
    }
    change(&records, 7, B, 6, at(5));
    assert_eq!(floor(&records, 7), 6);
}

/// R15.
#[test]
fn second_region_confirms_version_jump() {
    let records = records(1 << 12);
    change(&records, 7, A, 5, at(0));
    assert_eq!(served(&records, 7, A, 2_000_000, at(1)), [Action::Alarm(A, Alarm::VersionJump)]);
    assert_eq!(served(&records, 7, A, 2_000_000, at(2)), [], "known by now");
    assert_eq!(floor(&records, 7), 5);
    served(&records, 7, B, 2_000_001, at(3));
    assert_eq!(floor(&records, 7), 2_000_001);
}

/// R15: nobody knows whose version it was, so regions count anew, and one is not enough.
#[test]
fn undercut_version_needs_second_region() {
    // What is announced next may come so near that the version would no longer be a jump.
    for (escaped, next) in [(1 << 61, 7), (1_500_000, 900_000)] {
        let records = records(1 << 12);
        let record = records.pin(id(7));
        assert_eq!(served(&records, 7, A, escaped, at(0)), []);
        let stored = record.snapshot();
        assert_eq!(stored.floor, Version(escaped), "the first reply may state anything");
        assert_eq!(change(&records, 7, B, 6, at(1)), [Action::Alarm(B, Alarm::VersionJump)]);
        let undercut = record.snapshot();
        assert_eq!((undercut.floor, undercut.escaped), (Version(6), false));
        assert!(!undercut.matches(Version(escaped), stored.generation), "no stored version protects");
        change(&records, 7, B, next, at(2));
        assert_eq!(served(&records, 7, A, escaped, at(3)), [Action::Alarm(A, Alarm::VersionJump)]);
        served(&records, 7, A, escaped, at(4));
        change(&records, 7, A, escaped, at(5));
        assert_eq!(floor(&records, 7), next, "A alone, however often and however it says so");
        assert!(record.snapshot().escaped);
        served(&records, 7, B, escaped, at(6));
        assert_eq!(floor(&records, 7), escaped, "two regions have it");
    }
}

/// R15.
#[test]
fn unanimity_ends_only_reply_raised_doubts() {
    type Raise = fn(&Records);
    let doubts: [(&str, &[Raise], bool); 6] = [
        ("a reply", &[reply_huge], false),
        ("replies", &[reply_huge, reply_huge], false),
        ("an announcement", &[announce_huge], true),
        ("an announcement, then a reply", &[announce_huge, reply_huge], true),
        ("a reply, then an announcement", &[reply_huge, announce_huge], true),
        ("a dropped floor", &[drop_floor], true),
    ];
    for (why, raise, stays) in doubts {
        let records = records(1 << 12);
        let record = records.pin(id(7));
        change(&records, 7, A, 9, at(0));
        raise.iter().for_each(|raise| raise(&records));
        assert!(record.snapshot().escaped, "{why}");
        records.agreed(id(7), &record);
        assert_eq!(record.snapshot().escaped, stays, "{why}");
    }
}

const HUGE: u64 = 1 << 61;

fn reply_huge(records: &Records) {
    served(records, 7, A, HUGE, at(1));
}

fn announce_huge(records: &Records) {
    change(records, 7, A, HUGE, at(2));
}

fn drop_floor(records: &Records) {
    below(records, RegionSet::first(2), at(3));
    below(records, RegionSet::first(2), at(64));
}

/// R6, R15: the DELETED that would have said so was lost.
#[test]
fn unanimous_absence_accepted_after_worst_lag() {
    let records = records(1 << 12);
    let record = records.pin(id(7));
    change(&records, 7, A, 9, at(0));
    for second in [1, 61] {
        assert_eq!(absent(&records, &record, at(second)), [], "not longer than the worst lag");
    }
    let before = record.snapshot();
    assert!(before.changed);
    assert_eq!(absent(&records, &record, at(62)), [Action::Alarm(A, Alarm::AbsenceAccepted)]);
    let state = record.snapshot();
    assert_eq!((state.floor, state.changed, state.escaped), (Version::NONE, false, false));
    assert_eq!(state.marker.map(|marker| marker.at), Some(at(62)), "copies from before are too old (R8)");
    assert!(!state.matches(Version(8), before.generation), "what was below the floor does not come back");
    change(&records, 7, B, 4, at(63));
    let state = record.snapshot();
    assert_eq!((state.floor, state.changed), (Version(4), true), "9 may have been nobody's version: 4 is news");
}

/// Both regions answer a race for record 7 that it does not exist.
fn absent(records: &Records, record: &Record, now: Moment) -> Vec<Action> {
    records.below_floor(record, Version::NONE, RegionSet::first(2), now, now)
}

/// R18.
#[test]
fn type_reload_moves_generations_keeps_floors() {
    let records = records(1 << 12);
    let (even, odd) = (records.pin(id(2)), records.pin(id(3)));
    change(&records, 2, A, 5, at(0));
    change(&records, 3, A, 5, at(0));
    let (even_before, odd_before) = (even.snapshot(), odd.snapshot());
    even.note_read(at(1));
    let mut actions = Vec::new();
    records.recall(Scope::Type(TypeId(0)), None, only(A), at(2), &mut actions);
    assert_eq!(actions, [Action::Refetch(id(2))]);
    assert!(!even.snapshot().matches(Version(5), even_before.generation));
    assert_eq!(even.snapshot().floor, Version(5));
    assert_eq!(odd.snapshot(), odd_before);
    records.recall(Scope::All, None, only(A), at(3), &mut actions);
    assert!(!odd.snapshot().matches(Version(5), odd_before.generation));
    let before = odd.snapshot().generation;
    records.recall(Scope::Record(id(3)), None, only(A), at(4), &mut actions);
    assert!(!odd.snapshot().matches(Version(5), before));
}

/// R18, R8: an intermediary's copy from before the RELOAD must not pass, though nothing held the
/// record when it came.
#[test]
fn wide_reload_marks_unheld_records() {
    for scope in [Scope::Type(TypeId(1)), Scope::All] {
        let records = records(1 << 12);
        change(&records, 7, A, 5, at(0));
        records.recall(scope, None, only(B), at(9), &mut Vec::new());
        let unspoken = marker(&records, 9).map(|marker| (marker.at, marker.regions));
        assert_eq!(unspoken, Some((at(9), only(B))), "nobody spoke of it");
        let in_slot = marker(&records, 7).map(|marker| (marker.at, marker.regions));
        assert_eq!(in_slot, Some((at(9), only(A))), "it lay in a slot");
        assert_eq!(marker(&records, 8).is_some(), scope == Scope::All, "of another type");
        records.note(at(9) + LAG + Duration::from_secs(1));
        let late = marker(&records, 11).map(|marker| marker.regions);
        assert_eq!(late, Some(RegionSet::ALL), "nobody lags behind any more");
    }
}

fn marker(records: &Records, hash: u64) -> Option<Marker> {
    records.pin(id(hash)).snapshot().marker
}

/// R19.
#[test]
fn reset_drops_cell_and_slot_floors() {
    for scope in [Scope::Record(id(7)), Scope::Type(TypeId(1)), Scope::All] {
        for held in [false, true] {
            let records = records(1 << 12);
            change(&records, 7, A, 9, at(0));
            change(&records, 6, A, 9, at(0));
            let cell = held.then(|| records.pin(id(7)));
            let before = records.pin(id(7)).snapshot();
            records.recall(scope, Some(at(1)), only(A), at(1), &mut Vec::new());
            let after = records.pin(id(7)).snapshot();
            assert_eq!(after.floor, Version::NONE, "{scope:?}, held: {held}");
            assert!(!after.matches(Version(9), before.generation), "what is stored is from before");
            assert_eq!(floor(&records, 6), if scope == Scope::All { 0 } else { 9 });
            served(&records, 7, B, 4, at(2));
            drop(cell);
            records.release(id(7));
            assert_eq!(floor(&records, 7), 4, "the floor rises anew, and no order is applied twice");
        }
    }
}

/// R3: a change of what is being read is refetched at once.
#[test]
fn announcement_refetches_recently_read_records() {
    let records = records(1 << 12);
    let record = records.pin(id(7));
    assert_eq!(change(&records, 7, A, 5, at(0)), [], "nobody read it");
    record.note_read(at(1));
    assert_eq!(change(&records, 7, A, 6, at(2)), [Action::Refetch(id(7))]);
    assert_eq!(change(&records, 7, B, 6, at(3)), [], "the same change");
    assert_eq!(change(&records, 7, A, 7, at(62)), [], "that was long ago");
}

/// R1, with readers and writers on two threads: the move between slot and cell loses nothing.
#[test]
fn concurrent_pinning_never_lowers_floor() {
    let records = records(1 << 12);
    std::thread::scope(|scope| {
        scope.spawn(|| (1..30_000).for_each(|version| drop(change(&records, 7, A, version, at(1)))));
        for _ in 0..2 {
            scope.spawn(|| {
                let mut highest = 0;
                while highest < 29_999 {
                    let seen = floor(&records, 7);
                    assert!(seen >= highest, "{seen} after {highest}");
                    highest = seen;
                }
            });
        }
    });
    assert_eq!(records.held(), 0);
}

#[derive(Clone, Debug)]
enum Deed {
    Announce(u64, u64),
    Serve(u64, u64),
    Pin(u64),
    LetGo(u64),
    Sweep,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        (0..6u64, 1..50u64).prop_map(|(hash, version)| Deed::Announce(hash, version)),
        (0..6u64, 1..50u64).prop_map(|(hash, version)| Deed::Serve(hash, version)),
        (0..6u64).prop_map(Deed::Pin),
        (0..6u64).prop_map(Deed::LetGo),
        Just(Deed::Sweep),
    ];
    prop::collection::vec(deed, 0..120)
}

/// Multiples of 4: a bucket of its own for each record, so that nothing is evicted.
fn key(record: u64) -> u64 {
    record * 4 + 4
}

/// Floors of four records after CHANGED or DELETED of a record, with a version, from a region.
fn floors_after(messages: &[(u64, u64, u8, bool)]) -> Vec<u64> {
    let records = records(1 << 12);
    for (second, (record, version, region, deleted)) in (0u64..).zip(messages) {
        let (region, version) = (RegionId(*region), Some(Version(*version)));
        let said = Announced { region, version, at: at(second), deleted: *deleted, written: false };
        records.announce(id(key(*record)), said, at(second), &mut Vec::new());
    }
    (0..4u64).map(|record| floor(&records, key(record))).collect()
}

proptest! {
    /// R1: whatever comes and goes, the floor is the maximum of what was announced and served.
    #[test]
    fn pinning_and_releasing_never_lowers_floor(deeds in deeds()) {
        let records = records(1 << 12);
        let mut expected = [0u64; 6];
        let mut held: Vec<Vec<Arc<Record>>> = vec![Vec::new(); 6];
        for (second, deed) in deeds.into_iter().enumerate() {
            let now = at(second as u64);
            match deed {
                Deed::Announce(record, version) => {
                    change(&records, key(record), A, version, now);
                    expected[record as usize] = expected[record as usize].max(version);
                }
                Deed::Serve(record, version) => {
                    served(&records, key(record), B, version, now);
                    expected[record as usize] = expected[record as usize].max(version);
                }
                Deed::Pin(record) => held[record as usize].push(records.pin(id(key(record)))),
                Deed::LetGo(record) => {
                    held[record as usize].pop();
                    records.release(id(key(record)));
                }
                Deed::Sweep => records.sweep(now),
            }
            for (record, cells) in (0u64..).zip(&held) {
                for cell in cells {
                    prop_assert_eq!(cell.snapshot().floor.0, expected[record as usize], "every handle is live");
                }
            }
        }
        drop(held);
        for (record, expected) in (0u64..).zip(expected) {
            prop_assert_eq!(floor(&records, key(record)), expected);
        }
    }

    /// R13: any order and any number of copies end at the same floors.
    #[test]
    fn any_message_order_converges_on_floors(
        (once, shuffled) in prop::collection::vec((0..4u64, 1..20u64, 0..3u8, any::<bool>()), 1..30).prop_flat_map(
            |once| {
                let copies = once.iter().cloned().chain(once.iter().step_by(2).cloned()).collect::<Vec<_>>();
                (Just(once), Just(copies).prop_shuffle())
            }
        )
    ) {
        prop_assert_eq!(floors_after(&once), floors_after(&shuffled));
    }
}
