//! Owns the properties: what a reader must never see, whatever goes wrong.
//!
//! Before it: [`super::run`] tells of every delivery and every answer, at the moment it happens.
//! After it: the first violation, and the tallies. Invariant: it believes only the truth and what
//! replies say they show; nothing the sidecar claims excuses it, except a label, and labels are
//! counted.

use std::time::Duration;

use super::answer::Answer;
use super::faults::Fault;
use super::plan::{Plan, Proof, RECOVERY, REGIONS, Style};
use super::property::{Property, Violation};
use super::subject::{Seen, path};
use super::tallies::Tallies;
use super::world::World;

mod age;
mod asked;
mod known;
mod other_case;
mod windows;

use known::Known;
pub(crate) use known::{Floor, OwnWrite};
use windows::{excuses, holds_copies, near};

/// Compares answers with the truth.
pub(crate) struct Checker {
    /// Only counts: the designs beside ours promise nothing.
    pub(crate) lenient: bool,
    /// Announcements that the sidecar received, and answers that it served.
    pub(crate) known: Known,
    misses: Vec<Duration>,
    /// Counts of the run.
    pub(crate) tallies: Tallies,
    /// The first violation.
    pub(crate) violation: Option<Violation>,
}

impl Checker {
    /// Nothing has happened.
    pub(crate) fn new(plan: &Plan, lenient: bool) -> Self {
        let (tallies, known) = (Tallies::default(), Known::new(plan.truth.keys()));
        Self { lenient, known, misses: Vec::new(), tallies, violation: None }
    }

    /// A reader was answered, now.
    pub(crate) fn answered(&mut self, world: &World, answer: &Answer) {
        self.tallies.reads += 1;
        self.tallies.count_shape(answer);
        if answer.is_hit() {
            self.tallies.hits += 1;
        } else {
            self.misses.push(answer.began);
        }
        let label = answer.label();
        self.tallies.labelled += u64::from(label.is_some());
        self.count_quiet(world, answer, label);
        if world.plan.is_elsewhere(answer.ended) {
            return self.check_elsewhere(&world.plan, answer);
        }
        let Some(seen) = &answer.seen else { return self.failed(world, answer) };
        if self.is_uncertain(answer) {
            return;
        }
        for (key, raw) in &seen.shown {
            let position = &as_seen(&world.plan, *key, *raw, answer.ended);
            let first = world.plan.truth.first_ingest_after(*key, *position).unwrap_or(Duration::MAX);
            let behind = answer.ended.saturating_sub(first);
            if behind > Duration::from_secs(1) && label.is_none() {
                self.tallies.stale += 1;
                self.tallies.worst = self.tallies.worst.max(behind);
            }
            self.count_backwards(answer, label, *key, *position);
            if label.is_none() && !self.lenient {
                self.check(&world.plan, answer, seen, *key, *raw);
                self.check_announcer(world, answer, seen, *key, *position);
                self.check_own_writes(world, answer, seen, *key, *raw);
                self.check_passed(world, answer, seen, *key, *position);
            }
            self.check_audit(&world.plan, answer, *key, *position);
            self.check_bound(&world.plan, answer, *key, *position);
            let since = world.plan.truth.went_back(*key).map(|since| since + Duration::from_secs(55));
            if label == Some("floor-escaped") && since.is_some_and(|since| since < answer.ended) {
                // R15: by now the floor may have been dropped.
                self.known.highest[*key] = 0;
            }
            let believed = label.is_none() || is_long_gone(&world.plan, *key, *raw, answer.ended);
            if believed && !states(&world.plan, *key, *raw) {
                // R6: an absence without a version, once it is believed, begins the record anew.
                self.known.highest[*key] = 0;
            }
            // What was asked for before a RESET is from before the restore. Of two deletions nobody can
            // tell which one a part without a head shows.
            let counts =
                seen.is_dated && self.known.reset[*key].is_none_or(|reset| reset <= seen.asked.min(seen.generated));
            if counts && states(&world.plan, *key, *raw) {
                self.known.state(*key, *raw, seen.asked.min(seen.generated));
            }
            if counts && states(&world.plan, *key, *raw) && *raw > self.known.served[*key] {
                self.known.served[*key] = *raw;
                self.known.newest_served[*key].push((answer.ended, *raw));
            }
        }
        if !self.lenient {
            self.check_reset(world, answer, &seen.shown);
        }
        // What proves that messages arrive is known of now alone.
        let is_received_late = answer.before.is_some() && answer.ended > answer.began;
        if label.is_none() && !self.lenient && !is_received_late {
            self.check_age(&world.plan, answer, seen.asked);
            self.check_wish(world, answer, seen);
        }
        if let Some(foreign) = &seen.foreign {
            self.violate(Property::Own, answer, None, || foreign.clone());
        }
    }

