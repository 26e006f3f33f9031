//! R17's judgement: whether an entry was still right when it was compared with all regions and, if
//! it was not, how soon the announcement path said so. [`crate::fill::audit`] walks through
//! what is stored and asks the regions; metrics and `/status` show the result. Pure.
//!
//! **What is measured.** An audit that finds nothing newer counts as fresh within 1, 10 and 60 s.
//! One that sees something newer in a region (at *first sight*) opens a suspicion, and the clock of
//! the announcement path starts: the entry was fresh within N seconds if an announcement moved its
//! record's generation at most N seconds after first sight. If none comes within 60 s, the entry is
//! stale at all three scales. Nobody can know when the region itself had changed. First sight is
//! never before that, so reported freshness is too good by at most the duration of one audit.
//!
//! **The audit's own repair does not flatter the measure.** What it finds raises floors
//! ([`super::Freshness::served`]) and is stored at once, but neither moves a generation. Only
//! announcements do, and an announcement of a version that was already served still moves it, once. The
//! suspicion looks at nothing else.
//!
//! **Without versions** a difference does not say who is newer. The suspicion then waits for an
//! announcement as above, and asks a second time once no region may lag any more (after 60 s, or
//! `worst_lag` if that is longer). If all agree with what was held, the other region had only been
//! behind. If all agree on something else, the change was never announced. If they still disagree,
//! nothing is decided.
//!
//! **Under the same version** every region should show the same content (R23). New content is taken as
//! newer if (1) no region still shows the stored content, (2) all regions with the stored version agree
//! on one other content, and (3) they include the region that the stored reply came from. If the second
//! look sees the same again, the content changed and the version did not. Content that is never the
//! same twice decides nothing.
//!
//! **How far it reaches.** [`Walk`] goes once around the hashes of the records in each audit
//! period, at an even pace, so that every entry that is stored for a whole period (of the time that
//! the process was awake) comes due in it. What is due is either asked about, or counted as skipped
//! if the background budget does not suffice.
//!
//! Every audited entry ends in exactly one [`AuditEnding`]. What is kept is bounded, and a
//! [`Timeline`] holds no key and no content.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::record::Record;
use super::region_views::RegionViews;
use crate::model::ids::{Epoch, Generation, RecordId, RegionId, RegionSet, TypeId, Version};
use crate::model::time::Moment;
use crate::protocol::holding::Standing;
use crate::protocol::limits;

mod observation;
mod verdict;
mod walk;

use observation::Against;

pub(crate) use observation::Observation;
pub(crate) use verdict::{AuditVerdict, judge};
pub(crate) use walk::{Slice, Walk};

/// Ending of the audit of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditEnding {
    /// No region showed anything newer.
    Fresh,
    /// A region did, and the announcement came this long after first sight.
    Announced(Duration),
    /// The region that differed had only been behind.
    CaughtUp,
    /// A region shows less than it must have had before: a restore, or a lag beyond `worst_lag`.
    Regressed,
    /// No announcement came within the longest window.
    Stale,
    /// Nothing could be compared, or the regions never agree.
    Undecided,
}

impl AuditEnding {
    /// True if the entry was fresh within `window`; `None` if nothing was decided.
    pub(crate) fn within(self, window: Duration) -> Option<bool> {
        match self {
            Self::Fresh | Self::CaughtUp => Some(true),
            Self::Announced(after) => Some(after <= window),
            Self::Stale => Some(false),
            // The entry is newer than that region, and nobody knows which is right: the record may
            // have been restored.
            Self::Regressed | Self::Undecided => None,
        }
    }
}

/// Evidence of a violation, for `/status`: hashes, versions and times, no key and no content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The entry's first record: its type, and its key as a keyed hash.
    pub record: RecordId,
    /// The region whose reply is stored.
    pub answered: RegionId,
    /// The entry's standing at first sight.
    pub standing: Standing,
    /// The version of the first record that was held; `Version::NONE` if there was none.
    pub held: Version,
    pub requested: Moment,
    /// Time at which a region last confirmed it.
    pub confirmed: Moment,
    /// The region that showed something newer.
    pub region: RegionId,
    /// The version that it showed; `Version::NONE` if there was none.
    pub version: Version,
    /// First sight: when all regions had answered.
    pub first_seen_at: Moment,
    /// The regions that were LIVE then. At least one of them should have announced it.
    pub live: RegionSet,
    /// Time at which the announcement arrived; `None` while it has not.
    pub announced: Option<Moment>,
}

/// An entry for which an audit saw something newer, or something else.
#[derive(Debug)]
pub(crate) struct Suspicion<K> {
    /// Which representation; kept only while the suspicion is open.
    pub key: K,
    pub held: Observation,
    pub timeline: Timeline,
    /// A version says that the entry is older. Otherwise the second look decides.
    pub has_newer_version: bool,
    /// The other content that the regions showed under the same version, if that was it (R23).
    pub other_content: Option<Observation>,
    /// Its records, each with its generation before the regions were asked.
    pub records: Box<[(Arc<Record>, Generation)]>,
    /// The epochs of all regions at first sight.
    pub epochs: Box<[Epoch]>,
    /// A region that was LIVE at first sight should have announced it by now ([`Audits::hear`]).
    pub announcement_due: bool,
}

