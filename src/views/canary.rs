//! The canary: a record that changes each second and takes the whole way, from the catalogue's
//! table over both streams into every region. Its age there is how long a change takes, and it
//! grows when any part of the way stands still.

use crate::engine::{Condition, EngineError, Item, ItemKey, ItemWrite, Table, Tables, WriteError};
use crate::model::time::{Clock, Wall};

use super::limits;

/// The canary's type, and its view. No record type can be called so.
pub const CANARY: &str = "_canary";

fn item(sent: Wall) -> Item {
    Item::new(ItemKey::new(format!("{CANARY}#00"), "canary"), sent.as_millis())
}

/// Sends one each second. One that fails is not sent again: the next says more.
pub(super) async fn send(store: &dyn Tables, clock: &Clock) {
    loop {
        let put = ItemWrite::Put(Table::Records, item(clock.wall()), Condition::Any);
        if let Err(error) = store.write(vec![put]).await {
            tracing::debug!(%error, "a canary was not sent");
        }
        tokio::time::sleep(limits::CANARY_EVERY).await;
    }
}

/// Passes one on to the regions as it is.
pub(super) async fn pass_on(store: &dyn Tables, version: u64) -> Result<(), EngineError> {
    let put = ItemWrite::Put(Table::Views, item(Wall::from_millis(version)), Condition::Below(version));
    match store.write(vec![put]).await {
        Ok(()) | Err(WriteError::Conflict(_)) => Ok(()),
        Err(WriteError::Engine(error)) => Err(error),
    }
}
