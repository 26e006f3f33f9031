//! Takes the feed of views into a region's table. Put if newer, *then* announce, *then* write the
//! position down: a process that is killed in between does it again. What was put already is
//! announced all the same, because the process that put it may have died before it announced.
//!
//! One process of a region ingests, under a lease; the others stand by. A region begins with a
//! scan: it takes the time, copies every view, announces RELOAD, and then reads the feed from that
//! time. A feed that no longer has what was not read is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt};
use parking_lot::Mutex;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::copy::{put_if_newer, said_of, view_of};
use super::limits;
use super::publisher::{RegionPublisher, Said};
use super::sweep::{CopySweep, SweepCounts};
use crate::access::record::GRANTS;
use crate::engine::follow::{self, Apply, FeedProgress, FollowEnd, Follower};
use crate::engine::lease::{Lease, LeasePlace, TermEnd};
use crate::engine::limits::{BEGIN_MARGIN, BEGIN_PAUSE};
use crate::engine::sizes::check_item;
use crate::engine::skipped::Skipped;
use crate::engine::{Change, EngineError, Feed, Item, ScanSegment, Table, Tables, Topic};
use crate::model::time::{Clock, Wall};
use crate::switch::{Guard, is_on};
use crate::tasks::supervision::pass_panic_on;
use crate::telemetry::metrics::definition::metrics;
use crate::telemetry::rate_limiter::RateLimiter;
use crate::views::CANARY;
use prometheus_client::metrics::counter::Counter;

mod grants;

/// Feed and tables of a region's ingester.
pub struct IngestParts {
    pub region: String,
    /// Tables of the views.
    pub home: Arc<dyn Tables>,
    /// The region's own tables.
    pub own: Arc<dyn Tables>,
    pub feed: Arc<dyn Feed>,
    pub topic: Arc<dyn Topic>,
    /// The views that this region has; `None` for all.
    pub views: Option<BTreeSet<String>>,
    pub clock: Clock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IngestState {
    /// Another process of the region holds the lease.
    Standby,
    /// Copying every view: the region claims nothing yet.
    Scanning,
    Following,
}

metrics! {
    /// Metrics of a region's ingester.
    pub struct IngestCounts("ingest_") {
        /// Changes that the feed brought.
        pub changes: Counter,
        /// Items that the region's table took.
        pub put: Counter,
        /// Items that were not newer than the table's.
        pub not_newer: Counter,
        /// Items that scans of all views read.
        pub scanned: Counter,
    }
}

/// Rations of what a topic or a feed that fails has said, in every term under the lease.
#[derive(Debug, Default)]
struct IngestLines {
    heartbeats: RateLimiter,
    trimmed: RateLimiter,
    copied: RateLimiter,
}

pub struct Ingester {
    parts: IngestParts,
    follower: Follower,
    state: Mutex<IngestState>,
    publisher: Mutex<Arc<RegionPublisher>>,
    /// Time of sending of the last canary to arrive.
    canary: Mutex<Option<Wall>>,
    sweep_every: Duration,
    lines: IngestLines,
    pub counts: IngestCounts,
    /// Items that no table takes.
    unusable: Skipped,
    pub sweep_counts: SweepCounts,
}

/// True if a region has everything that its feed will not bring: until then an absence in its
/// tables means nothing.
///
/// # Errors
/// When the tables do not answer.
pub async fn is_complete(own: &dyn Tables) -> Result<bool, EngineError> {
    Ok(own.get(Table::Region, &follow::begun_key(FEED)).await?.is_some())
}

/// The last part of the checkpoints' partition.
const FEED: &str = "views";

impl Ingester {
    pub fn new(parts: IngestParts) -> Arc<Self> {
        Self::sweeping(parts, limits::SWEEP_EVERY)
    }

    /// One whose sweep takes a bucket of a view each time that `sweep_every` has passed.
    pub fn sweeping(parts: IngestParts, sweep_every: Duration) -> Arc<Self> {
        let follower = Follower {
            feed: parts.feed.clone(),
            tables: parts.own.clone(),
            table: Table::Region,
            name: FEED,
            clock: parts.clock.clone(),
            progress: Arc::default(),
        };
        let publisher = Arc::new(new_publisher(&parts));
        Arc::new(Self {
            parts,
            follower,
            state: Mutex::new(IngestState::Standby),
            publisher: Mutex::new(publisher),
            canary: Mutex::default(),
            sweep_every,
            lines: IngestLines::default(),
            counts: IngestCounts::default(),
            unusable: Skipped::default(),
            sweep_counts: SweepCounts::default(),
        })
    }

    pub fn state(&self) -> IngestState {
        *self.state.lock()
    }

    pub fn progress(&self) -> &FeedProgress {
        &self.follower.progress
    }

    pub fn publisher(&self) -> Arc<RegionPublisher> {
        self.publisher.lock().clone()
    }

    /// Since when the last canary to arrive was sent; `None` before the first.
    pub fn canary_age(&self) -> Option<Duration> {
        let sent = *self.canary.lock();
        sent.map(|sent| self.parts.clock.wall().since(sent))
    }

