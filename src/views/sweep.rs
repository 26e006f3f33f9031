//! Compares views with their records, slowly and always, and maps again what a lost change left
//! behind: the feed may skip one for ever.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::comparison::{self, SuspectView};
use super::counters::ViewsLine;
use super::definition::ViewDefinition;
use super::limits;
use super::retry::retry_transient;
use super::status::ViewsStatus;
use super::stored;
use super::triggers::Triggers;
use super::vector::Trigger;
use super::worker::Pace;
use crate::engine::lease::Lease;
use crate::engine::limits::BUCKETS;
use crate::engine::{Condition, EngineError, Item, ItemWrite, Table};
use crate::model::time::Moment;
use crate::switch::{Guard, is_on};
use crate::views::counters::ReadTable;

/// The views service's own comparison.
pub(super) struct ViewSweep {
    pub(super) triggers: Arc<Triggers>,
    pub(super) lease: Arc<Lease>,
    /// Period in which everything is compared once.
    pub(super) period: Duration,
    /// For what is mapped again.
    pub(super) pace: Pace,
    pub(super) status: Arc<ViewsStatus>,
}

/// Progress of a round, as it is written down. However often processes restart, they come round.
#[derive(Default, Serialize, Deserialize)]
struct SweepNote {
    view: String,
    bucket: u16,
    /// Behind this key.
    after: Option<String>,
    /// Views of the bucket before.
    size: u64,
}

/// One time through all buckets.
struct Round {
    /// The bucket that is next, counted over all views, and the key in it behind which.
    bucket: u32,
    after: Option<String>,
    /// Views of the bucket before: this one is about as large.
    size: u64,
    waiting: VecDeque<WaitingPiece>,
    /// Buckets that could not be read, or mended.
    failed: BTreeSet<u32>,
    noted: Moment,
}

/// Suspects of a part of a bucket, and that part's start.
struct WaitingPiece {
    due: Moment,
    bucket: u32,
    after: Option<String>,
    suspects: Vec<SuspectView>,
}

impl ViewSweep {
    /// Goes round for as long as it is polled.
    pub(super) async fn run(&self) {
        loop {
            if !is_on(Guard::ViewSweep) {
                std::future::pending().await
            }
            if let Err(error) = self.round().await {
                tracing::warn!(%error, "the sweep cannot read how far it got; trying again");
                tokio::time::sleep(limits::SWEEP_WAIT).await;
            }
        }
    }

    /// From where the last process got to the end. A whole round takes the period, however little
    /// there is to compare. A bucket that cannot be read holds up nothing, and is tried again last.
    pub(super) async fn round(&self) -> Result<(), EngineError> {
        let buckets = self.triggers.views.len() as u32 * u32::from(BUCKETS);
        if buckets == 0 {
            tokio::time::sleep(self.period).await;
            return Ok(());
        }
        let slot = self.period / buckets;
        let mut round = self.begin().await?;
        let mut end = self.now();
        while round.bucket < buckets {
            end = end + slot;
            self.compare(&mut round, slot).await;
            self.look_again(&mut round, end.max(self.now())).await;
            tokio::time::sleep(end.since(self.now())).await;
            self.note(&mut round).await;
        }
        self.look_at_rest(&mut round).await;
        for bucket in std::mem::take(&mut round.failed) {
            round.bucket = bucket;
            self.compare(&mut round, slot).await;
        }
        self.look_at_rest(&mut round).await;
        if round.failed.is_empty() {
            self.status.update(|state| state.swept = Some(self.triggers.mapper.clock.wall()));
        }
        self.write(&SweepNote { size: round.size, ..SweepNote::default() }).await;
        Ok(())
    }

    fn now(&self) -> Moment {
        self.triggers.mapper.clock.now()
    }

    fn view(&self, bucket: u32) -> (&ViewDefinition, u16) {
        let of = u32::from(BUCKETS);
        (&self.triggers.views[(bucket / of) as usize], (bucket % of) as u16)
    }

    /// Position of the last process. A view that is not there any more means the beginning.
    async fn begin(&self) -> Result<Round, EngineError> {
        let (mapper, key) = (&self.triggers.mapper, stored::sweep_key());
        let item = retry_transient(|| mapper.store.get(Table::Mapping, &key)).await?;
        let note = item
            .and_then(|item| {
                let note: Option<SweepNote> = item.note.and_then(|note| serde_json::from_str(&note).ok());
                if note.is_none() {
                    mapper.unreadable(ReadTable::Mapping, &key);
                }
                note
            })
            .unwrap_or_default();
        let view = self.triggers.views.iter().position(|view| view.name == note.view);
        let (bucket, after) = match view {
            Some(view) if note.bucket < BUCKETS => {
                (view as u32 * u32::from(BUCKETS) + u32::from(note.bucket), note.after)
            }
            _ => (0, None),
        };
        let (waiting, failed) = (VecDeque::new(), BTreeSet::new());
        Ok(Round { bucket, after, size: note.size, waiting, failed, noted: self.now() })
    }

