//! Owns the fixture of the tests on the wire: a world and a sidecar in the test's own process, on
//! free ports, and a caller who knows neither.
//!
//! Before it: a test says what differs from the defaults. After it: the test asks, counts attempts, and
//! turns the world's switches. Invariant: nothing outlives a stage that was dropped; what a stage
//! knows of the sidecar it read from the wire, or from what regions saw.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use nearside::app::{self, App, Overrides};
use nearside::model::time::Clock;
use nearside_lab::chaos_server::chaos::Mode;

use crate::world::{self, World};

/// Longest wait for a condition: far beyond what it takes, so that it only ends a test that has
/// failed.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Between two looks at a condition.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Interval of the regions' heartbeats.
const HEARTBEAT: Duration = Duration::from_millis(250);
/// Longest wait of a caller for its answer.
const ANSWER_WAIT: Duration = Duration::from_secs(60);

/// Routes of the world's paths, as an operator would write them.
const ROUTES: &str = r#"
[[service.route]]
path = "/v1/contexts/{key}"
records = ["context:{key}"]

[[service.route]]
path = "/v1/contexts/{key}/{view}"
records = ["context:{key}"]

[[service.route]]
path = "/v1/pairs/{left}/{right}"
records = ["context:{left}", "context:{right}"]
"#;

/// A world, and a sidecar that is configured for it.
pub(crate) struct Stage {
    /// World behind the sidecar.
    pub(crate) world: World,
    /// The sidecar.
    pub(crate) app: App,
    /// Their time: goes with tokio's, and leaps with [`Clock::suspend`].
    pub(crate) clock: Clock,
    http: reqwest::Client,
}

/// Options of a stage.
pub(crate) struct Builder {
    world: world::Builder,
    settings: BTreeMap<String, String>,
}

