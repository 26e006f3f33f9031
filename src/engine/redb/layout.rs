//! Layout of items, feeds and expiries in the file. redb compares keys and knows its own types; an
//! item's bytes begin with their format, so that a later one can read them, or say that it cannot.

use std::hash::Hasher;
use std::sync::Arc;

use bytes::Bytes;
use redb::{ReadableTable, StorageError, TableDefinition};
use siphasher::sip::SipHasher13;

use super::super::{Item, ItemKey, Stream, Table};
use crate::model::time::Wall;

/// Partition and sort key, which redb compares one after the other, by bytes.
pub(super) type Key = (&'static str, &'static str);
pub(super) type Value = &'static [u8];
/// Time of writing, its key, and the item; an item that was removed has no bytes.
pub(super) type Entry = (u64, &'static str, &'static str, &'static [u8]);
/// Time at which it is due, its place, table and key.
pub(super) type Due = (u64, &'static str, &'static str, &'static str, &'static str);

/// A place's name: home, or a region.
pub(super) type Place = Arc<str>;

/// Items to be removed some time, of all places. An item that was replaced keeps its row until
/// then, so a reader of one looks at the item.
pub(super) const EXPIRIES: TableDefinition<'_, Due, ()> = TableDefinition::new("expiries");

/// The number of the last commit that wrote items: after a failure it says which of two the file has.
pub(super) const COMMITS: TableDefinition<'_, (), u64> = TableDefinition::new("commits");

/// Prefix of the names of all feeds.
pub(super) const FEEDS: &str = "feed/";

/// Prefix of the names of all tables of items.
const TABLES: &str = "table/";

pub(super) fn table_name(place: &str, table: Table) -> String {
    format!("{TABLES}{place}/{}", table.into_str())
}

/// Whose table it is.
pub(super) fn place_of(name: &str) -> Option<&str> {
    Some(name.strip_prefix(TABLES)?.rsplit_once('/')?.0)
}

pub(super) fn feed_name(place: &str, stream: Stream) -> String {
    format!("{FEEDS}{place}/{}", stream.into_str())
}

/// The first number that a feed keeps, and the next that it gives.
pub(super) fn numbers(feed: &impl ReadableTable<u64, Entry>) -> Result<(u64, u64), StorageError> {
    let first = feed.first()?.map_or(0, |(number, _)| number.value());
    let next = feed.last()?.map_or(0, |(number, _)| number.value() + 1);
    Ok((first, next))
}

/// An item's bytes are damaged, or in a format that this version does not know. The file is well,
/// and so are the items around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an item that is damaged, or in a format that this version does not know")]
pub(super) struct Unreadable;

/// Has no checksum: what was written before there was one is read as it is.
const FORMAT_UNCHECKED: u8 = 1;
const FORMAT: u8 = 2;
/// Place of the checksum: behind format, parts and version.
const CHECKSUM: std::ops::Range<usize> = 10..18;
const HAS_BODY: u8 = 1;
const HAS_EXPIRY: u8 = 2;
const HAS_NOTE: u8 = 4;

/// Format, what it has, version, checksum; then expiry, note and its length, body, where it has them.
pub(super) fn encode(item: &Item) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(item.weight());
    let mut parts = if item.body.is_some() { HAS_BODY } else { 0 };
    parts |= if item.expires.is_some() { HAS_EXPIRY } else { 0 };
    parts |= if item.note.is_some() { HAS_NOTE } else { 0 };
    bytes.extend([FORMAT, parts]);
    bytes.extend(item.version.to_le_bytes());
    bytes.extend([0; 8]);
    if let Some(expires) = item.expires {
        bytes.extend(expires.as_millis().to_le_bytes());
    }
    if let Some(note) = &item.note {
        bytes.extend((note.len() as u32).to_le_bytes());
        bytes.extend(note.as_bytes());
    }
    bytes.extend(item.body.iter().flatten());
    let checksum = checksum(&item.key, &bytes).to_le_bytes();
    bytes[CHECKSUM].copy_from_slice(&checksum);
    bytes
}

