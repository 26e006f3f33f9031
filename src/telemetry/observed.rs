//! Notes facts that mean something only when two sources are compared: announcements and routes,
//! versions and replies, one region and the others, what callers send and what is forwarded,
//! clocks.
//!
//! The I/O modules note what they see, and [`crate::admin::findings`] compares it. Names that others
//! chose (record types, headers) are kept in bounds; no values and no whole keys are kept. Nothing is noted
//! on a hit.

use std::collections::{BTreeMap, BTreeSet};

use http::StatusCode;
use parking_lot::{Mutex, MutexGuard};

use crate::model::ids::RegionId;
use crate::model::time::Moment;
use crate::telemetry::leads::{Leads, RecordVersions};
use crate::telemetry::limits::{OBSERVED_NAME_BYTES, OBSERVED_NAMES};
use crate::telemetry::passed::PassedNotes;

/// The last sixteen answers to one question; a field's comment names the cases that are a yes.
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

    /// Number of answers that are yes.
    pub const fn yes_count(self) -> u32 {
        self.bits.count_ones()
    }

    /// True if there are at least `least` answers, and three quarters of them are yes.
    pub const fn mostly(self, least: u32) -> bool {
        self.len() >= least && self.yes_count() * 4 >= self.len() * 3
    }

    /// True if there are at least `least` answers, and none is yes.
    pub const fn never(self, least: u32) -> bool {
        self.len() >= least && self.yes_count() == 0
    }
}

/// Notes on one region and its topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionNotes {
    pub topic: TopicNotes,
    /// Races in which another region had the record and this one said that it does not exist or is
    /// not allowed.
    pub odd: Recent,
    /// The status with which it last said so.
    pub odd_status: u16,
    /// Its own replies, after it announced a change, that did not show the change.
    pub unshown: Recent,
    /// Replies that showed a change which another region's topic had announced and its own had not.
    pub unannounced: Recent,
    /// Tries that failed.
    pub failed: Recent,
    /// Failure of the last one: a word of [`crate::http::exchange::Failure`], or a status.
    pub failure: String,
    /// Replies, on routes that have regions compress, whose coding could not be taken off.
    pub undecoded: Recent,
    /// The last one of those.
    pub undecoded_last: Undecoded,
    /// Milliseconds by which its `Date` is ahead of this host's clock, at the least, in the last
    /// replies.
    pub skews_ms: Vec<i64>,
    /// Replies that a cache in front of the region had kept.
    pub aged: Recent,
}

/// Notes on the messages of a region's topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicNotes {
    /// Announced changes that state a version.
    pub versioned: Recent,
    /// Announced changes that their publisher numbers.
    pub numbered: Recent,
    /// Publishers' heartbeats that say through when all is ingested.
    pub through: Recent,
    /// Counts heartbeats of every kind.
    pub heartbeats: u64,
    /// Time of the last one.
    pub heartbeat_at: Option<Moment>,
    /// Verified messages that could not be decoded.
    pub undecodable: Recent,
    /// Reason for which the last one could not be decoded, in fixed words.
    pub undecodable_why: String,
}

/// A reply whose content coding could not be taken off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undecoded {
    /// A word of [`crate::payload::coding::CodingError`].
    pub why: &'static str,
    /// Its `Content-Encoding`.
    pub stated: String,
    /// The path of the route on which it came, and a remark if it came from the candidate.
    pub route: String,
}

