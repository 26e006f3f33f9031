//! Tells freshness and the store once a second that time passes, after comparing the clocks (R9).

use std::sync::Arc;
use std::time::Duration;

use crate::cache::capacity;
use crate::clock::Watch;
use crate::freshness::event::Event;
use crate::freshness::switch::{Rule, is_on};
use crate::serve::Sidecar;

const TICK: Duration = Duration::from_secs(1);

/// Begins to tick, until the sidecar's tasks are told to stop.
pub(super) fn start(sidecar: &Arc<Sidecar>) {
    let (ticking, stopping) = (sidecar.clone(), sidecar.tasks.stopping());
    let mut watch = Watch::new(sidecar.clock.clone());
    sidecar.tasks.spawn("ticker", async move {
        let ticks = async {
            loop {
                tokio::time::sleep(TICK).await;
                tick(&ticking, &mut watch);
            }
        };
        stopping.run_until_cancelled(ticks).await;
    });
}

fn tick(sidecar: &Arc<Sidecar>, watch: &mut Watch) {
    // First: what is decided next is decided at the right time.
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
    if sidecar.memory.is_own {
        sidecar.mind_memory(capacity::resident());
    }
}
