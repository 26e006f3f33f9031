//! R2, R5, R10, R15 and R16 in fills: what is earned, what is rechecked, and when that stops.

use std::time::Duration;

use super::*;
use crate::fill::limits;
use crate::protocol::event::{Event, Says, Scope};
use crate::protocol::holding::Standing;
use crate::request::scripted::Answer;

impl World {
    fn standing(&self, key: &str) -> Option<Standing> {
        let stored = self.sidecar.fill.shared.store.entries_of(self.record(key));
        stored.first().and_then(|(_, entry)| entry.validity.routed()).map(|routed| routed.standing)
    }
}

const CONFIRMED: Option<Standing> = Some(Standing::Confirmed);
const PROVISIONAL: Option<Standing> = Some(Standing::Provisional);

/// R5, the path of versions: at once.
#[tokio::test(start_paused = true)]
async fn live_region_confirms_first_versioned_reply() {
    let world = World::new([(1, shows(5).into()), (0, Act::Hang), (0, Act::Hang)]);
    world.step(Event::Subscribing(A));
    world.step(Event::Subscribed(A));
    world.pass(59 * SECOND).await;
    world.get("/v1/contexts/early/full").await;
    world.pass(2 * SECOND).await;
    world.get("/v1/contexts/late/full").await;
    assert_eq!((world.standing("early"), world.standing("late")), (PROVISIONAL, CONFIRMED));
    world.stop().await;
}

/// R5, the path of unanimity.
#[tokio::test(start_paused = true)]
async fn unversioned_replies_need_full_agreement() {
    let world = World::new([(1, body("s").into()), (2, body("s").into()), (3, body("s").into())]);
    world.get(X).await;
    tokio::time::sleep(ms(10)).await;
    assert_eq!(world.standing("x"), PROVISIONAL, "no region is LIVE");
    world.live().await;
    world.get("/v1/contexts/y/full").await;
    assert_eq!(world.standing("y"), PROVISIONAL, "one region has answered");
    tokio::time::sleep(ms(10)).await;
    assert_eq!(world.standing("y"), CONFIRMED);
    world.set(C, 3, status(503));
    world.get("/v1/contexts/z/full").await;
    tokio::time::sleep(ms(10)).await;
    assert_eq!(world.standing("z"), PROVISIONAL, "all that are reachable are not all");
    world.stop().await;
}

