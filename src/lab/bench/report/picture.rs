//! The pictures for the README: the CPU cost of a hit, for us and for the alternatives; and of a run
//! without hits, what payloads weigh and cost. Each is one SVG that stands alone: it fetches no script, no font and no other file. Its colours follow the
//! reader's light or dark system, background and ink together.

use super::bars::{Bar, Layout, bars};
use super::escape::escaped;
use super::figures::figure;
use super::ink::{Inks, style};
use super::summary::{Summary, is_ours, summaries};
use crate::lab::bench::result::{BenchReport, Scenario};

mod payloads;

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 24.0;
const TOP: f64 = 74.0;
const BELOW: f64 = 44.0;
const SCENARIO: &str = "hit-1k";

/// The SVG; `None` if no scenario has the CPU time of two subjects, or tells what payloads cost.
pub(crate) fn picture(report: &BenchReport) -> Option<String> {
    hits(report).or_else(|| payloads::drawn(report))
}

fn hits(report: &BenchReport) -> Option<String> {
    let shows = |scenario: &&Scenario| summaries(scenario).0.iter().filter(|line| line.cpu_us.is_some()).count() >= 2;
    let named = report.scenarios.iter().filter(|scenario| scenario.name == SCENARIO).find(shows);
    let scenario = named.or_else(|| report.scenarios.iter().find(shows))?;
    Some(drawn(report, scenario))
}

fn drawn(report: &BenchReport, scenario: &Scenario) -> String {
    let (mut lines, reference) = summaries(scenario);
    let to = reference.map_or_else(String::new, |to| format!("; small: times {}", to.subject));
    lines.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    let inks = Inks::of(report);
    let bar = |line: &Summary<'_>| {
        // The names stand beside the bars, so only ours needs a colour.
        let class = if is_ours(&line.row.subject) { inks.class(&line.row.subject) } else { "plain" };
        let name = line.row.subject.clone();
        line.cpu_us.map(|value| Bar { name, class, value, remark: times(line.ratio) })
    };
    let shown: Vec<Bar> = lines.iter().filter_map(bar).collect();
    let layout = Layout { width: WIDTH - 2.0 * MARGIN, letters: 14.0, height: 24.0, step: 34.0 };
    let height = TOP + layout.total(shown.len()) + BELOW;
    let title = "What a cache hit costs in CPU time";
    let rounds = scenario.rows.iter().map(|row| row.rounds.len()).max().unwrap_or_default();
    let about = format!("{}: microseconds of the server per request, median of {rounds} rounds{to}", scenario.title);
    let pinned = if report.machine.pinned { ", server and load each on its own" } else { "" };
    let below = format!("Whiskers: the least and the most of the rounds. {}", measured_on(report, pinned));
    let spoken: Vec<String> =
        shown.iter().map(|bar| format!("{} {} µs", bar.name, figure(bar.value.median))).collect();
    let frame = Frame { title, about: &about, spoken: &spoken.join(", "), below: &below, height };
    frame.around(&bars(&shown, &layout, "µs", MARGIN, TOP))
}

/// What stands around a drawing.
struct Frame<'a> {
    title: &'a str,
    about: &'a str,
    /// What a screen reader says of the drawing.
    spoken: &'a str,
    below: &'a str,
    height: f64,
}

impl Frame<'_> {
    fn around(&self, drawing: &str) -> String {
        let Self { title, about, spoken, below, height } = self;
        let (about, spoken, below) = (escaped(about), escaped(spoken), escaped(below));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-labelledby=\"title text\">\n<title id=\"title\">{title}</title>\n<desc id=\"text\">{about}. \
             {spoken}.</desc>\n<style>\n{}</style>\n<rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\" \
             rx=\"8\"/>\n<text class=\"title\" x=\"{MARGIN}\" y=\"36\">{title}</text>\n\
             <text class=\"small\" x=\"{MARGIN}\" y=\"57\">{about}</text>\n{drawing}\
             <text class=\"small\" x=\"{MARGIN}\" y=\"{}\">{below}</text>\n</svg>\n",
            style(),
            height - 18.0,
        )
    }
}

/// The machine, and the day.
fn measured_on(report: &BenchReport, how: &str) -> String {
    let day = report.began.split('T').next().unwrap_or_default();
    format!("{}, {} cores{how}; {day}", report.machine.cpu, report.machine.cores)
}

fn cost(line: &Summary) -> f64 {
    line.cpu_us.map_or(f64::INFINITY, |cpu| cpu.median)
}

/// How many times ours it is, unless the two are equal.
fn times(ratio: Option<f64>) -> String {
    ratio
        .filter(|ratio| (ratio - 1.0).abs() >= 0.005)
        .map_or_else(String::new, |ratio| format!("{} x", super::figures::ratio(ratio)))
}

#[cfg(test)]
mod tests {
    use super::super::sample::sample;
    use super::*;

    #[test]
    fn the_cheapest_stands_first_and_everyone_has_a_figure() {
        let report = sample();
        let svg = picture(&report).unwrap();
        let place = |name: &str| svg.find(&format!("text-anchor=\"end\">{name}<")).expect(name);
        assert!(place("bare responder") < place("nearside") && place("nearside") < place("nginx"));
        assert_eq!(svg.matches("<rect class=\"bar ").count(), report.scenarios[0].rows.len());
        assert!(svg.contains("prefers-color-scheme: dark") && svg.contains("class=\"ground\""));
        assert_eq!(svg.matches("://").count(), 1, "only the name of the language itself");
    }

    #[test]
    fn without_cpu_times_there_is_no_picture() {
        let mut report = sample();
        let rounds =
            report.scenarios.iter_mut().flat_map(|scenario| &mut scenario.rows).flat_map(|row| &mut row.rounds);
        rounds.for_each(|round| round.cpu_us = None);
        assert!(picture(&report).is_none() && picture(&BenchReport::default()).is_none());
    }
}