    /// Compares the rest of the bucket that is next.
    async fn compare(&self, round: &mut Round, slot: Duration) {
        let mapper = &self.triggers.mapper;
        let (view, number) = self.view(round.bucket);
        let pace = Pace::new(mapper.clock.clone(), per_second(round.size, slot));
        let (is_whole, mut size) = (round.after.is_none(), 0);
        loop {
            let after = round.after.take();
            let most = limits::SWEEP_PIECE;
            match comparison::compare_views(mapper, view, number, after.as_deref(), most, &pace).await {
                Ok(piece) => {
                    mapper.counters.metrics.swept.inc_by(piece.compared);
                    size += piece.compared;
                    round.after = piece.next;
                    let (due, bucket) = (self.now() + limits::SWEEP_WAIT, round.bucket);
                    let suspects = piece.suspects;
                    if !suspects.is_empty() {
                        round.waiting.push_back(WaitingPiece { due, bucket, after, suspects });
                    }
                }
                Err(error) => {
                    if let Some(suppressed) = mapper.line(ViewsLine::SweepRead) {
                        let view = &view.name;
                        tracing::warn!(view, %error, suppressed, "the sweep cannot read a bucket, and comes back to it");
                    }
                    round.failed.insert(round.bucket);
                    break;
                }
            }
            round.size = round.size.max(size);
            if round.after.is_none() {
                round.size = if is_whole { size } else { round.size };
                break;
            }
            self.look_again(round, self.now()).await;
            self.note(round).await;
        }
        round.bucket += 1;
    }

    /// Looks again at what is due by then, and at what is too much to be kept.
    async fn look_again(&self, round: &mut Round, by: Moment) {
        while let waiting = round.waiting.iter().map(|piece| piece.suspects.len()).sum::<usize>()
            && let Some(piece) = round.waiting.pop_front_if(|piece| piece.due <= by || waiting > limits::SUSPECTS)
        {
            tokio::time::sleep(piece.due.since(self.now())).await;
            let view = self.view(piece.bucket).0;
            for suspect in &piece.suspects {
                if let Err(error) = self.mend(view, suspect).await {
                    if let Some(suppressed) = self.triggers.mapper.line(ViewsLine::SweepMend) {
                        let view = &view.name;
                        tracing::warn!(view, %error, suppressed, "the sweep cannot mend a view, and comes back to it");
                    }
                    round.failed.insert(piece.bucket);
                }
            }
        }
    }

    async fn look_at_rest(&self, round: &mut Round) {
        if let Some(last) = round.waiting.back() {
            let due = last.due;
            self.look_again(round, due).await;
        }
    }

    async fn mend(&self, view: &ViewDefinition, suspect: &SuspectView) -> Result<(), EngineError> {
        let mapper = &self.triggers.mapper;
        let Some(how) = comparison::still_differs(mapper, view, suspect).await? else { return Ok(()) };
        mapper.counters.metrics.differing(how);
        if let Some(suppressed) = mapper.line(ViewsLine::Differs) {
            tracing::warn!(view = view.name, how = how.into_str(), suppressed, "the sweep found a view that differs");
        }
        if how.is_mendable() {
            self.pace.wait().await;
            self.triggers.map(view, &suspect.key, Trigger::Afresh).await?;
        }
        Ok(())
    }

    /// Notes how far everything has been compared, and looked at again.
    async fn note(&self, round: &mut Round) {
        if self.now().since(round.noted) < limits::SWEEP_NOTED_EVERY {
            return;
        }
        round.noted = self.now();
        let next = (round.bucket, &round.after);
        let (bucket, after) = round.waiting.front().map_or(next, |piece| (piece.bucket, &piece.after));
        // Behind the last bucket there is nothing to note: the round is about to end.
        if bucket < self.triggers.views.len() as u32 * u32::from(BUCKETS) {
            let (view, bucket) = self.view(bucket);
            let note = SweepNote { view: view.name.clone(), bucket, after: after.clone(), size: round.size };
            self.write(&note).await;
        }
    }

    /// Under the lease. If that is lost, or nothing can be written, the next process repeats work.
    async fn write(&self, note: &SweepNote) {
        let mapper = &self.triggers.mapper;
        let text = serde_json::to_string(note).expect("numbers and text are JSON");
        let item = Item::new(stored::sweep_key(), mapper.clock.wall().as_millis()).with_note(text);
        let put = ItemWrite::Put(Table::Mapping, item, Condition::Any);
        if let Err(error) = mapper.store.write(vec![self.lease.guard(), put]).await {
            tracing::debug!(%error, "how far the sweep got was not written down");
        }
    }
}

