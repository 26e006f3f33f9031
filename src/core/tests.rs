//! Two readings of the settings side by side.

use std::time::Duration;

use crate::cache::store;
use crate::config::read;
use crate::core::scripted::{Act, World, shows};
use crate::core::{caller, router};
use crate::model::ids::{Epoch, RegionId};
use crate::protocol::event::{Action, SubscriptionState};
use crate::protocol::holding::Standing;
use crate::telemetry::limits::RATIONED_LINES;
use crate::telemetry::scripted::CountedLines;

const SECOND: Duration = Duration::from_secs(1);

/// Replaces the world's settings by others with one more route.
fn reload(world: &mut World) {
    let text = "[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n\
                [[service.route]]\npath = \"/v1/things/{key}\"\nrecords = [\"thing:{key}\"]\n";
    let mut config = world.sidecar.config.clone();
    config.service.routes.extend(read::from_toml(text).unwrap().service.routes);
    world.sidecar = world.sidecar.renewed(config, world.script.clone()).unwrap();
}

fn standing(world: &World, record_type: &str, key: &str) -> Standing {
    let stored = world.sidecar.store.entries_of(world.sidecar.keyring.record(record_type, key).unwrap());
    stored[0].1.hold.routed().unwrap().standing
}

/// R2: its announcements of the last minute were not heeded.
#[tokio::test(start_paused = true)]
async fn what_is_asked_for_soon_after_its_record_type_came_is_provisional() {
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
async fn a_reader_after_a_reload_joins_no_fill_from_before_it() {
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
async fn a_miss_is_routed_keyed_and_looked_up_once_before_its_fill() {
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
async fn what_regions_and_callers_provoke_fills_no_log() {
    let world = World::new([(5, shows(1).into()), (0, Act::Hang), (0, Act::Hang)]);
    let lines = CountedLines::start();
    for _ in 0..1_000 {
        let moved = [0, 1].map(|region| Action::EpochMoved(RegionId(region), Epoch::default(), "hole"));
        let state = Action::StateChanged(RegionId(0), SubscriptionState::Live);
        let alarm = Action::Alarm(RegionId(0), "version-jump");
        world.sidecar.carry_out(moved.into_iter().chain([state, alarm]).collect());
        world.sidecar.warn_of_churn("/v1/contexts/{key}");
    }
    let ration = RATIONED_LINES.0 as usize;
    assert_eq!(lines.with("epoch moved"), 2 * ration, "of each region");
    for part in [" subscription ", "freshness alarm", "many identities ask for one record"] {
        assert_eq!(lines.with(part), ration, "{part}");
    }
    assert_eq!(world.sidecar.metrics.alarms(RegionId(0), "version-jump"), 1_000, "all are counted");
    world.stop().await;
}
