//! Every counter and histogram, under the names that operators see.
//!
//! Labels are closed sets (region names, routes, verdicts, outcomes), never a key, a caller's path
//! or a token. Recording takes no lock and allocates nothing; [`Metrics::hit`] is two atomic
//! additions.

pub mod exposition;
pub mod payload;
pub mod process;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::counts::{Grid, LatencyHistogram};
use crate::model::ids::RegionId;
use crate::protocol::label::Label;
use crate::protocol::limits::{AUDIT_WINDOWS, REGIONS};
use crate::telemetry::labels::{
    ACT_OUTCOMES, ALARMS, AUDITED, BATCH_PARTS, BUDGETS, COUNTED_ACTS, EPOCHS, GOT, LABELS, LEGS, OUTCOMES, PASSES,
    REFUSALS, RELOADS, WITHIN,
};
use exposition::Gauges;
use payload::PayloadCells;

/// Upper bounds of the hit histogram, in nanoseconds: 2 us to 10 ms.
const HIT_BOUNDS: &[u64] =
    &[2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000];
/// Upper bounds for everything that crosses a network, in nanoseconds: 1 ms to 60 s.
const NETWORK_BOUNDS: &[u64] = &[
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
    60_000_000_000,
];

/// All metrics of the process; cheap to record from any thread.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(super) cells: Arc<Cells>,
}

