//! Wires a region: its ingester on the changes of the views, its node on the port, or one of them.

use axum::Router;
use serde_json::json;
use tokio::net::TcpListener;

use super::{RegionDuties, ServiceParts, ServiceStartError, Shell};
use crate::admin::service_pages::ServiceState;
use crate::config::services::ServedRegion;
use crate::engine::Stream;

pub(super) fn open(
    shell: &Shell,
    region: &ServedRegion,
    duties: RegionDuties,
    callers: Option<TcpListener>,
) -> Result<ServiceParts, ServiceStartError> {
    let (_tables, _changes) = (shell.engine.regional(&region.name), shell.engine.feed(Stream::Views));
    if let Some(listener) = callers {
        shell.serve(listener, "node-connection", Router::new());
    }
    let name = region.name.clone();
    Ok(ServiceParts {
        state: Box::new(|| (ServiceState::Starting, vec!["nothing takes the views yet".to_owned()])),
        status: Box::new(move || json!({ "name": name, "ingest": duties.ingest, "node": duties.node })),
    })
}
