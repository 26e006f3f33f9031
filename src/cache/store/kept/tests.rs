//! The segmented CLOCK: what stays, what makes room, what leaves once.

use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::*;
use crate::cache::content::Content;
use crate::cache::content::request_lines::RequestLines;
use crate::cache::entry::{Entry, Validity};
use crate::cache::key::{HashKey, KeyBuffer};
use crate::model::ids::RegionId;
use crate::model::time::{Moment, ShortSpan};

fn key(number: usize) -> Key {
    KeyBuffer::new(HashKey::fixed(1)).primary(&format!("/{number:08}")).to_key()
}

/// An entry without a key, which can be stored under any key.
fn entry(body: usize) -> Arc<Entry> {
    keyed(body, &[])
}

/// An entry that holds its key, as routed ones do.
fn own(number: usize, body: usize) -> Arc<Entry> {
    keyed(body, key(number).as_ref().bytes())
}

fn keyed(body: usize, key: &[u8]) -> Arc<Entry> {
    let body = Bytes::from(vec![0; body]);
    Arc::new(Entry {
        status: StatusCode::OK,
        content: Content::answering(&HeaderMap::new(), &body, RequestLines::default(), key),
        region: RegionId(0),
        sent: Moment::ZERO,
        age_at_receipt: ShortSpan::default(),
        derived: crate::cache::derived::Derived::NONE,
        json: Default::default(),
        validity: Validity::Uncacheable,
    })
}

/// The weight of an entry with this many bytes of body, under any key.
fn weight(body: usize) -> usize {
    Held::entry_under(key(0).as_ref(), &entry(body)).weight()
}

/// RecordCapacity for this many of `entry(0)`.
fn room_for(entries: usize) -> SegmentedClock {
    SegmentedClock::new((entries * weight(0)) as u64, Arc::default())
}

fn put(kept: &SegmentedClock, number: usize, entry: &Arc<Entry>) {
    let key = key(number);
    kept.change(key.as_ref(), |_| Change::Put(Held::entry_under(key.as_ref(), entry)));
}

/// Uses the cache as a caller does: puts what is not there.
fn ask(kept: &SegmentedClock, number: usize, entry: &Arc<Entry>) -> bool {
    let hit = kept.get(key(number).as_ref()).is_some();
    if !hit {
        put(kept, number, entry);
    }
    hit
}

#[test]
fn scan_keeps_hot_entries() {
    let (kept, held) = (room_for(1_000), entry(0));
    for _ in 0..4 {
        for hot in 0..500 {
            ask(&kept, hot, &held);
        }
    }
    for number in 0..100_000 {
        ask(&kept, 1_000 + number, &held);
    }
    let stay = (0..500).filter(|hot| kept.get(key(*hot).as_ref()).is_some()).count();
    assert_eq!(stay, 500, "though none of them was read meanwhile");
}

#[test]
fn large_body_displaces_established_small_ones() {
    let (kept, small, large) = (room_for(1_000), entry(0), entry(100 * weight(0)));
    for _ in 0..4 {
        for hot in 0..995 {
            ask(&kept, hot, &small);
        }
    }
    for unread in 10_000..10_300 {
        ask(&kept, unread, &small);
    }
    put(&kept, 20_000, &large);
    assert!(kept.get(key(20_000).as_ref()).is_some(), "nobody could have read it yet");
    assert!(kept.weight() <= kept.capacity());
    let most = entry(995 * weight(0) - 1_000);
    put(&kept, 20_001, &most);
    assert!(kept.get(key(20_001).as_ref()).is_some());
    assert!(kept.weight() <= kept.capacity());
}

#[test]
fn memory_shrinks_after_mass_removal() {
    let (kept, held) = (room_for(20_000), entry(0));
    (0..20_000).for_each(|number| put(&kept, number, &held));
    assert!(slot_capacity(&kept) >= 20_000);
    kept.make_room(kept.weight() / 100);
    assert!(slot_capacity(&kept) < 4_000, "{}", slot_capacity(&kept));
    let there = (0..20_000).filter(|number| kept.get(key(*number).as_ref()).is_some()).count();
    assert_eq!(there, kept.count());
}

fn slot_capacity(kept: &SegmentedClock) -> usize {
    kept.shards.iter().map(|shard| shard.read().slots.capacity()).sum()
}

