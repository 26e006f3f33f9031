//! Decides who may sign a topic's messages: where a signing certificate may come from, and what it
//! must contain.
//!
//! The root of trust is TLS to the exact host that the *configured* topic implies; every check on
//! the certificate itself comes on top of that. [`Trust::admit`] lets through only a URL that is,
//! byte for byte, one that SNS would write for this topic, or one at the configured insecure
//! origin. Nothing untrusted gets into a URL that is fetched.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::signature::{
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA256,
};
use tokio::sync::Semaphore;
use url::Url;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::PublicKey;
use x509_parser::x509::X509Version;

use super::envelope::SignatureVersion;
use crate::aws::limits;
use crate::config::TopicArn;
use crate::model::time::Wall;

pub mod fetch;

/// The smallest RSA modulus allowed in the signing key, or in any RSA key above it in the chain, in
/// bits.
const KEY_BITS: usize = 2048;

/// A `SigningCertURL` that SNS would not write for the configured topic. The message is forged or
/// belongs to another topic; a retry does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusedUrl {
    /// Another scheme or host, a port, userinfo, or no URL at all.
    #[error("the certificate's URL is not at the topic's SNS host")]
    Host,
    /// The host is right, but the path is wrong, or there is a query or a fragment.
    #[error("the certificate's URL has not SNS's path")]
    Path,
}

/// A certificate that was fetched and must not be used: either it is not SNS's, or SNS served a bad
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Not PEM, not X.509, or more blocks than [`limits::CERTIFICATE_CHAIN`].
    #[error("the signing certificate cannot be read")]
    Unreadable,
    /// The certificate, or one above it in the chain, is not valid yet.
    #[error("the signing certificate is not valid yet")]
    NotYetValid,
    /// The certificate, or one above it in the chain, has expired.
    #[error("the signing certificate has expired")]
    Expired,
    #[error("the signing certificate's key is not RSA")]
    NotRsa,
    /// Its key, or one above it in the chain, has fewer than 2048 bits.
    #[error("the signing certificate's key is too small")]
    SmallKey,
    /// It was issued to someone else.
    #[error("the signing certificate is not SNS's")]
    Subject,
    /// A chain was served, and one of its links does not hold.
    #[error("the signing certificate's chain is broken")]
    Chain,
}

/// Who may sign the messages of one configured topic.
#[derive(Clone, Debug)]
pub struct Trust {
    /// For example `https://sns.eu-west-1.amazonaws.com/`.
    prefix: String,
    /// The certificate must carry one of these names.
    subjects: Vec<String>,
    /// For example `http://127.0.0.1:4566/`: the only origin for which scheme, host, path and
    /// subject are relaxed.
    insecure: Option<String>,
    /// Lets one fetch at a time through for URLs that have not yielded a certificate yet, so that
    /// a sender that makes URLs up only delays itself.
    unknown: Arc<Semaphore>,
}

/// A URL that may be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmittedUrl {
    pub url: Url,
    /// The URL is at the insecure origin, so its certificate needs no particular subject.
    pub relaxed: bool,
}

impl Trust {
    /// Trusts what `topic`'s partition and region imply, plus the `insecure_sns_signer` if one is
    /// configured.
    pub fn new(topic: &TopicArn, insecure: Option<&Url>) -> Self {
        let suffix = if topic.partition == "aws-cn" { "amazonaws.com.cn" } else { "amazonaws.com" };
        let region = &topic.region;
        let mut subjects = vec![
            // Most regions' certificates are issued to the first name. The others are the forms
            // used by opt-in, Chinese and GovCloud regions (listed in aws-sdk-java's
            // sns-message-manager). Regions are not named one by one, because new ones keep coming.
            format!("sns.{suffix}"),
            format!("sns-signing.{region}.{suffix}"),
            format!("sns-{region}.{suffix}"),
            format!("sns.{region}.{suffix}"),
        ];
        if topic.partition == "aws-us-gov" {
            // Both GovCloud regions share one certificate.
            subjects.push(format!("sns-us-gov-west-1.{suffix}"));
        }
        Self {
            prefix: format!("https://sns.{region}.{suffix}/"),
            subjects,
            insecure: insecure.map(|url| format!("{}/", url.origin().ascii_serialization())),
            unknown: Arc::new(Semaphore::new(1)),
        }
    }

    /// Decides whether a certificate may be fetched from `text`. The text is compared, not parsed:
    /// a parser forgives backslashes, tabs, capitals and default ports, and look-alike URLs hide in
    /// exactly those.
    pub fn admit(&self, text: &str) -> Result<AdmittedUrl, RefusedUrl> {
        if let Some(path) = text.strip_prefix(&self.prefix) {
            let right = file_digits(path).is_some_and(|digits| digits.len() == 32);
            return if right { admitted(text, false) } else { Err(RefusedUrl::Path) };
        }
        if let Some(path) = self.insecure.as_ref().and_then(|prefix| text.strip_prefix(prefix)) {
            return if relaxed_path(path) { admitted(text, true) } else { Err(RefusedUrl::Path) };
        }
        Err(RefusedUrl::Host)
    }
}

fn admitted(text: &str, relaxed: bool) -> Result<AdmittedUrl, RefusedUrl> {
    Url::parse(text).map(|url| AdmittedUrl { url, relaxed }).map_err(|_| RefusedUrl::Path)
}

/// The hex digits in `SimpleNotificationService-<hex>.pem`.
fn file_digits(file: &str) -> Option<&str> {
    let digits = file.strip_prefix("SimpleNotificationService-")?.strip_suffix(".pem")?;
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(digits)
}

