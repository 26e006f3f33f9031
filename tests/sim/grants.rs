//! The seeded simulation of R22: callers read through a sidecar while grants are withdrawn and given
//! again, and regions lag, are off, are cut off, observe, say nothing, or have the wrong document.
//!
//! It stands beside the simulation of records, because here nothing but permission changes. Read in
//! this order: [`plan`] (what a seed stands for), [`regions`] (how nodes decide), [`check`] (what must
//! hold).

mod check;
mod plan;
mod regions;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderMap, HeaderValue, Method, header};
use nearside::cache::capacity::Memory;
use nearside::cache::key::HashKey;
use nearside::config::read::from_toml;
use nearside::fill::effects::apply_actions;
use nearside::fill::settings::Parts;
use nearside::http::admission::Admitted;
use nearside::http::bodies::ByteBudget;
use nearside::model::ids::RegionId;
use nearside::model::time::{Clock, Wall};
use nearside::protocol::event::{Event, Says};
use nearside::request::answer::respond;
use nearside::request::serve::serve;
use nearside::request::settings::Settings;
use nearside::switch::{self, Rule};
use nearside::tasks::Tasks;

use self::check::{Answered, Checker};
use self::plan::{CALLERS, EPOCH, MAX_AGE, Manner, OWN, Plan, RECHECK, Read, SHARED, VIEWS, WORST_LAG, What};
use self::regions::Regions;
use super::subject::REGION_NAMES;

/// Seeds on which the rule, switched off, must be caught.
const RULE_SEEDS: u64 = 100;

/// Result of a seed.
struct Outcome {
    violation: Option<String>,
    /// From each withdrawal to the first answer that knows of it.
    ended_after: Vec<Duration>,
    /// From each withdrawal that content outlived to the last content.
    outlived_by: Vec<Duration>,
    reads: u64,
    refused: u64,
    /// The last answers.
    last_answers: Vec<String>,
}

