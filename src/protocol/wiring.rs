//! Whether what regions announce reaches what is read here (R21).
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
//! regions concerned do not earn it the full TTL either ([`Wired::strays`]): it is kept for the soft
//! TTL, labelled `unwired` (`standing::assess`).

mod forms;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use self::forms::KeyForm;
use self::forms::KeyForms;
use super::horizon::{Horizon, TypeDoubts};
use super::switch::{Rule, is_on};
use crate::model::ids::{Epoch, Generation, RecordId, RegionId, RegionSet, TypeId};
use crate::model::time::Moment;
use crate::protocol::limits;

#[derive(Debug, Default)]
pub(crate) struct Wiring {
    state: Mutex<State>,
    changed: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// When each region last announced something under a type that no route names.
    unrouted: [Option<Moment>; limits::REGIONS],
    /// By [`TypeId`], as far as anything is known, with what was last withheld of each.
    types: Vec<(Wired, TypeDoubts)>,
    /// By [`TypeId`] too, as far as any unread key was announced.
    forms: Vec<KeyForms>,
    /// What was last withheld of all other types.
    others: TypeDoubts,
    growths: VecDeque<Growth>,
}

/// What is known of one record type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wired {
    /// The regions that announced anything of it.
    pub heard: RegionSet,
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
    pub told: u64,
    /// The same, but nobody announced the change.
    pub untold: u64,
    /// When the last of these was noticed.
    pub untold_at: Option<Moment>,
    /// An audit found a change that nobody has announced so far.
    pub violated: bool,
    /// An audit found such a change, and a region that was LIVE then should have announced it by now.
    pub missed: bool,
    /// When all regions last answered with a lower version than the one that was stored of them:
    /// versions of it began anew, or were taken back.
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
    /// When it was served.
    pub at: Moment,
}

impl Growth {
    /// Whether the region that served it is one of those that vouched.
    pub(crate) fn is_its_vouchers(&self) -> bool {
        self.vouched.0.contains(self.region)
    }

    /// Whether a region that vouched has noticed no loss since and was heard of a time after the change,
    /// so that its announcement should be here.
    pub(crate) fn is_vouched_against(&self, horizon: &Horizon) -> bool {
        let (regions, epochs) = &self.vouched;
        horizon.is_heard_since(self.at, *regions, epochs)
    }
}

impl Wiring {
    /// `region` announced all records of this type, or one of them by name.
    pub(crate) fn heard(&self, record_type: TypeId, region: RegionId, by_name: bool) {
        self.note(|state| {
            let wired = state.of(record_type);
            let before = (wired.heard, wired.named);
            wired.heard = wired.heard.with(region);
            if by_name {
                wired.named = wired.named.with(region);
            }
            before != (wired.heard, wired.named)
        });
    }

    /// These regions announced a record of this type that is read here.
    pub(crate) fn met(&self, record_type: TypeId, regions: RegionSet) {
        self.note(|state| {
            let wired = state.of(record_type);
            let known = wired.met.covers(regions);
            wired.met = RegionSet(wired.met.0 | regions.0);
            wired.misnamed = RegionSet(wired.misnamed.0 & !regions.0);
            if let Some(forms) = state.forms.get_mut(usize::from(record_type.0)) {
                regions.iter().for_each(|region| forms.met(region));
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
        meant: Option<(RecordId, KeyForm)>,
        now: Moment,
    ) {
        self.note(|state| {
            let place = usize::from(record_type.0);
            if place >= state.forms.len() {
                state.forms.resize_with(place + 1, KeyForms::default);
            }
            let forms = &mut state.forms[place];
            forms.note(region, meant.map(|(id, form)| (id.hash, form)), now);
            let (misnames, differs) = (forms.misnames(region), forms.differs_in_case(region, now));
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
            state.forms.clear();
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

    /// A growth ended: an announcement explained it (`told`), or none did.
    pub(crate) fn settled(&self, record_type: TypeId, told: bool, now: Moment) {
        self.note(|state| {
            let wired = state.of(record_type);
            if told {
                wired.told += 1;
            } else {
                wired.untold += 1;
                wired.untold_at = Some(now);
            }
            !told
        });
    }

    /// What is known of each type, by [`TypeId`].
    pub(crate) fn known(&self, now: Moment) -> Vec<Wired> {
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

    /// Whether something has changed since the last call.
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
        Wired::default().turn(&mut state.others, unrouted, now, now + worst_lag);
        let all = || state.types.iter().map(|(_, doubts)| *doubts).chain([state.others]);
        if all().all(|doubts| doubts == TypeDoubts::default()) { Arc::default() } else { all().collect() }
    }

    fn note(&self, change: impl FnOnce(&mut State) -> bool) {
        if change(&mut self.state()) {
            self.changed.store(true, Ordering::Release);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves behind only sets that grow.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The regions that recently announced something under a type that no route names.
    fn unrouted(&self, now: Moment) -> RegionSet {
        let lately = |last: &Option<Moment>| last.is_some_and(|last| now.since(last) < limits::WIRING_DOUBT);
        (0u8..).map(RegionId).zip(&self.unrouted).filter(|(_, last)| lately(last)).map(|(id, _)| id).collect()
    }

    /// Ends what counts for a while only.
    fn elapse(&mut self, now: Moment) {
        for ((wired, _), forms) in self.types.iter_mut().zip(&self.forms) {
            let lasts = |region: &RegionId| forms.differs_in_case(*region, now);
            wired.other_case = wired.other_case.iter().filter(lasts).collect();
        }
    }

    fn of(&mut self, record_type: TypeId) -> &mut Wired {
        let place = usize::from(record_type.0);
        if place >= self.types.len() {
            self.types.resize(place + 1, (Wired::default(), self.others));
        }
        &mut self.types[place].0
    }
}

impl Wired {
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
        self.missed || self.untold_at.is_some_and(|at| now.since(at) < limits::WIRING_DOUBT)
    }
}

#[cfg(test)]
mod tests;
