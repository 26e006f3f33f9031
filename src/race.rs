//! One race: a fill's attempts, one per region, under one deadline. The fill serves what
//! [`Race::first`] gives and keeps what [`Race::finish`] finds best (*serve the first good reply,
//! keep the best one*).
//!
//! A reply below its records' floors, as they are when it is judged, is never served unlabelled.
//! Nothing outlives the deadline, and no region is asked twice, except for another form.

pub(crate) mod attempted;
mod attempts;
pub(crate) mod authorized;
mod budget;
pub mod compression;
mod drained;
pub(crate) mod floors;
pub mod gather;
pub(crate) mod health;
pub mod limits;
mod pass;
mod plan;
pub mod question;
pub mod region;
#[cfg(test)]
mod scripted;
mod standard;
#[cfg(test)]
mod tests;
pub(crate) mod upstream;
pub(crate) mod verdict;

use std::cmp::Reverse;
use std::sync::Arc;

use http::{Method, StatusCode};

use self::question::{Purpose, Question, Sending};
use self::region::{Attempt, Regions};
use self::verdict::{Judged, Known, Verdict, Winner};
use crate::http::exchange::Reply;
use crate::model::ids::{RegionId, RegionSet};
use crate::model::time::Moment;
use crate::payload::digest;
use crate::protocol::event::Alarm;
use crate::protocol::label::Label;
use crate::protocol::record::Snapshot;
use crate::protocol::vote::{self, Rank, Votes};

use self::attempts::Attempts;
use self::standard::Standard;

/// Replies that may be given to the waiting readers.
#[derive(Clone, Debug)]
pub(crate) enum First {
    /// This may be served: good or absent at once, refused or labelled when there is nothing
    /// better.
    Good(Winner),
    /// Nothing may be served: see [`Tally::best_error`].
    Nothing,
}

/// The result of a race once every attempt has ended.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Ended attempts in the order of their ends; empty when the background budget admitted none.
    pub attempts: Vec<Attempt>,
    /// The reply to keep, judged against the current floors. It must not be stored if its verdict
    /// does not allow that.
    pub best: Option<Winner>,
    /// If there is no `best`: the real error to pass on.
    pub best_error: Option<Arc<Reply>>,
    /// Majority view of the replies (R5, R6, R15).
    pub votes: Votes,
    /// Digests of the replies that state no version, by region.
    pub digests: Vec<(RegionId, u128)>,
    /// The last alarm about a region's grants (R22).
    pub alarm: Option<(RegionId, Alarm)>,
}

impl Tally {
    /// Replies of the attempts that got one, whatever they are worth.
    pub(crate) fn replies(&self) -> impl Iterator<Item = &Arc<Reply>> {
        self.attempts.iter().filter_map(|attempt| attempt.outcome.as_ref().ok())
    }
}

/// A race under way. Dropping it abandons its attempts.
pub(crate) struct Race {
    regions: Arc<Regions>,
    sending: Sending,
    standard: Standard,
    attempts: Attempts,
    ended: Vec<Attempt>,
    /// Under way and waited for.
    missing: RegionSet,
    /// Under way to see whether they are well again.
    probes: RegionSet,
    reserve: Vec<RegionId>,
    skipped: Vec<RegionId>,
    deadline: Moment,
    /// Moment at which the reserve is asked even though the regions asked so far may still answer.
    hedge_at: Moment,
    /// Moment at which outliers are asked even though the regions asked so far may still answer: an
    /// outlier may be well again, unnoticed, while the fit ones hang.
    resort_at: Moment,
    /// Until when missing attempts are waited for, once there is something to serve if nothing better
    /// comes.
    late_at: Option<Moment>,
    decided: Option<First>,
    /// The last alarm about a region's grants (R22).
    alarm: Option<(RegionId, Alarm)>,
}

enum Step {
    Serve(Winner),
    Nothing,
    Ask(Vec<RegionId>),
    Wait(Moment),
}

impl Race {
    pub(crate) fn start(regions: &Arc<Regions>, question: Question) -> Self {
        let Question { sending, terms } = question;
        let standard = Standard::of(terms, regions.clock.now());
        let through = sending.through.clone();
        let race = Self::over(regions, sending, standard);
        through.inspect(|batch| batch.began());
        race
    }

    fn over(regions: &Arc<Regions>, sending: Sending, standard: Standard) -> Self {
        let announcers = standard.announcers();
        let plan = regions.plan(sending.purpose, announcers);
        let now = regions.clock.now();
        let mut race = Self {
            regions: regions.clone(),
            sending,
            standard,
            attempts: Attempts::default(),
            ended: Vec::new(),
            missing: RegionSet::EMPTY,
            probes: RegionSet::EMPTY,
            reserve: plan.reserve,
            skipped: plan.skipped,
            deadline: now + regions.deadline(),
            hedge_at: now,
            resort_at: now + regions.deadline() / 2,
            late_at: None,
            decided: None,
            alarm: None,
        };
        race.ask(&plan.first);
        for probe in plan.probes {
            race.send(probe);
            race.probes = race.probes.with(probe);
        }
        race
    }

