//! Promises about each answer: nobody gets content later than the page on access says, and nobody
//! who has a grant is refused while a region is well.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::super::plan::REGIONS;
use super::plan::{Fault, MAX_AGE, Manner, Plan, RECHECK, Read, WORST_LAG};

/// Time that answers, retries (1 to 5 s) and looks may take beside the bounds.
const SLACK: Duration = Duration::from_secs(8);
/// Time after which a grant must have reached everybody: the longest lag that a plan draws.
const SETTLED: Duration = Duration::from_secs(250);

/// Answers that a story shows.
const KEPT: usize = 60;

/// One answer to a reader.
pub(super) struct Answered {
    pub(super) read: Read,
    pub(super) asked: Duration,
    pub(super) at: Duration,
    pub(super) status: u16,
    /// `Cache-Status`.
    pub(super) line: String,
}

impl Answered {
    fn is_content(&self) -> bool {
        matches!(self.status, 200 | 304)
    }

    fn is_unproven(&self) -> bool {
        self.line.contains("detail=grants-unproven")
    }
}

pub(super) struct Checker {
    plan: Arc<Plan>,
    pub(super) violation: Option<String>,
    pub(super) reads: u64,
    pub(super) refused: u64,
    /// The last answers, for a story.
    last: VecDeque<Answered>,
    /// The first refusal after each withdrawal, by document, asker and view.
    noticed: BTreeMap<(usize, usize, usize), Duration>,
    /// The last content after each withdrawal, by the same.
    outlived: BTreeMap<(usize, usize, usize), Duration>,
}

/// A grant that is withdrawn now.
struct Withdrawn {
    /// The first of the documents that lack it.
    document: usize,
    /// Time from which two regions' announcements of it were heard.
    heard_twice: Option<Duration>,
    /// Time from which every region has it.
    everywhere: Duration,
}

impl Checker {
    pub(super) fn new(plan: Arc<Plan>) -> Self {
        let (noticed, outlived) = (BTreeMap::new(), BTreeMap::new());
        Self { plan, violation: None, reads: 0, refused: 0, last: VecDeque::new(), noticed, outlived }
    }

    /// Time from the writing of each withdrawal to the first refusal.
    pub(super) fn ended_after(&self) -> Vec<Duration> {
        self.since_written(&self.noticed)
    }

    /// Time from the writing of each withdrawal that content outlived to the last content.
    pub(super) fn outlived_by(&self) -> Vec<Duration> {
        self.since_written(&self.outlived)
    }

    fn since_written(&self, of: &BTreeMap<(usize, usize, usize), Duration>) -> Vec<Duration> {
        of.iter().map(|((document, ..), at)| *at - self.plan.documents[*document].written).collect()
    }

    /// The last answers, in words.
    pub(super) fn last_answers(&self) -> Vec<String> {
        let lines = self.last.iter().map(|Answered { read, asked, status, line, .. }| {
            format!(
                "{:8.2}: caller {} view {} {:?}: {status} {line}",
                asked.as_secs_f64(),
                read.asker(),
                read.view,
                read.manner
            )
        });
        lines.collect()
    }

    /// Judges one answer.
    pub(super) fn answered(&mut self, answered: Answered) {
        self.judge(&answered);
        self.last.push_back(answered);
        if self.last.len() > KEPT {
            self.last.pop_front();
        }
    }

    fn judge(&mut self, answered: &Answered) {
        self.reads += 1;
        self.refused += u64::from(answered.status == 403);
        let (asker, view) = (answered.read.asker(), answered.read.view);
        let broken = match self.withdrawn(asker, view, answered.at) {
            Some(withdrawn) if answered.is_content() => {
                self.outlived.insert((withdrawn.document, asker, view), answered.at);
                self.too_late(answered, &withdrawn)
            }
            Some(withdrawn) => {
                if answered.status == 403 {
                    self.noticed.entry((withdrawn.document, asker, view)).or_insert(answered.at);
                }
                None
            }
            None => self.wrongly_refused(answered),
        };
        if let Some(why) = broken {
            let Answered { at, status, line, .. } = answered;
            let at = at.as_secs_f64();
            let text = format!("at {at:.1} s caller {asker} got {status} of view {view}: {why} ({line})");
            self.violation.get_or_insert(text);
        }
    }

