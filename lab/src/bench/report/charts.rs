//! The charts of a report, for the page and as files. A chart that would show nothing is left out.

use serde::Serialize;

use super::draw::{Axis, Bar, DrawingError, Line, bars, lines};
use super::figures::{ratio, short, time};
use super::ink::Ink;
use super::summary::{Middle, summaries};
use crate::bench::result::{BenchReport, Row, Scenario};

const CPU_NOTE: &str = "median of the rounds (times ours); whiskers: least and most of the rounds";
const LATENCY_NOTE: &str = "median of the rounds; both axes are logarithmic";
const PERCENTILE: Axis<'_> = Axis { title: "percentile of requests", log: true, label: percentile };
const LATENCY: Axis<'_> = Axis { title: "latency", log: true, label: time };

/// The replies of the payload scenario that are drawn, as their rows begin; of each chart the end of
/// its name, its column and its title.
const REPLY: &str = "20 KiB ";
const REPLIES: [(&str, &str, &str); 2] = [
    ("bytes", "bytes", "A reply of 20 KiB on the wire"),
    ("decode", "decode µs", "CPU time to decompress and read a reply of 20 KiB"),
];

#[derive(Serialize)]
pub(crate) struct Chart {
    /// The name of its file: `hit-1k-cpu`.
    pub(crate) name: String,
    title: String,
    note: &'static str,
    pub(crate) svg: String,
}

/// Every chart of the report, by scenario.
pub(crate) fn charts(report: &BenchReport) -> Result<Vec<Vec<Chart>>, DrawingError> {
    report.scenarios.iter().map(charts_of).collect()
}

fn charts_of(scenario: &Scenario) -> Result<Vec<Chart>, DrawingError> {
    let name = &scenario.name;
    let title = "CPU per request".to_owned();
    let svg = bars(&title, "µs of the server per request", &cpu(scenario))?;
    let cpu = Chart { name: format!("{name}-cpu"), title, note: CPU_NOTE, svg };
    let title = "Latency by percentile".to_owned();
    let svg = lines(&title, &PERCENTILE, &LATENCY, latencies(scenario))?;
    let mut charts = vec![cpu, Chart { name: format!("{name}-latency"), title, note: LATENCY_NOTE, svg }];
    for (plot, number) in scenario.plots.iter().zip(1..) {
        let x = Axis { title: &plot.x, log: plot.x_is_log, label: short };
        let y = Axis { title: &plot.y, log: false, label: short };
        let series = plot.series.iter();
        let series = series.map(|(name, points)| Line { name, ink: Ink::of(scenario, name), points: points.clone() });
        let svg = lines(&plot.title, &x, &y, series.collect())?;
        charts.push(Chart { name: format!("{name}-{number}"), title: plot.title.clone(), note: "", svg });
    }
    for (file, column, title) in REPLIES {
        let svg = bars(title, column, &replies(scenario, column))?;
        charts.push(Chart { name: format!("{name}-{file}"), title: title.to_owned(), note: "", svg });
    }
    charts.retain(|chart| !chart.svg.is_empty());
    Ok(charts)
}

/// CPU per request, the cheapest subject first.
fn cpu(scenario: &Scenario) -> Vec<Bar> {
    let mut bars = Vec::new();
    for summary in summaries(scenario).0 {
        let name = summary.row.subject.clone();
        let times = summary.ratio.map(|times| format!("({} x)", ratio(times))).filter(|times| times != "(1.00 x)");
        let (ink, remark) = (Ink::of(scenario, &name), times.unwrap_or_default());
        bars.extend(summary.cpu_us.map(|value| Bar { name, ink, value, remark }));
    }
    bars.sort_by(|a, b| a.value.median.total_cmp(&b.value.median));
    bars
}

fn latencies(scenario: &Scenario) -> Vec<Line<'_>> {
    let rows = scenario.rows.iter();
    rows.map(|row| Line { name: &row.subject, ink: Ink::of(scenario, &row.subject), points: curve(row) }).collect()
}

/// A column of the payloads' table for the replies that are drawn.
fn replies(scenario: &Scenario, column: &str) -> Vec<Bar> {
    let Some(table) = scenario.tables.first().filter(|_| scenario.name == "payload") else { return Vec::new() };
    let Some(place) = table.columns.iter().position(|name| name == column) else { return Vec::new() };
    let mut bars = Vec::new();
    for (name, figures) in &table.rows {
        if let (Some(name), Some(Some(value))) = (name.strip_prefix(REPLY), figures.get(place)) {
            let ink = if name.starts_with("JSON") { Ink::PLAIN } else { Ink::OURS };
            let value = Middle { median: *value, least: *value, most: *value };
            bars.push(Bar { name: name.to_owned(), ink, value, remark: String::new() });
        }
    }
    bars
}

/// The median of the rounds as (one request in how many is slower, microseconds), as far as all of
/// them reach: each curve has the same percentiles, fewer where there were fewer requests.
fn curve(row: &Row) -> Vec<(f64, f64)> {
    let shortest = row.rounds.iter().map(|round| &round.latency.curve).min_by_key(|curve| curve.len());
    let below_all = shortest.into_iter().flatten().enumerate().filter(|(_, (percentile, _))| *percentile < 100.0);
    below_all
        .map(|(place, (percentile, _))| {
            (100.0 / (100.0 - percentile), row.median(|round| round.latency.curve[place].1))
        })
        .collect()
}

