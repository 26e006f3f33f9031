//! The process around a sidecar: its runtime, its signals, its exit. SIGTERM and SIGINT begin an
//! ordered stop, and do so from before anything is made that would have to be removed; a second one
//! ends the process at once. SIGHUP reloads and ends nothing.

use std::convert::Infallible;
use std::sync::Arc;

use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::reload::{Reloader, Source};
use super::{Instead, StartError, Stopped};
use crate::config::Config;

#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The sidecar did not start. The operator has to fix it.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The machine gave no threads or signals.
    #[error("the runtime could not be set up: {0}")]
    Runtime(#[from] std::io::Error),
    /// Tasks had to be dropped at the deadline.
    #[error("stopped at drain.deadline with work unfinished: {0:?}")]
    Late(Vec<&'static str>),
}

/// Runs a sidecar until it is told to stop; SIGHUP reads `source` again.
pub(crate) fn run(config: Config, source: Source) -> Result<(), RunError> {
    let stopped = block_on(async {
        let (mut signals, mut hangups) = (Signals::listen()?, signal(SignalKind::hangup())?);
        let app = super::start_with(config, Instead { source: Some(source), ..Instead::default() }).await?;
        let reloader = app.reloader.clone();
        tokio::select! {
            () = signals.told() => {}
            never = reload_at(&mut hangups, &reloader) => match never {},
        }
        let stopped = tokio::select! {
            stopped = app.stop() => stopped,
            () = signals.told() => {
                tracing::warn!("told to stop twice: ending at once");
                Stopped::default()
            }
            never = reload_at(&mut hangups, &reloader) => match never {},
        };
        Ok::<_, RunError>(stopped)
    })??;
    if stopped.late.is_empty() { Ok(()) } else { Err(RunError::Late(stopped.late)) }
}

/// Reloads at each SIGHUP. Those that come while a reload is under way count as one. While the
/// process stops, it only says so.
async fn reload_at(hangups: &mut Signal, reloader: &Arc<Reloader>) -> Infallible {
    loop {
        if hangups.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
        tracing::info!("SIGHUP: reading the configuration again");
        // The result has been reported: logged, counted, and shown in `/status`.
        let _ = reloader.reload().await;
    }
}

/// Runs `work` on a runtime of the process's own. Only this function chooses its kind.
pub(crate) fn block_on<F: Future>(work: F) -> Result<F::Output, std::io::Error> {
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
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, std::io::Error> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Resolves at either of them.
    pub(crate) async fn told(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Resolves at SIGTERM or SIGINT, from when it is first polled.
pub(crate) async fn told_to_stop() -> Result<(), std::io::Error> {
    Signals::listen()?.told().await;
    Ok(())
}
