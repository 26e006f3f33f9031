//! Wires the catalogue: its records on the engine's home tables, its API on the port.

use std::sync::Arc;

use serde_json::json;
use tokio::net::TcpListener;

use super::parts::ServiceParts;
use super::shell::Shell;
use crate::admin::service_pages::ServiceState;
use crate::catalogue::{Catalogue, api};

pub(super) fn open(shell: &Shell, callers: Vec<TcpListener>) -> ServiceParts {
    let types = shell.contents.types.clone();
    let catalogue = Arc::new(Catalogue::new(shell.engine.home(), shell.clock.clone(), types));
    shell.registry().register_collector(Box::new(catalogue.counts().clone()));
    shell.serve(callers, "catalogue-connection", api::router(catalogue));
    let types: Vec<String> = shell.config.catalogue.types.iter().map(|known| known.name.clone()).collect();
    ServiceParts {
        state: Box::new(|| (ServiceState::Serving, Vec::new())),
        status: Box::new(move || json!({ "types": types })),
        node: None,
    }
}
