//! Which envelopes pass for SNS's, and of which topic.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::aws::envelope::SignatureVersion;
use crate::aws::limits;
use crate::cache::limits::ENVELOPE_BYTES;
use crate::lab::signer::{self, Signer};

/// 2026-11-21T05:00:00.123Z
const NOW: Wall = Wall::from_millis(1_795_237_200_123);
const DAY: u64 = 86_400_000;
const IRELAND: RegionId = RegionId(0);
const VIRGINIA: RegionId = RegionId(1);
const QUIET: RegionId = RegionId(2);
const TOPIC: &str = "arn:aws:sns:eu-west-1:123456789012:changes";
const TOPIC_US: &str = "arn:aws:sns:us-east-1:123456789012:changes";
const URL: &str =
    "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem";
const URL_US: &str =
    "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem";
const MESSAGE: &str = r#"{"recordType":"context","key":"acme","version":7}"#;

/// A signer whose certificate is valid from yesterday until tomorrow.
fn new_signer() -> Signer {
    Signer::generate(Wall::from_millis(NOW.as_millis() - DAY), NOW + Duration::from_millis(DAY))
}

static SNS: LazyLock<Signer> = LazyLock::new(new_signer);
static STRANGER: LazyLock<Signer> = LazyLock::new(new_signer);

fn region(name: &str, arn: Option<&str>) -> RegionConfig {
    let topic = arn.map(|arn| TopicArn {
        arn: arn.into(),
        partition: "aws".into(),
        region: name.into(),
        account: "123456789012".into(),
        name: "changes".into(),
    });
    RegionConfig { name: name.into(), url: Url::parse("http://127.0.0.1:1").unwrap(), topic, ..Default::default() }
}

type Served = Arc<Mutex<HashMap<String, Result<Bytes, Unfetched>>>>;

/// A verifier whose certificates come from `served`; every URL it fetches is recorded.
struct World {
    verifier: Verifier,
    clock: Clock,
    served: Served,
    fetched: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new() -> Self {
        Self::with(None)
    }

    fn with(insecure: Option<&str>) -> Self {
        let regions = [region("eu-west-1", Some(TOPIC)), region("us-east-1", Some(TOPIC_US)), region("x", None)];
        let served: Served = Arc::default();
        let fetched: Arc<Mutex<Vec<String>>> = Arc::default();
        let fetcher = Fetcher::given({
            let (served, fetched) = (served.clone(), fetched.clone());
            move |url| {
                fetched.lock().push(url.to_string());
                served.lock().get(url.as_str()).cloned().unwrap_or(Err(Unfetched::Status(404)))
            }
        });
        let clock = Clock::simulated(NOW);
        let insecure = insecure.map(|url| Url::parse(url).unwrap());
        let verifier = Verifier::new(&regions, insecure.as_ref(), clock.clone(), fetcher);
        let world = Self { verifier, clock, served, fetched };
        world.serve(URL, &SNS);
        world.serve(URL_US, &SNS);
        world
    }

    fn serve(&self, url: &str, signer: &Signer) {
        self.answer(url, Ok(Bytes::copy_from_slice(signer.certificate_pem().as_bytes())));
    }

    fn answer(&self, url: &str, answer: Result<Bytes, Unfetched>) {
        self.served.lock().insert(url.into(), answer);
    }

    async fn verify(&self, raw: &str) -> Result<Verified, Rejected> {
        self.verifier.verify(IRELAND, raw.as_bytes()).await
    }

    fn fetches(&self) -> usize {
        self.fetched.lock().len()
    }
}

fn genuine(version: SignatureVersion) -> String {
    SNS.notification(TOPIC, MESSAGE, NOW, URL, version)
}

fn altered(raw: &str, field: &str, value: &str) -> String {
    let mut fields: Value = serde_json::from_str(raw).unwrap();
    fields[field] = json!(value);
    fields.to_string()
}

fn at(url: &str) -> String {
    SNS.notification(TOPIC, MESSAGE, NOW, url, SignatureVersion::Two)
}

#[tokio::test(start_paused = true)]
async fn genuine_notification_verifies_in_both_versions() {
    let world = World::new();
    for version in [SignatureVersion::One, SignatureVersion::Two] {
        let raw = genuine(version);
        let message_id = serde_json::from_str::<Value>(&raw).unwrap()["MessageId"].as_str().unwrap().to_owned();
        let expected = Verified::Notification { message: MESSAGE.into(), published: NOW, message_id };
        assert_eq!(world.verify(&raw).await, Ok(expected));
    }
    assert_eq!(world.fetches(), 1, "the certificate is kept");
}

