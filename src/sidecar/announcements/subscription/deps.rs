//! The deps of the announcement path.

use std::sync::Arc;

use crate::aws::clients::Sdk;
use crate::model::ids::RegionId;
use crate::model::time::Clock;
use crate::protocol::event::Event;
use crate::sidecar::announcements::Intake;
use crate::tasks::Tasks;
use crate::telemetry::metrics::Metrics;

/// Interface of the announcement path to the rest of the process.
#[derive(Clone)]
pub struct SubscriptionDeps {
    pub tasks: Tasks,
    pub clock: Clock,
    /// Sink of events: the one `Freshness::step`. Called from many tasks; must not wait.
    pub events: Arc<dyn Fn(Event) + Send + Sync>,
    /// True if a region's heartbeats prove that its subscription works.
    pub speaks: Arc<dyn Fn(RegionId) -> bool + Send + Sync>,
    /// Returns whether a region is LIVE, by whatever proof counts there. Freshness asks for another
    /// subscription once each time it no longer is.
    pub is_live: Arc<dyn Fn(RegionId) -> bool + Send + Sync>,
    pub intake: Arc<dyn Intake>,
    pub metrics: Arc<Metrics>,
    pub sdk: Sdk,
}
