//! Parses the JSON envelope that SNS delivers, and builds the text that its signature covers.
//!
//! Nothing here is trusted yet; [`super::verify`] decides that. The UnsubscribeURL is not even
//! read, and `Debug` prints neither tokens nor messages.
//!
//! One text to sign belongs to exactly one envelope. The text joins fields with newlines, so a
//! control character is refused in every signed field but the first (the message): no part of one
//! field can pass for another.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::cache::limits::ENVELOPE_BYTES;
use crate::model::time::Wall;

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::EnumString)]
#[strum(const_into_str)]
pub enum EnvelopeKind {
    Notification,
    /// Somebody subscribed this endpoint.
    SubscriptionConfirmation,
    /// Somebody unsubscribed this endpoint.
    UnsubscribeConfirmation,
}

/// Hash of the text before signing. Both versions use RSA PKCS #1 v1.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::EnumString)]
#[strum(const_into_str)]
pub enum SignatureVersion {
    /// "1": SHA-1, which topics use by default.
    #[strum(serialize = "1")]
    One,
    /// "2": SHA-256.
    #[strum(serialize = "2")]
    Two,
}

/// The bytes are not an SNS envelope. The sender is at fault, and a retry does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the envelope is larger than {} bytes", ENVELOPE_BYTES)]
    Oversized,
    /// Not a JSON object, a field of the wrong type, or a field given twice.
    #[error("the envelope is not the JSON that SNS sends")]
    NotJson,
    /// The named field is missing or null.
    #[error("the envelope has no {0}")]
    Missing(&'static str),
    #[error("the envelope's {0} holds a control character")]
    Control(&'static str),
    #[error("the envelope's Type is unknown")]
    UnknownType,
    #[error("the envelope's SignatureVersion is unknown")]
    UnknownSignatureVersion,
    /// `Timestamp` is not an RFC 3339 time since 1970.
    #[error("the envelope's Timestamp is no time")]
    Timestamp,
    #[error("the envelope's Signature is not base64")]
    Signature,
}

/// A well-formed envelope, not yet verified.
#[derive(Clone, PartialEq, Eq)]
pub struct Envelope {
    /// From `Type`.
    pub kind: EnvelopeKind,
    /// Identifier of the message, equal on every retry.
    pub message_id: String,
    pub topic_arn: String,
    pub message: String,
    /// Present when the publisher gave one.
    pub subject: Option<String>,
    /// `Timestamp` as written, because the signature covers the text.
    pub timestamp: String,
    /// `Timestamp` as a time: when the message was published. The same on every retry.
    pub published: Wall,
    /// `Token` and `SubscribeURL`, present in the two confirmations. Secret; the URL is never
    /// fetched.
    pub confirmation: Option<Confirmation>,
    pub signature_version: SignatureVersion,
    /// Decoded from base64.
    pub signature: Vec<u8>,
    /// `SigningCertURL`, not checked here.
    pub certificate_url: String,
}

/// The extra fields of a confirmation.
#[derive(Clone, PartialEq, Eq)]
pub struct Confirmation {
    /// Secret: its holder can subscribe or unsubscribe this endpoint.
    pub token: String,
    /// Holds the token; kept only because the signature covers it.
    pub subscribe_url: String,
}

/// The envelope's JSON. Unknown fields are ignored; known ones must be strings and appear once.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Fields {
    #[serde(rename = "Type")]
    kind: Option<String>,
    message_id: Option<String>,
    topic_arn: Option<String>,
    message: Option<String>,
    subject: Option<String>,
    timestamp: Option<String>,
    token: Option<String>,
    #[serde(rename = "SubscribeURL")]
    subscribe_url: Option<String>,
    signature_version: Option<String>,
    signature: Option<String>,
    #[serde(rename = "SigningCertURL")]
    signing_cert_url: Option<String>,
}

