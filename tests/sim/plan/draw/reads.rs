//! Owns who reads what when: around changes, at the end of pauses, after one's own writes, and at
//! any time.

use std::time::Duration;

use fastrand::Rng;

use super::super::super::faults::Fault;
use super::super::super::truth::{Truth, Write};
use super::super::{Put, Read, SPAN, Window, Wish, between};
use super::{ms, secs};

/// Readers come at least so often (with those of the calm it is 2,000).
const READS: usize = 1_870;

/// Some records have a second view, some appear beside another: each URL of a record costs its
/// own rechecks.
fn view(rng: &mut Rng, key: usize) -> u8 {
    match rng.u8(0..5) {
        3 if key.is_multiple_of(3) => 1,
        4 if key.is_multiple_of(4) => 2,
        _ => 0,
    }
}

/// All reads, in order of time.
pub(super) fn reads(rng: &mut Rng, keys: usize, truth: &Truth, windows: &[Window], puts: &[Put]) -> Vec<Read> {
    let mut reads: Vec<Read> = Vec::new();
    // Around a change is where something can go wrong: before it arrives, while it arrives, just
    // after.
    for (index, write) in truth.writes.iter().enumerate() {
        for ingests in &truth.ingests {
            let around = ingests[index].saturating_sub(ms(rng.u64(0..120)));
            reads
                .extend((0..2).map(|n| Read::new(around + ms(rng.u64(0..250)) * n, write.key, view(rng, write.key))));
        }
    }
    // And at the end of a pause, where readers have waited.
    for window in windows.iter().filter(|window| window.fault == Fault::Suspended) {
        reads.extend((0..keys).map(|key| Read::new(between(rng, window.from, window.until), key, 0)));
    }
    for window in windows.iter().filter(|w| matches!(w.fault, Fault::MaxInMessage | Fault::MaxInReply)) {
        let every = secs(8);
        reads.extend((0..20).map(|n| Read::new(window.from + every * n, window.key, 0)));
    }
    for put in puts {
        let write = &truth.writes[put.write];
        reads.extend(
            (0..4).map(|_| Read::new(write.at + ms(20 + rng.u64(0..1_500)), write.key, view(rng, write.key))),
        );
    }
    if has(windows, Fault::OwnWrite) {
        truth.writes.iter().for_each(|write| after_own_write(rng, write, &mut reads));
    }
    let parts = has(windows, Fault::Part);
    if parts {
        reads.extend(truth.writes.iter().enumerate().map(|(index, write)| {
            let first = truth.ingests.iter().map(|ingests| ingests[index]).min().unwrap_or_default();
            Read { wish: Wish::Part, ..Read::new(first + ms(200 + rng.u64(0..2_000)), write.key, 0) }
        }));
    }
    let directives = has(windows, Fault::Directives);
    let more = READS.saturating_sub(reads.len());
    reads.extend((0..more).map(|_| {
        let key = (keys as f64 * rng.f64().powf(1.5)) as usize;
        let mut read = Read::new(between(rng, secs(3), SPAN), key, view(rng, key));
        if directives && rng.f64() < 0.15 {
            read.wish = directive(rng);
        } else if parts && rng.f64() < 0.03 {
            read.wish = Wish::Part;
        }
        read
    }));
    reads.sort_by_key(|read| read.at);
    reads
}

fn has(windows: &[Window], fault: Fault) -> bool {
    windows.iter().any(|window| window.fault == fault)
}

/// He changed it at a region, and wants to see that; others read it at the same time.
fn after_own_write(rng: &mut Rng, write: &Write, reads: &mut Vec<Read>) {
    let at = write.at + ms(1 + rng.u64(0..200));
    let key = write.key;
    reads.push(Read::new(at.saturating_sub(ms(rng.u64(0..30))), key, 0));
    for _ in 0..2 {
        let after = Duration::from_micros(rng.u64(0..30_000));
        reads.push(Read { wish: Wish::NoCache, ..Read::new(at + after, key, 0) });
    }
}

fn directive(rng: &mut Rng) -> Wish {
    if rng.bool() {
        Wish::MaxAge([0, 0, 5, 30][rng.usize(0..4)])
    } else {
        Wish::MinFresh([5, 20, 60, 200][rng.usize(0..4)])
    }
}
