//! Turns an HTTP request into an admitted, typed one, or refuses it. hyper has already refused what
//! is not HTTP (400, 414, 431). What is refused here is HTTP, but not for us: a foreign `Host` (DNS
//! rebinding), a missing token, a body that is too large. An [`Admitted`] needs no further check.
//!
//! Path and query are the caller's bytes, with the `/` that an absolute target may leave out. The
//! token never reaches a region.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version, header};
use hyper::body::{Body as _, Incoming};

use crate::config::Listen;
use crate::http::bodies::{self, ByteBudget, NotRead, Reserved};
use crate::http::connection::Via;
use crate::http::fields::drop_connection;
use crate::http::host;
pub use crate::http::host::BadHost;
use crate::http::limits;
use crate::http::peers::Peers;
use crate::http::pulse::ArrivingBody;
use crate::tasks::Tasks;
use crate::telemetry::metrics::requests::RefusalReason;

/// The header that carries the port's token (`listen.token_file`).
pub const TOKEN: HeaderName = HeaderName::from_static("x-nearside-token");

pub struct Admitted {
    /// Any method but CONNECT.
    pub method: Method,
    /// Path and query exactly as the caller wrote them; begins with `/`.
    pub path_and_query: String,
    /// End of the path in `path_and_query`.
    pub path_len: usize,
    pub headers: HeaderMap,
    /// The whole body, at most `REQUEST_BODY_BYTES`.
    pub body: Bytes,
}

/// A request contains credentials, record keys and a body, so only the size of each is printed.
impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, path_and_query, headers, body, .. } = self;
        let (target, headers, body) = (path_and_query.len(), headers.len(), body.len());
        write!(f, "Admitted({method}, target {target} bytes, {headers} headers, body {body} bytes)")
    }
}

impl Admitted {
    pub fn path(&self) -> &str {
        &self.path_and_query[..self.path_len]
    }

    pub fn head(&self) -> Head<'_> {
        let Self { method, path_and_query, path_len, headers, .. } = self;
        Head { method, path_and_query, path_len: *path_len, headers }
    }
}

/// The head of an admitted request, as it is looked up. It is borrowed, so that a hit copies
/// nothing.
#[derive(Clone, Copy)]
pub struct Head<'a> {
    /// Any method but CONNECT.
    pub method: &'a Method,
    pub path_and_query: &'a str,
    /// End of the path in `path_and_query`.
    pub path_len: usize,
    pub headers: &'a HeaderMap,
}

impl<'a> Head<'a> {
    pub fn path(&self) -> &'a str {
        &self.path_and_query[..self.path_len]
    }

    /// The whole request. Only for a head that was admitted and that no body follows.
    pub fn admitted(&self) -> Admitted {
        Admitted {
            method: self.method.clone(),
            path_and_query: self.path_and_query.to_owned(),
            path_len: self.path_len,
            headers: self.headers.clone(),
            body: Bytes::new(),
        }
    }
}

/// A request whose head was admitted and whose body may still be on its way.
pub struct Entered {
    parts: http::request::Parts,
    body: Incoming,
    bodies: Arc<ByteBudget>,
    held: Option<Reserved>,
}

impl Entered {
    /// Its head, unless a body follows or its target must be rewritten; then use
    /// [`Entered::whole`].
    pub fn head(&self) -> Option<Head<'_>> {
        let path_and_query = self.parts.uri.path_and_query()?.as_str();
        let alone = self.body.is_end_stream() && path_and_query.starts_with('/');
        let (path_len, headers) = (self.parts.uri.path().len(), &self.parts.headers);
        alone.then_some(Head { method: &self.parts.method, path_and_query, path_len, headers })
    }

    pub const fn method(&self) -> &Method {
        &self.parts.method
    }

    pub fn path(&self) -> &str {
        self.parts.uri.path()
    }

    pub const fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// Takes out its reservation, to be kept until it was answered.
    pub fn held(&mut self) -> Option<Reserved> {
        self.held.take()
    }

    /// Its headers, so that an answer's can reuse their memory.
    pub fn into_headers(self) -> HeaderMap {
        self.parts.headers
    }

    /// The whole request, once its body has arrived. When `tasks` begin to stop, that may not take long.
    pub async fn whole(self, tasks: &Tasks) -> Result<Admitted, Refusal> {
        let Self { mut parts, body, bodies, .. } = self;
        let arriving = parts.extensions.remove::<ArrivingBody>();
        let path_and_query = target_of(&parts)?.into_owned();
        let path_len = parts.uri.path().len();
        let body = if body.is_end_stream() { Bytes::new() } else { collect(body, &bodies, tasks).await? };
        drop(arriving);
        Ok(Admitted { method: parts.method, path_and_query, path_len, headers: parts.headers, body })
    }
}

