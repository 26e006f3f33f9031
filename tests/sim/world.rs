//! Owns the world around a sidecar: the regions that answer, and what has been noticed.
//!
//! Before it: a [`Plan`]. After it: [`super::run`] moves time, [`super::check`] judges. It is the
//! [`Origin`] of the sidecar under test. Each reply says in a header of its own what it really
//! shows, so that the checker need not trust what it checks. Invariant: the same plan and the same
//! requests at the same times get the same replies.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use http::HeaderName;
use nearside::http::exchange::{Failure, Outgoing};
use nearside::model::time::{Clock, Moment, Wall};

use super::faults::Fault;
use super::plan::{Plan, REGIONS, Window};

mod gathered;
mod reply;

pub(crate) use reply::Regions;

/// Header of replies with `n=<race>;r=<region>;q=<ns>;g=<ns>;<key>=<position>,...`: their race,
/// their region, the time of their request, and the time at which their content was current.
pub(crate) const SHOWS: HeaderName = HeaderName::from_static("x-sim");

/// The calendar when a simulation starts.
pub(crate) const EPOCH: Wall = Wall::from_millis(1_800_000_000_000);

/// One line of the story.
pub(crate) struct Line {
    /// When.
    pub(crate) at: Duration,
    /// Records concerned; empty for all.
    pub(crate) keys: Vec<usize>,
    /// Description of the event.
    pub(crate) text: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:10.3}  {}", self.at.as_secs_f64(), self.text)
    }
}

/// A world and its time.
pub(crate) struct World {
    /// Plan that it carries out.
    pub(crate) plan: Plan,
    /// The sidecar's clock; the world's own calendar is not stepped with it.
    pub(crate) clock: Clock,
    start: Moment,
    noticed: Mutex<Noticed>,
}

/// Observations of the run.
pub(crate) struct Noticed {
    /// Draws of what is not planned.
    pub(crate) rng: Rng,
    /// Faults that took effect.
    pub(crate) fired: BTreeSet<Fault>,
    /// Attempts, per region, each with its time.
    pub(crate) attempts: [Vec<Duration>; REGIONS],
    /// The story, when somebody wants to read it.
    pub(crate) story: Option<Vec<Line>>,
    /// Number of races, and the latest one's request.
    race: (u64, Option<Arc<Outgoing>>),
    /// Per path and reader, the latest race of which attempts travel with those of others.
    gathered: BTreeMap<(String, String), Gathered>,
    /// Per path, the latest replies.
    pub(crate) replies: BTreeMap<String, VecDeque<NotedReply>>,
    /// Writes whose answer was lost: by the number of the put, the region that they were sent to.
    pub(crate) lost: BTreeMap<usize, usize>,
    /// Copies at intermediaries: per region and path, since when, and the reply.
    held: BTreeMap<(usize, String), (Duration, Shown)>,
}

/// A race of which attempts travel with those of others.
#[derive(Default)]
struct Gathered {
    race: u64,
    /// Time of its first attempt.
    first: Duration,
    /// Which regions were asked.
    asked: [bool; REGIONS],
}

/// Content of a reply: each record with its position.
pub(crate) type Shown = Vec<(usize, usize)>;

/// A reply that a region gave.
pub(crate) struct NotedReply {
    /// Which.
    pub(crate) region: usize,
    /// Number of its race.
    pub(crate) race: u64,
    /// Arrival of the reply.
    pub(crate) done: Duration,
    /// Content of the reply.
    pub(crate) shown: Shown,
}

/// Fate of a request.
enum Fate {
    Fails(Failure),
    Refused,
    Answered { age: Option<Duration>, shown: Shown },
}

impl World {
    /// The world of `plan`, at its start.
    pub(crate) fn new(plan: Plan, story: bool) -> Arc<Self> {
        let clock = Clock::simulated(EPOCH);
        let noticed = Noticed {
            rng: Rng::with_seed(plan.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            fired: BTreeSet::new(),
            attempts: Default::default(),
            story: story.then(Vec::new),
            race: (0, None),
            gathered: BTreeMap::new(),
            replies: BTreeMap::new(),
            lost: BTreeMap::new(),
            held: BTreeMap::new(),
        };
        let start = clock.now();
        Arc::new(Self { plan, clock, start, noticed: Mutex::new(noticed) })
    }

    /// Since the start, pauses included.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.now() - self.start
    }

