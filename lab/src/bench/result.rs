//! The result of a measurement: a report of scenarios, each with one row per subject and one round
//! per repetition. [`super::run`] fills it in, and [`super::report`] shows it as a table, as JSON
//! and as a page. Rounds are kept as they were measured; medians and spreads are computed from them
//! and never stored beside them.

use serde::{Deserialize, Serialize};

/// Everything that one command measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct BenchReport {
    /// Start of the run, RFC 3339.
    pub began: String,
    /// Duration of the run, in seconds.
    pub took_s: f64,
    pub machine: Machine,
    /// Measured scenarios, in order.
    pub scenarios: Vec<Scenario>,
    /// The peers that could not be measured.
    pub missing: Vec<Missing>,
    /// The promised figures, and which of them this run can judge.
    #[serde(default)]
    pub promises: Vec<Promise>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Promise {
    /// Its place in the list of promises; several figures may share one.
    pub number: u8,
    pub text: String,
    /// The name of the scenario that measures it.
    pub scenario: String,
    /// Measured figure; `None` if this run cannot tell.
    pub seen: Option<f64>,
    /// Limit to reach, if the figure was measured.
    pub limit: Option<f64>,
    /// True if it was reached; `None` if this run cannot tell.
    pub met: Option<bool>,
    /// Why this run cannot tell.
    pub why: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub cpu: String,
    /// Number of cores that this process may use.
    pub cores: usize,
    pub kernel: String,
    /// True if the harness and the servers were each pinned to a core of their own.
    pub pinned: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Missing {
    pub name: String,
    /// Why, and what to do about it.
    pub why: String,
}

/// One thing that was measured, on several subjects.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Scenario {
    /// A short name for command lines and anchors: `hit-1k`.
    pub name: String,
    pub title: String,
    /// Method: connections, rate, bodies, what is compared.
    pub how: String,
    /// Duration of all of it, including what was started for it, in seconds.
    #[serde(default)]
    pub took_s: f64,
    /// One per subject, in the order of the report.
    pub rows: Vec<Row>,
    /// Figures that are not about requests: memory by entries, announcements applied per second.
    pub plots: Vec<PlotData>,
    /// Figures of several kinds about the same things: bytes and times by form and size.
    #[serde(default)]
    pub tables: Vec<FigureTable>,
    /// Goals, and whether they were met.
    pub goals: Vec<Goal>,
    /// Notes for a reader: a feature that was off, a limit that was reached.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Its name: `nearside`, `haproxy`, `bare responder`.
    pub subject: String,
    /// Its version in its own words.
    pub version: String,
    /// The settings that matter, in a few words.
    pub settings: String,
    /// Proof that it did what was asked of it: `X-Cache-Status: HIT on all`.
    pub proof: String,
    /// One per repetition.
    pub rounds: Vec<Round>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Round {
    /// Duration of the measurement, in seconds.
    pub took_s: f64,
    /// Requests with a right answer.
    pub requests: u64,
    /// Requests without one.
    pub failures: u64,
    /// Requests sent once more because the server closed their idle connection.
    #[serde(default)]
    pub resent: u64,
    /// CPU time per request of the server's process tree, in microseconds; `None` if the server is
    /// not ours to look at.
    pub cpu_us: Option<f64>,
    /// Resident memory of the server's process tree afterwards, in bytes.
    pub rss_bytes: Option<u64>,
    pub latency: LatencyFigures,
}

/// A distribution of latencies, in microseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LatencyFigures {
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
    /// (percentile from 0 to 100, microseconds), ascending, for a curve.
    pub curve: Vec<(f64, f64)>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PlotData {
    pub title: String,
    /// The horizontal axis, with its unit.
    pub x: String,
    /// The vertical axis, with its unit.
    pub y: String,
    pub x_is_log: bool,
    /// (name, points).
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FigureTable {
    pub title: String,
    /// Names of a row's figures, with their units.
    pub columns: Vec<String>,
    /// (name, one figure per column); `None` where there is nothing to say.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Goal {
    /// Goal in words: `CPU per request <= 1.15 x the bare responder`.
    pub text: String,
    /// Measured figure, in the unit of the words.
    pub seen: f64,
    pub limit: f64,
    pub met: bool,
}

/// The middle one of the values; 0 if there are none.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        even if even.is_multiple_of(2) => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

impl Row {
    /// The median over all rounds of `figure`; 0 without rounds.
    pub(crate) fn median(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(figure))
    }

    /// The median number of requests answered per second.
    pub(crate) fn rate(&self) -> f64 {
        self.median(|round| round.requests as f64 / round.took_s.max(1e-9))
    }
}

impl Scenario {
    /// The row of `subject`, if it was measured.
    pub(crate) fn row(&self, subject: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.subject == subject)
    }
}

impl Goal {
    /// A goal that is met if at most `limit` was seen.
    pub(crate) fn at_most(text: impl Into<String>, seen: f64, limit: f64) -> Self {
        Self { text: text.into(), seen, limit, met: seen <= limit }
    }

    /// A goal that is met if at least `limit` was seen.
    pub(crate) fn at_least(text: impl Into<String>, seen: f64, limit: f64) -> Self {
        Self { text: text.into(), seen, limit, met: seen >= limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_ignores_input_order() {
        assert!((median([3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median([4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!(median([]).abs() < 1e-9);
    }
}
