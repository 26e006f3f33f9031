//! The freshness protocol of `docs/freshness.md` as pure code: no I/O, no clock of its own, nothing
//! random. [`crate::sidecar::announcements`] and a ticker feed in [`Event`]s, `app` carries out the
//! [`Action`]s, and fills and hits read the records and the [`Horizon`]. [`Freshness`] ties the
//! parts together. Driven from one thread, the same events at the same times always have the same
//! effect.
//!
//! Floors and generations are stored before the horizon that vouches for them is published, and
//! both before `step` returns.
//!
//! | rule | where |
//! | --- | --- |
//! | R1 floor | `merge` raises it; `record` ([`record::Snapshot::upholds`]) compares; `standing::assess` and `vote` obey |
//! | R2 marker | `merge::announce` leaves it, `table` keeps it, `records` remembers lost slots, `standing::earn` obeys |
//! | R3 fence | `merge` moves the generation, `standing::admits` compares |
//! | R4 announcer first | `merge` keeps the marker, `vote` ranks |
//! | R5 earning | `standing::earn`, over what `region` calls LIVE and unbroken |
//! | R6 absence | `merge` ([`record::Snapshot::changed`], [`record::Marker::deleted`]), `vote` |
//! | R7 304, R8 age | `vote`; `merge` sets the marker's time |
//! | R9 lease | `region` dates the proof, `standing::assess` compares with now |
//! | R10 epoch | `region` moves it, `publisher` and `publishers` find holes, `standing::assess` compares |
//! | R11 order | `region`: a subscription starts without proof, an entry from before LIVE earns nothing (`standing::earn`) |
//! | R12 acknowledge | [`Freshness::step`] returns once the event is applied; only then does the announce path acknowledge |
//! | R13 merge by maximum | `merge` |
//! | R14 unread | `region`, `unread` |
//! | R15 escape | `merge` and `doubts`; `standing` keeps what is doubted PROVISIONAL |
//! | R16 hard TTL | `standing::assess` |
//! | R17 audit | `audit` judges and measures; [`crate::core::fill::audit`] asks the regions, in the background |
//! | R18 RELOAD, R19 RESET | `merge::reload`, `merge::reset`, `records::recall`; `recalls` for what nothing holds; `stamp` and `arrivals` for what comes late |
//! | R20 own writes | [`Freshness::wrote`]; `core::write` says when |
//! | R21 wiring | `wiring`; `standing::Assessment` |
//! | R23 one content | `audit`; [`crate::core::fill::audit`] asks for it, and compares after other races |
//! | bound | `publisher` (watermark), `publishers` (oldest of them), `standing::Assessment` |

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};

use self::arrivals::Arrived;
use self::event::{Action, Event, MessageEnvelope, OperatorOrder, Says, Scope};
use self::horizon::Horizon;
use self::merge::Announced;
use self::record::Record;
use self::records::Records;
use self::region::RegionState;
use self::switch::{Rule, is_on};
use self::wiring::{Growth, KeyForm, Wired};
use crate::model::ids::{RecordId, RegionId, RegionSet, TypeId, Version};
use crate::model::time::{Moment, Wall};

mod arrivals;
pub(crate) mod audit;
mod doubts;
pub mod event;
mod flood;
pub(crate) mod holding;
pub mod horizon;
pub mod label;
pub mod limits;
mod merge;
mod publisher;
mod publishers;
mod recalls;
pub mod record;
mod records;
mod region;
mod stamp;
pub mod standing;
pub mod switch;
mod table;
mod tuning;
mod unread;
pub mod vote;
pub mod wiring;

/// How far the published lease of a region may lag behind while messages pour in. This is safe,
/// since an understated lease only ends early, and it means a new horizon ten times a second rather
/// than for every message.
const LEASE_GRAIN: Duration = Duration::from_millis(100);

/// How much is remembered of records beyond what entries and fills hold.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Table slots for records without an entry.
    pub slots: usize,
    /// Records that may be doubted at once (R15).
    pub doubts: usize,
}

impl Room {
    /// `slots`, and doubts in proportion to a store of `capacity` bytes: after a restore,
    /// everything stored is doubted.
    pub fn new(slots: usize, capacity: u64) -> Self {
        let (least, most) = limits::DOUBTS;
        let doubts = usize::try_from(capacity / limits::DOUBTED_BYTES).unwrap_or(most);
        Self { slots, doubts: doubts.clamp(least, most) }
    }
}

