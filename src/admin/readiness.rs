//! The verdict of `/readyz` (warming, fresh, doubtful, degraded or draining), and the reasons for
//! it. It is pure, and looks at the same region_views as the read path.
//!
//! A sidecar that serves stale data says so and is still ready; only a draining one is not.

use std::time::Duration;

use serde::Serialize;

use crate::admin::limits;
use crate::aws::verify::Rejected;
use crate::model::ids::{Epoch, RegionId, RegionSet};
use crate::model::time::Moment;
use crate::protocol::event::SubscriptionState;
use crate::protocol::region_views::{RegionView, RegionViews};

/// Reliability of the sidecar's freshness. Only [`ReadyState::Draining`] is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::IntoStaticStr, strum::VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum ReadyState {
    /// Started recently; no region's lease holds yet.
    Warming,
    /// A region's lease holds: replies are kept for their full TTL and kept up to date.
    Fresh,
    /// A lease holds, but announcements do not seem to reach what is stored; the reasons say why.
    Doubtful,
    /// It answers, but only with soft TTLs or stored replies; the reasons say why.
    Degraded,
    /// It is about to stop: send new work elsewhere.
    Draining,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// No region has a topic, or announcements are off.
    NoAnnouncements,
    /// A region that announces has no lease; with the state of its subscription and the age of its
    /// newest proof.
    NoLease(RegionId, SubscriptionState, Option<Duration>),
    /// An operator paused the region's announcements.
    Paused(RegionId),
    /// An operator took the region out.
    Drained(RegionId),
    /// Announcements arrive that cannot be verified (R14); with the reason for the last one.
    Unverified(RegionId, Rejected),
    /// Messages arrive this many milliseconds after they were published by SNS's clock; negative if
    /// SNS's clock is ahead of ours.
    Clock(RegionId, i64),
    /// Its subscription was lost this long ago; the reason is a stable word.
    Lost(RegionId, &'static str, Duration),
    /// Every region is either skipped for its failures or drained.
    AllRegionsFail,
    /// So many per cent of a route's requests are passed on for their headers.
    HeadersPassed(u64),
}

/// Recent arrivals from a region's topic, and what kept messages from coming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicArrivals {
    /// Receipt minus SNS `Timestamp`, in milliseconds (`protocol::arrivals::Arrived`).
    pub lag_ms: Option<i64>,
    /// Why the last message could not be verified; cleared once one can be.
    pub unverified: Option<Rejected>,
    /// Time of the last loss of its subscription, and the reason.
    pub lost: Option<(Moment, &'static str)>,
}

/// The verdict of `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub state: ReadyState,
    /// Everything that is wrong. With `fresh` and `doubtful` it does not matter yet, since one
    /// lease is enough.
    pub reasons: Vec<Reason>,
}

/// Input of [`readiness`] besides the region_views.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions<'a> {
    pub up: Duration,
    /// SIGTERM has come.
    pub draining: bool,
    /// Regions that announce (they have a topic, and a transport is on).
    pub topics: RegionSet,
    /// Regions that an operator took out.
    pub drained: RegionSet,
    /// Every region is either skipped for its failures or drained.
    pub all_fail: bool,
    /// There is no token of the sidecar's own to ask with.
    pub uncredentialed: bool,
    /// A finding says that stored entries may miss changes.
    pub doubted: bool,
    /// Per cent of a route's requests that are passed on for their headers, if it is more than a few.
    pub passed: Option<u64>,
    /// Arrivals in the order of the configuration; may be shorter.
    pub arrivals: &'a [TopicArrivals],
}