    /// The true calendar, whatever the sidecar's clock says.
    pub(crate) fn calendar(&self, at: Duration) -> Wall {
        EPOCH + at
    }

    pub(crate) fn noticed(&self) -> MutexGuard<'_, Noticed> {
        self.noticed.lock().expect("no panic while it was held")
    }

    /// A fault took effect.
    pub(crate) fn fired(&self, fault: Fault) {
        self.noticed().fired.insert(fault);
    }

    /// Tells the story on, if somebody listens.
    pub(crate) fn tell(&self, keys: &[usize], text: impl FnOnce() -> String) {
        if let Some(story) = &mut self.noticed().story {
            story.push(Line { at: self.elapsed(), keys: keys.to_vec(), text: text() });
        }
    }

    /// True if `fault` is on at `region` at that time.
    pub(crate) fn is_on(&self, fault: Fault, region: usize, at: Duration) -> bool {
        self.plan.is_on(fault, region, at)
    }

    /// True if a region can answer.
    pub(crate) fn is_well(&self, region: usize, at: Duration) -> bool {
        use Fault::{Dripping, Refused, Truncated};
        !self.is_down(region, at)
            && ![Refused, Truncated, Dripping].iter().any(|fault| self.is_on(*fault, region, at))
    }

    /// Down, or its process died.
    fn is_down(&self, region: usize, at: Duration) -> bool {
        let mut windows = self.plan.windows.iter().filter(|window| window.is_at(region) && window.holds(at));
        windows.any(|window| match window.fault {
            Fault::Down | Fault::MassWhileDying => true,
            Fault::AnnouncerDies => self.died_at(region, window).is_some_and(|died| died <= at),
            _ => false,
        })
    }

    /// A moment after its first announcement in the window.
    fn died_at(&self, region: usize, window: &Window) -> Option<Duration> {
        let ingests = &self.plan.truth.ingests[region];
        let first = ingests.get(ingests.partition_point(|at| *at < window.from))?;
        Some(*first + Duration::from_millis(30))
    }

    /// The records that a path shows.
    pub(crate) fn records(&self, path: &str) -> Vec<usize> {
        let mut parts = path.split('/').skip(2);
        match parts.next() {
            Some("pairs") => parts.filter_map(key_of).collect(),
            _ => parts.next().and_then(key_of).into_iter().collect(),
        }
    }

    fn fate(&self, region: usize, path: &str, keys: &[usize], no_cache: bool, sampled: Duration) -> Fate {
        if self.is_down(region, sampled) {
            let died = self.plan.windows.iter().filter(|window| window.is_at(region) && window.holds(sampled));
            died.for_each(|window| self.fired(window.fault));
            return Fate::Fails(Failure::Connect);
        }
        for (fault, failure) in [
            (Fault::Truncated, Failure::Truncated),
            (Fault::Dripping, Failure::Deadline { within: Duration::from_secs(2), head: true }),
        ] {
            if self.is_on(fault, region, sampled) {
                self.fired(fault);
                return Fate::Fails(failure);
            }
        }
        if self.is_on(Fault::Refused, region, sampled) {
            self.fired(Fault::Refused);
            return Fate::Refused;
        }
        // Some obey `no-cache`, some do not; all say how old the reply is.
        let asked_end_to_end = no_cache && !self.is_stubborn();
        if let Some((age, shown)) = self.aged(region, path, keys, sampled).filter(|_| !asked_end_to_end) {
            return Fate::Answered { age: Some(age), shown };
        }
        let held = self.is_on(Fault::IntermediaryAge, region, sampled);
        let place = held.then(|| (region, path.to_owned()));
        let kept = place.as_ref().and_then(|place| self.noticed().held.get(place).cloned());
        if let Some((since, shown)) = kept {
            let age = sampled.saturating_sub(since);
            if age < Duration::from_secs(60) && age >= Duration::from_secs(1) && !asked_end_to_end {
                self.fired(Fault::IntermediaryAge);
                return Fate::Answered { age: Some(age), shown };
            }
        }
        let shown = self.sampled(region, keys, sampled);
        if let Some(place) = place {
            self.noticed().held.insert(place, (sampled, shown.clone()));
        }
        Fate::Answered { age: None, shown }
    }

    /// True if intermediaries answer from their copies whatever is asked of them.
    pub(crate) const fn is_stubborn(&self) -> bool {
        self.plan.seed.is_multiple_of(2)
    }

    /// Age and content of a copy at an intermediary that takes one of everything every few minutes,
    /// read or not.
    fn aged(&self, region: usize, path: &str, keys: &[usize], at: Duration) -> Option<(Duration, Shown)> {
        let window = self.plan.windows.iter().find(|window| {
            matches!(window.fault, Fault::AgedIntermediary | Fault::ReloadAll)
                && window.is_at(region)
                && window.holds(at)
        })?;
        let period = Duration::from_secs(330) + Duration::from_secs(90).mul_f64(window.strength);
        let place = path.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let place = if window.everywhere { place } else { place.wrapping_add(region as u64 * 7_919) };
        let phase = period.mul_f64((place % 1_000) as f64 / 1_000.0);
        let age = Duration::from_nanos(((at + phase).as_nanos() % period.as_nanos()) as u64);
        if age < Duration::from_secs(1) {
            return None;
        }
        if window.fault == Fault::AgedIntermediary {
            self.fired(Fault::AgedIntermediary);
        }
        // Nothing changed before the start.
        let since = at.saturating_sub(age);
        let shown = keys.iter().map(|key| (*key, self.plan.truth.position_at(region, *key, since))).collect();
        Some((age, shown))
    }

    /// State of these records at one of the region's nodes.
    fn sampled(&self, region: usize, keys: &[usize], at: Duration) -> Shown {
        let (plan, truth) = (&self.plan.regions[region], &self.plan.truth);
        let lags = !plan.cache_lag.is_zero() && self.noticed().rng.f64() < plan.cache_share;
        let seen = if lags { at.saturating_sub(plan.cache_lag) } else { at };
        let shown: Shown = keys.iter().map(|key| (*key, truth.position_at(region, *key, seen))).collect();
        for (key, position) in &shown {
            if *position != truth.position_at(region, *key, at) {
                self.fired(Fault::FleetLags);
            }
            let newest = truth.newest(*key, at);
            if truth.is_present(*key, *position) != truth.is_present(*key, newest) {
                self.fired(Fault::AbsentAgainstPresent);
            }
            if self.is_on(Fault::Backup, region, at) && *position < newest {
                self.fired(Fault::Backup);
            }
        }
        let same_version = shown.iter().any(|(key, position)| {
            let version = truth.version(*key, *position);
            *position > 0 && version > 0 && version == truth.version(*key, *position - 1)
        });
        if same_version {
            self.fired(Fault::SameVersion);
        }
        if shown.len() > 1 {
            self.fired(Fault::ManyUrls);
        }
        shown
    }

    fn latency(&self, region: usize, at: Duration) -> Duration {
        let plan = &self.plan.regions[region];
        let mut noticed = self.noticed();
        let rng = &mut noticed.rng;
        let tail = if rng.f64() < 0.02 { 8.0 } else { 1.0 };
        let usual = plan.latency.mul_f64((0.7 + 0.6 * rng.f64()) * tail);
        if !self.is_on(Fault::Slow, region, at) {
            return usual;
        }
        noticed.fired.insert(Fault::Slow);
        usual + Duration::from_millis(300 + noticed.rng.u64(0..1_200))
    }
}

/// Key of a record by its name in a path.
fn key_of(name: &str) -> Option<usize> {
    name.strip_prefix('k')?.parse().ok()
}
