//! Opens the gate of a service's port: who its callers are, and what they may do.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use super::parts::ServiceParts;
use super::service_process::ServiceProcess;
use super::shell::Shell;
use super::start_error::ServiceStartError;
use crate::access::counts::Refusals;
use crate::access::deny_file::DenyFile;
use crate::access::exposition::GateExposition;
use crate::access::gate::{Gate, GateParts};
use crate::access::issuers::Issuers;
use crate::admin::grants::IssuerStatus;
use crate::admin::guard::Operators;
use crate::admin::service_commands::{CommandGate, ServiceCommands};
use crate::admin::service_pages::ServiceState;
use crate::config::services::{AccessConfig, AccessMode};

/// Refusal of commands where a proxy decides who comes in, or others reach the port.
const UNCHECKED: &str = "callers are not checked here, and others than this machine's reach the port: set access.mode \
                         and access.operate_audience";
/// Refusal of commands where no token can be for operators.
const NO_AUDIENCE: &str = "callers are checked, and no audience is operators': set access.operate_audience";

/// The gate of a port whose tokens are for `audience` and whose views or types have these names; `None` where callers are not checked.
pub(super) fn open(
    shell: &Shell,
    audience: &str,
    names: Vec<String>,
) -> Result<Option<Arc<Gate>>, ServiceStartError> {
    let config = &shell.config.access;
    if config.mode == AccessMode::Off {
        return Ok(None);
    }
    let issuers = Issuers::open(config, audience, &shell.clock).map_err(ServiceStartError::Keys)?;
    issuers.watch(&shell.tasks);
    let deny = config.deny_file.as_deref().map(DenyFile::open).transpose().map_err(ServiceStartError::Deny)?;
    deny.iter().for_each(|deny| deny.watch(&shell.tasks));
    let (clock, tasks) = (shell.clock.clone(), shell.tasks.clone());
    let gate = Arc::new(Gate::new(config, GateParts { issuers, deny, names, clock, tasks }));
    shell.registry().register_collector(Box::new(GateExposition::new(gate.clone())));
    Ok(Some(gate))
}

/// True if requests at an admin port may be of others than those on this machine: it is at an address that
/// they reach, or a proxy hands requests on and operators have an audience of their own.
pub(super) fn is_for_others(access: &AccessConfig, admin: SocketAddr, behind_proxy: bool) -> bool {
    !admin.ip().is_loopback() || (behind_proxy && !access.operate_audience.is_empty())
}

/// Operators of an admin port at this address; `None` where only this machine uses it. `gate` is the
/// process's, and `None` where callers are not checked.
pub(super) fn operators(
    shell: &Shell,
    gate: Option<&Arc<Gate>>,
    admin: SocketAddr,
    process: &ServiceProcess,
) -> Result<Option<Operators>, ServiceStartError> {
    let (access, behind_proxy) = (&shell.config.access, process.behind_proxy(&shell.config));
    if !is_for_others(access, admin, behind_proxy) {
        return Ok(None);
    }
    let Some(gate) = gate else { return Ok(Some(Operators { gate: None, behind_proxy })) };
    let issuers = Issuers::open(access, &access.operate_audience, &shell.clock).map_err(ServiceStartError::Keys)?;
    issuers.watch(&shell.tasks);
    Ok(Some(Operators { gate: Some(Arc::new(gate.beside(issuers))), behind_proxy }))
}

/// The commands of an admin port at this address, and who may give them. `operators` are those who see its
/// pages.
pub(super) fn commands(
    shell: &Shell,
    parts: &mut ServiceParts,
    operators: Option<&Operators>,
    admin: SocketAddr,
    process: &ServiceProcess,
) -> Result<ServiceCommands, ServiceStartError> {
    let (access, commands) = (&shell.config.access, std::mem::take(&mut parts.commands));
    let is_local = admin.ip().is_loopback() && !process.behind_proxy(&shell.config);
    let gate = match (&parts.gate, operators.and_then(|operators| operators.gate.clone())) {
        _ if commands.is_empty() => CommandGate::Closed("this service has no commands"),
        (None, _) if is_local => CommandGate::Local,
        (None, _) => CommandGate::Closed(UNCHECKED),
        (Some(_), _) if access.operate_audience.is_empty() => CommandGate::Closed(NO_AUDIENCE),
        (Some(_), Some(gate)) => CommandGate::Grants(gate),
        (Some(gate), None) => {
            let issuers = Issuers::open(access, &access.operate_audience, &shell.clock);
            let issuers = issuers.map_err(ServiceStartError::Keys)?;
            issuers.watch(&shell.tasks);
            CommandGate::Grants(Arc::new(gate.beside(issuers)))
        }
    };
    Ok(ServiceCommands::new(gate, commands))
}

/// Its member of `/status`.
pub(super) fn status(gate: Option<&Arc<Gate>>) -> Value {
    gate.map_or(Value::Null, |gate| {
        json!({
            "enforces": gate.enforces(),
            "grants": gate.grants().map(|grants| grants.version()),
            "grants_age_s": gate.age().map(|age| age.as_secs_f64()),
            "deny_file": gate.deny().map(|deny| json!({ "entries": deny.entries(), "failure": deny.failure() })),
            "refused": gate.counts().refusals().iter().map(refusal).collect::<Vec<_>>(),
            "issuers": gate.issuers().states().into_iter().map(IssuerStatus::from).collect::<Vec<_>>(),
        })
    })
}

/// State of the part behind the gate: it answers nobody before the keys of one issuer are known.
pub(super) fn state(gate: Option<&Arc<Gate>>) -> ServiceState {
    let waits = gate.is_some_and(|gate| gate.enforces() && !gate.issuers().any_known());
    if waits { ServiceState::Starting } else { ServiceState::Serving }
}

/// Requests of a consumer that were refused, or that `enforce` would refuse.
fn refusal(counted: &Refusals) -> Value {
    json!({
        "consumer": counted.consumer,
        "view": counted.view,
        "outcome": <&str>::from(counted.outcome),
        "requests": counted.count,
    })
}
