//! Owns the proof that the checker sees what it is for: histories with one broken promise each,
//! before every run.
//!
//! Invariant: each rule flags its own planted violation and nothing in the honest twin of that
//! history.

use super::check::{Judgement, Rule, judge};
use super::history::{At, History, Progress, Read, SECOND, Shown, Window, Write};
use super::script::Kind;

/// A record that becomes version 2 at 100 s and is served everywhere at 101 s.
fn world() -> History {
    let mut history = History { span: (0, 1_000 * SECOND), ..History::default() };
    history.writes.push(Write { at: 100 * SECOND, key: 0 });
    for reported in &mut history.progress {
        reported.push((101 * SECOND, Progress::Ingested, 1));
    }
    history
}

fn read(at: At, shown: Shown) -> Read {
    Read { key: 0, start: at, end: at + 1_000, life: Some(0), got: Ok(shown) }
}

fn shown(version: u64) -> Shown {
    Shown { version, hit: true, collapsed: false, bound: None, label: None }
}

fn bounded(seconds: u64) -> Shown {
    Shown { bound: Some(seconds), ..shown(1) }
}

fn fetched(collapsed: bool) -> Shown {
    Shown { hit: false, collapsed, ..shown(1) }
}

const fn at(seconds: u64) -> At {
    seconds * SECOND
}

/// Judgement of reads around a sidecar's sleep.
fn asleep(reads: Vec<Read>) -> Judgement {
    let window = Window { kind: Kind::SidecarStop, regions: Vec::new(), from: at(90), until: at(110) };
    judge(&History { reads, windows: vec![window], ..world() })
}

fn rules(reads: Vec<Read>) -> Vec<Rule> {
    judge(&History { reads, ..world() }).violations.into_iter().map(|violation| violation.rule).collect()
}

/// Panics when the checker is blind.
pub(crate) fn proves_itself() {
    assert_eq!(rules(vec![read(at(104), bounded(3))]), [Rule::Bound]);
    assert_eq!(rules(vec![read(at(104), bounded(4))]), []);
    assert_eq!(rules(vec![read(at(102), fetched(false))]), [Rule::Fetched]);
    assert_eq!(rules(vec![read(at(101), fetched(false))]), []);
    assert_eq!(rules(vec![read(at(103), fetched(true))]), []);
    assert_eq!(rules(vec![read(at(104), fetched(true))]), [Rule::Fetched]);
    assert_eq!(rules(vec![read(at(137), shown(1))]), [Rule::Unstated]);
    assert_eq!(rules(vec![read(at(136), shown(1))]), []);
    assert_eq!(rules(vec![read(at(102), shown(2)), read(at(103), shown(1))]), [Rule::Monotone]);
    assert_eq!(rules(vec![read(at(102), shown(2)), Read { life: Some(1), ..read(at(103), shown(1)) }]), []);
    assert_eq!(rules(vec![read(at(102), shown(2)), read(at(102), shown(1))]), [], "they overlap");
    let labelled = Shown { label: Some("below-floor".to_owned()), bound: Some(0), ..shown(1) };
    assert_eq!(rules(vec![read(at(102), shown(2)), read(at(900), labelled)]), []);

    let failed = Read { got: Err("502".to_owned()), ..read(at(50), shown(1)) };
    let judged = judge(&History { reads: vec![failed.clone()], ..world() });
    assert_eq!((judged.failures.len(), judged.excused), (1, 0));
    let outages = vec![(at(49), at(50) + 1)];
    let judged = judge(&History { reads: vec![failed], outages, ..world() });
    assert_eq!((judged.failures.len(), judged.excused), (0, 1));

    assert_eq!(asleep(vec![read(at(111), shown(2)), read(at(112), shown(1))]).awakened[0], [1, 0, 0]);
    assert_eq!(asleep(vec![read(at(111), shown(1))]).awakened[0], [0, 0, 1]);
    assert_eq!(asleep(vec![read(at(111), shown(2)), read(at(200), shown(2))]).quiet.0, 1);
    assert_eq!(asleep(vec![read(at(121), shown(2))]).staleness, [vec![0], vec![]]);
    assert_eq!(asleep(vec![read(at(121), shown(1))]).staleness[0], [21 * SECOND]);
}
