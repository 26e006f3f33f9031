//! Owns what is known and allowed of each region: permits, tokens, health, and who is asked in which order.
//!
//! Before it: `app` builds one [`Regions`] from the configuration. After it: [`crate::core::race`] asks it for a plan and sends
//! its legs through it. Invariant: every request to a region holds one of its permits and tells its health how it ended;
//! the last region is never skipped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{StatusCode, header};
use tokio::sync::OwnedSemaphorePermit;

use super::budget::{Background, LegEnding, Tokens};
use super::drained::Drained;
use super::health::{Fitness, Health};
use super::verdict::Verdict;
use crate::cache::limits::COPIED_BODY_BYTES;
use crate::config::{Config, RaceMode};
use crate::http::bodies::{ByteBudget, Reserved};
use crate::http::exchange::{Failure, Origin, Outgoing, Reply};
use crate::model::ids::{RegionId, RegionSet};
use crate::model::time::{Clock, Moment};
use crate::tasks::Tasks;
use crate::tasks::permits::Permits;
use crate::telemetry::metrics::Metrics;

/// All regions, in the order of the configuration.
pub struct Regions {
    regions: Arc<[RacedRegion]>,
    drained: Arc<Drained>,
    pub(crate) mode: RaceMode,
    pub(crate) primary: RegionId,
    deadline: Duration,
    /// What replies take until their race is over.
    bodies: Arc<ByteBudget>,
    pub(crate) origin: Arc<dyn Origin>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
}

/// One region.
pub(crate) struct RacedRegion {
    name: String,
    permits: Permits,
    state: Mutex<RaceState>,
}

/// What moves.
pub(crate) struct RaceState {
    pub(crate) health: Health,
    pub(crate) tokens: Tokens,
    pub(crate) background: Background,
}

/// On whose behalf a leg is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A reader waits.
    Foreground,
    /// Refresh, recheck, audit: within a budget of its own. Always asks every fit region, since it is there to settle
    /// whether they agree.
    Background,
}

/// How one leg ended.
#[derive(Clone, Debug)]
pub struct Leg {
    /// Who was asked.
    pub region: RegionId,
    /// What came of it.
    pub outcome: Result<Arc<Reply>, Failure>,
    /// From asking to the end.
    pub took: Duration,
    /// What the reply was worth when it came; `None` without one.
    pub verdict: Option<Verdict>,
    /// Its body's part of the budget, if it is large.
    pub reserved: Option<Arc<Reserved>>,
}

impl Leg {
    /// What became of it, in a stable word for metrics and problem documents.
    pub fn word(&self) -> &'static str {
        match (&self.outcome, self.verdict) {
            (Err(failure), _) => failure.word(),
            (Ok(_), Some(verdict)) => verdict.word(),
            (Ok(_), None) => "unjudged",
        }
    }
}

/// One region for `/status`.
#[derive(Clone, Debug)]
pub struct RegionHealth {
    /// Requests under way.
    pub in_flight: usize,
    /// Of its latest replies; `None` before the first.
    pub p95: Option<Duration>,
    /// An operator took it out.
    pub drained: bool,
    /// `fit`, `outlier` or `held-off`.
    pub health: &'static str,
    /// How much longer it asked to be left alone.
    pub held_off_for: Option<Duration>,
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

