//! Readers and their answers: each is held against what was written and what others had received
//! before.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nearside::model::time::{Clock, Moment};

/// Complaints that are kept; the first says what is wrong.
const COMPLAINTS: usize = 10;
/// `Age` is rounded down.
const ROUNDED: Duration = Duration::from_secs(1);
/// Longest wait of a reader: far beyond what it takes.
const ANSWER_WAIT: Duration = Duration::from_secs(60);
const LABELS: [&str; 8] =
    ["below-floor", "floor-escaped", "grace", "stale-if-error", "max-stale", "unproven", "unwired", "provisional"];

/// Times at which each version was in the table of views.
#[derive(Default)]
pub(super) struct Written(Mutex<BTreeMap<String, Vec<(u64, Moment)>>>);

impl Written {
    pub(super) fn note(&self, key: &str, version: u64, at: Moment) {
        self.0.lock().unwrap().entry(key.to_owned()).or_default().push((version, at));
    }

    /// Time at which the first version after this one was there.
    fn followed(&self, key: &str, version: u64) -> Option<Moment> {
        let written = self.0.lock().unwrap();
        written.get(key)?.iter().find(|(newer, _)| *newer > version).map(|(_, at)| *at)
    }

    pub(super) fn newest(&self, key: &str) -> u64 {
        self.0.lock().unwrap().get(key).and_then(|all| all.last()).map_or(1, |(version, _)| *version)
    }
}

/// Answer to one request.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// 0 where there was no answer.
    pub(super) status: u16,
    pub(super) version: u64,
    pub(super) age: Option<u64>,
    pub(super) bound: Option<u64>,
    pub(super) hit: bool,
    pub(super) label: Option<String>,
    /// `Cache-Status`, or why there was no answer.
    pub(super) line: String,
}

/// Readers at one address: a sidecar's, or a node's.
pub(super) struct Readers {
    http: reqwest::Client,
    base: String,
    clock: Clock,
    written: Arc<Written>,
    /// The highest version that any reader received, by key.
    shown: Mutex<BTreeMap<String, u64>>,
    pub(super) answered: AtomicU64,
    pub(super) hits: AtomicU64,
    labelled: Mutex<BTreeMap<String, u64>>,
    complaints: Mutex<Vec<String>>,
}

impl Readers {
    pub(super) fn of(address: SocketAddr, clock: Clock, written: Arc<Written>) -> Arc<Self> {
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(ANSWER_WAIT).build().unwrap();
        Arc::new(Self {
            http,
            base: format!("http://{address}/v1/contexts"),
            clock,
            written,
            shown: Mutex::default(),
            answered: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            labelled: Mutex::default(),
            complaints: Mutex::default(),
        })
    }

    /// One request, checked.
    pub(super) async fn read(&self, key: &str, lines: &[(&str, &str)]) -> Seen {
        let shown = self.shown.lock().unwrap().get(key).copied().unwrap_or(0);
        let asked = self.clock.now();
        let seen = match self.ask(key, lines).await {
            Ok(seen) => seen,
            Err(error) => Seen { line: format!("{error:?}"), ..Seen::default() },
        };
        self.check(key, &seen, shown, asked);
        seen
    }

    async fn ask(&self, key: &str, lines: &[(&str, &str)]) -> Result<Seen, reqwest::Error> {
        let mut request = self.http.get(format!("{}/{key}/limits", self.base));
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        let answer = request.send().await?;
        let (status, line) = (answer.status().as_u16(), last_line(&answer, "cache-status"));
        let version = last_line(&answer, "x-record-version").parse().unwrap_or(0);
        let age = last_line(&answer, "age").parse().ok();
        answer.bytes().await?;
        let bound = parameter(&line, "bound").and_then(|bound| bound.parse().ok());
        let label = parameter(&line, "detail").filter(|detail| LABELS.contains(detail)).map(str::to_owned);
        Ok(Seen { status, version, age, bound, hit: line.contains("; hit"), label, line })
    }

    fn check(&self, key: &str, seen: &Seen, shown: u64, asked: Moment) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        self.hits.fetch_add(u64::from(seen.hit), Ordering::Relaxed);
        if seen.status != 200 {
            return self.complain(format!("{key} failed: {} {seen:?}", seen.line));
        }
        if let Some(label) = &seen.label {
            *self.labelled.lock().unwrap().entry(label.clone()).or_default() += 1;
        }
        if seen.version < shown {
            self.complain(format!("{key} went backwards from {shown}: {seen:?}"));
        }
        let mut all = self.shown.lock().unwrap();
        let highest = all.entry(key.to_owned()).or_default();
        *highest = seen.version.max(*highest);
        drop(all);
        // What followed was written that long before anybody asked.
        let Some(followed) = self.written.followed(key, seen.version) else { return };
        let missed = asked.since(followed);
        if seen.label.is_none() && seen.bound.is_some_and(|bound| missed > Duration::from_secs(bound)) {
            self.complain(format!("{key} is older than its bound, by {missed:?}: {seen:?}"));
        }
        if seen.age.is_some_and(|age| missed > Duration::from_secs(age) + ROUNDED) {
            self.complain(format!("{key} is older than its age, by {missed:?}: {seen:?}"));
        }
    }

    fn complain(&self, complaint: String) {
        let mut complaints = self.complaints.lock().unwrap();
        if complaints.len() < COMPLAINTS {
            complaints.push(complaint);
        }
    }

    /// Labels that answers had, and how many had each.
    pub(super) fn labelled(&self) -> BTreeMap<String, u64> {
        self.labelled.lock().unwrap().clone()
    }

    /// No request failed, no version went backwards, no answer was older than it said.
    pub(super) fn assert_content(&self) {
        let complaints = self.complaints.lock().unwrap();
        assert!(complaints.is_empty(), "{complaints:#?}");
        assert!(self.answered.load(Ordering::Relaxed) > 0);
    }
}

/// The last header line of that name: the node's own member of `Cache-Status` comes before the
/// sidecar's.
fn last_line(answer: &reqwest::Response, name: &str) -> String {
    let last = answer.headers().get_all(name).iter().next_back();
    last.map(|line| line.to_str().unwrap().to_owned()).unwrap_or_default()
}

/// A parameter of a `Cache-Status`.
fn parameter<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split("; ").find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}
