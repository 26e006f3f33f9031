//! The checker: sees every write, every answer and every announcement, and knows what must hold
//! (REGION's invariants G1 to G5, and G7; G8 is all of them while processes are killed).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::mpsc::UnboundedSender;

use nearside::access::record::GRANTS;
use nearside::engine::follow::begun_key;
use nearside::engine::memory::MemoryStore;
use nearside::engine::{Change, EngineError, Item, ItemKey, ItemWrite, Stream, Table, Tables, bucket};
use nearside::model::time::{Clock, Moment, Wall};
use nearside::protocol::announcement::message::{Announcement, AnnouncementKind};
use nearside::views::CANARY;

use super::faults::Fault;
use super::place::{EPOCH, Place};
use super::plan::{Plan, SKEW};
use super::readers::Stir;
use reads::Kept;

mod end;
mod noted;
mod reads;

/// A broken property, and its time.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) property: &'static str,
    pub(crate) text: String,
    pub(crate) at: f64,
}

/// Request of a writer; its bodies carry its number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    /// Bodies by type and key; `None` deletes.
    pub(crate) parts: BTreeMap<(String, String), Option<Bytes>>,
    /// It may replace this version alone.
    pub(crate) replaces: Option<u64>,
    /// Acknowledged versions, if there was an answer.
    pub(crate) answered: Option<Vec<u64>>,
    /// Nothing of it may ever be seen.
    pub(crate) is_refused: bool,
    /// Parts that were seen in the records.
    pub(crate) applied: BTreeSet<(String, String)>,
}

/// Every version of something, with its body; none of a tombstone.
type Versions = BTreeMap<u64, Option<Bytes>>;
/// A type and a key, or a view and a key.
pub(crate) type Name = (String, String);

#[derive(Default)]
pub(crate) struct Checker {
    clock: Option<Clock>,
    /// Readers of what is about to change.
    stir: Option<UnboundedSender<Stir>>,
    pub(crate) violation: Option<Violation>,
    pub(crate) story: Option<Vec<String>>,
    pub(crate) requests: BTreeMap<u64, Request>,
    records: BTreeMap<Name, Versions>,
    views: BTreeMap<Name, Versions>,
    /// Highest version that each region's table had.
    had: BTreeMap<(usize, Name), u64>,
    /// Highest version that each region announced.
    announced: BTreeMap<(usize, Name), u64>,
    /// Versions that each region announced, each higher than those before.
    announcements: BTreeMap<(usize, Name), Vec<u64>>,
    /// Contents of each region's table, and since when.
    copies: BTreeMap<(usize, Name), Vec<Kept>>,
    /// Number of times a table of a region got or lost something.
    places: u64,
    /// Regions that lost their table, whether they know it or not.
    lost_at: BTreeSet<usize>,
    /// Regions that still have to begin, and since when.
    incomplete: BTreeMap<usize, Moment>,
    /// Time of writing of each version of a view.
    written: BTreeMap<Name, BTreeMap<u64, Moment>>,
    /// Time of the last loss of the records.
    pub(crate) records_lost: Option<Wall>,
    /// Time of the last loss of the views service's state.
    pub(crate) mapping_lost: Option<Moment>,
    /// Largest difference between calendars.
    skew: Duration,
    /// Regions where nothing keeps nodes from looking whether all is there.
    prompt: BTreeSet<usize>,
    start: Moment,
    /// Changes of views per region that no heartbeat has claimed yet.
    unclaimed: BTreeMap<usize, VecDeque<(Wall, Name, u64)>>,
    skipped: BTreeSet<(Stream, ItemKey, u64)>,
    /// Changes of views that were lost with their table before some region had announced them.
    excused: BTreeSet<(Name, u64)>,
    /// Number of changes in each stream.
    pub(crate) ends: [u64; 2],
    /// Probability that a change is left out of its stream for ever.
    pub(crate) skips: f64,
    pub(crate) tallies: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Checker>>);

