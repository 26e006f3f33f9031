//! Rank of a region's reply against what was announced and served: R1, R4, R6, R7, R8 and R20.
//! [`crate::race`] turns each complete reply into a [`Ballot`], and [`super::standing`] derives an
//! entry's standing from the [`Votes`].
//!
//! Pure. Everything is judged against [`Snapshot`]s taken at that moment, so an announcement during
//! a race counts, and it never raises a ballot's rank.

use std::cmp::Reverse;
use std::time::Duration;

use super::record::Snapshot;
use crate::model::ids::{RegionId, RegionSet, Version};
use crate::model::time::Moment;
use crate::switch::{Rule, is_on};

/// Statement of one region's reply about the route's records. Replies that say nothing about them
/// (refusals, failures) cast no ballot.
#[derive(Clone, Debug)]
pub struct Ballot<'a> {
    pub region: RegionId,
    pub said: Presence,
    /// The version of each of the route's records, in the route's order; of another length if the
    /// reply states none.
    pub versions: &'a [Version],
    /// Time of the request.
    pub sent: Moment,
    /// Time at which the reply was made, as far as its `Age` tells; `None` without one.
    pub generated: Option<Moment>,
}

/// Presence of the records in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// A 200-class reply, or a 304 for one.
    Present,
    /// 404 or 410.
    Absent,
}

/// Rank of a ballot now. A later one of these beats an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Below the floor, or from before the newest announcement. Served only when nothing else is,
    /// and then labelled.
    Below,
    /// May be served once every reachable region has answered, since another may outrank it.
    Waits,
    /// May be served at once.
    Now,
}

/// Sum of a race's ballots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Votes {
    /// The regions that cast a ballot: *reachable* in this race.
    pub reachable: RegionSet,
    /// Those of them at or above the floor.
    pub at_or_above: RegionSet,
    /// All reachable regions said the same thing (one or more did).
    pub agreed: bool,
    /// Every configured region said the same thing, at or above the floor.
    pub unanimous: bool,
}

impl Ballot<'_> {
    /// The version it states of the record at `index`, if it states one that a source of truth may
    /// have given (R15).
    fn version(&self, index: usize, records: usize) -> Option<Version> {
        if self.versions.len() != records {
            return None;
        }
        self.versions.get(index).copied().filter(|version| version.is_credible())
    }

    /// True if it states a version of any of `records` records.
    fn states_any(&self, records: usize) -> bool {
        (0..records).any(|index| self.version(index, records).is_some())
    }

    /// True if it states a version of each of `records` records.
    pub fn is_versioned(&self, records: usize) -> bool {
        records > 0 && (0..records).all(|index| self.version(index, records).is_some())
    }
}

/// Time at which a reply was made according to its `Age` (R8). That counts whole seconds, so the
/// reply may be up to a second older than it says. `Age: 0` is what intermediaries put on replies
/// that they have just fetched, and is taken at its word.
pub fn generated(received: Moment, age: Duration) -> Moment {
    let slack = if age.is_zero() { Duration::ZERO } else { Duration::from_secs(1) };
    received.before(age + slack)
}

/// Rank of `ballot` against its records as they are now: its worst rank over them (R1, R4, R6, R7,
/// R8, R20).
pub fn rank(ballot: &Ballot<'_>, records: &[Snapshot]) -> Rank {
    let ranks = records.iter().enumerate().map(|(index, record)| {
        let version = ballot.version(index, records.len());
        if r8_before_the_marker(ballot, version, record) || r1_below_the_floor(version, record) {
            return Rank::Below;
        }
        let rank = match (ballot.said, version) {
            (Presence::Absent, version) => r6_absence(ballot, version, record),
            (Presence::Present, Some(version)) => r4_announced_without_a_version(ballot, version, record),
            // It states versions of the others and none of this one, which shows that this one is
            // not there.
            (Presence::Present, None) if ballot.states_any(records.len()) => r6_absence(ballot, None, record),
            (Presence::Present, None) => r4_announcer_first(ballot, record),
        };
        if r20_taken_elsewhere(ballot, record) { rank.min(Rank::Waits) } else { rank }
    });
    ranks.min().unwrap_or(Rank::Now)
}

/// R1: nothing below the floor counts.
fn r1_below_the_floor(version: Option<Version>, record: &Snapshot) -> bool {
    is_on(Rule::R1) && version.is_some_and(|version| version < record.floor)
}

/// R8: requested after the record's newest announcement, and yet an intermediary made this reply
/// before it. A version at or above the floor passes if the reply was made after the newest thing
/// that was said without one: the floor does not speak for that.
fn r8_before_the_marker(ballot: &Ballot<'_>, version: Option<Version>, record: &Snapshot) -> bool {
    match (ballot.generated, record.marker) {
        _ if !is_on(Rule::R8) => false,
        (Some(generated), Some(marker)) => {
            let speaks = version.is_some_and(|version| version >= record.floor)
                && record.stated_since().is_some_and(|since| since <= generated);
            marker.at <= ballot.sent && generated < marker.at && !speaks
        }
        _ => false,
    }
}

/// R4: without versions, the region that announced outranks the others. Before one of theirs is
/// served, every reachable region must have answered.
///
/// The marker does not affect a ballot that was requested before it: the announcer itself may have
/// answered from before its change, and all readers of such a fill came before the announcement (R3
/// keeps it from being stored). If a record has a floor but no such marker, other regions state its
/// versions, so they are waited for.
fn r4_announcer_first(ballot: &Ballot<'_>, record: &Snapshot) -> Rank {
    if !is_on(Rule::R4) {
        return Rank::Now;
    }
    match record.marker.filter(|marker| marker.at <= ballot.sent && !marker.is_surpassed()) {
        Some(marker) if marker.regions.contains(ballot.region) => Rank::Now,
        Some(_) => Rank::Waits,
        None if record.floor > Version::NONE => Rank::Waits,
        None => Rank::Now,
    }
}

