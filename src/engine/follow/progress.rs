//! Progress of each shard, and what does not get on.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};

use super::super::{EngineError, FeedShard, ShardId};
use crate::model::time::{Moment, Wall};
use crate::switch::{Guard, is_on};
use crate::telemetry::rate_limiter::RateLimiter;

/// Time up to which each shard has been applied.
#[derive(Debug, Default)]
pub struct FeedProgress {
    state: Mutex<Reached>,
    /// Each of many shards may fail.
    lines: RateLimiter,
}

#[derive(Debug, Default)]
struct Reached {
    /// Times of every shard that is not read to its end; `None` before its first batch.
    shards: BTreeMap<ShardId, Option<Wall>>,
    failing: BTreeMap<FeedPart, Failing>,
}

/// Part of a feed that can fail by itself while the others succeed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FeedPart {
    Shard(ShardId),
    /// Something that all of it needs.
    Step(&'static str),
}

/// A failing part: its last failure, and since when there have been only failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// A shard, or a step that all of it needs.
    pub part: String,
    pub since: Moment,
    pub error: EngineError,
}

impl FeedProgress {
    /// Everything that arrived at the feed by then has been applied. `None` while some shard has
    /// said nothing.
    pub fn through(&self) -> Option<Wall> {
        let state = self.locked();
        let through = state.shards.values().copied();
        if is_on(Guard::ThroughIsLeast) { through.min().flatten() } else { through.max().flatten() }
    }

    /// Everything of which nothing but failures have come lately: one shard that succeeds hides no
    /// other. That which has failed for longest is the first.
    pub fn failing(&self) -> Vec<Failing> {
        let mut failing: Vec<Failing> = self.locked().failing.values().cloned().collect();
        failing.sort_by_key(|failing| failing.since);
        failing
    }

    /// Claims nothing any more.
    pub fn reset(&self) {
        *self.locked() = Reached::default();
    }

    pub fn shards(&self) -> usize {
        self.locked().shards.len()
    }

    fn locked(&self) -> MutexGuard<'_, Reached> {
        // Each change is a few plain stores.
        self.state.lock()
    }

    /// Returns, if a failure is to be logged now, how many were left out since the last one.
    pub(super) fn line(&self, now: Moment) -> Option<u64> {
        self.lines.admit(now)
    }

    pub(super) fn failed(&self, part: &FeedPart, now: Moment, error: EngineError) {
        let name = match part {
            FeedPart::Shard(shard) => format!("shard {}", shard.0),
            FeedPart::Step(step) => (*step).to_owned(),
        };
        let mut state = self.locked();
        let since = state.failing.get(part).map_or(now, |failing| failing.since);
        state.failing.insert(part.clone(), Failing { part: name, since, error });
    }

    pub(super) fn recovered(&self, part: &FeedPart) {
        self.locked().failing.remove(part);
    }

    /// Time never goes backwards: a batch that is read again claims no less than before.
    pub(super) fn applied(&self, shard: &ShardId, through: Option<Wall>) {
        let mut state = self.locked();
        state.failing.remove(&FeedPart::Shard(shard.clone()));
        let known = state.shards.entry(shard.clone()).or_default();
        *known = (*known).max(through);
    }

    /// Holds the time until these have been read.
    pub(super) fn hold<'s>(&self, shards: impl Iterator<Item = &'s FeedShard>) {
        let mut state = self.locked();
        for shard in shards {
            state.shards.entry(shard.id.clone()).or_default();
        }
    }

    /// The children of a shard hold the time at its end until they are read.
    pub(super) fn ended(&self, shard: &ShardId, children: &[FeedShard]) {
        let mut state = self.locked();
        state.failing.remove(&FeedPart::Shard(shard.clone()));
        let through = state.shards.remove(shard).flatten();
        for child in children {
            state.shards.entry(child.id.clone()).or_insert(through);
        }
    }
}
