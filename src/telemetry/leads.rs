//! Versions that one region alone shows although no topic announced them. A region that is merely
//! the first to have a change announces it, and the others follow; one of another environment does
//! not, and they never do.

use crate::model::ids::{RecordId, RegionId, RegionSet, Version};
use crate::model::time::Moment;
use crate::telemetry::limits::{LEAD_OVER, LEADS_PER_REGION};

/// A version that one region alone shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lead {
    pub record: RecordId,
    pub region: RegionId,
    pub version: Version,
    /// Time at which the region first showed it.
    pub first: Moment,
    /// Time at which it was last seen to be the only one.
    pub last: Moment,
    /// The regions that answered below it meanwhile.
    pub below: RegionSet,
}

/// Versions that the regions stated of one record in one race.
#[derive(Clone, Copy, Debug)]
pub struct RecordVersions<'a> {
    pub record: RecordId,
    /// Credible versions only.
    pub shown: &'a [(RegionId, Version)],
    /// The newest version that a topic announced, as far as that is known.
    pub announced: Version,
    pub at: Moment,
}

/// The leads that nobody has caught up with, a few at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leads(Vec<Lead>);

impl Leads {
    pub fn compare(&mut self, compared: &RecordVersions<'_>) {
        let RecordVersions { record, shown, announced, at } = *compared;
        let Some(index) = self.0.iter().position(|lead| lead.record == record) else {
            return self.begin(compared);
        };
        let lead = &mut self.0[index];
        let (leader, below) = (lead.region, lead.below);
        let others = shown.iter().filter(|(region, _)| *region != leader);
        let is_reached = announced >= lead.version || others.clone().any(|(_, version)| *version >= lead.version);
        let its_own = shown.iter().find(|(region, _)| *region == leader).map(|(_, version)| *version);
        if is_reached || its_own.is_some_and(|version| version < lead.version) {
            self.0.swap_remove(index);
        } else if its_own.is_some() && shown.len() > 1 {
            lead.below = others.fold(below, |all, (region, _)| all.with(*region));
            lead.last = at;
        }
    }

    /// Notes a version that one region shows, nobody announced, and all others that answered are
    /// below.
    fn begin(&mut self, compared: &RecordVersions<'_>) {
        let RecordVersions { record, shown, announced, at } = *compared;
        let Some((region, version)) = shown.iter().copied().max_by_key(|(_, version)| *version) else { return };
        let others = shown.iter().filter(|(other, _)| *other != region);
        if announced >= version || shown.len() < 2 || others.clone().any(|(_, other)| *other >= version) {
            return;
        }
        // Those that began first are kept: only a lead that lasts says anything, and who reads many
        // records in turn would push out every one of them.
        let of_it: Vec<usize> = (0..self.0.len()).filter(|index| self.0[*index].region == region).collect();
        if of_it.len() >= LEADS_PER_REGION {
            let Some(over) = of_it.into_iter().find(|index| at.since(self.0[*index].last) > LEAD_OVER) else {
                return;
            };
            self.0.swap_remove(over);
        }
        let below = others.map(|(region, _)| *region).collect();
        self.0.push(Lead { record, region, version, first: at, last: at, below });
    }

    pub fn iter(&self) -> impl Iterator<Item = &Lead> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::ids::TypeId;

    const STAGING: RegionId = RegionId(1);

    fn record(hash: u64) -> RecordId {
        RecordId { record_type: TypeId(0), hash }
    }

    /// Compares what regions 0, 1 and 2 showed of record 7 at this second.
    fn seen(leads: &mut Leads, second: u64, versions: &[u64], announced: u64) {
        let shown: Vec<_> = (0u8..).map(RegionId).zip(versions.iter().copied().map(Version)).collect();
        let (at, announced) = (Moment::ZERO + Duration::from_secs(second), Version(announced));
        leads.compare(&RecordVersions { record: record(7), shown: &shown, announced, at });
    }

    fn only(leads: &Leads) -> Option<Lead> {
        leads.iter().next().copied()
    }

    #[test]
    fn lead_lasts_until_someone_reaches_it() {
        let mut leads = Leads::default();
        seen(&mut leads, 1, &[4, 9], 0);
        seen(&mut leads, 5, &[4, 9, 4], 4);
        let lead = only(&leads).unwrap();
        assert_eq!((lead.region, lead.version), (STAGING, Version(9)));
        assert_eq!(lead.last.since(lead.first), Duration::from_secs(4));
        assert_eq!(lead.below, RegionSet::first(3).without(STAGING));
        seen(&mut leads, 6, &[4, 12, 5], 5);
        assert_eq!(only(&leads).unwrap().version, Version(9), "its own changes begin no new lead");
        seen(&mut leads, 7, &[9, 12], 5);
        assert_eq!(only(&leads), None);
    }

    #[test]
    fn announced_equal_or_lone_never_leads() {
        for (versions, announced) in [(&[4, 9][..], 9), (&[9, 9, 4], 0), (&[9], 0), (&[], 0)] {
            let mut leads = Leads::default();
            seen(&mut leads, 1, versions, announced);
            assert_eq!(only(&leads), None, "{versions:?}");
        }
        let mut leads = Leads::default();
        seen(&mut leads, 1, &[4, 9], 0);
        seen(&mut leads, 2, &[4, 9], 9);
        assert_eq!(only(&leads), None, "it was merely the first");
        seen(&mut leads, 3, &[4, 9], 0);
        seen(&mut leads, 4, &[4, 4], 0);
        assert_eq!(only(&leads), None, "it went back");
    }

    fn lead_of(leads: &mut Leads, region: RegionId, hash: u64, second: u64) {
        let shown = [(RegionId(0), Version(1)), (region, Version(2))];
        let at = Moment::ZERO + Duration::from_secs(second);
        leads.compare(&RecordVersions { record: record(hash), shown: &shown, announced: Version::NONE, at });
    }

    #[test]
    fn rotating_record_leads_are_kept() {
        let mut leads = Leads::default();
        for hash in 0..10 * LEADS_PER_REGION as u64 {
            lead_of(&mut leads, STAGING, hash, hash);
        }
        assert_eq!(leads.iter().count(), LEADS_PER_REGION);
        lead_of(&mut leads, STAGING, 0, 90);
        let longest = leads.iter().map(|lead| lead.last.since(lead.first)).max();
        assert_eq!(longest, Some(Duration::from_secs(90)));
    }

    #[test]
    fn leads_are_bounded_per_region() {
        let mut leads = Leads::default();
        for hash in 0..10 * LEADS_PER_REGION as u64 {
            lead_of(&mut leads, STAGING, hash, 1);
        }
        lead_of(&mut leads, RegionId(2), 1_000, 2);
        assert_eq!(leads.iter().filter(|lead| lead.region == RegionId(2)).count(), 1);
    }

    #[test]
    fn stale_leads_are_evicted() {
        let mut leads = Leads::default();
        for hash in 0..LEADS_PER_REGION as u64 {
            lead_of(&mut leads, STAGING, hash, 1);
        }
        lead_of(&mut leads, STAGING, 1_000, 1 + LEAD_OVER.as_secs());
        assert!(leads.iter().all(|lead| lead.record != record(1_000)));
        lead_of(&mut leads, STAGING, 1_000, 2 + LEAD_OVER.as_secs());
        assert!(leads.iter().any(|lead| lead.record == record(1_000)));
        assert_eq!(leads.iter().count(), LEADS_PER_REGION);
    }
}