impl Shared {
    pub(crate) fn new(clock: Clock, plan: &Plan, stir: UnboundedSender<Stir>, tells: bool) -> Self {
        let regions = 0..plan.regions;
        let late = [Fault::Paused, Fault::TablesFail, Fault::Slow, Fault::Throttled];
        let late: Vec<Place> = plan.windows.iter().filter(|it| late.contains(&it.fault)).map(|it| it.place).collect();
        let checker = Checker {
            unclaimed: regions.clone().map(|region| (region, VecDeque::new())).collect(),
            incomplete: regions.clone().map(|region| (region, clock.now())).collect(),
            story: tells.then(Vec::new),
            skew: if plan.faults.contains(&Fault::Skewed) { SKEW } else { Duration::ZERO },
            prompt: regions.clone().filter(|region| !late.contains(&Place::Region(*region))).collect(),
            start: clock.now(),
            clock: Some(clock),
            stir: Some(stir),
            ..Checker::default()
        };
        Self(Arc::new(Mutex::new(checker)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Checker> {
        self.0.lock().expect("a checker does not panic")
    }

    pub(crate) fn say(&self, text: impl FnOnce() -> String) {
        self.lock().say(text);
    }
}

fn name_of(key: &ItemKey) -> Name {
    (bucket::name_of(&key.partition).unwrap_or_default().to_owned(), key.sort.clone())
}

impl Checker {
    pub(crate) fn say(&mut self, text: impl FnOnce() -> String) {
        let at = self.at();
        if let Some(story) = &mut self.story {
            story.push(format!("{at:10.3}  {}", text()));
        }
    }

    pub(crate) fn wall(&self) -> Wall {
        self.clock.as_ref().map_or(EPOCH, Clock::wall)
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.as_ref().map_or(Moment::ZERO, Clock::now)
    }

    fn at(&self) -> f64 {
        self.clock.as_ref().map_or(0.0, |clock| clock.wall().since(EPOCH).as_secs_f64())
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.tallies.entry(what).or_default() += 1;
    }

    fn stir(&self, how: impl FnOnce(usize, Name) -> Stir, region: usize, name: &Name) {
        if let Some(stir) = &self.stir {
            // Nobody is left to hear it at the very end.
            let _ = stir.send(how(region, name.clone()));
        }
    }

    /// The first counts.
    pub(crate) fn violated(&mut self, property: &'static str, text: String) {
        let at = self.at();
        self.say(|| format!("VIOLATED {property}: {text}"));
        self.violation.get_or_insert(Violation { property, text, at });
    }

    pub(crate) fn is_skipped(&self, stream: Stream, change: &Change) -> bool {
        let Some(item) = &change.item else { return false };
        !self.skipped.is_empty() && self.skipped.contains(&(stream, change.key.clone(), item.version))
    }

    pub(crate) fn wrote(&mut self, place: Place, write: &ItemWrite, before: Option<&Item>, store: &MemoryStore) {
        if let (Place::Home, ItemWrite::Put(..) | ItemWrite::Delete(..)) = (place, write)
            && let Some(stream) = write.table().stream()
        {
            self.ends[usize::from(stream == Stream::Views)] += 1;
        }
        let name = bucket::name_of(&write.key().partition);
        if name == Some(CANARY) {
            return;
        }
        match (place, write) {
            // No property of a view's: every version may be passed on, or not.
            (Place::Region(region), ItemWrite::Put(Table::Contexts, item, _)) if name == Some(GRANTS) => {
                let had = self.had.entry((region, name_of(&item.key))).or_default();
                *had = item.version.max(*had);
            }
            _ if name == Some(GRANTS) => {}
            (Place::Home, ItemWrite::Put(Table::Records, item, _)) => self.record(item),
            (Place::Home, ItemWrite::Put(Table::Views, item, _)) => self.view(item),
            (Place::Region(region), ItemWrite::Put(Table::Contexts, item, _)) => self.copy(region, item, before),
            (Place::Home, ItemWrite::Delete(Table::Views, key, _)) => self.lost(&BTreeSet::from([name_of(key)])),
            (Place::Region(region), ItemWrite::Delete(Table::Contexts, key, _)) => {
                self.violated("G3", format!("region {region} removed {:?}", name_of(key)));
            }
            (Place::Region(region), _) if *write.key() == begun_key("views") => self.begun(region, write),
            (Place::Home, _) if *write.key() == begun_key("changes") => {}
            (_, ItemWrite::Put(table, item, _)) if item.key.partition.starts_with("checkpoint#") => {
                self.checkpoint(*table, item, store);
            }
            (_, ItemWrite::Put(_, item, _)) if item.key.partition.starts_with("lease#") => self.lease(item, before),
            (_, ItemWrite::Put(_, item, _)) if item.key.partition.starts_with("vector#") => {
                self.noted(item, before, store);
            }
            _ => {}
        }
        if let (Place::Home, ItemWrite::Put(table, item, _)) = (place, write)
            && let Some(stream) = table.stream()
            && self.skips > 0.0
            && fastrand::f64() < self.skips
        {
            self.count("changes skipped");
            self.say(|| format!("the stream leaves out {:?} {}", name_of(&item.key), item.version));
            self.skipped.insert((stream, item.key.clone(), item.version));
        }
    }

    /// These views are no longer there: a region that has to scan cannot know that they were.
    pub(crate) fn lost(&mut self, names: &BTreeSet<Name>) {
        for (_, name, version) in self.unclaimed.values().flatten() {
            if names.contains(name) {
                self.excused.insert((name.clone(), *version));
            }
        }
    }

    pub(crate) fn lost_views(&mut self) {
        let names = self.views.keys().cloned().collect();
        self.lost(&names);
    }

    fn record(&mut self, item: &Item) {
        let name = name_of(&item.key);
        self.count("records written");
        self.say(|| format!("record {name:?} {} {:?}", item.version, text(item.body.as_ref())));
        let last = self.records.get(&name).and_then(|known| known.keys().next_back().copied());
        if last.is_some_and(|last| last >= item.version) && !self.was_under_way(item.version) {
            self.violated("G2", format!("record {name:?} has {} after {last:?}", item.version));
        }
        if let Some(number) = item.body.as_ref().and_then(|body| request_of(body)) {
            let known = self.requests.get_mut(&number);
            match known {
                Some(request) if request.parts.get(&name) == Some(&item.body) => {
                    let is_first = request.applied.insert(name.clone());
                    let (is_refused, replaces) = (request.is_refused, request.replaces);
                    if !is_first {
                        self.violated("Once", format!("request {number} was applied to {name:?} twice"));
                    }
                    if is_refused {
                        self.violated("Refused", format!("request {number} was refused, and took place"));
                    }
                    if replaces.is_some() && replaces != last {
                        self.violated("Conditional", format!("request {number} replaced {last:?}, not {replaces:?}"));
                    }
                }
                _ => self.violated("Invented", format!("record {name:?} holds what nobody wrote")),
            }
        }
        let before = self.records.get(&name).and_then(|known| known.values().next_back().cloned()).flatten();
        self.joins(&name, before.as_ref(), item.body.as_ref());
        self.records.entry(name).or_default().insert(item.version, item.body.clone());
    }

    fn view(&mut self, item: &Item) {
        let name = name_of(&item.key);
        self.count("views written");
        self.say(|| format!("view {name:?} {} {:?}", item.version, text(item.body.as_ref())));
        let last = self.views.get(&name).and_then(|known| known.keys().next_back().copied());
        if last.is_some_and(|last| last >= item.version) {
            self.violated("G2", format!("view {name:?} has {} after {last:?}", item.version));
        }
        let now = self.clock.as_ref().map_or(EPOCH, Clock::wall);
        self.views.entry(name.clone()).or_default().insert(item.version, item.body.clone());
        let at = self.now();
        self.written.entry(name.clone()).or_default().insert(item.version, at);
        (0..self.unclaimed.len()).for_each(|region| self.stir(Stir::Written, region, &name));
        for unclaimed in self.unclaimed.values_mut() {
            unclaimed.push_back((now, name.clone(), item.version));
        }
    }

    fn copy(&mut self, region: usize, item: &Item, before: Option<&Item>) {
        let name = name_of(&item.key);
        self.say(|| format!("region {region} puts {name:?} {} over {:?}", item.version, before.map(|it| it.version)));
        if before.is_some_and(|before| before.version >= item.version) {
            self.violated("G3", format!("region {region} replaced {before:?} of {name:?} by {}", item.version));
        }
        if self.views.get(&name).and_then(|known| known.get(&item.version)) != Some(&item.body) {
            self.violated("Invented", format!("region {region} has what the view {name:?} never was"));
        }
        self.copied(region, name.clone(), item.version);
        self.stir(Stir::Put, region, &name);
        let had = self.had.entry((region, name)).or_default();
        *had = item.version.max(*had);
    }

    /// A position is only moved by the holder of the lease.
    fn checkpoint(&mut self, table: Table, item: &Item, store: &MemoryStore) {
        let job = if table == Table::Region { "lease#ingest" } else { "lease#views" };
        let token = now(store.get(table, &ItemKey::new(job, "lease"))).map(|lease| lease.version);
        if token != Some(item.version) {
            self.violated(
                "Fenced",
                format!("token {} wrote a position, and {token:?} holds the lease", item.version),
            );
        }
    }

    pub(crate) fn announced(&mut self, region: usize, said: &Announcement, own: &MemoryStore) {
        let name = (said.record_type.clone(), said.key.clone());
        match said.kind {
            AnnouncementKind::Changed { version: Some(version) } if said.record_type == GRANTS => {
                let had = self.had.get(&(region, name)).copied().unwrap_or_default();
                if had < version {
                    self.violated("G4", format!("region {region} announces grants {version} and had {had}"));
                }
            }
            AnnouncementKind::Changed { version: Some(version) } => self.note_announced(region, name, version, true),
            AnnouncementKind::Deleted { version: Some(version) } => self.note_announced(region, name, version, false),
            AnnouncementKind::Reload => {
                self.say(|| format!("region {region} announces RELOAD of {}", said.record_type));
                for item in own.dump(Table::Contexts) {
                    let name = name_of(&item.key);
                    if name.0 == said.record_type {
                        let known = self.announced.entry((region, name)).or_default();
                        *known = item.version.max(*known);
                    }
                }
            }
            AnnouncementKind::Heartbeat { ingested_through: Some(through), .. } => self.claimed(region, through),
            AnnouncementKind::Heartbeat { .. } => {}
            _ => self.violated("Invented", format!("region {region} announces {:?}", said.kind)),
        }
    }

    fn note_announced(&mut self, region: usize, name: Name, version: u64, exists: bool) {
        self.say(|| format!("region {region} announces {name:?} {version}"));
        self.count("announced");
        let known = self.views.get(&name).and_then(|known| known.get(&version)).map(Option::is_some);
        if known != Some(exists) {
            self.violated("Invented", format!("region {region} announces {name:?} {version}, which never was"));
        }
        if self.had.get(&(region, name.clone())).is_none_or(|had| *had < version) {
            self.violated("PutFirst", format!("region {region} announces {name:?} {version} and does not have it"));
        }
        self.stir(Stir::Announced, region, &name);
        let announcements = self.announcements.entry((region, name.clone())).or_default();
        if announcements.last().is_none_or(|last| *last < version) {
            announcements.push(version);
        }
        let known = self.announced.entry((region, name)).or_default();
        *known = version.max(*known);
    }

    /// G5. What the stream left out is excused, because the sweep mends it later; so is what was lost
    /// with the table of views, because views that are made anew have greater versions.
    fn claimed(&mut self, region: usize, through: Wall) {
        self.count("heartbeats that claim");
        self.say(|| format!("region {region} claims through {:.3}", through.since(EPOCH).as_secs_f64()));
        while let Some((written, ..)) = self.unclaimed.get(&region).and_then(VecDeque::front)
            && *written <= through
        {
            let Some((_, name, version)) = self.unclaimed.get_mut(&region).and_then(VecDeque::pop_front) else {
                break;
            };
            let known = self.announced.get(&(region, name.clone())).copied().unwrap_or_default();
            let place = ItemKey::new(bucket::partition(&name.0, &name.1), &name.1);
            let is_excused = self.skipped.contains(&(Stream::Views, place, version))
                || self.excused.contains(&(name.clone(), version));
            if known < version && !is_excused {
                self.violated("G5", format!("region {region} claims {name:?} {version}, and announced {known}"));
            }
        }
    }

    /// Records an acknowledgement: the write must be there.
    pub(crate) fn answered(&mut self, number: u64, versions: &[u64], home: &MemoryStore) {
        self.count("requests acknowledged");
        self.say(|| format!("request {number} is answered with {versions:?}"));
        let Some(request) = self.requests.get_mut(&number) else { return };
        request.answered = Some(versions.to_vec());
        let parts: Vec<_> = request.parts.clone().into_iter().zip(versions.iter().copied()).collect();
        for ((name, body), version) in parts {
            if self.records.get(&name).and_then(|known| known.get(&version)) != Some(&body) {
                self.violated(
                    "G1",
                    format!("request {number} was answered with {version} of {name:?}, which never was"),
                );
            }
            let place = ItemKey::new(format!("{}#{}", name.0, name.1), format!("{version:020}"));
            if now(home.get(Table::History, &place)).is_none() {
                self.violated("G1", format!("request {number}: {version} of {name:?} is not in the history"));
            }
        }
    }
}

/// Answer of the memory engine, which is immediate.
fn now(get: BoxFuture<'_, Result<Option<Item>, EngineError>>) -> Option<Item> {
    get.now_or_never().and_then(Result::ok).flatten()
}

fn request_of(body: &[u8]) -> Option<u64> {
    serde_json::from_slice::<serde_json::Value>(body).ok()?.get("request")?.as_u64()
}

fn text(body: Option<&Bytes>) -> String {
    body.map_or_else(|| "-".to_owned(), |body| String::from_utf8_lossy(body).into_owned())
}
