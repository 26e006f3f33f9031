//! Tests of the page: every metric is documented, and a page is what a scraper reads.

use std::collections::BTreeMap;

use super::*;
use crate::model::ids::RegionId;
use crate::protocol::event::{Alarm, EpochMove};
use crate::protocol::label::Label;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::announcements::AnnouncementOutcome;
use crate::telemetry::metrics::audits::AuditResult;
use crate::telemetry::metrics::operations::ReloadOutcome;
use crate::telemetry::metrics::races::AttemptOutcome;
use crate::telemetry::metrics::requests::{MissVerdict, RefusalReason};

fn regions() -> Metrics {
    Metrics::new(&["eu-west-1".to_owned(), "us-east-1".to_owned()])
}

fn lines(page: &str) -> Vec<&str> {
    page.lines().collect()
}

#[test]
fn counts_appear_under_their_labels() {
    let metrics = regions();
    metrics.requests.hit(Duration::from_micros(7));
    metrics.requests.miss(MissVerdict::Good, Some(RegionId(1)), Duration::from_millis(21));
    metrics.requests.miss(MissVerdict::None, None, Duration::from_secs(2));
    metrics.races.attempt(RegionId(0), AttemptOutcome::TooOld, Duration::from_millis(30));
    metrics.races.loser(RegionId(0));
    metrics.announcements.announcement(Some(RegionId(1)), AnnouncementOutcome::Applied);
    metrics.announcements.announcement(None, AnnouncementOutcome::WrongTopic);
    metrics.announcements.propagation(RegionId(1), Duration::from_millis(40));
    metrics.announcements.epoch_moved(RegionId(0), EpochMove::Hole);
    metrics.announcements.alarm(RegionId(0), Alarm::FloorDropped);
    metrics.requests.refused(RefusalReason::BadHost);
    metrics.requests.stale(Label::Grace);
    metrics.requests.fill_shared();
    metrics.requests.churn();
    metrics.audits.audited(AuditResult::Stale);
    metrics.operations.reloaded(ReloadOutcome::Refused);
    metrics.audits.audited_within(1, false);
    let page = metrics.render(&Gauges::default());
    for line in [
        "nearside_hits_total 1",
        "nearside_hit_duration_seconds_bucket{le=\"0.000005\"} 0",
        "nearside_hit_duration_seconds_bucket{le=\"0.00001\"} 1",
        "nearside_misses_total{region=\"us-east-1\",verdict=\"good\"} 1",
        "nearside_misses_total{region=\"none\",verdict=\"none\"} 1",
        "nearside_misses_total{region=\"eu-west-1\",verdict=\"good\"} 0",
        "nearside_miss_duration_seconds_count 2",
        "nearside_attempts_total{region=\"eu-west-1\",verdict=\"too-old\"} 1",
        "nearside_attempt_duration_seconds_bucket{le=\"+Inf\",region=\"eu-west-1\"} 1",
        "nearside_losing_attempts_total{region=\"eu-west-1\"} 1",
        "nearside_losing_attempts_total{region=\"us-east-1\"} 0",
        "nearside_announcements_total{region=\"us-east-1\",outcome=\"applied\"} 1",
        "nearside_announcements_total{region=\"none\",outcome=\"wrong-topic\"} 1",
        "nearside_propagation_delay_seconds_count{region=\"us-east-1\"} 1",
        "nearside_epoch_moves_total{region=\"eu-west-1\",reason=\"hole\"} 1",
        "nearside_alarms_total{region=\"eu-west-1\",reason=\"floor-dropped\"} 1",
        "nearside_reloads_total{outcome=\"applied\"} 0",
        "nearside_reloads_total{outcome=\"refused\"} 1",
        "nearside_refused_requests_total{reason=\"bad-host\"} 1",
        "nearside_stale_served_total{reason=\"grace\"} 1",
        "nearside_fills_shared_total 1",
        "nearside_identity_churn_total 1",
        "nearside_audit_entries_total{result=\"stale\"} 1",
        "nearside_audit_entries_total{result=\"skipped\"} 0",
        "nearside_audit_windows_total{within=\"1s\",outcome=\"stale\"} 0",
        "nearside_audit_windows_total{within=\"10s\",outcome=\"stale\"} 1",
        "nearside_audit_windows_total{within=\"60s\",outcome=\"fresh\"} 0",
        "# EOF",
    ] {
        assert!(lines(&page).contains(&line), "{line} is missing from\n{page}");
    }
}