/// Over the key and all but the checksum: an item under another's key is damaged too. It finds what
/// a disk does; it keeps nobody out.
fn checksum(key: &ItemKey, bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    for part in [key.partition.as_bytes(), key.sort.as_bytes(), &bytes[..CHECKSUM.start], &bytes[CHECKSUM.end..]] {
        hasher.write_usize(part.len());
        hasher.write(part);
    }
    hasher.finish()
}

pub(super) fn decode(key: ItemKey, bytes: &[u8]) -> Result<Item, Unreadable> {
    let (parts, version, mut rest) = head(bytes)?;
    if bytes[0] == FORMAT && rest_checksum(bytes)? != checksum(&key, bytes) {
        return Err(Unreadable);
    }
    let expires = match parts & HAS_EXPIRY {
        0 => None,
        _ => Some(Wall::from_millis(u64::from_le_bytes(taken(&mut rest)?))),
    };
    let note = match parts & HAS_NOTE {
        0 => None,
        _ => {
            let length = u32::from_le_bytes(taken(&mut rest)?) as usize;
            let (note, after) = rest.split_at_checked(length).ok_or(Unreadable)?;
            rest = after;
            Some(String::from_utf8(note.to_vec()).map_err(|_| Unreadable)?)
        }
    };
    let body = (parts & HAS_BODY != 0).then(|| Bytes::copy_from_slice(rest));
    Ok(Item { key, version, body, note, expires })
}

/// Version, which conditions compare. It is read without the checksum, so that a damaged copy can
/// be replaced.
pub(super) fn version(bytes: &[u8]) -> Result<u64, Unreadable> {
    head(bytes).map(|(_, version, _)| version)
}

fn head(bytes: &[u8]) -> Result<(u8, u64, &[u8]), Unreadable> {
    let [format, parts, rest @ ..] = bytes else { return Err(Unreadable) };
    let mut rest = rest;
    let version = u64::from_le_bytes(taken(&mut rest)?);
    match *format {
        FORMAT_UNCHECKED => Ok((*parts, version, rest)),
        FORMAT => Ok((*parts, version, rest.get(CHECKSUM.len()..).ok_or(Unreadable)?)),
        _ => Err(Unreadable),
    }
}

fn rest_checksum(bytes: &[u8]) -> Result<u64, Unreadable> {
    let mut stated = bytes.get(CHECKSUM).ok_or(Unreadable)?;
    taken(&mut stated).map(u64::from_le_bytes)
}

fn taken<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Unreadable> {
    let (first, after) = rest.split_first_chunk().ok_or(Unreadable)?;
    *rest = after;
    Ok(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_round_trips_or_reports_damage() {
        let bare = Item::new(ItemKey::new("p", "s"), u64::MAX);
        let full = bare.clone().with_body(&b"\x00\xff"[..]).with_note("\u{e4}").expiring(Wall::from_millis(7));
        for item in [bare.clone(), bare.clone().with_body(""), bare.clone().with_note(""), full.clone()] {
            let bytes = encode(&item);
            assert_eq!(version(&bytes).unwrap(), u64::MAX);
            assert_eq!(decode(item.key.clone(), &bytes).unwrap(), item);
        }
        assert_eq!(encode(&bare).len(), 18);
        let mut bytes = encode(&full);
        for end in 0..bytes.len() - 2 {
            assert!(decode(full.key.clone(), &bytes[..end]).is_err(), "{end}");
        }
        bytes[0] = 3;
        assert!(version(&bytes).is_err() && decode(full.key, &bytes).is_err());
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let item = Item::new(ItemKey::new("tenant#07", "acme"), 7).with_body(r#"{"plan":"a"}"#).with_note("note");
        let bytes = encode(&item);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(item.key.clone(), &flipped).is_err(), "bit {bit}");
        }
        assert!(decode(ItemKey::new("tenant#07", "other"), &bytes).is_err(), "under another's key");
    }

    #[test]
    fn items_from_before_checksums_are_read() {
        let item = Item::new(ItemKey::new("p", "s"), 7).with_body("{}");
        let mut bytes = encode(&item);
        bytes.drain(CHECKSUM);
        bytes[0] = FORMAT_UNCHECKED;
        assert_eq!(decode(item.key.clone(), &bytes), Ok(item));
    }
}
