//! Check that announcements of regions reach what is read here (R21).
//!
//! A watermark says that everything a region ingested was announced. It cannot say that an
//! announcement named the record as the route does. If the type has a typo, or the key another
//! form, changes pass by, and a bound would be false. So a region that announces under types that
//! no route names, or announces records of this type, states no bound for the type until a record
//! that it named was one that is read here. And no region states one for [`limits::WIRING_DOUBT`]
//! after a version that nobody announced replaced one that was vouched for, nor while an audit's
//! violation is open.
//!
//! What was made before that was over, and for `worst_lag` after it, may lack what passed by until
//! then, so no region concerned vouches for it.
//!
//! Not to know is no evidence. Where something shows that announcements do miss what is read, the
//! regions concerned do not earn it the full TTL either ([`TypeWiring::strays`]): it is kept for the soft
//! TTL, labelled `unwired` (`standing::assess`).

mod spellings;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

pub use self::spellings::KeySpelling;
use self::spellings::KeySpellings;
use super::region_views::{RegionViews, TypeDoubts};
use crate::model::ids::{Epoch, Generation, RecordId, RegionId, RegionSet, TypeId};
use crate::model::time::Moment;
use crate::protocol::limits;
use crate::switch::{Rule, is_on};

#[derive(Debug, Default)]
pub(crate) struct Wiring {
    state: Mutex<State>,
    changed: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Times at which each region last announced something under a type that no route names.
    unrouted: [Option<Moment>; limits::REGIONS],
    /// States by [`TypeId`], as far as anything is known, with what was last withheld of each.
    types: Vec<(TypeWiring, TypeDoubts)>,
    /// Key spellings by [`TypeId`], as far as any unread key was announced.
    spellings: Vec<KeySpellings>,
    /// Doubts last stated for all other types.
    others: TypeDoubts,
    growths: VecDeque<Growth>,
}

/// State of one record type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeWiring {
    /// The regions that announced anything of it.
    pub announcers: RegionSet,
    /// The regions that announced records of it by name.
    pub named: RegionSet,
    /// The regions that named a record that was read here.
    pub met: RegionSet,
    /// The regions that named records in another form than the one that is read here.
    pub misnamed: RegionSet,
    /// The regions that lately named records in another letter case than the one that is read here,
    /// whatever else they named.
    pub other_case: RegionSet,
    /// The regions against which the findings of the moment speak.
    pub found: RegionSet,
    /// Records that were served at a higher version than before, and whose change was announced.
    pub announced: u64,
    /// Records served at a higher version whose change nobody announced.
    pub unannounced: u64,
    /// Time at which the last of these was noticed.
    pub unannounced_at: Option<Moment>,
    /// An audit found a change that nobody has announced so far.
    pub violated: bool,
    /// An audit found such a change, and a region that was LIVE then should have announced it by now.
    pub missed: bool,
    /// Time at which all regions last answered with a lower version than the one that was stored of
    /// them: versions of it began anew, or were taken back.
    pub back_at: Option<Moment>,
    /// Records that grew a while ago and may still be announced.
    pub pending: u64,
}

/// A record was served at a higher version than the one vouched for, and nobody had announced it.
#[derive(Clone, Debug)]
pub struct Growth {
    pub id: RecordId,
    /// The region that served it.
    pub region: RegionId,
    /// The record's generation when it was requested. An announcement moves it.
    pub generation: Generation,
    /// The regions that vouched for what was stored before, and the epochs of all regions when it
    /// was requested.
    pub vouched: (RegionSet, Box<[Epoch]>),
    /// Time at which it was served.
    pub at: Moment,
}

impl Growth {
    /// True if the region that served it is one of those that vouched.
    pub(crate) fn is_its_vouchers(&self) -> bool {
        self.vouched.0.contains(self.region)
    }

    /// True if a region that vouched has noticed no loss since and is known up to a time after the
    /// change, so that its announcement should be here.
    pub(crate) fn is_vouched_against(&self, region_views: &RegionViews) -> bool {
        let (regions, epochs) = &self.vouched;
        region_views.is_known_since(self.at, *regions, epochs)
    }
}

impl Wiring {
    /// `region` announced all records of this type, or one of them by name.
    pub(crate) fn note_announced(&self, record_type: TypeId, region: RegionId, by_name: bool) {
        self.note(|state| {
            let wired = state.of(record_type);
            let before = (wired.announcers, wired.named);
            wired.announcers = wired.announcers.with(region);
            if by_name {
                wired.named = wired.named.with(region);
            }
            before != (wired.announcers, wired.named)
        });
    }

    /// These regions announced a record of this type that is read here.
    pub(crate) fn met(&self, record_type: TypeId, regions: RegionSet) {
        self.note(|state| {
            let wired = state.of(record_type);
            let known = wired.met.covers(regions);
            wired.met = RegionSet(wired.met.0 | regions.0);
            wired.misnamed = RegionSet(wired.misnamed.0 & !regions.0);
            if let Some(spellings) = state.spellings.get_mut(usize::from(record_type.0)) {
                regions.iter().for_each(|region| spellings.met(region));
            }
            !known
        });
    }

