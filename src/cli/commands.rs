//! What each command calls: one function each, into the module that owns the work.
//!
//! Before it: [`super`] parsed and loaded. After it: an exit code. Invariant: nothing is decided here.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use super::{CommandError, DevArgs, DevCommand, HeartbeatArgs};
use crate::admin::health;
use crate::announce::aws::Sdk;
use crate::announce::heartbeat::Heartbeat;
use crate::announce::janitor::{self, Place};
use crate::app::process;
use crate::clock::Clock;
use crate::config::Config;
use crate::config::scope::Origins;
use crate::tasks::Tasks;
use crate::telemetry::log;
use crate::world::demo;

fn failed(error: impl std::fmt::Display) -> CommandError {
    CommandError::Failed(error.to_string())
}

/// `nearside run`
pub(super) fn run_sidecar(config: Config, origins: Origins) -> Result<(), CommandError> {
    log::init(&config.log).map_err(failed)?;
    for warning in &origins.warnings {
        tracing::warn!("{warning}");
    }
    process::run(config).map_err(failed)
}

/// `nearside dev`
pub(super) fn run_world(args: DevArgs) -> Result<(), CommandError> {
    process::block_on(demo::run(args)).map_err(failed)?.map_err(failed)
}

/// `nearside dev put|delete|chaos|state`
pub(super) fn order_world(command: DevCommand) -> Result<(), CommandError> {
    process::block_on(demo::order(command)).map_err(failed)?.map_err(failed)
}

/// `nearside health`
pub(super) fn probe(admin: SocketAddr, within: Duration) -> Result<(), CommandError> {
    health::probe(admin, within).map_err(failed)
}

/// `nearside heartbeat`
pub(super) fn publish_heartbeats(args: HeartbeatArgs) -> Result<(), CommandError> {
    log::init(&log::for_commands()).map_err(failed)?;
    process::block_on(async move {
        let heartbeat = Heartbeat::new(&Sdk::new(args.endpoint_url), args.topic, Clock::System).await;
        if args.once {
            return heartbeat.publish().await.map(drop).map_err(failed);
        }
        let tasks = Tasks::new();
        let stopping = tasks.stopping();
        let told = process::told_to_stop();
        tokio::select! {
            () = heartbeat.run(stopping) => Ok(()),
            told = told => told.map_err(failed),
        }
    })
    .map_err(failed)?
}

/// `nearside janitor`
pub(super) fn remove_abandoned(config: Config, older_than: Duration, dry_run: bool) -> Result<(), CommandError> {
    log::init(&log::for_commands()).map_err(failed)?;
    let report = process::block_on(async move {
        let topics = config.service.regions.iter().filter_map(|region| region.topic.as_ref());
        let places = Place::of_topics(topics);
        let sdk = Sdk::new(config.announcements.endpoint_url.clone());
        janitor::sweep(&sdk, &places, Clock::System.wall(), older_than, dry_run).await
    })
    .map_err(failed)?;
    let mut out = std::io::stdout().lock();
    report.write(&mut out).and_then(|()| out.flush()).map_err(failed)?;
    if report.is_clean() { Ok(()) } else { Err(failed("some regions or queues could not be dealt with; see above")) }
}
