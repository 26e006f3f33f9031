//! Compares a region's copies with the views, slowly and always, and copies and announces what the
//! feed lost: it may skip a change for ever.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::copy::{put_if_newer, said_of};
use super::limits;
use super::publisher::RegionPublisher;
use crate::engine::guard::{Guard, is_on};
use crate::engine::limits::BUCKETS;
use crate::engine::{EngineError, ItemKey, Table, Tables, bucket};
use crate::model::time::{Clock, Moment};
use crate::views::{self, DifferingCopy, Disagreement};

/// For metrics.
#[derive(Debug, Default)]
pub struct SweepCounts {
    /// Buckets that were compared.
    pub buckets: AtomicU64,
    /// Copies that still differed when they were looked at again.
    pub differing: AtomicU64,
    /// Copies that were made good.
    pub mended: AtomicU64,
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
    pub(super) counts: &'i SweepCounts,
}

/// A copy that differed, its view, and when to look again.
type Suspect = (Moment, String, DifferingCopy);

impl CopySweep<'_> {
    /// Goes round for as long as it is polled.
    pub(super) async fn run(&self) {
        loop {
            if !is_on(Guard::RegionSweep) {
                std::future::pending().await
            }
            tokio::time::sleep(limits::SWEEP_REST).await;
            if let Err(error) = self.round().await {
                tracing::warn!(%error, "the region's sweep could not go on, and begins again");
            }
        }
    }

    pub(super) async fn round(&self) -> Result<(), EngineError> {
        let names = match self.views {
            Some(views) => views.clone(),
            None => views::defined(self.home).await?,
        };
        let mut waiting = VecDeque::new();
        for view in names {
            for number in 0..BUCKETS {
                tokio::time::sleep(self.every).await;
                self.compare(&view, number, &mut waiting).await?;
            }
        }
        self.look_again(&mut waiting, 0).await
    }

    async fn compare(&self, view: &str, number: u16, waiting: &mut VecDeque<Suspect>) -> Result<(), EngineError> {
        let mut after: Option<String> = None;
        loop {
            let found = views::differing_copies(self.home, self.own, view, number, after.as_deref()).await?;
            let due = self.clock.now() + limits::SWEEP_WAIT;
            waiting.extend(found.copies.into_iter().map(|copy| (due, view.to_owned(), copy)));
            self.look_again(waiting, limits::SUSPECTS).await?;
            match found.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        self.counts.buckets.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Looks at those that are due; waits until no more than `most` are left.
    async fn look_again(&self, waiting: &mut VecDeque<Suspect>, most: usize) -> Result<(), EngineError> {
        while let Some((due, ..)) = waiting.front() {
            let left = due.since(self.clock.now());
            if !left.is_zero() && waiting.len() <= most {
                break;
            }
            tokio::time::sleep(left).await;
            if let Some((_, view, copy)) = waiting.pop_front() {
                self.mend(&view, &copy).await?;
            }
        }
        Ok(())
    }

    async fn mend(&self, view: &str, copy: &DifferingCopy) -> Result<(), EngineError> {
        let Some(how) = views::still_differing_copy(self.home, self.own, view, copy).await? else { return Ok(()) };
        self.counts.differing.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(view, how = how.word(), "the sweep found a copy that differs from its view");
        if !matches!(how, Disagreement::Missing | Disagreement::Older) {
            return Ok(());
        }
        let place = ItemKey::new(bucket::partition(view, &copy.key), &copy.key);
        let Some(item) = self.home.get(Table::Views, &place).await? else { return Ok(()) };
        let said = said_of(&item);
        put_if_newer(self.own, item).await?;
        self.publisher.announce(said.into_iter().collect()).await;
        self.counts.mended.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
