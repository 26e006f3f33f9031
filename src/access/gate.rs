//! Decides for each request: who asks, by a credential that was verified, and what the grants say of
//! that caller and the name of what is asked for. Nothing is looked up before.
//!
//! A credential is remembered as its principal, never as a decision: its end, the issuers' keys and
//! the grants are compared at each request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::{Method, header};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::calendar::Calendar;
use super::certificate;
use super::counts::{AccessCounts, AccessOutcome};
use super::credentials::Credentials;
use super::decision::{Decision, Need, decide};
use super::denial::Denial;
use super::grants::{Grants, Rights};
use super::issuers::{Issuers, Unproven};
use super::known::{Known, Proof};
use super::limits::{AHEAD, PULL_EVERY, PULL_WAIT, REMEMBERED_FOR};
use super::names::{Asked, asked};
use super::principal::Principal;
use super::record::Confirmation;
use super::remembered::Remembered;
use super::token;
use crate::config::services::{AccessConfig, AccessMode, WhenUnknown};
use crate::http::server_tls::peer::PeerCertificate;
use crate::model::time::{Clock, Moment, Wall};
use crate::telemetry::rate_limiter::RateLimiter;

/// A caller at a service's own port.
#[derive(Clone, Debug, Default)]
pub struct Admitted {
    /// `None` for who is nobody's.
    pub rights: Option<Arc<Rights>>,
    /// It may write the grants.
    pub is_admin: bool,
}

/// Everything that one port needs to decide who may come in.
#[derive(Debug)]
pub struct Gate {
    mode: AccessMode,
    admins: Vec<Principal>,
    issuers: Issuers,
    remembered: Remembered,
    grants: ArcSwapOption<Grants>,
    /// Time through which the grants are known to be the newest, in Unix milliseconds.
    confirmed: AtomicU64,
    max_age: Duration,
    when_unknown: WhenUnknown,
    calendar: Calendar,
    clock: Clock,
    announced: Notify,
    /// Tells those who wait for a look that it is over.
    looked: Notify,
    /// Time of the last look that a caller asked for.
    pulled: Mutex<Option<Moment>>,
    pub counts: AccessCounts,
    denials: RateLimiter,
}

impl Gate {
    /// Gate of a port whose tokens `issuers` sign. Until the first grants, it lets nobody in.
    #[must_use]
    pub fn new(config: &AccessConfig, issuers: Issuers, clock: Clock) -> Self {
        Self {
            mode: config.mode,
            admins: config.admins.iter().map(|admin| Principal::token(&admin.iss, &admin.sub)).collect(),
            issuers,
            remembered: Remembered::new(),
            grants: ArcSwapOption::empty(),
            confirmed: AtomicU64::new(0),
            max_age: config.max_age,
            when_unknown: config.when_unknown,
            calendar: Calendar::new(clock.clone()),
            clock,
            announced: Notify::new(),
            looked: Notify::new(),
            pulled: Mutex::new(None),
            counts: AccessCounts::default(),
            denials: RateLimiter::new(),
        }
    }

