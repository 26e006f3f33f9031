//! Sidecars, as far as a region's nodes see them: they state what they have heard of, or insist, or
//! ask plainly.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use nearside::model::time::Moment;

use super::check::Name;
use super::made::VIEWS;
use super::node::{Asked, Got};
use super::plan::{between, seconds};
use super::world::World;

/// Requests that go out when a change is announced.
const AT_ONCE: usize = 3;
/// After which a sidecar asks elsewhere.
const PATIENCE: Duration = seconds(3);

/// A request under way.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) region: usize,
    pub(crate) node: usize,
    pub(crate) name: Name,
    pub(crate) asked: Asked,
    /// When, and after how many puts.
    pub(crate) began: (Moment, u64),
    /// The floor was announced by this very region before.
    pub(crate) is_announced: bool,
}

/// Asks now and then.
pub(crate) async fn read(world: Arc<World>) {
    let mut has = BTreeMap::new();
    loop {
        let every = world.plan.read_every * if world.is_calm() { 10 } else { 2 };
        tokio::time::sleep(between(Duration::ZERO, every)).await;
        let region = fastrand::usize(..world.plan.regions);
        one(&world, region, name(), &mut has).await;
    }
}

/// Asks as soon as a change is announced: about the same record at the same node, so that reads
/// from before and after it meet.
pub(crate) async fn read_at_once(world: Arc<World>, mut announced: UnboundedReceiver<(usize, Name)>) {
    while let Some((region, name)) = announced.recv().await {
        for _ in 0..AT_ONCE {
            let (asking, name) = (world.clone(), name.clone());
            let request = async move {
                tokio::time::sleep(between(Duration::ZERO, Duration::from_millis(40))).await;
                one(&asking, region, name, &mut BTreeMap::new()).await;
            };
            world.requests.lock().expect("a plain store").start(request);
        }
    }
}

/// Some are asked for more than others.
fn name() -> Name {
    let (view, from) = VIEWS[fastrand::usize(..VIEWS.len())];
    let key = match (from, fastrand::bool()) {
        ("tenant", true) => format!("t{}", fastrand::u8(..3)),
        ("tenant", false) => format!("t{}", fastrand::u8(..10)),
        _ => format!("s{}", fastrand::u8(..4)),
    };
    (view.to_owned(), key)
}

async fn one(world: &Arc<World>, region: usize, name: Name, has: &mut BTreeMap<Name, u64>) {
    let node = fastrand::usize(..2);
    let known = world.checker.lock().announced_versions(region, &name);
    let (floor, is_announced) = match fastrand::u8(..10) {
        // The newest that it has heard of from this region,
        0..=4 => (known.newest, true),
        // or an earlier one,
        5 => (known.earlier, true),
        // or what another region was faster to announce.
        6 => (known.elsewhere, known.elsewhere <= known.newest),
        _ => (None, false),
    };
    let asked = Asked {
        view: name.0.clone(),
        key: name.1.clone(),
        floor,
        no_cache: fastrand::u8(..3) > 0,
        has: has.get(&name).copied().filter(|_| fastrand::bool()),
    };
    if let Some(got) = ask(world, region, node, asked, is_announced && floor.is_some()).await {
        has.insert(name, got.version);
    }
}

/// One request; `None` when nothing came back.
pub(crate) async fn ask(
    world: &Arc<World>,
    region: usize,
    node: usize,
    asked: Asked,
    is_announced: bool,
) -> Option<Got> {
    let found = world.nodes.lock().expect("a plain store").get(&(region, node)).cloned();
    let (living, gate) = found?;
    let name = (asked.view.clone(), asked.key.clone());
    let began = world.checker.lock().begin();
    let read = Read { region, node, name, asked, began, is_announced };
    let answered = async {
        gate.awake().await;
        let got = living.answer(&read.asked).await;
        gate.awake().await;
        got
    };
    let got = tokio::select! {
        biased;
        () = gate.dead() => None,
        got = answered => Some(got),
        () = tokio::time::sleep(PATIENCE) => None,
    }?;
    world.checker.lock().read(&read, &got);
    Some(got)
}
