//! Targets of what a message may be signed by: the certificate's URL, the certificate, the
//! signature.
//!
//! The seeds were signed by a key that was drawn for them and thrown away: whatever these targets
//! find to be signed that is none of the seeds was not signed by it.

use std::sync::LazyLock;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use nearside::aws::certificate::fetch::Fetcher;
use nearside::aws::certificate::{AdmittedUrl, Certificate, Trust};
use nearside::aws::envelope::{Envelope, SignatureVersion};
use nearside::aws::verify::{Verified, Verifier};
use nearside::config::{RegionConfig, TopicArn};
use nearside::model::ids::RegionId;
use nearside::model::time::{Clock, Wall};
use url::Url;

/// 2026-11-21T05:00:00Z: within the validity of the seeds' certificate.
const NOW: Wall = Wall::from_millis(1_795_237_200_000);
const TOPIC: &str = "arn:aws:sns:eu-west-1:123456789012:changes";
const CERTIFICATE_URL: &str =
    "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem";
const INSECURE: &str = "http://127.0.0.1:4566";
const PEM: &[u8] = include_bytes!("corpus/certificate/genuine.pem");
const GENUINE: [&[u8]; 4] = [
    include_bytes!("corpus/signature/version-1.json"),
    include_bytes!("corpus/signature/version-2.json"),
    include_bytes!("corpus/signature/subscription.json"),
    include_bytes!("corpus/signature/unsubscription.json"),
];

fn topic(text: &str) -> Option<TopicArn> {
    text.parse().ok()
}

fn trust() -> Trust {
    Trust::new(&topic(TOPIC).expect("a topic"), Some(&Url::parse(INSECURE).expect("an origin")))
}

/// The first line is a topic, the rest a URL: what [`Trust::admit`] takes is byte for byte the
/// https URL of a PEM file at that topic's own host, or a plain path at the insecure origin.
pub(crate) fn url(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (arn, url) = text.split_once('\n').unwrap_or((TOPIC, text));
    let Some(topic) = topic(arn) else { return };
    assert_eq!(topic.to_string(), arn);
    let insecure = Url::parse(INSECURE).expect("an origin");
    let Ok(AdmittedUrl { url: admitted, relaxed }) = Trust::new(&topic, Some(&insecure)).admit(url) else { return };
    assert_eq!(admitted.as_str(), url, "fetched as it was compared");
    let clean = admitted.query().is_none() && admitted.fragment().is_none() && admitted.password().is_none();
    assert!(clean && admitted.username().is_empty());
    if relaxed {
        assert_eq!(admitted.origin(), insecure.origin());
        return;
    }
    let suffix = if topic.partition == "aws-cn" { "amazonaws.com.cn" } else { "amazonaws.com" };
    let host = format!("sns.{}.{suffix}", topic.region);
    assert_eq!((admitted.scheme(), admitted.host_str(), admitted.port()), ("https", Some(host.as_str()), None));
    let file = admitted.path().strip_prefix("/SimpleNotificationService-").and_then(|rest| rest.strip_suffix(".pem"));
    assert!(file.is_some_and(|hex| hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())));
}

/// PEM text, or the DER of one certificate: one that [`Certificate::inspect`] takes names SNS and
/// is valid now, and only the seeds' key fits the seeds' signature.
pub(crate) fn certificate(data: &[u8]) {
    let wrapped = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(data));
    let pem = if data.starts_with(b"-----") { data } else { wrapped.as_bytes() };
    let trust = trust();
    let strict = trust.admit(CERTIFICATE_URL).expect("the topic's own URL");
    let Ok(certificate) = Certificate::inspect(pem, &trust, &strict, NOW) else { return };
    assert_eq!(certificate.valid(NOW), Ok(()));
    let leaf = x509_parser::pem::Pem::iter_from_buffer(pem).next().and_then(Result::ok).expect("it was read before");
    assert!(contains(&leaf.contents, b"sns"), "issued to SNS");
    let genuine = Envelope::parse(GENUINE[1]).expect("a seed");
    let text = genuine.string_to_sign();
    assert!(!certificate.signed(SignatureVersion::Two, "another text", &genuine.signature));
    assert!(!certificate.signed(SignatureVersion::One, &text, &genuine.signature));
    if certificate.signed(SignatureVersion::Two, &text, &genuine.signature) {
        assert!(contains(&leaf.contents, &modulus()), "the key is the seeds'");
    }
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// The modulus of the seeds' key, without what stands around it.
fn modulus() -> Vec<u8> {
    let pem = x509_parser::pem::Pem::iter_from_buffer(PEM).next().and_then(Result::ok).expect("a seed");
    let certificate = pem.parse_x509().expect("a seed");
    match certificate.public_key().parsed() {
        Ok(x509_parser::public_key::PublicKey::RSA(key)) => key.modulus.to_vec(),
        _ => Vec::new(),
    }
}

/// A message that [`Verifier::verify`] takes has, field for field, the signed text of one of the
/// seeds.
pub(crate) fn signature(data: &[u8]) {
    static SIGNED: LazyLock<Vec<String>> =
        LazyLock::new(|| GENUINE.iter().map(|raw| Envelope::parse(raw).expect("a seed").string_to_sign()).collect());
    static REGIONS: LazyLock<Vec<RegionConfig>> = LazyLock::new(|| {
        let url = Url::parse("http://127.0.0.1:1").expect("a URL");
        vec![RegionConfig { name: "eu-west-1".to_owned(), url, topic: topic(TOPIC), ..Default::default() }]
    });
    let runtime = crate::requests::runtime();
    let verified = runtime.block_on(async {
        let clock = Clock::simulated(NOW);
        let fetcher = Fetcher::given(|_| Ok(Bytes::from_static(PEM)));
        let verifier = Verifier::new(&REGIONS, None, clock, fetcher);
        tokio::time::timeout(Duration::from_secs(60), verifier.verify(RegionId(0), data)).await
    });
    let Ok(Ok(verified)) = verified else { return };
    let envelope = Envelope::parse(data).expect("verified, so it was read");
    assert!(SIGNED.contains(&envelope.string_to_sign()), "{envelope:?} was never signed");
    assert_eq!(envelope.topic_arn, TOPIC);
    if let Verified::Notification { message, published, .. } = verified {
        assert!(message == envelope.message && published == envelope.published);
    }
}
