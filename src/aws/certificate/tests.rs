//! Which signing certificates and URLs are trusted.

use std::time::Duration;

use rcgen::{BasicConstraints, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};

use super::*;
use crate::lab::signer::{self, SUBJECT, Signer};

const DAY: Duration = Duration::from_secs(86_400);
/// 2026-11-21T05:00:00Z
const NOW: Wall = Wall::from_millis(1_795_237_200_000);
const BEFORE: Wall = Wall::from_millis(1_795_237_200_000 - 86_400_000);
const AFTER: Wall = Wall::from_millis(1_795_237_200_000 + 86_400_000);
const FILE: &str = "SimpleNotificationService-0123456789abcdef0123456789abcdef.pem";

fn topic(partition: &str, region: &str) -> TopicArn {
    TopicArn {
        arn: format!("arn:{partition}:sns:{region}:123456789012:changes"),
        partition: partition.into(),
        region: region.into(),
        account: "123456789012".into(),
        name: "changes".into(),
    }
}

fn ireland() -> Trust {
    Trust::new(&topic("aws", "eu-west-1"), None)
}

fn genuine() -> AdmittedUrl {
    ireland().admit(&format!("https://sns.eu-west-1.amazonaws.com/{FILE}")).unwrap()
}

fn inspect(pem: &str) -> Result<Certificate, Unfit> {
    Certificate::inspect(pem.as_bytes(), &ireland(), &genuine(), NOW)
}

/// A self-signed certificate whose parameters `change` has modified.
fn certified(change: impl FnOnce(&mut rcgen::CertificateParams)) -> String {
    let mut params = signer::params(SUBJECT, BEFORE, AFTER);
    change(&mut params);
    params.self_signed(&signer::rsa_key()).unwrap().pem()
}

#[test]
fn exact_url_of_region_is_admitted() {
    for (partition, region, host) in [
        ("aws", "eu-west-1", "sns.eu-west-1.amazonaws.com"),
        ("aws-us-gov", "us-gov-east-1", "sns.us-gov-east-1.amazonaws.com"),
        ("aws-cn", "cn-north-1", "sns.cn-north-1.amazonaws.com.cn"),
    ] {
        let url = format!("https://{host}/{FILE}");
        let admitted = Trust::new(&topic(partition, region), None).admit(&url).unwrap();
        assert_eq!(admitted, AdmittedUrl { url: Url::parse(&url).unwrap(), relaxed: false });
    }
}

#[test]
fn lookalike_host_is_refused() {
    for url in [
        format!("https://sns.eu-west-1.amazonaws.com.evil.com/{FILE}"),
        format!("https://sns.us-east-1.amazonaws.com/{FILE}"),
        format!("https://sns.eu-west-1.amazonaws.com.cn/{FILE}"),
        format!("https://sns-eu-west-1.amazonaws.com/{FILE}"),
        format!("https://xsns.eu-west-1.amazonaws.com/{FILE}"),
        format!("https://evil.sns.eu-west-1.amazonaws.com/{FILE}"),
        format!("https://evil.com/sns.eu-west-1.amazonaws.com/{FILE}"),
        format!("https://evil.com/?https://sns.eu-west-1.amazonaws.com/{FILE}"),
        format!("https://sns.eu-west-1.amazonaws.com./{FILE}"),
        format!("https://SNS.eu-west-1.amazonaws.com/{FILE}"),
        format!("https://s3.eu-west-1.amazonaws.com/{FILE}"),
        format!("https://sns.eu-west-1.amazonaws.com\\@evil.com/{FILE}"),
        format!("https:\\\\sns.eu-west-1.amazonaws.com/{FILE}"),
        format!("//sns.eu-west-1.amazonaws.com/{FILE}"),
        String::new(),
    ] {
        assert_eq!(ireland().admit(&url), Err(RefusedUrl::Host), "{url}");
    }
}

#[test]
fn other_scheme_port_or_userinfo_refused() {
    for url in [
        format!("http://sns.eu-west-1.amazonaws.com/{FILE}"),
        format!("HTTPS://sns.eu-west-1.amazonaws.com/{FILE}"),
        format!("ftp://sns.eu-west-1.amazonaws.com/{FILE}"),
        format!("https://sns.eu-west-1.amazonaws.com:443/{FILE}"),
        format!("https://sns.eu-west-1.amazonaws.com:8443/{FILE}"),
        format!("https://sns.eu-west-1.amazonaws.com:/{FILE}"),
        format!("https://user@sns.eu-west-1.amazonaws.com/{FILE}"),
        format!("https://sns.eu-west-1.amazonaws.com@evil.com/{FILE}"),
        format!("https://sns.eu-west-1.amazonaws.com:x@evil.com/{FILE}"),
    ] {
        assert_eq!(ireland().admit(&url), Err(RefusedUrl::Host), "{url}");
    }
}

