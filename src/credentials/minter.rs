//! One token, kept new by one task: all who need it share its mints, its failures and its waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::claims::Claims;
use super::error::MintError;
use super::limits::{LIFE, MINT_WAIT, WATCH_EVERY};
use super::schedule::{Backoff, Discards, Term};
use super::sigv4::{Clocks, SigningKeys};
use super::source::Source;
use super::token::{Secret, Token};
use crate::config::{BEARER, Minting, Sigv4Signing};
use crate::model::ids::RegionId;
use crate::model::time::{Clock, Moment, Wall};
use crate::tasks::file_stamp::FileStamp;
use crate::tasks::supervision::pass_panic_on;
use crate::tasks::{Tasks, on_disk};
use crate::telemetry::metrics::credentials::{CredentialsMetrics, MintKind, MintOutcome};
use crate::telemetry::rate_limiter::RateLimiter;

/// A token in use.
pub struct Credential {
    pub carried: Carried,
    pub(super) claims: Claims,
    pub(super) ends: Moment,
    term: Term,
    /// A region has answered a request with it.
    is_accepted: AtomicBool,
    /// A region has refused it, and it is being replaced.
    is_refused: AtomicBool,
}

/// Form in which a request carries them.
pub enum Carried {
    /// A token. The value is sensitive: it is printed nowhere.
    Bearer(HeaderValue),
    /// Keys that sign each request.
    Keys(SigningKeys),
}

/// The outcome of the mints so far.
#[derive(Clone, Default)]
pub(super) struct Minted {
    pub(super) current: Option<Arc<Credential>>,
    /// Number of mints that have ended.
    ended: u64,
    /// Failure of the last one; `None` if it did not fail.
    pub(super) failure: Option<Arc<MintError>>,
}

impl Minted {
    pub(super) fn usable(&self, now: Moment) -> Option<Arc<Credential>> {
        self.current.clone().filter(|credential| now < credential.term.unused_from)
    }
}

/// Mints the tokens of one setting.
pub struct Minter {
    pub(super) minting: Minting,
    source: Source,
    minted: watch::Sender<Minted>,
    discards: Mutex<Discards>,
    clocks: Clocks,
    /// Asks for a mint at once.
    wake: Arc<Notify>,
    /// Set when it starts.
    deps: OnceLock<MintDeps>,
}

/// Surroundings of a minter.
#[derive(Clone)]
pub struct MintDeps {
    pub clock: Clock,
    pub tasks: Tasks,
    pub metrics: CredentialsMetrics,
}

impl Minter {
    pub(super) fn new(minting: &Minting, source: Source) -> Self {
        Self {
            minting: minting.clone(),
            source,
            minted: watch::Sender::default(),
            discards: Mutex::default(),
            clocks: Clocks::default(),
            wake: Arc::default(),
            deps: OnceLock::new(),
        }
    }

    pub(super) const fn kind(&self) -> MintKind {
        match self.minting {
            Minting::Sts(_) => MintKind::Sts,
            Minting::Jwt(_) => MintKind::Jwt,
            Minting::Oauth(_) => MintKind::Oauth,
            Minting::Sigv4(_) => MintKind::Sigv4,
        }
    }

    /// Starts the task that mints, once. It ends when nobody holds the minter.
    pub(super) fn start(self: &Arc<Self>, deps: &MintDeps) {
        if self.deps.set(deps.clone()).is_err() {
            return;
        }
        let (minter, deps) = (Arc::downgrade(self), deps.clone());
        let stopping = deps.tasks.stopping();
        deps.tasks.clone().spawn_service("mint", move || {
            let minting = run(minter.clone(), deps.clone());
            let stopping = stopping.clone();
            async move { stopping.run_until_cancelled(minting).await }
        });
    }

