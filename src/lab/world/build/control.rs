//! The control endpoint, through which `nearside dev put` and `nearside dev chaos`, run in a second
//! terminal, reach a running world. [`ask`] is its client. It serves only loopback and never a web
//! page: a request with an `Origin`, or for a `Host` other than a loopback address, is refused.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde_json::json;

use crate::lab::limits;
use crate::lab::world::aws::Aws;
use crate::lab::world::build::{World, obey};
use crate::lab::world::catalogue::{PutRefused, WorldCatalogue};
use crate::lab::world::chaos::ChaosOrder;
use crate::lab::world::region::WorldRegion;
use crate::tasks::Tasks;

/// How long to wait until the first region has a change, how often to check, and how long its
/// delivery may then take.
const INGEST_WAIT: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(10);
const DELIVERY: Duration = Duration::from_millis(150);

/// What the endpoint can reach.
#[derive(Clone)]
pub(crate) struct Desk {
    catalogue: Arc<WorldCatalogue>,
    regions: Arc<[Arc<WorldRegion>]>,
    aws: Aws,
    pub(crate) tasks: Tasks,
}

impl Desk {
    pub(crate) fn new(world: &World) -> Self {
        Self {
            catalogue: world.catalogue.clone(),
            regions: world.regions.clone(),
            aws: world.aws.clone(),
            tasks: world.tasks.clone(),
        }
    }

    /// Answers one order.
    pub(crate) async fn answer(self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        if !is_local(&head.headers) {
            return say(StatusCode::FORBIDDEN, "only for programs on this machine");
        }
        let Ok(body) = Limited::new(body, limits::WORLD_BODY_BYTES).collect().await else {
            return say(StatusCode::PAYLOAD_TOO_LARGE, "too large");
        };
        let body = body.to_bytes();
        let path = head.uri.path();
        match (&head.method, path.strip_prefix("/records/"), path.strip_prefix("/chaos/")) {
            (&Method::PUT, Some(key), _) => self.written(key, self.catalogue.put(key, body)).await,
            (&Method::DELETE, Some(key), _) => self.written(key, self.catalogue.delete(key)).await,
            (&Method::PUT, _, Some(region)) => self.chaos(region, &String::from_utf8_lossy(&body)).await,
            (&Method::GET, ..) if path == "/state" => self.state(),
            _ => say(StatusCode::NOT_FOUND, "PUT or DELETE /records/KEY, PUT /chaos/REGION, GET /state"),
        }
    }

    /// Answers once a region has ingested and announced the change, so that the next reader sees
    /// it; if all regions lag, it answers after a while anyway.
    async fn written(&self, key: &str, outcome: Result<u64, PutRefused>) -> Response<Full<Bytes>> {
        let version = match outcome {
            Ok(version) => version,
            Err(refused) => return say(StatusCode::UNPROCESSABLE_ENTITY, &refused.to_string()),
        };
        let end = *self.catalogue.end().borrow();
        let having =
            || self.regions.iter().filter(|region| region.cursor() >= end).map(|region| region.name.as_str());
        let ingested = async {
            while having().next().is_none() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            tokio::time::sleep(DELIVERY).await;
        };
        let _ = tokio::time::timeout(INGEST_WAIT, ingested).await;
        let regions: Vec<_> = having().collect();
        let regions = if regions.is_empty() { "no region yet".to_owned() } else { regions.join(", ") };
        say(StatusCode::OK, &format!("{key} is at version {version}, in {regions}"))
    }

    async fn chaos(&self, region: &str, words: &str) -> Response<Full<Bytes>> {
        let words: Vec<&str> = words.split_whitespace().collect();
        let order = match ChaosOrder::parse(&words) {
            Ok(order) => order,
            Err(misread) => return say(StatusCode::UNPROCESSABLE_ENTITY, &misread.to_string()),
        };
        let named: Vec<&str> = self.regions.iter().map(|region| region.name.as_str()).collect();
        let wanted: Vec<&str> = named.iter().copied().filter(|name| region == "all" || *name == region).collect();
        if wanted.is_empty() {
            let names = named.join(", ");
            return say(
                StatusCode::UNPROCESSABLE_ENTITY,
                &format!("unknown region {region:?}; write one of: {names}, all"),
            );
        }
        for name in &wanted {
            obey(&self.regions, &self.aws.topics, name, order).await;
        }
        say(StatusCode::OK, &format!("{}: {}", wanted.join(", "), words.join(" ")))
    }

    fn state(&self) -> Response<Full<Bytes>> {
        let region = |region: &Arc<WorldRegion>| {
            let (knobs, topic) = (region.knobs(), self.aws.topics.standing(region.publisher.topic()));
            json!({
                "name": region.name,
                "url": region.url(),
                "mode": knobs.mode.word(),
                "latency": span(knobs.latency.base),
                "jitter": span(knobs.latency.jitter),
                "lag": span(knobs.lag),
                "requests": region.traffic.total(),
                "behind": (*self.catalogue.end().borrow()).saturating_sub(region.cursor()),
                "announced": region.publisher.sequence(),
                "topic": {
                    "arn": region.publisher.topic(),
                    "subscriptions": topic.subscriptions,
                    "published": topic.published,
                    "lost": topic.lost,
                    "open": topic.open,
                    "mute": topic.faults.mute,
                    "delay": span(topic.faults.delay),
                    "duplicate": topic.faults.duplicate,
                },
            })
        };
        let regions: Vec<_> = self.regions.iter().map(region).collect();
        let state = json!({ "records": self.catalogue.len(), "aws": &*self.aws.base, "regions": regions });
        let mut response = say(StatusCode::OK, &format!("{state:#}"));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

fn span(span: Duration) -> String {
    humantime::format_duration(span).to_string()
}

/// Not from a web page, and not under another name (DNS rebinding).
fn is_local(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    !headers.contains_key(ORIGIN) && matches!(name, "127.0.0.1" | "localhost" | "[::1]")
}

fn say(status: StatusCode, line: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(format!("{line}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// What a second terminal can ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ControlCommand {
    /// `nearside dev put KEY JSON`
    Put(String, String),
    /// `nearside dev delete KEY`
    Delete(String),
    /// `nearside dev chaos REGION ORDER...`; the region may be `all`.
    Chaos(String, Vec<String>),
    /// `nearside dev state`
    State,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// No world answers there; starting one helps.
    #[error("no world answers on {0}: start one with `nearside dev`")]
    Absent(SocketAddr),
    /// The command makes no sense; the text says what to write instead.
    #[error("{0}")]
    Refused(String),
}

/// Sends a command to the world at `control` and returns its answer.
pub(crate) async fn ask(control: SocketAddr, command: &ControlCommand) -> Result<String, ControlError> {
    let absent = |_| ControlError::Absent(control);
    let (method, path, body) = match command {
        ControlCommand::Put(key, value) => (Method::PUT, vec!["records", key], value.clone()),
        ControlCommand::Delete(key) => (Method::DELETE, vec!["records", key], String::new()),
        ControlCommand::Chaos(region, words) => (Method::PUT, vec!["chaos", region], words.join(" ")),
        ControlCommand::State => (Method::GET, vec!["state"], String::new()),
    };
    let mut url = url::Url::parse(&format!("http://{control}")).expect("an address makes a URL");
    // Only URLs without a host have no segments.
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.extend(path);
    }
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().map_err(absent)?;
    let response = client.request(method, url).body(body).send().await.map_err(absent)?;
    let ok = response.status().is_success();
    let text = response.text().await.map_err(absent)?.trim_end().to_owned();
    if ok { Ok(text) } else { Err(ControlError::Refused(text)) }
}
