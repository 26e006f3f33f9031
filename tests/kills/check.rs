//! Checks that the catalogue's history is what was asked for and acknowledged, and that a sidecar's
//! answers do not go backwards. Pure.
//!
//! | rule | what is found |
//! | --- | --- |
//! | Lost | an acknowledged write is not in the history under its version, or not its body |
//! | Invented | the history has what nobody asked for, or what was refused |
//! | Twice | one write is there twice |
//! | Torn | a part of a batch is there and another is not |
//! | Backwards | versions do not grow, or a later write got a smaller one |
//! | Condition | a conditional write replaced what it was not to replace |
//! | Replay | one `Idempotency-Key` was answered in two ways |
//! | Current | a record is not the last version of its history |
//! | Monotone | an answer that was not labelled as old is below what the same process showed before |

use std::collections::{BTreeMap, BTreeSet};

use super::asked::{Condition, Histories, Outcome, Part, Record, Request, Tick, Version};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    Lost,
    Invented,
    Twice,
    Torn,
    Backwards,
    Condition,
    Replay,
    Current,
    Monotone,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    pub(crate) record: Record,
    pub(crate) reported: String,
}

impl Violation {
    fn new(rule: Rule, record: &Record, reported: String) -> Self {
        Self { rule, record: record.clone(), reported }
    }
}

/// Labels of a sidecar's `Cache-Status` that excuse: the answer says that it is or may be old
/// (docs/freshness.md, "What an answer says").
pub(crate) const SAID_OLD: [&str; 4] = ["below-floor", "floor-escaped", "grace", "stale-if-error"];

/// Everything that is wrong with the history.
pub(crate) fn judge(requests: &[Request], histories: &Histories) -> Vec<Violation> {
    let mut found = Vec::new();
    for (record, versions) in histories {
        for pair in versions.windows(2).filter(|pair| pair[0].version >= pair[1].version) {
            let reported = format!("{} comes before {} in the history", pair[0].version, pair[1].version);
            found.push(Violation::new(Rule::Backwards, record, reported));
        }
    }
    let asked = Asked::of(requests);
    for request in requests {
        acknowledged(request, histories, &mut found);
        torn(request, histories, &mut found);
    }
    for (record, versions) in histories {
        asked.invented(record, versions, &mut found);
    }
    in_order(requests, &mut found);
    found
}

/// `shown` is what a read of the record gives.
pub(crate) fn is_current(record: &Record, shown: Option<&Version>, versions: &[Version]) -> Option<Violation> {
    let last = versions.last().filter(|last| last.body.is_some());
    (shown != last).then(|| {
        let reported = format!("a read shows {shown:?}, the history ends with {last:?}");
        Violation::new(Rule::Current, record, reported)
    })
}

/// True if an answer below `least`, the highest version that this process had served before the
/// request, is a violation.
pub(crate) fn goes_backwards(least: u64, version: Option<u64>, detail: Option<&str>) -> bool {
    let excused = detail.is_some_and(|detail| SAID_OLD.contains(&detail));
    !excused && version.is_some_and(|version| version < least)
}

/// A record's history entry under this version, and the one before it.
fn at(histories: &Histories, record: &Record, version: u64) -> Option<(Version, Option<Version>)> {
    let versions = histories.get(record)?;
    let place = versions.iter().position(|one| one.version == version)?;
    Some((versions[place].clone(), place.checked_sub(1).map(|before| versions[before].clone())))
}

fn acknowledged(request: &Request, histories: &Histories, found: &mut Vec<Violation>) {
    let Outcome::Acknowledged(given) = &request.outcome else { return };
    for (part, version) in request.parts.iter().zip(given) {
        let broken = match at(histories, &part.record, *version) {
            None => Some((Rule::Lost, format!("{version} was acknowledged and is not in the history"))),
            Some((there, _)) if there.body != part.body => {
                Some((Rule::Lost, format!("{version} was acknowledged with another body")))
            }
            Some((_, before)) => {
                let is_there = before.as_ref().is_some_and(|before| before.body.is_some());
                let holds = match part.only_if {
                    Condition::None => true,
                    Condition::VersionIs(wanted) => before.as_ref().is_some_and(|before| before.version == wanted),
                    Condition::Absent => !is_there,
                };
                (!holds).then(|| {
                    let before = before.map(|before| before.version);
                    (Rule::Condition, format!("{version} had {:?} and replaced {before:?}", part.only_if))
                })
            }
        };
        found.extend(broken.map(|(rule, reported)| Violation::new(rule, &part.record, reported)));
    }
    for again in request.again.iter().filter(|again| matches!(again, Outcome::Acknowledged(_) | Outcome::Refused(_)))
    {
        if *again != request.outcome {
            let reported = format!("answered {:?}, and once more {again:?}", request.outcome);
            found.push(Violation::new(Rule::Replay, &request.parts[0].record, reported));
        }
    }
}

