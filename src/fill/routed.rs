//! The fill of a routed path: it races, serves the first good reply, and keeps the best one. The
//! entry is stored CONFIRMED or PROVISIONAL; a provisional one is rechecked
//! ([`super::background`]). [`crate::protocol`] says what each rule decides.
//!
//! The fence (generations, floors, epochs) is captured before anything is sent (R3). An entry is
//! stored only if the records still admit it at that moment.

use std::sync::Arc;

use http::header;

use self::keep::RoutedFill;
use super::ask::{Ask, Routing};
use super::compare;
use super::leader::Leader;
use super::outcome::{BestError, Failed, Filled, Lack, cookies_for};
use super::prepare::fill_request;
use super::settings::{Later, Settings};
use crate::cache::entry::Validity;
use crate::http::exchange::Failure;
use crate::model::ids::Version;
use crate::protocol::label::Label;
use crate::protocol::standing::Sent;
use crate::protocol::vote::Rank;
use crate::race::attempted::{Attempted, Blame, attempted};
use crate::race::floors;
use crate::race::gather::InBatch;
use crate::race::question::{Question, Sending, Terms};
use crate::race::region::Attempt;
use crate::race::upstream::Upstream;
use crate::race::verdict::{Known, Verdict, Winner};
use crate::race::{First, Race, Tally};
use crate::shape::form::form_of;
use crate::switch::{Rule, is_on};

mod contradiction;
pub(super) mod keep;
mod observations;
mod permission;
mod reach;

/// The readers get the result as soon as there is one; the rest of the race is dealt with after
/// that. Returns the race, if there was one.
pub(crate) async fn run(leader: &mut Leader, ask: &Ask, routing: &Routing) -> Option<Tally> {
    let settings = leader.settings.clone();
    let sent = fence(&settings, routing);
    let Some((route, upstream)) = settings.router.route(routing.route).zip(settings.upstream(routing.route)) else {
        let asked = vec![Attempted { region: "all".into(), outcome: "no-route".into(), blame: Blame::Unusable }];
        leader.fail(Failed { best_error: None, asked, lack: Lack::Answers });
        return None;
    };
    let known = known(upstream, ask, routing, &sent);
    // A reader who insists gets nothing out of a region's own store, however new.
    let floor = floors::stated(&sent.fence, sent.at).filter(|_| !ask.insists() && upstream.states_versions);
    let request = fill_request(upstream, ask, &sent, known.is_some(), floor);
    let records = routing.records().iter().map(|(_, record)| record.clone()).collect();
    let terms = Terms::Routed {
        records,
        known,
        worst_lag: settings.config.freshness.worst_lag,
        grants: settings.shared.freshness.grants().clone(),
    };
    let (through, form) = (through(&settings, ask, routing), upstream.common_form.clone());
    let sending = Sending { request, purpose: ask.purpose, through, form };
    let mut race = Race::start(&upstream.regions, Question { sending, terms });
    let first = loop {
        tokio::select! {
            biased;
            first = race.first() => break first,
            () = leader.wanted() => race.escalate(),
        }
    };
    let fill = RoutedFill { settings: &settings, ask, routing, sent: &sent, route };
    if let First::Good(winner) = &first {
        fill.overrule(winner);
        fill.note_permission(&winner.reply);
    }
    let first = match first {
        First::Good(winner) if is_lesser(&winner) && any_unheld(race.ended()) => None,
        First::Good(winner) if fill.lacks(&winner).is_some() => {
            let asked = attempted(&settings.shared.names, race.ended());
            leader.fail(Failed { best_error: None, asked, lack: fill.lacks(&winner).unwrap_or_default() });
            Some((winner, false))
        }
        First::Good(winner) if winner.rank < Rank::Now && leader.is_background() && fill.still_serves() => None,
        First::Good(winner) => {
            let got = fill.keep(&winner, None);
            let stored = got.stored;
            leader.finish(Filled::Got(got));
            Some((winner, stored))
        }
        First::Nothing => None,
    };
    let tally = race.finish().await;
    fill.note_reach(&tally);
    fill.note_permissions(&tally);
    fill.notice(&tally);
    match first {
        Some((winner, stored)) => fill.settle(&winner, stored, &tally),
        None => fill.fall_back(leader, &tally),
    }
    leader.clear();
    compare::begin(&settings, ask, routing, &sent);
    (settings.follow_up)(&settings, Later::Recheck(ask));
    Some(tally)
}

/// Snapshots of the records before anything is sent (R3).
pub(crate) fn fence(settings: &Settings, routing: &Routing) -> Sent {
    let shared = &settings.shared;
    Sent {
        at: shared.clock.now(),
        region_views: shared.freshness.region_views().clone(),
        fence: routing.snapshots(),
        grants: shared.freshness.grants().floor(),
    }
}

/// Only the current upstream takes batches.
fn through(settings: &Settings, ask: &Ask, routing: &Routing) -> Option<Arc<InBatch>> {
    if !settings.is_candidate(routing.route) {
        return ask.through.clone();
    }
    ask.withdraw();
    None
}

/// Replies of all regions for one representation, for the auditor (R17).
pub(crate) struct AllAsked {
    sent: Sent,
    pub(crate) tally: Tally,
}

