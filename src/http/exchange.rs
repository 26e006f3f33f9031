//! Owns what goes to a region and what comes back: [`Outgoing`] and [`Reply`] or [`Failure`].
//!
//! Before it: a fill decides what to ask. After it: [`crate::core::race::verdict`] says what the reply is worth. A `Reply`
//! exists only when it is complete: status, headers and the whole body, within limits and of the announced length.
//! [`Origin`] is the seam behind which a simulation answers instead of a socket.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, BoxStream, StreamExt};
use http::{HeaderMap, Method, StatusCode};

use crate::model::ids::{RegionId, Version};
use crate::model::time::{Moment, Wall};

/// A request as every region gets it: the base URL is the region's own.
#[derive(Clone, Default)]
pub struct Outgoing {
    /// GET or HEAD in a race; any method to one region.
    pub method: Method,
    /// Path and query exactly as the caller wrote them.
    pub path_and_query: String,
    /// End-to-end headers only. `Host` is set from the region's URL.
    pub headers: HeaderMap,
    /// Empty for safe requests.
    pub body: Bytes,
}

/// A complete reply of one region.
#[derive(Clone)]
pub struct Reply {
    /// Who answered.
    pub region: RegionId,
    /// As sent.
    pub status: StatusCode,
    /// As sent, less hop-by-hop and `Connection`-named ones.
    pub headers: HeaderMap,
    /// The whole body, byte for byte.
    pub body: Bytes,
    /// The version of each of the route's records, in the route's order; empty when the reply states none.
    pub versions: Vec<Version>,
    /// When the request was sent: from here an entry's age and TTL count (R16).
    pub sent: Moment,
    /// The same on the wall clock, for HTTP dates.
    pub sent_wall: Wall,
    /// When the last byte had arrived.
    pub received: Moment,
}

/// Credentials, record keys and bodies are in here: what is shown is how much of each.
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

/// A reply whose body is still arriving: passed on as it comes, never stored.
pub struct Streamed {
    /// Who answers.
    pub region: RegionId,
    /// As sent.
    pub status: StatusCode,
    /// As sent, less hop-by-hop and `Connection`-named ones.
    pub headers: HeaderMap,
    /// As in a [`Reply`].
    pub versions: Vec<Version>,
    /// The body's chunks. An error ends it, and whoever passes it on must end its own reply as incomplete.
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
    /// No connection: refused, unreachable, DNS or TLS.
    #[error("could not connect")]
    Connect,
    /// The deadline passed; `head` says whether status and headers had arrived (a dripping body).
    #[error("no complete reply within {within:?}")]
    Deadline {
        /// The deadline that passed.
        within: Duration,
        /// Status and headers had arrived.
        head: bool,
    },
    /// The connection ended before the announced length.
    #[error("the reply ended early")]
    Truncated,
    /// The body is larger than `limits.body`.
    #[error("the body exceeds {limit} bytes")]
    Oversized {
        /// The limit it exceeds, bytes.
        limit: u64,
        /// Its length said so at once: the region is well, only its reply is not for holding.
        announced: bool,
    },
    /// What came was not HTTP.
    #[error("the reply was not HTTP")]
    Garbage,
    /// The bodies held in memory leave no room for this one.
    #[error("no memory to hold the body")]
    NoRoom,
    /// All of the region's permits are taken.
    #[error("too many requests to this region are under way")]
    Saturated,
    /// An operator took every region out, so nothing was sent.
    #[error("every region is drained")]
    Drained,
    /// The caller's target cannot be put behind the region's URL, so nothing was sent.
    #[error("the target cannot be sent")]
    Target,
}

impl Failure {
    /// A stable word for metrics and problem documents.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Deadline { .. } => "deadline",
            Self::Truncated => "truncated",
            Self::Oversized { .. } => "oversized",
            Self::Garbage => "garbage",
            Self::NoRoom => "no-room",
            Self::Saturated => "saturated",
            Self::Drained => "drained",
            Self::Target => "target",
        }
    }

    /// Whether the region may have a good reply that is only not to be held: it can be streamed.
    pub const fn is_unheld(&self) -> bool {
        matches!(self, Self::Oversized { .. } | Self::NoRoom)
    }
}

/// Replies in: one try at one region, read to the end. Cancelling the future gives the try up.
pub trait Origin: Send + Sync + 'static {
    /// Asks `region`; resolves when the reply is complete or has failed, `within` at the latest.
    fn ask(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Reply, Failure>>;

    /// Asks `region` and resolves once status and headers have arrived, `within` at the latest; no bound on the body's
    /// size, one on the pause between chunks.
    fn open(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Streamed, Failure>> {
        let reply = self.ask(region, request, within);
        async move { reply.await.map(Streamed::from) }.boxed()
    }
}
