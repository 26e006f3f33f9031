//! Owns what is under test: a whole sidecar without sockets, or one of the designs beside it.
//!
//! Before it: [`super::run`]. After it: answers with what they show. Invariant: nothing of a
//! stopped subject runs on.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use http::Method;
use nearside::cache::capacity::Memory;
use nearside::cache::key::HashKey;
use nearside::config::read::from_toml;
use nearside::fill::audit;
use nearside::fill::effects::apply_actions;
use nearside::fill::settings::Parts;
use nearside::http::bodies::ByteBudget;
use nearside::model::ids::{RecordId, RegionId, Version};
use nearside::model::time::Wall;
use nearside::protocol::event::{Action, Event, Says as Announced, Scope};
use nearside::protocol::wiring::KeySpelling;
use nearside::request::settings::Settings;
use nearside::sidecar::announcements::Disposition;
use nearside::tasks::Tasks;

use super::content;
use super::designs::{Design, Simple};
use super::manner::Manner;
use super::plan::{Plan, REGIONS, Read};
use super::topic::{Message, Reach, Says};
use super::truth::Kind;
use super::world::{Regions, Shown, World};

mod readers;

/// Records that are remembered without an entry, in a simulation: so few that a flood of
/// announcements is too much.
const FLOOR_SLOTS: usize = 512;

/// Names of the regions.
pub(crate) const REGION_NAMES: [&str; REGIONS] = ["a", "b", "c"];

/// Answer to a reader: status, `Cache-Status`, and parsed content.
pub(crate) type Got = (u16, String, Option<Seen>);

/// One answer to one reader.
pub(crate) struct Asked {
    /// Request; in a batch that is one key of it.
    pub(crate) read: Read,
    pub(crate) got: Got,
    /// True if it may have waited for a while before the reader received it.
    pub(crate) waited: bool,
}

/// Receiver of answers, as they come.
pub(crate) type Tell = Box<dyn FnMut(Asked) + Send>;

/// Parsed content of a reply.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Number of its race.
    pub(crate) race: u64,
    /// From which region.
    pub(crate) region: usize,
    /// Time of its request.
    pub(crate) asked: Duration,
    /// Time at which its content was current, as far as its `Age` tells.
    pub(crate) generated: Duration,
    /// Each record with its position, by the body where there is one.
    pub(crate) shown: Shown,
    /// True if a head says when it was asked for.
    pub(crate) is_dated: bool,
    /// Part of the body that is another's, or another version's than its head speaks of.
    pub(crate) foreign: Option<String>,
}

/// Design under test.
pub(crate) enum Subject {
    /// Ours.
    Nearside(Arc<Settings>),
    /// Another design.
    Simple(Arc<Simple>, Tasks),
}

/// The path of a read.
pub(crate) fn path(plan: &Plan, read: Read) -> String {
    let key = read.key;
    match read.view {
        2 => format!("/v1/pairs/k{key}/k{}", (key + 1) % plan.truth.keys()),
        view => format!("/v1/contexts/k{key}/{view}"),
    }
}

fn settings(plan: &Plan) -> String {
    let mut text = String::from("service.name = \"contexts\"\n");
    for name in REGION_NAMES {
        text += &format!("[[service.region]]\nname = \"{name}\"\nurl = \"http://127.0.0.1:1/{name}\"\n");
    }
    let mut shapes =
        format!("schema = \"{}#{}\"\nfields = \"fields\"\n", content::descriptors().display(), content::MESSAGE);
    if !plan.has_shapes() {
        shapes.clear();
    }
    // Some services take no batches.
    let upstream = if plan.seed.is_multiple_of(3) { "" } else { "upstream_batch = \"/v1/batch/{view}\"\n" };
    text += &format!(
        "[[service.route]]\npath = \"/v1/contexts/{{key}}/{{view}}\"\nrecords = [\"context:{{key}}\"]\n\
         batch = \"/v1/batch/{{view}}\"\n{upstream}{shapes}\
         [[service.route]]\npath = \"/v1/pairs/{{one}}/{{two}}\"\nrecords = [\"context:{{one}}\", \"context:{{two}}\"]\n\
         {shapes}[announcements]\ntransport = \"off\"\n[race]\ndeadline = \"2s\"\n"
    );
    text += &format!("[cache]\nttl = \"{}s\"\n[freshness]\nstrict = {}\n", plan.ttl.as_secs(), plan.strict);
    text += &format!("audit_period = \"{}s\"\n", plan.audit.map_or(0, |period| period.as_secs()));
    text
}

