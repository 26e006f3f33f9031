//! The http transport: the endpoint that SNS posts to. [`super::lifecycle`] subscribes `public_url`
//! plus the region's index. Every envelope goes to [`crate::sidecar::announcements::Intake`]; what
//! concerns the subscription itself goes back to the lifecycle as a [`Notice`].
//!
//! SNS takes any status from 200 to 499 as delivered and drops the message. So 200 is sent only
//! once it is applied, 503 when it could not be, and 4xx only for what must not come again.
//! SubscribeURL is never fetched: a verified token is confirmed through the SDK. Whoever posts
//! here, the connections, the bytes of all bodies together and the time for each are bounded.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::aws::clients;
use crate::cache::limits::{ENDPOINT_CONNECTIONS, ENVELOPE_BYTES, ENVELOPES_BYTES, SMALL_ENVELOPE_BYTES};
use crate::config::TopicArn;
use crate::http::bodies::{self, ByteBudget, NotRead};
use crate::http::limits::SOCKET_BUFFER_BYTES;
use crate::http::listener::bound_buffers;
use crate::http::peers::Peers;
use crate::http::pulse::Pulse;
use crate::http::service::{Watched, last_replies};
use crate::model::ids::RegionId;
use crate::model::time::Wall;
use crate::sidecar::announcements::Receipt;
use crate::sidecar::announcements::subscription::Edges;
use crate::sidecar::limits;
use crate::tasks::permits::Permits;
use crate::telemetry::rate_limiter::RateLimiter;

/// What the endpoint tells a region's lifecycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// ConfirmSubscription succeeded.
    Confirmed,
    /// A verified UnsubscribeConfirmation came, published at this time.
    Unsubscribed(Wall),
}

/// One region's path at the endpoint.
pub(crate) struct Entrance {
    pub(crate) region: RegionId,
    pub(crate) topic: TopicArn,
    pub(crate) notices: mpsc::Sender<Notice>,
}

struct Endpoint {
    doors: Vec<Entrance>,
    edges: Edges,
    stopping: CancellationToken,
    /// Envelopes between arrival and receipt.
    pending: Semaphore,
    /// Of connections.
    permits: Permits,
    peers: Arc<Peers>,
    lines: RateLimiter,
    confirm_lines: RateLimiter,
    bodies: Arc<ByteBudget>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Done,
    Again,
    /// It will never be accepted.
    Never(StatusCode),
}

impl Answer {
    const fn status(self) -> StatusCode {
        match self {
            Self::Done => StatusCode::OK,
            Self::Again => StatusCode::SERVICE_UNAVAILABLE,
            Self::Never(status) => status,
        }
    }
}

/// The URL that `region`'s topic posts to.
pub(crate) fn endpoint(public_url: &Url, region: RegionId) -> String {
    let mut url = public_url.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().push(&region.0.to_string());
    }
    url.into()
}

/// Listens until `stopping`; returns the address.
pub(crate) fn open(
    listen: SocketAddr,
    doors: Vec<Entrance>,
    edges: &Edges,
    stopping: CancellationToken,
) -> std::io::Result<SocketAddr> {
    let socket = std::net::TcpListener::bind(listen)?;
    socket.set_nonblocking(true)?;
    let listener = TcpListener::from_std(socket)?;
    // Anybody may post here, and a message is small.
    bound_buffers(&listener, SOCKET_BUFFER_BYTES);
    let address = listener.local_addr()?;
    let pending = Semaphore::new(limits::PENDING_ANNOUNCEMENTS);
    let (most, small) = (ENVELOPES_BYTES as u64, SMALL_ENVELOPE_BYTES as u64);
    let for_small = ENDPOINT_CONNECTIONS as u64 * small;
    let bodies = ByteBudget::with_room_for_small(most, small, for_small);
    let (permits, lines) = (Permits::new(ENDPOINT_CONNECTIONS), RateLimiter::new());
    let metrics = edges.metrics.clone();
    let peers = Peers::new(0, move |_| metrics.over_budget("announcement-connections"));
    let (until, listener) = (stopping.clone(), Arc::new(listener));
    let (edges, confirm_lines) = (edges.clone(), RateLimiter::new());
    let tasks = edges.tasks.clone();
    let endpoint = Endpoint { doors, edges, stopping, pending, permits, peers, lines, confirm_lines, bodies };
    let endpoint = Arc::new(endpoint);
    let accept = move || accept(listener.clone(), endpoint.clone());
    tasks.spawn_service_until("announcement endpoint", until, accept);
    Ok(address)
}