    /// A region of another environment answers: its versions win, so nothing is promised of how new
    /// a record is. It is the reader's own all the same, and no older than it may be.
    fn check_elsewhere(&mut self, plan: &Plan, answer: &Answer) {
        let Some(seen) = &answer.seen else { return };
        if answer.label().is_none() && !self.lenient && answer.before.is_none() {
            self.check_age(plan, answer, seen.asked);
        }
        if let Some(foreign) = &seen.foreign {
            self.violate(Property::Own, answer, None, || foreign.clone());
        }
    }

    /// True if a RELOAD or a RESET of its record came while this part may have waited, so that
    /// nobody can tell on which side of it the part is.
    fn is_uncertain(&self, answer: &Answer) -> bool {
        answer.before.is_some() && self.known.ordered[answer.read.key].is_some_and(|at| at > answer.began)
    }

    /// Floor of a record when this answer was made, for all that is known.
    fn floor(&self, answer: &Answer, key: usize) -> Floor {
        let now = self.known.floor(key);
        answer.before.map_or(now, |before| before.least(now))
    }

    /// Readers who overlap have no order: only what had been served when a reader came is before
    /// him.
    fn count_backwards(&mut self, answer: &Answer, label: Option<&str>, key: usize, position: usize) {
        let before = self.known.newest_served[key].iter().rev().find(|(at, _)| *at <= answer.began);
        let backwards = label.is_none() && before.is_some_and(|(_, served)| position < *served);
        self.tallies.backwards += u64::from(backwards);
    }

    fn check(&mut self, plan: &Plan, answer: &Answer, seen: &Seen, key: usize, position: usize) {
        let Floor { reported, served, highest } = self.floor(answer, key);
        let least = if plan.announces_versions { reported.max(served) } else { served };
        // Once the table of floors was too small, any slot may make way later; an old copy then
        // meets nothing that knows better.
        let forgotten = !self.known.lost_slots.is_zero() && seen.generated < seen.asked;
        let doubtful = self.known.is_doubtful(plan, key, answer.ended) || forgotten;
        if states(plan, key, position) && plan.truth.last_of_version(key, position) < least && !doubtful {
            self.violate(Property::Monotone, answer, Some(key), || {
                format!("k{key} was shown at position {position}, announced {reported}, served {served}")
            });
        }
        let version = plan.truth.version(key, position);
        if answer.is_hit()
            && seen.is_dated
            && self.known.is_back(plan, key, answer.ended)
            && states(plan, key, position)
            && version < highest
        {
            self.violate(Property::Monotone, answer, Some(key), || {
                format!("k{key} was shown at version {version}, and {highest} is known, which nobody has any more")
            });
        }
        // `Age` counts whole seconds.
        let generated =
            if seen.generated < seen.asked { seen.generated + Duration::from_secs(1) } else { seen.asked };
        let overdue = self.known.news[key].iter().rev().find(|(at, announced)| {
            // That a copy is from before it, only who remembers the announcement can tell.
            let remembered = *at > self.known.lost_slots;
            let before = seen.asked < *at || remembered && *at < seen.asked && generated < *at;
            let stands = plan.style == Style::Versions && announced.is_some_and(|announced| position >= announced);
            *at < answer.began && before && !stands
        });
        if let Some((fence, _)) = overdue.copied() {
            self.violate(Property::Fenced, answer, Some(key), || {
                let (generated, fence) = (generated.as_secs_f64(), fence.as_secs_f64());
                format!("k{key}: from {generated:.3}, announced at {fence:.3}")
            });
        }
    }

