//! Owns what is known for certain while a seed runs: what was announced, served and proven.
//!
//! Before it: deliveries and answers, as they happen. After it: [`super`] compares answers with it.
//! Invariant: nothing in it comes from the sidecar's own account.

use std::time::Duration;

use super::super::faults::Fault;
use super::super::plan::{DROPPED, Plan, RECOVERY, REGIONS, Window, loses};
use super::super::topic::{Message, Reach, Says};
use super::super::truth::{Truth, Write};
use super::other_case::OtherCase;

/// Time after a RESET's publication from which statements are newer than it: beyond what calendars
/// and coarse times may be wrong.
const CERTAIN: Duration = Duration::from_secs(70);

/// Proof that one region's topic has given, by the truth.
#[derive(Clone, Copy, Debug, Default)]
struct Proven {
    subscribed: Option<Duration>,
    published: Option<Duration>,
    polled: Option<Duration>,
    attested: Option<Duration>,
    /// The last message could not be verified: that it came proves nothing.
    unverified: bool,
    /// A heartbeat came: weak proof is over.
    has_heartbeats: bool,
}

/// A write that the sidecar passed on, and said so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnWrite {
    /// Its position.
    pub(crate) position: usize,
    /// Time of the write.
    pub(crate) made: Duration,
    /// Time of the answer to its caller.
    pub(crate) answered: Duration,
    /// Its reply stated the version.
    pub(crate) states: bool,
    /// Which region took it.
    pub(crate) region: Option<usize>,
}

/// Known versions of one record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floor {
    /// The newest position that was announced.
    pub(super) reported: usize,
    /// The newest position that was served.
    pub(super) served: usize,
    /// The highest version that was announced.
    pub(super) highest: u64,
}

impl Floor {
    /// Lower of both in each field.
    pub(super) fn least(self, other: Self) -> Self {
        let (reported, served) = (self.reported.min(other.reported), self.served.min(other.served));
        Self { reported, served, highest: self.highest.min(other.highest) }
    }
}

/// Announcements and answers so far.
pub(crate) struct Known {
    pub(super) reported: Vec<usize>,
    /// As `reported`, whatever was forgotten.
    announced: Vec<usize>,
    pub(super) served: Vec<usize>,
    /// Per record: what was the newest that had been served since when, of what replies state.
    pub(super) newest_served: Vec<Vec<(Duration, usize)>>,
    /// Per record: when announcements arrived that put everything before them out of date, but for
    /// what shows the position that they announce, if they say which.
    pub(super) news: Vec<Vec<(Duration, Option<usize>)>>,
    /// Per record: which region last announced a change, when that arrived, and its position.
    pub(super) announcer: Vec<Option<(usize, Duration, usize)>>,
    /// Messages that nobody could read, or verify: time of arrival, and region.
    pub(super) unread: Vec<(Duration, usize)>,
    /// Per region: time of its new publisher's first message.
    newcomer: [Option<Duration>; REGIONS],
    /// Per record: what was written through the sidecar.
    pub(super) written: Vec<Vec<OwnWrite>>,
    /// Per record: when a region last answered a write, whatever it said.
    pub(super) tried: Vec<Option<Duration>>,
    /// Per record: the highest version that was announced.
    pub(super) highest: Vec<u64>,
    /// Per record: the latest time at which each region announced a change.
    pub(super) announced_by: Vec<[Option<Duration>; REGIONS]>,
    /// Last loss of slots of the table of floors, and of what they knew of announcements.
    pub(super) lost_slots: Duration,
    /// Per record: when it was last RESET.
    pub(super) reset: Vec<Option<Duration>>,
    /// Per record: when the newest RESET of it that arrived was published.
    reset_published: Vec<Duration>,
    /// Per record: when the newest position that is known was last published or made.
    stated: Vec<Duration>,
    /// Per record: when it was last RELOADed or RESET.
    pub(super) ordered: Vec<Option<Duration>>,
    proven: [Proven; REGIONS],
    /// Records whose versions somebody spoiled, and until when they may stay labelled.
    pub(super) spoiled: Vec<Option<Duration>>,
    pub(super) reloaded: Vec<bool>,
    pub(crate) other_case: OtherCase,
}

