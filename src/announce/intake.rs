//! Owns the way from a delivered envelope to its receipt: verify, decode, apply, in that order.
//!
//! Before it: [`super::sqs`] or [`super::http`] holds an envelope. After it: the transport acts on the receipt.
//! Invariant: what is rejected is counted here, once, under a word that says why; only what a later delivery may
//! mend is left to come again.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::apply::{ActionSink, Applier, Step};
use super::certificate::fetch::Fetcher;
use super::verify::{Verified, Verifier};
use super::{Intake, Receipt};
use crate::clock::Wall;
use crate::freshness::words::RegionId;
use crate::serve::Sidecar;
use crate::telemetry::metrics::Metrics;

/// All regions' announcements of one sidecar.
pub struct Announcements {
    path: Arc<Path>,
}

struct Path {
    verifier: Verifier,
    applier: Applier,
    metrics: Arc<Metrics>,
    names: Vec<String>,
}

impl Announcements {
    /// The path into `sidecar`'s freshness; certificates come through `fetcher`.
    pub fn new(sidecar: &Arc<Sidecar>, fetcher: Fetcher) -> Self {
        let config = &sidecar.config;
        let signer = config.announcements.insecure_sns_signer.as_ref();
        let verifier = Verifier::new(&config.service.regions, signer, sidecar.clock.clone(), fetcher);
        let freshness = sidecar.freshness.clone();
        let step: Step = Box::new(move |now, wall, event| freshness.step(now, wall, event));
        let acting = sidecar.clone();
        let sink: ActionSink = Box::new(move |actions| acting.carry_out(actions));
        let (keyring, remembered) = (sidecar.keyring.clone(), verifier.remembered());
        let metrics = sidecar.metrics.clone();
        let applier = Applier::new(step, keyring, remembered, sidecar.clock.clone(), metrics.clone(), sink);
        Self { path: Arc::new(Path { verifier, applier, metrics, names: sidecar.names.clone() }) }
    }
}

impl Intake for Announcements {
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
                let name = &self.names[region.index()];
                tracing::warn!(region = %name, why = %rejected, retry = rejected.retry(), "an announcement was rejected");
                return if rejected.retry() { Receipt::Retry } else { Receipt::Refuse };
            }
        };
        let receipt = match &verified {
            Verified::Notification { .. } | Verified::Copy => Receipt::Acknowledge,
            Verified::Confirmation { token, .. } => Receipt::Confirm { token: token.clone() },
            Verified::Unsubscribed { published } => Receipt::Unsubscribed { published: *published },
        };
        match self.applier.apply(region, verified, queued) {
            Ok(_) => receipt,
            Err(_) => Receipt::Retry,
        }
    }
}
