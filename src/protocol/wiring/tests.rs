//! Doubts about the wiring, and what ends them.

use super::*;
use crate::protocol::region_views::RegionView;

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
fn nothing_announced_withholds_no_bound() {
    assert!(Wiring::default().withheld(at(1), WORST_LAG).is_empty());
}

#[test]
fn unrouted_type_withholds_region_bound() {
    let wiring = Wiring::default();
    wiring.note_announced(CONTEXT, EU, true);
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
fn new_routes_must_prove_wiring_anew() {
    let wiring = Wiring::default();
    wiring.note_announced(CONTEXT, EU, true);
    wiring.met(CONTEXT, only(EU));
    wiring.rewired();
    assert_eq!(withheld(&wiring, CONTEXT, at(1)), only(EU));
}

#[test]
fn unread_region_keys_withhold_its_bound() {
    let wiring = Wiring::default();
    wiring.note_announced(CONTEXT, EU, true);
    wiring.note_announced(CONTEXT, US, true);
    wiring.met(CONTEXT, only(US));
    assert_eq!(withheld(&wiring, CONTEXT, at(1)), only(EU));
}

#[test]
fn entry_before_proven_wiring_stays_unbounded() {
    let wiring = Wiring::default();
    wiring.note_announced(CONTEXT, EU, true);
    assert_eq!(withheld(&wiring, CONTEXT, at(1)), only(EU));
    wiring.met(CONTEXT, only(EU));
    let all = wiring.withheld(at(10), WORST_LAG);
    let all: Vec<_> = all.iter().map(|doubts| doubts.no_bound).collect();
    assert_eq!((all[0].of(at(9)), all[0].of(at(69)), all[0].of(at(70))), (only(EU), only(EU), RegionSet::EMPTY));
    assert_eq!(all[0].now(), RegionSet::EMPTY);
}

#[test]
fn late_type_inherits_withheld_bounds() {
    let wiring = Wiring::default();
    wiring.unrouted(EU, at(1));
    assert_eq!(withheld(&wiring, CONTEXT, at(1)), only(EU));
    wiring.note_announced(CONTEXT, EU, true);
    wiring.met(CONTEXT, only(EU));
    assert_eq!(withheld(&wiring, CONTEXT, at(2)), only(EU));
    assert_eq!(withheld(&wiring, CONTEXT, at(62)), RegionSet::EMPTY);
}

#[test]
fn unannounced_change_withholds_type_bounds() {
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
fn misname(wiring: &Wiring, region: RegionId, spelling: KeySpelling) {
    for hash in 0..limits::MISNAMED_KEYS {
        wiring.unread_key(CONTEXT, region, Some((RecordId { record_type: CONTEXT, hash }, spelling)), at(1));
    }
}

/// The regions that earn `record_type` no full TTL for what was made at `made`.
fn strays(wiring: &Wiring, record_type: TypeId, made: Moment, now: Moment) -> RegionSet {
    let all = wiring.withheld(now, WORST_LAG);
    let place = usize::from(record_type.0).min(all.len().saturating_sub(1));
    all.get(place).map(|doubts| doubts.no_full_ttl.of(made)).unwrap_or_default()
}

#[test]
fn silence_and_unread_keys_prove_nothing() {
    let wiring = Wiring::default();
    assert_eq!(strays(&wiring, CONTEXT, at(1), at(1)), RegionSet::EMPTY);
    wiring.note_announced(CONTEXT, EU, true);
    assert_eq!(withheld(&wiring, CONTEXT, at(1)), only(EU), "no bound, since nothing shows that it works");
    assert_eq!(strays(&wiring, CONTEXT, at(1), at(1)), RegionSet::EMPTY, "nor that it does not");
    wiring.unrouted(EU, at(2));
    assert_eq!(strays(&wiring, CONTEXT, at(2), at(2)), RegionSet::EMPTY, "others share the topic");
}

#[test]
fn wiring_evidence_counts_until_it_ends() {
    let wiring = Wiring::default();
    wiring.found(&[(LIMITS, only(EU))]);
    assert_eq!(strays(&wiring, CONTEXT, at(1), at(1)), RegionSet::EMPTY);
    assert_eq!(strays(&wiring, LIMITS, at(1), at(1)), only(EU));
    assert!(wiring.take_change());

    misname(&wiring, US, KeySpelling::Around);
    wiring.found(&[(CONTEXT, only(EU))]);
    assert_eq!(strays(&wiring, CONTEXT, at(80), at(80)), RegionSet::first(2));
    wiring.met(CONTEXT, only(US));
    wiring.found(&[]);
    assert_eq!(strays(&wiring, CONTEXT, at(141), at(141)), RegionSet::first(2), "worst_lag is not over");
    let over = at(141) + WORST_LAG;
    assert_eq!(strays(&wiring, CONTEXT, over, over), RegionSet::EMPTY);

    wiring.settled(CONTEXT, false, at(300));
    assert_eq!(strays(&wiring, CONTEXT, at(301), at(301)), RegionSet::ALL, "it changed, and nobody said so");
    misname(&wiring, EU, KeySpelling::Around);
    wiring.rewired();
    let later = at(301) + limits::WIRING_DOUBT;
    assert_eq!(strays(&wiring, CONTEXT, later + WORST_LAG, later), RegionSet::EMPTY);
}

#[test]
fn later_match_clears_misnamed_keys() {
    let wiring = Wiring::default();
    misname(&wiring, EU, KeySpelling::Around);
    assert_eq!(strays(&wiring, CONTEXT, at(1), at(1)), only(EU));
    wiring.met(CONTEXT, only(EU));
    wiring.unrouted(EU, at(2));
    assert_eq!(strays(&wiring, CONTEXT, at(2), at(2)), only(EU), "worst_lag is not over");
    let later = at(2) + WORST_LAG;
    assert_eq!(strays(&wiring, CONTEXT, later, later), RegionSet::EMPTY, "it was seen to be right since");
    wiring.unread_key(CONTEXT, EU, Some((RecordId { record_type: CONTEXT, hash: 9 }, KeySpelling::Around)), later);
    assert_eq!(strays(&wiring, CONTEXT, later, later), RegionSet::EMPTY, "by chance");
}

#[test]
fn other_letter_case_counts_despite_matches() {
    let wiring = Wiring::default();
    wiring.note_announced(CONTEXT, EU, true);
    wiring.met(CONTEXT, only(EU));
    misname(&wiring, EU, KeySpelling::Around);
    assert_eq!(strays(&wiring, CONTEXT, at(1), at(1)), RegionSet::EMPTY, "its keys are read");
    misname(&wiring, EU, KeySpelling::LetterCase);
    wiring.met(CONTEXT, only(EU));
    assert_eq!(strays(&wiring, CONTEXT, at(2), at(2)), only(EU), "some of them, and others are not");
    assert_eq!(withheld(&wiring, CONTEXT, at(2)), only(EU));
    assert_eq!(wiring.known(at(2))[0].other_case, only(EU));
    let over = at(1) + limits::CASE_DOUBT;
    assert_eq!(withheld(&wiring, CONTEXT, over), only(EU), "worst_lag is not over");
    assert_eq!(withheld(&wiring, CONTEXT, over + WORST_LAG), RegionSet::EMPTY);
    misname(&wiring, EU, KeySpelling::LetterCase);
    wiring.rewired();
    assert_eq!(wiring.known(at(2))[0].other_case, RegionSet::EMPTY);
}

#[test]
fn version_rollback_voids_earlier_bounds() {
    let wiring = Wiring::default();
    wiring.went_back(CONTEXT, at(5));
    assert!(wiring.take_change());
    assert_eq!(withheld(&wiring, CONTEXT, at(6)), RegionSet::ALL);
    assert_eq!(strays(&wiring, CONTEXT, at(6), at(6)), RegionSet::ALL);
    assert_eq!(withheld(&wiring, LIMITS, at(6)), RegionSet::EMPTY);
    let later = wiring.withheld(at(90), WORST_LAG)[0];
    assert_eq!((later.no_bound.now(), later.no_full_ttl.now()), (RegionSet::EMPTY, RegionSet::EMPTY));
    assert_eq!(later.no_bound.of(at(64)), RegionSet::ALL, "some regions may have begun anew later");
    assert_eq!(later.no_full_ttl.of(at(65)), RegionSet::EMPTY, "made of the new versions");
}

#[test]
fn growths_are_followed_once_and_bounded() {
    let wiring = Wiring::default();
    for hash in (0..2 * limits::GROWTHS as u64).flat_map(|hash| [hash; 2]) {
        wiring.grew(Growth {
            id: RecordId { record_type: CONTEXT, hash },
            region: EU,
            generation: Generation(0),
            vouched: (RegionSet::EMPTY, Box::default()),
            at: at(hash),
        });
    }
    assert_eq!(wiring.due(|growth| growth.at > at(9)).len(), 10);
    assert_eq!(wiring.due(|_| false).len(), limits::GROWTHS - 10);
}

/// A voucher from which nothing arrives, or that lags itself, says nothing of names and keys.
#[test]
fn only_voucher_active_afterwards_disputes_wiring() {
    let growth = Growth {
        id: RecordId { record_type: CONTEXT, hash: 1 },
        region: US,
        generation: Generation(0),
        vouched: (only(EU), [Epoch(3), Epoch(3)].into()),
        at: at(10),
    };
    for (epoch, known_through, speaks) in [(3, 10, true), (3, 9, false), (4, 30, false)] {
        let region_view =
            RegionView { epoch: Epoch(epoch), known_through: at(known_through), ..RegionView::default() };
        let region_views =
            RegionViews { regions: vec![region_view, RegionView::default()], ..RegionViews::default() };
        assert_eq!(growth.is_vouched_against(&region_views), speaks, "{region_view:?}");
    }
}
