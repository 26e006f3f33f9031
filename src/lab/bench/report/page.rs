//! The page: one HTML file with everything that was measured, to look at and to pass on. A browser
//! opens it from a disk. It fetches nothing and runs nothing (its own policy forbids both), and all
//! text from outside is escaped.

use std::fmt::Write as _;

use self::charts::{costs, latencies, memory};
use super::escape::escaped;
use super::figures::{NONE, figure, grouped, margin, mebibytes, ratio as times};
use super::ink::{Inks, style};
use super::summary::{LATENCIES, Summary, is_ours, summaries};
use crate::lab::bench::result::{BenchReport, Goal, Scenario};

mod charts;
mod promises;
mod tables;

const STYLE: &str = include_str!("page/style.css");

/// The whole HTML file.
pub(crate) fn page(report: &BenchReport) -> String {
    let inks = Inks::of(report);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>nearside bench, {}</title>\n\
         <style>\n{STYLE}{}</style>\n</head>\n<body>\n",
        escaped(day(report)),
        style()
    );
    html += &head(report);
    html += "<main>\n";
    html += &promises::promises(report);
    html += &goals(report);
    report.scenarios.iter().for_each(|scenario| html += &section(scenario, &inks));
    html + "</main>\n</body>\n</html>\n"
}

fn day(report: &BenchReport) -> &str {
    report.began.split('T').next().unwrap_or_default()
}

/// The machine, the versions, what is missing, and links to the scenarios.
fn head(report: &BenchReport) -> String {
    let machine = &report.machine;
    let cores = if machine.cores == 1 { "1 core".into() } else { format!("{} cores", machine.cores) };
    let pinned = if machine.pinned {
        "load and server each held on cores of their own"
    } else {
        "not pinned, so that figures spread more"
    };
    let took = match report.took_s {
        seconds if seconds < 120.0 => format!("{} s", figure(seconds)),
        seconds => format!("{:.0} min", seconds / 60.0),
    };
    let mut html = format!(
        "<header>\n<h1>nearside bench</h1>\n<dl class=\"facts\">\n\
         <div><dt>Began</dt><dd>{}, took {took}</dd></div>\n\
         <div><dt>Machine</dt><dd>{}, {cores}; {pinned}</dd></div>\n<div><dt>Kernel</dt><dd>{}</dd></div>\n",
        escaped(&report.began.replace('T', " ")),
        escaped(&machine.cpu),
        escaped(&machine.kernel)
    );
    let versions = versions(report);
    if !versions.is_empty() {
        let _ = writeln!(html, "<div><dt>Versions</dt><dd>{}</dd></div>", versions.join(", "));
    }
    for missing in &report.missing {
        let (name, why) = (escaped(&missing.name), escaped(&missing.why));
        let _ = writeln!(html, "<div><dt>Not measured</dt><dd><b>{name}</b>: {why}</dd></div>");
    }
    html += "</dl>\n<nav aria-label=\"Scenarios\">\n";
    for scenario in &report.scenarios {
        let name = escaped(&scenario.name);
        let _ = writeln!(html, "<a href=\"#{name}\">{name}</a>");
    }
    html + "</nav>\n</header>\n"
}

/// Each subject and its version once, as HTML.
fn versions(report: &BenchReport) -> Vec<String> {
    let mut versions: Vec<String> = Vec::new();
    for row in report.scenarios.iter().flat_map(|scenario| &scenario.rows).filter(|row| !row.version.is_empty()) {
        // `nearside, Unix socket` is nearside.
        let name = row.subject.split(',').next().unwrap_or_default();
        let told = if row.version.contains(name) { row.version.clone() } else { format!("{name} {}", row.version) };
        let version = escaped(&told);
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    versions
}

/// The goals of all scenarios.
fn goals(report: &BenchReport) -> String {
    let all = || report.scenarios.iter().flat_map(|scenario| &scenario.goals);
    let (met, count) = (all().filter(|goal| goal.met).count(), all().count());
    if count == 0 {
        return String::new();
    }
    // Folded away if there are promises, because it repeats much of them.
    let (before, behind) = match report.promises.is_empty() {
        true => (format!("<section id=\"goals\">\n<h2>{met} of {count} goals met</h2>\n"), "</section>\n"),
        false => (
            format!("<details id=\"goals\"><summary>All goals of all scenarios: {met} of {count} met</summary>\n"),
            "</details>\n",
        ),
    };
    let mut html = format!(
        "{before}<div class=\"box\"><table class=\"goals\">\n\
         <thead><tr><th></th><th>Goal</th><th class=\"n\">Seen</th><th class=\"n\">Limit</th><th>By how much</th>\
         <th>Scenario</th></tr></thead>\n<tbody>\n"
    );
    for scenario in &report.scenarios {
        for goal in &scenario.goals {
            let name = escaped(&scenario.name);
            let _ = writeln!(
                html,
                "<tr>{}<td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td>\
                 <td><a href=\"#{name}\">{name}</a></td></tr>",
                mark(goal),
                escaped(&goal.text),
                figure(goal.seen),
                figure(goal.limit),
                margin(goal)
            );
        }
    }
    html + "</tbody>\n</table></div>\n" + behind
}

fn mark(goal: &Goal) -> &'static str {
    if goal.met {
        "<td class=\"met\"><span title=\"met\">✓</span></td>"
    } else {
        "<td class=\"missed\"><span title=\"missed\">✗</span></td>"
    }
}

