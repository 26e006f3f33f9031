//! The pages of a service that is no sidecar: the catalogue, the views service, a region. They are
//! the sidecar's (`/livez`, `/readyz`, `/status`, `/metrics`, an index), and commands of their own.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, State as Shared};
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{Html, IntoResponse, Json};
use axum::routing::{get, post};
use serde::Serialize;

use super::guard::{Admits, COMMANDS, Unexplained, guarded, unstored};
use super::service_commands::{self, ServiceCommands};
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
    pub commands: Arc<ServiceCommands>,
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
    let (admits, commands) = (pages.admits.clone(), pages.commands.clone());
    let commands =
        Router::new().route(&format!("{COMMANDS}{{name}}"), post(service_commands::answer)).with_state(commands);
    let router = Router::new()
        .route("/", get(index_page))
        .route("/livez", get(|| async { ALIVE }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .with_state(pages)
        .merge(commands);
    guarded(router, reached, admits).layer(middleware::map_response(async |response| unstored(response)))
}

async fn index_page(Shared(pages): Shared<ServicePages>) -> Html<String> {
    let ready = (pages.ready)();
    Html(index::service_page(&pages.title, ready.state.into_str(), &ready.reasons))
}

async fn ready(
    Shared(pages): Shared<ServicePages>,
    unexplained: Option<Extension<Unexplained>>,
) -> (StatusCode, Json<ServiceReadiness>) {
    let mut ready = (pages.ready)();
    if unexplained.is_some() {
        ready.reasons.clear();
    }
    (ready.state.code(), Json(ready))
}

async fn metrics(Shared(pages): Shared<ServicePages>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, exposition::CONTENT_TYPE)], (pages.metrics)())
}

