//! A region of the world: its chaos server, its topic, and what its ingester is made of.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use nearside::app::services::Engine;
use nearside::config::services::ServedRegion;
use nearside::engine::{EngineError, ScanSegment, Table, bucket};

use super::behind::NodeBehind;
use crate::aws::Aws;
use crate::chaos_server::ChaosServer;
use crate::chaos_server::chaos::ChaosOrder;
use crate::limits;

/// A region: a chaos server on a known port, the node behind it, and its ingester.
pub struct DevRegion {
    pub server: Arc<ChaosServer>,
    /// The ARN of its topic.
    pub topic: String,
    /// Address for operators of its ingester, once it runs.
    pub(super) ingest_admin: std::sync::OnceLock<SocketAddr>,
    /// Address for operators of its node.
    pub(super) node_admin: SocketAddr,
    pub(super) served: ServedRegion,
    /// The node that its server asks.
    pub(super) behind: NodeBehind,
}

impl DevRegion {
    /// Carries out `order` for the region and its topic.
    pub(super) async fn obey(&self, aws: &Aws, order: ChaosOrder) {
        aws.topics.set_faults(&self.topic, |faults| faults.obey(order));
        self.server.obey(order).await;
    }
}

/// Returns the number of items of each record type or view that have at least this version.
pub(super) async fn count(
    engine: &Engine,
    table: Table,
    version: u64,
) -> Result<BTreeMap<String, usize>, EngineError> {
    let (mut counted, mut after) = (BTreeMap::new(), None);
    loop {
        let page = engine.home().scan(table, ScanSegment::WHOLE, after, limits::COUNTED_AT_ONCE).await?;
        for item in page.items.iter().filter(|item| item.version >= version && item.body.is_some()) {
            let name = bucket::name_of(&item.key.partition).unwrap_or_default();
            *counted.entry(name.to_owned()).or_default() += 1;
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(counted),
        }
    }
}
