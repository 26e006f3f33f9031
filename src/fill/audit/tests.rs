//! Audits over a whole sidecar with scripted regions, in simulated time.

use std::io::Write;

use http::header;

use super::*;
use crate::http::exchange::Failure;
use crate::request::scripted::{A, Act, B, C, REGIONS, SECOND, Say, World, body, ms, shows, status};

const X: &str = "/v1/contexts/x/full";

/// A world with LIVE regions that all say `say`, a CONFIRMED entry of theirs, and audits.
async fn audited(settings: &str, say: impl Into<Act>) -> World {
    let say = say.into();
    let settings = format!("[freshness]\n{settings}\n");
    let world = World::with(&settings, [(1, say.clone()), (1, say.clone()), (1, say)]);
    world.live().await;
    world.get(X).await;
    tokio::time::sleep(ms(10)).await;
    start(&world.sidecar.fill);
    world.requests();
    world
}

/// The endings counted, without the zeros.
fn counted(world: &World) -> Vec<(&'static str, u64)> {
    world.sidecar.fill.shared.metrics.audits.audits().filter(|(_, count)| *count > 0).collect()
}

fn ended(world: &World, word: &str) -> u64 {
    world.sidecar.fill.shared.metrics.audits.audits().find(|(known, _)| *known == word).map_or(0, |(_, count)| count)
}

/// Entries found stale within 1, 10 and 60 s.
fn stale(world: &World) -> [u64; 3] {
    [0, 1, 2].map(|window| world.sidecar.fill.shared.metrics.audits.audits_within(window).1)
}

fn violations(world: &World) -> Vec<Timeline> {
    world.sidecar.fill.shared.auditor.violations(world.now())
}

async fn until_open(world: &World) {
    for _ in 0..1_300 {
        if world.sidecar.fill.shared.auditor.open() > 0 {
            return;
        }
        world.pass(SECOND / 10).await;
    }
    panic!("no audit has seen anything: {:?}", counted(world));
}

#[tokio::test(start_paused = true)]
async fn audit_repairs_unannounced_change() {
    let world = audited("audit_period = \"2m\"", shows(4)).await;
    world.set_all(1, shows(5));
    assert_eq!(world.get(X).await.body, "4", "nobody announced it");
    let before = world.now();
    until_open(&world).await;
    assert!(world.now() - before <= 121 * SECOND, "within the audit period");
    assert_eq!((world.floor("x"), violations(&world)), (5, Vec::new()), "the announcement has a second");
    let answer = world.get(X).await;
    assert!(answer.body == "5" && answer.is_hit() && answer.label().is_none(), "{answer:?}");
    world.pass(61 * SECOND).await;
    assert_eq!((ended(&world, "stale"), stale(&world)), (1, [1; 3]), "its own repair flatters nothing");
    let violations = violations(&world);
    assert_eq!(violations.len(), 1);
    let Timeline { record, held, version, announced, live, .. } = violations[0].clone();
    assert_eq!((record, held, version, announced), (world.record("x"), Version(4), Version(5), None));
    assert!(live.contains(A));
    // R21: what it shows of this type is kept for the soft TTL now, so only a reader keeps it here.
    for _ in 0..24 {
        world.pass(5 * SECOND).await;
        world.get(X).await;
    }
    assert_eq!(world.get(X).await.label(), Some("unwired"));
    assert!(ended(&world, "fresh") >= 1 && ended(&world, "stale") == 1, "{:?}", counted(&world));
    world.stop().await;
}

