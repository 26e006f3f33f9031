//! Requirements on every engine: its tests call these.

use bytes::Bytes;
use futures_util::stream::StreamExt;

use super::{Condition, Feed, Item, ItemKey, ItemWrite, Position, ScanSegment, Table, Tables, WriteError};

fn item(partition: &str, sort: &str, version: u64) -> Item {
    Item::new(ItemKey::new(partition, sort), version)
}

fn put(table: Table, item: Item, condition: Condition) -> ItemWrite {
    ItemWrite::Put(table, item, condition)
}

/// Conditions, transactions, order, pages. The tables are empty before.
pub(crate) async fn store(store: &dyn Tables) {
    conditions(store).await;
    transactions(store).await;
    pages(store).await;
}

async fn conditions(store: &dyn Tables) {
    let key = ItemKey::new("c#00", "odd / % # \u{e4} \u{1f980} key");
    assert_eq!(store.get(Table::Records, &key).await.unwrap(), None);
    let first = Item::new(key.clone(), 5).with_body(Bytes::from_static(b"\x00\xff{}")).with_note("{\"a\":1}");
    store.write(vec![put(Table::Records, first.clone(), Condition::Absent)]).await.unwrap();
    assert_eq!(store.get(Table::Records, &key).await.unwrap(), Some(first.clone()), "as it was written");
    assert_eq!(store.get(Table::History, &key).await.unwrap(), None, "tables are apart");
    for (version, condition, holds) in [
        (6, Condition::Absent, false),
        (6, Condition::VersionIs(4), false),
        (5, Condition::Below(5), false),
        (6, Condition::Below(6), true),
        (7, Condition::VersionIs(6), true),
        (1, Condition::Any, true),
    ] {
        let outcome = store.write(attempt(&key, version, condition)).await;
        let expected = if holds { Ok(()) } else { Err(WriteError::Conflict(vec![0])) };
        assert_eq!(outcome, expected, "{condition:?}");
    }
    let kept = store.get(Table::Records, &key).await.unwrap().unwrap();
    assert_eq!((kept.version, kept.body, kept.note), (1, None, None), "a put replaces the whole item");
    assert_eq!(store.write(delete(&key, Condition::VersionIs(2))).await, Err(WriteError::Conflict(vec![0])));
    store.write(delete(&key, Condition::VersionIs(1))).await.unwrap();
    assert_eq!(store.get(Table::Records, &key).await.unwrap(), None);
    assert_eq!(store.write(attempt(&key, 1, Condition::VersionIs(1))).await, Err(WriteError::Conflict(vec![0])));
    store.write(attempt(&key, 1, Condition::Below(1))).await.unwrap();
    store.write(delete(&key, Condition::Any)).await.unwrap();
}

fn attempt(key: &ItemKey, version: u64, condition: Condition) -> Vec<ItemWrite> {
    vec![put(Table::Records, Item::new(key.clone(), version), condition)]
}

fn delete(key: &ItemKey, condition: Condition) -> Vec<ItemWrite> {
    vec![ItemWrite::Delete(Table::Records, key.clone(), condition)]
}

async fn transactions(store: &dyn Tables) {
    let one = item("t#00", "one", 1);
    store.write(vec![put(Table::Records, one.clone(), Condition::Absent)]).await.unwrap();
    let mixed = vec![
        put(Table::Records, item("t#00", "two", 1), Condition::Absent),
        put(Table::History, item("t", "two/1", 1), Condition::Any),
        ItemWrite::Check(Table::Records, one.key.clone(), Condition::VersionIs(2)),
    ];
    assert_eq!(store.write(mixed).await, Err(WriteError::Conflict(vec![2])));
    assert_eq!(store.get(Table::Records, &ItemKey::new("t#00", "two")).await.unwrap(), None, "all or nothing");
    assert_eq!(store.get(Table::History, &ItemKey::new("t", "two/1")).await.unwrap(), None);
    let good = vec![
        put(Table::Records, item("t#00", "two", 1), Condition::Absent),
        put(Table::History, item("t", "two/1", 1), Condition::Any),
        ItemWrite::Check(Table::Records, one.key.clone(), Condition::VersionIs(1)),
        ItemWrite::Delete(Table::Requests, ItemKey::new("none", "none"), Condition::Any),
    ];
    store.write(good).await.unwrap();
    assert!(store.get(Table::History, &ItemKey::new("t", "two/1")).await.unwrap().is_some());
    let twice = vec![ItemWrite::Check(Table::Records, one.key.clone(), Condition::Any); 2];
    assert!(matches!(store.write(twice).await, Err(WriteError::Engine(_))), "an item named twice is refused");
}

