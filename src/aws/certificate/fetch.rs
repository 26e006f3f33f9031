//! Fetches the process's signing certificates and keeps them.
//!
//! A certificate is fetched again when it expires and when a signature fails to match, because an
//! emulator serves a new certificate under its old URL each time it starts. At most one fetch per
//! URL runs at a time, and at most one starts per [`limits::CERTIFICATE_PAUSE`]. URLs that have not
//! yielded a certificate yet are fetched one at a time per topic and have slots of their own, so
//! made-up URLs displace each other but never a certificate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;
use url::Url;

use super::{AdmittedUrl, Certificate, Trust, Unfit};
use crate::aws::limits;
use crate::http::client::outgoing;
use crate::model::time::{Clock, Moment};

/// The certificate could not be fetched. The message is not at fault, and a retry helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfetched {
    /// No connection, no TLS, or the connection broke.
    #[error("the signing certificate's host could not be reached")]
    Unreachable,
    /// Any status other than 200. Redirects count as such and are not followed.
    #[error("the signing certificate's host answered {0}")]
    Status(u16),
    #[error("the signing certificate is larger than {} bytes", limits::CERTIFICATE_BYTES)]
    Oversized,
    /// The fetch took longer than [`limits::CERTIFICATE_WAIT`].
    #[error("fetching the signing certificate took too long")]
    Late,
    /// Too many other URLs are being fetched.
    #[error("too many signing certificates are being fetched")]
    Busy,
}

