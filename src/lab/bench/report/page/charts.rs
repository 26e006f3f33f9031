//! Which charts a scenario has on the page, each an SVG with its heading. A chart that would show
//! nothing is left out.

use super::super::bars::{Bar, Layout, bars};
use super::super::escape::escaped;
use super::super::figures::{figure, short, span};
use super::super::ink::Inks;
use super::super::lines::{Axis, Division, LETTERS, Plot, PlotLine, WIDTH};
use super::super::summary::summaries;
use crate::lab::bench::result::{self, LatencyFigures, Row, Scenario, median};

/// The marked percentiles and their labels.
const PERCENTILES: [(f64, &str); 7] = [
    (50.0, "50"),
    (90.0, "90"),
    (99.0, "99"),
    (99.9, "99.9"),
    (99.99, "99.99"),
    (99.999, "99.999"),
    (99.9999, "99.9999"),
];
/// Points of a curve per factor of ten.
const POINTS: f64 = 24.0;

/// CPU per request, one bar for each subject.
pub(crate) fn costs(scenario: &Scenario, inks: &Inks) -> Option<String> {
    let (lines, _) = summaries(scenario);
    let shown: Vec<Bar> = lines
        .iter()
        .filter_map(|line| {
            let (name, class) = (line.row.subject.clone(), inks.class(&line.row.subject));
            line.cpu_us.map(|value| Bar { name, class, value, remark: String::new() })
        })
        .collect();
    if shown.is_empty() {
        return None;
    }
    // As high as the curves beside them, if there are enough bars.
    let step = (330.0 / shown.len() as f64).clamp(34.0, 52.0);
    let layout = Layout { width: WIDTH, letters: LETTERS, height: step * 0.6, step };
    let spoken: Vec<String> =
        shown.iter().map(|bar| format!("{} {} µs", bar.name, figure(bar.value.median))).collect();
    let svg = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
        layout.total(shown.len()),
        escaped(&spoken.join(", ")),
        bars(&shown, &layout, "µs", 0.0, 0.0)
    );
    Some(framed("CPU per request", "microseconds of the server; whiskers: least and most of the rounds", &svg))
}

/// Latency by percentile, one curve for each subject.
pub(crate) fn latencies(scenario: &Scenario, inks: &Inks) -> Option<String> {
    let lines: Vec<PlotLine> = scenario
        .rows
        .iter()
        .map(|row| {
            let points = curve(row);
            let dots = PERCENTILES.iter().filter_map(|(percentile, label)| {
                let x = rarity(*percentile);
                let us = at(&points, x)?;
                Some((x, us, format!("{}: {label} % within {}", row.subject, span(us))))
            });
            PlotLine { name: &row.subject, class: inks.class(&row.subject), dots: dots.collect(), points }
        })
        .collect();
    let marks = [(1.0, String::new())].into_iter();
    let marks = marks.chain(PERCENTILES.iter().map(|(percentile, label)| (rarity(*percentile), (*label).to_owned())));
    let plot = Plot {
        spoken: format!("Latency by percentile: {}", scenario.title),
        x: Axis { title: "percentile", division: Division::Marked(marks.collect()), label: short },
        y: Axis { title: "latency", division: Division::Logarithmic, label: time },
        lines,
    };
    Some(framed("Latency by percentile", "median of the rounds; both axes are logarithmic", &plot.svg()?))
}

/// Any other plot of a scenario.
pub(crate) fn memory(plot: &result::PlotData, inks: &Inks) -> Option<String> {
    let dot = |name: &str, (x, y): (f64, f64)| (x, y, format!("{name}: {} at {}", figure(y), figure(x)));
    let lines = plot.series.iter().map(|(name, points)| PlotLine {
        name,
        class: inks.class(name),
        dots: points.iter().map(|point| dot(name, *point)).collect(),
        points: points.clone(),
    });
    let x = if plot.x_is_log { Division::Logarithmic } else { Division::Linear };
    let svg = Plot {
        spoken: plot.title.clone(),
        x: Axis { title: &plot.x, division: x, label: short },
        y: Axis { title: &plot.y, division: Division::Linear, label: short },
        lines: lines.collect(),
    };
    Some(framed(&plot.title, "", &svg.svg()?))
}

fn framed(title: &str, note: &str, svg: &str) -> String {
    let note = if note.is_empty() { String::new() } else { format!(" <small>{}</small>", escaped(note)) };
    format!("<figure>\n<figcaption>{}{note}</figcaption>\n{svg}</figure>\n", escaped(title))
}

fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{} s", short(us / 1e6)),
        us if us >= 1e3 => format!("{} ms", short(us / 1e3)),
        us => format!("{} µs", short(us)),
    }
}

/// One request in how many is slower than this percentile: 10 for 90, 100 for 99.
fn rarity(percentile: f64) -> f64 {
    100.0 / (100.0 - percentile).max(1e-9)
}

/// The median of the rounds' curves as (rarity, microseconds), as far as all of them reach.
fn curve(row: &Row) -> Vec<(f64, f64)> {
    let curves: Vec<Vec<(f64, f64)>> = row.rounds.iter().map(|round| points(&round.latency)).collect();
    let last = |curve: &Vec<(f64, f64)>| curve.last().map_or(1.0, |point| point.0);
    let end = curves.iter().map(last).fold(f64::INFINITY, f64::min);
    if curves.iter().all(Vec::is_empty) || !end.is_finite() {
        return Vec::new();
    }
    let steps = (end.log10() * POINTS).floor() as usize;
    let all = (0..=steps).map(|step| 10f64.powf(step as f64 / POINTS)).chain([end]);
    let middle = |x| {
        let values: Vec<f64> = curves.iter().filter_map(|curve| at(curve, x)).collect();
        (!values.is_empty()).then(|| (x, median(values)))
    };
    all.filter_map(middle).collect()
}

/// A round's curve without its last point, whose rarity is infinite; made from the named
/// percentiles if it has no curve.
fn points(latency: &LatencyFigures) -> Vec<(f64, f64)> {
    let named = [(50.0, latency.p50_us), (90.0, latency.p90_us), (99.0, latency.p99_us), (99.9, latency.p999_us)];
    let curve = if latency.curve.len() < 2 { named.as_slice() } else { latency.curve.as_slice() };
    let drawable = curve.iter().filter(|(percentile, us)| *percentile < 99.999_99 && *us > 0.0 && us.is_finite());
    drawable.map(|(percentile, us)| (rarity(*percentile), *us)).collect()
}

/// The curve's value at `x`, interpolated along the logarithm; `None` beyond its ends.
fn at(curve: &[(f64, f64)], x: f64) -> Option<f64> {
    let next = curve.partition_point(|point| point.0 < x * 0.999_999);
    let (x1, y1) = *curve.get(next)?;
    if next == 0 {
        return ((x1 / x - 1.0).abs() < 1e-5).then_some(y1);
    }
    let (x0, y0) = curve[next - 1];
    let share = if x1 > x0 { (x / x0).ln() / (x1 / x0).ln() } else { 1.0 };
    Some(y0 + (y1 - y0) * share.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::bench::result::Round;

    fn round(curve: &[(f64, f64)]) -> Round {
        Round { latency: LatencyFigures { curve: curve.to_vec(), ..LatencyFigures::default() }, ..Round::default() }
    }

    #[test]
    fn a_curve_is_the_median_of_the_rounds_as_far_as_all_go() {
        let rounds = vec![
            round(&[(0.0, 10.0), (90.0, 20.0), (99.9, 40.0), (100.0, 90.0)]),
            round(&[(0.0, 12.0), (90.0, 22.0), (99.0, 30.0), (100.0, 91.0)]),
            round(&[(0.0, 14.0), (90.0, 24.0), (99.0, 50.0)]),
        ];
        let curve = curve(&Row { rounds, ..Row::default() });
        assert_eq!(curve[0], (1.0, 12.0));
        assert!((curve.last().unwrap().0 - 100.0).abs() < 1e-6, "{curve:?}");
        assert!((at(&curve, 10.0).unwrap() - 22.0).abs() < 1e-3, "{curve:?}");
        assert!(curve.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{curve:?}");
    }

    #[test]
    fn without_a_curve_the_named_percentiles_make_one() {
        let latency =
            LatencyFigures { p50_us: 5.0, p90_us: 6.0, p99_us: 7.0, p999_us: 8.0, ..LatencyFigures::default() };
        let row = Row { rounds: vec![Round { latency, ..Round::default() }], ..Row::default() };
        let curve = curve(&row);
        assert!((curve[0].0 - 2.0).abs() < 0.2 && (curve.last().unwrap().1 - 8.0).abs() < 1e-9, "{curve:?}");
        assert!(super::curve(&Row::default()).is_empty());
        assert!(super::curve(&Row { rounds: vec![Round::default()], ..Row::default() }).is_empty());
    }
}
