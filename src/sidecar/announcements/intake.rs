//! From a delivered envelope to its receipt: verify, decode and apply, in that order. The transport
//! acts on the receipt. What is rejected is counted here, once, under a word that says why, and its
//! logging is rate-limited. Only what a later delivery may fix is left to come again.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use url::Url;

use super::apply::{ActionSink, Applier, Step};
use super::{Intake, Receipt};
use crate::aws::certificate::fetch::Fetcher;
use crate::aws::envelope::Envelope;
use crate::aws::verify::{Rejected, Verified, Verifier};
use crate::core::Core;
use crate::model::ids::RegionId;
use crate::model::time::{Clock, Wall};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::rate_limiter::RateLimiter;

/// All regions' announcements of one sidecar.
pub struct VerifyingIntake {
    path: Arc<Path>,
}

struct Path {
    verifier: Verifier,
    applier: Applier,
    metrics: Arc<Metrics>,
    names: Vec<String>,
    /// The origin of `insecure_sns_signer`, if that is set.
    signer: Option<String>,
    clock: Clock,
    /// One per region: a region whose endpoint is flooded must not silence the others.
    rejections: Vec<RateLimiter>,
}

/// How many characters of a rejected message's own text are shown.
const SHOWN: usize = 100;

impl VerifyingIntake {
    /// The path into the freshness of the core; certificates come through `fetcher`.
    pub fn new(sidecar: &Arc<Core>, fetcher: Fetcher) -> Self {
        let config = &sidecar.config;
        let signer = config.announcements.insecure_sns_signer.as_ref();
        let verifier = Verifier::new(&config.service.regions, signer, sidecar.clock.clone(), fetcher);
        let freshness = sidecar.freshness.clone();
        let step: Step = Box::new(move |now, wall, event| freshness.step(now, wall, event));
        let acting = sidecar.clone();
        let sink: ActionSink = Box::new(move |actions| acting.newest().carry_out(actions));
        let (keyring, remembered) = (sidecar.keyring.clone(), verifier.remembered());
        let metrics = sidecar.metrics.clone();
        let (clock, observed) = (sidecar.clock.clone(), sidecar.observed.clone());
        let (read, unread) = (sidecar.freshness.clone(), sidecar.freshness.clone());
        let applier = Applier::new(step, keyring, remembered, clock, metrics.clone(), observed, sink)
            .comparing_keys(
                Box::new(move |record| read.is_read(record)),
                Box::new(move |record_type, region, meant, now| unread.unread_key(record_type, region, meant, now)),
            )
            .naming(sidecar.names.clone());
        let (names, clock) = (sidecar.names.clone(), sidecar.clock.clone());
        let rejections = names.iter().map(|_| RateLimiter::new()).collect();
        let signer = signer.map(|url| url.origin().ascii_serialization());
        Self { path: Arc::new(Path { verifier, applier, metrics, names, signer, clock, rejections }) }
    }
}

impl Intake for VerifyingIntake {
    fn take(&self, region: RegionId, raw: Bytes, queued: Option<Wall>) -> BoxFuture<'static, Receipt> {
        let path = self.path.clone();
        async move { path.take(region, &raw, queued).await }.boxed()
    }
}

impl Path {
    async fn take(&self, region: RegionId, raw: &[u8], queued: Option<Wall>) -> Receipt {
        let verified = match self.verifier.verify(region, raw).await {
            Ok(verified) => verified,
            Err(rejected) => {
                self.metrics.announcement(Some(region), rejected.word());
                if let Some(left_out) = self.rejections[region.index()].take(self.clock.now()) {
                    self.tell(region, rejected, raw, left_out);
                }
                return Receipt::Unverified(rejected);
            }
        };
        let receipt = match &verified {
            Verified::Notification { .. } | Verified::Copy => Receipt::Acknowledge,
            Verified::Confirmation { token, .. } => Receipt::Confirm { token: token.clone() },
            Verified::Unsubscribed { published } => Receipt::Unsubscribed { published: *published },
        };
        self.applier.apply(region, verified, queued);
        receipt
    }

    /// Anybody may have sent a rejected message, so its text is cut and shown as quoted text.
    fn tell(&self, region: RegionId, rejected: Rejected, raw: &[u8], left_out: u64) {
        let envelope = Envelope::parse(raw).ok();
        let cut = |text: &str| text.chars().take(SHOWN).collect::<String>();
        let message_id = envelope.as_ref().map(|envelope| cut(&envelope.message_id));
        let signer = envelope.as_ref().and_then(|envelope| Url::parse(&envelope.certificate_url).ok());
        tracing::warn!(
            region = %self.names[region.index()],
            why = %rejected,
            message_id,
            certificate_at = signer.map(|url| cut(&url.origin().ascii_serialization())),
            insecure_sns_signer = self.signer,
            retry = rejected.retry(),
            left_out,
            "an announcement was rejected"
        );
    }
}
