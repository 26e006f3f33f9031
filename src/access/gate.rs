//! Decides for each request: who asks, by a credential that was verified, and what the grants say of
//! that caller and the name of what is asked for. Nothing is looked up before.
//!
//! A credential is remembered as its principal, never as a decision: its end, the issuers' keys and
//! the grants are compared at each request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::future::{BoxFuture, FutureExt};
use http::Method;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use super::calendar::Calendar;
use super::counts::{AccessCounts, AccessOutcome, NONE};
use super::credentials::Credentials;
use super::decision::{Decision, Need, decide};
use super::denial::Denial;
use super::denial_lines::DenialLines;
use super::deny_file::DenyFile;
use super::grants::{Grants, May, Rights};
use super::issuers::Issuers;
use super::known::Known;
use super::limits::{AHEAD, OBSERVED, PULL_EVERY, PULL_MOST, PULL_WAIT};
use super::names::{Asked, asked};
use super::principal::Principal;
use super::record::Confirmation;
use super::verifier::{Recalled, Verifier};
use crate::config::services::{AccessConfig, AccessMode, WhenUnknown};
use crate::model::time::{Clock, Moment, Wall};
use crate::tasks::Tasks;

/// A caller at a service's own port.
#[derive(Clone, Debug, Default)]
pub struct Admitted {
    /// `None` where callers are not checked.
    pub principal: Option<Principal>,
    /// `None` for who is nobody's.
    pub rights: Option<Arc<Rights>>,
    /// It may write the grants.
    pub is_admin: bool,
}

/// Whom and what a decision is about, as far as that is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subject<'s> {
    pub principal: Option<&'s Principal>,
    pub consumer: Option<&'s str>,
    /// Name of the view or type.
    pub name: Option<&'s str>,
}

impl Admitted {
    /// Principal and consumer, as logs name them.
    #[must_use]
    pub fn named(&self) -> (String, &str) {
        let principal = self.principal.as_ref().map_or_else(|| NONE.to_owned(), ToString::to_string);
        (principal, self.rights.as_deref().map_or(NONE, Rights::consumer))
    }

    /// A decision about this caller and the view or type of this name.
    #[must_use]
    pub fn subject<'s>(&'s self, name: Option<&'s str>) -> Subject<'s> {
        let consumer = self.rights.as_deref().map(Rights::consumer);
        Subject { principal: self.principal.as_ref(), consumer, name }
    }
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
    /// The reason for which the request is not answered.
    pub async fn settled(self) -> Result<T, Denial> {
        match self {
            Self::Decided(decided) => decided,
            Self::Pending(pending) => pending.await,
        }
    }
}

/// Turn of a decision about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    First,
    /// After a look for newer grants, for a request that older ones let in.
    Again,
}

/// Parts of a gate.
pub struct GateParts {
    /// Those who sign its tokens.
    pub issuers: Issuers,
    /// Those who may do nothing, whatever the grants say.
    pub deny: Option<DenyFile>,
    /// Names of its views or types.
    pub names: Vec<String>,
    pub clock: Clock,
    pub tasks: Tasks,
}

/// The grants of a process; gates of its ports share them.
#[derive(Debug, Default)]
struct InUse {
    grants: ArcSwapOption<Grants>,
    /// Time through which the grants are known to be the newest, in Unix milliseconds.
    confirmed: AtomicU64,
    /// Version that there was: older ones were put back, and withdrawn rights with them.
    least: AtomicU64,
}

/// A look for grants that a caller knows of. The document is read for it, so a region that lags is asked
/// ever less often.
#[derive(Clone, Copy, Debug)]
struct Pull {
    at: Moment,
    /// Version in use then.
    version: u64,
    /// Time until the next one.
    wait: Duration,
}

