//! Wires the catalogue: its records on the engine's home tables, its API on the port.

use axum::Router;
use serde_json::json;
use tokio::net::TcpListener;

use super::{ServiceParts, ServiceStartError, Shell};
use crate::admin::service_pages::ServiceState;

pub(super) fn open(shell: &Shell, callers: Option<TcpListener>) -> Result<ServiceParts, ServiceStartError> {
    let _records = shell.engine.home();
    if let Some(listener) = callers {
        shell.serve(listener, "catalogue-connection", Router::new());
    }
    let types: Vec<String> = shell.config.catalogue.types.iter().map(|known| known.name.clone()).collect();
    Ok(ServiceParts {
        state: Box::new(|| (ServiceState::Serving, Vec::new())),
        status: Box::new(move || json!({ "types": types })),
    })
}
