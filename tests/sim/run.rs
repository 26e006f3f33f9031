//! Owns one run: moves time, publishes, delivers, reads, breaks things, and tells the checker.
//!
//! Before it: a [`World`]. After it: what the checker found. Invariant: everything happens on one thread in virtual time,
//! in the order of the plan; the same seed does the same, to the last draw.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use nearside::freshness::event::{Action, Event};

use super::answer::Answer;
use super::check::Checker;
use super::designs::Design;
use super::faults::Fault;
use super::plan::{Proof, REGIONS, Read, between};
use super::subject::Subject;
use super::topic::{Message, Says, Topic};
use super::world::World;

mod breaking;
mod subscribing;

/// How often each record is read while all comes to rest.
const CALM_STEP: Duration = Duration::from_secs(40);

/// What happens at a time.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// A region ingested a write; its publisher announces it.
    Ingested(usize, usize),
    /// A publisher's heartbeat is due.
    Beat(usize, usize),
    /// A message arrives at a subscription.
    Delivery(u32, Message),
    /// The sidecar sets out to subscribe.
    Subscribe(usize),
    /// Its subscription is made.
    Subscribed(usize),
    /// A long poll comes back.
    Poll(usize),
    /// The subscription's attributes are looked at.
    Attest(usize),
    /// A reader asks.
    Read(Read),
    /// A reader asks when all has come to rest.
    LastRead(Read),
    /// A window begins.
    Begins(usize),
    /// A window ends.
    Ends(usize),
    /// A publisher says that a record is to be read anew.
    Reload(usize, usize),
    /// Time passes.
    Tick,
}

/// What a run came to.
pub(crate) struct Outcome {
    /// What was checked and counted.
    pub(crate) checker: Checker,
    /// The world, for its story and the faults that fired.
    pub(crate) world: Arc<World>,
    /// A number for everything that readers saw: two runs of a seed must agree on it.
    pub(crate) trace: u64,
}

struct Run {
    world: Arc<World>,
    subject: Subject,
    shared: Arc<Mutex<Shared>>,
    topics: Vec<Topic>,
    queue: BinaryHeap<Reverse<(Duration, u64, usize)>>,
    happenings: Vec<Happening>,
    rng: Rng,
    /// Until when what was on its way is held up by a pause.
    paused_until: Duration,
    /// Rechecks and fills of the sidecar that a restart left behind.
    left: Vec<&'static str>,
}

/// What readers that wait share with the loop.
struct Shared {
    checker: Checker,
    trace: u64,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().expect("no panic while it was held")
}

/// Runs `world` to its end, or to the first violation.
pub(crate) async fn run(world: Arc<World>, design: Design) -> Outcome {
    let plan = &world.plan;
    let checker = Checker::new(plan, design != Design::Nearside);
    let shared = Arc::new(Mutex::new(Shared { checker, trace: 0 }));
    let mut run = Run {
        subject: Subject::new(&world, design),
        topics: plan.regions.iter().map(|region| Topic::new(region.publishers)).collect(),
        queue: BinaryHeap::new(),
        happenings: Vec::new(),
        rng: Rng::with_seed(plan.seed ^ 0x0072_756e),
        paused_until: Duration::ZERO,
        left: Vec::new(),
        shared,
        world,
    };
    run.prepare();
    run.go().await;
    let under_way = run.subject.stop(&mut run.left).await;
    let mut shared = lock(&run.shared);
    let checker = Checker::new(&run.world.plan, true);
    let mut checker = std::mem::replace(&mut shared.checker, checker);
    checker.end(&run.world, &run.left, under_way);
    Outcome { checker, trace: shared.trace, world: run.world.clone() }
}

impl Run {
    fn at(&mut self, when: Duration, what: Happening) {
        let number = self.happenings.len();
        self.happenings.push(what);
        self.queue.push(Reverse((when, number as u64, number)));
    }

    /// Puts the whole plan into the queue.
    fn prepare(&mut self) {
        let world = self.world.clone();
        let plan = &world.plan;
        for (region, ingests) in plan.truth.ingests.iter().enumerate().take(plan.topics) {
            for (write, at) in ingests.iter().enumerate() {
                let after = Duration::from_millis(self.rng.u64(0..20));
                self.at(*at + after, Happening::Ingested(region, write));
            }
            let soon = Duration::from_millis(100 + self.rng.u64(0..2_000));
            self.at(soon, Happening::Subscribe(region));
            for publisher in 0..plan.regions[region].publishers {
                let phase = Duration::from_millis(self.rng.u64(0..5_000));
                self.at(phase, Happening::Beat(region, publisher));
            }
            self.at(Duration::from_secs(1), Happening::Poll(region));
            self.at(Duration::from_secs(2), Happening::Attest(region));
        }
        for (index, window) in plan.windows.iter().enumerate() {
            self.at(window.from, Happening::Begins(index));
            self.at(window.until, Happening::Ends(index));
        }
        for read in &plan.reads {
            self.at(read.at, Happening::Read(*read));
        }
        let mut at = super::plan::SPAN;
        while at < plan.calm {
            for key in 0..plan.truth.keys() {
                let read = Read { at: between(&mut self.rng, at, at + CALM_STEP), key, view: 0 };
                self.at(read.at, Happening::Read(read));
            }
            at += CALM_STEP;
        }
        for key in 0..plan.truth.keys() {
            for view in 0..3 {
                let read = Read { at: plan.calm, key, view };
                self.at(plan.calm + Duration::from_millis(key as u64), Happening::LastRead(read));
            }
        }
        self.at(Duration::from_secs(1), Happening::Tick);
    }

