//! SNS envelopes, signed with the emulator's own key. A subscriber verifies them with the
//! certificate that [`super::Aws`] serves. Everything that a subscriber verifies is signed; only
//! the UnsubscribeURL differs between the copies of a message.

use std::fmt;
use std::time::Duration;

use nearside::aws::envelope::{Confirmation, Envelope, EnvelopeKind, SignatureVersion};
use nearside::model::time::Wall;
use serde_json::Value;

use crate::signer::Signer;

/// Contents of an envelope.
#[derive(Clone, Copy, Debug)]
pub struct Letter<'a> {
    pub id: &'a str,
    pub topic: &'a str,
    pub subject: Option<&'a str>,
    pub message: &'a str,
    pub published: Wall,
    /// The base URL under which the certificate and the confirmation are served.
    pub base: &'a str,
}

pub struct EnvelopeSigner {
    signer: Signer,
    path: String,
}

/// A message that is signed but not yet sent, because signing costs twenty times as much as
/// sending.
#[derive(Debug)]
pub struct Signed {
    pub(crate) id: String,
    pub(crate) message: String,
    pub(crate) envelope: SignedEnvelope,
}

/// A signed notification that lacks only what differs between subscribers.
#[derive(Debug)]
pub struct SignedEnvelope(Value);

impl SignedEnvelope {
    /// The envelope for one subscriber.
    pub fn to_subscriber(&self, base: &str, subscription: &str) -> String {
        let mut envelope = self.0.clone();
        envelope["UnsubscribeURL"] =
            Value::from(format!("{base}/?Action=Unsubscribe&SubscriptionArn={subscription}"));
        envelope.to_string()
    }
}

impl EnvelopeSigner {
    /// Makes a new key, certified from a day before `now` to a year after it.
    pub fn generate(now: Wall) -> Self {
        const DAY: Duration = Duration::from_secs(86_400);
        let before = Wall::from_millis(now.as_millis().saturating_sub(DAY.as_millis() as u64));
        // SNS names its certificates with 32 hexadecimal digits. A new key gets a new name, so no
        // cache goes stale.
        let path = format!("/SimpleNotificationService-{:032x}.pem", fastrand::u128(..));
        Self { signer: Signer::generate(before, now + DAY * 365), path }
    }

    /// The certificate as PEM.
    pub fn certificate(&self) -> &str {
        self.signer.certificate_pem()
    }

    /// The path under which the certificate is served.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn notification(&self, letter: &Letter<'_>) -> SignedEnvelope {
        let text = self.signer.sign(self.draft(EnvelopeKind::Notification, letter, None));
        SignedEnvelope(serde_json::from_str(&text).expect("the signer writes JSON"))
    }

    pub fn confirmation(&self, letter: &Letter<'_>, token: &str) -> String {
        let (base, topic) = (letter.base, letter.topic);
        let confirmation = Confirmation {
            token: token.to_owned(),
            subscribe_url: format!("{base}/?Action=ConfirmSubscription&TopicArn={topic}&Token={token}"),
        };
        self.signer.sign(self.draft(EnvelopeKind::SubscriptionConfirmation, letter, Some(confirmation)))
    }

    fn draft(&self, kind: EnvelopeKind, letter: &Letter<'_>, confirmation: Option<Confirmation>) -> Envelope {
        Envelope {
            kind,
            message_id: letter.id.to_owned(),
            topic_arn: letter.topic.to_owned(),
            message: letter.message.to_owned(),
            subject: letter.subject.map(str::to_owned),
            timestamp: stamp(letter.published),
            published: letter.published,
            confirmation,
            signature_version: SignatureVersion::Two,
            signature: Vec::new(),
            certificate_url: format!("{}{}", letter.base, self.path),
        }
    }
}

impl fmt::Debug for EnvelopeSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvelopeSigner").field("path", &self.path).finish_non_exhaustive()
    }
}

/// RFC 3339 with milliseconds, as SNS and proto3 JSON write it.
pub fn stamp(wall: Wall) -> String {
    humantime::format_rfc3339_millis(wall.to_system_time()).to_string()
}
