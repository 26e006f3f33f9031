//! The parts that one service adds to the shell of all.

use std::sync::Arc;

use crate::access::gate::Gate;
use serde_json::Value;

use crate::admin::service_commands::ServiceCommand;
use crate::admin::service_pages::ServiceState;
use crate::app::App;

/// A service's own part of its pages, gathered anew on every call.
pub(super) struct ServiceParts {
    /// Decides by the grants; `None` where callers are not checked.
    pub(super) gate: Option<Arc<Gate>>,
    /// Defects, and the state that they amount to.
    pub(super) state: Box<dyn Fn() -> (ServiceState, Vec<String>) + Send + Sync>,
    /// Its own member of `/status`.
    pub(super) status: Box<dyn Fn() -> Value + Send + Sync>,
    /// Commands of its operators.
    pub(super) commands: Vec<ServiceCommand>,
    /// A region's node, which stops by itself.
    pub(super) node: Option<App>,
}