impl Envelope {
    /// Parses one envelope from `raw`, which may come from anybody.
    pub fn parse(raw: &[u8]) -> Result<Self, Malformed> {
        if raw.len() > ENVELOPE_BYTES {
            return Err(Malformed::Oversized);
        }
        let fields: Fields = serde_json::from_slice(raw).map_err(|_| Malformed::NotJson)?;
        let kind = needed("Type", fields.kind)?.parse().map_err(|_| Malformed::UnknownType)?;
        let signature_version = needed("SignatureVersion", fields.signature_version)?
            .parse()
            .map_err(|_| Malformed::UnknownSignatureVersion)?;
        let signature = needed("Signature", fields.signature)?;
        let timestamp = line("Timestamp", fields.timestamp)?;
        Ok(Self {
            kind,
            message_id: line("MessageId", fields.message_id)?,
            topic_arn: line("TopicArn", fields.topic_arn)?,
            message: needed("Message", fields.message)?,
            subject: fields.subject.map(|subject| line("Subject", Some(subject))).transpose()?,
            published: published(&timestamp).ok_or(Malformed::Timestamp)?,
            timestamp,
            confirmation: match kind {
                EnvelopeKind::Notification => None,
                EnvelopeKind::SubscriptionConfirmation | EnvelopeKind::UnsubscribeConfirmation => {
                    Some(Confirmation {
                        token: line("Token", fields.token)?,
                        subscribe_url: line("SubscribeURL", fields.subscribe_url)?,
                    })
                }
            },
            signature_version,
            signature: STANDARD.decode(signature).map_err(|_| Malformed::Signature)?,
            certificate_url: needed("SigningCertURL", fields.signing_cert_url)?,
        })
    }

    /// The text that SNS signs: names and values in the byte order of the names, each followed by a
    /// newline, including the last. `Subject` appears only if the message has one (SNS developer
    /// guide, "Verifying the signatures of Amazon SNS messages").
    pub fn string_to_sign(&self) -> String {
        let mut text = String::with_capacity(self.message.len() + 512);
        push_field(&mut text, "Message", &self.message);
        push_field(&mut text, "MessageId", &self.message_id);
        if let Some(confirmation) = &self.confirmation {
            push_field(&mut text, "SubscribeURL", &confirmation.subscribe_url);
        } else if let Some(subject) = &self.subject {
            push_field(&mut text, "Subject", subject);
        }
        push_field(&mut text, "Timestamp", &self.timestamp);
        if let Some(confirmation) = &self.confirmation {
            push_field(&mut text, "Token", &confirmation.token);
        }
        push_field(&mut text, "TopicArn", &self.topic_arn);
        push_field(&mut text, "Type", self.kind.into_str());
        text
    }
}

/// Appends a field to the signed text.
fn push_field(text: &mut String, name: &str, value: &str) {
    for part in [name, "\n", value, "\n"] {
        text.push_str(part);
    }
}

fn needed(name: &'static str, value: Option<String>) -> Result<String, Malformed> {
    value.ok_or(Malformed::Missing(name))
}

/// A required field without control characters, so that it cannot run into the next one in the
/// signed text.
fn line(name: &'static str, value: Option<String>) -> Result<String, Malformed> {
    let value = needed(name, value)?;
    if value.chars().any(char::is_control) { Err(Malformed::Control(name)) } else { Ok(value) }
}