#[test]
fn other_path_query_or_fragment_refused() {
    for rest in [
        "",
        "SimpleNotificationService-.pem",
        "SimpleNotificationService-0123456789abcdef0123456789abcde.pem",
        "SimpleNotificationService-0123456789abcdef0123456789abcdef0.pem",
        "SimpleNotificationService-0123456789abcdef0123456789abcdeg.pem",
        "SimpleNotificationService-0123456789abcdef0123456789abcdef",
        "SimpleNotificationService-0123456789abcdef0123456789abcdef.pem?x=y",
        "SimpleNotificationService-0123456789abcdef0123456789abcdef.pem?",
        "SimpleNotificationService-0123456789abcdef0123456789abcdef.pem#x",
        "SimpleNotificationService-0123456789abcdef0123456789abcdef.pem#",
        "SimpleNotificationService-0123456789abcdef0123456789abcdef.pem ",
        "SimpleNotificationService-0123456789abcdef0123456789abcdef.pem/",
        "/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem",
        "x/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem",
        "x/../SimpleNotificationService-0123456789abcdef0123456789abcdef.pem",
        "_aws/sns/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem",
        "?/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem",
    ] {
        let url = format!("https://sns.eu-west-1.amazonaws.com/{rest}");
        assert_eq!(ireland().admit(&url), Err(RefusedUrl::Path), "{url}");
    }
}

#[test]
fn insecure_signer_admitted_at_exact_origin() {
    let insecure = Url::parse("http://localhost:4566/ignored").unwrap();
    let trust = Trust::new(&topic("aws", "eu-west-1"), Some(&insecure));
    for path in [format!("_aws/sns/{FILE}"), FILE.into(), "SimpleNotificationService-6c.pem".into()] {
        let url = format!("http://localhost:4566/{path}");
        assert!(trust.admit(&url).unwrap().relaxed, "{url}");
        assert_eq!(ireland().admit(&url), Err(RefusedUrl::Host), "without the setting: {url}");
    }
    for url in [
        format!("http://localhost:4567/{FILE}"),
        format!("http://localhost/{FILE}"),
        format!("https://localhost:4566/{FILE}"),
        format!("http://127.0.0.1:4566/{FILE}"),
        format!("http://localhost:4566@evil.com/{FILE}"),
        format!("http://localhost:45660/{FILE}"),
        format!("http://x@localhost:4566/{FILE}"),
        format!("http://localhost.evil.com:4566/{FILE}"),
        format!("http://sns.eu-west-1.amazonaws.com/{FILE}"),
    ] {
        assert_eq!(trust.admit(&url), Err(RefusedUrl::Host), "{url}");
    }
    for path in ["", "x.pem", "_aws/../SimpleNotificationService-6c.pem", "?/SimpleNotificationService-6c.pem"] {
        assert_eq!(trust.admit(&format!("http://localhost:4566/{path}")), Err(RefusedUrl::Path), "{path}");
    }
    // An insecure signer neither relaxes nor blocks what SNS itself serves.
    assert!(!trust.admit(&format!("https://sns.eu-west-1.amazonaws.com/{FILE}")).unwrap().relaxed);
    let relaxed_path = format!("https://sns.eu-west-1.amazonaws.com/_aws/sns/{FILE}");
    assert_eq!(trust.admit(&relaxed_path), Err(RefusedUrl::Path));
}

#[test]
fn validity_includes_first_and_last_second() {
    let pem = Signer::generate(BEFORE, AFTER).certificate_pem().to_owned();
    for (now, outcome) in [
        (BEFORE, Ok(())),
        (shifted(BEFORE, -1), Err(Unfit::NotYetValid)),
        (shifted(AFTER, 999), Ok(())),
        (shifted(AFTER, 1000), Err(Unfit::Expired)),
    ] {
        let inspected = Certificate::inspect(pem.as_bytes(), &ireland(), &genuine(), now);
        assert_eq!(inspected.map(|_| ()), outcome);
    }
    let kept = inspect(&pem).unwrap();
    assert_eq!(kept.valid(NOW), Ok(()));
    assert_eq!(kept.valid(AFTER + DAY), Err(Unfit::Expired));
    assert_eq!(kept.valid(shifted(BEFORE, -1)), Err(Unfit::NotYetValid));
}

fn shifted(wall: Wall, millis: i64) -> Wall {
    Wall::from_millis(wall.as_millis().saturating_add_signed(millis))
}

#[test]
fn key_below_2048_bits_is_refused() {
    // 1024 bits, made with openssl because aws-lc-rs does not make such keys. Valid until 2100 and
    // otherwise sound.
    let pem = include_bytes!("small_key.pem");
    let inspected = Certificate::inspect(pem, &ireland(), &genuine(), AFTER);
    assert_eq!(inspected.map(|_| ()), Err(Unfit::SmallKey));
}

#[test]
fn non_rsa_key_is_refused() {
    let key = KeyPair::generate().unwrap();
    let pem = signer::params(SUBJECT, BEFORE, AFTER).self_signed(&key).unwrap().pem();
    assert_eq!(inspect(&pem).map(|_| ()), Err(Unfit::NotRsa));
}

