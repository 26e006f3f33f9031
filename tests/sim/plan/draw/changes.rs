//! Owns what changes in a plan: writes, when each region has them, and which of them go through the
//! sidecar.
//!
//! A restore is a write of each record that had changed since, back to what it was; its version
//! goes back too, and so do those of the writes that follow.

use std::time::Duration;

use fastrand::Rng;

use super::super::super::faults::Fault;
use super::super::super::truth::{Backup, Kind, Truth, Write};
use super::super::{Put, RegionPlan, Style, Window, between};
use super::{ms, on_topic, secs};

/// When the floor has been dropped that one impossible version raised, on a record that is read
/// every few seconds.
pub(crate) const DROPPED: Duration = Duration::from_secs(150);
/// So much changes at least.
const WRITES: usize = 50;

/// A write as it is drawn.
#[derive(Clone, Copy)]
pub(super) struct Drawn {
    at: Duration,
    key: usize,
    what: What,
    silent: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    /// Changed or deleted, with a version above all others.
    Done(Kind),
    /// As it was then, if it has changed since.
    Restored(Duration),
    /// It is there again, and its versions begin at 1.
    Anew,
    /// Changed, under the version that it has.
    Within,
}

const fn write(at: Duration, key: usize, kind: Kind) -> Drawn {
    Drawn { at, key, what: What::Done(kind), silent: false }
}

/// All writes, in order of time.
pub(super) fn writes(rng: &mut Rng, keys: usize, windows: &[Window]) -> Vec<Drawn> {
    let zipf = |rng: &mut Rng| (keys as f64 * rng.f64().powi(2)) as usize;
    let kind = |rng: &mut Rng| if rng.f64() < 0.15 { Kind::Deleted } else { Kind::Changed };
    let mut writes: Vec<Drawn> = Vec::new();
    for window in windows {
        of_window(rng, keys, window, &mut writes);
    }
    let more = WRITES.saturating_sub(writes.len()).max(12) + rng.usize(0..5);
    writes.extend((0..more).map(|_| write(between(rng, secs(15), secs(460)), zipf(rng), kind(rng))));
    writes.sort_by_key(|write| write.at);
    writes
}

/// What happens while a fault lasts is what matters.
fn of_window(rng: &mut Rng, keys: usize, window: &Window, writes: &mut Vec<Drawn>) {
    let zipf = |rng: &mut Rng| (keys as f64 * rng.f64().powi(2)) as usize;
    let kind = |rng: &mut Rng| if rng.f64() < 0.15 { Kind::Deleted } else { Kind::Changed };
    match window.fault {
        Fault::HotKey => {
            let every = ms(15 + rng.u64(0..60));
            writes.extend((0..25).map(|n| write(window.from + every * n, window.key, Kind::Changed)));
        }
        Fault::MassWhileDying => {
            let soon = window.from + secs(1);
            let changed = |key| write(between(rng, window.from, soon), key, Kind::Changed);
            writes.extend((0..keys).step_by(2).map(changed));
        }
        // An ordinary change ends the doubt; of a version that could be true it takes one after its
        // floor was dropped.
        Fault::MaxInMessage | Fault::MaxInReply => {
            let mut ordinary = |at| writes.push(write(at, window.key, Kind::Changed));
            ordinary(between(rng, window.from, window.until));
            ordinary(between(rng, window.from, window.until));
            ordinary(window.until + secs(3));
            ordinary(window.from + DROPPED);
        }
        // What a reply shows changed with a record that it joins: nobody announces it.
        Fault::SameVersion => {
            let within = |at, key| Drawn { at, key, what: What::Within, silent: true };
            let some = |_| within(between(rng, window.from, window.from + secs(60)), zipf(rng));
            writes.extend((0..6).map(some));
        }
        // What is announced just before it comes, the lagging regions do not have yet.
        Fault::LateReset => {
            let soon = window.until.saturating_sub(ms(2_500));
            let changed = |key| write(between(rng, soon, window.until), key, Kind::Changed);
            writes.extend((0..keys).step_by(3).chain([window.key]).map(changed));
        }
        Fault::Reload => writes.push(Drawn { silent: true, ..write(window.from, window.key, Kind::Changed) }),
        Fault::ReloadAll => {
            let silent = |key| Drawn { silent: true, ..write(window.from, key, Kind::Changed) };
            writes.extend((0..keys).step_by(3).map(silent));
        }
        Fault::Restored => {
            let to = window.from.saturating_sub(secs(30 + rng.u64(0..60)));
            let lost = |key| write(between(rng, to, window.from.saturating_sub(secs(8))), key, Kind::Changed);
            writes.extend((0..keys).filter(|key| key % 3 != 2).map(lost));
            // A restore is not announced, but what it brings back may be.
            let silent = window.strength < 0.6;
            let restored = |key| Drawn { at: window.from, key, what: What::Restored(to), silent };
            writes.extend((0..keys).map(restored));
        }
        Fault::Recreated => {
            let anew = window.from + ms(500 + rng.u64(0..5_000));
            writes.push(write(window.from.saturating_sub(secs(9)), window.key, Kind::Changed));
            writes.push(write(window.from, window.key, Kind::Deleted));
            writes.push(Drawn { at: anew, key: window.key, what: What::Anew, silent: false });
        }
        // Before anybody has subscribed.
        Fault::AgedIntermediary => {
            let early = |rng: &mut Rng| write(ms(1 + rng.u64(0..80)), zipf(rng), Kind::Changed);
            writes.extend((0..5).map(|_| early(rng)));
        }
        Fault::AbsentAgainstPresent | Fault::DeletedAfterRecreation => {
            for n in 0..4 {
                let at = between(rng, secs(100), secs(400));
                let then = if n % 2 == 0 { Kind::Deleted } else { Kind::Changed };
                writes.push(write(at, window.key, then));
                writes.push(write(at + ms(50 + rng.u64(0..3_000)), window.key, Kind::Changed));
            }
        }
        fault if on_topic(fault) || matches!(fault, Fault::Suspended | Fault::Restart | Fault::FleetLags) => {
            let until = window.until.min(secs(470));
            let some = |_| write(between(rng, window.from, until), zipf(rng), kind(rng));
            writes.extend((0..4).map(some));
        }
        _ => {}
    }
}

