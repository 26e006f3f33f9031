//! The store: entries, variants, the index of records, capacity.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use parking_lot::Mutex;

use super::*;
use crate::cache::content::Content;
use crate::cache::key::HashKey;
use crate::cache::rfc9111::StoredFacts;
use crate::model::ids::{Generation, RegionId, RegionSet, Version};
use crate::model::ids::{RouteId, TypeId};
use crate::model::time::ShortSpan;
use crate::protocol::holding::{Routed, ShownRecord, Standing};
use crate::protocol::record::Record;
use crate::tasks::Tasks;

const MIB: u64 = 1 << 20;

fn at(second: u64) -> Moment {
    Moment::ZERO + Duration::from_secs(second)
}

fn record(hash: u64) -> RecordId {
    RecordId { record_type: TypeId((hash % 2) as u16), hash }
}

fn entry(sent: Moment, body: &[u8], validity: Validity) -> Arc<Entry> {
    Arc::new(Entry {
        status: StatusCode::OK,
        content: Content::new(&HeaderMap::new(), &Bytes::copy_from_slice(body)),
        region: RegionId(0),
        sent,
        age_at_receipt: ShortSpan::default(),
        derived: crate::cache::derived::Derived::NONE,
        json: Default::default(),
        validity,
    })
}

/// An entry that shows these records, each with a version and a generation.
fn routed(sent: u64, shows: &[(u64, u64, u64)]) -> Arc<Entry> {
    let shows = shows.iter().map(|(hash, version, generation)| ShownRecord {
        record: Arc::new(Record::unheard(record(*hash))),
        version: Version(*version),
        generation: Generation(*generation),
    });
    let routed = Routed {
        route: RouteId(0),
        shows: shows.collect(),
        digest: None,
        standing: Standing::Confirmed,
        epochs: vec![].into(),
        live: RegionSet::EMPTY,
        confirmed: at(sent),
        ttl: Duration::from_secs(3_600).into(),
    };
    entry(at(sent), b"routed", Validity::Routed(routed))
}

fn unrouted(sent: u64, vary: &[&'static str], body: &str) -> Arc<Entry> {
    let vary = vary.iter().copied().map(HeaderName::from_static).collect();
    entry(at(sent), body.as_bytes(), Validity::Unrouted(StoredFacts { vary, ..StoredFacts::default() }))
}

fn store(capacity: u64) -> (Store, Arc<Mutex<Vec<RecordId>>>) {
    let released = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&released);
    (Store::new(capacity, move |id| reported.lock().push(id)), released)
}

fn buffer() -> KeyBuffer {
    KeyBuffer::new(HashKey::fixed(1))
}

fn key(path: &str) -> Key {
    buffer().primary(path).to_key()
}

fn language(language: &str) -> HeaderMap {
    HeaderMap::from_iter([(header::ACCEPT_LANGUAGE, HeaderValue::from_str(language).unwrap())])
}

/// Puts a reply to `/a` that was asked for in a language.
fn put_for(store: &Store, asked: &str, entry: Arc<Entry>) -> Put {
    store.put_unrouted(&mut buffer(), "/a", &language(asked), &entry)
}

fn selected(store: &Store, headers: &HeaderMap) -> Option<String> {
    let entry = store.select(&mut buffer(), "/a", headers)?;
    Some(String::from_utf8(entry.body().to_vec()).unwrap())
}

#[test]
fn finds_put_and_not_removed_entries() {
    let (store, released) = store(MIB);
    let key = key("/a");
    let put = routed(1, &[(7, 1, 1)]);
    assert!(matches!(store.put(key.as_ref(), &put), Put::Stored));
    assert!(Arc::ptr_eq(&store.get(key.as_ref()).unwrap(), &put));
    let indexed = store.entries_of(record(7));
    assert!(indexed.len() == 1 && indexed[0].0 == key && Arc::ptr_eq(&indexed[0].1, &put));
    store.remove(key.as_ref());
    assert!(store.get(key.as_ref()).is_none());
    assert!(store.entries_of(record(7)).is_empty());
    assert_eq!(*released.lock(), [record(7)]);
}

