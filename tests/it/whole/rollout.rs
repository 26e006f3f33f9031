//! From `off` through `observe` to `enforce` and back, one region after the other, while documents of
//! grants come and go: a caller with a grant is answered all the while, by the sidecar and by every region.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nearside::app::{self, Overrides};
use nearside::config::services::AccessMode;
use nearside::tasks::Tasks;
use nearside_lab::chaos_server::chaos::Latency;
use nearside_lab::dev::access::{Audience, READER};
use nearside_lab::dev::{DevWorld, Ports, story};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use super::super::program::{TIMEOUT, get_labelled, read};
use super::deployment::sidecar_settings;

const MODES: [AccessMode; 3] = [AccessMode::Off, AccessMode::Observe, AccessMode::Enforce];
/// From `enforce` everywhere to `off`.
const BACK: [[usize; 3]; 6] = [[1, 2, 2], [1, 1, 2], [1, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 0]];
/// Answers that each mix of modes is looked at for.
const LOOKS: usize = 16;
/// Callers at once.
const CALLERS: usize = 4;

/// Every mix of the modes of three regions, each other than the one before in one region alone.
fn mixes() -> Vec<[usize; 3]> {
    let mut mixes = Vec::new();
    for first in 0..3 {
        for second in 0..3 {
            for third in 0..3 {
                let second = if first == 1 { 2 - second } else { second };
                let third = if (first + second) % 2 == 1 { 2 - third } else { third };
                mixes.push([first, second, third]);
            }
        }
    }
    mixes
}

/// Callers who ask without pause, and the answers that they should not have got.
struct Load {
    sidecar: String,
    regions: Vec<String>,
    token: String,
    http: reqwest::Client,
    /// Number of answers.
    answers: watch::Sender<usize>,
    cold: AtomicUsize,
    /// The mix of modes of the moment.
    mix: Mutex<String>,
    wrong: Mutex<Vec<String>>,
    /// True while the grant is withdrawn on purpose.
    is_withdrawn: AtomicBool,
    /// Answers that were refused meanwhile.
    refused: AtomicUsize,
    unproven: AtomicUsize,
}

impl Load {
    /// Asks for something stored and for something that is not, and straight at a region.
    async fn ask(&self) {
        let was_withdrawn = self.is_withdrawn.load(Ordering::Acquire);
        let cold = self.cold.fetch_add(1, Ordering::Relaxed) % 790 + 2;
        for key in [1, cold] {
            let (status, label) = get_labelled(&format!("{}/v1/contexts/tenant-{key}/limits", self.sidecar)).await;
            self.unproven.fetch_add(usize::from(label.contains("grants-unproven")), Ordering::Relaxed);
            self.note(was_withdrawn, status == 200, || format!("sidecar, tenant-{key}: {status} {label}"));
        }
        let region = &self.regions[cold % self.regions.len()];
        let url = format!("{region}/v1/contexts/tenant-{cold}/limits");
        let answer = self.http.get(url).bearer_auth(&self.token).send().await.unwrap();
        // A node that has just begun may have no grants yet: that is no refusal.
        let is_refused = matches!(answer.status().as_u16(), 401 | 403);
        self.note(was_withdrawn, !is_refused, || format!("region {region}: {}", answer.status()));
    }

    fn note(&self, was_withdrawn: bool, is_right: bool, what: impl FnOnce() -> String) {
        if !is_right && (was_withdrawn || self.is_withdrawn.load(Ordering::Acquire)) {
            self.refused.fetch_add(1, Ordering::Relaxed);
        } else if !is_right {
            self.wrong.lock().push(format!("{}: {}", self.mix.lock(), what()));
        }
        self.answers.send_modify(|answers| *answers += 1);
    }

    async fn until_answered(&self, more: usize) {
        let mut answers = self.answers.subscribe();
        let least = *answers.borrow() + more;
        let waited = tokio::time::timeout(TIMEOUT, answers.wait_for(|answers| *answers >= least));
        waited.await.expect("callers are answered").unwrap();
    }

    /// Waits until the sidecar and every region answer with this status.
    async fn until_everywhere(&self, status: u16) {
        for base in self.regions.iter().chain([&self.sidecar]) {
            let url = format!("{base}/v1/contexts/tenant-1/limits");
            let token = (*base != self.sidecar).then_some(&self.token);
            let answered = async {
                loop {
                    let asked = self.http.get(&url);
                    let asked = match token {
                        Some(token) => asked.bearer_auth(token),
                        None => asked,
                    };
                    if asked.send().await.unwrap().status() == status {
                        return;
                    }
                }
            };
            tokio::time::timeout(TIMEOUT, answered).await.unwrap_or_else(|_| panic!("{base} never said {status}"));
        }
    }
}

