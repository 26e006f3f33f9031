//! Owns what is known for certain while a seed runs: what was told, what was served, what is proven.
//!
//! Before it: deliveries and answers, as they happen. After it: [`super`] compares answers with it. Invariant: nothing in it
//! comes from the sidecar's own account.

use std::time::Duration;

use super::super::faults::Fault;
use super::super::plan::{Plan, RECOVERY, REGIONS, Window, loses};
use super::super::topic::{Message, Says};

/// What one region's topic has proven, by the truth.
#[derive(Clone, Copy, Debug, Default)]
struct Proven {
    subscribed: Option<Duration>,
    published: Option<Duration>,
    polled: Option<Duration>,
    attested: Option<Duration>,
}

/// What was told and served.
pub(crate) struct Known {
    pub(super) told: Vec<usize>,
    /// As `told`, whatever was forgotten.
    announced: Vec<usize>,
    pub(super) served: Vec<usize>,
    /// Per record: what was the newest that had been served since when, of what replies state.
    pub(super) newest_served: Vec<Vec<(Duration, usize)>>,
    /// Per record: when announcements arrived that put everything before them out of date, but for what shows the place
    /// that they announce, if they say which.
    pub(super) news: Vec<Vec<(Duration, Option<usize>)>>,
    /// Per record: which region last announced a change, when that arrived, and its place.
    pub(super) announcer: Vec<Option<(usize, Duration, usize)>>,
    /// When messages arrived that nobody could read.
    pub(super) unread: Vec<Duration>,
    proven: [Proven; REGIONS],
    /// Records whose versions somebody spoiled, and until when they may stay labelled.
    pub(super) spoiled: Vec<Option<Duration>>,
    pub(super) reloaded: Vec<bool>,
}

impl Known {
    /// Nothing, of so many records.
    pub(super) fn new(keys: usize) -> Self {
        Self {
            told: vec![0; keys],
            announced: vec![0; keys],
            served: vec![0; keys],
            newest_served: vec![Vec::new(); keys],
            news: vec![Vec::new(); keys],
            announcer: vec![None; keys],
            unread: Vec::new(),
            proven: Default::default(),
            spoiled: vec![None; keys],
            reloaded: vec![false; keys],
        }
    }

    /// Whether a topic's proof still holds at `at` (R9).
    pub(super) fn leases(&self, at: Duration) -> bool {
        self.proven.iter().any(|proven| proven.leases(at))
    }

    /// The process began anew, and remembers nothing.
    pub(crate) fn restarted(&mut self) {
        self.forget();
        self.announced.fill(0);
        self.news.iter_mut().for_each(Vec::clear);
        self.unread.clear();
        self.announcer.fill(None);
        self.proven = Default::default();
    }

    /// Floors may have been lost.
    pub(crate) fn forget(&mut self) {
        self.told.fill(0);
        self.served.fill(0);
        self.newest_served.iter_mut().for_each(Vec::clear);
    }

    /// A region's subscription was made, or is gone.
    pub(crate) fn subscribed(&mut self, region: usize, at: Option<Duration>) {
        self.proven[region] = Proven { subscribed: at, ..Proven::default() };
    }

    /// A poll succeeded.
    pub(crate) fn polled(&mut self, region: usize, at: Duration) {
        self.proven[region].polled = Some(at);
    }

    /// The subscription's attributes are as they should be.
    pub(crate) fn attested(&mut self, region: usize, at: Duration) {
        self.proven[region].attested = Some(at);
    }

    /// A message was applied; `versioned` is whether announcements state versions.
    pub(crate) fn delivered(&mut self, plan: &Plan, message: &Message, at: Duration) {
        let proven = &mut self.proven[message.region];
        proven.published = proven.published.max(Some(message.published));
        match message.says {
            Says::Write(write) => {
                let write = &plan.truth.writes[write];
                let newer = write.place > self.announced[write.key];
                if newer || !plan.announces_versions {
                    self.news[write.key].push((at, plan.announces_versions.then_some(write.place)));
                }
                if self.announcer[write.key].is_none_or(|(_, _, place)| write.place > place) {
                    self.announcer[write.key] = Some((message.region, at, write.place));
                }
                if plan.announces_versions {
                    self.told[write.key] = self.told[write.key].max(write.place);
                    self.announced[write.key] = self.announced[write.key].max(write.place);
                }
            }
            Says::Jump(key, version) => {
                self.spoil(plan, key, version, true);
                self.news[key].push((at, None));
            }
            Says::Reload(key) => {
                self.reloaded[key] = true;
                self.news[key].push((at, None));
            }
            Says::Undecodable => self.unread.push(at),
            Says::Beat { .. } | Says::Path | Says::Unrouted => {}
        }
    }

    /// Somebody stated a version of this record that nobody gave it. What is credible raises the floor until R15 drops
    /// it; what is not ends with the next ordinary change that states a version, or, if only a region replied it, when all
    /// agree on something else.
    pub(crate) fn spoil(&mut self, plan: &Plan, key: usize, version: u64, said: bool) {
        let until =
            |window: &&Window| matches!(window.fault, Fault::MaxInMessage | Fault::MaxInReply) && window.key == key;
        let over = plan.windows.iter().filter(until).map(|window| window.until).max();
        let over = over.map_or(Duration::MAX, |over| over + RECOVERY);
        let lasting = version < 1 << 60
            || said && !plan.announces_versions
            || plan.windows.iter().any(|window| loses(window.fault));
        self.spoiled[key] = self.spoiled[key].max(Some(if lasting { Duration::MAX } else { over }));
    }
}

impl Proven {
    /// R9, by the truth: strong for 15 s, weak for 75 s.
    fn leases(&self, at: Duration) -> bool {
        let within = |proof: Option<Duration>, lease: u64| {
            proof.is_some_and(|proof| at <= proof + Duration::from_secs(lease) + Duration::from_millis(200))
        };
        let weak = self.polled.min(self.attested);
        self.subscribed.is_some() && (within(self.published, 15) || within(weak, 75))
    }
}
