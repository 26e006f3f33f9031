//! Owns what one seed stands for: the service, its regions, the writes, the reads and the faults.
//!
//! Before it: a seed, and what a profile insists on. After it: [`super::world`] carries the plan
//! out. Invariant: the same seed and the same wishes draw the same plan; at no time is every region
//! ill.

use std::time::Duration;

use fastrand::Rng;

use super::faults::Fault;
use super::truth::Truth;

mod draw;

pub(crate) use draw::{DROPPED, draw, suit};

/// Duration of writes and faults; the calm after it, in which everything must come right, lasts
/// eleven minutes and more in all.
pub(crate) const SPAN: Duration = Duration::from_secs(480);
/// Regions of the service.
pub(crate) const REGIONS: usize = 3;
/// Time after a fault in which its consequences are excused from the cap on labels.
pub(crate) const RECOVERY: Duration = Duration::from_secs(75);

/// Validators that replies carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// A version of each record.
    Versions,
    /// An ETag.
    Etags,
    /// Nothing.
    Bare,
}

/// Proof that topics give of being alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Numbered announcements, heartbeats with `ingested_through`.
    Watermark,
    /// Heartbeats of the path only.
    Path,
    /// None: polls and attributes.
    Weak,
}

/// Requirements of a profile; the seed draws the rest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) style: Option<Style>,
    pub(crate) proof: Option<Proof>,
    /// True if announcements state versions.
    pub(crate) announces_versions: Option<bool>,
    /// True if 404s of deleted records state versions.
    pub(crate) tombstones: Option<bool>,
    /// Number of regions with a topic.
    pub(crate) topics: Option<usize>,
    /// Exactly these faults.
    pub(crate) faults: Option<Vec<Fault>>,
    /// None of these, though they were drawn: to see whether a failure needs them.
    pub(crate) without: Vec<Fault>,
    /// The route's TTL.
    pub(crate) ttl: Option<Duration>,
    /// Audit period of entries.
    pub(crate) audit: Option<Duration>,
}

/// A fault's time and place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// What.
    pub(crate) fault: Fault,
    /// From when.
    pub(crate) from: Duration,
    /// Until when.
    pub(crate) until: Duration,
    /// Where.
    pub(crate) region: usize,
    /// At every region alike.
    pub(crate) everywhere: bool,
    /// Which record, for faults of one.
    pub(crate) key: usize,
    /// Between 0 and 1: a share, or how bad.
    pub(crate) strength: f64,
}

impl Window {
    /// True if it covers `at`.
    pub(crate) fn holds(&self, at: Duration) -> bool {
        self.from <= at && at < self.until
    }

    /// A number to decide by, of a thousand.
    pub(crate) const fn lot(&self) -> u64 {
        (self.strength * 1_000.0) as u64
    }

    /// True if it concerns `region`.
    pub(crate) const fn is_at(&self, region: usize) -> bool {
        self.everywhere || self.region == region
    }
}

/// Cache directives of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Nothing.
    Nothing,
    /// `no-cache`: he has just changed it.
    NoCache,
    /// `max-age`, in seconds.
    MaxAge(u64),
    /// `min-fresh`, in seconds.
    MinFresh(u64),
    /// A part of it: a range.
    Part,
}

/// One reader's request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    /// When.
    pub(crate) at: Duration,
    /// Which record.
    pub(crate) key: usize,
    /// Through which URL: 0 and 1 are its views, 2 a pair with the next record.
    pub(crate) view: u8,
    /// Cache directives of the request.
    pub(crate) wish: Wish,
}

impl Read {
    /// A reader who asks nothing of caches.
    pub(crate) const fn new(at: Duration, key: usize, view: u8) -> Self {
        Self { at, key, view, wish: Wish::Nothing }
    }
}

/// A write that a caller makes through the sidecar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put {
    /// Which write.
    pub(crate) write: usize,
    /// Its reply states the version.
    pub(crate) states: bool,
}

/// A region of the service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionPlan {
    /// Latency of a reply.
    pub(crate) latency: Duration,
    /// Lag of ingest behind the source.
    pub(crate) lag: Duration,
    /// Lag of some of its nodes behind its ingest.
    pub(crate) cache_lag: Duration,
    /// The share of replies from such nodes.
    pub(crate) cache_share: f64,
    /// Announcing processes.
    pub(crate) publishers: usize,
}

