//! Request to a region and its result: [`Outgoing`] and [`Reply`] or [`Failure`]. A `Reply` exists
//! only when it is complete: status, headers and the whole body, within limits and of the announced
//! length. [`Origin`] is the seam where a simulation answers instead of a socket.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, BoxStream, StreamExt};
use http::{HeaderMap, Method, StatusCode};

use crate::config::{UrlPerRegion, overrides};
use crate::model::ids::{RegionId, Version};
use crate::model::stated_grants::StatedGrants;
use crate::model::time::{Moment, Wall};
use crate::telemetry::metrics::races::AttemptOutcome;

/// A request as every region gets it; each puts its own base URL in front.
#[derive(Clone, Default)]
pub struct Outgoing {
    /// GET or HEAD in a race; any method to one region.
    pub method: Method,
    /// Path and query as the caller wrote them, until an upstream rewrites them.
    pub path_and_query: String,
    /// End-to-end headers only. `Host` is set from the region's URL.
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Outgoing {
    /// Returns whether it may be sent again, or to several regions: neither its method nor a header
    /// makes a write of it.
    pub fn is_safe(&self) -> bool {
        overrides::taken_as(&self.method, &self.headers, |_| true).is_safe()
    }
}

#[derive(Clone)]
pub struct Reply {
    pub region: RegionId,
    pub status: StatusCode,
    /// As sent, without hop-by-hop headers and those that `Connection` names.
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The version of each of the route's records, in the route's order; empty when the reply
    /// states none.
    pub versions: Vec<Version>,
    /// Time at which the request was sent: an entry's age and TTL count from here (R16).
    pub sent: Moment,
    /// Time of sending on the wall clock, for HTTP dates.
    pub sent_wall: Wall,
    /// Arrival of the last byte.
    pub received: Moment,
    /// The grants by which the region decided, if it says so (R22).
    pub grants: Option<StatedGrants>,
}

/// A request contains credentials, record keys and a body, so only the size of each is printed.
impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, path_and_query, headers, body } = self;
        let (target, headers, body) = (path_and_query.len(), headers.len(), body.len());
        write!(f, "Outgoing({method}, target {target} bytes, {headers} headers, body {body} bytes)")
    }
}

/// As for [`Outgoing`]: no header's value and nothing of the body.
impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("region", &self.region)
            .field("status", &self.status)
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .field("versions", &self.versions)
            .field("sent", &self.sent)
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}

/// A reply whose body is still arriving. It is passed on as it comes and never stored.
pub struct Streamed {
    pub region: RegionId,
    pub status: StatusCode,
    /// As sent, without hop-by-hop headers and those that `Connection` names.
    pub headers: HeaderMap,
    pub versions: Vec<Version>,
    /// The body's chunks. An error ends it, and code that passes it on must end its own reply as
    /// incomplete.
    pub body: BoxStream<'static, Result<Bytes, Failure>>,
}

impl From<Reply> for Streamed {
    fn from(reply: Reply) -> Self {
        let body = stream::iter([Ok(reply.body)]).boxed();
        Self { region: reply.region, status: reply.status, headers: reply.headers, versions: reply.versions, body }
    }
}

/// Why a region gave no complete reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Refused, unreachable, DNS or TLS.
    #[error("could not connect")]
    Connect,
    /// The region did not act on the request and never will (RFC 9113, 8.7): it refused the stream,
    /// or said goodbye before it came.
    #[error("the region did not process the request")]
    Unprocessed,
    /// The deadline passed.
    #[error("no complete reply within {within:?}")]
    Deadline {
        within: Duration,
        /// Status and headers had arrived (a dripping body).
        head: bool,
    },
    /// The connection ended before the announced length.
    #[error("the reply ended early")]
    Truncated,
    /// The body is larger than `limits.body`.
    #[error("the body exceeds {limit} bytes")]
    Oversized {
        /// The limit in bytes.
        limit: u64,
        /// Its length already said so: the region is well, and only its reply is too large to hold.
        announced: bool,
    },
    #[error("the reply was not HTTP")]
    Garbage,
    /// The reply was complete, and its content coding cannot be taken off. It says nothing.
    #[error("the reply's content coding was not asked for, or cannot be taken off")]
    Coding {
        /// A stable word for what is wrong with it.
        why: &'static str,
        /// Value of `Content-Encoding`, escaped and cut.
        stated: Box<str>,
    },
    /// The bodies held in memory leave no room for this one.
    #[error("no memory to hold the body")]
    NoRoom,
    /// All of the region's permits are taken.
    #[error("too many requests to this region are under way")]
    Saturated,
    /// An operator took every region out, so nothing was sent.
    #[error("every region is drained")]
    Drained,
    /// There is no credential of the sidecar's own to send, so nothing was sent.
    #[error("the sidecar has no credentials")]
    NoCredential,
    /// The caller's target cannot be appended to the region's URL, so nothing was sent.
    #[error("the target cannot be sent")]
    Target,
}

impl Failure {
    /// The outcome of the attempt, in metrics and problem documents.
    pub const fn outcome(&self) -> AttemptOutcome {
        match self {
            Self::Connect => AttemptOutcome::Connect,
            Self::Unprocessed => AttemptOutcome::Unprocessed,
            Self::Deadline { .. } => AttemptOutcome::Deadline,
            Self::Truncated => AttemptOutcome::Truncated,
            Self::Oversized { .. } => AttemptOutcome::Oversized,
            Self::Garbage => AttemptOutcome::Garbage,
            Self::Coding { .. } => AttemptOutcome::Coding,
            Self::NoRoom => AttemptOutcome::NoRoom,
            Self::Saturated => AttemptOutcome::Saturated,
            Self::Drained => AttemptOutcome::Drained,
            Self::NoCredential => AttemptOutcome::NoCredential,
            Self::Target => AttemptOutcome::Target,
        }
    }

    /// True if it is certain that the region did not act on the request.
    pub const fn is_without_effect(&self) -> bool {
        matches!(
            self,
            Self::Connect | Self::Unprocessed | Self::Saturated | Self::Drained | Self::NoCredential | Self::Target
        )
    }

    /// True if the region may have a good reply that just cannot be held: it can be streamed.
    pub const fn is_unheld(&self) -> bool {
        matches!(self, Self::Oversized { .. } | Self::NoRoom)
    }
}

/// Source of replies: one try at one region, read to the end. Dropping the future abandons the try.
pub trait Origin: Send + Sync + 'static {
    /// Asks `region`; resolves when the reply is complete or has failed, `within` at the latest.
    fn ask(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Reply, Failure>>;

    /// Asks `region` and resolves once status and headers have arrived, `within` at the latest. The
    /// body's size is not bounded, but the pause between its chunks is.
    fn open(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Streamed, Failure>> {
        let reply = self.ask(region, request, within);
        async move { reply.await.map(Streamed::from) }.boxed()
    }

    /// Base URL of `region` without a trailing slash, where it is reached over a socket.
    fn base(&self, _region: RegionId) -> Option<String> {
        None
    }

    /// Origin of another service in the same regions; `None` when nobody has connections to it.
    fn elsewhere(&self, _url: &UrlPerRegion) -> Option<Arc<dyn Origin>> {
        None
    }
}
