//! Writers: several tasks that write to the catalogue at a pace, and the record of what they asked
//! and were answered. A request with an `Idempotency-Key` is sent until its answer is known; one
//! without is never sent again once its outcome is unknown.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use nearside::model::time::Clock;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::asked::{Condition, Outcome, Part, Record, Request, Tick, body};

/// On which the tenants lie.
pub(crate) const SHARDS: u64 = 5;
/// Tasks that write.
pub(crate) const WRITERS: u64 = 6;
/// Number of tenants of which one's writes are visible in the views.
const SHOWN_EVERY: u64 = 3;
/// Most attempts at a request, and the pause between two.
const ATTEMPTS: usize = 300;
const AGAIN: Duration = Duration::from_millis(100);
const ANSWER: Duration = Duration::from_secs(10);

/// Requests of this half, and its counts.
pub(crate) struct WriteLog {
    client: reqwest::Client,
    pub(crate) tenants: u64,
    /// Address of the catalogue; it may move with a restart.
    catalogue: Mutex<String>,
    ticks: AtomicU64,
    numbers: AtomicU64,
    requests: Mutex<Vec<Request>>,
    /// The last version that was acknowledged to a writer.
    known: Mutex<BTreeMap<Record, u64>>,
    /// Records written, refused and unknown.
    pub(crate) acknowledged: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) unknown: AtomicU64,
}

/// One attempt.
enum Attempt {
    Done(Vec<u64>),
    Refused(String),
    /// Nothing was written; it may help to send it again.
    NotNow(String),
    Unknown(String),
}

struct Draft {
    parts: Vec<Part>,
    key: Option<String>,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// HTTP client of a caller.
pub(crate) fn client(wait: Duration) -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(wait).build()
}

impl WriteLog {
    pub(crate) fn new(tenants: u64) -> Result<Arc<Self>, reqwest::Error> {
        Ok(Arc::new(Self {
            client: client(ANSWER)?,
            tenants,
            catalogue: Mutex::default(),
            ticks: AtomicU64::new(1),
            numbers: AtomicU64::new(1),
            requests: Mutex::default(),
            known: Mutex::default(),
            acknowledged: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
        }))
    }

    /// The catalogue answers here now.
    pub(crate) fn moved(&self, address: &str) {
        address.clone_into(&mut locked(&self.catalogue));
    }

    pub(crate) fn catalogue(&self) -> String {
        locked(&self.catalogue).clone()
    }

    /// Records of requests that are over.
    pub(crate) fn written(&self) -> u64 {
        [&self.acknowledged, &self.refused, &self.unknown].iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        locked(&self.requests).clone()
    }

    fn tick(&self) -> Tick {
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }

    /// Writes at `rate` a second together with the others until it is cancelled.
    pub(crate) async fn write(self: Arc<Self>, seed: u64, rate: f64, stop: CancellationToken) {
        let mut rng = Rng::with_seed(seed);
        let every = Duration::from_secs_f64(WRITERS as f64 / rate);
        let (mut due, mut last) = (Clock::System.now(), None);
        while !stop.is_cancelled() {
            let now = Clock::System.now();
            // What an outage held up is not made good all at once.
            due = (due + every).max(now);
            tokio::time::sleep(due - now).await;
            match last.take() {
                Some((at, draft)) if rng.u8(..8) == 0 => self.send_again(at, &draft).await,
                _ => {
                    let draft = self.draw(&mut rng);
                    let at = self.perform(&draft).await;
                    last = draft.key.is_some().then_some((at, draft));
                }
            }
        }
    }

    fn draw(&self, rng: &mut Rng) -> Draft {
        let key = rng.bool().then(|| format!("{:032x}", rng.u128(..)));
        let tenant = Record::tenant(rng.u64(..self.tenants));
        let parts = match rng.u8(..100) {
            0 => vec![self.put(Record::shard(rng.u64(..SHARDS)), Condition::None, rng)],
            1 => vec![self.delete(Record::shard(rng.u64(..SHARDS)))],
            2..12 => vec![self.delete(tenant)],
            12..30 => {
                let known = locked(&self.known).get(&tenant).copied();
                vec![self.put(tenant, known.map_or(Condition::Absent, Condition::VersionIs), rng)]
            }
            30..36 => vec![self.put(tenant, Condition::Absent, rng)],
            36..44 => {
                let (first, count) = (rng.u64(..self.tenants), rng.u64(2..6));
                let records = (0..count).map(|at| Record::tenant((first + at * 7) % self.tenants));
                records
                    .map(|record| match rng.u8(..10) {
                        0 => self.delete(record),
                        _ => self.put(record, Condition::None, rng),
                    })
                    .collect()
            }
            _ => vec![self.put(tenant, Condition::None, rng)],
        };
        Draft { parts, key }
    }

    fn put(&self, record: Record, only_if: Condition, rng: &mut Rng) -> Part {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let of_key = record.key.rsplit('-').next().and_then(|digits| digits.parse::<u64>().ok());
        let shown = of_key.is_some_and(|of_key| of_key % SHOWN_EVERY == 0);
        let shard = if rng.u8(..10) == 0 { rng.u64(..SHARDS) } else { of_key.unwrap_or(0) % SHARDS };
        Part { body: Some(body(&record, number, shown, shard)), record, only_if }
    }

    fn delete(&self, record: Record) -> Part {
        Part { record, body: None, only_if: Condition::None }
    }

