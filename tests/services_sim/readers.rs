//! Sidecars, as far as a region's nodes see them: they state what they have received, or insist, or
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

/// After which a sidecar asks elsewhere.
const TIMEOUT: Duration = seconds(3);

/// A request under way.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) region: usize,
    pub(crate) node: usize,
    pub(crate) name: Name,
    pub(crate) asked: Asked,
    /// Start of the request, and the number of puts before it.
    pub(crate) began: (Moment, u64),
    /// The floor was announced by this very region before.
    pub(crate) is_announced: bool,
}

/// Asks now and then.
pub(crate) async fn read(world: Arc<World>) {
    let mut reader = Reader::default();
    loop {
        let every = world.plan.read_every * if world.is_calm() { 10 } else { 2 };
        tokio::time::sleep(between(Duration::ZERO, every)).await;
        let (region, node) = (fastrand::usize(..world.plan.regions), fastrand::usize(..2));
        reader.read(&world, region, node, name(), Wish::Any).await;
    }
}

/// Event of a view, on its way to a region's readers.
#[derive(Clone, Debug)]
pub(crate) enum Stir {
    /// The region will have it soon.
    Written(usize, Name),
    /// It has it, and nobody knows.
    Put(usize, Name),
    Announced(usize, Name),
}

/// Asks around each change, so that reads from before and after it meet at a node.
pub(crate) async fn read_when_stirred(world: Arc<World>, mut stirred: UnboundedReceiver<Stir>) {
    while let Some(stir) = stirred.recv().await {
        let (region, name, within, wishes) = match stir {
            Stir::Written(region, name) => (region, name, 500, &[Wish::Insists][..]),
            Stir::Put(region, name) => (region, name, 10, &[Wish::Insists][..]),
            Stir::Announced(region, name) => (region, name, 40, &[Wish::Newest, Wish::Any][..]),
        };
        for wish in wishes {
            let (asking, name) = (world.clone(), name.clone());
            let node = usize::from(fastrand::u8(..4) == 0);
            let request = async move {
                tokio::time::sleep(between(Duration::ZERO, Duration::from_millis(within))).await;
                Reader::default().read(&asking, region, node, name, *wish).await;
            };
            world.requests.lock().expect("a plain store").start(request);
        }
    }
}

/// Kind of a request.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Any,
    /// `no-cache`, and no floor.
    Insists,
    /// The newest that this region has announced.
    Newest,
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

/// A sidecar, and the versions that it has.
#[derive(Default)]
struct Reader {
    has: BTreeMap<Name, u64>,
}

impl Reader {
    async fn read(&mut self, world: &Arc<World>, region: usize, node: usize, name: Name, wish: Wish) {
        let known = world.checker.lock().announced_versions(region, &name);
        let drawn = match wish {
            Wish::Any => fastrand::u8(..10),
            Wish::Insists => 9,
            Wish::Newest => 0,
        };
        let (floor, is_announced) = match drawn {
            // The newest that it has received from this region,
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
            no_cache: matches!(wish, Wish::Insists) || fastrand::u8(..3) > 0,
            has: self.has.get(&name).copied().filter(|_| fastrand::bool()),
        };
        if let Some(got) = ask(world, region, node, asked, is_announced && floor.is_some()).await {
            self.has.insert(name, got.version);
        }
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
        () = tokio::time::sleep(TIMEOUT) => None,
    }?;
    world.checker.lock().read(&read, &got);
    Some(got)
}
