//! Owns what must hold for who asked: his own writes, what he asks of caches, and what no race
//! decides.

use std::time::Duration;

use super::super::answer::Answer;
use super::super::faults::Fault;
use super::super::plan::{REGIONS, Style, Window, Wish};
use super::super::property::Property;
use super::super::subject::{Seen, path};
use super::super::world::{Told, World};
use super::{Checker, OwnWrite, as_seen, holds_copies, near, states};

impl Checker {
    /// What was written through the sidecar is seen by whoever asks after it was told: not below
    /// the version that the reply stated, and nothing that was asked for before it was made.
    pub(super) fn check_own_writes(&mut self, world: &World, answer: &Answer, seen: &Seen, shown: (usize, usize)) {
        let (plan, (key, place)) = (&world.plan, shown);
        if self.known.is_doubtful(plan, key, answer.ended) {
            return;
        }
        let own = self.known.written[key].iter().rev().find(|own| own.told < answer.began && place < own.place);
        let Some(own) = own.copied() else { return };
        if seen.asked < own.made || own.states && states(plan, key, place) {
            self.violate(Property::ReadYourWrites, answer, Some(key), || {
                let (told, asked) = (own.told.as_secs_f64(), seen.asked.as_secs_f64());
                format!(
                    "k{key} at place {place}, asked at {asked:.3}: {} was written through us by {told:.3}",
                    own.place
                )
            });
        }
        self.check_taker(world, answer, seen, (key, place));
    }

    /// R20: of a write without a version, who took it and shows it is not overruled by those who do
    /// not have it. Of two records nobody may be who took both; where another region announces a
    /// version, nobody can tell whether it is of that write.
    fn check_taker(&mut self, world: &World, answer: &Answer, seen: &Seen, (key, place): (usize, usize)) {
        let plan = &world.plan;
        let told_apart = !answer.is_passed()
            && answer.before.is_none()
            && answer.read.view != 2
            && (plan.style == Style::Versions || !plan.announces_versions);
        // Of several the newest, if it has a reply: that is what the sidecar knows of.
        let own = self.known.written[key].last().filter(|own| self.known.tried[key] == Some(own.told));
        let lately = |own: &&OwnWrite| {
            let remembered = own.told > self.known.lost_slots;
            remembered && own.told < answer.began && answer.ended < own.told + Duration::from_secs(60)
        };
        let looks_like = as_seen(plan, key, place, answer.ended);
        let own = own.filter(lately).filter(|own| told_apart && looks_like < own.place);
        let Some(own) = own.copied() else { return };
        let noticed = world.noticed();
        let replies = noticed.replies.get(&path(plan, answer.read)).into_iter().flatten();
        let his =
            |told: &&Told| told.race == seen.race && Some(told.region) == own.region && told.done < answer.ended;
        // R6: an absence loses to what is there, unless it is what was written.
        let kind = |place: usize| plan.truth.is_present(key, place);
        let counts = |place: usize| kind(place) || !kind(own.place) && !plan.announces_versions;
        let has = |(of, shown): &(usize, usize)| *of == key && *shown >= own.place && counts(*shown);
        let overruled = replies.filter(his).any(|told| told.shown.iter().any(has));
        drop(noticed);
        if overruled {
            self.violate(Property::ReadYourWrites, answer, Some(key), || {
                format!("k{key} at place {place}: region {:?} took {} and shows it", own.region, own.place)
            });
        }
    }

