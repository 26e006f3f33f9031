//! Removes what nobody needs any more: items that have expired, and changes that every reader of
//! their feed has applied.

use std::collections::BTreeSet;

use redb::{Database, ReadableDatabase, TableHandle};

use super::super::{EngineError, Position, Stream, Table, follow, limits};
use super::{Embedded, layout};
use crate::model::time::Wall;

impl Embedded {
    /// Looks once, and removes it bit by bit.
    ///
    /// # Errors
    /// What the disk says.
    pub async fn keep_house(&self, home: &str) -> Result<(), EngineError> {
        let now = self.writer.calendar.clock.wall();
        while self.expire(now).await? {
            tokio::time::sleep(limits::REDB_PACE).await;
        }
        for stream in [Stream::Changes, Stream::Views] {
            let mut positions = self.positions(stream).await?;
            // Where nobody reads yet, all that there is room for is kept.
            if !positions.is_empty() {
                let kept = now.as_millis().saturating_sub(limits::REDB_FEED_KEPT.as_millis() as u64);
                positions.push(Position::At(Wall::from_millis(kept)));
                self.place(home).trim(stream, &positions).await?;
            }
        }
        Ok(())
    }

    /// Positions of its readers, which may be in every place.
    async fn positions(&self, stream: Stream) -> Result<Vec<Position>, EngineError> {
        let writer = self.writer.clone();
        let places = self.place("").read(move |_| writer.disk.with(places)).await?;
        let mut positions = Vec::new();
        for place in places {
            let tables = self.place(&place);
            for table in [Table::Mapping, Table::Region] {
                positions.extend(follow::positions(&tables, table, stream.into_str()).await?);
            }
        }
        Ok(positions)
    }
}

/// Those that have a table.
fn places(database: &Database) -> Result<BTreeSet<String>, redb::Error> {
    let transaction = database.begin_read()?;
    let tables = transaction.list_tables()?;
    Ok(tables.filter_map(|table| Some(layout::place_of(table.name())?.to_owned())).collect())
}