    /// R4, R6, R7: what an announcer has is not overruled by those who lag behind him.
    fn check_announcer(&mut self, world: &World, answer: &Answer, seen: &Seen, key: usize, position: usize) {
        let plan = &world.plan;
        let reported = self.floor(answer, key).reported;
        if answer.status == 404
            && plan.announces_versions
            && !self.known.is_doubtful(plan, key, answer.ended)
            && position < reported
            && plan.truth.is_present(key, reported)
        {
            self.violate(Property::Present, answer, Some(key), || {
                format!("k{key} is called absent, announced at position {reported}")
            });
        }
        let distinguished = answer.read.view != 2 && answer.before.is_none();
        let Some((region, at, announced)) = self.known.announcer[key].filter(|_| distinguished) else {
            return;
        };
        // A 404 is outvoted by a 200 (R6). Without versions in announcements nobody can tell
        // whether a second region announces the same change or the next (R4).
        let doubtful = self.known.is_doubtful(plan, key, answer.ended);
        let distinguished = plan.style != Style::Versions && plan.announces_versions && !doubtful;
        let distinguished = distinguished
            && !plan
                .windows
                .iter()
                .any(|w| (holds_copies(w.fault) || w.fault == Fault::LateReset) && near(w, answer.ended));
        // What was written since is a change that nobody has announced yet: who took it speaks
        // first (R20).
        let distinguished = distinguished && self.known.tried[key].is_none_or(|tried| tried < at);
        let heard = distinguished && at < seen.asked && plan.truth.is_present(key, announced);
        if !heard || position >= announced {
            return;
        }
        let noticed = world.noticed();
        let replies = noticed.replies.get(&path(plan, answer.read)).into_iter().flatten();
        let of_race: Vec<_> = replies.filter(|reply| reply.race == seen.race && reply.done < answer.ended).collect();
        // The best is kept when the race is over: when all have answered, or at the deadline.
        let over = of_race.len() == REGIONS || answer.ended > seen.asked + Duration::from_millis(2_100);
        let his = of_race.into_iter().find(|reply| reply.region == region);
        let better = over
            && his.is_some_and(|reply| {
                reply
                    .shown
                    .iter()
                    .any(|(key, position)| *position >= announced && plan.truth.is_present(*key, *position))
            });
        drop(noticed);
        if better {
            self.violate(Property::Announced, answer, Some(key), || {
                format!(
                    "k{key} at position {position}, region {region} announced {announced} at {:.3}",
                    at.as_secs_f64()
                )
            });
        }
    }

    fn failed(&mut self, world: &World, answer: &Answer) {
        self.tallies.failed += 1;
        let plan = &world.plan;
        let strict = plan.strict && answer.status == 504;
        // A refusal beats what is too old. What is passed on without a race is one region's.
        let refused = matches!(answer.status, 401 | 403);
        if refused && answer.is_passed() {
            return;
        }
        // A pause takes the deadline of what was under way.
        let mut pauses = plan.windows.iter().filter(|w| w.fault == Fault::Suspended);
        if pauses.any(|w| w.from <= answer.ended && answer.ended < w.until + Duration::from_secs(6)) {
            return;
        }
        if strict || self.lenient {
            return;
        }
        // Failures are remembered for up to 5 s.
        let since = answer.began.saturating_sub(Duration::from_secs(6));
        let steps = (answer.ended - since).as_millis() as u64 / 250 + 1;
        let times = (0..=steps).map(|n| (since + Duration::from_millis(250 * n)).min(answer.ended));
        let well = (0..REGIONS).any(|region| {
            times.clone().all(|at| world.is_well(region, at)) && !(refused && self.is_behind(plan, answer, region))
        });
        if well {
            self.violate(Property::Answered, answer, Some(answer.read.key), || {
                format!("status {} although a region was well", answer.status)
            });
        }
    }

    /// True if a region shows less than what is known of the records that were asked for.
    fn is_behind(&self, plan: &Plan, answer: &Answer, region: usize) -> bool {
        let key = answer.read.key;
        let keys = [key, (key + 1) % plan.truth.keys()];
        // The fill may have begun a little before its reader.
        let seen = answer.began.saturating_sub(plan.regions[region].cache_lag + Duration::from_secs(1));
        self.known.reported[key].max(self.known.served[key]) > 0
            && keys.into_iter().take(if answer.read.view == 2 { 2 } else { 1 }).any(|key| {
                plan.truth.position_at(region, key, seen) < self.known.reported[key].max(self.known.served[key])
            })
    }

    fn count_quiet(&mut self, world: &World, answer: &Answer, label: Option<&str>) {
        let plan = &world.plan;
        let ill = plan.windows.iter().any(|window| excuses(window) && near(window, answer.ended));
        let keys = [answer.read.key, (answer.read.key + 1) % plan.truth.keys()];
        if ill || answer.ended < RECOVERY {
            return;
        }
        if keys.into_iter().any(|key| self.known.spoiled[key].is_some() || plan.truth.went_back(key).is_some()) {
            return;
        }
        self.tallies.quiet.0 += 1;
        self.tallies.quiet.1 += u64::from(label.is_some());
        if plan.proof == Proof::Watermark && answer.is_hit() {
            self.tallies.vouched.0 += 1;
            self.tallies.vouched.1 += u64::from(answer.bound().is_none());
        }
    }