async fn pages(store: &dyn Tables) {
    for number in (0..25).rev() {
        let sort = format!("{number:02}");
        let writes = vec![
            put(Table::Mapping, item("p#01", &sort, number), Condition::Any),
            put(Table::Mapping, item("p#02", &sort, number), Condition::Any),
        ];
        store.write(writes).await.unwrap();
    }
    let page = store.query(Table::Mapping, "p#01", Some("03"), 10).await.unwrap();
    let versions: Vec<u64> = page.items.iter().map(|item| item.version).collect();
    assert_eq!(versions, (4..14).collect::<Vec<u64>>(), "in order, behind the key");
    assert_eq!(page.next, Some(ItemKey::new("p#01", "13")));
    let rest = store.query(Table::Mapping, "p#01", Some("20"), 10).await.unwrap();
    assert_eq!((rest.items.len(), rest.next), (4, None), "the end says so, and the next partition is not in it");
    assert!(store.query(Table::Mapping, "p#03", None, 10).await.unwrap().items.is_empty());
    for (partition, through, last) in [
        ("p#01", "07", Some(7)),
        ("p#01", "07x", Some(7)),
        ("p#01", "~", Some(24)),
        ("p#01", "/", None),
        ("p#015", "~", None),
        ("p#03", "~", None),
    ] {
        let found = store.last(Table::Mapping, partition, through).await.unwrap();
        assert_eq!(found.map(|item| item.version), last, "{partition} {through}");
    }
    let mut seen = Vec::new();
    for number in 0..3 {
        let segment = ScanSegment { number, of: 3 };
        let mut after = None;
        loop {
            let page = store.scan(Table::Mapping, segment, after, 7).await.unwrap();
            seen.extend(page.items.into_iter().map(|item| item.key));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    seen.sort();
    assert_eq!(seen.len(), 50, "each item once, over all segments");
    seen.dedup();
    assert_eq!(seen.len(), 50);
}

/// The feed of [`Table::Records`] of `store`. Everything that is written comes, of a key in order
/// once copies are left out; silence says how far it goes; a reader goes on where it stopped.
pub(crate) async fn feed(store: &dyn Tables, feed: &dyn Feed) {
    for version in 1..=20 {
        let writes = vec![
            put(Table::Records, item("f#00", "a", version).with_body(Bytes::from_static(b"{}")), Condition::Any),
            put(Table::History, item("f#a", &format!("{version:04}"), version), Condition::Any),
        ];
        store.write(writes).await.unwrap();
    }
    let mut seen = Vec::new();
    let mut from = Position::Oldest;
    let shards = feed.shards().await.unwrap();
    let mut rounds = 0;
    // Every engine's test feeds have one shard with everything in it.
    let shard = shards.last().expect("there is a shard").id.clone();
    while seen.last() != Some(&20) {
        rounds += 1;
        let mut stream = feed.open(&shard, from.clone());
        while let Some(batch) = stream.next().await {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    assert!(rounds < 100 && error.is_transient(), "{error}");
                    break;
                }
            };
            let own = batch.changes.iter().filter(|change| change.key == ItemKey::new("f#00", "a"));
            seen.extend(own.map(|change| change.item.as_ref().expect("it was put").version));
            assert!(batch.changes.iter().all(|change| !change.key.partition.starts_with("f#a")), "unstreamed");
            from = batch.next;
            rounds += 1;
            assert!(rounds < 100, "everything arrives: {seen:?}");
            if seen.last() == Some(&20) {
                break;
            }
        }
    }
    assert!((1..=20).all(|version| seen.contains(&version)), "{seen:?}");
    let mut stream = feed.open(&shard, from);
    let before = stream.next().await.unwrap().unwrap();
    let after = stream.next().await.unwrap().unwrap();
    assert!(before.changes.is_empty() && after.through >= before.through, "silence moves the time on");
    store.write(vec![ItemWrite::Delete(Table::Records, ItemKey::new("f#00", "a"), Condition::Any)]).await.unwrap();
    loop {
        let batch = stream.next().await.unwrap().unwrap();
        if let Some(change) = batch.changes.last() {
            assert_eq!((change.key.sort.as_str(), &change.item), ("a", &None), "a removal says so");
            break;
        }
    }
}
