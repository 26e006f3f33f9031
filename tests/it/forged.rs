//! Treatment by the running sidecar of announcements that are not SNS's, or that it cannot take
//! yet: over http, posted to its endpoint as anybody on the internet could; over sqs, put into its
//! own queue.
//!
//! Messages are signed by the tests' own keys, whose certificates a server of the test's own hands
//! out (or does not).

use std::collections::{BTreeMap, HashMap};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use http::{StatusCode, Uri};
use nearside::aws::envelope::SignatureVersion;
use nearside::cache::limits::ENVELOPE_BYTES;
use nearside::model::ids::Epoch;
use nearside::model::time::{Clock, Wall};
use nearside::protocol::event::SubscriptionState;
use nearside::tasks::Tasks;
use nearside_lab::signer::Signer;
use serde_json::Value;
use url::Url;

use super::announced::{Announced, NOTHING, TIMEOUT, Wish, changed, emptied, until};
use super::emulator::{Emulator, REGIONS};

const DAY: Duration = Duration::from_secs(86_400);
/// Paths of certificates at the test's server.
const GOOD: &str = "/SimpleNotificationService-00.pem";
const EXPIRED: &str = "/SimpleNotificationService-01.pem";
const EARLY: &str = "/SimpleNotificationService-02.pem";
const GARBAGE: &str = "/SimpleNotificationService-03.pem";
const MISSING: &str = "/SimpleNotificationService-04.pem";
const MOVED: &str = "/SimpleNotificationService-05.pem";

type Served = Arc<Mutex<HashMap<&'static str, String>>>;

/// The keys of a test, and the server of their certificates.
struct Signers {
    origin: Url,
    served: Served,
    good: Signer,
    impostor: Signer,
    expired: Signer,
    early: Signer,
    tasks: Tasks,
}

/// A path that nothing is served at has no certificate now, as when SNS's host is down.
async fn certificate(State(served): State<Served>, uri: Uri) -> Result<String, StatusCode> {
    if uri.path() == MOVED {
        return Err(StatusCode::FOUND);
    }
    served.lock().unwrap().get(uri.path()).cloned().ok_or(StatusCode::INTERNAL_SERVER_ERROR)
}