impl<K> Suspicion<K> {
    /// Time at which an announcement moved a generation, if one has.
    fn announced(&self, now: Moment) -> Option<Moment> {
        self.records
            .iter()
            .filter_map(|(record, before)| {
                let state = record.snapshot();
                // If something was served since, the announcement's marker may be gone. Then it counts
                // from when it is seen, which is now.
                let at = state.marker.map_or(now, |marker| marker.at);
                (state.generation > *before).then_some(at.max(self.timeline.first_seen_at))
            })
            .min()
    }

    /// R23: says whether the region that answered what is held, and all that show its version, still
    /// show the other content that was seen `first`.
    fn is_confirmed(&self, first: &Observation, seen: &[(RegionId, Observation)]) -> bool {
        let mut others = seen.iter().filter(|(_, shows)| shows.against(&self.held) == Against::OtherContent);
        others.clone().any(|(region, _)| *region == self.timeline.answered)
            && others.all(|(_, shows)| !shows.differs_in_content(first))
    }
}

/// Result of a look at the open suspicions.
#[derive(Debug)]
pub(crate) struct SuspicionLook<K> {
    pub ended: Vec<AuditEnding>,
    /// Those that need a second look.
    pub again: Vec<K>,
}

/// A suspicion that its second look has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub ending: AuditEnding,
    /// The content had changed and its version had not (R23).
    pub is_other_content: bool,
}

#[derive(Debug)]
pub(crate) struct Audits<K> {
    open: Vec<Open<K>>,
    violations: VecDeque<Timeline>,
    /// Record types with a change that was never announced, when that was last found, and whether the
    /// announcement should have come.
    unannounced: Vec<(TypeId, Moment, bool)>,
}

#[derive(Debug)]
struct Open<K> {
    suspicion: Suspicion<K>,
    /// Time at which the second look was asked for.
    asked_again: Option<Moment>,
}

impl<K> Open<K> {
    /// True if the entry is older, and was not fresh within the shortest window.
    fn is_violation(&self, now: Moment) -> bool {
        self.suspicion.has_newer_version && now.since(self.suspicion.timeline.first_seen_at) > SHORTEST
    }
}

impl<K> Default for Audits<K> {
    fn default() -> Self {
        Self { open: Vec::new(), violations: VecDeque::new(), unannounced: Vec::new() }
    }
}

impl<K: Clone + Eq> Audits<K> {
    /// Follows a suspicion; false if there is no room. An entry has at most one, the first.
    pub(crate) fn open(&mut self, suspicion: Suspicion<K>) -> bool {
        if self.open.iter().any(|open| open.suspicion.key == suspicion.key) {
            return true;
        }
        let room = self.open.len() < limits::AUDIT_SUSPICIONS;
        if room {
            self.open.push(Open { suspicion, asked_again: None });
        }
        room
    }

    /// Notes whose announcements should be here by now, by what came from regions since. Until a region
    /// has sent something since, a missing announcement proves nothing (R21). A region that
    /// is LIVE announces at once what it shows; others may be ahead of those by `worst_lag`.
    pub(crate) fn hear(&mut self, region_views: &RegionViews, now: Moment, worst_lag: Duration) {
        for suspicion in
            self.open.iter_mut().map(|open| &mut open.suspicion).filter(|suspicion| !suspicion.announcement_due)
        {
            let Timeline { first_seen_at: seen, live, region, .. } = suspicion.timeline;
            let others = if live.contains(region) { Duration::ZERO } else { worst_lag };
            let has_waited = now.since(seen) >= others.max(limits::GROWTH_WAIT);
            suspicion.announcement_due = has_waited && region_views.is_known_since(seen, live, &suspicion.epochs);
        }
    }

    /// Time has passed: finds the suspicions that were announced and those past the last window.
    /// Call this at least once a second; a late call makes no difference to what is measured.
    pub(crate) fn look(&mut self, now: Moment, worst_lag: Duration) -> SuspicionLook<K> {
        let mut look = SuspicionLook { ended: Vec::new(), again: Vec::new() };
        for open in std::mem::take(&mut self.open) {
            let Open { mut suspicion, mut asked_again } = open;
            let seen = suspicion.timeline.first_seen_at;
            let waited = now.since(seen);
            if let Some(at) = suspicion.announced(now) {
                suspicion.timeline.announced = Some(at);
                look.ended.push(self.end(suspicion.timeline, AuditEnding::Announced(at.since(seen))));
                continue;
            }
            if suspicion.has_newer_version && waited > LONGEST {
                self.note_unannounced(&suspicion, now);
                look.ended.push(self.end(suspicion.timeline, AuditEnding::Stale));
                continue;
            }
            if asked_again.is_some_and(|at| now.since(at) > limits::AUDIT_SECOND_LOOK) {
                look.ended.push(self.end(suspicion.timeline, AuditEnding::Undecided));
                continue;
            }
            if !suspicion.has_newer_version && asked_again.is_none() && waited > LONGEST.max(worst_lag) {
                asked_again = Some(now);
                look.again.push(suspicion.key.clone());
            }
            self.open.push(Open { suspicion, asked_again });
        }
        look
    }

