//! An operator's view of a sidecar: probes, status, metrics, logs, and the commands that look after
//! topics, all through the program, with SNS and SQS as the emulator speaks them.

use std::collections::BTreeSet;

use nearside::config::TopicArn;
use nearside::model::time::Clock;
use nearside_lab::chaos_server::chaos::Mode;
use rustix::process::Signal;
use serde_json::Value;

use super::emulator::{Emulator, REGIONS};
use super::program::{self, Program, get, run, settings, text};
use crate::world::World;

/// Three regions, their topics in the emulator, and the sidecar in front of them.
struct Stage {
    world: World,
    topics: Vec<TopicArn>,
    program: Program,
}

impl Stage {
    async fn set(name: &str) -> Self {
        let world = World::builder().records(100).start().await.unwrap();
        let mut topics = Vec::new();
        for region in REGIONS {
            topics.push(Emulator::shared().topic(region, name, 2).await);
        }
        let program = Program::start(&Self::settings(name, &world, &topics)).await;
        for topic in &topics {
            program.line(|line| line["message"] == "subscribed" && line["topic"] == topic.arn).await;
        }
        Self { world, topics, program }
    }

    fn settings(name: &str, world: &World, topics: &[TopicArn]) -> String {
        let urls: Vec<String> = world.regions.iter().map(|region| region.url()).collect();
        let regions: Vec<_> =
            (0..3).map(|index| (REGIONS[index], urls[index].as_str(), topics[index].arn.as_str())).collect();
        let url = Emulator::shared().url();
        let rest = format!(
            "[announcements]\nendpoint_url = \"{url}\"\ninsecure_sns_signer = \"{url}\"\n[drain]\nlinger = \"0s\"\n"
        );
        settings(name, &regions, &rest)
    }

    async fn ask(&self, key: &str) -> (u16, String) {
        get(&format!("http://{}/v1/contexts/{key}", self.program.tcp)).await
    }

    async fn publish(&self, region: usize, message: &str) {
        let topic = &self.topics[region];
        let sns = Emulator::shared().sns(&topic.region);
        sns.publish().topic_arn(&topic.arn).message(message).send().await.unwrap();
    }

    async fn stop(mut self) {
        self.program.signal(Signal::TERM);
        assert_eq!(self.program.ended().await.code(), Some(0), "{:#?}", self.program.lines());
    }
}

fn emulator_url() -> String {
    Emulator::shared().url().to_string()
}

