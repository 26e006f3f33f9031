//! Owns what must hold for who asked: his own writes, what he asks of caches, and what no race
//! decides.

use std::time::Duration;

use super::super::answer::Answer;
use super::super::faults::Fault;
use super::super::plan::{Plan, REGIONS, Style, Wish};
use super::super::property::Property;
use super::super::subject::{Seen, path};
use super::super::world::World;
use super::{Checker, as_seen, holds_copies, near, states};

impl Checker {
    /// Checks that a write through the sidecar is visible to requests after its answer: not below
    /// the version that the reply stated, and nothing that was asked for before it was made.
    pub(super) fn check_own_writes(
        &mut self,
        world: &World,
        answer: &Answer,
        seen: &Seen,
        key: usize,
        position: usize,
    ) {
        let plan = &world.plan;
        if self.known.is_doubtful(plan, key, answer.ended) {
            return;
        }
        let own =
            self.known.written[key].iter().rev().find(|own| own.answered < answer.began && position < own.position);
        let Some(own) = own.copied() else { return };
        if seen.asked < own.made || own.states && states(plan, key, position) {
            self.violate(Property::ReadYourWrites, answer, Some(key), || {
                let (answered, asked) = (own.answered.as_secs_f64(), seen.asked.as_secs_f64());
                format!(
                    "k{key} at position {position}, asked at {asked:.3}: {} was written through us by {answered:.3}",
                    own.position
                )
            });
        }
        self.check_taker(world, answer, seen, key, position);
    }

    /// R20: of a write without a version, who took it and shows it is not overruled by those who do
    /// not have it. Of two records nobody may be who took both; where another region announces a
    /// version, nobody can tell whether it is of that write.
    fn check_taker(&mut self, world: &World, answer: &Answer, seen: &Seen, key: usize, position: usize) {
        let plan = &world.plan;
        let distinguished = !answer.is_passed()
            && answer.before.is_none()
            && answer.read.view != 2
            && (plan.style == Style::Versions || !plan.announces_versions);
        // Of several the newest, if it has a reply: that is what the sidecar knows of.
        let own = self.known.written[key].last().filter(|own| self.known.tried[key] == Some(own.answered));
        let looks_like = as_seen(plan, key, position, answer.ended);
        let own = own
            .filter(|own| {
                let remembered = own.answered > self.known.lost_slots;
                remembered && own.answered < answer.began && answer.ended < own.answered + Duration::from_secs(60)
            })
            .filter(|own| distinguished && looks_like < own.position);
        let Some(own) = own.copied() else { return };
        let noticed = world.noticed();
        let replies = noticed.replies.get(&path(plan, answer.read)).into_iter().flatten();
        // R6: an absence loses to what is there, unless it is what was written.
        let absence_counts = !plan.truth.is_present(key, own.position) && !plan.announces_versions;
        let overruled = replies
            .filter(|reply| reply.race == seen.race && Some(reply.region) == own.region && reply.done < answer.ended)
            .flat_map(|reply| &reply.shown)
            .filter(|(of, shown)| *of == key && *shown >= own.position)
            .any(|(_, shown)| absence_counts || plan.truth.is_present(key, *shown));
        drop(noticed);
        if overruled {
            self.violate(Property::ReadYourWrites, answer, Some(key), || {
                format!("k{key} at position {position}: region {:?} took {} and shows it", own.region, own.position)
            });
        }
    }

    /// Checks that the reader's cache directives are honoured.
    pub(super) fn check_wish(&mut self, world: &World, answer: &Answer, seen: &Seen) {
        let age = answer.began.saturating_sub(seen.generated);
        let fired = match answer.read.wish {
            Wish::NoCache => Fault::OwnWrite,
            Wish::MaxAge(_) | Wish::MinFresh(_) => Fault::Directives,
            Wish::Part => Fault::Part,
            Wish::Nothing => return,
        };
        world.fired(fired);
        match answer.read.wish {
            Wish::NoCache if seen.asked < answer.began => {
                self.violate(Property::ReadYourWrites, answer, None, || {
                    format!("no-cache was asked for, and it is from {:.3} s before", age.as_secs_f64())
                });
            }
            Wish::NoCache if seen.generated < seen.asked && !world.is_stubborn() => {
                self.violate(Property::ReadYourWrites, answer, None, || {
                    format!("no-cache was asked for, and an intermediary's is {:.3} s old", age.as_secs_f64())
                });
            }
            // Whole seconds, of an age that is known to the second.
            Wish::MaxAge(most) if answer.is_hit() && age > Duration::from_secs(most + 2) => {
                self.violate(Property::Honoured, answer, None, || {
                    format!("max-age={most} was asked for, and it is {:.3} s old", age.as_secs_f64())
                });
            }
            Wish::MinFresh(least) if answer.is_hit() && answer.ttl().is_some_and(|ttl| ttl < least as i64) => {
                self.violate(Property::Honoured, answer, None, || format!("min-fresh={least} was asked for"));
            }
            _ => {}
        }
    }

