//! Evidence of a race on the permit of the caller who asked (R22).

use std::sync::Arc;

use http::{StatusCode, header};

use super::contradiction::{Decided, contradictions};
use super::keep::RoutedFill;
use crate::access::token;
use crate::cache::entry::Entry;
use crate::cache::rfc9111::directives::{Extent, ResponseDirectives};
use crate::config::services::WhenUnknown;
use crate::config::{Claims, IdentityMode};
use crate::fill::effects::apply_actions;
use crate::fill::lending::lent_by;
use crate::fill::limits::{LENT_BY_CLAIMS, LENT_CREDENTIALS};
use crate::fill::permits::PermitKey;
use crate::http::exchange::Reply;
use crate::model::time::Moment;
use crate::protocol::event::Action;
use crate::protocol::label::Label;
use crate::race::Tally;
use crate::race::verdict::{Verdict, Winner, is_worthless};
use crate::routing::headers::is_for_all;
use crate::routing::keyed_hashes::Identity;
use crate::telemetry::metrics::grants::PermitOutcome;

const fn is_refusal(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// True if a region shows what it has, or that there is nothing: only so does it confirm a caller without
/// stating grants. A redirection may lead to a login.
fn is_confirmation(status: StatusCode) -> bool {
    status.is_success() || [StatusCode::NOT_MODIFIED, StatusCode::NOT_FOUND, StatusCode::GONE].contains(&status)
}

/// True if an answer may be about what this caller sent along, or about the moment.
const fn is_about_request(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 408 | 413 | 414 | 417 | 425 | 431)
}

/// True if regions answered, and none of them goes by grants.
fn are_unchecked(tally: &Tally) -> bool {
    tally.replies().all(|reply| reply.grants.is_none() && !is_refusal(reply.status))
        && tally.replies().any(|reply| !is_worthless(reply.status))
}

