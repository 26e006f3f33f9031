//! Faults, carried out as the plan says.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use nearside::engine::faulty::FaultRates;
use nearside::engine::{Condition, ItemWrite, Stream, Table, Tables};

use super::deliveries::DeliveryRates;
use super::faults::Fault;
use super::place::{Place, Watched};
use super::plan::{Window, between, seconds};
use super::world::{Process, World};

/// Goes through the plan's windows.
pub(crate) async fn trouble(world: Arc<World>) {
    let start = Instant::now();
    let windows = &world.plan.windows;
    let mut edges: Vec<(Duration, usize, bool)> = Vec::new();
    for (number, window) in windows.iter().enumerate() {
        edges.extend([(window.from, number, true), (window.until, number, false)]);
    }
    edges.sort_unstable();
    for (at, number, begins) in edges {
        tokio::time::sleep_until(start + at).await;
        let window = windows[number];
        world
            .checker
            .say(|| format!("{} at {:?} {}", window.fault, window.place, if begins { "begins" } else { "ends" }));
        set_rates(&world, at);
        once(&world, window, begins).await;
    }
}

fn set_rates(world: &World, at: Duration) {
    let mut skips: f64 = 0.0;
    for (place, troubles) in &world.troubles {
        let (mut tables, mut feed, mut topic) = (FaultRates::default(), FaultRates::default(), FaultRates::default());
        let mut deliveries = DeliveryRates::default();
        for window in world.plan.windows.iter().filter(|window| window.from <= at && at < window.until) {
            if window.fault == Fault::Skips {
                skips = 0.15;
            }
            if window.place != *place {
                continue;
            }
            match window.fault {
                Fault::DeliveredLate => (deliveries.late, deliveries.repeats) = (0.3, 0.3),
                Fault::DeliveriesLost => deliveries.loses = 0.4,
                Fault::NothingDelivered => deliveries.loses = 1.0,
                Fault::TablesFail => tables.fails = 1.0,
                Fault::Slow => {
                    let slowness = Duration::from_millis(10 << fastrand::u32(0..8));
                    for rates in [&mut tables, &mut feed, &mut topic] {
                        (rates.is_slow, rates.slowness) = (0.3, slowness);
                    }
                }
                Fault::FeedLags => {
                    (feed.is_slow, feed.slowness) = (1.0, between(seconds(1), seconds(8)));
                }
                Fault::Throttled => tables.throttles = 0.3,
                Fault::LostAnswers => tables.loses_answers = 0.3,
                Fault::Unruly => (feed.repeats, feed.reorders, feed.splits) = (0.3, 0.4, 0.4),
                // Of a shard, the end is read late.
                Fault::FeedStops | Fault::Trimmed | Fault::Resharded => feed.fails = 1.0,
                Fault::Refuses => (topic.refuses, topic.fails) = (0.3, 0.3),
                _ => {}
            }
        }
        troubles.tables.set(tables);
        troubles.feed.set(feed);
        troubles.topic.set(topic);
        if let Place::Region(region) = place {
            world.deliveries[*region].set(deliveries);
        }
    }
    world.checker.lock().skips = skips;
}

/// Carries out the beginning or the end of a window.
async fn once(world: &World, window: Window, begins: bool) {
    let region = match window.place {
        Place::Region(region) => region,
        Place::Home => 0,
    };
    let own = &world.regions[region];
    match (window.fault, begins) {
        (Fault::Paused, true) => pause(world, window),
        (Fault::Trimmed, false) => {
            let stream = if window.place == Place::Home { Stream::Changes } else { Stream::Views };
            world.home.trim(stream, fastrand::usize(0..4));
        }
        (Fault::Resharded, true) => {
            let ends = world.checker.lock().ends;
            for (split, end) in world.splits.iter().zip(ends) {
                *split.lock().expect("a plain store") = Some(end);
            }
        }
        (Fault::StolenLease, true) => steal(world, window.place),
        (Fault::LostRegion, true) => {
            world.checker.lock().lost_region(region);
            [Table::Contexts, Table::Region].map(|table| own.lose(table)).into_iter().collect()
        }
        (Fault::LostContexts, true) => {
            world.checker.lock().lost_copies(region);
            own.lose(Table::Contexts);
        }
        (Fault::LostViews, true) => {
            world.checker.lock().lost_views();
            world.home.lose(Table::Views);
        }
        (Fault::LostMapping, true) => {
            let mut checker = world.checker.lock();
            checker.mapping_lost = Some(checker.now());
            checker.lost_views();
            drop(checker);
            [Table::Views, Table::Mapping].map(|table| world.home.lose(table)).into_iter().collect()
        }
        (Fault::LostRecords, true) => {
            let mut checker = world.checker.lock();
            checker.records_lost = Some(checker.wall());
            drop(checker);
            world.home.lose(Table::Records);
        }
        (Fault::Removed, true) => remove(world).await,
        (Fault::NewDefinition, true) => {
            world.is_defined.store(true, Ordering::Relaxed);
            kill(world, Process::Views(1));
        }
        _ => {}
    }
}

pub(crate) fn kill(world: &World, process: Process) {
    let gate = world.gates.lock().expect("a plain store").get(&process).cloned();
    if let Some(gate) = gate {
        gate.kill();
    }
}

/// Any process; more often one that holds a lease, or wants it.
fn pause(world: &World, window: Window) {
    let gates = world.gates.lock().expect("a plain store");
    let of_place = gates.iter().filter(|(process, _)| match (window.place, process) {
        (Place::Region(region), Process::Ingest(of, _) | Process::Node(of, _)) => region == *of,
        (Place::Home, Process::Views(_) | Process::Catalogue(_)) => true,
        _ => false,
    });
    let found: Vec<_> = of_place.collect();
    if let Some((process, gate)) = found.get(fastrand::usize(..found.len().max(1))) {
        world.checker.say(|| format!("{process:?} is paused"));
        gate.pause(Instant::now() + (window.until - window.from).min(seconds(40)));
    }
}

/// The standby takes the lease over at once.
fn steal(world: &World, place: Place) {
    let (store, table, job) = match place {
        Place::Home => (&world.home, Table::Mapping, "lease#views"),
        Place::Region(region) => (&world.regions[region], Table::Region, "lease#ingest"),
    };
    let leases = store.dump(table).into_iter().filter(|item| item.key.partition == job);
    for lease in leases {
        let note = lease.note.clone().unwrap_or_default().replace("\"released\":false", "\"released\":true");
        store.tamper(table, &lease.key.clone(), Some(lease.with_note(note)));
    }
}

/// Somebody's hands, or a TTL: the stream carries a removal.
async fn remove(world: &World) {
    let home = Watched { store: world.home.clone(), place: Place::Home, checker: world.checker.clone() };
    let views = world.home.dump(Table::Views);
    for item in views.into_iter().filter(|_| fastrand::u8(..4) == 0) {
        let _ = home.write(vec![ItemWrite::Delete(Table::Views, item.key, Condition::Any)]).await;
    }
}