impl Subject {
    /// A new one, that knows nothing.
    pub(crate) fn new(world: &Arc<World>, design: Design) -> Self {
        let origin = Arc::new(Regions(world.clone()));
        if design != Design::Nearside {
            return Self::Simple(Arc::new(Simple::new(design, origin, world.plan.ttl)), Tasks::new());
        }
        fastrand::seed(world.plan.seed);
        let config = from_toml(&settings(&world.plan)).expect("the settings above");
        let parts = Parts {
            clock: world.clock.clone(),
            origin,
            tasks: Tasks::new(),
            hash_key: HashKey::fixed(world.plan.seed),
            floor_slots: FLOOR_SLOTS,
            memory: Memory::AMPLE,
            bodies: ByteBudget::new(nearside::http::limits::BODIES_BYTES),
        };
        let sidecar = Settings::new(config, parts).expect("no credentials are read");
        audit::start(&sidecar.fill);
        Self::Nearside(sidecar)
    }

    /// Which design it is.
    pub(crate) fn design(&self) -> Design {
        match self {
            Self::Nearside(_) => Design::Nearside,
            Self::Simple(simple, _) => simple.design,
        }
    }

    /// Group of its readers' tasks.
    pub(crate) fn tasks(&self) -> &Tasks {
        match self {
            Self::Nearside(sidecar) => &sidecar.fill.shared.tasks,
            Self::Simple(_, tasks) => tasks,
        }
    }

    /// Says whether it has seen for a minute that this region alone shows what nobody announced: the
    /// evidence of the finding `region-ahead`. `None` of a design that looks for nothing.
    pub(crate) fn is_ahead(&self, region: usize) -> Option<bool> {
        let Self::Nearside(sidecar) = self else { return None };
        let worst_lag = sidecar.fill.config.freshness.worst_lag;
        let notes = sidecar.fill.shared.observed.seen();
        let mut leads = notes.leads.iter().filter(|lead| lead.region.index() == region);
        Some(leads.any(|lead| lead.last.since(lead.first) >= worst_lag && lead.below.iter().count() >= REGIONS - 1))
    }

    /// Says whether it has found other content under the same version; never a design that does not
    /// look.
    pub(crate) fn has_other_content(&self) -> bool {
        let Self::Nearside(sidecar) = self else { return false };
        sidecar.fill.shared.observed.seen().routes.values().any(|notes| notes.other_content.is_some())
    }

    /// Drains it. Returns the fills that are still counted; tasks that had to be dropped go to
    /// `left`.
    pub(crate) async fn stop(&mut self, left: &mut Vec<&'static str>) -> usize {
        left.extend(self.tasks().drain(Duration::from_secs(60)).await);
        match self {
            Self::Nearside(sidecar) => sidecar.fill.shared.fills.under_way(),
            Self::Simple(..) => 0,
        }
    }

    /// Applies an event: what is for the world to do comes back.
    pub(crate) fn step(&self, event: Event) -> Vec<Action> {
        match self {
            Self::Nearside(sidecar) => {
                let actions = sidecar.fill.shared.freshness.step(
                    sidecar.fill.shared.clock.now(),
                    sidecar.fill.shared.clock.wall(),
                    event,
                );
                apply_actions(&sidecar.fill, actions.clone());
                actions
            }
            Self::Simple(simple, _) => {
                simple.step(&event);
                Vec::new()
            }
        }
    }

