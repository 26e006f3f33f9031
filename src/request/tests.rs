//! Two readings of the settings side by side.

use std::time::Duration;

use crate::cache::store;
use crate::config::read;
use crate::fill::effects::apply_actions;
use crate::model::ids::{Epoch, RegionId};
use crate::protocol::event::Alarm;
use crate::protocol::event::EpochMove;
use crate::protocol::event::{Action, SubscriptionState};
use crate::protocol::holding::Standing;
use crate::request::caller;
use crate::request::scripted::{Act, World, shows};
use crate::routing::router;
use crate::telemetry::limits::RATIONED_LINES;
use crate::telemetry::scripted::CountedLines;

const SECOND: Duration = Duration::from_secs(1);

/// Replaces the world's settings by others with one more route.
fn reload(world: &mut World) {
    let text = "[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n\
                [[service.route]]\npath = \"/v1/things/{key}\"\nrecords = [\"thing:{key}\"]\n";
    let mut config = world.sidecar.fill.config.clone();
    config.service.routes.extend(read::from_toml(text).unwrap().service.routes);
    world.sidecar = world.sidecar.renewed(config, world.script.clone()).unwrap();
}

fn standing(world: &World, record_type: &str, key: &str) -> Standing {
    let stored = world
        .sidecar
        .fill
        .shared
        .store
        .entries_of(world.sidecar.fill.shared.keyed_hashes.record(record_type, key).unwrap());
    stored[0].1.validity.routed().unwrap().standing
}

/// R2: its announcements of the last minute were not heeded.
#[tokio::test(start_paused = true)]
async fn read_of_new_type_is_provisional() {
    let mut world = World::new([(1, shows(5).into()), (0, Act::Hang), (0, Act::Hang)]);
    world.live().await;
    reload(&mut world);
    world.get("/v1/things/early").await;
    world.get("/v1/contexts/early/full").await;
    assert_eq!(standing(&world, "thing", "early"), Standing::Provisional);
    assert_eq!(standing(&world, "context", "early"), Standing::Confirmed, "a type that was there before");
    world.pass(61 * SECOND).await;
    world.get("/v1/things/late").await;
    assert_eq!(standing(&world, "thing", "late"), Standing::Confirmed);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn reader_after_reload_joins_new_fill() {
    let mut world = World::new([(50, shows(5).into()), (50, shows(5).into()), (50, shows(5).into())]);
    world.live().await;
    let before = world.begin("/v1/contexts/acme/full");
    tokio::task::yield_now().await;
    reload(&mut world);
    assert_eq!(world.get("/v1/contexts/acme/full").await.status, 200);
    assert_eq!(before.await.unwrap().unwrap().status, 200);
    assert_eq!(world.asked().len(), 6, "each asked for itself");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn miss_routes_keys_looks_up_once() {
    let counts =
        || [&router::CALLED, &caller::CALLED, &store::CALLED].map(|called| called.with(std::cell::Cell::get));
    let world = World::new([(5, shows(1).into()), (0, Act::Hang), (0, Act::Hang)]);
    let before = counts();
    let reader = world.begin("/v1/contexts/k/full");
    while world.script.asked_so_far() == 0 {
        tokio::task::yield_now().await;
    }
    let once = before.map(|count| count + 1);
    assert_eq!(counts(), once, "route, key and store, until the first region is asked");
    assert_eq!(reader.await.unwrap().unwrap().status, 200);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn provoked_log_lines_are_rate_limited() {
    let world = World::new([(5, shows(1).into()), (0, Act::Hang), (0, Act::Hang)]);
    let lines = CountedLines::start();
    for _ in 0..1_000 {
        let moved = [0, 1].map(|region| Action::EpochMoved(RegionId(region), Epoch::default(), EpochMove::Hole));
        let state = Action::StateChanged(RegionId(0), SubscriptionState::Live);
        let alarm = Action::Alarm(RegionId(0), Alarm::VersionJump);
        apply_actions(&world.sidecar.fill, moved.into_iter().chain([state, alarm]).collect());
        crate::request::report::warn_of_churn(&world.sidecar, "/v1/contexts/{key}");
    }
    let ration = RATIONED_LINES.0 as usize;
    assert_eq!(lines.with("epoch moved"), 2 * ration, "of each region");
    for part in [" subscription ", "freshness alarm", "many identities ask for one record"] {
        assert_eq!(lines.with(part), ration, "{part}");
    }
    assert_eq!(
        world.sidecar.fill.shared.metrics.announcements.alarms(RegionId(0), Alarm::VersionJump),
        1_000,
        "all are counted"
    );
    world.stop().await;
}
