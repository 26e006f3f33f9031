//! Owns the plan of a run: which fault when, for how long, to whom. Pure: a seed and a length make
//! the same plan anywhere.
//!
//! Before it: the arguments. After it: [`super::run`] carries the plan out. Invariant: from five
//! minutes on every kind comes at least three times; no more than two of the three regions are ill
//! for readers at any time; each cycle ends quiet, so that what happens outside fault windows can
//! be measured.

use std::ops::Range;

use fastrand::Rng;

/// Regions of a run.
pub(crate) const REGIONS: usize = 3;
/// Least length of a cycle, and its quiet end, milliseconds.
const CYCLE: u64 = 150_000;
const QUIET: u64 = 45_000;
/// Aftermath of a fault, milliseconds. Rechecks of what could not be confirmed double their waits,
/// so a bad time leaves traces for about as long again.
pub(crate) const RECOVERY: u64 = 25_000;

/// Kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// SIGKILL, and started again.
    RegionKill,
    /// SIGSTOP, then SIGCONT.
    RegionStop,
    /// Bytes between the sidecar and a region go nowhere until it is over.
    RegionBlackhole,
    /// A region's bytes come late.
    RegionDelay,
    /// A region's bytes come one by one.
    RegionDrip,
    /// Connections to a region are reset, old and new.
    RegionCut,
    /// A region cannot publish, and publishes late what it could not.
    PublishBlackhole,
    /// A region publishes slowly.
    PublishDelay,
    /// A share of a region's announcements is accepted and never delivered.
    Drop,
    /// A region ingests nothing, while its heartbeats go on.
    IngestStall,
    /// No byte passes between the sidecar and SNS or SQS, in all regions.
    PollBlackhole,
    /// The sidecar's queue in a region is deleted.
    QueueDelete,
    /// A region's topic is deleted with its subscriptions, and made again.
    TopicDelete,
    /// SIGKILL of the sidecar, and started again.
    SidecarKill,
    /// SIGSTOP of the sidecar, then SIGCONT.
    SidecarStop,
}

/// Kinds that share a lane do not overlap; lanes do.
struct Lane {
    kinds: &'static [Kind],
    per_cycle: u64,
    /// Share of its slot that a fault takes, percent.
    share: Range<u64>,
}

const LANES: [Lane; 4] = {
    use Kind::*;
    [
        Lane {
            kinds: &[RegionKill, RegionStop, RegionBlackhole, RegionDelay, RegionDrip, RegionCut],
            per_cycle: 9,
            share: 50..85,
        },
        Lane { kinds: &[PublishBlackhole, PublishDelay, Drop, IngestStall], per_cycle: 6, share: 50..90 },
        Lane { kinds: &[PollBlackhole, QueueDelete, TopicDelete], per_cycle: 5, share: 30..95 },
        Lane { kinds: &[SidecarKill, SidecarStop], per_cycle: 3, share: 10..75 },
    ]
};

/// One fault. Times are milliseconds, `at` since the plan's begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) at: u64,
    pub(crate) lasts: u64,
    /// Which regions it meets; none for the sidecar's own.
    pub(crate) regions: Vec<usize>,
    /// Percent dropped, or milliseconds of delay.
    pub(crate) strength: u64,
}

impl Kind {
    /// True if readers are worse off with a region while it lasts.
    fn is_seen_by_readers(self) -> bool {
        LANES[0].kinds.contains(&self)
    }

    /// All of them.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        LANES.iter().flat_map(|lane| lane.kinds.iter().copied())
    }
}

/// The plan of `minutes` minutes.
pub(crate) fn plan(seed: u64, minutes: u64) -> Vec<Fault> {
    let mut rng = Rng::with_seed(seed);
    let total = minutes.max(1) * 60_000;
    let cycles = (total / CYCLE).max(1);
    let cycle = total / cycles;
    let mut faults = Vec::new();
    for lane in &LANES {
        let slots = cycles * lane.per_cycle;
        let deck = deck(lane.kinds, slots as usize, &mut rng);
        let slot = (cycle - QUIET) / lane.per_cycle;
        for (number, kind) in (0..slots).zip(deck) {
            let begin = number / lane.per_cycle * cycle + number % lane.per_cycle * slot;
            let lasts = match kind {
                // A killed sidecar is not left lying: who supervises it starts it again.
                Kind::SidecarKill => rng.u64(200..2_000),
                // Long enough for every lease to run out.
                Kind::PollBlackhole => slot * 95 / 100,
                _ => slot * rng.u64(lane.share.clone()) / 100,
            };
            let at = begin + rng.u64(0..=(slot - lasts) / 2);
            faults.push(fault(kind, at, lasts, &mut rng));
        }
    }
    faults.sort_by_key(|fault| fault.at);
    faults
}

fn fault(kind: Kind, at: u64, lasts: u64, rng: &mut Rng) -> Fault {
    let mut regions: Vec<usize> = (0..REGIONS).collect();
    rng.shuffle(&mut regions);
    regions.truncate(match kind {
        Kind::SidecarKill | Kind::SidecarStop | Kind::PollBlackhole => 0,
        _ if kind.is_seen_by_readers() && rng.u8(0..3) == 0 => 2,
        _ => 1,
    });
    let strength = match kind {
        Kind::Drop => rng.u64(20..60),
        Kind::PublishDelay => rng.u64(200..1_500),
        _ => rng.u64(100..1_200),
    };
    Fault { kind, at, lasts, regions, strength }
}

/// Every kind as often as any other, or once less, in any order.
fn deck(kinds: &[Kind], slots: usize, rng: &mut Rng) -> Vec<Kind> {
    let mut first = kinds.to_vec();
    rng.shuffle(&mut first);
    let mut deck: Vec<Kind> = first.into_iter().cycle().take(slots).collect();
    rng.shuffle(&mut deck);
    deck
}

/// Checks the promises of [`plan`] for the seed at hand; a broken one is a defect of the script.
pub(crate) fn proves_itself(seed: u64, minutes: u64) {
    let faults = plan(seed, minutes);
    assert_eq!(faults, plan(seed, minutes), "a seed makes one plan");
    for kind in Kind::all().filter(|_| minutes >= 5) {
        let count = faults.iter().filter(|fault| fault.kind == kind).count();
        assert!(count >= 3, "{kind:?} comes {count} times");
    }
    let seen: Vec<&Fault> = faults.iter().filter(|fault| fault.kind.is_seen_by_readers()).collect();
    for one in &seen {
        let together = seen.iter().filter(|other| other.at <= one.at && one.at < other.at + other.lasts);
        let ill: std::collections::BTreeSet<usize> =
            together.flat_map(|fault| fault.regions.iter().copied()).collect();
        assert!(ill.len() < REGIONS, "a region is left to readers at {}", one.at);
    }
    assert!(faults.iter().all(|fault| fault.at + fault.lasts <= minutes * 60_000));
}
