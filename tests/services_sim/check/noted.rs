//! What the views service notes of a view: it only grows, and what it names refers back to it.

use std::collections::BTreeMap;

use serde::Deserialize;

use nearside::engine::memory::MemoryStore;
use nearside::engine::{Item, ItemKey, Table, Tables, bucket};

use super::{Checker, now};

#[derive(Deserialize)]
struct Note {
    vector: Vector,
}

#[derive(Deserialize)]
struct Vector {
    definition: u64,
    main: u64,
    /// By type and key.
    joined: BTreeMap<String, u64>,
}

fn vector(item: &Item) -> Option<Vector> {
    serde_json::from_str::<Note>(item.note.as_deref()?).ok().map(|note| note.vector)
}

impl Vector {
    fn is_older_than(&self, other: &Self) -> bool {
        let (own, others) = ((self.definition, self.main), (other.definition, other.main));
        let goes_back =
            |(target, version): (&String, &u64)| other.joined.get(target).is_some_and(|had| had > version);
        own < others || (own == others && self.joined.iter().any(goes_back))
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
        for target in vector.joined.keys() {
            let Some((record_type, key)) = target.split_once('/') else { continue };
            let partition = format!("reference#{record_type}#{:x}#{key}", bucket::part(&sort, 16));
            if now(home.get(Table::Mapping, &ItemKey::new(partition, &sort))).is_none() {
                self.violated("Reference", format!("view {sort} names {target}, which does not refer to it"));
            }
        }
    }
}
