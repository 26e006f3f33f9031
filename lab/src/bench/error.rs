//! Why a run ended early: its causes are the harness's own, or a subject's.

use super::load::LoadError;
use super::subject::SubjectError;

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// The harness's own servers, or nearside, did not start.
    #[error(transparent)]
    Start(#[from] SubjectError),
    /// A server that was there is gone.
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("there is no scenario {asked:?}; there are {known}")]
    Unknown { asked: String, known: String },
    /// The load generator speaks no TLS, because the cost of TLS would be the client's.
    #[error("{url} cannot be measured: {why}")]
    NotHttp {
        url: String,
        /// Defect, and its remedy.
        why: String,
    },
    /// A subject answers wrongly, so its figures would mean nothing.
    #[error("{subject} answered wrongly: {why}")]
    Wrong { subject: String, why: String },
}
