//! Wires the catalogue: its records on the engine's home tables, its API on the port.

use std::sync::Arc;

use serde_json::json;
use tokio::net::TcpListener;

use super::commands;
use super::gate;
use super::parts::ServiceParts;
use super::shell::Shell;
use super::start_error::ServiceStartError;
use crate::access::gate::Gate;
use crate::access::record::GRANTS;
use crate::catalogue::{Catalogue, api, grants};

pub(super) fn open(shell: &Shell, callers: Vec<TcpListener>) -> Result<ServiceParts, ServiceStartError> {
    let names =
        shell.config.catalogue.types.iter().map(|known| known.name.clone()).chain([GRANTS.to_owned()]).collect();
    let gate = gate::open(shell, &shell.config.access.catalogue_audience, names)?;
    let types = shell.contents.types.clone();
    let types = if gate.is_some() { types.without_suggestions() } else { types };
    let catalogue = Arc::new(Catalogue::new(shell.engine.home(), shell.clock.clone(), types));
    shell.registry().register_collector(Box::new(catalogue.counts().clone()));
    gate.iter().for_each(|gate| follow_grants(shell, &catalogue, gate));
    let commands = commands::of_catalogue(&catalogue);
    shell.serve(callers, "catalogue-connection", api::router(catalogue, gate.clone()));
    let types: Vec<String> = shell.config.catalogue.types.iter().map(|known| known.name.clone()).collect();
    let (asked, own) = (gate.clone(), gate.clone());
    Ok(ServiceParts {
        gate: own,
        state: Box::new(move || {
            (gate::state(asked.as_ref()), asked.iter().filter_map(|gate| gate.reason()).collect())
        }),
        status: Box::new(move || json!({ "types": types, "access": gate::status(gate.as_ref()) })),
        commands,
        node: None,
    })
}

/// Keeps the gate's grants as the catalogue has them.
fn follow_grants(shell: &Shell, catalogue: &Arc<Catalogue>, gate: &Arc<Gate>) {
    let (catalogue, gate, stopping) = (catalogue.clone(), gate.clone(), shell.tasks.stopping());
    shell.tasks.spawn_service("grants", move || {
        let (catalogue, gate, stopping) = (catalogue.clone(), gate.clone(), stopping.clone());
        async move { stopping.run_until_cancelled(grants::follow(&catalogue, &gate)).await }
    });
}
