//! Issuers of tokens and their keys, read from files and read again when those change.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;

use super::keys::{KeyMissing, KeySet, KeySetError};
use super::limits::{KEYS_BYTES, WATCH_EVERY};
use super::principal::Principal;
use super::token::{self, Expectations, TokenError, Unverified};
use crate::config::services::{AccessConfig, IssuerConfig};
use crate::model::time::{Clock, Wall};
use crate::tasks::file_stamp::FileStamp;
use crate::tasks::supervision::pass_panic_on;
use crate::tasks::{Tasks, on_disk};
use crate::telemetry::rate_limiter::RateLimiter;

/// An issuer's keys could not be read. The operator has to fix it; a later try may succeed.
#[derive(Debug, thiserror::Error)]
pub enum KeysUnread {
    #[error("the keys of {iss} cannot be read from {}: {error}; create the file or correct access.issuer.keys", file.display())]
    Unreadable { iss: String, file: PathBuf, error: std::io::Error },
    #[error("{} is larger than {KEYS_BYTES} bytes; a JWK Set of {iss} belongs there", file.display())]
    TooLarge { iss: String, file: PathBuf },
    #[error("{} is no JWK Set that can be used for {iss}: {error}", file.display())]
    Unusable { iss: String, file: PathBuf, error: KeySetError },
}

/// Who a token says its sender is, once its signature has been verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedToken {
    pub principal: Principal,
    /// Its `exp`, with the skew that is allowed.
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

/// All issuers of a file of settings.
#[derive(Debug)]
pub struct Issuers {
    issuers: Vec<Issuer>,
    epoch: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Issuer {
    expectations: Expectations,
    keys: Arc<ArcSwap<KeySet>>,
    config: Arc<IssuerConfig>,
    stamp: Option<FileStamp>,
}

impl Issuers {
    /// Reads the keys of each. `audience` is that of the port at which the tokens arrive.
    ///
    /// # Errors
    /// The first set of keys that cannot be used.
    pub fn open(config: &AccessConfig, audience: &str) -> Result<Self, KeysUnread> {
        let issuers = config.issuers.iter().map(|issuer| {
            // Taken before the content, so that a write in between is seen as a change later.
            let stamp = FileStamp::of(&issuer.keys);
            Ok(Issuer {
                keys: Arc::new(ArcSwap::from_pointee(read(issuer)?)),
                expectations: expectations(config, issuer, audience),
                config: Arc::new(issuer.clone()),
                stamp,
            })
        });
        Ok(Self { issuers: issuers.collect::<Result<_, _>>()?, epoch: Arc::default() })
    }

    /// A number that moves when a key has gone: what was verified before has to be verified again.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Watches the files until the process stops or nobody holds the issuers. Of a file that goes bad,
    /// the last good keys stay: files are replaced by rename, and may be missing for a moment.
    pub fn watch(&self, tasks: &Tasks) {
        for issuer in &self.issuers {
            let (keys, config, stopping) = (Arc::downgrade(&issuer.keys), issuer.config.clone(), tasks.stopping());
            let (seen, epoch) = (issuer.stamp, self.epoch.clone());
            tasks.spawn_service("issuer-keys", move || {
                let looks = look(keys.clone(), config.clone(), epoch.clone(), seen);
                let stopping = stopping.clone();
                async move { stopping.run_until_cancelled(looks).await }
            });
        }
    }

    /// Verifies a token. What needs no signature is checked first.
    ///
    /// # Errors
    /// [`Unproven`].
    pub fn verify(&self, token: &[u8], now: Wall) -> Result<VerifiedToken, Unproven> {
        let token = token::unverified(token).map_err(Unproven::Refused)?;
        let issuer = self.issuers.iter().find(|issuer| Some(issuer.expectations.iss.as_str()) == token.iss());
        let issuer = issuer.ok_or(Unproven::Refused(TokenError::Issuer))?;
        issuer.verify(&token, now)
    }
}

impl Issuer {
    fn verify(&self, token: &Unverified<'_>, now: Wall) -> Result<VerifiedToken, Unproven> {
        let claimed = token::check_claims(token, &self.expectations, now).map_err(Unproven::Refused)?;
        let keys = self.keys.load();
        let key = keys.find(token.kid(), token.algorithm()).map_err(|missing| match missing {
            KeyMissing::Unknown => Unproven::KeyUnknown,
            KeyMissing::Ambiguous | KeyMissing::Algorithm => Unproven::Refused(TokenError::Key),
        })?;
        if !key.verify(token) {
            return Err(Unproven::Refused(TokenError::Signature));
        }
        let iss: Arc<str> = self.expectations.iss.as_str().into();
        Ok(VerifiedToken { principal: Principal::Token { iss, sub: claimed.sub }, until: claimed.until })
    }
}

fn expectations(config: &AccessConfig, issuer: &IssuerConfig, audience: &str) -> Expectations {
    let own = [&config.catalogue_audience, &config.region_audience];
    Expectations {
        iss: issuer.iss.clone(),
        audience: audience.to_owned(),
        own_audiences: own.into_iter().filter(|audience| !audience.is_empty()).cloned().collect(),
        subject: issuer.subject.clone(),
        max_lifetime: config.max_lifetime,
        ..Expectations::default()
    }
}

fn read(issuer: &IssuerConfig) -> Result<KeySet, KeysUnread> {
    let (iss, file) = (issuer.iss.clone(), issuer.keys.clone());
    match content(&file) {
        Err(error) => Err(KeysUnread::Unreadable { iss, file, error }),
        Ok(None) => Err(KeysUnread::TooLarge { iss, file }),
        Ok(Some(bytes)) => KeySet::read(&bytes).map_err(|error| KeysUnread::Unusable { iss, file, error }),
    }
}

/// `None` of a file that is too large.
fn content(file: &Path) -> std::io::Result<Option<Vec<u8>>> {
    if std::fs::metadata(file)?.len() > KEYS_BYTES {
        return Ok(None);
    }
    std::fs::read(file).map(Some)
}

/// Reads the file again whenever it is not as it was `seen`, while somebody holds the keys.
async fn look(
    keys: Weak<ArcSwap<KeySet>>,
    config: Arc<IssuerConfig>,
    epoch: Arc<AtomicU64>,
    mut seen: Option<FileStamp>,
) {
    let lines = RateLimiter::new();
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        let Some(held) = Weak::upgrade(&keys) else { return };
        let (issuer, before) = (config.clone(), seen);
        // A mount that stalls holds up only this watch.
        let looked = on_disk(move || {
            let now = FileStamp::of(&issuer.keys);
            (now, (now != before).then(|| read(&issuer)))
        });
        let Some((now, changed)) = looked.await else { pass_panic_on() };
        match changed {
            None => {}
            Some(Ok(newer)) => {
                let before = held.swap(Arc::new(newer));
                seen = now;
                if KeySet::removed(&before, &held.load()) {
                    // After the swap: a reader of the new epoch verifies by the new keys.
                    epoch.fetch_add(1, Ordering::Release);
                }
                tracing::info!(iss = config.iss, "the issuer's keys were read again");
            }
            Some(Err(error)) => {
                if let Some(suppressed) = lines.admit(Clock::System.now()) {
                    tracing::warn!(%error, suppressed, "the last good keys stay in use");
                }
            }
        }
    }
}
