//! Starts what runs in a region.

use std::sync::Arc;

use crate::app::{self, App, Instead, StartError};
use crate::config::Config;
use crate::engine::Tables;
use crate::region::origin::TableOrigin;

/// Starts a node that answers from `tables`. `config` is what [`crate::region::node::config`] made,
/// with whatever else a file says about listeners, announcements and bounds.
pub async fn start_node(config: Config, tables: Arc<dyn Tables>, instead: Instead) -> Result<App, StartError> {
    let origin = TableOrigin::new(&config, tables, instead.clock.clone());
    app::start_with(config, Instead { origin: Some(Arc::new(origin)), ..instead }).await
}
