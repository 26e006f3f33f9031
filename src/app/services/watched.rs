//! The engine as a service's parts see it: what it says that somebody has to act on (something is
//! missing, or a call is not allowed) is noted on the way, whichever part asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{BoxFuture, FutureExt, TryFutureExt};
use futures_util::stream::{BoxStream, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::engines::Engine;
use super::health::{Access, StoreHealth};
use crate::app::limits::{LACKING_HOLD, LACKING_LINES};
use crate::config::services::ServedRegion;
use crate::engine::delegate_tables;
use crate::engine::{
    EngineError, Feed, FeedBatch, FeedShard, Item, ItemKey, ItemWrite, Page, Position, ScanSegment, ShardId, Stream,
    Table, Tables, Topic, WriteError,
};
use crate::model::time::{Clock, Moment};
use crate::telemetry::rate_limiter::RateLimiter;

/// Clones share the engine and what is noted of it.
#[derive(Clone)]
pub struct WatchedEngine {
    engine: Engine,
    lacking: Lacking,
    health: StoreHealth,
}

/// Name of the home region where a place is named.
const HOME: &str = "home";

impl WatchedEngine {
    pub fn new(engine: Engine, clock: Clock) -> Self {
        Self { engine, lacking: Lacking::new(clock.clone()), health: StoreHealth::new(clock) }
    }

    pub(super) const fn lacking(&self) -> &Lacking {
        &self.lacking
    }

    pub(super) const fn health(&self) -> &StoreHealth {
        &self.health
    }

    pub(super) const fn takes_idle_writes(&self) -> bool {
        self.engine.takes_idle_writes()
    }

    pub(super) async fn probe_room(&self) -> Result<(), EngineError> {
        self.engine.probe_room().await
    }

    pub fn home(&self) -> Arc<dyn Tables> {
        Arc::new(self.watched(HOME, self.engine.home()))
    }

    pub async fn regional(&self, region: &ServedRegion) -> Arc<dyn Tables> {
        Arc::new(self.watched(&region.name, self.engine.regional(region).await))
    }

    pub fn feed(&self, stream: Stream, reader: &str) -> Arc<dyn Feed> {
        Arc::new(self.watched(HOME, self.engine.feed(stream, reader)))
    }

    pub async fn topic(&self, region: &ServedRegion) -> Arc<dyn Topic> {
        Arc::new(self.watched(&region.name, self.engine.topic(region).await))
    }

    pub async fn keep_house(self, stopping: CancellationToken) {
        self.engine.keep_house(stopping).await;
    }

    pub(super) fn watched<T>(&self, place: &str, inner: T) -> Watched<T> {
        Watched { inner, place: place.into(), lacking: self.lacking.clone(), health: self.health.clone() }
    }
}

/// Defects that somebody has to act on, one line each. Clones share it.
#[derive(Clone)]
pub(super) struct Lacking(Arc<LackingState>);

struct LackingState {
    clock: Clock,
    /// Findings of the last look.
    looked: Mutex<Vec<String>>,
    /// Errors that parts got, and the last time of each.
    reported: Mutex<BTreeMap<String, Moment>>,
    /// Everything was there once.
    was_whole: AtomicBool,
    look: Notify,
    lines: RateLimiter,
    whole_lines: RateLimiter,
}

impl Lacking {
    pub(super) fn new(clock: Clock) -> Self {
        let (looked, reported, was_whole) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        let (look, lines, whole_lines) = (Notify::new(), RateLimiter::new(), RateLimiter::new());
        Self(Arc::new(LackingState { clock, looked, reported, was_whole, look, lines, whole_lines }))
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = self.0.looked.lock().clone();
        let now = self.0.clock.now();
        let reported = self.0.reported.lock();
        let fresh = reported.iter().filter(|(line, at)| now.since(**at) < LACKING_HOLD && !lines.contains(line));
        let fresh: Vec<String> = fresh.map(|(line, _)| line.clone()).collect();
        lines.extend(fresh);
        lines
    }

    /// True if everything has been there since the start, if only once.
    pub(super) fn was_whole(&self) -> bool {
        self.0.was_whole.load(Ordering::Acquire)
    }

    /// Keeps what a look found, and logs what was not known yet.
    pub(super) fn keep(&self, found: Vec<String>) {
        let known = self.lines();
        for line in found.iter().filter(|line| !known.contains(line)) {
            self.log(line);
        }
        let had_found = !std::mem::replace(&mut *self.0.looked.lock(), found.clone()).is_empty();
        if found.is_empty() {
            self.0.was_whole.store(true, Ordering::Release);
            if had_found && let Some(suppressed) = self.0.whole_lines.admit(self.0.clock.now()) {
                tracing::info!(suppressed, "all that this process needs is there");
            }
        }
    }

    /// Returns when a part got the error that something is missing.
    pub(super) async fn wants_look(&self) {
        self.0.look.notified().await;
    }

    /// Notes an error that a part got. What is missing, a look finds out.
    fn note(&self, place: &str, error: &EngineError) {
        match error {
            EngineError::Missing { .. } => self.0.look.notify_one(),
            EngineError::Denied { .. } => self.tell(format!("{place}: {error}")),
            _ => {}
        }
    }

    fn log(&self, line: &str) {
        if let Some(suppressed) = self.0.lines.admit(self.0.clock.now()) {
            tracing::error!(suppressed, "{line}");
        }
    }

    fn tell(&self, line: String) {
        if !self.lines().contains(&line) {
            self.log(&line);
        }
        let (now, mut reported) = (self.0.clock.now(), self.0.reported.lock());
        reported.retain(|_, at| now.since(*at) < LACKING_HOLD);
        if reported.len() < LACKING_LINES || reported.contains_key(&line) {
            reported.insert(line, now);
        }
    }
}

/// Something of the engine, at a place.
pub(super) struct Watched<T> {
    inner: T,
    place: Arc<str>,
    lacking: Lacking,
    health: StoreHealth,
}

impl<T> Watched<T> {
    /// Notes what comes of a call of the tables or the topic.
    async fn observe<R, E: AsEngineError>(
        &self,
        access: Access,
        call: impl Future<Output = Result<R, E>> + Send,
    ) -> Result<R, E> {
        let began = self.health.now();
        let outcome = call.await;
        match outcome.as_ref().err().and_then(E::as_engine_error) {
            None => self.health.succeeded(&self.place, access),
            Some(error) => {
                self.health.failed(&self.place, access, began, error);
                self.note(error);
            }
        }
        outcome
    }

    fn note(&self, error: &EngineError) {
        self.lacking.note(&self.place, error);
    }
}

/// A failure of the engine, if it is one: a condition that does not hold is an answer.
trait AsEngineError {
    fn as_engine_error(&self) -> Option<&EngineError>;
}

impl AsEngineError for EngineError {
    fn as_engine_error(&self) -> Option<&EngineError> {
        Some(self)
    }
}

impl AsEngineError for WriteError {
    fn as_engine_error(&self) -> Option<&EngineError> {
        match self {
            Self::Conflict(_) => None,
            Self::Engine(error) => Some(error),
        }
    }
}

impl Tables for Watched<Arc<dyn Tables>> {
    delegate_tables!(inner: skipped, writes_at_once);

    fn get<'a>(&'a self, table: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.observe(Access::Reads, self.inner.get(table, key)).boxed()
    }

    fn write(&self, writes: Vec<ItemWrite>) -> BoxFuture<'_, Result<(), WriteError>> {
        self.observe(Access::Writes, self.inner.write(writes)).boxed()
    }

    fn query<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, EngineError>> {
        self.observe(Access::Reads, self.inner.query(table, partition, after, limit)).boxed()
    }

    fn last<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        through: &'a str,
    ) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.observe(Access::Reads, self.inner.last(table, partition, through)).boxed()
    }

    fn scan(
        &self,
        table: Table,
        segment: ScanSegment,
        after: Option<ItemKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, EngineError>> {
        self.observe(Access::Reads, self.inner.scan(table, segment, after, limit)).boxed()
    }
}

