//! Requests that are passed to one region as they are: unsafe methods, ranges, bodies, and replies too large to hold.
//!
//! Before it: [`super`] saw that neither race nor store applies. After it: the reply streams to the caller, and a
//! successful unsafe request invalidates what RFC 9111, 4.4 names. Invariant: an unsafe request is sent at most once.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use super::Sidecar;
use super::write::{self, Write};
use crate::cache::fill::ask;
use crate::cache::key::KeyBuffer;
use crate::cache::policy::{self, Asked, Way};
use crate::clock::Moment;
use crate::config::IdentityMode;
use crate::config::router::Matched;
use crate::freshness::record::{Record, Snapshot};
use crate::freshness::switch::{Rule, is_on};
use crate::freshness::vote::{self, Ballot, Rank, Said};
use crate::freshness::words::{RecordId, RegionId, RegionSet, Version};
use crate::origin::reply::{Failure, Outgoing, Streamed};
use crate::origin::verdict;
use crate::request::Admitted;
use crate::response::{Attempted, Blame, CacheLine, Detail, Fwd, Outcome};

/// Passes a request to one region; `matched` is the route that its path belongs to.
pub(super) async fn pass(sidecar: &Arc<Sidecar>, admitted: &Admitted, matched: Option<&Matched<'_>>) -> Outcome {
    let started = sidecar.clock.now();
    let safe = policy::way(&admitted.method, &admitted.headers) != Way::Unsafe;
    let write = matched.filter(|_| !safe).map(|matched| Write::begin(sidecar, &admitted.method, matched));
    let read = matched.filter(|_| matches!(admitted.method, Method::GET | Method::HEAD));
    let passed = match read {
        Some(matched) => match read_through(sidecar, admitted, matched, started).await {
            Some(passed) => passed,
            None => return no_credentials(),
        },
        None => sidecar.regions.pass(ask::passed_request(admitted), RegionSet::EMPTY).await.map(|head| (head, false)),
    };
    let outcome = match passed {
        Ok((Streamed { region, .. }, true)) if sidecar.config.freshness.strict => {
            let region = sidecar.names[region.index()].clone();
            Outcome::BelowFloor(vec![Attempted { region, outcome: "too-old".into(), blame: Blame::Unusable }])
        }
        Ok((head, below)) => {
            // Before the caller learns of it: what he asks next must not be answered from before.
            if let Some(write) = write {
                write.answered(&head);
            }
            let Streamed { region, status, mut headers, body, .. } = head;
            invalidate(sidecar, admitted, region, Some(status), &headers);
            if below {
                sidecar.metrics.stale("below-floor");
            }
            if matched.is_some_and(|matched| matches!(matched.route.identity, IdentityMode::Sidecar(_))) {
                // It may be the session of the sidecar's own credentials.
                headers.remove(header::SET_COOKIE);
            }
            let line = CacheLine {
                fwd: Some(if safe { Fwd::Bypass } else { Fwd::Method }),
                fwd_status: Some(status.as_u16()),
                detail: Some(if below { Detail::Word("below-floor") } else { Detail::Region(region) }),
                ..CacheLine::default()
            };
            Outcome::Streamed { status, headers, body, line }
        }
        Err(failure) => {
            if let Some(write) = write {
                write.failed(&failure);
            }
            // Nobody knows whether the region did what was asked, unless it never heard of it.
            if !matches!(failure, Failure::Connect | Failure::Saturated | Failure::Drained) {
                invalidate(sidecar, admitted, RegionId(0), None, &HeaderMap::new());
            }
            let (region, outcome) = ("one".to_owned(), failure.word().to_owned());
            Outcome::NoneAnswered(vec![Attempted { region, outcome, blame: Blame::of(&failure) }])
        }
    };
    sidecar.count_miss(&outcome, started);
    outcome
}