fn section(scenario: &Scenario, inks: &Inks) -> String {
    let mut html = format!(
        "<section id=\"{}\">\n<h2>{} <code>{}</code></h2>\n",
        escaped(&scenario.name),
        escaped(&scenario.title),
        escaped(&scenario.name)
    );
    let took = if scenario.took_s > 0.0 { format!(" Took {} s.", figure(scenario.took_s)) } else { String::new() };
    if !scenario.how.is_empty() {
        let _ = writeln!(html, "<p class=\"how\">{}.{took}</p>", escaped(&scenario.how));
    }
    if !scenario.goals.is_empty() {
        html += "<ul class=\"verdicts\">\n";
        for goal in &scenario.goals {
            let (class, mark) = if goal.met { ("met", "✓") } else { ("missed", "✗") };
            let (text, seen) = (escaped(&goal.text), figure(goal.seen));
            let margin = margin(goal);
            let _ = writeln!(html, "<li><b class=\"{class}\">{mark}</b> {text}: <b>{seen}</b>, {margin}</li>");
        }
        html += "</ul>\n";
    }
    if !scenario.rows.is_empty() {
        html += &rows(scenario, inks);
    }
    scenario.tables.iter().for_each(|table| html += &tables::table(table));
    let charts: String = [costs(scenario, inks), latencies(scenario, inks)]
        .into_iter()
        .flatten()
        .chain(scenario.plots.iter().filter_map(|plot| memory(plot, inks)))
        .collect();
    if !charts.is_empty() {
        let _ = write!(html, "<div class=\"charts\">\n{charts}</div>\n");
    }
    for note in &scenario.notes {
        let _ = writeln!(html, "<p class=\"note\">{}</p>", escaped(note));
    }
    html += &settings(scenario);
    html + "</section>\n"
}

/// The table of a scenario.
fn rows(scenario: &Scenario, inks: &Inks) -> String {
    let (lines, reference) = summaries(scenario);
    let (cpu, rss) =
        (lines.iter().any(|line| line.cpu_us.is_some()), lines.iter().any(|line| line.rss_bytes.is_some()));
    let ratio = reference.filter(|_| lines.len() > 1 && lines.iter().any(|line| line.ratio.is_some()));
    // One unit for all latencies, so that they can be compared at a glance.
    let (unit, per) =
        if lines.iter().any(|line| line.latencies_us[0] >= 1000.0) { ("ms", 1000.0) } else { ("µs", 1.0) };

    let mut html = String::from("<div class=\"box\"><table class=\"rows\">\n<thead><tr><th></th>");
    html += "<th class=\"n\">Rate<small>requests/s</small></th>";
    if cpu {
        html +=
            "<th class=\"n\">CPU<small>µs/request</small></th><th class=\"n\">Spread<small>of rounds</small></th>";
    }
    if let Some(reference) = &ratio {
        let (of, subject) = (reference.of, escaped(reference.subject));
        let _ = write!(html, "<th class=\"n\">{of}<small>x {subject}</small></th>");
    }
    for name in LATENCIES {
        let _ = write!(html, "<th class=\"n\">{name}<small>{unit}</small></th>");
    }
    if rss {
        html += "<th class=\"n\">RSS<small>MiB</small></th>";
    }
    html += "<th class=\"n\">Failed<small>requests</small></th></tr></thead>\n<tbody>\n";
    for line in &lines {
        html += &row(line, inks, (cpu, ratio.is_some(), rss), per);
    }
    html + "</tbody>\n</table></div>\n"
}

