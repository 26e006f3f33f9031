//! How audits judge entries and follow suspicions (R17).

use super::*;
use crate::cache::key::{HashKey, Key, KeyBuffer};
use crate::model::ids::Epoch;
use crate::model::ids::TypeId;
use crate::protocol::horizon::Sight;
use crate::protocol::record::{Marker, Snapshot};

const A: RegionId = RegionId(0);
const B: RegionId = RegionId(1);
const LAG: Duration = Duration::from_secs(60);

fn at(second: u64) -> Moment {
    Moment::ZERO + Duration::from_secs(10_000 + second)
}

fn versioned(versions: &[u64]) -> Observation {
    Observation {
        absent: false,
        versions: versions.iter().copied().map(Version).collect(),
        digest: None,
        meaning: None,
    }
}

fn body(digest: u128) -> Observation {
    Observation { absent: false, versions: Box::default(), digest: Some(digest), meaning: None }
}

fn absent() -> Observation {
    Observation { absent: true, versions: Box::default(), digest: None, meaning: None }
}

fn key(name: &str) -> Key {
    KeyBuffer::new(HashKey::fixed(7)).primary(name).to_key()
}

/// Seen at second 0; its record is in generation 1.
fn suspicion(name: &str, certain: bool) -> (Suspicion<Key>, Arc<Record>) {
    let generation = Generation(1);
    let id = RecordId { record_type: TypeId(0), hash: 9 };
    let record = Arc::new(Record::new(id, Snapshot { generation, ..Snapshot::default() }, Moment::ZERO));
    let timeline = Timeline {
        record: id,
        answered: A,
        standing: Standing::Confirmed,
        held: Version(4),
        requested: at(0).before(LAG),
        confirmed: at(0).before(LAG),
        region: B,
        version: Version(5),
        seen: at(0),
        live: RegionSet::EMPTY.with(A),
        announced: None,
    };
    let held = if certain { versioned(&[4]) } else { body(1) };
    let records = Box::new([(record.clone(), generation)]);
    let epochs = Box::new([Epoch(3), Epoch(3)]);
    let (key, other_content, heard) = (key(name), None, false);
    (Suspicion { key, held, timeline, certain, other_content, records, epochs, heard }, record)
}

/// The generation moves, as by an announcement at `second`.
fn announce(record: &Record, second: u64) {
    let marker = Marker { regions: RegionSet::EMPTY.with(A), at: at(second), deleted: false };
    record.store(Snapshot { generation: Generation(2), marker: Some(marker), ..Snapshot::default() });
}

#[test]
fn a_higher_version_of_any_record_is_newer_and_a_lower_one_is_a_region_that_lags() {
    let held = versioned(&[4, 7]);
    let judged = |shown: &[Observation]| {
        let seen: Vec<_> = [A, B, RegionId(2)].into_iter().zip(shown.iter().cloned()).collect();
        judge(&held, &seen, RegionSet::EMPTY)
    };
    assert_eq!(judged(&[versioned(&[4, 7]), versioned(&[3, 7])]), AuditVerdict::Fresh);
    assert_eq!(judged(&[versioned(&[3, 6])]), AuditVerdict::Fresh, "nobody shows anything newer");
    assert_eq!(judged(&[versioned(&[4, 7]), versioned(&[4, 8])]), AuditVerdict::Newer(B, Version(8)));
    assert_eq!(
        judged(&[versioned(&[3, 8])]),
        AuditVerdict::Newer(A, Version(8)),
        "of one record, behind with the other"
    );
    assert_eq!(judged(&[]), AuditVerdict::Undecided, "nobody answered");
    assert_eq!(judged(&[body(1)]), AuditVerdict::Undecided, "nothing to compare by");
}

#[test]
fn a_lower_version_of_a_region_that_had_the_time_to_catch_up_is_a_region_that_went_back() {
    let judged = |shown: &[Observation], caught_up| {
        let seen: Vec<_> = [A, B].into_iter().zip(shown.iter().cloned()).collect();
        judge(&versioned(&[5]), &seen, caught_up)
    };
    let (only_a, both) = (RegionSet::EMPTY.with(A), RegionSet::first(2));
    assert_eq!(judged(&[versioned(&[5]), versioned(&[4])], both), AuditVerdict::Regressed(B));
    assert_eq!(judged(&[versioned(&[4]), versioned(&[4])], both), AuditVerdict::Regressed(A));
    assert_eq!(judged(&[versioned(&[5]), versioned(&[4])], only_a), AuditVerdict::Fresh, "B may lag");
    assert_eq!(judged(&[versioned(&[4]), versioned(&[6])], both), AuditVerdict::Newer(B, Version(6)));
}

