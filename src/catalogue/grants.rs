//! The grants: one record of a type of its own, which no request for records reaches. It is read
//! whole before it is written.

use bytes::Bytes;

use super::author::Author;
use super::error::CatalogueError;
use super::preconditions::Preconditions;
use super::record::{RecordPage, RecordWrite, RecordWritten};
use super::remembered::{IdempotencyKey, hash_of};
use super::{Catalogue, place};
use crate::access::gate::Gate;
use crate::access::grants::{Grants, GrantsError};
use crate::access::record::{Confirmation, DOCUMENT, GRANTS};
use crate::catalogue::counts::ReadKind;
use crate::catalogue::limits::GRANTS_EVERY;
use crate::engine::{EngineError, Table};

impl Catalogue {
    /// The document as it is now.
    ///
    /// # Errors
    /// [`CatalogueError::NotFound`] before the first; [`CatalogueError::Unread`].
    pub async fn grants(&self) -> Result<(u64, Bytes), CatalogueError> {
        let item = self.item(Table::Records, &place(GRANTS, DOCUMENT)).await.map_err(CatalogueError::Unread)?;
        self.counts.read(ReadKind::Record);
        let found = item.and_then(|item| item.body.map(|body| (item.version, body)));
        found.ok_or(CatalogueError::NotFound { version: None })
    }

    /// Replaces the document. Nothing deletes it: without grants, nodes would go on with the last.
    ///
    /// # Errors
    /// [`CatalogueError::Grants`] with everything that is wrong with it; else as
    /// [`Catalogue::write`].
    pub async fn write_grants(
        &self,
        document: Bytes,
        only_if: Preconditions,
        once: Option<&IdempotencyKey>,
        author: &Author,
    ) -> Result<(RecordWritten, bool), CatalogueError> {
        self.judge_grants(&document).await?;
        let writes = [RecordWrite::put(GRANTS, DOCUMENT, document).only_if(only_if)];
        let once = once.map(|key| (key, hash_of(&writes, false)));
        let answer = self.apply_named(&writes, once, author).await.map_err(|error| error.root().clone())?;
        Ok((answer.applied[0], answer.replayed))
    }

    async fn judge_grants(&self, document: &[u8]) -> Result<(), CatalogueError> {
        let refused =
            |errors: Vec<GrantsError>| CatalogueError::Grants(errors.iter().map(ToString::to_string).collect());
        let new = Grants::read(document, 0).map_err(refused)?;
        if new.unknown_rights(None).is_empty() {
            return Ok(());
        }
        let old = match self.grants().await {
            Ok((version, current)) => Grants::read(&current, version).ok(),
            Err(CatalogueError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let unknown = new.unknown_rights(old.as_ref());
        if unknown.is_empty() { Ok(()) } else { Err(refused(unknown)) }
    }

    /// Up to `limit` versions of the document, oldest first, `after` an earlier page.
    ///
    /// # Errors
    /// As [`Catalogue::history`].
    pub async fn grants_history(&self, limit: usize, after: Option<&str>) -> Result<RecordPage, CatalogueError> {
        self.versions(GRANTS, DOCUMENT, limit, after).await
    }

    fn grants_unread(&self, why: &str) {
        if let Some(suppressed) = self.failure_lines.admit(self.clock.now()) {
            tracing::warn!(why, suppressed, "the grants cannot be read; those in use stay");
        }
    }
}

impl Catalogue {
    /// Version of the document that there was, if the record is older: then a table was put back, and
    /// withdrawn rights with it.
    async fn version_before(&self, record: u64) -> Result<u64, EngineError> {
        let view = self.item(Table::Views, &place(GRANTS, DOCUMENT)).await?;
        let viewed = view.map_or(0, |item| item.version);
        // Without a record, all of the history would be read; what is written then is newer anyway.
        let before = if record == 0 { 0 } else { self.last_above(GRANTS, DOCUMENT, record).await? };
        Ok(viewed.max(before))
    }

    /// Compares the record with what history and views know of it, once.
    async fn compare_grants(&self, gate: &Gate, record: u64) -> Result<(), CatalogueError> {
        if self.grants_floor.get().is_some() {
            return Ok(());
        }
        let before = match self.version_before(record).await {
            Ok(before) => before,
            Err(error) if error.is_transient() => return Err(CatalogueError::Unread(error)),
            Err(error) => {
                tracing::error!(%error, "nobody knows whether the record of the grants was put back; let the catalogue read the table of views");
                0
            }
        };
        let floor = *self.grants_floor.get_or_init(|| before);
        gate.require(floor);
        Ok(())
    }

    async fn follow_once(&self, gate: &Gate) -> Result<(), CatalogueError> {
        // Before the record is read: what is written meanwhile is not confirmed.
        let at = self.clock.wall();
        let (version, document) = match self.grants().await {
            Ok(current) => current,
            // Admins alone come in before the first.
            Err(CatalogueError::NotFound { .. }) => return self.compare_grants(gate, 0).await,
            Err(error) => return Err(error),
        };
        self.compare_grants(gate, version).await?;
        match Grants::read(&document, version) {
            Ok(grants) => {
                gate.take(grants);
                gate.confirm(Confirmation { at, version });
            }
            Err(errors) => self.grants_unread(&errors.first().map_or_else(String::new, ToString::to_string)),
        }
        Ok(())
    }
}

/// Keeps the gate's grants as the record is, for as long as it is polled. What cannot be read leaves
/// those in use; the gate says for how long.
pub async fn follow(catalogue: &Catalogue, gate: &Gate) {
    loop {
        if let Err(error) = catalogue.follow_once(gate).await {
            catalogue.grants_unread(&error.to_string());
        }
        tokio::select! {
            () = gate.announced() => {}
            () = tokio::time::sleep(GRANTS_EVERY) => {}
        }
    }
}

#[cfg(test)]
mod tests;
