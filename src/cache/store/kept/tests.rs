//! The segmented CLOCK: what stays, what makes room, what leaves once.

use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::*;
use crate::cache::content::Content;
use crate::cache::content::request_lines::RequestLines;
use crate::cache::entry::{Entry, Hold};
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
        hold: Hold::Uncacheable,
    })
}

/// The weight of an entry with this many bytes of body, under any key.
fn weight(body: usize) -> usize {
    Held::entry_under(key(0).as_ref(), &entry(body)).weight()
}

/// Room for this many of `entry(0)`.
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
fn a_scan_does_not_flush_what_is_hot() {
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
fn a_large_body_takes_the_place_of_small_ones_that_are_established() {
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
fn memory_is_given_back_when_most_of_what_was_kept_has_gone() {
    let (kept, held) = (room_for(20_000), entry(0));
    (0..20_000).for_each(|number| put(&kept, number, &held));
    let slots = |kept: &SegmentedClock| kept.shards.iter().map(|shard| read(shard).slots.capacity()).sum::<usize>();
    assert!(slots(&kept) >= 20_000);
    kept.make_room(kept.weight() / 100);
    assert!(slots(&kept) < 4_000, "{}", slots(&kept));
    let there = (0..20_000).filter(|number| kept.get(key(*number).as_ref()).is_some()).count();
    assert_eq!(there, kept.count());
}

#[test]
fn what_was_hot_once_makes_room_for_what_is_hot_now() {
    let (kept, held) = (room_for(1_000), entry(0));
    let mut random = fastrand::Rng::with_seed(1);
    let mut hits = |from: usize| {
        let asked = 20_000;
        let mut hits = || (0..asked).filter(|_| ask(&kept, from + random.usize(..800), &held)).count();
        hits();
        hits() as f64 / f64::from(asked)
    };
    assert!(hits(0) > 0.95);
    assert!(hits(10_000) > 0.95, "though nothing of the old was removed");
}

#[test]
fn popular_keys_are_hit_as_often_as_the_best_choice_would_have_it_but_for_a_tenth() {
    let (kept, held) = (room_for(1_000), entry(0));
    let mut random = fastrand::Rng::with_seed(1);
    // One key in a hundred gets half of the requests, evenly spread; the others are asked for
    // rarely.
    let mut draw = || if random.bool() { random.usize(..500) } else { random.usize(500..50_000) };
    let mut hits = || (0..50_000).filter(|_| ask(&kept, draw(), &held)).count();
    hits();
    let hits = hits();
    assert!(hits > 22_500, "{hits} of 50,000; with the 500 always there, some 25,500");
}

#[test]
fn what_weighs_more_than_all_there_is_room_for_pushes_nothing_out() {
    let (kept, small) = (room_for(10), entry(0));
    (0..10).for_each(|number| put(&kept, number, &small));
    put(&kept, 3, &entry(1 << 20));
    assert!(kept.get(key(3).as_ref()).is_none(), "nor does the older one stay");
    assert_eq!((kept.count(), kept.weight()), (9, 9 * weight(0) as u64));
}

#[test]
fn a_list_without_gaps_stays_true_whatever_comes_and_goes() {
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
    let weight = |(number, body): (&usize, &usize)| match body % 2 {
        0 => Held::entry_under(key(*number).as_ref(), &own(*number, *body)).weight() as u64,
        _ => weight(*body) as u64,
    };
    assert_eq!((kept.count(), kept.weight()), (there.len(), there.iter().map(weight).sum()));
    kept.make_room(0);
    let established = kept.established.load(Ordering::Relaxed);
    assert_eq!((kept.count(), kept.weight(), established), (0, 0, 0));
}

#[test]
fn a_change_is_one_step_to_all_others_while_room_is_made() {
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
                    let under = |body| Change::Put(Held::entry_under(key(number).as_ref(), &own(number, body)));
                    match round % 4 {
                        0 => kept.remove(key(number).as_ref()),
                        _ => kept.change(key(number).as_ref(), |current| match current.and_then(Held::entry) {
                            Some(entry) if entry.content.body_len() == 40 => Change::Remove,
                            Some(entry) => under(entry.content.body_len() + 1),
                            None => under(0),
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