    /// A message in the protocol's terms.
    pub(crate) fn event(&self, world: &World, message: &Message) -> Event {
        let plan = &world.plan;
        let says = match message.says {
            Says::Write(write) => {
                let write = &plan.truth.writes[write];
                let id = self.record(write.key);
                match write.kind {
                    Kind::Changed => Announced::Changed(id, stated(plan, write.version)),
                    Kind::Deleted => Announced::Deleted(id, stated(plan, write.version)),
                }
            }
            Says::Jump(key, to) => Announced::Changed(self.record(key), Some(Version(to))),
            Says::OtherCase(write) => {
                let write = &plan.truth.writes[write];
                let id = self.named(&format!("K{}", write.key));
                match write.kind {
                    Kind::Changed => Announced::Changed(id, stated(plan, write.version)),
                    Kind::Deleted => Announced::Deleted(id, stated(plan, write.version)),
                }
            }
            Says::Beat { through } => Announced::Heartbeat {
                path: false,
                ingested_through: Some(world.calendar(through)),
                signing_off: false,
            },
            Says::Path => Announced::Heartbeat { path: true, ingested_through: None, signing_off: false },
            Says::Undecodable => Announced::Undecodable,
            Says::Unrouted => Announced::Unrouted,
            Says::Astray => {
                let id = self.record(0);
                Announced::Changed(RecordId { hash: !id.hash, ..id }, stated(plan, 1 + message.published.as_secs()))
            }
            Says::Reload(reach) => Announced::Reload(self.scope(reach)),
            Says::Reset(reach) => Announced::Reset(self.scope(reach)),
        };
        let published = world.calendar(message.published);
        let numbered = match message.says {
            Says::Path => Some((1, slot(published))),
            _ => message.numbered,
        };
        Event::Message { region: RegionId(message.region as u8), published, queued: Some(published), numbered, says }
    }

    fn scope(&self, reach: Reach) -> Scope {
        match reach {
            Reach::Record(key) => Scope::Record(self.record(key)),
            Reach::Type => Scope::Type(self.record(0).record_type),
            Reach::All => Scope::All,
        }
    }

    fn record(&self, key: usize) -> RecordId {
        match self {
            Self::Nearside(_) => self.named(&format!("k{key}")),
            Self::Simple(..) => Simple::record(key),
        }
    }

    /// The record of this name; of the other designs one that nobody reads.
    fn named(&self, name: &str) -> RecordId {
        match self {
            Self::Nearside(sidecar) => {
                sidecar.fill.shared.keyed_hashes.record("context", name).expect("a route names it")
            }
            Self::Simple(..) => Simple::record(usize::MAX),
        }
    }

    /// `region` wrote this record's key in another letter case. Says whether the record is read here:
    /// then the sidecar learns whose key that probably is.
    pub(crate) fn misnames(&self, region: usize, key: usize) -> bool {
        let Self::Nearside(sidecar) = self else { return false };
        let (id, region) = (self.record(key), RegionId(region as u8));
        let meant = sidecar.fill.shared.freshness.is_read(id).then_some((id, KeySpelling::LetterCase));
        sidecar.fill.shared.freshness.unread_key(id.record_type, region, meant, sidecar.fill.shared.clock.now());
        meant.is_some()
    }

    /// Says whether it has found that `region` writes keys in another letter case; `None` of a design
    /// that looks for nothing.
    pub(crate) fn finds_other_case(&self, region: usize) -> Option<bool> {
        let Self::Nearside(sidecar) = self else { return None };
        let wired = sidecar.fill.shared.freshness.wired(sidecar.fill.shared.clock.now());
        Some(wired.iter().any(|wired| wired.other_case.contains(RegionId(region as u8))))
    }

