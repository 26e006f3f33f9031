//! Verdicts of audits on entries, and their suspicions (R17).

use super::*;
use crate::cache::key::{HashKey, Key, KeyBuffer};
use crate::model::ids::Epoch;
use crate::model::ids::TypeId;
use crate::protocol::record::{Marker, Snapshot};
use crate::protocol::region_views::RegionView;

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
fn suspicion(name: &str, has_newer_version: bool) -> (Suspicion<Key>, Arc<Record>) {
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
        first_seen_at: at(0),
        live: RegionSet::EMPTY.with(A),
        announced: None,
    };
    let held = if has_newer_version { versioned(&[4]) } else { body(1) };
    let records = Box::new([(record.clone(), generation)]);
    let epochs = Box::new([Epoch(3), Epoch(3)]);
    let (key, other_content, announcement_due) = (key(name), None, false);
    (Suspicion { key, held, timeline, has_newer_version, other_content, records, epochs, announcement_due }, record)
}

/// The generation moves, as by an announcement at `second`.
fn announce(record: &Record, second: u64) {
    let marker = Marker { regions: RegionSet::EMPTY.with(A), at: at(second), deleted: false };
    record.store(Snapshot { generation: Generation(2), marker: Some(marker), ..Snapshot::default() });
}

#[test]
fn higher_version_is_newer_lower_lags() {
    let held = versioned(&[4, 7]);
    assert_eq!(judged(&held, &[versioned(&[4, 7]), versioned(&[3, 7])]), AuditVerdict::Fresh);
    assert_eq!(judged(&held, &[versioned(&[3, 6])]), AuditVerdict::Fresh, "nobody shows anything newer");
    assert_eq!(judged(&held, &[versioned(&[4, 7]), versioned(&[4, 8])]), AuditVerdict::Newer(B, Version(8)));
    assert_eq!(
        judged(&held, &[versioned(&[3, 8])]),
        AuditVerdict::Newer(A, Version(8)),
        "of one record, behind with the other"
    );
    assert_eq!(judged(&held, &[]), AuditVerdict::Undecided, "nobody answered");
    assert_eq!(judged(&held, &[body(1)]), AuditVerdict::Undecided, "nothing to compare by");
}

/// Verdict on what is held when the regions, from A on, show this.
fn judged(held: &Observation, shown: &[Observation]) -> AuditVerdict {
    judged_after_lag(held, shown, RegionSet::EMPTY)
}

fn judged_after_lag(held: &Observation, shown: &[Observation], caught_up: RegionSet) -> AuditVerdict {
    let seen: Vec<_> = [A, B, RegionId(2)].into_iter().zip(shown.iter().cloned()).collect();
    judge(held, &seen, caught_up)
}

#[test]
fn lower_version_after_lag_is_regression() {
    let held = versioned(&[5]);
    let (only_a, both) = (RegionSet::EMPTY.with(A), RegionSet::first(2));
    assert_eq!(judged_after_lag(&held, &[versioned(&[5]), versioned(&[4])], both), AuditVerdict::Regressed(B));
    assert_eq!(judged_after_lag(&held, &[versioned(&[4]), versioned(&[4])], both), AuditVerdict::Regressed(A));
    assert_eq!(
        judged_after_lag(&held, &[versioned(&[5]), versioned(&[4])], only_a),
        AuditVerdict::Fresh,
        "B may lag"
    );
    assert_eq!(
        judged_after_lag(&held, &[versioned(&[4]), versioned(&[6])], both),
        AuditVerdict::Newer(B, Version(6))
    );
}

#[test]
fn versionless_audit_compares_content_and_absence() {
    for (held, shown, verdict) in [
        (body(1), body(1), AuditVerdict::Fresh),
        (body(1), body(2), AuditVerdict::Other(B)),
        (body(1), absent(), AuditVerdict::Other(B)),
        (absent(), body(1), AuditVerdict::Other(B)),
        (absent(), absent(), AuditVerdict::Fresh),
    ] {
        let judged = judged_after_lag(&held, &[held.clone(), shown.clone()], RegionSet::first(2));
        assert_eq!(judged, verdict, "{held:?} {shown:?}");
    }
    let newer = judge(&versioned(&[4]), &[(A, absent()), (B, versioned(&[5]))], RegionSet::EMPTY);
    assert_eq!(newer, AuditVerdict::Newer(B, Version(5)), "a version decides");
}