#[test]
fn without_versions_content_and_absence_are_compared_and_do_not_say_who_is_newer() {
    let judged =
        |held: Observation, shown: Observation| judge(&held, &[(A, held.clone()), (B, shown)], RegionSet::first(2));
    assert_eq!(judged(body(1), body(1)), AuditVerdict::Fresh);
    assert_eq!(judged(body(1), body(2)), AuditVerdict::Other(B));
    assert_eq!(judged(body(1), absent()), AuditVerdict::Other(B));
    assert_eq!(judged(absent(), body(1)), AuditVerdict::Other(B));
    assert_eq!(judged(absent(), absent()), AuditVerdict::Fresh);
    let newer = judge(&versioned(&[4]), &[(A, absent()), (B, versioned(&[5]))], RegionSet::EMPTY);
    assert_eq!(newer, AuditVerdict::Newer(B, Version(5)), "a version decides");
}

/// Shows version 5 with this content.
fn at_five(content: u128) -> Observation {
    Observation { meaning: Some(content), ..versioned(&[5]) }
}

/// R23.
#[test]
fn other_content_under_the_same_version_counts_where_no_region_shows_what_is_held() {
    let judged = |shown: &[Observation]| {
        let seen: Vec<_> = [A, B, RegionId(2)].into_iter().zip(shown.iter().cloned()).collect();
        judge(&at_five(1), &seen, RegionSet::EMPTY)
    };
    let only_b = RegionSet::EMPTY.with(B);
    assert_eq!(judged(&[at_five(2), at_five(2)]), AuditVerdict::OtherContent(RegionSet::first(2)));
    assert_eq!(judged(&[versioned(&[4]), at_five(2)]), AuditVerdict::OtherContent(only_b), "A lags");
    assert_eq!(judged(&[versioned(&[5]), at_five(2)]), AuditVerdict::OtherContent(only_b), "A's cannot be compared");
    assert_eq!(judged(&[at_five(2), at_five(2), at_five(1)]), AuditVerdict::Fresh, "who shows it may be the newer");
    assert_eq!(judged(&[at_five(2), at_five(3)]), AuditVerdict::Undecided, "it is another at each region");
    assert_eq!(judged(&[versioned(&[5]), versioned(&[5])]), AuditVerdict::Fresh, "versions are all there is");
    let gone = Observation { absent: true, ..versioned(&[5]) };
    assert_eq!(judged(&[gone.clone(), gone]), AuditVerdict::OtherContent(RegionSet::first(2)));
    assert_eq!(
        judged(&[at_five(2), Observation { meaning: Some(2), ..versioned(&[6]) }]),
        AuditVerdict::Newer(B, Version(6))
    );
}

/// R23.
#[test]
fn other_content_is_newer_where_its_own_region_shows_it() {
    let both = AuditVerdict::OtherContent(RegionSet::first(2));
    assert_eq!(both.of_reply_by(A), both, "A sent what is held");
    assert_eq!(both.of_reply_by(RegionId(2)), AuditVerdict::Undecided, "they may always have shown it, or lag");
    assert_eq!(AuditVerdict::Fresh.of_reply_by(RegionId(2)), AuditVerdict::Fresh);
}

/// R21: while nothing arrives from the regions that were LIVE, a missing announcement says nothing of
/// names and keys; it withholds bounds all the same.
#[test]
fn a_violation_speaks_against_the_wiring_once_a_region_should_have_announced_it() {
    // B shows what is newer. A is LIVE; B is not, or is too.
    let told = |second: u64, live: RegionSet, epoch: u32, heard_of: Moment| {
        let mut audits = Audits::default();
        let (mut suspicion, _) = suspicion("x", true);
        suspicion.timeline.live = live;
        let id = suspicion.records[0].0.id().record_type;
        assert!(audits.open(suspicion));
        let a = Sight { heard_of, epoch: Epoch(epoch), ..Sight::default() };
        let b = Sight { epoch: Epoch(3), ..Sight::default() };
        audits.hear(&Horizon::new(vec![a, b], Arc::default()), at(second), LAG);
        let open = audits.violated(at(second));
        assert_eq!(audits.look(at(61), LAG).ended, [AuditEnding::Stale]);
        assert_eq!(audits.violated(at(62)), open, "and so it stays for a while");
        open == [(id, true)]
    };
    let (only_a, both) = (RegionSet::EMPTY.with(A), RegionSet::EMPTY.with(A).with(B));
    assert!(told(60, only_a, 3, at(0)) && told(20, both, 3, at(0)));
    assert!(!told(59, only_a, 3, at(59)), "B may be ahead of it");
    assert!(!told(19, both, 3, at(19)), "it may be on its way");
    assert!(!told(60, only_a, 3, at(0).before(LAG)), "it has not ingested the change, or nothing arrives");
    assert!(!told(60, only_a, 4, at(60)), "it has lost something meanwhile");
    assert!(!told(60, RegionSet::EMPTY, 3, at(60)), "nobody had to tell");
}

