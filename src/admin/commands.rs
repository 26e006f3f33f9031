//! Admin commands: what operators do, one per request, if [`access`] admits them. Each is logged before it
//! happens, with who and what, and counted by how it ended.
//!
//! [`asked`] parses a request, and the other files carry out one command each. They also define the
//! replies; `nearside ctl` reads the same types.

use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::http::HeaderMap;
use futures_util::future::BoxFuture;
use serde_json::Value;
use strum::VariantNames;
use tokio::sync::Semaphore;

use self::access::{Access, Denied, Operator};
use self::asked::CommandRequest;
use self::jobs::Jobs;
use self::journal::Journal;
use self::problem::Problem;
pub(crate) use self::refused::CommandRefused;
use crate::admin::limits;
use crate::http::service::ReachedBy;
use crate::request::settings::Settings;
use crate::telemetry::metrics::operations::{Command, CommandOutcome};
use crate::telemetry::rate_limiter::RateLimiter;

pub(crate) mod access;
pub(crate) mod announcements;
mod asked;
pub(crate) mod compare;
pub(crate) mod inspect;
pub(crate) mod jobs;
mod journal;
pub(crate) mod log;
pub(crate) mod problem;
pub(crate) mod purge;
pub(crate) mod refresh;
pub(crate) mod refused;
pub(crate) mod region;
pub(crate) mod reset;
pub(crate) mod target;

/// Reads the configuration again; resolves to what changed, or to why nothing did.
pub(crate) type ReloadFn = Box<dyn Fn() -> BoxFuture<'static, Result<Value, CommandRefused>> + Send + Sync>;

/// The commands on one sidecar.
pub struct Commands {
    sidecar: Arc<Settings>,
    pub access: Access,
    jobs: Jobs,
    journal: Journal,
    /// Limits how many refused attempts are logged.
    denials: RateLimiter,
    room: Semaphore,
    reload: OnceLock<ReloadFn>,
}

impl Commands {
    pub fn new(sidecar: Arc<Settings>, access: Access) -> Arc<Self> {
        Arc::new(Self {
            sidecar,
            access,
            jobs: Jobs::default(),
            journal: Journal::default(),
            denials: RateLimiter::new(),
            room: Semaphore::new(limits::COMMANDS),
            reload: OnceLock::new(),
        })
    }

    /// The sidecar with the newest configuration.
    fn sidecar(&self) -> Arc<Settings> {
        self.sidecar.newest()
    }

    /// Sets what `reload` does. Only the first call counts.
    pub fn set_reload(&self, reload: ReloadFn) {
        let _ = self.reload.set(reload);
    }

    /// Handles one request. The command goes on even if its caller hangs up.
    pub(super) async fn answer(
        self: &Arc<Self>,
        name: &str,
        peer: ReachedBy,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Value, Problem> {
        let by = self.access.admit(peer, headers).map_err(|denied| self.denied(denied))?;
        let command: Command = name.parse().map_err(|_| unknown(name))?;
        let done = match arguments(body).await.and_then(|body| CommandRequest::read(command, &body, &self.sidecar()))
        {
            Ok(asked) => self.perform(command.into_str(), asked, by).await,
            Err(refused) => Err(refused),
        };
        let outcome = if done.is_ok() { CommandOutcome::Done } else { CommandOutcome::Refused };
        self.sidecar.fill.shared.metrics.operations.admin_command(Some(command), outcome);
        if let Err(refused) = &done {
            tracing::warn!(command = command.into_str(), %by, why = %refused, "an operator's command was refused");
        }
        done.map_err(Problem::from)
    }

    /// Counts every refused attempt, and logs as many as the ration allows.
    pub(super) fn denied(&self, denied: Denied) -> Problem {
        self.sidecar.fill.shared.metrics.operations.admin_command(None, CommandOutcome::Denied);
        if let Some(suppressed) = self.denials.admit(self.sidecar.fill.shared.clock.now()) {
            tracing::warn!(why = %denied, suppressed, "somebody who may not act was turned away");
        }
        Problem::from(denied)
    }

    async fn perform(
        self: &Arc<Self>,
        name: &'static str,
        asked: CommandRequest,
        by: Operator,
    ) -> Result<Value, CommandRefused> {
        let what = asked.described(&self.sidecar());
        // Logged before it happens, so that a filter which silences this line is still logged.
        tracing::info!(command = name, %by, what, "an operator's command");
        let own = self.clone();
        let command = async move {
            let Ok(_place) = own.room.try_acquire() else {
                return Err(busy());
            };
            for target in asked.changes().iter().flat_map(|target| target.by_record(&own.sidecar())) {
                own.journal.note(own.sidecar.fill.shared.clock.now(), by, name, target);
            }
            own.carry_out(asked, by).await
        };
        let ended = self.sidecar.fill.shared.tasks.spawn("command", command).await;
        ended
            .ok()
            .flatten()
            .unwrap_or_else(|| Err(CommandRefused::Failed("the command broke off; see the log".to_owned())))
    }

    async fn carry_out(&self, asked: CommandRequest, by: Operator) -> Result<Value, CommandRefused> {
        let sidecar = &self.sidecar();
        match asked {
            CommandRequest::Purge(target) => reply(purge::purge(sidecar, &target).await),
            CommandRequest::Refresh(target) => reply(refresh::refresh(sidecar, &self.jobs, target, by).await?),
            CommandRequest::Reset(target) => reply(reset::reset(sidecar, &target)),
            CommandRequest::Inspect(target) => reply(inspect::inspect(sidecar, &self.journal, &target).await),
            CommandRequest::Compare(written) => reply(compare::compare(sidecar, &written).await?),
            CommandRequest::Drain { region, force } => reply(region::drain(sidecar, region, force)?),
            CommandRequest::Restore(region) => reply(region::restore(sidecar, region)),
            CommandRequest::Pause(region) => reply(announcements::pause(sidecar, region)?),
            CommandRequest::Resume(region) => reply(announcements::resume(sidecar, region)?),
            CommandRequest::Log(filter) => reply(log::log(filter)?),
            CommandRequest::Jobs { stop } => reply(jobs::jobs(&self.jobs, sidecar, stop)?),
            CommandRequest::Reload => match self.reload.get() {
                Some(reload) => reload().await,
                None => Err(CommandRefused::Failed("this process cannot read its configuration anew".to_owned())),
            },
        }
    }
}

fn reply(report: impl serde::Serialize) -> Result<Value, CommandRefused> {
    serde_json::to_value(report).map_err(|error| CommandRefused::Failed(error.to_string()))
}

fn unknown(name: &str) -> CommandRefused {
    CommandRefused::UnknownCommand { name: name.to_owned(), known: Command::VARIANTS.join(", ") }
}

pub(super) fn busy() -> CommandRefused {
    CommandRefused::Busy(format!("{} commands are under way; try again shortly", limits::COMMANDS))
}

/// Reads the arguments, within their bounds of size and time.
pub(super) async fn arguments(body: Body) -> Result<axum::body::Bytes, CommandRefused> {
    let read = axum::body::to_bytes(body, limits::COMMAND_BODY_BYTES);
    match tokio::time::timeout(limits::COMMAND_BODY_WAIT, read).await {
        Err(_) => Err(CommandRefused::SlowBody),
        Ok(Err(error)) if is_too_large(&error) => Err(CommandRefused::LargeBody),
        Ok(Err(_)) => Err(CommandRefused::SlowBody),
        Ok(Ok(bytes)) => Ok(bytes),
    }
}

fn is_too_large(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<http_body_util::LengthLimitError>())
}

#[cfg(test)]
mod tests;
