//! Notes facts that mean something only when two sources are compared: announcements and routes,
//! versions and replies, one region and the others, what callers send and what is forwarded,
//! clocks.
//!
//! The edges note what they see, and [`crate::admin::findings`] compares it. Names that others
//! chose (record types, headers) are kept in bounds; values and keys are not kept. Nothing is noted
//! on a hit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::StatusCode;

use crate::model::ids::RegionId;
use crate::model::time::Moment;
use crate::telemetry::leads::{Leads, RecordVersions};
use crate::telemetry::limits::{OBSERVED_NAME_BYTES, OBSERVED_NAMES};
use crate::telemetry::passed::PassedNotes;

/// The last sixteen answers to one question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    bits: u16,
    len: u8,
}

impl Recent {
    const MOST: u8 = 16;

    pub fn push(&mut self, yes: bool) {
        self.bits = self.bits << 1 | u16::from(yes);
        self.len = (self.len + 1).min(Self::MOST);
    }

    pub const fn len(self) -> u32 {
        self.len as u32
    }

    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// How many of the answers are yes.
    pub const fn yes(self) -> u32 {
        self.bits.count_ones()
    }

    /// Whether there are at least `least` answers, and three quarters of them are yes.
    pub const fn mostly(self, least: u32) -> bool {
        self.len() >= least && self.yes() * 4 >= self.len() * 3
    }

    /// Whether there are at least `least` answers, and none is yes.
    pub const fn never(self, least: u32) -> bool {
        self.len() >= least && self.yes() == 0
    }
}

/// What was seen of one region and its topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionNotes {
    /// Of the changes it announced: whether they state a version.
    pub versioned: Recent,
    /// Of the changes it announced: whether their publisher numbers them.
    pub numbered: Recent,
    /// Of publishers' heartbeats: whether they say through when all is ingested.
    pub through: Recent,
    /// Counts heartbeats of every kind.
    pub heartbeats: u64,
    /// When the last one came.
    pub heartbeat_at: Option<Moment>,
    /// Of verified messages: whether they could not be decoded.
    pub undecodable: Recent,
    /// Why the last one could not be decoded, in fixed words.
    pub undecodable_why: String,
    /// Of races in which another region had the record: whether this one said that it does not
    /// exist or is not allowed.
    pub odd: Recent,
    /// The status with which it last said so.
    pub odd_status: u16,
    /// Of its own replies after it announced a change: whether they did not show the change.
    pub unshown: Recent,
    /// Of replies that showed a change which another region's topic had announced: whether its own
    /// had not.
    pub unannounced: Recent,
    /// Of tries: whether they failed.
    pub failed: Recent,
    /// How the last one failed: a word of [`crate::http::exchange::Failure`], or a status.
    pub failure: String,
    /// Of replies on routes that have regions compress: whether their coding could not be taken off.
    pub undecoded: Recent,
    /// The last one of those.
    pub undecoded_last: Undecoded,
    /// By how many milliseconds its `Date` is ahead of this host's clock, at the least, in the last
    /// replies.
    pub skews_ms: Vec<i64>,
    /// Of replies: whether a cache in front of the region had kept them.
    pub aged: Recent,
}

/// A reply whose content coding could not be taken off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undecoded {
    /// A word of [`crate::payload::coding::CodingError`].
    pub why: &'static str,
    /// What its `Content-Encoding` says.
    pub stated: String,
    /// The path of the route on which it came, and by which way.
    pub route: String,
}

/// What was seen of one route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteNotes {
    /// Requests that went to the regions.
    pub asked: u64,
    /// Of good replies: whether they state a version for each record.
    pub versioned: Recent,
    /// Of good replies: whether they forbid storing.
    pub no_store: Recent,
    /// Counts good replies that may be stored and are not too large. While it is zero, nothing is
    /// ever a hit.
    pub good: u64,
    /// Of good replies: whether they could not be shared because of what they vary by.
    pub varied: Recent,
    /// Counts the headers that are to blame.
    pub vary: BTreeMap<String, u64>,
    /// Of races: whether every region refused (400, 401, 403).
    pub refused: Recent,
    /// The status of the last refusal.
    pub refused_status: u16,
    /// Of races: whether every region that answered said that there is nothing (404, 410).
    pub absent: Recent,
    /// Counts callers' headers that were not forwarded when regions refused.
    pub dropped: BTreeMap<String, u64>,
    /// What was passed on for its headers.
    pub passed: PassedNotes,
    /// Of good replies: whether they were too large to hold.
    pub too_large: Recent,
    /// When all regions last answered with a lower version than the one that was stored of them.
    pub back: Option<Moment>,
    /// When the regions last agreed on other content than what was stored under the same version.
    pub other_content: Option<Moment>,
}

