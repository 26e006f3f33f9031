//! Evidence of a race on the permit of the caller who asked (R22).

use std::sync::Arc;

use http::StatusCode;

use super::keep::RoutedFill;
use crate::cache::entry::Entry;
use crate::config::IdentityMode;
use crate::config::services::WhenUnknown;
use crate::fill::ask::AskedPermit;
use crate::fill::effects::apply_actions;
use crate::http::exchange::Reply;
use crate::model::time::Moment;
use crate::protocol::event::Action;
use crate::protocol::label::Label;
use crate::race::Tally;
use crate::race::verdict::{Winner, is_worthless};
use crate::routing::keyed_hashes::Identity;

impl RoutedFill<'_> {
    /// The permit that the ask is about. What nobody reads is asked for with the sidecar's credentials
    /// or with none.
    fn asked_permit(&self) -> Option<AskedPermit> {
        if self.ask.permit.is_some() || !matches!(self.route.identity, IdentityMode::Sidecar(_)) {
            return self.ask.permit;
        }
        let key = self.settings.shared.keyed_hashes.permit(self.routing.route, Identity::SIDECAR, self.view());
        Some(AskedPermit { key: key.into(), ends: Moment::NEVER })
    }

    /// The view that the route shows: as nodes announce and name it, the type of its first record.
    fn view(&self) -> &str {
        self.route.records.first().map_or("", |record| record.record_type.as_str())
    }

    /// True if a region decided about the view that the route shows, or does not say.
    pub(super) fn is_of_the_view(&self, reply: &Reply) -> bool {
        reply.grants.as_ref().is_none_or(|stated| &*stated.view == self.view())
    }

    /// Notes what one region's answer says of the permit.
    pub(super) fn note_permission(&self, reply: &Reply) {
        let Some(stated) = reply.grants.as_ref().filter(|_| self.is_of_the_view(reply)) else { return };
        let is_refused = matches!(reply.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if is_refused || is_worthless(reply.status) {
            return;
        }
        if let Some(permit) = self.asked_permit() {
            let floor = self.settings.shared.freshness.grants().floor();
            self.settings.shared.fills.permits.granted(permit.key, stated.version, floor, self.sent.at, permit.ends);
        }
    }

    /// Notes the answer that the caller gets, if it is a refusal.
    pub(super) fn note_refusal(&self, winner: &Winner, entry: &Arc<Entry>) {
        let (reply, shared) = (&winner.reply, &self.settings.shared);
        let Some(permit) = self.asked_permit() else { return };
        let (floor, now) = (shared.freshness.grants().floor(), shared.clock.now());
        match (reply.status, &reply.grants) {
            // Nothing better came: then the word of one region is enough, if its version is no surprise.
            (StatusCode::FORBIDDEN, Some(stated)) if stated.version <= floor => {
                let terms = (floor, self.settings.config.access.recheck);
                shared.fills.permits.refused(permit.key, stated.version, entry, terms, now);
            }
            (StatusCode::UNAUTHORIZED, _) if floor > 0 => {
                shared.fills.permits.unauthenticated(permit.key, entry, floor, now);
            }
            _ => {}
        }
    }

    /// Notes what all answers of the race say.
    pub(super) fn note_permissions(&self, tally: &Tally) {
        tally.replies().for_each(|reply| self.note_permission(reply));
        let alarm = tally.alarm.map(|(region, why)| Action::Alarm(region, why));
        apply_actions(self.settings, alarm.into_iter().collect());
        let shared = &self.settings.shared;
        let floor = shared.freshness.grants().floor();
        if floor > 0
            && let Some(permit) = self.asked_permit()
        {
            // What was sent before the floor moved, and came back below it, postpones no other.
            let mut stated = tally.replies().filter_map(|reply| reply.grants.as_ref());
            let is_reached = stated.any(|stated| stated.version >= floor);
            let tried = if is_reached { floor } else { self.sent.grants };
            shared.fills.permits.tried(permit.key, tried, shared.clock.now());
        }
    }

    /// True if what older grants allowed must not be shown: the settings say so, or a region is known to
    /// have refused it since.
    pub(super) fn is_withheld(&self, winner: &Winner) -> bool {
        if winner.label != Some(Label::GrantsUnproven) {
            return false;
        }
        let allowed_by = winner.reply.grants.as_ref().map_or(0, |stated| stated.version);
        let permits = &self.settings.shared.fills.permits;
        self.settings.config.access.when_unknown == WhenUnknown::Refuse
            || self.asked_permit().is_some_and(|permit| permits.is_refused_since(permit.key, allowed_by))
    }
}
