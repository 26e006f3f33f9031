//! What an answer reports: to its caller, to the metrics, to the log.

use std::sync::Arc;

use http::Method;

use super::Core;
use crate::cache::entry::Entry;
use crate::cache::rfc9111;
use crate::core::answer::{Attempted, Blame, CacheLine, Cookies, Detail, Fwd, Outcome, Shown};
use crate::core::fill::{BestError, Failed, Role};
use crate::core::race::region::Leg;
use crate::http::admission::{Admitted, Head};
use crate::model::time::Moment;
use crate::telemetry::counts::RouteCounts;

impl Core {
    /// The outcome of each region in a race that gave nothing.
    pub fn attempted(&self, legs: &[Leg]) -> Vec<Attempted> {
        legs.iter()
            .map(|leg| Attempted {
                region: self.names[leg.region.index()].clone(),
                outcome: match &leg.outcome {
                    Ok(reply) => format!("{} {}", leg.word(), reply.status.as_u16()),
                    Err(failure) => failure.word().to_owned(),
                },
                blame: leg.outcome.as_ref().err().map_or(Blame::Unusable, Blame::of),
            })
            .collect()
    }

    /// Counts a request that the store did not answer.
    pub(crate) fn count_miss(&self, outcome: &Outcome, started: Moment) {
        let took = self.clock.now() - started;
        let (verdict, region) = match outcome {
            Outcome::Shown(shown) if shown.line.hit => ("stale", None),
            Outcome::Shown(shown) if shown.entry.status.is_success() => ("good", Some(shown.entry.region)),
            Outcome::Shown(shown) if shown.entry.status.is_server_error() => ("worthless", Some(shown.entry.region)),
            Outcome::Shown(shown) if matches!(shown.entry.status.as_u16(), 404 | 410) => {
                ("absent", Some(shown.entry.region))
            }
            Outcome::Shown(shown) => ("refused", Some(shown.entry.region)),
            Outcome::Streamed { .. } => ("streamed", None),
            Outcome::BelowFloor(_) => ("too-old", None),
            _ => ("none", None),
        };
        self.metrics.miss(verdict, region, took);
    }

    pub(crate) fn warn_of_churn(&self, path: &str) {
        if let Some(left_out) = self.lines.churn.take(self.clock.now()) {
            tracing::warn!(
                route = %path,
                left_out,
                "many identities ask for one record: callers seem to send a new token with every request, so they \
                 never hit; set identity = \"sidecar\" on this route, or name in identity_headers what stays the same"
            );
        }
        self.metrics.churn();
    }
}

/// Counts a request for a route that went to the regions.
pub(crate) fn count_asked(counts: &RouteCounts, outcome: &Outcome) {
    match outcome {
        Outcome::Shown(shown) if shown.line.hit => counts.stale(),
        _ => counts.miss(),
    }
}

/// A representation for this caller: its validators and HEAD are taken into account.
pub(crate) fn shown(head: Head<'_>, entry: &Arc<Entry>, age: Option<u64>, line: CacheLine) -> Shown {
    let not_modified = rfc9111::not_modified(head.headers, entry);
    let head = *head.method == Method::HEAD;
    Shown { entry: entry.clone(), instead: None, age, not_modified, head, cookies: Cookies::NONE, line }
}

/// The best real error, if there is one; else what became of each region.
pub(crate) fn passed_on(admitted: &Admitted, failed: &Failed, share: Role, fwd: Fwd) -> Outcome {
    let Some(BestError { entry, cookies }) = &failed.best_error else {
        return Outcome::NoneAnswered(failed.asked.clone());
    };
    let line = CacheLine {
        fwd: Some(fwd),
        fwd_status: Some(entry.status.as_u16()),
        detail: Some(Detail::Region(entry.region)),
        ..CacheLine::default()
    };
    let shown = shown(admitted.head(), entry, None, line);
    Outcome::Shown(Shown { cookies: share.cookies(cookies), ..shown })
}
