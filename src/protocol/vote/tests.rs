//! Ranks of replies in a race (R4 to R8).

use super::*;
use crate::model::ids::Generation;
use crate::protocol::record::Marker;

const A: RegionId = RegionId(0);
const B: RegionId = RegionId(1);
const C: RegionId = RegionId(2);
const ANNOUNCED: Moment = Moment::from_nanos(100_000_000_000);

fn after() -> Moment {
    ANNOUNCED + Duration::from_millis(1)
}

fn before() -> Moment {
    ANNOUNCED.before(Duration::from_millis(1))
}

fn ballot(region: RegionId, said: Presence, versions: &[Version]) -> Ballot<'_> {
    Ballot { region, said, versions, sent: after(), generated: None }
}

fn floor(version: u64) -> Snapshot {
    Snapshot { floor: Version(version), ..Snapshot::default() }
}

fn announced(version: u64, by: RegionId, deleted: bool) -> Snapshot {
    let marker = Marker { regions: RegionSet::EMPTY.with(by), at: ANNOUNCED, deleted };
    let (at_floor, changed) = (version > 0, version > 0 && !deleted);
    Snapshot { floor: Version(version), marker: Some(marker), at_floor, changed, ..Snapshot::default() }
}

#[test]
fn r1_floor_version_counts_at_once() {
    let record = [announced(5, A, false)];
    assert_eq!(rank(&ballot(B, Presence::Present, &[Version(4)]), &record), Rank::Below);
    assert_eq!(rank(&ballot(B, Presence::Present, &[Version(5)]), &record), Rank::Now);
    assert_eq!(rank(&ballot(B, Presence::Present, &[Version(6)]), &record), Rank::Now);
}

#[test]
fn r1_low_record_holds_back_reply() {
    let records = [floor(5), floor(9)];
    assert_eq!(rank(&ballot(A, Presence::Present, &[Version(5), Version(8)]), &records), Rank::Below);
    assert_eq!(rank(&ballot(A, Presence::Present, &[Version(5), Version(9)]), &records), Rank::Now);
}

#[test]
fn r4_unversioned_announcer_counts_at_once() {
    let record = [announced(0, A, false)];
    assert_eq!(rank(&ballot(A, Presence::Present, &[]), &record), Rank::Now);
    assert_eq!(rank(&ballot(B, Presence::Present, &[]), &record), Rank::Waits);
}

#[test]
fn r4_marker_spares_earlier_requests() {
    let record = [announced(0, A, false)];
    let asked_before = Ballot { sent: before(), ..ballot(B, Presence::Present, &[]) };
    assert_eq!(rank(&asked_before, &record), Rank::Now);
}

#[test]
fn r4_unversioned_reply_waits_for_versions() {
    assert_eq!(rank(&ballot(B, Presence::Present, &[]), &[floor(3)]), Rank::Waits);
    assert_eq!(rank(&ballot(B, Presence::Present, &[Version(1), Version(2)]), &[floor(3)]), Rank::Waits);
    assert_eq!(rank(&ballot(B, Presence::Present, &[]), &[floor(0)]), Rank::Now);
}

#[test]
fn r6_unversioned_404_is_below_floor() {
    assert_eq!(rank(&ballot(A, Presence::Absent, &[]), &[announced(5, A, false)]), Rank::Below);
    let asked_before = Ballot { sent: before(), ..ballot(B, Presence::Absent, &[]) };
    assert_eq!(rank(&asked_before, &[announced(5, A, false)]), Rank::Below);
}

#[test]
fn r6_unannounced_404_needs_every_region() {
    assert_eq!(rank(&ballot(A, Presence::Absent, &[]), &[floor(0)]), Rank::Waits);
    assert_eq!(rank(&ballot(B, Presence::Absent, &[]), &[announced(0, A, true)]), Rank::Waits);
}

#[test]
fn r6_deleting_announcer_counts_at_once() {
    assert_eq!(rank(&ballot(A, Presence::Absent, &[]), &[announced(7, A, true)]), Rank::Now);
}

