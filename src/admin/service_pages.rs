//! The pages of a service that is no sidecar: the catalogue, the views service, a region. They are
//! the sidecar's (`/livez`, `/readyz`, `/status`, `/metrics`, an index), without its commands.

use std::sync::Arc;

use axum::Router;
use axum::extract::State as Shared;
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{Html, IntoResponse, Json};
use axum::routing::get;
use serde::Serialize;

use super::guard::{Admits, guarded, unstored};
use super::{ALIVE, index};
use crate::http::service::{self, Listener, ReachedBy};
use crate::tasks::Tasks;
use crate::telemetry::metrics::exposition;

/// State of a service, by whether it does what it is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::IntoStaticStr, strum::VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum ServiceState {
    /// It cannot do its work yet.
    Starting,
    Serving,
    /// It does part of its work, or late; the reasons say what.
    Degraded,
    /// It is about to stop: send new work elsewhere.
    Draining,
}

impl ServiceState {
    /// Status code of `/readyz`.
    const fn code(self) -> StatusCode {
        match self {
            Self::Serving | Self::Degraded => StatusCode::OK,
            Self::Starting | Self::Draining => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// The body of `/readyz`, with the state first.
#[derive(Clone, Debug, Serialize)]
pub struct ServiceReadiness {
    pub state: ServiceState,
    pub reasons: Vec<String>,
}

/// Sources of the pages, gathered anew on every call.
#[derive(Clone)]
pub struct ServicePages {
    /// `catalogue`, `views`, `region eu-west-1`.
    pub title: String,
    /// Who may read them.
    pub admits: Arc<Admits>,
    pub ready: Arc<dyn Fn() -> ServiceReadiness + Send + Sync>,
    pub status: Arc<dyn Fn() -> serde_json::Value + Send + Sync>,
    /// The whole page, in the OpenMetrics text format.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

/// Serves the pages until the process's tasks are asked to stop, to `most` connections at once.
pub fn serve_pages(listeners: impl IntoIterator<Item = Listener>, most: usize, pages: ServicePages, tasks: &Tasks) {
    service::start_all(
        listeners,
        super::TASKS,
        super::port_connections(most),
        move |reached| router(pages.clone(), reached),
        tasks,
        tasks.stopping(),
    );
}

fn router(pages: ServicePages, reached: ReachedBy) -> Router {
    let admits = pages.admits.clone();
    let router = Router::new()
        .route("/", get(index_page))
        .route("/livez", get(|| async { ALIVE }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .with_state(pages);
    guarded(router, reached, admits).layer(middleware::map_response(async |response| unstored(response)))
}

async fn index_page(Shared(pages): Shared<ServicePages>) -> Html<String> {
    let ready = (pages.ready)();
    Html(index::service_page(&pages.title, ready.state.into_str(), &ready.reasons))
}

async fn ready(Shared(pages): Shared<ServicePages>) -> (StatusCode, Json<ServiceReadiness>) {
    let ready = (pages.ready)();
    (ready.state.code(), Json(ready))
}

async fn metrics(Shared(pages): Shared<ServicePages>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, exposition::CONTENT_TYPE)], (pages.metrics)())
}

async fn status(Shared(pages): Shared<ServicePages>) -> Json<serde_json::Value> {
    Json((pages.status)())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::http::listener::bind_tcp;

    async fn port(state: ServiceState) -> (SocketAddr, Tasks) {
        let tasks = Tasks::new();
        let listener = bind_tcp("127.0.0.1:0".parse().unwrap(), "catalogue.admin", "catalogue.admin").unwrap();
        let address = listener.local_addr().unwrap();
        let pages = ServicePages {
            title: "catalogue".to_owned(),
            admits: Admits::hosts(&["nearside.internal".to_owned()]),
            ready: Arc::new(move || ServiceReadiness { state, reasons: vec!["<slow> store".to_owned()] }),
            status: Arc::new(|| serde_json::json!({ "engine": "memory" })),
            metrics: Arc::new(|| "# EOF\n".to_owned()),
        };
        serve_pages([Listener::Tcp(listener)], 64, pages, &tasks);
        (address, tasks)
    }

    async fn say(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn get(address: SocketAddr, path: &str, more: &str) -> String {
        say(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n")).await
    }

    #[tokio::test]
    async fn only_starting_or_draining_is_unready() {
        for (state, code) in [
            (ServiceState::Starting, "503 "),
            (ServiceState::Serving, "200 "),
            (ServiceState::Degraded, "200 "),
            (ServiceState::Draining, "503 "),
        ] {
            let (address, _tasks) = port(state).await;
            let answer = get(address, "/readyz", "").await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{answer}");
            let body = format!("{{\"state\":\"{}\",\"reasons\":[\"<slow> store\"]}}", state.into_str());
            assert!(answer.ends_with(&body), "{answer}");
            assert!(get(address, "/livez", "").await.ends_with(ALIVE));
        }
    }

    #[tokio::test]
    async fn pages_are_guarded_and_never_cached() {
        let (address, _tasks) = port(ServiceState::Serving).await;
        let foreign = say(address, "GET /status HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n").await;
        assert!(foreign.starts_with("HTTP/1.1 421 "), "{foreign}");
        let listed =
            say(address, "GET /status HTTP/1.1\r\nHost: Nearside.internal:8741\r\nConnection: close\r\n\r\n").await;
        assert!(listed.starts_with("HTTP/1.1 200 "), "{listed}");
        let cross = get(address, "/status", "Sec-Fetch-Site: cross-site\r\n").await;
        assert!(cross.starts_with("HTTP/1.1 403 ") && cross.contains("problem+json"), "{cross}");
        let page = get(address, "/", "").await;
        assert!(page.contains("<strong>serving</strong>") && page.contains("&lt;slow&gt; store"), "{page}");
        for answer in [foreign, cross, page, get(address, "/nowhere", "").await] {
            assert!(answer.to_ascii_lowercase().contains("cache-control: no-store"), "{answer}");
        }
    }
}
