//! Tells freshness once a second that time passes, after comparing the clocks (R9).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::cache::capacity::{self, Pressure};
use crate::fill::effects::apply_actions;
use crate::fill::limits::MEMORY_TICK;
use crate::model::time::Watch;
use crate::protocol::event::Event;
use crate::request::settings::Settings;
use crate::switch::{Rule, is_on};

const TICK: Duration = Duration::from_secs(1);

/// Ticks until the sidecar's tasks are asked to stop.
pub(super) fn start(sidecar: &Arc<Settings>) {
    let (ticking, stopping) = (sidecar.clone(), sidecar.fill.shared.tasks.stopping());
    // A new start of the task goes on comparing where the last one was.
    let watch = Arc::new(Mutex::new(Watch::new(sidecar.fill.shared.clock.clone())));
    sidecar.fill.shared.tasks.spawn_service("ticker", move || {
        let (ticking, watch, stopping) = (ticking.clone(), watch.clone(), stopping.clone());
        let ticks = async move {
            loop {
                tokio::time::sleep(TICK).await;
                tick(&ticking, &mut watch.lock());
            }
        };
        async move { stopping.run_until_cancelled(ticks).await }
    });
    if sidecar.fill.shared.memory.memory.is_own {
        relieve_memory(sidecar.clone());
    }
}

/// Checks what the process holds so often that no burst of misses between two checks can kill it.
fn relieve_memory(sidecar: Arc<Settings>) {
    let (tasks, stopping) = (sidecar.fill.shared.tasks.clone(), sidecar.fill.shared.tasks.stopping());
    tasks.spawn_service("memory", move || {
        let (sidecar, stopping) = (sidecar.clone(), stopping.clone());
        let looks = async move {
            loop {
                tokio::time::sleep(MEMORY_TICK).await;
                // What is not known leaves everything as it is.
                let Some((own, sockets)) = capacity::resident() else { continue };
                sidecar.relieve_memory(own + sockets);
                // Once in a tick: who takes anything in between may stay.
                if sidecar.fill.shared.memory.memory.is_clogged(sockets)
                    && sidecar.fill.shared.memory.memory.pressure(own + sockets) < Pressure::Evict
                {
                    sidecar.shared.peers.relieve();
                }
            }
        };
        async move { stopping.run_until_cancelled(looks).await }
    });
}

fn tick(sidecar: &Arc<Settings>, watch: &mut Watch) {
    // First, so that whatever is decided next is decided at the right time.
    if let Some(span) = is_on(Rule::R9).then(|| watch.look()).flatten() {
        tracing::warn!(
            ?span,
            "the calendar ran ahead of the clock since boot: taken for a pause that was not counted, and everything is \
             that much older"
        );
        sidecar.fill.shared.metrics.announcements.uncounted_pause(span);
    }
    let (now, wall) = (sidecar.fill.shared.clock.now(), sidecar.fill.shared.clock.wall());
    apply_actions(&sidecar.fill.newest(), sidecar.fill.shared.freshness.step(now, wall, Event::Tick));
}