#[test]
fn late_fill_never_replaces_newer_entry() {
    let (store, _) = store(MIB);
    let key = key("/a");
    store.put(key.as_ref(), &routed(10, &[(7, 5, 2)]));
    for (why, late) in [
        ("sent earlier", routed(9, &[(7, 5, 2)])),
        ("sent earlier, older version", routed(9, &[(7, 4, 2)])),
        ("older generation, though sent later", routed(11, &[(7, 6, 1)])),
    ] {
        match store.put(key.as_ref(), &late) {
            Put::Outdated(stays) => assert_eq!(stays.sent, at(10), "{why}"),
            other => panic!("{why}: {other:?}"),
        }
    }
    assert_eq!(store.get(key.as_ref()).unwrap().sent, at(10));
    assert_eq!(store.entries_of(record(7)).len(), 1, "what was refused left nothing in the index");
    for (why, newer) in [
        ("a slow attempt of the same race with a higher version", routed(9, &[(7, 6, 2)])),
        ("sent later", routed(12, &[(7, 6, 2)])),
        ("a newer generation with a lower version: a restored region", routed(13, &[(7, 1, 3)])),
    ] {
        assert!(matches!(store.put(key.as_ref(), &newer), Put::Stored), "{why}");
    }
}

#[test]
fn superseded_entry_stays_away() {
    let (store, released) = store(MIB);
    let (key, shows) = (key("/a"), [(1, 5, 0)]);
    assert!(matches!(store.put(key.as_ref(), &routed(2, &shows)), Put::Stored));
    store.supersede(key.as_ref(), &routed(1, &shows));
    assert!(store.get(key.as_ref()).is_some(), "what was asked for before says nothing of it");
    store.supersede(key.as_ref(), &routed(3, &shows));
    assert!(store.get(key.as_ref()).is_none());
    assert_eq!(*released.lock(), [record(1)]);
    assert!(matches!(store.put(key.as_ref(), &routed(2, &shows)), Put::Invalidated));
    assert!(matches!(store.put(key.as_ref(), &routed(3, &shows)), Put::Stored), "of the same race");
}

#[test]
fn replacement_releases_only_unreferenced_records() {
    let (store, released) = store(MIB);
    let key = key("/a");
    store.put(key.as_ref(), &routed(1, &[(1, 1, 1), (2, 1, 1)]));
    store.put(key.as_ref(), &routed(2, &[(2, 1, 1), (3, 1, 1)]));
    assert_eq!(*released.lock(), [record(1)]);
    assert_eq!(store.records(), [record(2), record(3)]);
    assert_eq!(store.entries_of(record(2)).len(), 1);
    store.remove(key.as_ref());
    assert!(store.records().is_empty());
    assert_eq!(*released.lock(), [record(1), record(2), record(3)]);
}

#[test]
fn many_urls_may_show_one_record() {
    let (store, released) = store(MIB);
    store.put(key("/a").as_ref(), &routed(1, &[(1, 1, 1), (1, 1, 1)]));
    store.put(key("/b").as_ref(), &routed(1, &[(1, 1, 1)]));
    assert_eq!(store.entries_of(record(1)).len(), 2);
    store.remove(key("/a").as_ref());
    assert_eq!(store.entries_of(record(1)).len(), 1);
    assert!(released.lock().is_empty());
    store.remove(key("/b").as_ref());
    assert_eq!(*released.lock(), [record(1)]);
}

#[test]
fn entries_per_record_are_bounded() {
    let (store, _) = store(64 * MIB);
    for number in 0..limits::ENTRIES_PER_RECORD {
        assert!(matches!(store.put(key(&format!("/{number}")).as_ref(), &routed(1, &[(1, 1, 1)])), Put::Stored));
    }
    let more = routed(2, &[(2, 1, 1), (1, 1, 1)]);
    assert!(matches!(store.put(key("/more").as_ref(), &more), Put::Full));
    assert!(store.get(key("/more").as_ref()).is_none());
    assert_eq!(store.records(), [record(1)], "nothing of it stays in the index");
    assert!(
        matches!(store.put(key("/0").as_ref(), &routed(2, &[(1, 1, 1)])), Put::Stored),
        "one that is there may be replaced"
    );
}

#[test]
fn eviction_keeps_capacity_and_index_consistent() {
    let (store, released) = store(MIB);
    let body = vec![0; 16 << 10];
    for number in 0..400 {
        let Validity::Routed(validity) = Arc::into_inner(routed(1, &[(number, 1, 1)])).unwrap().validity else {
            unreachable!()
        };
        store.put(key(&format!("/{number}")).as_ref(), &entry(at(1), &body, Validity::Routed(validity)));
    }
    assert!(store.bytes() <= MIB && store.bytes() > MIB / 2, "{store:?}");
    assert!(store.entries() > 30, "{store:?}");
    let kept = (0..400).filter(|number| store.get(key(&format!("/{number}")).as_ref()).is_some()).count();
    assert_eq!(kept as u64, store.entries());
    assert_eq!(store.records().len(), kept);
    assert_eq!(released.lock().len(), 400 - kept, "each is reported once");
}