#[test]
fn r6_tombstone_counts_by_version() {
    let record = [announced(7, A, false)];
    assert_eq!(rank(&ballot(B, Presence::Absent, &[Version(7)]), &record), Rank::Now);
    assert_eq!(rank(&ballot(B, Presence::Absent, &[Version(6)]), &record), Rank::Below);
}

#[test]
fn r6_missing_version_shows_absent_record() {
    let some = [Version(5), Version::NONE];
    let shows = ballot(A, Presence::Present, &some);
    assert_eq!(rank(&shows, &[floor(5), announced(9, A, false)]), Rank::Below, "a CHANGED says that it is there");
    assert_eq!(rank(&shows, &[floor(5), floor(0)]), Rank::Waits, "else all are heard");
    assert_eq!(rank(&shows, &[floor(5), announced(0, A, true)]), Rank::Now, "its announcer is believed");
    let none = ballot(A, Presence::Present, &[Version::NONE; 2]);
    assert_eq!(rank(&none, &[floor(0), announced(9, A, false)]), Rank::Now, "a service that states no versions");
}

#[test]
fn r6_lagging_region_cannot_undelete_record() {
    let record = [Snapshot { floor: Version(5), ..announced(0, A, true) }];
    assert_eq!(rank(&ballot(B, Presence::Present, &[Version(5)]), &record), Rank::Waits);
    assert_eq!(rank(&ballot(B, Presence::Present, &[Version(6)]), &record), Rank::Now, "created again");
}

#[test]
fn r4_unversioned_announcement_prefers_announcer() {
    let known = [Snapshot { floor: Version(5), ..announced(0, A, false) }];
    assert_eq!(rank(&ballot(A, Presence::Present, &[Version(5)]), &known), Rank::Now);
    assert_eq!(rank(&ballot(B, Presence::Present, &[Version(5)]), &known), Rank::Waits);
    assert_eq!(rank(&ballot(B, Presence::Present, &[Version(6)]), &known), Rank::Now);
    assert_eq!(rank(&ballot(B, Presence::Present, &[Version(6)]), &[announced(0, A, false)]), Rank::Waits);
}

#[test]
fn r15_impossible_version_counts_as_none() {
    let absurd = [Version(u64::MAX)];
    assert_eq!(rank(&ballot(B, Presence::Present, &absurd), &[announced(5, A, false)]), Rank::Waits);
    assert!(!ballot(B, Presence::Present, &absurd).is_versioned(1));
}

#[test]
fn r7_304_below_floor_never_counts() {
    assert_eq!(unchanged(&[], &[Version(5)]), Rank::Now);
    assert_eq!(unchanged(&[], &[Version(4)]), Rank::Below);
    assert_eq!(unchanged(&[Version(5)], &[Version(4)]), Rank::Now, "the view did not change, the record did");
}

/// Rank of a 304 against floor 5.
fn unchanged(stated: &[Version], known: &[Version]) -> Rank {
    rank(&ballot(A, Presence::Present, r7_stands_for(stated, known)), &[floor(5)])
}