/// R6 for a 404 or 410. A tombstone at or above the floor counts at once (R1 was asked before), and
/// so does the word of the region that announced the newest DELETED. Without a version, an absence
/// is below any floor that a CHANGED set; else it takes every reachable region.
fn r6_absence(ballot: &Ballot<'_>, version: Option<Version>, record: &Snapshot) -> Rank {
    if !is_on(Rule::R6) {
        return Rank::Now;
    }
    match (version, record.marker) {
        (Some(_), _) => Rank::Now,
        (None, _) if record.changed && record.floor > Version::NONE => Rank::Below,
        (None, Some(marker)) if marker.deleted && marker.regions.contains(ballot.region) => Rank::Now,
        (None, _) => Rank::Waits,
    }
}

/// R4, R6 for a 200 with a version at or above the floor. A CHANGED or DELETED without a version
/// leaves the floor where it was, so a region that has not ingested it still shows exactly that
/// version (or any, if none was known): the announcer is waited for. A version above the floor is
/// news in itself.
fn r4_announced_without_a_version(ballot: &Ballot<'_>, version: Version, record: &Snapshot) -> Rank {
    let news = record.floor > Version::NONE && version > record.floor;
    match record.marker.filter(|marker| marker.at <= ballot.sent) {
        Some(marker) if !record.at_floor && !news && !marker.regions.contains(ballot.region) && is_on(Rule::R4) => {
            Rank::Waits
        }
        _ => Rank::Now,
    }
}

/// R20: another region took a write that states no version, and this reply may be from before it,
/// whatever it states.
fn r20_taken_elsewhere(ballot: &Ballot<'_>, record: &Snapshot) -> bool {
    let asked_since = record.marker.is_some_and(|marker| marker.at <= ballot.sent);
    asked_since && record.unstated_by().is_some_and(|by| by != ballot.region)
}

/// R7: a 304 is a vote for what the validators that were sent stood for (`known`), unless it states
/// versions itself. R1 then compares them with the floor, as with any other ballot.
pub fn r7_stands_for<'a>(stated: &'a [Version], known: &'a [Version]) -> &'a [Version] {
    if stated.is_empty() || !is_on(Rule::R7) { known } else { stated }
}

/// Which of the ballots, in order of arrival, to keep: the best rank, then the absence that was
/// written (R20), then the highest versions, then presence over absence (R6), then the region that
/// announced a version (R4), that took a write (R20), that announced at all (R4), then the first.
pub fn best(ballots: &[Ballot<'_>], records: &[Snapshot]) -> Option<usize> {
    (0..ballots.len()).max_by_key(|index| (worth(&ballots[*index], records), Reverse(*index)))
}

/// The grounds for keeping a ballot, the first of them first.
fn worth(ballot: &Ballot<'_>, records: &[Snapshot]) -> impl Ord + use<> {
    let versions: u128 = (0..records.len())
        .filter_map(|index| ballot.version(index, records.len()))
        .map(|version| u128::from(version.0))
        .sum();
    let mut written = records.iter().filter(|record| has_written(ballot, record));
    (
        rank(ballot, records),
        ballot.said == Presence::Absent
            && written.clone().any(|record| record.marker.is_some_and(|marker| marker.deleted)),
        versions,
        is_on(Rule::R6) && ballot.said == Presence::Present,
        // It announced with its version: then at least it is known which change that was.
        is_on(Rule::R4) && records.iter().any(|record| record.at_floor && has_announced(ballot, record)),
        written.next().is_some(),
        is_on(Rule::R4) && records.iter().any(|record| has_announced(ballot, record)),
    )
}

/// R4: true if the ballot's region announced the record before the request was sent.
fn has_announced(ballot: &Ballot<'_>, record: &Snapshot) -> bool {
    record.marker.is_some_and(|marker| marker.at <= ballot.sent && marker.regions.contains(ballot.region))
}

/// R20: true if the ballot's region took a write that states no version.
fn has_written(ballot: &Ballot<'_>, record: &Snapshot) -> bool {
    record.unstated_by() == Some(ballot.region)
}

/// Adds up the ballots of `configured` regions. `digest` gives the digest of a ballot's decoded
/// content by its place, and is only called where versions are missing.
pub fn count(
    ballots: &[Ballot<'_>],
    records: &[Snapshot],
    configured: usize,
    digest: impl FnMut(usize) -> Option<u128>,
) -> Votes {
    let reachable = ballots.iter().map(|ballot| ballot.region).collect();
    let at_or_above: RegionSet =
        ballots.iter().filter(|ballot| rank(ballot, records) > Rank::Below).map(|ballot| ballot.region).collect();
    let agreed = agree(ballots, records.len(), digest);
    let unanimous = agreed && at_or_above == RegionSet::first(configured);
    Votes { reachable, at_or_above, agreed, unanimous }
}

/// True if all ballots say the same: absence, or the same versions, or the same content where one
/// of them states no versions.
fn agree(ballots: &[Ballot<'_>], records: usize, mut digest: impl FnMut(usize) -> Option<u128>) -> bool {
    let Some((first, others)) = ballots.split_first() else { return false };
    if others.iter().any(|ballot| ballot.said != first.said) {
        return false;
    }
    if first.said == Presence::Absent {
        return true;
    }
    if ballots.iter().all(|ballot| ballot.is_versioned(records)) {
        return others.iter().all(|ballot| ballot.versions == first.versions);
    }
    let expected = if others.is_empty() { return true } else { digest(0) };
    expected.is_some() && (1..ballots.len()).all(|index| digest(index) == expected)
}

#[cfg(test)]
mod tests;