/// A batch of which some is there: of what is put, since one deletion looks like another.
fn torn(request: &Request, histories: &Histories, found: &mut Vec<Violation>) {
    let put: Vec<_> = request.parts.iter().filter(|part| part.body.is_some()).collect();
    let there = put.iter().filter(|part| {
        histories.get(&part.record).is_some_and(|versions| versions.iter().any(|one| one.body == part.body))
    });
    let there = there.count();
    if there != 0 && there != put.len() {
        let reported = format!("{there} of {} parts of a batch are in the history", put.len());
        found.push(Violation::new(Rule::Torn, &put[0].record, reported));
    }
}

/// A write that was sent after another was answered has the greater version.
fn in_order(requests: &[Request], found: &mut Vec<Violation>) {
    let mut of_records: BTreeMap<&Record, Vec<(Tick, Tick, u64)>> = BTreeMap::new();
    for request in requests {
        let Outcome::Acknowledged(given) = &request.outcome else { continue };
        for (part, version) in request.parts.iter().zip(given) {
            of_records.entry(&part.record).or_default().push((request.sent, request.answered, *version));
        }
    }
    for (record, mut writes) in of_records {
        let mut answered: Vec<_> = writes.iter().map(|(_, answered, version)| (*answered, *version)).collect();
        answered.sort_unstable();
        writes.sort_unstable();
        let (mut done, mut most) = (answered.into_iter().peekable(), 0);
        for (sent, _, version) in writes {
            while let Some((_, earlier)) = done.next_if(|(answered, _)| *answered < sent) {
                most = most.max(earlier);
            }
            if version <= most {
                let reported = format!("{version} was given after {most} had been acknowledged");
                found.push(Violation::new(Rule::Backwards, record, reported));
            }
        }
    }
}

/// Contents that the history may have: writes by number, deletions by count.
#[derive(Default)]
struct Asked<'a> {
    /// Puts that were not refused, by number.
    put: BTreeMap<u64, &'a Part>,
    /// Deletions that were acknowledged, and how many may have taken place.
    deleted: BTreeSet<(&'a Record, u64)>,
    maybe_deleted: BTreeMap<&'a Record, usize>,
}

impl<'a> Asked<'a> {
    fn of(requests: &'a [Request]) -> Self {
        let mut asked = Self::default();
        for request in requests.iter().filter(|request| !matches!(request.outcome, Outcome::Refused(_))) {
            for (at, part) in request.parts.iter().enumerate() {
                match (&part.body, &request.outcome) {
                    (Some(body), _) => {
                        let number = body["number"].as_u64().unwrap_or_default();
                        asked.put.insert(number, part);
                    }
                    (None, Outcome::Acknowledged(given)) => {
                        asked.deleted.insert((&part.record, given[at]));
                    }
                    (None, _) => *asked.maybe_deleted.entry(&part.record).or_default() += 1,
                }
            }
        }
        asked
    }

    fn invented(&self, record: &Record, versions: &[Version], found: &mut Vec<Violation>) {
        let (mut seen, mut unexplained) = (BTreeSet::new(), 0);
        for one in versions {
            let Some(body) = &one.body else {
                unexplained += usize::from(!self.deleted.contains(&(record, one.version)));
                continue;
            };
            let number = body["number"].as_u64().unwrap_or_default();
            let part = self.put.get(&number);
            if part.is_none_or(|part| part.record != *record || part.body != one.body) {
                let reported = format!("{} holds what nobody asked for: {body}", one.version);
                found.push(Violation::new(Rule::Invented, record, reported));
            } else if !seen.insert(number) {
                let reported = format!("{} holds write {number} once more", one.version);
                found.push(Violation::new(Rule::Twice, record, reported));
            }
        }
        let maybe = self.maybe_deleted.get(record).copied().unwrap_or(0);
        if unexplained > maybe {
            let reported = format!("{unexplained} deletions were not acknowledged, of {maybe} sent");
            found.push(Violation::new(Rule::Invented, record, reported));
        }
    }
}
