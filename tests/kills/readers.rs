//! Readers: applications that ask a sidecar all the time. Each answer is held against what the same
//! process of that sidecar showed before.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use tokio_util::sync::CancellationToken;

use super::asked::Record;
use super::check::{Rule, SAID_OLD, Violation, goes_backwards};
use super::writers::client;

const ANSWER: Duration = Duration::from_secs(15);
/// While nobody answers.
const AGAIN: Duration = Duration::from_millis(100);
pub(crate) const READERS: u64 = 2;
pub(crate) const VIEWS: [&str; 2] = ["limits", "profile"];

/// A sidecar as its readers know it.
pub(crate) struct Sidecar {
    pub(crate) name: String,
    pub(crate) client: reqwest::Client,
    state: Mutex<State>,
    pub(crate) reads: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// Answers that said that they were old.
    pub(crate) said_old: AtomicU64,
}

#[derive(Default)]
struct State {
    address: String,
    /// Which of its processes it is.
    life: u64,
    /// The highest version that this process has served of a view.
    shown: BTreeMap<(&'static str, u64), u64>,
    violations: Vec<Violation>,
}

/// Answer of a sidecar.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) status: u16,
    pub(crate) version: Option<u64>,
    /// The last `Cache-Status`: the sidecar's own.
    pub(crate) label: String,
    pub(crate) body: String,
}

impl Shown {
    pub(crate) fn detail(&self) -> Option<&str> {
        let part = self.label.split(';').find_map(|part| part.trim().strip_prefix("detail="));
        part.map(|detail| detail.trim_matches('"'))
    }
}

impl Sidecar {
    pub(crate) fn new(name: &str) -> Result<Arc<Self>, reqwest::Error> {
        Ok(Arc::new(Self {
            name: name.to_owned(),
            client: client(ANSWER)?,
            state: Mutex::default(),
            reads: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            said_old: AtomicU64::new(0),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It answers here.
    pub(crate) fn moved(&self, address: &str) {
        address.clone_into(&mut self.state().address);
    }

    /// Notes that another process answers from now on. To be called before that is started.
    pub(crate) fn begins_anew(&self) {
        let mut state = self.state();
        state.life += 1;
        state.shown.clear();
    }

    pub(crate) fn address(&self) -> String {
        self.state().address.clone()
    }

    pub(crate) fn violations(&self) -> Vec<Violation> {
        self.state().violations.clone()
    }

    pub(crate) async fn get(&self, view: &str, tenant: &str) -> Result<Shown, reqwest::Error> {
        let url = format!("http://{}/v1/contexts/{tenant}/{view}", self.address());
        let answer = self.client.get(url).send().await?;
        let status = answer.status().as_u16();
        let [version, label] = ["x-record-version", "cache-status"].map(|name| {
            let lines = answer.headers().get_all(name);
            lines.iter().next_back().and_then(|line| line.to_str().ok()).unwrap_or_default().to_owned()
        });
        Ok(Shown { status, version: version.parse().ok(), label, body: answer.text().await? })
    }

    /// Reads these tenants' views, after each a pause, until it is cancelled.
    pub(crate) async fn read(self: Arc<Self>, seed: u64, tenants: u64, pause: Duration, stop: CancellationToken) {
        let mut rng = Rng::with_seed(seed);
        while !stop.is_cancelled() {
            // A few tenants are asked for all the time, most now and then.
            let number = ((tenants as f64).powf(rng.f64()) as u64).saturating_sub(1);
            let view = VIEWS[usize::from(rng.u8(..4) == 0)];
            let pause = if self.read_one(view, number).await { pause } else { AGAIN };
            tokio::time::sleep(pause).await;
        }
    }

    /// Reads once; true if there was an answer.
    async fn read_one(&self, view: &'static str, number: u64) -> bool {
        let record = Record::tenant(number);
        let (life, least) = {
            let state = self.state();
            (state.life, state.shown.get(&(view, number)).copied().unwrap_or(0))
        };
        let got = self.get(view, &record.key).await;
        self.reads.fetch_add(1, Ordering::Relaxed);
        let Some(shown) = got.ok().filter(|shown| [200, 404].contains(&shown.status)) else {
            self.failed.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        let said_old = shown.detail().is_some_and(|detail| SAID_OLD.contains(&detail));
        self.said_old.fetch_add(u64::from(said_old), Ordering::Relaxed);
        let mut state = self.state();
        if state.life != life {
            // It was killed meanwhile: nobody knows which process answered.
            return true;
        }
        if goes_backwards(least, shown.version, shown.detail()) {
            let reported = format!("{view} through {}: {shown:?} after version {least}", self.name);
            state.violations.push(Violation { rule: Rule::Monotone, record, reported });
        }
        let most = state.shown.entry((view, number)).or_default();
        *most = shown.version.unwrap_or(0).max(*most);
        true
    }
}