    /// Ends the suspicion about `key` by comparing the regions' current replies with the stored entry.
    /// `replies` is empty if there was nothing left to ask about.
    pub(crate) fn decide_second_look(
        &mut self,
        key: &K,
        replies: &[(RegionId, Observation)],
        now: Moment,
    ) -> Option<Settled> {
        let place = self.open.iter().position(|open| open.asked_again.is_some() && open.suspicion.key == *key)?;
        let suspicion = self.open.swap_remove(place).suspicion;
        let held = &suspicion.held;
        let (changed, unchanged) = match &suspicion.other_content {
            // By version or, without versions, by content.
            None => (
                any_shows(replies, held, &[Against::Other, Against::Newer]),
                any_shows(replies, held, &[Against::Same]),
            ),
            // By content under the same version (R23).
            Some(first) => {
                let unchanged = replies.iter().any(|(_, reply)| reply.matches(held));
                (suspicion.is_confirmed(first, replies), unchanged)
            }
        };
        if changed && !unchanged {
            self.note_unannounced(&suspicion, now);
        }
        let ending = match (changed, unchanged) {
            (true, false) => AuditEnding::Stale,
            (false, true) => AuditEnding::CaughtUp,
            _ => AuditEnding::Undecided,
        };
        let is_other_content = suspicion.other_content.is_some() && ending == AuditEnding::Stale;
        Some(Settled { ending: self.end(suspicion.timeline, ending), is_other_content })
    }

    /// Ends whatever is followed, since nobody will look again.
    pub(crate) fn abandon(&mut self) -> Vec<AuditEnding> {
        let open = std::mem::take(&mut self.open);
        open.into_iter().map(|open| self.end(open.suspicion.timeline, AuditEnding::Undecided)).collect()
    }

    pub(crate) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// The violations, oldest first: entries that were not fresh within the shortest window. Those
    /// still waiting for their announcement come last.
    pub(crate) fn violations(&self, now: Moment) -> Vec<Timeline> {
        let waiting = self.open.iter().filter(|open| open.is_violation(now)).map(|open| &open.suspicion.timeline);
        self.violations.iter().chain(waiting.take(limits::AUDIT_VIOLATIONS)).cloned().collect()
    }

    /// The record types with an open violation: of an entry that still waits for its announcement,
    /// or of one that recently waited in vain; and whether it should have come (R21).
    pub(crate) fn violated(&self, now: Moment) -> Vec<(TypeId, bool)> {
        let waiting = self.open.iter().filter(|open| open.is_violation(now)).map(|open| &open.suspicion);
        let unannounced = self.unannounced.iter().filter(|(_, at, _)| now.since(*at) < limits::WIRING_DOUBT);
        waiting
            .flat_map(|suspicion| {
                let is_due = suspicion.announcement_due;
                let records: Vec<_> = suspicion.records.iter().map(|(record, _)| record.id().record_type).collect();
                records.into_iter().map(move |id| (id, is_due))
            })
            .chain(unannounced.map(|(id, _, is_due)| (*id, *is_due)))
            .collect()
    }

    fn note_unannounced(&mut self, suspicion: &Suspicion<K>, now: Moment) {
        for (record, _) in &suspicion.records {
            let id = record.id().record_type;
            self.unannounced.retain(|(known, at, is_due)| {
                // One that only may have been lost does not take the place of one that should have come.
                let is_replaced = *known == id && (suspicion.announcement_due || !is_due);
                now.since(*at) < limits::WIRING_DOUBT && !is_replaced
            });
            self.unannounced.push((id, now, suspicion.announcement_due));
        }
    }

    fn end(&mut self, timeline: Timeline, ending: AuditEnding) -> AuditEnding {
        if ending.within(SHORTEST) == Some(false) {
            if self.violations.len() >= limits::AUDIT_VIOLATIONS {
                self.violations.pop_front();
            }
            self.violations.push_back(timeline);
        }
        ending
    }
}

const SHORTEST: Duration = limits::AUDIT_WINDOWS[0];
const LONGEST: Duration = limits::AUDIT_WINDOWS[limits::AUDIT_WINDOWS.len() - 1];

/// True if a region shows one of the `wanted` against what was held.
fn any_shows(seen: &[(RegionId, Observation)], held: &Observation, wanted: &[Against]) -> bool {
    seen.iter().any(|(_, shows)| wanted.contains(&shows.against(held)))
}

#[cfg(test)]
mod tests;
