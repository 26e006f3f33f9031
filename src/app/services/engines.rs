//! Opens the engine that the file names: where records lie and how changes travel.

use std::sync::Arc;

use super::ServiceStartError;
use crate::config::services::EngineConfig;
use crate::engine::memory::MemoryStore;
use crate::engine::{Feed, Stream, Tables};
use crate::model::time::Clock;

/// An engine that is open. Each engine says here what it gives for what.
#[derive(Clone)]
pub enum Engine {
    /// Home and all regions in one store.
    Memory(MemoryStore),
}

impl Engine {
    pub(super) fn open(config: &EngineConfig, clock: &Clock) -> Result<Self, ServiceStartError> {
        match config {
            EngineConfig::Memory => Ok(Self::Memory(MemoryStore::new(clock.clone()))),
            EngineConfig::Embedded { .. } | EngineConfig::Aws { .. } => {
                Err(ServiceStartError::NoEngine(config.word()))
            }
        }
    }

    /// The home region's tables.
    pub fn home(&self) -> Arc<dyn Tables> {
        match self {
            Self::Memory(store) => Arc::new(store.clone()),
        }
    }

    /// The tables of the region of this name.
    pub fn regional(&self, _region: &str) -> Arc<dyn Tables> {
        match self {
            Self::Memory(store) => Arc::new(store.clone()),
        }
    }

    /// What carries the changes of a streamed table.
    pub fn feed(&self, stream: Stream) -> Arc<dyn Feed> {
        match self {
            Self::Memory(store) => Arc::new(store.feed(stream)),
        }
    }
}
