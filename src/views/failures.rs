//! Views that cannot be mapped as things are, for operators.

use super::limits;
use super::stored::{FailureNote, failure_partition};
use crate::engine::{EngineError, Item, Table, Tables};
use crate::model::time::Wall;

/// A view that cannot be made of its records.
#[derive(Clone, PartialEq, Eq)]
pub struct FailedView {
    pub view: String,
    pub key: String,
    /// Word of a [`super::Unmappable`], or `unreadable`.
    pub reason: String,
    /// The main record's version.
    pub version: u64,
    /// Time at which that was found out last.
    pub when: Wall,
}

impl From<Item> for FailedView {
    /// Reads a failure; an item that cannot be read is a failure of the view in its key.
    fn from(item: Item) -> Self {
        let note: Option<FailureNote> = item.note.and_then(|note| serde_json::from_str(&note).ok());
        let (view, key) = item.key.sort.split_once('/').unwrap_or(("", &item.key.sort));
        let FailureNote { reason, version } =
            note.unwrap_or_else(|| FailureNote { reason: "unreadable".to_owned(), version: 0 });
        let when = Wall::from_millis(item.version);
        Self { view: view.to_owned(), key: key.to_owned(), reason, version, when }
    }
}

/// The views that cannot be made, up to [`limits::FAILURES`].
///
/// # Errors
/// What the engine says.
pub async fn failures(store: &dyn Tables) -> Result<Vec<FailedView>, EngineError> {
    let mut failed = Vec::new();
    for part in 0..limits::FAILURE_PARTS {
        let (partition, mut after) = (failure_partition(part), None::<String>);
        loop {
            let page = store.query(Table::Mapping, &partition, after.as_deref(), limits::JOB_PAGE).await?;
            failed.extend(page.items.into_iter().map(FailedView::from));
            match page.next {
                _ if failed.len() >= limits::FAILURES => return Ok(failed),
                Some(next) => after = Some(next.sort),
                None => break,
            }
        }
    }
    Ok(failed)
}
