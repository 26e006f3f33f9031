//! RESETs that come late, and what they leave (R13, R19).

use super::*;

/// R19: a RESET of second 100 comes five minutes late.
fn late(records: &Records, scope: Scope) {
    records.recall(scope, Some(at(100)), only(A), at(400), &mut Vec::new());
}

/// R13, R19: what was announced or served after a RESET stays, when it comes late.
#[test]
fn late_reset_spares_later_floors() {
    for scope in [Scope::Record(id(7)), Scope::Type(TypeId(1)), Scope::All] {
        for held in [false, true] {
            for (stated, expected) in [(at(99), 0), (at(130), 9), (at(399), 9)] {
                for is_served in [false, true] {
                    let records = records(1 << 12);
                    let cell = held.then(|| records.pin(id(7)));
                    change(&records, 7, A, 8, at(90));
                    let state = if is_served { served } else { change };
                    state(&records, 7, B, 9, stated);
                    late(&records, scope);
                    assert_eq!(floor(&records, 7), expected, "{scope:?}, held: {held}, {stated:?}, {is_served}");
                    drop(cell);
                }
            }
        }
    }
}

/// R3, R18: of a floor that stays, what is stored is out of date all the same.
#[test]
fn late_reset_reloads_spared_records() {
    let records = records(1 << 12);
    let cell = records.pin(id(7));
    change(&records, 7, B, 9, at(130));
    let before = cell.snapshot();
    late(&records, Scope::All);
    let after = cell.snapshot();
    assert!(!after.matches(Version(9), before.generation));
    assert_eq!((after.floor, after.floor_at), (before.floor, before.floor_at));
    assert_eq!(after.marker.map(|marker| marker.regions), Some(only(B)));
}

/// R19: the floor that a region states again after the RESET is no longer from before.
#[test]
fn restated_floor_counts_from_restatement() {
    for again in [change, served] {
        let records = records(1 << 12);
        let cell = records.pin(id(7));
        change(&records, 7, A, 9, at(10));
        again(&records, 7, A, 9, at(130));
        late(&records, Scope::All);
        assert_eq!(cell.snapshot().floor, Version(9));
    }
}

/// R19: when it was published counts, not when it came.
#[test]
fn announcement_predating_reset_leaves_no_floor() {
    for held in [false, true] {
        let records = records(1 << 12);
        let cell = held.then(|| records.pin(id(7)));
        let said = Announced { region: B, version: Some(Version(9)), at: at(50), deleted: false, written: false };
        records.announce(id(7), said, at(300), &mut Vec::new());
        late(&records, Scope::All);
        assert_eq!(floor(&records, 7), 0, "held: {held}");
        drop(cell);
    }
}

/// R4, R19, R20: a change or a write without a version stays, though the floor goes.
#[test]
fn late_reset_spares_versionless_changes() {
    for written in [false, true] {
        let records = records(1 << 12);
        let cell = records.pin(id(7));
        change(&records, 7, A, 9, at(10));
        let said = Announced { region: B, version: None, at: at(390), deleted: false, written };
        records.announce(id(7), said, at(390), &mut Vec::new());
        late(&records, Scope::All);
        let state = cell.snapshot();
        assert_eq!((state.floor, state.changed), (Version::NONE, false));
        assert_eq!(state.marker.map(|marker| marker.regions), Some(only(B)));
        assert_eq!(state.as_of(at(401), LAG).unstated_by(), written.then_some(B));
    }
}

/// R4: nobody knows who has what was announced since, below the floor of before.
#[test]
fn late_reset_prefers_no_announcer() {
    let records = records(1 << 12);
    change(&records, 7, A, 9, at(10));
    late(&records, Scope::All);
    assert_eq!(marker(&records, 7).map(|marker| marker.regions), Some(RegionSet::EMPTY));
    records.recall(Scope::All, Some(at(500)), only(A), at(501), &mut Vec::new());
    assert_eq!(marker(&records, 7).map(|marker| marker.regions), Some(only(A)), "this one is in time");
    records.recall(Scope::All, Some(at(500)), only(B), at(502), &mut Vec::new());
    assert_eq!(
        marker(&records, 7).map(|marker| marker.regions),
        Some(RegionSet::first(2)),
        "and so is the other topic's"
    );
}

/// R13: what came of an earlier RESET is not undone by one that overtook another.
#[test]
fn overtaken_reset_restores_no_floor() {
    let records = records(1 << 12);
    change(&records, 7, A, 9, at(150));
    records.recall(Scope::All, Some(at(200)), only(A), at(200), &mut Vec::new());
    late(&records, Scope::All);
    assert_eq!(floor(&records, 7), 0);
}

/// R15, R19: a doubt from after a RESET is not over because it comes late; one from before is.
#[test]
fn late_reset_ends_earlier_doubts() {
    for (doubted, is_open) in [(at(50), false), (at(300), true)] {
        for scope in [Scope::Record(id(7)), Scope::All] {
            let records = records(1 << 12);
            let cell = records.pin(id(7));
            change(&records, 7, A, 9, at(40));
            change(&records, 7, A, 1 << 61, doubted);
            served(&records, 7, A, 9, at(310));
            late(&records, scope);
            assert_eq!(cell.snapshot().escaped, is_open, "{doubted:?}, {scope:?}");
        }
    }
}
