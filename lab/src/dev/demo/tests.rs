//! Tests the story with a stand-in sidecar, so they check the story's measuring and not the
//! sidecar.
//!
//! The stand-in races the regions, keeps the newest version, and hears announcements through the
//! real SDKs. `careless` lets the first answer win whatever its version, to show that the story
//! notices.

use std::collections::HashMap;
use std::sync::Arc;

use aws_sdk_sqs::types::QueueAttributeName;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use nearside::model::time::Clock;
use nearside::tasks::{TaskGroup, Tasks};
use parking_lot::Mutex;

use super::*;
use crate::chaos_server::port;
use crate::issuer::Issuer;

#[derive(Clone)]
struct StandIn {
    careless: bool,
    regions: Vec<(String, String)>,
    http: reqwest::Client,
    issuer: Arc<Issuer>,
    tasks: Tasks,
    kept: Arc<Mutex<Kept>>,
}

/// Outcome of a race.
enum Raced {
    Won(String, u64, Bytes),
    Refused,
    Lost,
}

#[derive(Default)]
struct Kept {
    /// Version of the grants: a node that is asked with it looks for them first.
    grants: u64,
    /// Number of their announcements: what was asked for before one is not stored after it.
    announced: usize,
    floors: HashMap<String, u64>,
    entries: HashMap<String, (u64, Bytes)>,
}

impl StandIn {
    async fn start(config: String, careless: bool) -> Result<DemoSidecar, String> {
        let config: toml::Table = config.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let regions = config["service"]["region"].as_array().unwrap();
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let stand_in = Self {
            careless,
            regions: regions.iter().map(|region| (text(region, "name"), text(region, "url"))).collect(),
            http,
            issuer: Arc::new(issuer_of(&config["service"]["route"][0]["credentials"])),
            tasks: Tasks::new(),
            kept: Arc::default(),
        };
        let endpoint = text(&config["announcements"], "endpoint_url");
        for region in regions {
            stand_in.listen(&endpoint, text(region, "name"), text(region, "topic")).await;
        }
        let (tcp, admin) = (Port::hold(0).unwrap(), Port::hold(0).unwrap());
        let tasks = stand_in.tasks.clone();
        let answering = stand_in.clone();
        let serving = port::serve(tcp.listen().unwrap(), tasks.clone(), "reader", move |request| {
            answering.clone().answer(request)
        });
        tasks.spawn("tcp", serving);
        tasks.spawn(
            "admin",
            port::serve(admin.listen().unwrap(), tasks.clone(), "operator", async |_| {
                Response::new(Full::from(Bytes::from_static(b"{\"state\":\"fresh\"}")))
            }),
        );
        let stop = async move { drop(tasks.drain(Duration::from_secs(2)).await) };
        Ok(DemoSidecar { tcp: tcp.address(), admin: admin.address(), stop: Box::pin(stop) })
    }