/// Freshness of the sidecar (docs/freshness.md, end of *State*): one LIVE region is enough, none
/// means soft TTLs.
pub(crate) fn readiness(region_views: &RegionViews, now: Moment, conditions: &Conditions<'_>) -> Readiness {
    let live = region_views.live(now);
    let announcing = || conditions.topics.iter().filter_map(|id| Some((id, region_views.regions.get(id.index())?)));
    let mut reasons: Vec<_> = announcing()
        .filter(|(id, _)| !live.contains(*id))
        .map(|(id, region_view)| match region_view.state {
            SubscriptionState::Paused => Reason::Paused(id),
            state => Reason::NoLease(id, lapsed(state), proof_age(region_view, now)),
        })
        .chain(conditions.drained.iter().map(Reason::Drained))
        .collect();
    for id in conditions.topics.iter() {
        let arrivals = conditions.arrivals.get(id.index()).copied().unwrap_or_default();
        reasons.extend(arrivals.reasons(id, now).into_iter().flatten());
    }
    if conditions.topics.is_empty() {
        reasons.push(Reason::NoAnnouncements);
    }
    if conditions.all_fail {
        reasons.push(Reason::AllRegionsFail);
    }
    reasons.extend(conditions.passed.map(Reason::HeadersPassed));
    // A region whose epoch has moved was LIVE before, or was subscribed and lost: this is no longer
    // the start.
    let untried = announcing().all(|(_, it)| it.proof == Moment::ZERO && it.epoch == Epoch::default());
    let state = if conditions.draining {
        ReadyState::Draining
    } else if conditions.all_fail || conditions.uncredentialed || conditions.topics.is_empty() {
        ReadyState::Degraded
    } else if !live.is_empty() {
        if conditions.doubted { ReadyState::Doubtful } else { ReadyState::Fresh }
    } else if untried && conditions.up < limits::WARMING {
        ReadyState::Warming
    } else {
        ReadyState::Degraded
    };
    Readiness { state, reasons }
}

/// A region still called LIVE whose lease has run out since the last step counts as SUSPECT (R9:
/// leases are compared on reading).
pub(super) const fn lapsed(state: SubscriptionState) -> SubscriptionState {
    match state {
        SubscriptionState::Live => SubscriptionState::Suspect,
        other => other,
    }
}

pub(super) fn proof_age(region_view: &RegionView, now: Moment) -> Option<Duration> {
    (region_view.proof != Moment::ZERO).then(|| now.since(region_view.proof))
}

impl TopicArrivals {
    fn reasons(self, id: RegionId, now: Moment) -> [Option<Reason>; 3] {
        let lost = self.lost.map(|(at, why)| (now.since(at), why)).filter(|(ago, _)| *ago < limits::LOSS_SHOWN);
        [
            self.unverified.map(|why| Reason::Unverified(id, why)),
            self.lag_ms
                .filter(|lag| u128::from(lag.unsigned_abs()) > limits::CLOCK_SKEW.as_millis())
                .map(|lag| Reason::Clock(id, lag)),
            lost.map(|(ago, why)| Reason::Lost(id, why, ago)),
        ]
    }
}

impl Readiness {
    /// One line per reason; `names` are the regions' names.
    pub(crate) fn lines(&self, names: &[String]) -> Vec<String> {
        self.reasons.iter().map(|reason| reason.line(names)).collect()
    }
}

impl Reason {
    /// True if it is a reason beside a lease too: only an operator can end it.
    pub(crate) const fn is_for_operators(&self) -> bool {
        matches!(self, Self::Paused(_) | Self::Drained(_) | Self::HeadersPassed(_))
    }

