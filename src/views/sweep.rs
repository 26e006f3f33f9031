//! Compares views with their records, slowly and always, and maps again what a lost change left
//! behind: the feed may skip one for ever.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::comparison::{self, SuspectView};
use super::definition::ViewDefinition;
use super::limits;
use super::patience::patiently;
use super::status::ViewsStatus;
use super::triggers::Triggers;
use super::vector::Trigger;
use super::worker::Pace;
use crate::engine::guard::{Guard, is_on};
use crate::engine::{self, EngineError};
use crate::model::time::Moment;

/// The views service's own comparison.
pub(super) struct ViewSweep {
    pub(super) triggers: Arc<Triggers>,
    /// In how long everything is compared once.
    pub(super) period: Duration,
    /// For what is mapped again.
    pub(super) pace: Pace,
    pub(super) status: Arc<ViewsStatus>,
}

impl ViewSweep {
    /// Goes round for as long as it is polled.
    pub(super) async fn run(&self) {
        loop {
            if !is_on(Guard::ViewSweep) {
                std::future::pending().await
            }
            if let Err(error) = self.round().await {
                tracing::warn!(%error, "the sweep could not go on, and begins again");
                tokio::time::sleep(limits::SWEEP_WAIT).await;
            }
        }
    }

    /// Takes the whole period, however little there is to compare.
    pub(super) async fn round(&self) -> Result<(), EngineError> {
        let mapper = &self.triggers.mapper;
        let buckets = self.triggers.views.len() as u32 * u32::from(engine::limits::BUCKETS);
        let slot = self.period / buckets.max(1);
        let (mut waiting, mut compared) = (VecDeque::new(), 0);
        let mut end = mapper.clock.now();
        for view in &self.triggers.views {
            for bucket in 0..engine::limits::BUCKETS {
                end = end + slot;
                // One bucket is about as large as the one before.
                let pace = Pace::new(mapper.clock.clone(), per_second(compared, slot));
                let found = comparison::suspects(mapper, view, bucket, &pace).await?;
                compared = found.1;
                mapper.counters.swept.inc_by(compared);
                let due = mapper.clock.now() + limits::SWEEP_WAIT;
                waiting.extend(found.0.into_iter().map(|suspect| (due, view, suspect)));
                while let Some((_, view, suspect)) = self.due(&mut waiting, limits::SUSPECTS).await {
                    self.look_again(view, &suspect).await?;
                }
                tokio::time::sleep(end.since(mapper.clock.now())).await;
            }
        }
        if buckets == 0 {
            tokio::time::sleep(self.period).await;
        }
        while let Some((_, view, suspect)) = self.due(&mut waiting, 0).await {
            self.look_again(view, &suspect).await?;
        }
        self.status.update(|state| state.swept = Some(mapper.clock.wall()));
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

/// The rate at which a bucket of so many takes its whole slot.
fn per_second(count: u64, slot: Duration) -> u32 {
    let rate = count as f64 / slot.as_secs_f64().max(0.001);
    (rate.ceil() as u32).max(limits::SWEEP_LEAST)
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{Home, LIMITS, views};
    use super::*;
    use crate::engine::follow::Apply;

    fn sweep(home: &Home) -> ViewSweep {
        let triggers = Arc::new(Triggers::new(home.mapper(), views(LIMITS)));
        let pace = Pace::new(home.clock.clone(), 1_000);
        ViewSweep { triggers, period: Duration::from_secs(600), pace, status: Arc::default() }
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
    async fn a_round_takes_its_period_and_hurries_where_there_is_much() {
        let home = Home::new();
        for at in 0..2_000 {
            home.put("tenant", &format!("t{at}"), 1, None).await;
        }
        let sweep = sweep(&home);
        let began = home.clock.now();
        sweep.round().await.unwrap();
        let took = home.clock.now().since(began);
        assert!((600..650).contains(&took.as_secs()), "{took:?}");
        assert_eq!(home.counters.swept.get(), 2_000);
        assert!(sweep.status.get().swept.is_some());
        assert_eq!(per_second(40_000, Duration::from_secs(20)), 2_000);
        assert_eq!(per_second(0, Duration::ZERO), limits::SWEEP_LEAST);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_on_its_way_is_no_difference() {
        let home = Home::new();
        let sweep = ViewSweep { period: Duration::from_secs(60), ..sweep(&home) };
        let triggers = home.triggers(LIMITS);
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