fn published(text: &str) -> Option<Wall> {
    crate::protocol::announcement::wall(text.parse().ok()?)
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope")
            .field("kind", &self.kind)
            .field("message_id", &self.message_id)
            .field("topic_arn", &self.topic_arn)
            .field("timestamp", &self.timestamp)
            .field("signature_version", &self.signature_version)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Confirmation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Confirmation").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn notification() -> Value {
        json!({
            "Type": "Notification", "MessageId": "da41e39f", "TopicArn": "arn:aws:sns:eu-west-1:1:changes",
            "Subject": "hello", "Message": "a\nb", "Timestamp": "2026-11-21T05:00:00.123Z",
            "SignatureVersion": "1", "Signature": "AAEC",
            "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem",
            "UnsubscribeURL": "https://sns.eu-west-1.amazonaws.com/?Action=Unsubscribe&secret=tr0ub4dor",
            "MessageAttributes": {"x": {"Type": "String", "Value": "y"}},
        })
    }

    fn confirmation() -> Value {
        let mut fields = notification();
        fields["Type"] = json!("SubscriptionConfirmation");
        fields["Token"] = json!("tok3n");
        fields["SubscribeURL"] = json!("https://sns.eu-west-1.amazonaws.com/?Token=tok3n");
        fields
    }

    fn parse(fields: &Value) -> Result<Envelope, Malformed> {
        Envelope::parse(fields.to_string().as_bytes())
    }

    fn without(mut fields: Value, name: &str) -> Value {
        fields.as_object_mut().unwrap().remove(name);
        fields
    }

    #[test]
    fn notification_signs_documented_text() {
        let with_subject = parse(&notification()).unwrap();
        assert_eq!(
            with_subject.string_to_sign(),
            "Message\na\nb\nMessageId\nda41e39f\nSubject\nhello\nTimestamp\n2026-11-21T05:00:00.123Z\n\
             TopicArn\narn:aws:sns:eu-west-1:1:changes\nType\nNotification\n"
        );
        assert_eq!(with_subject.published, Wall::from_millis(1_795_237_200_123));
        let plain = parse(&without(notification(), "Subject")).unwrap();
        assert_eq!(
            plain.string_to_sign(),
            "Message\na\nb\nMessageId\nda41e39f\nTimestamp\n2026-11-21T05:00:00.123Z\n\
             TopicArn\narn:aws:sns:eu-west-1:1:changes\nType\nNotification\n"
        );
        let mut null = notification();
        null["Subject"] = Value::Null;
        assert_eq!(parse(&null).unwrap(), plain);
    }

    #[test]
    fn confirmations_sign_documented_text() {
        for kind in ["SubscriptionConfirmation", "UnsubscribeConfirmation"] {
            let mut fields = confirmation();
            fields["Type"] = json!(kind);
            assert_eq!(
                parse(&fields).unwrap().string_to_sign(),
                format!(
                    "Message\na\nb\nMessageId\nda41e39f\nSubscribeURL\n\
                     https://sns.eu-west-1.amazonaws.com/?Token=tok3n\nTimestamp\n2026-11-21T05:00:00.123Z\n\
                     Token\ntok3n\nTopicArn\narn:aws:sns:eu-west-1:1:changes\nType\n{kind}\n"
                )
            );
        }
    }

    #[test]
    fn a_missing_field_is_named() {
        let all = ["Type", "MessageId", "TopicArn", "Message", "Timestamp", "SignatureVersion", "Signature"];
        for name in all.into_iter().chain(["SigningCertURL"]) {
            assert_eq!(parse(&without(notification(), name)), Err(Malformed::Missing(name)));
        }
        for name in ["Token", "SubscribeURL"] {
            assert_eq!(parse(&without(confirmation(), name)), Err(Malformed::Missing(name)));
        }
    }

    #[test]
    fn mistyped_or_duplicate_field_is_refused() {
        let mut fields = notification();
        fields["SignatureVersion"] = json!(1);
        assert_eq!(parse(&fields), Err(Malformed::NotJson));
        let twice = notification().to_string().replacen('{', "{\"Message\":\"other\",", 1);
        assert_eq!(Envelope::parse(twice.as_bytes()), Err(Malformed::NotJson));
    }

    #[test]
    fn invalid_field_values_are_refused() {
        let cases = [
            ("Type", "notification", Malformed::UnknownType),
            ("SignatureVersion", "3", Malformed::UnknownSignatureVersion),
            ("SignatureVersion", "", Malformed::UnknownSignatureVersion),
            ("Timestamp", "yesterday", Malformed::Timestamp),
            ("Timestamp", "1969-12-31T23:59:59Z", Malformed::Timestamp),
            ("Signature", "not base64!", Malformed::Signature),
        ];
        for (name, value, expected) in cases {
            let mut fields = notification();
            fields[name] = json!(value);
            assert_eq!(parse(&fields), Err(expected), "{name}={value}");
        }
    }

    #[test]
    fn only_message_may_contain_newline() {
        for name in ["MessageId", "TopicArn", "Subject", "Timestamp", "Token", "SubscribeURL"] {
            let mut fields = confirmation();
            fields[name] = json!("a\nType\nNotification");
            assert_eq!(parse(&fields), Err(Malformed::Control(name)));
        }
    }

    #[test]
    fn oversized_envelope_is_refused_unread() {
        let mut fields = notification();
        fields["Message"] = json!("x".repeat(ENVELOPE_BYTES));
        assert_eq!(parse(&fields), Err(Malformed::Oversized));
    }

    #[test]
    fn debug_output_hides_message_and_token() {
        let mut fields = confirmation();
        fields["Message"] = json!("s3cret");
        let shown = format!("{:?}", parse(&fields).unwrap());
        for secret in ["s3cret", "tok3n", "tr0ub4dor"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(raw in proptest::collection::vec(any::<u8>(), 0..512)) {
            let _ = Envelope::parse(&raw);
        }

        #[test]
        fn arbitrary_field_values_never_panic(name in "(Type|Timestamp|Signature|Subject|SigningCertURL)", value in any::<String>()) {
            let mut fields = notification();
            fields[name] = json!(value);
            if let Ok(envelope) = parse(&fields) {
                let _ = envelope.string_to_sign();
            }
        }
    }
}
