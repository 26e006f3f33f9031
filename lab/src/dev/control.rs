//! The control endpoint, through which `nearside-lab dev put` and `nearside-lab dev chaos`, run in a second
//! terminal, reach a running world. [`ask`] is its client. It serves only loopback and never a web
//! page: a request with an `Origin`, from another site, or for a foreign `Host` is refused.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ORIGIN};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use nearside::app::services::Engine;
use nearside::engine::Table;
use nearside::http::host;
use nearside::http::site::is_cross_site;
use nearside::model::time::{Clock, Moment};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::aws::Aws;
use crate::chaos_server::chaos::ChaosOrder;
use crate::dev::access::{self, Audience, DevIssuer};
use crate::dev::announced::Announced;
use crate::dev::catalogue::{CatalogueClient, NotWritten};
use crate::dev::contents::TENANT;
use crate::dev::region::{DevRegion, count};
use crate::limits;

/// Bound on the wait until a region has announced a change and everybody has received it, and the
/// interval between looks.
const ANNOUNCED_WAIT: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// State of the endpoint: all that it can reach.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) catalogue: CatalogueClient,
    pub(super) engine: Engine,
    pub(super) regions: Arc<[Arc<DevRegion>]>,
    pub(super) aws: Aws,
    pub(super) clock: Clock,
    pub(super) issuer: Arc<DevIssuer>,
    pub(super) http: reqwest::Client,
}

impl Desk {
    /// Answers one order.
    pub(super) async fn answer(self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        if !is_local(&head) {
            return say(StatusCode::FORBIDDEN, "only for programs on this machine");
        }
        let Ok(body) = Limited::new(body, limits::LAB_BODY_BYTES).collect().await else {
            return say(StatusCode::PAYLOAD_TOO_LARGE, "too large");
        };
        let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        let path: Vec<String> = head.uri.path().split('/').skip(1).map(unescaped).collect();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let since = self.clock.now();
        match (&head.method, path.as_slice()) {
            (&Method::PUT, ["records", kind, key]) => {
                self.written(kind, key, since, self.catalogue.put(kind, key, body).await).await
            }
            (&Method::DELETE, ["records", kind, key]) => {
                self.written(kind, key, since, self.catalogue.delete(kind, key).await).await
            }
            (&Method::PUT, ["chaos", region]) => self.chaos(region, &body).await,
            (&Method::GET, ["state"]) => self.state().await,
            (&Method::POST, ["tokens", consumer]) => self.token(consumer, &body).await,
            (&Method::PUT, ["stopped", consumer]) => self.stopped(consumer, true).await,
            (&Method::DELETE, ["stopped", consumer]) => self.stopped(consumer, false).await,
            _ => say(
                StatusCode::NOT_FOUND,
                "PUT or DELETE /records/TYPE/KEY, PUT /chaos/REGION, GET /state, POST /tokens/CONSUMER, PUT or DELETE \
                 /stopped/CONSUMER",
            ),
        }
    }

    /// A token of this consumer, for those whom `wanted` names, if it names any.
    async fn token(&self, consumer: &str, wanted: &str) -> Response<Full<Bytes>> {
        let document = match self.catalogue.grants().await {
            Ok(document) => document.unwrap_or_default(),
            Err(refused) => return say(StatusCode::UNPROCESSABLE_ENTITY, &refused.to_string()),
        };
        match access::subject(&document, consumer) {
            Ok((sub, own)) => {
                say(StatusCode::OK, &self.issuer.token(&sub, wanted.parse::<Audience>().unwrap_or(own)))
            }
            Err(none) => say(StatusCode::UNPROCESSABLE_ENTITY, &none.to_string()),
        }
    }

    async fn stopped(&self, consumer: &str, is_stopped: bool) -> Response<Full<Bytes>> {
        let rights = if is_stopped { "may do nothing" } else { "has its grants back" };
        match self.catalogue.stop_consumer(consumer, is_stopped).await {
            Ok(version) => say(
                StatusCode::OK,
                &format!("{consumer} {rights}: version {version} of the grants, in every region within seconds"),
            ),
            Err(refused) => say(StatusCode::UNPROCESSABLE_ENTITY, &refused.to_string()),
        }
    }

