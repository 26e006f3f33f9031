//! Checkpoints of the shards of a feed, and which of them are read next.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

use super::super::{FeedShard, Position, ShardId};
use crate::model::time::Wall;

#[derive(Clone, Debug, Default)]
pub(super) struct Checkpoints {
    /// Time at which the scan began with which the first reader made up for what the feed did not
    /// bring.
    pub(super) begun: Option<Wall>,
    pub(super) shards: BTreeMap<ShardId, Checkpoint>,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) enum Checkpoint {
    After(String),
    At(u64),
    Oldest,
    Ended,
}

impl Checkpoints {
    /// True if a shard that was not read to its end is no longer there.
    pub(super) fn any_lost(&self, shards: &[FeedShard]) -> bool {
        let unread = self.shards.iter().filter(|(_, checkpoint)| **checkpoint != Checkpoint::Ended);
        unread.map(|(id, _)| id).any(|id| !shards.iter().any(|shard| shard.id == *id))
    }

    pub(super) fn from(&self, shard: &ShardId) -> Position {
        match self.shards.get(shard) {
            Some(Checkpoint::After(place)) => Position::After(place.clone()),
            Some(Checkpoint::At(wall)) => Position::At(Wall::from_millis(*wall)),
            Some(Checkpoint::Oldest | Checkpoint::Ended) => Position::Oldest,
            // What came before the scan is in it.
            None => self.begun.map_or(Position::Oldest, Position::At),
        }
    }
}

impl From<Position> for Checkpoint {
    fn from(position: Position) -> Self {
        match position {
            Position::After(place) => Self::After(place),
            Position::At(wall) => Self::At(wall.as_millis()),
            Position::Oldest => Self::Oldest,
        }
    }
}

/// The shards to be read now: not read yet, and no parent that still has to be read before.
pub(super) fn ready<'a>(
    shards: &'a [FeedShard],
    known: &Checkpoints,
    reading: &BTreeSet<ShardId>,
) -> Vec<&'a FeedShard> {
    let waits: BTreeSet<&ShardId> =
        shards.iter().map(|shard| &shard.id).filter(|id| known.shards.get(id) != Some(&Checkpoint::Ended)).collect();
    shards
        .iter()
        .filter(|shard| {
            waits.contains(&shard.id)
                && !reading.contains(&shard.id)
                && !shard.parents.iter().any(|parent| waits.contains(parent))
        })
        .collect()
}

/// Positions that readers have reached since the last checkpoint.
#[derive(Debug, Default)]
pub(super) struct Reached(Mutex<BTreeMap<ShardId, Position>>);

impl Reached {
    pub(super) fn note(&self, shard: &ShardId, position: Position) {
        self.0.lock().insert(shard.clone(), position);
    }

    /// All of them, once.
    pub(super) fn take(&self) -> BTreeMap<ShardId, Position> {
        std::mem::take(&mut *self.0.lock())
    }
}