#[test]
fn r8_aged_reply_is_below_marker() {
    // The newest announcement stated no version.
    let unversioned = Snapshot { unversioned: Generation(9), generation: Generation(9), ..announced(5, A, false) };
    let record = [Snapshot { unversioned_at: ANNOUNCED, ..unversioned }];
    assert_eq!(rank(&aged(0), &record), Rank::Now);
    assert_eq!(rank(&aged(9), &record), Rank::Now);
    assert_eq!(rank(&aged(10), &record), Rank::Below, "ages are whole seconds: it may be from 10.9 s ago");
    assert_eq!(rank(&aged(60), &record), Rank::Below);
    let late = [Snapshot { generation: Generation(10), ..record[0] }];
    assert_eq!(rank(&aged(60), &late), Rank::Below, "it stated a version, and came after one that stated none");
    let later = Marker { at: ANNOUNCED + Duration::from_secs(7), ..late[0].marker.unwrap() };
    let newer = [Snapshot { marker: Some(later), ..late[0] }];
    let asked_since = Ballot { sent: received(), ..aged(60) };
    assert_eq!(rank(&asked_since, &newer), Rank::Below, "from before the one that stated none");
    assert_eq!(rank(&Ballot { sent: received(), ..aged(8) }, &newer), Rank::Now, "from after it");
    let stated = [Snapshot { unversioned: Generation(0), unversioned_at: Moment::ZERO, ..late[0] }];
    assert_eq!(rank(&aged(60), &stated), Rank::Now, "the floor speaks for all that was announced");
    let higher = [Snapshot { floor: Version(6), ..stated[0] }];
    assert_eq!(rank(&aged(0), &higher), Rank::Below, "R1");
    let silent = Ballot { versions: &[], ..aged(60) };
    assert_eq!(rank(&silent, &stated), Rank::Below, "it states no version");
}

fn received() -> Moment {
    ANNOUNCED + Duration::from_secs(10)
}

/// A ballot that shows version 5 and was this old when it came.
fn aged(seconds: u64) -> Ballot<'static> {
    Ballot {
        generated: Some(generated(received(), Duration::from_secs(seconds))),
        ..ballot(A, Presence::Present, &[Version(5)])
    }
}

#[test]
fn best_ballot_prefers_version_presence_announcer() {
    let record = [announced(0, C, false)];
    let versions = [Version(5), Version(6)];
    let older = ballot(A, Presence::Present, &versions[..1]);
    let newer = ballot(B, Presence::Present, &versions[1..]);
    assert_eq!(best(&[older.clone(), newer.clone()], &record), Some(1));
    assert_eq!(best(&[newer.clone(), newer.clone()], &record), Some(0), "the first of equals");
    let [a, b, c] = [A, B, C].map(|region| ballot(region, Presence::Present, &[]));
    assert_eq!(best(&[a, c], &record), Some(1), "R4");
    assert_eq!(best(&[ballot(A, Presence::Absent, &[]), b], &[floor(0)]), Some(1), "R6: else a 200 wins");
    assert_eq!(best(&[], &record), None);
}

#[test]
fn unanimity_needs_same_versions_everywhere() {
    let five = [Version(5)];
    let four = [Version(4)];
    let all = [A, B, C].map(|region| ballot(region, Presence::Present, &five));
    assert!(count(&all, &[floor(5)], 3, no_digest).unanimous);
    let two = count(&all[..2], &[floor(5)], 3, no_digest);
    assert!(two.agreed && !two.unanimous);
    let low = [all[0].clone(), all[1].clone(), ballot(C, Presence::Present, &four)];
    let votes = count(&low, &[floor(5)], 3, no_digest);
    assert!(!votes.agreed && !votes.unanimous);
    assert_eq!(votes.at_or_above, RegionSet::first(2));
    assert!(!count(&all, &[floor(6)], 3, no_digest).unanimous, "agreed, but below the floor");
}

fn no_digest(_: usize) -> Option<u128> {
    panic!("versions suffice")
}

#[test]
fn unversioned_votes_compare_digests_and_404s() {
    let all = [A, B].map(|region| ballot(region, Presence::Present, &[]));
    assert!(count(&all, &[floor(0)], 2, |_| Some(1)).unanimous);
    assert!(!count(&all, &[floor(0)], 2, |place| Some(place as u128)).unanimous);
    assert!(!count(&all, &[floor(0)], 2, |_| None).unanimous, "content that cannot be decoded agrees with nothing");
    let absent = [A, B].map(|region| ballot(region, Presence::Absent, &[]));
    assert!(count(&absent, &[floor(0)], 2, |_| None).unanimous);
    let split = [all[0].clone(), absent[1].clone()];
    assert!(!count(&split, &[floor(0)], 2, |_| Some(1)).agreed);
}
