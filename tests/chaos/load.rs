//! Owns the load: readers that come at a fixed rate however long others wait, and writers. Every
//! read is recorded.
//!
//! Before it: [`super::run`] starts it. After it: the sidecar, as applications call it;
//! [`super::feed`] for writes. Invariant: the load does not wait for answers; only when all
//! connections wait are reads held back, and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fastrand::Rng;
use nearside::tasks::Tasks;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::feed::{self, Feed};
use super::history::{At, Read, SECOND, Shown};

/// Requests under way at once.
const IN_FLIGHT: usize = 512;
/// Longest wait for an answer; the regions have 2 s.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(4);

/// Reads and writes a second.
#[derive(Clone, Copy)]
pub(crate) struct Rates {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
}

/// Callers of the sidecar.
pub(crate) struct Load {
    pub(crate) feed: Arc<Feed>,
    /// Counts the sidecar's processes; moves when one is killed.
    pub(crate) life: AtomicU32,
    client: reqwest::Client,
    base: String,
    names: Vec<String>,
    permits: Arc<Semaphore>,
}

impl Load {
    /// Callers of the sidecar at `address`; `names` are its regions'.
    pub(crate) fn new(feed: Arc<Feed>, address: std::net::SocketAddr, names: &[&str]) -> reqwest::Result<Self> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .pool_max_idle_per_host(IN_FLIGHT)
            .timeout(ANSWER_WAIT)
            .build()?;
        let base = format!("http://{address}/v1/contexts/k");
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Ok(Self { feed, life: AtomicU32::new(0), client, base, names, permits: Arc::new(Semaphore::new(IN_FLIGHT)) })
    }

    /// Reads and writes at these rates until `over`.
    pub(crate) async fn run(self: Arc<Self>, tasks: Tasks, seed: u64, rates: Rates, over: CancellationToken) {
        let mut rng = Rng::with_seed(seed);
        let (started, mut reads, mut writes) = (feed::now(), 0, 0);
        let mut ticks = tokio::time::interval(TICK);
        while over.run_until_cancelled(ticks.tick()).await.is_some() {
            while writes < due(started, rates.writes) {
                writes += 1;
                let key = if rng.bool() { self.often(&mut rng) } else { rng.u32(0..self.feed.keys) };
                self.feed.write(key);
            }
            while reads < due(started, rates.reads) {
                reads += 1;
                let key = self.often(&mut rng);
                let Ok(permit) = self.permits.clone().try_acquire_owned() else {
                    self.feed.locked().held_back += 1;
                    continue;
                };
                let load = self.clone();
                tasks.spawn("read", async move {
                    load.read(key).await;
                    drop(permit);
                });
            }
        }
    }

    /// One read, recorded.
    pub(crate) async fn read(&self, key: u32) {
        let life = self.life.load(Ordering::SeqCst);
        let start = feed::now();
        let got = self.ask(key).await;
        let end = feed::now();
        let life = (self.life.load(Ordering::SeqCst) == life).then_some(life);
        self.feed.locked().reads.push(Read { key, start, end, life, got });
    }

    async fn ask(&self, key: u32) -> Result<Shown, String> {
        let answer = self.client.get(format!("{}{key}", self.base)).send().await.map_err(with_causes)?;
        let status = answer.status();
        let [version, line] = ["x-record-version", "cache-status"].map(|name| {
            let value = answer.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        });
        let body = answer.text().await.map_err(with_causes)?;
        let Ok(version) = version.parse() else { return Err(format!("{status} {line}: {body}")) };
        if status != 200 || !body.contains(&format!("\"version\":{version},")) {
            return Err(format!("{status} {line}: {body}"));
        }
        Ok(self.shown(version, &line))
    }

    /// Parses an answer's `Cache-Status`.
    fn shown(&self, version: u64, line: &str) -> Shown {
        let mut shown = Shown { version, hit: false, collapsed: false, bound: None, label: None };
        for part in line.split(';').map(str::trim) {
            match part.split_once('=').unwrap_or((part, "")) {
                ("hit", _) => shown.hit = true,
                ("collapsed", _) => shown.collapsed = true,
                ("bound", seconds) => shown.bound = seconds.parse().ok(),
                ("detail", word) if !self.names.iter().any(|name| name == word) => {
                    shown.label = Some(word.to_owned());
                }
                _ => {}
            }
        }
        shown
    }

    /// A few records are asked for all the time, most now and then.
    fn often(&self, rng: &mut Rng) -> u32 {
        let rank = f64::from(self.feed.keys).powf(rng.f64());
        (rank as u32 - 1).min(self.feed.keys - 1)
    }
}

/// Requests that a rate asks for by now.
fn due(started: At, rate: u64) -> u64 {
    (feed::now() - started) * rate / SECOND
}

fn with_causes(error: reqwest::Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
    causes.fold(error.to_string(), |said, cause| format!("{said}: {cause}"))
}