    /// The token to send now. Before the first mint has ended, it is waited for; `None` after a
    /// failure, and when `within` has passed.
    pub async fn usable(&self, within: Duration) -> Option<Arc<Credential>> {
        let clock = &self.deps.get()?.clock;
        let usable = |minted: &Minted| minted.usable(clock.now());
        let held = usable(&self.minted.borrow());
        if held.is_some() {
            return held;
        }
        self.wait(within, |minted| minted.failure.is_some() || usable(minted).is_some()).await;
        usable(&self.minted.borrow())
    }

    /// Takes note of a region's answer to a request with `sent`. After a 401 that may be the token's
    /// fault, returns the token that replaces it, `within` the given time.
    pub async fn answered(
        &self,
        sent: &Arc<Credential>,
        status: StatusCode,
        within: Duration,
    ) -> Option<Arc<Credential>> {
        let deps = self.deps.get()?;
        if status != StatusCode::UNAUTHORIZED {
            if shows_acceptance(status) {
                sent.is_accepted.store(true, Ordering::Relaxed);
            }
            return None;
        }
        let (ended, has_failed) = {
            let minted = self.minted.borrow();
            (minted.ended, minted.failure.is_some())
        };
        if self.is_current(sent) {
            // After a failure the next mint may be a minute away.
            if sent.is_accepted.load(Ordering::Relaxed) || !self.discard(sent, deps) || has_failed {
                return None;
            }
            self.wait(within, |minted| minted.ended > ended).await;
        }
        let newest = self.minted.borrow().usable(deps.clock.now());
        newest.filter(|newest| !Arc::ptr_eq(newest, sent))
    }

    fn is_current(&self, sent: &Arc<Credential>) -> bool {
        self.minted.borrow().current.as_ref().is_some_and(|current| Arc::ptr_eq(current, sent))
    }

    /// Asks for a replacement, unless that was done moments ago for another token. This one is used
    /// until the replacement is there: the region may be the one that is wrong.
    fn discard(&self, sent: &Credential, deps: &MintDeps) -> bool {
        let mut discards = self.discards.lock();
        if sent.is_refused.load(Ordering::Relaxed) {
            return true;
        }
        if !discards.admit(deps.clock.now()) {
            return false;
        }
        sent.is_refused.store(true, Ordering::Relaxed);
        deps.metrics.discard(self.kind());
        self.wake.notify_one();
        true
    }

    /// The settings by which requests are signed, if they are.
    pub const fn signing(&self) -> Option<&Sigv4Signing> {
        match &self.minting {
            Minting::Sigv4(signing) => Some(signing),
            _ => None,
        }
    }

    /// The time by which a request to `region` is signed.
    pub fn signed_at(&self, region: RegionId) -> Wall {
        let now = self.deps.get().map_or_else(Wall::default, |deps| deps.clock.wall());
        self.clocks.at(region, now)
    }

    /// Takes note of the clock of a region that refused a signature; returns whether another one may help.
    pub fn learn_clock(&self, region: RegionId, status: StatusCode, headers: &HeaderMap) -> bool {
        let Some(deps) = self.deps.get() else { return false };
        self.clocks.learn(region, status, headers, deps.clock.wall())
    }

    /// Waits until the first mint has ended, for so long at most.
    pub async fn first_mint(&self, within: Duration) {
        self.wait(within, |minted| minted.ended > 0).await;
    }

    async fn wait(&self, within: Duration, until: impl FnMut(&Minted) -> bool) {
        let mut minted = self.minted.subscribe();
        // Elapsed: the caller looks at what there is. The sender lives as long as this minter.
        let _ = tokio::time::timeout(within, minted.wait_for(until)).await;
    }

    pub(super) fn minted(&self) -> Minted {
        self.minted.borrow().clone()
    }