    async fn go(&mut self) {
        let end = self.world.plan.calm + Duration::from_secs(5);
        while let Some(Reverse((when, _, number))) = self.queue.pop() {
            if when > end || lock(&self.shared).checker.violation.is_some() {
                break;
            }
            let (now, what) = (self.world.elapsed(), self.happenings[number]);
            // What only the world does needs no waiting: what comes of it has its own time.
            let ours = !matches!(what, Happening::Ingested(..) | Happening::Beat(..));
            if ours && when > now {
                tokio::time::sleep(when - now).await;
            }
            self.happen(when, what).await;
        }
    }

    /// What the world does, it does on time; the sidecar may be late.
    async fn happen(&mut self, when: Duration, what: Happening) {
        let now = self.world.elapsed();
        match what {
            Happening::Ingested(region, write) => self.announce(region, write, when),
            Happening::Beat(region, publisher) => self.beat(region, publisher, when),
            Happening::Delivery(subscription, message) => self.deliver(subscription, message, now),
            Happening::Subscribe(region) => self.subscribe(region, now),
            Happening::Subscribed(region) => self.subscribed(region, now),
            Happening::Poll(region) => self.poll(region, now),
            Happening::Attest(region) => self.attest(region, now),
            Happening::Read(read) => self.read(read, false).await,
            Happening::LastRead(read) => self.read(read, true).await,
            Happening::Begins(window) => self.begins(window, now).await,
            Happening::Ends(window) => self.ends(window),
            Happening::Reload(region, key) => {
                self.world.fired(Fault::Reload);
                self.send(region, key, Says::Reload(key), when);
            }
            Happening::Tick => {
                self.step(Event::Tick);
                self.at(now + Duration::from_secs(1), Happening::Tick);
            }
        }
    }

    /// Applies an event; a new subscription that is asked for is made by this world.
    fn step(&mut self, event: Event) {
        for action in self.subject.step(event) {
            match action {
                Action::Resubscribe(region, after) => {
                    let region = region.index();
                    self.topics[region].subscription = None;
                    lock(&self.shared).checker.known.subscribed(region, None);
                    let after = after.mul_f64(0.5 + self.rng.f64() / 2.0);
                    self.at(self.world.elapsed() + after, Happening::Subscribe(region));
                }
                Action::EpochMoved(region, _, why) => {
                    self.world.tell(&[], || format!("epoch of region {} moves: {why}", region.index()));
                }
                Action::StateChanged(region, state) => {
                    self.world.tell(&[], || format!("region {} is {}", region.index(), state.word()));
                }
                _ => {}
            }
        }
    }

    fn announce(&mut self, region: usize, write: usize, now: Duration) {
        let change = self.world.plan.truth.writes[write];
        if change.silent {
            let all = self.world.plan.truth.ingests.iter().map(|ingests| ingests[write]).max().unwrap_or(now);
            let told = self.world.plan.windows.iter().find(|w| w.fault == Fault::Reload);
            if told.is_some_and(|window| window.region == region) {
                self.at(all + Duration::from_millis(500), Happening::Reload(region, change.key));
            }
            return;
        }
        // Nobody has read it for long: it is announced while nothing is stored.
        if write.is_multiple_of(3) && self.world.plan.windows.iter().any(|w| w.fault == Fault::AbsentThenLagging) {
            self.subject.evict(std::iter::once(change.key));
        }
        self.send(region, change.key, Says::Write(write), now);
    }

    /// A publisher of the region, always the same for a record, publishes.
    fn send(&mut self, region: usize, key: usize, says: Says, now: Duration) {
        let publisher = key % self.topics[region].publishers();
        let world = self.world.clone();
        let message = self.topics[region].message(&world.plan, region, publisher, says, now);
        self.publish(message);
    }

    fn publish(&mut self, message: Message) {
        let world = self.world.clone();
        let (deliveries, fired) = self.topics[message.region].publish(&world.plan, message, &mut self.rng);
        fired.into_iter().for_each(|fault| world.fired(fault));
        if deliveries.is_empty() {
            world.tell(&keys_of(&world, message.says), || format!("LOST on topic {}: {:?}", message.region, message));
        }
        for (at, subscription, message) in deliveries {
            self.at(at, Happening::Delivery(subscription, message));
        }
    }

