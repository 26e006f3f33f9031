//! Observations of a race on the fit of regions and configuration: one region against the others,
//! replies against announcements, what callers send against what is forwarded
//! ([`crate::telemetry::observed`]).

use http::{StatusCode, header};

use super::keep::{RoutedFill, is_absent};
use crate::cache::rfc9111::directives::ResponseDirectives;
use crate::cache::rfc9111::storing::nominated;
use crate::http::client::incoming::UPSTREAM_NAME;
use crate::http::exchange::{Failure, Reply};
use crate::model::ids::{RecordId, RegionId, RegionSet, Version};
use crate::model::time::Wall;
use crate::protocol::event::SubscriptionState;
use crate::protocol::holding::Standing;
use crate::protocol::limits::GROWTH_WAIT;
use crate::protocol::standing;
use crate::protocol::wiring::Growth;
use crate::race::Tally;
use crate::race::question::Purpose;
use crate::race::region::Attempt;
use crate::race::verdict::{self, is_worthless};
use crate::routing::headers::differs_in_one_key;
use crate::shape::cache_status::CACHE_STATUS;
use crate::telemetry::leads::RecordVersions;
use crate::telemetry::observed::{RouteNotes, Undecoded, count_name, is_refusal};

/// Clock readings of a region that are compared together.
const SKEWS: usize = 8;