    /// `region` announced a key of this type that nobody reads here; `meant` is the read record that
    /// it probably means.
    pub(crate) fn unread_key(
        &self,
        record_type: TypeId,
        region: RegionId,
        meant: Option<(RecordId, KeySpelling)>,
        now: Moment,
    ) {
        self.note(|state| {
            let place = usize::from(record_type.0);
            if place >= state.spellings.len() {
                state.spellings.resize_with(place + 1, KeySpellings::default);
            }
            let spellings = &mut state.spellings[place];
            spellings.note(region, meant.map(|(id, spelling)| (id.hash, spelling)), now);
            let (misnames, differs) = (spellings.misnames(region), spellings.differs_in_case(region, now));
            let wired = state.of(record_type);
            let before = (wired.misnamed, wired.other_case);
            if misnames {
                wired.misnamed = wired.misnamed.with(region);
            }
            if differs {
                wired.other_case = wired.other_case.with(region);
            }
            before != (wired.misnamed, wired.other_case)
        });
    }

    /// All regions answered with a lower version than the one that was stored of them.
    pub(crate) fn went_back(&self, record_type: TypeId, now: Moment) {
        self.note(|state| state.of(record_type).back_at.replace(now) != Some(now));
    }

    /// The types whose announcements miss what is read here by the findings of the moment, each with
    /// the regions concerned. Nothing is found of any other type.
    pub(crate) fn found(&self, types: &[(TypeId, RegionSet)]) {
        self.note(|state| {
            let mut changed = false;
            for (id, _) in types {
                let _ = state.of(*id);
            }
            for (place, (wired, _)) in state.types.iter_mut().enumerate() {
                let of_it = types.iter().filter(|(id, _)| usize::from(id.0) == place);
                let found = of_it.fold(RegionSet::EMPTY, |all, (_, regions)| RegionSet(all.0 | regions.0));
                changed |= std::mem::replace(&mut wired.found, found) != found;
            }
            changed
        });
    }

    /// `region` announced something under a type that no route names. If it has not done so
    /// recently, what it announced before says nothing about what it announces now.
    pub(crate) fn unrouted(&self, region: RegionId, now: Moment) {
        self.note(|state| {
            let Some(last) = state.unrouted.get_mut(region.index()) else { return false };
            let known = last.replace(now).is_some_and(|last| now.since(last) < limits::WIRING_DOUBT);
            if !known {
                state.types.iter_mut().for_each(|(wired, _)| wired.met = wired.met.without(region));
            }
            !known
        });
    }

    /// The routes have changed. What met before need not meet now, and what no route's type covered
    /// may be covered.
    pub(crate) fn rewired(&self) {
        self.note(|state| {
            state.unrouted = Default::default();
            state.spellings.clear();
            for (wired, _) in &mut state.types {
                (wired.met, wired.misnamed, wired.found) = Default::default();
                wired.other_case = RegionSet::EMPTY;
            }
            true
        });
    }

    /// The types with an open audit violation, and whether an announcement should be here by now. No
    /// other type has one.
    pub(crate) fn violated(&self, types: &[(TypeId, bool)]) {
        self.note(|state| {
            let mut changed = false;
            for (id, _) in types {
                let _ = state.of(*id);
            }
            for (place, (wired, _)) in state.types.iter_mut().enumerate() {
                let mut of_it = types.iter().filter(|(id, _)| usize::from(id.0) == place);
                let (violated, missed) = (of_it.clone().next().is_some(), of_it.any(|(_, missed)| *missed));
                changed |= (wired.violated, wired.missed) != (violated, missed);
                (wired.violated, wired.missed) = (violated, missed);
            }
            changed
        });
    }

    /// Follows a growth until an announcement explains it: one for each record, and no more than
    /// there is room for.
    pub(crate) fn grew(&self, growth: Growth) {
        let mut state = self.state();
        if state.growths.len() < limits::GROWTHS && state.growths.iter().all(|open| open.id != growth.id) {
            let _ = state.of(growth.id.record_type);
            state.growths.push_back(growth);
        }
    }

    /// Takes the growths for which nobody need wait any more; `waits` says whether somebody still
    /// must.
    pub(crate) fn due(&self, waits: impl Fn(&Growth) -> bool) -> Vec<Growth> {
        let mut state = self.state();
        let all = std::mem::take(&mut state.growths);
        let (open, due): (VecDeque<_>, VecDeque<_>) = all.into_iter().partition(|growth| waits(growth));
        state.growths = open;
        due.into()
    }

