//! The http transport: the endpoint that SNS posts to. [`super::lifecycle`] subscribes `public_url`
//! plus the region's index. Every envelope goes to [`crate::sidecar::announcements::Intake`]; what
//! concerns the subscription itself goes back to the lifecycle as a [`Notice`].
//!
//! SNS takes any status from 200 to 499 as delivered and drops the message. So 200 is sent only
//! once it is applied, 503 when it could not be, and 4xx only for what must not come again.
//! SubscribeURL is never fetched: a verified token is confirmed through the SDK. For all who post
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
use crate::http::kernel_buffers::KernelBuffers;
use crate::http::limits::SOCKET_BUFFER_BYTES;
use crate::http::listener::bound_buffers;
use crate::http::peers::Peers;
use crate::http::pulse::Pulse;
use crate::http::service::last_replies;
use crate::http::socket::Socket;
use crate::model::ids::RegionId;
use crate::sidecar::announcements::Disposition;
use crate::sidecar::announcements::subscription::deps::SubscriptionDeps;
use crate::sidecar::announcements::subscription::notice::Notice;
use crate::sidecar::limits;
use crate::tasks::permits::Permits;
use crate::telemetry::metrics::announcements::AnnouncementOutcome;
use crate::telemetry::metrics::operations::Budget;
use crate::telemetry::rate_limiter::RateLimiter;

/// One region's path at the endpoint.
pub(crate) struct Entrance {
    pub(crate) region: RegionId,
    pub(crate) topic: TopicArn,
    pub(crate) notices: mpsc::Sender<Notice>,
}

