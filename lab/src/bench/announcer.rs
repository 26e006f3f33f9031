//! The topics behind a sidecar with live subscriptions: SNS and SQS on this machine, and the
//! publishers that announce on them. The harness starts this as a process of its own, from the same
//! executable, so that its signing and its queues are not part of what is measured. Each change is
//! announced once in each region and numbered without gaps, and the announced records are never the
//! ones that requests ask for.
//!
//! Signing takes half a millisecond of the core that the load runs on, so announcements that are
//! sent during a measurement are signed beforehand. An old Timestamp is no reason to drop an
//! announcement (R13); freshness is proved by the heartbeats, which are signed when they are sent.
//!
//! The orders, each of them a GET:
//!
//! - `/bench/endpoint` says where SNS and SQS are.
//! - `/bench/welcome` sends a heartbeat on every topic once each of them has a subscription, and
//!   says whether it did.
//! - `/bench/sign/N` signs ahead: some of the announcements still missing to N. It says how many
//!   are ready.
//! - `/bench/rate/N` announces N times a second, summed over all regions.
//! - `/bench/published` says how many announcements have been sent.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use nearside::model::time::{Clock, Wall};
use nearside::tasks::Tasks;
use parking_lot::{Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::fetch;
use super::host::Host;
use super::process::{self, Running};
use super::regions::ORDERS;
use super::subject::SubjectError;
use crate::aws::Aws;
use crate::aws::publisher::{Ahead, RecordChange, TopicPublisher};
use crate::aws::queue::ACCOUNT;
use crate::chaos_server::port::{self, Port};
use crate::limits;
use crate::names::{LabError, REGION_NAMES, TOPIC};

/// Interval between looks at the number of announcements due.
const STEP: Duration = Duration::from_millis(5);

#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The port for orders is taken; another port helps.
    #[error("no orders can be taken: {0}")]
    Orders(#[from] io::Error),
}

/// The emulator, and what announces on its topics.
struct Publishing {
    clock: Clock,
    aws: Aws,
    /// Publishers in the order of [`REGION_NAMES`].
    publishers: Vec<TopicPublisher>,
}

impl Publishing {
    fn start(regions: usize, tasks: &Tasks) -> Result<Self, LabError> {
        let clock = Clock::System;
        let aws = Aws::start(Port::hold_for(0, "the AWS endpoint")?, &clock, tasks)?;
        let publishers = REGION_NAMES
            .iter()
            .take(regions)
            .map(|name| {
                // A new emulator has room for these topics, so creating them cannot fail.
                let topic = aws.topics.create(name, TOPIC).unwrap_or_default();
                TopicPublisher::new(format!("{name}/bench"), topic, aws.topics.clone(), clock.clone())
            })
            .collect();
        Ok(Self { clock, aws, publishers })
    }

    /// Nothing is announced but by this process, so everything until a moment ago is.
    fn heartbeat(&self) {
        let through = Wall::from_millis(self.clock.wall().as_millis().saturating_sub(1));
        self.publishers.iter().for_each(|publisher| publisher.heartbeat(through));
    }
}

/// Serves the topics of this many regions and announces as ordered on `orders`, until the process
/// ends.
pub(crate) async fn serve(regions: usize, orders: SocketAddr) -> Result<Infallible, ServeError> {
    let tasks = Tasks::new();
    let announcing = Arc::new(Publishing::start(regions, &tasks)?);
    let listener = TcpListener::bind(orders).await?;
    let rate = watch::Sender::new(0);
    let wanted = rate.subscribe();
    let stock = Arc::new(Stock::default());
    let desk = Desk { announcing: announcing.clone(), rate: Arc::new(rate), stock: stock.clone() };
    let answering = tasks.clone();
    tasks.spawn("orders", async move {
        port::serve(listener, answering, "order", move |request| desk.clone().answer(request)).await;
    });
    Ok(announce(&announcing, &stock, wanted).await)
}

/// Announces changes at the wanted rate, and heartbeats, for ever.
async fn announce(announcing: &Publishing, stock: &Stock, mut wanted: watch::Receiver<u32>) -> Infallible {
    let clock = &announcing.clock;
    let mut steps = tokio::time::interval(STEP);
    steps.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut beats = tokio::time::interval(limits::HEARTBEAT_EVERY);
    let (mut began, mut rate, mut made) = (clock.now(), 0, 0);
    loop {
        tokio::select! {
            _ = beats.tick() => announcing.heartbeat(),
            _ = steps.tick() => {
                if wanted.has_changed().unwrap_or(false) {
                    (began, rate, made) = (clock.now(), *wanted.borrow_and_update(), 0);
                }
                let due = due(clock.now() - began, rate, announcing.publishers.len());
                while made < due {
                    stock.publish(announcing);
                    made += 1;
                }
            }
        }
    }
}

/// Changes whose announcements are already signed, the next one first.
#[derive(Debug, Default)]
struct Stock {
    signed: Mutex<Signed>,
}

#[derive(Debug, Default)]
struct Signed {
    /// Each change holds one announcement per region, in the order of the regions.
    changes: VecDeque<Vec<Ahead>>,
    /// The number of the latest signed change, which is also its version.
    last: u64,
}

impl Stock {
    /// Has every region announce one change: the next signed one, or one that is signed now.
    fn publish(&self, announcing: &Publishing) {
        let mut signed = self.locked();
        if signed.changes.is_empty() {
            signed.sign(announcing);
        }
        let announcements = signed.changes.pop_front().unwrap_or_default();
        for (publisher, ahead) in announcing.publishers.iter().zip(&announcements) {
            // Nobody else announces with these publishers, so their numbers are the next ones.
            publisher.publish_ahead(ahead);
        }
    }

    /// Signs some of what is missing to `wanted` changes; returns how many there are now.
    fn fill(&self, announcing: &Publishing, wanted: usize) -> usize {
        let (most, at_once) = limits::BENCH_SIGNED;
        let mut signed = self.locked();
        for _ in signed.changes.len()..wanted.min(most).min(signed.changes.len() + at_once) {
            signed.sign(announcing);
        }
        signed.changes.len()
    }

    fn locked(&self) -> MutexGuard<'_, Signed> {
        // A panic while the lock is held cannot leave the value half-written.
        self.signed.lock()
    }
}