/// Why there is no certificate to check a signature against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Without {
    #[error(transparent)]
    Unfetched(#[from] Unfetched),
    #[error(transparent)]
    Unfit(#[from] Unfit),
}

/// Source of certificates: the network, or whatever a test or `nearside-lab dev` supplies.
pub enum Fetcher {
    /// Does not follow redirects or use proxies.
    Network(reqwest::Client),
    Given(Box<dyn Fn(Url) -> BoxFuture<'static, Result<Bytes, Unfetched>> + Send + Sync>),
}

impl Fetcher {
    /// Fetches over the network. Plain HTTP is allowed only when an insecure signer is configured.
    /// Must be called within a runtime.
    ///
    /// # Errors
    /// When the machine has no CA certificates, and therefore no TLS.
    pub fn network(insecure: bool) -> Result<Self, reqwest::Error> {
        let client = outgoing::builder()
            .https_only(!insecure)
            .timeout(limits::CERTIFICATE_WAIT)
            .pool_max_idle_per_host(1)
            .build()?;
        Ok(Self::Network(client))
    }

    /// Asks `answer` for the PEM text of each URL; answers at once.
    pub fn given(answer: impl Fn(&Url) -> Result<Bytes, Unfetched> + Send + Sync + 'static) -> Self {
        Self::Given(Box::new(move |url| {
            let answer = answer(&url);
            Box::pin(async move { answer })
        }))
    }

    async fn fetch(&self, url: &Url) -> Result<Bytes, Unfetched> {
        match self {
            Self::Network(client) => download(client, url).await,
            Self::Given(answer) => answer(url.clone()).await,
        }
    }
}

async fn download(client: &reqwest::Client, url: &Url) -> Result<Bytes, Unfetched> {
    let mut response = client.get(url.clone()).send().await.map_err(|_| Unfetched::Unreachable)?;
    if response.status() != http::StatusCode::OK {
        return Err(Unfetched::Status(response.status().as_u16()));
    }
    let mut pem = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| Unfetched::Unreachable)? {
        if pem.len() + chunk.len() > limits::CERTIFICATE_BYTES {
            return Err(Unfetched::Oversized);
        }
        pem.extend_from_slice(&chunk);
    }
    Ok(pem.into())
}

pub struct CertificateCache {
    fetcher: Fetcher,
    clock: Clock,
    slots: Mutex<Vec<Arc<Slot>>>,
    permits: Semaphore,
}

/// State of one URL.
struct Slot {
    url: Url,
    current: ArcSwapOption<Certificate>,
    used: AtomicU64,
    /// Locked during a fetch, so that others wait for its outcome.
    attempt: tokio::sync::Mutex<Option<Attempt>>,
}

struct Attempt {
    ended: Moment,
    outcome: Result<Arc<Certificate>, Without>,
}

impl CertificateCache {
    pub fn new(fetcher: Fetcher, clock: Clock) -> Self {
        let permits = Semaphore::new(limits::CERTIFICATE_FETCHES);
        Self { fetcher, clock, slots: Mutex::new(Vec::new()), permits }
    }

    /// The certificate at `admitted`, valid now. It is fetched if it is missing or no longer valid.
    pub async fn get(&self, trust: &Trust, admitted: &AdmittedUrl) -> Result<Arc<Certificate>, Without> {
        let slot = self.slot(&admitted.url)?;
        if let Some(certificate) = self.valid(&slot) {
            return Ok(certificate);
        }
        let mut attempt = slot.attempt.lock().await;
        if let Some(certificate) = self.valid(&slot) {
            return Ok(certificate);
        }
        match &*attempt {
            // The latest fetch succeeded, but its certificate has expired since, so the stored
            // outcome does not say why it fails now.
            Some(newest) if self.recent(newest) => match &newest.outcome {
                Ok(ran_out) => Err(ran_out.valid(self.clock.wall()).err().unwrap_or(Unfit::Expired).into()),
                Err(without) => Err(*without),
            },
            _ => self.fetch(&slot, &mut attempt, trust, admitted).await,
        }
    }

    /// The certificate now served in place of `failed`, which did not match a signature. `None`
    /// means there is no other, so the signature is wrong.
    pub async fn instead(
        &self,
        trust: &Trust,
        admitted: &AdmittedUrl,
        failed: &Arc<Certificate>,
    ) -> Result<Option<Arc<Certificate>>, Unfetched> {
        let slot = self.slot(&admitted.url)?;
        let mut attempt = slot.attempt.lock().await;
        if let Some(newer) = self.valid(&slot).filter(|current| !Arc::ptr_eq(current, failed)) {
            return Ok(Some(newer));
        }
        let outcome = match &*attempt {
            Some(newest) if self.recent(newest) => newest.outcome.clone(),
            _ => self.fetch(&slot, &mut attempt, trust, admitted).await,
        };
        match outcome {
            Ok(certificate) => Ok(Some(certificate).filter(|certificate| !Arc::ptr_eq(certificate, failed))),
            Err(Without::Unfetched(unfetched)) => Err(unfetched),
            Err(Without::Unfit(_)) => Ok(None),
        }
    }

    fn recent(&self, attempt: &Attempt) -> bool {
        self.clock.now() - attempt.ended < limits::CERTIFICATE_PAUSE
    }

    fn valid(&self, slot: &Slot) -> Option<Arc<Certificate>> {
        let certificate = slot.current.load_full().filter(|current| current.valid(self.clock.wall()).is_ok())?;
        slot.used.store(self.clock.now().as_nanos(), Ordering::Relaxed);
        Some(certificate)
    }

    async fn fetch(
        &self,
        slot: &Slot,
        attempt: &mut Option<Attempt>,
        trust: &Trust,
        admitted: &AdmittedUrl,
    ) -> Result<Arc<Certificate>, Without> {
        let fetched = tokio::time::timeout(limits::CERTIFICATE_WAIT, async {
            let is_unknown = slot.current.load().is_none();
            let turn = async { if is_unknown { trust.unknown.acquire().await.map(Some) } else { Ok(None) } };
            let _turn = turn.await.map_err(|_| Unfetched::Busy)?;
            let _permit = self.permits.acquire().await.map_err(|_| Unfetched::Busy)?;
            self.fetcher.fetch(&admitted.url).await
        });
        let outcome = match fetched.await.unwrap_or(Err(Unfetched::Late)) {
            Ok(pem) => {
                Certificate::inspect(&pem, trust, admitted, self.clock.wall()).map(Arc::new).map_err(Into::into)
            }
            Err(unfetched) => Err(Without::Unfetched(unfetched)),
        };
        if let Ok(certificate) = &outcome
            && slot.current.swap(Some(certificate.clone())).is_none()
        {
            self.make_room();
        }
        *attempt = Some(Attempt { ended: self.clock.now(), outcome: outcome.clone() });
        outcome
    }

    /// The slot of `url`. When there are too many, a new one replaces the least recently used slot
    /// without a certificate.
    fn slot(&self, url: &Url) -> Result<Arc<Slot>, Unfetched> {
        let mut slots = self.slots();
        if let Some(slot) = slots.iter().find(|slot| slot.url == *url) {
            return Ok(slot.clone());
        }
        let slot = Arc::new(Slot {
            url: url.clone(),
            current: ArcSwapOption::empty(),
            used: AtomicU64::new(self.clock.now().as_nanos()),
            attempt: tokio::sync::Mutex::new(None),
        });
        if unknown(&slots).count() < limits::UNKNOWN_CERTIFICATES {
            slots.push(slot.clone());
            return Ok(slot);
        }
        let idle = unknown(&slots).filter(|(_, slot)| Arc::strong_count(slot) == 1);
        let oldest = idle.min_by_key(|(_, slot)| slot.used.load(Ordering::Relaxed)).map(|(place, _)| place);
        slots[oldest.ok_or(Unfetched::Busy)?] = slot.clone();
        Ok(slot)
    }

    /// Called when one more URL has a certificate. If there are now too many, an invalid one is
    /// dropped first, otherwise the least recently used. Anyone still using it keeps their copy.
    fn make_room(&self) {
        let mut slots = self.slots();
        let wall = self.clock.wall();
        let known =
            slots.iter().enumerate().filter_map(|(place, slot)| Some((place, slot, slot.current.load_full()?)));
        let known: Vec<_> = known
            .map(|(place, slot, current)| (current.valid(wall).is_ok(), slot.used.load(Ordering::Relaxed), place))
            .collect();
        if known.len() > limits::CERTIFICATES
            && let Some((_, _, place)) = known.into_iter().min()
        {
            slots.swap_remove(place);
        }
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Arc<Slot>>> {
        // A panic while the lock is held cannot leave the list half-changed.
        self.slots.lock()
    }
}

/// Slots without a certificate, with their positions.
fn unknown(slots: &[Arc<Slot>]) -> impl Iterator<Item = (usize, &Arc<Slot>)> {
    slots.iter().enumerate().filter(|(_, slot)| slot.current.load().is_none())
}

#[cfg(test)]
mod tests;
