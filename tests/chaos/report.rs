//! Owns what a run says at its end: one table, and the story of what went wrong.
//!
//! Before it: [`super::check`] judged. After it: the exit code. Invariant: a run that broke a
//! promise names its seed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::check::{Judgement, Truth};
use super::history::{At, History, Progress, Read, SECOND};
use super::script::Kind;

/// Labelled reads outside fault windows, percent: a sidecar that labels everything would break no
/// other promise.
const LABELLED: f64 = 5.0;
/// Violations and failures that are reported in full.
const STORIES: usize = 5;
/// One line of the story of a run.
const SLICE: At = 5 * SECOND;
/// Reads listed before and after the one in question.
const AROUND: usize = 12;

/// The table, and whether all was as promised.
pub(crate) fn table(history: &History, judged: &Judgement, seed: u64, everything: bool) -> (String, bool) {
    let mut text = String::new();
    let seconds = (history.span.1 - history.span.0) as f64 / SECOND as f64;
    let quiet = percent(judged.quiet.1, judged.quiet.0);
    // A dead or sleeping sidecar holds its readers; load is what came while it ran.
    let asleep: At = history.outages.iter().map(|(from, until)| until - from).sum();
    let ran = seconds - asleep as f64 / SECOND as f64;
    line(&mut text, "seed", format!("{seed}, {seconds:.0} s, of which the sidecar ran {ran:.0} s"));
    let rate = history.reads.len() as f64 / ran;
    line(&mut text, "requests", format!("{} ({rate:.0}/s while it ran)", history.reads.len()));
    line(&mut text, "writes", format!("{} ({:.1}/s)", history.writes.len(), history.writes.len() as f64 / seconds));
    line(&mut text, "answered", format!("{}, hits {:.1} %", judged.answered, percent(judged.hits, judged.answered)));
    let dropped = history.progress.iter().flatten().filter(|(_, what, _)| *what == Progress::Dropped).count();
    let mut kinds = Vec::new();
    for kind in Kind::all() {
        let count = history.windows.iter().filter(|window| window.kind == kind).count();
        let lost = if kind == Kind::Drop { format!(" ({dropped} announcements lost)") } else { String::new() };
        line(&mut text, &format!("fault {kind:?}"), format!("{count}{lost}"));
        kinds.push(count);
    }
    line(&mut text, "failures (one region healthy)", judged.failures.len().to_string());
    line(&mut text, "no answer from a dead or stopped sidecar", judged.excused.to_string());
    let by_rule = judged.violations.iter().fold(BTreeMap::new(), |mut rules: BTreeMap<_, usize>, violation| {
        *rules.entry(violation.rule).or_default() += 1;
        rules
    });
    line(&mut text, "unlabelled violations", format!("{} {by_rule:?}", judged.violations.len()));
    line(
        &mut text,
        "labelled, all reads",
        format!("{} ({:.2} %)", judged.labelled, percent(judged.labelled, judged.answered)),
    );
    line(
        &mut text,
        "labelled outside fault windows",
        format!("{quiet:.2} % of {} (at most {LABELLED} %)", judged.quiet.0),
    );
    line(&mut text, "labels", format!("{:?}", labels(history)));
    line(&mut text, "stated bound p50 / p99 / max", percentiles(&judged.bounds));
    line(&mut text, "staleness, unlabelled p50 / p99 / max", percentiles(&judged.staleness[0]));
    line(&mut text, "staleness, labelled p50 / p99 / max", percentiles(&judged.staleness[1]));
    line(&mut text, "staleness, quiet p50 / p99 / max", percentiles(&judged.quiet_staleness));
    for (sleep, [fresh, labelled, old]) in ["SIGCONT", "a sleep of 90 s"].iter().zip(judged.awakened) {
        let value = format!("{fresh} fresh, {labelled} labelled, {old} old within their bound");
        line(&mut text, &format!("first read after {sleep}"), value);
    }
    // After a sleep that outlasts every lease nothing may be old, whatever it says of itself.
    let awake = judged.awakened[1][2] == 0;
    let enough = !everything || kinds.iter().all(|count| *count >= 3);
    let kept = judged.failures.is_empty() && judged.violations.is_empty() && quiet <= LABELLED && enough && awake;
    line(&mut text, "promises", if kept { "kept".to_owned() } else { format!("BROKEN; run again with SEED={seed}") });
    (text, kept)
}

fn line(text: &mut String, name: &str, value: String) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{name:<38} {value}");
}

fn percent(part: usize, of: usize) -> f64 {
    100.0 * part as f64 / of.max(1) as f64
}

fn labels(history: &History) -> BTreeMap<&str, usize> {
    let mut labels = BTreeMap::new();
    for shown in history.reads.iter().filter_map(|read| read.got.as_ref().ok()) {
        if let Some(label) = &shown.label {
            *labels.entry(label.as_str()).or_default() += 1;
        }
    }
    labels
}

