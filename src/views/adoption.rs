//! Which definitions a process acts on. A definition's number is written down with a digest, so
//! that an old process neither overwrites what a newer definition made nor takes part in its work.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::definition::{ViewDefinition, is_digest};
use super::jobs::{self, JobTask};
use super::limits;
use super::retry::others_write;
use crate::engine::{Condition, EngineError, Item, ItemKey, ItemWrite, Page, Table, Tables, WriteError};
use crate::model::time::Wall;
use crate::switch::{Guard, is_on};

/// Why definitions cannot be acted on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdoptError {
    /// The file has to be corrected.
    #[error("view {view}: definition {number} is known with another content; raise its number")]
    Changed { view: String, number: u64 },
    #[error(transparent)]
    Engine(#[from] EngineError),
}

const PARTITION: &str = "definition";

/// Standing of a definition's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// New here, or greater than this one, which may be damaged.
    Rises(Option<u64>),
    Current,
    /// There is a greater one.
    Old(u64),
}

fn standing(view: &ViewDefinition, known: Option<&Item>) -> Result<Standing, AdoptError> {
    let Some(known) = known else { return Ok(Standing::Rises(None)) };
    let digest = known.note.as_deref().filter(|digest| is_digest(digest));
    match view.number.cmp(&known.version) {
        std::cmp::Ordering::Greater => Ok(Standing::Rises(Some(known.version))),
        std::cmp::Ordering::Less if !is_on(Guard::DefinitionFirst) => Ok(Standing::Current),
        std::cmp::Ordering::Less => Ok(Standing::Old(known.version)),
        std::cmp::Ordering::Equal if digest == Some(&view.digest()) => Ok(Standing::Current),
        // Nobody can say what it was.
        std::cmp::Ordering::Equal if digest.is_none() => Ok(Standing::Rises(Some(known.version))),
        std::cmp::Ordering::Equal => Err(AdoptError::Changed { view: view.name.clone(), number: view.number }),
    }
}

/// Finds out, without writing anything, whether these definitions can be acted on.
///
/// # Errors
/// The first that was changed without a new number, or what the engine says.
pub async fn check(store: &dyn Tables, views: &[ViewDefinition]) -> Result<(), AdoptError> {
    for view in views {
        let known = store.get(Table::Mapping, &ItemKey::new(PARTITION, &view.name)).await?;
        standing(view, known.as_ref())?;
    }
    Ok(())
}

/// The definitions to act on, for the process that has just taken the lease. Each new one is
/// written down, with a job that maps everything; so is what this process leaves alone, because it
/// will not see the changes that come meanwhile to its end.
pub(super) async fn adopt(
    store: &dyn Tables,
    views: &[Arc<ViewDefinition>],
    now: Wall,
) -> Result<Vec<Arc<ViewDefinition>>, AdoptError> {
    let mut active = Vec::new();
    for view in views {
        if adopt_one(store, view, now).await? {
            active.push(view.clone());
        }
    }
    for known in known(store).await? {
        if !active.iter().any(|view| view.name == known.key.sort) {
            let task = JobTask::View { name: known.key.sort, definition: known.version };
            jobs::begin(store, &task, now).await?;
        }
    }
    Ok(active)
}

async fn adopt_one(store: &dyn Tables, view: &ViewDefinition, now: Wall) -> Result<bool, AdoptError> {
    let key = ItemKey::new(PARTITION, &view.name);
    for _ in 0..limits::JOB_ROUNDS {
        let known = store.get(Table::Mapping, &key).await?;
        let condition = match standing(view, known.as_ref())? {
            Standing::Current => return Ok(true),
            Standing::Old(_) => return Ok(false),
            Standing::Rises(known) => known.map_or(Condition::Absent, Condition::VersionIs),
        };
        let item = Item::new(key.clone(), view.number).with_note(view.digest());
        let task = JobTask::View { name: view.name.clone(), definition: view.number };
        // The number never stands there without the job.
        let job = jobs::planned(store, task, now).await?;
        let writes = std::iter::once(ItemWrite::Put(Table::Mapping, item, condition)).chain(job).collect();
        match store.write(writes).await {
            Ok(()) => return Ok(true),
            Err(WriteError::Conflict(_)) => {}
            Err(WriteError::Engine(error)) => return Err(error.into()),
        }
    }
    Err(others_write("a definition").into())
}

/// The names of the views that some definition makes.
///
/// # Errors
/// What the engine says.
pub async fn defined(store: &dyn Tables) -> Result<BTreeSet<String>, EngineError> {
    Ok(known(store).await?.into_iter().map(|item| item.key.sort).collect())
}

async fn known(store: &dyn Tables) -> Result<Vec<Item>, EngineError> {
    let (mut items, mut after) = (Vec::new(), None);
    loop {
        let Page { items: more, next } =
            store.query(Table::Mapping, PARTITION, after.as_deref(), limits::JOB_PAGE).await?;
        items.extend(more);
        match next {
            Some(next) => after = Some(next.sort),
            None => return Ok(items),
        }
    }
}

#[cfg(test)]
mod tests;