/// Notes on one route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteNotes {
    /// Requests that went to the regions.
    pub asked: u64,
    /// Good replies that state a version for each record.
    pub versioned: Recent,
    /// Good replies that forbid storing.
    pub no_store: Recent,
    /// Counts good replies that may be stored and are not too large. While it is zero, nothing is
    /// ever a hit.
    pub good: u64,
    /// Good replies that state no grants, where replies are shared under permits.
    pub unstated: Recent,
    /// Good replies that could not be shared because of what they vary by.
    pub varied: Recent,
    /// Counts the headers that are to blame.
    pub vary: BTreeMap<String, u64>,
    /// Races in which every region refused (400, 401, 403).
    pub refused: Recent,
    /// The status of the last refusal.
    pub refused_status: u16,
    /// Races in which every region that answered said that there is nothing (404, 410).
    pub absent: Recent,
    /// Counts callers' headers that were not forwarded when regions refused.
    pub dropped: BTreeMap<String, u64>,
    /// Requests passed on for their headers.
    pub passed: PassedNotes,
    /// Good replies that were too large to hold.
    pub too_large: Recent,
    /// Time at which all regions last answered with a lower version than the one that was stored of
    /// them.
    pub back: Option<Moment>,
    /// Time at which the regions last agreed on other content than what was stored under the same
    /// version.
    pub other_content: Option<Moment>,
}

/// An announced record type that no route names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnroutedType {
    /// The number of announcements.
    pub count: u64,
    /// The regions that announced it.
    pub regions: Vec<RegionId>,
    /// Time of its last announcement.
    pub last: Moment,
}

/// Announced keys that nobody reads, but that contain a key that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySpellings {
    /// The number of announcements.
    pub count: u64,
    /// Spelling of the key in the announcements; `None` if they differ, or if it is too long. The text around the key may be
    /// somebody's name as well, so it is kept only while it is the same in all of them.
    pub spelling: Option<String>,
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
    /// Notes in configuration order.
    pub regions: Vec<RegionNotes>,
    /// Notes by the route's path.
    pub routes: BTreeMap<String, RouteNotes>,
    /// Unrouted types by name.
    pub unrouted_types: BTreeMap<String, UnroutedType>,
    /// Key forms by the name of a record type that a route names.
    pub key_spellings: BTreeMap<String, KeySpellings>,
    /// Unread keys by the name of a record type that a route names.
    pub unread_keys: BTreeMap<String, UnreadKeys>,
    /// Requests on paths that no route names, by the route's path that they resemble.
    pub resembled: BTreeMap<String, u64>,
    /// Versions that one region alone shows.
    pub leads: Leads,
}

/// Notes of the edges on what they see.
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

    /// Notes an announced key that nobody reads, but that contains one that is read. The caller passes
    /// only types that routes name.
    pub fn note_key_spelling(&self, record_type: &str, spelling: &str) {
        let escaped = spelling.escape_debug().to_string();
        let spelling = Some(escaped).filter(|escaped| escaped.len() <= OBSERVED_NAME_BYTES);
        let mut notes = self.notes();
        match notes.key_spellings.get_mut(record_type) {
            Some(known) => {
                known.count += 1;
                if known.spelling != spelling {
                    known.spelling = None;
                }
            }
            None => {
                notes.key_spellings.insert(record_type.to_owned(), KeySpellings { count: 1, spelling });
            }
        }
    }

    /// Notes an announced key that nobody reads. The caller passes only types that routes name.
    pub fn note_unread_key(&self, record_type: &str, key: &str) {
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
    pub fn note_resembled(&self, route: &str) {
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
        self.notes.lock()
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
    fn foreign_names_are_bounded() {
        let observed = Observed::new(1);
        for number in 0..10 * OBSERVED_NAMES {
            observed.unrouted_type(RegionId(0), &format!("type-{number}"), Moment::ZERO);
            observed.route("/v1/{key}", |route| count_name(&mut route.dropped, &format!("x-{number}")));
        }
        observed.route("/v1/{key}", |route| count_name(&mut route.dropped, &"x".repeat(OBSERVED_NAME_BYTES + 1)));
        observed.region(RegionId(7), |_| panic!("there is no such region"));
        observed.note_unread_key("context", "tenant/7");
        observed.note_unread_key("context", "a:b");
        let seen = observed.seen();
        assert_eq!(seen.unrouted_types.len(), OBSERVED_NAMES);
        assert_eq!(seen.routes["/v1/{key}"].dropped.len(), OBSERVED_NAMES);
        assert_eq!(seen.unread_keys["context"], UnreadKeys { count: 2, punctuation: ['/', ':'].into() });
    }
}
