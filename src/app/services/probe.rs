//! Asks the store where no part of a service has asked it for a moment: reads, and on the embedded
//! engine writes and room on the disk. Nothing is changed by it.

use std::sync::Arc;

use futures_util::future::{join_all, try_join_all};
use tokio::time::MissedTickBehavior;

use super::health::Access;
use super::needed::{self, Needed};
use super::service_process::ServiceProcess;
use super::shell::Shell;
use super::watched::WatchedEngine;
use crate::app::limits::{PROBE_EVERY, PROBE_ROOM_EVERY, STORE_FAILS};
use crate::engine::{Condition, EngineError, ItemKey, ItemWrite};

/// Probes for as long as the process runs.
pub(super) async fn start(shell: &Shell, process: &ServiceProcess) {
    let (engine, stopping) = (shell.engine.clone(), shell.tasks.stopping());
    let places: Arc<[Needed]> = needed::places(&shell.engine, process).await.into();
    shell.tasks.spawn_service("probe", move || {
        let (probing, stopping) = (probe(engine.clone(), places.clone()), stopping.clone());
        async move {
            stopping.run_until_cancelled(probing).await;
        }
    });
}

async fn probe(engine: WatchedEngine, places: Arc<[Needed]>) {
    let rooms = async {
        let home: Arc<str> = "home".into();
        loop {
            let began = engine.health().now();
            match tokio::time::timeout(STORE_FAILS, engine.probe_room()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => engine.health().failed(&home, Access::Writes, began, &error),
                Err(_) => engine.health().is_in_trouble(&home, Access::Writes, began, no_answer()),
            }
            tokio::time::sleep(PROBE_ROOM_EVERY).await;
        }
    };
    let places = join_all(places.iter().map(|place| probe_place(&engine, place)));
    tokio::join!(rooms, places);
}

async fn probe_place(engine: &WatchedEngine, place: &Needed) {
    let mut ticks = tokio::time::interval(PROBE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        tokio::join!(probe_access(engine, place, Access::Reads), async {
            if engine.takes_idle_writes() {
                probe_access(engine, place, Access::Writes).await;
            }
        });
    }
}

/// Asks as the parts do, which notes what comes of it; notes itself that nothing came.
async fn probe_access(engine: &WatchedEngine, place: &Needed, access: Access) {
    let health = engine.health();
    if !health.is_idle(&place.place, access) {
        return;
    }
    let nothing = ItemKey::new("is it there", "?");
    let call = async {
        match access {
            Access::Writes => {
                let _ = place
                    .tables
                    .write(
                        place
                            .names
                            .iter()
                            .copied()
                            .take(1)
                            .map(|table| ItemWrite::Check(table, nothing.clone(), Condition::Any))
                            .collect(),
                    )
                    .await;
            }
            _ => {
                let gets = place.names.iter().map(|table| place.tables.get(*table, &nothing));
                if let Err(error @ EngineError::Refused { .. }) = try_join_all(gets).await {
                    // Of an item that is nobody's: it is the whole that cannot be read.
                    health.is_in_trouble(&place.place, access, health.now(), error.to_string());
                }
            }
        }
    };
    let began = health.now();
    if tokio::time::timeout(STORE_FAILS, call).await.is_err() {
        health.is_in_trouble(&place.place, access, began, no_answer());
    }
}

fn no_answer() -> String {
    format!("no answer within {}", humantime::format_duration(STORE_FAILS))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::app::services::Engine;
    use crate::aws::clients::Sdk;
    use crate::config::services::EngineConfig;
    use crate::engine::faulty::{FaultRates, Faults, Faulty};
    use crate::engine::memory::MemoryStore;
    use crate::engine::{Table, Tables};
    use crate::model::time::Clock;
    use crate::tasks::Tasks;

    /// A service's view of an engine of which nobody asks anything, probed for as long as it is kept.
    struct Idle {
        engine: WatchedEngine,
        faults: Faults,
        _probing: tokio::task::JoinHandle<Option<()>>,
        _directory: tempfile::TempDir,
    }

    impl Idle {
        async fn on(embedded: bool) -> Self {
            let (directory, clock) = (tempfile::tempdir().unwrap(), Clock::simulated(Clock::System.wall()));
            let config = if embedded {
                EngineConfig::Embedded { directory: directory.path().to_owned() }
            } else {
                EngineConfig::Memory
            };
            let engine = Engine::open(&config, Sdk::new(None), &clock).await.unwrap();
            let engine = WatchedEngine::new(engine, clock.clone());
            let faults = Faults::default();
            let tables: Arc<dyn Tables> = Arc::new(Faulty::new(MemoryStore::new(clock), faults.clone()));
            let tables: Arc<dyn Tables> = Arc::new(engine.watched("home", tables));
            let names = &[Table::Records, Table::History];
            let home = Needed { place: "home".into(), tables, names, feed: None, topic: None };
            let probing = Tasks::new().spawn("probe", probe(engine.clone(), [home].into()));
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert!(engine.health().lines().is_empty());
            Self { engine, faults, _probing: probing, _directory: directory }
        }

        async fn lines_after(&self, rates: FaultRates, seconds: u64) -> Vec<String> {
            self.faults.set(rates);
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            self.engine.health().lines()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failing_store_surfaces_within_ten_seconds() {
        for rates in [
            FaultRates { fails: 1.0, ..FaultRates::default() },
            FaultRates { throttles: 1.0, ..FaultRates::default() },
            FaultRates { is_slow: 1.0, slowness: Duration::from_secs(3600), ..FaultRates::default() },
        ] {
            let idle = Idle::on(false).await;
            let lines = idle.lines_after(rates, 10).await;
            assert!(lines.len() == 1 && lines[0].starts_with("home: reads have failed"), "{rates:?}: {lines:?}");
            assert_eq!(idle.lines_after(FaultRates::default(), 8).await, [""; 0], "{rates:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn idle_embedded_store_writes_are_probed() {
        let idle = Idle::on(true).await;
        let lost = FaultRates { loses_answers: 1.0, ..FaultRates::default() };
        let lines = idle.lines_after(lost, 10).await;
        assert!(lines.len() == 1 && lines[0].starts_with("home: writes have failed"), "{lines:?}");
        assert_eq!(idle.lines_after(FaultRates::default(), 8).await, [""; 0]);
        let idle = Idle::on(false).await;
        assert_eq!(idle.lines_after(lost, 10).await, [""; 0], "of another engine nobody writes for nothing");
    }
}