/// An announced record type that no route names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnroutedType {
    /// The number of announcements.
    pub count: u64,
    /// The regions that announced it.
    pub regions: Vec<RegionId>,
    /// When it was last announced.
    pub last: Moment,
}

/// Announced keys that nobody reads, but that contain a key that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyForms {
    /// The number of announcements.
    pub count: u64,
    /// How the announcements write the key; `None` if they differ. The text around the key may be
    /// somebody's name as well, so it is kept only while it is the same in all of them.
    pub form: Option<String>,
}

/// Announced keys that nobody reads. Of a key only the punctuation is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnreadKeys {
    /// The number of announcements.
    pub count: u64,
    /// The ASCII punctuation that stands in any of them.
    pub punctuation: BTreeSet<char>,
}

/// Everything that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// In configuration order.
    pub regions: Vec<RegionNotes>,
    /// By the route's path.
    pub routes: BTreeMap<String, RouteNotes>,
    /// By the type's name.
    pub unrouted_types: BTreeMap<String, UnroutedType>,
    /// By the name of a record type that a route names.
    pub key_forms: BTreeMap<String, KeyForms>,
    /// By the name of a record type that a route names.
    pub unread_keys: BTreeMap<String, UnreadKeys>,
    /// Requests on paths that no route names, by the route's path that they resemble.
    pub resembled: BTreeMap<String, u64>,
    /// Versions that one region alone shows.
    pub leads: Leads,
}

/// Where the edges note what they see.
#[derive(Debug, Default)]
pub struct Observed {
    notes: Mutex<Notes>,
}

impl Observed {
    pub fn new(regions: usize) -> Self {
        let regions = vec![RegionNotes::default(); regions];
        Self { notes: Mutex::new(Notes { regions, ..Notes::default() }) }
    }

    /// Notes something about a region.
    pub fn region(&self, region: RegionId, note: impl FnOnce(&mut RegionNotes)) {
        if let Some(notes) = self.notes().regions.get_mut(region.index()) {
            note(notes);
        }
    }

    /// Notes something about the route with this path. The number of routes is bounded, and reloads
    /// cannot exceed that bound here.
    pub fn route(&self, path: &str, note: impl FnOnce(&mut RouteNotes)) {
        let mut notes = self.notes();
        if !notes.routes.contains_key(path) {
            if notes.routes.len() >= crate::config::limits::ROUTES {
                return;
            }
            notes.routes.insert(path.to_owned(), RouteNotes::default());
        }
        if let Some(notes) = notes.routes.get_mut(path) {
            note(notes);
        }
    }

    /// Notes that `region` announced a type that no route names. Control characters in the name are
    /// escaped.
    pub fn unrouted_type(&self, region: RegionId, name: &str, now: Moment) {
        let name = name.escape_debug().to_string();
        let mut notes = self.notes();
        let types = &mut notes.unrouted_types;
        if types.len() >= OBSERVED_NAMES && !types.contains_key(&name) {
            let oldest = types.iter().min_by_key(|(_, seen)| seen.last).map(|(name, _)| name.clone());
            oldest.into_iter().for_each(|oldest| drop(types.remove(&oldest)));
        }
        let seen = types.entry(name).or_insert(UnroutedType { count: 0, regions: Vec::new(), last: now });
        seen.count += 1;
        seen.last = now;
        if !seen.regions.contains(&region) {
            seen.regions.push(region);
        }
    }

