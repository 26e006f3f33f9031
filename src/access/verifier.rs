//! Verifies who asks. Callers that are remembered wait for nobody; the signatures of others are
//! verified on threads that serve no requests, a few at once.

use std::sync::Arc;

use http::header;
use moka::sync::Cache;
use tokio::sync::Semaphore;

use super::calendar::Calendar;
use super::certificate;
use super::claims::TokenClaims;
use super::credentials::Credentials;
use super::denial::Denial;
use super::issuer::{Unproven, VerifiedToken};
use super::issuers::Issuers;
use super::known::{Known, Proof};
use super::limits::{REMEMBERED_BY_SIDECARS, REMEMBERED_FOR, TURN_WAIT, UNPROVEN};
use super::remembered::{Remembered, TokenHash};
use super::token;
use crate::http::server_tls::peer::PeerCertificate;
use crate::model::time::{Clock, Wall};
use crate::tasks::on_bounded_threads;

/// Verifies the tokens of one port, and remembers those that are good.
#[derive(Debug)]
pub struct Verifier {
    issuers: Issuers,
    /// A sidecar's: tokens that proved nothing moments ago. It remembers claims, too.
    unproven: Option<Cache<TokenHash, Denial>>,
    remembered: Remembered,
    /// Signatures that are verified at once, one a core.
    room: Arc<Semaphore>,
    cores: usize,
    calendar: Calendar,
}

/// A caller, as far as it is known without waiting.
pub enum Recalled {
    Known(Arc<Known>),
    /// Its token's signature has yet to be verified.
    Token(NewToken),
}

/// A token that passed all checks that need no signature, or whose key is not known.
pub struct NewToken {
    text: Box<[u8]>,
    place: TokenHash,
    arrived: Wall,
    is_key_known: bool,
}

impl Verifier {
    pub(super) fn new(issuers: Issuers, calendar: Calendar) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let room = Arc::new(Semaphore::new(cores));
        Self { issuers, unproven: None, remembered: Remembered::new(), room, cores, calendar }
    }

    /// A verifier of a sidecar, which tells callers apart by their claims.
    #[must_use]
    pub fn of_sidecar(issuers: Issuers, clock: Clock) -> Self {
        let remembered = Remembered::of(REMEMBERED_BY_SIDECARS);
        let unproven = Some(Cache::builder().max_capacity(UNPROVEN.0).time_to_live(UNPROVEN.1).build());
        Self { unproven, remembered, ..Self::new(issuers, Calendar::new(clock)) }
    }

    pub const fn issuers(&self) -> &Issuers {
        &self.issuers
    }

    /// The caller by what the connection remembers, by what the process remembers, or by its
    /// certificate. Whatever becomes of a token, the certificate beside it counts no more.
    ///
    /// # Errors
    /// [`Denial`], if the caller proves nothing.
    pub fn recall(&self, known: &mut Option<Arc<Known>>, credentials: Credentials<'_>) -> Result<Recalled, Denial> {
        let (now, epoch) = (self.calendar.now(), self.issuers.epoch());
        if let Some(known) = known.as_ref().filter(|known| known.holds(now, epoch, credentials.certificate)) {
            return Ok(Recalled::Known(known.clone()));
        }
        let mut lines = credentials.headers.get_all(header::AUTHORIZATION).iter();
        let Some(line) = lines.next() else {
            let found = by_certificate(credentials.certificate, now)?;
            *known = Some(found.clone());
            return Ok(Recalled::Known(found));
        };
        let token = token::bearer(line.as_bytes()).ok_or(Denial::NoCredential)?;
        if lines.next().is_some() {
            return Err(Denial::NoCredential);
        }
        let place = self.remembered.place(token);
        if let Some(found) = self.remembered(place, now, epoch) {
            *known = Some(found.clone());
            return Ok(Recalled::Known(found));
        }
        if let Some(denial) = self.unproven.as_ref().and_then(|unproven| unproven.get(&place)) {
            return Err(denial);
        }
        let is_key_known = match self.issuers.check(token, now) {
            Err(Unproven::Refused(error)) => return Err(Denial::BadCredential(error)),
            checked => checked.is_ok(),
        };
        Ok(Recalled::Token(NewToken { text: token.into(), place, arrived: now, is_key_known }))
    }

    /// Verifies the caller's token, once its key is known and it is its turn.
    ///
    /// # Errors
    /// [`Denial`], if the token proves nothing, or not now.
    pub async fn prove(&self, token: NewToken) -> Result<Arc<Known>, Denial> {
        let place = token.place;
        let proven = self.proven(token).await;
        if let (Err(denial @ (Denial::BadCredential(_) | Denial::KeysUnknown)), Some(unproven)) =
            (&proven, &self.unproven)
        {
            unproven.insert(place, *denial);
        }
        proven
    }

    async fn proven(&self, token: NewToken) -> Result<Arc<Known>, Denial> {
        let NewToken { text, place, arrived, is_key_known } = token;
        if !is_key_known {
            let without = self.issuers.wait_for_key(&text, arrived).await;
            match self.issuers.check(&text, self.calendar.now()) {
                Err(Unproven::KeyUnknown) => return Err(denial(without)),
                Err(refused) => return Err(denial(refused)),
                Ok(()) => {}
            }
        }
        let turn = tokio::time::timeout(TURN_WAIT, self.room.clone().acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(Denial::Busy) };
        let (now, epoch) = (self.calendar.now(), self.issuers.epoch());
        // Another request with this token may have come first.
        if let Some(known) = self.remembered(place, now, epoch) {
            return Ok(known);
        }
        let issuers = self.issuers.clone();
        let keeps_claims = self.unproven.is_some();
        // To wake another thread takes longer than a signature. A flood finds a turn taken: at most one core
        // is kept from its callers, for one signature at a time.
        let is_alone = self.cores > 1 && self.room.available_permits() + 1 == self.cores;
        let verified = if is_alone {
            Some(verified(&issuers, &text, now, keeps_claims))
        } else {
            on_bounded_threads(turn, move || verified(&issuers, &text, now, keeps_claims)).await
        };
        let (token, claims) = verified.ok_or(Denial::Busy)?.map_err(denial)?;
        let until = token.until.min(now + REMEMBERED_FOR);
        let known = Arc::new(Known { principal: token.principal, claims, proof: Proof::Token { until, epoch } });
        self.remembered.note(place, known.clone());
        Ok(known)
    }

    fn remembered(&self, place: TokenHash, now: Wall, epoch: u64) -> Option<Arc<Known>> {
        self.remembered.get(place).filter(|known| known.holds(now, epoch, None))
    }
}