/// Simulates so many seeds; false when something did not hold.
pub(crate) fn seeds(from: u64, seeds: u64, threads: usize) -> bool {
    println!("sim: grants, {seeds} seeds from {from}");
    let (next, outcomes, started) = (AtomicU64::new(from), Mutex::new(Vec::new()), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds {
                        return;
                    }
                    let outcome = simulate(seed);
                    outcomes.lock().expect("no panic while it was held").push((seed, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("no panic while it was held");
    outcomes.sort_unstable_by_key(|(seed, _)| *seed);
    let violated: Vec<_> =
        outcomes.iter().filter_map(|(seed, outcome)| Some((seed, outcome.violation.as_ref()?))).collect();
    let reads: u64 = outcomes.iter().map(|(_, outcome)| outcome.reads).sum();
    let refused: u64 = outcomes.iter().map(|(_, outcome)| outcome.refused).sum();
    let times = |of: fn(&Outcome) -> &Vec<Duration>| {
        let mut times: Vec<Duration> = outcomes.iter().flat_map(|(_, outcome)| of(outcome).clone()).collect();
        times.sort_unstable();
        times
    };
    println!("{seeds:>8} seeds in {:.0} s, {} violated", started.elapsed().as_secs_f64(), violated.len());
    println!("{reads:>8} reads, {refused} refused");
    for (times, what) in [
        (times(|outcome| &outcome.ended_after), "withdrawals, the first refusal after"),
        (times(|outcome| &outcome.outlived_by), "of which content was given later, the last after"),
    ] {
        let (p50, p99) = (percentile(&times, 0.5), percentile(&times, 0.99));
        println!("{:>8} {what} {p50:.1?} (p50), {p99:.1?} (p99)", times.len());
    }
    for (seed, violation) in violated.iter().take(20) {
        println!("VIOLATED  seed {seed}: {violation}");
    }
    violated.is_empty()
}

fn percentile(sorted: &[Duration], part: f64) -> Duration {
    sorted.get((sorted.len() as f64 * part) as usize).copied().unwrap_or_default()
}

fn seconds(at: Duration) -> String {
    format!("{:.1}", at.as_secs_f64())
}

/// Tells what `seed` stands for, and every answer to who asked what was answered wrongly.
pub(crate) fn story(seed: u64) -> bool {
    let plan = plan::draw(seed);
    for window in &plan.windows {
        let (from, until) = (window.from.as_secs_f64(), window.until.as_secs_f64());
        println!("{from:8.1} to {until:.1}: {:?}, region {}", window.fault, window.region);
    }
    for document in &plan.documents {
        let heard = document.heard.map(|at| at.map_or("lost".to_owned(), seconds));
        let arrives = document.arrives.map(seconds);
        println!(
            "{:8.1}: document {}, at regions {arrives:?}, heard {heard:?}: {:?}",
            document.written.as_secs_f64(),
            document.version(),
            document.allowed.map(|views| views.map(u8::from)),
        );
    }
    let outcome = simulate(seed);
    for line in &outcome.last_answers {
        println!("{line}");
    }
    println!("{}", outcome.violation.as_deref().unwrap_or("nothing was violated"));
    outcome.violation.is_none()
}

/// R22 switched off must be caught.
pub(crate) fn rule() -> bool {
    for seed in 0..RULE_SEEDS {
        let without = {
            let _off = switch::off(Rule::R22);
            simulate(seed)
        };
        if let Some(violation) = without.violation {
            println!("R22 switched off: seed {seed}: {violation}");
            return simulate(seed).violation.is_none();
        }
    }
    println!("R22 switched off: MISSED");
    false
}

/// One run of `seed`, on this thread.
fn simulate(seed: u64) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without I/O needs nothing").block_on(run(Arc::new(plan::draw(seed))))
}

fn settings(credentials: &std::path::Path) -> String {
    let mut text = String::from("service.name = \"contexts\"\n");
    for name in REGION_NAMES {
        text += &format!("[[service.region]]\nname = \"{name}\"\nurl = \"http://127.0.0.1:1/{name}\"\n");
    }
    for (number, view) in VIEWS.iter().enumerate() {
        text +=
            &format!("[[service.route]]\npath = \"/v1/contexts/{{key}}/{view}\"\nrecords = [\"{view}:{{key}}\"]\n");
        if number == SHARED {
            text += "identity = \"granted\"\n";
        }
        if number == OWN.1 {
            text += &format!(
                "identity = \"sidecar\"\ncredentials = {{ file = \"{}\", prefix = \"Bearer \" }}\n",
                credentials.display()
            );
        }
    }
    text += "[announcements]\ntransport = \"off\"\n[race]\ndeadline = \"2s\"\n[cache]\nttl = \"1h\"\nsoft_ttl = \"10m\"\n";
    text += &format!("[freshness]\nworst_lag = \"{}s\"\n", WORST_LAG.as_secs());
    text += &format!("[access]\nrecheck = \"{}s\"\nmax_age = \"{}s\"\n", RECHECK.as_secs(), MAX_AGE.as_secs());
    text
}

async fn run(plan: Arc<Plan>) -> Outcome {
    fastrand::seed(plan.seed);
    let clock = Clock::simulated(Wall::from_millis(EPOCH));
    let start = clock.now();
    let folder = tempfile::tempdir().expect("a folder for a token");
    let credentials = folder.path().join("token");
    std::fs::write(&credentials, format!("c{}", OWN.0)).expect("a folder of our own");
    let parts = Parts {
        clock: clock.clone(),
        origin: Arc::new(Regions { plan: plan.clone(), clock: clock.clone(), start }),
        tasks: Tasks::new(),
        hash_key: HashKey::fixed(plan.seed),
        floor_slots: 512,
        memory: Memory::AMPLE,
        bodies: ByteBudget::new(nearside::http::limits::BODIES_BYTES),
    };
    let config = from_toml(&settings(&credentials)).expect("the settings above");
    let sidecar = Settings::new(config, parts).expect("the file above");
    let mut checker = Checker::new(plan.clone());
    for together in plan.happenings().chunk_by(|one, next| one.at == next.at) {
        let now = clock.now() - start;
        if together[0].at > now {
            tokio::time::sleep(together[0].at - now).await;
        }
        let mut reads = Vec::new();
        for happening in together {
            match happening.what {
                What::Heard { region, version } => hear(&sidecar, region, version),
                What::Read(read) => reads.push(read),
            }
        }
        let asked = clock.now() - start;
        let answers = reads.into_iter().map(async |read| {
            let (status, line) = ask(&sidecar, read).await;
            Answered { read, asked, at: clock.now() - start, status, line }
        });
        join_all(answers).await.into_iter().for_each(|answered| checker.answered(answered));
        if checker.violation.is_some() {
            break;
        }
    }
    sidecar.fill.shared.tasks.drain(Duration::from_secs(60)).await;
    Outcome {
        violation: checker.violation.take(),
        ended_after: checker.ended_after(),
        outlived_by: checker.outlived_by(),
        reads: checker.reads,
        refused: checker.refused,
        last_answers: checker.last_answers(),
    }
}

fn hear(sidecar: &Arc<Settings>, region: usize, version: u64) {
    let shared = &sidecar.fill.shared;
    let published = shared.clock.wall();
    let says = Says::Grants(Some(version));
    let event = Event::Message { region: RegionId(region as u8), published, queued: None, numbered: None, says };
    let actions = shared.freshness.step(shared.clock.now(), published, event);
    apply_actions(&sidecar.fill, actions);
}

async fn ask(sidecar: &Arc<Settings>, read: Read) -> (u16, String) {
    let path_and_query = format!("/v1/contexts/k{}/{}", read.key, VIEWS[read.view]);
    let mut headers = HeaderMap::new();
    let token = HeaderValue::try_from(format!("Bearer c{}", read.caller % CALLERS)).expect("visible");
    headers.insert(header::AUTHORIZATION, token);
    match read.manner {
        Manner::Plain => {}
        Manner::Conditional => _ = headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static("\"1\"")),
        Manner::OnlyIfCached => {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("only-if-cached"));
        }
        Manner::Insisting => _ = headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    }
    let path_len = path_and_query.len();
    let admitted = Admitted { method: Method::GET, path_and_query, path_len, headers, body: Bytes::new() };
    let response = respond(serve(sidecar, admitted).await, &sidecar.fill.shared.names);
    let line = response.headers().get("cache-status").and_then(|line| line.to_str().ok()).unwrap_or_default();
    (response.status().as_u16(), line.to_owned())
}
