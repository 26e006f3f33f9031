//! Findings of comparisons of two upstreams: how they ended, and in which places the two differ.
//! Places are counted by their pointers, a bounded number of them, and never a value.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::limits::CHECK_PLACES;
use crate::model::ids::RouteId;
use crate::model::time::Moment;
use crate::payload::compare::Differences;

/// Ending of one comparison.
#[derive(Clone, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub(crate) enum Ending {
    Same,
    Differs(Differences),
    /// One of the two cannot be read.
    Unreadable,
    /// The candidate states another version, and still does after a while.
    VersionDiffers,
    /// The candidate refuses, or sends elsewhere, what the current upstream has: so would it under
    /// `new`.
    Refused,
    /// One of the two gave no answer that could be compared.
    Failed,
    /// There was no room, or no turn came.
    Skipped,
}

/// Place that stands for the pointers beyond [`CHECK_PLACES`].
const OTHER: &str = "other";

/// Findings by the id of the candidate: another candidate begins anew.
#[derive(Debug, Default)]
pub struct Tally(Mutex<BTreeMap<RouteId, Findings>>);

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

impl Tally {
    pub(crate) fn note(&self, candidate: RouteId, ending: &Ending, now: Moment) {
        self.all().entry(candidate).or_default().note(ending, now);
    }

    /// Findings about this candidate.
    pub fn findings(&self, candidate: RouteId) -> Findings {
        self.all().get(&candidate).cloned().unwrap_or_default()
    }

    /// Forgets candidates that are no more.
    pub(crate) fn keep(&self, is_known: impl Fn(RouteId) -> bool) {
        self.all().retain(|candidate, _| is_known(*candidate));
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<RouteId, Findings>> {
        // Only numbers change: a panic elsewhere leaves at most one of them behind.
        self.0.lock()
    }
}

impl Findings {
    fn note(&mut self, ending: &Ending, now: Moment) {
        *self.endings.entry(ending.into_str()).or_default() += 1;
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

    /// Number of comparisons with each ending.
    pub fn endings(&self) -> Vec<(&'static str, u64)> {
        <Ending as strum::VariantNames>::VARIANTS
            .iter()
            .map(|word| (*word, self.endings.get(word).copied().unwrap_or_default()))
            .collect()
    }

    /// Number of differences in each place, the most frequent first.
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
        let [one, other] = [one, other].map(|text| Side { format: Format::Json, body: text.as_bytes() });
        match compare(one, other, None) {
            Compared::Differs(differences) => Ending::Differs(differences),
            other => panic!("{other:?}"),
        }
    }

    fn at(second: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(second)
    }

    fn clean_seconds(tally: &Tally) -> Option<u64> {
        tally.findings(RouteId(7)).clean().map(|span| span.as_secs())
    }

    #[test]
    fn clean_span_starts_at_last_difference() {
        let tally = Tally::default();
        assert_eq!(clean_seconds(&tally), None);
        tally.note(RouteId(7), &Ending::Failed, at(1));
        assert_eq!(clean_seconds(&tally), None, "nothing was compared");
        tally.note(RouteId(7), &Ending::Same, at(10));
        tally.note(RouteId(7), &Ending::Same, at(40));
        assert_eq!(clean_seconds(&tally), Some(30));
        tally.note(RouteId(7), &differs("{\"a\":1}", "{}"), at(50));
        assert_eq!(clean_seconds(&tally), Some(0));
        tally.note(RouteId(7), &Ending::Failed, at(90));
        assert_eq!(clean_seconds(&tally), Some(0), "what cannot be asked proves nothing");
        tally.note(RouteId(7), &Ending::Same, at(95));
        assert_eq!(clean_seconds(&tally), Some(45));
        tally.keep(|candidate| candidate != RouteId(7));
        assert_eq!(clean_seconds(&tally), None);
    }

    #[test]
    fn places_beyond_bound_are_counted_together() {
        let tally = Tally::default();
        for n in 0..CHECK_PLACES + 5 {
            let name = format!("{}{}", char::from(b'a' + (n / 26) as u8), char::from(b'a' + (n % 26) as u8));
            tally.note(RouteId(1), &differs(&format!("{{\"{name}\":1}}"), "{}"), Moment::ZERO);
        }
        tally.note(RouteId(1), &differs("{\"ab\":1}", "{}"), Moment::ZERO);
        let places = tally.findings(RouteId(1)).places();
        assert_eq!(places.len(), CHECK_PLACES + 1);
        assert_eq!(places[..2], [("other".to_owned(), 5), ("/ab".to_owned(), 2)]);
    }
}