impl Signed {
    fn sign(&mut self, announcing: &Publishing) {
        self.last += 1;
        let between = self.changes.len() as u64;
        let key = format!("other-{}", self.last % limits::BENCH_ANNOUNCED);
        let change = RecordChange { record_type: "context", key: &key, version: self.last, is_deleted: false };
        let ahead = announcing.publishers.iter().map(|publisher| publisher.sign_ahead(between, change));
        self.changes.push_back(ahead.collect());
    }
}

/// Returns the number of changes due after `span`, if every region announces each of them.
fn due(span: Duration, per_second: u32, regions: usize) -> u64 {
    (span.as_secs_f64() * f64::from(per_second) / regions.max(1) as f64) as u64
}

#[derive(Clone)]
struct Desk {
    announcing: Arc<Publishing>,
    rate: Arc<watch::Sender<u32>>,
    stock: Arc<Stock>,
}

impl Desk {
    async fn answer(self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let order = request.uri().path().strip_prefix(ORDERS).unwrap_or_default();
        let reported = match order.split_once('/').unwrap_or((order, "")) {
            ("endpoint", _) => self.announcing.aws.base.to_string(),
            ("welcome", _) => self.welcome().to_string(),
            ("rate", rate) => self.rate.send_replace(rate.parse().unwrap_or(0)).to_string(),
            ("sign", wanted) => {
                let regions = self.announcing.publishers.len().max(1);
                let wanted = wanted.parse::<usize>().unwrap_or(0).div_ceil(regions);
                (self.stock.fill(&self.announcing, wanted) * regions).to_string()
            }
            ("published", _) => {
                self.announcing.publishers.iter().map(TopicPublisher::sequence).sum::<u64>().to_string()
            }
            _ => {
                let mut response = Response::new(Full::default());
                *response.status_mut() = StatusCode::NOT_FOUND;
                return response;
            }
        };
        Response::new(Full::from(reported))
    }

    /// Sends a heartbeat on every topic, so that a new subscriber need not wait for the next one;
    /// but not before every topic has a subscription.
    fn welcome(&self) -> bool {
        let topics = &self.announcing.aws.topics;
        let mut publishers = self.announcing.publishers.iter();
        let subscribed = publishers.all(|publisher| topics.standing(publisher.topic()).subscriptions > 0);
        if subscribed {
            self.announcing.heartbeat();
        }
        subscribed
    }
}

/// Topics and endpoint to which a sidecar subscribes.
#[derive(Clone, Debug)]
pub(crate) struct Announcing {
    pub orders: SocketAddr,
    /// The base URL of SNS and SQS: `http://127.0.0.1:PORT`
    pub endpoint: String,
    /// ARNs, one topic per region.
    pub topics: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Announcer {
    pub announcing: Announcing,
    _process: Running,
}

impl Announcer {
    /// Starts it on the harness's core, because it is not what is measured.
    pub(crate) fn start(host: &Host, regions: usize) -> Result<Self, SubjectError> {
        let folder = host.folder("announcer")?;
        let orders = process::free_port()?;
        let arguments = ["bench", "announcer", "--regions", &regions.to_string(), &orders.to_string()];
        let mut process = process::start(&host.harness, arguments, host.own_core, &folder)?;
        let endpoint = process.wait_until(|| fetch::page(orders, &format!("{ORDERS}endpoint")).ok())?;
        let topics =
            REGION_NAMES.iter().take(regions).map(|name| format!("arn:aws:sns:{name}:{ACCOUNT}:{TOPIC}")).collect();
        Ok(Self { announcing: Announcing { orders, endpoint, topics }, _process: process })
    }

    /// Signs ahead until `wanted` announcements are ready, or as many as the limit allows.
    pub(crate) fn sign(&self, wanted: u64) -> Result<(), SubjectError> {
        let mut ready = 0;
        while ready < wanted {
            let now = self.announcing.order(&format!("sign/{wanted}"))?.parse().unwrap_or(0);
            if now <= ready {
                break;
            }
            ready = now;
        }
        Ok(())
    }

    /// From now on, announces this many times a second, summed over all regions.
    pub(crate) fn rate(&self, per_second: u32) -> Result<(), SubjectError> {
        self.announcing.order(&format!("rate/{per_second}")).map(drop)
    }

    /// Returns the number of announcements sent, without heartbeats.
    pub(crate) fn published(&self) -> Result<u64, SubjectError> {
        Ok(self.announcing.order("published")?.parse().unwrap_or(0))
    }
}

impl Announcing {
    /// Returns true if all topics have a subscription; if so, each topic got a heartbeat.
    pub(crate) fn welcomes(&self) -> bool {
        self.order("welcome").is_ok_and(|reported| reported == "true")
    }

    fn order(&self, order: &str) -> Result<String, SubjectError> {
        fetch::page(self.orders, &format!("{ORDERS}{order}"))
            .map_err(|error| SubjectError::Unable { program: "the announcer".to_owned(), why: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_paced_by_total_announcement_rate() {
        assert_eq!(due(Duration::from_secs(2), 500, 1), 1000);
        assert_eq!(due(Duration::from_secs(3), 500, 3), 500);
        assert_eq!(due(Duration::from_secs(3), 0, 3), 0);
    }
}