#[tokio::test]
async fn readyz_turns_fresh_after_published_heartbeat() {
    let stage = Stage::set("heartbeat-cli").await;
    let program = &stage.program;
    let (status, page) = program.page("/readyz").await;
    let said: Value = serde_json::from_str(&page).unwrap();
    assert_eq!((status, &said["state"]), (200, &"warming".into()), "{page}");
    assert_eq!(said["reasons"].as_array().unwrap().len(), 3, "each region says why: {page}");
    assert_eq!(program.page("/livez").await, (200, "alive\n".to_owned()));

    let (url, topic) = (emulator_url(), stage.topics[0].arn.as_str());
    let output = run(&["heartbeat", "--once", "--topic", topic, "--endpoint-url", &url]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let ready = program.until("/readyz", |page| page["state"] == "fresh").await;
    assert_eq!(ready["reasons"].as_array().unwrap().len(), 0, "one region's lease is enough: {ready}");
    let status = program.json("/status").await;
    let warnings = status["warnings"].as_array().unwrap();
    let unproven = warnings.iter().filter(|line| line.as_str().unwrap().contains("no proof yet"));
    assert_eq!(unproven.count(), 2, "the others still have no proof: {status}");
    let region = &status["regions"][0];
    assert_eq!((&region["subscription"], &region["grade"]), (&"live".into(), &"path".into()), "{region}");
    assert_eq!(run(&["health", "--admin", &program.admin.to_string()]).status.code(), Some(0));
    stage.stop().await;
}

#[tokio::test]
async fn unpublishable_heartbeat_is_one_line() {
    let topic = format!("arn:aws:sns:{}:123456789012:contexts", REGIONS[0]);
    let nowhere = nearside_lab::loopback::address().unwrap();
    let output = run(&["heartbeat", "--once", "--topic", &topic, "--endpoint-url", &format!("http://{nowhere}")]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.lines().last().unwrap().starts_with("nearside: ") && said.contains("Publish"), "{said}");
}

#[tokio::test]
async fn status_and_metrics_reveal_no_secrets() {
    let stage = Stage::set("status").await;
    let program = &stage.program;
    for _ in 0..3 {
        assert_eq!(stage.ask("tenant-7").await.0, 200);
    }
    assert_eq!(stage.ask("absent-record").await.0, 404);
    let announced = Clock::System.wall().as_millis().saturating_sub(1_000);
    let ingested =
        humantime::format_rfc3339_millis(nearside::model::time::Wall::from_millis(announced).to_system_time());
    stage
        .publish(
            0,
            &format!(r#"{{"recordType":"context","key":"tenant-8","version":"9","ingestedAt":"{ingested}"}}"#),
        )
        .await;
    stage.publish(1, "what is this?").await;
    let status = program
        .until("/status", |page| {
            let totals = &page["totals"];
            let heard = totals["announcements_applied"] == 1 && totals["announcements"].as_u64() >= Some(2);
            // What is kept is counted once a second.
            heard && page["cache"]["entries"].as_u64() >= Some(1)
        })
        .await;
    let line = program.line(|line| line["message"] == "a verified message is no announcement").await;
    assert!(line["region"] == REGIONS[1] && line["message_id"].is_string(), "{line}");
    assert_eq!((&status["service"], &status["transport"]), (&"status".into(), &"sqs".into()));
    assert_eq!(status["totals"]["hits"], 2, "{status}");
    assert_eq!(status["totals"]["misses"], 2);
    assert!(status["totals"]["attempts"].as_u64() >= Some(6), "{status}");
    assert!(status["cache"]["bytes"].as_u64() > Some(0), "{status}");
    assert!(status["insecure"][0].as_str().unwrap().starts_with("announcements.insecure_sns_signer"), "{status}");
    let names: Vec<_> = status["regions"].as_array().unwrap().iter().map(|region| region["name"].clone()).collect();
    assert_eq!(names, REGIONS);

    let (code, page) = program.page("/metrics").await;
    assert_eq!(code, 200);
    families_are_there(&page);
    for line in [
        "nearside_hits_total 2",
        "nearside_announcements_total{region=\"eu-west-1\",outcome=\"applied\"} 1",
        "nearside_announcements_total{region=\"us-east-1\",outcome=\"undecodable\"} 1",
        "nearside_propagation_delay_seconds_count{region=\"eu-west-1\"} 1",
        "nearside_epoch_moves_total{region=\"us-east-1\",reason=\"undecodable\"} 1",
        "nearside_readiness{state=\"fresh\"} 1",
    ] {
        assert!(page.lines().any(|shown| shown == line), "{line}: {page}");
    }
    assert_eq!(page.lines().last(), Some("# EOF"));

    let lines = program.lines();
    for line in &lines {
        let parsed: Value = serde_json::from_str(line).unwrap();
        assert!(parsed["timestamp"].is_string() && parsed["level"].is_string() && parsed["message"].is_string());
    }
    let status = program.page("/status").await.1;
    for (name, said) in [("the log", lines.join("\n")), ("/status", status), ("/metrics", page)] {
        for secret in ["tenant-7", "tenant-8", "absent-record", "what is this?", "UnsubscribeURL"] {
            assert!(!said.contains(secret), "{name} shows {secret}");
        }
    }
    stage.stop().await;
}

/// Everything that the issue lists, by name.
fn families_are_there(page: &str) {
    let shown: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    for family in [
        "nearside_hits",
        "nearside_misses",
        "nearside_attempts",
        "nearside_losing_attempts",
        "nearside_fills_shared",
        "nearside_announcements",
        "nearside_proof_age_seconds",
        "nearside_proof_grade",
        "nearside_epoch",
        "nearside_epoch_moves",
        "nearside_propagation_delay_seconds",
        "nearside_hit_duration_seconds",
        "nearside_miss_duration_seconds",
        "nearside_cache_bytes",
    ] {
        assert!(shown.contains(family), "{family}: {shown:?}");
    }
    assert_eq!((misses(page, "good"), misses(page, "absent")), (1, 1), "misses by verdict and region: {page}");
}

/// Misses of all regions with this verdict.
fn misses(page: &str, verdict: &str) -> u64 {
    let by_region = REGIONS.map(|region| {
        let series = format!("nearside_misses_total{{region=\"{region}\",verdict=\"{verdict}\"}}");
        page.lines().find_map(|line| line.strip_prefix(&series)?.trim().parse::<u64>().ok()).unwrap_or(0)
    });
    by_region.into_iter().sum()
}

#[tokio::test]
async fn degraded_sidecar_states_why_stays_ready() {
    let world = World::builder().records(10).start().await.unwrap();
    let urls: Vec<String> = world.regions.iter().map(|region| region.url()).collect();
    let regions: Vec<_> = (0..3).map(|index| (REGIONS[index], urls[index].as_str(), "")).collect();
    let rest = "[announcements]\ntransport = \"off\"\n";
    let program = Program::start(&settings("degraded", &regions, rest)).await;
    let ready = program.json("/readyz").await;
    assert_eq!(ready["state"], "degraded");
    assert!(ready["reasons"][0].as_str().unwrap().starts_with("no region announces its changes"), "{ready}");
    for region in world.regions.iter() {
        region.set(Mode::Off).await;
    }
    let failing = async {
        for number in 1.. {
            let (status, page) = get(&format!("http://{}/v1/contexts/cold-{number}", program.tcp)).await;
            assert_eq!(status, 502, "{page}");
            let ready = program.json("/readyz").await;
            if ready["reasons"].as_array().unwrap().iter().any(|reason| reason.as_str().unwrap().contains("fails")) {
                return ready;
            }
        }
        unreachable!("numbers do not end")
    };
    let ready = tokio::time::timeout(program::TIMEOUT, failing).await.expect("it is noticed");
    assert_eq!(ready["state"], "degraded", "{ready}");
    assert_eq!(program.page("/readyz").await.0, 200);
    assert_eq!(run(&["health", "--admin", &program.admin.to_string()]).status.code(), Some(0));
}

#[tokio::test]
async fn health_distinguishes_running_draining_and_absent() {
    let off = "[announcements]\ntransport = \"off\"\n[drain]\nlinger = \"300s\"\n";
    let mut program = Program::start(&settings("health", &[("eu", "http://127.0.0.1:1", "")], off)).await;
    let admin = program.admin.to_string();
    let health = ["health", "--admin", &admin];
    let running = run(&health);
    assert_eq!((running.status.code(), text(&running.stderr)), (Some(0), ""));
    program.signal(Signal::TERM);
    program.line(|line| line["message"].as_str().unwrap().starts_with("stopping")).await;
    let draining = run(&health);
    assert_eq!(draining.status.code(), Some(1));
    assert!(text(&draining.stderr).contains("503 Service Unavailable"), "{}", text(&draining.stderr));
    let said = program.json("/readyz").await;
    assert_eq!(said["state"], "draining");
    program.signal(Signal::TERM);
    program.ended().await;
    let nobody = run(&health);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody.stderr).contains(&format!("cannot ask {admin}")), "{}", text(&nobody.stderr));
}

