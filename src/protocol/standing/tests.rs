//! Standings that replies earn, and uses entries are good for (R3, R5, R9, R10, R16).

use super::super::event::Grade;
use super::*;
use crate::model::ids::{Generation, RecordId, RouteId, TypeId};
use crate::model::time::Wall;
use crate::protocol::holding::{ShownRecord, ShownRecords};
use crate::protocol::region_views::TypeDoubts;

const LAG: Duration = Duration::from_secs(60);
const SOFT: Duration = Duration::from_secs(30);
const AGREE: RaceVotes = RaceVotes { all_agree: true, versions_at_floor: false };
const VERSIONED: RaceVotes = RaceVotes { all_agree: false, versions_at_floor: true };
const NEITHER: RaceVotes = RaceVotes { all_agree: false, versions_at_floor: false };

fn at(second: u64) -> Moment {
    Moment::ZERO + Duration::from_secs(10_000 + second)
}

/// LIVE since `since`, last proven at `proof`.
fn live(since: u64, proof: u64) -> RegionView {
    RegionView {
        state: SubscriptionState::Live,
        grade: Grade::Path,
        proof: at(proof),
        lease_until: at(proof + 15),
        epoch: Epoch(3),
        unbroken_since: at(since),
        watermark: None,
        watermark_at: None,
        known_through: at(proof),
    }
}

fn moved(region_view: RegionView) -> RegionView {
    RegionView { epoch: Epoch(region_view.epoch.0 + 1), ..region_view }
}

fn region_views(regions: impl Into<Vec<RegionView>>) -> RegionViews {
    RegionViews { regions: regions.into(), ..RegionViews::default() }
}

fn watermark(second: u64, region_view: RegionView) -> RegionView {
    RegionView { watermark: Some(Wall::from_millis(second * 1_000)), watermark_at: Some(at(second)), ..region_view }
}

fn sent(second: u64, regions: impl Into<Vec<RegionView>>) -> Sent {
    Sent { at: at(second), region_views: Arc::new(region_views(regions)), fence: vec![], grants: 0 }
}

fn state(floor: u64, generation: u64) -> Snapshot {
    Snapshot { floor: Version(floor), generation: Generation(generation), ..Snapshot::default() }
}

const ID: RecordId = RecordId { record_type: TypeId(0), hash: 1 };

/// CONFIRMED, shows version 5 in generation 1, requested at 100 while both regions were LIVE with
/// epoch 3.
fn entry(state: Snapshot) -> Routed {
    let record = Arc::new(Record::new(ID, state, Moment::ZERO));
    Routed {
        route: RouteId(0),
        shows: ShownRecords::One([ShownRecord { record, version: Version(5), generation: Generation(1) }]),
        digest: None,
        standing: Standing::Confirmed,
        epochs: vec![Epoch(3), Epoch(3)].into(),
        live: RegionSet::first(2),
        confirmed: at(100),
        ttl: Duration::from_secs(3_600).into(),
    }
}

fn judged(entry: &Routed, regions: impl Into<Vec<RegionView>>, now: u64) -> Use {
    judged_by(entry, &region_views(regions), now)
}

fn judged_by(entry: &Routed, region_views: &RegionViews, now: u64) -> Use {
    assess(entry, at(100), region_views, at(now)).good_for(SOFT)
}

/// A reply that was made for its request.
fn end_to_end(sent: &Sent) -> ReplyTimes {
    ReplyTimes { reply: sent.at, oldest: sent.at }
}

fn classification(sent: &Sent, now: impl Into<Vec<RegionView>>, votes: RaceVotes) -> Standing {
    earn(sent, end_to_end(sent), &region_views(now), &votes, false, LAG).standing
}

/// R3.
#[test]
fn older_generation_reply_needs_floor_version() {
    let record = Record::new(ID, state(5, 1), Moment::ZERO);
    let fenced = Sent { fence: vec![record.snapshot()], ..sent(0, []) };
    assert!(admits(&fenced, &[(&record, Version(5))]));
    assert!(admits(&fenced, &[(&record, Version::NONE)]));
    record.store(state(6, 2));
    assert!(!admits(&fenced, &[(&record, Version(5))]), "R1: announced while it was on its way");
    assert!(admits(&fenced, &[(&record, Version(6))]));
    assert!(!admits(&fenced, &[(&record, Version::NONE)]), "nothing shows that it is the new one");
    record.store(Snapshot { unversioned: Generation(2), ..state(6, 2) });
    assert!(!admits(&fenced, &[(&record, Version(6))]), "a change without a version came on the way");
}

