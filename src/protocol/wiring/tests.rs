//! Doubts about the wiring, and what ends them.

use super::*;
use crate::protocol::horizon::Sight;

const EU: RegionId = RegionId(0);
const US: RegionId = RegionId(1);
const CONTEXT: TypeId = TypeId(0);
const LIMITS: TypeId = TypeId(1);
const WORST_LAG: Duration = Duration::from_secs(60);

fn at(seconds: u64) -> Moment {
    Moment::ZERO + Duration::from_secs(seconds)
}

fn only(region: RegionId) -> RegionSet {
    RegionSet::EMPTY.with(region)
}

/// The regions that withhold a bound of `record_type` for what was made a moment ago.
fn withheld(wiring: &Wiring, record_type: TypeId, now: Moment) -> RegionSet {
    let all = wiring.withheld(now, WORST_LAG);
    let place = usize::from(record_type.0).min(all.len().saturating_sub(1));
    all.get(place).map(|doubts| doubts.no_bound.of(now)).unwrap_or_default()
}

#[test]
fn where_nothing_was_announced_nothing_is_withheld() {
    assert!(Wiring::default().withheld(at(1), WORST_LAG).is_empty());
}

#[test]
fn a_type_that_no_route_names_withholds_the_bound_of_what_its_region_never_announced() {
    let wiring = Wiring::default();
    wiring.heard(CONTEXT, EU, true);
    wiring.met(CONTEXT, only(EU));
    assert!(wiring.withheld(at(1), WORST_LAG).is_empty() && wiring.take_change());
    wiring.unrouted(EU, at(1));
    assert!(wiring.take_change() && !wiring.take_change());
    assert_eq!(
        withheld(&wiring, CONTEXT, at(2)),
        only(EU),
        "it may be this type that is named otherwise from now on"
    );
    wiring.met(CONTEXT, only(EU));
    wiring.unrouted(EU, at(3));
    assert_eq!(wiring.withheld(at(4), WORST_LAG)[0].no_bound.now(), RegionSet::EMPTY, "others share the topic");
    assert_eq!(withheld(&wiring, LIMITS, at(4)), only(EU));
    let later = at(4) + limits::WIRING_DOUBT;
    assert_eq!(
        wiring.withheld(later, WORST_LAG)[1].no_bound.now(),
        RegionSet::EMPTY,
        "nothing of the kind came since"
    );
}

#[test]
fn other_routes_must_be_seen_to_work_anew() {
    let wiring = Wiring::default();
    wiring.heard(CONTEXT, EU, true);
    wiring.met(CONTEXT, only(EU));
    wiring.rewired();
    assert_eq!(withheld(&wiring, CONTEXT, at(1)), only(EU));
}

#[test]
fn a_region_whose_keys_were_never_read_states_no_bound_and_others_do() {
    let wiring = Wiring::default();
    wiring.heard(CONTEXT, EU, true);
    wiring.heard(CONTEXT, US, true);
    wiring.met(CONTEXT, only(US));
    assert_eq!(withheld(&wiring, CONTEXT, at(1)), only(EU));
}

#[test]
fn what_was_made_before_the_wiring_was_seen_to_work_stays_without_a_bound() {
    let wiring = Wiring::default();
    wiring.heard(CONTEXT, EU, true);
    assert_eq!(withheld(&wiring, CONTEXT, at(1)), only(EU));
    wiring.met(CONTEXT, only(EU));
    let all = wiring.withheld(at(10), WORST_LAG);
    let all: Vec<_> = all.iter().map(|doubts| doubts.no_bound).collect();
    assert_eq!((all[0].of(at(9)), all[0].of(at(69)), all[0].of(at(70))), (only(EU), only(EU), RegionSet::EMPTY));
    assert_eq!(all[0].now(), RegionSet::EMPTY);
}

#[test]
fn a_type_that_is_heard_of_late_has_withheld_what_all_unknown_ones_did() {
    let wiring = Wiring::default();
    wiring.unrouted(EU, at(1));
    assert_eq!(withheld(&wiring, CONTEXT, at(1)), only(EU));
    wiring.heard(CONTEXT, EU, true);
    wiring.met(CONTEXT, only(EU));
    assert_eq!(withheld(&wiring, CONTEXT, at(2)), only(EU));
    assert_eq!(withheld(&wiring, CONTEXT, at(62)), RegionSet::EMPTY);
}

