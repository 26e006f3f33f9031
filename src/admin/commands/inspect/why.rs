//! Explains why an entry counts as it does: the rules of [`crate::protocol::standing`] in
//! sentences.

use super::{Look, list, stated};
use crate::cache::entry::Entry;
use crate::model::ids::{RegionId, RegionSet};
use crate::protocol::event::SubscriptionState;
use crate::protocol::holding::{Routed, ShownRecord, Standing};
use crate::protocol::standing::Use;

impl Look<'_> {
    /// Present use of the entry, and its reasons; then the obstacles to CONFIRMED, if any.
    pub(super) fn why(&self, entry: &Entry, routed: &Routed, good_for: Use) -> Vec<String> {
        let mut says = match good_for {
            Use::Below => routed.shows.iter().filter_map(|shown| self.below(shown)).collect(),
            Use::Expired => vec!["its time is over: the next read asks the regions".to_owned()],
            Use::Unverified => vec![format!(
                "asked about before it is next served: every region that was live when it was asked for ({}) may have \
                 lost messages since",
                list(&self.names(routed.live))
            )],
            Use::Unproven => vec![
                "confirmed, but nothing proves now that announcements still arrive: served for cache.soft_ttl, \
                 labelled unproven"
                    .to_owned(),
            ],
            Use::Unwired => vec![
                "confirmed, but announcements are seen to miss its record type: served for cache.soft_ttl, labelled \
                 unwired; the findings in /status say what to write"
                    .to_owned(),
            ],
            Use::Fresh => {
                let vouching = self.names(self.unbroken(routed));
                let are = if vouching.len() == 1 { "is" } else { "are" };
                vec![format!("confirmed: {} lost no message since it was asked for, and {are} live", list(&vouching))]
            }
            Use::Provisional => vec!["provisional: kept for cache.soft_ttl and rechecked".to_owned()],
            Use::Doubted => vec![
                "doubted: a version jumped or a floor was dropped; labelled until the regions agree (R15)".to_owned(),
            ],
        };
        if routed.standing == Standing::Provisional {
            says.push(format!("not confirmed because {}", self.unearned(entry, routed)));
        }
        says
    }

    fn below(&self, shown: &ShownRecord) -> Option<String> {
        let state = shown.record.snapshot();
        if state.matches(shown.version, shown.generation) {
            return None;
        }
        Some(match stated(shown.version) {
            Some(version) if shown.version < state.floor => format!(
                "below the floor: it shows version {version}, and {} was announced or served; the next read asks the \
                 regions",
                state.floor
            ),
            _ => format!(
                "asked for before generation {} (its own is {}): an announcement, a reload, a purge or a reset came \
                 since; the next read asks the regions",
                state.generation.0, shown.generation.0
            ),
        })
    }

    /// The regions that were LIVE when it was asked for and have lost nothing since.
    fn unbroken(&self, routed: &Routed) -> RegionSet {
        routed
            .live
            .iter()
            .filter(|region| {
                let (then, now) = (routed.epochs.get(region.index()), self.region_views.regions.get(region.index()));
                then.zip(now).is_some_and(|(then, now)| *then == now.epoch)
            })
            .collect()
    }

    /// The first condition for being CONFIRMED that it does not meet (R5, R2, R15, R10).
    fn unearned(&self, entry: &Entry, routed: &Routed) -> String {
        let freshness = &self.sidecar.fill.shared.freshness;
        if routed.live.is_empty() {
            return format!("no region was live when it was asked for{}", self.paused());
        }
        if routed.shows.iter().any(|shown| shown.record.snapshot().escaped) {
            return "a version jumped or a floor was dropped, and the regions do not agree yet (R15)".to_owned();
        }
        if routed.shows.iter().any(|shown| freshness.slot_lost_since(shown.id(), entry.sent)) {
            return "an announcement may have been forgotten before it was asked for (R2)".to_owned();
        }
        let worst_lag = self.sidecar.fill.config.freshness.worst_lag;
        if routed.shows.iter().any(|shown| stated(shown.version).is_none()) {
            return "it states no version, and the regions did not all show the same (R5)".to_owned();
        }
        if !routed.shows.iter().all(|shown| shown.record.snapshot().floor_speaks(entry.sent, worst_lag)) {
            let lag = humantime::format_duration(worst_lag);
            return format!("it was asked for within freshness.worst_lag ({lag}) of a change without a version (R5)");
        }
        let unbroken = self.unbroken(routed);
        // A reply from a cache was made when it went into that cache.
        let aged = entry.age_at_receipt.get();
        let made = entry.sent.before(aged);
        let regions = list(&self.names(routed.live));
        if unbroken.is_empty() {
            return format!("{regions}, live when it was asked for, may have lost messages since (R10)");
        }
        let mut live_since = unbroken.iter().map(|region| self.region_views.regions[region.index()].unbroken_since);
        if !live_since.any(|since| since + worst_lag <= made) {
            let lag = humantime::format_duration(worst_lag);
            let old = match aged.as_secs() {
                0 => String::new(),
                seconds => format!(", and came from a cache where it was {seconds} s old already"),
            };
            return format!(
                "{regions} had been live for less than freshness.worst_lag ({lag}) when it was made{old}, and the \
                 regions did not all show the same (R5)"
            );
        }
        "its race was not over, or what regions showed did not earn it (R5)".to_owned()
    }

    /// The regions whose announcements an operator paused.
    fn paused(&self) -> String {
        let regions = (0..).map(RegionId).zip(&self.region_views.regions);
        let paused = regions
            .filter(|(_, region_view)| region_view.state == SubscriptionState::Paused)
            .map(|(id, _)| self.name(id));
        let paused: Vec<String> = paused.collect();
        if paused.is_empty() { String::new() } else { format!("; paused by an operator: {}", list(&paused)) }
    }
}