    /// Resolves as soon as something may be served, or nothing can be any more. Cancelling it loses
    /// nothing.
    pub(crate) async fn first(&mut self) -> First {
        loop {
            if let Some(decided) = &self.decided {
                return decided.clone();
            }
            match self.step() {
                Step::Serve(winner) => self.decided = Some(First::Good(winner)),
                Step::Nothing => self.decided = Some(First::Nothing),
                Step::Ask(regions) => self.ask(&regions),
                // Every attempt ends at the deadline by itself.
                Step::Wait(until) if until == self.deadline => {
                    let ended = self.attempts.next().await;
                    self.note(ended);
                }
                Step::Wait(until) => {
                    let wait = until - self.regions.clock.now();
                    // An elapsed wait is not an error: the next step checks the time itself.
                    if let Ok(ended) = tokio::time::timeout(wait, self.attempts.next()).await {
                        self.note(ended);
                    }
                }
            }
        }
    }

    /// Resolves when every attempt has ended, at the deadline at the latest. Losers are read to their
    /// end, so that their connections stay usable and their answers count.
    pub(crate) async fn finish(&mut self) -> Tally {
        let first = self.first().await;
        while let Some(attempt) = self.attempts.next().await {
            self.note(Some(attempt));
        }
        if let First::Good(winner) = &first {
            for attempt in self.ended.iter().filter(|attempt| attempt.region != winner.reply.region) {
                self.regions.metrics.races.loser(attempt.region);
            }
        }
        let digests = self.digests().await;
        self.tally(digests)
    }

    pub(crate) fn ended(&self) -> &[Attempt] {
        &self.ended
    }

    /// A reader started to wait for what began in the background: the regions that the background
    /// budget held back are asked now.
    pub(crate) fn escalate(&mut self) {
        if self.sending.purpose == Purpose::Foreground || self.decided.is_some() {
            return;
        }
        self.sending.purpose = Purpose::Foreground;
        let ended: RegionSet = self.ended.iter().map(|attempt| attempt.region).collect();
        let asked = RegionSet(ended.0 | self.missing.0 | self.probes.0);
        let plan = self.regions.plan(self.sending.purpose, self.standard.announcers());
        (self.reserve, self.skipped) = (unasked(plan.reserve, asked), unasked(plan.skipped, asked));
        let first = unasked(plan.first, asked);
        if !first.is_empty() {
            self.ask(&first);
        }
        for probe in unasked(plan.probes, asked) {
            self.send(probe);
            self.probes = self.probes.with(probe);
        }
    }

    /// The one decision, made again after each attempt and each wait.
    fn step(&mut self) -> Step {
        let now = self.regions.clock.now();
        let floors = self.standard.floors();
        let judged = self.judge(&floors);
        let best = self.best(&judged, &floors);
        if judged.iter().any(|(_, judged)| judged.rank == Rank::Now) || now >= self.deadline {
            return best.map_or(Step::Nothing, Step::Serve);
        }
        if self.missing.is_empty() {
            return self.step_when_all_ended(best);
        }
        if !self.reserve.is_empty() && now >= self.hedge_at {
            return Step::Ask(self.regions.take_from(&mut self.reserve));
        }
        if best.is_none() && !self.skipped.is_empty() && now >= self.resort_at {
            return Step::Ask(self.regions.take_from(&mut self.skipped));
        }
        let settles =
            best.as_ref().is_some_and(|best| best.verdict != Verdict::Refused || self.is_refusal_confirmed());
        // The writer is likely to read next and must not get what was there before (R20).
        let waited_for = self.missing.0 | self.reserve.iter().copied().collect::<RegionSet>().0;
        let is_taken = self.standard.writers().0 & waited_for != 0;
        if settles && !is_taken && self.late_at.is_none() {
            self.late_at = Some(now + self.regions.hedge_delay(self.missing));
        }
        let no_resort = best.is_some() || self.skipped.is_empty();
        match (self.late_at, best) {
            (Some(late), Some(best)) if now >= late => Step::Serve(best),
            (late, _) => {
                let hedge = if self.reserve.is_empty() { self.deadline } else { self.hedge_at };
                let resort = if no_resort { self.deadline } else { self.resort_at };
                Step::Wait(self.deadline.min(hedge).min(resort).min(late.unwrap_or(self.deadline)))
            }
        }
    }

