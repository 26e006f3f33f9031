//! Owns a region process: a read service over its own copy of the records, which announces what it
//! ingested on its topic.
//!
//! Before it: [`super::processes`] starts it; the driver's [`super::feed`] gives it changes. After
//! it: the sidecar asks it; SNS has its announcements. Invariant: a change is served before it is
//! announced; numbers are published in order, each until SNS took it; a heartbeat claims no time
//! that is not announced. It ends with its driver.

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_sns::config::{Credentials, SharedCredentialsProvider};
use http::Request;
use hyper::body::Incoming;
use nearside::model::time::{Clock, Moment, Wall};
use nearside::tasks::Tasks;
use nearside_lab::aws::envelope_signer::stamp;
use nearside_lab::chaos_server::port::{self, Port};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::records::{self, RECORD_TYPE, ScriptedRequest, StoredRecord};

/// Interval of heartbeats: shorter than production's 5 s, as the faults are.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// Timeout of a publication before it is retried.
const PUBLISH_WAIT: Duration = Duration::from_secs(3);
const PUBLISH_AGAIN: Duration = Duration::from_millis(200);

/// Arguments of a region's process.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Place {
    #[arg(long)]
    pub(crate) index: usize,
    /// Port of its listener.
    #[arg(long)]
    pub(crate) port: u16,
    /// The source of truth.
    #[arg(long)]
    pub(crate) feed: SocketAddr,
    /// SNS, as this region reaches it.
    #[arg(long)]
    pub(crate) aws: String,
    #[arg(long)]
    pub(crate) topic: String,
    /// Delay of ingestion, milliseconds.
    #[arg(long)]
    pub(crate) lag: u64,
}

type Records = Arc<RwLock<HashMap<String, u64>>>;

/// Content of a publication.
enum Say {
    Changed { count: u64, key: String, version: u64 },
    Through(u64),
}

/// Runs until the driver is gone.
pub(crate) async fn run(place: Place) -> Result<(), Box<dyn Error>> {
    let tasks = Tasks::new();
    let stream = TcpStream::connect(place.feed).await?;
    let (from, mut to) = stream.into_split();
    to.write_all(format!("hello {}\n", place.index).as_bytes()).await?;
    let (records, dropping) = (Records::default(), Arc::new(AtomicU64::new(0)));
    let (report, reports) = unbounded_channel();
    let (say, sayings) = unbounded_channel();
    tasks.spawn("report", write_reports(to, reports));
    let publisher = Publisher {
        sns: client(&place),
        topic: place.topic.clone(),
        name: format!("region-{}-{}", place.index, std::process::id()),
        sequence: 0,
        through: None,
        dropping: dropping.clone(),
        report: report.clone(),
    };
    tasks.spawn("publisher", publisher.run(sayings));
    let (queue, queued) = unbounded_channel();
    let ingesting = Ingesting { records: records.clone(), say: say.clone(), report: report.clone() };
    tasks.spawn("ingest", ingesting.run(queued, Duration::from_millis(place.lag)));
    let mut lines = BufReader::new(from).lines();
    while let Some(line) = lines.next_line().await? {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["base", key, version] => show(&records, key, version.parse()?),
            ["ready"] => {
                let listener = Port::hold(place.port)?.listen()?;
                let records = records.clone();
                let service = port::serve(listener, tasks.clone(), "connection", move |request| {
                    answer(request, records.clone())
                });
                tasks.spawn("service", service);
                report.send("serving".to_owned())?;
            }
            ["drop", percent] => dropping.store(percent.parse()?, Ordering::Relaxed),
            ["again", count, key, version] => {
                let key = format!("k{key}");
                say.send(Say::Changed { count: count.parse()?, key, version: version.parse()? })?;
            }
            _ => queue.send((Clock::System.now(), line))?,
        }
    }
    Ok(())
}

fn show(records: &Records, key: &str, version: u64) {
    records.write().unwrap_or_else(PoisonError::into_inner).insert(format!("k{key}"), version);
}

