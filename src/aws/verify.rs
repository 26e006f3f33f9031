//! Owns the decision whether a delivered message is SNS's, and of which configured topic.
//!
//! Before it: a transport ([`super::sqs`], [`crate::sidecar::announcements::http`]) received bytes for a region. After it: [`crate::sidecar::announcements::apply`]
//! for notifications, [`crate::sidecar::announcements::subscription`] for the two confirmations; a rejection is counted by the transport
//! under [`Rejected::word`], and kept for a retry only when [`Rejected::retry`] says so.
//!
//! Invariant: a [`Verified::Notification`] was signed, with a certificate that [`super::certificate`] admits, for
//! exactly the topic that is configured for its region. How old it is does not matter here (R13).

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use url::Url;

use super::certificate::fetch::{Certificates, Fetcher, Unfetched, Without};
use super::certificate::{Admitted, Certificate, Refused, Trust, Unfit};
use super::envelope::{Envelope, Kind, Malformed};
use super::remembered::Remembered;
use crate::config::{Region, TopicArn};
use crate::model::ids::RegionId;
use crate::model::time::{Clock, Wall};

/// What SNS delivered.
#[derive(Clone, PartialEq, Eq)]
pub enum Verified {
    /// A published message, verified.
    Notification {
        /// Its text, for [`crate::protocol::announcement`].
        message: String,
        /// SNS `Timestamp`: when it was published. Says nothing of when it came.
        published: Wall,
        /// Stays the same on retries.
        message_id: String,
    },
    /// A second copy of a message that was verified and applied, by its id alone: **not verified**. It may be
    /// acknowledged; it changes nothing and proves nothing.
    Copy,
    /// SNS asks whether this endpoint wants the topic; to be answered with ConfirmSubscription, never by URL.
    Confirmation {
        /// Secret: whoever has it can confirm.
        token: String,
        /// The topic, which is the region's configured one.
        topic: TopicArn,
    },
    /// Somebody unsubscribed this endpoint.
    Unsubscribed {
        /// When: one from before the current subscription is a replay or late, and says nothing of it.
        published: Wall,
    },
}

/// A delivery that must not be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// No SNS envelope: whoever sent it is not SNS.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Its TopicArn is not the one configured for this region.
    #[error("the message is not from the topic that is configured for this region")]
    Topic,
    /// Its certificate would come from somewhere that SNS does not serve this topic from.
    #[error(transparent)]
    CertificateUrl(#[from] Refused),
    /// Its certificate is not SNS's, or out of date.
    #[error(transparent)]
    Certificate(Unfit),
    /// The signature is not that key's over this text: forged or altered.
    #[error("the signature does not fit the message")]
    Signature,
    /// The certificate could not be fetched: nothing is known of the message, SNS should deliver it again.
    #[error(transparent)]
    Unfetched(#[from] Unfetched),
}

impl Rejected {
    /// Whether the transport must leave the message for another delivery (HTTP 503, not deleted from a queue). All
    /// other rejections are final: acknowledged, counted, dropped.
    pub const fn retry(self) -> bool {
        matches!(self, Self::Unfetched(_))
    }

    /// What an operator should look at when such messages come through a queue that takes them from the topic alone.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Unfetched(_) => {
                "let this process reach the host of SNS's signing certificates; the messages wait in the queue"
            }
            Self::Certificate(Unfit::Expired | Unfit::NotYetValid) => "look at this host's clock",
            _ => "look at who may send to the queue, and at announcements.insecure_sns_signer",
        }
    }

    /// A stable word for the announcement metric.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Malformed(Malformed::Oversized) => "oversized",
            Self::Malformed(Malformed::UnknownSignatureVersion) => "unknown-signature-version",
            Self::Malformed(_) => "malformed",
            Self::Topic => "wrong-topic",
            Self::CertificateUrl(Refused::Host) => "wrong-host",
            Self::CertificateUrl(Refused::Path) => "wrong-path",
            Self::Certificate(Unfit::Expired) => "expired",
            Self::Certificate(Unfit::NotYetValid) => "not-yet-valid",
            Self::Certificate(_) => "bad-certificate",
            Self::Signature => "forged",
            Self::Unfetched(_) => "no-certificate",
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

/// One region's topic.
struct Trusted {
    topic: TopicArn,
    trust: Trust,
    /// The URL that was admitted last: SNS changes its certificate about once a year, and parsing a URL is dear.
    latest: ArcSwapOption<Admitted>,
}

impl Trusted {
    fn admit(&self, url: &str) -> Result<Arc<Admitted>, Refused> {
        if let Some(latest) = self.latest.load_full().filter(|latest| latest.url.as_str() == url) {
            return Ok(latest);
        }
        let admitted = Arc::new(self.trust.admit(url)?);
        self.latest.store(Some(admitted.clone()));
        Ok(admitted)
    }
}

/// Decides for all regions of the process.
pub struct Verifier {
    topics: Vec<Option<Trusted>>,
    certificates: Certificates,
    remembered: Arc<Remembered>,
}

impl Verifier {
    /// For the topics of `regions`, in the order of the configuration. `insecure_signer` relaxes where a certificate
    /// may come from, for exactly that origin.
    pub fn new(regions: &[Region], insecure_signer: Option<&Url>, clock: Clock, fetcher: Fetcher) -> Self {
        let trusted = |topic: &TopicArn| Trusted {
            topic: topic.clone(),
            trust: Trust::new(topic, insecure_signer),
            latest: ArcSwapOption::empty(),
        };
        Self {
            topics: regions.iter().map(|region| region.topic.as_ref().map(trusted)).collect(),
            certificates: Certificates::new(fetcher, clock),
            remembered: Arc::new(Remembered::new()),
        }
    }

    /// The ids of applied messages, for the [`crate::sidecar::announcements::apply::Applier`] to note.
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
        if envelope.kind == Kind::Notification && self.remembered.contains(region, &envelope.message_id) {
            return Ok(Verified::Copy);
        }
        self.signature(trusted, &envelope).await?;
        Ok(match (envelope.kind, envelope.confirmation) {
            (Kind::SubscriptionConfirmation, Some(confirmation)) => {
                Verified::Confirmation { token: confirmation.token, topic: trusted.topic.clone() }
            }
            (Kind::UnsubscribeConfirmation, _) => Verified::Unsubscribed { published: envelope.published },
            _ => Verified::Notification {
                message: envelope.message,
                published: envelope.published,
                message_id: envelope.message_id,
            },
        })
    }

    async fn signature(&self, trusted: &Trusted, envelope: &Envelope) -> Result<(), Rejected> {
        let (trust, admitted) = (&trusted.trust, trusted.admit(&envelope.certificate_url)?);
        // Made anew each time: a copy of the message is not to wait for a fetch.
        let fits = |certificate: &Certificate| {
            certificate.signed(envelope.signature_version, &envelope.string_to_sign(), &envelope.signature)
        };
        let certificate = self.certificates.get(trust, &admitted).await?;
        if fits(&certificate) {
            return Ok(());
        }
        // Either the message is forged, or its signer has a new certificate under the old URL.
        match self.certificates.instead(trust, &admitted, &certificate).await? {
            Some(newer) if fits(&newer) => Ok(()),
            _ => Err(Rejected::Signature),
        }
    }
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