    /// A growth ended: an announcement explained it (`announced`), or none did.
    pub(crate) fn settled(&self, record_type: TypeId, announced: bool, now: Moment) {
        self.note(|state| {
            let wired = state.of(record_type);
            if announced {
                wired.announced += 1;
            } else {
                wired.unannounced += 1;
                wired.unannounced_at = Some(now);
            }
            !announced
        });
    }

    /// States of all types, by [`TypeId`].
    pub(crate) fn known(&self, now: Moment) -> Vec<TypeWiring> {
        let mut state = self.state();
        state.elapse(now);
        let mut types: Vec<_> = state.types.iter().map(|(wired, _)| *wired).collect();
        for growth in state.growths.iter().filter(|growth| now.since(growth.at) > limits::GROWTH_SOON) {
            if let Some(wired) = types.get_mut(usize::from(growth.id.record_type.0)) {
                wired.pending += 1;
            }
        }
        types
    }

    /// True if something has changed since the last call.
    pub(crate) fn take_change(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    /// Regions that state no bound, and those that earn no full TTL, by type. The last one
    /// stands for all types of which nothing is known. Empty if every region states a bound for
    /// every type.
    pub(crate) fn withheld(&self, now: Moment, worst_lag: Duration) -> Arc<[TypeDoubts]> {
        if !is_on(Rule::R21) {
            return Arc::default();
        }
        let mut state = self.state();
        state.elapse(now);
        let unrouted = state.unrouted(now);
        for (wired, doubts) in &mut state.types {
            wired.turn(doubts, unrouted, now, now + worst_lag);
        }
        TypeWiring::default().turn(&mut state.others, unrouted, now, now + worst_lag);
        let all = state.types.iter().map(|(_, doubts)| *doubts).chain([state.others]);
        if all.clone().all(|doubts| doubts == TypeDoubts::default()) { Arc::default() } else { all.collect() }
    }

    fn note(&self, change: impl FnOnce(&mut State) -> bool) {
        if change(&mut self.state()) {
            self.changed.store(true, Ordering::Release);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves behind only sets that grow.
        self.state.lock()
    }
}

impl State {
    /// The regions that recently announced something under a type that no route names.
    fn unrouted(&self, now: Moment) -> RegionSet {
        let regions = (0u8..).map(RegionId).zip(&self.unrouted);
        let lately = regions.filter(|(_, last)| last.is_some_and(|last| now.since(last) < limits::WIRING_DOUBT));
        lately.map(|(id, _)| id).collect()
    }

    /// Ends what counts for a while only.
    fn elapse(&mut self, now: Moment) {
        for ((wired, _), spellings) in self.types.iter_mut().zip(&self.spellings) {
            wired.other_case =
                wired.other_case.iter().filter(|region| spellings.differs_in_case(*region, now)).collect();
        }
    }

    fn of(&mut self, record_type: TypeId) -> &mut TypeWiring {
        let place = usize::from(record_type.0);
        if place >= self.types.len() {
            self.types.resize(place + 1, (TypeWiring::default(), self.others));
        }
        &mut self.types[place].0
    }
}

impl TypeWiring {
    /// The regions that state no bound for this type; those in `unrouted` announce under types that
    /// no route names.
    fn withheld(&self, unrouted: RegionSet, now: Moment) -> RegionSet {
        if self.is_doubted(now) {
            return RegionSet::ALL;
        }
        RegionSet((unrouted.0 | self.named.0) & !self.met.0 | self.other_case.0)
    }

    /// The regions whose announcements are seen to miss this type: it changed and nobody announced
    /// it, or they announced keys of records that are read in another form, or findings speak
    /// against them. That a region announces nothing of it is no evidence.
    fn strays(&self, now: Moment) -> RegionSet {
        if self.is_missed(now) {
            return RegionSet::ALL;
        }
        RegionSet((self.misnamed.0 | self.found.0) & !self.met.0 | self.other_case.0)
    }

    fn turn(&self, doubts: &mut TypeDoubts, unrouted: RegionSet, now: Moment, until: Moment) {
        doubts.no_bound.turn(self.withheld(unrouted, now), until);
        let strays = if is_on(Rule::Unwired) { self.strays(now) } else { RegionSet::EMPTY };
        doubts.no_full_ttl.turn(strays, until);
        if let Some(back_at) = self.back_at {
            // What is stored from before that states versions which everything announced since is
            // below.
            doubts.no_bound.ended(RegionSet::ALL, back_at + (until - now));
            doubts.no_full_ttl.ended(RegionSet::ALL, back_at + (until - now));
        }
    }

    /// Says whether something of it changed and nobody has announced it.
    fn is_doubted(&self, now: Moment) -> bool {
        self.violated || self.is_missed(now)
    }

    /// Says the same where an announcement should be here, so that names or keys must differ.
    pub fn is_missed(&self, now: Moment) -> bool {
        self.missed || self.unannounced_at.is_some_and(|at| now.since(at) < limits::WIRING_DOUBT)
    }
}

#[cfg(test)]
mod tests;
