//! Standing of a reply or an entry: may it be stored (R3), what does it earn (R5), may it be served
//! now (R1, R9, R10, R16, R21), how old can it be (`bound`). Pure. [`assess`] is the hit path: it
//! compares numbers, allocates nothing and takes no lock.
//!
//! An entry is [`Use::Fresh`] for its full TTL only while some region that was LIVE when its
//! request was sent has lost nothing since and still proves that it speaks.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::event::SubscriptionState;
use super::record::{Record, Snapshot};
use super::region_views::{RegionView, RegionViews, whole_seconds};
use crate::model::ids::{Epoch, RegionId, RegionSet, TypeId, Version};
use crate::model::time::Moment;
use crate::protocol::holding::{Routed, Standing};
use crate::switch::{Rule, is_on};

/// State before a request was sent (R3). It is captured first; then the attempts start.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Time at which it was captured, before the first attempt.
    pub at: Moment,
    pub region_views: Arc<RegionViews>,
    /// The state of each of the route's records, in the route's order.
    pub fence: Vec<Snapshot>,
    /// The newest version of the grants that was known (R22); 0 for none.
    pub grants: u64,
}

/// Times at which the regions' replies were made, as far as `Age` tells: never after the request
/// was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTimes {
    /// Time of the reply that is to be stored.
    pub reply: Moment,
    /// Time of the oldest reply among those that agree.
    pub oldest: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classification {
    pub standing: Standing,
    /// The regions it depends on: for a CONFIRMED reply those that vouch for it, for any other
    /// those that were LIVE.
    pub witnesses: RegionSet,
}

/// Facts of a race for R5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaceVotes {
    /// Every configured region gave the same answer, at or above the floor.
    pub all_agree: bool,
    /// The reply states a version for each record, at or above its floor.
    pub versions_at_floor: bool,
}

/// Use that an entry is good for at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Use {
    /// Serve it.
    Fresh,
    /// Serve it, labelled: it was fresh, and no lease shows that it still is (R9).
    Unproven,
    /// Serve it, labelled: it was fresh, but announcements are seen to miss its record type (R21).
    Unwired,
    /// Serve it within its short TTL; it is being rechecked.
    Provisional,
    /// Serve it likewise, but a record's floor was dropped or its version jumped (R15): label it as
    /// doubtful.
    Doubted,
    /// Messages may have been lost since its request: ask about it before serving it (R10).
    Unverified,
    /// Its TTL (R16), its soft TTL (R9) or its short one is over.
    Expired,
    /// Something newer was announced or served (R1, R3).
    Below,
}

/// An entry at one moment: its records and regions, looked at once for all that is to be said of it.
#[derive(Clone, Copy, Debug)]
pub struct Assessment<'a> {
    entry: &'a Routed,
    sent: Moment,
    region_views: &'a RegionViews,
    now: Moment,
    is_below: bool,
    is_escaped: bool,
    witness: Witness,
}

impl Sent {
    /// The regions that were LIVE when the request was sent.
    pub fn live(&self) -> RegionSet {
        self.region_views.live(self.at)
    }

    /// Every region's epoch when the request was sent, for [`Routed::epochs`].
    ///
    /// Epochs seldom move, so nearly all entries share one list.
    pub fn epochs(&self) -> Arc<Vec<Epoch>> {
        static LAST: Mutex<Option<Arc<Vec<Epoch>>>> = Mutex::new(None);
        let epochs = self.region_views.regions.iter().map(|region_view| region_view.epoch);
        // Replaced whole, so a panic elsewhere cannot leave half of one.
        let mut last = LAST.lock();
        match &*last {
            Some(last) if last.iter().copied().eq(epochs.clone()) => last.clone(),
            _ => last.insert(Arc::new(epochs.collect())).clone(),
        }
    }
}

/// R1, R3: whether a reply may be stored, that is, no record it shows (in the fence's order) moved
/// past it while it was on its way.
pub fn admits(sent: &Sent, shows: &[(&Record, Version)]) -> bool {
    debug_assert_eq!(sent.fence.len(), shows.len(), "a version for each record of the route");
    if !is_on(Rule::R3) {
        return true;
    }
    shows.len() == sent.fence.len()
        && shows
            .iter()
            .zip(&sent.fence)
            .all(|((record, version), fence)| record.snapshot().matches(*version, fence.generation))
}

