//! Compares a region's copies with the views, slowly and always, and copies and announces what the
//! feed lost: it may skip a change for ever. A copy that was damaged is replaced at its version, and
//! announced as a RELOAD: no version says that it is another one now.
//!
//! A copy that was made good differs no more, so no later sweep would see that it was never
//! announced. What is to be said of it is therefore written down with it, and forgotten when it
//! has been said.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::copy::{newer, said_of, same};
use super::limits;
use super::publisher::{RegionPublisher, Said};
use crate::engine::lease::Lease;
use crate::engine::limits::BUCKETS;
use crate::engine::skipped::LoggedKey;
use crate::engine::{Condition, EngineError, ItemKey, ItemWrite, Table, Tables, WriteError, bucket, retry_delay};
use crate::model::time::{Clock, Moment};
use crate::protocol::announcement::message::AnnouncementKind;
use crate::switch::{Guard, is_on};
use crate::telemetry::metrics::definition::metrics;
use crate::telemetry::rate_limiter::RateLimiter;
use crate::views::{self, DifferingCopy, Disagreement};
use prometheus_client::metrics::counter::Counter;

mod pending;

metrics! {
    /// Metrics of a region's sweep.
    pub struct SweepMetrics("region_swept_") {
        /// Buckets of copies that the sweep compared.
        pub buckets: Counter,
        /// Copies that differed when they were looked at again.
        pub differing: Counter,
        /// Copies that the sweep made good and announced.
        pub mended: Counter,
        /// Failures of the sweep at a bucket, to which it comes back.
        pub failed: Counter,
    }
}

/// Metrics of the sweep, and rations of its log lines.
#[derive(Debug, Default)]
pub struct SweepCounts {
    pub metrics: SweepMetrics,
    failure_lines: RateLimiter,
    pending_lines: RateLimiter,
    difference_lines: RateLimiter,
}

/// The region's own comparison.
pub(super) struct CopySweep<'i> {
    pub(super) home: &'i dyn Tables,
    pub(super) own: &'i dyn Tables,
    pub(super) publisher: Arc<RegionPublisher>,
    /// The views that this region has; `None` for all.
    pub(super) views: Option<&'i BTreeSet<String>>,
    pub(super) clock: &'i Clock,
    /// From one bucket to the next.
    pub(super) every: Duration,
    /// Drawn: where terms are short, a round that always began with the first bucket would never
    /// come to the last.
    pub(super) begin: usize,
    pub(super) lease: &'i Lease,
    /// True if a write may lack its announcement.
    pub(super) owes: AtomicBool,
    pub(super) counts: &'i SweepCounts,
}

/// A view and one of its buckets.
type BucketName = (String, u16);

/// A copy that differed, where, and when to look again.
struct Suspect {
    due: Moment,
    at: BucketName,
    copy: DifferingCopy,
}

/// Rest of a round.
#[derive(Default)]
struct Left {
    suspects: VecDeque<Suspect>,
    /// Those that failed: the round comes back to each once.
    failed: BTreeSet<BucketName>,
}