    /// What he asks of caches.
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
                let text =
                    || format!("no-cache was asked for, and an intermediary's is {:.3} s old", age.as_secs_f64());
                self.violate(Property::ReadYourWrites, answer, None, text);
            }
            // Whole seconds, of an age that is known to the second.
            Wish::MaxAge(most) if answer.is_hit() && age > Duration::from_secs(most + 2) => {
                let text = || format!("max-age={most} was asked for, and it is {:.3} s old", age.as_secs_f64());
                self.violate(Property::Honoured, answer, None, text);
            }
            Wish::MinFresh(least) if answer.is_hit() && answer.ttl().is_some_and(|ttl| ttl < least as i64) => {
                self.violate(Property::Honoured, answer, None, || format!("min-fresh={least} was asked for"));
            }
            _ => {}
        }
    }

    /// R19: what was reset begins anew, and nothing of it is compared with what was before. Where
    /// nothing else has been heard of the record since, and all regions show the same, no label
    /// speaks of older versions.
    pub(super) fn check_reset(&mut self, world: &World, answer: &Answer, shown: &[(usize, usize)]) {
        let plan = &world.plan;
        if !matches!(answer.label(), Some("below-floor" | "floor-escaped")) || answer.seen.is_none() {
            return;
        }
        let since = answer.began.saturating_sub(Duration::from_secs(6));
        let is_clean = |(key, place): &(usize, usize)| {
            let heard = |reset: Duration| self.known.told_by[*key].iter().flatten().any(|told| *told >= reset);
            let settled = self.known.reset[*key].is_some_and(|reset| reset < since && !heard(reset));
            let alike = (0..REGIONS).all(|region| plan.truth.place_at(region, *key, since) == *place);
            let newest = plan.truth.newest(*key, answer.ended) == *place;
            settled && alike && newest && self.known.spoiled[*key].is_none() && self.known.written[*key].is_empty()
        };
        // A copy from before the RESET brings the older versions back, whenever it comes.
        let odd = |w: &Window| holds_copies(w.fault) || w.fault == Fault::MaxInReply && near(w, answer.ended);
        if shown.iter().all(is_clean) && !plan.windows.iter().any(odd) {
            self.violate(Property::Converged, answer, None, || "it was reset, and is still labelled".to_owned());
        }
    }

    /// R4 where no race is held: what is passed on is not what the announcer would better, while he
    /// can answer.
    pub(super) fn check_passed(&mut self, world: &World, answer: &Answer, seen: &Seen, shown: (usize, usize)) {
        let (plan, (key, place)) = (&world.plan, shown);
        if !answer.is_passed() || answer.read.view == 2 || self.known.is_doubtful(plan, key, answer.ended) {
            return;
        }
        let Some((region, at, announced)) = self.known.announcer[key] else { return };
        // Who told of any change lately may have told of this one, for all that is known: up to a
        // minute after another did.
        let lately = answer.began.saturating_sub(Duration::from_secs(61) * REGIONS as u32);
        let told = |told: &Duration| *told >= lately;
        // Without versions nobody can tell whether a second region announces the same change or the
        // next (R4).
        let others = (0..REGIONS).filter(|other| *other != region);
        let next = |other: usize| self.known.told_by[key][other].is_some_and(|told| told > at);
        if !plan.announces_versions && others.into_iter().any(next) {
            return;
        }
        // Who took a write counts as having announced it (R20), though what he shows may lag.
        if self.known.written[key].iter().any(|own| own.told >= lately) {
            return;
        }
        // An absence without a version loses to what is there (R6).
        let there = |when| plan.truth.is_present(key, plan.truth.place_at(region, key, when));
        if !there(answer.began) || !there(answer.ended) {
            return;
        }
        if place >= announced || at >= answer.began || self.known.told_by[key][seen.region].as_ref().is_some_and(told)
        {
            return;
        }
        use Fault::{Backup, Duplicate, HourLate, LateReset, OlderAfterNewer, Replayed, Slow, Suspended};
        // Who says it again passes for who announces the next; who has had a RESET, for who announces
        // what follows.
        let again = |fault| matches!(fault, LateReset | Duplicate | HourLate | OlderAfterNewer | Replayed);
        let odd = plan.windows.iter().any(|w| {
            near(w, answer.ended)
                && (holds_copies(w.fault) || again(w.fault) || matches!(w.fault, Backup | Slow | Suspended))
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
                format!("k{key} at place {place} was passed on, region {region} announced {announced}")
            });
        }
    }
}
