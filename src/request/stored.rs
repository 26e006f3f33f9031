//! Uses of a stored entry now, and its way of being served.

use std::sync::Arc;
use std::time::Duration;

use super::caller::Caller;
use super::settings::Settings;
use crate::cache::entry::Entry;
use crate::cache::key::KeyRef;
use crate::fill::background::Refresh;
use crate::fill::limits::RECHECK_WAIT;
use crate::http::admission::Head;
use crate::model::ids::Version;
use crate::model::time::Moment;
use crate::protocol::label::Label;
use crate::protocol::region_views::RegionViews;
use crate::protocol::standing::{self, Assessment, Use};
use crate::race::floors;
use crate::shape::cache_status::{Bound, CacheLine, Detail};
use crate::shape::shown::Shown;
use crate::switch::{Guard, is_on};
use crate::unrouted;

/// With which label a stored entry is served, and the refresh that it triggers.
pub(super) type Serving = (Option<Label>, Option<Box<Refresh>>);

/// A stored entry as it stands, if it is routed. Notes the read.
#[inline]
pub(super) fn found<'a>(
    settings: &Settings,
    entry: &'a Entry,
    region_views: &'a RegionViews,
    now: Moment,
) -> Option<Assessment<'a>> {
    let freshness = &*settings.fill.shared.freshness;
    entry.shows().iter().for_each(|shown| freshness.read(&shown.record, now));
    entry.assess(region_views, now)
}

/// True if a stored routed entry satisfies the request's `no-cache`, `max-age` and `min-fresh` (RFC
/// 9111, 5.2.1). A `floor` that it states bounds its `no-cache`.
#[inline]
pub(super) fn suits(
    settings: &Settings,
    caller: &Caller,
    floor: Option<&[Version]>,
    entry: &Entry,
    now: Moment,
) -> bool {
    let wish = &caller.wish;
    floor.map_or(!wish.no_cache, |floor| floors::are_met(floor, entry) || !is_on(Guard::FloorBeforeStore))
        && wish.max_age.is_none_or(|most| entry.age(now) <= most)
        && wish.min_fresh.is_none_or(|least| {
            let region_views = settings.fill.shared.freshness.region_views();
            let found = entry.assess(&region_views, now);
            let left = found.map_or(0, |found| found.seconds_left(settings.fill.config.cache.soft_ttl));
            left >= least.as_secs() as i64
        })
}

/// Way of serving a stored routed entry without asking; else its other uses.
pub(super) fn may_serve(
    settings: &Settings,
    key: KeyRef<'_>,
    entry: &Arc<Entry>,
    found: Option<&Assessment<'_>>,
    now: Moment,
) -> Result<Serving, Option<Use>> {
    match found.map(|found| found.good_for(settings.fill.config.cache.soft_ttl)) {
        Some(Use::Fresh) => Ok((None, None)),
        Some(Use::Unproven) => Ok((Some(Label::Unproven), None)),
        Some(Use::Unwired) => Ok((Some(Label::Unwired), None)),
        Some(Use::Provisional) => Ok((Some(Label::Provisional), recheck(settings, key, entry, now))),
        Some(Use::Doubted) => {
            settings.fill.shared.metrics.requests.stale(Label::FloorEscaped);
            Ok((Some(Label::FloorEscaped), recheck(settings, key, entry, now)))
        }
        other => Err(other),
    }
}

/// A reader found `entry` provisional, so its rechecks resume if they ended (nobody had read
/// it, no region was LIVE) or never began for lack of room.
fn recheck(settings: &Settings, key: KeyRef<'_>, entry: &Arc<Entry>, now: Moment) -> Option<Box<Refresh>> {
    let young = now.since(entry.validity.routed()?.confirmed) <= RECHECK_WAIT.0;
    let may_settle = !young && standing::recheck_may_settle(&settings.fill.shared.freshness.region_views(), now);
    may_settle.then(|| Box::new(Refresh::Recheck(key.to_key(), entry.clone())))
}

/// For `freshness.grace` after an announcement the previous value may be served while its
/// refetch runs, if it was within its TTL and every record of it that moved did so just now.
/// Never in strict mode, because it is known to be old.
pub(super) fn is_in_grace(settings: &Settings, entry: &Entry, now: Moment) -> bool {
    let config = &settings.fill.config.freshness;
    let grace = config.grace;
    let may_be = !grace.is_zero() && !config.strict;
    let Some(routed) = entry.validity.routed().filter(|_| may_be) else { return false };
    now.since(entry.sent) < routed.ttl.get()
        && routed.shows.iter().all(|shown| {
            let state = shown.record.snapshot();
            let recent = state.marker.is_some_and(|marker| now.since(marker.at) <= grace);
            recent || state.matches(shown.version, shown.generation)
        })
}

/// The greatest age that the answer can have.
pub(super) fn bound(settings: &Settings, assessed: &Assessment<'_>, age: Duration) -> Bound {
    assessed.bound(age, settings.fill.config.freshness.worst_lag).map_or(Bound::None, Bound::Seconds)
}

/// Seconds for `Age`. A node's announcements say more than when it last read its table: nothing
/// that its region had by then is missing.
pub(super) fn stated_age(settings: &Settings, age: Duration, bound: Option<Bound>) -> u64 {
    match bound {
        Some(Bound::Seconds(bound)) if settings.fill.config.service.authoritative => bound.min(age.as_secs()),
        _ => age.as_secs(),
    }
}

/// A stored routed entry, served without asking.
pub(super) fn stored_hit(
    settings: &Settings,
    head: Head<'_>,
    caller: &Caller,
    entry: &Arc<Entry>,
    found: Option<&Assessment<'_>>,
    now: Moment,
    label: Option<Label>,
) -> Shown {
    let shared = &*settings.fill.shared;
    let age = entry.age(now);
    let bound = found.map(|found| bound(settings, found, age));
    let line = CacheLine {
        hit: true,
        ttl: found.map(|found| found.seconds_left(settings.fill.config.cache.soft_ttl)),
        bound,
        detail: label.map(Detail::Label),
        ..CacheLine::default()
    };
    let shown = caller.shown(head, entry, Some(stated_age(settings, age, bound)), line);
    shared.metrics.requests.hit(shared.clock.now() - now);
    shown
}

/// A stored reply of an unrouted path, as it is served now.
pub(super) fn shown_unrouted(
    head: Head<'_>,
    caller: &Caller,
    entry: &Arc<Entry>,
    hit: &unrouted::serve::Hit,
) -> Shown {
    let line =
        CacheLine { hit: true, ttl: Some(hit.ttl_s), detail: hit.label.map(Detail::Label), ..CacheLine::default() };
    caller.shown(head, entry, Some(hit.age_s), line)
}