    fn beat(&mut self, region: usize, publisher: usize, now: Duration) {
        self.at(now + Duration::from_secs(5), Happening::Beat(region, publisher));
        let world = self.world.clone();
        let says = match world.plan.proof {
            Proof::Watermark => {
                let skew = world.plan.windows.iter().find(|w| w.fault == Fault::PublisherSkew && w.region == region);
                let ahead = skew.map_or(Duration::ZERO, |window| Duration::from_secs(5).mul_f64(window.strength));
                if skew.is_some() {
                    world.fired(Fault::PublisherSkew);
                }
                if world.is_on(Fault::IngestStalled, region, now) {
                    world.fired(Fault::IngestStalled);
                }
                Says::Beat { through: world.plan.truth.through(region, now) + ahead }
            }
            Proof::Path if publisher == 0 => Says::Path,
            _ => return,
        };
        let message = self.topics[region].message(&world.plan, region, publisher, says, now);
        self.publish(message);
    }

    fn deliver(&mut self, subscription: u32, message: Message, now: Duration) {
        if self.topics[message.region].subscription != Some(subscription) {
            return;
        }
        let world = self.world.clone();
        if now < self.paused_until {
            let after = Duration::from_millis(self.rng.u64(0..500));
            return self.at(self.paused_until + after, Happening::Delivery(subscription, message));
        }
        let keys = keys_of(&world, message.says);
        if world.is_on(Fault::ApplyFails, message.region, now) {
            world.fired(Fault::ApplyFails);
            world.tell(&keys, || format!("could not be applied: {message:?}"));
            if !Subject::acknowledges_unapplied() {
                let again = Duration::from_secs(5 + self.rng.u64(0..25));
                self.at(now + again, Happening::Delivery(subscription, message));
            }
            return;
        }
        self.notice_fetches(&message, &keys, now);
        world.tell(&keys, || format!("arrives from topic {}: {:?}", message.region, message));
        lock(&self.shared).checker.known.delivered(&world.plan, &message, now);
        let event = self.subject.event(&world, &message);
        self.step(event);
    }

    /// Some faults are coincidences: an announcement meets a fetch.
    fn notice_fetches(&mut self, message: &Message, keys: &[usize], now: Duration) {
        let (Says::Write(_), Some(key)) = (message.says, keys.first()) else { return };
        if self.subject.is_asked_for(*key) {
            self.world.fired(Fault::DuringFetch);
            self.world.fired(Fault::LateReader);
            for view in 0..2 {
                let read = Read { at: now, key: *key, view };
                self.at(now + Duration::from_millis(u64::from(view)), Happening::Read(read));
            }
        } else if !self.subject.holds(*key) {
            self.world.fired(Fault::AbsentThenLagging);
        }
    }

    /// A reader: answered at once by a hit, later by a fill.
    async fn read(&mut self, read: Read, last: bool) {
        let (world, shared) = (self.world.clone(), self.shared.clone());
        let began = world.elapsed();
        let asking = self.subject.ask(&world, read);
        let answering = async move {
            let (status, line, seen) = asking.await;
            let answer = Answer { read, began, ended: world.elapsed(), status, line, seen };
            let mut shared = lock(&shared);
            shared.checker.answered(&world, &answer);
            if last {
                shared.checker.rested(&world, &answer);
            }
            shared.trace = shared.trace.wrapping_add(imprint(&answer));
            drop(shared);
            world.tell(&[read.key], || {
                format!(
                    "a reader of view {} since {:.3} gets {}: {:?} [{}]",
                    read.view,
                    began.as_secs_f64(),
                    answer.status,
                    answer.seen.as_ref().map(|seen| &seen.shown),
                    answer.line
                )
            });
        };
        let mut answering = Box::pin(answering);
        if futures_util::poll!(&mut answering).is_pending() {
            self.subject.tasks().spawn("reader", answering);
        }
    }
}

/// A number for what a reader got and when. Readers of one moment are told in no particular order, so that imprints are
/// only ever summed.
fn imprint(answer: &Answer) -> u64 {
    let mix = |seen: u64, part: u64| (seen ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    let mut seen = mix(answer.ended.as_nanos() as u64, answer.began.as_nanos() as u64);
    seen = mix(seen, u64::from(answer.status) << 32 | answer.read.key as u64);
    for (key, place) in answer.seen.iter().flat_map(|seen| &seen.shown) {
        seen = mix(seen, (key * 100_000 + place) as u64);
    }
    answer.line.bytes().fold(seen, |seen, byte| mix(seen, u64::from(byte)))
}

fn keys_of(world: &World, says: Says) -> Vec<usize> {
    match says {
        Says::Write(write) => vec![world.plan.truth.writes[write].key],
        Says::Jump(key, _) | Says::Reload(key) => vec![key],
        _ => Vec::new(),
    }
}

const _: () = assert!(REGIONS == 3, "one queue of three");