async fn started() -> DevWorld {
    let mut world = DevWorld::start(Ports::Ephemeral, None, AccessMode::Off).await.unwrap();
    world.ingest().await.unwrap();
    story::filled(&world).await.unwrap();
    for index in 0..3 {
        world.region(index).turn(|knobs| knobs.latency = Latency::millis(2, 1)).await;
    }
    // Its grants are always some versions behind.
    world.region(2).turn(|knobs| knobs.lag = Duration::from_millis(700)).await;
    world
}

/// Has another document written, by which the reader may do the same.
async fn write_grants(world: &DevWorld, round: usize) {
    let mut document = world.catalogue.grants().await.unwrap().unwrap();
    let who = json!([{"iss": "https://issuer.dev.invalid", "sub": format!("round-{round}")}]);
    document["consumers"][format!("round-{round}")] = json!({"who": who, "views": ["limits"]});
    world.catalogue.put_grants(&document).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollout_refuses_no_granted_caller() {
    let mut world = started().await;
    let nodes: Vec<_> = world
        .regions
        .iter()
        .map(|region| (region.server.name.as_str(), region.topic.as_str(), region.server.address().to_string()))
        .collect();
    let settings = sidecar_settings(&world.aws.base, &nodes);
    let settings = settings.replacen("[listen]\n", &format!("{}[listen]\n", world.issuer.route()), 1);
    let sidecar = app::start_with(read(&settings), Overrides::default()).await.unwrap();
    story::subscribed(&world).await.unwrap();
    let load = Arc::new(Load {
        sidecar: format!("http://{}", sidecar.tcp.unwrap()),
        regions: world.regions.iter().map(|region| region.server.url()).collect(),
        token: world.issuer.token(READER, Audience::Regions),
        http: reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap(),
        answers: watch::Sender::new(0),
        cold: AtomicUsize::new(0),
        mix: Mutex::default(),
        wrong: Mutex::default(),
        is_withdrawn: AtomicBool::new(false),
        refused: AtomicUsize::new(0),
        unproven: AtomicUsize::new(0),
    });
    let tasks = Tasks::new();
    for _ in 0..CALLERS {
        let (load, stopping) = (load.clone(), tasks.stopping());
        tasks.spawn("caller", async move { while stopping.run_until_cancelled(load.ask()).await.is_some() {} });
    }
    let (mut now, mixes) = ([0; 3], mixes());
    let steps = mixes.iter().chain(&BACK);
    for (round, mix) in steps.enumerate() {
        for index in 0..3 {
            if mix[index] != now[index] {
                world.replace_node(index, MODES[mix[index]]).await.unwrap();
            }
        }
        now = *mix;
        *load.mix.lock() = format!("{:?}", mix.map(|mode| MODES[mode]));
        if round % 2 == 0 {
            write_grants(&world, round).await;
        }
        load.until_answered(LOOKS).await;
        if *mix == [2; 3] {
            ends_when_withdrawn(&world, &load).await;
        }
    }
    assert!(tasks.drain(TIMEOUT).await.is_empty());
    let (wrong, answers) = (std::mem::take(&mut *load.wrong.lock()), *load.answers.borrow());
    println!(
        "{answers} answers in 33 mixes, {} of them labelled grants-unproven",
        load.unproven.load(Ordering::Relaxed)
    );
    assert!(wrong.is_empty(), "{} of {answers}: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    assert_eq!(sidecar.stop().await, app::Stopped::default());
    world.stop().await;
}

/// The callers would notice: with every region enforcing, a withdrawal ends their answers.
async fn ends_when_withdrawn(world: &DevWorld, load: &Load) {
    load.is_withdrawn.store(true, Ordering::Release);
    for (is_stopped, status) in [(true, 403), (false, 200)] {
        world.catalogue.stop_consumer(READER, is_stopped).await.unwrap();
        load.until_everywhere(status).await;
    }
    load.is_withdrawn.store(false, Ordering::Release);
    assert!(load.refused.load(Ordering::Relaxed) > 0, "callers notice refusals");
}
