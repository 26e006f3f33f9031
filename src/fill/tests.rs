//! Who shares a fill, and what is left however it ends: over a whole settings in virtual time.

use std::sync::Arc;

use tokio::sync::Notify;

use std::sync::atomic::Ordering;

use super::ask::{Ask, Of, Routing};
use super::flight::fill;
use super::outcome::{Filled, Role};
use crate::cache::limits::FILLS;
use crate::http::exchange::Failure;
use crate::race::question::Purpose;
use crate::request::scripted::{
    A, Act, Answer, B, C, DEADLINE, REGIONS, SECOND, Say, World, body, ms, shows, status, token,
};

mod aged;
mod flood;
mod floors;
mod freshness;
mod granted;
mod grants;
mod nonsense;
mod readers;
mod settling;
mod silence;
mod standing;
mod unwired;
mod writes;

const X: &str = "/v1/contexts/x/full";

fn at_five() -> [(u64, Act); 3] {
    [(20, shows(5).into()), (30, shows(5).into()), (40, shows(5).into())]
}

#[tokio::test(start_paused = true)]
async fn thousand_cold_readers_share_one_race() {
    let world = World::new(at_five());
    let readers: Vec<_> = (0..1_000).map(|_| world.begin(X)).collect();
    for reader in readers {
        let answer = reader.await.unwrap().unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, "5"));
    }
    assert_eq!(world.asked().len(), REGIONS);
    assert_eq!(world.sidecar.fill.shared.metrics.totals().fills_shared, 999);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn different_callers_never_share_fill() {
    let world = World::new(at_five());
    let (one, two) = (world.begin_with(X, token("Bearer 1")), world.begin_with(X, token("Bearer 2")));
    one.await.unwrap().unwrap();
    two.await.unwrap().unwrap();
    let asked = world.requests();
    assert_eq!(asked.len(), 2 * REGIONS);
    let ones = asked.iter().filter(|(_, _, request)| request.headers["authorization"] == "Bearer 1");
    assert_eq!(ones.count(), REGIONS);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn hangup_cancels_nothing_others_await() {
    let world = World::new(at_five());
    let first = world.begin(X);
    tokio::time::sleep(ms(5)).await;
    let second = world.begin(X);
    tokio::time::sleep(ms(5)).await;
    first.abort();
    assert_eq!(second.await.unwrap().unwrap().body, "5");
    assert_eq!(world.asked().len(), REGIONS);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn abandoned_fill_is_finished_and_stored() {
    let world = World::new(at_five());
    let reader = world.begin(X);
    tokio::time::sleep(ms(5)).await;
    reader.abort();
    tokio::time::sleep(ms(100)).await;
    assert_eq!(world.asked().len(), REGIONS);
    assert!(world.get(X).await.is_hit());
    assert!(world.asked().is_empty());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn lone_reader_gets_fastest_region() {
    let world = World::new([(20, shows(5).into()), (30, shows(5).into()), (0, Act::Hang)]);
    let started = world.now();
    assert_eq!(world.get_with(X, "cache-control", "no-store").await.body, "5");
    assert!(world.now() - started < ms(25), "the slowest attempt is not waited for");
    let headers = http::HeaderMap::from_iter([(http::header::CACHE_CONTROL, "no-store".parse().unwrap())]);
    let reader = world.begin_with("/v1/contexts/y/full", headers);
    tokio::time::sleep(ms(5)).await;
    assert_eq!(world.sidecar.fill.shared.fills.under_way(), 1);
    reader.abort();
    tokio::time::sleep(DEADLINE).await;
    assert_eq!(world.sidecar.fill.shared.fills.under_way(), 0);
    assert!(!world.get(X).await.is_hit(), "nothing was stored");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_store_replies_are_not_rechecked() {
    let world = World::new([(1, body("x").into()), (1, body("y").into()), (1, body("x").into())]);
    world.get(X).await;
    world.live().await;
    world.requests();
    world.get_with(X, "cache-control", "no-store").await;
    world.pass(SECOND).await;
    assert_eq!(world.asked().len(), REGIONS, "its reply could never settle what another reader's fill stored");
    assert_eq!(world.running("recheck"), 0);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn panicking_fill_answers_its_readers() {
    let world = World::new([(5, Act::Panic), (5, Act::Panic), (5, Act::Panic)]);
    assert_eq!(world.get(X).await.status, 503);
    tokio::time::sleep(ms(100)).await;
    assert_eq!(world.sidecar.fill.shared.fills.under_way(), 0);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn fill_dropped_by_drain_answers_readers() {
    let world = World::new([(0, Act::Hang), (0, Act::Hang), (0, Act::Hang)]);
    let sidecar = world.sidecar.clone();
    let reader = async {
        let (filled, _) = fill(&sidecar.fill, &ask(&world, X)).await;
        assert!(matches!(filled, Filled::Failed(_)));
    };
    let drain = world.sidecar.fill.shared.tasks.drain(ms(10));
    let ((), late) = tokio::join!(reader, drain);
    assert_eq!(late, ["fill"]);
    assert_eq!((sidecar.fill.shared.fills.under_way(), sidecar.fill.shared.fills.in_flight()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn readers_beyond_fill_bound_get_503() {
    let world = World::new(at_five());
    world.sidecar.fill.shared.fills.under_way.store(FILLS, Ordering::Relaxed);
    assert_eq!(world.get(X).await.status, 503);
    assert_eq!(world.get_with(X, "cache-control", "no-store").await.status, 503);
    assert!(world.asked().is_empty());
    assert_eq!(world.sidecar.fill.shared.fills.under_way(), FILLS);
    world.sidecar.fill.shared.fills.under_way.store(0, Ordering::Relaxed);
    assert_eq!(world.get(X).await.body, "5");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failing_key_races_are_rate_limited() {
    let world = World::new([(1, status(503).into()), (1, status(500).into()), (1, status(500).into())]);
    let mut races = Vec::new();
    for _ in 0..12_000 {
        assert!(world.get(X).await.status >= 500);
        if let Some((_, at, _)) = world.requests().first() {
            races.push(*at);
        }
        tokio::time::sleep(ms(1)).await;
    }
    let gaps: Vec<u64> = races.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64().round() as u64).collect();
    assert_eq!(gaps, [1, 2, 4], "the next comes five seconds after");
    assert_eq!(world.sidecar.fill.shared.metrics.totals().fills_shared, 0, "remembered is not shared");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn announcement_retries_failed_key_at_once() {
    let world = World::new([(1, status(500).into()), (1, status(500).into()), (1, status(500).into())]);
    assert_eq!(world.get(X).await.status, 500);
    world.set_all(1, shows(5));
    assert_eq!(world.get(X).await.status, 500);
    world.announce(A, "x", 5);
    assert_eq!(world.get(X).await.body, "5");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn oversized_body_streams_from_one_region() {
    let oversized = Act::Fail(Failure::Oversized { limit: 1, announced: true });
    let world = World::new([1; REGIONS].map(|after| (after, oversized.clone())));
    for reader in 0..20 {
        // The double streams what it would have sent whole, which is nothing.
        world.get(X).await;
        let asked = world.asked().len();
        assert_eq!(asked > REGIONS, reader == 0, "{reader}: {asked}");
    }
    let healths: Vec<_> = world.sidecar.fill.regions.status().into_iter().map(|region| region.health).collect();
    assert_eq!(healths, ["fit"; 3], "a region that answers well is no outlier");
    world.stop().await;
}

/// The reader must not wait for the deadline of the one region that the background budget admitted.
#[tokio::test(start_paused = true)]
async fn joining_background_fill_asks_every_region() {
    let world = World::new([(0, Act::Hang), (10, shows(5).into()), (10, shows(5).into())]);
    for region in [B, C] {
        spend_background(&world, region);
    }
    let background = Ask { purpose: Purpose::Background, ..ask(&world, X) };
    let sidecar = world.sidecar.clone();
    let fill = async { fill(&sidecar.fill, &background).await };
    let reader = async {
        tokio::time::sleep(ms(1)).await;
        assert_eq!(world.asked(), [A], "all that the budget admits");
        let started = world.now();
        let answer = world.get(X).await;
        assert!(answer.line.contains("collapsed"), "{}", answer.line);
        (answer.body, world.now() - started)
    };
    let ((filled, share), (body, took)) = tokio::join!(fill, reader);
    assert!(matches!(filled, Filled::Got(_)) && share == Role::Leader);
    assert_eq!(body, "5");
    assert!(took < ms(20), "{took:?}");
    let mut asked = world.asked();
    asked.sort_unstable();
    assert_eq!(asked, [B, C], "A is not asked twice");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn joiner_of_unbudgeted_fill_asks_itself() {
    let world = World::new(at_five());
    for region in [A, B, C] {
        spend_background(&world, region);
    }
    let background = Ask { purpose: Purpose::Background, ..ask(&world, X) };
    let sidecar = world.sidecar.clone();
    let (answer, (filled, _)) = tokio::join!(world.get(X), fill(&sidecar.fill, &background));
    assert_eq!(answer.body, "5");
    drop(filled);
    assert_eq!(world.asked().len(), REGIONS);
    assert!(world.get("/v1/contexts/x/full").await.is_hit(), "a background failure is not remembered");
    world.stop().await;
}

/// Only a reader is entitled to more regions than a background fill may have asked.
#[tokio::test(start_paused = true)]
async fn failed_joined_fill_is_not_repeated() {
    for purpose in [Purpose::Foreground, Purpose::Background] {
        let world = World::new([A, B, C].map(|_| (10, Act::Fail(Failure::Connect))));
        let first = Ask { purpose, ..ask(&world, X) };
        let joining = Ask { purpose: Purpose::Background, ..ask(&world, X) };
        let both = async { tokio::join!(fill(&world.sidecar.fill, &first), fill(&world.sidecar.fill, &joining)) };
        let ((_, began), (filled, share)) = both.await;
        assert_eq!((began, share), (Role::Leader, Role::Follower), "{purpose:?}");
        assert!(matches!(filled, Filled::Failed(_)));
        assert_eq!(world.asked().len(), REGIONS, "{purpose:?}");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn unstored_fills_hold_no_records() {
    let world = World::new([(1, status(401).into()), (1, status(401).into()), (1, status(401).into())]);
    for key in 0..50 {
        assert_eq!(world.get(&format!("/v1/contexts/{key}/full")).await.status, 401);
    }
    assert_eq!(world.sidecar.fill.shared.freshness.held_records(), 0);
    world.set_all(1, shows(5));
    world.get("/v1/contexts/0/full").await;
    assert_eq!(world.sidecar.fill.shared.freshness.held_records(), 1);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn entry_keeps_credentials_without_exposing_them() {
    let gate = Arc::new(Notify::new());
    let world = World::new([(1, Act::Gate(gate.clone(), shows(5))), (1, Act::Hang), (1, Act::Hang)]);
    let mut headers = token("Bearer secret-token");
    headers.insert("traceparent", "00-secret-trace".parse().unwrap());
    let reader = world.begin_with("/v1/contexts/secret-key/full", headers);
    tokio::time::sleep(ms(5)).await;
    let (_, _, request) = world.requests().swap_remove(0);
    assert_eq!(request.headers["traceparent"], "00-secret-trace");
    gate.notify_one();
    reader.await.unwrap().unwrap();
    let (_, entry) = world.sidecar.fill.shared.store.entries_of(world.record("secret-key")).swap_remove(0);
    let kept = entry.request("/v1/contexts/secret-key/full");
    assert_eq!(kept.headers["authorization"], "Bearer secret-token");
    assert!(!kept.headers.contains_key("traceparent"));
    for shown in [format!("{entry:?}"), format!("{request:?}"), format!("{kept:#?}")] {
        assert!(!shown.contains("secret"), "{shown}");
    }
    world.stop().await;
}

fn ask(world: &World, path: &str) -> Ask {
    let matched = world.sidecar.fill.router.find(path).unwrap();
    let headers = http::HeaderMap::new();
    let mut buffer = crate::cache::key::KeyBuffer::new(world.sidecar.fill.shared.hash_key);
    let key = buffer.routed(crate::cache::key::Representation {
        route: matched.id,
        path_and_query: path,
        headers: &headers,
        forward: &[],
        is_form_known: false,
        is_uncoded: false,
        identity: world.sidecar.fill.shared.keyed_hashes.owner(&matched.route.identity, &headers).0,
    });
    let records = matched.records().map(|(record_type, key)| {
        let id = world.sidecar.fill.shared.keyed_hashes.record(record_type, &key).unwrap();
        (id, world.sidecar.fill.shared.freshness.pin(id))
    });
    let request = crate::http::exchange::Outgoing { path_and_query: path.to_owned(), ..Default::default() };
    Ask {
        key: key.to_key(),
        request: Arc::new(request),
        of: Of::Route(Routing::new(&world.sidecar.fill.shared.freshness, matched.id, records.collect())),
        previous: None,
        purpose: Purpose::Foreground,
        no_cache: false,
        floor: None,
        alone: false,
        dropped: Arc::default(),
        permit: None,
        through: None,
    }
}

/// Between two misses the allocator puts entries where these lay. A future of twice its size leaves
/// room behind an entry that nothing fills (decision 0027).
#[test]
fn futures_of_misses_stay_small() {
    fn size_of_output<A, B, F>(_: impl Fn(A, B) -> F) -> usize {
        size_of::<F>()
    }
    let fill = size_of_output(super::run::run);
    let reader =
        size_of_output(|(settings, found), admitted| crate::request::serve::execute_plan(settings, found, admitted));
    assert!(fill <= 1200 && reader <= 1024, "{fill} bytes for the fill, {reader} for who waits for it");
}

fn spend_background(world: &World, region: crate::model::ids::RegionId) {
    world.sidecar.fill.regions.spend_background(region);
}
