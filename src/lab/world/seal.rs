//! Owns the envelopes of this world: what SNS wraps a message in, signed with the world's own key.
//!
//! Before it: [`super::topic`] has a message. After it: a subscriber verifies the envelope with the certificate that
//! [`super::aws`] serves. Invariant: everything a subscriber verifies is signed; only the UnsubscribeURL differs between
//! the copies of a message.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::publisher::stamp;
use crate::aws::envelope::{Confirmation, Envelope, Kind, SignatureVersion};
use crate::lab::signer::Signer;
use crate::model::time::Wall;

/// What goes into an envelope.
#[derive(Clone, Copy, Debug)]
pub struct Letter<'a> {
    /// MessageId.
    pub id: &'a str,
    /// TopicArn.
    pub topic: &'a str,
    /// Subject, if there is one.
    pub subject: Option<&'a str>,
    /// Message.
    pub message: &'a str,
    /// Timestamp.
    pub published: Wall,
    /// The endpoint under which certificate and confirmation are reached.
    pub base: &'a str,
}

/// Signs.
pub struct Seal {
    signer: Signer,
    path: String,
}

/// A message that is signed and not sent yet: signing costs twenty times what sending does.
#[derive(Debug)]
pub struct Signed {
    pub(crate) id: String,
    pub(crate) message: String,
    pub(crate) sealed: Sealed,
}

/// A signed notification that lacks only what differs between subscribers.
#[derive(Debug)]
pub struct Sealed(Value);

impl Sealed {
    /// The envelope for one subscriber.
    pub fn to_subscriber(&self, base: &str, subscription: &str) -> String {
        let mut envelope = self.0.clone();
        envelope["UnsubscribeURL"] =
            Value::from(format!("{base}/?Action=Unsubscribe&SubscriptionArn={subscription}"));
        envelope.to_string()
    }
}

impl Seal {
    /// A new key, certified for a day before and a year after `now`.
    pub fn generate(now: Wall) -> Self {
        const DAY: Duration = Duration::from_secs(86_400);
        let before = Wall::from_millis(now.as_millis().saturating_sub(DAY.as_millis() as u64));
        // SNS names its certificates by 32 hexadecimal digits; a new key is a new name, so no cache goes stale.
        let path = format!("/SimpleNotificationService-{:032x}.pem", fastrand::u128(..));
        Self { signer: Signer::generate(before, now + DAY * 365), path }
    }

    /// The certificate, PEM.
    pub fn certificate(&self) -> &str {
        self.signer.certificate_pem()
    }

    /// The path under which the certificate is served.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Signs a notification.
    pub fn notification(&self, letter: &Letter<'_>) -> Sealed {
        let text = self.signer.sign(self.draft(Kind::Notification, letter, None));
        Sealed(serde_json::from_str(&text).expect("the signer writes JSON"))
    }

    /// Signs a SubscriptionConfirmation.
    pub fn confirmation(&self, letter: &Letter<'_>, token: &str) -> String {
        let (base, topic) = (letter.base, letter.topic);
        let confirmation = Confirmation {
            token: token.to_owned(),
            subscribe_url: format!("{base}/?Action=ConfirmSubscription&TopicArn={topic}&Token={token}"),
        };
        self.signer.sign(self.draft(Kind::SubscriptionConfirmation, letter, Some(confirmation)))
    }

    fn draft(&self, kind: Kind, letter: &Letter<'_>, confirmation: Option<Confirmation>) -> Envelope {
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

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").field("path", &self.path).finish_non_exhaustive()
    }
}
