//! Owns how a plan is drawn from its seed: faults, regions, writes, reads.
//!
//! Before it: a seed and [`Wishes`]. After it: a [`Plan`]. Invariant: draws come in one order, so that a seed stays the
//! same plan.

use std::time::Duration;

use fastrand::Rng;

use super::super::faults::Fault;
use super::super::truth::{Backup, Kind, Truth, Write};
use super::{Plan, Proof, REGIONS, Read, RegionPlan, SPAN, Style, Window, Wishes, between, loses};

/// Readers come at least so often (with those of the calm it is 2,000), and so much changes at least.
const READS: usize = 1_870;
const WRITES: usize = 50;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Draws a plan.
pub(crate) fn draw(seed: u64, wishes: &Wishes) -> Plan {
    let rng = &mut Rng::with_seed(seed ^ 0x6e65_6172_7369_6465);
    let keys = 20 + rng.usize(0..5);
    let style = [Style::Versions, Style::Versions, Style::Etags, Style::Bare][rng.usize(0..4)];
    let style = wishes.style.unwrap_or(style);
    let proof = [Proof::Watermark, Proof::Watermark, Proof::Watermark, Proof::Path, Proof::Weak][rng.usize(0..5)];
    let proof = wishes.proof.unwrap_or(proof);
    let states = match style {
        Style::Versions => rng.f64() < 0.85,
        _ => rng.f64() < 0.4,
    };
    let topics = wishes.topics.unwrap_or(if rng.f64() < 0.2 { 1 + rng.usize(0..2) } else { REGIONS });
    let ttl = wishes.ttl.unwrap_or(secs(90 + rng.u64(0..240)));
    let windows = windows(rng, wishes, style, keys, topics);
    // What is lost without a trace is made good by the TTL alone, and that is waited for.
    let silent_losses = proof != Proof::Watermark && windows.iter().any(|window| loses(window.fault));
    let ttl = if silent_losses && wishes.ttl.is_none() { ttl.min(secs(120)) } else { ttl };
    // Only announced versions tell that the announcer's own nodes lag (FRESHNESS.md, promise 5).
    let fleet = windows.iter().any(|window| window.fault == Fault::FleetLags);
    let announces_versions = wishes.announces_versions.unwrap_or(states || fleet);
    let regions = regions(rng, style, &windows);
    let writes = writes(rng, keys, &windows);
    let truth = truth(rng, keys, &regions, &windows, writes);
    let reads = reads(rng, keys, &truth, &windows);
    let last = windows.iter().map(|window| window.until).max().unwrap_or(SPAN).max(SPAN);
    Plan {
        seed,
        style,
        proof,
        announces_versions,
        tombstones: wishes.tombstones.unwrap_or(rng.f64() < 0.7),
        tags_too: rng.f64() < 0.4,
        bare_304: rng.bool(),
        topics,
        strict: rng.f64() < 0.15,
        ttl,
        audit: wishes.audit.or((rng.f64() < 0.3).then(|| secs(60 + rng.u64(0..120)))),
        regions,
        windows,
        truth,
        reads,
        calm: last + if silent_losses { ttl + secs(140) } else { secs(130) },
    }
}

fn regions(rng: &mut Rng, style: Style, windows: &[Window]) -> Vec<RegionPlan> {
    let has = |fault: Fault, region: usize| windows.iter().any(|w| w.fault == fault && w.region == region);
    let fleet = windows.iter().any(|window| window.fault == Fault::FleetLags);
    let one = |region: usize| {
        let quick = has(Fault::LateWinner, region) || has(Fault::AbsentThenLagging, region);
        let lag = match rng.u8(0..4) {
            _ if quick => ms(1_000 + rng.u64(0..5_000)),
            0 => ms(1 + rng.u64(0..50)),
            1 => ms(50 + rng.u64(0..400)),
            2 => ms(400 + rng.u64(0..2_000)),
            _ => ms(20 + rng.u64(0..200)),
        };
        RegionPlan {
            latency: if quick { ms(1) } else { ms(2 + rng.u64(0..80)) },
            lag,
            cache_lag: if fleet && style == Style::Versions { ms(200 + rng.u64(0..4_000)) } else { Duration::ZERO },
            cache_share: 0.4,
            publishers: 1 + rng.usize(0..2),
        }
    };
    (0..REGIONS).map(one).collect()
}

