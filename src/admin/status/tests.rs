//! `/status` from facts: what is reported, warned of and left out.

use std::path::PathBuf;

use super::*;
use crate::config;
use crate::model::ids::Epoch;
use crate::model::time::Wall;
use crate::protocol::event::{Grade, SubscriptionState};
use crate::protocol::region_views::RegionView;
use crate::tasks::FailingTask;

const SECOND: Duration = Duration::from_secs(1);
pub(in crate::admin) const NOW: Moment = Moment::from_nanos(1_000_000_000_000);

fn service_region(name: &str, url: &str, topic: bool) -> RegionConfig {
    let topic = topic.then(|| config::TopicArn {
        arn: format!("arn:aws:sns:{name}:123456789012:contexts"),
        partition: "aws".to_owned(),
        region: name.to_owned(),
        account: "123456789012".to_owned(),
        name: "contexts".to_owned(),
    });
    RegionConfig { name: name.to_owned(), url: url.parse().unwrap(), topic, ..Default::default() }
}

/// Two regions with topics, and secrets wherever the settings could hold one.
pub(in crate::admin) fn config() -> Config {
    Config {
        service: config::Service {
            name: "tenant <context>".to_owned(),
            regions: vec![
                service_region("eu-west-1", "https://user:s3cret@eu.example:8443/s3cret?t=s3cret", true),
                service_region("us-east-1", "https://us.example", true),
            ],
            ..Default::default()
        },
        listen: config::Listen {
            tcp: Some("127.0.0.1:8700".parse().unwrap()),
            token_file: Some(PathBuf::from("/run/s3cret")),
            max_connections: 10,
            ..Default::default()
        },
        admin: config::Admin { token_file: Some(PathBuf::from("/run/s3cret")), ..Default::default() },
        access: config::PermitsConfig::default(),
        cache: config::Cache { max_bytes: Some(1 << 28), ..Default::default() },
        race: config::RaceConfig { permits: 64, ..Default::default() },
        freshness: config::FreshnessConfig { max_jump: 1 << 40, ..Default::default() },
        announcements: Default::default(),
        drain: Default::default(),
        log: config::Log { format: config::LogFormat::Json, ..Default::default() },
    }
}

pub(in crate::admin) fn region_views() -> RegionViews {
    let live = RegionView {
        state: SubscriptionState::Live,
        grade: Grade::Watermark,
        proof: NOW.before(Duration::from_millis(1_500)),
        lease_until: NOW + Duration::from_millis(13_500),
        epoch: Epoch(2),
        unbroken_since: NOW.before(300 * SECOND),
        watermark: Some(Wall::from_millis(1_700_000_000_000)),
        watermark_at: Some(NOW.before(2 * SECOND)),
        known_through: NOW.before(2 * SECOND),
    };
    RegionViews {
        regions: vec![live, RegionView { state: SubscriptionState::Pending, ..RegionView::default() }],
        ..RegionViews::default()
    }
}

