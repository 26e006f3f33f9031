//! Reads one shard to its end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::StreamExt;

use super::super::{EngineError, FeedBatch, FeedShard, Position, ShardId, limits, retry_delay};
use super::checkpoints::Reached;
use super::follower::{Apply, FollowEnd, Follower};
use super::progress::FeedPart;
use crate::model::time::Wall;
use crate::switch::{Guard, is_on};

pub(super) struct ShardReader {
    pub(super) follower: Follower,
    pub(super) apply: Arc<dyn Apply>,
    pub(super) shard: ShardId,
    pub(super) reached: Arc<Reached>,
}

/// A shard that was read to its end.
pub(super) struct ShardEnd {
    pub(super) shard: ShardId,
    pub(super) children: Vec<FeedShard>,
    /// Through when it had been read before its end, if anybody knows: what is in its children came
    /// later.
    pub(super) before: Option<Wall>,
}

impl ShardReader {
    pub(super) async fn read(self, from: Position) -> Result<ShardEnd, FollowEnd> {
        let Follower { feed, clock, progress, .. } = &self.follower;
        let part = FeedPart::Shard(self.shard.clone());
        let mut before = if let Position::At(wall) = from { Some(wall) } else { None };
        let (mut at, mut failures) = (from, 0);
        loop {
            let mut batches = feed.open(&self.shard, at.clone());
            while let Some(batch) = batches.next().await {
                let FeedBatch { changes, next, through, ended } = match batch {
                    Ok(batch) => batch,
                    Err(EngineError::Trimmed { .. }) => return Err(FollowEnd::Trimmed),
                    Err(error) => {
                        failures += 1;
                        if let Some(suppressed) = progress.line(clock.now()) {
                            let feed = self.follower.name;
                            tracing::warn!(feed, %error, suppressed, "a shard cannot be read; trying again");
                        }
                        progress.failed(&part, clock.now(), error);
                        break;
                    }
                };
                failures = 0;
                if !is_on(Guard::ThroughAfterApply) {
                    progress.applied(&self.shard, through);
                }
                if !is_on(Guard::CheckpointAfterApply) {
                    self.reached.note(&self.shard, next.clone());
                    // Until it has been written down: that takes place once a second.
                    tokio::time::sleep(limits::CHECKPOINT_EVERY).await;
                }
                if !changes.is_empty() {
                    // Until it succeeds: nothing behind it counts before.
                    self.follower.insist_on(&part, "applying changes", || self.apply.apply(changes.clone())).await;
                }
                if let Some(children) = ended {
                    // It may have ended long ago: its children begin where it was before.
                    if !is_on(Guard::ChildrenHoldTime) {
                        progress.applied(&self.shard, Some(clock.wall()));
                    }
                    return Ok(ShardEnd { shard: self.shard, children, before });
                }
                progress.applied(&self.shard, through);
                before = before.max(through);
                if at != next {
                    self.reached.note(&self.shard, next.clone());
                    at = next;
                }
            }
            let pause = if failures > 0 { retry_delay(failures) } else { Duration::ZERO };
            tokio::time::sleep(pause).await;
        }
    }
}
