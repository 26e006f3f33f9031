//! A region where it is reached: its connections, and requests over them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::future::FutureExt;
use http::{HeaderName, HeaderValue, Request, Response, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::connect::{Connector, Negotiated};
use super::http1_pool::{self, Http1Connection, Http1Pool};
use super::http2_pool::{Http2Pool, Http2Stream};
use super::incoming;
use crate::config::grants_version::GRANTS_VERSION;
use crate::http::bodies::ByteBudget;
use crate::http::exchange::{Failure, Outgoing, Reply};
use crate::http::fields::into_end_to_end;
use crate::http::limits::{CONNECTION_AGE, REPLY_BODY_BYTES, STREAM_TRIES, WARM_WAIT};
use crate::model::ids::RegionId;
use crate::model::stated_grants::StatedGrants;
use crate::model::time::{Clock, Moment, Wall};
use crate::telemetry::rate_limiter::RateLimiter;

pub(crate) struct Site {
    pub(crate) region: RegionId,
    pub(crate) name: String,
    pub(crate) address: Address,
    pub(crate) version_header: HeaderName,
    pub(crate) clock: Clock,
    pub(crate) connector: Connector,
    pub(crate) bodies: Arc<ByteBudget>,
    pub(crate) lines: Http1Pool,
    pub(crate) streams: Http2Pool,
    /// Held while the first connection shows which protocol the region speaks, so that a cold burst
    /// opens only one.
    pub(crate) meeting: tokio::sync::Mutex<()>,
    /// Notified when a connection has grown old and a successor should be opened.
    pub(crate) successor: tokio::sync::Notify,
    pub(crate) outage: Outage,
    /// True if its connections are kept warm already.
    pub(crate) is_kept_warm: AtomicBool,
    /// Addresses and certificates of the site: a reload keeps the site while this stays the same.
    pub(crate) reached: Reached,
    /// Another site took its place: requests under way finish over the existing connections, which
    /// are then closed.
    pub(crate) replaced: CancellationToken,
}

/// The address of a region, as requests name it.
pub(crate) struct Address {
    /// `http://host:port/prefix` without a trailing slash: the caller's target is appended as it
    /// is.
    pub(crate) base: String,
    /// The path in `base`, without a trailing slash.
    pub(crate) prefix: String,
    /// The `Host` header over HTTP/1.1; `None` when no header can hold it.
    pub(crate) host: Option<HeaderValue>,
}

/// State of a region that cannot be reached, as the log says it.
#[derive(Default)]
pub(crate) struct Outage {
    /// The last attempt to open a connection ahead failed. It is logged once, not with every try.
    unreachable: AtomicBool,
    /// A region that comes and goes is logged a few times.
    lines: [RateLimiter; 2],
}

/// Addresses and certificates of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) url: Url,
    /// [`crate::config::certificates::Certificates::digest`]
    pub(crate) certificates: [u8; 32],
}

/// A reply whose body has not been read.
pub(super) struct Opened {
    pub(super) response: Response<Incoming>,
    /// The connection it comes over; `None` for HTTP/2.
    pub(super) line: Option<Http1Connection>,
    /// Its part of an HTTP/2 connection; dropped when the body was read.
    pub(super) stream: Option<Http2Stream>,
    sent: Moment,
    sent_wall: Wall,
}

impl Site {
    /// Sends the request and waits for the reply's head. A safe one is sent again, once, when a
    /// connection that already carried replies ends before the first byte of this one: its server
    /// closed it as idle.
    pub(super) async fn open(&self, outgoing: &Outgoing) -> Result<Opened, Failure> {
        if self.connector.protocol() == Negotiated::Unknown {
            // Boxed because it is rare, so that not every attempt has to carry and move it.
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
        let before = self.outage.unreachable.swap(opened.is_err(), Ordering::Relaxed);
        let (now, [gone, back]) = (self.clock.now(), &self.outage.lines);
        match opened {
            Ok(()) if before => {
                if let Some(suppressed) = back.admit(now) {
                    tracing::info!(region = self.name, suppressed, "the region can be reached again");
                }
            }
            Ok(()) => {}
            Err(error) => {
                let error = incoming::chain(&error);
                if before {
                    tracing::debug!(region = self.name, error, "could not connect");
                } else if let Some(suppressed) = gone.admit(now) {
                    tracing::warn!(
                        region = self.name,
                        error,
                        suppressed,
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
        let request = self
            .request(&self.address.prefix, outgoing, self.address.host.clone())
            .ok_or((Failure::Target, false))?;
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
            let request = self.request(&self.address.base, outgoing, None).ok_or((Failure::Target, false))?;
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
    pub(super) fn free(&self, line: Http1Connection) {
        if !self.is_retired(line.opened()) && !self.replaced.is_cancelled() {
            self.lines.give_back(line);
        }
    }

    /// True if a connection should be taken out of use. An old one is, once its successor is ready,
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

    pub(super) async fn read(&self, mut opened: Opened) -> Result<Reply, Failure> {
        let (mut head, body) = opened.response.into_parts();
        let body =
            http1_pool::driven(&mut opened.line, incoming::whole(body, REPLY_BODY_BYTES, &self.bodies)).await?;
        opened.line.into_iter().for_each(|line| self.free(line));
        let versions = incoming::versions(&head.headers, &self.version_header);
        let grants = StatedGrants::take(&mut head.headers, &GRANTS_VERSION);
        Ok(Reply {
            region: self.region,
            status: head.status,
            headers: into_end_to_end(head.headers),
            body,
            versions,
            sent: opened.sent,
            sent_wall: opened.sent_wall,
            received: self.clock.now(),
            grants,
        })
    }

    pub(super) async fn keep_warm(&self) {
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
