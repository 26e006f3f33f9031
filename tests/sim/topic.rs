//! Owns the way from a region's change to the sidecar: publishers that number, topics that lose,
//! delay, duplicate and reorder, subscriptions that die.
//!
//! Before it: [`super::run`] says what is published when. After it: deliveries, each with its time.
//! Invariant: what a publisher says of itself (numbers, `ingested_through`) is true unless a fault
//! says otherwise.

use std::time::Duration;

use fastrand::Rng;

use super::faults::Fault;
use super::plan::{Plan, Proof, Window, between};
use super::truth::Kind;

/// Content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// This write was ingested.
    Write(usize),
    /// A record has a version that nobody gave it.
    Jump(usize, u64),
    /// A publisher's heartbeat.
    Beat { through: Duration },
    /// A path's heartbeat.
    Path,
    /// Text that nobody can read.
    Undecodable,
    /// A record type that no route names.
    Unrouted,
    /// A key that no route makes.
    Astray,
    /// This write was ingested, of a key in another letter case than it is read.
    OtherCase(usize),
    /// Read anew.
    Reload(Reach),
    /// Forget what versions there were.
    Reset(Reach),
}

/// Scope of a RELOAD or a RESET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// One record.
    Record(usize),
    /// All of their type.
    Type,
    /// Everything.
    All,
}

impl Reach {
    /// Which records, of so many.
    pub(crate) fn keys(self, keys: usize) -> std::ops::Range<usize> {
        match self {
            Self::Record(key) => key..key + 1,
            Self::Type | Self::All => 0..keys,
        }
    }
}

/// A message on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// Whose topic.
    pub(crate) region: usize,
    pub(crate) says: Says,
    /// Who numbers it, and its number.
    pub(crate) numbered: Option<(u64, u64)>,
    /// Time at which SNS took it.
    pub(crate) published: Duration,
}

/// One region's topic and our subscription to it.
#[derive(Debug, Default)]
pub(crate) struct Topic {
    /// The number of the subscription, while there is one.
    pub(crate) subscription: Option<u32>,
    /// From when on messages reach it: SNS may take a moment after it says that a subscription is
    /// made.
    since: Duration,
    made: u32,
    /// The subscription whose queue takes nothing from the topic any more.
    revoked: Option<u32>,
    /// Per publisher: its name's life, and the last number it gave.
    publishers: Vec<(u64, u64)>,
    /// From when on the last of them does the announcing: until then it is not there.
    newcomer: Option<Duration>,
    sent: Vec<Message>,
}

/// Deliveries: time, subscription and message.
pub(crate) type Deliveries = Vec<(Duration, u32, Message)>;

impl Topic {
    /// With so many publishers; and a newcomer, where the plan has one.
    pub(crate) fn new(plan: &Plan, publishers: usize) -> Self {
        let mut publishers = vec![(0, 0); publishers];
        publishers.extend(plan.unheard.map(|unheard| (0, unheard)));
        let newcomer = plan.window(Fault::FirstLost).map(|window| window.from);
        Self { publishers, newcomer, ..Self::default() }
    }

    /// A new subscription, which messages reach from `since` on.
    pub(crate) fn subscribe(&mut self, since: Duration) {
        self.made += 1;
        self.since = since;
        self.subscription = Some(self.made);
    }

    /// Somebody takes the topic's leave away to send to our queue, or gives it back.
    pub(crate) const fn revoke(&mut self, revoked: bool) {
        self.revoked = if revoked { self.subscription } else { None };
    }

    /// True if our queue takes nothing from the topic, though the subscription is as it was.
    pub(crate) const fn is_revoked(&self) -> bool {
        matches!((self.revoked, self.subscription), (Some(revoked), Some(made)) if revoked == made)
    }

    /// All publishers but the newcomer begin anew under new names.
    pub(crate) fn restart(&mut self) {
        let old = self.old();
        self.publishers[..old].iter_mut().for_each(|(life, number)| (*life, *number) = (*life + 1, 0));
    }

    /// Number of publishers that were there from the start.
    pub(crate) const fn old(&self) -> usize {
        self.publishers.len() - self.newcomer.is_some() as usize
    }

    /// Who announces a record at this time.
    pub(crate) fn of(&self, key: usize, at: Duration) -> usize {
        let old = self.old();
        if self.newcomer.is_some_and(|since| since <= at) { old } else { key % old }
    }

    /// The message that publisher `of` makes of `says`, numbered as the plan has it.
    pub(crate) fn message(&mut self, plan: &Plan, region: usize, of: usize, says: Says, at: Duration) -> Message {
        let numbered =
            (plan.proof == Proof::Watermark && !matches!(says, Says::Path | Says::Undecodable)).then(|| {
                let (life, number) = &mut self.publishers[of];
                // A heartbeat repeats the last number.
                *number += u64::from(!matches!(says, Says::Beat { .. }));
                (name(region, of, *life), *number)
            });
        Message { region, says, numbered, published: at }
    }

    /// True if the newcomer published it.
    pub(crate) fn is_newcomer(&self, message: &Message) -> bool {
        let newcomer = name(message.region, self.old(), 0);
        self.newcomer.is_some() && message.numbered.is_some_and(|(name, _)| name == newcomer)
    }