/// R23.
#[test]
fn second_look_at_other_content_goes_by_what_stays() {
    let settled = |shown: &[Observation]| {
        let mut audits = Audits::default();
        let (first, _) = suspicion("x", false);
        let id = first.records[0].0.id().record_type;
        assert!(audits.open(Suspicion { held: at_five(1), other_content: Some(at_five(2)), ..first }));
        assert_eq!(audits.look(at(61), LAG).again, [key("x")]);
        let seen: Vec<_> = [A, B].into_iter().zip(shown.iter().cloned()).collect();
        let Settled { ending, is_other_content } = audits.settle(&key("x"), &seen, at(61)).unwrap();
        assert_eq!(
            (audits.violated(at(62)) == [(id, false)], is_other_content),
            (ending == AuditEnding::Stale, ending == AuditEnding::Stale)
        );
        ending
    };
    assert_eq!(settled(&[at_five(2), at_five(2)]), AuditEnding::Stale);
    assert_eq!(settled(&[at_five(2)]), AuditEnding::Stale, "a single region, twice the same");
    assert_eq!(settled(&[at_five(2), versioned(&[5])]), AuditEnding::Stale, "B's cannot be compared");
    assert_eq!(settled(&[at_five(3), at_five(3)]), AuditEnding::Undecided, "it is new each time");
    assert_eq!(settled(&[versioned(&[4]), at_five(2)]), AuditEnding::Undecided, "A does not show it");
    assert_eq!(settled(&[versioned(&[6]), versioned(&[6])]), AuditEnding::Undecided, "an ordinary change since");
    assert_eq!(settled(&[at_five(1), at_five(1)]), AuditEnding::CaughtUp);
    assert_eq!(settled(&[]), AuditEnding::Undecided);
}

#[test]
fn an_entry_counts_as_fresh_within_what_its_announcement_took_after_the_first_sight() {
    for (second, within) in [(0, [true; 3]), (1, [true; 3]), (5, [false, true, true]), (60, [false, false, true])] {
        let mut audits = Audits::default();
        let (suspicion, record) = suspicion("x", true);
        assert!(audits.open(suspicion));
        announce(&record, second);
        let look = audits.look(at(second + 1), LAG);
        assert_eq!(
            look.ended,
            [AuditEnding::Announced(Duration::from_secs(second))],
            "by the marker, not by the look"
        );
        assert_eq!(limits::AUDIT_WINDOWS.map(|window| look.ended[0].within(window)), within.map(Some));
        let violations = audits.violations(at(second + 1));
        assert_eq!(violations.len(), usize::from(!within[0]), "{second}");
        assert!(violations.iter().all(|violation| violation.announced == Some(at(second))));
        assert_eq!(audits.open_count(), 0);
    }
}

/// R1: `served` moves the floor, never the generation.
#[test]
fn the_audits_own_repair_does_not_count_as_an_announcement() {
    let mut audits = Audits::default();
    let (suspicion, record) = suspicion("x", true);
    audits.open(suspicion);
    record.store(Snapshot { floor: Version(5), ..record.snapshot() });
    assert_eq!(audits.look(at(60), LAG).ended, []);
    assert_eq!(audits.violations(at(1)).len(), 0);
    assert_eq!(audits.violations(at(2)).len(), 1, "listed while it waits");
    assert_eq!(audits.look(at(61), LAG).ended, [AuditEnding::Stale]);
    let violations = audits.violations(at(61));
    assert_eq!((violations.len(), violations[0].announced), (1, None));
}

