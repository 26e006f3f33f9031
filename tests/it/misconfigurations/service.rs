//! A service in several regions that changes its records and announces it, as well or as badly as a
//! test wants.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use nearside::model::time::{Clock, Wall};
use nearside::tasks::Tasks;
use nearside_lab::aws::Aws;
use nearside_lab::aws::envelope_signer::stamp;
use nearside_lab::chaos_server::port::{self, Port};
use serde_json::{Value, json};

/// Behaviour of a region, in what differs from a healthy one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Behaviour {
    /// It has nothing under its paths.
    pub(crate) status: Option<u16>,
    /// A request without this header is answered with this status.
    pub(crate) demands: Option<(&'static str, u16)>,
    /// Headers besides its own.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// It states no version.
    pub(crate) without_version: bool,
    /// The lead of its versions over the others': it is another environment's.
    pub(crate) versions_ahead: usize,
    /// Lead of its clock, seconds.
    pub(crate) ahead_s: i64,
    /// It ingests this late.
    pub(crate) lag: Duration,
    /// It answers this late.
    pub(crate) slow: Duration,
    /// Its replies are no HTTP.
    pub(crate) garbage: bool,
}

/// The changes of one record: when each version came to be.
type Records = Arc<Mutex<HashMap<String, Vec<Wall>>>>;

/// A running service.
pub(crate) struct Service {
    ports: Vec<Port>,
    tasks: Tasks,
    records: Records,
    behaviours: Vec<Behaviour>,
}

impl Service {
    pub(crate) fn start(behaviours: &[Behaviour]) -> Self {
        let (tasks, records) = (Tasks::new(), Records::default());
        let ports: Vec<Port> = behaviours.iter().map(|_| Port::hold(0).unwrap()).collect();
        for (port, behaviour) in ports.iter().zip(behaviours) {
            let listener = port.listen().unwrap();
            if behaviour.garbage {
                tasks.spawn("garbage", garble(listener));
                continue;
            }
            let (records, behaviour) = (records.clone(), *behaviour);
            let serving = port::serve(listener, tasks.clone(), "connection", move |request| {
                answer(request, records.clone(), behaviour)
            });
            tasks.spawn("service", serving);
        }
        Self { ports, tasks, records, behaviours: behaviours.to_vec() }
    }

    pub(crate) fn url(&self, region: usize) -> String {
        format!("http://{}", self.ports[region].address())
    }

    /// A new version of `key`, which nobody announces.
    pub(crate) fn put(&self, key: &str) -> usize {
        let mut records = self.records.lock().unwrap();
        let versions = records.entry(key.to_owned()).or_default();
        versions.push(Clock::System.wall());
        versions.len()
    }

    /// A new version of `key`, announced by each region as it ingests it.
    pub(crate) fn change(&self, aws: &Aws, key: &str, publishers: &Arc<Publishers>) {
        let version = self.put(key);
        for (region, behaviour) in self.behaviours.iter().enumerate() {
            let (topics, publishers, lag) = (aws.topics.clone(), publishers.clone(), behaviour.lag);
            let honest =
                json!({ "recordType": "context", "key": key, "version": version.to_string(), "kind": "CHANGED" });
            self.tasks.spawn("ingest", async move {
                tokio::time::sleep(lag).await;
                publishers.change(region, honest, |topic, text| topics.announce(topic, text));
            });
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.tasks.stopping().cancel();
    }
}

/// The publishers of all regions, one each.
pub(crate) struct Publishers {
    /// The topic that each publishes on.
    pub(crate) topics: Vec<String>,
    /// Content of each one's announcement of a change, and of its heartbeat.
    pub(crate) says: fn(usize, Value) -> Option<Value>,
    pub(crate) beats: fn(usize, Value) -> Option<Value>,
    numbers: Mutex<Vec<u64>>,
}

impl Publishers {
    pub(crate) fn new(
        topics: Vec<String>,
        says: fn(usize, Value) -> Option<Value>,
        beats: fn(usize, Value) -> Option<Value>,
    ) -> Self {
        let numbers = Mutex::new(vec![0; topics.len()]);
        Self { topics, says, beats, numbers }
    }

    fn change(&self, region: usize, mut says: Value, publish: impl Fn(&str, &str)) {
        // Numbers are given in the order of publication.
        let mut numbers = self.numbers.lock().unwrap();
        numbers[region] += 1;
        says["publisher"] = json!(format!("publisher-{region}"));
        says["sequence"] = json!(numbers[region].to_string());
        says["ingestedAt"] = json!(stamp(Clock::System.wall()));
        if let Some(says) = (self.says)(region, says) {
            publish(&self.topics[region], &text(&says));
        }
    }

    /// A heartbeat of each.
    pub(crate) fn beat(&self, aws: &Aws, lags: impl Iterator<Item = Duration>) {
        let numbers = self.numbers.lock().unwrap();
        for (region, lag) in lags.enumerate() {
            let wall = Clock::System.wall().as_millis().saturating_sub(lag.as_millis() as u64);
            let says = json!({
                "kind": "HEARTBEAT", "publisher": format!("publisher-{region}"), "sequence": numbers[region].to_string(),
                "ingestedThrough": stamp(Wall::from_millis(wall)),
            });
            if let Some(says) = (self.beats)(region, says) {
                aws.topics.announce(&self.topics[region], &text(&says));
            }
        }
    }
}

/// A JSON string stands for its content, so that a test can publish what is no JSON.
fn text(says: &Value) -> String {
    says.as_str().map_or_else(|| says.to_string(), str::to_owned)
}

async fn garble(listener: tokio::net::TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"220 mail.example.com ESMTP\r\n\r\n").await;
    }
}

async fn answer(request: Request<Incoming>, records: Records, behaviour: Behaviour) -> Response<Full<Bytes>> {
    tokio::time::sleep(behaviour.slow).await;
    let now = Clock::System.wall();
    let date = Wall::from_millis((now.as_millis() as i64 + behaviour.ahead_s * 1_000) as u64).to_system_time();
    let mut reply = Response::builder().header("date", httpdate::fmt_http_date(date));
    for (name, value) in behaviour.headers {
        reply = reply.header(*name, *value);
    }
    let demanded = behaviour.demands.filter(|(name, _)| !request.headers().contains_key(*name));
    let refused = behaviour.status.or(demanded.map(|(_, status)| status));
    let key = request.uri().path().split('/').nth(3).unwrap_or_default();
    let version = records
        .lock()
        .unwrap()
        .get(key)
        .map_or(0, |versions| versions.iter().filter(|at| now.since(**at) >= behaviour.lag).count());
    if let Some(status) = refused.or((version == 0).then_some(404)) {
        return reply.status(StatusCode::from_u16(status).unwrap()).body(Full::default()).unwrap();
    }
    let version = version + behaviour.versions_ahead;
    if !behaviour.without_version {
        reply = reply.header("x-record-version", version);
    }
    reply.body(Full::from(format!("{{\"key\":\"{key}\",\"version\":{version}}}"))).unwrap()
}
