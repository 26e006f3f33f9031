//! What cannot be mapped as things are, for operators.

use super::limits;
use super::stored::{FailureNote, failure_partition};
use crate::engine::{EngineError, Table, Tables};
use crate::model::time::Wall;

/// A view that cannot be made of its records.
#[derive(Clone, PartialEq, Eq)]
pub struct FailedView {
    pub view: String,
    pub key: String,
    /// One of [`super::Unmappable::word`].
    pub reason: String,
    /// The main record's version.
    pub version: u64,
    /// When that was found out last.
    pub when: Wall,
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
            failed.extend(page.items.into_iter().filter_map(|item| {
                let note: FailureNote = serde_json::from_str(&item.note?).ok()?;
                let (view, key) = item.key.sort.split_once('/')?;
                let FailureNote { reason, version } = note;
                let when = Wall::from_millis(item.version);
                Some(FailedView { view: view.to_owned(), key: key.to_owned(), reason, version, when })
            }));
            match page.next {
                _ if failed.len() >= limits::FAILURES => return Ok(failed),
                Some(next) => after = Some(next.sort),
                None => break,
            }
        }
    }
    Ok(failed)
}