/// R3: one URL over many records.
#[test]
fn every_reply_record_must_be_admitted() {
    let (first, second) = (Record::new(ID, state(5, 1), Moment::ZERO), Record::new(ID, state(8, 1), Moment::ZERO));
    let fenced = Sent { fence: vec![first.snapshot(), second.snapshot()], ..sent(0, []) };
    assert!(admits(&fenced, &[(&first, Version(5)), (&second, Version(8))]));
    assert!(!admits(&fenced, &[(&first, Version(5)), (&second, Version(7))]));
}

/// R5.
#[test]
fn unanimity_earns_full_ttl_while_unbroken() {
    let live_since_then = [live(99, 99), RegionView::default()];
    assert_eq!(classification(&sent(100, live_since_then), live_since_then, AGREE), Standing::Confirmed);
    assert_eq!(classification(&sent(100, live_since_then), live_since_then, NEITHER), Standing::Provisional);
    let none = [RegionView::default(); 2];
    assert_eq!(classification(&sent(100, none), live_since_then, AGREE), Standing::Provisional, "LIVE only since");
    let broken = [moved(live(101, 101)), RegionView::default()];
    assert_eq!(
        classification(&sent(100, live_since_then), broken, AGREE),
        Standing::Provisional,
        "broken on the way"
    );
    assert_eq!(
        classification(&sent(115, live_since_then), live_since_then, AGREE),
        Standing::Provisional,
        "lease over"
    );
}

/// R5: start-up with one region live and one behind.
#[test]
fn versioned_full_ttl_needs_unbroken_region() {
    let young = [live(41, 99)];
    assert_eq!(classification(&sent(100, young), young, VERSIONED), Standing::Provisional);
    let old = [live(40, 99)];
    assert_eq!(classification(&sent(100, old), old, VERSIONED), Standing::Confirmed);
    let both = [live(40, 99), live(99, 99)];
    let only_the_young_unbroken = [moved(live(100, 100)), live(99, 99)];
    assert_eq!(classification(&sent(100, both), only_the_young_unbroken, VERSIONED), Standing::Provisional);
    assert_eq!(classification(&sent(100, both), only_the_young_unbroken, AGREE), Standing::Confirmed);
}

/// R2, R15.
#[test]
fn doubtful_floor_keeps_reply_provisional() {
    let long = [live(0, 99)];
    let sent = sent(100, long);
    for (doubtful, standing) in [(false, Standing::Confirmed), (true, Standing::Provisional)] {
        let earned = earn(&sent, end_to_end(&sent), &region_views(long), &AGREE, doubtful, LAG);
        assert_eq!(earned.standing, standing);
    }
}

/// R1, R3.
#[test]
fn entry_below_floor_is_never_fresh() {
    let regions = [live(0, 200), live(0, 200)];
    assert_eq!(judged(&entry(state(5, 1)), regions, 200), Use::Fresh);
    assert_eq!(judged(&entry(state(5, 2)), regions, 200), Use::Fresh, "announced with the version it shows");
    assert_eq!(judged(&entry(state(6, 2)), regions, 200), Use::Below);
    let unversioned = Snapshot { unversioned: Generation(2), ..state(5, 2) };
    assert_eq!(judged(&entry(unversioned), regions, 200), Use::Below);
    let mut without = entry(state(0, 2));
    let ShownRecords::One([shown]) = &mut without.shows else { unreachable!("it shows one") };
    shown.version = Version::NONE;
    assert_eq!(judged(&without, regions, 200), Use::Below);
}

/// R9.
#[test]
fn expired_lease_leaves_soft_ttl() {
    let regions = [live(0, 101), live(0, 90)];
    let entry = entry(state(5, 1));
    assert_eq!(judged(&entry, regions, 116), Use::Fresh, "the lease's last second");
    assert_eq!(judged(&entry, regions, 129), Use::Unproven, "confirmed 29 s ago: served, and says so");
    assert_eq!(judged(&entry, regions, 130), Use::Expired);
    assert_eq!(judged(&entry, regions, 3_000), Use::Expired, "a paused process: no tick came in between");
    let confirmed_again = Routed { confirmed: at(2_990), ..entry };
    assert_eq!(judged(&confirmed_again, regions, 3_000), Use::Unproven);
}

/// R10.
#[test]
fn entry_is_unverified_without_unbroken_epoch() {
    let entry = entry(state(5, 1));
    assert_eq!(judged(&entry, [moved(live(150, 200)), live(0, 200)], 200), Use::Fresh, "the other saw it all");
    assert_eq!(judged(&entry, [moved(live(150, 200)), moved(live(150, 200))], 200), Use::Unverified);
    let only_first = Routed { live: RegionSet::EMPTY.with(RegionId(0)), ..entry };
    assert_eq!(judged(&only_first, [moved(live(150, 200)), live(0, 200)], 200), Use::Unverified, "LIVE only later");
}

