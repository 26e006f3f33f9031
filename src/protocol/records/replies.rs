//! Records and replies: a version that was served, regions that agree, and a floor that none of
//! them reaches (R1, R15).

use super::Records;
use crate::model::ids::{RecordId, RegionId, RegionSet, Version};
use crate::model::time::Moment;
use crate::protocol::event::Action;
use crate::protocol::event::Alarm;
use crate::protocol::merge::{self, Effect};
use crate::protocol::record::Record;
use crate::switch::{Rule, is_on};

impl Records {
    /// R1, R15: `region` answered with `version`, in a reply made at `made`. One made before a
    /// RESET is from before the restore (R19).
    pub(crate) fn served(
        &self,
        record: &Record,
        version: Version,
        region: RegionId,
        made: Moment,
        now: Moment,
    ) -> Vec<Action> {
        let id = record.id();
        if self.recalls.reset_since(id, made) {
            return Vec::new();
        }
        self.note(now);
        let mut actions = Vec::new();
        let mut shard = self.shard(id);
        let mut state = record.snapshot();
        let before = state;
        if version >= state.floor {
            shard.doubts.reached(id.hash);
        }
        if let Some(settled) = shard.doubts.settle(id.hash, version, region) {
            merge::settle(&mut state, settled);
            state.note_stated(settled, before.floor, made, now);
        }
        if merge::serve(&mut state, version, self.rules(&shard, id)) == Effect::Jumped
            && shard.doubts.add(id.hash, version, region, now, true)
        {
            actions.push(Action::Alarm(region, Alarm::VersionJump));
        }
        state.note_stated(version, before.floor, made, now);
        if state != before {
            record.store(state);
        }
        actions
    }

    /// R15: every configured region answered the same, at or above the floor.
    pub(crate) fn agreed(&self, id: RecordId, record: &Record) {
        let mut shard = self.shard(id);
        if shard.doubts.agreed(id.hash) {
            let mut state = record.snapshot();
            merge::agreed(&mut state);
            record.store(state);
        }
    }

    /// R15: every reachable region answered below the floor. `best` is the highest version among
    /// them, [`Version::NONE`] for an absence without a version, and `made` is when the newest of
    /// the replies was made. If this lasts longer than `worst_lag`, the floor is dropped to `best`;
    /// an absence is accepted, and the record begins anew (R6). What an intermediary keeps
    /// repeating counts as its region's word once, however often it comes.
    pub(crate) fn below_floor(
        &self,
        record: &Record,
        best: Version,
        reachable: RegionSet,
        made: Moment,
        now: Moment,
    ) -> Vec<Action> {
        let id = record.id();
        self.note(now);
        let mut shard = self.shard(id);
        let mut state = record.snapshot();
        let announcer = state.marker.filter(|_| state.at_floor).and_then(|marker| marker.regions.iter().next());
        let Some(blamed) = announcer.or_else(|| reachable.iter().next()).filter(|_| !reachable.is_empty()) else {
            return Vec::new();
        };
        if best >= state.floor {
            shard.doubts.reached(id.hash);
            return Vec::new();
        }
        if !is_on(Rule::R15) || !shard.doubts.unreached(id.hash, state.floor, announcer, made, now) {
            return Vec::new();
        }
        if best == Version::NONE {
            merge::accept_absence(&mut state, now, self.next_generation());
            record.store(state);
            shard.doubts.dismiss(id.hash);
            return vec![Action::Alarm(blamed, Alarm::AbsenceAccepted)];
        }
        merge::drop_floor(&mut state, best);
        state.note_stated(best, Version::NONE, made, now);
        record.store(state);
        vec![Action::Alarm(blamed, Alarm::FloorDropped)]
    }
}