    pub const fn issuers(&self) -> &Issuers {
        &self.issuers
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

    /// Version of the grants in use; 0 before the first, and where nobody goes by them.
    pub fn version(&self) -> u64 {
        if self.mode == AccessMode::Off {
            return 0;
        }
        self.grants.load().as_ref().map_or(0, |grants| grants.version())
    }

    /// True if it is time to look for a version that a caller states: not one that nobody can have
    /// written yet, and ten times a second at most.
    pub fn may_look_for(&self, version: u64) -> bool {
        if version > (self.calendar.now() + AHEAD).as_millis() {
            return false;
        }
        let now = self.clock.now();
        let mut pulled = self.pulled.lock();
        let may = pulled.is_none_or(|last| now.since(last) >= PULL_EVERY);
        if may {
            *pulled = Some(now);
        }
        may
    }

    /// Looks for newer grants, and waits a moment for them.
    pub async fn look(&self) {
        let looked = self.looked.notified();
        tokio::pin!(looked);
        // From here on, the end of a look is not missed.
        looked.as_mut().enable();
        self.note_announced();
        // Without them the request is decided by those in use.
        let _ = tokio::time::timeout(PULL_WAIT, looked).await;
    }

    /// Tells those who wait that a look at the region's copy is over.
    pub fn note_looked(&self) {
        self.looked.notify_waiters();
    }

    /// Resolves once newer grants may be there.
    pub async fn announced(&self) {
        self.announced.notified().await;
    }

    /// Decides about a request for a view, at a region's node. `known` is what the connection remembers
    /// of a caller whose lines are the same.
    ///
    /// # Errors
    /// Why it is not answered.
    pub fn admit_to_view(
        &self,
        known: &mut Option<Arc<Known>>,
        method: &Method,
        path: &str,
        credentials: Credentials<'_>,
    ) -> Result<(), Denial> {
        if self.mode == AccessMode::Off {
            return Ok(());
        }
        let decided = match asked(method, path) {
            Asked::View(view) => self.decide(known, credentials, &Need::Read(view)).map(drop),
            // There is nothing, and only callers that are known learn that.
            Asked::Elsewhere => self.known(known, credentials).map(drop),
        };
        self.counted(decided)
    }

    /// Finds out who asks at a service's own port, where the handlers then decide.
    ///
    /// # Errors
    /// Why it is not answered, whatever it asks for.
    pub fn admit(&self, credentials: Credentials<'_>) -> Result<Admitted, Denial> {
        if self.mode == AccessMode::Off {
            return Ok(Admitted::default());
        }
        let admitted = self.admitted(credentials);
        if admitted.is_err() { self.counted(admitted) } else { admitted }
    }

    fn admitted(&self, credentials: Credentials<'_>) -> Result<Admitted, Denial> {
        let mut known = None;
        let principal = &self.known(&mut known, credentials)?.principal;
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

    /// Counts the decision, and lets everybody in who is only observed.
    ///
    /// # Errors
    /// The denial, where it is enforced.
    pub fn counted<T: Default>(&self, decided: Result<T, Denial>) -> Result<T, Denial> {
        let outcome = decided.as_ref().map_or_else(|denial| AccessOutcome::from(*denial), |_| AccessOutcome::Granted);
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

    /// Decides whether the caller has what a request needs, and returns its rights.
    ///
    /// # Errors
    /// Why not.
    pub fn decide(
        &self,
        known: &mut Option<Arc<Known>>,
        credentials: Credentials<'_>,
        need: &Need<'_>,
    ) -> Result<Arc<Rights>, Denial> {
        let known = self.known(known, credentials)?;
        let grants = self.grants_in_use()?;
        let rights = grants.rights_of(&known.principal).ok_or(Denial::NotGranted)?;
        match decide(Some(rights), need) {
            Decision::Granted => Ok(rights.clone()),
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

    /// The caller, by what the connection remembers, by what the process remembers, or by a signature.
    fn known<'k>(
        &self,
        known: &'k mut Option<Arc<Known>>,
        credentials: Credentials<'_>,
    ) -> Result<&'k Arc<Known>, Denial> {
        let (now, epoch) = (self.calendar.now(), self.issuers.epoch());
        if known.as_ref().is_none_or(|known| !known.holds(now, epoch, credentials.certificate)) {
            *known = Some(self.verified(credentials, now, epoch)?);
        }
        known.as_ref().ok_or(Denial::NoCredential)
    }

    /// The caller by its token, if it sends one: whatever becomes of that, the certificate counts no more.
    fn verified(&self, credentials: Credentials<'_>, now: Wall, epoch: u64) -> Result<Arc<Known>, Denial> {
        let mut lines = credentials.headers.get_all(header::AUTHORIZATION).iter();
        let Some(line) = lines.next() else { return by_certificate(credentials.certificate, now) };
        let token = token::bearer(line.as_bytes()).ok_or(Denial::NoCredential)?;
        if lines.next().is_some() {
            return Err(Denial::NoCredential);
        }
        let place = self.remembered.place(token);
        if let Some(known) = self.remembered.get(&place).filter(|known| known.holds(now, epoch, None)) {
            return Ok(known);
        }
        let token = self.issuers.verify(token, now).map_err(|why| match why {
            Unproven::Refused(error) => Denial::BadCredential(error),
            Unproven::KeyUnknown => Denial::KeysUnknown,
        })?;
        let until = token.until.min(now + REMEMBERED_FOR);
        let known = Arc::new(Known { principal: token.principal, proof: Proof::Token { until, epoch } });
        self.remembered.note(place, known.clone());
        Ok(known)
    }
}

/// The caller by the certificate of its connection. One that no CA vouches for is none.
fn by_certificate(certificate: Option<&PeerCertificate>, now: Wall) -> Result<Arc<Known>, Denial> {
    let certificate = certificate.filter(|certificate| certificate.holds(now)).ok_or(Denial::NoCredential)?;
    let principal = certificate::principal(&certificate.names).ok_or(Denial::NoCredential)?;
    Ok(Arc::new(Known { principal, proof: Proof::Certificate }))
}

#[cfg(test)]
mod tests;
