//! Evidence of all attempts of a race on the records, not only the winner's: a served version raises a
//! floor (R1), and a floor that no region reaches is suspect (R15).

use super::keep::RoutedFill;
use crate::fill::effects::apply_actions;
use crate::http::exchange::Reply;
use crate::model::ids::Version;
use crate::protocol::label::Label;
use crate::race::Tally;
use crate::race::verdict::{self, Verdict, Winner};

impl RoutedFill<'_> {
    /// R1: versions that regions answered raise the floors.
    pub(crate) fn note_versions(&self, reply: &Reply, versions: &[Version]) {
        let now = self.settings.shared.clock.now();
        let made = verdict::made(reply).min(self.sent.at);
        for ((_, record), version) in self.routing.records().iter().zip(versions) {
            if *version != Version::NONE {
                let served = self.settings.shared.freshness.served(record, *version, reply.region, made, now);
                apply_actions(self.settings, served);
            }
        }
    }

    /// R15, where the origin is authoritative: what was the floor before it was read is more than
    /// there is. Nobody is left to disagree, so the floor goes at once, and a waiting reader asks
    /// again. A floor that rose during the read says nothing against it.
    pub(crate) fn overrule(&self, winner: &Winner) {
        if !self.settings.config.service.authoritative || winner.label != Some(Label::BelowFloor) {
            return;
        }
        let now = self.settings.shared.clock.now();
        for (((id, record), then), version) in
            self.routing.records().iter().zip(&self.sent.fence).zip(self.versions(winner))
        {
            if version < then.floor && version < record.snapshot().floor {
                apply_actions(self.settings, self.settings.shared.freshness.overruled(*id, winner.reply.region, now));
            }
        }
    }

    pub(crate) fn note_reach(&self, tally: &Tally) {
        let now = self.settings.shared.clock.now();
        for attempt in &tally.attempts {
            // A tombstone's version counts like any other (R6).
            if let (Ok(reply), Some(Verdict::Good | Verdict::Absent)) = (&attempt.outcome, attempt.verdict) {
                self.note_versions(reply, &reply.versions);
            }
        }
        if tally.votes.unanimous {
            self.routing.records().iter().for_each(|(id, record)| self.settings.shared.freshness.agreed(*id, record));
        }
        let Some(best) = tally.best.as_ref().filter(|best| best.label == Some(Label::BelowFloor)) else { return };
        if self.settings.config.service.authoritative {
            return self.overrule(best);
        }
        // As the race judges: by what had been announced when it began.
        let now_and_then = self.routing.snapshots().into_iter().zip(&self.sent.fence);
        let records: Vec<_> = now_and_then.map(|(now, then)| now.announced_by(then)).collect();
        if verdict::is_from_before(&best.reply, &records) {
            return;
        }
        // A reply that an intermediary kept does not tell whether its region reaches the floor.
        let old = tally
            .attempts
            .iter()
            .filter(|attempt| attempt.outcome.as_ref().is_ok_and(|reply| verdict::is_from_before(reply, &records)));
        let reachable = old.fold(tally.votes.reachable, |reachable, attempt| reachable.without(attempt.region));
        // Nor does one region's old copy make what the others say now any older.
        let replies = tally.attempts.iter().filter(|attempt| reachable.contains(attempt.region));
        let newest =
            replies.filter_map(|attempt| attempt.outcome.as_ref().ok()).map(|reply| verdict::made(reply)).max();
        let made = newest.unwrap_or(now).min(now);
        for ((_, record), version) in self.routing.records().iter().zip(self.versions(best)) {
            if version < record.snapshot().floor {
                let actions = self.settings.shared.freshness.below_floor(record, version, reachable, made, now);
                apply_actions(self.settings, actions);
            }
        }
    }
}