/// Plan of one seed.
pub(crate) struct Plan {
    /// The seed.
    pub(crate) seed: u64,
    pub(crate) style: Style,
    pub(crate) proof: Proof,
    /// Announcements state versions.
    pub(crate) announces_versions: bool,
    /// 404s of deleted records state versions.
    pub(crate) tombstones: bool,
    /// Replies that state versions carry ETags too.
    pub(crate) tags_too: bool,
    /// 304s state no version.
    pub(crate) bare_304: bool,
    /// Regions that have a topic: the first so many.
    pub(crate) topics: usize,
    /// Refuse rather than serve below the floor.
    pub(crate) strict: bool,
    /// The route's TTL.
    pub(crate) ttl: Duration,
    /// Audit period of entries, if they are audited.
    pub(crate) audit: Option<Duration>,
    /// The regions.
    pub(crate) regions: Vec<RegionPlan>,
    /// Faults, in order of time.
    pub(crate) windows: Vec<Window>,
    /// The truth.
    pub(crate) truth: Truth,
    /// Reads, in order of time.
    pub(crate) reads: Vec<Read>,
    /// Writes that callers make through the sidecar.
    pub(crate) puts: Vec<Put>,
    /// The last number of a new publisher before anybody received one, where one begins.
    pub(crate) unheard: Option<u64>,
    /// Time at which all has come to rest and everything is read once more.
    pub(crate) calm: Duration,
}

/// A uniform draw between two times.
pub(crate) fn between(rng: &mut Rng, from: Duration, until: Duration) -> Duration {
    from + until.saturating_sub(from).mul_f64(rng.f64())
}

impl Plan {
    /// The window of a fault that a seed draws once at most.
    pub(crate) fn window(&self, fault: Fault) -> Option<&Window> {
        self.windows.iter().find(|window| window.fault == fault)
    }

    /// True if a record's replies are too large to hold.
    pub(crate) fn is_large(&self, key: usize) -> bool {
        self.window(Fault::TooLarge).is_some_and(|window| key == window.key || key == window.key / 2)
    }

    /// True if routes have a schema, and callers may ask for some fields: in every third pair of
    /// seeds. The others hold that routes without are as ever, and cost less.
    pub(crate) const fn has_shapes(&self) -> bool {
        (self.seed / 2).is_multiple_of(3)
    }

    /// Says whether a region of another environment answers, or what it answered has not been forgotten
    /// for long enough that every reader has come after that.
    pub(crate) fn is_elsewhere(&self, at: Duration) -> bool {
        let forgotten = PUT_RIGHT + Duration::from_secs(5);
        self.window(Fault::Elsewhere).is_some_and(|window| window.from <= at && at < window.until + forgotten)
    }

    /// Returns whether `region` announces this write's key in another letter case than readers ask for
    /// it: some keys, or all.
    pub(crate) fn is_in_other_case(&self, region: usize, write: usize, at: Duration) -> bool {
        self.is_on(Fault::LetterCase, region, at) && self.is_key_in_other_case(self.truth.writes[write].key)
    }

    /// True if this key is one of those.
    pub(crate) fn is_key_in_other_case(&self, key: usize) -> bool {
        self.window(Fault::LetterCase)
            .is_some_and(|window| window.strength < 0.3 || (key + window.key).is_multiple_of(2))
    }

    /// True if `fault` is on at `region`.
    pub(crate) fn is_on(&self, fault: Fault, region: usize, at: Duration) -> bool {
        self.windows.iter().any(|window| window.fault == fault && window.is_at(region) && window.holds(at))
    }
}

/// Faults that lose messages.
pub(crate) const fn loses(fault: Fault) -> bool {
    use Fault::*;
    matches!(
        fault,
        Lost | Balancer
            | SilentlyDead
            | PolicyRevoked
            | SubscriptionDeleted
            | QueueDeleted
            | OneQueueLost
            | Undecodable
            | Suspended
            | Restart
            | OneLiveOneBehind
            | TableOverflow
            | FirstLost
            | Unverifiable
            | Mistyped
            | Astray
            | LetterCase
    )
}

/// Time from putting a region of another environment right to an operator's RESET.
pub(crate) const PUT_RIGHT: Duration = Duration::from_secs(5);

/// Those that lose them without a trace, whatever proves that messages arrive.
pub(crate) const fn strays(fault: Fault) -> bool {
    matches!(fault, Fault::Mistyped | Fault::Astray | Fault::LetterCase)
}

/// Those that are drawn by dice of their own, so that everything else of a seed stays the same plan.
const fn is_apart(fault: Fault) -> bool {
    strays(fault) || matches!(fault, Fault::LateReset | Fault::LostAnswer | Fault::Elsewhere | Fault::SameVersion)
}
