//! Remembers the last acts on records or entries, so that `inspect` can tell a record's recent
//! past.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::access::Operator;
use super::target::Target;
use crate::admin::limits;
use crate::model::ids::RecordId;
use crate::model::time::Moment;

/// Oldest first; the oldest is dropped to make room.
#[derive(Default)]
pub(super) struct Journal {
    notes: Mutex<VecDeque<Note>>,
}

struct Note {
    at: Moment,
    by: Operator,
    act: &'static str,
    target: Target,
}

impl Journal {
    pub(super) fn note(&self, at: Moment, by: Operator, act: &'static str, target: Target) {
        // A note is pushed or popped whole: a panic elsewhere cannot leave half of one.
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() == limits::ACTS_REMEMBERED {
            notes.pop_front();
        }
        notes.push_back(Note { at, by, act, target });
    }

    /// The acts that covered `id` (by record, by type, or all), newest first: `reset by uid 1000,
    /// 12 s ago`.
    pub(super) fn of(&self, id: RecordId, now: Moment) -> Vec<String> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = notes.iter().rev().filter(|note| note.target.covers(id));
        ours.map(|note| format!("{} by {}, {} s ago", note.act, note.by, now.since(note.at).as_secs())).collect()
    }
}
