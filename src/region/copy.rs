//! A region's copy of a view: what may replace it, and what is said of it.

use crate::access::record::{CONFIRMED, GRANTS};
use crate::engine::{Condition, EngineError, Item, ItemWrite, Table, Tables, WriteError, bucket};
use crate::protocol::announcement::message::AnnouncementKind;
use crate::switch::{Guard, is_on};

use super::publisher::Said;

/// Puts a view into the region's table if it is newer than what is there; says whether it was.
pub(super) async fn put_if_newer(own: &dyn Tables, item: Item) -> Result<bool, EngineError> {
    match own.write(vec![newer(item)]).await {
        Ok(()) => Ok(true),
        Err(WriteError::Conflict(places)) if !places.is_empty() => Ok(false),
        Err(WriteError::Conflict(_)) => Err(EngineError::Throttled { what: "the region's table".to_owned() }),
        Err(WriteError::Engine(error)) => Err(error),
    }
}

/// The put that leaves alone what is as new.
pub(super) fn newer(item: Item) -> ItemWrite {
    let newer = if is_on(Guard::PutIfNewer) { Condition::Below(item.version) } else { Condition::Any };
    ItemWrite::Put(Table::Contexts, item, newer)
}

/// The put that replaces a copy of the same version, and nothing else.
pub(super) fn same(item: Item) -> ItemWrite {
    let version = item.version;
    ItemWrite::Put(Table::Contexts, item, Condition::VersionIs(version))
}

/// True if it tells only how old the region's grants are.
pub(super) fn is_confirmation(item: &Item) -> bool {
    view_of(item) == Some(GRANTS) && item.key.sort == CONFIRMED
}

pub(super) fn view_of(item: &Item) -> Option<&str> {
    bucket::name_of(&item.key.partition)
}

/// The announcement of a copy; `None` of what readers never ask for.
pub(super) fn said_of(item: &Item) -> Option<Said> {
    if is_confirmation(item) {
        return None;
    }
    let version = Some(item.version);
    let kind = match item.body {
        Some(_) => AnnouncementKind::Changed { version },
        None => AnnouncementKind::Deleted { version },
    };
    Some(Said { record_type: view_of(item)?.to_owned(), key: item.key.sort.clone(), kind })
}