/// Answer to a caller.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Stage {
    /// Three healthy regions without latency or lag and a hundred records (`tenant-1`...),
    /// announcements over the world's own SNS and SQS, with heartbeats in such a hurry that a
    /// region is LIVE within half a second.
    pub(crate) fn builder() -> Builder {
        let defaults = [
            ("listen.tcp", r#""127.0.0.1:0""#),
            ("admin.listen", r#""127.0.0.1:0""#),
            ("announcements.transport", r#""sqs""#),
            ("drain.linger", r#""0s""#),
            // Nothing is asked but by callers; a test that wants audits says so.
            ("freshness.audit_period", r#""0s""#),
            ("drain.deadline", r#""5s""#),
        ];
        let settings = defaults.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let world = World::builder().records(100).heartbeat(HEARTBEAT);
        Builder { world, settings }
    }

    /// The stage that most tests want: [`Stage::builder`] without announcements, so that no fill is
    /// anybody's but the callers'.
    pub(crate) fn quiet() -> Builder {
        Self::builder().set("announcements.transport", r#""off""#)
    }

    /// `http://127.0.0.1:PORT/path` at the sidecar.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.app.tcp.expect("a stage listens on TCP"))
    }

    /// A request to the sidecar, to be completed by the test and given to [`Stage::send`].
    pub(crate) fn request(&self, method: http::Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, self.url(path))
    }

    /// One GET, read to its end.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.request(http::Method::GET, path)).await
    }

    /// As [`Stage::get`], for a test that counts failures.
    pub(crate) async fn try_get(&self, path: &str) -> Result<Answer, reqwest::Error> {
        Answer::read(self.request(http::Method::GET, path)).await
    }

    /// One request, read to its end. Panics when the sidecar gives no complete answer: it always
    /// must.
    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        Answer::read(request).await.expect("a complete answer")
    }

    /// Number of requests for `path` that each region saw.
    pub(crate) fn attempts(&self, path: &str) -> Vec<u64> {
        self.world.regions.iter().map(|region| region.traffic.to(path)).collect()
    }

    /// As [`Stage::attempts`], all regions together.
    pub(crate) fn attempts_in_all(&self, path: &str) -> u64 {
        self.attempts(path).iter().sum()
    }

    /// Puts the region at `index` into `mode`.
    pub(crate) async fn set(&self, index: usize, mode: Mode) {
        self.world.region(index).set(mode).await;
    }

    /// Puts every region into `mode`.
    pub(crate) async fn set_all(&self, mode: Mode) {
        for region in self.world.regions.iter() {
            region.set(mode).await;
        }
    }

    /// Resolves once every fill and all its attempts have ended.
    pub(crate) async fn idle(&self) {
        until("every fill to end", || !self.app.sidecar.fill.shared.tasks.running().contains_key("fill")).await;
    }

    /// Resolves once the subscriptions of all regions are LIVE.
    pub(crate) async fn live(&self) {
        let everyone = self.world.regions.len() as u32;
        let freshness = &self.app.sidecar.fill.shared.freshness;
        until("every region to be LIVE", || {
            freshness.region_views().live(self.clock.now()).0.count_ones() == everyone
        })
        .await;
    }

    /// Stops the sidecar, then the world.
    pub(crate) async fn stop(self) {
        self.app.stop().await;
        self.world.stop(Duration::from_secs(2)).await;
    }
}

impl Builder {
    /// Changes the world.
    #[must_use]
    pub(crate) fn world(mut self, change: impl FnOnce(world::Builder) -> world::Builder) -> Self {
        self.world = change(self.world);
        self
    }

    /// Writes a setting as the configuration file would: `.set("race.deadline", r#""500ms""#)`.
    #[must_use]
    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Starts both.
    pub(crate) async fn start(self) -> Stage {
        let clock = Clock::simulated(Clock::System.wall());
        let world = self.world.clone().clock(clock.clone()).start().await.unwrap();
        let text = self.text(&world);
        let config = crate::program::read(&text);
        let instead = Overrides { clock: clock.clone(), ..Overrides::default() };
        let app = app::start_with(config, instead).await.unwrap();
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tls_certs_only([])
            .timeout(ANSWER_WAIT)
            .build()
            .unwrap();
        Stage { world, app, clock, http }
    }

    /// The sidecar's configuration file.
    fn text(&self, world: &World) -> String {
        let mut settings = self.settings.clone();
        if settings["announcements.transport"] != r#""off""# {
            let base = format!("\"{}\"", world.aws.base);
            settings.insert("announcements.endpoint_url".to_owned(), base.clone());
            settings.insert("announcements.insecure_sns_signer".to_owned(), base);
        }
        let mut text = String::new();
        for (name, value) in settings {
            writeln!(text, "{name} = {value}").unwrap();
        }
        text.push_str("\n[service]\nname = \"contexts\"\n");
        for region in world.regions.iter() {
            let (name, url, topic) = (&region.name, region.url(), region.publisher.topic());
            writeln!(text, "\n[[service.region]]\nname = \"{name}\"\nurl = \"{url}\"\ntopic = \"{topic}\"").unwrap();
        }
        text + ROUTES
    }
}

impl Answer {
    async fn read(request: reqwest::RequestBuilder) -> Result<Self, reqwest::Error> {
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Self { status, headers, body: response.bytes().await? })
    }

    /// A header's value; empty when there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Our member of `Cache-Status`.
    pub(crate) fn label(&self) -> &str {
        self.header("cache-status")
    }

    /// One parameter of [`Answer::label`]: `Some("")` for one without a value.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let parts = self.label().split(';').skip(1).map(str::trim);
        let mut found = parts.map(|part| part.split_once('=').unwrap_or((part, "")));
        found.find(|(found, _)| *found == name).map(|(_, value)| value.trim_matches('"'))
    }

    /// The version that it states.
    pub(crate) fn version(&self) -> Option<u64> {
        self.header("x-record-version").parse().ok()
    }

    /// Its body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Waits until `test` holds; panics after [`TIMEOUT`].
pub(crate) async fn until(what: &str, mut test: impl FnMut() -> bool) {
    let looking = async {
        while !test() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    in_time(what, looking).await;
}

/// Awaits `future`; panics after [`TIMEOUT`].
pub(crate) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future).await.unwrap_or_else(|_| panic!("waited {TIMEOUT:?} for {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stage_counts_attempts_and_stops_cleanly() {
        let stage = Stage::builder().start().await;
        stage.live().await;
        let (first, again) = (stage.get("/v1/contexts/tenant-1").await, stage.get("/v1/contexts/tenant-1").await);
        assert_eq!((first.status, first.version(), first.parameter("fwd")), (200, Some(1), Some("uri-miss")));
        assert_eq!((again.parameter("hit"), &again.body), (Some(""), &first.body));
        assert_eq!(again.json()["key"], "tenant-1");
        stage.idle().await;
        assert_eq!(stage.attempts("/v1/contexts/tenant-1"), [1, 1, 1]);
        let tcp = stage.app.tcp.unwrap();
        stage.stop().await;
        assert!(tokio::net::TcpStream::connect(tcp).await.is_err());
    }
}
