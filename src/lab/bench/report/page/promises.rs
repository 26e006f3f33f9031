//! The first table of the page: what was promised, and which promises this run saw kept. It is
//! empty if nothing was promised. A promise that this run cannot judge looks neither met nor
//! missed.

use std::fmt::Write as _;

use super::super::escape::escaped;
use super::super::figures::figure;
use super::super::summary::verdict_in_words;
use crate::lab::bench::result::{BenchReport, Promise};

/// One line per promised figure; the figures of one promise stand together.
pub(crate) fn promises(report: &BenchReport) -> String {
    if report.promises.is_empty() {
        return String::new();
    }
    let count = |met: Option<bool>| report.promises.iter().filter(|promise| promise.met == met).count();
    let mut html = format!(
        "<section id=\"promises\">\n<h2>Promised: {} figures met, {} missed, {} not judged by this run</h2>\n\
         <div class=\"box\"><table class=\"promises\">\n<thead><tr><th></th><th>Promise</th><th>In this run</th>\
         <th class=\"n\">Seen</th><th class=\"n\">Limit</th><th>Scenario</th></tr></thead>\n<tbody>\n",
        count(Some(true)),
        count(Some(false)),
        count(None)
    );
    let mut before = 0;
    for promise in &report.promises {
        html += &row(promise, promise.number != before);
        before = promise.number;
    }
    html + "</tbody>\n</table></div>\n</section>\n"
}

fn row(promise: &Promise, first: bool) -> String {
    let Promise { number, text, scenario, seen, limit, met, why } = promise;
    let class = match met {
        Some(true) => "met",
        Some(false) => "missed",
        None => "quiet",
    };
    let number = if first { format!("{number}.") } else { String::new() };
    let mut html = format!(
        "<tr><td>{number}</td><td>{}</td><td class=\"{class}\">{}</td>",
        escaped(text),
        verdict_in_words(promise)
    );
    let _ = match (seen, limit) {
        (Some(seen), Some(limit)) => {
            let name = escaped(scenario);
            writeln!(
                html,
                "<td class=\"n\">{}</td><td class=\"n\">{}</td><td><a href=\"#{name}\">{name}</a></td></tr>",
                figure(*seen),
                figure(*limit)
            )
        }
        _ => writeln!(html, "<td colspan=\"3\" class=\"quiet why\">{}</td></tr>", escaped(why)),
    };
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_that_was_not_judged_says_why_and_is_neither_met_nor_missed() {
        let judged = Promise {
            number: 1,
            text: "a".into(),
            seen: Some(0.5),
            limit: Some(1.0),
            met: Some(true),
            ..Promise::default()
        };
        let open = Promise { number: 1, text: "b".into(), why: "<nobody> looked".into(), ..Promise::default() };
        let html = promises(&BenchReport { promises: vec![judged, open], ..BenchReport::default() });
        assert!(html.contains("1 figures met, 0 missed, 1 not judged"), "{html}");
        assert!(
            html.contains("<td class=\"quiet\">not judged</td>") && html.contains("&lt;nobody&gt; looked"),
            "{html}"
        );
        assert_eq!(html.matches("<td>1.</td>").count(), 1, "{html}");
    }

    #[test]
    fn where_nothing_was_promised_there_is_no_table() {
        assert_eq!(promises(&BenchReport::default()), "");
    }
}
