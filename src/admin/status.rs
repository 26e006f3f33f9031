//! Contents of `/status`: [`Status`], made from the [`Facts`] that `app` gathers, and served as
//! JSON and as gauges.
//!
//! It holds counts, times and configured names only. No field of a `Status` could hold a body, a
//! token or a key.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use strum::{VariantArray, VariantNames};
use url::Url;

use super::audit::AuditStatus;
use super::findings::unrouted::UnroutedStatus;
use super::findings::{Check, Finding};
use super::grants::{GrantsFacts, GrantsStatus};
use super::readiness::{Conditions, ReadyState, Reason, TopicArrivals, lapsed, proof_age, readiness};
use crate::config::{self, Config, RegionConfig, Transport};
use crate::credentials::MinterStatus;
use crate::migration::limits::CHECK_TOP;
use crate::model::ids::{RegionId, RegionSet};
use crate::model::time::Moment;
use crate::protocol::region_views::RegionViews;
use crate::telemetry::counts::RouteOutcome;
use crate::telemetry::metrics::exposition::{CacheGauges, ComparisonGauges, Gauges, GrantsGauges, RegionGauges};
use crate::telemetry::metrics::process::ProcessGauges;
use crate::telemetry::metrics::{Metrics, Totals};

/// Health of a region in races. The race keeps this; `app` fetches it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RaceHealth {
    /// Requests under way.
    pub running: usize,
    /// The 95th percentile of its recent reply times.
    pub p95: Option<Duration>,
    /// Races skip it, except to probe it.
    pub outlier: bool,
    /// It asked to be left alone for this much longer (`Retry-After`).
    pub held_off: Option<Duration>,
    /// An operator took it out.
    pub drained: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheCounts {
    pub entries: u64,
    /// The memory that keeping them takes, bytes.
    pub bytes: u64,
    /// The most that may be: `cache.max_bytes`, or else the cache's share of the available memory.
    pub capacity_bytes: u64,
}

/// The present state that a [`Status`] is made from.
pub struct Facts<'a> {
    pub config: &'a Config,
    pub now: Moment,
    pub started: Moment,
    /// SIGTERM has come.
    pub draining: bool,
    pub regions: RegionFacts<'a>,
    pub cache: CacheCounts,
    /// Connections open to the service's listeners.
    pub connections: usize,
    pub tasks: TaskFacts,
    pub metrics: &'a Metrics,
    /// Whole seconds; `None` without watermarks ([`crate::protocol::standing`]).
    pub bound: Option<u64>,
    pub audit: AuditStatus,
    pub reload: Option<ReloadStatus>,
    pub observations: Observations,
    /// Warnings from reading the settings, one line each.
    pub remarks: Vec<String>,
    pub routes: RouteFacts,
}

/// The regions and their topics.
pub struct RegionFacts<'a> {
    /// Regions as the read path sees them.
    pub region_views: &'a RegionViews,
    /// Races in the order of the configuration; may be shorter while regions are being set up.
    pub races: Vec<RaceHealth>,
    /// Arrivals from their topics, in that order.
    pub arrivals: Vec<TopicArrivals>,
    pub grants: GrantsFacts,
}

/// Tasks, by name.
pub struct TaskFacts {
    pub running: BTreeMap<&'static str, usize>,
    /// Those that panicked since the start, of all names that there are.
    pub panics: BTreeMap<&'static str, u64>,
    /// Long-lived ones that are not well, one line each.
    pub failing: Vec<String>,
}

/// Defects, certain or possible.
#[derive(Default)]
pub struct Observations {
    pub findings: Vec<Finding>,
    pub unrouted_types: Vec<UnroutedStatus>,
    /// Those who mint the sidecar's own credentials, well or not.
    pub credentials: Vec<MinterStatus>,
    /// The highest share of a route's requests that are passed on for their headers, per cent.
    pub passed: Option<u64>,
}

/// Requests by route.
#[derive(Default)]
pub struct RouteFacts {
    /// Each route's path, and its requests by outcome.
    pub counted: Vec<(String, [(RouteOutcome, u64); 3])>,
    /// Routes with a candidate: their modes, and what comparisons have found.
    pub migrations: Vec<(&'static str, ComparisonGauges)>,
}

/// Result of a reload of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReloadStatus {
    /// RFC 3339.
    pub at: String,
    /// `applied`, or `refused` if nothing was changed.
    pub outcome: &'static str,
    /// Changes, one line each.
    pub changed: Vec<String>,
    /// Settings whose new value takes effect only after a restart.
    pub needs_restart: Vec<String>,
    /// Why nothing was changed, one line each.
    pub errors: Vec<String>,
}