/// R10: an unbroken region whose lease is over cannot lend another's.
#[test]
fn lease_counts_only_from_unbroken_region() {
    let entry = entry(state(5, 1));
    assert_eq!(judged(&entry, [live(0, 110), moved(live(150, 200))], 200), Use::Expired);
}

/// R16.
#[test]
fn hard_ttl_counts_from_request() {
    let entry = Routed { confirmed: at(3_000), ..entry(state(5, 1)) };
    assert_eq!(judged(&entry, [live(0, 3_699); 2], 3_699), Use::Fresh);
    assert_eq!(judged(&entry, [live(0, 3_700); 2], 3_700), Use::Expired);
}

/// R5: PROVISIONAL is short.
#[test]
fn provisional_entry_ends_at_soft_ttl() {
    let entry = Routed { standing: Standing::Provisional, ..entry(state(5, 1)) };
    assert_eq!(judged(&entry, [live(0, 129); 2], 129), Use::Provisional);
    assert_eq!(judged(&entry, [live(0, 130); 2], 130), Use::Expired);
}

/// R5, R9: no announcements are configured.
#[test]
fn no_live_region_means_soft_ttl() {
    let entry = Routed { standing: Standing::Provisional, live: RegionSet::EMPTY, ..entry(state(5, 1)) };
    let nothing = [RegionView::default(); 2];
    assert_eq!(judged(&entry, nothing, 129), Use::Provisional);
    assert_eq!(judged(&entry, nothing, 130), Use::Expired);
    assert!(!recheck_may_settle(&region_views(nothing), at(129)));
    assert!(recheck_may_settle(&region_views([live(0, 129)]), at(129)));
}

/// Its bound at `now`, when it was requested at 100 and the worst lag is 60 s.
#[test]
fn dropped_floor_makes_confirmed_entry_doubtful() {
    let escaped = entry(Snapshot { escaped: true, ..state(4, 1) });
    let regions = [live(0, 120), live(0, 120)];
    assert_eq!(judged(&escaped, regions, 120), Use::Doubted);
    assert_eq!(judged(&escaped, regions, 130), Use::Expired);
    let marked = region_views([watermark(118, live(0, 120)), watermark(118, live(0, 120))]);
    assert_eq!(bound_of(&escaped, &marked, at(120)), None);
}

/// Its bound at `now`, requested at 100, when the worst lag is 60 s.
fn bound_of(entry: &Routed, region_views: &RegionViews, now: Moment) -> Option<u64> {
    assess(entry, at(100), region_views, now).bound(now.since(at(100)), LAG)
}

/// Promise 2.
#[test]
fn bound_is_watermark_age_rounded_up() {
    let entry = entry(state(5, 1));
    let both = region_views([watermark(190, live(0, 195)), watermark(198, live(0, 195))]);
    assert_eq!(bound_of(&entry, &both, at(200)), Some(2));
    assert_eq!(bound_of(&entry, &both, at(200) + Duration::from_millis(1)), Some(3));
    assert_eq!(bound_of(&entry, &both, at(200) + Duration::from_nanos(1)), Some(3));
    let broken = region_views([watermark(190, live(0, 195)), moved(watermark(198, live(0, 195)))]);
    assert_eq!(bound_of(&entry, &broken, at(200)), Some(10), "the newest is of a region that lost something since");
    assert_eq!(bound_of(&entry, &region_views([live(0, 195), live(0, 195)]), at(200)), None, "path proof has none");
    let later = Routed { live: RegionSet::EMPTY.with(RegionId(0)), ..entry };
    assert_eq!(bound_of(&later, &both, at(200)), Some(10), "the newest is of a region LIVE only later");
}

/// Promise 2: what was proven stays proven, and ages.
#[test]
fn silent_region_keeps_its_proof() {
    let entry = entry(state(5, 1));
    let silent = region_views([watermark(190, live(0, 195)), watermark(198, live(0, 180))]);
    assert_eq!(bound_of(&entry, &silent, at(200)), Some(2), "its lease is over, its epoch unbroken");
    assert_eq!(bound_of(&entry, &silent, at(260)), Some(62), "nobody has stepped since: the process was paused");
    let suspect = RegionView { state: SubscriptionState::Suspect, ..moved(watermark(198, live(0, 180))) };
    assert_eq!(
        bound_of(&entry, &region_views([suspect, suspect]), at(200)),
        None,
        "noticed: all may have lost something"
    );
}