    /// No attempt is waited for and nothing may be served at once. Others are asked (outliers too, if
    /// the rest brought nothing or is below the floor), or the best so far has to do.
    fn step_when_all_ended(&mut self, best: Option<Winner>) -> Step {
        if !self.reserve.is_empty() && !self.is_refusal_confirmed() {
            return Step::Ask(self.regions.take_from(&mut self.reserve));
        }
        let answered = best.as_ref().is_some_and(|best| best.label.is_none() && !self.is_lone_denial(best));
        if !answered && !self.skipped.is_empty() {
            return Step::Ask(self.regions.take_from(&mut self.skipped));
        }
        match best {
            Some(best) => Step::Serve(best),
            None if !self.probes.is_empty() => Step::Wait(self.deadline),
            None => Step::Nothing,
        }
    }

    /// Two regions refuse with the same status, so a better answer is worth neither more attempts nor a
    /// long wait.
    fn is_refusal_confirmed(&self) -> bool {
        let refused = self.ended.iter().filter(|attempt| attempt.verdict == Some(Verdict::Refused));
        let mut statuses = refused.map(|attempt| attempt.outcome.as_ref().ok().map(|reply| reply.status));
        let first = statuses.next().flatten();
        first.is_some() && statuses.any(|status| status == first)
    }

    /// R22: one region says that the grants do not allow it. Its settings may be wrong, so others are
    /// asked, well or not.
    fn is_lone_denial(&self, best: &Winner) -> bool {
        best.reply.status == StatusCode::FORBIDDEN && best.reply.grants.is_some() && !self.is_refusal_confirmed()
    }

    fn ask(&mut self, regions: &[RegionId]) {
        for region in regions {
            self.send(*region);
            self.missing = self.missing.with(*region);
        }
        let asked = regions.iter().copied().collect();
        self.hedge_at = self.regions.clock.now() + self.regions.hedge_delay(asked);
        self.late_at = None;
    }

    fn send(&mut self, region: RegionId) {
        let within = self.deadline - self.regions.clock.now();
        self.attempts.start(self.regions.attempt(region, &self.sending, within));
    }

    /// Takes in the end of an attempt; `None` when none is under way any more.
    fn note(&mut self, ended: Option<Attempt>) {
        let Some(mut attempt) = ended else {
            (self.missing, self.probes) = (RegionSet::EMPTY, RegionSet::EMPTY);
            return;
        };
        let stated = attempt.outcome.as_ref().ok();
        let alarm = stated.and_then(|reply| self.standard.note_stated(reply, self.regions.clock.now()));
        self.alarm = alarm.map(|why| (attempt.region, why)).or(self.alarm);
        let floors = self.standard.floors();
        attempt.verdict =
            attempt.outcome.as_ref().ok().map(|reply| verdict::judge(reply, self.standard.scales(&floors)).verdict);
        self.regions.metrics.races.attempt(attempt.region, attempt.label(), attempt.took);
        self.missing = self.missing.without(attempt.region);
        self.probes = self.probes.without(attempt.region);
        self.ended.push(attempt);
    }

    fn replies(&self) -> impl Iterator<Item = &Arc<Reply>> + Clone {
        self.ended.iter().filter_map(|attempt| attempt.outcome.as_ref().ok())
    }

    fn judge(&self, floors: &[Snapshot]) -> Vec<(&Arc<Reply>, Judged)> {
        let scales = self.standard.scales(floors);
        self.replies().map(|reply| (reply, verdict::judge(reply, scales))).collect()
    }

    /// The best that may be served at all: a good reply or an absence, else a refusal that two
    /// regions share, else a reply that is too old, labelled, else a refusal by one region.
    fn best(&self, judged: &[(&Arc<Reply>, Judged)], floors: &[Snapshot]) -> Option<Winner> {
        let place = match &self.standard {
            Standard::Unrouted => first_judged(judged, Verdict::Good),
            Standard::Routed { known, .. } => self.best_routed(judged, floors, known.as_ref()),
        };
        let (reply, judged) = judged[place?];
        let label = match judged {
            Judged { verdict: Verdict::TooOld, .. } => Some(Label::BelowFloor),
            Judged { is_unproven: true, .. } => Some(Label::GrantsUnproven),
            _ => None,
        };
        let known = self.standard.known();
        let versions = verdict::ballot(reply, known).map(|ballot| ballot.versions.to_vec()).unwrap_or_default();
        Some(Winner { reply: reply.clone(), verdict: judged.verdict, label, rank: judged.rank, versions })
    }

