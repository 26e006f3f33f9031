//! Pages: the records of a type, and the versions of a record. A listing is no snapshot: what is
//! written while somebody goes from page to page may be in it or not.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::future::try_join_all;

use super::error::CatalogueError;
use super::limits::{PAGE_BUCKETS, PAGE_BYTES, PAGE_MOST_RECORDS, PAGE_QUERIES, PAGE_STEP};
use super::note::ChangeNote;
use super::record::{RecordPage, RecordVersion};
use super::{Catalogue, digits, history};
use crate::catalogue::counts::ReadKind;
use crate::engine::limits::BUCKETS;
use crate::engine::{EngineError, Item, Page, Table, bucket};
use crate::model::names::key_problem;

/// Behind which item a listing goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cursor {
    bucket: u16,
    after: Option<String>,
}

impl Cursor {
    const START: Self = Self { bucket: 0, after: None };

    fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(format!("{:02x}{}", self.bucket, self.after.as_deref().unwrap_or_default()))
    }

    fn from_text(text: &str) -> Option<Self> {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let (bucket, after) = text.split_at_checked(2)?;
        // `from_str_radix` alone would take a sign.
        let digits = bucket.bytes().all(|digit| digit.is_ascii_hexdigit());
        let bucket = u16::from_str_radix(bucket, 16).ok().filter(|bucket| digits && *bucket < BUCKETS)?;
        let after = Some(after.to_owned()).filter(|after| !after.is_empty());
        // The store refuses a longer one as if it were the catalogue's own fault.
        after.as_deref().is_none_or(|after| key_problem(after).is_none()).then_some(Self { bucket, after })
    }
}

/// The version behind which a history goes on, written as it was given.
fn version_of(cursor: &str) -> Result<u64, CatalogueError> {
    let version = cursor.parse::<u64>().ok().filter(|version| version.to_string() == cursor);
    version.ok_or(CatalogueError::BadCursor)
}

/// A page being filled.
struct Filling {
    records: Vec<RecordVersion>,
    bytes: usize,
    limit: usize,
}

impl Filling {
    fn new(limit: usize) -> Self {
        Self { records: Vec::new(), bytes: 0, limit: limit.clamp(1, PAGE_MOST_RECORDS) }
    }

    const fn is_full(&self) -> bool {
        self.records.len() >= self.limit || self.bytes >= PAGE_BYTES
    }

    fn push(&mut self, item: Item, key: String, is_unreadable: bool) {
        let note = ChangeNote::read(&item);
        let body = item.body.filter(|_| !is_unreadable);
        self.bytes += key.len() + body.as_ref().map_or(0, Bytes::len);
        self.bytes += item.note.as_ref().map_or(0, String::len);
        self.records.push(RecordVersion { key, version: item.version, body, is_unreadable, note });
    }
}

