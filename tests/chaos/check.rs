//! Owns the judgement of a run: which answers broke a promise, how old answers were, how many
//! carried a label. Pure.
//!
//! Before it: [`super::history`], complete. After it: [`super::report`] prints it, with the story
//! of a violation.
//!
//! An unlabelled answer of version `v`, asked for at `t`, is a violation when
//!
//! - **monotone**: the same process of the sidecar had answered more than `v` to a request that
//!   ended before `t` (promise 1). A new process begins anew; what holds for it is what the other
//!   rules say.
//! - **bound**: it states `bound=b`, and the source of truth was past `v` before `t - b`. This is
//!   the strongest reading that is sound: the bound comes from one region's watermark, at or after
//!   `t - b`, and a watermark is a time through which that region claimed to have ingested *and
//!   announced* all of the truth. Which region it was does not matter. `t` is when the request was
//!   sent, never later than the sidecar's own now.
//! - **fetched**: it came from a region, and every region had shown more than `v` before the
//!   request (before `t` less the race's deadline for one that joined a fill under way). No pause
//!   is forgiven: what was asked before a SIGSTOP may not answer who asks after it.
//! - **unstated**: a hit without a stated bound, and every region had shown more than `v` for
//!   longer than the leases, the hole window and the soft TTL allow.
//!
//! "Had shown" is dated by when the driver received it, which is later than the fact: a region's
//! progress is never assumed. [`ALLOWANCE`] is for the milliseconds to which wall times are given.

use super::history::{At, History, Progress, Read, SECOND, Shown};

/// Wall times are whole milliseconds, and travel between two clocks.
const ALLOWANCE: At = SECOND / 20;
/// `race.deadline`: how long before its reader a shared fill can have begun.
const FILL: At = 2 * SECOND + SECOND / 10;
/// The strong lease (15 s) and the hole window (10 s), or the soft TTL (30 s) and a race; whichever
/// is longer, and slack.
const UNSTATED: At = 35 * SECOND;
/// Before the first window counts as quiet: start-up.
const START: At = 25 * SECOND;

/// A promise that an answer broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    Monotone,
    Bound,
    Fetched,
    Unstated,
}

/// One answer that broke one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    /// Its place in the history.
    pub(crate) read: usize,
    /// The least that was due.
    pub(crate) least: u64,
}

/// The judgement.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    pub(crate) answered: usize,
    pub(crate) hits: usize,
    pub(crate) bounded: usize,
    pub(crate) labelled: usize,
    /// Reads outside fault windows, and how many of them were labelled.
    pub(crate) quiet: (usize, usize),
    /// Reads without an answer while the sidecar ran.
    pub(crate) failures: Vec<usize>,
    /// Reads without an answer while it was dead or stopped.
    pub(crate) excused: usize,
    pub(crate) violations: Vec<Violation>,
    /// Time since the answer's version was superseded, microseconds, sorted: unlabelled, labelled.
    pub(crate) staleness: [Vec<At>; 2],
    /// Unlabelled answers outside fault windows.
    pub(crate) quiet_staleness: Vec<At>,
    /// Stated bounds, microseconds, sorted.
    pub(crate) bounds: Vec<At>,
    /// The first answer after each SIGCONT for each record that changed meanwhile: fresh, labelled,
    /// old but within what the other rules allow. After short sleeps, and after those that outlast
    /// every lease.
    pub(crate) awakened: [[usize; 3]; 2],
}

/// Truth over time, in a form that is quick to query.
pub(crate) struct Truth {
    /// Per record: when and where in the log it changed.
    writes: Vec<Vec<(At, u64)>>,
    /// Per region: when it had shown how much of the log.
    shown: Vec<Vec<(At, u64)>>,
}

impl Truth {
    pub(crate) fn of(history: &History) -> Self {
        let keys = history.writes.iter().map(|write| write.key).chain(history.reads.iter().map(|read| read.key));
        let mut writes = vec![Vec::new(); keys.max().map_or(0, |key| key as usize + 1)];
        for (offset, write) in history.writes.iter().enumerate() {
            writes[write.key as usize].push((write.at, offset as u64));
        }
        Self {
            writes,
            shown: history
                .progress
                .iter()
                .map(|reported| {
                    let ingested = reported.iter().filter(|(_, what, _)| *what == Progress::Ingested);
                    // A region that was started again may tell of the same change once more.
                    ingested
                        .scan(0, |most, (at, _, count)| {
                            *most = (*most).max(*count);
                            Some((*at, *most))
                        })
                        .collect()
                })
                .collect(),
        }
    }

    /// The record's version at `at`.
    pub(crate) fn version(&self, key: u32, at: At) -> u64 {
        1 + self.writes[key as usize].partition_point(|(when, _)| *when <= at) as u64
    }

    /// The least that any region showed of it at `at`.
    fn everywhere(&self, key: u32, at: At) -> u64 {
        let least = self
            .shown
            .iter()
            .map(|reported| match reported.partition_point(|(when, _)| *when <= at) {
                0 => 0,
                place => reported[place - 1].1,
            })
            .min()
            .unwrap_or(0);
        1 + self.writes[key as usize].partition_point(|(_, offset)| *offset < least) as u64
    }

    /// Time by which the version had been superseded at `at`.
    pub(crate) fn staleness(&self, key: u32, version: u64, at: At) -> At {
        let superseded = self.writes[key as usize].get(version as usize - 1);
        superseded.map_or(0, |(when, _)| at.saturating_sub(*when))
    }
}

