//! Owns what a region saw: how many requests, to which paths, and when each was answered.
//!
//! Before it: [`super::region`] notes every request. After it: the story's picture of a race, and the tests that count
//! legs. Invariant: it is bounded; beyond the bound paths are counted in the total only.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;

use crate::lab::limits;
use crate::model::time::Moment;

/// One request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Its path.
    pub path: String,
    /// When it arrived.
    pub arrived: Moment,
    /// When the reply began.
    pub answered: Moment,
    /// With what.
    pub status: StatusCode,
    /// The version that the reply showed, when it showed one.
    pub version: Option<u64>,
}

impl Answered {
    /// From arrival to reply.
    pub fn took(&self) -> Duration {
        self.answered - self.arrived
    }
}

/// What one region saw.
#[derive(Debug, Default)]
pub struct Traffic {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    total: u64,
    paths: HashMap<String, u64>,
    answered: VecDeque<Answered>,
}

impl Traffic {
    /// A request arrived.
    pub fn arrived(&self, path: &str) {
        let mut seen = self.locked();
        seen.total += 1;
        if let Some(count) = seen.paths.get_mut(path) {
            *count += 1;
        } else if seen.paths.len() < limits::WORLD_PATHS {
            seen.paths.insert(path.to_owned(), 1);
        }
    }

    /// It was answered.
    pub fn answered(&self, answered: Answered) {
        let mut seen = self.locked();
        if seen.answered.len() == limits::WORLD_PATHS {
            seen.answered.pop_front();
        }
        seen.answered.push_back(answered);
    }

    /// Requests that arrived.
    pub fn total(&self) -> u64 {
        self.locked().total
    }

    /// Requests for `path` that arrived.
    pub fn to(&self, path: &str) -> u64 {
        self.locked().paths.get(path).copied().unwrap_or(0)
    }

    /// The newest answer for `path` that arrived at or after `since`.
    pub fn last(&self, path: &str, since: Moment) -> Option<Answered> {
        self.locked().answered.iter().rev().find(|one| one.path == path && one.arrived >= since).cloned()
    }

    /// Forgets all of it.
    pub fn clear(&self) {
        *self.locked() = Seen::default();
    }

    fn locked(&self) -> MutexGuard<'_, Seen> {
        // Counters cannot be left half-written.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