#[test]
fn large_bodies_never_exceed_capacity() {
    let (store, _) = store(8 * MIB);
    let body = vec![0; MIB as usize];
    for number in 0..40 {
        let entry = entry(at(1), &body, Validity::Unrouted(StoredFacts::default()));
        store.put_unrouted(&mut buffer(), &format!("/{number}"), &HeaderMap::new(), &entry);
        assert!(store.bytes() <= 8 * MIB && store.entries() >= 7.min(number + 1), "{store:?}");
    }
}

#[test]
fn evicted_entries_leave_index() {
    let (store, released) = store(MIB);
    (0..1_000).for_each(|number| drop(put_numbered(&store, number)));
    let (entries, bytes) = (store.entries(), store.bytes());
    store.give_up();
    assert!(store.bytes() <= bytes - bytes / limits::GIVEN_UP && store.entries() > entries / 2, "{store:?}");
    assert_eq!(store.records().len() as u64, store.entries());
    assert_eq!(released.lock().len() as u64, 1_000 - store.entries());
    assert!(matches!(put_numbered(&store, 2_000), Put::Stored));
    assert!(store.get(key("/2000").as_ref()).is_some());
}

fn put_numbered(store: &Store, number: u64) -> Put {
    store.put(key(&format!("/{number}")).as_ref(), &routed(1, &[(number, 1, 1)]))
}

#[test]
fn unread_entries_are_evicted_first() {
    let (store, _) = store(MIB);
    let paths: Vec<Key> = (0..1_800).map(|number| key(&format!("/{number}"))).collect();
    for (number, path) in (0..).zip(&paths) {
        store.put(path.as_ref(), &routed(1, &[(number, 1, 1)]));
    }
    let read: Vec<Key> =
        paths.iter().enumerate().filter(|(number, _)| number % 4 > 0).map(|(_, path)| path.clone()).collect();
    assert!(read.iter().all(|path| store.get(path.as_ref()).is_some()));
    let (entries, stay) = (store.entries(), |store: &Store| {
        (0..1_800).filter(|number| number % 4 > 0 && store.index.has(record(*number))).count()
    });
    store.give_up();
    assert_eq!(stay(&store), read.len(), "every one of them");
    assert!(store.entries() < entries);
    (0..30).for_each(|_| store.give_up());
    assert!(stay(&store) < read.len() && store.bytes() < MIB / 4, "{store:?}");
}

#[test]
fn record_referenced_again_is_not_released() {
    let (store, released) = store(MIB);
    store.put(key("/a").as_ref(), &routed(1, &[(1, 1, 1)]));
    // Like an eviction: the listener has run, but nobody was notified yet.
    store.kept.remove(key("/a").as_ref());
    store.put(key("/b").as_ref(), &routed(1, &[(1, 1, 1)]));
    assert!(released.lock().is_empty());
}

#[test]
fn rfc9111_4_4_invalidated_list_drops_variant() {
    let (store, _) = store(MIB);
    let names = [header::ACCEPT_LANGUAGE];
    let variant = buffer().variant("/a", &names, &language("en")).to_key();
    store.put_if(variant.as_ref(), &unrouted(1, &["accept-language"], "hello"), || true);
    assert!(matches!(store.list(&key("/a"), &names, &variant, || false), Put::Invalidated));
    assert!(store.get(variant.as_ref()).is_none());
}

#[test]
fn evicted_list_drops_its_variants() {
    let (store, _) = store(MIB);
    store.put_unrouted(&mut buffer(), "/a", &language("en"), &unrouted(1, &["accept-language"], "hello"));
    store.index.orphan(&[buffer().variant("/a", &[header::ACCEPT_LANGUAGE], &language("en")).to_key()]);
    store.settle();
    assert_eq!(selected(&store, &language("en")), None);
}

#[test]
fn entry_larger_than_store_is_rejected() {
    let (store, released) = store(1 << 10);
    let Validity::Routed(validity) = Arc::into_inner(routed(1, &[(1, 1, 1)])).unwrap().validity else {
        unreachable!()
    };
    store.put(key("/a").as_ref(), &entry(at(1), &[0; 4096], Validity::Routed(validity)));
    assert!(store.get(key("/a").as_ref()).is_none());
    assert!(store.records().is_empty());
    assert_eq!(*released.lock(), [record(1)]);
}

