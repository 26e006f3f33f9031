//! A node's grants: its region's copy of the document, read when it is announced and every so often.

use super::limits::{GRANTS_LOOK, GRANTS_RETRY};
use crate::access::gate::Gate;
use crate::access::grants::Grants;
use crate::access::record::{CONFIRMED, Confirmation, DOCUMENT, GRANTS};
use crate::engine::{EngineError, ItemKey, Table, Tables, bucket};
use crate::model::time::Clock;
use crate::telemetry::rate_limiter::RateLimiter;

/// Keeps the gate's grants as the region's table has them, for as long as it is polled. What cannot
/// be read leaves those in use; the gate says for how long.
pub async fn follow(own: &dyn Tables, gate: &Gate, clock: &Clock) {
    let (lines, mut is_announced) = (RateLimiter::new(), true);
    loop {
        let wait = match read(own, gate, is_announced).await {
            Ok(()) => GRANTS_LOOK,
            Err(error) => {
                if let Some(suppressed) = lines.admit(clock.now()) {
                    tracing::warn!(%error, suppressed, "the region's grants cannot be read; those in use stay");
                }
                GRANTS_RETRY
            }
        };
        gate.note_looked();
        is_announced = tokio::select! {
            () = gate.announced() => true,
            () = tokio::time::sleep(wait) => false,
        };
    }
}

/// Why a region's copy is not taken into use. Those in use stay.
#[derive(Debug, thiserror::Error)]
pub enum GrantsUnread {
    #[error("the region's table does not answer: {0}")]
    Engine(#[from] EngineError),
    #[error("version {version} is not for this node: {why}")]
    Unusable { version: u64, why: String },
}

/// Reads the small confirmation first, and the document only if that is newer than what is in use.
async fn read(own: &dyn Tables, gate: &Gate, is_announced: bool) -> Result<(), GrantsUnread> {
    let confirmed = own.get(Table::Contexts, &key(CONFIRMED)).await?;
    let confirmation = confirmed.and_then(|item| Confirmation::read(item.version, item.note.as_deref()));
    let in_use = gate.grants().map_or(0, |grants| grants.version());
    let is_behind = confirmation.is_none_or(|confirmation| confirmation.version > in_use);
    if is_behind || is_announced {
        read_document(own, gate, in_use).await?;
    }
    confirmation.into_iter().for_each(|confirmation| gate.confirm(confirmation));
    Ok(())
}

async fn read_document(own: &dyn Tables, gate: &Gate, in_use: u64) -> Result<(), GrantsUnread> {
    let Some(item) = own.get(Table::Contexts, &key(DOCUMENT)).await? else { return Ok(()) };
    let (version, Some(document)) = (item.version, item.body) else { return Ok(()) };
    if version <= in_use {
        return Ok(());
    }
    let grants = Grants::read(&document, version).map_err(|errors| {
        let why = errors.first().map_or_else(String::new, ToString::to_string);
        GrantsUnread::Unusable { version, why }
    })?;
    gate.take(grants);
    tracing::info!(version, "other grants are in use");
    Ok(())
}

fn key(of: &str) -> ItemKey {
    ItemKey::new(bucket::partition(GRANTS, of), of)
}

#[cfg(test)]
mod tests;