    /// Notes an announced key that nobody reads, but that contains one that is read. Bounded by the
    /// number of types that routes name.
    pub fn key_form(&self, record_type: &str, form: &str) {
        let form = form.escape_debug().to_string();
        let form = Some(form).filter(|form| form.len() <= OBSERVED_NAME_BYTES);
        let mut notes = self.notes();
        match notes.key_forms.get_mut(record_type) {
            Some(forms) => {
                forms.count += 1;
                forms.form = forms.form.take().filter(|known| form.as_ref() == Some(known));
            }
            None => {
                notes.key_forms.insert(record_type.to_owned(), KeyForms { count: 1, form });
            }
        }
    }

    /// Notes an announced key that nobody reads. Bounded by the number of types that routes name.
    pub fn unread_key(&self, record_type: &str, key: &str) {
        let mut notes = self.notes();
        if !notes.unread_keys.contains_key(record_type) {
            notes.unread_keys.insert(record_type.to_owned(), UnreadKeys::default());
        }
        if let Some(unread) = notes.unread_keys.get_mut(record_type) {
            unread.count += 1;
            unread.punctuation.extend(key.chars().filter(char::is_ascii_punctuation));
        }
    }

    /// Notes a request on a path that no route names, but that resembles this route's path. Bounded
    /// like routes.
    pub fn resembled(&self, route: &str) {
        let mut notes = self.notes();
        if notes.resembled.len() < crate::config::limits::ROUTES || notes.resembled.contains_key(route) {
            *notes.resembled.entry(route.to_owned()).or_default() += 1;
        }
    }

    /// The highest share of a route's requests that are passed on for their headers, per cent, if it is
    /// more than a few.
    pub fn passed(&self, now: Moment) -> Option<u64> {
        self.notes().routes.values().filter_map(|notes| notes.passed.share(now)).max()
    }

    /// Notes what the regions said of one record.
    pub(crate) fn compared(&self, compared: &RecordVersions<'_>) {
        self.notes().leads.compare(compared);
    }

    pub fn seen(&self) -> Notes {
        self.notes().clone()
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        // A panic elsewhere leaves nothing worse than counts.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts `name` once, if there is room for it.
pub(crate) fn count_name(names: &mut BTreeMap<String, u64>, name: &str) {
    if let Some(count) = names.get_mut(name) {
        *count += 1;
    } else if names.len() < OBSERVED_NAMES && name.len() <= OBSERVED_NAME_BYTES {
        names.insert(name.to_owned(), 1);
    }
}

/// The statuses by which a region says that a request lacks something.
pub(crate) fn is_refusal(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_sixteen_answers_count() {
        let mut recent = Recent::default();
        assert!(!recent.mostly(1) && !recent.never(1));
        (0..3).for_each(|_| recent.push(true));
        assert!(recent.mostly(3) && !recent.mostly(4));
        (0..16).for_each(|_| recent.push(false));
        assert!(recent.never(16) && recent.len() == 16);
        (0..11).for_each(|_| recent.push(true));
        assert!(!recent.mostly(3));
        recent.push(true);
        assert!(recent.mostly(3));
    }

    #[test]
    fn names_that_others_choose_are_kept_in_bounds() {
        let observed = Observed::new(1);
        for number in 0..10 * OBSERVED_NAMES {
            observed.unrouted_type(RegionId(0), &format!("type-{number}"), Moment::ZERO);
            observed.route("/v1/{key}", |route| count_name(&mut route.dropped, &format!("x-{number}")));
        }
        observed.route("/v1/{key}", |route| count_name(&mut route.dropped, &"x".repeat(OBSERVED_NAME_BYTES + 1)));
        observed.region(RegionId(7), |_| panic!("there is no such region"));
        observed.unread_key("context", "tenant/7");
        observed.unread_key("context", "a:b");
        let seen = observed.seen();
        assert_eq!(seen.unrouted_types.len(), OBSERVED_NAMES);
        assert_eq!(seen.routes["/v1/{key}"].dropped.len(), OBSERVED_NAMES);
        assert_eq!(seen.unread_keys["context"], UnreadKeys { count: 2, punctuation: ['/', ':'].into() });
    }
}
