//! Decides whether a delivered message really is from SNS, and from the topic configured for its
//! region.
//!
//! A [`Verified::Notification`] was signed, with a certificate that [`super::certificate`] admits,
//! for exactly that topic. Its age does not matter here (R13). The transport counts a rejection
//! under its word and keeps the message for a retry only if [`Rejected::retry`] says so.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use url::Url;

use super::certificate::fetch::{CertificateCache, Fetcher, Unfetched, Without};
use super::certificate::{AdmittedUrl, Certificate, RefusedUrl, Trust, Unfit};
use super::envelope::{Envelope, EnvelopeKind, Malformed};
use super::remembered::Remembered;
use crate::config::{RegionConfig, TopicArn};
use crate::model::ids::RegionId;
use crate::model::time::{Clock, Wall};
use crate::telemetry::metrics::announcements::AnnouncementOutcome;

#[derive(Clone, PartialEq, Eq)]
pub enum Verified {
    Notification {
        /// The text that [`crate::protocol::announcement`] decodes.
        message: String,
        /// SNS `Timestamp`: when it was published. Says nothing about when it arrived.
        published: Wall,
        /// Identifier of the message, equal on every retry.
        message_id: String,
    },
    /// A second copy of a message that was verified and applied, recognised by its id alone: **not
    /// verified**. It may be acknowledged; it changes nothing and proves nothing.
    Copy,
    /// SNS asks whether this endpoint wants the topic. Answer with ConfirmSubscription, never
    /// through the URL.
    Confirmation {
        /// Secret: its holder can confirm.
        token: String,
        /// Always the topic configured for the region.
        topic: TopicArn,
    },
    /// Somebody unsubscribed this endpoint.
    Unsubscribed {
        /// A notice published before the current subscription is late or a replay, and says nothing
        /// about it.
        published: Wall,
    },
}

/// A delivery that must not be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// Not an SNS envelope, so the sender is not SNS.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("the message is not from the topic that is configured for this region")]
    Topic,
    /// The certificate would come from a place where SNS does not serve this topic's certificates.
    #[error(transparent)]
    CertificateUrl(#[from] RefusedUrl),
    /// The certificate is not SNS's, or is out of date.
    #[error(transparent)]
    Certificate(Unfit),
    /// The signature is not this key's over this text: the message is forged or altered.
    #[error("the signature does not fit the message")]
    Signature,
    /// The certificate could not be fetched. The message may be fine, so SNS should deliver it
    /// again.
    #[error(transparent)]
    Unfetched(#[from] Unfetched),
}

impl Rejected {
    /// True if the transport must leave the message for another delivery (HTTP 503, or not deleted
    /// from the queue). All other rejections are final: acknowledged, counted, dropped.
    pub const fn retry(self) -> bool {
        matches!(self, Self::Unfetched(_))
    }

    /// Advice to the operator for the case that such messages arrive through a queue that accepts
    /// them only from the topic.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Unfetched(_) => {
                "let this process reach the host of SNS's signing certificates; the messages wait in the queue"
            }
            Self::Certificate(Unfit::Expired | Unfit::NotYetValid) => "look at this host's clock",
            _ => "look at who may send to the queue, and at announcements.insecure_sns_signer",
        }
    }

    /// The outcome of the announcement, in metrics.
    pub const fn outcome(self) -> AnnouncementOutcome {
        match self {
            Self::Malformed(Malformed::Oversized) => AnnouncementOutcome::Oversized,
            Self::Malformed(Malformed::UnknownSignatureVersion) => AnnouncementOutcome::UnknownSignatureVersion,
            Self::Malformed(_) => AnnouncementOutcome::Malformed,
            Self::Topic => AnnouncementOutcome::WrongTopic,
            Self::CertificateUrl(RefusedUrl::Host) => AnnouncementOutcome::WrongHost,
            Self::CertificateUrl(RefusedUrl::Path) => AnnouncementOutcome::WrongPath,
            Self::Certificate(Unfit::Expired) => AnnouncementOutcome::Expired,
            Self::Certificate(Unfit::NotYetValid) => AnnouncementOutcome::NotYetValid,
            Self::Certificate(_) => AnnouncementOutcome::BadCertificate,
            Self::Signature => AnnouncementOutcome::Forged,
            Self::Unfetched(_) => AnnouncementOutcome::NoCertificate,
        }
    }
}

impl From<Without> for Rejected {
    fn from(without: Without) -> Self {
        match without {
            Without::Unfetched(unfetched) => Self::Unfetched(unfetched),
            Without::Unfit(unfit) => Self::Certificate(unfit),
        }
    }
}

