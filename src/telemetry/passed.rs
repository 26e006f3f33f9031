//! Requests of one route that were passed on for their headers: which headers, and how many of all.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::time::Moment;
use crate::telemetry::limits::{OBSERVED_NAME_BYTES, OBSERVED_NAMES};

/// Span over which a share is taken.
const WINDOW: Duration = Duration::from_secs(60);
/// Time for which a token that was not verified is worth a finding.
const UNPROVEN_FOR: Duration = Duration::from_secs(600);
/// Fewest requests passed on in it that are more than a few.
const FEW: u64 = 20;

/// Names and counts of what was passed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedNotes {
    /// Counts of the most frequent names. A new name takes the place and the count of the rarest one,
    /// so that made-up names do not displace those that callers really send.
    pub names: BTreeMap<String, u64>,
    /// Reasons for which callers' tokens were not verified, how often each came, and when last.
    pub unproven: BTreeMap<String, (u64, Moment)>,
    pub last: Option<Moment>,
    current: Window,
    previous: Window,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Window {
    begin: Moment,
    passed: u64,
    /// Requests of the route before it, and by its last note.
    before: u64,
    by_now: u64,
}

impl Window {
    /// Per cent of its requests that were passed on, if those are more than a few.
    fn share(&self) -> Option<u64> {
        // Callers count their requests before they wait for each other here, so a count may be
        // smaller than the one before.
        let all = self.by_now.saturating_sub(self.before).max(self.passed);
        (self.passed >= FEW).then(|| self.passed * 100 / all)
    }
}

impl PassedNotes {
    /// Notes one request with these foreign headers, of `requests` of its route so far.
    pub fn note<'n>(&mut self, names: impl Iterator<Item = &'n str>, requests: u64, now: Moment) {
        if self.last.is_none() || now.since(self.current.begin) >= WINDOW {
            self.previous = self.current;
            let before = if self.last.is_none() { requests.saturating_sub(1) } else { self.current.by_now };
            self.current = Window { begin: now, passed: 0, before, by_now: requests };
        }
        self.current.passed += 1;
        self.current.by_now = requests;
        self.last = Some(now);
        names.take(OBSERVED_NAMES).for_each(|name| self.count(name));
    }

    fn count(&mut self, name: &str) {
        if name.len() > OBSERVED_NAME_BYTES {
            return;
        }
        let mut count = self.names.remove(name).unwrap_or_default();
        if self.names.len() >= OBSERVED_NAMES {
            let rarest = self.names.iter().min_by_key(|(_, count)| **count).map(|(name, _)| name.clone());
            count = rarest.and_then(|name| self.names.remove(&name)).unwrap_or_default();
        }
        self.names.insert(name.to_owned(), count + 1);
    }

    /// Notes a request whose token was not verified; `why` is one of few texts.
    pub fn note_unproven(&mut self, why: &str, now: Moment) {
        if !self.unproven.contains_key(why) && self.unproven.len() >= OBSERVED_NAMES {
            return;
        }
        let (count, last) = self.unproven.entry(why.to_owned()).or_insert((0, now));
        // A few, long ago, do not add up.
        *count = if now.since(*last) < UNPROVEN_FOR { *count + 1 } else { 1 };
        *last = now;
    }

    /// The most frequent reason of late for which tokens were not verified, and how often it came.
    pub fn unproven(&self, now: Moment) -> Option<(&str, u64)> {
        let recent = self.unproven.iter().filter(|(_, (_, last))| now.since(*last) < UNPROVEN_FOR);
        recent.max_by_key(|(_, (count, _))| *count).map(|(why, (count, _))| (why.as_str(), *count))
    }

    /// Per cent of the route's requests that were passed on lately, if that is more than a few.
    pub fn share(&self, now: Moment) -> Option<u64> {
        let is_recent = self.last.is_some_and(|last| now.since(last) < 2 * WINDOW);
        let highest = [self.current, self.previous].iter().filter_map(Window::share).max();
        highest.filter(|percent| is_recent && *percent >= 5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn invented_names_displace_no_frequent_name() {
        let mut notes = PassedNotes::default();
        for number in 0..1000 {
            let made_up = format!("x-{number}");
            notes.note(["x-tenant", made_up.as_str()].into_iter(), number, at(1));
        }
        assert_eq!(notes.names.len(), OBSERVED_NAMES);
        assert!(notes.names.contains_key("x-tenant"));
        notes.note(["x".repeat(OBSERVED_NAME_BYTES + 1).as_str()].into_iter(), 1001, at(1));
        assert!(notes.names.keys().all(|name| name.len() <= OBSERVED_NAME_BYTES));
    }

    #[test]
    fn too_few_requests_state_no_share() {
        let mut notes = PassedNotes::default();
        (0..FEW - 1).for_each(|number| notes.note(["x-a"].into_iter(), number + 1, at(10)));
        assert_eq!(notes.share(at(10)), None);
        notes.note(["x-a"].into_iter(), FEW, at(11));
        assert_eq!(notes.share(at(11)), Some(100));
        assert_eq!(notes.share(at(11 + 120)), None, "it is long ago");
    }

    #[test]
    fn out_of_order_counts_keep_share() {
        let mut notes = PassedNotes::default();
        notes.note(["x-a"].into_iter(), 1_000, at(10));
        // Counted before that one, and noted after it.
        (0..FEW).for_each(|_| notes.note(["x-a"].into_iter(), 999, at(70)));
        assert_eq!(notes.share(at(70)), Some(100));
    }

    #[test]
    fn small_share_of_many_is_none() {
        let mut notes = PassedNotes::default();
        (1..=100).for_each(|number| notes.note(["x-a"].into_iter(), number * 100, at(10)));
        assert_eq!(notes.share(at(10)), None);
    }
}
