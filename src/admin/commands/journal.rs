//! Remembers the last commands on records or entries, so that `inspect` can tell a record's recent
//! past.

use std::collections::VecDeque;

use parking_lot::Mutex;

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
    command: &'static str,
    target: Target,
}

impl Journal {
    pub(super) fn note(&self, at: Moment, by: Operator, command: &'static str, target: Target) {
        // A note is pushed or popped whole: a panic elsewhere cannot leave half of one.
        let mut notes = self.notes.lock();
        if notes.len() == limits::COMMANDS_REMEMBERED {
            notes.pop_front();
        }
        notes.push_back(Note { at, by, command, target });
    }

    /// The commands that covered `id` (by record, by type, or all), newest first: `reset by uid 1000,
    /// 12 s ago`.
    pub(super) fn of(&self, id: RecordId, now: Moment) -> Vec<String> {
        let notes = self.notes.lock();
        let ours = notes.iter().rev().filter(|note| note.target.covers(id));
        ours.map(|note| format!("{} by {}, {} s ago", note.command, note.by, now.since(note.at).as_secs())).collect()
    }
}