    fn best_routed(
        &self,
        judged: &[(&Arc<Reply>, Judged)],
        floors: &[Snapshot],
        known: Option<&Known>,
    ) -> Option<usize> {
        let (places, ballots) = verdict::ballots(judged.iter().map(|(reply, _)| *reply), known);
        let cast = places.into_iter().zip(ballots);
        let (older, newer): (Vec<_>, Vec<_>) = cast.partition(|(place, _)| judged[*place].1.is_unproven);
        let [best, unproven] = [newer, older].map(|cast| {
            let (places, ballots): (Vec<usize>, Vec<_>) = cast.into_iter().unzip();
            vote::best(&ballots, floors).map(|place| places[place])
        });
        let usable = best.filter(|place| judged[*place].1.rank > Rank::Below);
        // A refusal by one region must not hide what the others can still tell, labelled.
        let refused = self.refused(judged);
        let confirmed = refused.filter(|_| self.is_refusal_confirmed() && unproven.is_none());
        let withdrawn = unproven.and_then(|unproven| self.withdrawn(judged, unproven));
        usable.or(confirmed).or(best).or(withdrawn).or(unproven).or(refused)
    }

    /// The first refusal. R22: if grants are its reason, the one by the newest grants that two regions know,
    /// because a permit ends by that only.
    fn refused(&self, judged: &[(&Arc<Reply>, Judged)]) -> Option<usize> {
        let first = first_judged(judged, Verdict::Refused)?;
        match denied_by(judged[first]) {
            Some(_) => self.denied(judged).map(|(place, _)| place).or(Some(first)),
            None => Some(first),
        }
    }

    /// R22: a refusal by newer grants than allowed the reply at `unproven`, if somebody vouches for
    /// them. At one version the good reply wins, so a region with wrong settings refuses nobody.
    fn withdrawn(&self, judged: &[(&Arc<Reply>, Judged)], unproven: usize) -> Option<usize> {
        let allowed_by = judged[unproven].0.grants.as_ref()?.version;
        self.denied(judged).filter(|(_, by)| *by > allowed_by).map(|(place, _)| place)
    }

    /// R22: the first refusal by the newest grants that somebody vouches for, and their version.
    fn denied(&self, judged: &[(&Arc<Reply>, Judged)]) -> Option<(usize, u64)> {
        let denied = judged.iter().enumerate().filter_map(|(place, judged)| Some((place, denied_by(*judged)?)));
        let known = denied.filter(|(_, by)| self.standard.vouches_for(*by));
        known.max_by_key(|(place, by)| (*by, Reverse(*place)))
    }

    fn tally(&mut self, digests: Vec<(RegionId, u128)>) -> Tally {
        let floors = self.standard.floors();
        let best = self.best(&self.judge(&floors), &floors);
        let votes = match &self.standard {
            Standard::Unrouted => Votes::default(),
            Standard::Routed { known, .. } => {
                let replies: Vec<_> = self.replies().collect();
                let (places, ballots) = verdict::ballots(replies.iter().copied(), known.as_ref());
                vote::count(&ballots, &floors, self.regions.count(), |ballot| match replies[places[ballot]] {
                    reply if reply.status == StatusCode::NOT_MODIFIED => known.as_ref()?.digest,
                    reply => digests.iter().find(|(region, _)| *region == reply.region).map(|(_, digest)| *digest),
                })
            }
        };
        let best_error = if best.is_none() { verdict::best_error(self.replies()) } else { None };
        Tally { best, best_error, votes, digests, alarm: self.alarm, attempts: std::mem::take(&mut self.ended) }
    }

    /// Digests of the replies that state no version for some record; they stand for it in a vote. A
    /// HEAD has none, because it shows no content.
    async fn digests(&mut self) -> Vec<(RegionId, u128)> {
        let Standard::Routed { .. } = &self.standard else { return Vec::new() };
        let records = self.standard.floors().len();
        let mut digests = Vec::new();
        for reply in
            self.replies().filter(|reply| reply.status.is_success() && self.sending.request.method != Method::HEAD)
        {
            let versioned = verdict::ballot(reply, None).is_some_and(|ballot| ballot.is_versioned(records));
            if !versioned && let Some(digest) = digest::of_body(reply.body.len(), digest_of(reply)).await {
                digests.push((reply.region, digest));
            }
        }
        digests
    }
}

fn unasked(regions: Vec<RegionId>, asked: RegionSet) -> Vec<RegionId> {
    regions.into_iter().filter(|region| !asked.contains(*region)).collect()
}

fn first_judged(judged: &[(&Arc<Reply>, Judged)], verdict: Verdict) -> Option<usize> {
    judged.iter().position(|(_, judged)| judged.verdict == verdict)
}

/// Version of the grants by which a region refuses the caller, if it does.
fn denied_by((reply, judged): (&Arc<Reply>, Judged)) -> Option<u64> {
    let is_denial = judged.verdict == Verdict::Refused && reply.status == StatusCode::FORBIDDEN;
    reply.grants.as_ref().filter(|_| is_denial).map(|stated| stated.version)
}

fn digest_of(reply: &Arc<Reply>) -> impl FnOnce() -> u128 + Send + use<> {
    let reply = reply.clone();
    move || digest::digest(&reply.body, &reply.headers)
}
