//! Contradictions between the regions of a race about one grant (R22): a region that still observes
//! or asks nobody, has wrong settings, or has another environment's document.

use http::StatusCode;

use crate::http::exchange::Reply;
use crate::model::ids::RegionId;
use crate::race::verdict::is_worthless;
use crate::telemetry::metrics::grants::{Contradiction, GrantsAnswer};

/// Decision of a region about the caller and the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decided {
    Allowed(u64),
    Refused(u64),
    /// It answered and states no grants.
    Silent,
    /// It does not believe the credential.
    Unauthenticated,
}

impl Decided {
    /// Decision that a reply shows; `None` for one that shows none.
    pub(super) fn of(reply: &Reply) -> Option<Self> {
        if is_worthless(reply.status) {
            return None;
        }
        Some(match &reply.grants {
            _ if reply.status == StatusCode::UNAUTHORIZED => Self::Unauthenticated,
            Some(stated) if reply.status == StatusCode::FORBIDDEN => Self::Refused(stated.version),
            Some(stated) => Self::Allowed(stated.version),
            None => Self::Silent,
        })
    }

    /// Word by which it is counted.
    pub(super) const fn answer(self) -> GrantsAnswer {
        match self {
            Self::Allowed(_) => GrantsAnswer::Allowed,
            Self::Refused(_) => GrantsAnswer::Refused,
            Self::Silent => GrantsAnswer::Silent,
            Self::Unauthenticated => GrantsAnswer::Unauthenticated,
        }
    }
}

/// Regions that contradict others. Where by one version as many allow as refuse, both sides do: which of
/// them is wrong, nobody here knows.
pub(super) fn contradictions(all: &[(RegionId, Decided)]) -> Vec<(RegionId, Contradiction)> {
    let is_stated = all.iter().any(|(_, decided)| matches!(decided, Decided::Allowed(_) | Decided::Refused(_)));
    let found = all.iter().filter_map(|(region, decided)| {
        let (contradiction, others) = match *decided {
            Decided::Unauthenticated => return None,
            Decided::Silent => return is_stated.then_some((*region, Contradiction::Silent)),
            Decided::Allowed(version) => (Contradiction::Allowed, count(all, Decided::Refused(version))),
            Decided::Refused(version) => (Contradiction::Refused, count(all, Decided::Allowed(version))),
        };
        (others > 0 && others >= count(all, *decided)).then_some((*region, contradiction))
    });
    found.collect()
}

fn count(all: &[(RegionId, Decided)], wanted: Decided) -> usize {
    all.iter().filter(|(_, decided)| *decided == wanted).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(decided: &[Decided]) -> Vec<(u8, Contradiction)> {
        let decided: Vec<_> = (0..).map(RegionId).zip(decided.iter().copied()).collect();
        contradictions(&decided).into_iter().map(|(region, found)| (region.0, found)).collect()
    }

    #[test]
    fn minority_contradicts_by_one_version() {
        use Decided::{Allowed, Refused, Silent};
        assert_eq!(found(&[Allowed(7), Allowed(7), Refused(7)]), [(2, Contradiction::Refused)]);
        assert_eq!(found(&[Refused(7), Allowed(7), Refused(7)]), [(1, Contradiction::Allowed)]);
        let both = [(0, Contradiction::Allowed), (1, Contradiction::Refused)];
        assert_eq!(found(&[Allowed(7), Refused(7)]), both);
        assert_eq!(found(&[Allowed(6), Refused(7), Refused(7)]), [], "it lags");
        assert_eq!(found(&[Silent, Allowed(7), Silent]), [(0, Contradiction::Silent), (2, Contradiction::Silent)]);
        assert_eq!(found(&[Silent, Silent]), [], "nobody goes by grants");
        assert_eq!(found(&[Silent, Decided::Unauthenticated]), [], "who asks is not known there");
    }
}