fn row(line: &Summary, inks: &Inks, (cpu, ratio, rss): (bool, bool, bool), per: f64) -> String {
    let subject = &line.row.subject;
    let ours = if is_ours(subject) { " class=\"ours\"" } else { "" };
    let mut html = format!("<tr{ours}><th scope=\"row\">{}{}</th>", swatch(inks.class(subject)), escaped(subject));
    let mut cell = |class: &str, text: String| html += &format!("<td class=\"n{class}\">{text}</td>");
    let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.into());
    cell("", grouped(line.rate.round().max(0.0) as u64));
    if cpu {
        cell(" strong", or_none(line.cpu_us.map(|cpu| figure(cpu.median))));
        cell(" quiet", or_none(line.cpu_us.map(|cpu| format!("{}–{}", figure(cpu.least), figure(cpu.most)))));
    }
    if ratio {
        cell("", or_none(line.ratio.map(times)));
    }
    line.latencies_us.iter().for_each(|us| cell("", figure(us / per)));
    if rss {
        cell("", or_none(line.rss_bytes.map(mebibytes)));
    }
    let resent = if line.resent > 0 { format!(" ({} resent)", grouped(line.resent)) } else { String::new() };
    cell(if line.failures > 0 { " missed" } else { " quiet" }, grouped(line.failures) + &resent);
    html + "</tr>\n"
}

/// A sample of a subject's ink, drawn like its curve.
fn swatch(class: &str) -> String {
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 22 8\" aria-hidden=\"true\"><path class=\"line {class}\" d=\"M2 4H20\"/></svg>"
    )
}

/// How each subject was set up, and what proved that it did its work.
fn settings(scenario: &Scenario) -> String {
    let told = |row: &&crate::lab::bench::result::Row| !(row.settings.is_empty() && row.proof.is_empty());
    let mut html = String::new();
    for row in scenario.rows.iter().filter(told) {
        let rounds = if row.rounds.len() == 1 { "1 round".into() } else { format!("{} rounds", row.rounds.len()) };
        let requests = grouped(row.rounds.iter().map(|round| round.requests).sum());
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{requests} in {rounds}</td></tr>",
            escaped(&row.subject),
            escaped(&row.version),
            escaped(&row.settings),
            escaped(&row.proof)
        );
    }
    if html.is_empty() {
        return html;
    }
    format!(
        "<details><summary>How each was set up, and what proves that it did its work</summary>\n\
         <div class=\"box\"><table class=\"settings\">\n<thead><tr><th></th><th>Version</th><th>Settings</th><th>Proof</th>\
         <th class=\"n\">Requests</th></tr></thead>\n<tbody>\n{html}</tbody>\n</table></div>\n</details>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::sample::sample;
    use super::*;
    use crate::lab::bench::result::{PlotData, Row};

    #[test]
    fn everything_that_was_measured_is_on_the_page() {
        let mut report = sample();
        report.scenarios[0].rows[0].rounds[0].resent = 1_004;
        let html = page(&report);
        assert!(html.contains("0 (1,004 resent)</td>"));
        for scenario in &report.scenarios {
            assert!(html.contains(&format!("<section id=\"{}\">", scenario.name)));
            for row in &scenario.rows {
                assert!(html.contains(&format!("</svg>{}</th>", escaped(&row.subject))), "{}", row.subject);
            }
            for plot in &scenario.plots {
                assert!(html.contains(&escaped(&plot.title)), "{}", plot.title);
            }
            for (name, _) in scenario.tables.iter().flat_map(|table| &table.rows) {
                assert!(html.contains(&format!("<th scope=\"row\">{}</th>", escaped(name))), "{name}");
            }
        }
        assert!(html.contains("color-scheme: light dark") && html.contains("<b>envoy</b>"));
    }

    #[test]
    fn a_browser_fetches_nothing_and_runs_nothing_for_it() {
        let html = page(&sample());
        for mark in ["http://", "https://", "src=", "<script", "url(", "@import", "<iframe", "javascript:", " on"] {
            let found = html.match_indices(mark).find(|(at, _)| mark != " on" || html[at + 3..].starts_with("click"));
            assert!(found.is_none(), "{mark}");
        }
        let mut links = html.split("href=\"").skip(1);
        assert!(links.all(|rest| rest.starts_with('#') || rest.starts_with("data:,")));
        assert_eq!(html.matches("<link ").count(), 1);
    }

    #[test]
    fn text_from_outside_stays_text() {
        let mut report = sample();
        let evil = || String::from("<script>alert('\"&')</script>");
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
        let html = page(&report);
        assert!(!html.contains("<script") && !html.contains("('\""), "a text was not escaped");
        assert!(html.matches("&lt;script&gt;").count() > 12);
    }

    #[test]
    fn a_scenario_without_rows_is_shown_all_the_same() {
        let scenario = Scenario {
            name: "idle".into(),
            title: "Idle".into(),
            notes: vec!["alone".into()],
            ..Scenario::default()
        };
        let mut report = BenchReport { scenarios: vec![scenario], ..BenchReport::default() };
        let html = page(&report);
        assert!(html.contains("Idle <code>idle</code>") && html.contains("alone") && !html.contains("<table"));
        report.scenarios[0].rows.push(Row { subject: "nearside".into(), ..Row::default() });
        assert!(!page(&report).contains("NaN"));
    }
}
