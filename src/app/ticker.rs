//! Tells freshness once a second that time passes, after comparing the clocks (R9).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::cache::capacity::{self, Pressure};
use crate::core::Core;
use crate::core::limits::MEMORY_TICK;
use crate::model::time::Watch;
use crate::protocol::event::Event;
use crate::protocol::switch::{Rule, is_on};

const TICK: Duration = Duration::from_secs(1);

/// Ticks until the core's tasks are told to stop.
pub(super) fn start(sidecar: &Arc<Core>) {
    let (ticking, stopping) = (sidecar.clone(), sidecar.tasks.stopping());
    // A new start of the task goes on comparing where the last one was.
    let watch = Arc::new(Mutex::new(Watch::new(sidecar.clock.clone())));
    sidecar.tasks.spawn_service("ticker", move || {
        let (ticking, watch, stopping) = (ticking.clone(), watch.clone(), stopping.clone());
        let ticks = async move {
            loop {
                tokio::time::sleep(TICK).await;
                tick(&ticking, &mut watch.lock().unwrap_or_else(PoisonError::into_inner));
            }
        };
        async move { stopping.run_until_cancelled(ticks).await }
    });
    if sidecar.memory.is_own {
        mind_memory(sidecar.clone());
    }
}

/// Checks what the process holds so often that no burst of misses between two checks can kill it.
fn mind_memory(sidecar: Arc<Core>) {
    let (tasks, stopping) = (sidecar.tasks.clone(), sidecar.tasks.stopping());
    tasks.spawn_service("memory", move || {
        let (sidecar, stopping) = (sidecar.clone(), stopping.clone());
        let looks = async move {
            loop {
                tokio::time::sleep(MEMORY_TICK).await;
                // What is not known leaves everything as it is.
                let Some((own, sockets)) = capacity::resident() else { continue };
                sidecar.mind_memory(own + sockets);
                // Once in a tick: who takes anything in between may stay.
                if sidecar.memory.is_clogged(sockets) && sidecar.memory.pressure(own + sockets) < Pressure::Evict {
                    sidecar.peers.relieve();
                }
            }
        };
        async move { stopping.run_until_cancelled(looks).await }
    });
}

fn tick(sidecar: &Arc<Core>, watch: &mut Watch) {
    // First, so that whatever is decided next is decided at the right time.
    if let Some(span) = is_on(Rule::R9).then(|| watch.look()).flatten() {
        tracing::warn!(
            ?span,
            "the calendar ran ahead of the clock since boot: taken for a pause that was not counted, and everything is \
             that much older"
        );
        sidecar.metrics.uncounted_pause(span);
    }
    let (now, wall) = (sidecar.clock.now(), sidecar.clock.wall());
    sidecar.newest().carry_out(sidecar.freshness.step(now, wall, Event::Tick));
}