/// At the insecure origin the file may be inside directories with plain names, such as `_aws/sns/`.
fn relaxed_path(path: &str) -> bool {
    let mut segments = path.split('/').rev();
    let file = segments.next().is_some_and(|file| file_digits(file).is_some());
    file && segments.all(|segment| {
        !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    })
}

/// A signing certificate's key, and the time span in which it may be used.
pub struct Certificate {
    sha1: ParsedPublicKey,
    sha256: ParsedPublicKey,
    not_before: Wall,
    not_after: Wall,
}

impl Certificate {
    /// Reads `pem`, served for `admitted`, and checks it against everything `trust` requires at
    /// `now`.
    ///
    /// Several PEM blocks form a chain, with the signing certificate first. Every link must then
    /// hold, although nothing above the last certificate is known: TLS to the host is the root.
    pub fn inspect(pem: &[u8], trust: &Trust, admitted: &AdmittedUrl, now: Wall) -> Result<Self, Unfit> {
        let blocks: Vec<Pem> = Pem::iter_from_buffer(pem)
            .take(limits::CERTIFICATE_CHAIN + 1)
            .collect::<Result<_, _>>()
            .map_err(|_| Unfit::Unreadable)?;
        if blocks.len() > limits::CERTIFICATE_CHAIN {
            return Err(Unfit::Unreadable);
        }
        let chain: Vec<X509Certificate<'_>> = blocks.iter().map(read).collect::<Result<_, _>>()?;
        let leaf = chain.first().ok_or(Unfit::Unreadable)?;
        let (mut not_before, mut not_after) = (Wall::default(), Wall::from_millis(u64::MAX));
        for certificate in &chain {
            let (from, until) = dates(certificate);
            (not_before, not_after) = (not_before.max(from), not_after.min(until));
            large_enough(certificate)?;
        }
        within(not_before, not_after, now)?;
        if !admitted.relaxed && !names(leaf).any(|name| trust.subjects.iter().any(|known| known == name)) {
            return Err(Unfit::Subject);
        }
        for link in chain.windows(2) {
            holds(&link[0], &link[1])?;
        }
        let key = &leaf.public_key().subject_public_key.data;
        Ok(Self {
            sha1: ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, key)
                .map_err(|_| Unfit::NotRsa)?,
            sha256: ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key).map_err(|_| Unfit::NotRsa)?,
            not_before,
            not_after,
        })
    }

    /// Checks that the certificate and its chain may be used at `now`.
    pub fn valid(&self, now: Wall) -> Result<(), Unfit> {
        within(self.not_before, self.not_after, now)
    }

    pub fn signed(&self, version: SignatureVersion, text: &str, signature: &[u8]) -> bool {
        let key = match version {
            SignatureVersion::One => &self.sha1,
            SignatureVersion::Two => &self.sha256,
        };
        key.verify_sig(text.as_bytes(), signature).is_ok()
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("not_before", &self.not_before)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

fn read(block: &Pem) -> Result<X509Certificate<'_>, Unfit> {
    match X509Certificate::from_der(&block.contents) {
        Ok(([], certificate)) if block.label == "CERTIFICATE" => Ok(certificate),
        _ => Err(Unfit::Unreadable),
    }
}

/// The first and last moment of validity, both inclusive, to the second (RFC 5280 section 4.1.2.5).
fn dates(certificate: &X509Certificate<'_>) -> (Wall, Wall) {
    let validity = certificate.validity();
    let until = from_seconds(validity.not_after.timestamp()).as_millis().saturating_add(999);
    (from_seconds(validity.not_before.timestamp()), Wall::from_millis(until))
}

fn from_seconds(seconds: i64) -> Wall {
    Wall::from_millis(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000))
}

fn within(from: Wall, until: Wall, now: Wall) -> Result<(), Unfit> {
    if now < from {
        Err(Unfit::NotYetValid)
    } else if now > until {
        Err(Unfit::Expired)
    } else {
        Ok(())
    }
}

/// Checks the key's kind and size. The signing key must be RSA, which [`ParsedPublicKey`] enforces
/// later; certificates above it may use EC keys too.
fn large_enough(certificate: &X509Certificate<'_>) -> Result<(), Unfit> {
    match certificate.public_key().parsed() {
        Ok(PublicKey::RSA(key)) => {
            let zeros = key.modulus.iter().take_while(|byte| **byte == 0).count();
            let modulus = &key.modulus[zeros..];
            let bits = modulus.len() * 8 - modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
            if bits < KEY_BITS { Err(Unfit::SmallKey) } else { Ok(()) }
        }
        Ok(PublicKey::EC(_)) => Ok(()),
        _ => Err(Unfit::NotRsa),
    }
}

/// The names the certificate was issued to: its DNS names and its common names.
fn names<'a>(certificate: &'a X509Certificate<'a>) -> impl Iterator<Item = &'a str> {
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let dns =
        alternative.into_iter().flat_map(|extension| &extension.value.general_names).filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(*name),
            _ => None,
        });
    let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    dns.chain(common)
}

/// Checks that `above` issued `below`: it carries the issuer's name, may sign certificates, and
/// signed this one.
fn holds(below: &X509Certificate<'_>, above: &X509Certificate<'_>) -> Result<(), Unfit> {
    let may_sign = above.version() == X509Version::V3 && above.is_ca();
    let named = below.issuer().as_raw() == above.subject().as_raw();
    let signed = below.verify_signature(Some(above.public_key())).is_ok();
    if may_sign && named && signed { Ok(()) } else { Err(Unfit::Chain) }
}

#[cfg(test)]
mod tests;
