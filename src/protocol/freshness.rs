//! [`Freshness`], which ties the parts of the protocol together.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use parking_lot::{Mutex, MutexGuard};

use super::arrivals::Arrived;
use super::event::{Action, Event, MessageEnvelope, OperatorOrder, Says, Scope};
use super::grants_floor::GrantsFloor;
use super::merge::Announced;
use super::record::Record;
use super::records::{RecordCapacity, Records};
use super::region::RegionState;
use super::region_views::{RegionView, RegionViews};
use super::wiring::{Growth, KeySpelling, TypeWiring};
use crate::model::ids::{RecordId, RegionId, RegionSet, TypeId, Version};
use crate::model::time::{Moment, Wall};
use crate::protocol::event::Alarm;
use crate::switch::{Rule, is_on};

/// Lag that the published lease of a region may have while messages pour in. This is safe, since an
/// understated lease only ends early, and it means a new region_views ten times a second rather than for
/// every message.
const LEASE_GRAIN: Duration = Duration::from_millis(100);

/// Settings of an operator: `[freshness]` in the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Longest lag of a region behind the others.
    pub worst_lag: Duration,
    /// Largest jump of a version that is still believed from one region alone (R15).
    pub max_jump: u64,
    /// Weak proof is not accepted, because every region sends heartbeats.
    pub heartbeats_required: bool,
}

/// All state of the protocol. It is internally synchronised, and the read path takes no lock.
#[derive(Debug)]
pub struct Freshness {
    records: Records,
    grants: Arc<GrantsFloor>,
    /// Held through a step, so that events are applied one after the other.
    regions: Mutex<Vec<RegionState>>,
    region_views: ArcSwap<RegionViews>,
}

impl Freshness {
    pub fn new(settings: &Settings, regions: usize, room: RecordCapacity, now: Moment) -> Self {
        let weak_refused = settings.heartbeats_required;
        let regions: Vec<RegionState> =
            (0..regions as u8).map(|id| RegionState::new(RegionId(id), weak_refused, now)).collect();
        let sights = regions.iter().map(|region| region.region_view(now)).collect();
        let region_views = RegionViews { regions: sights, ..RegionViews::default() };
        Self {
            grants: Arc::new(GrantsFloor::new(regions.len(), settings.worst_lag)),
            records: Records::new(room, settings.worst_lag, settings.max_jump, now),
            regions: Mutex::new(regions),
            region_views: ArcSwap::from_pointee(region_views),
        }
    }