pub(in crate::admin) fn status(change: impl FnOnce(&mut Facts<'_>, &Metrics)) -> Status {
    changed(&config(), change)
}

fn changed(config: &Config, change: impl FnOnce(&mut Facts<'_>, &Metrics)) -> Status {
    let (region_views, metrics) = (region_views(), Metrics::new(&["eu-west-1".to_owned(), "us-east-1".to_owned()]));
    let slow = RaceHealth { running: 3, p95: Some(Duration::from_micros(20_500)), ..RaceHealth::default() };
    let mut facts = Facts {
        config,
        now: NOW,
        started: NOW.before(310 * SECOND),
        draining: false,
        regions: RegionFacts {
            region_views: &region_views,
            races: vec![slow, RaceHealth { outlier: true, held_off: Some(SECOND), ..RaceHealth::default() }],
            arrivals: vec![TopicArrivals { lag_ms: Some(45), ..TopicArrivals::default() }],
            grants: GrantsFacts::default(),
        },
        cache: CacheCounts { entries: 12, bytes: 4_096, capacity_bytes: 1 << 28 },
        connections: 4,
        tasks: TaskFacts {
            running: BTreeMap::from([("fill", 2)]),
            panics: BTreeMap::from([("fill", 0)]),
            failing: Vec::new(),
        },
        metrics: &metrics,
        bound: Some(2),
        audit: AuditStatus::default(),
        reload: None,
        observations: Observations::default(),
        remarks: Vec::new(),
        routes: RouteFacts::default(),
    };
    change(&mut facts, &metrics);
    Status::of(&facts)
}

#[test]
fn region_status_has_lease_and_watermark() {
    let json = serde_json::to_value(status(|_, _| {})).unwrap();
    let expected = serde_json::json!({
        "name": "eu-west-1", "host": "eu.example:8443", "topic": "arn:aws:sns:eu-west-1:123456789012:contexts",
        "subscription": "live", "grade": "watermark", "proof_age_ms": 1_500, "lease_left_ms": 13_500, "epoch": 2,
        "watermark": "2023-11-14T22:13:20.000Z", "watermark_age_ms": 2_000, "bound_s": 2,
        "announcement_lag_ms": 45,
        "race": { "running": 3, "p95_ms": 20.5, "skipped": false, "drained": false, "held_off_ms": null },
    });
    assert_eq!(json["regions"][0], expected);
    assert_eq!(json["regions"][1]["subscription"], "pending");
    assert_eq!(json["regions"][1]["race"]["held_off_ms"], 1_000);
    assert_eq!((&json["state"], &json["uptime_s"], &json["bound_s"]), (&"fresh".into(), &310.into(), &2.into()));
}

#[test]
fn status_redacts_urls_and_token_files() {
    let shown = serde_json::to_string(&status(|_, _| {})).unwrap();
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn expired_lease_is_not_live() {
    let status = status(|facts, _| facts.now = NOW + 14 * SECOND);
    assert_eq!((status.regions[0].subscription, status.regions[0].lease_left_ms), ("suspect", 0));
    assert_eq!(status.state, ReadyState::Degraded);
}

#[test]
fn announcements_off_means_no_subscription() {
    let mut config = config();
    config.announcements.transport = Transport::Off;
    let status = changed(&config, |_, _| {});
    assert!(status.regions.iter().all(|region| region.subscription == "none"));
    assert_eq!((status.state, status.transport), (ReadyState::Degraded, "off"));
}

#[test]
fn panicked_task_always_gives_reason() {
    let failing = FailingTask { name: "findings", panics: 2 }.line();
    let status = status(|facts, _| {
        facts.tasks.failing.push(failing.clone());
        facts.tasks.panics = BTreeMap::from([("fill", 0), ("findings", 2)]);
    });
    assert_eq!((status.state, &status.reasons), (ReadyState::Fresh, &vec![failing]));
    assert!(status.reasons[0].contains("\"findings\" panicked 2 times in a row"), "{:?}", status.reasons);
    assert_eq!((status.task_panics["findings"], status.gauges().process.task_panics["findings"]), (2, 2));
}

#[test]
fn all_regions_skipped_means_degraded() {
    let status = status(|facts, _| facts.regions.races.iter_mut().for_each(|race| race.outlier = true));
    assert_eq!(status.state, ReadyState::Degraded);
    assert!(status.reasons.iter().any(|line| line.contains("every region fails")), "{:?}", status.reasons);
}

fn finding(check: Check) -> Finding {
    Finding { check, subject: "context".into(), saw: "a".into(), advice: "b".into() }
}

#[test]
fn hidden_change_findings_make_status_doubtful() {
    let hiding = [Check::TypeUnrouted, Check::KeysUnmatched, Check::Unannounced, Check::TopicSwapped];
    for check in Check::VARIANTS {
        let status = status(|facts, _| facts.observations.findings.push(finding(*check)));
        let expected = if hiding.contains(check) { ReadyState::Doubtful } else { ReadyState::Fresh };
        assert_eq!(status.state, expected, "{check:?}");
        assert!(status.state == ReadyState::Fresh || !status.reasons.is_empty(), "{check:?}");
    }
    let status = status(|facts, _| {
        facts.observations.findings.push(finding(Check::KeysUnmatched));
        facts.regions.races.iter_mut().for_each(|race| race.outlier = true);
    });
    assert_eq!(status.state, ReadyState::Degraded, "the worse word stands");
}

#[test]
fn insecure_settings_are_listed() {
    assert_eq!(insecure(&config()), Vec::<String>::new());
    let mut config = config();
    config.announcements.insecure_sns_signer = Some("http://127.0.0.1:4566".parse().unwrap());
    config.listen.tcp = Some("0.0.0.0:8700".parse().unwrap());
    config.admin.listen = "0.0.0.0:8701".parse().unwrap();
    config.service.regions[1].url = "http://us.example".parse().unwrap();
    let lines = insecure(&config);
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[0].starts_with("announcements.insecure_sns_signer") && lines[0].contains("127.0.0.1:4566"));
}

#[test]
fn caller_churn_warning_suggests_setting() {
    assert!(!status(|_, _| {}).warnings.iter().any(|line| line.contains("identity")));
    let status = status(|_, metrics| metrics.requests.churn());
    assert!(status.warnings[0].contains("identity = \"sidecar\""), "{:?}", status.warnings);
}

#[test]
fn uncounted_pause_raises_warning() {
    assert!(!status(|_, _| {}).warnings.iter().any(|line| line.contains("paused")));
    let status = status(|_, metrics| metrics.announcements.uncounted_pause(Duration::from_millis(300_250)));
    assert!(status.warnings[0].contains("set forward by 300.2 s"), "{:?}", status.warnings);
}

#[test]
fn gauges_agree_with_status() {
    let gauges = status(|_, _| {}).gauges();
    assert_eq!((gauges.process.readiness, gauges.bound, gauges.cache.entries), ("fresh", Some(2), 12));
    assert_eq!((gauges.regions[0].state, gauges.regions[1].outlier), ("live", true));
    assert_eq!(gauges.regions[0].proof_age, Some(Duration::from_millis(1_500)));
}