/// A record's history while it is written.
struct History {
    /// Per place: when it began, whether the record is there, its version.
    places: Vec<(Duration, bool, u64)>,
    highest: u64,
    /// Its versions went back, and go on from there.
    is_back: bool,
}

impl History {
    fn new(key: usize, present: bool) -> Self {
        let version = if present { 100 + key as u64 } else { 0 };
        Self { places: vec![(Duration::ZERO, present, version)], highest: version, is_back: false }
    }

    /// The next write of the record; none where nothing is to be restored.
    fn write(&mut self, drawn: Drawn, version: u64) -> Option<Write> {
        let place = self.places.len();
        let (_, there, last) = self.places[place - 1];
        let then = |to: Duration| self.places.partition_point(|(since, ..)| *since <= to).saturating_sub(1);
        let (kind, version, same_as) = match drawn.what {
            What::Restored(to) => {
                let old = then(to);
                let (_, there, version) = self.places[old];
                if old + 1 == place {
                    return None;
                }
                (if there { Kind::Changed } else { Kind::Deleted }, version, Some(old))
            }
            What::Anew => (Kind::Changed, 1, None),
            // What is gone shows nothing that could change.
            What::Within if !there => return None,
            What::Within => (Kind::Changed, last, None),
            // What is gone cannot go again: nobody could tell one absence from the next.
            What::Done(kind) => {
                let version = if self.is_back { last + 1 } else { version };
                (if there { kind } else { Kind::Changed }, version, None)
            }
        };
        self.is_back |= matches!(drawn.what, What::Restored(_) | What::Anew);
        let back = version <= self.highest && (drawn.what != What::Within || self.is_back);
        self.highest = self.highest.max(version);
        self.places.push((drawn.at, kind == Kind::Changed, version));
        Some(Write { at: drawn.at, key: drawn.key, kind, version, place, silent: drawn.silent, back, same_as })
    }
}

/// The truth that comes of them.
pub(super) fn truth(
    rng: &mut Rng,
    keys: usize,
    regions: &[RegionPlan],
    windows: &[Window],
    drawn: Vec<Drawn>,
) -> Truth {
    let present: Vec<bool> = (0..keys).map(|_| rng.f64() < 0.9).collect();
    let mut histories: Vec<History> =
        present.iter().enumerate().map(|(key, present)| History::new(key, *present)).collect();
    let next = |(index, drawn): (usize, Drawn)| histories[drawn.key].write(drawn, 1_000 + index as u64);
    let writes: Vec<Write> = drawn.into_iter().enumerate().filter_map(next).collect();
    let stalled = |region: usize, at: Duration| {
        let stalls = windows.iter().filter(|window| window.is_at(region) && window.holds(at));
        let stall = |fault: Fault| matches!(fault, Fault::IngestStalled | Fault::OneLiveOneBehind);
        stalls.filter(|window| stall(window.fault)).map(|window| window.until).max()
    };
    let ingests = regions.iter().enumerate().map(|(region, plan)| {
        let mut last = Duration::ZERO;
        let ingest = |write: &Write| {
            let at = write.at + plan.lag.mul_f64(0.5 + rng.f64() * 0.5);
            last = stalled(region, at).unwrap_or(at).max(last + Duration::from_micros(10));
            last
        };
        writes.iter().map(ingest).collect::<Vec<_>>()
    });
    let ingests = ingests.collect();
    let backup = windows.iter().find(|window| window.fault == Fault::Backup).map(|window| Backup {
        region: window.region,
        at: window.from,
        // Within `worst_lag`, all told: what lies beyond it nobody promises anything of.
        to: window.from.saturating_sub(secs(25)),
        until: window.until,
    });
    Truth::new(present, writes, ingests, regions.iter().map(|region| region.lag).collect(), backup)
}

/// The writes that callers make through the sidecar.
pub(super) fn puts(rng: &mut Rng, truth: &Truth, style: Style, windows: &[Window]) -> Vec<Put> {
    if !windows.iter().any(|window| window.fault == Fault::WriteThrough) {
        return Vec::new();
    }
    let told = |write: &Write| !write.silent && truth.went_back(write.key).is_none() && write.at > secs(5);
    let one = |(write, _)| Put { write, states: style == Style::Versions && rng.f64() < 0.7 };
    truth.writes.iter().enumerate().filter(|(_, write)| told(write)).step_by(2).map(one).collect()
}
