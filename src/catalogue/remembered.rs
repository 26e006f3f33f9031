//! Idempotency keys: what was answered to a request that took place, for 24 hours. The answer is
//! written in the same transaction as the records, so a request took place exactly if it is there.

use aws_lc_rs::digest::{Context, SHA256};

use super::error::CatalogueError;
use super::limits::{IDEMPOTENCY_KEY_BYTES, REMEMBERED};
use super::record::{RecordWrite, RecordWritten};
use crate::engine::{Condition, EngineError, Item, ItemKey, ItemWrite, Table, bucket};
use crate::model::time::Wall;

/// Whose request it is, and the key that the writer gave it.
#[derive(Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    writer: String,
    key: String,
}

impl IdempotencyKey {
    /// # Errors
    /// [`CatalogueError::BadIdempotencyKey`].
    pub fn new(writer: &str, key: &str) -> Result<Self, CatalogueError> {
        let fits =
            (1..=IDEMPOTENCY_KEY_BYTES).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
        if !fits {
            return Err(CatalogueError::BadIdempotencyKey);
        }
        Ok(Self { writer: writer.to_owned(), key: key.to_owned() })
    }

    pub(super) fn place(&self) -> ItemKey {
        ItemKey::new(bucket::partition(&self.writer, &self.key), &self.key)
    }

    /// Stored answer under the key for a request that writes `records`, if it counts at `now`.
    ///
    /// # Errors
    /// [`CatalogueError::KeyReused`].
    pub(super) fn answered(
        item: &Item,
        hash: &str,
        records: usize,
        now: Wall,
    ) -> Result<Option<Vec<RecordWritten>>, CatalogueError> {
        if item.expires.is_some_and(|expires| expires <= now) {
            return Ok(None);
        }
        if item.note.as_deref() != Some(hash) {
            return Err(CatalogueError::KeyReused);
        }
        let answer = item.body.as_ref().and_then(|body| serde_json::from_slice::<Vec<RecordWritten>>(body).ok());
        let answer = answer.filter(|applied| applied.len() == records);
        answer.map(Some).ok_or_else(|| {
            let what = "an idempotency item".to_owned();
            EngineError::Refused { what, why: "it is not what a catalogue writes".to_owned() }.into()
        })
    }

    /// Remembers `answer`, in place of `expired` if there is one. A request of the same key that
    /// came first makes its condition fail.
    pub(super) fn remember(
        &self,
        hash: &str,
        answer: &[RecordWritten],
        expired: Option<&Item>,
        now: Wall,
    ) -> ItemWrite {
        let last = expired.map_or(0, |item| item.version);
        let condition = expired.map_or(Condition::Absent, |item| Condition::VersionIs(item.version));
        let body = serde_json::to_vec(answer).expect("numbers and flags can always be written");
        let item = Item::new(self.place(), now.as_millis().max(last.saturating_add(1)));
        let item = item.with_note(hash).with_body(body).expiring(now + REMEMBERED);
        ItemWrite::Put(Table::Requests, item, condition)
    }
}

/// Tells requests apart: what they write, where, and under which conditions.
pub(super) fn hash_of(writes: &[RecordWrite], batch: bool) -> String {
    let mut hash = Context::new(&SHA256);
    add(&mut hash, if batch { b"batch" } else { b"one" });
    for write in writes {
        add(&mut hash, write.record_type.as_bytes());
        add(&mut hash, write.key.as_bytes());
        add(&mut hash, &serde_json::to_vec(&write.only_if).expect("numbers can always be written"));
        match &write.body {
            Some(body) => {
                add(&mut hash, b"put");
                add(&mut hash, body);
            }
            None => add(&mut hash, b"delete"),
        }
    }
    hash.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Adds a part after its length, so that no two requests read alike.
fn add(hash: &mut Context, part: &[u8]) {
    hash.update(&(part.len() as u64).to_le_bytes());
    hash.update(part);
}
