//! Opens the engine that the file names: where records lie and how changes travel.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt, ready};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::start_error::ServiceStartError;
use crate::aws::clients::Sdk;
use crate::aws::engine_clients::EngineClients;
use crate::config::is_loopback;
use crate::config::services::{EngineConfig, ServedRegion};
use crate::engine::aws::{DynamoTables, KinesisFeed, ShardReading, SnsTopic};
use crate::engine::limits::REDB_HOUSEKEEPING_EVERY;
use crate::engine::memory::MemoryStore;
use crate::engine::redb::Embedded;
use crate::engine::{EngineError, Feed, Stream, Tables, Topic};
use crate::model::time::Clock;
use crate::tasks::on_disk;
use crate::tasks::supervision::pass_panic_on;

/// An engine that is open; clones share it.
#[derive(Clone)]
pub struct Engine {
    kind: EngineKind,
    sdk: Sdk,
    /// Lock by which only one of the services that share it keeps house.
    housekeeping: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Clone)]
enum EngineKind {
    Memory(MemoryPlaces),
    Embedded(Embedded),
    Aws(AwsHome),
}

/// Each place's tables, made when they are first asked for.
#[derive(Clone)]
struct MemoryPlaces {
    clock: Clock,
    places: Arc<Mutex<BTreeMap<String, MemoryStore>>>,
}

#[derive(Clone)]
struct AwsHome {
    clients: EngineClients,
    prefix: String,
    clock: Clock,
    is_emulator: bool,
}

/// The place of the catalogue and the views; no region is called so.
const HOME: &str = "";

impl Engine {
    /// Opens what `config` names. Topics are reached through `sdk`.
    pub async fn open(config: &EngineConfig, sdk: Sdk, clock: &Clock) -> Result<Self, ServiceStartError> {
        let kind = match config {
            EngineConfig::Memory => EngineKind::Memory(MemoryPlaces { clock: clock.clone(), places: Arc::default() }),
            EngineConfig::Embedded { directory } => {
                let (directory, clock) = (directory.clone(), clock.clone());
                // On a disk that stalls this takes as long as that does.
                let opened = on_disk(move || Embedded::open(&directory, clock)).await;
                let opened = opened.unwrap_or_else(|| pass_panic_on());
                EngineKind::Embedded(
                    opened.map_err(|source| ServiceStartError::Engine { kind: config.word(), source })?,
                )
            }
            EngineConfig::Aws { region, prefix, endpoint_url } => EngineKind::Aws(AwsHome {
                clients: sdk.engine_clients(region).await,
                prefix: prefix.clone(),
                clock: clock.clone(),
                is_emulator: endpoint_url.as_ref().is_some_and(is_loopback),
            }),
        };
        Ok(Self { kind, sdk, housekeeping: Arc::default() })
    }

    /// Removes what nobody needs any more, until `stopping`. The embedded engine alone needs it.
    pub async fn keep_house(self, stopping: CancellationToken) {
        let EngineKind::Embedded(embedded) = &self.kind else { return };
        let Some(_turn) = stopping.run_until_cancelled(self.housekeeping.lock()).await else { return };
        while stopping.run_until_cancelled(tokio::time::sleep(REDB_HOUSEKEEPING_EVERY)).await.is_some() {
            match stopping.run_until_cancelled(embedded.keep_house(HOME)).await {
                Some(Ok(())) => {}
                Some(Err(error)) => tracing::warn!(%error, "what nobody needs any more could not be removed"),
                None => return,
            }
        }
    }

    /// True if a write that changes nothing may be asked for to see that writes are done: it costs
    /// a commit of the embedded engine, and each time money of AWS's, where a read shows as much.
    pub(super) const fn takes_idle_writes(&self) -> bool {
        matches!(self.kind, EngineKind::Embedded(_))
    }

    /// Asks for room on the disk that the engine has, if it has one.
    pub(super) async fn probe_room(&self) -> Result<(), EngineError> {
        match &self.kind {
            EngineKind::Embedded(embedded) => embedded.probe_room().await,
            EngineKind::Memory(_) | EngineKind::Aws(_) => Ok(()),
        }
    }

    /// The home region's tables.
    pub fn home(&self) -> Arc<dyn Tables> {
        match &self.kind {
            EngineKind::Memory(memory) => Arc::new(memory.place(HOME)),
            EngineKind::Embedded(embedded) => Arc::new(embedded.place(HOME)),
            EngineKind::Aws(home) => Arc::new(DynamoTables::new(home.clients.clone(), &home.prefix)),
        }
    }

    /// A region's own tables.
    pub async fn regional(&self, region: &ServedRegion) -> Arc<dyn Tables> {
        match &self.kind {
            EngineKind::Memory(memory) => Arc::new(memory.place(&region.name)),
            EngineKind::Embedded(embedded) => Arc::new(embedded.place(&region.name)),
            EngineKind::Aws(home) => {
                Arc::new(DynamoTables::new(self.sdk.engine_clients(&region.name).await, &home.prefix))
            }
        }
    }

    /// Feed of a streamed table's changes to `reader`, whose name is its own.
    pub fn feed(&self, stream: Stream, reader: &str) -> Arc<dyn Feed> {
        match &self.kind {
            EngineKind::Memory(memory) => Arc::new(memory.place(HOME).feed(stream)),
            EngineKind::Embedded(embedded) => Arc::new(embedded.place(HOME).feed(stream)),
            EngineKind::Aws(home) => {
                let consumer = format!("{}-{reader}", home.prefix);
                let reading =
                    if home.is_emulator { ShardReading::Polling } else { ShardReading::FanOut { consumer } };
                let (clients, clock) = (home.clients.clone(), home.clock.clone());
                Arc::new(KinesisFeed::new(clients, &home.prefix, stream, reading, clock))
            }
        }
    }

    /// Topic of a region's announcements; without one, they reach nobody.
    pub async fn topic(&self, region: &ServedRegion) -> Arc<dyn Topic> {
        match &region.topic {
            Some(topic) => Arc::new(SnsTopic::new(&self.sdk.engine_clients(&topic.region).await, topic.arn.clone())),
            None => Arc::new(Nobody),
        }
    }
}

impl MemoryPlaces {
    fn place(&self, name: &str) -> MemoryStore {
        let mut places = self.places.lock();
        places.entry(name.to_owned()).or_insert_with(|| MemoryStore::new(self.clock.clone())).clone()
    }
}

/// The topic of a region that has none.
struct Nobody;

impl Topic for Nobody {
    fn publish(&self, _messages: Vec<String>) -> BoxFuture<'_, Result<Vec<usize>, EngineError>> {
        ready(Ok(Vec::new())).boxed()
    }
}