/// Asks all regions that the background budget admits, end to end, without validators or floors: an
/// audit trusts neither caches nor entity tags. `None` when a reload took the route away.
pub(crate) async fn ask_all(settings: &Arc<Settings>, ask: &Ask, routing: &Routing) -> Option<AllAsked> {
    let sent = fence(settings, routing);
    let upstream = settings.upstream(routing.route)?;
    let request = fill_request(upstream, ask, &sent, false, None);
    let records = routing.records().iter().map(|(_, record)| record.clone()).collect();
    let terms = Terms::Routed {
        records,
        known: None,
        worst_lag: settings.config.freshness.worst_lag,
        grants: settings.shared.freshness.grants().clone(),
    };
    let form = upstream.common_form.clone();
    let sending = Sending { form, ..Sending::alone(request, ask.purpose) };
    let question = Question { sending, terms };
    let mut race = Race::start(&upstream.regions, question);
    Some(AllAsked { sent, tally: race.finish().await })
}

/// Learns from the regions' replies as any fill does: versions raise floors (R1). If an audit saw
/// something `better` than what is stored, the best reply replaces it.
pub(crate) fn learn(settings: &Arc<Settings>, ask: &Ask, routing: &Routing, asked: &AllAsked, better: bool) {
    let Some(route) = settings.router.route(routing.route) else { return };
    let fill = RoutedFill { settings, ask, routing, sent: &asked.sent, route };
    fill.note_reach(&asked.tally);
    fill.note_permissions(&asked.tally);
    fill.notice(&asked.tally);
    if let Some(best) = asked.tally.best.as_ref().filter(|best| better && best.label.is_none()) {
        fill.keep(best, Some(&asked.tally));
    }
}

/// R7: validators are sent only while what they stand for may still be current.
fn known(upstream: &Upstream, ask: &Ask, routing: &Routing, sent: &Sent) -> Option<Known> {
    let previous = ask.previous.as_ref()?;
    if upstream.common_form.as_ref().is_some_and(|common| Some(common.asked(sent.at)) != form_of(&previous.content)) {
        // A 304 for the tag of one form says nothing about the other.
        return None;
    }
    let Validity::Routed(routed) = &previous.validity else { return None };
    if previous.header(&header::ETAG).is_none() || routed.shows.len() != routing.records().len() {
        return None;
    }
    if sent.fence.iter().any(|now| now.escaped) {
        // R15: what is stored may state no version because nobody believed it. A 304 would then say
        // nothing about floors.
        return None;
    }
    if !is_on(Rule::R7) {
        // Without the rule, a 304 counts as the newest known version.
        let floors = sent.fence.iter().map(|now| now.floor).filter(|floor| *floor != Version::NONE);
        return Some(Known { versions: floors.collect(), digest: routed.digest() });
    }
    let usable =
        routed.shows.iter().zip(&sent.fence).all(|(shown, now)| now.matches(shown.version, shown.generation));
    // A record without a version keeps its position among those that have one.
    let versions = routed.shows.iter().map(|shown| shown.version);
    let stated =
        if versions.clone().all(|version| version == Version::NONE) { Vec::new() } else { versions.collect() };
    usable.then_some(Known { versions: stated, digest: routed.digest() })
}

impl RoutedFill<'_> {
    /// The race is over: keeps the best reply, with the standing that all votes earn.
    fn settle(&self, first: &Winner, stored: bool, tally: &Tally) {
        let Some(best) = &tally.best else { return };
        let better = !Arc::ptr_eq(&best.reply, &first.reply);
        // What must not be stored may end what is, once it is known what the others say.
        if stored || better || self.replaces_stored(best) {
            self.keep(best, Some(tally));
        }
        if better {
            tracing::debug!(region = best.reply.region.0, "a slower region had the better reply");
        }
    }

    /// Reason not to give this reply, if there is one: strict mode forbids what is below the floor, and
    /// grants what they no longer allow.
    fn lacks(&self, winner: &Winner) -> Option<Lack> {
        if self.is_withheld(winner) {
            return Some(Lack::Grants);
        }
        let is_below = winner.label == Some(Label::BelowFloor);
        (is_below && self.settings.config.freshness.strict).then_some(Lack::NewerContent)
    }

    /// Nothing could be served at once, so the result is the best reply below the floor, labelled;
    /// or that it is too large to hold; or the best error.
    fn fall_back(&self, leader: &mut Leader, tally: &Tally) {
        if any_unheld(&tally.attempts) && tally.best.as_ref().is_none_or(is_lesser) {
            let is_too_large = tally.attempts.iter().any(Attempt::is_too_large);
            return leader.finish(if is_too_large { Filled::TooLarge } else { Filled::NoRoom });
        }
        if let Some(best) = &tally.best {
            if let Some(lack) = self.lacks(best) {
                let asked = attempted(&self.settings.shared.names, &tally.attempts);
                return leader.fail(Failed { best_error: None, asked, lack });
            }
            return leader.finish(Filled::Got(self.keep(best, Some(tally))));
        }
        let asked = attempted(&self.settings.shared.names, &tally.attempts);
        let best_error = tally
            .best_error
            .as_ref()
            .map(|reply| BestError { entry: self.passing(reply), cookies: cookies_for(reply, self.route) });
        leader.fail(Failed { best_error, asked, lack: Lack::Answers });
    }
}

/// A refusal or a reply that is too old: a good reply that is too large to hold is better.
fn is_lesser(winner: &Winner) -> bool {
    winner.verdict == Verdict::Refused || winner.label.is_some()
}

fn any_unheld(attempts: &[Attempt]) -> bool {
    attempts.iter().any(|attempt| attempt.outcome.as_ref().is_err_and(Failure::is_unheld))
}
