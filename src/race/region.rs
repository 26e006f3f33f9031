//! State of each region: permits, tokens, health, and the order in which regions are asked. Every
//! request to a region holds one of its permits and reports its end to the region's health. The
//! last region is never skipped.

use std::sync::Arc;
use std::time::Duration;

use http::{StatusCode, header};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::OwnedSemaphorePermit;

use super::budget::{AttemptEnding, Background, Tokens};
use super::drained::Drained;
use super::gather::AttemptEnd;
use super::health::Health;
use super::question::{Purpose, Sending};
use super::verdict::Verdict;
use crate::cache::limits::COPIED_BODY_BYTES;
use crate::config::{Config, RaceMode};
use crate::http::bodies::{ByteBudget, Reserved};
use crate::http::exchange::{Failure, Origin, Reply};
use crate::model::ids::{RegionId, RegionSet};
use crate::model::time::{Clock, Moment};
use crate::tasks::Tasks;
use crate::tasks::permits::Permits;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::operations::Budget;
use crate::telemetry::metrics::races::AttemptOutcome;

pub mod status;

/// All regions, in the order of the configuration.
pub struct Regions {
    regions: Arc<[RacedRegion]>,
    drained: Arc<Drained>,
    pub(crate) mode: RaceMode,
    pub(crate) primary: RegionId,
    deadline: Duration,
    /// Budget for the bodies of replies until their race is over.
    bodies: Arc<ByteBudget>,
    pub(crate) origin: Arc<dyn Origin>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
}

pub(crate) struct RacedRegion {
    name: String,
    permits: Permits,
    state: Mutex<RaceState>,
}

pub(crate) struct RaceState {
    pub(crate) health: Health,
    pub(crate) tokens: Tokens,
    pub(crate) background: Background,
}

#[derive(Clone, Debug)]
pub struct Attempt {
    pub region: RegionId,
    pub outcome: Result<Arc<Reply>, Failure>,
    /// From asking to the end.
    pub took: Duration,
    /// Verdict on the reply when it came; `None` without one.
    pub verdict: Option<Verdict>,
    /// Its body's part of the budget, if it is large.
    pub reserved: Option<Arc<Reserved>>,
}

impl Attempt {
    /// True if its reply is larger than any that is held, however much memory there is.
    pub(crate) fn is_too_large(&self) -> bool {
        matches!(self.outcome, Err(Failure::Oversized { .. }))
    }

    /// Its outcome, in metrics and problem documents.
    pub fn label(&self) -> AttemptOutcome {
        match (&self.outcome, self.verdict) {
            (Err(failure), _) => failure.outcome(),
            (Ok(_), Some(verdict)) => verdict.into(),
            (Ok(_), None) => AttemptOutcome::Unjudged,
        }
    }
}

impl Regions {
    /// All regions fit, with full budgets. Memory may allow fewer permits than are configured.
    pub fn new(
        config: &Config,
        origin: Arc<dyn Origin>,
        clock: Clock,
        metrics: Arc<Metrics>,
        most_permits: usize,
        bodies: Arc<ByteBudget>,
    ) -> Arc<Self> {
        let names = config.service.regions.iter().map(|region| region.name.clone()).collect();
        let race = crate::config::RaceConfig { permits: config.race.permits.min(most_permits), ..config.race };
        Self::of(names, &race, origin, clock, metrics, bodies)
    }

    /// Like [`Regions::new`], from what it needs of the configuration.
    pub(crate) fn of(
        names: Vec<String>,
        race: &crate::config::RaceConfig,
        origin: Arc<dyn Origin>,
        clock: Clock,
        metrics: Arc<Metrics>,
        bodies: Arc<ByteBudget>,
    ) -> Arc<Self> {
        let now = clock.now();
        Arc::new(Self {
            regions: names
                .into_iter()
                .map(|name| RacedRegion {
                    name,
                    permits: Permits::new(race.permits),
                    state: Mutex::new(RaceState {
                        health: Health::new(now),
                        tokens: Tokens::new(now),
                        background: Background::default(),
                    }),
                })
                .collect(),
            drained: Arc::default(),
            mode: race.mode,
            primary: RegionId(race.primary as u8),
            deadline: race.deadline,
            bodies,
            origin,
            clock,
            metrics,
        })
    }

    /// The regions that an operator took out of use.
    pub fn drained(&self) -> RegionSet {
        self.drained.set()
    }

    /// Stops asking `region`; returns whether that is new. `None` if it is the last one that is
    /// asked, unless `force` is set.
    pub fn drain(&self, region: RegionId, force: bool) -> Option<bool> {
        self.drained.add(region, RegionSet::first(self.count()), force)
    }

