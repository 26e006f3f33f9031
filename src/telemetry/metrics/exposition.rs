//! Gauges, which are measured when somebody looks, and the page of all metrics.
//!
//! A label's value is a name from the configuration (a region, a route's path) or a word of the
//! program, never something a caller or a region sent. One exception: the pointers of
//! [`comparisons`], which are names of fields.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;
use strum::VariantArray;

use super::page::Page;
use super::process::ProcessGauges;
use crate::model::time::Wall;
use crate::protocol::event::{Grade, SubscriptionState};
use crate::telemetry::counts::RouteOutcome;

mod comparisons;

pub use comparisons::ComparisonGauges;

/// Media type of what [`crate::telemetry::metrics::Metrics::render`] returns.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Values measured when somebody looks, rather than counted as they happen.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    pub process: ProcessGauges,
    pub cache: CacheGauges,
    /// Greatest age that an answer can have, in seconds, if watermarks can tell.
    pub bound: Option<u64>,
    /// Audited entries for which something newer was seen and which wait for its announcement.
    pub audits_open: usize,
    /// Gauges in configuration order.
    pub regions: Vec<RegionGauges>,
    /// Path of each route, and its requests by outcome.
    pub routes: Vec<(String, [(RouteOutcome, u64); 3])>,
    /// Gauges of routes with a candidate.
    pub comparisons: Vec<ComparisonGauges>,
    /// Kinds of the sidecar's own tokens that are minted, and the time until their end.
    pub credentials: Vec<(&'static str, Duration)>,
    /// Callers' permits that are remembered, and the version of the grants that they are held to.
    pub grants: GrantsGauges,
    /// One word per open finding: something in the configuration does not fit the service.
    pub findings: Vec<&'static str>,
    /// All words that a finding may have.
    pub checks: Vec<&'static str>,
}

/// The measured values of grants.
#[derive(Clone, Debug, Default)]
pub struct GrantsGauges {
    pub permits: usize,
    /// Version of the grants that regions are held to: a time. `None` while no region states any.
    pub floor: Option<Wall>,
    /// Seconds since each issuer's keys were asked for, by its name; without those in files.
    pub keys_ages: Vec<(String, f64)>,
}

/// The measured values of the store.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheGauges {
    pub entries: u64,
    /// Everything that keeping the entries takes, in bytes.
    pub bytes: u64,
    /// `cache.max_bytes`, or else the cache's share of the available memory.
    pub capacity_bytes: u64,
}

/// The measured values of one region.
#[derive(Clone, Debug, Default)]
pub struct RegionGauges {
    /// Word of its [`SubscriptionState`], or `none` for a region without a topic.
    pub state: &'static str,
    /// Word of its [`Grade`].
    pub grade: &'static str,
    /// Time since its newest proof was published; `None` before the first.
    pub proof_age: Option<Duration>,
    pub lease_left: Duration,
    /// Moves when messages may have been lost.
    pub epoch: u32,
    /// Time by which its watermark is behind the present.
    pub watermark_age: Option<Duration>,
    /// Greatest age, in seconds, of an answer that the region vouches for.
    pub bound: Option<u64>,
    /// Time of receipt minus SNS `Timestamp`, in seconds.
    pub announcement_lag: Option<f64>,
    /// Requests to it under way.
    pub attempts_running: usize,
    /// Races skip it, except for probes.
    pub outlier: bool,
    /// An operator took it out, so it is not asked.
    pub drained: bool,
}

/// Gauge that each region has.
struct RegionGauge {
    name: &'static str,
    help: &'static str,
    /// `None` where it is not known.
    value: fn(&RegionGauges) -> Option<f64>,
}

const REGION_GAUGES: [RegionGauge; 10] = [
    RegionGauge {
        name: "proof_age_seconds",
        help: "Time since a region's newest proof was published",
        // Without any proof yet the age is infinite, because any number would look too good.
        value: |it| (it.state != "none").then(|| it.proof_age.map_or(f64::INFINITY, |age| age.as_secs_f64())),
    },
    RegionGauge {
        name: "lease_left_seconds",
        help: "Time for which a region's lease still holds",
        value: |it| Some(it.lease_left.as_secs_f64()),
    },
    RegionGauge {
        name: "watermark_age_seconds",
        help: "Time by which a region's watermark is behind now",
        value: |it| it.watermark_age.map(|age| age.as_secs_f64()),
    },
    RegionGauge {
        name: "region_bound_seconds",
        help: "Greatest age of an answer that a LIVE region vouches for",
        value: |it| it.bound.map(|bound| bound as f64),
    },
    RegionGauge {
        name: "announcement_lag_seconds",
        help: "Receipt less SNS Timestamp, the least of late; all that a clock is off shows here, below zero when ours \
               is behind",
        value: |it| it.announcement_lag,
    },
    RegionGauge {
        name: "epoch",
        help: "A region's epoch since the process started",
        value: |it| Some(f64::from(it.epoch)),
    },
    RegionGauge {
        name: "attempts_running",
        help: "Requests to a region under way",
        value: |it| Some(it.attempts_running as f64),
    },
    RegionGauge {
        name: "region_up",
        help: "0 while races skip a region for its failures",
        value: |it| Some(f64::from(!it.outlier)),
    },
    RegionGauge {
        name: "region_skipped",
        help: "1 while races skip a region for its failures",
        value: |it| Some(f64::from(it.outlier)),
    },
    RegionGauge {
        name: "region_drained",
        help: "1 while an operator keeps a region from being asked",
        value: |it| Some(f64::from(it.drained)),
    },
];

