//! Keys and forms of the items in which the views service keeps its state of a view.

use serde::{Deserialize, Serialize};

use super::definition::JoinTarget;
use super::limits;
use super::make::Unmappable;
use super::vector::ViewVector;
use crate::engine::{Condition, Item, ItemKey, ItemWrite, Table, bucket};
use crate::model::time::Wall;
use crate::switch::{Guard, is_on};

/// The key of a record or a view as it is now.
pub(super) fn current(name: &str, key: &str) -> ItemKey {
    ItemKey::new(bucket::partition(name, key), key)
}

fn vector_key(view: &str, key: &str) -> ItemKey {
    ItemKey::new(bucket::partition(&format!("vector#{view}"), key), key)
}

/// One of the partitions that hold who needs `target`.
pub(super) fn reference_partition(target: &JoinTarget, part: u16) -> String {
    format!("reference#{}#{part:x}#{}", target.record_type, target.key)
}

/// Says that this view needs `target`.
pub(super) fn reference(target: &JoinTarget, view: &str, key: &str) -> ItemKey {
    let sort = format!("{view}/{key}");
    ItemKey::new(reference_partition(target, bucket::part(&sort, limits::REFERENCE_PARTS)), sort)
}

pub(super) fn failure_partition(part: u16) -> String {
    format!("failure#{part:x}")
}

fn failure_key(view: &str, key: &str) -> ItemKey {
    let sort = format!("{view}/{key}");
    ItemKey::new(failure_partition(bucket::part(&sort, limits::FAILURE_PARTS)), sort)
}

/// Key of the note of the sweep's progress.
pub(super) fn sweep_key() -> ItemKey {
    ItemKey::new("sweep", "views")
}

/// State of a view as it was last written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ViewNote {
    pub(super) vector: ViewVector,
    /// The view's own version; 0 if it was never written.
    pub(super) version: u64,
    /// The digest of its content.
    pub(super) content: String,
    /// Something since could not be mapped, and lies among the failures.
    pub(super) failed: bool,
}

/// A [`ViewNote`] and its count of writes, which is what its next write depends on.
pub(super) struct StoredNote {
    key: ItemKey,
    /// `None` before the first.
    writes: Option<u64>,
    pub(super) note: ViewNote,
    /// It can be read, so it need not be compared with what it speaks of.
    pub(super) is_known: bool,
}

impl StoredNote {
    pub(super) fn key(view: &str, key: &str) -> ItemKey {
        vector_key(view, key)
    }

    pub(super) fn read(key: ItemKey, item: Option<Item>) -> Self {
        let writes = item.as_ref().map(|item| item.version);
        let note = item.and_then(|item| item.note).and_then(|note| serde_json::from_str::<ViewNote>(&note).ok());
        Self { key, writes, is_known: note.is_some(), note: note.unwrap_or_default() }
    }

    /// Replaces what was read, unless somebody else did.
    pub(super) fn replace(&self, note: &ViewNote, now: Wall) -> ItemWrite {
        let text = serde_json::to_string(note).expect("numbers and text are JSON");
        // Not from 1: who knows a note from before the table was lost must not take this for it.
        let writes = self.writes.map_or(now.as_millis(), |writes| writes + 1);
        let item = Item::new(self.key.clone(), writes).with_note(text);
        let unchanged = if is_on(Guard::NoteInCondition) {
            self.writes.map_or(Condition::Absent, Condition::VersionIs)
        } else {
            Condition::Any
        };
        ItemWrite::Put(Table::Mapping, item, unchanged)
    }
}

/// Note about a view among the failures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FailureNote {
    pub(super) reason: String,
    /// The main record's version.
    pub(super) version: u64,
}

pub(super) fn failure(view: &str, key: &str, why: Unmappable, version: u64, now: Wall) -> ItemWrite {
    let note = FailureNote { reason: why.into_str().to_owned(), version };
    let note = serde_json::to_string(&note).expect("numbers and text are JSON");
    let item = Item::new(failure_key(view, key), now.as_millis()).with_note(note);
    ItemWrite::Put(Table::Mapping, item, Condition::Any)
}

pub(super) fn no_failure(view: &str, key: &str) -> ItemWrite {
    ItemWrite::Delete(Table::Mapping, failure_key(view, key), Condition::Any)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::limits::{NOTE_BYTES, PARTITION_BYTES, SORT_BYTES};
    use crate::model::names::{KEY_BYTES, NAME_BYTES};

    /// They are written down: a change would lose what is known.
    #[test]
    fn stored_keys_never_change() {
        let target = JoinTarget { record_type: "shard".to_owned(), key: "s#1/a".to_owned() };
        assert_eq!(current("limits", "acme"), ItemKey::new("limits#94", "acme"));
        assert_eq!(vector_key("limits", "acme"), ItemKey::new("vector#limits#94", "acme"));
        assert_eq!(reference(&target, "limits", "acme"), ItemKey::new("reference#shard#b#s#1/a", "limits/acme"));
        assert_eq!(failure_key("limits", "acme"), ItemKey::new("failure#b", "limits/acme"));
        assert_eq!(sweep_key(), ItemKey::new("sweep", "views"));
    }

    #[test]
    fn the_longest_names_and_keys_fit() {
        let (name, key) = ("n".repeat(NAME_BYTES), "\"".repeat(KEY_BYTES));
        let keys = (0..limits::NEEDS).map(|at| format!("{at}{}", &key[1..]));
        let targets: Vec<_> = keys.map(|key| JoinTarget { record_type: name.clone(), key }).collect();
        let joined = targets.iter().map(|target| (target.clone(), u64::MAX)).collect();
        let vector = ViewVector { definition: u64::MAX, main: u64::MAX, joined };
        let note = ViewNote { vector, version: u64::MAX, content: "f".repeat(32), failed: false };
        let stored = StoredNote::read(StoredNote::key(&name, &key), None);
        let ItemWrite::Put(_, item, Condition::Absent) = stored.replace(&note, Wall::from_millis(9)) else {
            panic!("a first put")
        };
        assert_eq!(item.version, 9, "the first count is the time");
        assert!(item.note.as_ref().unwrap().len() <= NOTE_BYTES);
        assert_eq!(StoredNote::read(item.key.clone(), Some(item)).note, note);
        let reference = reference(&targets[0], &name, &key);
        assert!(reference.partition.len() <= PARTITION_BYTES && reference.sort.len() <= SORT_BYTES);
    }

    #[test]
    fn unreadable_note_is_replaced() {
        let key = StoredNote::key("limits", "acme");
        let damaged = Item::new(key.clone(), 7).with_note("{");
        let stored = StoredNote::read(key, Some(damaged));
        assert!(!stored.is_known);
        let put = stored.replace(&ViewNote::default(), Wall::from_millis(9));
        assert_eq!(put.condition(), Condition::VersionIs(7));
    }
}