impl Feed for Watched<Arc<dyn Feed>> {
    fn shards(&self) -> BoxFuture<'_, Result<Vec<FeedShard>, EngineError>> {
        self.inner.shards().inspect_err(|error| self.note(error)).boxed()
    }

    fn open(&self, shard: &ShardId, from: Position) -> BoxStream<'static, Result<FeedBatch, EngineError>> {
        let (place, lacking) = (self.place.clone(), self.lacking.clone());
        let batches = self.inner.open(shard, from);
        batches.inspect_err(move |error| lacking.note(&place, error)).boxed()
    }
}

impl Topic for Watched<Arc<dyn Topic>> {
    fn publish(&self, messages: Vec<String>) -> BoxFuture<'_, Result<Vec<usize>, EngineError>> {
        self.observe(Access::Announcements, self.inner.publish(messages)).boxed()
    }

    fn look(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        self.inner.look()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::limits::RATIONED_LINES;
    use crate::telemetry::scripted::CountedLines;

    fn denied() -> EngineError {
        EngineError::Denied { action: "sns:Publish".to_owned(), resource: "arn:aws:sns:eu-west-1:1:t".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn denial_is_reported_while_it_lasts() {
        let lacking = Lacking::new(Clock::System);
        lacking.keep(Vec::new());
        lacking.note("eu-west-1", &EngineError::Throttled { what: "t".to_owned() });
        assert!(lacking.lines().is_empty() && lacking.was_whole());
        lacking.note("eu-west-1", &denied());
        lacking.note("eu-west-1", &denied());
        let line = "eu-west-1: not allowed: sns:Publish on arn:aws:sns:eu-west-1:1:t; grant it to the role that this \
                    process runs as";
        assert_eq!(lacking.lines(), [line]);
        assert!(lacking.was_whole(), "it runs");
    }

    #[tokio::test(start_paused = true)]
    async fn denial_expires_without_recurrence() {
        let lacking = Lacking::new(Clock::simulated(Clock::System.wall()));
        lacking.note("home", &denied());
        assert_eq!(lacking.lines().len(), 1);
        tokio::time::sleep(LACKING_HOLD).await;
        assert!(lacking.lines().is_empty());
    }

    #[test]
    fn flapping_store_floods_no_log() {
        let (lines, lacking) = (CountedLines::start(), Lacking::new(Clock::System));
        for number in 0..100 {
            lacking.keep(vec![format!("home: p-records does not answer: attempt {number}")]);
            lacking.keep(Vec::new());
            lacking.note(
                "home",
                &EngineError::Denied { action: "dynamodb:Query".to_owned(), resource: format!("{number}") },
            );
        }
        assert_eq!(lines.with("ERROR"), RATIONED_LINES.0 as usize);
        assert_eq!(lines.with("all that this process needs is there"), RATIONED_LINES.0 as usize);
    }

    fn missing(what: &str) -> EngineError {
        EngineError::Missing { what: what.to_owned(), advice: "create it".to_owned() }
    }

    #[tokio::test]
    async fn missing_table_triggers_immediate_check() {
        let lacking = Lacking::new(Clock::System);
        // A transaction names all of its tables.
        lacking.note("home", &missing("p-history, p-records"));
        lacking.wants_look().await;
        assert!(lacking.lines().is_empty());
        lacking.keep(vec![format!("home: {}", missing("p-history"))]);
        assert_eq!(lacking.lines(), ["home: p-history does not exist: create it"]);
    }
}
