//! A read that one region after the other answers, judged by its head against the records' floors.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};

use crate::cache::rfc9111::RequestDirectives;
use crate::fill::ask::Routing;
use crate::fill::effects::apply_actions;
use crate::fill::settings::Settings;
use crate::http::exchange::{Failure, Outgoing, Streamed};
use crate::model::ids::{RecordId, RegionSet, Version};
use crate::model::time::Moment;
use crate::protocol::label::Label;
use crate::protocol::record::{Record, Snapshot};
use crate::protocol::vote::{self, Ballot, Presence, Rank};
use crate::race::floors;
use crate::race::region::Regions;
use crate::race::upstream::Additions;
use crate::race::verdict;
use crate::switch::{Rule, is_on};

/// Floors that a read states beside its caller's fields (R8), and the version of the grants (R22). A
/// reply too large to hold here may lie in the store of a region's node.
pub(super) fn floor_additions(
    settings: &Settings,
    asked: &HeaderMap,
    routing: &Routing,
    started: Moment,
) -> Additions {
    let (asks, fence) = (RequestDirectives::of(asked), routing.snapshots());
    let insists = asks.no_cache || asks.max_age.is_some();
    Additions {
        no_cache: insists || fence.iter().any(|record| record.marker.is_some()),
        floor: floors::stated(&fence, started).filter(|_| !insists),
        grants: settings.shared.freshness.grants().floor(),
        ..Additions::default()
    }
}

/// Subject of a passed read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// The records as entries show them.
    Record,
    /// Perhaps something else at the same path: another tenant's records. Its versions say nothing
    /// about what is stored.
    Other,
}

/// Asks one region after the other, within one race's deadline, until a reply may be served at
/// once; else passes on the best one so far. The label comes with it.
pub(super) async fn first_reply_at_floor(
    settings: &Arc<Settings>,
    regions: &Arc<Regions>,
    request: &Arc<Outgoing>,
    records: &[(RecordId, Arc<Record>)],
    subject: Subject,
    started: Moment,
) -> Result<(Streamed, Option<Label>), Failure> {
    let worst_lag = settings.config.freshness.worst_lag;
    let begun: Vec<Snapshot> =
        records.iter().map(|(_, record)| record.snapshot().as_of(started, worst_lag)).collect();
    let mut waiting: Vec<Received> = Vec::new();
    let mut announcers_first = true;
    // At most one turn per region: a region that fails in its turn gives way to one that replied.
    for _ in 0..settings.shared.names.len() {
        let received: RegionSet = waiting.iter().map(|it| it.head.region).collect();
        let sent = settings.shared.clock.now();
        let avoid =
            if announcers_first { received_or_behind(received, announced_by(records, &begun)) } else { received };
        let head = match regions.pass(Outgoing::clone(request), avoid).await {
            Ok(head) => head,
            Err(failure) if waiting.is_empty() => return Err(failure),
            Err(_) => break,
        };
        // The regions that should come first did not answer.
        announcers_first &= !avoid.contains(head.region);
        let now = settings.shared.clock.now();
        let received =
            Received { sent, generated: verdict::age(&head.headers).map(|age| vote::generated(now, age)), head };
        if subject == Subject::Record {
            note_versions(settings, &received, records, now);
        }
        let now_states: Vec<_> = announced_by(records, &begun).collect();
        if rank(&received, &now_states) == Rank::Now {
            return Ok((received.head, doubt(&now_states)));
        }
        if !waiting.iter().any(|it| it.head.region == received.head.region) {
            waiting.push(received);
        }
        if now.since(started) >= regions.deadline() {
            break;
        }
    }
    let states: Vec<_> = announced_by(records, &begun).collect();
    let ballots: Vec<_> = waiting.iter().filter_map(Received::ballot).collect();
    // Everything in `waiting` cast a ballot, since only a ballot can wait, so the indices agree.
    let best = vote::best(&ballots, &states).unwrap_or_default();
    let below = ballots.get(best).is_some_and(|ballot| vote::rank(ballot, &states) == Rank::Below);
    let label = if below { Some(Label::BelowFloor) } else { doubt(&states) };
    Ok((waiting.swap_remove(best).head, label))
}

/// Floors that had been announced when the reader came. It came before whatever is announced from
/// then on, and is owed no more (R4, R8).
fn announced_by<'a>(
    records: &'a [(RecordId, Arc<Record>)],
    begun: &'a [Snapshot],
) -> impl Iterator<Item = Snapshot> + 'a {
    records.iter().zip(begun).map(|((_, record), begun)| record.snapshot().announced_by(begun))
}

/// R15.
fn doubt(records: &[Snapshot]) -> Option<Label> {
    records.iter().any(|record| record.escaped).then_some(Label::FloorEscaped)
}

/// R1: what is passed on was served. A tombstone's version counts like any other (R6).
fn note_versions(settings: &Arc<Settings>, received: &Received, records: &[(RecordId, Arc<Record>)], now: Moment) {
    let Received { head, sent, generated } = received;
    let says = said(head.status).is_some() && head.versions.len() == records.len();
    let stated = records.iter().zip(&head.versions).filter(|(_, version)| says && **version != Version::NONE);
    let made = generated.map_or(*sent, |generated| generated.min(*sent));
    for ((_, record), version) in stated {
        apply_actions(settings, settings.shared.freshness.served(record, *version, head.region, made, now));
    }
}

/// A streamed reply's head, with when it was asked for and when it was made.
struct Received {
    head: Streamed,
    sent: Moment,
    generated: Option<Moment>,
}

impl Received {
    /// Vote on the records, if any.
    fn ballot(&self) -> Option<Ballot<'_>> {
        let Self { head, sent, generated } = self;
        let said = said(head.status)?;
        Some(Ballot { region: head.region, said, versions: &head.versions, sent: *sent, generated: *generated })
    }
}

/// The regions to ask last: those that already replied, and those that have not announced the
/// newest change (R4).
fn received_or_behind(received: RegionSet, records: impl Iterator<Item = Snapshot>) -> RegionSet {
    let announcers = records
        .filter_map(|record| record.marker)
        .map(|marker| marker.regions)
        .reduce(|one, other| RegionSet(one.0 & other.0));
    match announcers.filter(|announcers| is_on(Rule::R4) && !received.covers(*announcers)) {
        Some(announcers) => RegionSet(received.0 | !announcers.0),
        None => received,
    }
}

/// Presence of the records by a status; `None` if it says nothing.
fn said(status: StatusCode) -> Option<Presence> {
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => Some(Presence::Absent),
        StatusCode::NOT_MODIFIED | StatusCode::PRECONDITION_FAILED | StatusCode::RANGE_NOT_SATISFIABLE => {
            Some(Presence::Present)
        }
        status => status.is_success().then_some(Presence::Present),
    }
}

/// Rank of a streamed reply, judged by its head (R1, R4, R6, R8). One that says nothing about the
/// records is passed on.
fn rank(received: &Received, records: &[Snapshot]) -> Rank {
    let Some(ballot) = received.ballot() else { return Rank::Now };
    let rank = vote::rank(&ballot, records);
    // The reply states no version and nobody has announced the record: asking more regions would
    // tell no more.
    let unannounced = ballot.said == Presence::Present
        && records.iter().all(|record| record.marker.is_none_or(|it| it.is_surpassed()));
    if rank == Rank::Waits && unannounced { Rank::Now } else { rank }
}
