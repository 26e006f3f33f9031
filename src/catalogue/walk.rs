//! Reads for those who look into changes: all records of a type, deleted ones included, and a record as it was.

use super::counts::StoreCall;
use super::error::CatalogueError;
use super::limits::WALK_STEP;
use super::note::ChangeNote;
use super::record::{RecordVersion, WalkedPage, WalkedRecord};
use super::{Catalogue, digits, history};
use crate::engine::{Table, bucket};
use crate::model::names::key_problem;
use crate::model::time::Wall;

impl Catalogue {
    /// Some records of one bucket of a type in the order of their keys, deleted and damaged ones included, `after` a
    /// key. A type has [`crate::engine::limits::BUCKETS`] buckets. It is one query.
    ///
    /// # Errors
    /// [`CatalogueError::UnknownType`], [`CatalogueError::Unread`].
    pub async fn walk(
        &self,
        record_type: &str,
        bucket: u16,
        after: Option<&str>,
    ) -> Result<WalkedPage, CatalogueError> {
        self.types.check_known(record_type)?;
        let found = self.query(Table::Records, &bucket::of(record_type, bucket), after, WALK_STEP).await;
        let found = found.map_err(CatalogueError::Unread)?;
        let mut records = Vec::with_capacity(found.items.len());
        for item in found.items {
            if let Some(problem) = key_problem(&item.key.sort) {
                self.damaged.note(self.clock.now(), Table::Records, Some(&item.key), problem);
                continue;
            }
            records.push(WalkedRecord { key: item.key.sort, version: item.version });
        }
        Ok(WalkedPage { records, next: found.next.map(|key| key.sort) })
    }

    /// The last version of a record that is not greater than the milliseconds of `at`. A damaged one has no body, as
    /// in [`Catalogue::history`].
    ///
    /// # Errors
    /// [`CatalogueError::UnknownType`], [`CatalogueError::BadKey`], [`CatalogueError::Unread`].
    pub async fn last_at_or_before(
        &self,
        record_type: &str,
        key: &str,
        at: Wall,
    ) -> Result<Option<RecordVersion>, CatalogueError> {
        self.check_name(record_type, key)?;
        let (partition, through) = (history(record_type, key), digits(at.as_millis()));
        let found = self.timed(StoreCall::Query, self.store.last(Table::History, &partition, &through)).await;
        let Some(item) = found.map_err(CatalogueError::Unread)? else { return Ok(None) };
        let is_unreadable = self.is_damaged(Table::History, &item);
        let note = ChangeNote::read(&item);
        let body = item.body.filter(|_| !is_unreadable);
        Ok(Some(RecordVersion { key: key.to_owned(), version: item.version, body, is_unreadable, note }))
    }
}