    /// As [`Regions::new`], from what it needs of the configuration.
    pub(crate) fn of(
        names: Vec<String>,
        race: &crate::config::RaceConfig,
        origin: Arc<dyn Origin>,
        clock: Clock,
        metrics: Arc<Metrics>,
        bodies: Arc<ByteBudget>,
    ) -> Arc<Self> {
        let now = clock.now();
        let region = |name| RacedRegion {
            name,
            permits: Permits::new(race.permits),
            state: Mutex::new(RaceState {
                health: Health::new(now),
                tokens: Tokens::new(now),
                background: Background::default(),
            }),
        };
        Arc::new(Self {
            regions: names.into_iter().map(region).collect(),
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

    /// The regions that nobody asks, because an operator said so.
    pub fn drained(&self) -> RegionSet {
        self.drained.set()
    }

    /// Nobody asks `region` from now on; whether that is new. `None` when it is the last one that is asked, unless by
    /// `force`.
    pub fn drain(&self, region: RegionId, force: bool) -> Option<bool> {
        self.drained.add(region, RegionSet::first(self.count()), force)
    }

    /// `region` is asked again; whether that is new.
    pub fn restore(&self, region: RegionId) -> bool {
        self.drained.take(region)
    }

    /// The same regions, with what is known of them, raced as `race` says and asked through `origin`.
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

    /// So many requests may be under way at once to each region from now on.
    pub fn permit(&self, most: usize, tasks: &Tasks) {
        self.regions.iter().for_each(|region| region.permits.resize(most, tasks));
    }

    /// How they are asked.
    pub fn origin(&self) -> &Arc<dyn Origin> {
        &self.origin
    }

    /// How many are configured.
    pub fn count(&self) -> usize {
        self.regions.len()
    }

    /// A region's name in the configuration.
    pub fn name(&self, region: RegionId) -> &str {
        self.regions.get(region.index()).map_or("", |region| &region.name)
    }

    /// The one deadline of all legs of a race.
    pub const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// What `/status` shows of each region.
    pub fn status(&self) -> Vec<RegionHealth> {
        let now = self.clock.now();
        let drained = self.drained();
        let status = |(id, region): (RegionId, &RacedRegion)| {
            let state = region.state();
            let fitness = state.health.fitness(now);
            RegionHealth {
                in_flight: region.permits.taken(),
                p95: state.health.p95(),
                drained: drained.contains(id),
                health: match fitness {
                    Fitness::Fit => "fit",
                    Fitness::Outlier { .. } => "outlier",
                    Fitness::HeldOff { .. } => "held-off",
                },
                held_off_for: match fitness {
                    Fitness::HeldOff { until } => Some(until - now),
                    _ => None,
                },
            }
        };
        (0..).map(RegionId).zip(&*self.regions).map(status).collect()
    }

    /// How many entries may be compared with all regions now (R17): what the region with the least left for it allows.
    pub fn left_for_audits(&self) -> usize {
        let now = self.clock.now();
        self.each().map(|(_, mut state)| state.background.left_for_audits(now)).min().unwrap_or_default()
    }

    /// Takes one of a region's tokens for an extra leg, if it has one.
    pub(crate) fn spend_token(&self, region: RegionId) -> bool {
        self.region(region).state().tokens.spend(self.clock.now())
    }

    /// How long the slowest of `regions` is worth waiting for: its p95, capped.
    pub(crate) fn patience(&self, regions: RegionSet) -> Duration {
        regions.iter().map(|region| self.region(region).state().health.patience()).max().unwrap_or_default()
    }

    /// Sends one leg. It ends `within` the given time, whatever the region does (that is [`Origin::ask`]'s to keep: it
    /// knows how far the reply came), and then gives its permit back; a region whose permits are all taken (by legs that
    /// hang, say) fails at once.
    pub(crate) fn leg(
        self: &Arc<Self>,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
        purpose: Purpose,
    ) -> impl Future<Output = Leg> + Send + use<> {
        let started = self.clock.now();
        let permit = self.admit(region, purpose, started);
        let regions = self.clone();
        async move {
            let outcome = match permit {
                Ok(_held) => regions.origin.ask(region, request, within).await.map(Arc::new),
                Err(saturated) => Err(saturated),
            };
            let (outcome, reserved) = regions.hold(outcome);
            let took = regions.clock.now() - started;
            match &outcome {
                Ok(reply) => regions.note_reply(region, reply.status, &reply.headers, took),
                Err(failure) => regions.note_failure(region, failure),
            }
            Leg { region, outcome, took, verdict: None, reserved }
        }
    }

    /// Reserves what a large reply takes until its race is over. Small ones are bounded by their number.
    fn hold(&self, outcome: Result<Arc<Reply>, Failure>) -> (Result<Arc<Reply>, Failure>, Option<Arc<Reserved>>) {
        let large = outcome.as_ref().ok().map(|reply| reply.body.len()).filter(|bytes| *bytes > COPIED_BODY_BYTES);
        let Some(bytes) = large else { return (outcome, None) };
        match self.bodies.reserve(bytes as u64) {
            Some(reserved) => (outcome, Some(Arc::new(reserved))),
            None => (Err(Failure::NoRoom), None),
        }
    }

    /// Takes a permit and counts the leg.
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

    /// A complete reply, or the head of a streamed one, came.
    pub(crate) fn note_reply(&self, region: RegionId, status: StatusCode, headers: &http::HeaderMap, took: Duration) {
        let now = self.clock.now();
        let mut state = self.region(region).state();
        let absent = matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE);
        let answered = status.is_success() || status == StatusCode::NOT_MODIFIED || absent;
        state.tokens.earn(match status {
            _ if status.is_server_error() => LegEnding::Failed,
            _ if answered => LegEnding::Answered,
            _ => LegEnding::Refused,
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

    /// Nothing complete came. A saturated region was not asked, and one whose reply is too large to hold did nothing
    /// wrong: health learns nothing from either.
    pub(crate) fn note_failure(&self, region: RegionId, failure: &Failure) {
        let unasked = matches!(failure, Failure::Saturated | Failure::Target);
        if *failure == Failure::NoRoom {
            self.metrics.over_budget("reply-bodies");
            return;
        }
        if unasked || matches!(failure, Failure::Oversized { announced: true, .. }) {
            return;
        }
        let now = self.clock.now();
        let mut state = self.region(region).state();
        state.tokens.earn(LegEnding::Failed);
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

    /// Ids come from the configuration whose order `regions` has.
    pub(crate) fn region(&self, region: RegionId) -> &RacedRegion {
        &self.regions[region.index()]
    }
}

impl RacedRegion {
    pub(crate) fn state(&self) -> MutexGuard<'_, RaceState> {
        // Each change is a few plain stores: a panic cannot leave it half-written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `Retry-After` as a span: seconds, or an HTTP date against the wall clock.
fn retry_after(headers: &http::HeaderMap, clock: &Clock) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = crate::model::time::Wall::from_system_time(httpdate::parse_http_date(text).ok()?);
    Some(date.since(clock.wall()))
}
