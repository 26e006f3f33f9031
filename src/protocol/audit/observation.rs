//! An observation of what an entry or a reply shows, and how two of them compare (R17, R23).

use crate::model::ids::Version;
use crate::switch::{Rule, is_on};

/// State of its records that an entry or a reply shows.
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
            let mut pairs = self.versions.iter().zip(&held.versions);
            return match (pairs.clone().any(|(new, old)| new > old), pairs.any(|(new, old)| new < old)) {
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
    pub(super) fn matches(&self, held: &Self) -> bool {
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