async fn status(Shared(pages): Shared<ServicePages>) -> Json<serde_json::Value> {
    Json((pages.status)())
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::access::gate::{Gate, GateParts};
    use crate::access::grants::Grants;
    use crate::access::issuers::Issuers;
    use crate::admin::guard::Operators;
    use crate::admin::service_commands::CommandGate;
    use crate::config::services::{AccessConfig, AccessMode, IssuerConfig, KeysSource, WhenUnknown};
    use crate::http::listener::bind_tcp;
    use crate::lab::issuer::Issuer;
    use crate::model::time::Clock;
    use crate::telemetry::scripted::CountedLines;

    async fn port(state: ServiceState) -> (SocketAddr, Tasks) {
        port_of(state, Admits::hosts(&["nearside.internal".to_owned()])).await
    }

    async fn port_of(state: ServiceState, admits: Arc<Admits>) -> (SocketAddr, Tasks) {
        port_with(state, admits, ServiceCommands::new(CommandGate::Local, Vec::new())).await
    }

    /// A port with these commands.
    pub(in crate::admin) async fn port_with(
        state: ServiceState,
        admits: Arc<Admits>,
        commands: ServiceCommands,
    ) -> (SocketAddr, Tasks) {
        let tasks = Tasks::new();
        let listener = bind_tcp("127.0.0.1:0".parse().unwrap(), "catalogue.admin", "catalogue.admin").unwrap();
        let address = listener.local_addr().unwrap();
        let pages = ServicePages {
            title: "catalogue".to_owned(),
            admits,
            ready: Arc::new(move || ServiceReadiness { state, reasons: vec!["<slow> store".to_owned()] }),
            status: Arc::new(|| serde_json::json!({ "engine": "memory" })),
            metrics: Arc::new(|| "# EOF\n".to_owned()),
            commands: Arc::new(commands),
        };
        serve_pages([Listener::Tcp(listener)], 64, pages, &tasks);
        (address, tasks)
    }

    pub(in crate::admin) async fn say(address: SocketAddr, request: &str) -> String {
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

    const ISS: &str = "https://issuer.example";
    pub(in crate::admin) const OPERATORS: &str = "https://operators.example";

    /// A gate of operators that goes by grants for a scraper and an operator.
    fn gate(issuer: &Issuer) -> Arc<Gate> {
        gate_as(issuer, AccessMode::Enforce, &json!({"s": ["metrics"], "o": ["operate"]}))
    }

    /// A gate of operators, by grants for consumers whose one principal has the same name.
    pub(in crate::admin) fn gate_as(issuer: &Issuer, mode: AccessMode, may: &serde_json::Value) -> Arc<Gate> {
        let directory = tempfile::tempdir().unwrap();
        let keys = directory.path().join("keys.json");
        std::fs::write(&keys, issuer.jwks()).unwrap();
        let keys = KeysSource::File(keys);
        let day = Duration::from_secs(86_400);
        let config = AccessConfig {
            mode,
            catalogue_audience: String::new(),
            region_audience: String::new(),
            operate_audience: OPERATORS.to_owned(),
            max_lifetime: day,
            max_age: day,
            when_unknown: WhenUnknown::Serve,
            max_key_age: day,
            deny_file: None,
            issuers: vec![IssuerConfig { iss: ISS.to_owned(), keys, ca_file: None, subject: "sub".to_owned() }],
            admins: Vec::new(),
        };
        let issuers = Issuers::open(&config, OPERATORS, &Clock::System).unwrap();
        let (clock, tasks) = (Clock::System, Tasks::new());
        let gate = Gate::new(&config, GateParts { issuers, deny: None, names: Vec::new(), clock, tasks });
        let consumers = may.as_object().unwrap().iter();
        let consumers: serde_json::Map<_, _> = consumers
            .map(|(name, may)| (name.clone(), json!({"who": [{"iss": ISS, "sub": name}], "may": may})))
            .collect();
        let document = json!({"format": 1, "consumers": consumers}).to_string();
        gate.take(Grants::read(document.as_bytes(), 1).unwrap());
        Arc::new(gate)
    }

    #[tokio::test]
    async fn reached_pages_need_a_grant() {
        let issuer = Issuer::new(ISS, "one");
        let operators = Operators { gate: Some(gate(&issuer)), behind_proxy: true };
        let admits = Admits { operators: Some(operators.clone()), ..Admits::default() };
        let (address, _tasks) = port_of(ServiceState::Degraded, Arc::new(admits)).await;
        let now = Clock::System.wall().as_millis() / 1_000;
        let line = |sub: &str| format!("Authorization: Bearer {}\r\n", issuer.token(sub, OPERATORS, now));
        let [nobody, scraper, operator, other] = [String::new(), line("s"), line("o"), line("x")];
        for (path, caller, status) in [
            ("/livez", &nobody, "200"),
            ("/readyz", &nobody, "200"),
            ("/metrics", &nobody, "401"),
            ("/status", &nobody, "401"),
            ("/", &nobody, "401"),
            ("/nowhere", &nobody, "401"),
            ("/metrics", &scraper, "200"),
            ("/status", &scraper, "403"),
            ("/metrics", &operator, "403"),
            ("/status", &operator, "200"),
            ("/", &operator, "200"),
            ("/status", &other, "403"),
        ] {
            let answer = get(address, path, caller).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
            assert!(!answer.contains("slow") || path == "/", "no reasons: {path}: {answer}");
            assert_eq!(status == "401", answer.to_ascii_lowercase().contains("www-authenticate: bearer"), "{path}");
        }
        // What may act is in the log, with who it is.
        let lines = CountedLines::start();
        for (caller, status) in [(&scraper, "403"), (&operator, "405")] {
            let request = format!("POST /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{caller}\r\n");
            let answer = say(address, &request).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        }
        get(address, "/status", &operator).await;
        assert_eq!(lines.with("an operator's command"), 1);
        let named = "principal=\"o of https://issuer.example\" consumer=\"o\" method=POST path=\"/status\"";
        assert_eq!(lines.with(named), 1);
        // A proxy that decides who comes in shows probes no reasons.
        let proxied = Admits { operators: Some(Operators { gate: None, ..operators.clone() }), ..Admits::default() };
        let (address, _tasks) = port_of(ServiceState::Degraded, Arc::new(proxied)).await;
        assert!(get(address, "/readyz", "").await.ends_with("\"reasons\":[]}"));
        assert!(get(address, "/status", "").await.starts_with("HTTP/1.1 200 "));
        // On this machine everybody is an operator, unless a proxy hands requests on.
        let admits = Admits { operators: Some(Operators { behind_proxy: false, ..operators }), ..Admits::default() };
        let (address, _tasks) = port_of(ServiceState::Degraded, Arc::new(admits)).await;
        assert!(get(address, "/readyz", "").await.contains("<slow> store"));
        assert!(get(address, "/status", "").await.starts_with("HTTP/1.1 200 "));
    }
}