/// R5, R2, R15: what a stored reply earns. `doubtful` says that an announcement of one of its
/// records may have been missed ([`super::Freshness::slot_lost_since`]), or that one of them is
/// `escaped` ([`Snapshot::escaped`]).
///
/// CONFIRMED takes a region that has been LIVE, its epoch unbroken, since before the reply was
/// made. It also takes either the agreement of all regions, or versions at or above the floor while
/// that region had been unbroken for `worst_lag` before the reply was made: whatever another region
/// may still lack, this one has announced. A reply from an intermediary's cache was made when it
/// went in there (`Age`), not when it was requested. And where all agree, the oldest of the replies
/// counts: its region's change may have been announced before anybody here listened.
pub fn earn(
    sent: &Sent,
    made: ReplyTimes,
    now: &RegionViews,
    votes: &RaceVotes,
    doubtful: bool,
    worst_lag: Duration,
) -> Classification {
    let live = sent.live();
    let vouching: RegionSet = live
        .iter()
        .filter(|region| {
            let (then, since) = (&sent.region_views.regions[region.index()], now.regions.get(region.index()));
            let unbroken = since.is_some_and(|since| since.epoch == then.epoch);
            let agreed = votes.all_agree && then.unbroken_since <= made.oldest;
            let long = then.unbroken_since + worst_lag <= made.reply;
            unbroken && (agreed || votes.versions_at_floor && long)
        })
        .collect();
    if doubtful || vouching.is_empty() && is_on(Rule::R5) {
        return Classification { standing: Standing::Provisional, witnesses: live };
    }
    let witnesses = if vouching.is_empty() { live } else { vouching };
    Classification { standing: Standing::Confirmed, witnesses }
}

/// True if a recheck could settle anything. With no LIVE region nothing can become CONFIRMED (R5),
/// and regions are asked again only because the soft TTL ends.
pub fn recheck_may_settle(region_views: &RegionViews, now: Moment) -> bool {
    !region_views.live(now).is_empty()
}

/// Looks once at `entry`, whose request was sent at `sent`, as it stands at `now`. This is the hit path.
pub fn assess<'a>(entry: &'a Routed, sent: Moment, region_views: &'a RegionViews, now: Moment) -> Assessment<'a> {
    let (mut is_below, mut is_escaped) = (false, false);
    for shown in &*entry.shows {
        let state = shown.record.snapshot();
        is_below |= !state.matches(shown.version, shown.generation);
        is_escaped |= state.escaped;
    }
    Assessment {
        entry,
        sent,
        region_views,
        now,
        is_below,
        is_escaped,
        witness: best_witness(entry, sent, region_views, now),
    }
}

