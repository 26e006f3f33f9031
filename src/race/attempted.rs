//! Fate of each region in a race that gave nothing.

use super::region::Attempt;
use crate::http::exchange::Failure;

/// One region that was asked, and its outcome in stable words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempted {
    pub region: String,
    /// A verdict or a failure, with the status if there was one.
    pub outcome: String,
    /// Selects the status that the sidecar answers with.
    pub blame: Blame,
}

/// Cause of a missing answer, as an attempt's end shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The region could not be reached, or its reply could not be used.
    Unusable,
    Late,
    /// It was not asked, for lack of a permit for example.
    NotAsked,
}

impl Blame {
    pub const fn of(failure: &Failure) -> Self {
        match failure {
            Failure::Deadline { .. } => Self::Late,
            Failure::Saturated | Failure::Drained | Failure::NoCredential => Self::NotAsked,
            Failure::Target | Failure::NoRoom => Self::NotAsked,
            Failure::Connect | Failure::Unprocessed | Failure::Truncated | Failure::Oversized { .. } => {
                Self::Unusable
            }
            Failure::Garbage | Failure::Coding { .. } => Self::Unusable,
        }
    }
}

/// The outcome of each region in a race that gave nothing; `names` are the regions'.
pub(crate) fn attempted(names: &[String], attempts: &[Attempt]) -> Vec<Attempted> {
    attempts
        .iter()
        .map(|attempt| Attempted {
            region: names[attempt.region.index()].clone(),
            outcome: match &attempt.outcome {
                Ok(reply) => format!("{} {}", attempt.label().into_str(), reply.status.as_u16()),
                Err(failure) => failure.outcome().into_str().to_owned(),
            },
            blame: attempt.outcome.as_ref().err().map_or(Blame::Unusable, Blame::of),
        })
        .collect()
}