/// Slice by slice: how many answers were labelled, how old the oldest was, and what went on.
pub(crate) fn slices(history: &History) -> String {
    let mut text = format!("{:>8} {:>10} {:>10}  faults\n", "from", "labelled", "oldest");
    let truth = Truth::of(history);
    let (mut from, end) = history.span;
    while from < end {
        let until = from + SLICE;
        let reads = history.reads.iter().filter(|read| (from..until).contains(&read.start));
        let (mut answered, mut labelled, mut oldest) = (0, 0, 0);
        for (read, shown) in reads.filter_map(|read| Some((read, read.got.as_ref().ok()?))) {
            answered += 1;
            labelled += usize::from(shown.label.is_some());
            oldest = oldest.max(truth.staleness(read.key, shown.version, read.start));
        }
        let faults = history.windows.iter().filter(|window| window.from < until && from < window.until);
        let names: Vec<String> = faults.map(|window| format!("{:?}{:?}", window.kind, window.regions)).collect();
        let (at, oldest) = ((from - history.span.0) / SECOND, oldest as f64 / SECOND as f64);
        let share = 100.0 * f64::from(labelled as u32) / f64::from(answered.max(1) as u32);
        let _ = writeln!(text, "{at:>6} s {share:>8.1} % {oldest:>8.1} s  {}", names.join(" ").replace("[]", ""));
        from = until;
    }
    text
}

fn percentiles(sorted: &[At]) -> String {
    let last = sorted.len().max(1) - 1;
    let [middle, most, all] = [50, 99, 100].map(|share| {
        let at = sorted.get((sorted.len() * share / 100).min(last)).copied().unwrap_or(0);
        format!("{:.3}", at as f64 / SECOND as f64)
    });
    let aged = sorted.len() - sorted.partition_point(|age| *age == 0);
    format!("{middle} / {most} / {all} s ({aged} of {} above 0)", sorted.len())
}

/// Events around the first few violations and failures.
pub(crate) fn stories(history: &History, judged: &Judgement) -> String {
    let mut text = String::new();
    let truth = Truth::of(history);
    for violation in judged.violations.iter().take(STORIES) {
        let _ = writeln!(text, "\nVIOLATION of {:?}: at least version {} was due", violation.rule, violation.least);
        around(history, &truth, violation.read, &mut text);
    }
    for read in judged.failures.iter().take(STORIES) {
        let _ = writeln!(text, "\nFAILURE");
        around(history, &truth, *read, &mut text);
    }
    text
}

/// Writes, announcements, faults and reads of one record around one read.
fn around(history: &History, truth: &Truth, index: usize, text: &mut String) {
    let read = &history.reads[index];
    let mut lines: Vec<(At, String)> = Vec::new();
    for (offset, write) in history.writes.iter().enumerate().filter(|(_, write)| write.key == read.key) {
        let version = truth.version(read.key, write.at);
        if is_near(read, write.at) {
            lines.push((write.at, format!("written: version {version}")));
        }
        for (region, reported) in history.progress.iter().enumerate() {
            for (at, what, _) in
                reported.iter().filter(|(at, _, count)| *count == offset as u64 + 1 && is_near(read, *at))
            {
                lines.push((*at, format!("region {region}: {what:?} version {version}")));
            }
        }
    }
    for window in history.windows.iter().filter(|window| is_near(read, window.from) || is_near(read, window.until)) {
        lines.push((window.from, format!("{:?} {:?} begins", window.kind, window.regions)));
        lines.push((window.until, format!("{:?} {:?} is over", window.kind, window.regions)));
    }
    let mut reads: Vec<usize> = (0..history.reads.len()).filter(|one| history.reads[*one].key == read.key).collect();
    reads.sort_by_key(|one| history.reads[*one].start);
    let here = reads.iter().position(|one| *one == index).unwrap_or(0);
    for one in &reads[here.saturating_sub(AROUND)..(here + AROUND).min(reads.len())] {
        let other = &history.reads[*one];
        let mark = if *one == index { "READ >>>" } else { "read" };
        let (took, life) = (other.end - other.start, other.life);
        lines.push((other.start, format!("{mark} life {life:?}, took {took} us: {:?}", other.got)));
    }
    lines.sort();
    let _ = writeln!(text, "record k{}, seconds since the script began:", read.key);
    for (at, line) in lines {
        let since = (at as f64 - history.span.0 as f64) / SECOND as f64;
        let _ = writeln!(text, "{since:>10.3}  {line}");
    }
}

/// True if it may explain what the read shows.
fn is_near(read: &Read, at: At) -> bool {
    at + 60 * SECOND > read.start && at < read.end + 5 * SECOND
}
