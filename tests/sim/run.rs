//! Owns one run: moves time, publishes, delivers, reads, breaks things, and tells the checker.
//!
//! Before it: a [`World`]. After it: what the checker found. Invariant: everything happens on one
//! thread in virtual time, in the order of the plan; the same seed does the same, to the last draw.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use nearside::protocol::event::{Action, Event};

use super::check::Checker;
use super::designs::Design;
use super::faults::Fault;
use super::plan::{REGIONS, Read, between};
use super::subject::Subject;
use super::topic::{Message, Says, Topic};
use super::world::World;

mod asking;
mod breaking;
mod subscribing;
mod telling;

/// Interval of each record's reads while all comes to rest.
const CALM_STEP: Duration = Duration::from_secs(40);

/// Scheduled event.
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
    /// A region tells what is to be read anew, or forgotten.
    Orders(usize, Says),
    /// The operator of the sidecar makes it forget what versions there were.
    Resets,
    /// A caller writes through the sidecar.
    Put(usize),
    /// Time passes.
    Tick,
}

/// Result of a run.
pub(crate) struct Outcome {
    /// Verdict and counts.
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

/// State that waiting readers share with the loop.
struct Shared {
    checker: Checker,
    trace: u64,
    /// A reader of what is too large to hold is waiting.
    waits_for_large: bool,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().expect("no panic while it was held")
}

/// Runs `world` to its end, or to the first violation.
pub(crate) async fn run(world: Arc<World>, design: Design) -> Outcome {
    let plan = &world.plan;
    let checker = Checker::new(plan, design != Design::Nearside);
    let shared = Arc::new(Mutex::new(Shared { checker, trace: 0, waits_for_large: false }));
    let mut run = Run {
        subject: Subject::new(&world, design),
        topics: plan.regions.iter().map(|region| Topic::new(plan, region.publishers)).collect(),
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
    run.check_content();
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
            if let Some(window) = plan.window(Fault::FirstLost) {
                let first = window.from + Duration::from_millis(self.rng.u64(0..5_000));
                self.at(first, Happening::Beat(region, plan.regions[region].publishers));
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
        for (number, put) in plan.puts.iter().enumerate() {
            self.at(plan.truth.writes[put.write].at, Happening::Put(number));
        }
        self.prepare_orders();
        let mut at = super::plan::SPAN;
        while at < plan.calm {
            for key in 0..plan.truth.keys() {
                let read = Read::new(between(&mut self.rng, at, at + CALM_STEP), key, 0);
                self.at(read.at, Happening::Read(read));
            }
            at += CALM_STEP;
        }
        for key in 0..plan.truth.keys() {
            for view in 0..3 {
                let read = Read::new(plan.calm, key, view);
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

    /// Carries out an event of the world on time; the sidecar may be late.
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
            Happening::Orders(region, says) => self.orders(region, says, when),
            Happening::Resets => self.resets(now),
            Happening::Put(number) => self.put(number).await,
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
                    self.world.tell(&[], || format!("epoch of region {} moves: {}", region.index(), why.into_str()));
                }
                Action::StateChanged(region, state) => {
                    self.world.tell(&[], || format!("region {} is {}", region.index(), state.into_str()));
                }
                _ => {}
            }
        }
    }
}

const _: () = assert!(REGIONS == 3, "one queue of three");