/// The best reply may come from an attempt that was sent before the first one's, and it still upgrades
/// the entry. LIVE for less than the worst lag, so that only the agreement of all confirms.
#[tokio::test(start_paused = true)]
async fn entry_is_upgraded_after_race() {
    for (version, fastest, announcer) in [0, 5]
        .into_iter()
        .flat_map(|version| [A, B, C].map(|fastest| [A, B, C].map(|other| (version, fastest, other))))
        .flatten()
    {
        let say = if version == 0 { body("5") } else { shows(version) };
        let world = World::new([5; REGIONS].map(|after| (after, say.clone().into())));
        world.step(Event::Subscribed(A));
        world.announce(A, "other", 1);
        world.announce(announcer, "x", version);
        tokio::time::sleep(SECOND).await;
        world.set(fastest, 1, say);
        world.get(X).await;
        tokio::time::sleep(ms(10)).await;
        assert_eq!(world.standing("x"), CONFIRMED, "{fastest:?} first, {announcer:?} announced {version}");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn slower_newer_reply_replaces_first() {
    let world = World::new([(1, shows(4).into()), (2, shows(4).into()), (30, shows(5).into())]);
    world.live().await;
    assert_eq!(world.get(X).await.body, "4");
    tokio::time::sleep(ms(40)).await;
    let answer = world.get(X).await;
    assert_eq!((answer.is_hit(), answer.body.as_str(), answer.label()), (true, "5", None));
    world.stop().await;
}

/// R5: 50 ms, doubling.
#[tokio::test(start_paused = true)]
async fn provisional_rechecks_double_from_50_ms() {
    let world = World::new([(0, body("new").into()), (0, body("old").into()), (0, body("new").into())]);
    world.live().await;
    let started = world.now();
    world.get(X).await;
    world.requests();
    tokio::time::sleep(ms(1_600)).await;
    let rechecks = world.requests();
    assert_eq!(
        (0..5).map(|place| (rechecks[place * REGIONS].1 - started).as_millis() / 10 * 10).collect::<Vec<_>>(),
        [50, 150, 350, 750, 1_550]
    );
    assert_eq!(rechecks.len(), 5 * REGIONS);
    world.set(B, 0, body("new"));
    world.pass(4 * SECOND).await;
    assert_eq!(world.standing("x"), CONFIRMED);
    assert_eq!((world.running("recheck"), world.asked().len()), (0, REGIONS));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn disagreement_is_rechecked_once_per_minute() {
    let world = World::new([(0, body("1").into()), (0, body("2").into()), (0, body("3").into())]);
    world.live().await;
    for _ in 0..300 {
        world.get(X).await;
        world.pass(SECOND).await;
    }
    world.requests();
    let mut races = Vec::new();
    for _ in 0..240 {
        let answer = world.get(X).await;
        assert!(!answer.is_hit() || answer.label() == Some("provisional"), "{answer:?}");
        let background = world.requests();
        races.extend(background.first().map(|(_, at, _)| *at));
        world.pass(SECOND).await;
    }
    // Readers whose soft TTL is over ask too, every 30 s; rechecks come at most once a minute.
    assert!(races.len() <= 240 / 30 + 240 / 60 + 2, "{}", races.len());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rechecks_stop_and_resume_with_readers() {
    let world = World::new([(0, body("1").into()), (0, body("2").into()), (0, body("3").into())]);
    world.live().await;
    world.get(X).await;
    tokio::time::sleep(ms(10)).await;
    assert_eq!(world.running("recheck"), 1);
    world.pass(200 * SECOND).await;
    assert_eq!(world.running("recheck"), 0);
    world.get(X).await;
    tokio::time::sleep(ms(10)).await;
    assert_eq!(world.running("recheck"), 1);
    world.stop().await;
}

/// With nothing LIVE, nothing could be settled: only the soft TTL asks again.
#[tokio::test(start_paused = true)]
async fn no_live_region_leaves_soft_ttl() {
    let world = World::new([(0, shows(5).into()), (0, shows(5).into()), (0, shows(5).into())]);
    for key in 0..2_000 {
        world.get(&format!("/v1/contexts/{key}/full")).await;
    }
    assert_eq!(world.running("recheck"), 0);
    world.requests();
    tokio::time::sleep(29 * SECOND).await;
    assert_eq!(world.get("/v1/contexts/1/full").await.label(), Some("provisional"));
    tokio::time::sleep(2 * SECOND).await;
    assert!(!world.get("/v1/contexts/1/full").await.is_hit());
    assert_eq!(world.asked().len(), REGIONS);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn next_reader_starts_missed_rechecks() {
    let world = World::new([(0, body("1").into()), (0, body("2").into()), (0, body("3").into())]);
    world.get(X).await;
    world.step(Event::Subscribed(A));
    world.hear(A, crate::protocol::event::Says::Unrouted);
    tokio::time::sleep(SECOND).await;
    assert_eq!(world.running("recheck"), 0, "nothing was LIVE when it was filled");
    world.set_all(0, body("1"));
    assert_eq!(world.get(X).await.label(), Some("provisional"));
    tokio::time::sleep(ms(60)).await;
    assert_eq!(world.standing("x"), CONFIRMED);
    world.stop().await;
}

/// No recheck storm: a dead region keeps ten thousand keys from being settled.
#[tokio::test(start_paused = true)]
async fn cold_keys_are_rechecked_within_budget() {
    let world = World::new([(1, body("s").into()), (1, body("s").into()), (1, Act::Fail(Failure::Connect))]);
    world.live().await;
    let started = world.now();
    for key in 0..10_000 {
        world.get(&format!("/v1/contexts/{key}/full")).await;
        if key % 200 == 199 {
            world.hear(A, crate::protocol::event::Says::Unrouted);
        }
        assert!(world.running("recheck") <= limits::PENDING_RECHECKS);
    }
    let asked = world.asked();
    let seconds = (world.now() - started).as_secs_f64().ceil() as usize;
    let to_a = asked.iter().filter(|region| **region == A).count();
    // A fifth of what was asked for readers or twenty a second, whichever is more.
    assert!(to_a <= 10_000 + 10_000 / 5 + 1_000 + 20 * seconds, "{to_a} attempts in {seconds} s");
    world.stop().await;
}

/// R15: a version that nobody gave earns nothing and is labelled.
#[tokio::test(start_paused = true)]
async fn implausible_version_is_labelled_provisional() {
    let world = World::new([(1, shows(u64::MAX).into()), (1, shows(5).into()), (1, shows(5).into())]);
    world.live().await;
    world.set(B, 50, shows(5));
    world.set(C, 50, shows(5));
    let answer = world.get(X).await;
    assert_eq!(answer.label(), Some("floor-escaped"), "{answer:?}");
    tokio::time::sleep(ms(100)).await;
    assert_ne!(world.standing("x"), CONFIRMED);
    assert!(world.floor("x") <= 5);
    world.stop().await;
}

/// R15: regions restored from a backup.
#[tokio::test(start_paused = true)]
async fn unreachable_floor_is_dropped() {
    let world = World::new([(1, shows(9).into()), (1, shows(9).into()), (1, shows(9).into())]);
    world.live().await;
    world.get(X).await;
    world.set_all(1, shows(4));
    world.announce(A, "x", 10);
    for _ in 0..130 {
        let answer = world.get(X).await;
        assert!(answer.label().is_some(), "{answer:?}");
        world.pass(SECOND).await;
    }
    assert_eq!(world.floor("x"), 4);
    world.stop().await;
}

/// R5: a change without a version leaves the floor where it was, and so does RELOAD: a lagging
/// region still shows the floor.
#[tokio::test(start_paused = true)]
async fn floor_confirms_nothing_after_reload() {
    for reload in [false, true] {
        let world = World::new([(1, shows(5).into()), (2, shows(5).into()), (3, shows(5).into())]);
        world.live().await;
        world.get(X).await;
        assert_eq!(world.standing("x"), CONFIRMED);
        world.set(A, 1, Act::Fail(Failure::Connect));
        if reload {
            world.hear(A, Says::Reload(Scope::All))
        } else {
            world.announce(A, "x", 0)
        }
        for (wait, expected) in [(ms(1), PROVISIONAL), (58 * SECOND, PROVISIONAL), (3 * SECOND, CONFIRMED)] {
            world.pass(wait).await;
            assert_eq!(world.get_with(X, "cache-control", "no-cache").await.body, "5");
            tokio::time::sleep(ms(10)).await;
            assert_eq!(world.standing("x"), expected, "{wait:?}, RELOAD: {reload}");
        }
        world.stop().await;
    }
}

/// R4: nobody waits for a recheck, so its first reply need not be taken for lack of a better one.
#[tokio::test(start_paused = true)]
async fn older_recheck_reply_waits_for_race() {
    let world = World::new([(1, body("new").into()), (5, body("old").into()), (5, body("old").into())]);
    world.live().await;
    world.announce(A, "x", 0);
    assert_eq!(world.get(X).await.body, "new");
    tokio::time::sleep(ms(10)).await;
    world.requests();
    world.set(A, 800, body("new"));
    for _ in 0..100 {
        let answer = world.get(X).await;
        assert!(answer.body == "new" && answer.label() == Some("provisional"), "{answer:?}");
        tokio::time::sleep(ms(10)).await;
    }
    assert_eq!(world.asked().len(), 2 * REGIONS, "rechecks alone");
    world.stop().await;
}

/// R15: the doubt is over when all agree on something ordinary; what was stored meanwhile must not
/// outlive the next change.
#[tokio::test(start_paused = true)]
async fn ordinary_announcement_evicts_doubted_version() {
    let huge = 1 << 61;
    let world = World::new([(1, shows(5).into()), (20, shows(5).into()), (20, shows(5).into())]);
    world.get(X).await;
    world.set(A, 1, shows(huge));
    let doubted = world.get_with(X, "cache-control", "no-cache").await;
    assert_eq!((doubted.body.clone(), doubted.label()), (huge.to_string(), Some("floor-escaped")));
    tokio::time::sleep(ms(50)).await;
    world.set_all(1, shows(5));
    world.get("/v1/contexts/x/other").await;
    tokio::time::sleep(ms(10)).await;
    let stored = world.get(X).await;
    assert_eq!((stored.body.clone(), stored.label()), (huge.to_string(), Some("provisional")));
    world.set_all(1, shows(6));
    world.announce(B, "x", 6);
    let answer = world.get(X).await;
    assert!(answer.body == "6" && !answer.is_hit(), "{answer:?}");
    world.stop().await;
}

/// R16.
#[tokio::test(start_paused = true)]
async fn ttl_counts_from_request_jitter_shortens() {
    let world = World::new([(500, shows(5).into()), (500, shows(5).into()), (500, shows(5).into())]);
    world.live().await;
    let mut ttls = Vec::new();
    for key in 0..200 {
        let asked = world.now();
        world.get(&format!("/v1/contexts/{key}/full")).await;
        let (_, entry) = world.sidecar.fill.shared.store.entries_of(world.record(&key.to_string())).swap_remove(0);
        assert_eq!(entry.sent, asked);
        ttls.push(entry.validity.routed().unwrap().ttl.get());
        world.hear(A, crate::protocol::event::Says::Unrouted);
    }
    let hour = Duration::from_secs(3_600);
    assert!(ttls.iter().all(|ttl| *ttl <= hour && *ttl >= hour.mul_f64(0.95)));
    let spread = *ttls.iter().max().unwrap() - *ttls.iter().min().unwrap();
    assert!(spread > hour.mul_f64(0.04), "{spread:?}: they do not end together");
    world.stop().await;
}

/// R10: what may have missed something is asked about when it is read, and not before.
#[tokio::test(start_paused = true)]
async fn lost_subscription_revalidates_on_read() {
    let world = World::new([(1, shows(5).into()), (1, shows(5).into()), (1, shows(5).into())]);
    world.live().await;
    world.get(X).await;
    assert!(world.get(X).await.is_hit());
    world.requests();
    world.step(Event::Lost(A));
    tokio::time::sleep(SECOND).await;
    assert!(world.asked().is_empty(), "nothing is flushed or refetched");
    assert!(!world.get(X).await.is_hit());
    assert_eq!(world.asked().len(), REGIONS);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn large_unversioned_bodies_are_compared() {
    let large = vec![b'x'; 4 * crate::payload::limits::INLINE_DIGEST_BYTES];
    let mut other = large.clone();
    other[77] = b'y';
    let world =
        World::new([(1, body(large.clone()).into()), (1, body(large.clone()).into()), (1, body(other).into())]);
    world.live().await;
    world.get(X).await;
    world.pass(ms(20)).await;
    assert_eq!(world.standing("x"), PROVISIONAL);
    world.set(C, 1, body(large));
    world.pass(2 * SECOND).await;
    assert_eq!(world.standing("x"), CONFIRMED);
    world.stop().await;
}

impl World {
    /// The publisher of region `a` sends a heartbeat: everything that it ingested until now is
    /// known.
    fn beat(&self) {
        let (region, published) = (A, self.sidecar.fill.shared.clock.wall());
        let says = Says::Heartbeat { path: false, ingested_through: Some(published), signing_off: false };
        self.step(Event::Message { region, published, queued: None, numbered: Some((1, 0)), says });
    }
}

/// The `bound` that an answer states.
fn bound(answer: &Answer) -> &str {
    answer.line.split("; ").find_map(|part| part.strip_prefix("bound=")).unwrap_or("missing")
}

/// Promise 2.
#[tokio::test(start_paused = true)]
async fn routed_answers_state_bound_or_none() {
    let world = World::new([(1, shows(5).into()), (2, shows(5).into()), (3, Act::from(shows(5)))]);
    world.live().await;
    let (miss, hit) = (world.get(X).await, world.get(X).await);
    assert_eq!((bound(&miss), bound(&hit), hit.is_hit()), ("none", "none", true), "no watermark yet");
    world.beat();
    assert_eq!(bound(&world.get(X).await), "0", "of what was stored before it too, at this moment");
    world.pass(5 * SECOND).await;
    let (miss, hit) = (world.get("/v1/contexts/y/full").await, world.get(X).await);
    assert_eq!((bound(&miss), bound(&hit)), ("6", "6"), "{hit:?}");
    world.beat();
    world.set_all(1, Act::Fail(Failure::Connect));
    let stale = world.get_with(X, "cache-control", "no-cache").await;
    assert_eq!((bound(&stale), stale.label()), ("1", Some("stale-if-error")), "{stale:?}");

    world.set_all(1, body("agreed"));
    world.set(C, 1, Act::Fail(Failure::Connect));
    let (miss, hit) = (world.get("/v1/contexts/z/full").await, world.get("/v1/contexts/z/full").await);
    assert_eq!((bound(&miss), bound(&hit), hit.label()), ("61", "61", Some("provisional")), "{hit:?}");
    world.set_all(1, shows(5));
    world.announce(A, "x", 6);
    let below = world.get(X).await;
    assert_eq!((bound(&below), below.label()), ("none", Some("below-floor")), "{below:?}");
    world.stop().await;
}
