//! Owns the verdict of `/readyz`: warming, fresh, degraded or draining, and why.
//!
//! Before it: the horizon that the read path compares with. After it: [`super::status`] and the probe of whoever runs
//! the container. Invariant: pure; a sidecar that serves stale data says so and is still ready, only a draining one
//! is not.

use std::time::Duration;

use serde::Serialize;

use crate::clock::Moment;
use crate::freshness::event::Subscription;
use crate::freshness::horizon::{Horizon, Sight};
use crate::freshness::words::{Epoch, RegionId, RegionSet};
use crate::limits;

/// How far the sidecar can be relied on to be fresh. Only [`State::Draining`] is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Started not long ago; no region's lease holds yet.
    Warming,
    /// A region's lease holds: replies are kept in full and kept true.
    Fresh,
    /// It answers, with soft TTLs or stored replies only; the reasons say why.
    Degraded,
    /// It is about to stop: send new work elsewhere.
    Draining,
}

impl State {
    /// A stable word for `/readyz` and metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Warming => "warming",
            Self::Fresh => "fresh",
            Self::Degraded => "degraded",
            Self::Draining => "draining",
        }
    }
}

/// What is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No region has a topic, or announcements are off.
    NoAnnouncements,
    /// A region that announces has no lease: the state of its subscription, and how old its newest proof is.
    NoLease(RegionId, Subscription, Option<Duration>),
    /// An operator does not believe the region's topic.
    Paused(RegionId),
    /// An operator took the region out.
    Drained(RegionId),
    /// Every region is being skipped for its failures, or drained.
    AllRegionsFail,
}

/// The verdict of `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// The verdict.
    pub state: State,
    /// Everything that is not as it should be; with `fresh`, what does not matter yet, since one lease suffices.
    pub reasons: Vec<Reason>,
}

/// What [`readiness`] needs beside the horizon.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// How long the process has been up.
    pub up: Duration,
    /// SIGTERM has come.
    pub draining: bool,
    /// Regions that announce (they have a topic, and a transport is on).
    pub topics: RegionSet,
    /// Regions that an operator took out.
    pub drained: RegionSet,
    /// Every region is being skipped for its failures, or drained.
    pub all_fail: bool,
}

/// How fresh the sidecar is (FRESHNESS.md, end of *Proof*): one LIVE region is enough, none means soft TTLs.
pub fn readiness(horizon: &Horizon, now: Moment, conditions: &Conditions) -> Readiness {
    let live = horizon.live(now);
    let announcing = || conditions.topics.iter().filter_map(|id| Some((id, horizon.regions.get(id.index())?)));
    let mut reasons: Vec<_> = announcing()
        .filter(|(id, _)| !live.contains(*id))
        .map(|(id, sight)| match sight.state {
            Subscription::Paused => Reason::Paused(id),
            state => Reason::NoLease(id, lapsed(state), proof_age(sight, now)),
        })
        .chain(conditions.drained.iter().map(Reason::Drained))
        .collect();
    if conditions.topics.is_empty() {
        reasons.push(Reason::NoAnnouncements);
    }
    if conditions.all_fail {
        reasons.push(Reason::AllRegionsFail);
    }
    // A region whose epoch has moved was LIVE, or subscribed and lost: that is no start any more.
    let untried = |sight: &Sight| sight.proof == Moment::ZERO && sight.epoch == Epoch::default();
    let starting = || conditions.up < limits::WARMING && announcing().all(|(_, sight)| untried(sight));
    let state = if conditions.draining {
        State::Draining
    } else if conditions.all_fail || conditions.topics.is_empty() {
        State::Degraded
    } else if !live.is_empty() {
        State::Fresh
    } else if starting() {
        State::Warming
    } else {
        State::Degraded
    };
    Readiness { state, reasons }
}

/// A region called LIVE whose lease has run out since the last step is as good as SUSPECT (R9: compared on reading).
pub(super) const fn lapsed(state: Subscription) -> Subscription {
    match state {
        Subscription::Live => Subscription::Suspect,
        other => other,
    }
}

pub(super) fn proof_age(sight: &Sight, now: Moment) -> Option<Duration> {
    (sight.proof != Moment::ZERO).then(|| now.since(sight.proof))
}

impl Readiness {
    /// The reasons, a line each; `names` are the regions'.
    pub fn lines(&self, names: &[String]) -> Vec<String> {
        self.reasons.iter().map(|reason| reason.line(names)).collect()
    }
}

impl Reason {
    /// Whether an operator made it so, and must undo it.
    pub const fn is_an_operators(&self) -> bool {
        matches!(self, Self::Paused(_) | Self::Drained(_))
    }