    /// Answers once a region has announced what became of the change, and all have received it, so
    /// that the next reader sees it; after a while it answers anyway.
    async fn written(
        &self,
        record_type: &str,
        key: &str,
        since: Moment,
        outcome: Result<u64, NotWritten>,
    ) -> Response<Full<Bytes>> {
        let version = match outcome {
            Ok(version) => version,
            Err(refused) => return say(StatusCode::UNPROCESSABLE_ENTITY, &refused.to_string()),
        };
        let announced = async {
            while self.announcers(record_type, key, since).is_empty() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let _ = tokio::time::timeout(ANNOUNCED_WAIT, announced).await;
        let regions = self.announcers(record_type, key, since);
        let regions = if regions.is_empty() { "no region yet".to_owned() } else { regions.join(", ") };
        say(StatusCode::OK, &format!("{record_type} {key} is at version {version}, announced by {regions}"))
    }

    /// Names of the regions that have announced the change, and whose announcements all have
    /// received.
    fn announcers(&self, record_type: &str, key: &str, since: Moment) -> Vec<&str> {
        self.regions
            .iter()
            .filter(|region| {
                let said = Announced::since(&self.aws.topics, &region.topic, since);
                // A view's key is its main record's; any view may need another one.
                let mut of_it = said.iter().filter(|one| record_type != TENANT || one.key == key).peekable();
                of_it.peek().is_some() && of_it.all(|one| one.taken.is_some())
            })
            .map(|region| region.server.name.as_str())
            .collect()
    }

    async fn chaos(&self, region: &str, words: &str) -> Response<Full<Bytes>> {
        let words: Vec<&str> = words.split_whitespace().collect();
        let order = match ChaosOrder::parse(&words) {
            Ok(order) => order,
            Err(misread) => return say(StatusCode::UNPROCESSABLE_ENTITY, &misread.to_string()),
        };
        let wanted: Vec<_> = self.regions.iter().filter(|one| region == "all" || one.server.name == region).collect();
        if wanted.is_empty() {
            let names = names(self.regions.iter());
            return say(
                StatusCode::UNPROCESSABLE_ENTITY,
                &format!("unknown region {region:?}; write one of: {names}, all"),
            );
        }
        for region in &wanted {
            region.obey(&self.aws, order).await;
        }
        say(StatusCode::OK, &format!("{}: {}", names(wanted.into_iter()), words.join(" ")))
    }

    async fn state(&self) -> Response<Full<Bytes>> {
        let records = count(&self.engine, Table::Records, 0).await;
        let views = count(&self.engine, Table::Views, 0).await;
        let (Ok(records), Ok(views)) = (records, views) else {
            return say(StatusCode::SERVICE_UNAVAILABLE, "the tables do not answer");
        };
        let mut regions = Vec::new();
        for region in self.regions.iter() {
            regions.push(self.region(region).await);
        }
        let state = json!({
            "catalogue": self.catalogue.url(),
            "records": records,
            "views": views,
            "aws": &*self.aws.base,
            "regions": regions,
        });
        let mut response = say(StatusCode::OK, &format!("{state:#}"));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    async fn region(&self, region: &DevRegion) -> Value {
        let (knobs, topic) = (region.server.knobs(), self.aws.topics.standing(&region.topic));
        let ingest = self.ingest(region).await.unwrap_or_default();
        json!({
            "name": region.server.name,
            "url": region.server.url(),
            "mode": knobs.mode.to_string(),
            "latency": span(knobs.latency.base),
            "jitter": span(knobs.latency.jitter),
            "lag": span(knobs.lag),
            "requests": region.server.traffic.total(),
            "ingest": ingest["state"],
            "behind_s": ingest["behind_s"],
            "announced": ingest["announced"],
            "topic": {
                "arn": region.topic,
                "subscriptions": topic.subscriptions,
                "published": topic.published,
                "lost": topic.lost,
                "open": topic.open,
                "mute": topic.faults.mute,
                "delay": span(topic.faults.delay),
                "duplicate": topic.faults.duplicate,
            },
        })
    }

    /// Returns the status page of the region's ingester.
    async fn ingest(&self, region: &DevRegion) -> Option<Value> {
        let page = format!("http://{}/status", region.ingest_admin.get()?);
        let page = self.http.get(page).send().await.ok()?.bytes().await.ok()?;
        let mut status: Value = serde_json::from_slice(&page).ok()?;
        Some(status["region"]["ingest"].take())
    }
}

/// A part of a path; what is no UTF-8 is no key either.
fn unescaped(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

fn span(span: Duration) -> String {
    humantime::format_duration(span).to_string()
}

/// Not from a web page, and not under a name that somebody else could point here.
fn is_local(head: &Parts) -> bool {
    let named = host::named(&head.headers, head.uri.authority(), head.version);
    let is_ours = named.ok().flatten().is_some_and(|host| host::is_ours(host, None, &[]));
    is_ours && !head.headers.contains_key(ORIGIN) && !is_cross_site(&head.headers)
}

fn say(status: StatusCode, line: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(format!("{line}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// A record as a person names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordName {
    record_type: String,
    key: String,
}

impl RecordName {
    /// `tenant-7`, a tenant unless a type is given; or `shard/shard-1`.
    pub(crate) fn new(record_type: Option<String>, key: String) -> Self {
        let (record_type, key) = match (record_type, key.split_once('/')) {
            (Some(record_type), _) => (record_type, key),
            (None, Some((record_type, key))) => (record_type.to_owned(), key.to_owned()),
            (None, None) => (TENANT.to_owned(), key),
        };
        Self { record_type, key }
    }
}

/// Orders of a second terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ControlCommand {
    /// `nearside-lab dev put KEY JSON`
    Put(RecordName, String),
    /// `nearside-lab dev delete KEY`
    Delete(RecordName),
    /// `nearside-lab dev chaos REGION ORDER...`; the region may be `all`.
    Chaos(String, Vec<String>),
    /// `nearside-lab dev state`
    State,
    /// `nearside-lab dev token CONSUMER`; without an audience, that of what the consumer may do.
    Token(String, Option<Audience>),
    /// `nearside-lab dev stop CONSUMER` and `resume CONSUMER`
    Stop(String, bool),
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// No world answers there; starting one helps.
    #[error("no world answers on {0}: start one with `nearside-lab dev`")]
    Absent(SocketAddr),
    /// The command makes no sense; the text says what to write instead.
    #[error("{0}")]
    Refused(String),
}

fn names<'a>(regions: impl Iterator<Item = &'a Arc<DevRegion>>) -> String {
    regions.map(|region| region.server.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Sends a command to the world at `control` and returns its answer.
pub(crate) async fn ask(control: SocketAddr, command: &ControlCommand) -> Result<String, ControlError> {
    let (method, path, body) = match command {
        ControlCommand::Put(name, value) => {
            (Method::PUT, vec!["records", &name.record_type, &name.key], value.clone())
        }
        ControlCommand::Delete(name) => {
            (Method::DELETE, vec!["records", &name.record_type, &name.key], String::new())
        }
        ControlCommand::Chaos(region, words) => (Method::PUT, vec!["chaos", region], words.join(" ")),
        ControlCommand::State => (Method::GET, vec!["state"], String::new()),
        ControlCommand::Token(consumer, audience) => {
            let audience: &str = audience.map_or("", Into::into);
            (Method::POST, vec!["tokens", consumer], audience.to_owned())
        }
        ControlCommand::Stop(consumer, is_stopped) => {
            let method = if *is_stopped { Method::PUT } else { Method::DELETE };
            (method, vec!["stopped", consumer], String::new())
        }
    };
    let mut url = url::Url::parse(&format!("http://{control}")).expect("an address makes a URL");
    // Only URLs without a host have no segments.
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.extend(path);
    }
    let (status, text) = send(method, url, body).await.map_err(|_| ControlError::Absent(control))?;
    let text = text.trim_end().to_owned();
    if status.is_success() { Ok(text) } else { Err(ControlError::Refused(text)) }
}

async fn send(method: Method, url: url::Url, body: String) -> Result<(StatusCode, String), reqwest::Error> {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build()?;
    let response = client.request(method, url).body(body).send().await?;
    Ok((response.status(), response.text().await?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos_server::chaos::Mode;
    use crate::dev::Ports;
    use crate::dev::build::DevWorld;
    use nearside::config::services::AccessMode;

    fn named(record_type: Option<&str>, key: &str) -> String {
        let name = RecordName::new(record_type.map(str::to_owned), key.to_owned());
        format!("{} {}", name.record_type, name.key)
    }

    #[test]
    fn record_is_tenant_by_default() {
        assert_eq!(named(None, "tenant-7"), "tenant tenant-7");
        assert_eq!(named(None, "shard/shard-1"), "shard shard-1");
        assert_eq!(named(Some("shard"), "a/b"), "shard a/b");
    }

    fn head(target: &str, hosts: &[&str]) -> Parts {
        let hosts = hosts.iter().fold(Request::put(target), |request, host| request.header("host", *host));
        hosts.body(()).unwrap().into_parts().0
    }

    #[test]
    fn ambiguous_host_is_not_local() {
        assert!(is_local(&head("/state", &["localhost:80"])));
        for (target, hosts) in [
            ("/state", &["localhost", "evil.example"][..]),
            ("/state", &["localhost", "localhost"]),
            ("http://evil.example/state", &["localhost"]),
            ("/state", &[]),
        ] {
            assert!(!is_local(&head(target, hosts)), "{target} {hosts:?}");
        }
    }

    fn chaos(words: &str) -> ControlCommand {
        ControlCommand::Chaos("eu-west-1".to_owned(), words.split(' ').map(str::to_owned).collect())
    }

    fn put_empty(key: &str) -> ControlCommand {
        ControlCommand::Put(RecordName::new(None, key.to_owned()), "{}".to_owned())
    }

    fn is_mute(world: &DevWorld) -> bool {
        world.aws.topics.standing(&world.regions[0].topic).faults.mute
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn control_endpoint_obeys_only_local_commands() {
        let mut world = DevWorld::start(Ports::Ephemeral, None, AccessMode::Enforce).await.unwrap();
        world.ingest().await.unwrap();
        let control = world.control;
        assert_eq!(ask(control, &chaos("slow 5s")).await.unwrap(), "eu-west-1: slow 5s");
        assert_eq!(world.region(0).knobs().mode, Mode::Slow(Duration::from_secs(5)));
        assert!(ask(control, &chaos("mute on")).await.is_ok() && is_mute(&world));
        assert!(ask(control, &chaos("reset")).await.is_ok() && !is_mute(&world));
        assert_eq!(world.region(0).knobs().mode, Mode::Healthy);
        let refused = ask(control, &chaos("explode")).await;
        assert!(matches!(refused, Err(ControlError::Refused(line)) if line.contains("unknown order")));

        let put = ask(control, &put_empty("shard/a b")).await.unwrap();
        assert!(put.starts_with("shard a b is at version "), "{put}");
        let put = ask(control, &put_empty("robot/x")).await;
        assert!(matches!(put, Err(ControlError::Refused(line)) if line.contains("the catalogue refused")));
        let state: Value = serde_json::from_str(&ask(control, &ControlCommand::State).await.unwrap()).unwrap();
        assert_eq!((&state["records"]["shard"], &state["regions"][0]["name"]), (&json!(9), &json!("eu-west-1")));

        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        for (name, value) in [
            ("origin", "http://evil.example"),
            ("sec-fetch-site", "cross-site"),
            ("host", "evil.example"),
            ("host", "localhost:80:80"),
            ("host", "127.0.0.1:80.evil.example"),
        ] {
            let url = format!("http://{}/records/tenant/tenant-1", world.control);
            let response = client.put(url).header(name, value).body("{}").send().await.unwrap();
            assert_eq!(response.status(), 403, "{name}: {value}");
        }
        let url = format!("http://{}/state", world.control);
        let named = client.get(url).header("host", "dev.localhost:8730").send().await.unwrap();
        assert_eq!(named.status(), 200, "a loopback name, as for every port");
        world.stop().await;
    }
}