/// Everything that one port needs to decide who may come in.
#[derive(Debug)]
pub struct Gate {
    config: AccessConfig,
    admins: Vec<Principal>,
    verifier: Verifier,
    in_use: Arc<InUse>,
    calendar: Calendar,
    clock: Clock,
    announced: Notify,
    /// Tells those who wait for a look that it is over.
    looked: Notify,
    /// True from when a caller asks for a look until one is over.
    is_looking: AtomicBool,
    /// The last look that a caller asked for.
    pulled: Mutex<Option<Pull>>,
    tasks: Tasks,
    /// Places of callers that are only observed and whose tokens are being verified.
    observing: Arc<Semaphore>,
    counts: Arc<AccessCounts>,
    lines: DenialLines,
    deny: Option<DenyFile>,
}

impl Gate {
    /// Gate of a port. Until the first grants, it lets nobody in.
    #[must_use]
    pub fn new(config: &AccessConfig, parts: GateParts) -> Self {
        let GateParts { issuers, deny, names, clock, tasks } = parts;
        let calendar = Calendar::new(clock.clone());
        Self {
            config: config.clone(),
            admins: config.admins.iter().map(|admin| Principal::from(&admin.who)).collect(),
            verifier: Verifier::new(issuers, calendar.clone()),
            in_use: Arc::default(),
            calendar,
            clock,
            announced: Notify::new(),
            looked: Notify::new(),
            is_looking: AtomicBool::new(false),
            pulled: Mutex::new(None),
            tasks,
            observing: Arc::new(Semaphore::new(OBSERVED)),
            counts: Arc::new(AccessCounts::new(names)),
            lines: DenialLines::default(),
            deny,
        }
    }

    pub const fn deny(&self) -> Option<&DenyFile> {
        self.deny.as_ref()
    }

    fn denies(&self, principal: &Principal, consumer: Option<&str>) -> bool {
        self.deny.as_ref().is_some_and(|deny| deny.denies(principal, consumer))
    }

    /// Gate of another port of this process, whose tokens `issuers` sign: by the same grants, and counted
    /// together.
    #[must_use]
    pub fn beside(&self, issuers: Issuers) -> Self {
        let (clock, tasks) = (self.clock.clone(), self.tasks.clone());
        let parts = GateParts { issuers, deny: self.deny.clone(), names: Vec::new(), clock, tasks };
        Self { in_use: self.in_use.clone(), counts: self.counts.clone(), ..Self::new(&self.config, parts) }
    }

    pub fn counts(&self) -> &AccessCounts {
        &self.counts
    }

    pub const fn issuers(&self) -> &Issuers {
        self.verifier.issuers()
    }

    /// The grants in use; `None` before the first.
    pub fn grants(&self) -> Option<Arc<Grants>> {
        self.in_use.grants.load_full()
    }

    /// Takes grants into use, unless those in use are as new.
    pub fn take(&self, grants: Grants) {
        let is_newer = self.in_use.grants.load().as_ref().is_none_or(|own| own.version() < grants.version());
        if is_newer {
            self.in_use.grants.store(Some(Arc::new(grants)));
        }
    }

    /// Notes that the views service found this version at that time. It says something about the grants
    /// in use only if they are that new.
    pub fn confirm(&self, confirmation: Confirmation) {
        if self.in_use.grants.load().as_ref().is_some_and(|own| own.version() >= confirmation.version) {
            self.in_use.confirmed.fetch_max(confirmation.at.as_millis(), Ordering::Release);
        }
    }

    /// Since when the grants in use were known to be the newest.
    pub fn age(&self) -> Option<Duration> {
        let confirmed = self.in_use.confirmed.load(Ordering::Acquire);
        (confirmed > 0).then(|| self.calendar.now().since(Wall::from_millis(confirmed)))
    }

    /// Why this port lets nobody in, or goes by grants of which nobody knows whether they hold.
    pub fn reason(&self) -> Option<String> {
        if self.config.mode == AccessMode::Off {
            return None;
        }
        if let Some(failure) = self.deny.as_ref().and_then(DenyFile::failure) {
            return Some(format!("{failure}; the last list stays in use"));
        }
        if !self.issuers().any_known() {
            return Some(format!("no issuer's keys are known: callers {}", self.unanswered()));
        }
        if let Some(least) = self.lacks() {
            return Some(format!(
                "the record of the grants is older than version {least}, which was in use: a table was put back; callers \
                 get 503 until `nearside grants apply` or `rollback` writes a newer one"
            ));
        }
        let Some(grants) = self.in_use.grants.load_full() else {
            return Some(format!("no grants have arrived yet: readers {}", self.unanswered()));
        };
        let (version, most) = (grants.version(), self.config.max_age);
        match self.age() {
            None => Some(format!("the grants (version {version}) are not confirmed yet")),
            Some(age) if age <= most => None,
            Some(_) => Some(format!("nobody has confirmed the grants (version {version}) for over {most:?}")),
        }
    }

