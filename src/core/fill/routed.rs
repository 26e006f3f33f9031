//! The fill of a routed path: it races, serves the first good reply, and keeps the best one. The
//! entry is stored CONFIRMED or PROVISIONAL; a provisional one is rechecked
//! ([`super::background`]). [`crate::protocol`] says what each rule decides.
//!
//! The fence (generations, floors, epochs) is captured before anything is sent (R3). An entry is
//! stored only if the records still admit it at that moment.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};

use super::ask::{cookies, dressed, is_for_all, kept};
use super::{Ask, BestError, Failed, Filled, Got, Leader, Routing};
use crate::cache::content::Content;
use crate::cache::content::request_lines::RequestLines;
use crate::cache::derived::Derived;
use crate::cache::entry::{Entry, Hold};
use crate::cache::rfc9111::directives::ResponseDirectives;
use crate::cache::rfc9111::fields;
use crate::cache::rfc9111::freshness::initial_age;
use crate::cache::store::Put;
use crate::config::Route;
use crate::core::Core;
use crate::core::answer::{Attempted, Blame};
use crate::core::batch::gather::InBatch;
use crate::core::floors;
use crate::core::race::region::Leg;
use crate::core::race::verdict::{self, Known, Verdict, Winner};
use crate::core::race::{First, Question, Race, Sending, Tally, Terms};
use crate::core::shape::{self, form_of};
use crate::http::exchange::{Failure, Reply};
use crate::model::ids::{RecordId, Version};
use crate::model::time::Wall;
use crate::protocol::holding::{Routed, ShownRecord, Standing};
use crate::protocol::label::Label;
use crate::protocol::record::{Record, Snapshot};
use crate::protocol::standing::{self, Earned, Made, Sent, Use};
use crate::protocol::switch::{Rule, is_on};
use crate::protocol::vote::Rank;

mod noticed;
mod reach;

