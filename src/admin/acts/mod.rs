//! Acts: what operators do, one per request, if [`access`] admits them. Each is logged before it
//! happens, with who and what, and counted by how it ended.
//!
//! [`asked`] parses a request, and the other files carry out one act each. They also define the
//! replies; `nearside ctl` reads the same types.

use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::http::HeaderMap;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::Semaphore;

use self::access::{Access, Denied, Operator};
use self::asked::ActRequest;
use self::jobs::Jobs;
use self::journal::Journal;
use crate::admin::acts::problem::Problem;
use crate::admin::limits;
use crate::core::Core;
use crate::http::service::ReachedBy;
use crate::telemetry::labels::ACTS;
use crate::telemetry::log::LogError;
use crate::telemetry::rate_limiter::RateLimiter;

pub(crate) mod access;
pub(crate) mod announcements;
mod asked;
pub(crate) mod compare;
pub(crate) mod inspect;
pub(crate) mod jobs;
mod journal;
pub(crate) mod log;
pub(crate) mod purge;
pub(crate) mod refresh;
pub(crate) mod region;
pub(crate) mod reset;
pub(crate) mod target;

/// Every act, in the order in which help lists them.
pub(crate) const NAMES: [&str; 12] = ACTS;

/// Why an act was not carried out. All but the last are for the caller to fix.
#[derive(Debug, thiserror::Error)]
pub enum ActRefused {
    #[error("no act is called {0:?}; the acts are: {acts}", acts = NAMES.join(", "))]
    UnknownAct(String),
    #[error("the arguments exceed {} bytes", limits::ACT_BODY_BYTES)]
    LargeBody,
    /// The body did not arrive in time, or broke off.
    #[error("the arguments did not arrive whole within {} s", limits::ACT_BODY_WAIT.as_secs())]
    SlowBody,
    /// The arguments make no sense to the act.
    #[error("{0}")]
    Malformed(String),
    /// No region would be left to ask.
    #[error(
        "{0} is the last region that is asked; with it drained every miss fails. Say force (--force) when that is meant"
    )]
    LastRegion(String),
    /// The region announces nothing.
    #[error("{0} announces nothing here: it has no topic, or announcements.transport is \"off\"")]
    NoTopic(String),
    /// The log filter has a mistake.
    #[error(transparent)]
    Filter(#[from] LogError),
    /// The configuration has mistakes, or cannot be read again here.
    #[error("{0}")]
    NotReloaded(String),
    /// Enough of the kind is under way already.
    #[error("{0}")]
    Busy(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
}

/// Reads the configuration again; resolves to what changed, or to why nothing did.
pub(crate) type ReloadFn = Box<dyn Fn() -> BoxFuture<'static, Result<Value, ActRefused>> + Send + Sync>;

/// The acts on one sidecar.
pub struct Acts {
    sidecar: Arc<Core>,
    pub access: Access,
    jobs: Jobs,
    journal: Journal,
    /// Limits how many refused attempts are logged.
    denials: RateLimiter,
    room: Semaphore,
    reload: OnceLock<ReloadFn>,
}

impl Acts {
    pub fn new(sidecar: Arc<Core>, access: Access) -> Arc<Self> {
        Arc::new(Self {
            sidecar,
            access,
            jobs: Jobs::default(),
            journal: Journal::default(),
            denials: RateLimiter::new(),
            room: Semaphore::new(limits::ACTS),
            reload: OnceLock::new(),
        })
    }

    /// The sidecar with the newest configuration.
    fn sidecar(&self) -> Arc<Core> {
        self.sidecar.newest()
    }

    /// Sets what `reload` does. Only the first call counts.
    pub fn set_reload(&self, reload: ReloadFn) {
        let _ = self.reload.set(reload);
    }

    /// Handles one request. The act goes on even if its caller hangs up.
    pub(super) async fn answer(
        self: &Arc<Self>,
        name: &str,
        peer: ReachedBy,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Value, Problem> {
        let by = self.access.admit(peer, headers).map_err(|denied| self.denied(denied))?;
        let known = NAMES.into_iter().find(|known| *known == name);
        let name = known.ok_or_else(|| ActRefused::UnknownAct(name.to_owned()))?;
        let done = match read(body).await.and_then(|body| ActRequest::read(name, &body, &self.sidecar())) {
            Ok(asked) => self.perform(name, asked, by).await,
            Err(refused) => Err(refused),
        };
        self.sidecar.metrics.act(name, if done.is_ok() { "done" } else { "refused" });
        if let Err(refused) = &done {
            tracing::warn!(act = name, %by, why = %refused, "an operator's act was refused");
        }
        done.map_err(Problem::from)
    }

    /// Counts every refused attempt, and logs as many as the ration allows.
    pub(super) fn denied(&self, denied: Denied) -> Problem {
        self.sidecar.metrics.act("none", "denied");
        if let Some(left_out) = self.denials.take(self.sidecar.clock.now()) {
            tracing::warn!(why = %denied, left_out, "somebody who may not act was turned away");
        }
        Problem::from(denied)
    }

    async fn perform(
        self: &Arc<Self>,
        name: &'static str,
        asked: ActRequest,
        by: Operator,
    ) -> Result<Value, ActRefused> {
        let what = asked.told(&self.sidecar());
        // Logged before it happens, so that a filter which silences this line is still logged.
        tracing::info!(act = name, %by, what, "an operator acts");
        let own = self.clone();
        let act = async move {
            let Ok(_place) = own.room.try_acquire() else {
                return Err(ActRefused::Busy(format!("{} acts are under way; try again shortly", limits::ACTS)));
            };
            for target in asked.changes().iter().flat_map(|target| target.by_record(&own.sidecar())) {
                own.journal.note(own.sidecar.clock.now(), by, name, target);
            }
            asked.carry_out(&own, by).await
        };
        let ended = self.sidecar.tasks.spawn("act", act).await;
        ended.ok().flatten().unwrap_or_else(|| Err(ActRefused::Failed("the act broke off; see the log".to_owned())))
    }
}

/// Reads the arguments, within their bounds of size and time.
async fn read(body: Body) -> Result<axum::body::Bytes, ActRefused> {
    let read = axum::body::to_bytes(body, limits::ACT_BODY_BYTES);
    match tokio::time::timeout(limits::ACT_BODY_WAIT, read).await {
        Err(_) => Err(ActRefused::SlowBody),
        Ok(Err(error)) if is_too_large(&error) => Err(ActRefused::LargeBody),
        Ok(Err(_)) => Err(ActRefused::SlowBody),
        Ok(Ok(bytes)) => Ok(bytes),
    }
}

fn is_too_large(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<http_body_util::LengthLimitError>())
}

pub(crate) mod problem;
#[cfg(test)]
mod tests;
