//! Traffic of a region: how many requests, for which paths, and when each was answered. The story
//! uses it to show a race, and tests to count attempts. It is bounded; beyond the limit, paths are
//! counted only in the total.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use http::StatusCode;
use nearside::model::time::Moment;
use parking_lot::{Mutex, MutexGuard};

use crate::limits;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub path: String,
    pub arrived: Moment,
    /// Time at which the reply began.
    pub answered: Moment,
    pub status: StatusCode,
    /// The version that the reply showed, if any.
    pub version: Option<u64>,
}

impl Answered {
    /// From arrival to reply.
    pub fn took(&self) -> Duration {
        self.answered - self.arrived
    }
}

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
    pub fn arrived(&self, path: &str) {
        let mut seen = self.locked();
        seen.total += 1;
        if let Some(count) = seen.paths.get_mut(path) {
            *count += 1;
        } else if seen.paths.len() < limits::LAB_PATHS {
            seen.paths.insert(path.to_owned(), 1);
        }
    }

    pub fn answered(&self, answered: Answered) {
        let mut seen = self.locked();
        if seen.answered.len() == limits::LAB_PATHS {
            seen.answered.pop_front();
        }
        seen.answered.push_back(answered);
    }

    pub fn total(&self) -> u64 {
        self.locked().total
    }

    /// Number of requests that arrived for `path`.
    pub fn to(&self, path: &str) -> u64 {
        self.locked().paths.get(path).copied().unwrap_or(0)
    }

    /// The newest answer for `path` whose request arrived at or after `since`.
    pub fn last(&self, path: &str, since: Moment) -> Option<Answered> {
        self.locked().answered.iter().rev().find(|one| one.path == path && one.arrived >= since).cloned()
    }

    pub fn clear(&self) {
        *self.locked() = Seen::default();
    }

    fn locked(&self) -> MutexGuard<'_, Seen> {
        // Counters cannot be left half-written, so a poisoned lock is harmless.
        self.seen.lock()
    }
}