    /// R19: what was reset begins anew, and nothing of it is compared with what was before. Where
    /// nothing else has been announced of the record since, and all regions show the same, no label
    /// speaks of older versions.
    pub(super) fn check_reset(&mut self, world: &World, answer: &Answer, shown: &[(usize, usize)]) {
        let plan = &world.plan;
        if !matches!(answer.label(), Some("below-floor" | "floor-escaped")) || answer.seen.is_none() {
            return;
        }
        let since = answer.began.saturating_sub(Duration::from_secs(6));
        let clean = shown.iter().all(|(key, position)| {
            let newest = plan.truth.newest(*key, answer.ended) == *position;
            newest && self.is_settled(plan, *key, *position, since)
        });
        // A copy from before the RESET brings the older versions back, whenever it comes.
        let odd = plan
            .windows
            .iter()
            .any(|w| holds_copies(w.fault) || w.fault == Fault::MaxInReply && near(w, answer.ended));
        if clean && !odd {
            self.violate(Property::Converged, answer, None, || "it was reset, and is still labelled".to_owned());
        }
    }

    /// True if a record was reset before `since` and all regions showed this position then, and
    /// nothing else is known of it.
    fn is_settled(&self, plan: &Plan, key: usize, position: usize, since: Duration) -> bool {
        let mut announced = self.known.announced_by[key].iter().flatten();
        let reset = self.known.reset[key].filter(|reset| *reset < since);
        reset.is_some_and(|reset| announced.all(|announced| *announced < reset))
            && (0..REGIONS).all(|region| plan.truth.position_at(region, key, since) == position)
            && self.known.spoiled[key].is_none()
            && self.known.written[key].is_empty()
    }

    /// R4 where no race is held: what is passed on is not what the announcer would better, while he
    /// can answer.
    pub(super) fn check_passed(&mut self, world: &World, answer: &Answer, seen: &Seen, key: usize, position: usize) {
        let plan = &world.plan;
        if !answer.is_passed() || answer.read.view == 2 || self.known.is_doubtful(plan, key, answer.ended) {
            return;
        }
        let Some((region, at, announced)) = self.known.announcer[key] else { return };
        // Who announced a change lately may have announced this one, for all that is known: up to a
        // minute after another did.
        let lately = answer.began.saturating_sub(Duration::from_secs(61) * REGIONS as u32);
        // Without versions nobody can tell whether a second region announces the same change or the
        // next (R4).
        let announced_by = &self.known.announced_by[key];
        let mut others = (0..REGIONS).filter(|other| *other != region);
        if !plan.announces_versions && others.any(|other| announced_by[other].is_some_and(|since| since > at)) {
            return;
        }
        // Who took a write counts as having announced it (R20), though what he shows may lag.
        if self.known.written[key].iter().any(|own| own.answered >= lately) {
            return;
        }
        // An absence without a version loses to what is there (R6).
        let places = [answer.began, answer.ended].map(|when| plan.truth.position_at(region, key, when));
        if places.iter().any(|position| !plan.truth.is_present(key, *position)) {
            return;
        }
        if position >= announced
            || at >= answer.began
            || announced_by[seen.region].is_some_and(|reported| reported >= lately)
        {
            return;
        }
        use Fault::{Backup, Duplicate, HourLate, LateReset, OlderAfterNewer, Replayed, Slow, Suspended};
        // Who says it again passes for who announces the next; who has had a RESET, for who announces
        // what follows.
        let odd = plan.windows.iter().filter(|w| near(w, answer.ended)).any(|w| match w.fault {
            LateReset | Duplicate | HourLate | OlderAfterNewer | Replayed => true,
            Backup | Slow | Suspended => true,
            fault => holds_copies(fault),
        });
        let well = (0..=24).all(|n| {
            let before = Duration::from_millis(250 * n);
            world.is_well(region, answer.ended.saturating_sub(before))
        });
        // One reply in fifty takes eight times as long. Who is passed on waits for the announcer as long as
        // he usually takes, and then for the others (seed 9955: both tries of one reader).
        let waited = answer.ended - answer.began >= plan.regions[region].latency.mul_f64(1.3);
        if !odd && well && !waited && plan.regions[region].cache_lag.is_zero() {
            self.violate(Property::Announced, answer, Some(key), || {
                format!("k{key} at position {position} was passed on, region {region} announced {announced}")
            });
        }
    }
}
