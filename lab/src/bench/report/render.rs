//! The report for people, made from templates: `text.txt` for a terminal, and `page.html`, one file
//! that stands alone, to look at and to pass on. A browser opens it from a disk. It fetches nothing
//! and runs nothing (its own policy forbids both), and all text from outside is escaped.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, context};
use plotters::style::RGBColor;
use serde::Serialize;
use thiserror::Error;

use super::charts::{Chart, charts};
use super::draw::DrawingError;
use super::figures::{self, NONE, margin};
use super::ink::Ink;
use super::summary::{Column, Reference, columns, figure_columns, goals_met, summaries};
use super::text::{laid_out, wrapped};
use crate::bench::result::{BenchReport, Goal, Scenario};

#[derive(Debug, Error)]
pub(crate) enum RenderError {
    #[error("a chart could not be drawn: {0}")]
    Chart(#[from] DrawingError),
    #[error("a template could not be filled in: {0:#}")]
    Template(#[from] minijinja::Error),
}

/// Template's values of a scenario, beside the scenario itself.
#[derive(Serialize)]
struct Section<'a> {
    scenario: &'a Scenario,
    columns: Vec<Column>,
    /// The colour of each row, and whether it is ours.
    inks: Vec<(String, bool)>,
    reference: Option<Reference<'a>>,
    /// The columns of each table of figures.
    tables: Vec<Vec<Column>>,
}

/// The tables, goals and notes as plain text.
pub(crate) fn text(report: &BenchReport) -> Result<String, RenderError> {
    Ok(render("text.txt", include_str!("text.txt"), report, Vec::new())?)
}

/// The whole HTML file.
pub(crate) fn page(report: &BenchReport) -> Result<String, RenderError> {
    Ok(render("page.html", include_str!("page.html"), report, charts(report)?)?)
}

fn render(
    name: &str,
    template: &str,
    report: &BenchReport,
    charts: Vec<Vec<Chart>>,
) -> Result<String, minijinja::Error> {
    let mut templates = Environment::new();
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    templates.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    templates.add_filter("figure", figure);
    templates.add_filter("grouped", figures::grouped);
    templates.add_filter("laid_out", |columns: Serde<Vec<Column>>| laid_out(&columns));
    templates.add_filter("margin", |goal: Serde<Goal>| margin(&goal));
    templates.add_filter("verdict", verdict);
    templates.add_filter("wrap", wrapped);
    templates.add_template(name, template)?;
    let sections: Vec<Section<'_>> = report.scenarios.iter().map(section).collect();
    let (report, sections, charts) = (Serde(report), Serde(sections), Serde(charts));
    templates.get_template(name)?.render(context! { report, goals => goals_met(&report), sections, charts })
}

fn section(scenario: &Scenario) -> Section<'_> {
    let (lines, reference) = summaries(scenario);
    let columns = columns(&lines);
    let tables = scenario.tables.iter().map(figure_columns).collect();
    let inks = scenario.rows.iter().map(|row| colour(Ink::of(scenario, &row.subject))).collect();
    Section { scenario, columns, inks, reference, tables }
}

fn colour(Ink { colour: RGBColor(red, green, blue), ours, .. }: Ink) -> (String, bool) {
    (format!("#{red:02x}{green:02x}{blue:02x}"), ours)
}

fn figure(value: Option<f64>) -> String {
    value.map_or(NONE.into(), figures::figure)
}

fn verdict(met: Option<bool>) -> &'static str {
    met.map_or("not judged", |met| if met { "met" } else { "missed" })
}

#[cfg(test)]
mod tests {
    use minijinja::HtmlEscape;

    use super::super::sample::sample;
    use super::*;
    use crate::bench::result::{PlotData, Promise, Row};

    /// With promises of each kind, and a request that was sent again.
    fn whole() -> BenchReport {
        let mut report = sample();
        report.scenarios[0].rows[0].rounds[0].resent = 1_004;
        let met = Promise { number: 1, text: "a hit".into(), scenario: "hit-1k".into(), ..Promise::default() };
        let met = Promise { seen: Some(0.5), limit: Some(1.25), met: Some(true), ..met };
        let missed = Promise { seen: Some(1.5), met: Some(false), ..met.clone() };
        let open = Promise { number: 2, text: "a miss".into(), why: "nobody looked".into(), ..Promise::default() };
        report.promises = vec![met, missed, open];
        report
    }

    fn one(scenario: &Scenario) -> String {
        let report = BenchReport { scenarios: vec![scenario.clone()], ..BenchReport::default() };
        text(&report).unwrap().split_once("\n\n").unwrap().1.to_owned()
    }