/// R17, R19: a region that was restored from a backup is not called fresh.
#[tokio::test(start_paused = true)]
async fn regressed_region_raises_alarm() {
    let world = audited("audit_period = \"30s\"", shows(5)).await;
    world.set(B, 1, shows(4));
    world.pass(35 * SECOND).await;
    assert_eq!(ended(&world, "regressed"), 0, "until worst_lag is over, it may lag");
    world.pass(60 * SECOND).await;
    assert!(ended(&world, "regressed") >= 1, "{:?}", counted(&world));
    assert!(world.sidecar.fill.shared.metrics.announcements.alarms(B, Alarm::Regressed) >= 1);
    assert!(world.get(X).await.is_hit(), "the others still show it");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn late_announcement_counts_by_delay() {
    let world = audited("audit_period = \"10s\"", shows(4)).await;
    world.set_all(1, shows(5));
    until_open(&world).await;
    assert_eq!(world.get(X).await.body, "5");
    world.pass(5 * SECOND).await;
    world.announce(A, "x", 5);
    world.pass(SECOND).await;
    assert_eq!((ended(&world, "announced"), stale(&world)), (1, [1, 0, 0]), "{:?}", counted(&world));
    assert!(violations(&world)[0].announced.is_some());
    world.set_all(1, shows(6));
    until_open(&world).await;
    world.announce(B, "x", 6);
    world.pass(SECOND).await;
    assert_eq!((ended(&world, "announced"), stale(&world), violations(&world).len()), (2, [1, 0, 0], 1));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unversioned_agreement_replaces_stale_entry() {
    let world = audited("audit_period = \"10s\"", body("old")).await;
    assert!(world.get(X).await.is_hit());
    world.set_all(1, body("new"));
    world.pass(11 * SECOND).await;
    let answer = world.get(X).await;
    assert!(answer.body == "new" && answer.is_hit(), "{answer:?}");
    assert_eq!(violations(&world), []);
    world.pass(70 * SECOND).await;
    assert_eq!((ended(&world, "stale"), stale(&world), violations(&world).len()), (1, [1; 3], 1));
    world.stop().await;
}

/// R4, R5: it is not known which of the two is newer, so a reply that only one region shows
/// replaces nothing.
#[tokio::test(start_paused = true)]
async fn unversioned_lag_is_no_violation() {
    let world = audited("audit_period = \"10s\"", body("s")).await;
    world.set(C, 0, body("older"));
    world.pass(30 * SECOND).await;
    assert_eq!(world.sidecar.fill.shared.auditor.open(), 1);
    assert_eq!(world.get(X).await.body, "s");
    world.set(C, 1, body("s"));
    world.pass(60 * SECOND).await;
    assert_eq!((ended(&world, "caught-up"), stale(&world)), (1, [0; 3]), "{:?}", counted(&world));
    assert_eq!(violations(&world), []);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn disagreeing_or_failing_regions_decide_nothing() {
    let world = audited("audit_period = \"10s\"", body("s")).await;
    world.set(C, 1, body("its own"));
    world.pass(75 * SECOND).await;
    assert_eq!((ended(&world, "undecided"), stale(&world)), (1, [0; 3]), "{:?}", counted(&world));
    world.set_all(1, status(503));
    world.pass(10 * SECOND).await;
    assert!(ended(&world, "undecided") >= 2, "{:?}", counted(&world));
    assert_eq!(world.get(X).await.body, "s");
    world.stop().await;
}

/// The moment at which the entry of X was asked for.
fn sent(world: &World) -> crate::model::time::Moment {
    world.sidecar.fill.shared.store.entries_of(world.record("x"))[0].1.sent
}

#[tokio::test(start_paused = true)]
async fn audit_asks_regions_without_validators() {
    let world = audited("audit_period = \"10s\"", shows(4).with("etag", "\"4\"")).await;
    let before = sent(&world);
    world.pass(10 * SECOND).await;
    let asked = world.requests();
    assert_eq!(asked.len(), REGIONS, "once in a period");
    for (_, _, request) in &asked {
        assert_eq!(request.headers[header::CACHE_CONTROL], "no-cache");
        assert!(!request.headers.contains_key(header::IF_NONE_MATCH));
    }
    assert_eq!((counted(&world), sent(&world)), (vec![("fresh", 1)], before));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn entries_are_audited_once_per_period() {
    let world = audited("audit_period = \"1m\"", shows(4)).await;
    for n in 0..99 {
        world.get(&format!("/v1/contexts/{n}/full")).await;
        world.get(&format!("/v1/pairs/{n}/x")).await;
    }
    world.pass(60 * SECOND).await;
    world.requests();
    world.pass(60 * SECOND).await;
    let asked = world.requests();
    for path in (0..99).flat_map(|n| [format!("/v1/contexts/{n}/full"), format!("/v1/pairs/{n}/x")]) {
        let attempts = asked.iter().filter(|(_, _, request)| request.path_and_query == path).count();
        assert!((REGIONS..=2 * REGIONS).contains(&attempts), "{path}: {attempts}");
    }
    assert_eq!(ended(&world, "skipped"), 0);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audits_beyond_budget_are_skipped() {
    let world = audited("audit_period = \"10s\"", shows(4)).await;
    for n in 0..999 {
        world.get(&format!("/v1/contexts/{n}/full")).await;
    }
    tokio::time::sleep(5 * SECOND).await;
    world.requests();
    let before = (ended(&world, "fresh"), ended(&world, "skipped"));
    world.pass(100 * SECOND).await;
    let (audited, skipped) = (ended(&world, "fresh") - before.0, ended(&world, "skipped") - before.1);
    let asked = world.asked().len() as u64 / REGIONS as u64;
    assert!(asked.abs_diff(audited) <= 10, "{asked} asked about, {audited} audited");
    assert!((900..=1_010).contains(&audited), "ten a second: {audited}");
    assert!((8_000..=10_000).contains(&skipped), "ten thousand came due: {skipped}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn zero_period_disables_audits() {
    let world = audited("audit_period = \"0s\"", shows(4)).await;
    assert_eq!(world.running("audit"), 0);
    world.pass(10 * SECOND).await;
    assert!(world.asked().is_empty() && counted(&world).is_empty());
    world.stop().await;
}

/// A reply at version 5 with this content.
fn five(content: &'static str) -> Say {
    body(content).at(5)
}

fn noted(world: &World) -> bool {
    let notes = world.sidecar.fill.shared.observed.seen();
    notes.routes.values().any(|notes| notes.other_content.is_some())
}

/// R17, R23: a joined record changed, and the version did not.
#[tokio::test(start_paused = true)]
async fn changed_content_same_version_is_repaired() {
    let world = audited("audit_period = \"30s\"", five("old")).await;
    world.set_all(1, five("new"));
    assert!(world.get(X).await.body == "old", "nobody announced it");
    until_open(&world).await;
    let answer = world.get(X).await;
    assert!(answer.body == "new" && answer.is_hit() && answer.label().is_none(), "{answer:?}");
    world.pass(65 * SECOND).await;
    assert_eq!((ended(&world, "stale"), violations(&world).len()), (1, 1), "{:?}", counted(&world));
    assert!(noted(&world));
    // What was stored before that is past the soft TTL, and is asked for.
    world.get(X).await;
    assert_eq!(world.get(X).await.label(), Some("unwired"), "R21: no version speaks for this type now");
    world.stop().await;
}

/// R23: replies may differ for other reasons than that it changed.
#[tokio::test(start_paused = true)]
async fn varying_content_is_no_violation() {
    let world = audited("audit_period = \"10s\"", five("of A")).await;
    world.set(B, 1, five("of B"));
    world.set(C, 1, five("of C"));
    world.pass(100 * SECOND).await;
    assert!(ended(&world, "fresh") >= 9 && violations(&world).is_empty(), "{:?}", counted(&world));
    world.set(A, 1, five("of A, later"));
    world.pass(100 * SECOND).await;
    assert!(ended(&world, "undecided") >= 9 && violations(&world).is_empty(), "{:?}", counted(&world));
    for minute in ["10:01", "10:02", "10:03", "10:04", "10:05"] {
        world.set_all(1, five(minute));
        world.pass(30 * SECOND).await;
    }
    assert!(violations(&world).is_empty(), "{:?}", counted(&world));
    assert!(world.get(X).await.label().is_none() && !noted(&world));
    world.stop().await;
}

/// R23: the others may lag, or always have returned that.
#[tokio::test(start_paused = true)]
async fn differing_content_needs_its_region() {
    let world = audited("audit_period = \"10s\"", five("newer")).await;
    let answered = world.sidecar.fill.shared.store.entries_of(world.record("x"))[0].1.region;
    for region in [A, B, C] {
        let act = if region == answered { Act::Fail(Failure::Connect) } else { five("older").into() };
        world.set(region, 1, act);
    }
    world.pass(100 * SECOND).await;
    assert_eq!((world.get(X).await.body.as_str(), world.sidecar.fill.shared.auditor.open()), ("newer", 0));
    assert!(ended(&world, "undecided") >= 9 && !noted(&world), "{:?}", counted(&world));
    world.stop().await;
}

/// R23: an end-to-end request begins it too, whether or not an audit was due.
#[tokio::test(start_paused = true)]
async fn replacing_race_compares_content() {
    for (content, expected) in [("new", true), ("old", false)] {
        let world = audited("audit_period = \"1h\"", five("old")).await;
        world.set_all(1, five(content));
        let answer = world.get_with(X, "cache-control", "no-cache").await;
        assert_eq!(answer.body, content);
        world.pass(70 * SECOND).await;
        assert_eq!((noted(&world), ended(&world, "stale")), (expected, u64::from(expected)), "{content}");
        world.stop().await;
    }
}

/// R7, R23: a 304 says that the stored entry is still current.
#[tokio::test(start_paused = true)]
async fn confirmed_content_is_no_violation() {
    let [old, new] = ["old", "new"].map(|content| five(content).with("etag", "\"5\""));
    let world = audited("audit_period = \"1h\"", old).await;
    world.set_all(1, new);
    world.set(B, 1, status(304));
    world.get_with(X, "cache-control", "no-cache").await;
    world.pass(70 * SECOND).await;
    assert!(world.sidecar.fill.shared.auditor.open() == 0 && !noted(&world));
    world.stop().await;
}

/// A reply at version 5 with this JSON under a coding.
fn coded(coding: &str, json: &str) -> Say {
    let bytes = match coding {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(json.as_bytes()).unwrap();
            encoder.finish().unwrap()
        }
        _ => json.as_bytes().to_vec(),
    };
    body(bytes).at(5).with("content-type", "application/json").with("content-encoding", coding)
}

/// R23: regions begin or stop compressing, or code in a way that nobody here can take off.
#[tokio::test(start_paused = true)]
async fn another_coding_is_no_other_content() {
    let old = "{\"a\":1,\"b\":2}";
    for (before, now, expected) in [
        (coded("identity", old), coded("gzip", old), false),
        (coded("gzip", old), coded("identity", "{ \"b\": 2, \"a\": 1 }"), false),
        (coded("identity", old), coded("compress", old), false),
        (coded("identity", old), coded("gzip", "{\"a\":1,\"b\":3}"), true),
    ] {
        let world = audited("audit_period = \"10s\"", before).await;
        world.set_all(1, now.clone());
        world.pass(100 * SECOND).await;
        assert_eq!((noted(&world), violations(&world).len()), (expected, usize::from(expected)));
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn reload_leaves_no_audit_open() {
    let mut world = audited("audit_period = \"10s\"", shows(4)).await;
    let current = world.sidecar.clone().into_current();
    world.set_all(1, shows(5));
    until_open(&world).await;
    world.pass(2 * SECOND).await;
    assert_eq!(
        (world.sidecar.fill.shared.auditor.open(), violations(&world).len()),
        (1, 1),
        "it waits for its announcement"
    );
    world.reload(|config| config.freshness.audit_period = Duration::ZERO);
    current.replace(world.sidecar.clone());
    world.pass(2 * SECOND).await;
    assert_eq!((world.running("audit"), world.sidecar.fill.shared.auditor.open()), (0, 0));
    assert_eq!((violations(&world), ended(&world, "undecided")), (Vec::new(), 1));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_outliving_reload_opens_nothing() {
    let mut world = audited("audit_period = \"10s\"", shows(4)).await;
    let current = world.sidecar.clone().into_current();
    world.set_all(1_900, shows(5));
    for _ in 0..200 {
        world.pass(SECOND / 10).await;
        if world.running("audit-entry") > 0 {
            break;
        }
    }
    world.reload(|config| config.freshness.audit_period = Duration::ZERO);
    current.replace(world.sidecar.clone());
    world.pass(SECOND).await;
    assert_eq!((world.running("audit"), world.running("audit-entry")), (0, 1), "it is under way");
    world.pass(5 * SECOND).await;
    assert_eq!((world.sidecar.fill.shared.auditor.open(), ended(&world, "unfollowed")), (0, 1));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn suspicions_end_while_memory_is_short() {
    let world = audited("audit_period = \"10s\"", shows(4)).await;
    world.set_all(1, shows(5));
    until_open(&world).await;
    world.sidecar.fill.shared.memory.set_short(true);
    world.announce(A, "x", 5);
    world.pass(SECOND).await;
    assert_eq!(
        (world.sidecar.fill.shared.auditor.open(), ended(&world, "announced")),
        (0, 1),
        "{:?}",
        counted(&world)
    );
    world.stop().await;
}
