//! Owns the process around a sidecar: its runtime, its signals, its exit.
//!
//! Before it: [`crate::cli`] has a config. After it: an exit code. Invariant: SIGTERM and SIGINT begin an ordered
//! stop; a second one ends at once.

use tokio::signal::unix::{SignalKind, signal};

use super::{StartError, Stopped};
use crate::config::Config;

/// Why the process could not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The sidecar did not start: the operator's to mend.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The machine gave no threads or signals.
    #[error("the runtime could not be set up: {0}")]
    Runtime(#[from] std::io::Error),
    /// Tasks had to be dropped at the deadline.
    #[error("stopped at drain.deadline with work unfinished: {0:?}")]
    Late(Vec<&'static str>),
}

/// Runs a sidecar until it is told to stop.
pub fn run(config: Config) -> Result<(), RunError> {
    let stopped = block_on(async {
        let app = super::start(config).await?;
        told_to_stop().await?;
        let stopped = tokio::select! {
            stopped = app.stop() => stopped,
            again = told_to_stop() => {
                again?;
                tracing::warn!("told to stop twice: ending at once");
                Stopped::default()
            }
        };
        Ok::<_, RunError>(stopped)
    })??;
    if stopped.late.is_empty() { Ok(()) } else { Err(RunError::Late(stopped.late)) }
}

/// Runs `work` on a runtime of the process's own, whose shape is chosen here alone.
pub fn block_on<F: Future>(work: F) -> Result<F::Output, std::io::Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let output = runtime.block_on(work);
    // Blocking DNS look-ups must not hold the exit.
    runtime.shutdown_background();
    Ok(output)
}

/// Resolves at SIGTERM or SIGINT.
pub async fn told_to_stop() -> Result<(), std::io::Error> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
