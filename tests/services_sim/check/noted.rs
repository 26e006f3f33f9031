//! Checks that the views service's notes of a view only grow and that what they name refers back to
//! it; who holds a lease; and changes of join targets.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;

use nearside::engine::memory::MemoryStore;
use nearside::engine::{Item, ItemKey, Table, Tables, bucket};

use super::{Checker, Name, now};

/// As long as what was begun before a table was lost may take.
const UNDER_WAY: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
struct Note {
    vector: Vector,
}

#[derive(Deserialize)]
struct Vector {
    definition: u64,
    main: u64,
    /// Versions by type and key.
    joined: BTreeMap<String, u64>,
}

fn vector(item: &Item) -> Option<Vector> {
    serde_json::from_str::<Note>(item.note.as_deref()?).ok().map(|note| note.vector)
}

/// Who holds a lease, by its note.
fn holder(item: &Item) -> Option<String> {
    let note: serde_json::Value = serde_json::from_str(item.note.as_deref()?).ok()?;
    Some(note["holder"].as_str()?.to_owned())
}

/// Shard that a tenant's record names.
fn shard_of(body: &Bytes) -> Option<serde_json::Value> {
    serde_json::from_slice::<serde_json::Value>(body).ok()?.get("shard").cloned()
}

impl Vector {
    fn is_older_than(&self, other: &Self) -> bool {
        let (own, others) = ((self.definition, self.main), (other.definition, other.main));
        own < others
            || (own == others
                && self
                    .joined
                    .iter()
                    .any(|(target, version)| other.joined.get(target).is_some_and(|had| had > version)))
    }
}

impl Checker {
    /// After the transaction.
    pub(super) fn noted(&mut self, item: &Item, before: Option<&Item>, home: &MemoryStore) {
        let Some(vector) = vector(item) else { return };
        let view = bucket::name_of(&item.key.partition).unwrap_or_default().trim_start_matches("vector#");
        let sort = format!("{view}/{}", item.key.sort);
        if before.and_then(self::vector).is_some_and(|before| vector.is_older_than(&before)) {
            self.violated("Vector", format!("view {sort} is made of what is older"));
        }
        // Who wrote its references before the table was lost still writes its note; everything is
        // mapped again after that.
        let at = self.now();
        if self.mapping_lost.is_some_and(|lost| at.since(lost) < UNDER_WAY) {
            return;
        }
        for target in vector.joined.keys() {
            let Some((record_type, key)) = target.split_once('/') else { continue };
            let partition = format!("reference#{record_type}#{:x}#{key}", bucket::part(&sort, 16));
            if now(home.get(Table::Mapping, &ItemKey::new(partition, &sort))).is_none() {
                self.violated("Reference", format!("view {sort} names {target}, which does not refer to it"));
            }
        }
    }

    /// Two never hold a lease under the same token.
    pub(super) fn lease(&mut self, item: &Item, before: Option<&Item>) {
        if before.is_some_and(|before| before.version < item.version) {
            self.count("leases that moved");
        }
        if before.is_some_and(|before| before.version == item.version && holder(before) != holder(item)) {
            self.violated("Lease", format!("two hold {} under token {}", item.key.partition, item.version));
        }
    }

    /// Counts what happens to what views are joined with.
    pub(super) fn joins(&mut self, (record_type, _): &Name, before: Option<&Bytes>, after: Option<&Bytes>) {
        match (record_type == "tenant", before, after) {
            (true, Some(before), Some(after)) if shard_of(before) != shard_of(after) => {
                self.count("join targets that moved")
            }
            (false, Some(_), None) => self.count("join targets that vanished"),
            (false, None, Some(_)) => self.count("join targets that came, or came back"),
            _ => {}
        }
    }

    /// True if a record's version was given while there were records, and written when they were
    /// lost: its write's condition, that there is no such record, holds then (decision 0018).
    pub(super) fn was_under_way(&self, version: u64) -> bool {
        let under_way = UNDER_WAY.as_millis() as u64;
        self.records_lost.is_some_and(|lost| {
            let lost = lost.as_millis();
            self.wall().as_millis() < lost + under_way && (lost - under_way..lost).contains(&version)
        })
    }
}