    /// Publishes a message: what arrives when; and which faults had a hand in it.
    pub(crate) fn publish(&mut self, plan: &Plan, message: Message, rng: &mut Rng) -> (Deliveries, Vec<Fault>) {
        let (message, stray) = stray(plan, message);
        let mut fired: Vec<Fault> = stray.into_iter().collect();
        let at = message.published;
        let windows: Vec<Window> =
            plan.windows.iter().copied().filter(|w| w.is_at(message.region) && w.holds(at)).collect();
        let change = matches!(message.says, Says::Write(_));
        let (earlier, rest) = (self.sent.iter().filter(|sent| matches!(sent.says, Says::Write(_))), &self.sent);
        let mut copies: Vec<(Duration, Message)> = vec![(at + delay(rng), message)];
        if change {
            if let Some(old) = window_of(&windows, Fault::HourLate).and_then(|_| earlier.clone().next()) {
                copies.push((at + delay(rng), Message { published: at.saturating_sub(HOUR), ..*old }));
                fired.push(Fault::HourLate);
            }
            if window_of(&windows, Fault::Replayed).is_some() && !rest.is_empty() {
                copies.push((at + delay(rng), rest[rng.usize(0..rest.len())]));
                fired.push(Fault::Replayed);
            }
            if window_of(&windows, Fault::Undecodable).is_some_and(|_| rng.f64() < 0.8) {
                copies[0].1 = Message { says: Says::Undecodable, numbered: None, ..message };
                fired.push(Fault::Undecodable);
            }
            if window_of(&windows, Fault::OlderAfterNewer).is_some_and(|_| rng.f64() < 0.6) {
                copies[0].0 = between(rng, at, at + Duration::from_secs(12));
                fired.push(Fault::OlderAfterNewer);
            }
            let recreated = on_anywhere(plan, Fault::DeletedAfterRecreation);
            if recreated
                && matches!(message.says, Says::Write(write) if plan.truth.writes[write].kind == Kind::Deleted)
            {
                copies[0].0 = between(rng, at, at + Duration::from_secs(8));
                fired.push(Fault::DeletedAfterRecreation);
            }
        }
        if let Some(late) = late_reset(&windows, message, rng) {
            copies = late;
            fired.push(Fault::LateReset);
        }
        if window_of(&windows, Fault::Duplicate).is_some_and(|_| rng.f64() < 0.7) {
            copies.push((between(rng, at, at + Duration::from_secs(6)), message));
            fired.push(Fault::Duplicate);
        }
        if window_of(&windows, Fault::SilentlyDead).is_some() {
            copies.clear();
            fired.push(Fault::SilentlyDead);
        }
        if self.is_revoked() {
            copies.clear();
            fired.push(Fault::PolicyRevoked);
        }
        if change && window_of(&windows, Fault::Lost).is_some_and(|window| rng.f64() < 0.3 + 0.6 * window.strength) {
            copies.clear();
            fired.push(Fault::Lost);
        }
        if window_of(&windows, Fault::FirstLost).is_some() && self.is_newcomer(&message) {
            copies.clear();
            fired.push(Fault::FirstLost);
        }
        if window_of(&windows, Fault::Balancer).is_some_and(|_| rng.f64() < 0.5) {
            copies.clear();
            fired.push(Fault::Balancer);
        }
        if change {
            self.sent.push(message);
        }
        let subscription = self.subscription.filter(|_| at >= self.since);
        if subscription.is_none() && window_of(&windows, Fault::ResubscribeWithHole).is_some() {
            fired.push(Fault::ResubscribeWithHole);
        }
        let deliveries = copies.into_iter().filter_map(|(at, message)| Some((at, subscription?, message)));
        (deliveries.collect(), fired)
    }
}

/// Delay of a message that comes an hour late.
const HOUR: Duration = Duration::from_secs(3_600);

/// A RESET that comes late, and perhaps twice.
fn late_reset(windows: &[Window], message: Message, rng: &mut Rng) -> Option<Vec<(Duration, Message)>> {
    let mut late = windows.iter().filter(|window| window.fault == Fault::LateReset);
    let window = late.find(|window| window.region == message.region && matches!(message.says, Says::Reset(_)))?;
    let again = rng.bool().then(|| between(rng, window.until, window.until + Duration::from_secs(20)));
    Some([window.until].into_iter().chain(again).map(|at| (at, message)).collect())
}

/// A publisher that was set up wrongly names no record that anybody reads, whatever it says of one,
/// or writes some keys or all in another letter case.
fn stray(plan: &Plan, message: Message) -> (Message, Option<Fault>) {
    let mut misnaming = [Fault::Mistyped, Fault::Astray].into_iter();
    match (message.says, misnaming.find(|fault| plan.is_on(*fault, message.region, message.published))) {
        (Says::Write(_) | Says::Jump(..), Some(fault)) => {
            let says = if fault == Fault::Mistyped { Says::Unrouted } else { Says::Astray };
            (Message { says, ..message }, Some(fault))
        }
        (Says::Write(write), None) if plan.is_in_other_case(message.region, write, message.published) => {
            (Message { says: Says::OtherCase(write), ..message }, None)
        }
        _ => (message, None),
    }
}

/// A publisher's name.
const fn name(region: usize, of: usize, life: u64) -> u64 {
    (region as u64 * 100 + of as u64) * 1_000 + life
}

fn window_of(windows: &[Window], fault: Fault) -> Option<&Window> {
    windows.iter().find(|window| window.fault == fault)
}

fn on_anywhere(plan: &Plan, fault: Fault) -> bool {
    plan.windows.iter().any(|window| window.fault == fault)
}

/// From publication to delivery: tens of milliseconds, at times seconds.
fn delay(rng: &mut Rng) -> Duration {
    let usual = Duration::from_millis(5 + rng.u64(0..150));
    if rng.f64() < 0.02 { usual + Duration::from_millis(rng.u64(0..2_500)) } else { usual }
}