impl Catalogue {
    /// Up to `limit` records of a type that are not deleted, in no useful order, `after` an earlier
    /// page. A damaged one is skipped, counted and logged.
    ///
    /// # Errors
    /// [`CatalogueError::UnknownType`], [`CatalogueError::BadCursor`], [`CatalogueError::Unread`].
    pub async fn list(
        &self,
        record_type: &str,
        limit: usize,
        after: Option<&str>,
    ) -> Result<RecordPage, CatalogueError> {
        self.types.check_known(record_type)?;
        let cursor = after.map_or(Some(Cursor::START), Cursor::from_text).ok_or(CatalogueError::BadCursor)?;
        let Cursor { mut bucket, mut after } = cursor;
        let (mut page, mut queries, mut at_once) = (Filling::new(limit), 0, 1);
        self.counts.read(ReadKind::Listing);
        'filling: while queries < PAGE_QUERIES {
            at_once = at_once.min(BUCKETS - bucket);
            queries += usize::from(at_once);
            let found = self.buckets(record_type, bucket, at_once, after.as_deref()).await;
            let found = found.map_err(CatalogueError::Unread)?;
            // Full buckets are read one by one: what is read of those behind would be read again.
            at_once = if found.iter().any(|of_bucket| of_bucket.next.is_some()) { 1 } else { at_once * 2 };
            at_once = at_once.min(PAGE_BUCKETS);
            for of_bucket in found {
                for item in of_bucket.items {
                    let key = item.key.sort.clone();
                    after = Some(key.clone());
                    if item.body.is_some() && !self.is_damaged(Table::Records, &item) {
                        page.push(item, key, false);
                    }
                    if page.is_full() {
                        break 'filling;
                    }
                }
                after = of_bucket.next.map(|key| key.sort);
                if after.is_some() {
                    continue 'filling;
                }
                bucket += 1;
                if bucket == BUCKETS {
                    return Ok(RecordPage { records: page.records, next: None });
                }
            }
        }
        Ok(RecordPage { records: page.records, next: Some(Cursor { bucket, after }.to_text()) })
    }

    /// The first items of `count` buckets from `first` on, whose own begin behind `after`. They
    /// share what may be read at a time.
    async fn buckets(
        &self,
        record_type: &str,
        first: u16,
        count: u16,
        after: Option<&str>,
    ) -> Result<Vec<Page>, EngineError> {
        let each = PAGE_STEP / usize::from(count);
        try_join_all((first..first + count).map(async |number: u16| {
            let after = after.filter(|_| number == first);
            self.query(Table::Records, &bucket::of(record_type, number), after, each).await
        }))
        .await
    }

    /// Up to `limit` versions of a record, oldest first, `after` an earlier page. A damaged one has no body, or
    /// what it changed would seem to be the next one's doing; it is counted and logged.
    ///
    /// # Errors
    /// [`CatalogueError::NotFound`] where there never was such a record; as [`Catalogue::list`].
    pub async fn history(
        &self,
        record_type: &str,
        key: &str,
        limit: usize,
        after: Option<&str>,
    ) -> Result<RecordPage, CatalogueError> {
        self.check_name(record_type, key)?;
        self.versions(record_type, key, limit, after).await
    }

    /// [`Catalogue::history`] of a name that is known.
    pub(super) async fn versions(
        &self,
        record_type: &str,
        key: &str,
        limit: usize,
        after: Option<&str>,
    ) -> Result<RecordPage, CatalogueError> {
        let started = after.map(version_of).transpose()?;
        let (partition, mut page) = (history(record_type, key), Filling::new(limit));
        let mut after = started.map(digits);
        let (mut more, mut is_there, mut queries) = (true, started.is_some(), 0);
        while more && !page.is_full() && queries < PAGE_QUERIES {
            queries += 1;
            let step = PAGE_STEP.min(page.limit - page.records.len());
            let found = self.query(Table::History, &partition, after.as_deref(), step).await;
            let found = found.map_err(CatalogueError::Unread)?;
            more = found.next.is_some();
            for item in found.items {
                (after, is_there) = (Some(item.key.sort.clone()), true);
                let is_damaged = self.is_damaged(Table::History, &item);
                page.push(item, key.to_owned(), is_damaged);
            }
            after = found.next.map(|key| key.sort).or(after);
        }
        if !is_there {
            return Err(CatalogueError::NotFound { version: None });
        }
        self.counts.read(ReadKind::History);
        let behind = after.filter(|_| more).and_then(|digits| digits.parse::<u64>().ok());
        let next = behind.map(|version| version.to_string());
        Ok(RecordPage { records: page.records, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip_and_reject_others() {
        for cursor in [
            Cursor::START,
            Cursor { bucket: 255, after: None },
            Cursor { bucket: 7, after: Some("a/b ä%2F".to_owned()) },
        ] {
            assert_eq!(Cursor::from_text(&cursor.to_text()), Some(cursor));
        }
        let long = format!("07{}", "k".repeat(513));
        let [signed, long, control] = ["+fkey", &long, "07a\0"].map(|text| URL_SAFE_NO_PAD.encode(text));
        for text in ["", "zz", "!!!!", "MA", "Z2dr", "w6TDpA", "MDAu", &signed, &long, &control] {
            assert_eq!(Cursor::from_text(text), None, "{text}");
        }
        assert_eq!(version_of("18000"), Ok(18_000));
        for text in ["+5", "05", "-1", " 5", "", "5.0", "99999999999999999999"] {
            assert_eq!(version_of(text), Err(CatalogueError::BadCursor), "{text}");
        }
    }
}
