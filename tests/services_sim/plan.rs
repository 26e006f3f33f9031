//! Plan of a seed: its faults, with times and places.

use std::collections::BTreeSet;
use std::time::Duration;

use super::faults::Fault;
use super::place::Place;

/// Requirements of a seed; `None` is drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) faults: Option<Vec<Fault>>,
    /// Sweeps that are too slow to hide anything, unless a fault needs them.
    pub(crate) is_unswept: bool,
    /// Few writes: what was lost is not soon covered by something newer.
    pub(crate) is_quiet: bool,
    /// Places that are slow all the time.
    pub(crate) slow: Slowness,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Slowness {
    #[default]
    Nowhere,
    AtHome,
    Everywhere,
}

/// A fault at a place for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) fault: Fault,
    pub(crate) place: Place,
    pub(crate) from: Duration,
    pub(crate) until: Duration,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) regions: usize,
    pub(crate) faults: BTreeSet<Fault>,
    pub(crate) windows: Vec<Window>,
    /// End of the last fault and of the last writer.
    pub(crate) calm_at: Duration,
    /// Between two writes of a writer, on average.
    pub(crate) write_every: Duration,
    pub(crate) writers: usize,
    /// Between two requests of a sidecar, on average.
    pub(crate) read_every: Duration,
    pub(crate) readers: usize,
    /// Rate of jobs and of the views' sweep.
    pub(crate) views_per_second: u32,
    /// Period of the views' sweep.
    pub(crate) sweep_period: Duration,
    /// Interval of the regions' sweep between two buckets.
    pub(crate) sweep_every: Duration,
}

/// Difference between calendars that differ.
pub(crate) const SKEW: Duration = seconds(10);

pub(crate) fn between(from: Duration, until: Duration) -> Duration {
    Duration::from_nanos(fastrand::u64(from.as_nanos() as u64..=until.as_nanos() as u64))
}

pub(crate) const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Draws a plan, which is a function of the seed.
pub(crate) fn draw(wishes: &Wishes) -> Plan {
    let regions = fastrand::usize(2..=3);
    let calm_at = between(seconds(50), seconds(120));
    let likely = [0.1, 0.25, 0.5][fastrand::usize(..3)];
    let mut faults: BTreeSet<Fault> = wishes.faults.clone().map_or_else(
        || Fault::ALL.into_iter().filter(|_| fastrand::f64() < likely).collect(),
        |faults| faults.into_iter().collect(),
    );
    if faults.contains(&Fault::LostMapping) {
        // Versions then come from the calendar alone, so calendars have to agree.
        faults.remove(&Fault::Skewed);
    }
    let mut windows: Vec<Window> = faults.iter().flat_map(|fault| windows(*fault, regions, calm_at)).collect();
    if wishes.slow != Slowness::Nowhere {
        let elsewhere = if wishes.slow == Slowness::Everywhere { regions } else { 0 };
        let everywhere = (0..elsewhere).map(Place::Region).chain([Place::Home]);
        windows.extend(everywhere.map(|place| Window {
            fault: Fault::Slow,
            place,
            from: seconds(5),
            until: calm_at,
        }));
    }
    let needs_sweep = faults.iter().any(|fault| fault.needs_sweep());
    let is_swept = needs_sweep || (fastrand::bool() && !wishes.is_unswept);
    let write_every = if wishes.is_quiet || fastrand::u8(..3) == 0 {
        between(seconds(3), seconds(10))
    } else {
        between(Duration::from_millis(200), seconds(3))
    };
    Plan {
        regions,
        faults,
        windows,
        calm_at,
        write_every,
        writers: fastrand::usize(1..=4),
        read_every: between(Duration::from_millis(50), seconds(1)),
        readers: fastrand::usize(1..=4),
        // A slow sweep hides nothing of what the feed should have brought.
        views_per_second: if is_swept { 5_000 } else { 2 },
        sweep_period: seconds(if is_swept { 30 } else { 3_600 }),
        sweep_every: if is_swept { Duration::from_millis(2) } else { seconds(5) },
    }
}

/// Once, at the window's beginning, or as long as it lasts.
fn windows(fault: Fault, regions: usize, calm_at: Duration) -> Vec<Window> {
    let (most, longest) = match fault {
        Fault::TablesFail => (6, 3),
        Fault::Paused => (4, 40),
        Fault::FeedStops => (3, 30),
        // Longer than it takes to subscribe anew.
        Fault::NothingDelivered => (2, 100),
        Fault::Trimmed => (2, 25),
        Fault::LostMapping | Fault::LostRecords | Fault::NewDefinition => (1, 1),
        Fault::Resharded => (1, 20),
        Fault::LostRegion | Fault::LostContexts | Fault::LostViews => (2, 1),
        Fault::Removed | Fault::StolenLease => (4, 1),
        Fault::Killed | Fault::KilledAfterCall | Fault::Skewed => return Vec::new(),
        _ => (4, 40),
    };
    (0..fastrand::usize(1..=most))
        .map(|_| {
            let from = between(seconds(5), calm_at - seconds(2));
            let until = (from + between(Duration::from_millis(500), seconds(longest))).min(calm_at);
            let place = match fastrand::usize(..=regions) {
                region if region < regions => Place::Region(region),
                _ => Place::Home,
            };
            Window { fault, place, from, until }
        })
        .collect()
}
