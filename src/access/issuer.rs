//! One issuer of tokens: the keys that it is known by, and the callers that wait for newer ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, watch};

use super::calendar::Calendar;
use super::key_fetch::{FetchError, Fetcher};
use super::keys::{KeyMissing, KeySet, VerifyingKey};
use super::limits::{KEY_WAIT, KEY_WAITERS, KEYS_EVERY, KEYS_PAUSE};
use super::principal::Principal;
use super::token::{self, Claimed, Expectations, TokenError, Unverified};
use crate::config::services::KeysSource;
use crate::model::time::{Clock, Moment, Wall};
use crate::telemetry::rate_limiter::RateLimiter;

/// Who a token says its sender is, once its signature has been verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedToken {
    pub principal: Principal,
    /// Its `exp`, with the skew that is allowed; or when its key is no longer used, if that is before.
    pub until: Wall,
}

/// Why a token proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unproven {
    /// It never will.
    Refused(TokenError),
    /// Its key is not among those that are known: it may be a new one.
    KeyUnknown,
}

/// State of an issuer, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerState {
    pub iss: String,
    /// Time since its keys were asked for; `None` before the first, and of a file.
    pub age: Option<Duration>,
    pub is_fetched: bool,
    /// True while there are keys that are not too old.
    pub is_known: bool,
    /// Reason for which the newest fetch gave nothing.
    pub failure: Option<String>,
}

/// An issuer and its keys.
#[derive(Debug)]
pub struct Issuer {
    expectations: Expectations,
    source: KeysSource,
    fetcher: Fetcher,
    held: ArcSwapOption<Held>,
    max_age: Duration,
    /// All issuers' number of changes that ended callers.
    epoch: Arc<AtomicU64>,
    rounds: Mutex<Rounds>,
    wanted: Notify,
    ended: watch::Sender<()>,
    waiters: Semaphore,
    failure_lines: RateLimiter,
    clock: Clock,
    calendar: Calendar,
}

/// Keys, and when they were asked for.
#[derive(Debug)]
struct Held {
    keys: KeySet,
    asked: (Moment, Wall),
}

/// Fetches of the keys.
#[derive(Debug, Default)]
struct Rounds {
    began: Option<Moment>,
    is_under_way: bool,
    failure: Option<String>,
}

/// A fetch under way; ends when dropped.
struct Round<'i>(&'i Issuer);

impl Drop for Round<'_> {
    fn drop(&mut self) {
        let mut rounds = self.0.rounds.lock();
        rounds.is_under_way = false;
        // Under the lock: a caller that joins later waits for a later fetch.
        self.0.ended.send_replace(());
    }
}

/// Parts that an issuer is made of.
pub(super) struct IssuerParts {
    pub(super) expectations: Expectations,
    pub(super) source: KeysSource,
    pub(super) fetcher: Fetcher,
    pub(super) max_age: Duration,
    pub(super) epoch: Arc<AtomicU64>,
    pub(super) clock: Clock,
}

impl Issuer {
    /// One without keys.
    pub(super) fn new(parts: IssuerParts) -> Self {
        let IssuerParts { expectations, source, fetcher, max_age, epoch, clock } = parts;
        Self {
            expectations,
            source,
            fetcher,
            held: ArcSwapOption::empty(),
            max_age,
            epoch,
            rounds: Mutex::default(),
            wanted: Notify::new(),
            ended: watch::Sender::new(()),
            waiters: Semaphore::new(KEY_WAITERS),
            failure_lines: RateLimiter::new(),
            calendar: Calendar::new(clock.clone()),
            clock,
        }
    }

    pub(super) fn iss(&self) -> &str {
        &self.expectations.iss
    }

    pub(super) const fn source(&self) -> &KeysSource {
        &self.source
    }

    const fn is_fetched(&self) -> bool {
        !matches!(self.source, KeysSource::File(_))
    }

    pub(super) fn state(&self) -> IssuerState {
        let held = self.held.load();
        let age = held.as_ref().filter(|_| self.is_fetched()).map(|held| self.clock.now().since(held.asked.0));
        IssuerState {
            iss: self.iss().to_owned(),
            age,
            is_fetched: self.is_fetched(),
            is_known: self.in_use().is_some(),
            failure: self.rounds.lock().failure.clone(),
        }
    }

    /// The keys, unless they are too old, and for how long they may still be used.
    fn in_use(&self) -> Option<(Arc<Held>, Duration)> {
        let held = self.held.load_full()?;
        if !self.is_fetched() {
            return Some((held, Duration::MAX));
        }
        let left = self.max_age.checked_sub(self.clock.now().since(held.asked.0))?;
        Some((held, left))
    }

    /// Checks all of a token but its signature.
    ///
    /// # Errors
    /// [`Unproven`].
    pub(super) fn check(&self, token: &Unverified<'_>, now: Wall) -> Result<(), Unproven> {
        self.claimed(token, now)?;
        let (held, _) = self.in_use().ok_or(Unproven::KeyUnknown)?;
        key_of(&held.keys, token).map(drop)
    }

