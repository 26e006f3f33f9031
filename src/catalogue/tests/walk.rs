//! Walks over all records of a type, and looks at what was.

use super::*;
use crate::catalogue::limits::WALK_STEP;
use crate::engine::limits::BUCKETS;

impl Stage {
    /// Keys and versions of all shards, bucket by bucket, and the number of pages.
    async fn walked(&self) -> (Vec<(String, u64)>, usize) {
        let (mut found, mut pages) = (Vec::new(), 0);
        for bucket in 0..BUCKETS {
            let mut after = None;
            loop {
                let page = self.catalogue.walk("shard", bucket, after.as_deref()).await.unwrap();
                pages += 1;
                found.extend(page.records.into_iter().map(|record| (record.key, record.version)));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        (found, pages)
    }
}

#[tokio::test(start_paused = true)]
async fn walk_sees_deleted_and_damaged() {
    let stage = stage();
    for key in ["a", "b", "c"] {
        stage.put(key, 1).await.unwrap();
    }
    stage.delete("b").await.unwrap();
    let mut item = stage.memory.get(Table::Records, &place("shard", "c")).await.unwrap().unwrap();
    item.body = Some(Bytes::from_static(b"{\xff"));
    stage.memory.write(vec![ItemWrite::Put(Table::Records, item, Condition::Any)]).await.unwrap();
    // No record has such a key.
    let foreign = Item::new(ItemKey::new(bucket::of("shard", 0), "a\u{7}"), 5);
    stage.memory.write(vec![ItemWrite::Put(Table::Records, foreign, Condition::Any)]).await.unwrap();
    let (mut found, pages) = stage.walked().await;
    found.sort();
    assert_eq!(found, [("a", NOW), ("b", NOW + 1), ("c", NOW)].map(|(key, version)| (key.to_owned(), version)));
    assert_eq!(pages, usize::from(BUCKETS));
    let unknown = stage.catalogue.walk("tenants", 0, None).await;
    assert!(matches!(unknown, Err(CatalogueError::UnknownType { .. })), "{unknown:?}");
}

#[tokio::test(start_paused = true)]
async fn walk_goes_on_behind_a_key() {
    let stage = stage();
    let keys = (0..).map(|n| format!("key-{n}")).filter(|key| bucket::bucket(key) == 7);
    let mut keys: Vec<_> = keys.take(2 * WALK_STEP + 1).collect();
    for key in &keys {
        stage.put(key, 1).await.unwrap();
    }
    keys.sort();
    let (found, pages) = stage.walked().await;
    assert_eq!(found.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), keys);
    assert_eq!(pages, usize::from(BUCKETS) + 2);
}

#[tokio::test(start_paused = true)]
async fn last_version_by_a_time_is_found() {
    let stage = stage();
    stage.put("a", 1).await.unwrap();
    stage.put("a", 2).await.unwrap();
    stage.put("b", 1).await.unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    stage.delete("a").await.unwrap();
    for (at, expected) in [
        (NOW - 1, None),
        (NOW, Some((NOW, Some(body(1).into())))),
        (NOW + 999, Some((NOW + 1, Some(body(2).into())))),
        (NOW + 1000, Some((NOW + 1000, None))),
    ] {
        let last = stage.catalogue.last_at_or_before("shard", "a", Wall::from_millis(at)).await.unwrap();
        if let Some(last) = &last {
            assert_eq!((&*last.key, last.is_unreadable, last.note.by.as_deref()), ("a", false, Some("anonymous")));
        }
        assert_eq!(last.map(|last| (last.version, last.body)), expected, "{at}");
    }
    let mut item = stage.memory.get(Table::History, &history_of(&stage, "b")).await.unwrap().unwrap();
    item.body = Some(Bytes::from_static(b"{\xff"));
    stage.memory.write(vec![ItemWrite::Put(Table::History, item, Condition::Any)]).await.unwrap();
    let last = stage.catalogue.last_at_or_before("shard", "b", Wall::from_millis(NOW)).await.unwrap().unwrap();
    assert_eq!((last.is_unreadable, last.body), (true, None));
}
