//! What only shows when two sources are compared: announcements and routes, versions and replies, one region and the others,
//! what callers send and what is forwarded, clocks.
//!
//! The edges note what they see; [`crate::admin::findings`] compares. Names that others chose (record types, headers) are kept
//! in bounds, values and keys are not. Nothing is noted on a hit.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::StatusCode;

use crate::model::ids::RegionId;
use crate::model::time::Moment;
use crate::telemetry::limits::{OBSERVED_NAME_BYTES, OBSERVED_NAMES};

/// The last sixteen answers to one question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    bits: u16,
    len: u8,
}

impl Recent {
    const MOST: u8 = 16;

    /// One more answer.
    pub fn push(&mut self, yes: bool) {
        self.bits = self.bits << 1 | u16::from(yes);
        self.len = (self.len + 1).min(Self::MOST);
    }

    /// How many there are.
    pub const fn len(self) -> u32 {
        self.len as u32
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// How many of them are yes.
    pub const fn yes(self) -> u32 {
        self.bits.count_ones()
    }

    /// Whether at least `least` are there, and three quarters of all are yes.
    pub const fn mostly(self, least: u32) -> bool {
        self.len() >= least && self.yes() * 4 >= self.len() * 3
    }

    /// Whether at least `least` are there, and none is yes.
    pub const fn never(self, least: u32) -> bool {
        self.len() >= least && self.yes() == 0
    }
}

/// What was seen of one region and its topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionNotes {
    /// Changes that it announced: whether they state a version.
    pub versioned: Recent,
    /// The same: whether their publisher numbers them.
    pub numbered: Recent,
    /// Heartbeats of publishers: whether they say through when all is ingested.
    pub through: Recent,
    /// Heartbeats of any kind.
    pub heartbeats: u64,
    /// Verified messages: whether they could not be decoded; and why, of the last.
    pub undecodable: Recent,
    /// In fixed words.
    pub undecodable_why: String,
    /// Races in which another region had the record: whether this one said that it is not there or not allowed.
    pub odd: Recent,
    /// What it said then.
    pub odd_status: u16,
    /// Its own replies after it announced a change: whether they did not show it.
    pub unshown: Recent,
    /// Replies that showed a change of which its topic had not told while another's had.
    pub unannounced: Recent,
    /// Tries: whether they failed; and how the last that did.
    pub failed: Recent,
    /// A word of [`crate::http::exchange::Failure`], or a status.
    pub failure: String,
    /// By how much its `Date` is ahead of this host's clock, milliseconds, at the least, of the last replies.
    pub skews_ms: Vec<i64>,
    /// Replies: whether a cache before the region had kept them.
    pub aged: Recent,
}

/// What was seen of one route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteNotes {
    /// Requests that went to the regions.
    pub asked: u64,
    /// Good replies: whether they state a version for each record.
    pub versioned: Recent,
    /// Good replies: whether they forbid storing.
    pub no_store: Recent,
    /// Good replies that may be stored and are not too large: as long as there is none, nothing is ever a hit.
    pub good: u64,
    /// Good replies: whether they could not be shared for what they vary by.
    pub varied: Recent,
    /// Which headers those are.
    pub vary: BTreeMap<String, u64>,
    /// Races: whether every region refused (400, 401, 403).
    pub refused: Recent,
    /// With what.
    pub refused_status: u16,
    /// Races: whether every region that answered said that there is nothing (404, 410).
    pub absent: Recent,
    /// Headers of callers that were not forwarded when regions refused.
    pub dropped: BTreeMap<String, u64>,
    /// Good replies: whether they were too large to hold.
    pub too_large: Recent,
}

/// A record type that is announced and that no route names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnroutedType {
    /// How many announcements.
    pub count: u64,
    /// Which regions announced it, by name in the configuration's order.
    pub regions: Vec<RegionId>,
    /// When the last came.
    pub last: Moment,
}

/// Announced keys that are not read and hold one that is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyForms {
    /// How many announcements.
    pub count: u64,
    /// How they write it; `None` when each does otherwise. What stands around the key may be somebody's name as well: it is kept only
    /// while it is the same in all.
    pub form: Option<String>,
}

/// All that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// In the order of the configuration.
    pub regions: Vec<RegionNotes>,
    /// By the route's path.
    pub routes: BTreeMap<String, RouteNotes>,
    /// By name.
    pub unrouted_types: BTreeMap<String, UnroutedType>,
    /// By the name of a record type that a route names.
    pub key_forms: BTreeMap<String, KeyForms>,
    /// Requests on paths that no route names, by the path of a route that they resemble.
    pub resembled: BTreeMap<String, u64>,
}

/// Where the edges note what they see.
#[derive(Debug, Default)]
pub struct Observed {
    notes: Mutex<Notes>,
}

impl Observed {
    /// Nothing was seen of so many regions.
    pub fn new(regions: usize) -> Self {
        let regions = vec![RegionNotes::default(); regions];
        Self { notes: Mutex::new(Notes { regions, ..Notes::default() }) }
    }

    /// Something was seen of a region.
    pub fn region(&self, region: RegionId, note: impl FnOnce(&mut RegionNotes)) {
        if let Some(notes) = self.notes().regions.get_mut(region.index()) {
            note(notes);
        }
    }

    /// Something was seen of the route with this path. Routes are bounded by the configuration, and so are reloads' by this.
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

    /// `region` announced something under a type that no route names; noted without control characters.
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

    /// A key was announced that is not read and holds one that is. There are as many types as routes name.
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

    /// A request came on a path that no route names, and that resembles the path of this one. There are as many as routes.
    pub fn resembled(&self, route: &str) {
        let mut notes = self.notes();
        if notes.resembled.len() < crate::config::limits::ROUTES || notes.resembled.contains_key(route) {
            *notes.resembled.entry(route.to_owned()).or_default() += 1;
        }
    }

    /// All that was seen.
    pub fn seen(&self) -> Notes {
        self.notes().clone()
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        // What a panic elsewhere leaves are counts.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One more of `name`, if there is room for it.
pub fn count_name(names: &mut BTreeMap<String, u64>, name: &str) {
    if let Some(count) = names.get_mut(name) {
        *count += 1;
    } else if names.len() < OBSERVED_NAMES && name.len() <= OBSERVED_NAME_BYTES {
        names.insert(name.to_owned(), 1);
    }
}

/// Statuses by which a region says that a request lacks something.
pub fn is_refusal(status: StatusCode) -> bool {
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
        let seen = observed.seen();
        assert_eq!(seen.unrouted_types.len(), OBSERVED_NAMES);
        assert_eq!(seen.routes["/v1/{key}"].dropped.len(), OBSERVED_NAMES);
    }
}