    /// One line for an operator; `names` are the regions' names.
    pub(crate) fn line(&self, names: &[String]) -> String {
        let name = |region: &RegionId| names.get(region.index()).map_or("?", String::as_str);
        match self {
            Self::NoAnnouncements => {
                "no region announces its changes: replies are kept for the soft TTL only".to_owned()
            }
            Self::NoLease(region, state, age) => {
                let age =
                    age.map_or("no proof yet".to_owned(), |age| format!("newest proof {} s ago", age.as_secs()));
                format!("{}: subscription {}, {age}", name(region), state.into_str())
            }
            Self::Unverified(region, why) => {
                let (name, advice) = (name(region), why.advice());
                format!("{name}: announcements arrive that cannot be verified: {why}; {advice}")
            }
            Self::Clock(region, lag) => clock_line(name(region), *lag),
            Self::Lost(region, why, ago) => {
                let (name, ago) = (name(region), ago.as_secs());
                match tampered(why) {
                    Some((what, advice)) => {
                        format!(
                            "{name}: the subscription was lost {ago} s ago ({why}): {what}, and another takes its place; {advice}"
                        )
                    }
                    None => format!("{name}: the subscription was lost {ago} s ago ({why})"),
                }
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
            Self::HeadersPassed(percent) => format!(
                "{percent} % of a route's requests are passed on for their headers and not stored: the findings \
                 (header-passed) say which, and what to write"
            ),
            Self::AllRegionsFail => "every region fails: only stored replies are answered".to_owned(),
        }
    }
}

/// Act of somebody on one of our subscriptions or queues, by the word for its loss, and its remedy.
pub(super) fn tampered(why: &str) -> Option<(&'static str, &'static str)> {
    match why {
        "policy" => {
            Some(("its queue's policy no longer let the topic send", "look for who changes the policies of queues"))
        }
        "filter" => {
            Some(("somebody set a filter on it", "look for who changes subscriptions: a filter keeps messages away"))
        }
        "raw" => {
            Some(("somebody turned raw delivery on", "look for who changes subscriptions: raw messages are unsigned"))
        }
        _ => None,
    }
}

fn clock_line(name: &str, lag_ms: i64) -> String {
    let span = lag_ms.unsigned_abs() as f64 / 1e3;
    if lag_ms > 0 {
        format!(
            "{name}: announcements arrive {span:.1} s after SNS stamped them: this host's clock is ahead by that much, \
             or delivery is late; what is older than a lease proves nothing: set the clock"
        )
    } else {
        format!(
            "{name}: announcements arrive {span:.1} s before SNS stamped them: this host's clock is behind by that \
             much, and bounds are stated too small: set the clock"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::certificate::fetch::Unfetched;
    use crate::protocol::event::Grade;

    const NOW: Moment = Moment::from_nanos(1_000_000_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    fn live(lease_left: Duration) -> RegionView {
        RegionView {
            state: SubscriptionState::Live,
            grade: Grade::Path,
            proof: NOW.before(SECOND),
            lease_until: NOW + lease_left,
            ..RegionView::default()
        }
    }

    fn silent(state: SubscriptionState, proof: Moment) -> RegionView {
        RegionView { state, proof, lease_until: NOW.before(SECOND), ..RegionView::default() }
    }

    /// One region that announces, and nothing unusual.
    fn quiet() -> Conditions<'static> {
        Conditions {
            up: 10 * SECOND,
            draining: false,
            topics: RegionSet::first(1),
            drained: RegionSet::EMPTY,
            all_fail: false,
            uncredentialed: false,
            doubted: false,
            passed: None,
            arrivals: &[],
        }
    }

    fn verdict(regions: &[RegionView], change: impl FnOnce(&mut Conditions<'_>)) -> Readiness {
        let topics = RegionSet::first(regions.len());
        let mut conditions = Conditions { topics, ..quiet() };
        change(&mut conditions);
        readiness(&RegionViews { regions: regions.to_vec(), ..RegionViews::default() }, NOW, &conditions)
    }

    #[test]
    fn one_live_region_means_fresh() {
        let dead = silent(SubscriptionState::Dead, NOW.before(90 * SECOND));
        let verdict = verdict(&[live(SECOND), dead], |_| {});
        assert_eq!(verdict.state, ReadyState::Fresh);
        let names = ["eu".to_owned(), "us".to_owned()];
        assert_eq!(verdict.lines(&names), ["us: subscription dead, newest proof 90 s ago"]);
    }

    #[test]
    fn warming_turns_degraded_without_proof() {
        let pending = silent(SubscriptionState::Pending, Moment::ZERO);
        assert_eq!(verdict(&[pending, pending], |_| {}).state, ReadyState::Warming);
        let late = verdict(&[pending, pending], |conditions| conditions.up = limits::WARMING);
        assert_eq!((late.state, late.reasons.len()), (ReadyState::Degraded, 2));
    }

    #[test]
    fn losing_only_lease_degrades_at_start() {
        let suspect = silent(SubscriptionState::Suspect, NOW.before(20 * SECOND));
        assert_eq!(verdict(&[suspect], |_| {}).state, ReadyState::Degraded);
    }

    #[test]
    fn losing_all_subscriptions_is_not_warming() {
        let lost = RegionView { epoch: Epoch(1), ..silent(SubscriptionState::Dead, Moment::ZERO) };
        let pending = silent(SubscriptionState::Pending, Moment::ZERO);
        assert_eq!(verdict(&[lost, pending], |_| {}).state, ReadyState::Degraded);
    }

    #[test]
    fn lease_expired_in_pause_is_lost() {
        let paused = RegionView { lease_until: NOW.before(Duration::from_nanos(1)), ..live(SECOND) };
        let verdict = verdict(&[paused], |_| {});
        assert_eq!(verdict.state, ReadyState::Degraded);
        assert_eq!(verdict.reasons, [Reason::NoLease(RegionId(0), SubscriptionState::Suspect, Some(SECOND))]);
    }

    #[test]
    fn missing_topics_degrade_readiness() {
        let verdict = verdict(&[live(SECOND)], |conditions| conditions.topics = RegionSet::EMPTY);
        assert_eq!(
            (verdict.state, verdict.reasons.as_slice()),
            (ReadyState::Degraded, &[Reason::NoAnnouncements][..])
        );
    }

    #[test]
    fn missing_credentials_degrade_despite_proof() {
        let verdict = verdict(&[live(SECOND)], |conditions| conditions.uncredentialed = true);
        assert_eq!(verdict.state, ReadyState::Degraded);
    }

    #[test]
    fn all_regions_failing_degrades_despite_proof() {
        let verdict = verdict(&[live(SECOND)], |conditions| conditions.all_fail = true);
        assert_eq!(
            (verdict.state, verdict.reasons.as_slice()),
            (ReadyState::Degraded, &[Reason::AllRegionsFail][..])
        );
    }

    /// Reasons that `arrivals` adds to those of a region without proof.
    fn reported(arrivals: TopicArrivals) -> String {
        let suspect = silent(SubscriptionState::Suspect, NOW.before(20 * SECOND));
        let conditions = Conditions { arrivals: &[arrivals], ..quiet() };
        let verdict = readiness(&RegionViews { regions: vec![suspect], ..RegionViews::default() }, NOW, &conditions);
        assert_eq!(verdict.state, ReadyState::Degraded);
        verdict.lines(&["eu".to_owned()]).split_off(1).join("\n")
    }

    #[test]
    fn messages_without_proof_give_reason() {
        let unfetched = Rejected::Unfetched(Unfetched::Status(503));
        assert_eq!(reported(TopicArrivals::default()), "");
        let unverified = reported(TopicArrivals { unverified: Some(unfetched), ..TopicArrivals::default() });
        assert!(unverified.starts_with("eu: announcements arrive that cannot be verified: "), "{unverified}");
        assert!(unverified.contains("answered 503; let this process reach"), "{unverified}");
        let ahead = reported(TopicArrivals { lag_ms: Some(20_040), ..TopicArrivals::default() });
        assert!(ahead.contains("arrive 20.0 s after") && ahead.contains("clock is ahead"), "{ahead}");
        let behind = reported(TopicArrivals { lag_ms: Some(-20_040), ..TopicArrivals::default() });
        assert!(behind.contains("arrive 20.0 s before") && behind.contains("clock is behind"), "{behind}");
        assert_eq!(reported(TopicArrivals { lag_ms: Some(2_000), ..TopicArrivals::default() }), "");
        let lost = TopicArrivals { lost: Some((NOW.before(9 * SECOND), "policy")), ..TopicArrivals::default() };
        assert!(reported(lost).contains("lost 9 s ago (policy): its queue's policy"));
        let long_ago =
            TopicArrivals { lost: Some((NOW.before(limits::LOSS_SHOWN), "policy")), ..TopicArrivals::default() };
        assert_eq!(reported(long_ago), "");
    }

    #[test]
    fn draining_beats_every_other_state() {
        let verdict = verdict(&[live(SECOND)], |conditions| {
            conditions.draining = true;
            conditions.all_fail = true;
        });
        assert_eq!(verdict.state, ReadyState::Draining);
    }
}