    #[test]
    fn every_figure_is_on_the_page_and_the_terminal() {
        let report = whole();
        let (html, text) = (page(&report).unwrap(), text(&report).unwrap());
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut shown: Vec<String> = Vec::new();
        for scenario in &report.scenarios {
            let tables = scenario.tables.iter().map(figure_columns);
            for column in tables.chain([columns(&summaries(scenario).0)]).flatten() {
                shown.extend([column.name].into_iter().chain(column.cells));
            }
            let goals = scenario.goals.iter();
            shown.extend(goals.flat_map(|goal| [goal.text.clone(), figures::figure(goal.seen), margin(goal)]));
            shown.extend([scenario.name.clone(), scenario.title.clone(), scenario.how.clone()]);
            shown.extend(scenario.notes.iter().chain(scenario.plots.iter().map(|plot| &plot.title)).cloned());
        }
        let promises = ["0.500", "1.25", "met", "missed", "1.50", "not judged", "nobody looked", "8 of 10", "envoy"];
        for part in shown.into_iter().chain(promises.map(str::to_owned)) {
            assert!(html.contains(&HtmlEscape(&part).to_string()), "{part}: {html}");
            assert!(text.contains(&part), "{part}: {text}");
        }
        assert!(html.contains("1 figures met, 1 missed, 1 not judged"), "{html}");
        assert_eq!(html.matches("<td>1.</td>").count(), 1, "a number stands at its first figure");
        for chart in charts(&report).unwrap().iter().flatten() {
            assert!(html.contains(&chart.svg), "{}", chart.name);
        }
    }

    #[test]
    fn a_terminal_gets_plain_lines_that_fit() {
        let mut report = whole();
        for row in &mut report.scenarios[0].rows {
            row.subject += " with a name that nobody would give to a subject";
            row.rounds.iter_mut().for_each(|round| round.requests *= 1000);
        }
        let text = text(&report).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 110 && line.trim_end() == line), "{text}");
        assert!(!text.contains('\u{1b}'));
        let (met, missed) = (text.matches('✓').count(), text.matches('✗').count());
        assert!(
            text.contains(&format!("\n\n{met} of {} goals met\n\nWhat was promised\n  1. a", met + missed)),
            "{text}"
        );
        assert!(text.contains("\n\nnot measured: envoy: no"), "{text}");
        assert!(text.ends_with("  2. a miss: not judged: nobody looked\n"), "{text}");
    }

    #[test]
    fn empty_columns_are_omitted() {
        let mut scenario = sample().scenarios.swap_remove(0);
        assert!(one(&scenario).contains("CPU µs") && !one(&scenario).contains("resent"));
        scenario.rows[0].rounds[0].resent = 1_004;
        assert!(one(&scenario).contains("resent") && one(&scenario).contains("1,004"));
        scenario.rows.iter_mut().flat_map(|row| &mut row.rounds).for_each(|round| round.cpu_us = None);
        let text = one(&scenario);
        assert!(!text.contains("CPU µs") && text.contains("ratio: p50 to that of nearside"), "{text}");
    }

    #[test]
    fn page_needs_no_fetches_or_scripts() {
        // The name of the language is no address.
        let html = page(&sample()).unwrap().replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for mark in ["http://", "https://", "src=", "<script", "url(", "@import", "<iframe", "javascript:", " on"] {
            let found = html.match_indices(mark).find(|(at, _)| mark != " on" || html[at + 3..].starts_with("click"));
            assert!(found.is_none(), "{mark}");
        }
        let mut links = html.split("href=\"").skip(1);
        assert!(links.all(|rest| rest.starts_with('#') || rest.starts_with("data:,")));
        assert_eq!(html.matches("<link ").count(), 1);
    }

    fn evil() -> String {
        "<script>alert('\"&')</script>".to_owned()
    }

    #[test]
    fn text_from_outside_stays_text() {
        let mut report = sample();
        (report.machine.cpu, report.machine.kernel, report.began) = (evil(), evil(), evil());
        (report.missing[0].name, report.missing[0].why) = (evil(), evil());
        let scenario = &mut report.scenarios[0];
        (scenario.name, scenario.title, scenario.how) = (evil(), evil(), evil());
        scenario.notes.push(evil());
        scenario.goals[0].text = evil();
        scenario.plots.push(PlotData {
            title: evil(),
            x: evil(),
            y: evil(),
            series: vec![(evil(), vec![(1.0, 2.0)])],
            ..PlotData::default()
        });
        let row = &mut scenario.rows[1];
        (row.subject, row.version, row.settings, row.proof) = (evil(), evil(), evil(), evil());
        let html = page(&report).unwrap();
        assert!(!html.contains("<script") && !html.contains("('\""), "a text was not escaped");
        assert!(html.matches("&lt;script&gt;").count() > 12);
    }

    #[test]
    fn scenario_without_rows_still_appears() {
        let scenario = Scenario {
            name: "idle".into(),
            title: "Idle".into(),
            notes: vec!["alone".into()],
            ..Scenario::default()
        };
        let mut report = BenchReport { scenarios: vec![scenario], ..BenchReport::default() };
        assert_eq!(one(&report.scenarios[0]), "Idle (idle)\n  note: alone\n");
        let html = page(&report).unwrap();
        assert!(html.contains("Idle <code>idle</code>") && html.contains("alone") && !html.contains("<table"));
        report.scenarios[0].rows.push(Row { subject: "nearside".into(), ..Row::default() });
        assert!(!page(&report).unwrap().contains("NaN"));
        assert_eq!(one(&report.scenarios[0]).lines().count(), 5);
    }
}
