//! Reasons for which a command is not carried out.

use crate::admin::limits;
use crate::telemetry::log::LogError;

/// All but the last are for the caller to fix.
#[derive(Debug, thiserror::Error)]
pub enum CommandRefused {
    #[error("no command is called {name:?}; the commands are: {known}")]
    UnknownCommand { name: String, known: String },
    /// Nobody may command here.
    #[error("{0}")]
    Closed(&'static str),
    #[error("the arguments exceed {} bytes", limits::COMMAND_BODY_BYTES)]
    LargeBody,
    /// The body did not arrive in time, or broke off.
    #[error("the arguments did not arrive whole within {} s", limits::COMMAND_BODY_WAIT.as_secs())]
    SlowBody,
    /// The arguments make no sense to the command.
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
    /// The log filter has an error.
    #[error(transparent)]
    Filter(#[from] LogError),
    /// The configuration has errors, or cannot be read again here.
    #[error("{0}")]
    NotReloaded(String),
    /// Enough of the kind is under way already.
    #[error("{0}")]
    Busy(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
}