struct Endpoint {
    entrances: Vec<Entrance>,
    deps: SubscriptionDeps,
    stopping: CancellationToken,
    /// Envelopes between arrival and receipt.
    pending: Semaphore,
    /// Permits of connections.
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
    entrances: Vec<Entrance>,
    deps: &SubscriptionDeps,
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
    let metrics = deps.metrics.clone();
    let peers = Peers::new(0, move |_| metrics.operations.over_budget(Budget::AnnouncementConnections));
    let (until, listener) = (stopping.clone(), Arc::new(listener));
    let (deps, confirm_lines) = (deps.clone(), RateLimiter::new());
    let tasks = deps.tasks.clone();
    let endpoint = Endpoint { entrances, deps, stopping, pending, permits, peers, lines, confirm_lines, bodies };
    let endpoint = Arc::new(endpoint);
    tasks.spawn_service_until("announcement endpoint", until, move || accept(listener.clone(), endpoint.clone()));
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
                let (tasks, endpoint) = (endpoint.deps.tasks.clone(), endpoint.clone());
                let pulse = Arc::new(Pulse::default());
                endpoint.peers.enter(&pulse);
                tasks.spawn("announcement connection", async move {
                    serve(stream, &endpoint, &pulse).await;
                    drop(permit);
                });
            }
            Err(error) => {
                // Usually out of file descriptors: accepting again at once would only spin.
                if let Some(suppressed) = endpoint.lines.admit(endpoint.deps.clock.now()) {
                    tracing::warn!(%error, suppressed, "an announcement connection could not be accepted");
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
    let socket = Socket::new(stream, KernelBuffers::TCP, pulse.clone());
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(socket), service));
    let tasks = &endpoint.deps.tasks;
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
        let Some(entrance) = self.entrance(request.uri().path()) else { return Answer::Never(StatusCode::NOT_FOUND) };
        if let Some(refusal) = refuse_by_headers(request.headers()) {
            self.deps.metrics.announcements.announcement(Some(entrance.region), refusal.1);
            return refusal.0;
        }
        // More than this at once is more than can be applied: SNS comes again in 20 s.
        let Ok(_permit) = self.pending.try_acquire() else {
            self.deps.metrics.announcements.announcement(Some(entrance.region), AnnouncementOutcome::Overload);
            return Answer::Again;
        };
        let body = bodies::whole(request.into_body(), ENVELOPE_BYTES, &self.bodies);
        let raw = match tokio::time::timeout(limits::ENVELOPE_WAIT, body).await {
            Ok(Ok(body)) => body,
            Ok(Err(NotRead::TooLarge)) => {
                self.deps.metrics.announcements.announcement(Some(entrance.region), AnnouncementOutcome::Oversized);
                return Answer::Never(StatusCode::PAYLOAD_TOO_LARGE);
            }
            Ok(Err(NotRead::NoRoom)) => {
                self.deps.metrics.operations.over_budget(Budget::AnnouncementBodies);
                return Answer::Again;
            }
            Ok(Err(NotRead::Broken)) | Err(_) => return Answer::Again,
        };
        drop(arriving);
        let disposition = self.deps.intake.take(entrance.region, raw, None).await;
        let may_be_deleted = disposition.may_be_deleted();
        match disposition {
            Disposition::Retry | Disposition::Unverified(_) if !may_be_deleted => Answer::Again,
            Disposition::Acknowledge | Disposition::Retry => Answer::Done,
            // Anybody can post here, so it says nothing about the topic (R14 is for what came
            // through a queue).
            Disposition::Unverified(_) => Answer::Never(StatusCode::FORBIDDEN),
            Disposition::Confirm { token } => self.confirm(entrance, &token).await,
            Disposition::Unsubscribed { published } => tell(entrance, Notice::Unsubscribed(published)),
        }
    }

    /// The last segment of the path names the region; what comes before it is the balancer's.
    fn entrance(&self, path: &str) -> Option<&Entrance> {
        let place: u8 = path.rsplit('/').next()?.parse().ok()?;
        self.entrances.iter().find(|entrance| entrance.region == RegionId(place))
    }

    async fn confirm(&self, entrance: &Entrance, token: &str) -> Answer {
        if self.stopping.is_cancelled() {
            // An old subscription's confirmation must not revive it.
            return Answer::Done;
        }
        let clients = self.deps.sdk.clients(&entrance.topic.region).await;
        match clients::confirm(&clients.sns, &entrance.topic, token).await {
            Ok(_) => tell(entrance, Notice::Confirmed),
            Err(failure) => {
                let advice = failure.advice();
                // A confirmation can be posted again by anyone who saw it.
                if let Some(suppressed) = self.confirm_lines.admit(self.deps.clock.now()) {
                    let region = &entrance.topic.region;
                    tracing::warn!(region, %failure, advice, suppressed, "a subscription could not be confirmed");
                }
                Answer::Again
            }
        }
    }
}

fn tell(entrance: &Entrance, notice: Notice) -> Answer {
    match entrance.notices.try_send(notice) {
        Ok(()) => Answer::Done,
        // The lifecycle is busy (let it come again) or has ended (nobody cares).
        Err(mpsc::error::TrySendError::Full(_)) => Answer::Again,
        Err(mpsc::error::TrySendError::Closed(_)) => Answer::Done,
    }
}

/// Refuses by the headers alone, before a body is read. Anybody can send them, so they can only
/// refuse. A message without them goes on, since a balancer may have dropped them.
fn refuse_by_headers(headers: &HeaderMap) -> Option<(Answer, AnnouncementOutcome)> {
    if headers.get("x-amz-sns-rawdelivery").is_some_and(|raw| raw.as_bytes().eq_ignore_ascii_case(b"true")) {
        // It may be genuine, but it is unsigned. The next check of the attributes finds out and
        // subscribes anew.
        return Some((Answer::Again, AnnouncementOutcome::Raw));
    }
    match headers.get("x-amz-sns-message-type").map(|kind| kind.as_bytes()) {
        None | Some(b"Notification" | b"SubscriptionConfirmation" | b"UnsubscribeConfirmation") => None,
        Some(_) => Some((Answer::Never(StatusCode::BAD_REQUEST), AnnouncementOutcome::UnknownType)),
    }
}

#[cfg(test)]
mod tests;