    /// For how long what arrived at the feed may not be announced yet; `None` if nobody knows.
    pub fn behind(&self) -> Option<Duration> {
        self.follower.progress.through().map(|through| self.parts.clock.wall().since(through))
    }

    /// Items that could not be read, or that the region's table would not take.
    pub fn skipped(&self) -> u64 {
        self.unusable.count() + self.parts.home.skipped()
    }

    fn enter(&self, state: IngestState) {
        *self.state.lock() = state;
    }

    /// Ingests while this process holds the lease, and waits for it while not, until `stopping`.
    pub async fn run(self: Arc<Self>, holder: String, stopping: CancellationToken) {
        let place = LeasePlace {
            tables: self.parts.own.clone(),
            table: Table::Region,
            job: "ingest".into(),
            holder,
            clock: self.parts.clock.clone(),
            lines: Arc::default(),
        };
        loop {
            self.enter(IngestState::Standby);
            let Some(lease) = stopping.run_until_cancelled(place.acquire()).await else { return };
            // A name of its own for each time that it holds the lease.
            let publisher = Arc::new(self.publisher().successor());
            *self.publisher.lock() = publisher.clone();
            let end = lease.term(self.work(&lease, &publisher), &stopping).await;
            publisher.sign_off(self.follower.progress.through()).await;
            self.follower.progress.reset();
            lease.release().await;
            match end {
                TermEnd::Stopped => return,
                TermEnd::Lost | TermEnd::Done(FollowEnd::LeaseLost | FollowEnd::Trimmed) => {}
                // Another process may fare better.
                TermEnd::Panicked | TermEnd::Done(FollowEnd::Panicked) => {
                    self.enter(IngestState::Standby);
                    pass_panic_on();
                }
            }
        }
    }

    /// Works under the lease. Only following the feed ends.
    async fn work(self: &Arc<Self>, lease: &Lease, publisher: &RegionPublisher) -> FollowEnd {
        let sweep = self.sweep(lease);
        tokio::select! {
            // In order, so that a simulated run can be repeated.
            biased;
            () = self.beat(publisher) => FollowEnd::LeaseLost,
            end = self.ingest(lease) => end,
            () = sweep.run() => FollowEnd::LeaseLost,
        }
    }

    fn sweep<'i>(&'i self, lease: &'i Lease) -> CopySweep<'i> {
        CopySweep {
            home: &*self.parts.home,
            own: &*self.parts.own,
            publisher: self.publisher(),
            views: self.parts.views.as_ref(),
            clock: &self.parts.clock,
            every: self.sweep_every,
            begin: fastrand::usize(..),
            lease,
            owes: AtomicBool::new(false),
            counts: &self.sweep_counts,
        }
    }

    /// Never returns.
    async fn beat(&self, publisher: &RegionPublisher) {
        let mut beats = tokio::time::interval(limits::HEARTBEAT_EVERY);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            // Read before the publisher's last number: everything that it claims has a number.
            let through = self.follower.progress.through();
            if let Err(error) = publisher.heartbeat(through).await
                && let Some(suppressed) = self.lines.heartbeats.admit(self.parts.clock.now())
            {
                tracing::warn!(%error, suppressed, "a heartbeat could not be published");
            }
        }
    }

    /// Until the lease is lost, or a reader panics.
    async fn ingest(self: &Arc<Self>, lease: &Lease) -> FollowEnd {
        loop {
            match self.ingest_once(lease).await {
                FollowEnd::Trimmed => {}
                end => return end,
            }
            if let Some(suppressed) = self.lines.trimmed.admit(self.parts.clock.now()) {
                let what = "the feed no longer has what this region did not read: ingesting everything anew";
                tracing::error!(suppressed, "{what}");
            }
            let mut forgotten = self.follower.forget(lease).await;
            if !is_on(Guard::ScanAfterTrim) && forgotten.is_ok() {
                forgotten = self.follower.begin(lease, Wall::default()).await;
            }
            if let Err(end) = forgotten {
                return end;
            }
            // What was trimmed just now lies within the margin of the next beginning too.
            tokio::time::sleep(BEGIN_PAUSE).await;
        }
    }

    async fn ingest_once(self: &Arc<Self>, lease: &Lease) -> FollowEnd {
        if let Err(end) = self.begin(lease).await {
            return end;
        }
        self.enter(IngestState::Following);
        let apply: Arc<dyn Apply> = self.clone();
        self.follower.follow(lease, &apply).await
    }

