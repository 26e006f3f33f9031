//! What comparisons of two ways have found: how they ended, and in which places the ways differ.
//! Places are counted by their pointers, a bounded number of them, and never a value.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::core::limits::CHECK_PLACES;
use crate::model::time::Moment;
use crate::payload::compare::Differences;

/// How one comparison ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Same,
    Differs(Differences),
    /// One of the two cannot be read.
    Unreadable,
    /// The second way states another version, and still does after a while.
    VersionDiffers,
    /// The second way refuses, or sends elsewhere, what the first one has: so would it under `new`.
    Refused,
    /// One of the two gave no answer that could be compared.
    Failed,
    /// There was no room, or no turn came.
    Skipped,
}

impl Ending {
    const fn word(&self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Differs(_) => "differs",
            Self::Unreadable => "unreadable",
            Self::VersionDiffers => "version-differs",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// Every word for it.
const ENDINGS: [&str; 7] = ["same", "differs", "unreadable", "version-differs", "refused", "failed", "skipped"];

/// What the pointers beyond [`CHECK_PLACES`] count as.
const OTHER: &str = "other";

/// By the id of the second way: another second way begins anew.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<BTreeMap<u16, Findings>>);

/// The comparisons of one route.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    endings: BTreeMap<&'static str, u64>,
    places: BTreeMap<String, u64>,
    others: u64,
    /// The newest comparison that found something else than the same, or the first one.
    clean_since: Option<Moment>,
    /// The newest comparison that found the same.
    same_at: Option<Moment>,
}

impl Ledger {
    pub(crate) fn note(&self, second: u16, ending: &Ending, now: Moment) {
        self.all().entry(second).or_default().note(ending, now);
    }

    /// What is known of this second way.
    pub fn findings(&self, second: u16) -> Findings {
        self.all().get(&second).cloned().unwrap_or_default()
    }

    /// Forgets second ways that are no more.
    pub(crate) fn keep(&self, is_known: impl Fn(u16) -> bool) {
        self.all().retain(|second, _| is_known(*second));
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<u16, Findings>> {
        // Only numbers change: a panic elsewhere leaves at most one of them behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Findings {
    fn note(&mut self, ending: &Ending, now: Moment) {
        *self.endings.entry(ending.word()).or_default() += 1;
        match ending {
            Ending::Same => {
                self.clean_since.get_or_insert(now);
                self.same_at = Some(now);
            }
            Ending::Differs(differences) => {
                differences.pointers().for_each(|pointer| self.count(pointer));
                self.others += u64::from(differences.has_more());
                self.clean_since = Some(now);
            }
            Ending::Unreadable | Ending::VersionDiffers | Ending::Refused => self.clean_since = Some(now),
            Ending::Failed | Ending::Skipped => {}
        }
    }

    fn count(&mut self, pointer: &str) {
        if let Some(count) = self.places.get_mut(pointer) {
            *count += 1;
        } else if self.places.len() < CHECK_PLACES {
            self.places.insert(pointer.to_owned(), 1);
        } else {
            self.others += 1;
        }
    }

    /// How many comparisons ended in each way.
    pub fn endings(&self) -> Vec<(&'static str, u64)> {
        ENDINGS.iter().map(|word| (*word, self.endings.get(word).copied().unwrap_or_default())).collect()
    }

    /// How often each place differed, the most frequent first.
    pub fn places(&self) -> Vec<(String, u64)> {
        let mut places: Vec<_> = self.places.iter().map(|(pointer, count)| (pointer.clone(), *count)).collect();
        if self.others > 0 {
            places.push((OTHER.to_owned(), self.others));
        }
        places.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        places
    }

    /// For how long comparisons found the same and nothing else: up to the newest that did. `None`
    /// before the first one.
    pub fn clean(&self) -> Option<Duration> {
        let since = self.clean_since?;
        Some(self.same_at.map_or(Duration::ZERO, |same| same.since(since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::compare::{Compared, Format, Side, compare};

    fn differs(one: &str, other: &str) -> Ending {
        let side = |body| Side { format: Format::Json, body };
        match compare(side(one.as_bytes()), side(other.as_bytes()), None) {
            Compared::Differs(differences) => Ending::Differs(differences),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn clean_counts_from_the_newest_difference_to_the_newest_comparison_without_one() {
        let (ledger, at) = (Ledger::default(), |second| Moment::ZERO + Duration::from_secs(second));
        let clean = || ledger.findings(7).clean().map(|span| span.as_secs());
        assert_eq!(clean(), None);
        ledger.note(7, &Ending::Failed, at(1));
        assert_eq!(clean(), None, "nothing was compared");
        ledger.note(7, &Ending::Same, at(10));
        ledger.note(7, &Ending::Same, at(40));
        assert_eq!(clean(), Some(30));
        ledger.note(7, &differs("{\"a\":1}", "{}"), at(50));
        assert_eq!(clean(), Some(0));
        ledger.note(7, &Ending::Failed, at(90));
        assert_eq!(clean(), Some(0), "what cannot be asked proves nothing");
        ledger.note(7, &Ending::Same, at(95));
        assert_eq!(clean(), Some(45));
        ledger.keep(|second| second != 7);
        assert_eq!(clean(), None);
    }

    #[test]
    fn places_are_counted_apart_up_to_a_bound_and_the_rest_together() {
        let ledger = Ledger::default();
        for n in 0..CHECK_PLACES + 5 {
            let name = format!("{}{}", char::from(b'a' + (n / 26) as u8), char::from(b'a' + (n % 26) as u8));
            ledger.note(1, &differs(&format!("{{\"{name}\":1}}"), "{}"), Moment::ZERO);
        }
        ledger.note(1, &differs("{\"ab\":1}", "{}"), Moment::ZERO);
        let places = ledger.findings(1).places();
        assert_eq!(places.len(), CHECK_PLACES + 1);
        assert_eq!(places[..2], [("other".to_owned(), 5), ("/ab".to_owned(), 2)]);
    }
}
