//! Whether the catalogue's history is what was asked for and acknowledged, and whether what a
//! sidecar shows goes backwards. Pure.
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
    pub(crate) told: String,
}

/// What the labels of a sidecar's `Cache-Status` excuse: the answer says that it is or may be old
/// (docs/freshness.md, "What an answer says").
pub(crate) const SAID_OLD: [&str; 4] = ["below-floor", "floor-escaped", "grace", "stale-if-error"];

/// Everything that is wrong with the history.
pub(crate) fn judge(requests: &[Request], histories: &Histories) -> Vec<Violation> {
    let mut found = Vec::new();
    for (record, versions) in histories {
        for pair in versions.windows(2).filter(|pair| pair[0].version >= pair[1].version) {
            let told = format!("{} comes before {} in the history", pair[0].version, pair[1].version);
            found.push(Violation { rule: Rule::Backwards, record: record.clone(), told });
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
    let told = || format!("a read shows {shown:?}, the history ends with {last:?}");
    (shown != last).then(|| Violation { rule: Rule::Current, record: record.clone(), told: told() })
}

/// Whether an answer below `least`, the highest version that this process showed before it was
/// asked, is a violation.
pub(crate) fn goes_backwards(least: u64, version: Option<u64>, detail: Option<&str>) -> bool {
    let excused = detail.is_some_and(|detail| SAID_OLD.contains(&detail));
    !excused && version.is_some_and(|version| version < least)
}

/// What is in the history of a record under this version, and what is before it.
fn at(histories: &Histories, record: &Record, version: u64) -> Option<(Version, Option<Version>)> {
    let versions = histories.get(record)?;
    let place = versions.iter().position(|one| one.version == version)?;
    Some((versions[place].clone(), place.checked_sub(1).map(|before| versions[before].clone())))
}

fn acknowledged(request: &Request, histories: &Histories, found: &mut Vec<Violation>) {
    let Outcome::Acknowledged(given) = &request.outcome else { return };
    for (part, version) in request.parts.iter().zip(given) {
        let mut violated = |rule, told| found.push(Violation { rule, record: part.record.clone(), told });
        match at(histories, &part.record, *version) {
            None => violated(Rule::Lost, format!("{version} was acknowledged and is not in the history")),
            Some((there, _)) if there.body != part.body => {
                violated(Rule::Lost, format!("{version} was acknowledged with another body"));
            }
            Some((_, before)) => {
                let is_there = before.as_ref().is_some_and(|before| before.body.is_some());
                let holds = match part.only_if {
                    Condition::None => true,
                    Condition::VersionIs(wanted) => before.as_ref().is_some_and(|before| before.version == wanted),
                    Condition::Absent => !is_there,
                };
                if !holds {
                    let before = before.map(|before| before.version);
                    violated(Rule::Condition, format!("{version} had {:?} and replaced {before:?}", part.only_if));
                }
            }
        }
    }
    for again in request.again.iter().filter(|again| matches!(again, Outcome::Acknowledged(_) | Outcome::Refused(_)))
    {
        if *again != request.outcome {
            let told = format!("answered {:?}, and once more {again:?}", request.outcome);
            found.push(Violation { rule: Rule::Replay, record: request.parts[0].record.clone(), told });
        }
    }
}

/// A batch of which some is there: of what is put, since one deletion looks like another.
fn torn(request: &Request, histories: &Histories, found: &mut Vec<Violation>) {
    let put: Vec<_> = request.parts.iter().filter(|part| part.body.is_some()).collect();
    let is_there = |record: &Record, body| {
        histories.get(record).is_some_and(|versions| versions.iter().any(|one| one.body == body))
    };
    let there = put.iter().filter(|part| is_there(&part.record, part.body.clone())).count();
    if there != 0 && there != put.len() {
        let told = format!("{there} of {} parts of a batch are in the history", put.len());
        found.push(Violation { rule: Rule::Torn, record: put[0].record.clone(), told });
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
                let told = format!("{version} was given after {most} had been acknowledged");
                found.push(Violation { rule: Rule::Backwards, record: record.clone(), told });
            }
        }
    }
}

/// What may be in the history: a write by its number, deletions by how many.
#[derive(Default)]
struct Asked<'a> {
    /// What was put and not refused, by its number.
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
        let mut violated = |rule, told| found.push(Violation { rule, record: record.clone(), told });
        for one in versions {
            let Some(body) = &one.body else {
                unexplained += usize::from(!self.deleted.contains(&(record, one.version)));
                continue;
            };
            let number = body["number"].as_u64().unwrap_or_default();
            let is_it = |part: &&Part| part.record == *record && part.body == one.body;
            if self.put.get(&number).copied().is_none_or(|part| !is_it(&part)) {
                violated(Rule::Invented, format!("{} holds what nobody asked for: {body}", one.version));
            } else if !seen.insert(number) {
                violated(Rule::Twice, format!("{} holds write {number} once more", one.version));
            }
        }
        let maybe = self.maybe_deleted.get(record).copied().unwrap_or(0);
        if unexplained > maybe {
            violated(Rule::Invented, format!("{unexplained} deletions were not acknowledged, of {maybe} sent"));
        }
    }
}
