//! Counts of versions by writer, reason and minute.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::catalogue::RecordVersion;
use crate::model::time::Wall;
use crate::repair::limits::{EXAMPLES, GROUPS};
use crate::views::definition::key_digest;

const MINUTE_MILLIS: u64 = 60_000;
/// Writer of versions without a note. No writer is called so.
const UNKNOWN: &str = "unknown";

/// Number of versions of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionCounts {
    /// Records that were created or replaced.
    pub written: u64,
    pub deleted: u64,
    /// They are damaged, and nobody can say which they were.
    pub unreadable: u64,
}

/// Changes by one writer for one reason within one minute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeGroup {
    pub by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Milliseconds at which it begins.
    pub minute: u64,
    #[serde(flatten)]
    pub counts: VersionCounts,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    by: String,
    reason: Option<String>,
    minute: u64,
}

/// Counts as they grow. Groups beyond [`GROUPS`] are counted together.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) records: u64,
    pub(super) changed: u64,
    pub(super) cut: u64,
    groups: BTreeMap<GroupKey, VersionCounts>,
    pub(super) more: VersionCounts,
    pub(super) examples: Vec<String>,
}

/// The writer that the version's note names.
pub(super) fn writer_of(version: &RecordVersion) -> &str {
    version.note.by.as_deref().unwrap_or(UNKNOWN)
}

impl VersionCounts {
    pub const fn sum(&self) -> u64 {
        self.written + self.deleted + self.unreadable
    }

    const fn add(&mut self, other: Self) {
        self.written += other.written;
        self.deleted += other.deleted;
        self.unreadable += other.unreadable;
    }

    fn one(version: &RecordVersion) -> Self {
        let is_deleted = version.body.is_none() && !version.is_unreadable;
        Self {
            written: u64::from(version.body.is_some()),
            deleted: u64::from(is_deleted),
            unreadable: u64::from(version.is_unreadable),
        }
    }
}

impl Tally {
    /// Counts a version that was made at `at`.
    pub(super) fn count(&mut self, version: &RecordVersion, at: Wall) {
        let (by, reason) = (writer_of(version).to_owned(), version.note.reason.clone());
        let minute = at.as_millis() / MINUTE_MILLIS * MINUTE_MILLIS;
        self.add(GroupKey { by, reason, minute }, VersionCounts::one(version));
    }

    /// Notes a record of which versions were counted.
    pub(super) fn note_changed(&mut self, key: &str) {
        self.changed += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(key_digest(key));
        }
    }

    /// Adds the counts of other records.
    pub(super) fn merge(&mut self, other: Self) {
        self.records += other.records;
        self.changed += other.changed;
        self.cut += other.cut;
        self.more.add(other.more);
        for (key, counts) in other.groups {
            self.add(key, counts);
        }
        let room = EXAMPLES.saturating_sub(self.examples.len());
        self.examples.extend(other.examples.into_iter().take(room));
    }

    fn add(&mut self, key: GroupKey, counts: VersionCounts) {
        if let Some(group) = self.groups.get_mut(&key) {
            group.add(counts);
        } else if self.groups.len() < GROUPS {
            self.groups.insert(key, counts);
        } else {
            self.more.add(counts);
        }
    }

    pub(super) fn groups(&self) -> Vec<ChangeGroup> {
        let groups = self.groups.iter().map(|(key, counts)| {
            let GroupKey { by, reason, minute } = key.clone();
            ChangeGroup { by, reason, minute, counts: *counts }
        });
        groups.collect()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::catalogue::note::ChangeNote;

    fn version(by: Option<&str>, reason: Option<&str>) -> RecordVersion {
        let [by, reason] = [by, reason].map(|text| text.map(str::to_owned));
        let note = ChangeNote { by, reason, ..ChangeNote::default() };
        let body = Some(Bytes::from_static(b"{}"));
        RecordVersion { key: "k".to_owned(), version: 7, body, is_unreadable: false, note }
    }

    fn group(by: &str, reason: Option<&str>, counts: VersionCounts) -> ChangeGroup {
        ChangeGroup { by: by.to_owned(), reason: reason.map(str::to_owned), minute: 0, counts }
    }

    fn written(count: u64) -> VersionCounts {
        VersionCounts { written: count, ..VersionCounts::default() }
    }

    #[test]
    fn minutes_begin_at_their_first_millisecond() {
        let mut tally = Tally::default();
        for at in [59_999, 60_000, 119_999, 120_000] {
            tally.count(&version(Some("admin"), None), Wall::from_millis(at));
        }
        let minutes: Vec<_> = tally.groups().iter().map(|group| (group.minute, group.counts.written)).collect();
        assert_eq!(minutes, [(0, 1), (60_000, 2), (120_000, 1)]);
    }

    #[test]
    fn writers_and_reasons_are_counted_apart() {
        let mut tally = Tally::default();
        let known = version(Some("consumer/jira"), Some("r"));
        let deleted = RecordVersion { body: None, ..known.clone() };
        let damaged = RecordVersion { is_unreadable: true, ..deleted.clone() };
        let others = [version(Some("consumer/jira"), None), version(None, Some("r"))];
        for version in [known.clone(), known, deleted, damaged].iter().chain(&others) {
            tally.count(version, Wall::from_millis(7));
        }
        let all = VersionCounts { written: 2, deleted: 1, unreadable: 1 };
        let expected = [
            group("consumer/jira", None, written(1)),
            group("consumer/jira", Some("r"), all),
            group("unknown", Some("r"), written(1)),
        ];
        assert_eq!((tally.groups(), all.sum()), (expected.to_vec(), 4));
    }

    #[test]
    fn further_groups_are_counted_together() {
        let (mut tally, mut other) = (Tally::default(), Tally::default());
        for minute in 0..GROUPS as u64 {
            tally.count(&version(Some("admin"), None), Wall::from_millis(minute * MINUTE_MILLIS));
        }
        // The last group is known, the next one is not.
        for minute in [GROUPS as u64 - 1, GROUPS as u64, GROUPS as u64 + 1] {
            other.count(&version(Some("admin"), None), Wall::from_millis(minute * MINUTE_MILLIS));
        }
        (other.records, other.changed, other.cut, other.more) = (3, 2, 1, written(5));
        other.examples = vec!["ab".to_owned(); EXAMPLES - 1];
        tally.examples = vec!["cd".to_owned(); 2];
        tally.merge(other);
        assert_eq!((tally.groups().len(), tally.more), (GROUPS, written(7)));
        assert_eq!(tally.groups().last().map(|group| group.counts), Some(written(2)));
        assert_eq!((tally.records, tally.changed, tally.cut), (3, 2, 1));
        assert_eq!((tally.examples.len(), &*tally.examples[1], &*tally.examples[2]), (EXAMPLES, "cd", "ab"));
    }

    #[test]
    fn examples_are_few_hashes() {
        let mut tally = Tally::default();
        for n in 0..=EXAMPLES {
            tally.note_changed(&format!("key-{n}"));
        }
        assert_eq!((tally.changed, tally.examples.len()), (EXAMPLES as u64 + 1, EXAMPLES));
        assert_eq!(tally.examples[0], key_digest("key-0"));
    }
}