    /// Sends it, notes it and returns where.
    async fn perform(&self, draft: &Draft) -> usize {
        let sent = self.tick();
        let (mut unknown, mut why) = (None, "never answered".to_owned());
        let mut outcome = None;
        for _ in 0..ATTEMPTS {
            match self.attempt(draft).await {
                Attempt::Done(versions) => outcome = Some(Outcome::Acknowledged(versions)),
                Attempt::Refused(why) => outcome = Some(Outcome::Refused(why)),
                Attempt::NotNow(not_now) => why = not_now,
                Attempt::Unknown(lost) => unknown = Some(lost),
            }
            if outcome.is_some() || (unknown.is_some() && draft.key.is_none()) {
                break;
            }
            tokio::time::sleep(AGAIN).await;
        }
        let outcome = outcome.unwrap_or(unknown.map_or(Outcome::Refused(why), Outcome::Unknown));
        let count = match &outcome {
            Outcome::Acknowledged(versions) => {
                let mut known = locked(&self.known);
                for (part, version) in draft.parts.iter().zip(versions) {
                    known.insert(part.record.clone(), *version);
                }
                &self.acknowledged
            }
            Outcome::Refused(_) => {
                // A writer that received 412 looks again; here it takes what it finds next.
                locked(&self.known).remove(&draft.parts[0].record);
                &self.refused
            }
            Outcome::Unknown(_) => &self.unknown,
        };
        count.fetch_add(draft.parts.len() as u64, Ordering::Relaxed);
        let (parts, idempotency_key) = (draft.parts.clone(), draft.key.clone());
        let answered = self.tick();
        let mut requests = locked(&self.requests);
        requests.push(Request { parts, idempotency_key, sent, answered, outcome, again: Vec::new() });
        requests.len() - 1
    }

    /// Sends an acknowledged request once more, under its own key.
    async fn send_again(&self, at: usize, draft: &Draft) {
        let outcome = match self.attempt(draft).await {
            Attempt::Done(versions) => Outcome::Acknowledged(versions),
            Attempt::Refused(why) => Outcome::Refused(why),
            Attempt::NotNow(why) | Attempt::Unknown(why) => Outcome::Unknown(why),
        };
        let mut requests = locked(&self.requests);
        // What was refused is decided anew: only what took place is remembered.
        if matches!(requests[at].outcome, Outcome::Acknowledged(_)) {
            requests[at].again.push(outcome);
        } else if let Outcome::Acknowledged(_) = outcome {
            requests[at].outcome = outcome;
            requests[at].answered = self.tick();
        }
    }

    async fn attempt(&self, draft: &Draft) -> Attempt {
        let base = self.catalogue();
        let mut request = match &draft.parts[..] {
            [part] => {
                let url = format!("http://{base}/v1/records/{}/{}", part.record.kind, part.record.key);
                let request = match &part.body {
                    Some(body) => self.client.put(url).body(body.to_string()),
                    None => self.client.delete(url),
                };
                match part.only_if {
                    Condition::None => request,
                    Condition::VersionIs(version) => request.header("if-match", format!("\"{version}\"")),
                    Condition::Absent => request.header("if-none-match", "*"),
                }
            }
            parts => self.client.post(format!("http://{base}/v1/batch")).body(batch(parts).to_string()),
        };
        if let Some(key) = &draft.key {
            request = request.header("idempotency-key", key);
        }
        match request.header("content-type", "application/json").send().await {
            // Nobody was there to take it.
            Err(error) if error.is_connect() => Attempt::NotNow(error.to_string()),
            Err(error) => Attempt::Unknown(error.to_string()),
            Ok(answer) => answered(answer, draft.parts.len()).await,
        }
    }
}

fn batch(parts: &[Part]) -> Value {
    json!({"writes": parts.iter().map(|part| {
        let mut written = json!({"method": "DELETE", "type": part.record.kind, "key": part.record.key});
        if let Some(body) = &part.body {
            written["method"] = "PUT".into();
            written["body"] = body.clone();
        }
        written
    }).collect::<Vec<_>>()})
}

async fn answered(answer: reqwest::Response, parts: usize) -> Attempt {
    let status = answer.status();
    let version = answer.headers().get("x-record-version").and_then(|value| value.to_str().ok()?.parse().ok());
    if let (true, 1, Some(version)) = (status.is_success(), parts, version) {
        return Attempt::Done(vec![version]);
    }
    let Ok(said) = answer.bytes().await else { return Attempt::Unknown(format!("{status}, cut short")) };
    let said: Value = serde_json::from_slice(&said).unwrap_or_default();
    let problem = said["type"].as_str().unwrap_or("no problem document").to_owned();
    if status.is_success() {
        let applied = said["applied"].as_array().map(Vec::as_slice).unwrap_or_default();
        let versions: Vec<_> = applied.iter().filter_map(|one| one["version"].as_u64()).collect();
        let is_whole = versions.len() == parts;
        return if is_whole { Attempt::Done(versions) } else { Attempt::Unknown(format!("{status}: {said}")) };
    }
    match status.as_u16() {
        400..500 => Attempt::Refused(format!("{} {problem}", status.as_u16())),
        _ if problem.ends_with(":outcome-unknown") || problem == "no problem document" => Attempt::Unknown(problem),
        _ => Attempt::NotNow(problem),
    }
}