/// Why a request is not served. The caller has to fix it, unless said otherwise.
/// [`crate::request::answer`] chooses the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// CONNECT, or `Upgrade` to anything but h2c.
    #[error("neither CONNECT nor Upgrade is supported here; send plain requests")]
    Tunnel,
    /// A transfer coding besides `chunked` (RFC 9112, 6.1): its content would reach a region
    /// unmarked.
    #[error("no transfer coding but chunked is supported here")]
    Coding,
    #[error(transparent)]
    BadHost(BadHost),
    #[error("this host is not served here; call 127.0.0.1 or localhost, or add the name to listen.allowed_hosts")]
    ForeignHost,
    /// A browser asks for a page of another site.
    #[error(
        "a browser made this request for a page of another site (Sec-Fetch-Site); a sidecar serves it with listen.allow_cross_site"
    )]
    CrossSite,
    #[error("the header x-nearside-token is missing or wrong; send the content of listen.token_file")]
    Token,
    #[error("the request target must be a path")]
    BadTarget,
    #[error("the request target exceeds {} bytes", limits::REQUEST_TARGET_BYTES)]
    LongTarget,
    #[error("the request headers exceed {} bytes", limits::REQUEST_HEAD_BYTES)]
    LargeHead,
    #[error("the request body exceeds {} bytes", limits::REQUEST_BODY_BYTES)]
    LargeBody,
    /// The body did not arrive in time; a retry may help.
    #[error("the request body did not arrive within {} s", limits::REQUEST_BODY_WAIT.as_secs())]
    SlowBody,
    #[error("the request body ended early or is malformed")]
    BadBody,
    /// No room beside the requests that others have half sent or under way; a retry may find some.
    #[error("the sidecar holds too many requests that are half sent or under way; retry shortly")]
    Crowded,
    /// The bodies held in memory leave no room for this one; a retry may find some.
    #[error("the sidecar holds too many bytes of request bodies; retry shortly")]
    NoRoom,
}

