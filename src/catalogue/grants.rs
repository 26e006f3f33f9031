//! The grants: one record of a type of its own, which no request for records reaches. It is read
//! whole before it is written.

use bytes::Bytes;

use super::error::CatalogueError;
use super::preconditions::Preconditions;
use super::record::{RecordPage, RecordWrite, RecordWritten};
use super::remembered::{IdempotencyKey, hash_of};
use super::{Catalogue, place};
use crate::access::gate::Gate;
use crate::access::grants::Grants;
use crate::access::record::{Confirmation, DOCUMENT, GRANTS};
use crate::catalogue::counts::ReadKind;
use crate::catalogue::limits::GRANTS_EVERY;
use crate::engine::Table;

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
    ) -> Result<(RecordWritten, bool), CatalogueError> {
        if let Err(errors) = Grants::read(&document, 0) {
            return Err(CatalogueError::Grants(errors.iter().map(ToString::to_string).collect()));
        }
        let writes = [RecordWrite::put(GRANTS, DOCUMENT, document).only_if(only_if)];
        let once = once.map(|key| (key, hash_of(&writes, false)));
        let answer = self.apply_named(&writes, once).await.map_err(|error| error.root().clone())?;
        Ok((answer.applied[0], answer.replayed))
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

/// Keeps the gate's grants as the record is, for as long as it is polled. What cannot be read leaves
/// those in use; the gate says for how long.
pub async fn follow(catalogue: &Catalogue, gate: &Gate) {
    loop {
        // Before the record is read: what is written meanwhile is not confirmed.
        let at = catalogue.clock.wall();
        match catalogue.grants().await {
            Ok((version, document)) => match Grants::read(&document, version) {
                Ok(grants) => {
                    gate.take(grants);
                    gate.confirm(Confirmation { at, version });
                }
                Err(errors) => catalogue.grants_unread(&errors.first().map_or_else(String::new, ToString::to_string)),
            },
            // Admins alone come in before the first.
            Err(CatalogueError::NotFound { .. }) => {}
            Err(error) => catalogue.grants_unread(&error.to_string()),
        }
        tokio::select! {
            () = gate.announced() => {}
            () = tokio::time::sleep(GRANTS_EVERY) => {}
        }
    }
}