impl RoutedFill<'_> {
    pub(crate) fn notice(&self, tally: &Tally) {
        if tally.attempts.is_empty() {
            return;
        }
        let with_it: RegionSet = tally
            .attempts
            .iter()
            .filter(|attempt| attempt.outcome.as_ref().is_ok_and(|reply| shows_something(reply.status)))
            .map(|attempt| attempt.region)
            .collect();
        for attempt in &tally.attempts {
            match &attempt.outcome {
                Ok(reply) => self.notice_reply(reply, with_it),
                Err(failure) => self.notice_failure(attempt, failure),
            }
        }
        self.notice_growth(tally);
        self.notice_leads(tally);
        let (route, back) = (&self.route.path.text, self.back(tally));
        back.iter().for_each(|id| {
            self.settings.shared.freshness.went_back(id.record_type, self.settings.shared.clock.now())
        });
        self.settings
            .shared
            .observed
            .route(route, |notes| self.notice_route(tally, with_it, !back.is_empty(), notes));
    }

    /// R21: what was stored was vouched for until it was asked for again, and a region has
    /// something newer.
    fn notice_growth(&self, tally: &Tally) {
        let Some(held) = self.ask.previous.as_ref().and_then(|previous| previous.validity.routed()) else { return };
        let vouching = standing::vouching(held, &self.sent.region_views);
        if vouching.is_empty()
            || held.standing != Standing::Confirmed
            || held.shows.len() != self.routing.records().len()
        {
            return;
        }
        for (index, (shown, then)) in held.shows.iter().zip(&self.sent.fence).enumerate() {
            let stood = shown.version.is_credible() && then.matches(shown.version, shown.generation) && !then.escaped;
            let more = tally
                .replies()
                .find(|reply| reply.versions.get(index).is_some_and(|it| it.is_credible() && *it > shown.version));
            if let Some(reply) = more.filter(|_| stood) {
                self.settings.shared.freshness.grew(Growth {
                    id: self.routing.records()[index].0,
                    region: reply.region,
                    generation: then.generation,
                    vouched: (vouching, held.epochs.iter().copied().collect()),
                    at: self.settings.shared.clock.now(),
                });
            }
        }
    }

    /// Compares the regions' versions of each record with one another, and with what was announced.
    fn notice_leads(&self, tally: &Tally) {
        if tally.replies().count() < 2 {
            return;
        }
        for (index, ((record, _), then)) in self.routing.records().iter().zip(&self.sent.fence).enumerate() {
            let shown: Vec<_> = tally
                .replies()
                .filter_map(|reply| {
                    let version = reply.versions.get(index).copied().filter(|version| version.is_credible())?;
                    Some((reply.region, version))
                })
                .collect();
            let is_announced = then.at_floor && then.marker.is_some_and(|marker| !marker.is_surpassed());
            let announced = if is_announced { then.floor } else { Version::NONE };
            let (record, at) = (*record, self.settings.shared.clock.now());
            self.settings.shared.observed.compared(&RecordVersions { record, shown: &shown, announced, at });
        }
    }

    /// The records of which every region answers below what is stored: versions began anew, or all
    /// went back.
    fn back(&self, tally: &Tally) -> Vec<RecordId> {
        let Some(held) = self.ask.previous.as_ref().and_then(|previous| previous.validity.routed()) else {
            return Vec::new();
        };
        if tally.attempts.len() != self.sent.region_views.regions.len() {
            return Vec::new();
        }
        let shows = held.shows.iter().enumerate().zip(self.routing.records());
        let back = shows.filter(|((index, shown), _)| {
            // Else a RESET has said so.
            let is_claimed = self.sent.fence.get(*index).is_some_and(|then| then.floor >= shown.version);
            is_claimed && shown.version.is_credible() && all_show_less(tally, *index, shown.version)
        });
        back.map(|(_, (id, _))| *id).collect()
    }

    fn notice_reply(&self, reply: &Reply, with_it: RegionSet) {
        let (region, status) = (reply.region, reply.status);
        let alone = !with_it.without(region).is_empty() && !with_it.contains(region) && !is_worthless(status);
        let aged = verdict::made(reply) < reply.sent;
        let (unshown, unannounced) = (self.unshown(reply), self.unannounced(reply));
        let skew = skew_ms(reply).filter(|_| !aged);
        self.settings.shared.observed.region(region, |notes| {
            if with_it.contains(region) || alone {
                notes.odd.push(alone);
            }
            if alone {
                notes.odd_status = status.as_u16();
            }
            notes.failed.push(is_worthless(status));
            if is_worthless(status) {
                notes.failure = status.as_str().to_owned();
            }
            notes.aged.push(aged && !is_a_nodes(reply));
            if self.route.compression.is_some() {
                notes.undecoded.push(false);
            }
            unshown.into_iter().for_each(|unshown| notes.unshown.push(unshown));
            unannounced.into_iter().for_each(|unannounced| notes.unannounced.push(unannounced));
            if let Some(skew) = skew {
                notes.skews_ms.push(skew);
                let more = notes.skews_ms.len().saturating_sub(SKEWS);
                notes.skews_ms.drain(..more);
            }
        });
    }

    /// Notes only failures of the region, not the sidecar's own.
    fn notice_failure(&self, attempt: &Attempt, failure: &Failure) {
        if let Failure::Coding { why, stated } = failure {
            let whose = if self.settings.is_candidate(self.routing.route) { " (candidate)" } else { "" };
            let (why, stated, route) = (*why, stated.to_string(), format!("{}{whose}", self.route.path.text));
            self.settings.shared.observed.region(attempt.region, |notes| {
                notes.undecoded.push(true);
                notes.undecoded_last = Undecoded { why, stated, route };
            });
        }
        let its_own = matches!(
            failure,
            Failure::Connect
                | Failure::Unprocessed
                | Failure::Deadline { .. }
                | Failure::Truncated
                | Failure::Garbage
        );
        if its_own {
            self.settings.shared.observed.region(attempt.region, |notes| {
                notes.failed.push(true);
                notes.failure = failure.outcome().into_str().to_owned();
            });
        }
    }

    /// True if this region had announced a change of a record before it was asked, but does not
    /// show it; `None` if it announced none, or nothing can be compared.
    fn unshown(&self, reply: &Reply) -> Option<bool> {
        if verdict::made(reply) < reply.sent || !shows_something(reply.status) {
            return None;
        }
        let compared = reply.versions.iter().enumerate().filter_map(|(index, shown)| {
            let announced = self.announced_by(reply.region, index).filter(|_| *shown != Version::NONE)?;
            Some(*shown < announced)
        });
        compared.reduce(|any, one| any || one)
    }

    /// The version of the record at `index` that this region had announced when the race began.
    fn announced_by(&self, region: RegionId, index: usize) -> Option<Version> {
        let then = self.sent.fence.get(index)?;
        let marker = then.marker.filter(|marker| then.at_floor && !marker.is_surpassed())?;
        (marker.regions.contains(region) && !marker.deleted).then_some(then.floor)
    }

    /// True if it shows a change that another region's topic announced a while ago and its own did
    /// not; `None` if there is nothing to compare.
    fn unannounced(&self, reply: &Reply) -> Option<bool> {
        let region_view = self.sent.region_views.regions.get(reply.region.index())?;
        let compared = reply.versions.iter().zip(&self.sent.fence).filter_map(|(shown, then)| {
            let marker = then.marker.filter(|marker| then.at_floor && !marker.is_surpassed())?;
            let received_meanwhile = self.sent.at.since(marker.at) > GROWTH_WAIT && then.written.is_none();
            // A region without a live subscription at the time may have announced it anyway.
            let heard = region_view.state == SubscriptionState::Live && region_view.unbroken_since <= marker.at;
            (heard && received_meanwhile && *shown == then.floor).then(|| !marker.regions.contains(reply.region))
        });
        compared.reduce(|any, one| any || one)
    }

    fn notice_route(&self, tally: &Tally, with_it: RegionSet, is_back: bool, notes: &mut RouteNotes) {
        notes.asked += 1;
        if is_back {
            notes.back = Some(self.settings.shared.clock.now());
        }
        for reply in tally.replies().filter(|reply| reply.status.is_success()) {
            let stated = reply.versions.iter().filter(|version| version.is_credible()).count();
            notes.versioned.push(stated == self.routing.records().len());
            let forbidden = !self.route.store_no_store && ResponseDirectives::of(&reply.headers).no_store;
            notes.no_store.push(forbidden);
            notes.good += u64::from(!forbidden);
            if self.route.identity.is_granted() {
                notes.unstated.push(reply.grants.as_ref().is_none_or(|stated| stated.version == 0));
            }
            // A background fill leaves out nobody's headers.
            if self.ask.purpose == Purpose::Background {
                continue;
            }
            let varies = nominated(&reply.headers);
            let names = varies.as_deref().unwrap_or_default();
            let lost: Vec<_> = names.iter().filter(|name| differs_in_one_key(self.route, name)).collect();
            notes.varied.push(varies.is_none() || !lost.is_empty());
            lost.into_iter().for_each(|name| count_name(&mut notes.vary, name.as_str()));
            if varies.is_none() {
                count_name(&mut notes.vary, "*");
            }
        }
        if !with_it.is_empty() || tally.attempts.iter().any(Attempt::is_too_large) {
            notes.too_large.push(tally.attempts.iter().any(Attempt::is_too_large));
        }
        let refusal = tally.replies().map(|reply| reply.status).find(|status| is_refusal(*status));
        if let Some(status) = refusal.filter(|_| with_it.is_empty()) {
            notes.refused_status = status.as_u16();
            self.ask.dropped.iter().for_each(|name| count_name(&mut notes.dropped, name.as_str()));
        }
        if let Some(all) = tally.replies().map(|reply| is_absent(reply.status)).reduce(|all, one| all && one) {
            notes.absent.push(all);
        }
        notes.refused.push(refusal.is_some() && with_it.is_empty());
    }
}

