//! Results of a half: its figures, and the stories of its violations.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::asked::{Histories, Outcome, Record, Request};
use super::check::Violation;
use super::readers::Sidecar;
use super::writers::WriteLog;

/// Violations that are named, those of them that are printed as stories, and lines of each.
const NAMED: usize = 30;
const STORIES: usize = 5;
const LINES: usize = 40;

/// One SIGKILL that took place.
#[derive(Clone, Debug)]
pub(crate) struct Killed {
    pub(crate) name: String,
    pub(crate) role: &'static str,
    /// Since the half began.
    pub(crate) at: Duration,
    /// Uptime before that.
    pub(crate) up: Duration,
}

#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) kills: Vec<Killed>,
    /// From a start until it said that it was ready, by role.
    pub(crate) restarts: BTreeMap<&'static str, Vec<Duration>>,
    /// Starts that a process gave up by itself.
    pub(crate) given_up: Vec<String>,
    pub(crate) agreed: Option<Duration>,
    pub(crate) verified: String,
}

impl Figures {
    fn by_role(&self) -> BTreeMap<&'static str, usize> {
        let mut count = BTreeMap::new();
        self.kills.iter().for_each(|kill| *count.entry(kill.role).or_default() += 1);
        count
    }
}

fn words<K: std::fmt::Display, V: std::fmt::Display>(of: impl IntoIterator<Item = (K, V)>) -> String {
    let words: Vec<_> = of.into_iter().map(|(word, count)| format!("{word} {count}")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// One line, while it goes on.
pub(crate) fn progress(write_log: &WriteLog, sidecars: &[Arc<Sidecar>], figures: &Figures) -> String {
    let mut line = format!(
        "{} kills ({})  {} writes, {} refused, {} unknown ",
        figures.kills.len(),
        words(figures.by_role()),
        load(&write_log.acknowledged),
        load(&write_log.refused),
        load(&write_log.unknown),
    );
    for sidecar in sidecars {
        let (reads, failed, old) = (load(&sidecar.reads), load(&sidecar.failed), load(&sidecar.said_old));
        let _ = write!(line, " {}: {reads} reads, {failed} failed, {old} labelled old ", sidecar.name);
    }
    line
}

/// The figures of a half that is over.
pub(crate) fn summary(write_log: &WriteLog, sidecars: &[Arc<Sidecar>], figures: &Figures) -> String {
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    for request in write_log.requests() {
        if let Outcome::Refused(why) = request.outcome {
            *refused.entry(why).or_default() += 1;
        }
    }
    let mut text = format!("  {}\n  refused: {}\n", progress(write_log, sidecars, figures), words(refused));
    for (role, took) in &figures.restarts {
        let mut took = took.clone();
        took.sort_unstable();
        let (middle, most) = (took[took.len() / 2], took[took.len() - 1]);
        let _ = writeln!(text, "  {role}: {} starts until ready, p50 {middle:.1?}, longest {most:.1?}", took.len());
    }
    if !figures.given_up.is_empty() {
        let _ = writeln!(text, "  starts that were given up: {:?}", figures.given_up);
    }
    if let Some(agreed) = figures.agreed {
        let _ = writeln!(text, "  all views agreed {agreed:.1?} after the last write");
    }
    for line in figures.verified.lines() {
        let _ = writeln!(text, "  verify: {line}");
    }
    text
}

/// The kills, and the stories of the first records that something is wrong with.
pub(crate) fn stories(
    violations: &[Violation],
    requests: &[Request],
    histories: &Histories,
    figures: &Figures,
) -> String {
    let mut text = String::from("kills:\n");
    for kill in &figures.kills {
        let _ = writeln!(text, "  {:>7.1?} {} (up for {:.1?})", kill.at, kill.name, kill.up);
    }
    let _ = writeln!(text, "{} violations", violations.len());
    let mut reported: Vec<&Record> = Vec::new();
    for violation in violations.iter().take(NAMED) {
        let _ = writeln!(text, "{:?} {}: {}", violation.rule, violation.record, violation.reported);
        if reported.len() < STORIES && !reported.contains(&&violation.record) {
            reported.push(&violation.record);
            text += &story(&violation.record, requests, histories);
        }
    }
    text
}

fn story(record: &Record, requests: &[Request], histories: &Histories) -> String {
    let mut text = String::new();
    let of_it = requests.iter().filter(|request| request.parts.iter().any(|part| part.record == *record));
    for request in of_it.rev().take(LINES) {
        let part = request.parts.iter().find(|part| part.record == *record);
        let number = part.and_then(|part| part.body.as_ref()).map(|body| body["number"].clone());
        let _ = writeln!(
            text,
            "    sent {} answered {}: number {number:?} of {} parts, {:?}, key {:?}: {:?} {:?}",
            request.sent,
            request.answered,
            request.parts.len(),
            part.map(|part| part.only_if),
            request.idempotency_key,
            request.outcome,
            request.again,
        );
    }
    for version in histories.get(record).into_iter().flatten().rev().take(LINES) {
        let number = version.body.as_ref().map(|body| body["number"].clone());
        let _ = writeln!(text, "    history: {} {number:?}", version.version);
    }
    text
}