/// Judges a run.
pub(crate) fn judge(history: &History) -> Judgement {
    let truth = Truth::of(history);
    let mut judgement = Judgement::default();
    for (place, read) in history.reads.iter().enumerate() {
        let quiet = is_quiet(history, read);
        match &read.got {
            Ok(shown) => {
                note(&mut judgement, &truth, read, shown, quiet);
                let broken = unfresh(&truth, read, shown).map(|(rule, least)| Violation { rule, read: place, least });
                judgement.violations.extend(broken);
            }
            Err(_) if history.outages.iter().any(|(from, until)| read.start < *until && *from < read.end) => {
                judgement.excused += 1;
            }
            Err(_) => judgement.failures.push(place),
        }
    }
    regressions(history, &mut judgement.violations);
    judgement.violations.sort_by_key(|violation| (violation.rule, history.reads[violation.read].start));
    for list in judgement.staleness.iter_mut().chain([&mut judgement.quiet_staleness, &mut judgement.bounds]) {
        list.sort_unstable();
    }
    awakened(history, &truth, &mut judgement);
    judgement
}

fn note(judgement: &mut Judgement, truth: &Truth, read: &Read, shown: &Shown, quiet: bool) {
    let stale = truth.staleness(read.key, shown.version, read.start);
    let labelled = shown.label.is_some();
    judgement.answered += 1;
    judgement.hits += usize::from(shown.hit);
    judgement.labelled += usize::from(labelled);
    judgement.staleness[usize::from(labelled)].push(stale);
    if let (Some(bound), false) = (shown.bound, labelled) {
        judgement.bounded += 1;
        judgement.bounds.push(bound * SECOND);
    }
    if quiet {
        judgement.quiet.0 += 1;
        judgement.quiet.1 += usize::from(labelled);
        if !labelled {
            judgement.quiet_staleness.push(stale);
        }
    }
}

/// True if neither a fault nor its aftermath overlaps the read.
fn is_quiet(history: &History, read: &Read) -> bool {
    let (from, until) = history.span;
    from + START <= read.start
        && read.end <= until
        && !history
            .windows
            .iter()
            .any(|window| read.start < window.until + super::script::RECOVERY * 1_000 && window.from < read.end)
}

/// The rules that look at one answer, and the least that was due.
fn unfresh(truth: &Truth, read: &Read, shown: &Shown) -> Option<(Rule, u64)> {
    if shown.label.is_some() {
        return None;
    }
    let (rule, least) = match (shown.hit, shown.bound) {
        (true, Some(bound)) => (Rule::Bound, truth.version(read.key, before(read, bound * SECOND))),
        (true, None) => (Rule::Unstated, truth.everywhere(read.key, before(read, UNSTATED))),
        (false, _) if shown.collapsed => (Rule::Fetched, truth.everywhere(read.key, before(read, FILL))),
        (false, _) => (Rule::Fetched, truth.everywhere(read.key, before(read, 0))),
    };
    (shown.version < least).then_some((rule, least))
}

/// Time so long before a read, less what clocks may differ.
const fn before(read: &Read, span: At) -> At {
    read.start.saturating_sub(span + ALLOWANCE)
}

/// Per record and process: whether an answer shows less than one that had ended before it was asked
/// for.
fn regressions(history: &History, violations: &mut Vec<Violation>) {
    let mut groups = std::collections::BTreeMap::<_, Vec<(usize, &Read, &Shown)>>::new();
    for (place, read) in history.reads.iter().enumerate() {
        if let (Some(life), Ok(shown)) = (read.life, &read.got) {
            groups.entry((read.key, life)).or_default().push((place, read, shown));
        }
    }
    for group in groups.values() {
        let (mut asked, mut ended) = (group.clone(), group.clone());
        asked.sort_by_key(|(_, read, _)| read.start);
        ended.sort_by_key(|(_, read, _)| read.end);
        let mut ended = ended.into_iter().peekable();
        let mut most = 0;
        for (place, read, shown) in asked {
            while let Some((_, _, earlier)) = ended.next_if(|(_, earlier, _)| earlier.end < read.start) {
                most = most.max(earlier.version);
            }
            if shown.version < most && shown.label.is_none() {
                violations.push(Violation { rule: Rule::Monotone, read: place, least: most });
            }
        }
    }
}

/// The first answers after each SIGCONT.
fn awakened(history: &History, truth: &Truth, judgement: &mut Judgement) {
    let stops = history.windows.iter().filter(|window| window.kind == super::script::Kind::SidecarStop);
    for stop in stops {
        let long = usize::from(stop.until - stop.from > UNSTATED);
        let mut first = std::collections::BTreeMap::<u32, (&Read, &Shown)>::new();
        for read in history.reads.iter().filter(|read| read.start >= stop.until) {
            let Ok(shown) = &read.got else { continue };
            // A record that did not change while the process slept says nothing.
            if truth.version(read.key, stop.from) == truth.version(read.key, stop.until) {
                continue;
            }
            let known = first.entry(read.key).or_insert((read, shown));
            if read.start < known.0.start {
                *known = (read, shown);
            }
        }
        for (key, (_, shown)) in first {
            let fresh = shown.version >= truth.everywhere(key, stop.until.saturating_sub(ALLOWANCE));
            let place = if fresh { 0 } else { 1 + usize::from(shown.label.is_none()) };
            judgement.awakened[long][place] += 1;
        }
    }
}
