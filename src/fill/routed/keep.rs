//! Entry that a fill of a routed path makes of a race's best reply, stored if its records still
//! admit it, and its way of being served.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};

use crate::cache::content::Content;
use crate::cache::content::request_lines::RequestLines;
use crate::cache::derived::Derived;
use crate::cache::entry::{Entry, Validity};
use crate::cache::rfc9111::directives::ResponseDirectives;
use crate::cache::rfc9111::fields;
use crate::cache::rfc9111::freshness::initial_age;
use crate::cache::store::Put;
use crate::config::Route;
use crate::fill::ask::{Ask, Routing};
use crate::fill::outcome::{Got, cookies_for};
use crate::fill::settings::Settings;
use crate::fill::stored::good_for;
use crate::http::exchange::Reply;
use crate::model::ids::Version;
use crate::model::time::Wall;
use crate::protocol::holding::{Routed, ShownRecord, Standing};
use crate::protocol::label::Label;
use crate::protocol::standing::{self, Classification, ReplyTimes, Sent, Use};
use crate::race::Tally;
use crate::race::verdict::{self, Verdict, Winner};
use crate::routing::headers::{is_for_all, kept};
use crate::shape::derive::moved_on;
use crate::shape::shapes::varied;
use crate::switch::{Rule, is_on};

pub(super) struct RoutedFill<'a> {
    pub(super) settings: &'a Arc<Settings>,
    pub(super) ask: &'a Ask,
    pub(super) routing: &'a Routing,
    pub(super) sent: &'a Sent,
    pub(super) route: &'a Route,
}