/// Contents of `/status`.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    pub version: &'static str,
    /// `service.name`
    pub service: String,
    /// Seconds since the process started.
    pub uptime_s: u64,
    /// `warming`, `fresh`, `doubtful`, `degraded`, `draining`.
    pub state: ReadyState,
    /// Why it is not `fresh`, one line each.
    pub reasons: Vec<String>,
    /// The greatest age of an answer, seconds; `None` without watermarks.
    pub bound_s: Option<u64>,
    /// Transport of announcements: `sqs`, `http`, `off`.
    pub transport: &'static str,
    /// Regions in the order of the configuration.
    pub regions: Vec<RegionStatus>,
    pub cache: CacheCounts,
    /// Since the process started.
    pub totals: Totals,
    /// Results of audits (R17).
    pub audit: AuditStatus,
    /// Grants of the regions (R22); left out while no region states any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<GrantsStatus>,
    /// The last reload of the configuration; `None` if there was none.
    pub reload: Option<ReloadStatus>,
    /// Connections open to the service's listeners.
    pub connections: usize,
    /// Tasks running, by name.
    pub tasks: BTreeMap<&'static str, usize>,
    /// Tasks that panicked since the start, by name.
    pub task_panics: BTreeMap<&'static str, u64>,
    /// Settings that relax a protection, one line each.
    pub insecure: Vec<String>,
    /// Matters to look at although they are not among the reasons, one line each.
    pub warnings: Vec<String>,
    /// Settings that do not fit the service, and what to write instead.
    pub findings: Vec<Finding>,
    /// Announced record types that no route names.
    pub unrouted_types: Vec<UnroutedStatus>,
    /// Routes with a candidate; left out where there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub migrations: Vec<MigrationStatus>,
    /// Kinds of the sidecar's own tokens, and the time until their end.
    #[serde(skip)]
    credentials: Vec<(&'static str, Duration)>,
    #[serde(skip)]
    comparisons: Vec<ComparisonGauges>,
    #[serde(skip)]
    routes: Vec<(String, [(RouteOutcome, u64); 3])>,
}

/// A route with a candidate in `/status`.
#[derive(Clone, Debug, Serialize)]
pub struct MigrationStatus {
    /// Its path.
    pub route: String,
    /// `old`, `check`, `new`.
    pub mode: &'static str,
    /// Number of comparisons with each result.
    pub comparisons: BTreeMap<&'static str, u64>,
    /// For how long all of them have found the same, seconds.
    pub clean_s: Option<u64>,
    /// Places where the two upstreams differ most often, and how often.
    pub places: Vec<DifferingPlace>,
}

/// A place in which two upstreams differ: a JSON Pointer in which keys and indices are `*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DifferingPlace {
    pub pointer: String,
    pub count: u64,
}

impl MigrationStatus {
    fn of(mode: &'static str, found: &ComparisonGauges) -> Self {
        Self {
            route: found.route.clone(),
            mode,
            comparisons: found.comparisons.iter().copied().collect(),
            clean_s: found.clean.map(|span| span.as_secs()),
            places: found
                .places
                .iter()
                .take(CHECK_TOP)
                .map(|(pointer, count)| DifferingPlace { pointer: pointer.clone(), count: *count })
                .collect(),
        }
    }
}

/// One region in `/status`.
#[derive(Clone, Debug, Serialize)]
pub struct RegionStatus {
    pub name: String,
    /// Host, and port if one is set.
    pub host: String,
    /// The ARN of its topic.
    pub topic: Option<String>,
    /// `pending`, `probing`, `live`, `suspect`, `dead`, `paused`; `none` without a topic.
    pub subscription: &'static str,
    /// `none`, `weak`, `path`, `watermark`.
    pub grade: &'static str,
    /// Milliseconds since the newest proof was published.
    pub proof_age_ms: Option<u64>,
    /// Milliseconds for which the lease still holds; 0 without one.
    pub lease_left_ms: u64,
    /// Moves when messages may have been lost.
    pub epoch: u32,
    /// The time through which everything that it ingested is known here, RFC 3339.
    pub watermark: Option<String>,
    /// Milliseconds since the watermark.
    pub watermark_age_ms: Option<u64>,
    /// The greatest age of an answer that it vouches for, seconds: the watermark's age rounded up,
    /// while the lease holds.
    pub bound_s: Option<u64>,
    /// The smallest delay of recent messages, receipt minus SNS `Timestamp`, milliseconds; negative
    /// if SNS's clock is ahead.
    pub announcement_lag_ms: Option<i64>,
    pub race: RaceStatus,
}

/// A region's races in `/status`.
#[derive(Clone, Debug, Serialize)]
pub struct RaceStatus {
    /// Requests under way.
    pub running: usize,
    /// The 95th percentile of its recent reply times, milliseconds.
    pub p95_ms: Option<f64>,
    /// Races skip it, except to probe it.
    pub skipped: bool,
    /// An operator took it out: nobody asks it.
    pub drained: bool,
    /// It asked to be left alone for this much longer, milliseconds.
    pub held_off_ms: Option<u64>,
}

