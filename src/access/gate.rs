//! Decides for each request: who asks, by a credential that was verified, and what the grants say of
//! that caller and the name of what is asked for. Nothing is looked up before.
//!
//! A credential is remembered as its principal, never as a decision: its end, the issuers' keys and
//! the grants are compared at each request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::future::{BoxFuture, FutureExt};
use http::{HeaderMap, Method};
use tokio::sync::{Notify, Semaphore};

use super::calendar::Calendar;
use super::counts::{AccessCounts, AccessOutcome};
use super::decision::{Decision, Need, decide};
use super::denial::Denial;
use super::grants::{Grants, Rights};
use super::issuers::Issuers;
use super::known::Known;
use super::limits::OBSERVED;
use super::names::{Asked, asked};
use super::principal::Principal;
use super::record::Confirmation;
use super::verifier::{Recalled, Verifier};
use crate::config::services::{AccessConfig, AccessMode, WhenUnknown};
use crate::model::time::{Clock, Wall};
use crate::tasks::Tasks;
use crate::telemetry::rate_limiter::RateLimiter;

/// A caller at a service's own port.
#[derive(Clone, Debug, Default)]
pub struct Admitted {
    /// `None` for who is nobody's.
    pub rights: Option<Arc<Rights>>,
    /// It may write the grants.
    pub is_admin: bool,
}

/// A decision, or the way to it.
pub enum Ruling<T> {
    /// Made by what is remembered, without waiting.
    Decided(Result<T, Denial>),
    /// Once a signature has been verified, for which a key may have to come.
    Pending(BoxFuture<'static, Result<T, Denial>>),
}

impl<T> Ruling<T> {
    /// The decision, after the wait for it.
    ///
    /// # Errors
    /// Why the request is not answered.
    pub async fn settled(self) -> Result<T, Denial> {
        match self {
            Self::Decided(decided) => decided,
            Self::Pending(pending) => pending.await,
        }
    }
}

/// Everything that one port needs to decide who may come in.
#[derive(Debug)]
pub struct Gate {
    mode: AccessMode,
    admins: Vec<Principal>,
    verifier: Verifier,
    grants: ArcSwapOption<Grants>,
    /// Time through which the grants are known to be the newest, in Unix milliseconds.
    confirmed: AtomicU64,
    max_age: Duration,
    when_unknown: WhenUnknown,
    calendar: Calendar,
    clock: Clock,
    announced: Notify,
    tasks: Tasks,
    /// Places of callers that are only observed and whose tokens are being verified.
    observing: Arc<Semaphore>,
    pub counts: AccessCounts,
    denials: RateLimiter,
}

impl Gate {
    /// Gate of a port whose tokens `issuers` sign. Until the first grants, it lets nobody in.
    #[must_use]
    pub fn new(config: &AccessConfig, issuers: Issuers, clock: Clock, tasks: Tasks) -> Self {
        let calendar = Calendar::new(clock.clone());
        Self {
            mode: config.mode,
            admins: config.admins.iter().map(|admin| Principal::token(&admin.iss, &admin.sub)).collect(),
            verifier: Verifier::new(issuers, calendar.clone()),
            grants: ArcSwapOption::empty(),
            confirmed: AtomicU64::new(0),
            max_age: config.max_age,
            when_unknown: config.when_unknown,
            calendar,
            clock,
            announced: Notify::new(),
            tasks,
            observing: Arc::new(Semaphore::new(OBSERVED)),
            counts: AccessCounts::default(),
            denials: RateLimiter::new(),
        }
    }

    pub const fn issuers(&self) -> &Issuers {
        self.verifier.issuers()
    }

    /// The grants in use; `None` before the first.
    pub fn grants(&self) -> Option<Arc<Grants>> {
        self.grants.load_full()
    }

    /// Takes grants into use, unless those in use are as new.
    pub fn take(&self, grants: Grants) {
        let is_newer = self.grants.load().as_ref().is_none_or(|own| own.version() < grants.version());
        if is_newer {
            self.grants.store(Some(Arc::new(grants)));
        }
    }

    /// Notes that the views service found this version at that time. It says something about the grants
    /// in use only if they are that new.
    pub fn confirm(&self, confirmation: Confirmation) {
        if self.grants.load().as_ref().is_some_and(|own| own.version() >= confirmation.version) {
            self.confirmed.fetch_max(confirmation.at.as_millis(), Ordering::Release);
        }
    }

    /// Since when the grants in use were known to be the newest.
    pub fn age(&self) -> Option<Duration> {
        let confirmed = self.confirmed.load(Ordering::Acquire);
        (confirmed > 0).then(|| self.calendar.now().since(Wall::from_millis(confirmed)))
    }

    /// Why this port lets nobody in, or goes by grants of which nobody knows whether they hold.
    pub fn reason(&self) -> Option<String> {
        if self.mode == AccessMode::Off {
            return None;
        }
        if !self.issuers().any_known() {
            return Some("no issuer's keys are known: callers get 503".to_owned());
        }
        let Some(grants) = self.grants.load_full() else {
            return Some("no grants have arrived yet: readers get 503".to_owned());
        };
        let age = self.age().filter(|age| *age <= self.max_age);
        let version = grants.version();
        age.is_none()
            .then(|| format!("nobody has confirmed the grants (version {version}) for over {:?}", self.max_age))
    }

    /// Tells [`Gate::announced`] that there may be newer grants.
    pub fn note_announced(&self) {
        self.announced.notify_one();
    }

    /// Resolves once newer grants may be there.
    pub async fn announced(&self) {
        self.announced.notified().await;
    }