impl RoutedFill<'_> {
    /// The permit that the ask is about. What nobody reads is asked for with the sidecar's credentials,
    /// with those of a caller, or with none.
    fn permit(&self) -> Option<PermitKey> {
        if self.ask.permit.is_some() || self.route.identity.own().is_none() {
            return self.ask.permit.map(|permit| permit.key);
        }
        let hashes = &self.settings.shared.keyed_hashes;
        Some(hashes.permit(self.routing.route, Identity::SHARED, self.route.view()).into())
    }

    /// The end that the caller's token states, if it states one: the regions verify it, and here it can
    /// only shorten what they allowed.
    fn end_of_token(&self) -> Moment {
        if self.ask.is_shared_by_tokens() {
            return Moment::NEVER;
        }
        let sent = self.ask.request.headers.get(header::AUTHORIZATION);
        let end = sent.and_then(|sent| token::stated_end(token::bearer(sent.as_bytes())?));
        let clock = &self.settings.shared.clock;
        end.map_or(Moment::NEVER, |end| clock.now() + end.since(clock.wall()))
    }

    /// True if a region decided about the view that the route shows, or does not say.
    pub(super) fn is_of_the_view(&self, reply: &Reply) -> bool {
        reply.grants.as_ref().is_none_or(|stated| &*stated.view == self.route.view())
    }

    /// Notes what one region's answer says of the permit.
    pub(super) fn note_permission(&self, reply: &Reply) {
        self.note_allowed(std::iter::once(reply));
    }

    /// Notes the permit that these answers give. The token is read once for all of them.
    fn note_allowed<'r>(&self, replies: impl Iterator<Item = &'r Reply>) {
        let Some(permit) = self.permit() else { return };
        let (shared, mut ends) = (&self.settings.shared, None);
        for reply in replies.filter(|reply| self.is_of_the_view(reply)) {
            if is_refusal(reply.status) || is_worthless(reply.status) {
                continue;
            }
            let floor = shared.freshness.grants().floor();
            let version = match &reply.grants {
                Some(stated) => stated.version,
                None if self.is_without_grants(floor) && is_confirmation(reply.status) => 1,
                None => continue,
            };
            let ends = *ends.get_or_insert_with(|| self.end_of_token());
            shared.fills.permits.granted(permit, version, floor, self.sent.at, ends);
        }
        let sent = self.ask.request.headers.get(header::AUTHORIZATION).filter(|_| ends.is_some());
        let Some(sent) = sent else { return };
        match &self.route.identity {
            IdentityMode::Granted => shared.fills.lent.note(self.routing.route, permit, sent, LENT_CREDENTIALS),
            IdentityMode::Verified(claims) => {
                let caller = lent_by(self.settings, claims, sent);
                let lent = &shared.fills.lent;
                caller.into_iter().for_each(|of| lent.note(self.routing.route, of, sent, LENT_BY_CLAIMS));
            }
            IdentityMode::Exact(_) | IdentityMode::Sidecar(_) => {}
        }
    }

    /// True if replies are shared by claims, and no region is known to go by grants.
    fn is_without_grants(&self, floor: u64) -> bool {
        self.route.identity.claims().is_some() && floor == 0
    }

    /// Notes that a region showed nothing to a caller of those who share a reply by their claims.
    fn note_refused_claims(&self, claims: &Claims, permit: PermitKey, winner: &Winner, entry: &Arc<Entry>) {
        // Grants go by subjects, which may differ where these claims do not.
        if winner.reply.grants.is_some() && !self.tells_subjects_apart(claims) {
            return;
        }
        let (shared, status) = (&self.settings.shared, winner.reply.status);
        if is_about_request(status) {
            return;
        }
        // A token that is not believed says nothing of the others with its claims, and neither does an
        // answer that may be about other headers of this caller.
        let is_for_all = status != StatusCode::UNAUTHORIZED && self.is_refused_alike(&winner.reply, entry);
        let unless_since = if is_refusal(status) { Moment::NEVER } else { self.sent.at };
        let terms = (self.sent.grants, unless_since);
        shared.fills.permits.ended(permit, is_for_all.then_some(entry), terms, shared.clock.now());
    }

    /// True if every caller with the key may have this answer: by grants, which go by who asks alone, or by
    /// what it says of itself.
    fn is_refused_alike(&self, reply: &Reply, entry: &Entry) -> bool {
        let said = ResponseDirectives::of(&reply.headers);
        let is_open = (self.route.store_no_store || !said.no_store) && said.private == Extent::Nothing;
        is_for_all(reply, entry, self.route) && (is_open || reply.grants.is_some())
    }

    /// True if callers of one subject alone, as each issuer calls it, make the same claims.
    fn tells_subjects_apart(&self, claims: &Claims) -> bool {
        self.settings.config.access.issuers.iter().all(|issuer| claims.tells_apart(&issuer.subject))
    }

    /// Notes the answer that the caller gets, if it is a refusal.
    pub(super) fn note_refusal(&self, winner: &Winner, entry: &Arc<Entry>) {
        let (reply, shared) = (&winner.reply, &self.settings.shared);
        let Some(permit) = self.permit() else { return };
        if let Some(claims) = self.route.identity.claims() {
            return self.note_refused_claims(claims, permit, winner, entry);
        }
        let (floor, now) = (shared.freshness.grants().floor(), shared.clock.now());
        // A refusal by older grants than those of now is not remembered beyond the floor that was known then.
        let is_newest = reply.grants.as_ref().is_some_and(|stated| stated.version >= floor);
        let decided_at = if is_newest { floor } else { self.sent.grants };
        match (reply.status, &reply.grants) {
            // It concerns this token, and others share the permit.
            (StatusCode::UNAUTHORIZED, _) if self.ask.is_shared_by_tokens() => {}
            // Nothing better came: then the word of one region is enough, if its version is no surprise.
            (StatusCode::FORBIDDEN, Some(stated)) if stated.version <= floor => {
                let terms = (decided_at, self.settings.config.access.recheck);
                shared.fills.permits.refused(permit, stated.version, entry, terms, now);
            }
            (StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED, _) if self.needs_permits(floor) => {
                shared.fills.permits.turned_away(permit, entry, decided_at, now);
            }
            _ => {}
        }
    }

    /// Notes what all answers of the race say.
    pub(super) fn note_permissions(&self, tally: &Tally) {
        self.note_allowed(tally.replies().map(Arc::as_ref));
        self.note_contradictions(tally);
        let alarm = tally.alarm.map(|(region, why)| Action::Alarm(region, why));
        apply_actions(self.settings, alarm.into_iter().collect());
        let shared = &self.settings.shared;
        let floor = shared.freshness.grants().floor();
        if self.needs_permits(floor)
            && let Some(permit) = self.permit()
        {
            if are_unchecked(tally) && !self.route.identity.is_granted() {
                shared.fills.permits.unchecked(permit, floor, self.sent.at, self.end_of_token());
            }
            // What was sent before the floor moved, and came back below it, postpones no other.
            let mut stated = tally.replies().filter_map(|reply| reply.grants.as_ref());
            let is_reached = stated.any(|stated| stated.version >= floor);
            let tried = if is_reached { floor } else { self.sent.grants };
            shared.fills.permits.tried(permit, tried, self.sent.at, shared.clock.now());
            shared.metrics.grants.checked(self.outcome(tally, floor));
        }
    }

    /// Outcome for the permit, by the regions that know the newest grants.
    fn outcome(&self, tally: &Tally, floor: u64) -> PermitOutcome {
        let decided =
            tally.replies().filter(|reply| self.is_of_the_view(reply)).filter_map(|reply| Decided::of(reply));
        let decided: Vec<Decided> = decided.collect();
        if self.is_without_grants(floor) {
            let is_confirmed = tally.replies().any(|reply| is_confirmation(reply.status));
            return match (is_confirmed, tally.replies().any(|reply| is_refusal(reply.status))) {
                (true, _) => PermitOutcome::Granted,
                (false, true) => PermitOutcome::Refused,
                (false, false) => PermitOutcome::Unconfirmed,
            };
        }
        if decided.iter().any(|decided| matches!(decided, Decided::Allowed(version) if *version >= floor)) {
            PermitOutcome::Granted
        } else if decided.iter().any(|decided| matches!(decided, Decided::Refused(version) if *version >= floor)) {
            PermitOutcome::Refused
        } else {
            PermitOutcome::Unconfirmed
        }
    }

    /// Counts what regions say of this caller, and those that contradict others.
    fn note_contradictions(&self, tally: &Tally) {
        let of_the_view = tally.replies().filter(|reply| self.is_of_the_view(reply));
        let decided: Vec<_> = of_the_view.filter_map(|reply| Some((reply.region, Decided::of(reply)?))).collect();
        for (region, decided) in &decided {
            self.settings.shared.metrics.grants.answered(*region, decided.answer());
        }
        for (region, contradiction) in contradictions(&decided) {
            self.settings.shared.metrics.grants.contradicted(region, contradiction);
        }
    }

    /// True if what is stored is served under permits alone.
    fn needs_permits(&self, floor: u64) -> bool {
        floor > 0 || self.route.identity.needs_permits()
    }

    /// True if others may have this reply: under grants, only one by which a region stated what it
    /// decided.
    pub(super) fn is_for_others(&self, winner: &Winner) -> bool {
        let (is_refused, is_stated) = (winner.verdict == Verdict::Refused, winner.reply.grants.is_some());
        match &self.route.identity {
            IdentityMode::Exact(_) | IdentityMode::Sidecar(_) => true,
            IdentityMode::Granted => is_stated && !is_refused,
            IdentityMode::Verified(claims) => !is_refused && (!is_stated || self.tells_subjects_apart(claims)),
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
            || self.permit().is_some_and(|permit| permits.is_refused_since(permit, allowed_by))
    }
}
