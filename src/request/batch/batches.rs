//! State that all batches share.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::limits;
use crate::config::Config;
use crate::race::gather::Unable;

/// Turns of the keys that are asked for, and the regions that take no batches.
pub(crate) struct Batches {
    /// Permits for keys that are asked for.
    pub(super) turns: Arc<Semaphore>,
    /// Largest number of them.
    pub(super) most: usize,
    pub(super) unable: Arc<Unable>,
}

impl Batches {
    /// At most `races` at once, and a share of what each region is asked.
    pub(crate) fn new(config: &Config, races: usize) -> Self {
        let most = (config.race.permits.min(races) / limits::PERMITS_SHARE).max(1);
        Self { turns: Arc::new(Semaphore::new(most)), most, unable: Arc::default() }
    }
}
