//! Opens the gate of a service's port: who its callers are, and what they may do.

use std::sync::Arc;

use serde_json::{Value, json};

use super::shell::Shell;
use super::start_error::ServiceStartError;
use crate::access::exposition::GateExposition;
use crate::access::gate::Gate;
use crate::access::issuers::Issuers;
use crate::config::services::AccessMode;

/// The gate of a port whose tokens are for `audience`; `None` where callers are not checked.
pub(super) fn open(shell: &Shell, audience: &str) -> Result<Option<Arc<Gate>>, ServiceStartError> {
    let config = &shell.config.access;
    if config.mode == AccessMode::Off {
        return Ok(None);
    }
    let issuers = Issuers::open(config, audience).map_err(ServiceStartError::Keys)?;
    issuers.watch(&shell.tasks);
    let gate = Arc::new(Gate::new(config, issuers, shell.clock.clone()));
    shell.registry().register_collector(Box::new(GateExposition::new(gate.clone())));
    Ok(Some(gate))
}

/// Its member of `/status`.
pub(super) fn status(gate: Option<&Arc<Gate>>) -> Value {
    gate.map_or(Value::Null, |gate| {
        json!({
            "enforces": gate.enforces(),
            "grants": gate.grants().map(|grants| grants.version()),
            "grants_age_s": gate.age().map(|age| age.as_secs_f64()),
        })
    })
}
