//! Wires the views service: the mapper on the changes of the records, jobs and the sweep.

use serde_json::json;

use super::{ServiceParts, ServiceStartError, Shell};
use crate::admin::service_pages::ServiceState;
use crate::engine::Stream;

pub(super) fn open(shell: &Shell) -> Result<ServiceParts, ServiceStartError> {
    let (_tables, _changes) = (shell.engine.home(), shell.engine.feed(Stream::Changes));
    Ok(ServiceParts {
        state: Box::new(|| (ServiceState::Starting, vec!["nothing maps records yet".to_owned()])),
        status: Box::new(|| json!({})),
    })
}