    /// Asks `region` again; returns whether that is new.
    pub fn restore(&self, region: RegionId) -> bool {
        self.drained.take(region)
    }

    /// Copies the regions with their state, raced as `race` says and asked through `origin`.
    pub fn renewed(&self, race: &crate::config::RaceConfig, origin: Arc<dyn Origin>) -> Arc<Self> {
        Arc::new(Self {
            regions: self.regions.clone(),
            drained: self.drained.clone(),
            mode: race.mode,
            primary: RegionId(race.primary as u8),
            deadline: race.deadline,
            origin,
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            bodies: self.bodies.clone(),
        })
    }

    /// Copies the regions for another service: the state of each begins anew, but a region that an
    /// operator took out stays out.
    pub(crate) fn elsewhere(&self, race: &crate::config::RaceConfig, origin: Arc<dyn Origin>) -> Arc<Self> {
        let names = self.regions.iter().map(|region| region.name.clone()).collect();
        let made = Self::of(names, race, origin, self.clock.clone(), self.metrics.clone(), self.bodies.clone());
        Arc::new(Self {
            regions: made.regions.clone(),
            drained: self.drained.clone(),
            origin: made.origin.clone(),
            clock: made.clock.clone(),
            metrics: made.metrics.clone(),
            bodies: made.bodies.clone(),
            ..*made
        })
    }

    /// True if `region` may be asked on behalf of a comparison now: only while the background does
    /// little else.
    pub(crate) fn admit_check(&self, region: RegionId) -> bool {
        self.region(region).state().background.admit_check(self.clock.now())
    }

    /// Changes how many requests may be under way at once to each region.
    pub fn permit(&self, most: usize, tasks: &Tasks) {
        self.regions.iter().for_each(|region| region.permits.resize(most, tasks));
    }

    /// The budget of the bodies that replies hold.
    pub(crate) fn bodies(&self) -> &Arc<ByteBudget> {
        &self.bodies
    }

    pub fn origin(&self) -> &Arc<dyn Origin> {
        &self.origin
    }

    pub fn count(&self) -> usize {
        self.regions.len()
    }

    /// A region's name in the configuration.
    pub fn name(&self, region: RegionId) -> &str {
        self.regions.get(region.index()).map_or("", |region| &region.name)
    }

    /// The one deadline of all attempts of a race.
    pub const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Number of entries that may be compared with all regions now (R17): as many as the region
    /// with the smallest remainder allows.
    pub fn left_for_audits(&self) -> usize {
        let now = self.clock.now();
        self.each().map(|(_, mut state)| state.background.left_for_audits(now)).min().unwrap_or_default()
    }

    /// Takes one of a region's tokens for an extra attempt, if it has one.
    pub(crate) fn spend_token(&self, region: RegionId) -> bool {
        self.region(region).state().tokens.spend(self.clock.now())
    }

    /// Longest wait for the slowest of `regions` that is worth it: its p95, capped.
    pub(crate) fn hedge_delay(&self, regions: RegionSet) -> Duration {
        regions.iter().map(|region| self.region(region).state().health.hedge_delay()).max().unwrap_or_default()
    }

    /// Sends one attempt. It ends `within` the given time, whatever the region does, and then gives its
    /// permit back. [`Origin::ask`] keeps the time, because it knows how far the reply got. A
    /// region whose permits are all taken (by attempts that hang, for example) fails at once.
    pub(crate) fn attempt(
        self: &Arc<Self>,
        region: RegionId,
        sending: &Sending,
        within: Duration,
    ) -> impl Future<Output = Attempt> + Send + use<> {
        let started = self.clock.now();
        let Sending { request, purpose, through, form } = sending.clone();
        let permit = self.admit(region, purpose, started);
        // At once, so that a batch knows what it has to send when all its races have begun.
        let handed = through.filter(|_| permit.is_ok()).map(|batch| batch.ask(region, request.clone(), within));
        let regions = self.clone();
        async move {
            // A reply is large, so it is not moved about.
            let (mut outcome, counts) = match (permit.as_ref(), handed) {
                (Ok(_), Some(end)) => {
                    let AttemptEnd { reply, counts } = end.await;
                    (reply.map(Arc::new), counts)
                }
                (Ok(_), None) => (regions.origin.ask(region, request.clone(), within).await.map(Arc::new), true),
                (Err(saturated), _) => (Err(saturated.clone()), true),
            };
            if let (Some(form), Ok(reply)) = (&form, &outcome) {
                let now = regions.clock.now();
                if let Some(instead) = form.note(&request, reply, now) {
                    outcome = regions.origin.ask(region, instead, started + within - now).await.map(Arc::new);
                }
            }
            drop(permit);
            let (outcome, reserved) = regions.hold(outcome);
            let took = regions.clock.now() - started;
            match &outcome {
                _ if !counts => {}
                Ok(reply) => regions.note_reply(region, reply.status, &reply.headers, took),
                Err(failure) => regions.note_failure(region, failure),
            }
            Attempt { region, outcome, took, verdict: None, reserved }
        }
    }