/// What an operator chooses: `[freshness]` in the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How far a region may lag behind the others.
    pub worst_lag: Duration,
    /// How far a version may jump and still be believed from one region alone (R15).
    pub max_jump: u64,
    /// Weak proof is not accepted, because every region sends heartbeats.
    pub heartbeats_required: bool,
}

/// All state of the protocol. It is internally synchronised, and the read path takes no lock.
#[derive(Debug)]
pub struct Freshness {
    records: Records,
    /// Held through a step, so that events are applied one after the other.
    regions: Mutex<Vec<RegionState>>,
    horizon: ArcSwap<Horizon>,
}

impl Freshness {
    pub fn new(settings: &Settings, regions: usize, room: Room, now: Moment) -> Self {
        let weak_refused = settings.heartbeats_required;
        let region = |id| RegionState::new(RegionId(id), weak_refused, now);
        let regions: Vec<RegionState> = (0..regions as u8).map(region).collect();
        let sights = regions.iter().map(|region| region.sight(now)).collect();
        let horizon = Horizon { regions: sights, ..Horizon::default() };
        Self {
            records: Records::new(room, settings.worst_lag, settings.max_jump, now),
            regions: Mutex::new(regions),
            horizon: ArcSwap::from_pointee(horizon),
        }
    }

    /// Applies changed settings, except that whether weak proof is accepted stays as it was.
    pub fn tune(&self, settings: &Settings) {
        self.records.tune(settings.worst_lag, settings.max_jump);
    }

    /// Applies one event that happened at `now`. When it returns, readers see everything that
    /// follows from it (R12).
    ///
    /// The actions are for the edges to carry out, in order. An event of a region that is not
    /// configured does nothing.
    pub fn step(&self, now: Moment, wall: Wall, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut regions = self.regions();
        for region in regions.iter_mut() {
            region.elapse(now, &mut actions);
        }
        let at = |id: RegionId| id.index();
        match &event {
            Event::Message { region, .. } if regions.get(at(*region)).is_some_and(RegionState::is_paused) => {
                actions.push(Action::Passed(*region));
            }
            Event::Message { region, published, queued, numbered, says } => {
                let is_overtaken = |id: &RecordId| regions.iter().any(|it| it.was_reset_after(*published, *id));
                let overtaken = matches!(says, Says::Changed(id, _) | Says::Deleted(id, _) if is_overtaken(id));
                if let Some(state) = regions.get_mut(at(*region)) {
                    let copy = matches!(says, Says::Reset(scope) if !state.is_new_reset(*published, *scope));
                    let at = state.published_at(*published, now, wall);
                    self.apply(*region, says, (at, copy || overtaken), now, &mut actions);
                    let envelope = MessageEnvelope { published: *published, queued: *queued, numbered: *numbered };
                    state.heard(envelope, says, now, wall, &mut actions);
                }
            }
            Event::Ordered(order) => {
                let (scope, forgets) = match *order {
                    OperatorOrder::Reload(scope) => (scope, None),
                    OperatorOrder::Reset(scope) => (scope, Some(now)),
                };
                self.records.recall(scope, forgets, RegionSet::ALL, now, &mut actions);
            }
            Event::Tick => {
                self.records.sweep(now);
                self.records.look_at_growths(&self.horizon(), now);
            }
            Event::Subscribing(id) => with(&mut regions, *id, |region| region.subscribing(now, &mut actions)),
            Event::Subscribed(id) => with(&mut regions, *id, |region| region.subscribed(now, &mut actions)),
            Event::Lost(id) => with(&mut regions, *id, |region| region.lost(now, &mut actions)),
            Event::Polled(id) => with(&mut regions, *id, |region| region.polled(now, &mut actions)),
            Event::Attested(id) => with(&mut regions, *id, |region| region.attested(now, &mut actions)),
            Event::Unverified(id) => with(&mut regions, *id, |region| region.unverified(now, &mut actions)),
            Event::Paused(id) => with(&mut regions, *id, |region| region.pause(now, &mut actions)),
            Event::Resumed(id) => with(&mut regions, *id, |region| region.resume(now, &mut actions)),
            Event::Unattested(id) => with(&mut regions, *id, RegionState::unattested),
            Event::HeartbeatRemembered(id) => with(&mut regions, *id, RegionState::remember_heartbeats),
        }
        self.publish(&regions, now, matches!(event, Event::Message { .. }));
        actions
    }