impl CopySweep<'_> {
    /// Goes round for as long as it is polled.
    pub(super) async fn run(&self) {
        self.owes.store(true, Ordering::Relaxed);
        let mut failures = 0;
        while let Err(error) = self.pay().await {
            failures += 1;
            if let Some(suppressed) = self.counts.pending_lines.admit(self.clock.now()) {
                tracing::warn!(%error, suppressed, "what an earlier sweep left to be announced cannot be read");
            }
            tokio::time::sleep(retry_delay(failures)).await;
        }
        loop {
            if !is_on(Guard::RegionSweep) {
                std::future::pending().await
            }
            tokio::time::sleep(limits::SWEEP_REST).await;
            if let Err(error) = self.round().await {
                tracing::warn!(%error, "the region's sweep does not know what to compare");
            }
        }
    }

    /// # Errors
    /// When nobody knows which views there are.
    pub(super) async fn round(&self) -> Result<(), EngineError> {
        let names: Vec<String> = match self.views {
            Some(views) => views.iter().cloned().collect(),
            None => views::defined(self.home).await?.into_iter().collect(),
        };
        let buckets = usize::from(BUCKETS);
        let count = names.len() * buckets;
        let mut left = Left::default();
        for step in 0..count {
            let place = (self.begin % count + step) % count;
            self.visit((names[place / buckets].clone(), (place % buckets) as u16), &mut left).await;
        }
        self.look_again(&mut left, 0).await;
        for at in std::mem::take(&mut left.failed) {
            self.visit(at, &mut left).await;
        }
        self.look_again(&mut left, 0).await;
        Ok(())
    }

    /// One bucket that fails holds up no other.
    async fn visit(&self, at: BucketName, left: &mut Left) {
        tokio::time::sleep(self.every).await;
        match self.compare(&at, left).await {
            Ok(()) => drop(self.counts.metrics.buckets.inc()),
            Err(error) => self.fail(at, &error, left),
        }
    }

    fn fail(&self, at: BucketName, error: &EngineError, left: &mut Left) {
        self.counts.metrics.failed.inc();
        if let Some(suppressed) = self.counts.failure_lines.admit(self.clock.now()) {
            let (view, bucket) = &at;
            tracing::warn!(view, bucket, %error, suppressed, "the sweep failed at a bucket and comes back to it");
        }
        left.failed.insert(at);
    }

    async fn compare(&self, at: &BucketName, left: &mut Left) -> Result<(), EngineError> {
        // Of a put whose answer was lost nothing differs any more.
        self.pay().await?;
        let mut after: Option<String> = None;
        loop {
            let found = views::differing_copies(self.home, self.own, &at.0, at.1, after.as_deref()).await?;
            let due = self.clock.now() + limits::SWEEP_WAIT;
            left.suspects.extend(found.copies.into_iter().map(|copy| Suspect { due, at: at.clone(), copy }));
            self.look_again(left, limits::SUSPECTS).await;
            match found.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Looks at those that are due; waits until no more than `most` are left.
    async fn look_again(&self, left: &mut Left, most: usize) {
        while let Some(first) = left.suspects.front() {
            let wait = first.due.since(self.clock.now());
            if !wait.is_zero() && left.suspects.len() <= most {
                break;
            }
            tokio::time::sleep(wait).await;
            let Some(Suspect { at, copy, .. }) = left.suspects.pop_front() else { break };
            if let Err(error) = self.mend(&at.0, &copy).await {
                self.fail(at, &error, left);
            }
        }
    }

    async fn mend(&self, view: &str, copy: &DifferingCopy) -> Result<(), EngineError> {
        let how = match views::still_differing_copy(self.home, self.own, view, copy).await {
            Err(EngineError::Refused { .. }) => Some(Disagreement::Unreadable),
            how => how?,
        };
        let Some(how) = how else { return Ok(()) };
        self.counts.metrics.differing.inc();
        let place = ItemKey::new(bucket::partition(view, &copy.key), &copy.key);
        let item = LoggedKey(Table::Views, &place);
        if let Some(suppressed) = self.counts.difference_lines.admit(self.clock.now()) {
            let how = how.into_str();
            tracing::warn!(%item, how, suppressed, "the sweep found a copy that differs from its view");
        }
        let is_damaged = matches!(how, Disagreement::Different | Disagreement::Unreadable);
        if !is_damaged && !matches!(how, Disagreement::Missing | Disagreement::Older) {
            return Ok(());
        }
        let Some(item) = self.home.get(Table::Views, &place).await? else { return Ok(()) };
        let Some(mut said) = said_of(&item) else { return Ok(()) };
        self.pay().await?;
        self.owes.store(true, Ordering::Relaxed);
        let put = if is_damaged {
            said.kind = AnnouncementKind::Reload;
            self.put(same(item.clone()), &said).await? || self.put(newer(item), &said).await?
        } else {
            self.put(newer(item), &said).await?
        };
        if put {
            self.publisher.announce(vec![said]).await;
            self.forget().await?;
            self.counts.metrics.mended.inc();
        }
        self.owes.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Puts a copy, and with it what is to be said; `false` if its condition does not hold: something
    /// as new is there by now, which its writer announces. After an error it may have taken place.
    async fn put(&self, copy: ItemWrite, said: &Said) -> Result<bool, EngineError> {
        let reported = ItemWrite::Put(Table::Region, pending::item(said), Condition::Any);
        match self.own.write(vec![self.lease.guard(), reported, copy]).await {
            Ok(()) => Ok(true),
            Err(WriteError::Conflict(places)) if places == [2] => Ok(false),
            Err(error) => Err(of_write(error)),
        }
    }

    /// Announces what was put and perhaps not announced, by this sweep or one that was killed.
    async fn pay(&self) -> Result<(), EngineError> {
        if !self.owes.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(item) = self.own.get(Table::Region, &pending::key()).await? {
            self.publisher.announce(pending::said(&item).into_iter().collect()).await;
            self.forget().await?;
        }
        self.owes.store(false, Ordering::Relaxed);
        Ok(())
    }

    async fn forget(&self) -> Result<(), EngineError> {
        let forget = ItemWrite::Delete(Table::Region, pending::key(), Condition::Any);
        self.own.write(vec![self.lease.guard(), forget]).await.map_err(of_write)
    }
}

fn of_write(error: WriteError) -> EngineError {
    let what = "the region's table".to_owned();
    match error {
        WriteError::Conflict(places) if places.is_empty() => EngineError::Throttled { what },
        // The term is about to end.
        WriteError::Conflict(_) => EngineError::Unavailable { what, why: "the lease is lost".to_owned() },
        WriteError::Engine(error) => error,
    }
}

#[cfg(test)]
mod tests;
