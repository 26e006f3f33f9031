//! Compares views with their records, slowly and always, and maps again what a lost change left
//! behind: the feed may skip one for ever.

use std::collections::VecDeque;
use std::sync::Arc;

use super::comparison::{self, SuspectView};
use super::definition::ViewDefinition;
use super::failures;
use super::limits;
use super::patience::patiently;
use super::triggers::Triggers;
use super::vector::Trigger;
use super::worker::Pace;
use crate::engine::{self, EngineError};
use crate::model::time::Moment;

/// The views service's own comparison.
pub(super) struct ViewSweep {
    pub(super) triggers: Arc<Triggers>,
    pub(super) pace: Pace,
}

impl ViewSweep {
    /// Goes round for as long as it is polled.
    pub(super) async fn run(&self) {
        loop {
            if let Err(error) = self.round().await {
                tracing::warn!(%error, "the sweep could not go on, and begins again");
            }
            tokio::time::sleep(limits::SWEEP_REST).await;
        }
    }

    pub(super) async fn round(&self) -> Result<(), EngineError> {
        let mapper = &self.triggers.mapper;
        let mut waiting = VecDeque::new();
        for view in &self.triggers.views {
            for bucket in 0..engine::limits::BUCKETS {
                // An empty bucket takes its time too.
                self.pace.wait().await;
                let (suspects, compared) = comparison::suspects(mapper, view, bucket, &self.pace).await?;
                mapper.counters.swept.inc_by(compared);
                let due = mapper.clock.now() + limits::SWEEP_WAIT;
                waiting.extend(suspects.into_iter().map(|suspect| (due, view, suspect)));
                while let Some((_, view, suspect)) = self.due(&mut waiting, limits::SUSPECTS).await {
                    self.look_again(view, &suspect).await?;
                }
            }
        }
        while let Some((_, view, suspect)) = self.due(&mut waiting, 0).await {
            self.look_again(view, &suspect).await?;
        }
        let failures = failures::failures(&*mapper.store).await?;
        mapper.counters.failures.set(failures.len() as i64);
        Ok(())
    }

    /// The first that is due. Waits for it if there are more than `most`.
    async fn due<T>(
        &self,
        waiting: &mut VecDeque<(Moment, T, SuspectView)>,
        most: usize,
    ) -> Option<(Moment, T, SuspectView)> {
        let left = waiting.front()?.0.since(self.triggers.mapper.clock.now());
        if !left.is_zero() && waiting.len() <= most {
            return None;
        }
        tokio::time::sleep(left).await;
        waiting.pop_front()
    }

    async fn look_again(&self, view: &ViewDefinition, suspect: &SuspectView) -> Result<(), EngineError> {
        let mapper = &self.triggers.mapper;
        let Some(how) = patiently(|| comparison::still_differs(mapper, view, suspect)).await? else { return Ok(()) };
        mapper.counters.differing(how.word());
        tracing::warn!(view = view.name, how = how.word(), "the sweep found a view that differs");
        if how.is_mendable() {
            self.pace.wait().await;
            self.triggers.map(view, &suspect.key, Trigger::Afresh).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{Home, LIMITS, views};
    use super::*;
    use crate::engine::follow::Apply;

    fn sweep(home: &Home) -> ViewSweep {
        let triggers = Arc::new(Triggers::new(home.mapper(), views(LIMITS)));
        ViewSweep { triggers, pace: Pace::new(home.clock.clone(), 1_000) }
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_feed_skipped_is_found_and_mended() {
        let home = Home::new();
        let sweep = sweep(&home);
        for at in 0..20 {
            let (tenant, shard) = (format!("t{at}"), format!("s{at}"));
            home.put("shard", &shard, 1, Some(r#"{"host":"h"}"#)).await;
            let change = home.put("tenant", &tenant, 1, Some(&format!(r#"{{"users":1,"shard":"{shard}"}}"#))).await;
            sweep.triggers.apply(change).await.unwrap();
        }
        sweep.round().await.unwrap();
        assert_eq!((home.counters.swept.get(), home.counters.differences()), (20, 0));
        // Nobody hears of these.
        home.put("tenant", "t1", 2, Some(r#"{"users":2,"shard":"s2"}"#)).await;
        home.put("shard", "s3", 2, None).await;
        home.put("tenant", "new", 1, Some("{}")).await;
        home.put("tenant", "t4", 2, None).await;
        sweep.round().await.unwrap();
        assert_eq!(home.counters.differences(), 4);
        home.assert_right(LIMITS).await;
        sweep.round().await.unwrap();
        assert_eq!(home.counters.differences(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_on_its_way_is_no_difference() {
        let home = Home::new();
        let (sweep, triggers) = (sweep(&home), home.triggers(LIMITS));
        let late = async {
            for version in 1..100 {
                let change = home.put("tenant", "acme", version, Some(&format!(r#"{{"users":{version}}}"#))).await;
                tokio::time::sleep(limits::SWEEP_WAIT / 4).await;
                triggers.apply(change).await.unwrap();
            }
        };
        tokio::select! {
            () = late => {}
            () = sweep.run() => {}
        }
        assert!(home.counters.swept.get() > 3);
        assert_eq!(home.counters.differences(), 0);
    }
}
