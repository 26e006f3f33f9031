//! The counterpart of [`nearside::aws::verify`]: messages signed as SNS signs them, with a key made
//! here, for the topics of `nearside-lab dev` and for tests. Such a message differs from SNS's own only
//! in the key. The key lives as long as its [`Signer`] and guards nothing. Only a sidecar whose
//! `insecure_sns_signer` names the origin that serves its certificate (or whose fetcher hands it
//! out) trusts it.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nearside::aws::envelope::{Confirmation, Envelope, EnvelopeKind, SignatureVersion};
use nearside::model::time::Wall;
use rcgen::{CertificateParams, DnType, KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use serde_json::{Value, json};
use url::Url;
use x509_parser::der_parser::der::parse_der;
use x509_parser::num_bigint::BigUint;

use super::uuid;

/// The name that SNS's certificates are issued to in most regions.
pub const SUBJECT: &str = "sns.amazonaws.com";

pub struct Signer {
    sha256: RsaKeyPair,
    sha1: Textbook,
    pem: String,
}

impl Signer {
    /// Makes a 2048-bit key and certifies it for SNS's name between two times (before the year
    /// 10000).
    pub fn generate(not_before: Wall, not_after: Wall) -> Self {
        let key = rsa_key();
        let pem =
            params(SUBJECT, not_before, not_after).self_signed(&key).expect("the parameters are complete").pem();
        Self::of(&key, pem)
    }

    /// Uses `key` with a certificate that was made elsewhere.
    pub(crate) fn of(key: &KeyPair, pem: String) -> Self {
        let pkcs8 = key.serialize_der();
        Self {
            sha256: RsaKeyPair::from_pkcs8(&pkcs8).expect("rcgen writes PKCS #8"),
            sha1: Textbook::from_pkcs8(&pkcs8).expect("an RSA key in PKCS #8 has these fields"),
            pem,
        }
    }

    /// Certificate to serve at its URL, as PEM.
    pub fn certificate_pem(&self) -> &str {
        &self.pem
    }

    /// A published message with a new MessageId. A retry sends the same text again.
    pub fn notification(
        &self,
        topic_arn: &str,
        message: &str,
        timestamp: Wall,
        certificate_url: &str,
        version: SignatureVersion,
    ) -> String {
        self.sign(draft(EnvelopeKind::Notification, topic_arn, message, timestamp, certificate_url, version))
    }

    /// Confirmation message to an endpoint that is subscribed.
    pub fn confirmation(
        &self,
        topic_arn: &str,
        token: &str,
        timestamp: Wall,
        certificate_url: &str,
        version: SignatureVersion,
    ) -> String {
        let message = "You have chosen to subscribe to a topic. Confirm with the token.";
        let kind = EnvelopeKind::SubscriptionConfirmation;
        let draft = draft(kind, topic_arn, message, timestamp, certificate_url, version);
        self.sign(with_token(draft, token))
    }

    /// Confirmation message to an endpoint that is unsubscribed.
    pub fn unsubscribe_confirmation(
        &self,
        topic_arn: &str,
        token: &str,
        timestamp: Wall,
        certificate_url: &str,
        version: SignatureVersion,
    ) -> String {
        let message = "You have chosen to deactivate a subscription. Confirm it again with the token.";
        let kind = EnvelopeKind::UnsubscribeConfirmation;
        let draft = draft(kind, topic_arn, message, timestamp, certificate_url, version);
        self.sign(with_token(draft, token))
    }

    /// Signs any envelope, replacing any signature that it had, and writes it as SNS does.
    pub fn sign(&self, mut envelope: Envelope) -> String {
        let text = envelope.string_to_sign();
        envelope.signature = match envelope.signature_version {
            SignatureVersion::One => self.sha1.sign(text.as_bytes()),
            SignatureVersion::Two => {
                let mut signature = vec![0; self.sha256.public_modulus_len()];
                self.sha256
                    .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
                    .expect("the buffer has the modulus's length");
                signature
            }
        };
        write(&envelope)
    }
}

pub(crate) fn rsa_key() -> KeyPair {
    KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("the system has random numbers")
}

pub(crate) fn params(common_name: &str, not_before: Wall, not_after: Wall) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = not_before.to_system_time().into();
    params.not_after = not_after.to_system_time().into();
    params
}