/// Faults that make a region useless while they last: never two regions at once.
const ILLNESSES: &[Fault] =
    &[Fault::Down, Fault::Refused, Fault::Truncated, Fault::Dripping, Fault::AnnouncerDies, Fault::MassWhileDying];

/// Faults that last from the start to the end.
const LASTING: &[Fault] = &[
    Fault::LateWinner,
    Fault::AbsentThenLagging,
    Fault::FleetLags,
    Fault::RegionEtags,
    Fault::ManyUrls,
    Fault::PublisherSkew,
    Fault::AbsentAgainstPresent,
];

fn suits(fault: Fault, style: Style) -> bool {
    match fault {
        Fault::Backup | Fault::MaxInReply | Fault::MaxInMessage | Fault::FleetLags => style == Style::Versions,
        Fault::OldNotModified => style == Style::Etags,
        Fault::RegionEtags => style != Style::Bare,
        _ => true,
    }
}

fn windows(rng: &mut Rng, wishes: &Wishes, style: Style, keys: usize, topics: usize) -> Vec<Window> {
    let faults: Vec<Fault> = match &wishes.faults {
        Some(faults) => faults.clone(),
        None => {
            let mut pool: Vec<Fault> = Fault::ALL.iter().copied().filter(|fault| suits(*fault, style)).collect();
            rng.shuffle(&mut pool);
            pool.truncate(7 + rng.usize(0..5));
            pool
        }
    };
    let mut windows: Vec<Window> = Vec::new();
    for fault in faults {
        let mut window = Window {
            fault,
            from: between(rng, secs(90), secs(410)),
            until: Duration::ZERO,
            region: rng.usize(0..if on_topic(fault) { topics } else { REGIONS }),
            key: rng.usize(0..keys),
            strength: rng.f64(),
        };
        window.until = window.from + secs(10 + rng.u64(0..35));
        if LASTING.contains(&fault) {
            (window.from, window.until) = (Duration::ZERO, SPAN);
        }
        if fault == Fault::OneLiveOneBehind {
            (window.from, window.until) = (Duration::ZERO, secs(40 + rng.u64(0..60)));
        }
        if fault == Fault::Backup {
            window.until = window.from + secs(20);
        }
        let ill = |other: &Window| ILLNESSES.contains(&other.fault) && other.region != window.region;
        let clash = windows.iter().find(|other| ill(other)).map(|other| other.region);
        if let (true, Some(region)) = (ILLNESSES.contains(&fault), clash) {
            window.region = region;
        }
        windows.push(window);
    }
    windows.retain(|window| !wishes.without.contains(&window.fault));
    windows.sort_by_key(|window| window.from);
    windows
}

/// Faults of a region's topic rather than of the region.
const fn on_topic(fault: Fault) -> bool {
    use Fault::*;
    matches!(
        fault,
        OlderAfterNewer
            | Duplicate
            | HourLate
            | Replayed
            | Lost
            | SubscriptionDeleted
            | SilentlyDead
            | IngestStalled
            | ResubscribeWithHole
            | DeletedAfterRecreation
            | MaxInMessage
            | ApplyFails
            | Undecodable
            | Unrouted
            | PolicyRevoked
            | QueueDeleted
            | OneQueueLost
            | Balancer
            | Reload
            | AnnouncerDies
    )
}

