//! The report on a terminal: for each scenario a table, its goals and its notes. It is plain text,
//! and no line is longer than [`WIDTH`] unless a single word is.

use std::fmt::Write as _;

use super::figures::{NONE, figure, grouped, margin, mebibytes, ratio, span};
use super::summary::{LATENCIES, Summary, summaries, verdict_in_words};
use crate::lab::bench::result::{BenchReport, FigureTable, Goal, PlotData, Promise, Scenario};

/// How many columns of a terminal a report needs.
pub(crate) const WIDTH: usize = 110;
/// What a subject's name gets at least, even if the numbers are long.
const NAME: usize = 12;
const SPREAD: &str = "spread";

pub(crate) fn table(report: &BenchReport) -> String {
    let mut text = head(report);
    for scenario in &report.scenarios {
        text.push('\n');
        text += &one(scenario);
    }
    for missing in &report.missing {
        text += &wrapped(&format!("not measured: {}: {}", missing.name, missing.why), "\n", "  ");
    }
    let goals = || report.scenarios.iter().flat_map(|scenario| &scenario.goals);
    if goals().next().is_some() {
        let _ = writeln!(text, "\n{} of {} goals met", goals().filter(|goal| goal.met).count(), goals().count());
    }
    if !report.promises.is_empty() {
        text += "\nWhat was promised\n";
        report.promises.iter().for_each(|promise| text += &account(promise));
    }
    text
}

/// One promise, and whether this run saw it kept.
fn account(promise: &Promise) -> String {
    let Promise { number, text, scenario, seen, limit, why, .. } = promise;
    let told = match (seen, limit) {
        (Some(seen), Some(limit)) => format!("{} (limit {}; {scenario})", figure(*seen), figure(*limit)),
        _ => why.clone(),
    };
    wrapped(&format!("{number}. {text}: {}: {told}", verdict_in_words(promise)), "  ", "     ")
}

/// One scenario: its title, table, goals and notes.
pub(crate) fn one(scenario: &Scenario) -> String {
    let took = if scenario.took_s > 0.0 { format!(", {} s", figure(scenario.took_s)) } else { String::new() };
    let mut text = format!("{} ({}{took})\n", scenario.title, scenario.name);
    text += &wrapped(&scenario.how, "  ", "  ");
    let (lines, reference) = summaries(scenario);
    if !lines.is_empty() {
        text.push('\n');
        text += &laid_out(&columns(&lines));
    }
    if let Some(reference) = reference.filter(|_| lines.len() > 1 && lines.iter().any(|line| line.ratio.is_some())) {
        text += &wrapped(&format!("ratio: {} to that of {}", reference.of, reference.subject), "  ", "  ");
    }
    scenario.tables.iter().for_each(|table| text += &figures(table));
    scenario.plots.iter().for_each(|plot| text += &points(plot));
    scenario.goals.iter().for_each(|goal| text += &verdict(goal));
    scenario.notes.iter().for_each(|note| text += &wrapped(note, "  note: ", "        "));
    text
}

fn head(report: &BenchReport) -> String {
    let machine = &report.machine;
    let cores = if machine.cores == 1 { "1 core".into() } else { format!("{} cores", machine.cores) };
    let pinned = if machine.pinned { "pinned" } else { "not pinned: figures spread more" };
    let line = format!(
        "{}, {cores}, {}, {pinned}; {}, took {} s",
        machine.cpu,
        machine.kernel,
        report.began,
        report.took_s.round()
    );
    wrapped(&line, "", "")
}

/// A heading, and one cell per subject.
type Column = (String, Vec<String>);

/// Only the columns that have something to say.
fn columns(lines: &[Summary]) -> Vec<Column> {
    let column = |name: &str, cell: &dyn Fn(&Summary) -> String| (name.to_owned(), lines.iter().map(cell).collect());
    let or_none = |value: Option<String>| value.unwrap_or_else(|| NONE.into());
    let mut columns: Vec<Column> = vec![
        column("", &|line| line.row.subject.clone()),
        column("rate/s", &|line| grouped(line.rate.round().max(0.0) as u64)),
        column("CPU µs", &|line| or_none(line.cpu_us.map(|cpu| figure(cpu.median)))),
        column(SPREAD, &|line| or_none(line.cpu_us.map(|cpu| format!("{}-{}", figure(cpu.least), figure(cpu.most))))),
        column("ratio", &|line| or_none(line.ratio.map(ratio))),
    ];
    for (place, name) in LATENCIES.iter().enumerate() {
        columns.push(column(name, &|line| span(line.latencies_us[place]).replace(' ', "")));
    }
    columns.push(column("MiB", &|line| or_none(line.rss_bytes.map(mebibytes))));
    columns.push(column("failed", &|line| grouped(line.failures)));
    columns.push(column("resent", &|line| or_none((line.resent > 0).then(|| grouped(line.resent)))));
    columns.retain(|(_, cells)| cells.iter().any(|cell| cell != NONE));
    columns
}

/// Figures of several kinds, a row for each name.
fn figures(table: &FigureTable) -> String {
    let names = (String::new(), table.rows.iter().map(|(name, _)| name.clone()).collect());
    let cell = |row: &Vec<Option<f64>>, place: usize| row.get(place).copied().flatten().map_or(NONE.into(), figure);
    let column = |(place, name): (usize, &String)| {
        (name.clone(), table.rows.iter().map(|(_, row)| cell(row, place)).collect())
    };
    let columns: Vec<Column> = std::iter::once(names).chain(table.columns.iter().enumerate().map(column)).collect();
    format!("\n{}{}", wrapped(&table.title, "  ", "  "), laid_out(&columns))
}