    /// Everything has come to rest: what is read now must be the newest, and say nothing against
    /// itself.
    pub(crate) fn rested(&mut self, world: &World, answer: &Answer) {
        if self.lenient {
            return;
        }
        let truth = &world.plan.truth;
        let asked = [answer.read.key, (answer.read.key + 1) % truth.keys()];
        let mut asked = asked.into_iter().take(if answer.read.view == 2 { 2 } else { 1 });
        let Some(Seen { shown, .. }) = &answer.seen else {
            // What would be labelled is refused.
            let doubtful = asked.any(|key| self.known.is_doubtful(&world.plan, key, answer.ended));
            if world.plan.strict && answer.status == 504 && doubtful {
                return;
            }
            return self.violate(Property::Converged, answer, None, || format!("status {}", answer.status));
        };
        for (key, position) in shown {
            let newest = truth.newest(*key, answer.ended);
            let announced = (*position + 1..=newest).any(|position| {
                truth
                    .write_of(*key, position)
                    .is_none_or(|write| self.known.is_announced(write) || self.known.is_reloaded(truth, write))
            });
            if announced && as_seen(&world.plan, *key, *position, answer.ended) < newest {
                self.violate(Property::Converged, answer, Some(*key), || {
                    format!("k{key} is still at position {position} of {newest}: {}", answer.line)
                });
            }
        }
        if answer.label().is_some()
            && !shown.iter().any(|(key, _)| self.known.is_doubtful(&world.plan, *key, answer.ended))
        {
            self.violate(Property::Converged, answer, Some(answer.read.key), || format!("still {}", answer.line));
        }
    }

    /// The run is over: what holds for all of it.
    pub(crate) fn end(&mut self, world: &World, left: &[&str], under_way: usize) {
        let at = world.elapsed();
        if !left.is_empty() || under_way > 0 {
            let text = format!("{left:?} had to be dropped, {under_way} fills under way");
            self.note(Violation { property: Property::Kept, at, key: None, text });
        }
        let attempts = world.noticed().attempts.clone();
        self.tallies.attempts = attempts.iter().map(|attempts| attempts.len() as u64).sum();
        if self.lenient {
            return;
        }
        self.misses.sort_unstable();
        for (region, attempts) in attempts.iter().enumerate() {
            self.check_budget(region, attempts);
        }
        let (quiet, labelled) = self.tallies.quiet;
        // Over all seeds it is one in twenty; one seed alone may have been unlucky.
        if quiet >= 300 && labelled * 10 > quiet {
            let text = format!("{labelled} of {quiet} answers outside fault windows are labelled");
            self.note(Violation { property: Property::Unlabelled, at, key: None, text });
        }
    }

    /// Limits attempts in any ten seconds: the readers' own, three tries each, and the background's
    /// 20/s and fifth.
    fn check_budget(&mut self, region: usize, attempts: &[Duration]) {
        let ten = Duration::from_secs(10);
        for (first, from) in attempts.iter().enumerate().step_by(25) {
            let sent = attempts[first..].partition_point(|at| *at < *from + ten);
            let began = self.misses.partition_point(|at| *at + ten < *from);
            let caused = self.misses[began..].partition_point(|at| *at < *from + ten);
            let most = 220 + 36 * caused / 10;
            if sent > most {
                let text = format!("{sent} requests to region {region} in ten seconds, {caused} misses");
                return self.note(Violation { property: Property::Budgeted, at: *from, key: None, text });
            }
        }
    }

    fn violate(&mut self, property: Property, answer: &Answer, key: Option<usize>, text: impl FnOnce() -> String) {
        if !self.lenient {
            let text = format!("{} [{}]", text(), answer.line);
            self.note(Violation { property, at: answer.ended, key: key.or(Some(answer.read.key)), text });
        }
    }

    fn note(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }
}

/// The newest position that looks like this one: nobody can tell one absence from the next.
fn as_seen(plan: &Plan, key: usize, position: usize, at: Duration) -> usize {
    if plan.truth.is_present(key, position) {
        return position;
    }
    let newest = plan.truth.newest(key, at);
    (position..=newest).rev().find(|later| !plan.truth.is_present(key, *later)).unwrap_or(position)
}

/// True if a reply states a version of this record: an absence that states none is nothing that one
/// could protect.
fn states(plan: &Plan, key: usize, position: usize) -> bool {
    let stated = plan.truth.version(key, position) > 0 && (plan.tombstones || plan.truth.is_present(key, position));
    plan.style == Style::Versions && stated
}

/// True if all regions have called the record absent for so long that R6 may believe it.
fn is_long_gone(plan: &Plan, key: usize, position: usize, at: Duration) -> bool {
    let write = plan.truth.write_of(key, position).filter(|_| !plan.truth.is_present(key, position));
    write.is_some_and(|write| plan.truth.last_ingest_of(write) + Duration::from_secs(55) < at)
}
