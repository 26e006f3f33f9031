//! One try at one region over a socket: [`HttpOrigin`], the real [`Origin`]. It gives a complete
//! [`Reply`], or the [`Failure`] that says why there is none.
//!
//! The bytes of the target are the caller's, and those of the body the region's, unchanged.
//! Redirects are not followed, proxies not used, codings not decoded. Nothing that is too large,
//! too slow or truncated becomes a `Reply`. A request that a region may have acted on is never sent
//! twice unless it is safe.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::StreamExt;
use http::{HeaderName, HeaderValue, Request, Response, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::connect::{Connector, Negotiated};
use super::incoming;
use super::names::Resolver;
use crate::config::UrlPerRegion;
use crate::http::bodies::ByteBudget;
use crate::http::client::http1_pool::{self, Http1Connection, Http1Pool};
use crate::http::client::http2_pool::{Http2Pool, Http2Stream};
use crate::http::exchange::{Failure, Origin, Outgoing, Reply, Streamed};
use crate::http::fields::{end_to_end, into_end_to_end};
use crate::http::limits::{CONNECTION_AGE, REPLY_BODY_BYTES, STREAM_TRIES, WARM_WAIT};
use crate::model::ids::RegionId;
use crate::model::time::{Clock, Moment, Wall};
use crate::telemetry::rate_limiter::RateLimiter;

pub(crate) struct HttpOrigin {
    pub(crate) sites: Vec<Arc<Site>>,
    /// Services that routes name for their second way.
    pub(crate) others: Vec<(UrlPerRegion, Arc<HttpOrigin>)>,
    pub(crate) version_header: HeaderName,
    pub(crate) resolver: Resolver,
    pub(crate) clock: Clock,
    pub(crate) bodies: Arc<ByteBudget>,
}

/// Why the regions' clients cannot be built. The operator has to fix it; no retry helps.
#[derive(Debug, thiserror::Error)]
pub enum UnusableClient {
    /// A region is reached over TLS and the machine has no usable CA certificates.
    #[error("no usable CA certificates on this machine, and a region's URL is https: {0}")]
    Certificates(rustls::Error),
    /// A file of a region's `tls` cannot be used.
    #[error("region {region:?}: {what}")]
    Tls {
        region: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// A region's URL has a host that no certificate can name.
    #[error("region {region:?}: its host {host:?} cannot be reached over TLS")]
    Host { region: String, host: String },
    /// A region's URL has no scheme and authority to connect to.
    #[error("region {region:?}: its URL names no host")]
    Url { region: String },
}

pub(crate) struct Site {
    pub(crate) region: RegionId,
    pub(crate) name: String,
    /// `http://host:port/prefix` without a trailing slash: the caller's target is appended as it
    /// is.
    pub(crate) base: String,
    pub(crate) version_header: HeaderName,
    pub(crate) clock: Clock,
    pub(crate) connector: Connector,
    pub(crate) bodies: Arc<ByteBudget>,
    /// The `Host` header over HTTP/1.1; `None` when no header can hold it.
    pub(crate) host: Option<HeaderValue>,
    /// The path in `base`, without a trailing slash.
    pub(crate) prefix: String,
    pub(crate) lines: Http1Pool,
    pub(crate) streams: Http2Pool,
    /// Held while the first connection shows which protocol the region speaks, so that a cold burst
    /// opens only one.
    pub(crate) meeting: tokio::sync::Mutex<()>,
    /// Notified when a connection has grown old and a successor should be opened.
    pub(crate) successor: tokio::sync::Notify,
    /// The last attempt to open a connection ahead failed. It is logged once, not with every try.
    pub(crate) unreachable: AtomicBool,
    /// A region that comes and goes is logged a few times.
    pub(crate) reach_lines: [RateLimiter; 2],
    /// Whether its connections are kept warm already.
    pub(crate) is_kept_warm: AtomicBool,
    /// Where and how it is reached: a reload keeps the site while this stays the same.
    pub(crate) reached: Reached,
    /// Another site took its place: requests under way finish over the existing connections, which
    /// are then closed.
    pub(crate) replaced: CancellationToken,
}

/// Where a region is reached, and with which certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) url: Url,
    /// [`crate::config::certificates::Certificates::digest`]
    pub(crate) certificates: [u8; 32],
}

/// A reply whose body has not been read.
struct Opened {
    response: Response<Incoming>,
    /// The connection it comes over; `None` for HTTP/2.
    line: Option<Http1Connection>,
    /// Its part of an HTTP/2 connection; dropped when the body was read.
    stream: Option<Http2Stream>,
    sent: Moment,
    sent_wall: Wall,
}

impl HttpOrigin {
    /// Keeps a connection to every region, so that no caller pays for setting one up: opens one at
    /// the start and whenever there is none, and a successor to one that has grown old. Sends no
    /// request. Returns when a reload has replaced everything that this call began with; `app`
    /// spawns it and drops it when it stops.
    pub(crate) async fn keep_warm(&self) {
        let others = self.others.iter().flat_map(|(_, other)| &other.sites);
        let new = self.sites.iter().chain(others).filter(|site| !site.is_kept_warm.swap(true, Ordering::Relaxed));
        futures_util::future::join_all(new.map(|site| site.keep_warm())).await;
    }

    fn site(&self, region: RegionId) -> Arc<Site> {
        self.sites[region.index()].clone()
    }
}

impl Origin for HttpOrigin {
    fn ask(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Reply, Failure>> {
        let site = self.site(region);
        async move {
            let mut late = pin!(tokio::time::sleep(within));
            let opened = tokio::select! {
                opened = site.open(&request) => opened?,
                () = &mut late => return Err(Failure::Deadline { within, head: false }),
            };
            tokio::select! {
                reply = site.read(opened) => reply,
                () = late => Err(Failure::Deadline { within, head: true }),
            }
        }
        .boxed()
    }

    fn open(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Streamed, Failure>> {
        let site = self.site(region);
        async move {
            let opened = tokio::time::timeout(within, site.open(&request)).await;
            let opened = opened.map_err(|_| Failure::Deadline { within, head: false })??;
            let (head, body) = opened.response.into_parts();
            let headers = end_to_end(&head.headers);
            let versions = incoming::versions(&head.headers, &site.version_header);
            let stream = opened.stream;
            // Held until the body has ended or is dropped.
            let freed = move |line| {
                let _ = &stream;
                site.free(line);
            };
            let body = incoming::chunks(body, opened.line, freed).boxed();
            Ok(Streamed { region, status: head.status, headers, versions, body })
        }
        .boxed()
    }

    fn elsewhere(&self, url: &UrlPerRegion) -> Option<Arc<dyn Origin>> {
        let (_, other) = self.others.iter().find(|(known, _)| known == url)?;
        Some(other.clone())
    }
}

impl Site {
    /// Sends the request and waits for the reply's head. A safe one is sent again, once, when a
    /// connection that already carried replies ends before the first byte of this one: its server
    /// closed it as idle.
    async fn open(&self, outgoing: &Outgoing) -> Result<Opened, Failure> {
        if self.connector.protocol() == Negotiated::Unknown {
            // Boxed because it is rare, so that not every leg has to carry and move it.
            self.meet().boxed().await?;
        }
        match self.send(outgoing).await {
            Err((Failure::Truncated, true)) if outgoing.is_safe() => self.send(outgoing).await,
            sent => sent,
        }
        .map_err(|(failure, _)| failure)
        .and_then(|mut opened| {
            // A connection whose head was garbage is dropped with it.
            incoming::read_head(opened.response.status(), opened.response.headers_mut())?;
            Ok(opened)
        })
    }

    /// Opens the first connection to a region whose protocol is unknown, one caller for all.
    async fn meet(&self) -> Result<(), Failure> {
        let _meeting = self.meeting.lock().await;
        if self.connector.protocol() != Negotiated::Unknown {
            return Ok(());
        }
        self.open_ahead().await
    }

    async fn open_ahead(&self) -> Result<(), Failure> {
        let opened = self.connector.make_ready().await;
        let before = self.unreachable.swap(opened.is_err(), Ordering::Relaxed);
        let (now, [gone, back]) = (self.clock.now(), &self.reach_lines);
        match opened {
            Ok(()) if before => {
                if let Some(left_out) = back.take(now) {
                    tracing::info!(region = self.name, left_out, "the region can be reached again");
                }
            }
            Ok(()) => {}
            Err(error) => {
                let error = incoming::chain(&error);
                if before {
                    tracing::debug!(region = self.name, error, "could not connect");
                } else if let Some(left_out) = gone.take(now) {
                    tracing::warn!(
                        region = self.name,
                        error,
                        left_out,
                        "the region cannot be reached: callers get what the others answer, and it is tried again"
                    );
                }
                return Err(Failure::Connect);
            }
        }
        Ok(())
    }

    /// Sends one request over one connection. On failure, says whether the connection had carried
    /// replies before.
    async fn send(&self, outgoing: &Outgoing) -> Result<Opened, (Failure, bool)> {
        let (sent, sent_wall) = (self.clock.now(), self.clock.wall());
        let is_two = self.connector.protocol() == Negotiated::Two;
        if !is_two && let Some((response, line)) = self.send_over_a_line(outgoing).await? {
            return Ok(Opened { response, line: Some(line), stream: None, sent, sent_wall });
        }
        if let Some((response, stream)) = self.send_over_a_stream(outgoing).boxed().await? {
            return Ok(Opened { response, line: None, stream: Some(stream), sent, sent_wall });
        }
        // It spoke HTTP/2 a moment ago. One that changes again at once is not worth a third try.
        match self.send_over_a_line(outgoing).boxed().await? {
            Some((response, line)) => Ok(Opened { response, line: Some(line), stream: None, sent, sent_wall }),
            None => Err((Failure::Connect, false)),
        }
    }

    /// Over HTTP/1.1; `None` when the region turns out to speak HTTP/2 now.
    async fn send_over_a_line(
        &self,
        outgoing: &Outgoing,
    ) -> Result<Option<(Response<Incoming>, Http1Connection)>, (Failure, bool)> {
        let request = self.request(&self.prefix, outgoing, self.host.clone()).ok_or((Failure::Target, false))?;
        let mut line = match self.lines.take_idle() {
            Some(line) => line,
            None => match self.lines.take().boxed().await {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(None),
                Err(error) => {
                    tracing::debug!(region = self.name, error = %incoming::chain(&error), "a try could not connect");
                    return Err((Failure::Connect, false));
                }
            },
        };
        let reply = line.send(request);
        let mut line = Some(line);
        let result = http1_pool::driven(&mut line, reply).await;
        let used = line.as_ref().is_some_and(|line| line.note(result.is_ok()));
        match result {
            Ok(response) => Ok(line.map(|line| (response, line))),
            Err(error) => {
                tracing::debug!(region = self.name, error = %incoming::chain(&error), "a try failed");
                Err((incoming::failure_in(&error), used))
            }
        }
    }

    /// Over HTTP/2; `None` when the region turns out to speak HTTP/1.1 now. A request that the
    /// region says it has not acted on is sent again, whatever its method.
    async fn send_over_a_stream(
        &self,
        outgoing: &Outgoing,
    ) -> Result<Option<(Response<Incoming>, Http2Stream)>, (Failure, bool)> {
        for _ in 0..STREAM_TRIES {
            let request = self.request(&self.base, outgoing, None).ok_or((Failure::Target, false))?;
            let Some(stream) = self.streams.take().await.map_err(|failure| (failure, false))? else {
                return Ok(None);
            };
            let result = stream.send(request).await;
            let used = stream.note(result.is_ok());
            match result {
                Ok(response) => {
                    if self.is_retired(stream.opened()) {
                        stream.retire();
                    }
                    return Ok(Some((response, stream)));
                }
                Err(unanswered) => {
                    let error = incoming::chain(&unanswered.error);
                    tracing::debug!(region = self.name, error, "a try failed");
                    if !unanswered.is_unprocessed {
                        return Err((incoming::failure_in(&unanswered.error), used));
                    }
                }
            }
        }
        Err((Failure::Unprocessed, false))
    }

    /// A reply was read to its end: its connection may carry another, unless it has grown old.
    fn free(&self, line: Http1Connection) {
        if !self.is_retired(line.opened()) && !self.replaced.is_cancelled() {
            self.lines.give_back(line);
        }
    }

    /// Whether a connection should be taken out of use. An old one is, once its successor is ready,
    /// so that the region's name is resolved again now and then and no caller waits for it.
    fn is_retired(&self, opened: Moment) -> bool {
        let age = self.clock.now().since(opened);
        if age < CONNECTION_AGE {
            return false;
        }
        let retired = self.connector.claim_ready() || age >= CONNECTION_AGE * 2;
        if !retired && !self.connector.is_ready() {
            self.successor.notify_one();
        }
        retired
    }

    /// The request as it is sent with `base` in front; `None` when its target is unusable.
    fn request(&self, base: &str, outgoing: &Outgoing, host: Option<HeaderValue>) -> Option<Request<Full<Bytes>>> {
        if !outgoing.path_and_query.starts_with('/') {
            return None;
        }
        let mut target = String::with_capacity(base.len() + outgoing.path_and_query.len());
        target.push_str(base);
        target.push_str(&outgoing.path_and_query);
        let mut request = Request::new(Full::new(outgoing.body.clone()));
        *request.method_mut() = outgoing.method.clone();
        *request.uri_mut() = Uri::from_maybe_shared(Bytes::from(target)).ok()?;
        *request.headers_mut() = outgoing.headers.clone();
        // The region's own authority and the length of what is really sent replace them.
        request.headers_mut().remove(header::HOST);
        request.headers_mut().remove(header::CONTENT_LENGTH);
        request.headers_mut().extend(host.map(|host| (header::HOST, host)));
        Some(request)
    }

    async fn read(&self, mut opened: Opened) -> Result<Reply, Failure> {
        let (head, body) = opened.response.into_parts();
        let body =
            http1_pool::driven(&mut opened.line, incoming::whole(body, REPLY_BODY_BYTES, &self.bodies)).await?;
        opened.line.into_iter().for_each(|line| self.free(line));
        let versions = incoming::versions(&head.headers, &self.version_header);
        Ok(Reply {
            region: self.region,
            status: head.status,
            headers: into_end_to_end(head.headers),
            body,
            versions,
            sent: opened.sent,
            sent_wall: opened.sent_wall,
            received: self.clock.now(),
        })
    }

    async fn keep_warm(&self) {
        let (shortest, longest) = WARM_WAIT;
        let mut wait = shortest;
        let mut wanted = true;
        loop {
            self.lines.sweep();
            self.streams.sweep();
            if (wanted || self.connector.alive() == 0) && !self.connector.is_ready() {
                let opened = match self.connector.protocol() {
                    Negotiated::Unknown => self.meet().await,
                    _ => self.open_ahead().await,
                };
                wait = if opened.is_ok() { shortest } else { (wait * 2).min(longest) };
            } else {
                // This drops a connection that waited too long or was closed.
                self.connector.is_ready();
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => wanted = false,
                () = self.successor.notified() => wanted = true,
                () = self.replaced.cancelled() => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