impl Signers {
    async fn start() -> Self {
        let now = Clock::System.wall();
        let [yesterday, earlier] =
            [1, 9].map(|days| Wall::from_millis(now.as_millis() - (DAY * days).as_millis() as u64));
        let good = Signer::generate(yesterday, now + DAY);
        let expired = Signer::generate(earlier, yesterday);
        let early = Signer::generate(now + DAY, now + DAY * 2);
        let pages = [
            (GOOD, good.certificate_pem().to_owned()),
            (EXPIRED, expired.certificate_pem().to_owned()),
            (EARLY, early.certificate_pem().to_owned()),
            (GARBAGE, "-----BEGIN CERTIFICATE-----\nbm8=\n-----END CERTIFICATE-----\n".to_owned()),
        ];
        let served: Served = Arc::new(Mutex::new(HashMap::from(pages)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let router = axum::Router::new().fallback(certificate).with_state(served.clone());
        let tasks = Tasks::new();
        tasks.spawn("certificates", async move { axum::serve(listener, router).await.unwrap() });
        let impostor = Signer::generate(yesterday, now + DAY);
        Self { origin, served, good, impostor, expired, early, tasks }
    }

    fn at(&self, path: &str) -> String {
        format!("{}{}", self.origin.as_str().trim_end_matches('/'), path)
    }

    fn serve(&self, path: &'static str, signer: &Signer) {
        self.served.lock().unwrap().insert(path, signer.certificate_pem().to_owned());
    }

    /// As SNS would deliver it, now.
    fn genuine(&self, topic: &str, message: &str) -> String {
        sign(&self.good, topic, message, &self.at(GOOD))
    }

    /// A genuine announcement with another value of one member.
    fn altered(&self, topic: &str, name: &str, value: &str) -> String {
        let mut envelope: Value = serde_json::from_str(&self.genuine(topic, &changed("x", 2))).unwrap();
        envelope[name] = value.into();
        envelope.to_string()
    }

    /// Everything that must be dropped, as delivered for `topic`, under the word that it is counted
    /// by. `host` is where no certificate may be fetched from.
    fn forgeries(&self, topic: &str, another: &str, host: &str) -> Vec<(&'static str, String)> {
        let message = &changed("x", 9);
        let nobodys = topic.replace("000000000000", "999999999999");
        vec![
            ("forged", self.altered(topic, "Message", message)),
            ("forged", self.altered(topic, "Timestamp", "2026-01-01T00:00:00.000Z")),
            ("forged", sign(&self.impostor, topic, message, &self.at(GOOD))),
            ("expired", sign(&self.expired, topic, message, &self.at(EXPIRED))),
            ("not-yet-valid", sign(&self.early, topic, message, &self.at(EARLY))),
            ("bad-certificate", sign(&self.good, topic, message, &self.at(GARBAGE))),
            ("wrong-topic", self.genuine(another, message)),
            ("wrong-topic", self.genuine(&nobodys, message)),
            ("wrong-host", sign(&self.good, topic, message, &format!("http://{host}{GOOD}"))),
            ("wrong-host", sign(&self.good, topic, message, &self.at(&format!("@{host}{GOOD}")))),
            ("wrong-path", sign(&self.good, topic, message, &self.at("/SimpleNotificationService-00.pem?x"))),
            ("wrong-path", sign(&self.good, topic, message, &self.at("/mine.pem"))),
            ("malformed", "no envelope".to_owned()),
            ("malformed", "{}".to_owned()),
            ("malformed", self.altered(topic, "Signature", "*")),
            ("unknown-signature-version", self.altered(topic, "SignatureVersion", "3")),
            (
                "forged",
                self.impostor.unsubscribe_confirmation(topic, "t", now(), &self.at(GOOD), SignatureVersion::Two),
            ),
            ("forged", self.impostor.confirmation(topic, "t", now(), &self.at(GOOD), SignatureVersion::Two)),
        ]
    }

    async fn stop(self) {
        self.tasks.drain(Duration::ZERO).await;
    }
}

fn now() -> Wall {
    Clock::System.wall()
}

fn sign(signer: &Signer, topic: &str, message: &str, url: &str) -> String {
    signer.notification(topic, message, now(), url, SignatureVersion::Two)
}

/// A sidecar that trusts the test's signers, and how envelopes reach its first region.
struct Target {
    signers: Signers,
    announced: Announced,
    transport: &'static str,
    queue: String,
}

impl Target {
    async fn start(transport: &'static str, name: &'static str) -> Self {
        let signers = Signers::start().await;
        let wish = Wish { signer: Some(signers.origin.clone()), ..Wish::over(transport, name) };
        let announced = Announced::start(wish).await;
        if transport == "http" {
            // The emulator's key is none of ours: its confirmations are refused, and the test
            // confirms.
            announced.until_counted("wrong-host", 3).await;
            for region in 0..3 {
                confirm(&announced, region).await;
            }
        }
        for region in 0..3 {
            announced.until_subscribed(region).await;
        }
        let queue = if transport == "sqs" { announced.queue_url(0).await } else { String::new() };
        let target = Self { signers, announced, transport, queue };
        target.deliver(target.signers.genuine(target.topic(), NOTHING)).await;
        until("the first region is live", async || target.announced.region_view(0).state == SubscriptionState::Live)
            .await;
        target
    }

    fn topic(&self) -> &str {
        &self.announced.topics[0].arn
    }

    /// Delivers once; over http, the status it got.
    async fn deliver(&self, envelope: String) -> Option<StatusCode> {
        if self.transport == "http" {
            return Some(self.post("/in/0", envelope).await);
        }
        let sent = Emulator::shared().sqs(REGIONS[0]).send_message().queue_url(&self.queue).message_body(envelope);
        sent.send().await.unwrap();
        None
    }

    /// Delivers once, and waits until it can have had an effect.
    async fn take(&self, envelope: String, outcome: &str) {
        let before = self.announced.counted(outcome).await;
        let status = self.deliver(envelope).await;
        assert!(status.is_none_or(|status| status == StatusCode::OK), "{status:?}");
        self.announced.until_counted(outcome, before + 1).await;
    }

    async fn post(&self, path: &str, body: String) -> StatusCode {
        let url = format!("http://{}{path}", self.announced.app.announcements().unwrap());
        let sent = self.announced.client.post(url).header("x-amz-sns-message-type", "Notification").body(body);
        sent.send().await.unwrap().status()
    }

    /// Reads until what was filled is settled, so that only an announcement can make a region be
    /// asked again.
    async fn settled(&self, key: &str) {
        until("a confirmed entry", async || {
            let seen = self.announced.read(key).await;
            seen.is_hit() && !seen.label.contains("detail=")
        })
        .await;
    }

    async fn stop(self) {
        self.announced.stop().await;
        self.signers.stop().await;
    }
}

/// Confirms a subscription as SNS does with a token; the emulator gives it to any caller.
async fn confirm(announced: &Announced, region: usize) {
    until("a subscription waits for its token", async || announced.status(region).subscription.is_some()).await;
    let arn = announced.status(region).subscription.unwrap();
    let url = Emulator::shared().url().join(&format!("_aws/sns/subscription-tokens/{arn}")).unwrap();
    let text = announced.client.get(url).send().await.unwrap().text().await.unwrap();
    let said: Value = serde_json::from_str(&text).unwrap();
    let token = said["subscription_token"].as_str().unwrap_or_else(|| panic!("{text}"));
    let topic = &announced.topics[region];
    let sns = Emulator::shared().sns(&topic.region);
    sns.confirm_subscription().topic_arn(&topic.arn).token(token).send().await.unwrap();
}

/// Epoch and losses of each region, and how often "x" was asked for.
fn known(announced: &Announced) -> ([(Epoch, u64); 3], u64) {
    let regions = [0, 1, 2].map(|region| (announced.region_view(region).epoch, announced.status(region).losses));
    (regions, announced.asked("x"))
}

/// Delivers every forgery: each is counted once, dropped for good, and nothing that the sidecar
/// knows of records has changed. Over http, where anybody may post, nothing at all has; over sqs
/// the region's epoch has moved (R14).
async fn drops_all_forgeries(target: &Target) {
    let announced = &target.announced;
    let (host, trap) = trap();
    announced.put("x", 1);
    announced.read("x").await;
    target.settled("x").await;
    let before = known(announced);
    if target.transport == "http" {
        // What every region would answer, if anybody asked.
        announced.put("x", 9);
    }
    let mut expected = BTreeMap::new();
    let forgeries = target.signers.forgeries(target.topic(), &announced.topics[1].arn, &host);
    for (word, _) in &forgeries {
        if !expected.contains_key(word) {
            expected.insert(*word, announced.counted(word).await);
        }
    }
    for (word, envelope) in forgeries {
        *expected.get_mut(word).unwrap() += 1;
        let status = target.deliver(envelope).await;
        assert!(status.is_none_or(|status| status == StatusCode::FORBIDDEN), "{word}: {status:?}");
    }
    for (word, count) in &expected {
        announced.until_counted(word, *count).await;
    }
    if target.transport == "sqs" {
        emptied(&Emulator::shared().sqs(REGIONS[0]), &target.queue).await;
    }
    // A genuine one keeps the lease, and comes after all of them.
    target.take(target.signers.genuine(target.topic(), NOTHING), "unrouted").await;
    for (word, count) in &expected {
        assert_eq!(announced.counted(word).await, *count, "{word}: counted once each, and never tried again");
    }
    let mut after = known(announced);
    if target.transport == "sqs" {
        assert!(after.0[0].0 > before.0[0].0, "only the topic can have sent them");
        after.0[0].0 = before.0[0].0;
    }
    assert_eq!(after, before);
    let seen = announced.read("x").await;
    assert_eq!(seen.is_hit(), target.transport == "http", "{seen:?}");
    assert!(seen.version == 1 && !seen.label.contains("below-floor"), "their versions were not believed: {seen:?}");
    assert!(trap.accept().is_err(), "nothing was fetched from a host that no topic implies");
}

/// A port where nobody may call: its address, and the listener, which does not block.
fn trap() -> (String, TcpListener) {
    let trap = TcpListener::bind("127.0.0.1:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    (trap.local_addr().unwrap().to_string(), trap)
}

#[tokio::test]
async fn http_forgery_is_refused_without_effect() {
    let target = Target::start("http", "forged-http").await;
    drops_all_forgeries(&target).await;
    let oversized = target.signers.genuine(target.topic(), &"x".repeat(ENVELOPE_BYTES));
    assert_eq!(target.post("/in/0", oversized).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(target.announced.counted("oversized").await, 1);
    assert_eq!(target.post("/in/7", String::new()).await, StatusCode::NOT_FOUND);
    target.stop().await;
}

#[tokio::test]
async fn sqs_forgery_moves_only_epoch() {
    let target = Target::start("sqs", "forged-sqs").await;
    drops_all_forgeries(&target).await;
    target.stop().await;
}

#[tokio::test]
async fn http_announcement_waits_for_certificate() {
    let target = Target::start("http", "deliverable-http").await;
    let announced = &target.announced;
    announced.put("x", 1);
    announced.read("x").await;
    target.settled("x").await;
    announced.put("x", 2);
    for path in [MISSING, MOVED] {
        let envelope = sign(&target.signers.good, target.topic(), &changed("x", 2), &target.signers.at(path));
        assert_eq!(target.deliver(envelope).await, Some(StatusCode::SERVICE_UNAVAILABLE));
    }
    assert_eq!(announced.counted("no-certificate").await, 2);
    let seen = announced.read("x").await;
    assert!(seen.is_hit() && seen.version == 1, "not applied: {seen:?}");
    target.signers.serve(MISSING, &target.signers.good);
    let envelope = sign(&target.signers.good, target.topic(), &changed("x", 2), &target.signers.at(MISSING));
    // The outcome of a fetch stands for a second; until then SNS is asked to come again.
    let delivered = async {
        loop {
            match target.deliver(envelope.clone()).await {
                Some(StatusCode::OK) => return,
                other => assert_eq!(other, Some(StatusCode::SERVICE_UNAVAILABLE)),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, delivered).await.expect("it is delivered once its certificate is there");
    assert_eq!(announced.read("x").await.version, 2);
    target.stop().await;
}

#[tokio::test]
async fn sqs_announcement_waits_for_certificate() {
    let target = Target::start("sqs", "deliverable-sqs").await;
    let announced = &target.announced;
    announced.put("x", 1);
    announced.read("x").await;
    target.settled("x").await;
    announced.put("x", 2);
    let envelope = sign(&target.signers.good, target.topic(), &changed("x", 2), &target.signers.at(MISSING));
    target.deliver(envelope).await;
    announced.until_counted("no-certificate", 2).await;
    target.signers.serve(MISSING, &target.signers.good);
    until("the change is visible", async || announced.read("x").await.version == 2).await;
    emptied(&Emulator::shared().sqs(REGIONS[0]), &target.queue).await;
    assert_eq!(announced.counted("applied").await, 1);
    target.stop().await;
}

/// True if the first region's subscription is LIVE.
fn is_live(announced: &Announced) -> bool {
    announced.region_view(0).state == SubscriptionState::Live
}

/// R14: the certificate's host fails while a change is announced, and nobody sends heartbeats.
#[tokio::test]
async fn sqs_unverifiable_message_ends_weak_proof() {
    let signers = Signers::start().await;
    let clock = Clock::simulated(now());
    let origin = Some(signers.origin.clone());
    let wish = Wish { signer: origin, clock: clock.clone(), ..Wish::over("sqs", "unverified-weak") };
    let announced = Announced::subscribed(wish).await;
    // Weak proof begins; what SNS stamps from now on seems a minute old, and proves nothing by
    // itself.
    clock.suspend(Duration::from_secs(61));
    let queue = announced.queue_url(0).await;
    let target = Target { signers, announced, transport: "sqs", queue };
    let announced = &target.announced;
    target.take(target.signers.genuine(target.topic(), NOTHING), "unrouted").await;
    until("polls and attributes are proof", async || is_live(announced)).await;
    announced.put("x", 1);
    announced.read("x").await;
    target.settled("x").await;
    announced.put("x", 2);
    let unfetched = sign(&target.signers.good, target.topic(), &changed("x", 2), &target.signers.at(MISSING));
    target.deliver(unfetched).await;
    until("no proof is left", async || !is_live(announced)).await;
    assert_eq!(announced.read("x").await.version, 2, "asked for, since something was announced");
    let (state, reasons) = announced.ready().await;
    assert_eq!(state, "degraded");
    let why = "eu-west-1: announcements arrive that cannot be verified: the signing certificate's host answered 500";
    assert!(reasons.contains(why), "{reasons}");
    target.signers.serve(MISSING, &target.signers.good);
    until("it could be verified", async || is_live(announced)).await;
    assert_eq!(announced.counted("applied").await, 1, "it had waited in the queue");
    assert!(!announced.warnings().await.contains("cannot be verified"));
    target.stop().await;
}

/// R13, through all of the path.
async fn repetition_is_harmless(target: &Target) {
    let announced = &target.announced;
    announced.put("x", 4);
    announced.read("x").await;
    target.settled("x").await;
    let [five, six, seven] = [5, 6, 7].map(|version| target.signers.genuine(target.topic(), &changed("x", version)));
    announced.put("x", 5);
    target.take(five.clone(), "applied").await;
    assert_eq!(announced.read("x").await.version, 5);
    announced.put("x", 7);
    target.take(seven.clone(), "applied").await;
    assert_eq!(announced.read("x").await.version, 7);
    target.settled("x").await;
    let (asked, epoch) = (announced.asked("x"), announced.region_view(0).epoch);
    // Older than what is known, for the first time; then all again, and again; then one from an
    // hour ago.
    target.take(six.clone(), "applied").await;
    for envelope in [&five, &six, &seven, &seven, &five] {
        target.take(envelope.clone(), "duplicate").await;
    }
    let hour_ago = Wall::from_millis(now().as_millis() - 3_600_000);
    let (url, version) = (target.signers.at(GOOD), SignatureVersion::One);
    let late = target.signers.good.notification(target.topic(), &changed("x", 3), hour_ago, &url, version);
    target.take(late, "applied").await;
    let seen = announced.read("x").await;
    assert!(seen.is_hit() && seen.version == 7, "{seen:?}");
    assert_eq!(
        (announced.asked("x"), announced.region_view(0).epoch),
        (asked, epoch),
        "nothing was asked or doubted"
    );
}

#[tokio::test]
async fn http_replays_and_reordering_are_harmless() {
    let target = Target::start("http", "replayed-http").await;
    repetition_is_harmless(&target).await;
    target.stop().await;
}

#[tokio::test]
async fn sqs_replays_and_reordering_are_harmless() {
    let target = Target::start("sqs", "replayed-sqs").await;
    repetition_is_harmless(&target).await;
    emptied(&Emulator::shared().sqs(REGIONS[0]), &target.queue).await;
    target.stop().await;
}