/// Shows version 5 with this content.
fn at_five(content: u128) -> Observation {
    Observation { meaning: Some(content), ..versioned(&[5]) }
}

/// R23.
#[test]
fn other_content_counts_when_none_agrees() {
    let held = at_five(1);
    let only_b = RegionSet::EMPTY.with(B);
    assert_eq!(judged(&held, &[at_five(2), at_five(2)]), AuditVerdict::OtherContent(RegionSet::first(2)));
    assert_eq!(judged(&held, &[versioned(&[4]), at_five(2)]), AuditVerdict::OtherContent(only_b), "A lags");
    assert_eq!(
        judged(&held, &[versioned(&[5]), at_five(2)]),
        AuditVerdict::OtherContent(only_b),
        "A's cannot be compared"
    );
    assert_eq!(
        judged(&held, &[at_five(2), at_five(2), at_five(1)]),
        AuditVerdict::Fresh,
        "who shows it may be the newer"
    );
    assert_eq!(judged(&held, &[at_five(2), at_five(3)]), AuditVerdict::Undecided, "it is another at each region");
    assert_eq!(judged(&held, &[versioned(&[5]), versioned(&[5])]), AuditVerdict::Fresh, "versions are all there is");
    let gone = Observation { absent: true, ..versioned(&[5]) };
    assert_eq!(judged(&held, &[gone.clone(), gone]), AuditVerdict::OtherContent(RegionSet::first(2)));
    assert_eq!(
        judged(&held, &[at_five(2), Observation { meaning: Some(2), ..versioned(&[6]) }]),
        AuditVerdict::Newer(B, Version(6))
    );
}

/// R23.
#[test]
fn other_content_from_sender_is_newer() {
    let both = AuditVerdict::OtherContent(RegionSet::first(2));
    assert_eq!(both.of_reply_by(A), both, "A sent what is held");
    assert_eq!(both.of_reply_by(RegionId(2)), AuditVerdict::Undecided, "they may always have shown it, or lag");
    assert_eq!(AuditVerdict::Fresh.of_reply_by(RegionId(2)), AuditVerdict::Fresh);
}

/// R21: while nothing arrives from the regions that were LIVE, a missing announcement says nothing of
/// names and keys; it withholds bounds all the same.
#[test]
fn violation_blames_wiring_once_announcement_due() {
    // B shows what is newer. A is LIVE; B is not, or is too.
    let (only_a, both) = (RegionSet::EMPTY.with(A), RegionSet::EMPTY.with(A).with(B));
    assert!(is_blamed(60, only_a, 3, at(0)) && is_blamed(20, both, 3, at(0)));
    assert!(!is_blamed(59, only_a, 3, at(59)), "B may be ahead of it");
    assert!(!is_blamed(19, both, 3, at(19)), "it may be on its way");
    assert!(!is_blamed(60, only_a, 3, at(0).before(LAG)), "it has not ingested the change, or nothing arrives");
    assert!(!is_blamed(60, only_a, 4, at(60)), "it has lost something meanwhile");
    assert!(!is_blamed(60, RegionSet::EMPTY, 3, at(60)), "nobody had to tell");
}

/// Says whether the wiring is blamed in a second when A, which was LIVE or not, has this epoch and was
/// heard of at this time.
fn is_blamed(second: u64, live: RegionSet, epoch: u32, known_through: Moment) -> bool {
    let mut audits = Audits::default();
    let (mut suspicion, _) = suspicion("x", true);
    suspicion.timeline.live = live;
    let id = suspicion.records[0].0.id().record_type;
    assert!(audits.open(suspicion));
    let a = RegionView { known_through, epoch: Epoch(epoch), ..RegionView::default() };
    let b = RegionView { epoch: Epoch(3), ..RegionView::default() };
    audits.hear(&RegionViews::new(vec![a, b], Arc::default()), at(second), LAG);
    let open = audits.violated(at(second));
    assert_eq!(audits.look(at(61), LAG).ended, [AuditEnding::Stale]);
    assert_eq!(audits.violated(at(62)), open, "and so it stays for a while");
    open == [(id, true)]
}

