//! The test of the tester: each guard, switched off, must be caught by the faults that it protects
//! from, on a seed that is clean with the guard on.

use std::ops::Range;

use nearside::switch::{Guard, off};

use super::campaign;
use super::faults::Fault;
use super::plan::{Slowness, Wishes};
use super::run::simulate;

/// Numbers of seeds after which a guard counts as missed, of those that are run at first.
const ROUNDS: u64 = 5;

/// A guard that was switched off.
pub(crate) struct Caught {
    pub(crate) guard: Guard,
    /// Number of seeds that exposed it.
    pub(crate) count: usize,
    /// The first, and what it showed.
    pub(crate) first: Option<(u64, String)>,
}

/// The faults under which a guard alone protects.
fn wishes(guard: Guard) -> Wishes {
    use Fault::*;
    let faults: &[Fault] = match guard {
        Guard::VersionInCondition => &[Slow, Killed],
        Guard::VersionFromCalendar => &[LostRecords],
        Guard::HistoryWithRecord | Guard::RememberedWithRecord => &[KilledAfterCall, LostAnswers],
        Guard::ReferencesFirst => &[KilledAfterCall, Resharded],
        Guard::NoteInCondition => &[Resharded, NewDefinition],
        Guard::DefinitionFirst => &[NewDefinition, Killed],
        Guard::ViewVersionFromCalendar => &[LostMapping],
        Guard::CheckpointAfterApply => &[Killed, KilledAfterCall, TablesFail],
        Guard::CheckpointFenced => &[Paused, Slow, Unruly],
        Guard::ThroughAfterApply => &[Slow, TablesFail],
        Guard::ThroughIsLeast => &[Resharded, Slow, TablesFail],
        Guard::ChildrenHoldTime => &[Resharded],
        Guard::PutIfNewer | Guard::PutBeforeAnnounce | Guard::AnnounceBeforeCheckpoint => &[Unruly, Slow],
        Guard::AnnounceRefused => &[KilledAfterCall, Killed],
        Guard::RemovalIsNoDeletion => &[Removed],
        Guard::PositionBeforeScan => &[LostRegion],
        Guard::ReloadAfterScan | Guard::ScanAfterTrim => &[Trimmed],
        Guard::GrantsConfirmed | Guard::ViewSweep | Guard::RegionSweep => &[Skips],
        Guard::FloorBeforeStore => &[DeliveredLate],
        Guard::FollowersCompare | Guard::InsistingReadsAnew => &[Slow],
        Guard::StoredIsNoAnswer => &[TablesFail, DeliveredLate],
        Guard::CompleteFirst => &[LostRegion, Killed],
        // The simulation of the protocol does without them (tests/sim/rules.rs).
        Guard::DerivedOfItsBytes | Guard::ShapeOfItsIdentity | Guard::BoundOfItsPart => &[],
    };
    let is_quiet = matches!(guard, Guard::AnnounceRefused | Guard::CheckpointAfterApply);
    let is_slow = matches!(
        guard,
        Guard::ReferencesFirst
            | Guard::NoteInCondition
            | Guard::ChildrenHoldTime
            | Guard::PositionBeforeScan
            | Guard::FollowersCompare
            | Guard::InsistingReadsAnew
    );
    let slow = match guard {
        Guard::CompleteFirst => Slowness::AtHome,
        _ if is_slow => Slowness::Everywhere,
        _ => Slowness::Nowhere,
    };
    Wishes { faults: Some(faults.to_vec()), is_unswept: true, is_quiet, slow }
}

/// Switches each guard off, or only the one that is asked for.
pub(crate) fn catch_all(seeds: u64, threads: usize, only: Option<&str>) -> Vec<Caught> {
    Guard::ALL
        .into_iter()
        .filter(|guard| only.is_none_or(|only| format!("{guard:?}") == only))
        .map(|guard| catch(guard, seeds, threads))
        .collect()
}

/// One guard, on more seeds where the first do not expose it: what it protects from is rare.
fn catch(guard: Guard, seeds: u64, threads: usize) -> Caught {
    let mut rounds = (0..ROUNDS).map(|round| catch_on(guard, round * seeds..(round + 1) * seeds, threads));
    let missed = Caught { guard, count: 0, first: None };
    rounds.find(|caught| caught.first.is_some()).unwrap_or(missed)
}

fn catch_on(guard: Guard, seeds: Range<u64>, threads: usize) -> Caught {
    let wishes = wishes(guard);
    let without = campaign::run(seeds, threads, &wishes, || off(guard));
    let mut found = without.violations.into_iter();
    let count = found.len();
    let clean = found.find(|(seed, _)| simulate(*seed, &wishes, false).violation.is_none());
    let first = clean.map(|(seed, violation)| (seed, format!("{}: {}", violation.property, violation.text)));
    Caught { guard, count, first }
}