    fn withdrawn(&self, asker: usize, view: usize, at: Duration) -> Option<Withdrawn> {
        let documents = &self.plan.documents;
        let newest = self.plan.newest(at)?;
        let lacking = documents[..=newest].iter().rev().take_while(|document| !document.allowed[asker][view]).count();
        let first = (newest + 1).checked_sub(lacking).filter(|_| lacking > 0)?;
        let mut heard: Vec<Duration> = (0..documents[first].heard.len())
            .filter_map(|region| documents[first..=newest].iter().filter_map(|it| it.heard[region]).min())
            .collect();
        heard.sort_unstable();
        let everywhere = documents[first].arrives.into_iter().max().unwrap_or_default();
        Some(Withdrawn { document: first, heard_twice: heard.get(1).copied(), everywhere })
    }

    /// Reason for which this content comes too late, if it does.
    fn too_late(&self, answered: &Answered, withdrawn: &Withdrawn) -> Option<String> {
        let Answered { asked, at, .. } = *answered;
        // A region that is open to everybody gives permits too, for as long as they hold.
        let holds = if answered.is_unproven() { MAX_AGE } else { RECHECK };
        let is_open = self.plan.windows.iter().any(|window| {
            let is_open = matches!(window.fault, Fault::Silent | Fault::Observing);
            is_open && window.touches(at.saturating_sub(holds + SLACK), at)
        });
        if is_open {
            return None;
        }
        let is_heard = withdrawn.heard_twice.is_some_and(|heard| heard < asked);
        if is_heard && !answered.is_unproven() && !self.is_dropped(withdrawn, at) {
            return Some("two regions had announced its withdrawal".to_owned());
        }
        if asked > withdrawn.everywhere + MAX_AGE + SLACK {
            return Some("it was withdrawn everywhere for longer than max_age".to_owned());
        }
        let is_well = !self.plan.windows.iter().any(|it| it.touches(withdrawn.everywhere, at));
        if is_well && asked > withdrawn.everywhere + RECHECK + SLACK {
            return Some("all regions had its withdrawal for longer than recheck".to_owned());
        }
        // Readers are served labelled while regions are asked again, every 1 to 5 s.
        if is_well && is_heard && asked > withdrawn.everywhere + SLACK {
            return Some("all regions would have refused it, and said so".to_owned());
        }
        None
    }

    /// True if the floor may have been dropped, because no second region reached it in time.
    fn is_dropped(&self, withdrawn: &Withdrawn, at: Duration) -> bool {
        let mut arrives = self.plan.documents[withdrawn.document].arrives;
        arrives.sort_unstable();
        arrives[1] > arrives[0] + WORST_LAG - SLACK && at < withdrawn.everywhere + RECHECK + SLACK
    }

    /// Reason for which a caller should have got content, if it should.
    fn wrongly_refused(&self, answered: &Answered) -> Option<String> {
        let Answered { read, asked, at, .. } = *answered;
        if answered.is_content() || read.manner == Manner::OnlyIfCached {
            return None;
        }
        let (asker, view) = (read.asker(), read.view);
        let newest = self.plan.newest(at)?;
        let recent = self.plan.documents[..=newest].iter().enumerate().filter(|(number, _)| {
            let replaced = self.plan.documents.get(number + 1).map_or(at, |next| next.written);
            replaced + SETTLED >= asked
        });
        let is_settled = recent.into_iter().all(|(_, document)| document.allowed[asker][view]);
        let is_cut = self.plan.windows.iter().any(|it| {
            // Regions are asked again after some seconds.
            it.fault == Fault::CutOff && it.touches(asked.saturating_sub(SLACK), at)
        });
        let is_early = asked < Duration::from_secs(10);
        (is_settled && !is_cut && !is_early && !self.lags_alone(answered))
            .then(|| "it had been granted for minutes, and a region is well".to_owned())
    }

    /// True if one region alone answers and is right, and has not the newest grants yet: a withdrawal
    /// and a region that refuses everybody look the same until it has.
    fn lags_alone(&self, answered: &Answered) -> bool {
        let Answered { asked, at, .. } = *answered;
        let Plan { windows, documents, .. } = &*self.plan;
        let mut right = (0..REGIONS).filter(|region| {
            !windows.iter().any(|it| {
                let is_wrong = matches!(it.fault, Fault::Off | Fault::Refusing | Fault::Elsewhere);
                is_wrong && it.region == *region && it.touches(asked, at)
            })
        });
        let newest = documents.iter().rev().find(|document| document.arrives.iter().any(|arrives| *arrives <= at));
        match (right.next(), right.next(), newest) {
            // A refusal is remembered for 1 to 5 s.
            (Some(alone), None, Some(newest)) => newest.arrives[alone] + SLACK > asked,
            _ => false,
        }
    }
}