    /// Reserves what a large reply takes until its race is over. Small ones are bounded by their
    /// number.
    fn hold(&self, outcome: Result<Arc<Reply>, Failure>) -> (Result<Arc<Reply>, Failure>, Option<Arc<Reserved>>) {
        let large = outcome.as_ref().ok().map(|reply| reply.body.len()).filter(|bytes| *bytes > COPIED_BODY_BYTES);
        let Some(bytes) = large else { return (outcome, None) };
        match self.bodies.reserve(bytes as u64) {
            Some(reserved) => (outcome, Some(Arc::new(reserved))),
            None => (Err(Failure::NoRoom), None),
        }
    }

    /// Takes a permit and counts the attempt.
    pub(crate) fn admit(
        &self,
        region: RegionId,
        purpose: Purpose,
        now: Moment,
    ) -> Result<OwnedSemaphorePermit, Failure> {
        let region = self.region(region);
        if purpose == Purpose::Foreground {
            region.state().background.foreground(now);
        }
        region.permits.try_take().map_err(|_| Failure::Saturated)
    }

    /// A complete reply, or the head of a streamed one, arrived.
    pub(crate) fn note_reply(&self, region: RegionId, status: StatusCode, headers: &http::HeaderMap, took: Duration) {
        let now = self.clock.now();
        let mut state = self.region(region).state();
        let absent = matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE);
        let answered = status.is_success() || status == StatusCode::NOT_MODIFIED || absent;
        state.tokens.earn(match status {
            _ if status.is_server_error() => AttemptEnding::Failed,
            _ if answered => AttemptEnding::Answered,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => AttemptEnding::Denied,
            _ => AttemptEnding::Refused,
        });
        if status.is_server_error() {
            state.health.failed(now);
        } else {
            state.health.succeeded(took, now);
        }
        let asks_to_wait = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        if asks_to_wait && let Some(wait) = retry_after(headers, &self.clock) {
            state.health.hold_off(wait, now);
        }
    }

    /// Nothing usable arrived. A saturated region was not asked, one whose reply is too large to hold
    /// did nothing wrong, and one whose reply cannot be decoded answered in time: health learns
    /// nothing from any.
    pub(crate) fn note_failure(&self, region: RegionId, failure: &Failure) {
        let unasked = matches!(failure, Failure::Saturated | Failure::NoCredential | Failure::Target);
        if *failure == Failure::NoRoom {
            self.metrics.operations.over_budget(Budget::ReplyBodies);
            return;
        }
        if unasked || matches!(failure, Failure::Oversized { announced: true, .. } | Failure::Coding { .. }) {
            return;
        }
        let now = self.clock.now();
        let mut state = self.region(region).state();
        state.tokens.earn(AttemptEnding::Failed);
        state.health.failed(now);
    }

    #[cfg(test)]
    pub(crate) fn spend_all_tokens(&self, region: RegionId) {
        let now = self.clock.now();
        while self.region(region).state().tokens.spend(now) {}
    }

    #[cfg(test)]
    pub(crate) fn spend_background(&self, region: RegionId) {
        let now = self.clock.now();
        while self.region(region).state().background.admit(now) {}
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = (RegionId, MutexGuard<'_, RaceState>)> {
        (0..).map(RegionId).zip(&*self.regions).map(|(id, region)| (id, region.state()))
    }

    /// Cannot be out of bounds: ids come from the configuration, and `regions` is in its order.
    pub(crate) fn region(&self, region: RegionId) -> &RacedRegion {
        &self.regions[region.index()]
    }
}

impl RacedRegion {
    pub(crate) fn state(&self) -> MutexGuard<'_, RaceState> {
        // Each change is a few plain stores: a panic cannot leave it half-written.
        self.state.lock()
    }
}

/// `Retry-After` as a span: seconds, or an HTTP date compared with the wall clock.
fn retry_after(headers: &http::HeaderMap, clock: &Clock) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = crate::model::time::Wall::from_system_time(httpdate::parse_http_date(text).ok()?);
    Some(date.since(clock.wall()))
}