    /// Fate of callers while nobody can decide about them.
    const fn unanswered(&self) -> &'static str {
        match self.config.mode {
            AccessMode::Enforce => "get 503",
            AccessMode::Observe | AccessMode::Off => "would get 503 with `enforce`",
        }
    }

    /// Goes by no grants that are older than this version, which history or views know.
    pub fn require(&self, version: u64) {
        self.in_use.least.fetch_max(version, Ordering::AcqRel);
    }

    /// The version that is required, if the grants in use are older.
    fn lacks(&self) -> Option<u64> {
        let (least, grants) = (self.in_use.least.load(Ordering::Acquire), self.in_use.grants.load());
        (grants.as_ref().map_or(0, |grants| grants.version()) < least).then_some(least)
    }

    /// Tells [`Gate::announced`] that there may be newer grants.
    pub fn note_announced(&self) {
        self.announced.notify_one();
    }

    /// Version of the grants in use; 0 before the first, and where nobody goes by them.
    pub fn version(&self) -> u64 {
        if self.config.mode == AccessMode::Off {
            return 0;
        }
        self.in_use.grants.load().as_ref().map_or(0, |grants| grants.version())
    }

    /// True if it is time to look for a version that a caller states: not one that nobody can have
    /// written yet, ten times a second at most, and ever less often while no look brings newer grants. True
    /// too while one is under way that has just begun.
    pub fn may_look_for(&self, version: u64) -> bool {
        if version > (self.calendar.now() + AHEAD).as_millis() {
            return false;
        }
        let (at, version) = (self.clock.now(), self.version());
        let mut pulled = self.pulled.lock();
        let wait = match *pulled {
            // The others wait for a look that has just begun.
            Some(last) if last.version == version && at.since(last.at) < PULL_EVERY => {
                return self.is_looking.load(Ordering::Acquire);
            }
            Some(last) if last.version == version && at.since(last.at) < last.wait => return false,
            Some(last) if last.version == version => (last.wait * 2).min(PULL_MOST),
            _ => PULL_EVERY,
        };
        *pulled = Some(Pull { at, version, wait });
        true
    }

    /// Looks for newer grants, and waits a moment for them.
    pub async fn look(&self) {
        let looked = self.looked.notified();
        tokio::pin!(looked);
        // From here on, the end of a look is not missed.
        looked.as_mut().enable();
        if !self.is_looking.swap(true, Ordering::AcqRel) {
            self.note_announced();
        }
        // Without them the request is decided by those in use.
        let _ = tokio::time::timeout(PULL_WAIT, looked).await;
    }

    /// Tells those who wait that a look at the region's copy is over.
    pub fn note_looked(&self) {
        self.is_looking.store(false, Ordering::Release);
        self.looked.notify_waiters();
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
        credentials: Credentials<'_>,
        turn: Turn,
    ) -> Ruling<()> {
        if self.config.mode == AccessMode::Off {
            return Ruling::Decided(Ok(()));
        }
        let asked = asked(method, path);
        let token = match self.verifier.recall(known, credentials) {
            Ok(Recalled::Known(known)) => return Ruling::Decided(self.decide(&known, asked, turn)),
            Err(denial) => {
                let subject = Subject { name: asked.view(), ..Subject::default() };
                return Ruling::Decided(self.counted(subject, Err(denial)));
            }
            Ok(Recalled::Token(token)) => token,
        };
        let (own, view) = (self.clone(), asked.view().map(str::to_owned));
        let pending = async move {
            let asked = view.as_deref().map_or(Asked::Elsewhere, Asked::View);
            match own.verifier.prove(token).await {
                Ok(known) => own.decide(&known, asked, turn),
                Err(denial) => own.counted(Subject { name: asked.view(), ..Subject::default() }, Err(denial)),
            }
        };
        if self.config.mode == AccessMode::Enforce {
            return Ruling::Pending(pending.boxed());
        }
        self.observe(pending.map(drop));
        Ruling::Decided(Ok(()))
    }

    /// Finds out who asks at a service's own port, where the handlers then decide, and count.
    pub fn admit(self: &Arc<Self>, credentials: Credentials<'_>) -> Ruling<Admitted> {
        if self.config.mode == AccessMode::Off {
            return Ruling::Decided(Ok(Admitted::default()));
        }
        match self.verifier.recall(&mut None, credentials) {
            Ok(Recalled::Known(known)) => Ruling::Decided(self.admitted(&known)),
            Err(denial) => Ruling::Decided(Err(denial)),
            Ok(Recalled::Token(token)) => {
                let own = self.clone();
                let pending = async move { own.verifier.prove(token).await.and_then(|known| own.admitted(&known)) };
                Ruling::Pending(pending.boxed())
            }
        }
    }

    /// Decides about an operator at a port's pages. Who is only observed is nobody in particular.
    ///
    /// # Errors
    /// The reason for which the page is not shown.
    pub async fn admit_operator(
        self: &Arc<Self>,
        credentials: Credentials<'_>,
        need: May,
    ) -> Result<Admitted, Denial> {
        let ruling = self.admit(credentials);
        let own = self.clone();
        let finding = async move {
            match ruling.settled().await {
                Ok(admitted) => {
                    let decision = decide(admitted.rights.as_deref(), &Need::May(need));
                    let granted = if decision == Decision::Granted { Ok(()) } else { Err(Denial::NotGranted) };
                    own.counted(admitted.subject(None), granted).map(|()| admitted)
                }
                Err(denial) => own.counted(Subject::default(), Err(denial)),
            }
        };
        if self.enforces() {
            return finding.await;
        }
        self.observe(finding.map(drop));
        Ok(Admitted::default())
    }

    /// Decides about an operator's command. It changes what others see, so it is refused without a grant where
    /// callers are only observed, too.
    ///
    /// # Errors
    /// The reason for which nothing is done.
    pub async fn admit_command(
        self: &Arc<Self>,
        credentials: Credentials<'_>,
        needs: &[May],
    ) -> Result<Admitted, Denial> {
        let admitted = match self.admit(credentials).settled().await {
            Ok(admitted) => admitted,
            Err(denial) => return self.counted_command(Subject::default(), denial),
        };
        match decide(admitted.rights.as_deref(), &Need::AnyOf(needs)) {
            Decision::Granted => {
                let subject = admitted.subject(None);
                self.counts.decided(subject.consumer, None, AccessOutcome::Granted);
                Ok(admitted)
            }
            Decision::Refused => self.counted_command(admitted.subject(None), Denial::NotGranted),
        }
    }

    /// Counts a denial that is meant in every mode.
    fn counted_command(&self, subject: Subject<'_>, denial: Denial) -> Result<Admitted, Denial> {
        self.counted::<Admitted>(subject, Err(denial)).and(Err(denial))
    }

    fn admitted(&self, known: &Known) -> Result<Admitted, Denial> {
        let principal = &known.principal;
        let is_admin = self.admins.contains(principal) && !self.denies(principal, None);
        let rights = match self.grants_in_use() {
            // No document can take an admin's way in, nor can it be lost with the document.
            Err(_) if is_admin => None,
            Err(denial) => return Err(denial),
            Ok(grants) => grants.rights_of(principal).cloned(),
        };
        let rights = rights.filter(|rights| !self.denies(principal, Some(rights.consumer())));
        Ok(Admitted { principal: Some(principal.clone()), rights, is_admin })
    }

    /// True if it refuses, and does not only count.
    pub fn enforces(&self) -> bool {
        self.config.mode == AccessMode::Enforce
    }

    /// Finds out beside the answer what would have been decided. Beyond a bound nobody does: then this
    /// returns false.
    pub fn observe(&self, finding: impl Future<Output = ()> + Send + 'static) -> bool {
        let Ok(place) = self.observing.clone().try_acquire_owned() else {
            self.counts.decided(None, None, AccessOutcome::VerificationBusy);
            return false;
        };
        let finding = async move {
            finding.await;
            drop(place);
        };
        self.tasks.spawn("observed-caller", finding);
        true
    }

    /// Counts the decision, and lets everybody in who is only observed.
    ///
    /// # Errors
    /// The denial, where it is enforced.
    pub fn counted<T: Default>(&self, subject: Subject<'_>, decided: Result<T, Denial>) -> Result<T, Denial> {
        self.counted_as(AccessOutcome::Granted, subject, decided)
    }

    /// [`Gate::counted`], with another word for what is answered.
    fn counted_as<T: Default>(
        &self,
        answered: AccessOutcome,
        subject: Subject<'_>,
        decided: Result<T, Denial>,
    ) -> Result<T, Denial> {
        let Err(denial) = decided else {
            self.counts.decided(subject.consumer, subject.name, answered);
            return decided;
        };
        self.counts.decided(subject.consumer, subject.name, denial.into());
        let view = self.counts.shown(subject.name);
        if self.lines.admit(subject.principal, view, self.clock.now()) {
            let principal = subject.principal.map_or_else(|| NONE.to_owned(), ToString::to_string);
            let (consumer, outcome) = (subject.consumer.unwrap_or(NONE), denial.word());
            let is_answered = self.config.mode == AccessMode::Observe;
            tracing::info!(
                principal,
                consumer,
                view,
                outcome,
                is_answered,
                "a request has no grant, or may have none"
            );
        }
        if self.config.mode == AccessMode::Observe { Ok(T::default()) } else { Err(denial) }
    }

    /// Decides whether a known caller may read what is asked for, and counts the request once.
    fn decide(&self, known: &Known, asked: Asked<'_>, turn: Turn) -> Result<(), Denial> {
        let principal = &known.principal;
        let grants = self.grants_in_use();
        let rights = grants.as_ref().ok().and_then(|grants| grants.rights_of(principal));
        let consumer = rights.map(|rights| rights.consumer());
        let subject = Subject { principal: Some(principal), consumer, name: asked.view() };
        // There is nothing, and only callers that are known learn that.
        let Asked::View(view) = asked else { return self.settled(turn, AccessOutcome::Elsewhere, subject, Ok(())) };
        let granted = rights.filter(|rights| !self.denies(principal, Some(rights.consumer())));
        let decided = match (&grants, decide(granted.map(|rights| &**rights), &Need::Read(view))) {
            (Err(denial), _) => Err(*denial),
            (Ok(_), Decision::Granted) => Ok(()),
            (Ok(_), Decision::Refused) => Err(Denial::NotGranted),
        };
        self.settled(turn, AccessOutcome::Granted, subject, decided)
    }

    /// [`Gate::counted_as`], but for what was counted before: again, only a refusal is news.
    fn settled(
        &self,
        turn: Turn,
        answered: AccessOutcome,
        subject: Subject<'_>,
        decided: Result<(), Denial>,
    ) -> Result<(), Denial> {
        if turn == Turn::Again && (decided.is_ok() || !self.enforces()) {
            return Ok(());
        }
        self.counted_as(answered, subject, decided)
    }

    /// The grants by which it is decided; none before the first, nor those that are too old to go by.
    fn grants_in_use(&self) -> Result<Arc<Grants>, Denial> {
        let is_too_old =
            self.config.when_unknown == WhenUnknown::Refuse && self.age().is_none_or(|age| age > self.config.max_age);
        let grants = self.in_use.grants.load_full().filter(|_| !is_too_old && self.lacks().is_none());
        grants.ok_or(Denial::GrantsUnknown)
    }
}

#[cfg(test)]
mod tests;