#[test]
fn rfc9111_4_1_selections_have_own_replies() {
    let (store, _) = store(MIB);
    assert!(matches!(put_for(&store, "en", unrouted(2, &["accept-language"], "hello")), Put::Stored));
    put_for(&store, "fr", unrouted(1, &["accept-language"], "bonjour"));
    assert_eq!(selected(&store, &language("en")).as_deref(), Some("hello"));
    assert_eq!(selected(&store, &language("fr")).as_deref(), Some("bonjour"));
    assert_eq!(selected(&store, &language("de")), None);
    assert_eq!(selected(&store, &HeaderMap::new()), None);
    assert!(matches!(put_for(&store, "en", unrouted(1, &["accept-language"], "late")), Put::Outdated(_)));
}

#[test]
fn rfc9111_4_1_newest_match_is_selected() {
    let (store, _) = store(MIB);
    put_for(&store, "en", unrouted(1, &[], "plain"));
    assert_eq!(selected(&store, &language("de")).as_deref(), Some("plain"));
    put_for(&store, "en", unrouted(2, &["accept-language"], "varies"));
    put_for(&store, "en", unrouted(3, &["accept-language", "x-b"], "varies more"));
    assert_eq!(selected(&store, &language("en")).as_deref(), Some("varies more"));
    put_for(&store, "en", unrouted(4, &[], "plain again"));
    assert_eq!(selected(&store, &language("en")).as_deref(), Some("plain again"));
    assert_eq!(selected(&store, &language("de")).as_deref(), Some("plain again"));
}

#[test]
fn bounded_variants_evict_oldest_first() {
    let (store, _) = store(64 * MIB);
    for number in 0..limits::VARIANTS_PER_URI + 3 {
        let entry = unrouted(1, &["accept-language"], &number.to_string());
        store.put_unrouted(&mut buffer(), "/a", &language(&format!("l{number}")), &entry);
    }
    assert_eq!(store.entries() as usize, limits::VARIANTS_PER_URI + 1, "the variants and their list");
    assert_eq!(selected(&store, &language("l2")), None);
    assert_eq!(selected(&store, &language("l3")).as_deref(), Some("3"));
}

#[test]
fn rfc9111_4_4_invalidation_takes_all_variants() {
    let (store, _) = store(MIB);
    put_for(&store, "en", unrouted(1, &["accept-language"], "hello"));
    put_for(&store, "fr", unrouted(1, &["accept-language"], "bonjour"));
    store.invalidate(&mut buffer(), "/a", at(5));
    assert_eq!(selected(&store, &language("en")), None);
    assert_eq!(store.entries(), 0);
    assert!(matches!(put_for(&store, "en", unrouted(5, &["accept-language"], "late")), Put::Invalidated));
    assert!(matches!(put_for(&store, "en", unrouted(4, &[], "late")), Put::Invalidated));
    assert_eq!(selected(&store, &language("en")), None);
    put_for(&store, "en", unrouted(6, &["accept-language"], "new"));
    assert_eq!(selected(&store, &language("en")).as_deref(), Some("new"));
    assert_eq!(selected(&store, &language("fr")), None, "an old variant does not come back with the list");
    store.put_unrouted(&mut buffer(), "/b", &HeaderMap::new(), &unrouted(4, &[], "another URI"));
    assert!(store.select(&mut buffer(), "/b", &HeaderMap::new()).is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_puts_keep_newest_and_index() {
    let (store, released) = store(64 * MIB);
    let store = Arc::new(store);
    let tasks = Tasks::new();
    let (done, mut finished) = tokio::sync::mpsc::channel(8);
    for racer in 0..8_u64 {
        let (store, done) = (Arc::clone(&store), done.clone());
        tasks.spawn("racer", async move {
            for round in 0..500_u64 {
                let sent = (round * 7 + racer * 13) % 501;
                let key = key(&format!("/{}", round % 3));
                store.put(key.as_ref(), &routed(sent, &[(round % 3, 1, 1), (10 + sent % 4, 1, 1)]));
                if round % 50 == racer {
                    store.remove(key.as_ref());
                }
            }
            for path in 0..3_u64 {
                store.put(key(&format!("/{path}")).as_ref(), &routed(1_000, &[(path, 1, 1)]));
            }
            let _ = done.send(()).await;
        });
    }
    for _ in 0..8 {
        finished.recv().await.unwrap();
    }
    for path in 0..3 {
        assert_eq!(store.get(key(&format!("/{path}")).as_ref()).unwrap().sent, at(1_000));
        assert_eq!(store.entries_of(record(path)).len(), 1);
    }
    assert_eq!(store.records(), [record(0), record(2), record(1)], "and nothing that has gone");
    assert!(released.lock().contains(&record(10)));
}