/// The rate at which a bucket of so many takes its whole slot.
fn per_second(count: u64, slot: Duration) -> u32 {
    let rate = count as f64 / slot.as_secs_f64().max(0.001);
    (rate.ceil() as u32).max(limits::SWEEP_LEAST)
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{Home, LIMITS, PartlyBad, views};
    use super::*;
    use crate::engine::follow::Apply;

    async fn sweep(home: &Home) -> ViewSweep {
        let triggers = Arc::new(Triggers::new(home.mapper(), views(LIMITS)));
        let pace = Pace::new(home.clock.clone(), 1_000);
        let period = Duration::from_secs(600);
        ViewSweep { triggers, lease: home.lease().await, period, pace, status: Arc::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn sweep_mends_skipped_changes() {
        let home = Home::new();
        let sweep = sweep(&home).await;
        for at in 0..20 {
            let (tenant, shard) = (format!("t{at}"), format!("s{at}"));
            home.put("shard", &shard, 1, Some(r#"{"host":"h"}"#)).await;
            let change = home.put("tenant", &tenant, 1, Some(&format!(r#"{{"users":1,"shard":"{shard}"}}"#))).await;
            sweep.triggers.apply(change).await.unwrap();
        }
        sweep.round().await.unwrap();
        assert_eq!((home.counters.metrics.swept.get(), home.counters.metrics.differences()), (20, 0));
        // Nobody hears of these.
        home.put("tenant", "t1", 2, Some(r#"{"users":2,"shard":"s2"}"#)).await;
        home.put("shard", "s3", 2, None).await;
        home.put("tenant", "new", 1, Some("{}")).await;
        home.put("tenant", "t4", 2, None).await;
        sweep.round().await.unwrap();
        assert_eq!(home.counters.metrics.differences(), 4);
        home.assert_right(LIMITS).await;
        sweep.round().await.unwrap();
        assert_eq!(home.counters.metrics.differences(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn round_is_paced_to_its_period() {
        let home = Home::new();
        for at in 0..2_000 {
            home.put("tenant", &format!("t{at}"), 1, None).await;
        }
        let sweep = sweep(&home).await;
        let began = home.clock.now();
        sweep.round().await.unwrap();
        let took = home.clock.now().since(began);
        assert!((600..650).contains(&took.as_secs()), "{took:?}");
        assert_eq!(home.counters.metrics.swept.get(), 2_000);
        assert!(sweep.status.get().swept.is_some());
        assert_eq!(per_second(40_000, Duration::from_secs(20)), 2_000);
        assert_eq!(per_second(0, Duration::ZERO), limits::SWEEP_LEAST);
    }

    #[tokio::test(start_paused = true)]
    async fn pending_change_is_no_difference() {
        let home = Home::new();
        let sweep = ViewSweep { period: Duration::from_secs(60), ..sweep(&home).await };
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
        assert!(home.counters.metrics.swept.get() > 3);
        assert_eq!(home.counters.metrics.differences(), 0);
    }

    /// So many tenants that nobody mapped.
    async fn unmapped(count: usize) -> Home {
        let home = Home::new();
        for at in 0..count {
            home.put("tenant", &format!("t{at}"), 1, Some(r#"{"users":1}"#)).await;
        }
        home
    }

    #[tokio::test(start_paused = true)]
    async fn repeatedly_restarted_sweep_completes() {
        let home = unmapped(400).await;
        let mut lives = 0;
        while home.store.dump(Table::Views).len() < 400 {
            lives += 1;
            assert!(lives < 40, "it covers less and less");
            let sweep = sweep(&home).await;
            // Some buckets, and what differs there is due after 30 s.
            let _ = tokio::time::timeout(Duration::from_secs(50), sweep.run()).await;
            sweep.lease.release().await;
        }
        assert!(lives > 5, "no life is long enough: {lives}");
        home.assert_right(LIMITS).await;
    }

    #[tokio::test(start_paused = true)]
    async fn unreadable_or_stale_position_restarts_round() {
        let home = unmapped(20).await;
        for note in [
            "{",
            r#"{"view":"gone","bucket":7,"after":null,"size":1}"#,
            r#"{"view":"limits","bucket":999,"after":null,"size":1}"#,
        ] {
            home.spoil(Table::Mapping, stored::sweep_key(), note);
            let before = home.counters.metrics.swept.get();
            sweep(&home).await.round().await.unwrap();
            assert_eq!(home.counters.metrics.swept.get(), before + 20, "{note}");
        }
        home.assert_right(LIMITS).await;
    }

    #[tokio::test(start_paused = true)]
    async fn sweep_returns_to_unreadable_bucket() {
        let home = unmapped(400).await;
        let in_first = home.store.dump(Table::Records).iter().filter(|it| it.key.partition == "tenant#00").count();
        assert!(in_first > 0);
        let (sweep, began) = (sweep(&home).await, home.clock.now());
        for is_down_for in [3_600, 900] {
            let clock = home.clock.clone();
            let store = Arc::new(PartlyBad::refusing(home.store.clone(), move |_, partition| {
                partition == "tenant#00" && clock.now().since(began) < Duration::from_secs(is_down_for)
            }));
            let triggers = Arc::new(Triggers::new(home.mapper_on(store), views(LIMITS)));
            let pace = Pace::new(home.clock.clone(), 1_000);
            let sweep = ViewSweep { triggers, pace, lease: sweep.lease.clone(), status: Arc::default(), ..sweep };
            sweep.round().await.unwrap();
            assert_eq!(home.store.dump(Table::Views).len(), if is_down_for == 900 { 400 } else { 400 - in_first });
            assert_eq!(sweep.status.get().swept.is_some(), is_down_for == 900, "everything was compared");
        }
        home.assert_right(LIMITS).await;
    }
}