#[tokio::test]
async fn janitor_removes_killed_and_spares_living() {
    let stage = Stage::set("janitor-cli").await;
    let region = REGIONS[1];
    let (sqs, sns) = (Emulator::shared().sqs(region), Emulator::shared().sns(region));
    assert_eq!(living(&sqs).await, 1);
    // No other test's janitor looks at this region.
    let dead = "nearside-janitor-cli-dead";
    let alive = (Clock::System.wall().as_millis() / 1000 - 3 * 3600).to_string();
    sqs.create_queue().queue_name(dead).tags("nearside", "1").tags("alive", alive).send().await.unwrap();
    let topic = &stage.topics[1];
    let arn = format!("arn:aws:sqs:{region}:{}:{dead}", topic.account);
    sns.subscribe().topic_arn(&topic.arn).protocol("sqs").endpoint(&arn).send().await.unwrap();

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nearside.toml");
    let one = (region, "http://127.0.0.1:1", topic.arn.as_str());
    let rest = format!("[announcements]\nendpoint_url = \"{}\"\n", emulator_url());
    std::fs::write(&file, settings("janitor-cli", &[one], &rest)).unwrap();
    let sweep = ["janitor", "--config", program::path(&file), "--older-than", "2h"];
    // Other tests' queues may be in the table too.
    let ours = [dead, &topic.arn];
    let shown = run(&[&sweep[..], &["--dry-run"]].concat());
    let would = lines_with(&shown, ours, "would be removed");
    assert_eq!((shown.status.code(), would), (Some(0), 2), "{}", text(&shown.stdout));
    assert!(exists(&sqs, dead).await, "a dry run removes nothing");
    assert_eq!(subscriptions(&sns, topic, &arn).await, 1, "a dry run removes nothing");

    let swept = run(&sweep);
    let removed = lines_with(&swept, ours, "removed");
    assert_eq!((swept.status.code(), removed), (Some(0), 2), "{}{}", text(&swept.stdout), text(&swept.stderr));
    assert!(!exists(&sqs, dead).await && subscriptions(&sns, topic, &arn).await == 0);
    assert_eq!(living(&sqs).await, 1, "the sidecar's own queue lives");
    assert_eq!(stage.world.regions.len(), 3);
    stage.stop().await;
}

/// Number of the test's queues whose owner lives.
async fn living(sqs: &aws_sdk_sqs::Client) -> usize {
    let listed = sqs.list_queues().queue_name_prefix("nearside-janitor-cli-").send().await.unwrap();
    listed.queue_urls().iter().filter(|url| !url.ends_with("-dead")).count()
}

