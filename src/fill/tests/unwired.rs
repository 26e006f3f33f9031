//! R21: what is kept while something shows that announcements miss what is read.

use super::*;
use crate::model::ids::RegionSet;
use crate::protocol::wiring::KeySpelling;

/// The `ttl` that an answer states.
fn ttl(answer: &Answer) -> i64 {
    answer.line.split("; ").find_map(|part| part.strip_prefix("ttl=")).unwrap().parse().unwrap()
}

async fn live_world() -> World {
    let world = World::new(at_five());
    world.live().await;
    assert!(!world.get(X).await.is_hit());
    world.pass(ms(100)).await;
    world
}

#[tokio::test(start_paused = true)]
async fn misnamed_keys_cost_the_full_ttl() {
    let world = live_world().await;
    let id = world.record("x");
    assert!(ttl(&world.get(X).await) > 3_000);
    for region in [A, B, C].into_iter().cycle().take(9) {
        world.sidecar.fill.shared.freshness.unread_key(
            id.record_type,
            region,
            Some((id, KeySpelling::Around)),
            world.now(),
        );
    }
    world.pass(SECOND).await;
    let labelled = world.get(X).await;
    assert_eq!((labelled.is_hit(), labelled.label()), (true, Some("unwired")), "{labelled:?}");
    assert!(ttl(&labelled) <= 30, "{labelled:?}");
    world.set_all(1, shows(6));
    world.pass(30 * SECOND).await;
    let asked = world.get(X).await;
    assert_eq!((asked.is_hit(), asked.body.as_str()), (false, "6"), "the soft TTL is over: {asked:?}");

    // An announcement that meets what is read ends it, for what is asked for `worst_lag` later.
    [A, B, C].into_iter().for_each(|region| world.announce(region, "x", 7));
    world.set_all(1, shows(7));
    world.pass(70 * SECOND).await;
    world.get(X).await;
    world.pass(40 * SECOND).await;
    let fresh = world.get(X).await;
    assert_eq!((fresh.is_hit(), fresh.label()), (true, None), "{fresh:?}");
    assert!(ttl(&fresh) > 3_000, "{fresh:?}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn wired_region_keeps_full_ttl() {
    let world = live_world().await;
    let record_type = world.record("x").record_type;
    world.sidecar.fill.shared.freshness.found_astray(&[(record_type, RegionSet::EMPTY.with(B).with(C))]);
    world.pass(60 * SECOND).await;
    let hit = world.get(X).await;
    assert_eq!((hit.is_hit(), hit.label()), (true, None), "{hit:?}");
    world.sidecar.fill.shared.freshness.found_astray(&[(record_type, RegionSet::ALL)]);
    world.pass(SECOND).await;
    assert!(!world.get(X).await.is_hit(), "nothing was asked for 61 s");
    world.stop().await;
}

/// As where a service keeps its versions in memory, and is started anew.
#[tokio::test(start_paused = true)]
async fn restarted_versions_lose_bound_and_ttl() {
    let world = live_world().await;
    let other = "/v1/contexts/y/full";
    world.get(other).await;
    world.pass(ms(100)).await;
    assert!(ttl(&world.get(other).await) > 3_000);
    world.set_all(1, shows(1));
    world.get_with(X, "cache-control", "no-cache").await;
    world.pass(SECOND).await;
    let labelled = world.get(other).await;
    assert_eq!((labelled.is_hit(), labelled.label()), (true, Some("unwired")), "{labelled:?}");
    assert!(ttl(&labelled) <= 30, "{labelled:?}");
    world.pass(40 * SECOND).await;
    world.get(other).await;
    world.pass(SECOND).await;
    assert_eq!(world.get(other).await.body, "1");
    world.stop().await;
}