    /// As a line for an operator; `names` are the regions'.
    pub fn line(&self, names: &[String]) -> String {
        let name = |region: &RegionId| names.get(region.index()).map_or("?", String::as_str);
        match self {
            Self::NoAnnouncements => {
                "no region announces its changes: replies are kept for the soft TTL only".to_owned()
            }
            Self::NoLease(region, state, age) => {
                let name = name(region);
                let age =
                    age.map_or("no proof yet".to_owned(), |age| format!("newest proof {} s ago", age.as_secs()));
                format!("{name}: subscription {}, {age}", state.word())
            }
            Self::Paused(region) => {
                let name = name(region);
                format!(
                    "{name}: its announcements are paused by an operator (nearside ctl announcements resume {name})"
                )
            }
            Self::Drained(region) => {
                let name = name(region);
                format!("{name}: drained by an operator, nobody asks it (nearside ctl region restore {name})")
            }
            Self::AllRegionsFail => "every region fails: only stored replies are answered".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::freshness::event::Grade;

    const NOW: Moment = Moment::from_nanos(1_000_000_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    fn live(lease_left: Duration) -> Sight {
        Sight {
            state: Subscription::Live,
            grade: Grade::Path,
            proof: NOW.before(SECOND),
            lease_until: NOW + lease_left,
            ..Sight::default()
        }
    }

    fn silent(state: Subscription, proof: Moment) -> Sight {
        Sight { state, proof, lease_until: NOW.before(SECOND), ..Sight::default() }
    }

    fn verdict(regions: &[Sight], change: impl FnOnce(&mut Conditions)) -> Readiness {
        let topics = RegionSet::first(regions.len());
        let mut conditions =
            Conditions { up: 10 * SECOND, draining: false, topics, drained: RegionSet::EMPTY, all_fail: false };
        change(&mut conditions);
        readiness(&Horizon { regions: regions.to_vec() }, NOW, &conditions)
    }

    #[test]
    fn one_live_region_makes_it_fresh_and_the_others_are_named() {
        let dead = silent(Subscription::Dead, NOW.before(90 * SECOND));
        let verdict = verdict(&[live(SECOND), dead], |_| {});
        assert_eq!(verdict.state, State::Fresh);
        let names = ["eu".to_owned(), "us".to_owned()];
        assert_eq!(verdict.lines(&names), ["us: subscription dead, newest proof 90 s ago"]);
    }

    #[test]
    fn before_the_first_proof_it_is_warming_for_a_while_and_then_degraded() {
        let pending = silent(Subscription::Pending, Moment::ZERO);
        assert_eq!(verdict(&[pending, pending], |_| {}).state, State::Warming);
        let late = verdict(&[pending, pending], |conditions| conditions.up = limits::WARMING);
        assert_eq!((late.state, late.reasons.len()), (State::Degraded, 2));
    }

    #[test]
    fn losing_the_only_lease_degrades_it_even_just_after_the_start() {
        let suspect = silent(Subscription::Suspect, NOW.before(20 * SECOND));
        assert_eq!(verdict(&[suspect], |_| {}).state, State::Degraded);
    }

    #[test]
    fn losing_every_subscription_just_after_the_start_is_no_warming() {
        let lost = Sight { epoch: Epoch(1), ..silent(Subscription::Dead, Moment::ZERO) };
        let pending = silent(Subscription::Pending, Moment::ZERO);
        assert_eq!(verdict(&[lost, pending], |_| {}).state, State::Degraded);
    }

    #[test]
    fn a_lease_that_ran_out_in_a_pause_counts_as_lost_before_any_tick() {
        let paused = Sight { lease_until: NOW.before(Duration::from_nanos(1)), ..live(SECOND) };
        let verdict = verdict(&[paused], |_| {});
        assert_eq!(verdict.state, State::Degraded);
        assert_eq!(verdict.reasons, [Reason::NoLease(RegionId(0), Subscription::Suspect, Some(SECOND))]);
    }

    #[test]
    fn without_announcements_it_is_degraded_and_says_so() {
        let verdict = verdict(&[live(SECOND)], |conditions| conditions.topics = RegionSet::EMPTY);
        assert_eq!((verdict.state, verdict.reasons.as_slice()), (State::Degraded, &[Reason::NoAnnouncements][..]));
    }

    #[test]
    fn regions_that_all_fail_degrade_it_however_fresh_the_proof() {
        let verdict = verdict(&[live(SECOND)], |conditions| conditions.all_fail = true);
        assert_eq!((verdict.state, verdict.reasons.as_slice()), (State::Degraded, &[Reason::AllRegionsFail][..]));
    }

    #[test]
    fn draining_beats_every_other_state() {
        let verdict = verdict(&[live(SECOND)], |conditions| {
            conditions.draining = true;
            conditions.all_fail = true;
        });
        assert_eq!(verdict.state, State::Draining);
    }
}
