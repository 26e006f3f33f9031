//! Issuers of tokens: their keys are read from files and fetched, and replaced when they change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::issuer::{Issuer, IssuerParts, IssuerState, Unproven, VerifiedToken};
use super::key_fetch::Fetcher;
use super::key_file::{self, KeysUnread};
use super::limits::WATCH_EVERY;
use super::token::{self, Expectations, TokenError, Unverified};
use crate::config::services::{AccessConfig, IssuerConfig, KeysSource, TrustedIssuers};
use crate::model::time::{Clock, Wall};
use crate::tasks::file_stamp::FileStamp;
use crate::tasks::supervision::pass_panic_on;
use crate::tasks::{Tasks, on_disk};
use crate::telemetry::rate_limiter::RateLimiter;

/// All issuers of a file of settings.
#[derive(Clone, Debug)]
pub struct Issuers {
    issuers: Arc<[(Arc<Issuer>, Option<FileStamp>)]>,
    epoch: Arc<AtomicU64>,
}

impl Issuers {
    /// Reads the keys of each that has them in a file. `audience` is that of the port at which the
    /// tokens arrive.
    ///
    /// # Errors
    /// The first file of keys that cannot be used.
    pub fn open(config: &AccessConfig, audience: &str, clock: &Clock) -> Result<Self, KeysUnread> {
        Self::trusting(&config.trusted(audience), clock)
    }

    /// [`Issuers::open`] without the rest of a service's settings.
    ///
    /// # Errors
    /// As [`Issuers::open`].
    pub fn trusting(trusted: &TrustedIssuers, clock: &Clock) -> Result<Self, KeysUnread> {
        Self::open_by(trusted, clock, |issuer| Fetcher::Network { ca_file: issuer.ca_file.clone() })
    }

    /// [`Issuers::trusting`] with something else than the network.
    pub(super) fn open_by(
        trusted: &TrustedIssuers,
        clock: &Clock,
        fetcher: impl Fn(&IssuerConfig) -> Fetcher,
    ) -> Result<Self, KeysUnread> {
        let epoch = Arc::<AtomicU64>::default();
        let issuers = trusted.issuers.iter().map(|issuer| {
            let own = Arc::new(Issuer::new(IssuerParts {
                expectations: expectations(trusted, issuer),
                source: issuer.keys.clone(),
                fetcher: fetcher(issuer),
                max_age: trusted.max_key_age,
                epoch: epoch.clone(),
                clock: clock.clone(),
            }));
            let KeysSource::File(file) = &issuer.keys else { return Ok((own, None)) };
            // Taken before the content, so that a write in between is seen as a change later.
            let stamp = FileStamp::of(file);
            own.replace_now(key_file::read(&issuer.iss, file)?);
            Ok((own, stamp))
        });
        Ok(Self { issuers: issuers.collect::<Result<_, _>>()?, epoch })
    }

    /// A number that moves when a key has gone: what was verified before has to be verified again.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// True while the keys of any issuer are known, if there is one.
    #[must_use]
    pub fn any_known(&self) -> bool {
        self.issuers.is_empty() || self.issuers.iter().any(|(issuer, _)| issuer.state().is_known)
    }

    /// State of each, for people.
    #[must_use]
    pub fn states(&self) -> Vec<IssuerState> {
        self.issuers.iter().map(|(issuer, _)| issuer.state()).collect()
    }

    /// Watches the files and fetches what is not in files, until the process stops. Of a file that goes
    /// bad, the last good keys stay: files are replaced by rename, and may be missing for a moment.
    pub fn watch(&self, tasks: &Tasks) {
        for (issuer, seen) in self.issuers.iter() {
            let (issuer, seen, stopping) = (issuer.clone(), *seen, tasks.stopping());
            tasks.spawn_service("issuer-keys", move || {
                let (issuer, stopping) = (issuer.clone(), stopping.clone());
                async move { stopping.run_until_cancelled(watched(&issuer, seen)).await }
            });
        }
    }

    /// Fetches once the keys of each issuer that has them not in a file.
    pub async fn fetch_once(&self) {
        for (issuer, _) in self.issuers.iter().filter(|(issuer, _)| !matches!(issuer.source(), KeysSource::File(_))) {
            issuer.fetch().await;
        }
    }

    /// Checks all of a token but its signature.
    ///
    /// # Errors
    /// [`Unproven`].
    pub fn check(&self, token: &[u8], now: Wall) -> Result<(), Unproven> {
        let (token, issuer) = self.issuer_of(token)?;
        issuer.check(&token, now)
    }

    /// Verifies a token. What needs no signature is checked first.
    ///
    /// # Errors
    /// [`Unproven`].
    pub fn verify(&self, token: &[u8], now: Wall) -> Result<VerifiedToken, Unproven> {
        let (token, issuer) = self.issuer_of(token)?;
        issuer.verify(&token, now)
    }

    /// Waits a moment for the key of a token that `arrived` at this time and whose key is not known, and
    /// returns what it proves if there is none.
    pub async fn wait_for_key(&self, token: &[u8], arrived: Wall) -> Unproven {
        match self.issuer_of(token) {
            Err(unproven) => unproven,
            Ok((token, issuer)) => {
                issuer.wait_for_keys().await;
                issuer.unknown_key(&token, arrived)
            }
        }
    }

    fn issuer_of<'t>(&self, token: &'t [u8]) -> Result<(Unverified<'t>, &Issuer), Unproven> {
        let token = token::unverified(token).map_err(Unproven::Refused)?;
        let issuer = self.issuers.iter().find(|(issuer, _)| Some(issuer.iss()) == token.iss());
        let (issuer, _) = issuer.ok_or(Unproven::Refused(TokenError::Issuer))?;
        Ok((token, issuer))
    }
}

fn expectations(trusted: &TrustedIssuers, issuer: &IssuerConfig) -> Expectations {
    Expectations {
        iss: issuer.iss.clone(),
        audience: trusted.audience.clone(),
        own_audiences: trusted.own_audiences.clone(),
        subject: issuer.subject.clone(),
        max_lifetime: trusted.max_lifetime,
    }
}

async fn watched(issuer: &Issuer, seen: Option<FileStamp>) {
    match issuer.source() {
        KeysSource::File(file) => look(issuer, file, seen).await,
        _ => issuer.keep_fetched().await,
    }
}

/// Reads the file again whenever it is not as it was `seen`.
async fn look(issuer: &Issuer, file: &std::path::Path, mut seen: Option<FileStamp>) {
    let lines = RateLimiter::new();
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        let (iss, file, before) = (issuer.iss().to_owned(), file.to_owned(), seen);
        // A mount that stalls holds up only this watch.
        let looked = on_disk(move || {
            let now = FileStamp::of(&file);
            (now, (now != before).then(|| key_file::read(&iss, &file)))
        });
        let Some((now, changed)) = looked.await else { pass_panic_on() };
        match changed {
            None => issuer.note_file(None),
            Some(Ok(newer)) => {
                issuer.replace_now(newer);
                seen = now;
                tracing::info!(iss = issuer.iss(), "the issuer's keys were read again");
            }
            Some(Err(error)) => {
                issuer.note_file(Some(error.to_string()));
                if let Some(suppressed) = lines.admit(Clock::System.now()) {
                    tracing::warn!(%error, suppressed, "the last good keys stay in use");
                }
            }
        }
    }
}
