//! One function per command, each of which calls the module that does the work. Nothing is decided
//! here.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use super::args::HeartbeatArgs;
use super::error::CommandError;
use super::load;
use crate::admin::health::{self, AdminPort};
use crate::app::process;
use crate::app::reload::Source;
use crate::app::services::needed::{self, EngineCheck};
use crate::app::services::verify::{self, VerifyError, VerifyOrder, VerifyShown};
use crate::app::services::{Contents, ServiceProcess, setup};
use crate::aws::clients::Sdk;
use crate::config::error::ConfigError;
use crate::config::scope::Origins;
use crate::config::services::{EngineConfig, ServicesConfig};
use crate::config::{Config, Log, proxies};
use crate::engine::EngineError;
use crate::model::time::Clock;
use crate::sidecar::announcements::heartbeat::Heartbeat;
use crate::sidecar::announcements::janitor::{self, JanitorTarget};
use crate::tasks::Tasks;
use crate::telemetry::log;

fn failed(error: impl std::fmt::Display) -> CommandError {
    CommandError::Failed(error.to_string())
}

/// `nearside run`
pub(super) fn run_sidecar(
    config: Config,
    origins: Origins,
    read: impl Fn() -> Result<(Config, Origins), Vec<ConfigError>> + Send + Sync + 'static,
) -> Result<(), CommandError> {
    begin_log(&config.log, &origins)?;
    process::run(config, Source { read: Box::new(read), origins }).map_err(failed)
}

/// `nearside catalogue`, `nearside views`, `nearside region`
pub(super) fn run_service(
    process: ServiceProcess,
    config: ServicesConfig,
    contents: Contents,
    origins: &Origins,
) -> Result<(), CommandError> {
    begin_log(&config.log, origins)?;
    process::run_service(process, config, contents, origins).map_err(failed)
}

/// `--check` of a service: what AWS says of what the process needs. Where it cannot be asked, that is
/// said and is no failure: pipelines have no credentials.
pub(super) fn look_at_engine(process: &ServiceProcess, config: &ServicesConfig) -> Result<(), CommandError> {
    if !matches!(config.engine, EngineConfig::Aws { .. }) {
        return Ok(());
    }
    match process::block_on(needed::check(process, config)).map_err(failed)? {
        EngineCheck::Whole => report("AWS has every table and stream that this process needs"),
        EngineCheck::NotAsked(why) => report(&format!("AWS was not asked what it has: {why}")),
        EngineCheck::Lacks(lines) => {
            lines.iter().try_for_each(|line| report(line))?;
            Err(CommandError::Failed("the settings are right, but AWS lacks what this process needs".to_owned()))
        }
    }
}

fn report(line: &str) -> Result<(), CommandError> {
    writeln!(std::io::stderr().lock(), "{line}").map_err(failed)
}

/// `nearside setup`
pub(super) fn create_missing(config: &ServicesConfig, origins: &Origins) -> Result<(), CommandError> {
    begin_log(&log::for_commands(), origins)?;
    if !matches!(config.engine, EngineConfig::Aws { .. }) {
        let reported = format!("engine.kind = {:?} needs nothing: it creates what it lacks", config.engine.word());
        return writeln!(std::io::stdout().lock(), "{reported}").map_err(failed);
    }
    process::block_on(setup::set_up(config, &Clock::System, &report_ready)).map_err(failed)?.map_err(failed)?;
    match setup::left_out(config) {
        Some(reported) => writeln!(std::io::stdout().lock(), "{reported}").map_err(failed),
        None => Ok(()),
    }
}

fn report_ready(what: &str, was_there: bool) {
    let how = if was_there { "was there" } else { "created" };
    // If standard output is closed, nobody is left to tell.
    let _ = writeln!(std::io::stdout().lock(), "{what}: {how}");
}

/// `nearside verify`
pub(super) fn compare(
    config: &ServicesConfig,
    contents: Contents,
    order: &VerifyOrder,
    origins: &Origins,
) -> Result<(), CommandError> {
    if matches!(config.engine, EngineConfig::Memory) {
        let reported = "engine.kind = \"memory\": what another process holds in memory cannot be compared";
        return Err(CommandError::Usage(reported.to_owned()));
    }
    begin_log(&log::for_commands(), origins)?;
    let progress = if std::io::stderr().is_terminal() { VerifyShown::OnTerminal } else { VerifyShown::AsLines };
    let verified = verify::verify(config, contents, order, &Clock::System, progress);
    let compared = process::block_on(verified).map_err(failed)?;
    let verified = compared.map_err(|error| match error {
        VerifyError::Open(_) => failed(error),
        VerifyError::Engine(EngineError::Missing { .. } | EngineError::Denied { .. }) => {
            CommandError::Usage(error.to_string())
        }
        VerifyError::Engine(_) => failed(error),
    })?;
    let mut out = std::io::stdout().lock();
    verified.write(&mut out).and_then(|()| out.flush()).map_err(failed)?;
    if verified.is_clean() { Ok(()) } else { Err(CommandError::Failed(String::new())) }
}

fn begin_log(config: &Log, origins: &Origins) -> Result<(), CommandError> {
    log::init(config).map_err(failed)?;
    for warning in &origins.warnings {
        tracing::warn!("{warning}");
    }
    Ok(())
}

/// `nearside health`
pub(super) fn probe(admin: AdminPort, within: Duration) -> Result<(), CommandError> {
    let reasons = health::probe(admin, within).map_err(failed)?;
    let mut out = std::io::stdout().lock();
    reasons.iter().try_for_each(|reason| writeln!(out, "{reason}")).map_err(failed)
}

/// `nearside heartbeat`
pub(super) fn publish_heartbeats(args: HeartbeatArgs) -> Result<(), CommandError> {
    log::init(&log::for_commands()).map_err(failed)?;
    warn_of_proxies();
    process::block_on(async move {
        let topic = args.topic.arn.clone();
        let heartbeat = Heartbeat::new(&Sdk::new(args.endpoint_url), args.topic, Clock::System).await;
        if args.once {
            let slot = heartbeat.publish().await.map_err(failed)?;
            return writeln!(std::io::stdout().lock(), "published heartbeat {slot} on {topic}").map_err(failed);
        }
        let tasks = Tasks::new();
        let stopping = tasks.stopping();
        let reported = process::stop_requested();
        tokio::select! {
            () = heartbeat.run(stopping) => Ok(()),
            reported = reported => reported.map_err(failed),
        }
    })
    .map_err(failed)?
}

/// Says which proxies are ignored, where no settings are read that would say it.
fn warn_of_proxies() {
    let variables: Vec<_> = load::variables().collect();
    proxies::ignored(&variables).for_each(|warning| tracing::warn!("{warning}"));
}

/// `nearside janitor`
pub(super) fn remove_abandoned(config: Config, older_than: Duration, dry_run: bool) -> Result<(), CommandError> {
    log::init(&log::for_commands()).map_err(failed)?;
    warn_of_proxies();
    let report = process::block_on(async move {
        let topics = config.service.regions.iter().filter_map(|region| region.topic.as_ref());
        let places = JanitorTarget::of_topics(topics);
        let sdk = Sdk::new(config.announcements.endpoint_url.clone());
        janitor::sweep(&sdk, &places, Clock::System.wall(), older_than, dry_run).await
    })
    .map_err(failed)?;
    let mut out = std::io::stdout().lock();
    report.write(&mut out).and_then(|()| out.flush()).map_err(failed)?;
    if report.is_clean() { Ok(()) } else { Err(failed("some regions or queues could not be dealt with; see above")) }
}