    /// Whether heartbeats prove that the region's subscription works, so that weak proof is neither
    /// accepted nor needed.
    pub fn speaks(&self, region: RegionId, now: Moment) -> bool {
        self.regions().get(region.index()).is_some_and(|region| region.speaks(now))
    }

    /// The regions as they are now. Takes no lock.
    pub fn horizon(&self) -> Guard<Arc<Horizon>> {
        self.horizon.load()
    }

    /// What recently came from each region's topic, for operators.
    pub fn arrived(&self, now: Moment) -> Vec<Arrived> {
        self.regions().iter().map(|region| region.arrived(now)).collect()
    }

    /// The live cell of a record, filled from its table slot if it has one. Whoever drops the last
    /// handle calls [`Freshness::release`]. If that call came too early, a later [`Event::Tick`]
    /// finds the cell.
    pub fn pin(&self, id: RecordId) -> Arc<Record> {
        self.records.pin(id)
    }

    /// An entry or a fill let go of this record. Unless somebody else holds its cell, its state
    /// goes to the table.
    pub fn release(&self, id: RecordId) {
        self.records.release(id);
    }

    /// Notes a reader, for "read in the last minute" ([`Action::Refetch`]).
    pub fn read(&self, record: &Record, now: Moment) {
        record.note_read(now);
    }

    /// R1, R15: `region` answered with `version` of this record. `made` is when the reply was
    /// requested, or when it was generated if its `Age` says that this was earlier. Call this for
    /// every good leg of a race, not only for the winner's: a second region settles a doubted
    /// version.
    pub fn served(
        &self,
        record: &Record,
        version: Version,
        region: RegionId,
        made: Moment,
        now: Moment,
    ) -> Vec<Action> {
        self.records.served(record, version, region, made, now)
    }

    /// R20: a write of this record was passed on and not refused. `by` is the region that took it,
    /// `None` if nobody knows which. The write counts like that region's announcement of
    /// the change: a reader who comes now is served no reply that was requested before it.
    pub fn wrote(
        &self,
        id: RecordId,
        by: Option<RegionId>,
        version: Option<Version>,
        deleted: bool,
        now: Moment,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        match by {
            _ if !is_on(Rule::R20) => {}
            Some(region) => {
                let said = Announced { region, version, at: now, deleted, written: true };
                self.records.announce(id, said, now, &mut actions);
            }
            None => self.records.recall(Scope::Record(id), None, RegionSet::EMPTY, now, &mut actions),
        }
        actions
    }

    /// R15: all configured regions gave the same answer in a race, at or above this record's floor.
    pub fn agreed(&self, id: RecordId, record: &Record) {
        if record.snapshot().escaped {
            self.records.agreed(id, record);
        }
    }

    /// R15: every region that answered a race is below this record's floor. `best` is the highest
    /// version that one of them has, and `made` is when the newest of the replies was made.
    pub fn below_floor(
        &self,
        id: RecordId,
        record: &Record,
        best: Version,
        reachable: RegionSet,
        (made, now): (Moment, Moment),
    ) -> Vec<Action> {
        self.records.below_floor(id, record, best, reachable, (made, now))
    }

    /// R15, R19: `region`, whose word is final, has less than this record's floor. Versions begin
    /// anew.
    pub fn overruled(&self, id: RecordId, region: RegionId, now: Moment) -> Vec<Action> {
        let mut actions = vec![Action::Alarm(region, "floor-dropped")];
        self.records.recall(Scope::Record(id), Some(now), RegionSet::ALL, now, &mut actions);
        actions
    }

    /// R2: whether a request sent at `sent` is too close to the loss of a slot that may have been
    /// this record's. Its reply is then PROVISIONAL ([`standing::earn`]).
    pub fn slot_lost_since(&self, id: RecordId, sent: Moment) -> bool {
        self.records.may_have_missed(id, sent)
    }

