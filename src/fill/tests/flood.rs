//! Bad input, measured: a hundred thousand announcements of distinct records in a second, decoded
//! and applied as they come from any topic. Memory and upstream work are bounded, the alarm is
//! raised, and it ends without a restart.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::aws::remembered::Remembered;
use crate::aws::verify::Verified;
use crate::fill::effects::apply_actions;
use crate::fill::limits;
use crate::protocol::event::Alarm;
use crate::protocol::limits::{FLOOD_WINDOW, FLOOR_SLOTS};
use crate::sidecar::announcements::apply::{Applied, Applier};
use crate::telemetry::metrics::announcements::AnnouncementOutcome;

const FLOOD: usize = 100_000;
/// Those of them that are stored and were read in the last minute.
const STORED: usize = 3_000;

/// The path after the signature check, as [`crate::sidecar::announcements::intake`] wires it.
fn applier(world: &World) -> Applier {
    let (freshness, acting) = (world.sidecar.fill.shared.freshness.clone(), world.sidecar.clone());
    Applier::new(
        Box::new(move |now, wall, event| freshness.step(now, wall, event)),
        world.sidecar.fill.shared.keyed_hashes.clone(),
        Arc::new(Remembered::new()),
        world.sidecar.fill.shared.clock.clone(),
        world.sidecar.fill.shared.metrics.clone(),
        world.sidecar.fill.shared.observed.clone(),
        Box::new(move |actions| apply_actions(&acting.fill, actions)),
    )
}

fn changed(world: &World, key: usize, version: u64) -> Verified {
    Verified::Notification {
        message: format!("{{\"recordType\":\"context\",\"key\":\"{key}\",\"version\":{version}}}"),
        published: world.sidecar.fill.shared.clock.wall(),
        message_id: format!("{version}-{key:032}"),
    }
}

fn path(key: usize) -> String {
    format!("/v1/contexts/{key}/full")
}

/// Resident memory of this process in MiB; other tests contribute to it.
fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4_096.0 / f64::from(1 << 20)
}

/// Announces `FLOOD` records within a second, and returns the most refetches that waited at once.
async fn pour(world: &World, applier: &Applier, version: u64) -> usize {
    let mut waiting = 0;
    for key in 0..FLOOD {
        assert_eq!(applier.apply(A, changed(world, key, version), None), Applied::Announced);
        if key % 100 == 99 {
            waiting = waiting.max(world.running("refetch"));
            tokio::time::sleep(ms(1)).await;
        }
    }
    waiting
}

#[tokio::test(start_paused = true)]
async fn announcement_flood_is_bounded_and_alarms() {
    let world = World::new([(1, shows(1).into()), (1, shows(1).into()), (1, shows(1).into())]);
    world.live().await;
    for key in 0..STORED {
        world.get(&path(key)).await;
        if key % 1_000 == 999 {
            world.hear(A, crate::protocol::event::Says::Unrouted);
        }
    }
    // The background budget is a share of what readers asked for lately, which is nothing.
    world.pass(3 * SECOND).await;
    world.requests();
    world.set_all(1, shows(2));
    let (applier, before) = (applier(&world), resident());
    let (began, held) = (world.now(), world.sidecar.fill.shared.freshness.held_records());

    let waiting = pour(&world, &applier, 2).await;
    let grown = resident() - before;
    let seconds = (world.now() - began).as_secs_f64();
    let attempts = world.asked().len();
    let metrics = &world.sidecar.fill.shared.metrics;
    println!(
        "{FLOOD} announcements in {seconds:.2} s: {attempts} attempts, at most {waiting} refetches waiting, {} records held \
         ({held} before), resident memory {grown:+.1} MiB, alarms {}",
        world.sidecar.fill.shared.freshness.held_records(),
        metrics.announcements.alarms(A, Alarm::AnnouncementFlood)
    );
    assert!(seconds <= 1.1);
    assert!(waiting <= limits::PENDING_REFETCHES);
    // One budget per region and for each second that it touches.
    assert!(attempts <= 2 * REGIONS * crate::race::limits::BACKGROUND_ATTEMPTS_PER_SECOND as usize, "{attempts}");
    assert_eq!(world.sidecar.fill.shared.freshness.held_records(), held, "what nobody holds has a slot and no more");
    // The table (32 bytes per slot, of which a bucket's page is touched), the remembered ids, and
    // what other tests use.
    assert!(grown < 256.0, "{grown} MiB");
    assert_eq!(metrics.announcements.alarms(A, Alarm::AnnouncementFlood), 1);
    assert_eq!(metrics.announcements.announcements(Some(A), AnnouncementOutcome::Applied), FLOOD as u64);

    // Again, and by another region: nothing is new, and nothing grows.
    for (region, version) in [(B, 2), (A, 2)] {
        for key in 0..FLOOD {
            applier.apply(region, changed(&world, key, version), None);
        }
    }
    assert_eq!(world.sidecar.fill.shared.freshness.held_records(), held);
    assert_eq!(
        metrics.announcements.alarms(A, Alarm::AnnouncementFlood)
            + metrics.announcements.alarms(B, Alarm::AnnouncementFlood),
        1
    );

    // Readers get what was announced; where a slot was lost, everything is confirmed again a minute
    // later.
    world.pass(SECOND).await;
    for key in 0..STORED {
        let answer = world.get(&path(key)).await;
        assert!(answer.body == "2" && answer.label() != Some("below-floor"), "{answer:?}");
    }
    world.pass(FLOOD_WINDOW + Duration::from_secs(5)).await;
    for key in [0, 7, FLOOD - 1, FLOOD + 1] {
        world.get(&path(key)).await;
        world.pass(SECOND).await;
        let answer = world.get(&path(key)).await;
        assert_eq!((answer.is_hit(), answer.label()), (true, None), "{answer:?}");
    }
    world.stop().await;
}

/// R2: the table forgets the oldest, never silently.
#[tokio::test(start_paused = true)]
async fn floor_overflow_alarms_once_per_minute() {
    let world = World::new([(1, shows(2).into()), (1, shows(2).into()), (1, shows(2).into())]);
    world.live().await;
    let metrics = world.sidecar.fill.shared.metrics.clone();
    let before = resident();
    let announced = 5 * FLOOR_SLOTS / 4;
    for key in 0..announced as u64 {
        // Spread over shards and buckets as keyed hashes are.
        let id = crate::model::ids::RecordId { hash: key.wrapping_mul(0x9E37_79B9_7F4A_7C15), ..world.record("x") };
        let version = Some(crate::model::ids::Version(2));
        world.hear(A, crate::protocol::event::Says::Changed(id, version));
    }
    let alarms = metrics.announcements.alarms(A, Alarm::FloorTableOverflow);
    println!(
        "{announced} records for {} slots: overflow alarms {alarms}, resident memory {:+.1} MiB",
        FLOOR_SLOTS,
        resident() - before
    );
    assert_eq!(alarms, 1);
    world.get(X).await;
    assert_eq!(world.get(X).await.label(), Some("provisional"), "an announcement of it may have been lost");
    world.pass(Duration::from_secs(90)).await;
    world.get(X).await;
    world.pass(SECOND).await;
    let answer = world.get(X).await;
    assert_eq!((answer.is_hit(), answer.label()), (true, None), "{answer:?}");
    world.stop().await;
}