    async fn listen(&self, endpoint: &str, region: String, topic: String) {
        use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
        let keys = Credentials::new("test", "test", None, None, "test");
        let version = BehaviorVersion::v2026_01_12();
        let sqs = aws_sdk_sqs::Config::builder().behavior_version(version).region(Region::new(region.clone()));
        let sqs =
            aws_sdk_sqs::Client::from_conf(sqs.endpoint_url(endpoint).credentials_provider(keys.clone()).build());
        let sns = aws_sdk_sns::Config::builder().behavior_version(version).region(Region::new(region));
        let sns = aws_sdk_sns::Client::from_conf(sns.endpoint_url(endpoint).credentials_provider(keys).build());
        let policy = format!(
            r#"{{"Statement":[{{"Effect":"Allow","Action":"sqs:SendMessage",
            "Condition":{{"ArnEquals":{{"aws:SourceArn":"{topic}"}}}}}}]}}"#
        );
        let queue = sqs.create_queue().queue_name("stand-in").attributes(QueueAttributeName::Policy, policy);
        let url = queue.send().await.unwrap().queue_url.unwrap();
        let arn = topic.replace(":sns:", ":sqs:").replace(crate::names::TOPIC, "stand-in");
        sns.subscribe().topic_arn(topic).protocol("sqs").endpoint(arn).send().await.unwrap();
        let (stand_in, stopping) = (self.clone(), self.tasks.stopping());
        self.tasks.spawn("poll", async move {
            stopping.run_until_cancelled(async move { while stand_in.poll(&sqs, &url).await.is_some() {} }).await
        });
    }

    async fn poll(&self, sqs: &aws_sdk_sqs::Client, url: &str) -> Option<()> {
        let receive = sqs.receive_message().queue_url(url).max_number_of_messages(10).wait_time_seconds(20);
        for one in receive.send().await.ok()?.messages.unwrap_or_default() {
            let envelope: serde_json::Value = serde_json::from_str(one.body()?).ok()?;
            let says: serde_json::Value = serde_json::from_str(envelope["Message"].as_str()?).ok()?;
            let named = (says["recordType"].as_str(), says["key"].as_str(), says["version"].as_str());
            if let (Some(view), Some(key), Some(version)) = named {
                let mut kept = self.kept.lock();
                if view == "_grants" {
                    kept.entries.clear();
                    kept.announced += 1;
                    kept.grants = kept.grants.max(version.parse().ok()?);
                }
                let floor = kept.floors.entry(format!("/v1/contexts/{key}/{view}")).or_default();
                *floor = (*floor).max(version.parse().ok()?);
            }
            sqs.delete_message().queue_url(url).receipt_handle(one.receipt_handle()?).send().await.ok()?;
        }
        Some(())
    }

    async fn answer(self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        let (floor, stored, announced) = {
            let kept = self.kept.lock();
            (kept.floors.get(&path).copied().unwrap_or(0), kept.entries.get(&path).cloned(), kept.announced)
        };
        match stored {
            Some((version, body)) if version >= floor => reply(200, version, body, "nearside; hit".into()),
            stored => match self.race(&path, if self.careless { 0 } else { floor }).await {
                Raced::Won(region, version, body) => {
                    let mut kept = self.kept.lock();
                    if kept.announced == announced {
                        kept.entries.insert(path, (version, body.clone()));
                    }
                    reply(200, version, body, format!("nearside; fwd=miss; fwd-status=200; detail={region}"))
                }
                Raced::Refused => reply(403, 0, Bytes::new(), "nearside; fwd=miss".into()),
                Raced::Lost => stored.map_or_else(
                    || reply(504, 0, Bytes::new(), "nearside; fwd=miss".into()),
                    |(version, body)| reply(200, version, body, "nearside; fwd=stale; detail=stale-if-error".into()),
                ),
            },
        }
    }

    async fn race(&self, path: &str, floor: u64) -> Raced {
        let mut attempts = TaskGroup::new();
        for (name, url) in self.regions.clone() {
            let token =
                self.issuer.token("jira", "https://regions.dev.invalid", Clock::System.wall().as_millis() / 1_000);
            let asked = self.http.get(format!("{url}{path}")).bearer_auth(token);
            let asked = asked.header("x-grants-version", self.kept.lock().grants);
            let asked = asked.timeout(Duration::from_secs(2)).send();
            attempts.start(async move {
                let response = asked.await.ok()?;
                if response.status() == 403 {
                    return Some(Raced::Refused);
                }
                let response = response.error_for_status().ok()?;
                let version = response.headers().get("x-record-version")?.to_str().ok()?.parse::<u64>().ok()?;
                Some(Raced::Won(name, version, response.bytes().await.ok()?))
            });
        }
        let mut best = Raced::Lost;
        loop {
            match attempts.next().await {
                Some(Some(won @ Raced::Won(_, version, _))) if version >= floor => {
                    best = won;
                    break;
                }
                Some(Some(Raced::Refused)) => best = Raced::Refused,
                Some(_) => {}
                None => break,
            }
        }
        self.tasks.spawn("drain", async move { while attempts.next().await.is_some() {} });
        best
    }
}

/// The issuer whose key lies where a sidecar's credentials say.
fn issuer_of(credentials: &toml::Value) -> Issuer {
    let pem = std::fs::read_to_string(text(credentials, "key_file")).unwrap();
    Issuer::of_pem(&text(credentials, "iss"), &text(credentials, "kid"), &pem).unwrap()
}

fn text(table: &toml::Value, name: &str) -> String {
    table[name].as_str().unwrap().to_owned()
}

fn reply(status: u16, version: u64, body: Bytes, label: String) -> Response<Full<Bytes>> {
    let response =
        Response::builder().status(status).header("cache-status", label).header("x-record-version", version);
    response.body(Full::from(body)).unwrap()
}

