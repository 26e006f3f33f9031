//! What all legs of a race say about the records, whoever won: a served version raises a floor
//! (R1), and a floor that no region reaches is suspect (R15).

use super::RoutedFill;
use crate::core::race::Tally;
use crate::core::race::verdict::{self, Verdict, Winner};
use crate::http::exchange::Reply;
use crate::model::ids::Version;
use crate::protocol::label::Label;

impl RoutedFill<'_> {
    /// R1: versions that regions answered raise the floors.
    pub(crate) fn note_versions(&self, reply: &Reply, versions: &[Version]) {
        let now = self.core.clock.now();
        let made = verdict::made(reply).min(self.sent.at);
        for ((_, record), version) in self.routing.records().iter().zip(versions) {
            if *version != Version::NONE {
                let served = self.core.freshness.served(record, *version, reply.region, made, now);
                self.core.carry_out(served);
            }
        }
    }

    /// R15, where the origin is authoritative: what was the floor before it was read is more than
    /// there is. Nobody is left to disagree, so the floor goes at once, and whoever waits asks
    /// again. A floor that rose during the read says nothing against it.
    pub(crate) fn overrule(&self, winner: &Winner) {
        if !self.core.config.service.authoritative || winner.label != Some(Label::BelowFloor) {
            return;
        }
        let now = self.core.clock.now();
        for (((id, record), then), version) in
            self.routing.records().iter().zip(&self.sent.fence).zip(self.versions(winner))
        {
            if version < then.floor && version < record.snapshot().floor {
                self.core.carry_out(self.core.freshness.overruled(*id, winner.reply.region, now));
            }
        }
    }

    pub(crate) fn note_reach(&self, tally: &Tally) {
        let now = self.core.clock.now();
        for leg in &tally.legs {
            // A tombstone's version counts like any other (R6).
            if let (Ok(reply), Some(Verdict::Good | Verdict::Absent)) = (&leg.outcome, leg.verdict) {
                self.note_versions(reply, &reply.versions);
            }
        }
        if tally.votes.unanimous {
            self.routing.records().iter().for_each(|(id, record)| self.core.freshness.agreed(*id, record));
        }
        let Some(best) = tally.best.as_ref().filter(|best| best.label == Some(Label::BelowFloor)) else { return };
        if self.core.config.service.authoritative {
            return self.overrule(best);
        }
        // As the race judges: by what had been announced when it began.
        let now_and_then = self.routing.snapshots().into_iter().zip(&self.sent.fence);
        let records: Vec<_> = now_and_then.map(|(now, then)| now.announced_by(then)).collect();
        let is_old = |reply: &Reply| verdict::is_from_before(reply, &records);
        if is_old(&best.reply) {
            return;
        }
        // A reply that an intermediary kept does not tell whether its region reaches the floor.
        let old = tally.legs.iter().filter(|leg| leg.outcome.as_ref().is_ok_and(|reply| is_old(reply)));
        let reachable = old.fold(tally.votes.reachable, |reachable, leg| reachable.without(leg.region));
        // Nor does one region's old copy make what the others say now any older.
        let replies = tally.legs.iter().filter(|leg| reachable.contains(leg.region));
        let newest = replies.filter_map(|leg| leg.outcome.as_ref().ok()).map(|reply| verdict::made(reply)).max();
        let made = newest.unwrap_or(now).min(now);
        for ((id, record), version) in self.routing.records().iter().zip(self.versions(best)) {
            if version < record.snapshot().floor {
                let actions = self.core.freshness.below_floor(*id, record, version, reachable, (made, now));
                self.core.carry_out(actions);
            }
        }
    }
}