    /// Scans, unless a scan is complete and the feed brings the rest.
    async fn begin(&self, lease: &Lease) -> Result<(), FollowEnd> {
        if self.follower.insist("reading whether it has begun", || self.follower.begun()).await.is_some() {
            return Ok(());
        }
        self.enter(IngestState::Scanning);
        let at = self.parts.clock.wall().as_millis().saturating_sub(BEGIN_MARGIN.as_millis() as u64);
        let mut names: BTreeSet<String> = self.parts.views.clone().unwrap_or_default();
        let (mut grants, mut after) = (Vec::new(), None);
        loop {
            // One page or item that fails does not begin the scan again.
            let page = self
                .follower
                .insist("scanning the views", || {
                    self.parts.home.scan(Table::Views, ScanSegment::WHOLE, after.clone(), limits::SCAN_PAGE)
                })
                .await;
            self.counts.scanned.inc_by(page.items.len() as u64);
            let items: Vec<Item> = page.items.into_iter().filter(|item| self.takes(item)).collect();
            names.extend(items.iter().filter_map(|item| view_of(item).map(str::to_owned)));
            let said = self.put_all(items).await;
            // Their version is announced, not that all of them is to be read again.
            grants.extend(said.into_iter().filter(|said| said.record_type == GRANTS));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        // What changed in the gap is not known one by one. Before the beginning is written down:
        // who dies in between says it again.
        if is_on(Guard::ReloadAfterScan) {
            names.remove(GRANTS);
            self.publisher().announce(names.into_iter().map(Said::reload).chain(grants).collect()).await;
        }
        let at = if is_on(Guard::PositionBeforeScan) { at } else { self.parts.clock.wall().as_millis() };
        self.follower.begin(lease, Wall::from_millis(at)).await?;
        if let Some(suppressed) = self.lines.copied.admit(self.parts.clock.now()) {
            tracing::info!(region = self.parts.region, suppressed, "every view is copied; following the feed");
        }
        Ok(())
    }

    /// True if this region has it.
    fn takes(&self, item: &Item) -> bool {
        let Some(view) = view_of(item) else { return false };
        // Who may read what holds in every region, whatever views it has.
        view == GRANTS || view != CANARY && self.parts.views.as_ref().is_none_or(|views| views.contains(view))
    }

    /// Returns what is to be said of them.
    async fn put_all(&self, items: Vec<Item>) -> Vec<Said> {
        let puts = stream::iter(items.into_iter().map(|item| self.put(item)));
        let said: Vec<_> = puts.buffer_unordered(self.parts.own.writes_at_once()).collect().await;
        said.into_iter().flatten().collect()
    }

    /// Puts an item. One that was not newer is announced too: its writer may have died before
    /// announcing it.
    async fn put(&self, item: Item) -> Option<Said> {
        let said = said_of(&item);
        if let Err(error) = check_item(&item) {
            let now = self.parts.clock.now();
            self.unusable.note(now, Table::Views, Some(&item.key), &error.to_string());
            return None;
        }
        // Each for itself: a table that is throttled takes a few of a batch at a time.
        let was_newer =
            self.follower.insist("writing the region's table", || put_if_newer(&*self.parts.own, item.clone())).await;
        let count = if was_newer { &self.counts.put } else { &self.counts.not_newer };
        count.inc();
        said.filter(|_| was_newer || is_on(Guard::AnnounceRefused))
    }

    fn note_canary(&self, item: &Item) {
        let mut last = self.canary.lock();
        *last = (*last).max(Some(Wall::from_millis(item.version)));
    }

    async fn take(&self, changes: Vec<Change>) {
        self.counts.changes.inc_by(changes.len() as u64);
        // A removal is never a deletion: tombstones are.
        let items = changes.into_iter().filter_map(|change| match change.item {
            None if !is_on(Guard::RemovalIsNoDeletion) => Some(Item::new(change.key, change.written.as_millis())),
            item => item,
        });
        let mut newest: BTreeMap<_, Item> = BTreeMap::new();
        for item in items {
            if view_of(&item) == Some(CANARY) {
                self.note_canary(&item);
            }
            let known = newest.get(&item.key).map_or(0, |known| known.version);
            if self.takes(&item) && item.version > known {
                newest.insert(item.key.clone(), item);
            }
        }
        if !is_on(Guard::PutBeforeAnnounce) {
            self.publisher().announce(newest.values().filter_map(said_of).collect()).await;
        }
        let confirmed = grants::confirmed_by(newest.values());
        let mut said = self.put_all(newest.into_values().collect()).await;
        said.extend(grants::fetch(&self.follower, &*self.parts.home, &*self.parts.own, confirmed).await);
        let publisher = self.publisher();
        let announced = publisher.announce(said);
        if is_on(Guard::AnnounceBeforeCheckpoint) {
            announced.await
        } else {
            announced.now_or_never().unwrap_or_default()
        }
    }
}

fn new_publisher(parts: &IngestParts) -> RegionPublisher {
    RegionPublisher::new(&parts.region, parts.topic.clone(), parts.clock.clone())
}

impl Apply for Ingester {
    fn apply(&self, changes: Vec<Change>) -> BoxFuture<'_, Result<(), EngineError>> {
        self.take(changes).map(Ok).boxed()
    }
}

impl std::fmt::Debug for Ingester {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ingester({}, {:?})", self.parts.region, self.state())
    }
}

#[cfg(test)]
mod tests;