#[test]
fn a_change_that_nobody_announced_withholds_every_bound_of_its_type_for_a_while() {
    let wiring = Wiring::default();
    wiring.settled(CONTEXT, true, at(1));
    assert!(wiring.withheld(at(1), WORST_LAG).is_empty() && !wiring.take_change());
    wiring.settled(CONTEXT, false, at(5));
    assert_eq!(withheld(&wiring, CONTEXT, at(6)), RegionSet::ALL);
    assert_eq!(withheld(&wiring, LIMITS, at(6)), RegionSet::EMPTY);
    let over = at(5) + limits::WIRING_DOUBT;
    assert_eq!(wiring.withheld(over, WORST_LAG)[0].no_bound.now(), RegionSet::EMPTY);
    for missed in [false, true] {
        wiring.violated(&[(LIMITS, missed)]);
        let doubts = wiring.withheld(over, WORST_LAG)[usize::from(LIMITS.0)];
        let strays = if missed { RegionSet::ALL } else { RegionSet::EMPTY };
        assert_eq!((doubts.no_bound.now(), doubts.no_full_ttl.now()), (RegionSet::ALL, strays));
    }
    wiring.violated(&[]);
    assert_eq!(wiring.withheld(over, WORST_LAG)[1].no_bound.now(), RegionSet::EMPTY);
}

/// `region` announces three keys of CONTEXT that hold one that is read.
fn misname(wiring: &Wiring, region: RegionId, form: KeyForm) {
    for hash in 0..limits::MISNAMED_KEYS {
        wiring.unread_key(CONTEXT, region, Some((RecordId { record_type: CONTEXT, hash }, form)), at(1));
    }
}

/// The regions that earn `record_type` no full TTL for what was made at `made`.
fn strays(wiring: &Wiring, record_type: TypeId, (made, now): (Moment, Moment)) -> RegionSet {
    let all = wiring.withheld(now, WORST_LAG);
    let place = usize::from(record_type.0).min(all.len().saturating_sub(1));
    all.get(place).map(|doubts| doubts.no_full_ttl.of(made)).unwrap_or_default()
}

#[test]
fn silence_and_unread_keys_are_no_evidence() {
    let wiring = Wiring::default();
    assert_eq!(strays(&wiring, CONTEXT, (at(1), at(1))), RegionSet::EMPTY);
    wiring.heard(CONTEXT, EU, true);
    assert_eq!(withheld(&wiring, CONTEXT, at(1)), only(EU), "no bound, since nothing shows that it works");
    assert_eq!(strays(&wiring, CONTEXT, (at(1), at(1))), RegionSet::EMPTY, "nor that it does not");
    wiring.unrouted(EU, at(2));
    assert_eq!(strays(&wiring, CONTEXT, (at(2), at(2))), RegionSet::EMPTY, "others share the topic");
}

#[test]
fn each_evidence_strays_until_it_ends() {
    let wiring = Wiring::default();
    wiring.found(&[(LIMITS, only(EU))]);
    assert_eq!(strays(&wiring, CONTEXT, (at(1), at(1))), RegionSet::EMPTY);
    assert_eq!(strays(&wiring, LIMITS, (at(1), at(1))), only(EU));
    assert!(wiring.take_change());

    misname(&wiring, US, KeyForm::Around);
    wiring.found(&[(CONTEXT, only(EU))]);
    assert_eq!(strays(&wiring, CONTEXT, (at(80), at(80))), RegionSet::first(2));
    wiring.met(CONTEXT, only(US));
    wiring.found(&[]);
    assert_eq!(strays(&wiring, CONTEXT, (at(141), at(141))), RegionSet::first(2), "worst_lag is not over");
    let over = at(141) + WORST_LAG;
    assert_eq!(strays(&wiring, CONTEXT, (over, over)), RegionSet::EMPTY);

    wiring.settled(CONTEXT, false, at(300));
    assert_eq!(strays(&wiring, CONTEXT, (at(301), at(301))), RegionSet::ALL, "it changed, and nobody said so");
    misname(&wiring, EU, KeyForm::Around);
    wiring.rewired();
    let later = at(301) + limits::WIRING_DOUBT;
    assert_eq!(strays(&wiring, CONTEXT, (later + WORST_LAG, later)), RegionSet::EMPTY);
}

