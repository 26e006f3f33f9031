//! Reports of an answer: to its caller, to the metrics, to the log.

use super::answer::Outcome;
use super::settings::Settings;
use crate::fill::outcome::{BestError, Failed, Role};
use crate::http::admission::Admitted;
use crate::model::time::Moment;
use crate::shape::cache_status::{CacheLine, Detail, Fwd};
use crate::shape::shown::Shown;
use crate::telemetry::counts::RouteCounts;
use crate::telemetry::metrics::requests::MissVerdict;

/// Counts a request that the store did not answer.
pub(crate) fn count_miss(settings: &Settings, outcome: &Outcome, started: Moment) {
    let took = settings.fill.shared.clock.now() - started;
    let (verdict, region) = match outcome {
        Outcome::Shown(shown) if shown.line.hit => (MissVerdict::Stale, None),
        Outcome::Shown(shown) if shown.entry.status.is_success() => (MissVerdict::Good, Some(shown.entry.region)),
        Outcome::Shown(shown) if shown.entry.status.is_server_error() => {
            (MissVerdict::Worthless, Some(shown.entry.region))
        }
        Outcome::Shown(shown) if matches!(shown.entry.status.as_u16(), 404 | 410) => {
            (MissVerdict::Absent, Some(shown.entry.region))
        }
        Outcome::Shown(shown) => (MissVerdict::Refused, Some(shown.entry.region)),
        Outcome::Streamed { .. } => (MissVerdict::Streamed, None),
        Outcome::BelowFloor(_) => (MissVerdict::TooOld, None),
        _ => (MissVerdict::None, None),
    };
    settings.fill.shared.metrics.requests.miss(verdict, region, took);
}

pub(crate) fn warn_of_churn(settings: &Settings, path: &str) {
    if let Some(suppressed) = settings.shared.churn.lines.admit(settings.fill.shared.clock.now()) {
        tracing::warn!(
            route = %path,
            suppressed,
            "many identities ask for one record: callers seem to send a new token with every request, so they \
             never hit; set identity = \"sidecar\" on this route, or name in identity_headers what stays the same"
        );
    }
    settings.fill.shared.metrics.requests.churn();
}

/// Counts a request for a route that went to the regions.
pub(crate) fn count_asked(counts: &RouteCounts, outcome: &Outcome) {
    match outcome {
        Outcome::Shown(shown) if shown.line.hit => counts.stale(),
        _ => counts.miss(),
    }
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
    let shown = Shown::of(admitted.head(), entry, None, line);
    Outcome::Shown(Shown { cookies: share.cookies(cookies), ..shown })
}
