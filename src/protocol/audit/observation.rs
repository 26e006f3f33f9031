//! An observation of what an entry or a reply shows, and how two of them compare (R17, R23).

use super::AuditVerdict;
use crate::model::ids::{RegionId, Version};
use crate::protocol::switch::{Rule, is_on};

/// What an entry or a reply shows of its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Observation {
    /// 404 or 410.
    pub absent: bool,
    /// A credible version of each record, in the route's order; empty if one is missing.
    pub versions: Box<[Version]>,
    /// A digest of the decoded content, if it was computed.
    pub digest: Option<u128>,
    /// A digest of what the content means, if it was computed (R23).
    pub meaning: Option<u128>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Against {
    Same,
    Newer,
    Older,
    /// Something different, and no version says which is newer.
    Other,
    /// Something different under the same versions (R23).
    OtherContent,
    Unknown,
}

impl Observation {
    /// Compares this with `held`.
    pub(super) fn against(&self, held: &Self) -> Against {
        if !self.versions.is_empty() && self.versions.len() == held.versions.len() {
            let pairs = || self.versions.iter().zip(&held.versions);
            return match (pairs().any(|(new, old)| new > old), pairs().any(|(new, old)| new < old)) {
                (true, _) => Against::Newer,
                (false, true) => Against::Older,
                (false, false) if is_on(Rule::R23) && self.differs_in_content(held) => Against::OtherContent,
                (false, false) => Against::Same,
            };
        }
        match (self.absent, held.absent, self.digest, held.digest) {
            (true, true, ..) => Against::Same,
            (true, false, ..) | (false, true, ..) => Against::Other,
            (_, _, Some(new), Some(old)) if new == old => Against::Same,
            (_, _, Some(_), Some(_)) => Against::Other,
            _ => Against::Unknown,
        }
    }

    /// Says whether this shows the content of `held` under its versions, as far as that can be
    /// compared.
    pub(super) fn upholds(&self, held: &Self) -> bool {
        self.against(held) == Against::Same && (self.absent || self.meaning.is_some() || held.meaning.is_none())
    }

    /// Says whether they are known to show something different.
    pub(super) fn differs_in_content(&self, other: &Self) -> bool {
        match (self.absent, other.absent, self.meaning, other.meaning) {
            (false, false, Some(one), Some(another)) => one != another,
            (one, another, ..) => one != another,
        }
    }
}

/// R23: the judgement of content under the version of what is held; `None` if a region still shows
/// it, or none shows anything else.
pub(super) fn r23_other_content(held: &Observation, seen: &[(RegionId, Observation)]) -> Option<AuditVerdict> {
    if seen.iter().any(|(_, shows)| shows.upholds(held)) {
        return None;
    }
    let others: Vec<_> = seen.iter().filter(|(_, shows)| shows.against(held) == Against::OtherContent).collect();
    let (_, first) = others.first()?;
    if others.iter().any(|(_, shows)| shows.differs_in_content(first)) {
        return Some(AuditVerdict::Undecided);
    }
    Some(AuditVerdict::OtherContent(others.iter().map(|(region, _)| *region).collect()))
}
