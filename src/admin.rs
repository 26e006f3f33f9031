//! The admin side: pages (`/livez`, `/readyz`, `/metrics`, `/status`, and an index for people) on a
//! port, and operators' commands ([`commands`]) on a Unix socket, or on the port with a token. The services
//! have such a port too ([`service_pages`]).
//!
//! Connections, request heads and the lifetimes of connections are bounded, so that nobody here can
//! starve the service itself. The socket has its own bound, so that a flood on the port does not
//! lock operators out.

use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::Router;
use axum::extract::{Extension, Path, Request, State as Shared};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Json, Response};
use axum::routing::{get, post};
use tokio_util::sync::CancellationToken;

use crate::http::service::{self, Listener, ReachedBy, ServingTasks};
use crate::tasks::Tasks;
use crate::tasks::permits::Permits;
use crate::telemetry::metrics::{Metrics, exposition};

pub(crate) mod audit;
pub(crate) mod commands;
pub mod findings;
pub mod grants;
pub(crate) mod guard;
pub(crate) mod health;
mod index;
mod limits;
pub(crate) mod readiness;
pub mod service_commands;
pub mod service_pages;
pub(crate) mod status;

use crate::admin::commands::problem::Problem;
use commands::Commands;
pub use guard::Admits;
use readiness::ReadyState;
use status::Status;

/// Sources of the pages, and the means by which operators act.
#[derive(Clone)]
pub struct Pages {
    /// Gathers the facts anew on every call.
    pub status: Arc<dyn Fn() -> Status + Send + Sync>,
    pub metrics: Arc<Metrics>,
    /// A reload may replace it.
    pub admits: Arc<ArcSwap<Admits>>,
    pub commands: Arc<Commands>,
}

/// Serves `listeners`, together within `permits`, until `until`.
pub fn start(
    listeners: impl IntoIterator<Item = Listener>,
    permits: Permits,
    pages: Pages,
    tasks: &Tasks,
    until: CancellationToken,
) {
    let router = move |reached| router(pages.clone(), reached);
    service::start_all(listeners, TASKS, permits, router, tasks, until);
}

/// Connections that the ports may have at once, if the process may have `most`.
pub fn port_connections(most: usize) -> Permits {
    Permits::new(limits::ADMIN_CONNECTIONS.min(most))
}

/// Connections that the operators' socket may have at once.
pub fn socket_connections() -> Permits {
    Permits::new(limits::OPERATORS)
}

/// The tasks that serve operators.
const TASKS: ServingTasks = ServingTasks { accept: "admin", connection: "admin-connection" };

/// The body of `/livez`. `nearside ctl` recognises the admin side by it.
pub const ALIVE: &str = "alive\n";

fn router(pages: Pages, reached: ReachedBy) -> Router {
    let ours = (pages.clone(), reached);
    Router::new()
        .route("/", get(index_page))
        .route("/livez", get(|| async { ALIVE }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .route("/commands/{command}", post(command))
        .layer(Extension(reached))
        .layer(middleware::from_fn_with_state(ours, guard))
        .with_state(pages)
}

/// Refuses a foreign uid and what [`Admits`] refuses.
async fn guard(Shared((pages, reached)): Shared<(Pages, ReachedBy)>, request: Request, next: Next) -> Response {
    let response = match pages.commands.access.welcomes(reached) {
        Err(denied) => pages.commands.denied(denied).into_response(),
        Ok(()) => match pages.admits.load().refusal(reached, &request) {
            Some(refusal) => refusal,
            None => next.run(request).await,
        },
    };
    guard::unstored(response)
}

async fn command(
    Shared(pages): Shared<Pages>,
    Extension(peer): Extension<ReachedBy>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Json<serde_json::Value>, Problem> {
    let (parts, body) = request.into_parts();
    pages.commands.answer(&name, peer, &parts.headers, body).await.map(Json)
}

async fn index_page(Shared(pages): Shared<Pages>) -> Html<String> {
    Html(index::page(&(pages.status)()))
}

/// 200 while the sidecar answers, however fresh its answers are; 503 only while it drains.
async fn ready(Shared(pages): Shared<Pages>) -> (StatusCode, Json<Ready>) {
    let status = (pages.status)();
    let code = if status.state == ReadyState::Draining { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    (code, Json(Ready { state: status.state, reasons: status.reasons }))
}

/// The body of `/readyz`, with the state first.
#[derive(serde::Serialize)]
struct Ready {
    state: ReadyState,
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
