//! Verdict on a reply: good, absent, refused, too old or worthless.
//! [`crate::http::client::attempt`] made sure that it is complete. Pure; the floor is that of the
//! records when they are judged, never that at the race's start.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};

use crate::cache::rfc9111::freshness::stated_age;
use crate::http::exchange::Reply;
use crate::model::ids::Version;
use crate::model::time::Moment;
use crate::protocol::label::Label;
use crate::protocol::record::Snapshot;
use crate::protocol::vote::{self, Ballot, Presence, Rank};
use crate::switch::{Rule, is_on};
use crate::telemetry::metrics::races::AttemptOutcome;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A complete 200-class reply, or a 304 for what we know, at or above the floor.
    Good,
    /// 404 or 410, not below the floor (R6).
    Absent,
    /// 3xx and other 4xx: beats failures, loses to a good reply, is not stored on a route.
    Refused,
    /// Below the floor, or from before the newest announcement.
    TooOld,
    /// 5xx, 429, 421, or what was not asked for (a part, a 304 without validators).
    Worthless,
}

impl From<Verdict> for AttemptOutcome {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Good => Self::Good,
            Verdict::Absent => Self::Absent,
            Verdict::Refused => Self::Refused,
            Verdict::TooOld => Self::TooOld,
            Verdict::Worthless => Self::Worthless,
        }
    }
}

/// Entry behind the validators that a race sends (R7).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// The stored versions, in the order of the route's records; empty when none were stated.
    pub versions: Vec<Version>,
    /// Digest of the stored decoded content.
    pub digest: Option<u128>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Scales<'a> {
    /// A routed path: its records now, and what our validators stand for.
    Routed {
        /// Snapshots in the route's order.
        records: &'a [Snapshot],
        /// `None` when no validators were sent.
        known: Option<&'a Known>,
        /// Version of the grants below which a permission proves nothing (R22); 0 for none.
        grants: u64,
    },
    /// Every status is passed on; only 5xx, 429 and 421 lose to a better one.
    Unrouted,
}

/// A verdict, and whether it may be served at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    pub verdict: Verdict,
    /// Rank of a good, absent or too old reply; `Waits` for a refusal; `Below` for the worthless, and
    /// for what older grants allowed.
    pub rank: Rank,
    /// R22: its region decided by older grants than are known, so others come before it.
    pub is_unproven: bool,
}

/// Reply that may be given to the caller.
#[derive(Clone, Debug)]
pub(crate) struct Winner {
    pub reply: Arc<Reply>,
    /// Never `Worthless`.
    pub verdict: Verdict,
    /// Label that the answer must carry, if any.
    pub label: Option<Label>,
    /// Rank, by which a missing reply may still come before it.
    pub rank: Rank,
    /// The versions it shows: its own, or for a 304 those of what we know; empty when unknown.
    pub versions: Vec<Version>,
}

pub(crate) fn judge(reply: &Reply, scales: Scales<'_>) -> Judged {
    let Scales::Routed { records, known, grants } = scales else {
        return if is_worthless(reply.status) {
            worthless()
        } else {
            Judged { verdict: Verdict::Good, rank: Rank::Now, is_unproven: false }
        };
    };
    if let Some(ballot) = ballot(reply, known) {
        let rank = vote::rank(&ballot, records);
        let verdict = match (rank, ballot.said) {
            (Rank::Below, _) => Verdict::TooOld,
            (_, Presence::Present) => Verdict::Good,
            (_, Presence::Absent) => Verdict::Absent,
        };
        // The content counts all the same: only the permission to show it is in doubt.
        let is_unproven = is_on(Rule::R22) && reply.grants.as_ref().is_some_and(|stated| stated.version < grants);
        return Judged { verdict, rank: if is_unproven { Rank::Below } else { rank }, is_unproven };
    }
    let status = reply.status;
    let refused = (status.is_redirection() || status.is_client_error())
        && status != StatusCode::NOT_MODIFIED
        && !is_worthless(status);
    if refused { Judged { verdict: Verdict::Refused, rank: Rank::Waits, is_unproven: false } } else { worthless() }
}

const fn worthless() -> Judged {
    Judged { verdict: Verdict::Worthless, rank: Rank::Below, is_unproven: false }
}

/// 5xx and 429: the region could not, or would not now. 421: it does not answer for this, so it says
/// nothing of whether it is there. An informational status is no reply at all.
pub(crate) fn is_worthless(status: StatusCode) -> bool {
    let elsewhere = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::MISDIRECTED_REQUEST);
    status.is_server_error() || elsewhere || status.is_informational()
}

/// Vote of a reply on the route's records; `None` when it says nothing about them.
pub(crate) fn ballot<'a>(reply: &'a Reply, known: Option<&'a Known>) -> Option<Ballot<'a>> {
    let (said, versions): (Presence, &[Version]) = match (reply.status, known) {
        // A part was not asked for, and is not the representation.
        (StatusCode::PARTIAL_CONTENT, _) => return None,
        (status, _) if status.is_success() => (Presence::Present, &reply.versions),
        (StatusCode::NOT_FOUND | StatusCode::GONE, _) => (Presence::Absent, &reply.versions),
        (StatusCode::NOT_MODIFIED, Some(known)) => {
            (Presence::Present, vote::r7_stands_for(&reply.versions, &known.versions))
        }
        _ => return None,
    };
    let generated = age(&reply.headers).map(|age| vote::generated(reply.received, age));
    Some(Ballot { region: reply.region, said, versions, sent: reply.sent, generated })
}