    /// Decides about a request for a view, at a region's node. `known` is what the connection remembers
    /// of a caller whose lines are the same.
    pub fn admit_to_view(
        self: &Arc<Self>,
        known: &mut Option<Arc<Known>>,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Ruling<()> {
        if self.mode == AccessMode::Off {
            return Ruling::Decided(Ok(()));
        }
        let asked = asked(method, path);
        let token = match self.verifier.recall(known, headers) {
            Ok(Recalled::Known(known)) => {
                return Ruling::Decided(self.counted_as(answered(asked), self.decide(&known, asked)));
            }
            Err(denial) => return Ruling::Decided(self.counted(Err(denial))),
            Ok(Recalled::Token(token)) => token,
        };
        let (own, view) = (self.clone(), asked.view().map(str::to_owned));
        let pending = async move {
            let known = own.verifier.prove(token).await;
            let asked = view.as_deref().map_or(Asked::Elsewhere, Asked::View);
            own.counted_as(answered(asked), known.and_then(|known| own.decide(&known, asked)))
        };
        if self.mode == AccessMode::Enforce {
            return Ruling::Pending(pending.boxed());
        }
        self.observe(pending.map(drop));
        Ruling::Decided(Ok(()))
    }

    /// Finds out who asks at a service's own port, where the handlers then decide, and count.
    pub fn admit(self: &Arc<Self>, headers: &HeaderMap) -> Ruling<Admitted> {
        if self.mode == AccessMode::Off {
            return Ruling::Decided(Ok(Admitted::default()));
        }
        match self.verifier.recall(&mut None, headers) {
            Ok(Recalled::Known(known)) => Ruling::Decided(self.admitted(&known)),
            Err(denial) => Ruling::Decided(Err(denial)),
            Ok(Recalled::Token(token)) => {
                let own = self.clone();
                let pending = async move { own.verifier.prove(token).await.and_then(|known| own.admitted(&known)) };
                Ruling::Pending(pending.boxed())
            }
        }
    }

    fn admitted(&self, known: &Known) -> Result<Admitted, Denial> {
        let principal = &known.token.principal;
        let is_admin = self.admins.contains(principal);
        match self.grants_in_use() {
            // No document can take an admin's way in, nor can it be lost with the document.
            Err(_) if is_admin => Ok(Admitted { rights: None, is_admin }),
            Err(denial) => Err(denial),
            Ok(grants) => Ok(Admitted { rights: grants.rights_of(principal).cloned(), is_admin }),
        }
    }

    /// True if it refuses, and does not only count.
    pub fn enforces(&self) -> bool {
        self.mode == AccessMode::Enforce
    }

    /// Finds out beside the answer what would have been decided. Beyond a bound nobody does.
    pub fn observe(&self, finding: impl Future<Output = ()> + Send + 'static) {
        let Ok(place) = self.observing.clone().try_acquire_owned() else {
            return self.counts.decided(AccessOutcome::VerificationBusy);
        };
        let finding = async move {
            finding.await;
            drop(place);
        };
        self.tasks.spawn("observed-caller", finding);
    }

    /// Counts the decision, and lets everybody in who is only observed.
    ///
    /// # Errors
    /// The denial, where it is enforced.
    pub fn counted<T: Default>(&self, decided: Result<T, Denial>) -> Result<T, Denial> {
        self.counted_as(AccessOutcome::Granted, decided)
    }

    /// [`Gate::counted`], with another word for what is answered.
    fn counted_as<T: Default>(&self, answered: AccessOutcome, decided: Result<T, Denial>) -> Result<T, Denial> {
        let outcome = decided.as_ref().map_or_else(|denial| AccessOutcome::from(*denial), |_| answered);
        self.counts.decided(outcome);
        match decided {
            Err(denial) if self.mode == AccessMode::Observe => {
                if let Some(suppressed) = self.denials.admit(self.clock.now()) {
                    let word = denial.word();
                    tracing::info!(word, suppressed, "a request was answered that `enforce` would refuse");
                }
                Ok(T::default())
            }
            decided => decided,
        }
    }

    /// Decides whether a known caller may read what is asked for.
    fn decide(&self, known: &Known, asked: Asked<'_>) -> Result<(), Denial> {
        // There is nothing, and only callers that are known learn that.
        let Asked::View(view) = asked else { return Ok(()) };
        let grants = self.grants_in_use()?;
        let rights = grants.rights_of(&known.token.principal).ok_or(Denial::NotGranted)?;
        match decide(Some(rights), &Need::Read(view)) {
            Decision::Granted => Ok(()),
            Decision::Refused => {
                if let Some(suppressed) = self.denials.admit(self.clock.now()) {
                    let consumer = rights.consumer();
                    tracing::info!(consumer, suppressed, "a caller was refused what it has no grant for");
                }
                Err(Denial::NotGranted)
            }
        }
    }

    /// The grants by which it is decided; none before the first, nor those that are too old to go by.
    fn grants_in_use(&self) -> Result<Arc<Grants>, Denial> {
        let is_too_old = self.when_unknown == WhenUnknown::Refuse && self.age().is_none_or(|age| age > self.max_age);
        let grants = self.grants.load_full().filter(|_| !is_too_old);
        grants.ok_or(Denial::GrantsUnknown)
    }
}

/// Outcome of a request that is let through.
const fn answered(asked: Asked<'_>) -> AccessOutcome {
    match asked {
        Asked::View(_) => AccessOutcome::Granted,
        Asked::Elsewhere => AccessOutcome::Elsewhere,
    }
}

#[cfg(test)]
mod tests;