#[test]
fn gauges_leave_out_unknown_values() {
    let live = RegionGauges {
        state: "live",
        grade: "watermark",
        proof_age: Some(Duration::from_millis(1_500)),
        lease_left: Duration::from_millis(13_500),
        epoch: 3,
        bound: Some(2),
        announcement_lag: Some(-20.25),
        ..RegionGauges::default()
    };
    let gauges = Gauges {
        process: ProcessGauges {
            readiness: "fresh",
            states: &["warming", "fresh", "draining"],
            tasks: BTreeMap::from([("fill", 4)]),
            task_panics: BTreeMap::from([("fill", 2)]),
            ..ProcessGauges::default()
        },
        cache: CacheGauges { entries: 12, ..CacheGauges::default() },
        credentials: vec![("sts", Duration::from_secs(450))],
        bound: Some(2),
        regions: vec![live, RegionGauges { grade: "none", outlier: true, ..RegionGauges::default() }],
        audits_open: 3,
        ..Gauges::default()
    };
    let page = regions().render(&gauges);
    for line in [
        "nearside_subscription_state{region=\"eu-west-1\",state=\"live\"} 1",
        "nearside_subscription_state{region=\"eu-west-1\",state=\"dead\"} 0",
        "nearside_proof_grade{region=\"eu-west-1\",grade=\"watermark\"} 1",
        "nearside_region_bound_seconds{region=\"eu-west-1\"} 2.0",
        "nearside_announcement_lag_seconds{region=\"eu-west-1\"} -20.25",
        "nearside_audit_open 3.0",
        "nearside_proof_grade{region=\"us-east-1\",grade=\"none\"} 1",
        "nearside_proof_age_seconds{region=\"eu-west-1\"} 1.5",
        "nearside_epoch{region=\"eu-west-1\"} 3.0",
        "nearside_region_skipped{region=\"us-east-1\"} 1.0",
        "nearside_bound_seconds 2.0",
        "nearside_cache_entries 12.0",
        "nearside_credentials_expiry_seconds{kind=\"sts\"} 450.0",
        "nearside_readiness{state=\"fresh\"} 1",
        "nearside_readiness{state=\"draining\"} 0",
        "nearside_tasks{name=\"fill\"} 4",
        "nearside_task_panics_total{task=\"fill\"} 2",
    ] {
        assert!(lines(&page).contains(&line), "{line} is missing from\n{page}");
    }
    assert!(lines(&page).contains(&"nearside_proof_age_seconds{region=\"us-east-1\"} inf"), "{page}");
}

/// `docs/metrics.md` lists every metric, and no others. Those of the services have a chapter and
/// a test (`tests/it/services.rs`) of their own.
#[test]
fn documentation_lists_exactly_the_metrics() {
    let page = regions().render(&Gauges { bound: Some(1), ..Gauges::default() });
    let mut exist: Vec<String> = lines(&page)
        .into_iter()
        .filter_map(|line| {
            let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
            let end = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            Some(format!("{name}{end}"))
        })
        .collect();
    let (ours, _) = include_str!("../../../../docs/metrics.md").split_once("\n## The services\n").unwrap();
    let documented = ours.lines().filter_map(|line| line.strip_prefix("| `nearside_"));
    let mut documented: Vec<String> =
        documented.filter_map(|rest| Some(format!("nearside_{}", rest.split_once('`')?.0))).collect();
    exist.sort();
    documented.sort();
    assert_eq!(exist, documented);
}

#[test]
fn every_series_exists_at_zero() {
    let page = regions().render(&Gauges::default());
    for line in [
        "nearside_alarms_total{region=\"eu-west-1\",reason=\"version-jump\"} 0",
        "nearside_announcements_total{region=\"none\",outcome=\"wrong-topic\"} 0",
        "nearside_epoch_moves_total{region=\"us-east-1\",reason=\"hole\"} 0",
        "nearside_stale_served_total{reason=\"stale-if-error\"} 0",
        "nearside_refused_requests_total{reason=\"token\"} 0",
        "nearside_admin_commands_total{command=\"purge\",outcome=\"denied\"} 0",
        "nearside_attempts_total{region=\"eu-west-1\",verdict=\"connect\"} 0",
    ] {
        assert!(lines(&page).contains(&line), "{line} is missing from\n{page}");
    }
}

#[test]
fn every_metric_is_described_once() {
    let page = regions().render(&Gauges::default());
    let mut described: Vec<_> = lines(&page).into_iter().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let all = described.len();
    described.sort_unstable();
    described.dedup();
    assert_eq!(described.len(), all);
    assert!(all > 20, "{all}");
}
