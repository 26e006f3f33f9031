//! R5, R8, R16 and the bound behind an intermediary's cache: a reply is as old as its `Age` says,
//! not as its request.

use std::time::Duration;

use http::Method;

use super::*;
use crate::model::time::Wall;
use crate::protocol::event::{Event, Says, Scope};
use crate::protocol::holding::Standing;
use crate::request::scripted::tombstone;

/// Version 5 from a cache that has kept it for so long.
fn aged(seconds: u64) -> Say {
    shows(5).with("age", &seconds.to_string())
}

/// The stated bound on how far the answer may be behind.
fn bound(answer: &Answer) -> Option<u64> {
    answer.line.split("; ").find_map(|part| part.strip_prefix("bound="))?.parse().ok()
}

impl World {
    /// Region `a` sends numbered heartbeats, one a second.
    async fn beat_for(&self, span: Duration) {
        let until = self.now() + span;
        while self.now() < until {
            let wall: Wall = self.sidecar.fill.shared.clock.wall();
            let says = Says::Heartbeat { path: false, ingested_through: Some(wall), signing_off: false };
            self.step(Event::Message { region: A, published: wall, queued: None, numbered: Some((1, 1)), says });
            tokio::time::sleep(SECOND).await;
        }
    }

    async fn beating_for(&self, span: Duration) {
        self.step(Event::Subscribing(A));
        self.step(Event::Subscribed(A));
        self.beat_for(span).await;
    }

    fn hangs_on(&self, key: &str) -> Option<(Standing, usize)> {
        let stored = self.sidecar.fill.shared.store.entries_of(self.record(key));
        let routed = stored.first().and_then(|(_, entry)| entry.validity.routed())?;
        Some((routed.standing, routed.live.iter().count()))
    }
}

/// Promise 2, R5: a sidecar that has listened for two minutes did not hear what was announced four
/// minutes ago.
#[tokio::test(start_paused = true)]
async fn copies_predating_subscription_state_safe_bound() {
    for all in [false, true] {
        let world = World::new([(1, aged(300).into()), (2, aged(300).into()), (3, aged(300).into())]);
        if !all {
            world.set(C, 0, Act::Hang);
        }
        world.beating_for(120 * SECOND).await;
        let first = world.get(X).await;
        assert!(bound(&first).is_none_or(|bound| bound >= 300), "{first:?}");
        world.beat_for(3 * SECOND).await;
        let second = world.get(X).await;
        assert!(bound(&second).is_none_or(|bound| bound >= 300), "{second:?}");
        assert_eq!(world.hangs_on("x").map(|(standing, _)| standing), Some(Standing::Provisional), "all: {all}");
        world.stop().await;
    }
}

/// R5: had there been a change since, it would have been announced to us.
#[tokio::test(start_paused = true)]
async fn copies_since_subscription_count_from_creation() {
    let world = World::new([(1, aged(300).into()), (0, Act::Hang), (0, Act::Hang)]);
    world.beating_for(400 * SECOND).await;
    world.get(X).await;
    assert_eq!(world.hangs_on("x"), Some((Standing::Confirmed, 1)));
    assert!(bound(&world.get(X).await).is_some_and(|bound| bound <= 2));
    world.stop().await;
}

/// R16.
#[tokio::test(start_paused = true)]
async fn hard_ttl_includes_intermediary_age() {
    let world = World::with(
        "[cache]\nttl = \"400s\"\n",
        [(1, aged(300).into()), (2, aged(300).into()), (3, aged(300).into())],
    );
    world.beating_for(500 * SECOND).await;
    world.get(X).await;
    world.beat_for(60 * SECOND).await;
    assert!(world.get(X).await.is_hit());
    world.beat_for(50 * SECOND).await;
    world.requests();
    assert!(!world.get(X).await.is_hit(), "400 s after it was made");
    let asked = world.requests();
    assert!(
        asked.iter().all(|(.., request)| request.headers["cache-control"] == "no-cache"),
        "past the intermediary"
    );
    world.stop().await;
}

/// R8, R18: nothing held the record when its type was reloaded.
#[tokio::test(start_paused = true)]
async fn copies_before_full_reload_are_stale() {
    let world = World::new([(1, aged(300).into()), (2, aged(300).into()), (40, shows(6).into())]);
    world.live().await;
    world.hear(A, Says::Reload(Scope::All));
    world.pass(SECOND).await;
    let answer = world.get(X).await;
    assert_eq!((answer.body.as_str(), answer.label()), ("6", None), "{answer:?}");
    let asked = world.requests();
    assert!(asked.iter().all(|(.., request)| request.headers["cache-control"] == "no-cache"));
    world.stop().await;
}

/// R4, R8: what is passed on because it cannot be held obeys the same rules.
#[tokio::test(start_paused = true)]
async fn range_after_change_asks_announcer() {
    let world = World::new([(1, body("old").into()), (1, body("old").into()), (20, body("new").into())]);
    world.live().await;
    world.announce(C, "x", 0);
    let answer = world.get_with(X, "range", "bytes=0-2").await;
    assert_eq!((answer.body.as_str(), answer.label()), ("new", None), "{answer:?}");
    // The announcer too answers from a cache filled before.
    world.pass(10 * SECOND).await;
    world.set(C, 1, body("older").with("age", "60"));
    world.set(B, 1, body("new"));
    world.announce(C, "x", 0);
    let answer = world.get_with(X, "range", "bytes=0-2").await;
    assert_ne!(answer.body, "older", "from before the announcement: {answer:?}");
    assert_eq!(answer.label(), None, "every reachable region was heard");
    world.stop().await;
}

