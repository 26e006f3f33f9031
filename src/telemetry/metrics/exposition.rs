//! Writes metrics in the OpenMetrics text format: names, help texts, labels.
//!
//! A label's value is a name from the configuration (a region, a route's path) or a word of the
//! program, never something a caller or a region sent. One exception: the pointers of [`ways`], which
//! are names of fields.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::protocol::event::{Grade, SubscriptionState};
use crate::protocol::limits::AUDIT_WINDOWS;
use crate::telemetry::counts::{Grid, LatencyHistogram};
use crate::telemetry::labels::ACT_OUTCOMES;
use crate::telemetry::metrics::Cells;
use crate::telemetry::metrics::process::ProcessGauges;

mod payload;
mod ways;

pub use ways::WayGauges;

/// The media type of what [`crate::telemetry::metrics::Metrics::render`] returns.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const NO_REGION: &str = "none";

/// Values measured when somebody looks, rather than counted as they happen.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    pub uptime: Duration,
    /// `warming`, `fresh`, `doubtful`, `degraded` or `draining`.
    pub readiness: &'static str,
    /// The greatest age an answer can have, in seconds, if watermarks can tell.
    pub bound: Option<u64>,
    /// Audited entries for which something newer was seen and which wait for its announcement.
    pub audits_open: usize,
    /// In configuration order.
    pub regions: Vec<RegionGauges>,
    pub cache_entries: u64,
    /// Everything that keeping the entries takes, in bytes.
    pub cache_bytes: u64,
    /// `cache.max_bytes`, or else the cache's share of the available memory.
    pub cache_capacity: u64,
    /// Open connections to the service's listeners.
    pub connections: usize,
    /// Running tasks, by name.
    pub tasks: BTreeMap<&'static str, usize>,
    /// Tasks that panicked, by name.
    pub task_panics: BTreeMap<&'static str, u64>,
    /// Each route's path, and its requests by outcome.
    pub routes: Vec<(String, [(&'static str, u64); 3])>,
    /// Of routes with a second way.
    pub ways: Vec<WayGauges>,
    /// One word per open finding: something in the configuration does not fit the service.
    pub findings: Vec<&'static str>,
    /// All words that a finding may have.
    pub checks: Vec<&'static str>,
}

/// The measured values of one region.
#[derive(Clone, Debug, Default)]
pub struct RegionGauges {
    /// [`crate::protocol::event::SubscriptionState::word`], or `none` for a region without a topic.
    pub state: &'static str,
    /// [`Grade::word`].
    pub grade: &'static str,
    /// How long ago its newest proof was published; `None` before the first.
    pub proof_age: Option<Duration>,
    pub lease_left: Duration,
    /// Moves when messages may have been lost.
    pub epoch: u32,
    /// How far its watermark is behind the present.
    pub watermark_age: Option<Duration>,
    /// The greatest age, in seconds, of an answer that the region vouches for.
    pub bound: Option<u64>,
    /// Time of receipt minus SNS `Timestamp`, in seconds.
    pub announcement_lag: Option<f64>,
    /// Requests to it under way.
    pub legs_running: usize,
    /// Races skip it, except for probes.
    pub outlier: bool,
    /// An operator took it out, so it is not asked.
    pub drained: bool,
}

const STATES: [SubscriptionState; 6] = [
    SubscriptionState::Pending,
    SubscriptionState::Probing,
    SubscriptionState::Live,
    SubscriptionState::Suspect,
    SubscriptionState::Dead,
    SubscriptionState::Paused,
];
const GRADES: [Grade; 4] = [Grade::None, Grade::Weak, Grade::Path, Grade::Watermark];
const READINESS: [&str; 5] = ["warming", "fresh", "doubtful", "degraded", "draining"];

pub(super) fn render(cells: &Arc<Cells>, gauges: &Gauges) -> String {
    let mut registry = Registry::with_prefix("nearside");
    registry.register_collector(Box::new(Scrape { cells: cells.clone(), gauges: gauges.clone() }));
    let mut page = String::with_capacity(16 << 10);
    text::encode(&mut page, &registry).expect("writing to a String cannot fail");
    page
}

#[derive(Debug)]
struct Scrape {
    cells: Arc<Cells>,
    gauges: Gauges,
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let mut page = Page { encoder, regions: &self.cells.regions };
        requests(&mut page, &self.cells)?;
        payload::write(&mut page, &self.cells.payload)?;
        routes(&mut page, &self.gauges)?;
        ways::write(&mut page, &self.gauges.ways)?;
        acts(&mut page, &self.cells)?;
        races(&mut page, &self.cells)?;
        announcements(&mut page, &self.cells)?;
        reloads(&mut page, &self.cells)?;
        audits(&mut page, &self.cells, &self.gauges)?;
        regions(&mut page, &self.gauges)?;
        process(&mut page, &self.gauges)
    }
}

fn requests(page: &mut Page, cells: &Cells) -> fmt::Result {
    page.counter("hits", "Requests answered from the store", cells.hits.count())?;
    page.latency("hit_duration", "How long a request answered from the store took", &cells.hits)?;
    page.grid("misses", "Requests answered after a fill, by what it got and from whom", &cells.misses, "verdict")?;
    page.latency("miss_duration", "How long a request answered after a fill took", &cells.miss_latency)?;
    page.words(
        "stale_served",
        "Stored replies served, labelled, although they could not be shown fresh",
        &cells.stale,
    )?;
    page.words("passed_requests", "Requests passed on to one region, past the store", &cells.passed)?;
    page.words("refused_requests", "Requests refused before they were looked up", &cells.refused)?;
    let mut refusals =
        page.describe("budget_refusals", "Times that a budget had no room", None, MetricType::Counter)?;
    for (word, value) in cells.over_budget.row(0, true) {
        count(&mut refusals.encode_family(&[("budget", word)])?, value)?;
    }
    page.counter("fills_shared", "Readers that joined a fill under way", load(&cells.fills_shared))?;
    page.counter("batches", "Batches answered", load(&cells.batches))?;
    let help = "Parts of batches: from the store, asked for, or with a key that makes no path";
    let mut parts = page.describe("batch_parts", help, None, MetricType::Counter)?;
    for (word, value) in cells.batch_parts.row(0, true) {
        count(&mut parts.encode_family(&[("from", word)])?, value)?;
    }
    page.counter("batches_sent", "Requests to regions for several keys at once", load(&cells.batches_sent))?;
    page.counter("identity_churn", "Warnings that callers seem to mint a token per request", load(&cells.churn))
}

fn routes(page: &mut Page, gauges: &Gauges) -> fmt::Result {
    let help = "Requests by the route's path and what became of them";
    let mut requests = page.describe("route_requests", help, None, MetricType::Counter)?;
    for (route, outcomes) in &gauges.routes {
        for (outcome, value) in outcomes {
            count(&mut requests.encode_family(&[("route", route.as_str()), ("outcome", *outcome)])?, *value)?;
        }
    }
    Ok(())
}

fn acts(page: &mut Page, cells: &Cells) -> fmt::Result {
    let mut acts = page.describe("acts", "What operators did, by act and outcome", None, MetricType::Counter)?;
    for (row, outcome) in ACT_OUTCOMES.iter().enumerate() {
        for (act, value) in cells.acts.row(row, true) {
            count(&mut acts.encode_family(&[("act", act), ("outcome", *outcome)])?, value)?;
        }
    }
    Ok(())
}

fn races(page: &mut Page, cells: &Cells) -> fmt::Result {
    page.grid("legs", "Tries at a region that ended, by their verdict or failure", &cells.legs, "verdict")?;
    page.latencies("leg_duration", "How long a try at a region took", &cells.leg_latency)?;
    let losers: Vec<_> = cells.losers.iter().map(load).collect();
    page.per_region("losing_legs", "Tries that lost their race", &losers)
}

fn announcements(page: &mut Page, cells: &Cells) -> fmt::Result {
    page.grid("announcements", "Announcements received, by outcome", &cells.announcements, "outcome")?;
    page.latencies("propagation_delay", "From a region's ingest to applied here", &cells.propagation)?;
    page.grid("epoch_moves", "Times that messages may have been lost", &cells.epochs, "reason")?;
    page.grid(
        "alarms",
        "Floors dropped, versions that jumped (rule R15), floods of announcements",
        &cells.alarms,
        "reason",
    )?;
    let pauses = "By how much the calendar ran ahead of the clock since boot, taken for pauses (rule R9)";
    let pauses = page.describe("uncounted_pauses", pauses, Some(&Unit::Seconds), MetricType::Counter);
    pauses?.encode_counter::<NoLabelSet, f64, u64>(&(load(&cells.uncounted_pauses_ms) as f64 / 1e3), None)
}

fn reloads(page: &mut Page, cells: &Cells) -> fmt::Result {
    let mut ended =
        page.describe("reloads", "Reloads of the configuration, by their end", None, MetricType::Counter)?;
    for (word, value) in cells.reloads.row(0, true) {
        count(&mut ended.encode_family(&[("outcome", word)])?, value)?;
    }
    Ok(())
}

fn audits(page: &mut Page, cells: &Cells, gauges: &Gauges) -> fmt::Result {
    let mut entries =
        page.describe("audit_entries", "Stored replies due for their audit, by its end", None, MetricType::Counter)?;
    for (word, value) in cells.audited.row(0, true) {
        count(&mut entries.encode_family(&[("result", word)])?, value)?;
    }
    let help = "Audited replies, by whether their change was announced within this of its first sight";
    let mut windows = page.describe("audit_windows", help, None, MetricType::Counter)?;
    for (row, window) in AUDIT_WINDOWS.iter().enumerate() {
        let within = format!("{}s", window.as_secs());
        for (word, value) in cells.audit_windows.row(row, true) {
            count(&mut windows.encode_family(&[("within", within.as_str()), ("outcome", word)])?, value)?;
        }
    }
    page.gauge("audit_open", "Audited replies that wait for an announcement", None, gauges.audits_open as f64)
}

fn regions(page: &mut Page, gauges: &Gauges) -> fmt::Result {
    let seen = &gauges.regions;
    let states = STATES.map(SubscriptionState::word);
    page.states("subscription_state", "The state of a region's subscription", "state", &states, |n| {
        seen.get(n).map(|region| region.state)
    })?;
    let grades = GRADES.map(Grade::word);
    page.states("proof_grade", "How good a region's newest proof is", "grade", &grades, |n| {
        seen.get(n).map(|region| region.grade)
    })?;
    let seconds = Some(&Unit::Seconds);
    page.region_gauge("proof_age", "How long ago a region's newest proof was published", seconds, |n| {
        // Without any proof yet the age is infinite, because any number would look too good.
        let region = seen.get(n).filter(|region| region.state != "none")?;
        Some(region.proof_age.map_or(f64::INFINITY, |age| age.as_secs_f64()))
    })?;
    page.region_gauge("lease_left", "How long a region's lease still holds", seconds, |n| {
        Some(seen.get(n)?.lease_left.as_secs_f64())
    })?;
    page.region_gauge("watermark_age", "How far a region's watermark is behind now", seconds, |n| {
        seen.get(n)?.watermark_age.map(|age| age.as_secs_f64())
    })?;
    page.region_gauge(
        "region_bound",
        "How old an answer that a LIVE region vouches for can at most be",
        seconds,
        |n| seen.get(n)?.bound.map(|bound| bound as f64),
    )?;
    page.region_gauge(
        "announcement_lag",
        "Receipt less SNS Timestamp, the least of late; all that a clock is off shows here, below zero when ours is behind",
        seconds,
        |n| seen.get(n)?.announcement_lag,
    )?;
    page.region_gauge("epoch", "A region's epoch since the process started", None, |n| {
        Some(f64::from(seen.get(n)?.epoch))
    })?;
    page.region_gauge("legs_running", "Requests to a region under way", None, |n| {
        Some(seen.get(n)?.legs_running as f64)
    })?;
    page.region_gauge("region_up", "0 while races skip a region for its failures", None, |n| {
        Some(if seen.get(n)?.outlier { 0.0 } else { 1.0 })
    })?;
    page.region_gauge("region_skipped", "1 while races skip a region for its failures", None, |n| {
        Some(if seen.get(n)?.outlier { 1.0 } else { 0.0 })
    })?;
    page.region_gauge("region_drained", "1 while an operator keeps a region from being asked", None, |n| {
        Some(if seen.get(n)?.drained { 1.0 } else { 0.0 })
    })
}

fn process(page: &mut Page, gauges: &Gauges) -> fmt::Result {
    if let Some(bound) = gauges.bound {
        page.gauge("bound", "How old an answer can at most be", Some(&Unit::Seconds), bound as f64)?;
    }
    page.gauge("cache_entries", "Entries kept", None, gauges.cache_entries as f64)?;
    page.gauge("cache", "All that keeping the entries takes", Some(&Unit::Bytes), gauges.cache_bytes as f64)?;
    page.gauge("cache_capacity", "The most that may be kept", Some(&Unit::Bytes), gauges.cache_capacity as f64)?;
    let process = ProcessGauges {
        uptime: gauges.uptime,
        readiness: gauges.readiness,
        states: &READINESS,
        connections: gauges.connections,
        tasks: gauges.tasks.clone(),
        task_panics: gauges.task_panics.clone(),
    };
    process.write(&mut page.encoder)?;
    let help = "Open findings: what of the configuration does not fit the service";
    let mut findings = page.describe("findings", help, None, MetricType::Gauge)?;
    for check in &gauges.checks {
        let open = gauges.findings.iter().filter(|found| *found == check).count() as u64;
        findings.encode_family(&[("check", *check)])?.encode_gauge(&open)?;
    }
    Ok(())
}

fn load(cell: &AtomicU64) -> u64 {
    cell.load(Ordering::Relaxed)
}

/// A page being written. Each method writes one metric with all its labels.
struct Page<'a, 'r> {
    encoder: DescriptorEncoder<'a>,
    regions: &'r [String],
}

impl<'r> Page<'_, 'r> {
    fn describe<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
        unit: Option<&'s Unit>,
        metric_type: MetricType,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        self.encoder.encode_descriptor(name, help, unit, metric_type)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        count(&mut self.describe(name, help, None, MetricType::Counter)?, value)
    }

    fn gauge(&mut self, name: &str, help: &str, unit: Option<&Unit>, value: f64) -> fmt::Result {
        self.describe(name, help, unit, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn words(&mut self, name: &str, help: &str, grid: &Grid) -> fmt::Result {
        let mut metric = self.describe(name, help, None, MetricType::Counter)?;
        for (word, value) in grid.row(0, true) {
            count(&mut metric.encode_family(&[("reason", word)])?, value)?;
        }
        Ok(())
    }

    fn grid(&mut self, name: &str, help: &str, grid: &Grid, label: &str) -> fmt::Result {
        let regions = self.regions;
        let mut metric = self.describe(name, help, None, MetricType::Counter)?;
        let named = regions.iter().map(|name| (name.as_str(), true));
        for (row, (region, zeros)) in [(NO_REGION, true)].into_iter().chain(named).enumerate() {
            for (word, value) in grid.row(row, zeros) {
                count(&mut metric.encode_family(&[("region", region), (label, word)])?, value)?;
            }
        }
        Ok(())
    }

    fn per_region(&mut self, name: &str, help: &str, values: &[u64]) -> fmt::Result {
        let regions = self.regions;
        let mut metric = self.describe(name, help, None, MetricType::Counter)?;
        for (region, value) in regions.iter().zip(values) {
            count(&mut metric.encode_family(&[("region", region.as_str())])?, *value)?;
        }
        Ok(())
    }

    fn region_gauge(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        value: impl Fn(usize) -> Option<f64>,
    ) -> fmt::Result {
        let regions = self.regions;
        let mut metric = self.describe(name, help, unit, MetricType::Gauge)?;
        for (n, region) in regions.iter().enumerate() {
            if let Some(value) = value(n) {
                metric.encode_family(&[("region", region.as_str())])?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    /// One gauge per region and word: 1 for the word that holds now, 0 for the others.
    fn states(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        words: &[&str],
        now: impl Fn(usize) -> Option<&'static str>,
    ) -> fmt::Result {
        let regions = self.regions;
        let mut metric = self.describe(name, help, None, MetricType::Gauge)?;
        for (n, region) in regions.iter().enumerate() {
            let Some(holds) = now(n) else { continue };
            for word in words {
                let value = u64::from(*word == holds);
                metric.encode_family(&[("region", region.as_str()), (label, word)])?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    fn latency(&mut self, name: &str, help: &str, latency: &LatencyHistogram) -> fmt::Result {
        histogram(&mut self.describe(name, help, Some(&Unit::Seconds), MetricType::Histogram)?, latency)
    }

    fn latencies(&mut self, name: &str, help: &str, latencies: &[LatencyHistogram]) -> fmt::Result {
        let regions = self.regions;
        let mut metric = self.describe(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (region, latency) in regions.iter().zip(latencies) {
            histogram(&mut metric.encode_family(&[("region", region.as_str())])?, latency)?;
        }
        Ok(())
    }
}

fn count(metric: &mut MetricEncoder, value: u64) -> fmt::Result {
    metric.encode_counter::<NoLabelSet, u64, u64>(&value, None)
}

fn histogram(metric: &mut MetricEncoder, latency: &LatencyHistogram) -> fmt::Result {
    let reading = latency.read();
    metric.encode_histogram::<NoLabelSet>(reading.sum, reading.count, &reading.buckets, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::RegionId;
    use crate::protocol::label::Label;
    use crate::telemetry::metrics::Metrics;

    fn regions() -> Metrics {
        Metrics::new(&["eu-west-1".to_owned(), "us-east-1".to_owned()])
    }

    fn lines(page: &str) -> Vec<&str> {
        page.lines().collect()
    }

    #[test]
    fn what_was_counted_is_shown_under_the_region_and_word_it_was_counted_for() {
        let metrics = regions();
        metrics.hit(Duration::from_micros(7));
        metrics.miss("good", Some(RegionId(1)), Duration::from_millis(21));
        metrics.miss("no-reply", None, Duration::from_secs(2));
        metrics.leg(RegionId(0), "too-old", Duration::from_millis(30));
        metrics.loser(RegionId(0));
        metrics.announcement(Some(RegionId(1)), "applied");
        metrics.announcement(None, "wrong-topic");
        metrics.propagation(RegionId(1), Duration::from_millis(40));
        metrics.epoch_moved(RegionId(0), "hole");
        metrics.alarm(RegionId(0), "floor-dropped");
        metrics.refused("host");
        metrics.stale(Label::Grace);
        metrics.fill_shared();
        metrics.churn();
        metrics.audited("stale");
        metrics.reloaded("refused");
        metrics.audited_within(1, false);
        let page = metrics.render(&Gauges::default());
        for line in [
            "nearside_hits_total 1",
            "nearside_hit_duration_seconds_bucket{le=\"0.000005\"} 0",
            "nearside_hit_duration_seconds_bucket{le=\"0.00001\"} 1",
            "nearside_misses_total{region=\"us-east-1\",verdict=\"good\"} 1",
            "nearside_misses_total{region=\"none\",verdict=\"no-reply\"} 1",
            "nearside_misses_total{region=\"eu-west-1\",verdict=\"good\"} 0",
            "nearside_miss_duration_seconds_count 2",
            "nearside_legs_total{region=\"eu-west-1\",verdict=\"too-old\"} 1",
            "nearside_leg_duration_seconds_bucket{le=\"+Inf\",region=\"eu-west-1\"} 1",
            "nearside_losing_legs_total{region=\"eu-west-1\"} 1",
            "nearside_losing_legs_total{region=\"us-east-1\"} 0",
            "nearside_announcements_total{region=\"us-east-1\",outcome=\"applied\"} 1",
            "nearside_announcements_total{region=\"none\",outcome=\"wrong-topic\"} 1",
            "nearside_propagation_delay_seconds_count{region=\"us-east-1\"} 1",
            "nearside_epoch_moves_total{region=\"eu-west-1\",reason=\"hole\"} 1",
            "nearside_alarms_total{region=\"eu-west-1\",reason=\"floor-dropped\"} 1",
            "nearside_reloads_total{outcome=\"applied\"} 0",
            "nearside_reloads_total{outcome=\"refused\"} 1",
            "nearside_refused_requests_total{reason=\"host\"} 1",
            "nearside_stale_served_total{reason=\"grace\"} 1",
            "nearside_fills_shared_total 1",
            "nearside_identity_churn_total 1",
            "nearside_audit_entries_total{result=\"stale\"} 1",
            "nearside_audit_entries_total{result=\"skipped\"} 0",
            "nearside_audit_windows_total{within=\"1s\",outcome=\"stale\"} 0",
            "nearside_audit_windows_total{within=\"10s\",outcome=\"stale\"} 1",
            "nearside_audit_windows_total{within=\"60s\",outcome=\"fresh\"} 0",
            "# EOF",
        ] {
            assert!(lines(&page).contains(&line), "{line} is missing from\n{page}");
        }
    }

    #[test]
    fn gauges_show_what_holds_now_and_leave_out_what_is_not_known() {
        let live = RegionGauges {
            state: "live",
            grade: "watermark",
            proof_age: Some(Duration::from_millis(1_500)),
            lease_left: Duration::from_millis(13_500),
            epoch: 3,
            bound: Some(2),
            announcement_lag: Some(-20.25),
            ..RegionGauges::default()
        };
        let gauges = Gauges {
            readiness: "fresh",
            bound: Some(2),
            regions: vec![live, RegionGauges { grade: "none", outlier: true, ..RegionGauges::default() }],
            cache_entries: 12,
            audits_open: 3,
            tasks: BTreeMap::from([("fill", 4)]),
            task_panics: BTreeMap::from([("fill", 2)]),
            ..Gauges::default()
        };
        let page = regions().render(&gauges);
        for line in [
            "nearside_subscription_state{region=\"eu-west-1\",state=\"live\"} 1",
            "nearside_subscription_state{region=\"eu-west-1\",state=\"dead\"} 0",
            "nearside_proof_grade{region=\"eu-west-1\",grade=\"watermark\"} 1",
            "nearside_region_bound_seconds{region=\"eu-west-1\"} 2.0",
            "nearside_announcement_lag_seconds{region=\"eu-west-1\"} -20.25",
            "nearside_audit_open 3.0",
            "nearside_proof_grade{region=\"us-east-1\",grade=\"none\"} 1",
            "nearside_proof_age_seconds{region=\"eu-west-1\"} 1.5",
            "nearside_epoch{region=\"eu-west-1\"} 3.0",
            "nearside_region_skipped{region=\"us-east-1\"} 1.0",
            "nearside_bound_seconds 2.0",
            "nearside_cache_entries 12.0",
            "nearside_readiness{state=\"fresh\"} 1",
            "nearside_readiness{state=\"draining\"} 0",
            "nearside_tasks{name=\"fill\"} 4",
            "nearside_task_panics_total{task=\"fill\"} 2",
        ] {
            assert!(lines(&page).contains(&line), "{line} is missing from\n{page}");
        }
        assert!(lines(&page).contains(&"nearside_proof_age_seconds{region=\"us-east-1\"} inf"), "{page}");
    }

    /// `docs/metrics.md` lists every metric, and no others. Those of the services have a chapter and
    /// a test (`tests/it/services.rs`) of their own.
    #[test]
    fn every_metric_is_documented_and_what_is_documented_exists() {
        let page = regions().render(&Gauges { bound: Some(1), ..Gauges::default() });
        let of_type = |line: &str| {
            let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
            let end = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            Some(format!("{name}{end}"))
        };
        let mut exist: Vec<String> = lines(&page).into_iter().filter_map(of_type).collect();
        let (ours, _) = include_str!("../../../docs/metrics.md").split_once("\n## The services\n").unwrap();
        let documented = ours.lines().filter_map(|line| line.strip_prefix("| `nearside_"));
        let mut documented: Vec<String> =
            documented.filter_map(|rest| Some(format!("nearside_{}", rest.split_once('`')?.0))).collect();
        exist.sort();
        documented.sort();
        assert_eq!(exist, documented);
    }

    #[test]
    fn every_word_is_there_at_zero_before_anything_happens() {
        let page = regions().render(&Gauges::default());
        for line in [
            "nearside_alarms_total{region=\"eu-west-1\",reason=\"version-jump\"} 0",
            "nearside_announcements_total{region=\"none\",outcome=\"wrong-topic\"} 0",
            "nearside_epoch_moves_total{region=\"us-east-1\",reason=\"hole\"} 0",
            "nearside_stale_served_total{reason=\"stale-if-error\"} 0",
            "nearside_refused_requests_total{reason=\"token\"} 0",
            "nearside_acts_total{act=\"purge\",outcome=\"denied\"} 0",
            "nearside_legs_total{region=\"eu-west-1\",verdict=\"connect\"} 0",
        ] {
            assert!(lines(&page).contains(&line), "{line} is missing from\n{page}");
        }
    }

    #[test]
    fn every_metric_is_described_once_with_its_help_and_type() {
        let page = regions().render(&Gauges::default());
        let mut described: Vec<_> =
            lines(&page).into_iter().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let all = described.len();
        described.sort_unstable();
        described.dedup();
        assert_eq!(described.len(), all);
        assert!(all > 20, "{all}");
    }
}
