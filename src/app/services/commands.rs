//! Commands of the catalogue's operators.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::FutureExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::access::grants::May;
use crate::admin::commands::refused::CommandRefused;
use crate::admin::service_commands::{ServiceCommand, read};
use crate::catalogue::{Catalogue, CatalogueError};
use crate::model::time::Wall;
use crate::repair::changes::{ChangesProgress, ChangesQuery, changes};

/// Arguments of `changes`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangesArguments {
    #[serde(rename = "type")]
    pub record_type: String,
    /// Milliseconds.
    pub since: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
}

pub(super) fn of_catalogue(catalogue: &Arc<Catalogue>) -> Vec<ServiceCommand> {
    let catalogue = catalogue.clone();
    let count = move |_, arguments: Bytes| count_changes(catalogue.clone(), arguments).boxed();
    vec![ServiceCommand { name: "changes", needs: &[May::Inspect, May::Guard, May::Restore], run: Arc::new(count) }]
}

async fn count_changes(catalogue: Arc<Catalogue>, arguments: Bytes) -> Result<Value, CommandRefused> {
    let ChangesArguments { record_type, since, writer } = read(&arguments)?;
    let query = ChangesQuery { record_type, since: Wall::from_millis(since), writer };
    let report = changes(&catalogue, &query, &ChangesProgress::default()).await.map_err(refused)?;
    serde_json::to_value(report).map_err(|error| CommandRefused::Failed(error.to_string()))
}

fn refused(error: CatalogueError) -> CommandRefused {
    match error {
        CatalogueError::UnknownType { .. } => CommandRefused::Malformed(error.to_string()),
        _ => CommandRefused::Failed(error.to_string()),
    }
}