struct Trusted {
    topic: TopicArn,
    trust: Trust,
    /// The URL admitted last. SNS changes its certificate about once a year, and parsing a URL is
    /// expensive.
    latest: ArcSwapOption<AdmittedUrl>,
}

impl Trusted {
    fn admit(&self, url: &str) -> Result<Arc<AdmittedUrl>, RefusedUrl> {
        if let Some(latest) = self.latest.load_full().filter(|latest| latest.url.as_str() == url) {
            return Ok(latest);
        }
        let admitted = Arc::new(self.trust.admit(url)?);
        self.latest.store(Some(admitted.clone()));
        Ok(admitted)
    }
}

/// Verifies messages for all regions of the process.
pub struct Verifier {
    topics: Vec<Option<Trusted>>,
    certificates: CertificateCache,
    remembered: Arc<Remembered>,
}

impl Verifier {
    /// Trusts the topics of `regions`, in configuration order. `insecure_signer` relaxes where a
    /// certificate may come from, for exactly that origin.
    pub fn new(regions: &[RegionConfig], insecure_signer: Option<&Url>, clock: Clock, fetcher: Fetcher) -> Self {
        Self {
            topics: regions
                .iter()
                .map(|region| {
                    region.topic.as_ref().map(|topic| Trusted {
                        topic: topic.clone(),
                        trust: Trust::new(topic, insecure_signer),
                        latest: ArcSwapOption::empty(),
                    })
                })
                .collect(),
            certificates: CertificateCache::new(fetcher, clock),
            remembered: Arc::new(Remembered::new()),
        }
    }

    /// The ids of applied messages, which [`crate::sidecar::announcements::apply::Applier`]
    /// records.
    pub fn remembered(&self) -> Arc<Remembered> {
        self.remembered.clone()
    }

    /// Decides what `raw`, delivered for `region`, is.
    pub async fn verify(&self, region: RegionId, raw: &[u8]) -> Result<Verified, Rejected> {
        let envelope = Envelope::parse(raw)?;
        let trusted = self.topics.get(region.index()).and_then(Option::as_ref).ok_or(Rejected::Topic)?;
        if envelope.topic_arn != trusted.topic.arn {
            return Err(Rejected::Topic);
        }
        if envelope.kind == EnvelopeKind::Notification && self.remembered.contains(region, &envelope.message_id) {
            return Ok(Verified::Copy);
        }
        self.signature(trusted, &envelope).await?;
        Ok(match (envelope.kind, envelope.confirmation) {
            (EnvelopeKind::SubscriptionConfirmation, Some(confirmation)) => {
                Verified::Confirmation { token: confirmation.token, topic: trusted.topic.clone() }
            }
            (EnvelopeKind::UnsubscribeConfirmation, _) => Verified::Unsubscribed { published: envelope.published },
            _ => Verified::Notification {
                message: envelope.message,
                published: envelope.published,
                message_id: envelope.message_id,
            },
        })
    }

    async fn signature(&self, trusted: &Trusted, envelope: &Envelope) -> Result<(), Rejected> {
        let (trust, admitted) = (&trusted.trust, trusted.admit(&envelope.certificate_url)?);
        let certificate = self.certificates.get(trust, &admitted).await?;
        if signed_with(&certificate, envelope) {
            return Ok(());
        }
        // Either the message is forged, or its signer has a new certificate under the old URL.
        match self.certificates.instead(trust, &admitted, &certificate).await? {
            Some(newer) if signed_with(&newer, envelope) => Ok(()),
            _ => Err(Rejected::Signature),
        }
    }
}

/// Builds the signed text anew each time, so that no copy of the message is held while a fetch is
/// awaited.
fn signed_with(certificate: &Certificate, envelope: &Envelope) -> bool {
    certificate.signed(envelope.signature_version, &envelope.string_to_sign(), &envelope.signature)
}

impl fmt::Debug for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Notification { published, message_id, .. } => f
                .debug_struct("Notification")
                .field("published", published)
                .field("message_id", message_id)
                .finish_non_exhaustive(),
            Self::Copy => f.write_str("Copy"),
            Self::Confirmation { topic, .. } => {
                f.debug_struct("Confirmation").field("topic", &topic.arn).finish_non_exhaustive()
            }
            Self::Unsubscribed { published } => f.debug_struct("Unsubscribed").field("published", published).finish(),
        }
    }
}

#[cfg(test)]
mod tests;