fn writes(rng: &mut Rng, keys: usize, windows: &[Window]) -> Vec<(Duration, usize, Kind, bool)> {
    let zipf = |rng: &mut Rng| (keys as f64 * rng.f64().powi(2)) as usize;
    let kind = |rng: &mut Rng| if rng.f64() < 0.15 { Kind::Deleted } else { Kind::Changed };
    let mut writes: Vec<(Duration, usize, Kind, bool)> = Vec::new();
    for window in windows {
        match window.fault {
            Fault::HotKey => {
                let every = ms(15 + rng.u64(0..60));
                writes.extend((0..25).map(|n| (window.from + every * n, window.key, Kind::Changed, false)));
            }
            Fault::MassWhileDying => {
                writes.extend(
                    (0..keys)
                        .step_by(2)
                        .map(|key| (between(rng, window.from, window.from + secs(1)), key, Kind::Changed, false)),
                );
            }
            // An ordinary change ends the doubt.
            Fault::MaxInMessage | Fault::MaxInReply => {
                writes.push((between(rng, window.from, window.until), window.key, Kind::Changed, false));
                writes.push((between(rng, window.from, window.until), window.key, Kind::Changed, false));
                writes.push((window.until + secs(3), window.key, Kind::Changed, false));
            }
            Fault::Reload => writes.push((window.from, window.key, Kind::Changed, true)),
            Fault::AbsentAgainstPresent | Fault::DeletedAfterRecreation => {
                for n in 0..4 {
                    let at = between(rng, secs(100), secs(400));
                    let then = if n % 2 == 0 { Kind::Deleted } else { Kind::Changed };
                    writes.push((at, window.key, then, false));
                    writes.push((at + ms(50 + rng.u64(0..3_000)), window.key, Kind::Changed, false));
                }
            }
            // What happens while messages are lost is what matters.
            fault if on_topic(fault) || matches!(fault, Fault::Suspended | Fault::Restart | Fault::FleetLags) => {
                for _ in 0..4 {
                    writes.push((
                        between(rng, window.from, window.until.min(secs(470))),
                        zipf(rng),
                        kind(rng),
                        false,
                    ));
                }
            }
            _ => {}
        }
    }
    let more = WRITES.saturating_sub(writes.len()).max(12) + rng.usize(0..5);
    writes.extend((0..more).map(|_| (between(rng, secs(15), secs(460)), zipf(rng), kind(rng), false)));
    writes.sort_by_key(|(at, ..)| *at);
    writes
}

fn truth(
    rng: &mut Rng,
    keys: usize,
    regions: &[RegionPlan],
    windows: &[Window],
    drawn: Vec<(Duration, usize, Kind, bool)>,
) -> Truth {
    let present: Vec<bool> = (0..keys).map(|_| rng.f64() < 0.9).collect();
    let (mut places, mut there) = (vec![0; keys], present.clone());
    let writes: Vec<Write> = drawn
        .into_iter()
        .enumerate()
        .map(|(index, (at, key, kind, silent))| {
            places[key] += 1;
            // What is gone cannot go again: nobody could tell one absence from the next.
            let kind = if there[key] { kind } else { Kind::Changed };
            there[key] = kind == Kind::Changed;
            Write { at, key, kind, version: 1_000 + index as u64, place: places[key], silent }
        })
        .collect();
    let stalled = |region: usize, at: Duration| {
        let stalls = windows.iter().filter(|window| window.region == region && window.holds(at));
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

fn reads(rng: &mut Rng, keys: usize, truth: &Truth, windows: &[Window]) -> Vec<Read> {
    // Some records have a second view, some are shown beside another: each URL of a record costs its own rechecks.
    let view = |rng: &mut Rng, key: usize| match rng.u8(0..5) {
        3 if key.is_multiple_of(3) => 1,
        4 if key.is_multiple_of(4) => 2,
        _ => 0,
    };
    let mut reads: Vec<Read> = Vec::new();
    // Around a change is where something can go wrong: before it arrives, while it arrives, just after.
    for (index, write) in truth.writes.iter().enumerate() {
        for ingests in &truth.ingests {
            let around = ingests[index].saturating_sub(ms(rng.u64(0..120)));
            reads.extend((0..2).map(|n| Read {
                at: around + ms(rng.u64(0..250)) * n,
                key: write.key,
                view: view(rng, write.key),
            }));
        }
    }
    // And at the end of a pause, where readers have waited.
    for window in windows.iter().filter(|window| window.fault == Fault::Suspended) {
        reads.extend((0..keys).map(|key| Read { at: between(rng, window.from, window.until), key, view: 0 }));
    }
    let more = READS.saturating_sub(reads.len());
    reads.extend((0..more).map(|_| {
        let key = (keys as f64 * rng.f64().powf(1.5)) as usize;
        Read { at: between(rng, secs(3), SPAN), key, view: view(rng, key) }
    }));
    reads.sort_by_key(|read| read.at);
    reads
}
