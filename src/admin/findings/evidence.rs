//! The facts that findings are made from.

use std::time::Duration;

use super::finding::{Check, Finding};
use super::names::list;
use crate::admin::readiness::TopicArrivals;
use crate::config::{Config, Transport};
use crate::model::ids::{RegionId, RegionSet};
use crate::model::time::Moment;
use crate::protocol::region_views::RegionViews;
use crate::protocol::wiring::TypeWiring;
use crate::sidecar::announcements::subscription::SubscriptionStatus;
use crate::telemetry::observed::Notes;

#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    pub config: &'a Config,
    pub notes: &'a Notes,
    /// Regions as the read path sees them.
    pub region_views: &'a RegionViews,
    /// Arrivals from each region's topic, by region.
    pub arrivals: &'a [TopicArrivals],
    pub subscriptions: &'a [SubscriptionStatus],
    /// Each record type that a route names, and what is known about it.
    pub types: &'a [(String, TypeWiring)],
    /// Time for which a region may be the only one to show what nobody announced.
    pub lead_wait: Duration,
    /// Time at which the facts were gathered.
    pub now: Moment,
}

impl Evidence<'_> {
    pub(super) fn name(&self, region: RegionId) -> &str {
        self.config.service.regions.get(region.index()).map_or("?", |region| region.name.as_str())
    }

    pub(super) fn names(&self, regions: impl IntoIterator<Item = RegionId>) -> String {
        list(regions.into_iter().map(|region| self.name(region)))
    }

    /// A finding about a region.
    pub(super) fn finding(&self, region: RegionId, check: Check, saw: String, advice: &str) -> Finding {
        Finding { check, subject: self.name(region).to_owned(), saw, advice: advice.to_owned() }
    }

    /// The regions with a topic; none while announcements are off.
    pub(super) fn topics(&self) -> RegionSet {
        let announces = self.config.announcements.transport != Transport::Off;
        let regions = (0u8..).map(RegionId).zip(&self.config.service.regions);
        regions.filter(|(_, region)| announces && region.topic.is_some()).map(|(id, _)| id).collect()
    }
}