    /// Whether somebody here has read the record and it was there.
    pub fn is_read(&self, id: RecordId) -> bool {
        self.records.is_read(id)
    }

    /// R21: a record was served at a higher version than the one vouched for, and nobody had
    /// announced it.
    pub fn grew(&self, growth: Growth) {
        self.records.wiring().grew(growth);
    }

    /// R21: the record types with an open audit violation, and whether an announcement should be here.
    pub fn violated(&self, types: &[(TypeId, bool)]) {
        self.records.wiring().violated(types);
    }

    /// R21: `region` announced a key of this type that nobody reads here; `meant` is the read record
    /// that it probably means.
    pub fn unread_key(&self, record_type: TypeId, region: RegionId, meant: Option<(RecordId, KeyForm)>, now: Moment) {
        self.records.wiring().unread_key(record_type, region, meant, now);
    }

    /// R21: all regions answered with a lower version of this type than the one that was stored of
    /// them.
    pub fn went_back(&self, record_type: TypeId, now: Moment) {
        self.records.wiring().went_back(record_type, now);
    }

    /// R21: the types that announcements of these regions miss, by the findings of the moment.
    pub fn found_astray(&self, types: &[(TypeId, RegionSet)]) {
        self.records.wiring().found(types);
    }

    /// R21: the routes have changed.
    pub fn rewired(&self) {
        self.records.wiring().rewired();
    }

    /// R21: what is known of each record type, by its id.
    pub fn wired(&self, now: Moment) -> Vec<Wired> {
        self.records.wiring().known(now)
    }

    /// How many records entries and fills hold.
    #[cfg(test)]
    pub(crate) fn held_records(&self) -> usize {
        self.records.held()
    }

    /// What was published `at`. It is `late` if it is a copy of an earlier RESET, or if a RESET
    /// overtook it. It then has regions asked again, but neither sets nor forgets a floor (R13, R19).
    fn apply(
        &self,
        region: RegionId,
        says: &Says,
        (at, late): (Moment, bool),
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        let regions = RegionSet::EMPTY.with(region);
        if let Says::Reload(Scope::Type(all)) | Says::Reset(Scope::Type(all)) = says {
            self.records.wiring().heard(*all, region, false);
        }
        match says {
            Says::Changed(id, version) => {
                let said =
                    Announced { region, version: version.filter(|_| !late), at, deleted: false, written: false };
                self.records.announce(*id, said, now, actions);
            }
            Says::Deleted(id, version) => {
                let said =
                    Announced { region, version: version.filter(|_| !late), at, deleted: true, written: false };
                self.records.announce(*id, said, now, actions);
            }
            Says::Reload(scope) => self.records.recall(*scope, None, regions, now, actions),
            Says::Reset(scope) => self.records.recall(*scope, Some(at).filter(|_| !late), regions, now, actions),
            Says::Unrouted => self.records.wiring().unrouted(region, now),
            Says::Heartbeat { .. } | Says::Undecodable => {}
        }
    }

    fn publish(&self, regions: &[RegionState], now: Moment, coarsely: bool) {
        let shown = self.horizon.load();
        let changed = |(region, shown): (&RegionState, &horizon::Sight)| {
            let sight = region.sight(now);
            let advanced = sight.proof.since(shown.proof) >= LEASE_GRAIN;
            let same_lease = horizon::Sight { proof: shown.proof, lease_until: shown.lease_until, ..sight };
            if coarsely { advanced || same_lease != *shown } else { sight != *shown }
        };
        let rewired = self.records.wiring().take_change() || !coarsely;
        let withheld = if rewired { self.records.withheld(now) } else { shown.withheld.clone() };
        if withheld != shown.withheld || regions.iter().zip(&shown.regions).any(changed) {
            let regions = regions.iter().map(|region| region.sight(now)).collect();
            self.horizon.store(Arc::new(Horizon::new(regions, withheld)));
        }
    }

    fn regions(&self) -> MutexGuard<'_, Vec<RegionState>> {
        // A panic in a step would be a bug. What it leaves behind is still merged by maximum.
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn with(regions: &mut [RegionState], id: RegionId, change: impl FnOnce(&mut RegionState)) {
    if let Some(region) = regions.get_mut(id.index()) {
        change(region);
    }
}

pub mod announcement;
#[cfg(test)]
pub(crate) mod tests;