async fn accept(listener: Arc<TcpListener>, endpoint: Arc<Endpoint>) {
    loop {
        let next = async {
            let permit = endpoint.peers.permit(&endpoint.permits).await;
            (permit, listener.accept().await)
        };
        let Some((permit, accepted)) = endpoint.stopping.run_until_cancelled(next).await else { return };
        match accepted {
            Ok((stream, _)) => {
                let (tasks, endpoint) = (endpoint.edges.tasks.clone(), endpoint.clone());
                let pulse = Arc::new(Pulse::default());
                endpoint.peers.enter(&pulse);
                tasks.spawn("announcement connection", async move {
                    serve(stream, &endpoint, &pulse).await;
                    drop(permit);
                });
            }
            Err(error) => {
                // Usually out of file descriptors: accepting again at once would only spin.
                if let Some(left_out) = endpoint.lines.take(endpoint.edges.clock.now()) {
                    tracing::warn!(%error, left_out, "an announcement connection could not be accepted");
                }
                tokio::time::sleep(limits::POLL_AGAIN.0).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, endpoint: &Arc<Endpoint>, pulse: &Arc<Pulse>) {
    let service = hyper::service::service_fn(|request: Request<Incoming>| {
        let (endpoint, pulse) = (endpoint.clone(), pulse.clone());
        async move {
            let answer = endpoint.answer(request, &pulse).await;
            let mut response = Response::new(Empty::<Bytes>::new());
            *response.status_mut() = answer.status();
            if answer == Answer::Again {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    let mut builder = http1::Builder::new();
    builder.header_read_timeout(None).max_buf_size(limits::ENDPOINT_READ_BYTES);
    let watched = Watched::new(stream, pulse.clone());
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(watched), service));
    let tasks = &endpoint.edges.tasks;
    let stopping = async {
        endpoint.stopping.cancelled().await;
        pulse.what_has_come_is_read().await;
    };
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = pulse.evicted() => return,
        () = pulse.idle_timeout(tasks) => return pulse.give_up(),
        () = stopping => {
            connection.as_mut().graceful_shutdown();
            last_replies(connection, tasks).await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an announcement connection ended early");
    }
}

impl Endpoint {
    async fn answer(&self, request: Request<Incoming>, pulse: &Arc<Pulse>) -> Answer {
        // Who has sent no whole message makes room for who does.
        let (_under_way, arriving) = (pulse.begin(), pulse.arrives());
        if request.method() != Method::POST {
            return Answer::Never(StatusCode::METHOD_NOT_ALLOWED);
        }
        let Some(door) = self.door(request.uri().path()) else { return Answer::Never(StatusCode::NOT_FOUND) };
        if let Some(refusal) = refuse_by_headers(request.headers()) {
            self.edges.metrics.announcement(Some(door.region), refusal.1);
            return refusal.0;
        }
        // More than this at once is more than can be applied: SNS comes again in 20 s.
        let Ok(_permit) = self.pending.try_acquire() else {
            self.edges.metrics.announcement(Some(door.region), "overload");
            return Answer::Again;
        };
        let body = bodies::whole(request.into_body(), ENVELOPE_BYTES, &self.bodies);
        let raw = match tokio::time::timeout(limits::ENVELOPE_WAIT, body).await {
            Ok(Ok(body)) => body,
            Ok(Err(NotRead::TooLarge)) => {
                self.edges.metrics.announcement(Some(door.region), "oversized");
                return Answer::Never(StatusCode::PAYLOAD_TOO_LARGE);
            }
            Ok(Err(NotRead::NoRoom)) => {
                self.edges.metrics.over_budget("announcement-bodies");
                return Answer::Again;
            }
            Ok(Err(NotRead::Broken)) | Err(_) => return Answer::Again,
        };
        drop(arriving);
        let receipt = self.edges.intake.take(door.region, raw, None).await;
        let done = receipt.may_be_deleted();
        match receipt {
            Receipt::Retry | Receipt::Unverified(_) if !done => Answer::Again,
            Receipt::Acknowledge | Receipt::Retry => Answer::Done,
            // Anybody can post here, so it says nothing about the topic (R14 is for what came
            // through a queue).
            Receipt::Unverified(_) => Answer::Never(StatusCode::FORBIDDEN),
            Receipt::Confirm { token } => self.confirm(door, &token).await,
            Receipt::Unsubscribed { published } => tell(door, Notice::Unsubscribed(published)),
        }
    }

    /// The last segment of the path names the region; what comes before it is the balancer's.
    fn door(&self, path: &str) -> Option<&Entrance> {
        let place: u8 = path.rsplit('/').next()?.parse().ok()?;
        self.doors.iter().find(|door| door.region == RegionId(place))
    }

    async fn confirm(&self, door: &Entrance, token: &str) -> Answer {
        if self.stopping.is_cancelled() {
            // An old subscription's confirmation must not revive it.
            return Answer::Done;
        }
        let clients = self.edges.sdk.clients(&door.topic.region).await;
        match clients::confirm(&clients.sns, &door.topic, token).await {
            Ok(_) => tell(door, Notice::Confirmed),
            Err(failure) => {
                let advice = failure.advice();
                // A confirmation can be posted again by whoever saw it.
                if let Some(left_out) = self.confirm_lines.take(self.edges.clock.now()) {
                    let region = &door.topic.region;
                    tracing::warn!(region, %failure, advice, left_out, "a subscription could not be confirmed");
                }
                Answer::Again
            }
        }
    }
}

fn tell(door: &Entrance, notice: Notice) -> Answer {
    match door.notices.try_send(notice) {
        Ok(()) => Answer::Done,
        // The lifecycle is busy (let it come again) or has ended (nobody cares).
        Err(mpsc::error::TrySendError::Full(_)) => Answer::Again,
        Err(mpsc::error::TrySendError::Closed(_)) => Answer::Done,
    }
}

/// What the headers alone decide, before a body is read. Anybody can send them, so they can only
/// refuse. A message without them goes on, since a balancer may have dropped them.
fn refuse_by_headers(headers: &HeaderMap) -> Option<(Answer, &'static str)> {
    let says = |name: &str| headers.get(name).map(|value| value.as_bytes());
    if says("x-amz-sns-rawdelivery").is_some_and(|raw| raw.eq_ignore_ascii_case(b"true")) {
        // It may be genuine, but it is unsigned. The next check of the attributes finds out and
        // subscribes anew.
        return Some((Answer::Again, "raw"));
    }
    match says("x-amz-sns-message-type") {
        None | Some(b"Notification" | b"SubscriptionConfirmation" | b"UnsubscribeConfirmation") => None,
        Some(_) => Some((Answer::Never(StatusCode::BAD_REQUEST), "unknown-type")),
    }
}

#[cfg(test)]
mod tests;
