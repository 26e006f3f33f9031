//! Checks for sizes that DynamoDB would refuse: every engine refuses it.

use super::{EngineError, Item, ItemKey, ItemWrite, limits};

/// A whole transaction.
pub(super) fn check_size(writes: &[ItemWrite]) -> Result<(), EngineError> {
    let weight: usize =
        writes.iter().map(|write| if let ItemWrite::Put(_, item, _) = write { item.weight() } else { 0 }).sum();
    if writes.is_empty() || writes.len() > limits::TRANSACTION_ITEMS || weight > limits::TRANSACTION_BYTES {
        return refused("it has no parts, too many, or too large ones");
    }
    for (at, write) in writes.iter().enumerate() {
        let key = write.key();
        match write {
            ItemWrite::Put(_, item, _) => check_item(item)?,
            ItemWrite::Delete(..) | ItemWrite::Check(..) => check_key(key)?,
        }
        if writes[..at].iter().any(|other| other.table() == write.table() && other.key() == key) {
            return refused("it names an item twice");
        }
    }
    Ok(())
}

/// An item that no engine takes, wherever it came from.
pub(crate) fn check_item(item: &Item) -> Result<(), EngineError> {
    check_key(&item.key)?;
    let body = item.body.as_ref().map_or(0, bytes::Bytes::len);
    if body > limits::BODY_BYTES || item.note.as_ref().is_some_and(|note| note.len() > limits::NOTE_BYTES) {
        return refused("a body or a note is too large");
    }
    Ok(())
}

fn check_key(key: &ItemKey) -> Result<(), EngineError> {
    if key.partition.is_empty() || key.partition.len() > limits::PARTITION_BYTES {
        return refused("a partition key is empty or too long");
    }
    if key.sort.is_empty() || key.sort.len() > limits::SORT_BYTES {
        return refused("a sort key is empty or too long");
    }
    Ok(())
}

fn refused(why: &str) -> Result<(), EngineError> {
    Err(EngineError::Refused { what: "a transaction".to_owned(), why: why.to_owned() })
}