const QUICK: DevOptions = DevOptions {
    ports: Ports::Ephemeral,
    port: None,
    data: None,
    story: true,
    exit_after_demo: true,
    access: AccessMode::Enforce,
    pace: Duration::ZERO,
    terminal: false,
    program: Cow::Borrowed("nearside"),
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn story_measures_every_step() {
    let mut out = Vec::new();
    let story = run(QUICK, &mut out, async |config| StandIn::start(config, false).await, std::future::pending())
        .await
        .unwrap()
        .unwrap();
    let text = String::from_utf8(out).unwrap();
    println!("{text}");
    assert!(text.lines().all(|line| line.chars().count() <= crate::dev::screen::WIDTH), "{text}");

    assert!(story.miss.seen.is_good());
    assert!(story.miss.winner.is_some());
    assert!(story.miss.attempts.iter().all(|attempt| attempt.version.is_some()), "every region was asked");
    assert!(story.miss.seen.took >= Duration::from_millis(15), "no sooner than the nearest region answers");
    assert_eq!((story.hits.asked, story.hits.hits, story.hits.failed), (2_000, 2_000, 0));
    assert!(story.hits.spread.p50 > Duration::ZERO && story.hits.spread.p50 <= story.hits.spread.p99);
    assert!(story.change.before < Some(story.change.version), "{:?}", story.change);
    assert!(story.change.visible >= Duration::from_millis(20), "no sooner than the first region ingested it");
    let arrivals: Vec<_> = story.change.arrivals.iter().map(|(_, after)| after.unwrap()).collect();
    assert!(
        arrivals.iter().zip([20, 60, 150]).all(|(after, lag)| *after >= Duration::from_millis(lag)),
        "{arrivals:?}"
    );
    assert_eq!((story.joined.made, story.joined.others), (100, 0));
    assert!(story.joined.announcements >= 300, "by every region: {:?}", story.joined);
    assert!(story.joined.visible >= Duration::from_millis(20) && story.joined.visible <= story.joined.applied);
    assert_eq!((story.dead_region.asked, story.dead_region.failed), (300, 0));
    assert!(story.dead_region.during.p50 >= Duration::from_millis(70), "no sooner than the second nearest answers");
    assert_eq!((story.lagging.asked, story.lagging.old_served, story.lagging.failed), (40, 0, 0));
    // How often depends on how busy the machine is: a reply may overtake another on its way.
    assert!(story.lagging.answered_first > 0, "{:?}", story.lagging);
    assert!(story.all_down.stored.version < Some(story.all_down.announced), "{:?}", story.all_down);
    assert_eq!(story.all_down.stored.detail(), Some("stale-if-error"));
    assert!(story.all_down.other.is_hit());
    assert_eq!(story.all_down.cold.status, Some(504));
    let access = story.access.unwrap();
    let answers = [&access.anonymous, &access.foreign, &access.own].map(|seen| (seen.status, seen.problem.as_str()));
    assert_eq!(answers, [(Some(401), "no-credential"), (Some(403), "not-granted"), (Some(200), "")]);
    assert_eq!(access.stop.regions.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn story_notices_sidecar_serving_first_reply() {
    let mut out = Vec::new();
    let story = run(QUICK, &mut out, async |config| StandIn::start(config, true).await, std::future::pending())
        .await
        .unwrap()
        .unwrap();
    assert!(story.lagging.answered_first > 0 && story.lagging.old_served > 0, "{:?}", story.lagging);
}

#[tokio::test]
async fn story_stops_and_reports_failed_start() {
    let mut out = Vec::new();
    assert!(
        run(QUICK, &mut out, async |config| StandIn::start(config, false).await, std::future::ready(()))
            .await
            .unwrap()
            .is_none()
    );
    let failed =
        run(QUICK, &mut out, async |_| Err("port 1 is taken".to_owned()), std::future::pending()).await.unwrap_err();
    assert_eq!(failed.to_string(), "the sidecar did not start: port 1 is taken");
}

async fn refuse(config: String) -> Result<DemoSidecar, String> {
    Err(config)
}

#[tokio::test]
async fn requested_port_is_exact_or_refused() {
    let held = Port::hold(0).unwrap();
    let port = held.address().port();
    let listener = held.listen().unwrap();
    let options = DevOptions { port: Some(port), ..QUICK };
    let failed = run(options.clone(), &mut Vec::new(), refuse, std::future::pending()).await.unwrap_err();
    assert!(matches!(failed, DevError::Taken(taken) if taken == port), "{failed}");
    drop((listener, held));
    let failed = run(options, &mut Vec::new(), refuse, std::future::pending()).await.unwrap_err();
    assert!(failed.to_string().contains(&format!("tcp = \"127.0.0.1:{port}\"")), "{failed}");
}