impl RoutedFill<'_> {
    /// True if the stored entry may be served until the race is over. Nobody waits for this fill's
    /// first reply, and where another may outrank it, that reply may be older than the stored entry
    /// (R4).
    pub(super) fn still_serves(&self) -> bool {
        let good_for = self.ask.previous.as_ref().and_then(|previous| good_for(self.settings, previous));
        matches!(good_for, Some(Use::Fresh | Use::Unwired | Use::Provisional | Use::Doubted))
    }

    /// Makes the winner an entry, stores it if allowed, and says how to serve it. `tally` is given
    /// when the race is over.
    pub(super) fn keep(&self, winner: &Winner, tally: Option<&Tally>) -> Got {
        let reply = &winner.reply;
        if winner.verdict == Verdict::Refused {
            let entry = self.passing(reply);
            self.note_refusal(winner, &entry);
            return self.got(entry, winner, false);
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
        let classification =
            self.classification(winner, made, &versions, tally.is_some_and(|tally| tally.votes.unanimous));
        let mut entry = match (&self.ask.previous, confirmed) {
            (Some(previous), true) => self.refreshed(previous, reply, &versions, classification, made),
            _ => self.entry(reply, &versions, classification, made, tally),
        };
        if self.route.payload.is_declared()
            && let Some(stored) = self.settings.shared.store.get(self.ask.key.as_ref())
        {
            entry.derived = moved_on(&stored, &entry.content);
        }
        let entry = Arc::new(entry);
        let Validity::Routed(routed) = &entry.validity else { return self.got(entry, winner, false) };
        let shows: Vec<_> = routed.shows.iter().map(|shown| (&*shown.record, shown.version)).collect();
        let (store, key) = (&self.settings.shared.store, self.ask.key.as_ref());
        let replaces = self.replaces_stored(winner) && standing::admits(self.sent, &shows);
        let is_storable = self.is_storable(reply, &entry);
        if replaces && !is_storable && tally.is_some_and(|tally| !self.is_storable_elsewhere(winner, &entry, tally)) {
            store.supersede(key, &entry);
        }
        let stored = replaces && is_storable && matches!(store.put(key, &entry), Put::Stored);
        self.got(entry, winner, stored)
    }

    /// R5: when the reply, and the oldest one so far, were made. By their `Age` that may be
    /// long before they were asked for.
    fn made(&self, reply: &Reply, tally: Option<&Tally>) -> ReplyTimes {
        let voters = tally.into_iter().flat_map(|tally| {
            tally.attempts.iter().filter(|attempt| matches!(attempt.verdict, Some(Verdict::Good | Verdict::Absent)))
        });
        let oldest =
            voters.filter_map(|attempt| attempt.outcome.as_ref().ok()).map(|reply| verdict::made(reply)).min();
        let reply = verdict::made(reply).min(self.sent.at);
        ReplyTimes { reply, oldest: oldest.map_or(reply, |oldest| oldest.min(reply)) }
    }

    /// R5, as far as the race is known now.
    fn classification(
        &self,
        winner: &Winner,
        made: ReplyTimes,
        versions: &[Version],
        all_agree: bool,
    ) -> Classification {
        if winner.label.is_some() {
            return Classification { standing: Standing::Provisional, witnesses: self.sent.live() };
        }
        let freshness = &self.settings.shared.freshness;
        let mut records = self.routing.records().iter().zip(versions);
        let worst_lag = self.settings.config.freshness.worst_lag;
        let keyed_hashes = &self.settings.shared.keyed_hashes;
        let missed = records.clone().any(|((id, _), _)| {
            freshness.slot_lost_since(*id, made.reply)
                || !keyed_hashes.heeded(id.record_type, made.reply.before(worst_lag))
        });
        let votes = standing::RaceVotes {
            all_agree,
            versions_at_floor: records.all(|((_, record), version)| {
                let state = record.snapshot();
                let at_floor = *version >= state.floor || !is_on(Rule::R1);
                version.is_credible() && at_floor && state.floor_speaks(made.reply, worst_lag)
            }),
        };
        standing::earn(self.sent, made, &freshness.region_views(), &votes, missed || self.is_doubted(), worst_lag)
    }

    /// R15: a version jumped or a floor was dropped, and answers say so.
    pub(super) fn is_doubted(&self) -> bool {
        self.routing.records().iter().any(|(_, record)| record.snapshot().escaped)
    }

    fn got(&self, entry: Arc<Entry>, winner: &Winner, stored: bool) -> Got {
        let private = !self.route.store_no_store && directives(&winner.reply, &entry).no_store;
        let label = winner.label.or_else(|| self.is_doubted().then_some(Label::FloorEscaped));
        let is_known = self.is_of_the_view(&winner.reply) && self.is_for_others(winner);
        let shareable = !private && is_known && is_for_all(&winner.reply, &entry, self.route);
        let (fwd_status, cookies) = (winner.reply.status.as_u16(), cookies_for(&winner.reply, self.route));
        Got { entry, fwd_status, stored, shareable, label, cookies }
    }

    /// True if what is stored is over with this reply, whether it takes its place or not. Refusals,
    /// labelled replies, and those of which nobody knows who may have them, say nothing of it.
    pub(super) fn replaces_stored(&self, winner: &Winner) -> bool {
        matches!(winner.verdict, Verdict::Good | Verdict::Absent)
            && winner.label.is_none()
            && self.is_of_the_view(&winner.reply)
            && self.is_for_others(winner)
            && !self.ask.alone
    }

    /// True if everybody with the key may have the reply; `entry` has the headers of a 304. `no-store` is
    /// obeyed unless the route says otherwise.
    fn is_storable(&self, reply: &Reply, entry: &Entry) -> bool {
        is_for_all(reply, entry, self.route)
            && (self.route.store_no_store || !ResponseDirectives::of(&reply.headers).no_store)
    }

    /// True if a region showed the same versions in a reply that may be stored: then it is not the service's
    /// word that this one may not.
    fn is_storable_elsewhere(&self, winner: &Winner, entry: &Entry, tally: &Tally) -> bool {
        let shown = tally.attempts.iter().filter(|it| matches!(it.verdict, Some(Verdict::Good | Verdict::Absent)));
        let mut replies = shown.filter_map(|attempt| attempt.outcome.as_ref().ok());
        replies.any(|reply| reply.versions == winner.reply.versions && self.is_storable(reply, entry))
    }

    /// The version of each record as the winner shows it.
    pub(super) fn versions(&self, winner: &Winner) -> Vec<Version> {
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

    fn entry(
        &self,
        reply: &Reply,
        versions: &[Version],
        classification: Classification,
        made: ReplyTimes,
        tally: Option<&Tally>,
    ) -> Entry {
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
            validity: Validity::Routed(self.routed(versions, classification, made, absent, digest)),
            derived: Derived::NONE,
        }
    }

    /// Entry of a reply that says nothing about the records.
    pub(super) fn passing(&self, reply: &Reply) -> Arc<Entry> {
        let content = Content::new(&self.vary(reply.headers.clone()), &reply.body);
        Arc::new(Entry::of(reply, content, Validity::Uncacheable))
    }

    /// R7: the stored body with the 304's headers (RFC 9111, 3.2), dated from this request.
    fn refreshed(
        &self,
        previous: &Entry,
        reply: &Reply,
        versions: &[Version],
        classification: Classification,
        made: ReplyTimes,
    ) -> Entry {
        let absent = is_absent(previous.status);
        let digest = previous.validity.routed().and_then(Routed::digest);
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
            validity: Validity::Routed(self.routed(versions, classification, made, absent, digest)),
            derived: Derived::NONE,
        }
    }

    fn vary(&self, headers: HeaderMap) -> HeaderMap {
        varied(headers, &self.route.payload)
    }

    /// The request headers to ask with again.
    fn request_lines(&self) -> RequestLines {
        self.settings.shared.store.request_lines(&kept(&self.ask.request, self.route))
    }

    /// All replies of a fill count from the capture of its fence, just before its first attempt was
    /// sent (R3, R16), so it makes no difference to the TTL which of them is kept.
    ///
    /// The time that an intermediary's cache kept a reply is subtracted from its TTL.
    fn routed(
        &self,
        versions: &[Version],
        classification: Classification,
        made: ReplyTimes,
        absent: bool,
        digest: Option<u128>,
    ) -> Routed {
        Routed {
            route: self.routing.route,
            shows: self
                .routing
                .records()
                .iter()
                .enumerate()
                .zip(versions)
                .map(|((place, (_, record)), version)| ShownRecord {
                    record: record.clone(),
                    version: *version,
                    generation: if is_on(Rule::R3) { self.sent.fence[place] } else { record.snapshot() }.generation,
                })
                .collect(),
            digest: digest.map(Box::new),
            standing: classification.standing,
            epochs: self.sent.epochs(),
            live: classification.witnesses,
            confirmed: self.sent.at,
            ttl: self.ttl(absent, classification.standing).saturating_sub(self.sent.at.since(made.reply)).into(),
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
        let ttl = if absent && !settled && is_on(Rule::R6) {
            full.min(self.settings.config.cache.negative_ttl)
        } else {
            full
        };
        ttl.mul_f64(1.0 - fastrand::f64() * 0.05)
    }
}

/// Directives of the refreshed entry after a 304, which combine what was stored with what the 304
/// says; otherwise those of the reply.
fn directives(reply: &Reply, entry: &Entry) -> ResponseDirectives {
    match reply.status {
        StatusCode::NOT_MODIFIED => ResponseDirectives::of(&entry.headers()),
        _ => ResponseDirectives::of(&reply.headers),
    }
}

pub(crate) fn is_absent(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE)
}

/// Arrival of a reply, on the wall clock.
fn received(reply: &Reply) -> Wall {
    reply.sent_wall + reply.received.since(reply.sent)
}
