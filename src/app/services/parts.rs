//! The parts that one service adds to the shell of all.

use serde_json::Value;

use crate::admin::service_pages::ServiceState;
use crate::app::App;

/// A service's own part of its pages, gathered anew on every call.
pub(super) struct ServiceParts {
    /// Defects, and the state that they amount to.
    pub(super) state: Box<dyn Fn() -> (ServiceState, Vec<String>) + Send + Sync>,
    /// Its own member of `/status`.
    pub(super) status: Box<dyn Fn() -> Value + Send + Sync>,
    /// A region's node, which stops by itself.
    pub(super) node: Option<App>,
}