/// An envelope that lacks only its signature.
pub(crate) fn draft(
    kind: EnvelopeKind,
    topic_arn: &str,
    message: &str,
    published: Wall,
    certificate_url: &str,
    signature_version: SignatureVersion,
) -> Envelope {
    Envelope {
        kind,
        message_id: uuid::random(),
        topic_arn: topic_arn.to_owned(),
        message: message.to_owned(),
        subject: None,
        timestamp: timestamp(published),
        published,
        confirmation: None,
        signature_version,
        signature: Vec::new(),
        certificate_url: certificate_url.to_owned(),
    }
}

fn with_token(mut envelope: Envelope, token: &str) -> Envelope {
    let subscribe_url = format!(
        "{}/?Action=ConfirmSubscription&TopicArn={}&Token={token}",
        origin(&envelope.certificate_url),
        envelope.topic_arn
    );
    envelope.confirmation = Some(Confirmation { token: token.to_owned(), subscribe_url });
    envelope
}

fn write(envelope: &Envelope) -> String {
    let mut fields = json!({
        "Type": envelope.kind.into_str(),
        "MessageId": envelope.message_id,
        "TopicArn": envelope.topic_arn,
        "Message": envelope.message,
        "Timestamp": envelope.timestamp,
        "SignatureVersion": envelope.signature_version.into_str(),
        "Signature": STANDARD.encode(&envelope.signature),
        "SigningCertURL": envelope.certificate_url,
    });
    if let Some(subject) = &envelope.subject {
        fields["Subject"] = Value::from(subject.as_str());
    }
    match &envelope.confirmation {
        Some(confirmation) => {
            fields["Token"] = Value::from(confirmation.token.as_str());
            fields["SubscribeURL"] = Value::from(confirmation.subscribe_url.as_str());
        }
        None => {
            let (origin, topic) = (origin(&envelope.certificate_url), &envelope.topic_arn);
            fields["UnsubscribeURL"] =
                Value::from(format!("{origin}/?Action=Unsubscribe&SubscriptionArn={topic}:{}", uuid::random()));
        }
    }
    fields.to_string()
}

fn origin(url: &str) -> String {
    Url::parse(url).map_or_else(|_| String::new(), |url| url.origin().ascii_serialization())
}

/// `2026-11-21T05:00:00.000Z`: SNS always writes three digits of a second.
fn timestamp(wall: Wall) -> String {
    humantime::format_rfc3339_millis(wall.to_system_time()).to_string()
}

/// RSA by the formula (RFC 8017 sections 5.2.1 and 8.2.1), only for SignatureVersion 1: real topics
/// use SHA-1 unless they are asked otherwise, and aws-lc-rs verifies such signatures but, rightly,
/// makes none. It is not safe against timing attacks, which does not matter for a key that guards
/// nothing.
struct Textbook {
    modulus: BigUint,
    exponent: BigUint,
    length: usize,
}

/// `DigestInfo` of SHA-1 up to the digest itself, RFC 8017 section 9.2 note 1.
const SHA1_PREFIX: [u8; 15] =
    [0x30, 0x21, 0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0x00, 0x04, 0x14];

impl Textbook {
    /// From PrivateKeyInfo (RFC 5208) around RSAPrivateKey (RFC 8017 appendix A.1.2): version, n,
    /// e, d.
    fn from_pkcs8(pkcs8: &[u8]) -> Option<Self> {
        let info = parse_der(pkcs8).ok()?.1;
        let key = parse_der(info.as_sequence().ok()?.get(2)?.as_slice().ok()?).ok()?.1;
        let fields = key.as_sequence().ok()?;
        let (modulus, exponent) = (fields.get(1)?.as_biguint().ok()?, fields.get(3)?.as_biguint().ok()?);
        Some(Self { length: modulus.bits().div_ceil(8) as usize, modulus, exponent })
    }

    fn sign(&self, text: &[u8]) -> Vec<u8> {
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, text);
        let tail = [&[0], SHA1_PREFIX.as_slice(), hash.as_ref()].concat();
        // 00 01 ff ... ff 00 DigestInfo, as long as the modulus.
        let mut encoded = vec![0xff; self.length - tail.len()];
        encoded[..2].copy_from_slice(&[0, 1]);
        encoded.extend(tail);
        let signature = BigUint::from_bytes_be(&encoded).modpow(&self.exponent, &self.modulus).to_bytes_be();
        let mut padded = vec![0; self.length - signature.len()];
        padded.extend(signature);
        padded
    }
}
