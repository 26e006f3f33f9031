//! Owns the admin port: `/livez`, `/readyz`, `/metrics`, `/status` and an index for people.
//!
//! Before it: `app` binds the address and gives it a closure that makes a [`Status`]. After it: probes, Prometheus,
//! operators. Invariant: it only reads; connections, their heads and their lives are bounded, so that nobody on this
//! port can starve the service's own.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State as Shared};
use axum::http::{HeaderValue, StatusCode, Version, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Json, Response};
use axum::routing::get;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::limits;
use crate::tasks::Tasks;
use crate::telemetry::exposition;
use crate::telemetry::metrics::Metrics;

pub mod audit;
pub mod health;
pub mod host;
mod index;
pub mod readiness;
pub mod status;

use readiness::State;
use status::Status;

/// What the pages are made from.
#[derive(Clone)]
pub struct Pages {
    /// Gathers the facts as they are now.
    pub status: Arc<dyn Fn() -> Status + Send + Sync>,
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// Hosts accepted besides loopback and the address connected to.
    pub allowed_hosts: Arc<[String]>,
}

/// Answers on `listener` until the process's tasks are told to stop.
pub async fn serve(listener: TcpListener, pages: Pages, tasks: Tasks) {
    let permits = Arc::new(Semaphore::new(limits::ADMIN_CONNECTIONS));
    let stopping = tasks.stopping();
    loop {
        let accepted = tokio::select! {
            () = stopping.cancelled() => return,
            accepted = accept(&listener, &permits) => accepted,
        };
        match accepted {
            Ok((stream, permit)) => {
                let connection = connection(stream, permit, pages.clone(), stopping.clone());
                tasks.spawn("admin-connection", connection);
            }
            Err(error) => {
                // Out of descriptors, most likely: give those that end the time to.
                tracing::warn!(%error, "the admin port could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> Result<(TcpStream, OwnedSemaphorePermit), std::io::Error> {
    let permit = permits.clone().acquire_owned().await.expect("the semaphore is never closed");
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
}

async fn connection(stream: TcpStream, _permit: OwnedSemaphorePermit, pages: Pages, stopping: CancellationToken) {
    let Ok(local) = stream.local_addr() else { return };
    let service = TowerToHyperService::new(router(pages, local.ip()));
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits::HEADER_WAIT)
        .max_headers(limits::REQUEST_HEADERS)
        .max_buf_size(limits::REQUEST_HEAD_BYTES);
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = stopping.cancelled() => None,
        () = tokio::time::sleep(limits::ADMIN_CONNECTION_LIFE) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(limits::ADMIN_LAST_REPLY_WAIT, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an admin connection ended early");
    }
}

fn router(pages: Pages, local: IpAddr) -> Router {
    let ours = (pages.allowed_hosts.clone(), local);
    Router::new()
        .route("/", get(index_page))
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .layer(middleware::from_fn_with_state(ours, guard))
        .with_state(pages)
}

/// Refuses a foreign `Host`, and keeps every answer out of caches and content sniffing.
async fn guard(Shared((allowed, local)): Shared<(Arc<[String]>, IpAddr)>, request: Request, next: Next) -> Response {
    let authority = request.headers().get(header::HOST).map(|value| value.to_str().unwrap_or_default());
    let mut response = match authority {
        Some(authority) if !host::names_us(authority, local, &allowed) => {
            (StatusCode::MISDIRECTED_REQUEST, "this Host is not served here\n").into_response()
        }
        None if request.version() > Version::HTTP_10 => {
            (StatusCode::BAD_REQUEST, "the request names no Host\n").into_response()
        }
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn index_page(Shared(pages): Shared<Pages>) -> Html<String> {
    Html(index::page(&(pages.status)()))
}

/// 200 while it answers, whatever its freshness; 503 only while draining.
async fn ready(Shared(pages): Shared<Pages>) -> (StatusCode, Json<Ready>) {
    let status = (pages.status)();
    let code = if status.state == State::Draining { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    (code, Json(Ready { state: status.state, reasons: status.reasons }))
}

/// What `/readyz` says, the word first.
#[derive(serde::Serialize)]
struct Ready {
    state: State,
    reasons: Vec<String>,
}

async fn metrics(Shared(pages): Shared<Pages>) -> impl IntoResponse {
    let page = pages.metrics.render(&(pages.status)().gauges());
    ([(header::CONTENT_TYPE, exposition::CONTENT_TYPE)], page)
}

async fn status(Shared(pages): Shared<Pages>) -> Json<Status> {
    Json((pages.status)())
}

#[cfg(test)]
mod tests;