    /// Applies changed settings, except that whether weak proof is accepted stays as it was.
    pub fn tune(&self, settings: &Settings) {
        self.records.tune(settings.worst_lag, settings.max_jump);
        self.grants.tune(settings.worst_lag);
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
        match &event {
            Event::Message { region, .. } if regions.get(region.index()).is_some_and(RegionState::is_paused) => {
                actions.push(Action::Passed(*region));
            }
            Event::Message { region, published, queued, numbered, says } => {
                let is_overtaken = matches!(says, Says::Changed(id, _) | Says::Deleted(id, _)
                    if regions.iter().any(|it| it.was_reset_after(*published, *id)));
                if let Some(state) = regions.get_mut(region.index()) {
                    let is_copy = matches!(says, Says::Reset(scope) if !state.is_new_reset(*published, *scope));
                    let at = state.published_at(*published, now, wall);
                    if let Says::Grants(Some(version)) = says {
                        let alarm = self.grants.announced(*region, *version, now, wall);
                        actions.extend(alarm.map(|why| Action::Alarm(*region, why)));
                    }
                    self.apply(*region, says, at, is_copy || is_overtaken, now, &mut actions);
                    let envelope = MessageEnvelope { published: *published, queued: *queued, numbered: *numbered };
                    state.note_message(envelope, says, now, wall, &mut actions);
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
                self.records.look_at_growths(&self.region_views(), now);
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

    /// The newest version of the grants that regions are held to (R22).
    #[inline]
    pub fn grants(&self) -> &Arc<GrantsFloor> {
        &self.grants
    }

    /// True if heartbeats prove that the region's subscription works, so that weak proof is neither
    /// accepted nor needed.
    pub fn speaks(&self, region: RegionId, now: Moment) -> bool {
        self.regions().get(region.index()).is_some_and(|region| region.speaks(now))
    }

    /// The regions as they are now. Takes no lock.
    pub fn region_views(&self) -> Guard<Arc<RegionViews>> {
        self.region_views.load()
    }

    /// Recent arrivals from each region's topic, for operators.
    pub fn arrived(&self, now: Moment) -> Vec<Arrived> {
        self.regions().iter().map(|region| region.arrived(now)).collect()
    }

    /// The live cell of a record, filled from its table slot if it has one. The caller that drops
    /// the last handle calls [`Freshness::release`]. If that call came too early, a later
    /// [`Event::Tick`] finds the cell.
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
    /// every good attempt of a race, not only for the winner's: a second region settles a doubted
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
        record: &Record,
        best: Version,
        reachable: RegionSet,
        made: Moment,
        now: Moment,
    ) -> Vec<Action> {
        self.records.below_floor(record, best, reachable, made, now)
    }

    /// R15, R19: `region`, whose word is final, has less than this record's floor. Versions begin
    /// anew.
    pub fn overruled(&self, id: RecordId, region: RegionId, now: Moment) -> Vec<Action> {
        let mut actions = vec![Action::Alarm(region, Alarm::FloorDropped)];
        self.records.recall(Scope::Record(id), Some(now), RegionSet::ALL, now, &mut actions);
        actions
    }

    /// R2: whether a request sent at `sent` is too close to the loss of a slot that may have been
    /// this record's. Its reply is then PROVISIONAL ([`super::standing::earn`]).
    pub fn slot_lost_since(&self, id: RecordId, sent: Moment) -> bool {
        self.records.may_have_missed(id, sent)
    }

    /// True if somebody here has read the record and it was there.
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
    pub fn unread_key(
        &self,
        record_type: TypeId,
        region: RegionId,
        meant: Option<(RecordId, KeySpelling)>,
        now: Moment,
    ) {
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
    pub fn wired(&self, now: Moment) -> Vec<TypeWiring> {
        self.records.wiring().known(now)
    }

    /// Number of records that entries and fills hold.
    #[cfg(test)]
    pub(crate) fn held_records(&self) -> usize {
        self.records.held()
    }

    /// Applies what was published `at`. It is `late` if it is a copy of an earlier RESET, or if a
    /// RESET overtook it. It then has regions asked again, but neither sets nor forgets a floor
    /// (R13, R19).
    fn apply(&self, region: RegionId, says: &Says, at: Moment, late: bool, now: Moment, actions: &mut Vec<Action>) {
        let regions = RegionSet::EMPTY.with(region);
        if let Says::Reload(Scope::Type(all)) | Says::Reset(Scope::Type(all)) = says {
            self.records.wiring().note_announced(*all, region, false);
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
            // Step notes the grants: they are no record.
            Says::Grants(_) | Says::Heartbeat { .. } | Says::Undecodable => {}
        }
    }

    fn publish(&self, regions: &[RegionState], now: Moment, coarsely: bool) {
        let shown = self.region_views.load();
        let rewired = self.records.wiring().take_change() || !coarsely;
        let withheld = if rewired { self.records.withheld(now) } else { shown.withheld.clone() };
        let mut pairs = regions.iter().zip(&shown.regions);
        if withheld != shown.withheld
            || pairs.any(|(region, shown)| has_changed(&region.region_view(now), shown, coarsely))
        {
            let regions = regions.iter().map(|region| region.region_view(now)).collect();
            self.region_views.store(Arc::new(RegionViews::new(regions, withheld)));
        }
    }

    fn regions(&self) -> MutexGuard<'_, Vec<RegionState>> {
        // A panic in a step would be a bug. What it leaves behind is still merged by maximum.
        self.regions.lock()
    }
}

/// True if a region is no longer as it is shown; `coarsely`: by more than a little of its lease.
fn has_changed(region_view: &RegionView, shown: &RegionView, coarsely: bool) -> bool {
    let advanced = region_view.proof.since(shown.proof) >= LEASE_GRAIN;
    let same_lease = RegionView { proof: shown.proof, lease_until: shown.lease_until, ..*region_view };
    if coarsely { advanced || same_lease != *shown } else { region_view != shown }
}

fn with(regions: &mut [RegionState], id: RegionId, change: impl FnOnce(&mut RegionState)) {
    if let Some(region) = regions.get_mut(id.index()) {
        change(region);
    }
}

#[cfg(test)]
pub(crate) mod tests;