impl Refusal {
    /// The reason, in metrics and problem types.
    pub const fn reason(self) -> RefusalReason {
        match self {
            Self::Tunnel => RefusalReason::Tunnel,
            Self::Coding => RefusalReason::Coding,
            Self::BadHost(_) => RefusalReason::BadHost,
            Self::ForeignHost => RefusalReason::ForeignHost,
            Self::CrossSite => RefusalReason::CrossSite,
            Self::Token => RefusalReason::Token,
            Self::BadTarget => RefusalReason::BadTarget,
            Self::LongTarget => RefusalReason::LongTarget,
            Self::LargeHead => RefusalReason::LargeHead,
            Self::LargeBody => RefusalReason::LargeBody,
            Self::SlowBody => RefusalReason::SlowBody,
            Self::BadBody => RefusalReason::BadBody,
            Self::Crowded => RefusalReason::Crowded,
            Self::NoRoom => RefusalReason::NoRoom,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Admission {
    allowed_hosts: Vec<String>,
    allow_cross_site: bool,
    token: Option<Vec<u8>>,
    bodies: Arc<ByteBudget>,
    peers: Arc<Peers>,
}

impl Admission {
    /// The checks that `listen` asks for; `token` is the token file's trimmed content.
    pub fn new(listen: &Listen, token: Option<Vec<u8>>) -> Self {
        let allowed_hosts = listen.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        let bodies = ByteBudget::new(limits::BODIES_BYTES);
        let peers = Peers::new(limits::PEERS_BYTES, |_| {});
        Self { allowed_hosts, allow_cross_site: listen.allow_cross_site, token, bodies, peers }
    }

    /// Holds request bodies under `bodies`, and everything else of requests under `peers`.
    #[must_use]
    pub fn holding(self, bodies: Arc<ByteBudget>, peers: Arc<Peers>) -> Self {
        Self { bodies, peers, ..self }
    }

    /// Reserves what a complete request takes while it is under way, besides its head.
    pub fn hold(&self) -> Option<Reserved> {
        self.peers.request(0, true)
    }

    /// True if the token that admits a caller here does so at `other` too.
    pub fn asks_for_the_same_token(&self, other: &Self) -> bool {
        self.token == other.token
    }

    /// Admits a request by its head, or says why not.
    pub fn enter(&self, request: Request<Incoming>, via: Via) -> Result<Entered, Refusal> {
        let (mut parts, body) = request.into_parts();
        self.check(&parts, via)?;
        parts.headers.remove(&TOKEN);
        // Else a key could be made of a field that no region gets, and the answer to its absence be
        // stored for those who send it.
        drop_connection(&mut parts.headers);
        join_cookies(&mut parts.headers);
        let held = self.peers.request(size_of(&parts.headers), body.is_end_stream()).ok_or(Refusal::Crowded)?;
        Ok(Entered { parts, body, bodies: self.bodies.clone(), held: Some(held) })
    }

    /// True if a GET or HEAD for a path may come in with these lines, if nothing follows its head.
    pub fn admits(&self, headers: &HeaderMap, via: Via) -> bool {
        self.check_lines(headers, None, Version::HTTP_11, via).is_ok()
    }

    /// All that the head alone decides.
    fn check(&self, parts: &http::request::Parts, via: Via) -> Result<(), Refusal> {
        if parts.method == Method::CONNECT {
            return Err(Refusal::Tunnel);
        }
        if target_of(parts)?.len() > limits::REQUEST_TARGET_BYTES {
            return Err(Refusal::LongTarget);
        }
        self.check_lines(&parts.headers, parts.uri.authority(), parts.version, via)
    }

    /// All that the header lines decide; `authority` is what an absolute target names.
    fn check_lines(
        &self,
        headers: &HeaderMap,
        authority: Option<&Authority>,
        version: Version,
        via: Via,
    ) -> Result<(), Refusal> {
        if headers.get_all(header::UPGRADE).iter().any(|to| !is_h2c(to)) {
            return Err(Refusal::Tunnel);
        }
        let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
        if codings.next().is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
            || codings.next().is_some()
        {
            return Err(Refusal::Coding);
        }
        if size_of(headers) > limits::REQUEST_HEAD_BYTES || headers.len() > limits::REQUEST_HEADERS {
            return Err(Refusal::LargeHead);
        }
        let host = host::named(headers, authority, version).map_err(Refusal::BadHost)?;
        if via == Via::Tcp && !host.is_some_and(|host| host::is_ours(host, None, &self.allowed_hosts)) {
            return Err(Refusal::ForeignHost);
        }
        // No browser connects to a Unix socket.
        if via == Via::Tcp && !self.allow_cross_site && super::site::is_cross_site(headers) {
            return Err(Refusal::CrossSite);
        }
        if let Some(token) = &self.token {
            let sent = headers.get(&TOKEN).map(|value| value.as_bytes());
            let is_ours =
                sent.is_some_and(|sent| aws_lc_rs::constant_time::verify_slices_are_equal(sent, token).is_ok());
            if !is_ours {
                return Err(Refusal::Token);
            }
        }
        Ok(())
    }
}

/// Bytes of these lines on the wire.
fn size_of(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}

/// An offer to continue in HTTP/2 without TLS, which Java's client makes with every first request.
/// A server may ignore it and answer in HTTP/1.1 (RFC 9110, 7.8), and callers with prior knowledge
/// speak h2c from the start.
fn is_h2c(offer: &HeaderValue) -> bool {
    offer.as_bytes().split(|byte| *byte == b',').all(|name| name.trim_ascii().eq_ignore_ascii_case(b"h2c"))
}

/// Path and query. An omitted path is `/`, as in `http://localhost?x` (RFC 9110, 4.2.3); in HTTP/2
/// it must not be omitted (RFC 9113, 8.3.1).
fn target_of(parts: &http::request::Parts) -> Result<Cow<'_, str>, Refusal> {
    let target = parts.uri.path_and_query().ok_or(Refusal::BadTarget)?.as_str();
    let left_out = target.starts_with('?') && parts.uri.scheme().is_some() && parts.version < Version::HTTP_2;
    match target {
        _ if target.starts_with('/') => Ok(Cow::Borrowed(target)),
        _ if left_out => Ok(Cow::Owned(format!("/{target}"))),
        _ => Err(Refusal::BadTarget),
    }
}

/// HTTP/2 may split cookies over lines. For identities and for regions they are one field (RFC
/// 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let mut crumbs = headers.get_all(header::COOKIE).iter();
    if crumbs.next().is_none() || crumbs.next().is_none() {
        return;
    }
    let crumbs: Vec<_> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    // The values between the separators were valid before, so this cannot fail.
    if let Ok(joined) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        headers.insert(header::COOKIE, joined);
    }
}

async fn collect(body: Incoming, bodies: &Arc<ByteBudget>, tasks: &Tasks) -> Result<Bytes, Refusal> {
    let stopped = async {
        let draining = tasks.draining().await;
        tokio::time::sleep_until(draining.arrived_by(limits::LAST_REPLY_WAIT)).await;
    };
    let collected = tokio::select! {
        biased;
        collected = bodies::whole(body, limits::REQUEST_BODY_BYTES, bodies) => collected,
        () = tokio::time::sleep(limits::REQUEST_BODY_WAIT) => return Err(Refusal::SlowBody),
        () = stopped => return Err(Refusal::SlowBody),
    };
    collected.map_err(|why| match why {
        NotRead::TooLarge => Refusal::LargeBody,
        NotRead::NoRoom => Refusal::NoRoom,
        NotRead::Broken => Refusal::BadBody,
    })
}

#[cfg(test)]
pub(crate) mod tests;
