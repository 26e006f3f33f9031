//! From a delivered envelope to its receipt: verify, decode and apply, in that order. The transport
//! acts on the receipt. What is rejected is counted once with its reason as label, and its logging is
//! rate-limited. Only what a later delivery may fix is left to come again.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use url::Url;

use super::apply::{ActionSink, Applier, OnGrants, Step};
use super::{Disposition, Intake};
use crate::aws::certificate::fetch::Fetcher;
use crate::aws::envelope::Envelope;
use crate::aws::verify::{Rejected, Verified, Verifier};
use crate::fill::effects::apply_actions;
use crate::model::ids::RegionId;
use crate::model::time::{Clock, Wall};
use crate::request::settings::Settings;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::rate_limiter::RateLimiter;

/// All regions' announcements of one sidecar.
pub struct VerifyingIntake {
    path: Arc<AnnouncementPath>,
}

/// Pipeline from a delivered envelope to its effects.
struct AnnouncementPath {
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

/// Upper bound on the characters that are quoted from a rejected message.
const SHOWN: usize = 100;

impl VerifyingIntake {
    /// The pipeline that feeds [`Freshness`](crate::protocol::freshness::Freshness); certificates
    /// come through `fetcher`.
    pub fn new(sidecar: &Arc<Settings>, fetcher: Fetcher) -> Self {
        let config = &sidecar.fill.config;
        let signer = config.announcements.insecure_sns_signer.as_ref();
        let verifier = Verifier::new(&config.service.regions, signer, sidecar.fill.shared.clock.clone(), fetcher);
        let freshness = sidecar.fill.shared.freshness.clone();
        let step: Step = Box::new(move |now, wall, event| freshness.step(now, wall, event));
        let acting = sidecar.clone();
        let sink: ActionSink = Box::new(move |actions| apply_actions(&acting.fill.newest(), actions));
        let (keyed_hashes, remembered) = (sidecar.fill.shared.keyed_hashes.clone(), verifier.remembered());
        let metrics = sidecar.fill.shared.metrics.clone();
        let (clock, observed) = (sidecar.fill.shared.clock.clone(), sidecar.fill.shared.observed.clone());
        let (read, unread) = (sidecar.fill.shared.freshness.clone(), sidecar.fill.shared.freshness.clone());
        let on_grants = sidecar.shared.gate.clone().map(|gate| Box::new(move || gate.note_announced()) as OnGrants);
        let applier = Applier::new(step, keyed_hashes, remembered, clock, metrics.clone(), observed, sink)
            .comparing_keys(
                Box::new(move |record| read.is_read(record)),
                Box::new(move |record_type, region, meant, now| unread.unread_key(record_type, region, meant, now)),
            )
            .noting_grants(on_grants)
            .naming(sidecar.fill.shared.names.clone());
        let (names, clock) = (sidecar.fill.shared.names.clone(), sidecar.fill.shared.clock.clone());
        let rejections = names.iter().map(|_| RateLimiter::new()).collect();
        let signer = signer.map(|url| url.origin().ascii_serialization());
        Self { path: Arc::new(AnnouncementPath { verifier, applier, metrics, names, signer, clock, rejections }) }
    }
}

impl Intake for VerifyingIntake {
    fn take(&self, region: RegionId, raw: Bytes, queued: Option<Wall>) -> BoxFuture<'static, Disposition> {
        let path = self.path.clone();
        async move { path.process(region, &raw, queued).await }.boxed()
    }
}

impl AnnouncementPath {
    async fn process(&self, region: RegionId, raw: &[u8], queued: Option<Wall>) -> Disposition {
        let verified = match self.verifier.verify(region, raw).await {
            Ok(verified) => verified,
            Err(rejected) => {
                self.metrics.announcements.announcement(Some(region), rejected.outcome());
                if let Some(suppressed) = self.rejections[region.index()].admit(self.clock.now()) {
                    self.log_rejection(region, rejected, raw, suppressed);
                }
                return Disposition::Unverified(rejected);
            }
        };
        let receipt = match &verified {
            Verified::Notification { .. } | Verified::Copy => Disposition::Acknowledge,
            Verified::Confirmation { token, .. } => Disposition::Confirm { token: token.clone() },
            // Its time shows whether it is about the present subscription or an earlier one.
            Verified::Unsubscribed { published } => Disposition::Unsubscribed { published: *published },
        };
        self.applier.apply(region, verified, queued);
        receipt
    }

    /// Anybody may have sent a rejected message, so its text is cut and quoted.
    fn log_rejection(&self, region: RegionId, rejected: Rejected, raw: &[u8], suppressed: u64) {
        let envelope = Envelope::parse(raw).ok();
        let message_id = envelope.as_ref().map(|envelope| cut(&envelope.message_id));
        let signer = envelope.as_ref().and_then(|envelope| Url::parse(&envelope.certificate_url).ok());
        tracing::warn!(
            region = %self.names[region.index()],
            why = %rejected,
            message_id,
            certificate_at = signer.map(|url| cut(&url.origin().ascii_serialization())),
            insecure_sns_signer = self.signer,
            retry = rejected.retry(),
            suppressed,
            "an announcement was rejected"
        );
    }
}

fn cut(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}