/// True if the reply is the record itself, or stands for it.
/// True if every region has replied, and showed an older version of the record at `index`.
fn all_show_less(tally: &Tally, index: usize, version: Version) -> bool {
    tally.attempts.iter().all(|attempt| {
        let shown = attempt.outcome.as_ref().ok().and_then(|reply| reply.versions.get(index));
        shown.is_some_and(|shown| shown.is_credible() && *shown < version)
    })
}

fn shows_something(status: StatusCode) -> bool {
    status.is_success() || status == StatusCode::NOT_MODIFIED
}

/// True if a node of Nearside answered, with no cache in between: it states the age of its copy.
fn is_a_nodes(reply: &Reply) -> bool {
    let said = reply.headers.get(CACHE_STATUS).and_then(|said| said.to_str().ok());
    said.is_some_and(|said| {
        let is_by_a_node = said.strip_prefix(UPSTREAM_NAME).is_some_and(|rest| rest.starts_with(';'));
        is_by_a_node && !said.contains(',')
    })
}

/// Lower bound on the lead of the region's clock over this host's: `Date` is in whole seconds and
/// was stamped between sending and receiving.
fn skew_ms(reply: &Reply) -> Option<i64> {
    let date = reply.headers.get(header::DATE)?.to_str().ok()?;
    let date = Wall::from_system_time(httpdate::parse_http_date(date).ok()?).as_millis() as i64;
    let sent = reply.sent_wall.as_millis() as i64;
    let received = (reply.sent_wall + reply.received.since(reply.sent)).as_millis() as i64;
    Some(if date > received { date - received } else { (date + 1_000 - sent).min(0) })
}
