//! Owns what a measurement comes to: a report of scenarios, each with a row per subject and a round per repetition.
//!
//! Before it: [`super::run`] fills it in. After it: [`super::report`] shows it as a table, as JSON and as a page.
//! Invariant: rounds are kept as they were measured; medians and spreads are computed from them, never stored beside them.

use serde::{Deserialize, Serialize};

/// Everything that one command measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// When it began, RFC 3339.
    pub began: String,
    /// How long it took, seconds.
    pub took_s: f64,
    /// On what.
    pub machine: Machine,
    /// What was measured, in order.
    pub scenarios: Vec<Scenario>,
    /// Who was to be measured too and was not there.
    pub missing: Vec<Missing>,
    /// The figures that were promised, and which of them this run can judge.
    #[serde(default)]
    pub promises: Vec<Promise>,
}

/// A figure that was promised.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Promise {
    /// Its place in the list of promises; several figures share one.
    pub number: u8,
    /// In words.
    pub text: String,
    /// Who measures it.
    pub scenario: String,
    /// What was seen; `None` when this run cannot tell.
    pub seen: Option<f64>,
    /// What was to be reached, where it was measured.
    pub limit: Option<f64>,
    /// Whether it was; `None` when this run cannot tell.
    pub met: Option<bool>,
    /// Why it cannot.
    pub why: String,
}

/// The machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// How many cores this process may use.
    pub cores: usize,
    /// Kernel and its version.
    pub kernel: String,
    /// Whether harness and servers were each held on a core of their own.
    pub pinned: bool,
}

/// A peer that could not be measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Missing {
    /// Its name.
    pub name: String,
    /// Why, and what to do about it.
    pub why: String,
}

/// One thing that was measured, on several subjects.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Scenario {
    /// A short name for command lines and anchors: `hit-1k`.
    pub name: String,
    /// In words.
    pub title: String,
    /// How it was done: connections, rate, bodies, what is compared.
    pub how: String,
    /// How long all of it took, with what was started for it, seconds.
    #[serde(default)]
    pub took_s: f64,
    /// One per subject, in the order of the report.
    pub rows: Vec<Row>,
    /// Figures that are no requests: memory by entries, announcements applied a second.
    pub plots: Vec<Plot>,
    /// What it was to show, and whether it did.
    pub goals: Vec<Goal>,
    /// What a reader should know: a feature that was off, a limit that was met.
    pub notes: Vec<String>,
}

/// A subject's rounds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    /// Who: `nearside`, `haproxy`, `bare responder`.
    pub subject: String,
    /// Its version, as it says itself.
    pub version: String,
    /// The settings that matter, in a few words.
    pub settings: String,
    /// How it was shown that it did what was asked of it: `X-Cache-Status: HIT on all`.
    pub proof: String,
    /// One per repetition.
    pub rounds: Vec<Round>,
}

/// One repetition.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Round {
    /// How long it was measured, seconds.
    pub took_s: f64,
    /// Requests that were answered as they should be.
    pub requests: u64,
    /// Requests that were not.
    pub failures: u64,
    /// CPU time of the server's process tree per request, microseconds; `None` when it is not ours to look at.
    pub cpu_us: Option<f64>,
    /// Resident memory of the server's process tree afterwards, bytes.
    pub rss_bytes: Option<u64>,
    /// How long requests took.
    pub latency: Latency,
}

/// A distribution of latencies, microseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Half were faster.
    pub p50_us: f64,
    /// Nine of ten were.
    pub p90_us: f64,
    /// 99 of 100 were.
    pub p99_us: f64,
    /// 999 of 1,000 were.
    pub p999_us: f64,
    /// None was slower.
    pub max_us: f64,
    /// (percentile from 0 to 100, microseconds), ascending, for a curve.
    pub curve: Vec<(f64, f64)>,
}

/// Points that belong together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Plot {
    /// What is seen.
    pub title: String,
    /// The horizontal axis, with its unit.
    pub x: String,
    /// The vertical axis, with its unit.
    pub y: String,
    /// Whether the horizontal axis is logarithmic.
    pub x_is_log: bool,
    /// (name, points).
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

/// Something that was to be reached.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Goal {
    /// In words: `CPU per request <= 1.15 x the bare responder`.
    pub text: String,
    /// What was measured, in the unit of the words.
    pub seen: f64,
    /// What was to be reached.
    pub limit: f64,
    /// Whether it was.
    pub met: bool,
}

/// Half of the values are below it; 0 of none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
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
    /// The median over all rounds of what `figure` takes from one; 0 without rounds.
    pub fn median(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(figure))
    }

    /// The least and the most of what `figure` takes from a round; `None` without rounds.
    pub fn spread(&self, figure: impl Fn(&Round) -> f64) -> Option<(f64, f64)> {
        let values = self.rounds.iter().map(figure);
        let ends =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        (!self.rounds.is_empty()).then_some(ends)
    }

    /// Requests answered a second, in the median.
    pub fn rate(&self) -> f64 {
        self.median(|round| round.requests as f64 / round.took_s.max(1e-9))
    }
}

impl Scenario {
    /// The row of `subject`, if it was measured.
    pub fn row(&self, subject: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.subject == subject)
    }
}

impl Goal {
    /// Something of which at most `limit` was to be seen.
    pub fn at_most(text: impl Into<String>, seen: f64, limit: f64) -> Self {
        Self { text: text.into(), seen, limit, met: seen <= limit }
    }

    /// Something of which at least `limit` was to be seen.
    pub fn at_least(text: impl Into<String>, seen: f64, limit: f64) -> Self {
        Self { text: text.into(), seen, limit, met: seen >= limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle_of_any_order() {
        assert!((median([3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median([4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!(median([]).abs() < 1e-9);
    }
}