async fn exists(sqs: &aws_sdk_sqs::Client, queue: &str) -> bool {
    sqs.get_queue_url().queue_name(queue).send().await.is_ok()
}

/// Number of the topic's subscriptions that lead to this queue.
async fn subscriptions(sns: &aws_sdk_sns::Client, topic: &TopicArn, queue: &str) -> usize {
    let listed = sns.list_subscriptions_by_topic().topic_arn(&topic.arn).send().await.unwrap();
    listed.subscriptions().iter().filter(|one| one.endpoint() == Some(queue)).count()
}

/// Number of lines that contain one of `names` and `fate`.
fn lines_with(output: &std::process::Output, names: [&str; 2], fate: &str) -> usize {
    let named = text(&output.stdout).lines().filter(|line| names.iter().any(|name| line.contains(name)));
    named.filter(|line| line.contains(fate)).count()
}

/// The rules and the dashboard in `deploy/` name metrics that exist, and are of the form that their
/// readers take.
#[test]
fn rules_and_dashboard_name_existing_metrics() {
    use nearside::telemetry::metrics::Metrics;
    use nearside::telemetry::metrics::exposition::Gauges;

    let page = Metrics::default().render(&Gauges { bound: Some(1), ..Gauges::default() });
    let services = services_page();
    let names: Vec<String> = page
        .lines()
        .chain(services.lines())
        .filter_map(|line| Some(line.strip_prefix("# TYPE ")?.split_once(' ')?.0.to_owned()))
        .collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), names.join("\n")).unwrap();
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/rules-check.sh");
    let checked = std::process::Command::new(script).arg(file.path()).env("RULES_CHECK", "form").output().unwrap();
    let said = String::from_utf8_lossy(&checked.stdout) + String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}");
}

/// A catalogue's certificate.
fn certificate(certified: &crate::whole::certified::Certified) -> nearside::config::ServerCertificate {
    use nearside::config::services::{ServiceRole, load};

    let file = certified.path("service.toml");
    let settings = "[engine]\nkind = \"memory\"\n[catalogue]\n".to_owned();
    std::fs::write(&file, settings + &certified.setting() + "[[catalogue.type]]\nname = \"tenant\"\n").unwrap();
    let (config, _) = load(ServiceRole::Catalogue, Some(&file), std::iter::empty()).unwrap();
    config.catalogue.tls.server.unwrap()
}

/// A gate that nobody came to.
fn gate() -> std::sync::Arc<nearside::access::gate::Gate> {
    use nearside::access::gate::{Gate, GateParts};
    use nearside::access::issuers::Issuers;
    use nearside::config::services::AccessConfig;

    let (config, clock, tasks) = (AccessConfig::default(), Clock::System, nearside::tasks::Tasks::new());
    let issuers = Issuers::open(&config, "", &clock).unwrap();
    let parts = GateParts { issuers, deny: None, names: Vec::new(), clock, tasks };
    std::sync::Arc::new(Gate::new(&config, parts))
}

/// Metrics of the views service, of an ingester, of a gate, and of a service's TLS.
fn services_page() -> String {
    use std::sync::Arc;

    use nearside::access::exposition::GateExposition;
    use nearside::engine::{EngineError, Stream, Topic, memory::MemoryStore};
    use nearside::http::{server_tls::ServerTls, tls_exposition::TlsExposition};
    use nearside::region::{exposition::IngestExposition, ingest::IngestParts, ingest::Ingester};

    struct Nobody;
    impl Topic for Nobody {
        fn publish(&self, _: Vec<String>) -> futures_util::future::BoxFuture<'_, Result<Vec<usize>, EngineError>> {
            Box::pin(std::future::ready(Ok(Vec::new())))
        }
    }

    let store = MemoryStore::new(Clock::System);
    let (home, own, feed) = (Arc::new(store.clone()), Arc::new(store.clone()), Arc::new(store.feed(Stream::Views)));
    let (region, topic) = ("eu".to_owned(), Arc::new(Nobody));
    let parts = IngestParts { region, home, own, feed, topic, views: None, clock: Clock::System };
    let mut registry = prometheus_client::registry::Registry::with_prefix("nearside");
    registry.register_collector(Box::new(nearside::views::ViewsCounters::default().metrics));
    registry.register_collector(Box::new(IngestExposition::new(Ingester::new(parts))));
    let certified = crate::whole::certified::Certified::new();
    let tls = ServerTls::open(&certificate(&certified)).unwrap();
    registry.register_collector(Box::new(TlsExposition::new(tls)));
    registry.register_collector(Box::new(GateExposition::new(gate())));
    let mut page = String::new();
    prometheus_client::encoding::text::encode(&mut page, &registry).unwrap();
    page
}