#[test]
fn foreign_certificate_needs_relaxed_origin() {
    for name in ["sqs.amazonaws.com", "sns.amazonaws.com.evil.com", "sns-signing.us-east-1.amazonaws.com", ""] {
        let pem = certified(|params| params.distinguished_name.push(DnType::CommonName, name));
        assert_eq!(inspect(&pem).map(|_| ()), Err(Unfit::Subject), "{name}");
        let relaxed = AdmittedUrl { relaxed: true, ..genuine() };
        assert!(Certificate::inspect(pem.as_bytes(), &ireland(), &relaxed, NOW).is_ok());
    }
}

#[test]
fn sns_certificate_names_known_per_partition() {
    assert!(is_known("aws", "us-east-1", "sns.amazonaws.com", false));
    assert!(is_known("aws", "us-east-1", "sns.amazonaws.com", true));
    assert!(is_known("aws", "af-south-1", "sns-signing.af-south-1.amazonaws.com", true));
    assert!(is_known("aws-us-gov", "us-gov-east-1", "sns-us-gov-west-1.amazonaws.com", false));
    assert!(is_known("aws-cn", "cn-north-1", "sns-cn-north-1.amazonaws.com.cn", false));
    assert!(!is_known("aws-cn", "cn-north-1", "sns.amazonaws.com", false));
    assert!(!is_known("aws", "eu-west-1", "sns-us-gov-west-1.amazonaws.com", false));
}

/// True if a certificate with this name is taken for the region's.
fn is_known(partition: &str, region: &str, name: &str, alternative: bool) -> bool {
    let pem = certified(|params| {
        if alternative {
            params.distinguished_name.push(DnType::CommonName, "other");
            params.subject_alt_names = vec![SanType::DnsName(name.try_into().unwrap())];
        } else {
            params.distinguished_name.push(DnType::CommonName, name);
        }
    });
    let trust = Trust::new(&topic(partition, region), None);
    Certificate::inspect(pem.as_bytes(), &trust, &genuine(), NOW).is_ok()
}

/// An authority, the certificate it issued to SNS, and both as they are served.
struct Chain {
    authority: CertifiedIssuer<'static, KeyPair>,
    leaf: String,
}

fn chain(change: impl FnOnce(&mut rcgen::CertificateParams)) -> Chain {
    let mut params = signer::params("An Authority", BEFORE, AFTER);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut params);
    let authority = CertifiedIssuer::self_signed(params, signer::rsa_key()).unwrap();
    let leaf = signer::params(SUBJECT, BEFORE, AFTER).signed_by(&signer::rsa_key(), &authority).unwrap().pem();
    Chain { authority, leaf }
}

#[test]
fn valid_chain_is_accepted() {
    let Chain { authority, leaf } = chain(|_| {});
    assert!(inspect(&format!("{leaf}{}", authority.pem())).is_ok());
    assert!(inspect(&leaf).is_ok(), "TLS to the host is the root: the authority need not be served");
}

#[test]
fn chain_needs_signature_of_authority() {
    // Same name, different key: only the signature tells them apart.
    let (one, other) = (chain(|_| {}), chain(|_| {}));
    assert_eq!(inspect(&format!("{}{}", one.leaf, other.authority.pem())).map(|_| ()), Err(Unfit::Chain));
}

#[test]
fn chain_needs_matching_authority_name() {
    let one = chain(|_| {});
    let key = KeyPair::from_pem(&one.authority.key().serialize_pem()).unwrap();
    let mut params = signer::params("Another Authority", BEFORE, AFTER);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let renamed = params.self_signed(&key).unwrap().pem();
    assert_eq!(inspect(&format!("{}{renamed}", one.leaf)).map(|_| ()), Err(Unfit::Chain));
}

#[test]
fn chain_rejects_non_ca_issuer() {
    let Chain { authority, leaf } = chain(|params| params.is_ca = IsCa::ExplicitNoCa);
    assert_eq!(inspect(&format!("{leaf}{}", authority.pem())).map(|_| ()), Err(Unfit::Chain));
}

#[test]
fn chain_expires_with_first_link() {
    let Chain { authority, leaf } =
        chain(|params| params.not_after = Wall::from_millis(NOW.as_millis() - 1000).to_system_time().into());
    assert_eq!(inspect(&format!("{leaf}{}", authority.pem())).map(|_| ()), Err(Unfit::Expired));
}

#[test]
fn what_is_no_certificate_is_unreadable() {
    let pem = Signer::generate(BEFORE, AFTER).certificate_pem().to_owned();
    for text in [
        String::new(),
        "hello".into(),
        pem.replace("CERTIFICATE", "PUBLIC KEY"),
        pem[..pem.len() / 2].into(),
        "-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n".into(),
        pem.repeat(limits::CERTIFICATE_CHAIN + 1),
    ] {
        assert_eq!(inspect(&text).map(|_| ()), Err(Unfit::Unreadable), "{text}");
    }
}