#[test]
fn what_met_later_clears_what_was_misnamed() {
    let wiring = Wiring::default();
    misname(&wiring, EU, KeyForm::Around);
    assert_eq!(strays(&wiring, CONTEXT, (at(1), at(1))), only(EU));
    wiring.met(CONTEXT, only(EU));
    wiring.unrouted(EU, at(2));
    assert_eq!(strays(&wiring, CONTEXT, (at(2), at(2))), only(EU), "worst_lag is not over");
    let later = at(2) + WORST_LAG;
    assert_eq!(strays(&wiring, CONTEXT, (later, later)), RegionSet::EMPTY, "it was seen to be right since");
    wiring.unread_key(CONTEXT, EU, Some((RecordId { record_type: CONTEXT, hash: 9 }, KeyForm::Around)), later);
    assert_eq!(strays(&wiring, CONTEXT, (later, later)), RegionSet::EMPTY, "by chance");
}

#[test]
fn another_letter_case_strays_beside_what_met() {
    let wiring = Wiring::default();
    wiring.heard(CONTEXT, EU, true);
    wiring.met(CONTEXT, only(EU));
    misname(&wiring, EU, KeyForm::Around);
    assert_eq!(strays(&wiring, CONTEXT, (at(1), at(1))), RegionSet::EMPTY, "its keys are read");
    misname(&wiring, EU, KeyForm::LetterCase);
    wiring.met(CONTEXT, only(EU));
    assert_eq!(strays(&wiring, CONTEXT, (at(2), at(2))), only(EU), "some of them, and others are not");
    assert_eq!(withheld(&wiring, CONTEXT, at(2)), only(EU));
    assert_eq!(wiring.known(at(2))[0].other_case, only(EU));
    let over = at(1) + limits::CASE_DOUBT;
    assert_eq!(withheld(&wiring, CONTEXT, over), only(EU), "worst_lag is not over");
    assert_eq!(withheld(&wiring, CONTEXT, over + WORST_LAG), RegionSet::EMPTY);
    misname(&wiring, EU, KeyForm::LetterCase);
    wiring.rewired();
    assert_eq!(wiring.known(at(2))[0].other_case, RegionSet::EMPTY);
}

#[test]
fn versions_that_went_back_cost_every_bound_from_before() {
    let wiring = Wiring::default();
    wiring.went_back(CONTEXT, at(5));
    assert!(wiring.take_change());
    assert_eq!(withheld(&wiring, CONTEXT, at(6)), RegionSet::ALL);
    assert_eq!(strays(&wiring, CONTEXT, (at(6), at(6))), RegionSet::ALL);
    assert_eq!(withheld(&wiring, LIMITS, at(6)), RegionSet::EMPTY);
    let later = wiring.withheld(at(90), WORST_LAG)[0];
    assert_eq!((later.no_bound.now(), later.no_full_ttl.now()), (RegionSet::EMPTY, RegionSet::EMPTY));
    assert_eq!(later.no_bound.of(at(64)), RegionSet::ALL, "some regions may have begun anew later");
    assert_eq!(later.no_full_ttl.of(at(65)), RegionSet::EMPTY, "made of the new versions");
}

#[test]
fn growths_are_followed_once_each_and_in_bounds() {
    let wiring = Wiring::default();
    let growth = |hash, at| Growth {
        id: RecordId { record_type: CONTEXT, hash },
        region: EU,
        generation: Generation(0),
        vouched: (RegionSet::EMPTY, Box::default()),
        at,
    };
    for hash in 0..2 * limits::GROWTHS as u64 {
        wiring.grew(growth(hash, at(hash)));
        wiring.grew(growth(hash, at(hash)));
    }
    assert_eq!(wiring.due(|growth| growth.at > at(9)).len(), 10);
    assert_eq!(wiring.due(|_| false).len(), limits::GROWTHS - 10);
}

/// A voucher from which nothing arrives, or that lags itself, says nothing of names and keys.
#[test]
fn only_a_voucher_heard_of_after_the_change_speaks_against_the_wiring() {
    let growth = Growth {
        id: RecordId { record_type: CONTEXT, hash: 1 },
        region: US,
        generation: Generation(0),
        vouched: (only(EU), [Epoch(3), Epoch(3)].into()),
        at: at(10),
    };
    let sight = |epoch, heard_of| Sight { epoch: Epoch(epoch), heard_of: at(heard_of), ..Sight::default() };
    for (sight, speaks) in [(sight(3, 10), true), (sight(3, 9), false), (sight(4, 30), false)] {
        let horizon = Horizon { regions: vec![sight, Sight::default()], ..Horizon::default() };
        assert_eq!(growth.is_vouched_against(&horizon), speaks, "{sight:?}");
    }
}