/// Page of what is registered, with `gauges` as they are now.
pub(super) fn page(registry: &Registry, gauges: Gauges, regions: Arc<[String]>) -> String {
    let mut measured = Registry::with_prefix("nearside");
    measured.register_collector(Box::new(Measured { gauges, regions }));
    let mut page = String::with_capacity(16 << 10);
    text::encode_registry(&mut page, registry)
        .and_then(|()| text::encode_registry(&mut page, &measured))
        .and_then(|()| text::encode_eof(&mut page))
        .expect("writing to a String cannot fail");
    page
}

#[derive(Debug)]
struct Measured {
    gauges: Gauges,
    regions: Arc<[String]>,
}

impl Collector for Measured {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut page = Page { encoder };
        self.gauges.process.write(&mut page)?;
        self.gauges.write(&mut page)?;
        comparisons::write(&mut page, &self.gauges.comparisons)?;
        self.regions(&mut page)
    }
}

impl Gauges {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let requests = self.routes.iter().flat_map(|(route, outcomes)| {
            outcomes
                .iter()
                .map(|(outcome, count)| ([("route", route.as_str()), ("outcome", outcome.into_str())], *count))
        });
        page.counters("route_requests", "Requests by the route's path and their outcome", requests)?;
        page.gauge("audit_open", "Audited replies that wait for an announcement", self.audits_open as f64)?;
        if let Some(bound) = self.bound {
            page.gauge("bound_seconds", "Greatest age of an answer", bound as f64)?;
        }
        page.gauge("cache_entries", "Entries kept", self.cache.entries as f64)?;
        page.gauge("cache_bytes", "All that keeping the entries takes", self.cache.bytes as f64)?;
        page.gauge("cache_capacity_bytes", "The most that may be kept", self.cache.capacity_bytes as f64)?;
        let left = self.credentials.iter().map(|(kind, left)| ([("kind", *kind)], left.as_secs_f64()));
        let help = "Time until the end of the sidecar's own token; 0 without one";
        page.gauges("credentials_expiry_seconds", help, left)?;
        page.gauge("permits", "Permits of callers for views that are remembered", self.grants.permits as f64)?;
        let help = "Version of the grants that regions are held to, which is the time of its write; 0 without";
        let floor = self.grants.floor.map_or(0.0, |floor| floor.as_millis() as f64 / 1e3);
        page.gauge("grants_floor_timestamp_seconds", help, floor)?;
        let ages = self.grants.keys_ages.iter().map(|(iss, age)| ([("iss", iss.as_str())], *age));
        let help = "Time since the keys in use were asked for at an issuer; +Inf: they never came";
        page.gauges("access_keys_age_seconds", help, ages)?;
        let findings = self.checks.iter().map(|check| {
            let open = self.findings.iter().filter(|found| *found == check).count() as u64;
            ([("check", *check)], open)
        });
        page.gauges("findings", "Open findings: what of the configuration does not fit the service", findings)
    }
}

impl Measured {
    fn regions(&self, page: &mut Page<'_>) -> fmt::Result {
        let states = self.of_regions().flat_map(|(region, it)| {
            let words = SubscriptionState::VARIANTS.iter().map(|state| state.into_str());
            words.map(move |word| ([("region", region), ("state", word)], u64::from(word == it.state)))
        });
        page.gauges("subscription_state", "The state of a region's subscription", states)?;
        let grades = self.of_regions().flat_map(|(region, it)| {
            let words = Grade::VARIANTS.iter().map(|grade| grade.into_str());
            words.map(move |word| ([("region", region), ("grade", word)], u64::from(word == it.grade)))
        });
        page.gauges("proof_grade", "The grade of a region's newest proof", grades)?;
        REGION_GAUGES.iter().try_for_each(|row| {
            let values = self.of_regions().filter_map(|(region, it)| Some(([("region", region)], (row.value)(it)?)));
            page.gauges(row.name, row.help, values)
        })
    }

    fn of_regions(&self) -> impl Iterator<Item = (&str, &RegionGauges)> {
        self.regions.iter().map(String::as_str).zip(&self.gauges.regions)
    }
}

#[cfg(test)]
mod tests;
