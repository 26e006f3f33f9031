//! The process around a sidecar or a service: its runtime, its signals, its exit. SIGTERM and SIGINT
//! begin an ordered stop, and do so from before anything is made that would have to be removed; a
//! second one ends the process at once. SIGHUP reloads a sidecar, and ends nothing.

use std::convert::Infallible;
use std::pin::pin;

use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::bounds::{TooFewDescriptors, raise_descriptors};
use super::reload::Source;
use super::services::{self, Contents, ServiceOverrides, ServiceProcess, ServiceStartError};
use super::{Overrides, StartError, Stopped};
use crate::config::Config;
use crate::config::scope::Origins;
use crate::config::services::ServicesConfig;

#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The sidecar did not start. The operator has to fix it.
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Service(#[from] ServiceStartError),
    #[error(transparent)]
    Descriptors(#[from] TooFewDescriptors),
    /// The machine gave no threads or signals.
    #[error("the runtime could not be set up: {0}")]
    Runtime(#[from] std::io::Error),
    /// Tasks had to be dropped at the deadline.
    #[error("stopped at drain.deadline with work unfinished: {0:?}")]
    Late(Vec<&'static str>),
}

/// Runs a sidecar until it is asked to stop; SIGHUP reads `source` again.
pub(crate) fn run(config: Config, source: Source) -> Result<(), RunError> {
    raise_descriptors()?;
    in_time(block_on(async {
        let (mut signals, mut hangups) = (Signals::listen()?, signal(SignalKind::hangup())?);
        let app = super::start_with(config, Overrides { source: Some(source), ..Overrides::default() }).await?;
        let reloader = app.reloader.clone();
        let reload = async || {
            tracing::info!("SIGHUP: reading the configuration again");
            // The result has been reported: logged, counted, and reported in `/status`. While the
            // process stops, it only says so.
            let _ = reloader.reload().await;
        };
        until_reported(&mut signals, &mut hangups, &reload).await;
        Ok(stopped(&mut signals, &mut hangups, &reload, app.stop()).await)
    })?)
}

/// Runs one of the services until it is asked to stop.
pub(crate) fn run_service(
    process: ServiceProcess,
    config: ServicesConfig,
    contents: Contents,
    origins: &Origins,
) -> Result<(), RunError> {
    raise_descriptors()?;
    in_time(block_on(async {
        let (mut signals, mut hangups) = (Signals::listen()?, signal(SignalKind::hangup())?);
        let stop = CancellationToken::new();
        let instead = ServiceOverrides { stop: stop.clone(), ..ServiceOverrides::default() };
        let mut start = pin!(services::start(process, config, contents, origins, instead));
        let started = tokio::select! {
            started = &mut start => started,
            () = signals.received() => {
                stop.cancel();
                tokio::select! {
                    started = &mut start => started,
                    () = signals.received() => {
                        tracing::warn!("asked to stop twice: ending at once");
                        return Ok(Stopped::default());
                    }
                }
            }
        };
        let service = match started {
            Err(ServiceStartError::Stopped) => return Ok(Stopped::default()),
            started => started?,
        };
        let refuse =
            async || tracing::warn!("SIGHUP: settings are read at the start alone; a change needs a restart");
        if !stop.is_cancelled() {
            until_reported(&mut signals, &mut hangups, &refuse).await;
        }
        Ok(stopped(&mut signals, &mut hangups, &refuse, service.stop()).await)
    })?)
}

fn in_time(stopped: Result<Stopped, RunError>) -> Result<(), RunError> {
    let late = stopped?.late;
    if late.is_empty() { Ok(()) } else { Err(RunError::Late(late)) }
}

/// Waits for the order to stop. Meanwhile `hung_up` runs at each SIGHUP.
async fn until_reported(signals: &mut Signals, hangups: &mut Signal, hung_up: &impl AsyncFn()) {
    tokio::select! {
        () = signals.received() => {}
        never = at_hangups(hangups, hung_up) => match never {},
    }
}

/// Stops; at once at a second order. Meanwhile `hung_up` runs at each SIGHUP.
async fn stopped(
    signals: &mut Signals,
    hangups: &mut Signal,
    hung_up: &impl AsyncFn(),
    stop: impl Future<Output = Stopped>,
) -> Stopped {
    tokio::select! {
        stopped = stop => stopped,
        () = signals.received() => {
            tracing::warn!("asked to stop twice: ending at once");
            Stopped::default()
        }
        never = at_hangups(hangups, hung_up) => match never {},
    }
}

/// Runs `hung_up` at each SIGHUP. Those that come while it is under way count as one.
async fn at_hangups(hangups: &mut Signal, hung_up: &impl AsyncFn()) -> Infallible {
    loop {
        if hangups.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
        hung_up().await;
    }
}

/// Runs `work` on a runtime of the process's own. Only this function chooses its kind.
pub fn block_on<F: Future>(work: F) -> Result<F::Output, std::io::Error> {
    // With a single CPU (a container's limit counts), handing tasks to another thread gains
    // nothing, and a thread that waits only for its own sockets sleeps and wakes more cheaply.
    let alone = std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1);
    let mut builder =
        if alone { runtime::Builder::new_current_thread() } else { runtime::Builder::new_multi_thread() };
    let runtime = builder.enable_all().build()?;
    let output = runtime.block_on(work);
    // Blocking DNS lookups must not delay the exit.
    runtime.shutdown_background();
    Ok(output)
}

/// SIGTERM and SIGINT. As long as this lives they end nothing by themselves, and one that comes
/// between two waits is kept.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// Caught, so that a log or a store at the limit of a file's size is an error and not the end.
    _file_limit: Signal,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, std::io::Error> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            _file_limit: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
        })
    }

    /// Resolves at either of them.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Resolves at SIGTERM or SIGINT, from when it is first polled.
pub async fn stop_requested() -> Result<(), std::io::Error> {
    Signals::listen()?.received().await;
    Ok(())
}