impl Assessment<'_> {
    /// The use that the entry may be put to.
    pub fn good_for(&self, soft_ttl: Duration) -> Use {
        let Self { entry, sent, now, .. } = *self;
        if self.is_below {
            return Use::Below;
        }
        // R16: counted from when it was sent, never from when it arrived.
        if is_on(Rule::R16) && now.since(sent) >= entry.ttl.get() {
            return Use::Expired;
        }
        let mut strays = false;
        if !entry.live.is_empty() {
            match self.witness {
                Witness::None => return Use::Unverified,
                Witness::Live if entry.standing == Standing::Confirmed && !self.is_escaped => return Use::Fresh,
                Witness::Live | Witness::Silent => {}
                Witness::Astray => strays = true,
            }
        }
        if now.since(entry.confirmed) >= soft_ttl {
            Use::Expired
        } else if self.is_escaped {
            Use::Doubted
        } else if entry.standing == Standing::Confirmed {
            if strays { Use::Unwired } else { Use::Unproven }
        } else {
            Use::Provisional
        }
    }

    /// For how many whole seconds, rounded down, the entry still holds as things are: its TTL (R16)
    /// while a region vouches for it, else the soft TTL (R9, R21). Negative once that is over.
    pub fn seconds_left(&self, soft_ttl: Duration) -> i64 {
        let Self { entry, sent, now, .. } = *self;
        let vouched = entry.standing == Standing::Confirmed && self.witness == Witness::Live;
        let hard = remaining(entry.ttl.get(), now.since(sent));
        if vouched { hard } else { hard.min(remaining(soft_ttl, now.since(entry.confirmed))) }
    }

    /// Promise 2: how old, in whole seconds rounded up, the answer can be at most. `None` if nothing
    /// proves it, or if something newer is known. `age` is the entry's age by now
    /// ([`crate::cache::entry::Entry::age`]).
    ///
    /// Only watermarks give a bound, and only those of regions that were LIVE when the request was sent
    /// and whose epoch has stayed unbroken since: a region that lost something in between cannot vouch
    /// for what it says it ingested. Nor can one whose announcements may miss what is read here (R21).
    /// A lease that has run out takes nothing away from what was proven before: the watermark stands
    /// still, and the bound grows with the clock.
    ///
    /// * CONFIRMED: now minus the newest such watermark. Everything its region had ingested by then is
    ///   known here, and the entry is not below any of it.
    /// * PROVISIONAL: the entry's age plus `worst_lag`. When the region answered, it lacked at most
    ///   what others had ingested in the `worst_lag` before. That is R5's own assumption, and the bound
    ///   is no better than it. What was announced since is known, or the entry would be below it.
    pub fn bound(&self, age: Duration, worst_lag: Duration) -> Option<u64> {
        let Self { entry, region_views, now, .. } = *self;
        if self.is_below || self.is_escaped {
            return None;
        }
        let withheld = region_views.withheld(types(entry), now.before(age).min(entry.confirmed));
        let vouch = unbroken(entry, region_views).filter(|(region, _)| !withheld.contains(*region));
        let newest = vouch.filter_map(|(_, region_view)| region_view.watermark_at).max()?;
        match entry.standing {
            Standing::Confirmed => Some(whole_seconds(now.since(newest))),
            Standing::Provisional => Some(whole_seconds(age + worst_lag)),
        }
    }
}

/// The regions that, as far as they know, lost nothing since the request: what was announced since
/// is known.
pub fn vouching(entry: &Routed, region_views: &RegionViews) -> RegionSet {
    unbroken(entry, region_views).map(|(region, _)| region).collect()
}

/// The best that any region can still say for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Witness {
    /// It lost nothing since the request, and its lease holds.
    Live,
    /// Its lease holds too, but its announcements are seen to miss what the entry shows (R21).
    Astray,
    /// It lost nothing that we know of, but its lease has run out.
    Silent,
    /// All of them may have lost something.
    None,
}

fn best_witness(entry: &Routed, sent: Moment, region_views: &RegionViews, now: Moment) -> Witness {
    let strays = region_views.strays(types(entry), sent.min(entry.confirmed));
    let mut best = Witness::None;
    for (region, region_view) in unbroken(entry, region_views) {
        if leads(region_view, now) {
            if !strays.contains(region) {
                return Witness::Live;
            }
            best = Witness::Astray;
        } else if matches!(best, Witness::None) {
            best = Witness::Silent;
        }
    }
    best
}

/// Whole seconds, rounded down, that are left of `ttl`; negative once it is over.
fn remaining(ttl: Duration, elapsed: Duration) -> i64 {
    ttl.as_secs() as i64 - whole_seconds(elapsed) as i64
}

/// The types of the records that the entry shows.
fn types(entry: &Routed) -> impl Iterator<Item = TypeId> {
    entry.shows.iter().map(|shown| shown.record.id().record_type)
}

/// The regions that were LIVE when the request was sent and whose epoch has not moved since (R10).
fn unbroken<'a>(
    entry: &'a Routed,
    region_views: &'a RegionViews,
) -> impl Iterator<Item = (RegionId, &'a RegionView)> {
    let epochs = (0u8..).map(RegionId).zip(region_views.regions.iter().zip(entry.epochs.iter()));
    epochs
        .filter(|(region, (region_view, epoch))| entry.live.contains(*region) && region_view.epoch == **epoch)
        .map(|(region, (region_view, _))| (region, region_view))
}

/// R9: compares with now, so that a process that was paused finds its lease over.
fn leads(region_view: &RegionView, now: Moment) -> bool {
    region_view.state == SubscriptionState::Live && now <= region_view.lease_until
}

#[cfg(test)]
mod tests;