/// Aligns names to the left and numbers to the right; a name that does not fit is cut.
fn laid_out(columns: &[Column]) -> String {
    let length = |cell: &String| cell.chars().count();
    let mut widths: Vec<usize> = columns
        .iter()
        .map(|(name, cells)| cells.iter().chain([name]).map(length).max().unwrap_or_default())
        .collect();
    // The spread stands close to its figure.
    let gap = |column: &Column| if column.0 == SPREAD { " " } else { "  " };
    let others: usize = columns.iter().zip(&widths).skip(1).map(|(column, width)| width + gap(column).len()).sum();
    widths[0] = widths[0].min(WIDTH.saturating_sub(2 + others)).max(NAME);
    let line = |cell: &dyn Fn(&Column) -> String| {
        let mut line = String::from(" ");
        for (place, (column, width)) in columns.iter().zip(&widths).enumerate() {
            let cell = cell(column);
            let _ = match place {
                0 => write!(line, " {:<width$}", cut(&cell, *width)),
                _ => write!(line, "{}{cell:>width$}", gap(column)),
            };
        }
        line.trim_end().to_owned() + "\n"
    };
    let mut text = line(&|(name, _)| name.clone());
    for row in 0..columns[0].1.len() {
        text += &line(&|(_, cells)| cells[row].clone());
    }
    text
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// A plot in words: only its last points, because the page draws it.
fn points(plot: &PlotData) -> String {
    let last = |(name, points): &(String, Vec<(f64, f64)>)| {
        points.last().map(|(x, y)| format!("{name} {} at {}", figure(*y), figure(*x)))
    };
    let ends: Vec<String> = plot.series.iter().filter_map(last).collect();
    if ends.is_empty() {
        return String::new();
    }
    wrapped(&format!("{} ({}; {}): {}", plot.title, plot.y, plot.x, ends.join(", ")), "  ", "    ")
}

fn verdict(goal: &Goal) -> String {
    let mark = if goal.met { "✓" } else { "✗" };
    wrapped(&format!("{}: {}, {}", goal.text, figure(goal.seen), margin(goal)), &format!("  {mark} "), "    ")
}

/// `text` in lines of [`WIDTH`]; `first` begins the first line and `next` each other line.
fn wrapped(text: &str, first: &str, next: &str) -> String {
    let mut lines = String::new();
    let mut line = String::from(first);
    let mut empty = true;
    for word in text.split_whitespace() {
        let length = line.rsplit('\n').next().unwrap_or_default().chars().count();
        if !empty && length + 1 + word.chars().count() > WIDTH {
            lines = lines + &line + "\n";
            line = String::from(next);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    if empty { lines } else { lines + &line + "\n" }
}

#[cfg(test)]
mod tests {
    use super::super::sample::sample;
    use super::*;

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        let mut report = sample();
        for row in &mut report.scenarios[0].rows {
            row.subject += " with a name that nobody would give to a subject";
            row.rounds.iter_mut().for_each(|round| round.requests *= 1000);
        }
        let text = table(&report);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(WIDTH), "{widest:?}\n{text}");
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn every_subject_goal_note_and_missing_peer_is_named() {
        let report = sample();
        let text = table(&report);
        for scenario in &report.scenarios {
            for row in &scenario.rows {
                assert!(one(scenario).contains(&row.subject), "{}", row.subject);
            }
            for note in &scenario.notes {
                assert!(text.contains(note.split(' ').next().unwrap()), "{note}");
            }
        }
        assert!(text.contains("not measured: envoy"), "{text}");
        let (met, missed) = (text.matches('✓').count(), text.matches('✗').count());
        assert!(met > 0 && missed > 0);
        assert!(text.ends_with(&format!("{met} of {} goals met\n", met + missed)), "{text}");
    }

    #[test]
    fn columns_nobody_fills_are_not_shown() {
        let mut report = sample();
        let scenario = &mut report.scenarios[0];
        assert!(one(scenario).contains("CPU µs") && !one(scenario).contains("resent"));
        scenario.rows[0].rounds[0].resent = 1_004;
        assert!(one(scenario).contains("resent") && one(scenario).contains("1,004"));
        scenario.rows.iter_mut().flat_map(|row| &mut row.rounds).for_each(|round| round.cpu_us = None);
        let text = one(scenario);
        assert!(!text.contains("CPU µs") && text.contains("ratio: p50 to that of nearside"), "{text}");
    }

    #[test]
    fn figures_of_several_kinds_have_a_table_of_their_own() {
        let text = table(&sample());
        let line = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        let cells = |name: &str| line(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(text.contains("\n\n  Bytes by entries\n"), "{text}");
        assert!(cells("a thousand").ends_with(&["1,481".into(), NONE.into()]), "{text}");
        assert!(cells("a million").ends_with(&["1,480".into(), "37.3".into()]), "{text}");
    }

    #[test]
    fn a_scenario_without_rows_has_no_table() {
        let scenario = Scenario { name: "idle".into(), title: "Idle".into(), ..Scenario::default() };
        assert_eq!(one(&scenario), "Idle (idle)\n");
        assert_eq!(
            one(&Scenario { rows: vec![crate::lab::bench::result::Row::default()], ..scenario }).lines().count(),
            4
        );
    }
}