impl Status {
    pub fn of(facts: &Facts<'_>) -> Self {
        let config = facts.config;
        let names: Vec<_> = config.service.regions.iter().map(|region| region.name.clone()).collect();
        let up = facts.now.since(facts.started);
        let conditions = Conditions {
            up,
            draining: facts.draining,
            topics: topics(config),
            drained: (0..)
                .map(RegionId)
                .zip(&facts.regions.races)
                .filter(|(_, race)| race.drained)
                .map(|(id, _)| id)
                .collect(),
            all_fail: all_fail(facts),
            uncredentialed: facts.observations.credentials.iter().any(|minter| !minter.is_usable),
            doubted: facts.observations.findings.iter().any(|finding| finding.check.hides_changes()),
            passed: facts.observations.passed,
            arrivals: &facts.regions.arrivals,
        };
        let readiness = readiness(facts.regions.region_views, facts.now, &conditions);
        let (mut reasons, mut warnings) = (readiness.lines(&names), warnings(facts));
        if matches!(readiness.state, ReadyState::Fresh | ReadyState::Doubtful) {
            // What only operators can end stays among the reasons.
            let (lasting, passing): (Vec<&Reason>, Vec<&Reason>) =
                readiness.reasons.iter().partition(|it| it.is_for_operators());
            warnings.extend(passing.into_iter().map(|reason| reason.line(&names)));
            reasons = lasting.into_iter().map(|reason| reason.line(&names)).collect();
        }
        reasons.extend_from_slice(&facts.tasks.failing);
        reasons.extend(facts.observations.credentials.iter().filter_map(MinterStatus::reason));
        // `Unverified` is already among the reasons.
        for finding in facts.observations.findings.iter().filter(|finding| finding.check != Check::Unverified) {
            let lines = if finding.check.touches_freshness() { &mut reasons } else { &mut warnings };
            lines.push(finding.line());
        }
        Self {
            version: env!("CARGO_PKG_VERSION"),
            service: config.service.name.clone(),
            uptime_s: up.as_secs(),
            state: readiness.state,
            reasons,
            bound_s: facts.bound,
            transport: transport(&config.announcements.transport),
            regions: (0u8..)
                .map(RegionId)
                .zip(&config.service.regions)
                .map(|(id, it)| region(facts, id, it))
                .collect(),
            cache: facts.cache,
            totals: facts.metrics.totals(),
            audit: facts.audit.clone(),
            grants: GrantsStatus::of(&facts.regions.grants, &names),
            reload: facts.reload.clone(),
            connections: facts.connections,
            tasks: facts.tasks.running.clone(),
            task_panics: facts.tasks.panics.clone(),
            insecure: insecure(config),
            warnings,
            findings: facts.observations.findings.clone(),
            unrouted_types: facts.observations.unrouted_types.clone(),
            migrations: facts
                .routes
                .migrations
                .iter()
                .map(|(mode, found)| MigrationStatus::of(mode, found))
                .collect(),
            credentials: expiries(&facts.observations.credentials),
            comparisons: facts.routes.migrations.iter().map(|(_, found)| found.clone()).collect(),
            routes: facts.routes.counted.clone(),
        }
    }

    /// Returns these facts as gauges for `/metrics`.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            process: ProcessGauges {
                uptime: Duration::from_secs(self.uptime_s),
                readiness: self.state.into_str(),
                states: ReadyState::VARIANTS,
                connections: self.connections,
                tasks: self.tasks.clone(),
                task_panics: self.task_panics.clone(),
            },
            cache: CacheGauges {
                entries: self.cache.entries,
                bytes: self.cache.bytes,
                capacity_bytes: self.cache.capacity_bytes,
            },
            bound: self.bound_s,
            audits_open: self.audit.open,
            regions: self.regions.iter().map(RegionStatus::gauges).collect(),
            routes: self.routes.clone(),
            comparisons: self.comparisons.clone(),
            credentials: self.credentials.clone(),
            grants: self.grants.as_ref().map_or_else(GrantsGauges::default, GrantsStatus::gauges),
            findings: self.findings.iter().map(|finding| finding.check.into_str()).collect(),
            checks: Check::VARIANTS.iter().map(|check| check.into_str()).collect(),
        }
    }
}

/// The token of each kind that ends first.
fn expiries(minters: &[MinterStatus]) -> Vec<(&'static str, Duration)> {
    let mut ends = BTreeMap::new();
    for minter in minters {
        let left = minter.left.unwrap_or_default();
        ends.entry(minter.kind.into_str())
            .and_modify(|least: &mut Duration| *least = left.min(*least))
            .or_insert(left);
    }
    ends.into_iter().collect()
}