/// RFC 9111, 5.2.1.1 and 5.2.1.3, on a route.
#[tokio::test(start_paused = true)]
async fn routed_request_may_limit_age() {
    let world = World::new(at_five());
    world.live().await;
    world.get(X).await;
    world.pass(10 * SECOND).await;
    for (directive, hit) in [
        ("max-age=60", true),
        ("max-age=5", false),
        ("max-age=0", false),
        ("min-fresh=60", true),
        ("min-fresh=7200", false),
    ] {
        world.pass(10 * SECOND).await;
        assert_eq!(world.get_with(X, "cache-control", directive).await.is_hit(), hit, "{directive}");
    }
    world.pass(10 * SECOND).await;
    let only = world.get_with(X, "cache-control", "max-age=5, only-if-cached").await;
    assert_eq!(only.status, 504);
    assert_eq!(world.send(Method::HEAD, X).await.status, 200);
    world.stop().await;
}

/// R8, R15: an intermediary that ignores `no-cache` does not tell what its region has.
#[tokio::test(start_paused = true)]
async fn older_copies_drop_no_floor() {
    for old in [aged(300), status(404).with("age", "300"), body("5").with("age", "300")] {
        let world = World::new([(1, old.clone().into()), (2, old.clone().into()), (3, Act::from(old))]);
        world.live().await;
        world.announce(A, "x", 6);
        for _ in 0..80 {
            let answer = world.get(X).await;
            assert_eq!(answer.label(), Some("below-floor"), "{answer:?}");
            world.pass(SECOND).await;
        }
        assert_eq!(world.floor("x"), 6);
        world.stop().await;
    }
}

/// R6: a tombstone's version counts, passed on or kept.
#[tokio::test(start_paused = true)]
async fn passed_tombstone_raises_floor() {
    let world = World::new(at_five());
    world.live().await;
    world.get(X).await;
    world.set_all(1, tombstone(6));
    assert_eq!(world.get_with(X, "range", "bytes=0-2").await.status, 404);
    assert_eq!(world.floor("x"), 6);
    assert_eq!(world.get(X).await.status, 404);
    world.stop().await;
}

/// R4: of several that may not be served at once, the best is passed on, not the last.
#[tokio::test(start_paused = true)]
async fn range_without_announcer_gets_best_reply() {
    let world = World::new([(1, shows(5).into()), (2, shows(6).into()), (3, shows(4).into())]);
    world.live().await;
    world.announce(A, "x", 7);
    let answer = world.get_with(X, "range", "bytes=0-2").await;
    assert_eq!((answer.body.as_str(), answer.label()), ("6", Some("below-floor")), "{answer:?}");
    world.stop().await;
}

/// R8: a reader who asks for a part after an announcement is owed it, whatever is announced while
/// it waits.
#[tokio::test(start_paused = true)]
async fn range_obeys_earlier_announcements_only() {
    let old = body("5").with("age", "300");
    let world = World::new([20; REGIONS].map(|after| (after, old.clone().into())));
    world.live().await;
    world.announce(A, "x", 6);
    world.pass(SECOND).await;
    let again = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        world.announce(B, "x", 7);
    };
    let (answer, ()) = tokio::join!(world.get_with(X, "range", "bytes=0-2"), again);
    assert_eq!(answer.label(), Some("below-floor"), "{answer:?}");
    world.stop().await;
}

/// A refusal by one region does not hide what others have, even if that is too large to hold.
#[tokio::test(start_paused = true)]
async fn lone_refusal_loses_to_oversized_reply() {
    let large = Act::Fail(Failure::Oversized { limit: 1, announced: true });
    let world = World::new([(1, status(401).into()), (2, large.clone()), (3, large)]);
    let reader = world.begin(X);
    tokio::time::sleep(ms(2)).await;
    world.set_all(1, body("all of it"));
    let answer = reader.await.unwrap().unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, "all of it"), "{answer:?}");
    world.stop().await;
}

/// A node of ours says how old its copy is, and that is no cache that somebody forgot.
#[tokio::test(start_paused = true)]
async fn only_intermediate_cache_is_finding() {
    for (line, found) in
        [("upstream-nearside; hit; bound=1", 0), ("upstream-nearside; hit, cdn; hit", 1), ("cdn; hit", 1)]
    {
        let said = aged(300).with("cache-status", line);
        let world = World::new([1, 2, 3].map(|after| (after, said.clone().into())));
        world.get(X).await;
        world.beat_for(SECOND).await;
        world
            .sidecar
            .fill
            .shared
            .observed
            .region(A, |notes| assert_eq!((notes.aged.len(), notes.aged.yes_count()), (1, found), "{line}"));
        world.stop().await;
    }
}
