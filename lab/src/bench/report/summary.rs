//! The medians of a subject's rounds, and the columns that show them. Terminal, page and charts have
//! the same figures, because they are computed only here.

use serde::{Deserialize, Serialize};

use super::figures::{NONE, figure, grouped, mebibytes, ratio, span};
use crate::bench::result::{BenchReport, FigureTable, Round, Row, Scenario, median};

/// A column's name, and a round's figure for it.
type Latency = (&'static str, fn(&Round) -> f64);

const LATENCIES: [Latency; 5] = [
    ("p50", |round| round.latency.p50_us),
    ("p90", |round| round.latency.p90_us),
    ("p99", |round| round.latency.p99_us),
    ("p99.9", |round| round.latency.p999_us),
    ("max", |round| round.latency.max_us),
];

/// The heading of the column that stands close to the one before it.
pub(crate) const SPREAD: &str = "spread";

/// A heading, and one cell per row. The first column has the names.
#[derive(Deserialize, Serialize)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) cells: Vec<String>,
}

/// A median with its least and its greatest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Middle {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

pub(crate) struct Summary<'a> {
    pub(crate) row: &'a Row,
    /// CPU time per request, in microseconds.
    pub(crate) cpu_us: Option<Middle>,
    /// Relative to the subject of [`Reference`]; `None` if one of the two has no figure.
    pub(crate) ratio: Option<f64>,
}

/// Reference of the ratios.
#[derive(Serialize)]
pub(crate) struct Reference<'a> {
    /// The subject whose ratio is 1.
    pub(crate) subject: &'a str,
    /// The compared figure: `CPU`, or `p50` if the reference has no CPU time.
    pub(crate) of: &'static str,
}

/// One line per row, and what the ratios compare, unless there is nothing to compare.
pub(crate) fn summaries(scenario: &Scenario) -> (Vec<Summary<'_>>, Option<Reference<'_>>) {
    let mut lines: Vec<Summary<'_>> = scenario.rows.iter().map(Summary::of).collect();
    let first = lines.iter().position(|line| is_ours(&line.row.subject)).unwrap_or_default();
    let by_cpu = lines.get(first).is_some_and(|line| line.cpu_us.is_some());
    let Some(one) = lines.get(first).and_then(|line| line.compared(by_cpu)) else { return (lines, None) };
    lines.iter_mut().for_each(|line| line.ratio = line.compared(by_cpu).map(|value| value / one));
    let reference = Reference { subject: &scenario.rows[first].subject, of: if by_cpu { "CPU" } else { "p50" } };
    let alone = lines.len() == 1;
    (lines, (!alone).then_some(reference))
}

/// True if a subject is the one that the reader came for.
pub(crate) fn is_ours(subject: &str) -> bool {
    subject.starts_with("nearside") || subject == "target"
}

/// Only the columns that have something to say.
pub(crate) fn columns(lines: &[Summary<'_>]) -> Vec<Column> {
    let mut columns = vec![
        column("", lines, |line| Some(line.row.subject.clone())),
        column("rate/s", lines, |line| Some(grouped(line.row.rate().round() as u64))),
        column("CPU µs", lines, |line| line.cpu_us.map(|cpu| figure(cpu.median))),
        column(SPREAD, lines, |line| line.cpu_us.map(|cpu| format!("{}-{}", figure(cpu.least), figure(cpu.most)))),
        column("ratio", lines, |line| line.ratio.map(ratio)),
    ];
    for (name, latency) in LATENCIES {
        columns.push(column(name, lines, |line| Some(span(line.row.median(latency)).replace(' ', ""))));
    }
    columns.push(column("MiB", lines, |line| {
        middle(line.row, |round| Some(round.rss_bytes? as f64)).map(|rss| mebibytes(rss.median))
    }));
    columns.push(column("failed", lines, |line| Some(grouped(line.sum(|round| round.failures)))));
    columns
        .push(column("resent", lines, |line| Some(line.sum(|round| round.resent)).filter(|it| *it > 0).map(grouped)));
    columns.retain(|column| column.cells.iter().any(|cell| cell != NONE));
    columns
}

/// The columns of figures of several kinds, a row for each name.
pub(crate) fn figure_columns(table: &FigureTable) -> Vec<Column> {
    let mut columns = vec![column("", &table.rows, |(name, _)| Some(name.clone()))];
    for (place, name) in table.columns.iter().enumerate() {
        columns.push(column(name, &table.rows, |(_, row)| row.get(place).copied().flatten().map(figure)));
    }
    columns
}

fn column<Row>(name: &str, rows: &[Row], cell: impl Fn(&Row) -> Option<String>) -> Column {
    let cells = rows.iter().map(|row| cell(row).unwrap_or_else(|| NONE.into())).collect();
    Column { name: name.to_owned(), cells }
}

/// Number of goals met, and of all goals.
pub(crate) fn goals_met(report: &BenchReport) -> (usize, usize) {
    let goals: Vec<bool> = report.scenarios.iter().flat_map(|it| &it.goals).map(|goal| goal.met).collect();
    (goals.iter().filter(|met| **met).count(), goals.len())
}

impl<'a> Summary<'a> {
    fn of(row: &'a Row) -> Self {
        Self { row, cpu_us: middle(row, |round| round.cpu_us), ratio: None }
    }

    /// Denominator of ratios, unless there is none.
    fn compared(&self, by_cpu: bool) -> Option<f64> {
        let figure = if by_cpu { self.cpu_us.map(|cpu| cpu.median) } else { Some(self.row.median(LATENCIES[0].1)) };
        figure.filter(|value| *value > 0.0)
    }

    fn sum(&self, figure: fn(&Round) -> u64) -> u64 {
        self.row.rounds.iter().map(figure).sum()
    }
}

fn middle(row: &Row, figure: fn(&Round) -> Option<f64>) -> Option<Middle> {
    let values: Vec<f64> = row.rounds.iter().filter_map(figure).filter(|value| value.is_finite()).collect();
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    Some(Middle { median: median(values), least, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(subject: &str, cpu_us: &[Option<f64>]) -> Row {
        Row {
            subject: subject.into(),
            rounds: cpu_us
                .iter()
                .map(|cpu_us| Round { cpu_us: *cpu_us, failures: 1, resent: 2, ..Round::default() })
                .collect(),
            ..Row::default()
        }
    }

    #[test]
    fn ratios_are_relative_to_ours() {
        let rows =
            vec![row("haproxy", &[Some(12.0), Some(10.0)]), row("nearside", &[Some(5.0)]), row("far", &[None])];
        let scenario = Scenario { rows, ..Scenario::default() };
        let (lines, reference) = summaries(&scenario);
        assert_eq!(lines.iter().map(|line| line.ratio).collect::<Vec<_>>(), [Some(2.2), Some(1.0), None]);
        assert_eq!(lines[0].cpu_us, Some(Middle { median: 11.0, least: 10.0, most: 12.0 }));
        assert_eq!((lines[0].sum(|round| round.failures), lines[0].sum(|round| round.resent)), (2, 4));
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
