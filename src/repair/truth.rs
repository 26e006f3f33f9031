//! Truth about a record at a time, by its history: the last version before the first change that came later.
//!
//! Each change has its time by the clock of the catalogue that made it, and no version is before its time. A clock
//! that is slow or fast by a minute moves the answer by as much. A clock that was far ahead shows by later changes
//! that seem to be earlier: no answer is better than one that undoes good changes then.

use crate::catalogue::RecordVersion;
use crate::model::time::Wall;
use crate::repair::limits::CLOCKS_APART;

/// State of a record at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrueAt {
    /// It had the content of this version.
    Version(u64),
    /// There had never been such a record.
    Absent,
    /// It was deleted by this version.
    Deleted(u64),
    /// It had the content of this version, which is damaged: there is nothing to bring back.
    Damaged(u64),
    /// The clocks of those who wrote it disagree.
    Unclear,
}

/// The state of a record at `at`: `older` is the last version that is not greater than the milliseconds of `at`,
/// `since` are all versions after it, in their order.
#[must_use]
pub fn true_at(older: Option<&RecordVersion>, since: &[RecordVersion], at: Wall) -> TrueAt {
    if goes_back(older.into_iter().chain(since)) {
        return TrueAt::Unclear;
    }
    let kept = since.len() - undone(since, at).len();
    match since[..kept].last().or(older) {
        None => TrueAt::Absent,
        // It has no body either, and is no deletion.
        Some(last) if last.is_unreadable => TrueAt::Damaged(last.version),
        Some(last) if last.body.is_none() => TrueAt::Deleted(last.version),
        Some(last) => TrueAt::Version(last.version),
    }
}

/// The versions that a return to `at` undoes: the first one that came later, and all behind it.
#[must_use]
pub fn undone(since: &[RecordVersion], at: Wall) -> &[RecordVersion] {
    let first = since.iter().position(|version| changed_at(version) > at);
    &since[first.unwrap_or(since.len())..]
}

/// True if this writer alone made all these versions, as it is if there are none. One without a note is nobody's.
#[must_use]
pub fn only_by(versions: &[RecordVersion], writer: &str) -> bool {
    versions.iter().all(|version| version.note.by.as_deref() == Some(writer))
}

/// Time of the change. No version is before it, whatever its note says.
pub(super) fn changed_at(version: &RecordVersion) -> Wall {
    version.note.at(version.version).min(Wall::from_millis(version.version))
}

fn goes_back<'v>(versions: impl Iterator<Item = &'v RecordVersion>) -> bool {
    let mut latest = Wall::default();
    for at in versions.map(changed_at) {
        if latest.since(at) > CLOCKS_APART {
            return true;
        }
        latest = latest.max(at);
    }
    false
}

#[cfg(test)]
mod tests;
