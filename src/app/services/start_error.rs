//! Reasons for which a service cannot start.

use crate::access::deny_file::DenyFileError;
use crate::access::key_file::KeysUnread;
use crate::app::StartError;
use crate::config::error::ConfigError;
use crate::engine::EngineError;
use crate::http::listener::ListenError;
use crate::http::server_tls::TlsError;

/// The operator has to fix it.
#[derive(Debug, thiserror::Error)]
pub enum ServiceStartError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("engine.kind = {kind:?}: {source}")]
    Engine { kind: &'static str, source: EngineError },
    #[error("region {0:?} has no views: name a file under views.file, or list them under region.views")]
    NoViews(String),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Keys(KeysUnread),
    #[error(transparent)]
    Deny(DenyFileError),
    /// Settings of the node that make no configuration.
    #[error("the node's settings: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Node(Vec<ConfigError>),
    #[error("the node: {0}")]
    NodeStart(Box<StartError>),
    /// It is no fault, and nothing of it runs.
    #[error("it was asked to stop before its engine was open")]
    Stopped,
}