    /// A reader asks; `tell` hears of each answer he gets.
    pub(crate) fn ask(&self, world: &Arc<World>, read: Read, tell: Tell) -> BoxFuture<'static, ()> {
        match self {
            Self::Nearside(sidecar) => readers::ask(sidecar.clone(), world.clone(), read, tell).boxed(),
            Self::Simple(simple, _) => {
                let (simple, world, mut tell) = (simple.clone(), world.clone(), tell);
                // They know of no shapes, and of no batches.
                let keys = Manner::of(&world.plan, read).keys;
                let keys = if keys.is_empty() { vec![read.key] } else { keys };
                let reads = keys.into_iter().map(move |key| Read { key, ..read });
                let asking = async move {
                    for read in reads {
                        let got = simple.clone().ask(world.clone(), path(&world.plan, read)).await;
                        tell(Asked { read, got, waited: false });
                    }
                };
                asking.boxed()
            }
        }
    }

    /// A caller writes; the other designs are not in the way of writes.
    pub(crate) fn put(&self, world: &World, number: usize) -> Option<BoxFuture<'static, Got>> {
        let Self::Nearside(sidecar) = self else { return None };
        let write = &world.plan.truth.writes[world.plan.puts[number].write];
        let method = if write.kind == Kind::Deleted { Method::DELETE } else { Method::PUT };
        let path = path(&world.plan, Read::new(write.at, write.key, 0));
        Some(readers::write(sidecar.clone(), method, path, number).boxed())
    }

    /// True if a fill that shows this record is under way, as far as is visible from outside.
    pub(crate) fn is_asked_for(&self, _key: usize) -> bool {
        match self {
            Self::Nearside(sidecar) => sidecar.fill.shared.fills.under_way() > 0,
            Self::Simple(..) => false,
        }
    }

    /// True if an entry shows this record.
    pub(crate) fn holds(&self, key: usize) -> bool {
        match self {
            Self::Nearside(sidecar) => !sidecar.fill.shared.store.entries_of(self.record(key)).is_empty(),
            Self::Simple(..) => true,
        }
    }

    /// Announcements of so many records that nobody reads that the table of floors is too small.
    pub(crate) fn overflow(&self, world: &World, region: usize) {
        let Self::Nearside(sidecar) = self else { return };
        for number in 0..4 * FLOOR_SLOTS {
            let id =
                sidecar.fill.shared.keyed_hashes.record("context", &format!("x{number}")).expect("a route names it");
            let says = Announced::Changed(id, Some(Version(7)));
            let published = world.calendar(world.elapsed());
            let region = RegionId(region as u8);
            let _ = self.step(Event::Message { region, published, queued: None, numbered: None, says });
        }
    }

    /// Evicts the entries of these records, whatever is under way.
    pub(crate) fn evict(&self, keys: impl Iterator<Item = usize>) {
        let Self::Nearside(sidecar) = self else { return };
        for key in keys {
            for (key, entry) in sidecar.fill.shared.store.entries_of(self.record(key)) {
                sidecar.fill.shared.store.remove(key.as_ref());
                drop(entry);
            }
        }
    }

    /// R12: whether a transport acknowledges what could not be applied.
    pub(crate) fn acknowledges_unapplied() -> bool {
        Disposition::Retry.may_be_deleted()
    }
}

/// The version, where announcements state one.
fn stated(plan: &Plan, version: u64) -> Option<Version> {
    plan.announces_versions.then_some(Version(version))
}

fn slot(published: Wall) -> u64 {
    published.as_millis() / 5_000
}

/// `n=<race>;r=<region>;q=<ns>;g=<ns>;<key>=<position>,...`
pub(crate) fn read_shows(text: &str) -> Option<Seen> {
    let mut parts = text.split(';');
    let race = parts.next()?.strip_prefix("n=")?.parse().ok()?;
    let region = parts.next()?.strip_prefix("r=")?.parse().ok()?;
    let asked = nanos(parts.next()?.strip_prefix("q=")?)?;
    let generated = nanos(parts.next()?.strip_prefix("g=")?)?;
    let shown: Shown = parts
        .next()?
        .split(',')
        .filter_map(|text| {
            let (key, position) = text.split_once('=')?;
            Some((key.parse().ok()?, position.parse().ok()?))
        })
        .collect();
    let seen = Seen { race, region, asked, generated, shown, is_dated: true, foreign: None };
    (!seen.shown.is_empty()).then_some(seen)
}

fn nanos(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_nanos)
}