/// The percentile that one request in so many exceeds.
fn percentile(one_in: f64) -> String {
    short(100.0 - 100.0 / one_in)
}

#[cfg(test)]
mod tests {
    use super::super::sample::sample;
    use super::*;
    use crate::bench::result::{FigureTable, LatencyFigures, PlotData, Round};

    fn round(curve: &[(f64, f64)]) -> Round {
        Round { latency: LatencyFigures { curve: curve.to_vec(), ..LatencyFigures::default() }, ..Round::default() }
    }

    #[test]
    fn curve_is_median_of_rounds() {
        let rounds = vec![
            round(&[(0.0, 10.0), (90.0, 20.0), (99.0, 40.0), (100.0, 90.0)]),
            round(&[(0.0, 12.0), (90.0, 22.0), (100.0, 91.0)]),
            round(&[(0.0, 14.0), (90.0, 24.0), (99.0, 50.0), (100.0, 70.0)]),
        ];
        assert_eq!(curve(&Row { rounds, ..Row::default() }), [(1.0, 12.0), (10.0, 22.0)]);
        assert!(curve(&Row::default()).is_empty());
        assert_eq!([1.0, 2.0, 10.0, 1e6].map(percentile), ["0", "50", "90", "99.9999"]);
    }

    #[test]
    fn cheapest_comes_first_all_have_figures() {
        let report = sample();
        let charts = charts(&report).unwrap();
        let chart = &charts[0][0];
        assert_eq!(chart.name, "hit-1k-cpu");
        let [first, second, third] =
            ["bare responder", "nearside", "nginx"].map(|name| chart.svg.find(&format!("\n{name}\n")).expect(name));
        assert!(first < second && second < third);
        for summary in summaries(&report.scenarios[0]).0 {
            let (ours, cpu) = (summary.ratio.unwrap(), summary.cpu_us.unwrap());
            let (figure, times) = (super::super::figures::figure(cpu.median), ratio(ours));
            assert!(chart.svg.contains(&format!("{} {figure}", summary.row.subject)), "{}", chart.svg);
            assert!(ours == 1.0 || chart.svg.contains(&format!("{figure} ({times} x)")), "{}", chart.svg);
        }
    }

    #[test]
    fn codings_have_size_and_reading_bars() {
        let table = FigureTable {
            columns: ["bytes", "x JSON", "decode µs"].map(str::to_owned).to_vec(),
            rows: [
                ("1 KiB JSON, identity", 1000.0),
                ("20 KiB JSON, identity", 20_000.0),
                ("20 KiB Protobuf, zstd 3", 5_000.0),
            ]
            .map(|(name, bytes)| (name.to_owned(), vec![Some(bytes), Some(1.0), Some(bytes / 100.0)]))
            .to_vec(),
            ..FigureTable::default()
        };
        let scenario = Scenario { name: "payload".into(), tables: vec![table], ..Scenario::default() };
        let charts = charts(&BenchReport { scenarios: vec![scenario], ..BenchReport::default() }).unwrap();
        let [bytes, decode] = &charts[0][..] else { panic!("{}", charts[0].len()) };
        assert!(bytes.name == "payload-bytes" && decode.name == "payload-decode");
        let said = "<desc>bytes: JSON, identity 20,000, Protobuf, zstd 3 5,000</desc>";
        assert!(bytes.svg.contains(said) && !bytes.svg.contains("1 KiB"), "{}", bytes.svg);
        assert!(decode.svg.contains("<desc>decode µs: JSON, identity 200, Protobuf, zstd 3 50.0</desc>"));
    }

    #[test]
    fn a_chart_has_its_units_its_legend_and_a_description() {
        let charts = charts(&sample()).unwrap();
        let svg = &charts[2][0].svg;
        for text in ["entries", "MiB", "1,000", "10 k", "1 M", "500", "nginx", "key, headers, body"] {
            assert!(svg.contains(&format!("\n{text}\n")), "{text}: {svg}");
        }
        assert!(
            svg.contains(" role=\"img\"><title>Resident memory by entries</title><desc>MiB by entries: "),
            "{svg}"
        );
        assert!(svg.contains("; nginx from 10.5"), "{svg}");
        assert!(svg.contains("prefers-color-scheme:dark") && !svg.contains("\"#000000\""), "{svg}");
        assert_eq!(svg.matches("://").count(), 1, "only the name of the language itself");
    }

    #[test]
    fn points_without_a_place_are_left_out() {
        let series =
            vec![("nearside".to_owned(), vec![(0.0, 1.0), (10.0, f64::NAN), (20.0, 7.0), (f64::INFINITY, 1.0)])];
        let plot = PlotData { x_is_log: true, series, ..PlotData::default() };
        let empty = PlotData { series: vec![("nearside".to_owned(), vec![(0.0, 1.0)])], ..plot.clone() };
        let scenario = Scenario { plots: vec![plot, empty], rows: vec![Row::default()], ..Scenario::default() };
        let charts = charts(&BenchReport { scenarios: vec![scenario], ..BenchReport::default() }).unwrap();
        assert_eq!(charts[0].len(), 1);
        assert_eq!(charts[0][0].svg.matches("<circle").count(), 1, "{}", charts[0][0].svg);
        assert!(!charts[0][0].svg.contains("NaN"));
    }
}