/// The token, and the claims that it makes if they are kept.
fn verified(
    issuers: &Issuers,
    text: &[u8],
    now: Wall,
    keeps_claims: bool,
) -> Result<(VerifiedToken, Option<TokenClaims>), Unproven> {
    let token = issuers.verify(text, now)?;
    Ok((token, if keeps_claims { token::stated_claims(text) } else { None }))
}

/// The caller by the certificate of its connection. One that no CA vouches for is none.
fn by_certificate(certificate: Option<&PeerCertificate>, now: Wall) -> Result<Arc<Known>, Denial> {
    let certificate = certificate.filter(|certificate| certificate.holds(now)).ok_or(Denial::NoCredential)?;
    let principal = certificate::principal(&certificate.names).ok_or(Denial::NoCredential)?;
    Ok(Arc::new(Known { principal, claims: None, proof: Proof::Certificate }))
}

const fn denial(why: Unproven) -> Denial {
    match why {
        Unproven::Refused(error) => Denial::BadCredential(error),
        Unproven::KeyUnknown => Denial::KeysUnknown,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, HeaderValue};
    use serde_json::json;

    use super::*;
    use crate::config::services::{AccessConfig, AccessMode, IssuerConfig, KeysSource, WhenUnknown};
    use crate::lab::issuer::Issuer;
    use crate::model::time::Clock;

    const ISS: &str = "https://issuer.example";
    const REGIONS: &str = "https://regions.example";
    const NOW: u64 = 1_800_000_000;

    fn verifier(issuer: &Issuer, clock: &Clock) -> Verifier {
        let directory = tempfile::tempdir().unwrap();
        let keys = directory.path().join("keys.json");
        std::fs::write(&keys, json!({"keys": [issuer.jwk()]}).to_string()).unwrap();
        let keys = KeysSource::File(keys);
        let config = AccessConfig {
            mode: AccessMode::Enforce,
            catalogue_audience: String::new(),
            region_audience: REGIONS.to_owned(),
            operate_audience: String::new(),
            max_lifetime: Duration::from_secs(86_400),
            max_age: Duration::from_secs(3_600),
            when_unknown: WhenUnknown::Serve,
            max_key_age: Duration::from_secs(86_400),
            deny_file: None,
            issuers: vec![IssuerConfig { iss: ISS.to_owned(), keys, ca_file: None, subject: "sub".to_owned() }],
            admins: Vec::new(),
        };
        let issuers = Issuers::open(&config, REGIONS, clock).unwrap();
        Verifier::new(issuers, Calendar::new(clock.clone()))
    }

    async fn ask(verifier: &Verifier, token: &str) -> Result<(), Denial> {
        let line = HeaderValue::try_from(format!("Bearer {token}")).unwrap();
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, line)]);
        match verifier.recall(&mut None, Credentials::of(&headers, None))? {
            Recalled::Known(_) => Ok(()),
            Recalled::Token(token) => verifier.prove(token).await.map(drop),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn remembered_callers_wait_for_nobody() {
        let (issuer, clock) = (Issuer::new(ISS, "one"), Clock::simulated(Wall::from_millis(NOW * 1_000)));
        let verifier = verifier(&issuer, &clock);
        let [known, new] = ["known", "new"].map(|sub| issuer.token(sub, REGIONS, NOW));
        assert_eq!(ask(&verifier, &known).await, Ok(()));
        let cores = u32::try_from(verifier.room.available_permits()).unwrap();
        let all = verifier.room.clone().acquire_many_owned(cores).await.unwrap();
        let began = clock.now();
        assert_eq!(ask(&verifier, &known).await, Ok(()));
        assert_eq!(clock.now(), began);
        assert_eq!(ask(&verifier, &new).await, Err(Denial::Busy));
        assert_eq!(clock.now() - began, TURN_WAIT);
        // What needs no signature takes nobody's turn.
        let expired = issuer.token("new", REGIONS, NOW - 3_600);
        assert_eq!(ask(&verifier, &expired).await, Err(Denial::BadCredential(token::TokenError::Expired)));
        drop(all);
        assert_eq!(ask(&verifier, &new).await, Ok(()));
    }
}
