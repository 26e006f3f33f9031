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

/// Time by which the floor that one impossible version raised has been dropped, on a record that is
/// read every few seconds.
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
    let mut writes: Vec<Drawn> = Vec::new();
    for window in windows {
        of_window(rng, keys, window, &mut writes);
    }
    let more = WRITES.saturating_sub(writes.len()).max(12) + rng.usize(0..5);
    writes.extend((0..more).map(|_| write(between(rng, secs(15), secs(460)), zipf(rng, keys), kind(rng))));
    writes.sort_by_key(|write| write.at);
    writes
}

/// A record: the lower its number, the likelier.
fn zipf(rng: &mut Rng, keys: usize) -> usize {
    (keys as f64 * rng.f64().powi(2)) as usize
}

fn kind(rng: &mut Rng) -> Kind {
    if rng.f64() < 0.15 { Kind::Deleted } else { Kind::Changed }
}

/// Change that nobody announces.
fn unannounced(at: Duration, key: usize) -> Drawn {
    Drawn { silent: true, ..write(at, key, Kind::Changed) }
}

/// Draws the writes that matter while a fault lasts.
fn of_window(rng: &mut Rng, keys: usize, window: &Window, writes: &mut Vec<Drawn>) {
    match window.fault {
        Fault::HotKey => {
            let every = ms(15 + rng.u64(0..60));
            writes.extend((0..25).map(|n| write(window.from + every * n, window.key, Kind::Changed)));
        }
        Fault::MassWhileDying => {
            let soon = window.from + secs(1);
            writes.extend((0..keys).step_by(2).map(|key| write(between(rng, window.from, soon), key, Kind::Changed)));
        }
        // An ordinary change ends the doubt; of a version that could be true it takes one after its
        // floor was dropped.
        Fault::MaxInMessage | Fault::MaxInReply => {
            let first = between(rng, window.from, window.until);
            let second = between(rng, window.from, window.until);
            let times = [first, second, window.until + secs(3), window.from + DROPPED];
            writes.extend(times.map(|at| write(at, window.key, Kind::Changed)));
        }
        // What a reply shows changed with a record that it joins: nobody announces it.
        Fault::SameVersion => {
            let until = window.from + secs(60);
            writes.extend((0..6).map(|_| Drawn {
                at: between(rng, window.from, until),
                key: zipf(rng, keys),
                what: What::Within,
                silent: true,
            }));
        }
        // What is announced just before it comes, the lagging regions do not have yet.
        Fault::LateReset => {
            let soon = window.until.saturating_sub(ms(2_500));
            writes.extend(
                (0..keys)
                    .step_by(3)
                    .chain([window.key])
                    .map(|key| write(between(rng, soon, window.until), key, Kind::Changed)),
            );
        }
        Fault::Reload => writes.push(unannounced(window.from, window.key)),
        Fault::ReloadAll => writes.extend((0..keys).step_by(3).map(|key| unannounced(window.from, key))),
        Fault::Restored => {
            let to = window.from.saturating_sub(secs(30 + rng.u64(0..60)));
            writes.extend(
                (0..keys)
                    .filter(|key| key % 3 != 2)
                    .map(|key| write(between(rng, to, window.from.saturating_sub(secs(8))), key, Kind::Changed)),
            );
            // A restore is not announced, but what it brings back may be.
            let silent = window.strength < 0.6;
            writes.extend((0..keys).map(|key| Drawn { at: window.from, key, what: What::Restored(to), silent }));
        }
        Fault::Recreated => {
            let anew = window.from + ms(500 + rng.u64(0..5_000));
            writes.push(write(window.from.saturating_sub(secs(9)), window.key, Kind::Changed));
            writes.push(write(window.from, window.key, Kind::Deleted));
            writes.push(Drawn { at: anew, key: window.key, what: What::Anew, silent: false });
        }
        // Before anybody has subscribed.
        Fault::AgedIntermediary => {
            writes.extend((0..5).map(|_| write(ms(1 + rng.u64(0..80)), zipf(rng, keys), Kind::Changed)));
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
            writes.extend((0..4).map(|_| write(between(rng, window.from, until), zipf(rng, keys), kind(rng))));
        }
        _ => {}
    }
}

/// A record's history while it is written.
struct History {
    /// Per position: when it began, whether the record is there, its version.
    positions: Vec<(Duration, bool, u64)>,
    highest: u64,
    /// Its versions went back, and go on from there.
    is_back: bool,
}

impl History {
    fn new(key: usize, present: bool) -> Self {
        let version = if present { 100 + key as u64 } else { 0 };
        Self { positions: vec![(Duration::ZERO, present, version)], highest: version, is_back: false }
    }

    /// The next write of the record; none where nothing is to be restored.
    fn write(&mut self, drawn: Drawn, version: u64) -> Option<Write> {
        let position = self.positions.len();
        let (_, there, last) = self.positions[position - 1];
        let (kind, version, same_as) = match drawn.what {
            What::Restored(to) => {
                let old = self.positions.partition_point(|(since, ..)| *since <= to).saturating_sub(1);
                let (_, there, version) = self.positions[old];
                if old + 1 == position {
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
        self.positions.push((drawn.at, kind == Kind::Changed, version));
        Some(Write { at: drawn.at, key: drawn.key, kind, version, position, silent: drawn.silent, back, same_as })
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
    let writes: Vec<Write> = drawn
        .into_iter()
        .enumerate()
        .filter_map(|(index, drawn)| histories[drawn.key].write(drawn, 1_000 + index as u64))
        .collect();
    let ingests = regions.iter().enumerate().map(|(region, plan)| {
        let mut last = Duration::ZERO;
        writes
            .iter()
            .map(|write| {
                let at = write.at + plan.lag.mul_f64(0.5 + rng.f64() * 0.5);
                last = stalled_until(windows, region, at).unwrap_or(at).max(last + Duration::from_micros(10));
                last
            })
            .collect::<Vec<_>>()
    });
    let ingests = ingests.collect();
    let backup = windows.iter().find(|window| window.fault == Fault::Backup).map(|window| Backup {
        region: window.region,
        at: window.from,
        // Within `worst_lag`, all in all: what lies beyond it nobody promises anything of.
        to: window.from.saturating_sub(secs(25)),
        until: window.until,
    });
    Truth::new(present, writes, ingests, regions.iter().map(|region| region.lag).collect(), backup)
}

/// End of the stall of a region's ingest, if it is stalled.
fn stalled_until(windows: &[Window], region: usize, at: Duration) -> Option<Duration> {
    let stalls = windows.iter().filter(|window| window.is_at(region) && window.holds(at));
    stalls
        .filter(|window| matches!(window.fault, Fault::IngestStalled | Fault::OneLiveOneBehind))
        .map(|window| window.until)
        .max()
}

/// The writes that callers make through the sidecar.
pub(super) fn puts(rng: &mut Rng, truth: &Truth, style: Style, windows: &[Window]) -> Vec<Put> {
    if !windows.iter().any(|window| window.fault == Fault::WriteThrough) {
        return Vec::new();
    }
    truth
        .writes
        .iter()
        .enumerate()
        .filter(|(_, write)| !write.silent && truth.went_back(write.key).is_none() && write.at > secs(5))
        .step_by(2)
        .map(|(write, _)| Put { write, states: style == Style::Versions && rng.f64() < 0.7 })
        .collect()
}