/// What a read through a route came to, and whether it is below the floor (R1), because no region has better; `None`
/// when the sidecar's own credentials cannot be read.
///
/// Only reads are made in the sidecar's name: whoever reaches the listener may read, not write.
async fn read_through(
    sidecar: &Arc<Sidecar>,
    admitted: &Admitted,
    matched: &Matched<'_>,
    started: Moment,
) -> Option<Result<(Streamed, bool), Failure>> {
    let routing = sidecar.routing(matched, started);
    let records = routing.records();
    let mut request = ask::passed_read(admitted, matched.route);
    if let Some(held) = &sidecar.credentials[matched.index] {
        request.headers.insert(held.header.clone(), held.value()?);
    }
    if Asked::of(&admitted.headers).no_cache || records.iter().any(|(_, record)| record.snapshot().marker.is_some()) {
        // R8.
        request.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    Some(at_the_floor(sidecar, request, records, started).await)
}

/// Asks one region after the other until one may speak for the records at once, within one race's deadline; else what the
/// last one said, and whether that is below the floor.
async fn at_the_floor(
    sidecar: &Arc<Sidecar>,
    request: Outgoing,
    records: &[(RecordId, Arc<Record>)],
    started: Moment,
) -> Result<(Streamed, bool), Failure> {
    let mut heard = RegionSet::EMPTY;
    loop {
        let sent = sidecar.clock.now();
        let states = || records.iter().map(|(_, record)| record.snapshot());
        let head = sidecar.regions.pass(request.clone(), heard_or_behind(heard, states())).await?;
        let now = sidecar.clock.now();
        let rank = rank(&head, &states().collect::<Vec<_>>(), sent, now);
        if rank == Rank::Now {
            let stated = records.iter().zip(&head.versions).filter(|_| head.versions.len() == records.len());
            let shown = stated.filter(|(_, version)| **version != Version::NONE && head.status.is_success());
            for ((_, record), version) in shown {
                sidecar.carry_out(sidecar.freshness.served(record, *version, head.region, sent, now));
            }
            return Ok((head, false));
        }
        let asked_before = heard.contains(head.region);
        heard = heard.with(head.region);
        if asked_before || heard.len() == sidecar.names.len() || now.since(started) >= sidecar.regions.deadline() {
            return Ok((head, rank == Rank::Below));
        }
    }
}

/// Whom to ask last: who was heard, and who has not announced the newest change (R4).
fn heard_or_behind(heard: RegionSet, records: impl Iterator<Item = Snapshot>) -> RegionSet {
    let announcers = records
        .filter_map(|record| record.marker)
        .map(|marker| marker.regions)
        .reduce(|one, other| RegionSet(one.0 & other.0));
    match announcers.filter(|announcers| is_on(Rule::R4) && !heard.covers(*announcers)) {
        Some(announcers) => RegionSet(heard.0 | !announcers.0),
        None => heard,
    }
}

/// What a streamed reply counts for, by its head (R1, R4, R6, R8). One that says nothing of the records is passed on.
fn rank(head: &Streamed, records: &[Snapshot], sent: Moment, now: Moment) -> Rank {
    let said = match head.status {
        StatusCode::NOT_FOUND | StatusCode::GONE => Said::Absent,
        StatusCode::NOT_MODIFIED | StatusCode::PRECONDITION_FAILED | StatusCode::RANGE_NOT_SATISFIABLE => {
            Said::Present
        }
        status if status.is_success() => Said::Present,
        _ => return Rank::Now,
    };
    let generated = verdict::age(&head.headers).map(|age| vote::generated(now, age));
    let rank = vote::rank(&Ballot { region: head.region, said, versions: &head.versions, sent, generated }, records);
    // A part that states no version, of a record that nobody has announced: asking more regions would tell no more.
    let unannounced = said == Said::Present && records.iter().all(|record| record.marker.is_none());
    if rank == Rank::Waits && unannounced { Rank::Now } else { rank }
}

fn no_credentials() -> Outcome {
    let outcome = "credentials".to_owned();
    Outcome::NoneAnswered(vec![Attempted { region: "all".into(), outcome, blame: Blame::Unusable }])
}

/// RFC 9111, 4.4: the target, and what Location and Content-Location name on the same origin; nothing after a safe
/// request.
fn invalidate(
    sidecar: &Arc<Sidecar>,
    admitted: &Admitted,
    region: RegionId,
    outcome: Option<StatusCode>,
    reply: &HeaderMap,
) {
    let host = admitted.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let base = &sidecar.config.service.regions[region.index()].url;
    let target = &admitted.path_and_query;
    let mut buffer = KeyBuffer::new(sidecar.seed);
    for target in policy::invalidates(&admitted.method, outcome, target, host, base, reply) {
        sidecar.store.invalidate(&mut buffer, &target, sidecar.clock.now());
        if target != admitted.path_and_query {
            write::touched(sidecar, &target, region, outcome);
        }
    }
}
