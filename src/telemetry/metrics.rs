//! Every counter and histogram, under the names that operators see, and the page that shows them.
//!
//! A metric is one row of its subject's group: its name, its help, its labels and its kind. Labels are
//! closed sets (region names, enums), never a key, a caller's path or a token. Recording takes no lock
//! and allocates nothing; a hit is two atomic additions.

pub mod announcements;
pub mod audits;
pub mod batches;
pub mod credentials;
pub(crate) mod definition;
pub mod exposition;
pub mod grants;
pub mod operations;
mod page;
pub mod payload;
pub mod process;
pub mod races;
pub mod requests;
mod totals;

use std::sync::Arc;

use prometheus_client::registry::Registry;

use crate::protocol::limits::REGIONS;
use crate::telemetry::labels::Regions;
use announcements::AnnouncementMetrics;
use audits::AuditMetrics;
use batches::BatchMetrics;
use credentials::CredentialsMetrics;
use exposition::Gauges;
use grants::GrantsMetrics;
use operations::OperationMetrics;
use payload::PayloadMetrics;
use races::RaceMetrics;
use requests::RequestMetrics;
pub use totals::Totals;

/// All metrics of a sidecar or a node, by subject; clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub requests: RequestMetrics,
    pub payload: PayloadMetrics,
    pub batches: BatchMetrics,
    pub races: RaceMetrics,
    pub announcements: AnnouncementMetrics,
    pub audits: AuditMetrics,
    pub operations: OperationMetrics,
    pub credentials: CredentialsMetrics,
    pub grants: GrantsMetrics,
    registry: Arc<Registry>,
    region_names: Arc<[String]>,
}

impl Default for Metrics {
    /// For tests: as many regions as there may be, named `region-0`, `region-1`, ...
    fn default() -> Self {
        let names: Vec<_> = (0..REGIONS).map(|n| format!("region-{n}")).collect();
        Self::new(&names)
    }
}

impl Metrics {
    /// Metrics for these regions, in configuration order, all at zero.
    pub fn new(region_names: &[String]) -> Self {
        let regions = Regions::new(region_names);
        let requests = RequestMetrics::new(&regions);
        let payload = PayloadMetrics::new(&regions);
        let batches = BatchMetrics::new(&regions);
        let races = RaceMetrics::new(&regions);
        let announcements = AnnouncementMetrics::new(&regions);
        let audits = AuditMetrics::new(&regions);
        let operations = OperationMetrics::new(&regions);
        let credentials = CredentialsMetrics::new(&regions);
        let grants = GrantsMetrics::new(&regions);
        let mut registry = Registry::with_prefix("nearside");
        registry.register_collector(Box::new(requests.clone()));
        registry.register_collector(Box::new(payload.clone()));
        registry.register_collector(Box::new(batches.clone()));
        registry.register_collector(Box::new(races.clone()));
        registry.register_collector(Box::new(announcements.clone()));
        registry.register_collector(Box::new(audits.clone()));
        registry.register_collector(Box::new(operations.clone()));
        registry.register_collector(Box::new(credentials.clone()));
        registry.register_collector(Box::new(grants.clone()));
        let (registry, region_names) = (Arc::new(registry), region_names.into());
        Self {
            requests,
            payload,
            batches,
            races,
            announcements,
            audits,
            operations,
            credentials,
            grants,
            registry,
            region_names,
        }
    }

    /// All metrics in the OpenMetrics text format, with `gauges` as they are now.
    pub fn render(&self, gauges: &Gauges) -> String {
        exposition::page(&self.registry, gauges.clone(), self.region_names.clone())
    }

    /// Totals for `/status` and the demo.
    pub fn totals(&self) -> Totals {
        Totals {
            hits: self.requests.hits(),
            misses: self.requests.misses(),
            stale_served: self.requests.stale_replies(),
            refused: self.requests.refusals(),
            fills_shared: self.requests.shared_fills(),
            attempts: self.races.ended(),
            losing_attempts: self.races.lost(),
            announcements: self.announcements.received(),
            announcements_applied: self.announcements.applied(),
            epochs_moved: self.announcements.epochs_moved(),
            alarms: self.announcements.alarms_raised(),
            identity_churn: self.requests.churn_warnings(),
            uncounted_pauses_s: self.announcements.uncounted_pauses(),
        }
    }
}
