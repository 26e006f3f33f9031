//! Keys that travel alone take turns.

use super::*;

#[tokio::test(start_paused = true)]
async fn keys_that_travel_alone_take_turns() {
    let (world, regions) = world(|_, _, _| Some(at(5)));
    regions.latency_ms.store(20, Ordering::Relaxed);
    let keys = names(0, limits::WAVE);
    for (header, rounds) in [("via", 1), ("x-tenant", limits::WAVE / limits::SINGLES)] {
        let more = HeaderMap::from_iter([(header.parse().unwrap(), HeaderValue::from_static("acme"))]);
        let started = world.now();
        many_with(&world, &strs(&keys), more).await;
        assert_eq!((world.now() - started).as_millis() / 20, rounds as u128, "{header}");
    }
    world.stop().await;
}