#[test]
fn formerly_hot_entries_make_room() {
    let (kept, held) = (room_for(1_000), entry(0));
    let mut random = fastrand::Rng::with_seed(1);
    // Nothing of the old is removed before the new are asked for.
    for from in [0, 10_000] {
        hits(&kept, &held, 20_000, || from + random.usize(..800));
        assert!(hits(&kept, &held, 20_000, || from + random.usize(..800)) > 19_000, "{from}");
    }
}

#[test]
fn hit_ratio_is_near_optimal() {
    let (kept, held) = (room_for(1_000), entry(0));
    let mut random = fastrand::Rng::with_seed(1);
    hits(&kept, &held, 50_000, || draw(&mut random));
    let hits = hits(&kept, &held, 50_000, || draw(&mut random));
    assert!(hits > 22_500, "{hits} of 50,000; with the 500 always there, some 25,500");
}

/// One key in a hundred gets half of the requests, evenly spread; the others are asked for rarely.
fn draw(random: &mut fastrand::Rng) -> usize {
    if random.bool() { random.usize(..500) } else { random.usize(500..50_000) }
}

/// Hits among this many requests for drawn keys.
fn hits(kept: &SegmentedClock, entry: &Arc<Entry>, requests: usize, mut draw: impl FnMut() -> usize) -> usize {
    (0..requests).filter(|_| ask(kept, draw(), entry)).count()
}

#[test]
fn overweight_entry_evicts_nothing() {
    let (kept, small) = (room_for(10), entry(0));
    (0..10).for_each(|number| put(&kept, number, &small));
    put(&kept, 3, &entry(1 << 20));
    assert!(kept.get(key(3).as_ref()).is_none(), "nor does the older one stay");
    assert_eq!((kept.count(), kept.weight()), (9, 9 * weight(0) as u64));
}

#[test]
fn dense_list_stays_consistent() {
    let kept = room_for(2_000);
    let mut random = fastrand::Rng::with_seed(1);
    let mut there = std::collections::HashMap::new();
    for _ in 0..50_000 {
        let (number, body) = (random.usize(..300), random.usize(..500));
        match random.u8(..3) {
            0 => {
                kept.remove(key(number).as_ref());
                there.remove(&number);
            }
            1 => {
                put(&kept, number, &if body % 2 == 0 { own(number, body) } else { entry(body) });
                there.insert(number, body);
            }
            _ => {
                let found = kept.get(key(number).as_ref());
                let found = found.map(|held| held.entry().expect("no list was put").content.body_len());
                assert_eq!(found, there.get(&number).copied());
            }
        }
    }
    assert_eq!(
        (kept.count(), kept.weight()),
        (
            there.len(),
            there
                .iter()
                .map(|(number, body)| match body % 2 {
                    0 => Held::entry_under(key(*number).as_ref(), &own(*number, *body)).weight() as u64,
                    _ => weight(*body) as u64,
                })
                .sum()
        )
    );
    kept.make_room(0);
    let established = kept.established.load(Ordering::Relaxed);
    assert_eq!((kept.count(), kept.weight(), established), (0, 0, 0));
}

#[test]
fn changes_are_atomic_during_eviction() {
    let kept = room_for(20);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for thread in 0..3 {
            let kept = &kept;
            threads.push(scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for round in 0..5_000 {
                    let number = random.usize(..40);
                    match round % 4 {
                        0 => kept.remove(key(number).as_ref()),
                        _ => kept.change(key(number).as_ref(), |current| match current.and_then(Held::entry) {
                            Some(entry) if entry.content.body_len() == 40 => Change::Remove,
                            Some(entry) => put_own(number, entry.content.body_len() + 1),
                            None => put_own(number, 0),
                        }),
                    }
                }
            }));
        }
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                (0..40).for_each(|number| drop(kept.get(key(number).as_ref())));
            }
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    assert!(kept.weight() <= kept.capacity());
    kept.make_room(0);
    let established = kept.established.load(Ordering::Relaxed);
    assert_eq!((kept.count(), kept.weight(), established), (0, 0, 0), "each was weighed once in and once out");
}

fn put_own(number: usize, body: usize) -> Change {
    Change::Put(Held::entry_under(key(number).as_ref(), &own(number, body)))
}