#[tokio::test(start_paused = true)]
async fn confirmations_verify_without_exposing_token() {
    let world = World::new();
    let confirmation = SNS.confirmation(TOPIC, "tok3n", NOW, URL, SignatureVersion::One);
    let verified = world.verify(&confirmation).await.unwrap();
    assert!(!format!("{verified:?}").contains("tok3n"));
    let Verified::Confirmation { token, topic } = verified else { panic!("{verified:?}") };
    assert_eq!((token.as_str(), topic.arn.as_str()), ("tok3n", TOPIC));
    let farewell = SNS.unsubscribe_confirmation(TOPIC, "tok3n", NOW, URL, SignatureVersion::Two);
    assert_eq!(world.verify(&farewell).await, Ok(Verified::Unsubscribed { published: NOW }));
    for raw in [confirmation, farewell] {
        let forged = world.verify(&altered(&raw, "Token", "an0ther")).await;
        assert_eq!(forged, Err(Rejected::Signature));
        assert_eq!(world.verify(&altered(&raw, "SubscribeURL", "https://evil.com")).await, Err(Rejected::Signature));
    }
}

#[tokio::test(start_paused = true)]
async fn altered_fields_are_forged() {
    let world = World::new();
    let mut envelope = Envelope::parse(genuine(SignatureVersion::Two).as_bytes()).unwrap();
    envelope.subject = Some("a subject".into());
    let with_subject = SNS.sign(envelope);
    assert!(world.verify(&with_subject).await.is_ok());
    for (field, value) in [
        ("Message", r#"{"recordType":"context","key":"acme","version":8}"#),
        ("Subject", "another"),
        ("Timestamp", "2026-11-21T05:00:00.124Z"),
        ("MessageId", "another"),
    ] {
        let forged = altered(&with_subject, field, value);
        assert_eq!(world.verify(&forged).await, Err(Rejected::Signature), "{field}");
    }
    let added = altered(&genuine(SignatureVersion::Two), "Subject", "added");
    assert_eq!(world.verify(&added).await, Err(Rejected::Signature));
    let mut removed: Value = serde_json::from_str(&with_subject).unwrap();
    removed.as_object_mut().unwrap().remove("Subject");
    assert_eq!(world.verify(&removed.to_string()).await, Err(Rejected::Signature));
    let confirmation = SNS.confirmation(TOPIC, "tok3n", NOW, URL, SignatureVersion::Two);
    let retyped = altered(&confirmation, "Type", "UnsubscribeConfirmation");
    assert_eq!(world.verify(&retyped).await, Err(Rejected::Signature));
}

#[tokio::test(start_paused = true)]
async fn an_altered_topic_is_forged() {
    // Signed for another topic of the same account and region, then rewritten to name ours.
    let world = World::new();
    let other = SNS.notification(&format!("{TOPIC}-of-others"), MESSAGE, NOW, URL, SignatureVersion::Two);
    assert_eq!(world.verify(&other).await, Err(Rejected::Topic));
    assert_eq!(world.verify(&altered(&other, "TopicArn", TOPIC)).await, Err(Rejected::Signature));
}

#[tokio::test(start_paused = true)]
async fn signature_of_another_key_is_forged() {
    let world = World::new();
    for version in [SignatureVersion::One, SignatureVersion::Two] {
        let forged = STRANGER.notification(TOPIC, MESSAGE, NOW, URL, version);
        assert_eq!(world.verify(&forged).await, Err(Rejected::Signature));
    }
    for signature in ["", "AAEC"] {
        let forged = altered(&genuine(SignatureVersion::Two), "Signature", signature);
        assert_eq!(world.verify(&forged).await, Err(Rejected::Signature));
    }
}

#[tokio::test(start_paused = true)]
async fn signature_versions_are_not_interchangeable() {
    let world = World::new();
    let one = altered(&genuine(SignatureVersion::One), "SignatureVersion", "2");
    let two = altered(&genuine(SignatureVersion::Two), "SignatureVersion", "1");
    assert_eq!(world.verify(&one).await, Err(Rejected::Signature));
    assert_eq!(world.verify(&two).await, Err(Rejected::Signature));
    let three = world.verify(&altered(&genuine(SignatureVersion::Two), "SignatureVersion", "3")).await.unwrap_err();
    assert_eq!((three.outcome().into_str(), three.retry()), ("unknown-signature-version", false));
}

#[tokio::test(start_paused = true)]
async fn topic_of_other_region_is_wrong() {
    let world = World::new();
    let us = SNS.notification(TOPIC_US, MESSAGE, NOW, URL_US, SignatureVersion::Two);
    assert_eq!(world.verify(&us).await, Err(Rejected::Topic), "configured, but for another region");
    assert!(world.verifier.verify(VIRGINIA, us.as_bytes()).await.is_ok());
    for region in [QUIET, RegionId(9)] {
        assert_eq!(world.verifier.verify(region, us.as_bytes()).await, Err(Rejected::Topic));
    }
}

#[tokio::test(start_paused = true)]
async fn foreign_certificate_url_is_never_fetched() {
    let world = World::new();
    let file = "SimpleNotificationService-0123456789abcdef0123456789abcdef.pem";
    for (url, word) in [
        (format!("https://sns.eu-west-1.amazonaws.com.evil.com/{file}"), "wrong-host"),
        (format!("https://evil.com/{file}"), "wrong-host"),
        (URL_US.into(), "wrong-host"),
        (format!("http://sns.eu-west-1.amazonaws.com/{file}"), "wrong-host"),
        (format!("https://sns.eu-west-1.amazonaws.com:443/{file}"), "wrong-host"),
        (format!("https://a@sns.eu-west-1.amazonaws.com/{file}"), "wrong-host"),
        (format!("{URL}?x"), "wrong-path"),
        (format!("https://sns.eu-west-1.amazonaws.com/x/{file}"), "wrong-path"),
        ("https://sns.eu-west-1.amazonaws.com/other.pem".into(), "wrong-path"),
    ] {
        // The certificate would match, wherever it came from.
        world.serve(&url, &SNS);
        world.serve(Url::parse(&url).unwrap().as_str(), &SNS);
        let rejected = world.verify(&at(&url)).await.unwrap_err();
        assert_eq!((rejected.outcome().into_str(), rejected.retry()), (word, false), "{url}");
    }
    assert_eq!(world.fetches(), 0);
}

#[tokio::test(start_paused = true)]
async fn certificate_outside_validity_is_rejected() {
    for (from, until, unfit, word) in [
        (NOW.as_millis() - 2 * DAY, NOW.as_millis() - DAY, Unfit::Expired, "expired"),
        (NOW.as_millis() + DAY, NOW.as_millis() + 2 * DAY, Unfit::NotYetValid, "not-yet-valid"),
    ] {
        let world = World::new();
        let signer = Signer::generate(Wall::from_millis(from), Wall::from_millis(until));
        world.serve(URL, &signer);
        let raw = signer.notification(TOPIC, MESSAGE, NOW, URL, SignatureVersion::Two);
        let rejected = world.verify(&raw).await.unwrap_err();
        assert_eq!(rejected, Rejected::Certificate(unfit));
        assert_eq!((rejected.outcome().into_str(), rejected.retry()), (word, false));
    }
}

#[tokio::test(start_paused = true)]
async fn non_sns_certificate_is_rejected() {
    let world = World::new();
    let key = signer::rsa_key();
    let until = NOW + Duration::from_millis(DAY);
    let params = signer::params("evil.com", Wall::default(), until);
    let evil = Signer::of(&key, params.self_signed(&key).unwrap().pem());
    world.serve(URL, &evil);
    let raw = evil.notification(TOPIC, MESSAGE, NOW, URL, SignatureVersion::Two);
    let rejected = world.verify(&raw).await.unwrap_err();
    assert_eq!(rejected, Rejected::Certificate(Unfit::Subject));
    assert_eq!((rejected.outcome().into_str(), rejected.retry()), ("bad-certificate", false));
}

#[tokio::test(start_paused = true)]
async fn message_under_broken_chain_is_rejected() {
    let world = World::new();
    let chain = format!("{}{}", SNS.certificate_pem(), STRANGER.certificate_pem());
    world.answer(URL, Ok(chain.into()));
    let rejected = world.verify(&genuine(SignatureVersion::Two)).await;
    assert_eq!(rejected, Err(Rejected::Certificate(Unfit::Chain)));
}

#[tokio::test(start_paused = true)]
async fn malformed_envelope_is_rejected_permanently() {
    let world = World::new();
    for field in ["Message", "MessageId", "Timestamp", "TopicArn", "Type", "Signature", "SigningCertURL"] {
        let mut fields: Value = serde_json::from_str(&genuine(SignatureVersion::Two)).unwrap();
        fields.as_object_mut().unwrap().remove(field);
        let rejected = world.verify(&fields.to_string()).await.unwrap_err();
        assert_eq!(rejected, Rejected::Malformed(Malformed::Missing(field)));
        assert_eq!((rejected.outcome().into_str(), rejected.retry()), ("malformed", false));
    }
    let long = "x".repeat(ENVELOPE_BYTES);
    let oversized = SNS.notification(TOPIC, &long, NOW, URL, SignatureVersion::Two);
    let rejected = world.verify(&oversized).await.unwrap_err();
    assert_eq!((rejected.outcome().into_str(), rejected.retry()), ("oversized", false));
}

#[tokio::test(start_paused = true)]
async fn old_message_verifies_with_publication_time() {
    // R13: an old timestamp is no reason to drop an announcement.
    let world = World::new();
    let hours_ago = Wall::from_millis(NOW.as_millis() - DAY);
    let raw = SNS.notification(TOPIC, MESSAGE, hours_ago, URL, SignatureVersion::Two);
    let Ok(Verified::Notification { published, .. }) = world.verify(&raw).await else { panic!() };
    assert_eq!(published, hours_ago);
}

#[tokio::test(start_paused = true)]
async fn unfetchable_certificate_asks_for_retry() {
    let world = World::new();
    for unfetched in [Unfetched::Unreachable, Unfetched::Status(302), Unfetched::Late, Unfetched::Oversized] {
        world.answer(URL, Err(unfetched));
        let rejected = world.verify(&genuine(SignatureVersion::Two)).await.unwrap_err();
        assert_eq!(rejected, Rejected::Unfetched(unfetched));
        assert_eq!((rejected.outcome().into_str(), rejected.retry()), ("no-certificate", true));
        tokio::time::advance(limits::CERTIFICATE_PAUSE).await;
    }
    world.serve(URL, &SNS);
    assert!(world.verify(&genuine(SignatureVersion::Two)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn failed_signature_refetches_renewed_certificate() {
    let world = World::new();
    assert!(world.verify(&genuine(SignatureVersion::Two)).await.is_ok());
    tokio::time::advance(limits::CERTIFICATE_PAUSE).await;
    world.serve(URL, &STRANGER);
    let rotated = STRANGER.notification(TOPIC, MESSAGE, NOW, URL, SignatureVersion::Two);
    assert!(world.verify(&rotated).await.is_ok());
    assert_eq!(world.fetches(), 2);
}

#[tokio::test(start_paused = true)]
async fn forgery_flood_refetches_once_per_pause() {
    let world = World::new();
    let forged = STRANGER.notification(TOPIC, MESSAGE, NOW, URL, SignatureVersion::Two);
    for _ in 0..100 {
        assert_eq!(world.verify(&forged).await, Err(Rejected::Signature));
    }
    assert_eq!(world.fetches(), 1, "fetched just now: there can be no newer one");
    tokio::time::advance(limits::CERTIFICATE_PAUSE).await;
    for _ in 0..100 {
        assert_eq!(world.verify(&forged).await, Err(Rejected::Signature));
    }
    assert_eq!(world.fetches(), 2);
}

#[tokio::test(start_paused = true)]
async fn failed_refetch_asks_for_retry() {
    let world = World::new();
    assert!(world.verify(&genuine(SignatureVersion::Two)).await.is_ok());
    tokio::time::advance(limits::CERTIFICATE_PAUSE).await;
    world.answer(URL, Err(Unfetched::Unreachable));
    let rotated = STRANGER.notification(TOPIC, MESSAGE, NOW, URL, SignatureVersion::Two);
    assert!(world.verify(&rotated).await.unwrap_err().retry());
    assert!(world.verify(&genuine(SignatureVersion::Two)).await.is_ok(), "the kept one still serves");
}

#[tokio::test(start_paused = true)]
async fn kept_certificate_is_refetched_when_expired() {
    let world = World::new();
    assert!(world.verify(&genuine(SignatureVersion::Two)).await.is_ok());
    world.clock.suspend(Duration::from_millis(2 * DAY));
    assert_eq!(
        world.verify(&genuine(SignatureVersion::Two)).await,
        Err(Rejected::Certificate(Unfit::Expired)),
        "the same certificate is still served"
    );
    assert_eq!(world.fetches(), 2);
    let renewed = Signer::generate(NOW, NOW + Duration::from_millis(9 * DAY));
    world.serve(URL, &renewed);
    world.clock.suspend(limits::CERTIFICATE_PAUSE);
    let raw = renewed.notification(TOPIC, MESSAGE, NOW, URL, SignatureVersion::Two);
    assert!(world.verify(&raw).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn insecure_signer_counts_at_origin_alone() {
    let emulator = "http://localhost:4566/_aws/sns/SimpleNotificationService-6c6f63.pem";
    let elsewhere = "http://localhost:4567/_aws/sns/SimpleNotificationService-6c6f63.pem";
    let key = signer::rsa_key();
    let params = signer::params("localhost", Wall::default(), NOW + Duration::from_millis(DAY));
    let own = Signer::of(&key, params.self_signed(&key).unwrap().pem());
    let world = World::with(Some("http://localhost:4566"));
    for url in [emulator, elsewhere, URL] {
        world.serve(url, &own);
    }
    let [at_emulator, at_elsewhere, at_sns] =
        [emulator, elsewhere, URL].map(|url| own.notification(TOPIC, MESSAGE, NOW, url, SignatureVersion::One));
    assert!(world.verify(&at_emulator).await.is_ok());
    assert_eq!(world.verify(&at_elsewhere).await.unwrap_err().outcome().into_str(), "wrong-host");
    assert_eq!(
        world.verify(&at_sns).await.unwrap_err().outcome().into_str(),
        "bad-certificate",
        "SNS's own keep their subject"
    );
    let strict = World::new();
    strict.serve(emulator, &own);
    assert_eq!(strict.verify(&at_emulator).await.unwrap_err().outcome().into_str(), "wrong-host");
}

#[tokio::test(start_paused = true)]
async fn only_applied_copies_skip_verification() {
    let world = World::new();
    let raw = genuine(SignatureVersion::Two);
    let Ok(Verified::Notification { message_id, .. }) = world.verify(&raw).await else { panic!() };
    let forged_copy = altered(&raw, "Message", "whatever");
    assert_eq!(world.verify(&forged_copy).await, Err(Rejected::Signature), "verified, but not applied yet");
    world.verifier.remembered().note(VIRGINIA, &message_id);
    assert_eq!(world.verify(&forged_copy).await, Err(Rejected::Signature), "applied, but for another region");
    world.verifier.remembered().note(IRELAND, &message_id);
    assert_eq!(world.verify(&forged_copy).await, Ok(Verified::Copy), "nothing of its content comes through");
    let confirmation = SNS.confirmation(TOPIC, "t", NOW, URL, SignatureVersion::Two);
    let copied = altered(&confirmation, "MessageId", &message_id);
    assert_eq!(world.verify(&copied).await, Err(Rejected::Signature), "only notifications can be copies");
    let other_topic = altered(&raw, "TopicArn", TOPIC_US);
    assert_eq!(world.verify(&other_topic).await, Err(Rejected::Topic));
}

proptest::proptest! {
    #[test]
    fn tampered_envelopes_never_verify(at in 0usize..10_000, byte in proptest::prelude::any::<u8>()) {
        static RAW: LazyLock<String> = LazyLock::new(|| genuine(SignatureVersion::Two));
        let genuine = Envelope::parse(RAW.as_bytes()).unwrap();
        let mut raw = RAW.clone().into_bytes();
        let at = at % raw.len();
        raw[at] = byte;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let verified = runtime.block_on(async { World::new().verifier.verify(IRELAND, &raw).await });
        // Anything that still verifies must say the same: the change was in white space or in a
        // field that is not read.
        if verified.is_ok() {
            proptest::prop_assert_eq!(Envelope::parse(&raw).unwrap().string_to_sign(), genuine.string_to_sign());
        }
    }
}

#[tokio::test]
async fn admitted_url_admits_no_other() {
    let world = World::new();
    world.verify(&genuine(SignatureVersion::Two)).await.unwrap();
    let elsewhere =
        "https://sns.eu-west-1.amazonaws.com.example/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem";
    assert_eq!(world.verify(&at(elsewhere)).await, Err(Rejected::CertificateUrl(RefusedUrl::Host)));
    let fetched = world.fetches();
    world.verify(&genuine(SignatureVersion::Two)).await.unwrap();
    assert_eq!(world.fetches(), fetched);
}
