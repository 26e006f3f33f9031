//! The medians of a subject's rounds, in one line. The tables, the bars and the picture all show
//! the same figures, because they are computed only here.

use crate::lab::bench::result::{Promise, Round, Row, Scenario, median};

/// The names of the latency columns.
pub(crate) const LATENCIES: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];

/// A median with its least and its greatest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Middle {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

pub(crate) struct Summary<'a> {
    pub(crate) row: &'a Row,
    /// Requests answered per second.
    pub(crate) rate: f64,
    /// CPU time per request, in microseconds.
    pub(crate) cpu_us: Option<Middle>,
    /// In the order of [`LATENCIES`], in microseconds.
    pub(crate) latencies_us: [f64; 5],
    /// Resident memory, in bytes.
    pub(crate) rss_bytes: Option<f64>,
    /// Of all rounds together.
    pub(crate) failures: u64,
    pub(crate) resent: u64,
    /// Relative to the subject of [`Reference`]; `None` if one of the two has no figure.
    pub(crate) ratio: Option<f64>,
}

/// What the ratios compare.
pub(crate) struct Reference<'a> {
    /// The subject whose ratio is 1.
    pub(crate) subject: &'a str,
    /// The compared figure: `CPU`, or `p50` if the reference has no CPU time.
    pub(crate) of: &'static str,
}

/// One line per row, and what the ratios compare; without rows there is no reference.
pub(crate) fn summaries(scenario: &Scenario) -> (Vec<Summary<'_>>, Option<Reference<'_>>) {
    let mut lines: Vec<Summary> = scenario.rows.iter().map(Summary::of).collect();
    let Some(first) = lines.iter().position(|line| is_ours(&line.row.subject)).or((!lines.is_empty()).then_some(0))
    else {
        return (lines, None);
    };
    let by_cpu = lines[first].cpu_us.is_some();
    let figure = |line: &Summary| {
        let figure = if by_cpu { line.cpu_us.map(|cpu| cpu.median) } else { Some(line.latencies_us[0]) };
        figure.filter(|value| *value > 0.0)
    };
    if let Some(one) = figure(&lines[first]) {
        lines.iter_mut().for_each(|line| line.ratio = figure(line).map(|value| value / one));
    }
    let subject = &scenario.rows[first].subject;
    (lines, Some(Reference { subject, of: if by_cpu { "CPU" } else { "p50" } }))
}

/// Whether a subject is the one that the reader came for.
pub(crate) fn is_ours(subject: &str) -> bool {
    subject.starts_with("nearside") || subject == "target"
}

pub(crate) fn verdict_in_words(promise: &Promise) -> &'static str {
    match promise.met {
        Some(true) => "met",
        Some(false) => "missed",
        None => "not judged",
    }
}

impl<'a> Summary<'a> {
    fn of(row: &'a Row) -> Self {
        let latency = |of: fn(&Round) -> f64| row.median(of);
        Self {
            row,
            rate: row.rate(),
            cpu_us: middle(row.rounds.iter().filter_map(|round| round.cpu_us)),
            latencies_us: [
                latency(|round| round.latency.p50_us),
                latency(|round| round.latency.p90_us),
                latency(|round| round.latency.p99_us),
                latency(|round| round.latency.p999_us),
                latency(|round| round.latency.max_us),
            ],
            rss_bytes: middle(row.rounds.iter().filter_map(|round| round.rss_bytes.map(|bytes| bytes as f64)))
                .map(|rss| rss.median),
            failures: row.rounds.iter().map(|round| round.failures).sum(),
            resent: row.rounds.iter().map(|round| round.resent).sum(),
            ratio: None,
        }
    }
}

fn middle(values: impl Iterator<Item = f64>) -> Option<Middle> {
    let values: Vec<f64> = values.collect();
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    Some(Middle { median: median(values), least, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(subject: &str, cpu_us: &[Option<f64>]) -> Row {
        let round = |cpu_us: &Option<f64>| Round { cpu_us: *cpu_us, failures: 1, resent: 2, ..Round::default() };
        Row { subject: subject.into(), rounds: cpu_us.iter().map(round).collect(), ..Row::default() }
    }

    #[test]
    fn ratios_are_to_ours_wherever_it_stands() {
        let rows =
            vec![row("haproxy", &[Some(12.0), Some(10.0)]), row("nearside", &[Some(5.0)]), row("far", &[None])];
        let scenario = Scenario { rows, ..Scenario::default() };
        let (lines, reference) = summaries(&scenario);
        assert_eq!(lines.iter().map(|line| line.ratio).collect::<Vec<_>>(), [Some(2.2), Some(1.0), None]);
        assert_eq!(lines[0].cpu_us, Some(Middle { median: 11.0, least: 10.0, most: 12.0 }));
        assert_eq!((lines[0].failures, lines[0].resent), (2, 4));
        let reference = reference.unwrap();
        assert_eq!((reference.subject, reference.of), ("nearside", "CPU"));
    }

    #[test]
    fn without_rounds_there_is_no_ratio() {
        let scenario = Scenario { rows: vec![row("target", &[])], ..Scenario::default() };
        assert_eq!(summaries(&scenario).0[0].ratio, None);
        assert!(summaries(&Scenario::default()).1.is_none());
    }
}
