//! The verdict on an entry, by what all regions show of it (R17, R23).

use super::observation::{Against, Observation};
use crate::model::ids::{RegionId, RegionSet, Version};

/// Result of one look at all regions about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuditVerdict {
    /// No region that could be compared shows anything newer.
    Fresh,
    /// This region shows a higher version.
    Newer(RegionId, Version),
    /// This region shows something else, and nobody knows which of the two is newer.
    Other(RegionId),
    /// No region shows what is held, and these agree on something else under the same version (R23).
    OtherContent(RegionSet),
    /// This region shows a lower version, though it has had time to catch up: it went back, or lags
    /// beyond `worst_lag`.
    Regressed(RegionId),
    /// Nothing could be compared.
    Undecided,
}

/// Compares an entry with what regions show, without their replies from before an announcement
/// (R8). Regions in `caught_up` should show nothing older than what is held.
pub(crate) fn judge(held: &Observation, seen: &[(RegionId, Observation)], caught_up: RegionSet) -> AuditVerdict {
    let mut verdict = AuditVerdict::Undecided;
    for (region, shows) in seen {
        verdict = match (shows.against(held), verdict) {
            (Against::Newer, _) => {
                let raised = shows.versions.iter().zip(&held.versions).find(|(new, old)| new > old);
                return AuditVerdict::Newer(*region, raised.map_or(Version::NONE, |(new, _)| *new));
            }
            (Against::Other, AuditVerdict::Undecided | AuditVerdict::Fresh | AuditVerdict::Regressed(_)) => {
                AuditVerdict::Other(*region)
            }
            (Against::Older, AuditVerdict::Undecided | AuditVerdict::Fresh) if caught_up.contains(*region) => {
                AuditVerdict::Regressed(*region)
            }
            (Against::Same | Against::Older, AuditVerdict::Undecided) => AuditVerdict::Fresh,
            (_, verdict) => verdict,
        };
    }
    match verdict {
        AuditVerdict::Fresh | AuditVerdict::Undecided => r23_other_content(held, seen).unwrap_or(verdict),
        verdict => verdict,
    }
}

impl AuditVerdict {
    /// Judges a reply by `answered`. R23: other content is newer than what is held only if the
    /// region that answered that shows it too; another may always have had it.
    #[must_use]
    pub(crate) fn of_reply_by(self, answered: RegionId) -> Self {
        match self {
            Self::OtherContent(agreed) if !agreed.contains(answered) => Self::Undecided,
            verdict => verdict,
        }
    }
}

/// R23: the judgement of content under the version of what is held; `None` if a region still shows
/// it, or none shows anything else.
fn r23_other_content(held: &Observation, seen: &[(RegionId, Observation)]) -> Option<AuditVerdict> {
    if seen.iter().any(|(_, shows)| shows.matches(held)) {
        return None;
    }
    let others: Vec<_> = seen.iter().filter(|(_, shows)| shows.against(held) == Against::OtherContent).collect();
    let (_, first) = others.first()?;
    if others.iter().any(|(_, shows)| shows.differs_in_content(first)) {
        return Some(AuditVerdict::Undecided);
    }
    Some(AuditVerdict::OtherContent(others.iter().map(|(region, _)| *region).collect()))
}