    /// Verifies a token.
    ///
    /// # Errors
    /// [`Unproven`].
    pub(super) fn verify(&self, token: &Unverified<'_>, now: Wall) -> Result<VerifiedToken, Unproven> {
        let claimed = self.claimed(token, now)?;
        let (held, left) = self.in_use().ok_or(Unproven::KeyUnknown)?;
        if !key_of(&held.keys, token)?.verify(token) {
            return Err(Unproven::Refused(TokenError::Signature));
        }
        let until = if left == Duration::MAX { claimed.until } else { claimed.until.min(now + left) };
        Ok(VerifiedToken { principal: Principal::token(self.iss(), &claimed.sub), until })
    }

    fn claimed(&self, token: &Unverified<'_>, now: Wall) -> Result<Claimed, Unproven> {
        token::check_claims(token, &self.expectations, now).map_err(Unproven::Refused)
    }

    /// Verdict on a token whose key is not known, and which `arrived` at this time. Only a set that was
    /// fetched after the token was made says that there is no such key.
    pub(super) fn unknown_key(&self, token: &Unverified<'_>, arrived: Wall) -> Unproven {
        // `iat` is in whole seconds: the token may have been made at the end of its second.
        let made = token.issued().unwrap_or(arrived) + Duration::from_secs(1);
        let is_later = self.is_fetched() && self.in_use().is_some_and(|(held, _)| held.asked.1 >= made);
        if is_later { Unproven::Refused(TokenError::UnknownKey) } else { Unproven::KeyUnknown }
    }

    /// Waits a moment for newer keys, if they are being fetched or may be.
    pub(super) async fn wait_for_keys(&self) {
        let Ok(_waiting) = self.waiters.try_acquire() else { return };
        let Some(mut ended) = self.joined() else { return };
        let _ = tokio::time::timeout(KEY_WAIT, ended.changed()).await;
    }

    /// Changes once the fetch has ended that is under way, or that begins now; `None` if none may begin.
    fn joined(&self) -> Option<watch::Receiver<()>> {
        if !self.is_fetched() {
            return None;
        }
        let rounds = self.rounds.lock();
        if !rounds.is_under_way && !self.is_due(&rounds) {
            return None;
        }
        self.wanted.notify_one();
        Some(self.ended.subscribe())
    }

    fn is_due(&self, rounds: &Rounds) -> bool {
        rounds.began.is_none_or(|began| self.clock.now().since(began) >= KEYS_PAUSE)
    }

    /// Fetches the keys now; true if there are new ones.
    pub(super) async fn fetch(&self) -> bool {
        let asked = (self.clock.now(), self.calendar.now());
        let round = self.begin(asked.0);
        let fetched = self.fetcher.keys(self.iss(), &self.source).await;
        let is_new = fetched.is_ok();
        match fetched {
            Ok(keys) => {
                self.replace(keys, asked);
                self.rounds.lock().failure = None;
            }
            Err(error) => self.failed(&error),
        }
        drop(round);
        is_new
    }

    fn begin(&self, now: Moment) -> Round<'_> {
        let mut rounds = self.rounds.lock();
        (rounds.began, rounds.is_under_way) = (Some(now), true);
        Round(self)
    }

    fn failed(&self, error: &FetchError) {
        self.rounds.lock().failure = Some(error.to_string());
        if let Some(suppressed) = self.failure_lines.admit(self.clock.now()) {
            tracing::warn!(iss = self.iss(), %error, suppressed, "the issuer's keys were not fetched; the last stay in use");
        }
    }

    /// Takes keys into use.
    pub(super) fn replace(&self, keys: KeySet, asked: (Moment, Wall)) {
        let newer = Arc::new(Held { keys, asked });
        let before = self.held.swap(Some(newer.clone()));
        if before.is_some_and(|before| KeySet::removed(&before.keys, &newer.keys)) {
            // After the swap: a reader of the new epoch verifies by the new keys.
            self.epoch.fetch_add(1, Ordering::Release);
            tracing::info!(iss = self.iss(), "a key has gone, and with it the callers whose tokens it signed");
        }
    }

    /// Takes the content of its file, as of now.
    pub(super) fn replace_now(&self, keys: KeySet) {
        self.replace(keys, (self.clock.now(), self.calendar.now()));
        self.rounds.lock().failure = None;
    }

    /// Notes why the file of its keys cannot be used, and that the last stay in use; or that it is as it was
    /// when they were read.
    pub(super) fn note_file(&self, failure: Option<String>) {
        self.rounds.lock().failure = failure;
    }

    /// Fetches the keys every so often, and when a token names one that is not known.
    pub(super) async fn keep_fetched(&self) {
        loop {
            let is_new = self.fetch().await;
            let wait = if is_new { KEYS_EVERY } else { KEYS_PAUSE };
            // Processes that start together, and lose their issuer together, do not ask together.
            let wait = wait.mul_f64(0.9 + fastrand::f64() * 0.2).max(KEYS_PAUSE);
            let wanted = async {
                loop {
                    self.wanted.notified().await;
                    if self.is_due(&self.rounds.lock()) {
                        return;
                    }
                }
            };
            let _ = tokio::time::timeout(wait, wanted).await;
        }
    }
}

fn key_of<'k>(keys: &'k KeySet, token: &Unverified<'_>) -> Result<&'k VerifyingKey, Unproven> {
    keys.find(token.kid(), token.algorithm()).map_err(|missing| match missing {
        KeyMissing::Unknown => Unproven::KeyUnknown,
        KeyMissing::Ambiguous | KeyMissing::Algorithm => Unproven::Refused(TokenError::Key),
    })
}

#[cfg(test)]
mod tests;