/// R23.
#[test]
fn second_look_settles_other_content() {
    assert_eq!(second_look(&[at_five(2), at_five(2)]), AuditEnding::Stale);
    assert_eq!(second_look(&[at_five(2)]), AuditEnding::Stale, "a single region, twice the same");
    assert_eq!(second_look(&[at_five(2), versioned(&[5])]), AuditEnding::Stale, "B's cannot be compared");
    assert_eq!(second_look(&[at_five(3), at_five(3)]), AuditEnding::Undecided, "it is new each time");
    assert_eq!(second_look(&[versioned(&[4]), at_five(2)]), AuditEnding::Undecided, "A does not show it");
    assert_eq!(second_look(&[versioned(&[6]), versioned(&[6])]), AuditEnding::Undecided, "an ordinary change since");
    assert_eq!(second_look(&[at_five(1), at_five(1)]), AuditEnding::CaughtUp);
    assert_eq!(second_look(&[]), AuditEnding::Undecided);
}

/// Ending of a suspicion of other content when the regions, from A on, show this at the second look.
fn second_look(shown: &[Observation]) -> AuditEnding {
    let mut audits = Audits::default();
    let (first, _) = suspicion("x", false);
    let id = first.records[0].0.id().record_type;
    assert!(audits.open(Suspicion { held: at_five(1), other_content: Some(at_five(2)), ..first }));
    assert_eq!(audits.look(at(61), LAG).again, [key("x")]);
    let seen: Vec<_> = [A, B].into_iter().zip(shown.iter().cloned()).collect();
    let Settled { ending, is_other_content } = audits.decide_second_look(&key("x"), &seen, at(61)).unwrap();
    assert_eq!(
        (audits.violated(at(62)) == [(id, false)], is_other_content),
        (ending == AuditEnding::Stale, ending == AuditEnding::Stale)
    );
    ending
}

#[test]
fn announcement_delay_decides_fresh_window() {
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
fn audit_repair_is_no_announcement() {
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
fn versionless_second_look_awaits_lag_end() {
    for (seen, ending) in [
        (vec![body(1), body(1)], AuditEnding::CaughtUp),
        (vec![body(2), body(2)], AuditEnding::Stale),
        (vec![body(1), body(2)], AuditEnding::Undecided),
        (vec![], AuditEnding::Undecided),
    ] {
        let mut audits = Audits::default();
        audits.open(suspicion("x", false).0);
        let longer = LAG * 2;
        assert_eq!(audits.decide_second_look(&key("x"), &[(A, body(2))], at(0)), None, "not yet");
        assert_eq!(audits.look(at(120), longer).again, []);
        assert_eq!(audits.violations(at(120)), [], "perhaps the other region is behind");
        assert_eq!(audits.look(at(121), longer).again, [key("x")]);
        assert_eq!(audits.look(at(122), longer).again, [], "once");
        let seen: Vec<_> = [A, B].into_iter().zip(seen).collect();
        assert_eq!(audits.decide_second_look(&key("x"), &seen, at(0)).map(|settled| settled.ending), Some(ending));
        assert_eq!(audits.violations(at(122)).len(), usize::from(ending == AuditEnding::Stale));
        assert_eq!(audits.open_count(), 0);
    }
}

#[test]
fn suspicions_are_unique_and_bounded() {
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
fn walk_covers_each_hash_once() {
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
fn walk_never_makes_up_for_pause() {
    let mut walk = Walk::new(Duration::from_secs(600), at(0));
    let slice = walk.step(at(3_600));
    let most = limits::PAUSE.as_secs_f64() / 600.0;
    assert!((slice.span as f64 / 2_f64.powi(64) - most).abs() < 1e-9, "{slice:?}");
    assert_eq!(walk.step(at(3_600)).span, 0, "no time has passed");
    let mut hurried = Walk::new(Duration::from_millis(1), at(0));
    let all = hurried.step(at(1));
    assert!(all.contains(0) && all.contains(u64::MAX / 2) && all.contains(u64::MAX - 1));
}

/// As after a panic of the task that was to look.
#[test]
fn missed_second_look_decides_nothing() {
    let mut audits = Audits::default();
    audits.open(suspicion("x", false).0);
    assert_eq!(audits.look(at(61), LAG).again, [key("x")]);
    assert_eq!((audits.look(at(661), LAG).ended, audits.open_count()), (vec![], 1));
    let look = audits.look(at(662), LAG);
    assert_eq!((look.ended, look.again, audits.open_count()), (vec![AuditEnding::Undecided], vec![], 0));
    assert_eq!((audits.decide_second_look(&key("x"), &[], at(663)), audits.violations(at(663))), (None, vec![]));
}
