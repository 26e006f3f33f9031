//! One run: the world lives until it is calm, and then has so long to agree.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nearside::access::record::GRANTS;
use nearside::engine::faulty::FaultRates;
use nearside::engine::limits::BEGIN_MARGIN;
use nearside::engine::{Table, bucket};
use nearside::tasks::TaskGroup;
use tokio::sync::mpsc::unbounded_channel;

use super::check::Violation;
use super::deliveries::DeliveryRates;
use super::faults::Fault;
use super::node::Asked;
use super::plan::{Plan, Wishes, draw, seconds};
use super::world::{Process, World};
use super::{readers, trouble, writers};

/// G7: within a minute, and the backlog.
const MINUTE: Duration = Duration::from_secs(60);
/// Twice the time of a definition's, or a scan's, jobs at two views a second.
const BACKLOG: Duration = Duration::from_secs(60);
/// Two rounds of each sweep, one behind the other.
const SWEEPS: Duration = Duration::from_secs(420);
const LOOK: Duration = Duration::from_secs(5);
/// After which heartbeats have claimed everything.
const LAST_CLAIMS: Duration = Duration::from_secs(12);
/// After which what was lost on its way to the nodes has been noticed, and subscribed to anew.
const HEARD: Duration = Duration::from_secs(40);

pub(crate) struct Outcome {
    pub(crate) faults: BTreeSet<Fault>,
    pub(crate) violation: Option<Violation>,
    pub(crate) story: Vec<String>,
    pub(crate) tallies: std::collections::BTreeMap<&'static str, u64>,
    /// From calm to agreement.
    pub(crate) agreed_after: Duration,
    pub(crate) plan: Plan,
}

/// Runs a seed on this thread.
pub(crate) fn simulate(seed: u64, wishes: &Wishes, tells: bool) -> Outcome {
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without I/O needs nothing");
    let outcome = runtime.block_on(run(draw(wishes), tells));
    drop(runtime);
    outcome
}

async fn run(plan: Plan, tells: bool) -> Outcome {
    let (stir, stirred) = unbounded_channel();
    let world = World::new(plan, stir, tells);
    let mut living = TaskGroup::new();
    for process in processes(&world.plan) {
        living.start(world.clone().supervise(process));
    }
    for number in 0..world.plan.writers {
        living.start(writers::write(world.clone(), number));
    }
    for _ in 0..world.plan.readers {
        living.start(readers::read(world.clone()));
    }
    living.start(writers::grant(world.clone()));
    living.start(readers::read_when_stirred(world.clone(), stirred));
    living.start(trouble::trouble(world.clone()));
    tokio::time::sleep(world.plan.calm_at).await;
    calm(&world);
    let agreed_after = agree(&world).await;
    nodes_agree(&world).await;
    world.checker.lock().at_the_end(&world.home);
    drop(living);
    *world.requests.lock().expect("a plain store") = TaskGroup::new();
    let mut checker = world.checker.lock();
    Outcome {
        faults: world.plan.faults.clone(),
        violation: checker.violation.take(),
        story: checker.story.take().unwrap_or_default(),
        tallies: std::mem::take(&mut checker.tallies),
        agreed_after,
        plan: world.plan.clone(),
    }
}

fn processes(plan: &Plan) -> Vec<Process> {
    let pair = [0, 1];
    let ingesters = (0..plan.regions).flat_map(|region| pair.map(|number| Process::Ingest(region, number)));
    let nodes = (0..plan.regions).flat_map(|region| pair.map(|number| Process::Node(region, number)));
    let home = pair.map(Process::Catalogue).into_iter().chain(pair.map(Process::Views));
    home.chain(ingesters).chain(nodes).collect()
}

/// Nothing goes wrong any more.
fn calm(world: &Arc<World>) {
    world.checker.say(|| "all is calm".to_owned());
    world.is_calm.store(true, Ordering::Relaxed);
    for troubles in world.troubles.values() {
        for faults in [&troubles.tables, &troubles.feed, &troubles.topic] {
            faults.set(FaultRates::default());
        }
    }
    world.deliveries.iter().for_each(|deliveries| deliveries.set(DeliveryRates::default()));
    world.checker.lock().skips = 0.0;
    world.gates.lock().expect("a plain store").values().for_each(|gate| gate.spare());
    if world.has(Fault::NewDefinition) {
        world.is_defined.store(true, Ordering::Relaxed);
        (0..2).for_each(|number| trouble::kill(world, Process::Views(number)));
    }
}

/// Waits until everything agrees; how long that took.
async fn agree(world: &Arc<World>) -> Duration {
    if world.has(Fault::LostRecords) {
        // Requests that are under way end first.
        tokio::time::sleep(seconds(20)).await;
        writers::write_anew(world).await;
    }
    let needs_sweep = world.plan.faults.iter().any(|fault| fault.needs_sweep());
    let longest = MINUTE + BACKLOG + if needs_sweep { SWEEPS } else { Duration::ZERO };
    let mut waited = Duration::ZERO;
    loop {
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
        let definition = world.definition();
        let mut checker = world.checker.lock();
        let Some(how) = checker.disagreement(definition, &world.home, &world.regions) else { break };
        if checker.violation.is_some() {
            return waited;
        }
        if waited >= longest {
            checker.violated("G7", how);
            return waited;
        }
    }
    tokio::time::sleep(LAST_CLAIMS).await;
    let definition = world.definition();
    let mut checker = world.checker.lock();
    if let Some(how) = checker.disagreement(definition, &world.home, &world.regions) {
        checker.violated("G7", format!("it agreed, and no longer does: {how}"));
    }
    waited
}

/// Compares nodes' answers with their region's table, once they have received all announcements.
/// Faults that only a sweep mends take too long for that.
async fn nodes_agree(world: &Arc<World>) {
    if world.plan.faults.iter().any(|fault| fault.needs_sweep()) || world.checker.lock().violation.is_some() {
        return;
    }
    if world.has(Fault::Trimmed) {
        // A feed that forgets what is younger than the margin, as none outside of here does, lets a
        // region begin only once what it forgot is older.
        tokio::time::sleep(BEGIN_MARGIN).await;
    }
    tokio::time::sleep(HEARD).await;
    for (region, store) in world.regions.iter().enumerate() {
        for item in store.dump(Table::Contexts) {
            let view = bucket::name_of(&item.key.partition).filter(|view| *view != GRANTS);
            let Some(view) = view else { continue };
            let asked = Asked { view: view.to_owned(), key: item.key.sort.clone(), ..Asked::default() };
            for node in 0..2 {
                let got = readers::ask(world, region, node, asked.clone(), false).await;
                world.checker.lock().converged(region, &item, got.as_ref());
            }
        }
    }
}