impl Known {
    /// Nothing, of so many records.
    pub(super) fn new(keys: usize) -> Self {
        Self {
            reported: vec![0; keys],
            announced: vec![0; keys],
            served: vec![0; keys],
            newest_served: vec![Vec::new(); keys],
            news: vec![Vec::new(); keys],
            announcer: vec![None; keys],
            unread: Vec::new(),
            newcomer: Default::default(),
            written: vec![Vec::new(); keys],
            tried: vec![None; keys],
            highest: vec![0; keys],
            announced_by: vec![Default::default(); keys],
            lost_slots: Duration::ZERO,
            reset: vec![None; keys],
            reset_published: vec![Duration::ZERO; keys],
            stated: vec![Duration::ZERO; keys],
            ordered: vec![None; keys],
            proven: Default::default(),
            spoiled: vec![None; keys],
            reloaded: vec![false; keys],
            other_case: OtherCase::default(),
        }
    }

    pub(crate) fn floor(&self, key: usize) -> Floor {
        Floor { reported: self.reported[key], served: self.served[key], highest: self.highest[key] }
    }

    /// True if a topic's proof still holds at `at` (R9).
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
        self.newcomer = Default::default();
        self.written.iter_mut().for_each(Vec::clear);
        self.announced_by.fill(Default::default());
        self.reset_published.fill(Duration::ZERO);
        self.other_case = OtherCase::default();
    }

    /// True if something makes a record's versions say less than they should: somebody stated an
    /// impossible one, or they went back unannounced.
    pub(super) fn is_doubtful(&self, plan: &Plan, key: usize, at: Duration) -> bool {
        self.spoiled[key].is_some_and(|until| at < until) || self.is_back(plan, key, at)
    }

    /// True if a record's versions went back, unannounced so far.
    pub(super) fn is_back(&self, plan: &Plan, key: usize, at: Duration) -> bool {
        self.reset[key].is_none() && plan.truth.went_back(key).is_some_and(|since| since <= at)
    }

    /// True if any record is older than it was.
    pub(crate) fn went_back(&self, plan: &Plan, at: Duration) -> bool {
        (0..plan.truth.keys()).any(|key| self.is_back(plan, key, at + RECOVERY))
    }

    /// True if a reader may know of this write: it was announced, or a message for all has come
    /// since.
    pub(super) fn is_announced(&self, write: &Write) -> bool {
        !write.silent && (!write.back || self.reset[write.key].is_some())
    }

    /// Says whether an operator has spoken of what this write made: of what changed under its version
    /// only if that was since.
    pub(super) fn is_reloaded(&self, truth: &Truth, write: &Write) -> bool {
        self.reloaded[write.key]
            && self.ordered[write.key]
                .is_none_or(|at| !truth.keeps_version(write) || at > truth.last_ingest_of(write))
    }

    /// A write passed through the sidecar; `own` if a region did it.
    pub(crate) fn wrote(&mut self, key: usize, at: Duration, own: Option<OwnWrite>) {
        self.tried[key] = Some(at);
        self.written[key].extend(own);
        // Its announcement is no news.
        let stated = own.filter(|own| own.states).map_or(0, |own| own.position);
        self.announced[key] = self.announced[key].max(stated);
    }

    /// Something came that cannot be verified.
    pub(crate) fn unverified(&mut self, region: usize, at: Duration) {
        self.unread.push((at, region));
        self.proven[region].unverified = true;
    }

    /// Promise 4: what a new publisher said first is lost, and that shows within ten seconds of the
    /// first message that comes of it. Until then nothing can know.
    pub(super) fn is_unheard(&self, plan: &Plan, write: &Write, at: Duration) -> bool {
        let Some(window) = plan.window(Fault::FirstLost) else { return false };
        let lost = (0..plan.topics).any(|region| window.holds(plan.truth.ingest_at(region, write)));
        lost && !self
            .newcomer
            .iter()
            .take(plan.topics)
            .all(|heard| heard.is_some_and(|heard| at > heard + Duration::from_secs(12)))
    }

    /// The table of floors was too small.
    pub(crate) fn lose_slots(&mut self, at: Duration) {
        self.forget();
        self.lost_slots = at;
    }

    /// Floors may have been lost.
    fn forget(&mut self) {
        self.reported.fill(0);
        self.served.fill(0);
        self.highest.fill(0);
        // What was written is a floor like any other; that it was written outlives it.
        self.written.iter_mut().flatten().for_each(|own| own.states = false);
        self.newest_served.iter_mut().for_each(Vec::clear);
    }

    /// A region's subscription was made, or is gone.
    pub(crate) fn subscribed(&mut self, region: usize, at: Option<Duration>) {
        let has_heartbeats = self.proven[region].has_heartbeats;
        self.proven[region] = Proven { subscribed: at, has_heartbeats, ..Proven::default() };
    }

    /// A poll succeeded.
    pub(crate) fn polled(&mut self, region: usize, at: Duration) {
        self.proven[region].polled = Some(at);
    }

    /// The subscription's attributes are as they should be.
    pub(crate) fn attested(&mut self, region: usize, at: Duration) {
        self.proven[region].attested = Some(at);
    }

    /// Time of the last look at the attributes since the subscription was made.
    pub(crate) fn looked(&self, region: usize) -> Option<Duration> {
        self.proven[region].attested
    }

    /// A message that was published then can be verified.
    pub(crate) fn heard(&mut self, region: usize, published: Duration) {
        let proven = &mut self.proven[region];
        proven.published = proven.published.max(Some(published));
        proven.unverified = false;
    }

    /// A message was applied.
    pub(crate) fn delivered(&mut self, plan: &Plan, message: &Message, at: Duration) {
        self.heard(message.region, message.published);
        let proven = &mut self.proven[message.region];
        proven.has_heartbeats |= matches!(message.says, Says::Beat { .. } | Says::Path);
        let newcomer = plan.regions[message.region].publishers as u64;
        if message.numbered.is_some_and(|(name, _)| name / 1_000 % 100 == newcomer) {
            self.newcomer[message.region].get_or_insert(at);
        }
        match message.says {
            Says::Write(write) => self.heard_of(plan, &plan.truth.writes[write], message, at),
            Says::Jump(key, version) => {
                let window = plan.windows.iter().find(|w| w.fault == Fault::MaxInMessage && w.key == key);
                if let Some(window) = window {
                    self.spoil(plan, window, version, true);
                }
                self.news[key].push((at, None));
            }
            Says::Reload(reach) => self.order(plan, reach, at),
            Says::Reset(reach) => self.forgotten(plan, reach, message.published, at),
            Says::Undecodable => self.unread.push((at, message.region)),
            Says::Beat { .. } | Says::Path | Says::Unrouted | Says::Astray | Says::OtherCase(_) => {}
        }
    }

    fn heard_of(&mut self, plan: &Plan, write: &Write, message: &Message, at: Duration) {
        let Message { region, published, .. } = *message;
        self.announced_by[write.key][region] = Some(at);
        if published < self.reset_published[write.key] {
            // R13: a RESET overtook it, so its version sets no floor. What shows as much has it.
            let is_known = plan.announces_versions && plan.truth.went_back(write.key).is_none();
            if !is_known || write.position > self.announced[write.key] {
                self.news[write.key].push((at, is_known.then_some(write.position)));
            }
            if is_known {
                self.announced[write.key] = self.announced[write.key].max(write.position);
            }
            self.announcer[write.key] = None;
            return;
        }
        if !self.is_announced(write) {
            // Below what was announced before: it moves nothing, unless the floor was given up.
            let since = plan.truth.went_back(write.key).unwrap_or_default();
            if at > since + Duration::from_secs(55) || self.spoiled[write.key].is_some() {
                self.highest[write.key] = 0;
            }
            return;
        }
        let newer = write.position > self.announced[write.key];
        if newer || !plan.announces_versions {
            self.news[write.key].push((at, plan.announces_versions.then_some(write.position)));
        }
        if self.announcer[write.key].is_none_or(|(_, _, position)| write.position > position) {
            self.announcer[write.key] = Some((region, at, write.position));
        }
        if plan.announces_versions {
            self.state(write.key, write.position, published);
            self.reported[write.key] = self.reported[write.key].max(write.position);
            self.announced[write.key] = self.announced[write.key].max(write.position);
            self.highest[write.key] = self.highest[write.key].max(write.version);
        }
    }

    /// All that was asked for before is to be asked for anew.
    fn order(&mut self, plan: &Plan, reach: Reach, at: Duration) {
        for key in reach.keys(plan.truth.keys()) {
            self.reloaded[key] = true;
            self.ordered[key] = Some(at);
            self.highest[key] = 0;
            self.news[key].push((at, None));
        }
    }

    /// A RESET arrived, or was ordered.
    pub(crate) fn forgotten(&mut self, plan: &Plan, reach: Reach, published: Duration, at: Duration) {
        self.order(plan, reach, at);
        let is_late = at > published + Duration::from_secs(3);
        for key in reach.keys(plan.truth.keys()) {
            let stated = self.stated[key] >= published + CERTAIN;
            // Of what was stated about then, nobody knows whether it was forgotten.
            let is_forgotten = !is_late || self.stated[key] + CERTAIN < published;
            let announced = self.announced[key];
            if !stated || self.is_doubtful(plan, key, at) {
                // One from before a restore says nothing of it.
                let before = self.reset[key];
                self.forget_one(key);
                if plan.truth.went_back(key).is_none() {
                    // The same announcement once more need be no news.
                    self.announced[key] = announced;
                }
                self.reset[key] = if is_forgotten && is_shown(plan, key, published) { Some(at) } else { before };
            }
            self.reset_published[key] = self.reset_published[key].max(published);
        }
    }

    /// Somebody stated this position of a record at `at`.
    pub(crate) fn state(&mut self, key: usize, position: usize, at: Duration) {
        let known = self.reported[key].max(self.served[key]);
        if position > known {
            self.stated[key] = at;
        } else if position == known {
            self.stated[key] = self.stated[key].max(at);
        }
    }

    /// Forgets a record's versions.
    fn forget_one(&mut self, key: usize) {
        (self.reported[key], self.served[key], self.announced[key], self.highest[key]) = (0, 0, 0, 0);
        self.newest_served[key].clear();
        self.written[key].clear();
        self.announcer[key] = None;
    }

    /// Somebody stated a version of this record that nobody gave it. What is credible raises the
    /// floor until R15 drops it; what is not ends with the next ordinary change that states a
    /// version, or, if only a region replied it, when all agree on something else.
    pub(crate) fn spoil(&mut self, plan: &Plan, window: &Window, version: u64, said: bool) {
        // Of one that could be true, an ordinary change after its floor was dropped.
        let over = if version < 1 << 60 { window.from + DROPPED } else { window.until };
        // R15 asks what races bring, and of what is too large to hold they bring nothing.
        let unasked = plan.is_large(window.key);
        let lost = plan.windows.iter().any(|window| loses(window.fault));
        let lasting = said && !plan.announces_versions || lost || unasked;
        let until = if lasting { Duration::MAX } else { over + RECOVERY };
        self.spoiled[window.key] = self.spoiled[window.key].max(Some(until));
    }
}

/// True if all regions show at `at` that a record's versions went back, if they did.
fn is_shown(plan: &Plan, key: usize, at: Duration) -> bool {
    let nodes = plan.regions.iter().map(|region| region.cache_lag).max().unwrap_or_default();
    let back = plan.truth.writes.iter().find(|write| write.key == key && write.back);
    back.is_none_or(|write| plan.truth.last_ingest_of(write) + nodes <= at)
}

impl Proven {
    /// R9, by the truth: strong for 15 s; weak while a poll is not older than 75 s, nor a look than
    /// 5 minutes.
    fn leases(&self, at: Duration) -> bool {
        let is_accepted = !self.unverified && !self.has_heartbeats;
        let weak = is_accepted && is_within(self.polled, 75, at) && is_within(self.attested, 300, at);
        self.subscribed.is_some() && (is_within(self.published, 15, at) || weak)
    }
}

/// True if a lease of so many seconds still holds at `at`.
fn is_within(proof: Option<Duration>, lease: u64, at: Duration) -> bool {
    proof.is_some_and(|proof| at <= proof + Duration::from_secs(lease) + Duration::from_millis(200))
}