    /// Mints once; returns when that is to be done again.
    async fn mint(&self, deps: &MintDeps, pace: &mut Pace) -> Moment {
        let asked = deps.clock.now();
        let mint = self.source.mint(&self.minting, deps.clock.wall());
        let token = tokio::time::timeout(MINT_WAIT, mint).await.unwrap_or(Err(MintError::Late));
        let kind = self.kind();
        let outcome = token.and_then(|token| credential(token, asked));
        let now = deps.clock.now();
        match outcome {
            Ok(credential) => {
                pace.backoff.succeeded();
                deps.metrics.mint(kind, MintOutcome::Minted);
                let renew_at = credential.term.renew_at;
                let life = credential.ends.since(now);
                let mut was_well = false;
                self.minted.send_modify(|minted| {
                    was_well = minted.current.is_some() && minted.failure.is_none();
                    *minted = Minted { current: Some(Arc::new(credential)), ended: minted.ended + 1, failure: None };
                });
                if was_well {
                    tracing::debug!(kind = kind.into_str(), ?life, "the sidecar's credentials were renewed");
                } else {
                    tracing::info!(kind = kind.into_str(), ?life, "the sidecar's credentials were minted");
                }
                renew_at
            }
            Err(error) => {
                deps.metrics.mint(kind, MintOutcome::Failed);
                if let Some(suppressed) = pace.lines.admit(now) {
                    let held = self.minted.borrow().usable(now).is_some();
                    let in_use = if held { "the last one stays in use" } else { "nothing is sent to regions" };
                    tracing::warn!(kind = kind.into_str(), %error, suppressed, in_use, "no new credentials");
                }
                self.minted.send_modify(|minted| {
                    minted.ended += 1;
                    minted.failure = Some(Arc::new(error));
                });
                now + pace.backoff.failed(fastrand::f64())
            }
        }
    }

    /// The mark of the file with the secret, if there is one.
    async fn stamp(&self) -> Option<FileStamp> {
        let file = self.minting.secret_file()?.clone();
        // A mount that stalls holds up only this task.
        on_disk(move || FileStamp::of(&file)).await.unwrap_or_else(|| pass_panic_on())
    }
}

/// State of the task that mints.
#[derive(Default)]
struct Pace {
    backoff: Backoff,
    lines: RateLimiter,
}

/// A region that authenticates answers like this only to a credential that it takes.
const fn shows_acceptance(status: StatusCode) -> bool {
    let absent = matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE);
    (status.as_u16() / 100 == 2) || matches!(status, StatusCode::NOT_MODIFIED) || absent
}

fn credential(token: Token, asked: Moment) -> Result<Credential, MintError> {
    let Token { secret, claims, life } = token;
    let term = Term::new(asked, life, fastrand::f64()).ok_or(MintError::Life(life.as_secs()))?;
    let carried = match secret {
        Secret::Bearer(text) => {
            let mut value = HeaderValue::try_from(format!("{BEARER}{text}")).map_err(|_| MintError::Long)?;
            value.set_sensitive(true);
            Carried::Bearer(value)
        }
        Secret::Keys(keys) => Carried::Keys(keys),
    };
    let ends = asked + life.min(LIFE.1);
    Ok(Credential {
        carried,
        claims,
        ends,
        term,
        is_accepted: AtomicBool::new(false),
        is_refused: AtomicBool::new(false),
    })
}

/// Mints whenever it is time, while somebody holds the minter: at the start, at half a life, after a
/// failure, when a token is discarded, and when the file with the secret has changed.
async fn run(minter: Weak<Minter>, deps: MintDeps) {
    let mut pace = Pace::default();
    loop {
        let Some(own) = minter.upgrade() else { return };
        // Taken before the content, so that a write in between is seen as a change later.
        let seen = own.stamp().await;
        let due = own.mint(&deps, &mut pace).await;
        let wake = own.wake.clone();
        drop(own);
        loop {
            let left = due - deps.clock.now();
            let is_woken = tokio::time::timeout(left.min(WATCH_EVERY), wake.notified()).await.is_ok();
            let Some(own) = minter.upgrade() else { return };
            if is_woken || deps.clock.now() >= due || own.stamp().await != seen {
                break;
            }
        }
    }
}