/// Promise 2: only R5's own assumption stands behind it.
#[test]
fn provisional_bound_adds_worst_lag() {
    let provisional = Routed { standing: Standing::Provisional, ..entry(state(5, 1)) };
    let both = region_views([watermark(190, live(0, 195)), watermark(198, live(0, 195))]);
    assert_eq!(bound_of(&provisional, &both, at(101)), Some(61));
    assert_eq!(bound_of(&provisional, &both, at(101) + Duration::from_millis(1)), Some(62));
    let aged = assess(&provisional, at(100), &both, at(101)).bound(Duration::from_secs(20), LAG);
    assert_eq!(aged, Some(80), "an intermediary had kept it for 19 s");
    let broken = region_views([moved(watermark(190, live(0, 195))), moved(watermark(198, live(0, 195)))]);
    assert_eq!(bound_of(&provisional, &broken, at(101)), None, "what was announced since may be lost");
    assert_eq!(bound_of(&provisional, &region_views([live(0, 195), live(0, 195)]), at(101)), None, "no watermark");
}

fn seconds_left(entry: &Routed, region_views: &RegionViews, now: u64) -> i64 {
    assess(entry, at(100), region_views, at(now)).seconds_left(SOFT)
}

#[test]
fn request_remembers_state_before_sending() {
    let sent = sent(100, [live(0, 90), live(0, 80), moved(live(0, 99))]);
    assert_eq!(sent.live(), RegionSet::first(3).without(RegionId(1)));
    assert_eq!(*sent.epochs(), [Epoch(3), Epoch(3), Epoch(4)]);
}

#[test]
fn remaining_ttl_depends_on_vouching_region() {
    let entry = entry(state(5, 1));
    let soft = SOFT.as_secs() as i64;
    assert_eq!(seconds_left(&entry, &region_views([live(0, 195); 2]), 200), 3_500);
    assert_eq!(seconds_left(&entry, &region_views([live(0, 100); 2]), 120), soft - 20, "the lease is over");
    let all_moved = region_views([moved(live(150, 195)); 2]);
    assert_eq!(seconds_left(&entry, &all_moved, 200), soft - 100, "all lost something since");
    let provisional = Routed { standing: Standing::Provisional, ..self::entry(state(5, 1)) };
    assert_eq!(seconds_left(&provisional, &region_views([live(0, 105); 2]), 110), soft - 10);
}

#[test]
fn entry_below_floor_states_no_bound() {
    let both = region_views([watermark(190, live(0, 195)), watermark(198, live(0, 195))]);
    assert!(bound_of(&entry(state(5, 1)), &both, at(200)).is_some());
    assert_eq!(bound_of(&entry(state(6, 2)), &both, at(200)), None);
    let provisional = Routed { standing: Standing::Provisional, ..entry(state(6, 2)) };
    assert_eq!(bound_of(&provisional, &both, at(200)), None);
}

/// R21: evidence against one region leaves the other's word as it is.
#[test]
fn miswired_regions_earn_only_soft_ttl() {
    let entry = entry(state(5, 1));
    let (one, both) = (miswired(RegionSet::first(1)), miswired(RegionSet::first(2)));
    assert_eq!(judged_by(&entry, &one, 900), Use::Fresh, "the other region still vouches for it");
    assert_eq!((judged_by(&entry, &both, 129), judged_by(&entry, &both, 130)), (Use::Unwired, Use::Expired));
    assert_eq!(seconds_left(&entry, &both, 110), SOFT.as_secs() as i64 - 10);
    assert_eq!(seconds_left(&entry, &one, 110), 3_590);
    let provisional = Routed { standing: Standing::Provisional, ..entry.clone() };
    assert_eq!(judged_by(&provisional, &both, 110), Use::Provisional);

    // It is over; what was made before that may lack what passed by.
    let mut doubts = TypeDoubts::default();
    doubts.no_full_ttl.turn(RegionSet::first(2), at(0));
    doubts.no_full_ttl.turn(RegionSet::EMPTY, at(101));
    let over = RegionViews::new(vec![live(0, 1_000), live(1, 1_000)], vec![doubts].into());
    assert_eq!(judged_by(&entry, &over, 110), Use::Unwired);
    let later = Routed { confirmed: at(101), ..entry.clone() };
    assert_eq!(assess(&later, at(101), &over, at(900)).good_for(SOFT), Use::Fresh);
}

/// Two LIVE regions, of which these earn no full TTL for what was made before 100.
fn miswired(regions: RegionSet) -> RegionViews {
    let mut doubts = TypeDoubts::default();
    doubts.no_full_ttl.turn(regions, at(100));
    RegionViews::new(vec![live(0, 1_000), live(1, 1_000)], vec![doubts].into())
}