#[test]
fn without_versions_a_second_look_decides_when_no_region_may_lag_any_more() {
    for (seen, ending) in [
        (vec![body(1), body(1)], AuditEnding::CaughtUp),
        (vec![body(2), body(2)], AuditEnding::Stale),
        (vec![body(1), body(2)], AuditEnding::Undecided),
        (vec![], AuditEnding::Undecided),
    ] {
        let mut audits = Audits::default();
        audits.open(suspicion("x", false).0);
        let longer = LAG * 2;
        assert_eq!(audits.settle(&key("x"), &[(A, body(2))], at(0)), None, "not yet");
        assert_eq!(audits.look(at(120), longer).again, []);
        assert_eq!(audits.violations(at(120)), [], "perhaps the other region is behind");
        assert_eq!(audits.look(at(121), longer).again, [key("x")]);
        assert_eq!(audits.look(at(122), longer).again, [], "once");
        let seen: Vec<_> = [A, B].into_iter().zip(seen).collect();
        assert_eq!(audits.settle(&key("x"), &seen, at(0)).map(|settled| settled.ending), Some(ending));
        assert_eq!(audits.violations(at(122)).len(), usize::from(ending == AuditEnding::Stale));
        assert_eq!(audits.open_count(), 0);
    }
}

#[test]
fn an_entry_has_one_suspicion_and_both_lists_are_bounded() {
    let mut audits = Audits::default();
    let names: Vec<_> = (0..=limits::AUDIT_SUSPICIONS).map(|n| format!("/{n}")).collect();
    let opened = names.iter().filter(|name| audits.open(suspicion(name, true).0)).count();
    assert_eq!((opened, audits.open_count()), (limits::AUDIT_SUSPICIONS, limits::AUDIT_SUSPICIONS));
    assert!(audits.open(suspicion("/0", true).0), "it is followed already");
    assert_eq!(audits.open_count(), limits::AUDIT_SUSPICIONS);
    assert_eq!(audits.violations(at(30)).len(), limits::AUDIT_VIOLATIONS);
    assert_eq!(audits.look(at(61), LAG).ended.len(), limits::AUDIT_SUSPICIONS);
    assert_eq!(audits.violations(at(61)).len(), limits::AUDIT_VIOLATIONS);
}

#[test]
fn a_walk_goes_around_once_in_a_period_and_meets_every_hash_in_one_slice() {
    let mut walk = Walk::new(Duration::from_secs(600), at(0));
    let slices: Vec<_> = (1..=600).map(|second| walk.step(at(second))).collect();
    for hash in [0, 1, 1 << 20, u64::MAX / 2, u64::MAX / 3, u64::MAX - (1 << 20)] {
        assert_eq!(slices.iter().filter(|slice| slice.contains(hash)).count(), 1, "{hash:x}");
    }
    let (least, most) =
        slices.iter().fold((u64::MAX, 0), |(least, most), it| (least.min(it.span), most.max(it.span)));
    assert!(most - least <= 1, "at an even pace");
    let next = walk.step(at(601));
    assert!(next.contains(1 << 20) || slices[0].contains(1 << 20), "and around again");
}

#[test]
fn a_pause_is_not_made_up_for_and_a_period_shorter_than_a_step_is_all_of_it() {
    let mut walk = Walk::new(Duration::from_secs(600), at(0));
    let slice = walk.step(at(3_600));
    let most = limits::PAUSE.as_secs_f64() / 600.0;
    assert!((slice.span as f64 / 2_f64.powi(64) - most).abs() < 1e-9, "{slice:?}");
    assert_eq!(walk.step(at(3_600)).span, 0, "no time has passed");
    let mut hurried = Walk::new(Duration::from_millis(1), at(0));
    let all = hurried.step(at(1));
    assert!(all.contains(0) && all.contains(u64::MAX / 2) && all.contains(u64::MAX - 1));
}

/// As after a panic of whoever was to look.
#[test]
fn second_look_that_never_comes_decides_nothing() {
    let mut audits = Audits::default();
    audits.open(suspicion("x", false).0);
    assert_eq!(audits.look(at(61), LAG).again, [key("x")]);
    assert_eq!((audits.look(at(661), LAG).ended, audits.open_count()), (vec![], 1));
    let look = audits.look(at(662), LAG);
    assert_eq!((look.ended, look.again, audits.open_count()), (vec![AuditEnding::Undecided], vec![], 0));
    assert_eq!((audits.settle(&key("x"), &[], at(663)), audits.violations(at(663))), (None, vec![]));
}