/// The cells behind [`Metrics`]. Row 0 of a [`Grid`] is "no region"; row n + 1 is region n.
#[derive(Debug)]
pub(super) struct Cells {
    pub(super) regions: Box<[String]>,
    /// Its count is the number of hits.
    pub(super) hits: LatencyHistogram,
    pub(super) misses: Grid,
    pub(super) miss_latency: LatencyHistogram,
    pub(super) stale: Grid,
    pub(super) refused: Grid,
    pub(super) passed: Grid,
    /// One row per [`ACT_OUTCOMES`].
    pub(super) acts: Grid,
    pub(super) fills_shared: AtomicU64,
    pub(super) legs: Grid,
    pub(super) leg_latency: Box<[LatencyHistogram]>,
    pub(super) losers: Box<[AtomicU64]>,
    pub(super) announcements: Grid,
    pub(super) propagation: Box<[LatencyHistogram]>,
    pub(super) epochs: Grid,
    pub(super) alarms: Grid,
    pub(super) churn: AtomicU64,
    pub(super) batches: AtomicU64,
    pub(super) batch_parts: Grid,
    pub(super) batches_sent: AtomicU64,
    pub(super) uncounted_pauses_ms: AtomicU64,
    pub(super) over_budget: Grid,
    pub(super) reloads: Grid,
    pub(super) audited: Grid,
    /// One row per [`AUDIT_WINDOWS`].
    pub(super) audit_windows: Grid,
    pub(super) payload: PayloadCells,
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
        let regions = region_names.len();
        let per_region = || (0..regions).map(|_| LatencyHistogram::new(NETWORK_BOUNDS)).collect();
        let cells = Cells {
            regions: region_names.into(),
            hits: LatencyHistogram::new(HIT_BOUNDS),
            misses: Grid::new(regions + 1, GOT),
            miss_latency: LatencyHistogram::new(NETWORK_BOUNDS),
            stale: Grid::new(1, LABELS),
            refused: Grid::new(1, REFUSALS),
            passed: Grid::new(1, PASSES),
            acts: Grid::new(ACT_OUTCOMES.len(), &COUNTED_ACTS),
            fills_shared: AtomicU64::new(0),
            legs: Grid::new(regions + 1, LEGS),
            leg_latency: per_region(),
            losers: (0..regions).map(|_| AtomicU64::new(0)).collect(),
            announcements: Grid::new(regions + 1, OUTCOMES),
            propagation: per_region(),
            epochs: Grid::new(regions + 1, EPOCHS),
            alarms: Grid::new(regions + 1, ALARMS),
            churn: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            batch_parts: Grid::new(1, BATCH_PARTS),
            batches_sent: AtomicU64::new(0),
            uncounted_pauses_ms: AtomicU64::new(0),
            over_budget: Grid::new(1, BUDGETS),
            reloads: Grid::new(1, RELOADS),
            audited: Grid::new(1, AUDITED),
            audit_windows: Grid::new(AUDIT_WINDOWS.len(), WITHIN),
            payload: PayloadCells::new(),
        };
        Self { cells: Arc::new(cells) }
    }

    /// A request was answered from the store.
    pub fn hit(&self, took: Duration) {
        self.cells.hits.observe(took);
    }

    /// A stored reply was served although it could not be shown to be fresh.
    pub fn stale(&self, why: Label) {
        self.cells.stale.add(0, why.word());
    }

    /// A request was answered after a fill, with the verdict on its reply and the region that gave
    /// it.
    pub fn miss(&self, verdict: &'static str, region: Option<RegionId>, took: Duration) {
        self.cells.misses.add(row(region), verdict);
        self.cells.miss_latency.observe(took);
    }

    /// A request was refused before it was looked up; `why` is a stable word.
    pub fn refused(&self, why: &'static str) {
        self.cells.refused.add(0, why);
    }

    /// A request was passed on to one region; `why` is a stable word.
    pub fn passed(&self, why: &'static str) {
        self.cells.passed.add(0, why);
    }

    /// An operator's act ended `done`, `refused` or `denied`.
    pub fn act(&self, act: &'static str, outcome: &str) {
        if let Some(row) = ACT_OUTCOMES.iter().position(|known| *known == outcome) {
            self.cells.acts.add(row, act);
        }
    }

    /// How many of these acts ended with this outcome.
    pub fn acts(&self, act: &str, outcome: &str) -> u64 {
        let row = ACT_OUTCOMES.iter().position(|known| *known == outcome);
        row.map_or(0, |row| self.cells.acts.get(row, act))
    }

    /// A reader joined a running fill.
    pub fn fill_shared(&self) {
        self.cells.fills_shared.fetch_add(1, Ordering::Relaxed);
    }

    /// A leg ended, with its verdict or failure word.
    pub fn leg(&self, region: RegionId, verdict: &'static str, took: Duration) {
        self.cells.legs.add(row(Some(region)), verdict);
        if let Some(latency) = self.cells.leg_latency.get(region.index()) {
            latency.observe(took);
        }
    }

    pub fn loser(&self, region: RegionId) {
        if let Some(losers) = self.cells.losers.get(region.index()) {
            losers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What happened to an announcement: applied, duplicate, unrouted, undecodable, forged,
    /// expired, wrong-topic, ...
    pub fn announcement(&self, region: Option<RegionId>, outcome: &'static str) {
        self.cells.announcements.add(row(region), outcome);
    }

    /// The time from `ingested_at` until the announcement was applied here.
    pub fn propagation(&self, region: RegionId, took: Duration) {
        if let Some(latency) = self.cells.propagation.get(region.index()) {
            latency.observe(took);
        }
    }

    pub fn epoch_moved(&self, region: RegionId, why: &'static str) {
        self.cells.epochs.add(row(Some(region)), why);
    }

    /// R15: somebody should look at this.
    pub fn alarm(&self, region: RegionId, why: &'static str) {
        self.cells.alarms.add(row(Some(region)), why);
    }

    /// A record has many identities: callers seem to mint a token per request.
    pub fn churn(&self) {
        self.cells.churn.fetch_add(1, Ordering::Relaxed);
    }

    /// A batch is answered.
    pub fn batch(&self) {
        self.cells.batches.fetch_add(1, Ordering::Relaxed);
    }

    /// One part of a batch was `stored`, is `asked` for, or its key was `refused`.
    pub fn batch_part(&self, what: &'static str) {
        self.cells.batch_parts.add(0, what);
    }

    /// Several keys were asked for in one request to a region.
    pub fn batch_sent(&self) {
        self.cells.batches_sent.fetch_add(1, Ordering::Relaxed);
    }

    /// R9: the clock since boot had not counted this time.
    pub fn uncounted_pause(&self, span: Duration) {
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        self.cells.uncounted_pauses_ms.fetch_add(millis, Ordering::Relaxed);
    }

    /// A budget had no room for something.
    pub fn over_budget(&self, budget: &'static str) {
        self.cells.over_budget.add(0, budget);
    }

    pub fn reloaded(&self, outcome: &'static str) {
        self.cells.reloads.add(0, outcome);
    }

    /// R17: the audit of an entry ended.
    pub fn audited(&self, ending: &'static str) {
        self.cells.audited.add(0, ending);
    }

    /// R17: an audited entry was, or was not, fresh within the window at this position of
    /// [`AUDIT_WINDOWS`].
    pub fn audited_within(&self, window: usize, fresh: bool) {
        self.cells.audit_windows.add(window, if fresh { "fresh" } else { "stale" });
    }

    /// All metrics in the OpenMetrics text format, with `gauges` as they are now.
    pub fn render(&self, gauges: &Gauges) -> String {
        exposition::render(&self.cells, gauges)
    }

    /// The totals that `/status` and the demo show.
    pub fn totals(&self) -> Totals {
        let cells = &self.cells;
        Totals {
            hits: cells.hits.count(),
            misses: cells.misses.total(),
            stale_served: cells.stale.total(),
            refused: cells.refused.total(),
            fills_shared: cells.fills_shared.load(Ordering::Relaxed),
            legs: cells.legs.total(),
            losing_legs: cells.losers.iter().map(|losers| losers.load(Ordering::Relaxed)).sum(),
            announcements: cells.announcements.total(),
            announcements_applied: (0..=cells.regions.len()).map(|row| cells.announcements.get(row, "applied")).sum(),
            epochs_moved: cells.epochs.total(),
            alarms: cells.alarms.total(),
            identity_churn: cells.churn.load(Ordering::Relaxed),
            uncounted_pauses_s: cells.uncounted_pauses_ms.load(Ordering::Relaxed) as f64 / 1e3,
        }
    }

    /// How many legs to `region` ended with this verdict or failure word.
    pub fn legs(&self, region: RegionId, verdict: &str) -> u64 {
        self.cells.legs.get(row(Some(region)), verdict)
    }

    /// How many announcements from `region` had this outcome; `None` counts those of no known
    /// topic.
    pub fn announcements(&self, region: Option<RegionId>, outcome: &str) -> u64 {
        self.cells.announcements.get(row(region), outcome)
    }

    /// How many audits ended with each word.
    pub fn audits(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.cells.audited.row(0, true)
    }

    /// How many audited entries were fresh within the window at this position, and how many were
    /// not.
    pub fn audits_within(&self, window: usize) -> (u64, u64) {
        (self.cells.audit_windows.get(window, "fresh"), self.cells.audit_windows.get(window, "stale"))
    }

    /// How many alarms were raised about `region` for this reason.
    pub fn alarms(&self, region: RegionId, why: &str) -> u64 {
        self.cells.alarms.get(row(Some(region)), why)
    }

    pub fn refusals(&self, why: &str) -> u64 {
        self.cells.refused.get(0, why)
    }

    /// How many stored replies were served, labelled, for this reason.
    pub fn stale_served(&self, why: &str) -> u64 {
        self.cells.stale.get(0, why)
    }
}

/// Counts since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Totals {
    /// Requests answered from the store.
    pub hits: u64,
    /// Requests answered after a fill.
    pub misses: u64,
    /// Stored replies served although they could not be shown to be fresh.
    pub stale_served: u64,
    /// Requests refused before they were looked up.
    pub refused: u64,
    /// Readers that joined a running fill.
    pub fills_shared: u64,
    /// Legs that ended, in all regions.
    pub legs: u64,
    /// Legs that lost their race.
    pub losing_legs: u64,
    /// Announcements received, whatever became of them.
    pub announcements: u64,
    pub announcements_applied: u64,
    /// Epoch moves, in all regions.
    pub epochs_moved: u64,
    /// R15 alarms.
    pub alarms: u64,
    /// Warnings that callers seem to mint a token per request.
    pub identity_churn: u64,
    /// Seconds by which the calendar ran ahead of the clock since boot, all treated as pauses (R9).
    pub uncounted_pauses_s: f64,
}

fn row(region: Option<RegionId>) -> usize {
    region.map_or(0, |region| region.index() + 1)
}