async fn answer(request: Request<Incoming>, records: Records) -> http::Response<http_body_util::Full<bytes::Bytes>> {
    let reply = records::read(
        ScriptedRequest::read(request.uri().path()),
        |key| {
            let version = *records.read().unwrap_or_else(PoisonError::into_inner).get(key)?;
            Some(StoredRecord { version, value: Some(format!("{{\"n\":{version}}}").into()) })
        },
        request.headers(),
    );
    let mut response = http::Response::new(http_body_util::Full::new(reply.body));
    *response.status_mut() = reply.status;
    *response.headers_mut() = reply.headers;
    response
}

async fn write_reports(mut to: OwnedWriteHalf, mut reports: UnboundedReceiver<String>) {
    while let Some(line) = reports.recv().await {
        if to.write_all(format!("{line}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Brings changes in, late by the lag, in order.
struct Ingesting {
    records: Records,
    say: UnboundedSender<Say>,
    report: UnboundedSender<String>,
}

impl Ingesting {
    async fn run(self, mut queued: UnboundedReceiver<(Moment, String)>, lag: Duration) {
        while let Some((came, line)) = queued.recv().await {
            tokio::time::sleep((came + lag) - Clock::System.now()).await;
            let words: Vec<&str> = line.split(' ').collect();
            // An error means that this process ends.
            let _ = match words[0] {
                "through" => self.say.send(Say::Through(number(words.get(1)))),
                _ => {
                    let (count, version) = (number(words.get(1)), number(words.get(3)));
                    show(&self.records, words[2], version);
                    let _ = self.report.send(format!("ingested {count}"));
                    self.say.send(Say::Changed { count, key: format!("k{}", words[2]), version })
                }
            };
        }
    }
}

fn number(word: Option<&&str>) -> u64 {
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// One publishing process, with its numbers.
struct Publisher {
    sns: aws_sdk_sns::Client,
    topic: String,
    name: String,
    sequence: u64,
    through: Option<u64>,
    dropping: Arc<AtomicU64>,
    report: UnboundedSender<String>,
}

impl Publisher {
    async fn run(mut self, mut sayings: UnboundedReceiver<Say>) {
        let mut beats = tokio::time::interval(HEARTBEAT);
        beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = beats.tick() => self.heartbeat().await,
                said = sayings.recv() => match said {
                    Some(Say::Changed { count, key, version }) => self.change(count, &key, version).await,
                    Some(Say::Through(wall)) => self.through = Some(wall),
                    None => return,
                },
            }
        }
    }

    async fn change(&mut self, count: u64, key: &str, version: u64) {
        self.sequence += 1;
        if fastrand::u64(0..100) < self.dropping.load(Ordering::Relaxed) {
            let _ = self.report.send(format!("dropped {count}"));
        } else {
            let says = json!({
                "recordType": RECORD_TYPE, "key": key, "version": version.to_string(), "kind": "CHANGED",
                "publisher": self.name, "sequence": self.sequence.to_string(),
                "ingestedAt": stamp(Clock::System.wall()),
            });
            self.publish(&says.to_string()).await;
        }
        let _ = self.report.send(format!("announced {count}"));
    }

    async fn heartbeat(&self) {
        let mut says = json!({
            "kind": "HEARTBEAT", "publisher": self.name, "sequence": self.sequence.to_string(),
        });
        if let Some(through) = self.through {
            says["ingestedThrough"] = stamp(Wall::from_millis(through)).into();
        }
        self.publish(&says.to_string()).await;
    }

    /// Until SNS took it; it may come twice.
    async fn publish(&self, says: &str) {
        while let Err(error) = self.sns.publish().topic_arn(&self.topic).message(says).send().await {
            tracing::warn!(error = ?error, "could not publish");
            tokio::time::sleep(PUBLISH_AGAIN).await;
        }
    }
}

fn client(place: &Place) -> aws_sdk_sns::Client {
    let region = place.topic.split(':').nth(3).unwrap_or("eu-west-1").to_owned();
    let credentials = Credentials::new("test", "test", None, None, "test");
    let timeouts = TimeoutConfig::builder().operation_timeout(PUBLISH_WAIT).build();
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(&place.aws)
        .region(aws_config::Region::new(region))
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts)
        .build();
    aws_sdk_sns::Client::new(&config)
}