/// The readers get the result as soon as there is one; the rest of the race is dealt with after
/// that. Returns the race, if there was one.
pub(crate) async fn run(leader: &mut Leader, ask: &Ask, routing: &Routing) -> Option<Tally> {
    let core = leader.core.clone();
    let sent = Sent { at: core.clock.now(), horizon: core.freshness.horizon().clone(), fence: routing.snapshots() };
    let known = known(&core, ask, routing, &sent);
    // A reader who insists gets nothing out of a region's own store, however new.
    let floor = floors::stated(&sent.fence, sent.at).filter(|_| !ask.insists() && states_versions(&core, routing));
    let request = dressed(&core, ask, routing, &sent, known.is_some(), floor);
    let Some((route, request)) = core.router.route(routing.route).zip(request) else {
        let asked = vec![Attempted { region: "all".into(), outcome: "no-route".into(), blame: Blame::Unusable }];
        leader.fail(Failed { best_error: None, asked, below_floor: false });
        return None;
    };
    let records = routing.records().iter().map(|(_, record)| record.clone()).collect();
    let terms = Terms::Routed { records, known, worst_lag: core.config.freshness.worst_lag };
    let regions = core.regions_of(routing.route);
    let (through, form) = (through(&core, ask, routing), core.common_form(routing.route).cloned());
    let sending = Sending { request, purpose: ask.purpose, through, form };
    let mut race = Race::start(regions, Question { sending, terms });
    let first = loop {
        tokio::select! {
            biased;
            first = race.first() => break first,
            () = leader.wanted() => race.escalate(),
        }
    };
    let fill = RoutedFill { core: &core, ask, routing, sent: &sent, route };
    if let First::Good(winner) = &first {
        fill.overrule(winner);
    }
    let first = match first {
        First::Good(winner) if is_lesser(&winner) && any_unheld(race.ended()) => None,
        First::Good(winner) if winner.label.is_some() && core.config.freshness.strict => {
            let asked = core.attempted(race.ended());
            leader.fail(Failed { best_error: None, asked, below_floor: true });
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
    fill.notice(&tally);
    match first {
        Some((winner, stored)) => fill.settle(&winner, stored, &tally),
        None => fill.fall_back(leader, &tally),
    }
    leader.clear();
    super::comparison::begin(&core, ask, routing, &sent);
    super::background::recheck(&core, ask);
    Some(tally)
}

/// Whether the way that is asked understands what announcements state.
fn states_versions(core: &Core, routing: &Routing) -> bool {
    core.second(routing.route).is_none_or(|(_, second, _)| !second.has_own_versions)
}

/// Only the first way takes batches.
fn through(core: &Core, ask: &Ask, routing: &Routing) -> Option<Arc<InBatch>> {
    if core.second(routing.route).is_none() {
        return ask.through.clone();
    }
    ask.withdraw();
    None
}

/// What all regions show of one representation, for the auditor (R17).
pub(crate) struct AllAsked {
    sent: Sent,
    pub(crate) tally: Tally,
}

/// Asks all regions that the background budget admits, end to end, without validators or floors: an
/// audit trusts neither caches nor entity tags. `None` when a reload took the route away.
pub(crate) async fn ask_all(core: &Arc<Core>, ask: &Ask, routing: &Routing) -> Option<AllAsked> {
    let sent = Sent { at: core.clock.now(), horizon: core.freshness.horizon().clone(), fence: routing.snapshots() };
    let request = dressed(core, ask, routing, &sent, false, None)?;
    let records = routing.records().iter().map(|(_, record)| record.clone()).collect();
    let terms = Terms::Routed { records, known: None, worst_lag: core.config.freshness.worst_lag };
    let form = core.common_form(routing.route).cloned();
    let sending = Sending { form, ..Sending::alone(request, ask.purpose) };
    let question = Question { sending, terms };
    let mut race = Race::start(core.regions_of(routing.route), question);
    Some(AllAsked { sent, tally: race.finish().await })
}

/// What regions showed counts as in any fill: versions raise floors (R1). If an audit saw something
/// `better` than what is stored, the best reply replaces it.
pub(crate) fn learn(core: &Arc<Core>, ask: &Ask, routing: &Routing, asked: &AllAsked, better: bool) {
    let Some(route) = core.router.route(routing.route) else { return };
    let fill = RoutedFill { core, ask, routing, sent: &asked.sent, route };
    fill.note_reach(&asked.tally);
    fill.notice(&asked.tally);
    if let Some(best) = asked.tally.best.as_ref().filter(|best| better && best.label.is_none()) {
        fill.keep(best, Some(&asked.tally));
    }
}

/// R7: validators are sent only while what they stand for may still be current.
fn known(core: &Core, ask: &Ask, routing: &Routing, sent: &Sent) -> Option<Known> {
    let previous = ask.previous.as_ref()?;
    if core.common_form(routing.route).is_some_and(|common| Some(common.asked(sent.at)) != form_of(&previous.content))
    {
        // A 304 for the tag of one form says nothing about the other.
        return None;
    }
    let Hold::Routed(routed) = &previous.hold else { return None };
    if previous.header(&header::ETAG).is_none() || routed.shows.len() != routing.records().len() {
        return None;
    }
    if sent.fence.iter().any(|now| now.escaped) {
        // R15: what is stored may state no version because nobody believed it. A 304 would then say
        // nothing about floors.
        return None;
    }
    let current = |(shown, now): (&ShownRecord, &Snapshot)| now.upholds(shown.version, shown.generation);
    if !is_on(Rule::R7) {
        // Without the rule, a 304 counts as the newest version that was heard of.
        let floors = sent.fence.iter().map(|now| now.floor).filter(|floor| *floor != Version::NONE);
        return Some(Known { versions: floors.collect(), digest: routed.digest() });
    }
    let usable = routed.shows.iter().zip(&sent.fence).all(current);
    // A record without a version keeps its position among those that have one.
    let versions = || routed.shows.iter().map(|shown| shown.version);
    let stated = if versions().all(|version| version == Version::NONE) { Vec::new() } else { versions().collect() };
    usable.then_some(Known { versions: stated, digest: routed.digest() })
}

struct RoutedFill<'a> {
    core: &'a Arc<Core>,
    ask: &'a Ask,
    routing: &'a Routing,
    sent: &'a Sent,
    route: &'a Route,
}

impl RoutedFill<'_> {
    /// Whether what is stored may be served until the race is over. Nobody waits for this fill's
    /// first reply, and where another may outrank it, that reply may be older than what is stored
    /// (R4).
    fn still_serves(&self) -> bool {
        let good_for = self.ask.previous.as_ref().and_then(|previous| self.core.good_for(previous));
        matches!(good_for, Some(Use::Fresh | Use::Unwired | Use::Provisional | Use::Doubted))
    }

    /// Makes the winner an entry, stores it if allowed, and says how to serve it. `tally` is given
    /// when the race is over.
    fn keep(&self, winner: &Winner, tally: Option<&Tally>) -> Got {
        let reply = &winner.reply;
        if winner.verdict == Verdict::Refused {
            return self.got(self.passing(reply), winner, false);
        }
        let confirmed = reply.status == StatusCode::NOT_MODIFIED;
        let versions = self.versions(winner);
        if winner.verdict == Verdict::Good {
            self.routing.records().iter().for_each(|(_, record)| record.note_present());
        }
        // R1: what is served raises the floor, labelled or not.
        self.note_versions(reply, &versions);
        let versions = self.believed(versions);
        let made = self.made(reply, tally);
        let earned = self.earned(winner, made, &versions, tally.is_some_and(|tally| tally.votes.unanimous));
        let mut entry = match (&self.ask.previous, confirmed) {
            (Some(previous), true) => self.refreshed(previous, reply, &versions, (earned, made)),
            _ => self.entry(reply, &versions, (earned, made), tally),
        };
        if self.route.payload.is_declared()
            && let Some(stored) = self.core.store.get(self.ask.key.as_ref())
        {
            entry.derived = shape::moved_on(&stored, &entry.content);
        }
        let entry = Arc::new(entry);
        let Hold::Routed(routed) = &entry.hold else { return self.got(entry, winner, false) };
        let shows: Vec<_> = routed.shows.iter().map(|shown| (&*shown.record, shown.version)).collect();
        let stored = self.storable(winner)
            && is_for_all(&winner.reply, &entry, self.route)
            && standing::admits(self.sent, &shows)
            && matches!(self.core.store.put(self.ask.key.as_ref(), &entry), Put::Stored);
        self.got(entry, winner, stored)
    }

    /// R5: when the reply, and the oldest one heard so far, were made. By their `Age` that may be
    /// long before they were asked for.
    fn made(&self, reply: &Reply, tally: Option<&Tally>) -> Made {
        let says = |leg: &&Leg| matches!(leg.verdict, Some(Verdict::Good | Verdict::Absent));
        let voters = tally.into_iter().flat_map(|tally| tally.legs.iter().filter(says));
        let oldest = voters.filter_map(|leg| leg.outcome.as_ref().ok()).map(|reply| verdict::made(reply)).min();
        let reply = verdict::made(reply).min(self.sent.at);
        Made { reply, oldest: oldest.map_or(reply, |oldest| oldest.min(reply)) }
    }

    /// R5, as far as the race is known now.
    fn earned(&self, winner: &Winner, made: Made, versions: &[Version], all_agree: bool) -> Earned {
        if winner.label.is_some() {
            return Earned { standing: Standing::Provisional, witnesses: self.sent.live() };
        }
        let freshness = &self.core.freshness;
        let records = || self.routing.records().iter().zip(versions);
        let worst_lag = self.core.config.freshness.worst_lag;
        let keyring = &self.core.keyring;
        let missed = records().any(|((id, _), _)| {
            let unheeded = || !keyring.heeded(id.record_type, made.reply.before(worst_lag));
            freshness.slot_lost_since(*id, made.reply) || unheeded()
        });
        let stated = |((_, record), version): (&(RecordId, Arc<Record>), &Version)| {
            let state = record.snapshot();
            let at_floor = *version >= state.floor || !is_on(Rule::R1);
            version.is_credible() && at_floor && state.floor_speaks(made.reply, worst_lag)
        };
        let votes = standing::RaceVotes { all_agree, versions_at_floor: records().all(stated) };
        standing::earn(self.sent, made, &freshness.horizon(), &votes, missed || self.is_doubted(), worst_lag)
    }

    /// R15: a version jumped or a floor was dropped, and answers say so.
    fn is_doubted(&self) -> bool {
        self.routing.records().iter().any(|(_, record)| record.snapshot().escaped)
    }

    fn got(&self, entry: Arc<Entry>, winner: &Winner, stored: bool) -> Got {
        // After a 304 the refreshed entry's headers count, which combine what was stored with what
        // the 304 says; otherwise the reply's.
        let says = || match winner.reply.status {
            StatusCode::NOT_MODIFIED => ResponseDirectives::of(&entry.headers()),
            _ => ResponseDirectives::of(&winner.reply.headers),
        };
        let private = !self.route.store_no_store && says().no_store;
        let label = winner.label.or_else(|| self.is_doubted().then_some(Label::FloorEscaped));
        let shareable = !private && is_for_all(&winner.reply, &entry, self.route);
        let (fwd_status, cookies) = (winner.reply.status.as_u16(), cookies(&winner.reply, self.route));
        Got { entry, fwd_status, stored, shareable, label, cookies }
    }

    /// Present and absent replies are stored, refusals and labelled ones are not. `no-store` is
    /// obeyed unless the route says otherwise.
    fn storable(&self, winner: &Winner) -> bool {
        matches!(winner.verdict, Verdict::Good | Verdict::Absent)
            && winner.label.is_none()
            && !self.ask.alone
            && (self.route.store_no_store || !ResponseDirectives::of(&winner.reply.headers).no_store)
    }

    /// The version of each record as the winner shows it.
    fn versions(&self, winner: &Winner) -> Vec<Version> {
        let count = self.routing.records().len();
        if winner.versions.len() == count { winner.versions.clone() } else { vec![Version::NONE; count] }
    }

    /// R15: a version to which not even its own reply raised the floor protects nothing from an
    /// announcement, so an entry does not state it.
    fn believed(&self, mut versions: Vec<Version>) -> Vec<Version> {
        for ((_, record), version) in self.routing.records().iter().zip(&mut versions) {
            let state = record.snapshot();
            if state.escaped && *version > state.floor {
                *version = Version::NONE;
            }
        }
        versions
    }

    fn entry(&self, reply: &Reply, versions: &[Version], counts: (Earned, Made), tally: Option<&Tally>) -> Entry {
        let absent = is_absent(reply.status);
        let digests = tally.map_or(&[][..], |tally| &tally.digests);
        let digest = digests.iter().find(|(region, _)| *region == reply.region).map(|(_, digest)| *digest);
        Entry {
            status: reply.status,
            content: Content::answering(
                &self.vary(fields::whole(&reply.headers, received(reply))),
                &reply.body,
                self.request_lines(),
                self.ask.key.as_ref().bytes(),
            ),
            region: reply.region,
            sent: self.sent.at,
            age_at_receipt: initial_age(&reply.headers, self.sent.at, reply.received, received(reply)).into(),
            json: Default::default(),
            hold: Hold::Routed(self.routed(versions, counts, absent, digest)),
            derived: Derived::NONE,
        }
    }

    /// What says nothing about the records.
    fn passing(&self, reply: &Reply) -> Arc<Entry> {
        let content = Content::new(&self.vary(reply.headers.clone()), &reply.body);
        Arc::new(Entry::of(reply, content, Hold::Uncacheable))
    }

    /// R7: the stored body with the 304's headers (RFC 9111, 3.2), dated from this request.
    fn refreshed(&self, previous: &Entry, reply: &Reply, versions: &[Version], counts: (Earned, Made)) -> Entry {
        let absent = is_absent(previous.status);
        let digest = previous.hold.routed().and_then(Routed::digest);
        Entry {
            status: previous.status,
            content: previous.content.under(
                &self.vary(fields::updated_whole(&previous.headers(), &reply.headers, received(reply))),
                self.request_lines(),
            ),
            region: reply.region,
            sent: self.sent.at,
            age_at_receipt: initial_age(&reply.headers, self.sent.at, reply.received, received(reply)).into(),
            json: Default::default(),
            hold: Hold::Routed(self.routed(versions, counts, absent, digest)),
            derived: Derived::NONE,
        }
    }

    fn vary(&self, headers: HeaderMap) -> HeaderMap {
        shape::varied(headers, &self.route.payload)
    }

    /// The request headers to ask with again.
    fn request_lines(&self) -> RequestLines {
        self.core.store.request_lines(&kept(&self.ask.request, self.route))
    }

    /// All replies of a fill count from the capture of its fence, just before its first leg was
    /// sent (R3, R16), so it makes no difference to the TTL which of them is kept.
    ///
    /// The time that an intermediary's cache kept a reply is subtracted from its TTL.
    fn routed(
        &self,
        versions: &[Version],
        (earned, made): (Earned, Made),
        absent: bool,
        digest: Option<u128>,
    ) -> Routed {
        let shown = |((place, (_, record)), version): ((usize, &(RecordId, Arc<Record>)), &Version)| ShownRecord {
            record: record.clone(),
            version: *version,
            generation: if is_on(Rule::R3) { self.sent.fence[place] } else { record.snapshot() }.generation,
        };
        Routed {
            route: self.routing.route,
            shows: self.routing.records().iter().enumerate().zip(versions).map(shown).collect(),
            digest: digest.map(Box::new),
            standing: earned.standing,
            epochs: self.sent.epochs(),
            live: earned.witnesses,
            confirmed: self.sent.at,
            ttl: self.ttl(absent, earned.standing).saturating_sub(self.sent.at.since(made.reply)).into(),
        }
    }

    /// The route's TTL, shortened by up to 5 % so that what was filled together does not end
    /// together (R16). An absence is kept for a short time only, unless its DELETED is settled
    /// (R6).
    fn ttl(&self, absent: bool, standing: Standing) -> Duration {
        let deleted = self
            .routing
            .records()
            .iter()
            .all(|(_, record)| record.snapshot().marker.is_some_and(|marker| marker.deleted));
        let settled = deleted && standing == Standing::Confirmed;
        let full = self.route.ttl;
        let ttl =
            if absent && !settled && is_on(Rule::R6) { full.min(self.core.config.cache.negative_ttl) } else { full };
        ttl.mul_f64(1.0 - fastrand::f64() * 0.05)
    }

    /// The race is over: keeps the best reply, with the standing that all votes earn.
    fn settle(&self, first: &Winner, stored: bool, tally: &Tally) {
        let Some(best) = &tally.best else { return };
        let better = !Arc::ptr_eq(&best.reply, &first.reply);
        if stored || better {
            self.keep(best, Some(tally));
        }
        if better {
            tracing::debug!(region = best.reply.region.0, "a slower region had the better reply");
        }
    }

    /// Nothing could be served at once, so the result is the best reply below the floor, labelled;
    /// or that it is too large to hold; or the best error.
    fn fall_back(&self, leader: &mut Leader, tally: &Tally) {
        if any_unheld(&tally.legs) && tally.best.as_ref().is_none_or(is_lesser) {
            let is_too_large = tally.legs.iter().any(Leg::is_too_large);
            return leader.finish(if is_too_large { Filled::TooLarge } else { Filled::NoRoom });
        }
        if let Some(best) = &tally.best {
            if self.core.config.freshness.strict && best.label.is_some() {
                let asked = self.core.attempted(&tally.legs);
                return leader.fail(Failed { best_error: None, asked, below_floor: true });
            }
            return leader.finish(Filled::Got(self.keep(best, Some(tally))));
        }
        let asked = self.core.attempted(&tally.legs);
        let passed_on =
            |reply: &Arc<Reply>| BestError { entry: self.passing(reply), cookies: cookies(reply, self.route) };
        let best_error = tally.best_error.as_ref().map(passed_on);
        leader.fail(Failed { best_error, asked, below_floor: false });
    }
}

/// A refusal or a reply that is too old: a good reply that is too large to hold is better.
fn is_lesser(winner: &Winner) -> bool {
    winner.verdict == Verdict::Refused || winner.label.is_some()
}

fn any_unheld(legs: &[Leg]) -> bool {
    legs.iter().any(|leg| leg.outcome.as_ref().is_err_and(Failure::is_unheld))
}

pub(crate) fn is_absent(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE)
}

/// When a reply had arrived, on the wall clock.
fn received(reply: &Reply) -> Wall {
    reply.sent_wall + reply.received.since(reply.sent)
}