impl RegionStatus {
    fn gauges(&self) -> RegionGauges {
        RegionGauges {
            state: self.subscription,
            grade: self.grade,
            proof_age: self.proof_age_ms.map(Duration::from_millis),
            lease_left: Duration::from_millis(self.lease_left_ms),
            epoch: self.epoch,
            watermark_age: self.watermark_age_ms.map(Duration::from_millis),
            bound: self.bound_s,
            announcement_lag: self.announcement_lag_ms.map(|lag| lag as f64 / 1e3),
            attempts_running: self.race.running,
            outlier: self.race.skipped,
            drained: self.race.drained,
        }
    }
}

fn region(facts: &Facts<'_>, id: RegionId, configured: &RegionConfig) -> RegionStatus {
    let region_view = facts.regions.region_views.regions.get(id.index()).copied().unwrap_or_default();
    let race = facts.regions.races.get(id.index()).copied().unwrap_or_default();
    let live = facts.regions.region_views.live(facts.now).contains(id);
    let state = if live { region_view.state } else { lapsed(region_view.state) };
    let lease_left = if live { region_view.lease_until.since(facts.now) } else { Duration::ZERO };
    RegionStatus {
        name: configured.name.clone(),
        host: host(&configured.url),
        topic: configured.topic.as_ref().map(|topic| topic.arn.clone()),
        subscription: if topics(facts.config).contains(id) { state.into_str() } else { "none" },
        grade: region_view.grade.into_str(),
        proof_age_ms: proof_age(&region_view, facts.now).map(millis),
        lease_left_ms: millis(lease_left),
        epoch: region_view.epoch.0,
        watermark: region_view.watermark.map(|at| humantime::format_rfc3339_millis(at.to_system_time()).to_string()),
        watermark_age_ms: region_view.watermark_at.map(|at| millis(facts.now.since(at))),
        bound_s: region_view.bound(facts.now).filter(|_| live),
        announcement_lag_ms: facts.regions.arrivals.get(id.index()).and_then(|arrivals| arrivals.lag_ms),
        race: RaceStatus {
            running: race.running,
            p95_ms: race.p95.map(|p95| p95.as_secs_f64() * 1e3),
            skipped: race.outlier,
            drained: race.drained,
            held_off_ms: race.held_off.map(millis),
        },
    }
}

/// The regions that announce: those with a topic, while a transport is on.
fn topics(config: &Config) -> RegionSet {
    if config.announcements.transport == Transport::Off {
        return RegionSet::EMPTY;
    }
    (0u8..)
        .map(RegionId)
        .zip(&config.service.regions)
        .filter(|(_, region)| region.topic.is_some())
        .map(|(id, _)| id)
        .collect()
}

fn all_fail(facts: &Facts<'_>) -> bool {
    !facts.regions.races.is_empty() && facts.regions.races.iter().all(|race| race.outlier || race.drained)
}

const fn transport(transport: &Transport) -> &'static str {
    match transport {
        Transport::Sqs => "sqs",
        Transport::Http { .. } => "http",
        Transport::Off => "off",
    }
}

/// Host and port alone: the rest of a configured URL is nobody's business.
fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Settings that relax a protection, one line each.
pub(crate) fn insecure(config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(signer) = &config.announcements.insecure_sns_signer {
        lines.push(format!("announcements.insecure_sns_signer: certificates of {} are trusted", host(signer)));
    }
    if let Some(tcp) = config.listen.tcp.filter(|tcp| !tcp.ip().is_loopback()) {
        lines.push(format!("listen.tcp: {tcp} is not loopback"));
    }
    if !config.admin.listen.ip().is_loopback() {
        lines.push(format!("admin.listen: {} is not loopback", config.admin.listen));
    }
    for region in &config.service.regions {
        if region.url.scheme() == "http" && !config::is_loopback(&region.url) {
            lines.push(format!("service.region {}: {} is asked without TLS", region.name, host(&region.url)));
        }
    }
    lines
}

fn warnings(facts: &Facts<'_>) -> Vec<String> {
    let mut lines = facts.remarks.clone();
    if facts.metrics.totals().identity_churn > 0 {
        let advice = "many identities read the same record: callers seem to mint a token per request, and never hit; \
                      give the route `identity = \"sidecar\"` with credentials of the sidecar's own";
        lines.push(advice.to_owned());
    }
    let paused = facts.metrics.totals().uncounted_pauses_s;
    if paused > 0.0 {
        lines.push(format!(
            "the calendar was set forward by {paused:.1} s in all, or this machine was paused and did not count it: \
             everything here was taken to be as much older each time"
        ));
    }
    lines
}

#[cfg(test)]
pub(super) mod tests;