/// Time at which a reply was made, by its `Age` (R8); that of its arrival if it states none.
pub(crate) fn made(reply: &Reply) -> Moment {
    age(&reply.headers).map_or(reply.received, |age| vote::generated(reply.received, age))
}

/// R8: whether an intermediary made this reply before the newest announcement of one of its
/// records. Then it does not tell what its region has now.
pub(crate) fn is_from_before(reply: &Reply, records: &[Snapshot]) -> bool {
    let made = made(reply);
    is_on(Rule::R8)
        && records.iter().any(|record| record.marker.is_some_and(|it| it.at <= reply.sent && made < it.at))
}

/// The ballots among replies, and the index of each one's reply.
pub(crate) fn ballots<'a>(
    replies: impl Iterator<Item = &'a Arc<Reply>>,
    known: Option<&'a Known>,
) -> (Vec<usize>, Vec<Ballot<'a>>) {
    let cast = replies.enumerate().filter_map(|(place, reply)| Some((place, ballot(reply, known)?)));
    cast.unzip()
}

/// The stated `Age`; `None` if there is none.
pub(crate) fn age(headers: &HeaderMap) -> Option<Duration> {
    headers.contains_key(header::AGE).then(|| stated_age(headers))
}

/// Best of the worthless replies, to pass on when there is nothing else: one with `Retry-After`,
/// else the first that is an error at all, of a region that answers for this if there is one.
pub(crate) fn best_error<'a>(replies: impl Iterator<Item = &'a Arc<Reply>> + Clone) -> Option<Arc<Reply>> {
    let errors = replies.filter(|reply| is_worthless(reply.status) && !reply.status.is_informational());
    let with_advice = errors.clone().find(|reply| reply.headers.contains_key(header::RETRY_AFTER));
    with_advice
        .or_else(|| errors.clone().find(|reply| reply.status != StatusCode::MISDIRECTED_REQUEST))
        .or_else(|| errors.clone().next())
        .cloned()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderValue;

    use super::*;
    use crate::model::ids::RegionId;
    use crate::model::time::Wall;

    fn reply(status: u16) -> Reply {
        Reply {
            region: RegionId(0),
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            versions: Vec::new(),
            sent: Moment::from_nanos(1),
            sent_wall: Wall::default(),
            received: Moment::from_nanos(2),
            grants: None,
        }
    }

    fn routed(status: u16, known: Option<&Known>) -> Verdict {
        judge(&reply(status), Scales::Routed { records: &[Snapshot::default()], known, grants: 0 }).verdict
    }

    #[test]
    fn each_routed_status_has_its_verdict() {
        use Verdict::{Absent, Good, Refused, Worthless};
        let expected = [
            (200, Good),
            (201, Good),
            (204, Good),
            (206, Worthless),
            (301, Refused),
            (302, Refused),
            (304, Worthless),
            (400, Refused),
            (401, Refused),
            (403, Refused),
            (404, Absent),
            (410, Absent),
            (412, Refused),
            (421, Worthless),
            (429, Worthless),
            (500, Worthless),
            (503, Worthless),
        ];
        for (status, verdict) in expected {
            assert_eq!(routed(status, None), verdict, "{status}");
        }
        assert_eq!(routed(304, Some(&Known::default())), Good);
    }

    #[test]
    fn unrouted_path_ranks_errors_last() {
        for status in [200, 206, 302, 304, 401, 404] {
            let judged = judge(&reply(status), Scales::Unrouted);
            assert_eq!(judged, Judged { verdict: Verdict::Good, rank: Rank::Now, is_unproven: false }, "{status}");
        }
        for status in [429, 500, 504] {
            assert_eq!(judge(&reply(status), Scales::Unrouted).verdict, Verdict::Worthless, "{status}");
        }
    }

    #[test]
    fn below_floor_304_is_too_old() {
        let known = Known { versions: vec![Version(4)], digest: None };
        let records = [Snapshot { floor: Version(5), ..Snapshot::default() }];
        let scales = Scales::Routed { records: &records, known: Some(&known), grants: 0 };
        assert_eq!(judge(&reply(304), scales).verdict, Verdict::TooOld);
    }

    #[test]
    fn best_error_prefers_retry_after() {
        let mut advised = reply(503);
        advised.headers.insert(header::RETRY_AFTER, HeaderValue::from_static("7"));
        let replies = [reply(304), reply(500), advised].map(Arc::new);
        assert_eq!(best_error(replies.iter()).unwrap().status, 503);
        assert_eq!(best_error(replies[..2].iter()).unwrap().status, 500);
        let elsewhere = [reply(421), reply(500)].map(Arc::new);
        assert_eq!(best_error(elsewhere.iter()).unwrap().status, 500);
        assert_eq!(best_error(elsewhere[..1].iter()).unwrap().status, 421);
        assert!(best_error(replies[..1].iter()).is_none());
    }
}
