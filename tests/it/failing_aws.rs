//! Reactions of a sidecar's subscription to AWS's errors: what is waited for, what is made anew,
//! and how often.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use nearside::aws::clients::Sdk;
use nearside::config::read;
use nearside::model::ids::RegionId;
use nearside::model::time::{Clock, Wall};
use nearside::protocol::event::Event;
use nearside::sidecar::announcements::subscription::{
    Pace, Stage, SubscriptionDeps, SubscriptionStatus, Subscriptions,
};
use nearside::sidecar::announcements::{Disposition, Intake};
use nearside::tasks::Tasks;
use nearside::telemetry::metrics::Metrics;
use url::Url;

use super::program::TIMEOUT;
use super::scripted_aws::{Script, ScriptedAws};

const GONE: Option<(u16, &str)> = Some((400, "QueueDoesNotExist"));

/// Nothing is ever received.
struct Nothing;

impl Intake for Nothing {
    fn take(&self, _: RegionId, _: Bytes, _: Option<Wall>) -> BoxFuture<'static, Disposition> {
        Box::pin(std::future::ready(Disposition::Acknowledge))
    }
}

/// One region's subscription at an AWS that fails as the script says.
struct Subscribed {
    aws: ScriptedAws,
    subscriptions: Subscriptions,
}

impl Subscribed {
    async fn start(pace: Pace, script: Script) -> Self {
        Self::seen(pace, script, |_| {}, || false).await
    }

    /// Starts one with something that is called with every event, and says whether the region is LIVE.
    async fn seen(
        pace: Pace,
        script: Script,
        events: impl Fn(Event) + Send + Sync + 'static,
        is_live: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let aws = ScriptedAws::start(script).await;
        let config = read::from_toml(
            "[service]\nname = \"failing\"\nregion = [{ name = \"eu-west-1\", url = \"http://127.0.0.1:1\", \
             topic = \"arn:aws:sns:eu-west-1:000000000000:changes\" }]\n\
             route = [{ path = \"/v1/contexts/{key}\", records = [\"context:{key}\"] }]\n",
        )
        .unwrap();
        let deps = SubscriptionDeps {
            tasks: Tasks::new(),
            clock: Clock::System,
            events: Arc::new(events),
            speaks: Arc::new(|_| false),
            is_live: Arc::new(move |_| is_live()),
            intake: Arc::new(Nothing),
            metrics: Arc::new(Metrics::default()),
            sdk: Sdk::new(Some(Url::parse(&aws.url).unwrap())),
        };
        let subscriptions = Subscriptions::start(&config, pace, &deps).unwrap();
        Self { aws, subscriptions }
    }

    /// Waits until the status is as wanted.
    async fn until(&self, wanted: impl FnMut(&SubscriptionStatus) -> bool) -> SubscriptionStatus {
        let mut status = self.subscriptions.watch(RegionId(0)).unwrap();
        let came = tokio::time::timeout(TIMEOUT, status.wait_for(wanted)).await;
        came.expect("the status came in time").unwrap().clone()
    }

    /// Waits until `action` was called so often.
    async fn called(&self, action: &str, times: usize) {
        let end = Clock::System.now() + TIMEOUT;
        while self.aws.calls(action) < times {
            assert!(Clock::System.now() < end, "{action} was called {} times", self.aws.calls(action));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Polls fail while the flag is set, and every look finds the subscription sound.
fn failing_polls(fails: &Arc<AtomicBool>) -> Script {
    let failing = fails.clone();
    Arc::new(move |action, _| {
        (action == "ReceiveMessage" && failing.load(Ordering::SeqCst)).then_some((500, "InternalError"))
    })
}

/// Looks at the attributes all the time.
fn looking() -> Pace {
    let short = Duration::from_millis(200);
    Pace { attest: short, attest_again: short, ..calm() }
}

/// Nothing but what the test looks at happens within it.
fn calm() -> Pace {
    Pace { attest: TIMEOUT * 10, tag: TIMEOUT * 10, ..Pace::default() }
}

#[tokio::test]
async fn hidden_new_queue_is_waited_for() {
    let subscribed = Subscribed::start(
        calm(),
        Arc::new(|action, before| if action == "ReceiveMessage" && before < 2 { GONE } else { None }),
    )
    .await;
    subscribed.called("ReceiveMessage", 5).await;
    let status = subscribed.until(|status| status.stage == Stage::Subscribed).await;
    assert_eq!((status.losses, status.failure), (0, None));
    assert_eq!((subscribed.aws.calls("CreateQueue"), subscribed.aws.calls("Subscribe")), (1, 1));
}

#[tokio::test]
async fn repeatedly_lost_queue_backs_off() {
    // It shows once, so that each is lost at once.
    let (first, longest) = (Duration::from_millis(100), Duration::from_secs(60));
    let began = Clock::System.now();
    let subscribed = Subscribed::start(
        Pace { again: (first, longest), ..calm() },
        Arc::new(|action, before| if action == "ReceiveMessage" && before % 2 == 1 { GONE } else { None }),
    )
    .await;
    subscribed.called("CreateQueue", 6).await;
    // 100, 200, 400, 800 and 1,600 ms, each at least halved by the jitter.
    let took = Clock::System.now().since(began);
    assert!(took >= Duration::from_millis(1550), "{took:?}");
}

#[tokio::test]
async fn failing_aws_is_not_resubscribed_to() {
    let fails = Arc::new(AtomicBool::new(true));
    let failing = fails.clone();
    let script: Script = Arc::new(move |action, before| {
        let status = if before.is_multiple_of(2) { (500, "InternalError") } else { (503, "ServiceUnavailable") };
        let receives = action == "ReceiveMessage" && failing.load(Ordering::SeqCst);
        (receives || action == "GetSubscriptionAttributes").then_some(status)
    });
    let subscribed = Subscribed::start(looking(), script).await;
    let status = subscribed.until(|status| status.failure.is_some()).await;
    assert!(status.failure.is_some_and(|trouble| trouble.is_passing && trouble.saw.contains("AWS failed")));
    subscribed.subscriptions.resubscribe(RegionId(0), Duration::ZERO);
    let before = subscribed.aws.calls("ReceiveMessage");
    subscribed.called("ReceiveMessage", before + 1).await;
    assert_eq!(subscribed.aws.calls("CreateQueue"), 1, "another queue would be no better");
    // Once AWS answers, and nothing proves that the old subscription works, there is another.
    fails.store(false, Ordering::SeqCst);
    subscribed.called("CreateQueue", 2).await;
}

/// R9: where heartbeats count, attributes say nothing about what arrives.
#[tokio::test]
async fn sound_looking_dead_subscription_is_remade() {
    let fails = Arc::new(AtomicBool::new(true));
    let subscribed = Subscribed::start(looking(), failing_polls(&fails)).await;
    subscribed.until(|status| status.failure.is_some() && status.attested.is_some()).await;
    subscribed.subscriptions.resubscribe(RegionId(0), Duration::ZERO);
    let before = subscribed.aws.calls("ReceiveMessage");
    subscribed.called("ReceiveMessage", before + 1).await;
    fails.store(false, Ordering::SeqCst);
    subscribed.called("CreateQueue", 2).await;
}

/// Weak proof: a poll that succeeds is what was missing beside the attributes.
#[tokio::test]
async fn live_region_ends_resubscription_request() {
    let [fails, polled, silent] = [true, false, false].map(|is| Arc::new(AtomicBool::new(is)));
    let (has_polled, is_silent) = (polled.clone(), silent.clone());
    let subscribed = Subscribed::seen(
        looking(),
        failing_polls(&fails),
        move |event| {
            polled.fetch_or(event == Event::Polled(RegionId(0)), Ordering::SeqCst);
        },
        move || has_polled.load(Ordering::SeqCst) && !is_silent.load(Ordering::SeqCst),
    )
    .await;
    subscribed.until(|status| status.failure.is_some()).await;
    subscribed.subscriptions.resubscribe(RegionId(0), Duration::ZERO);
    let before = subscribed.aws.calls("ReceiveMessage");
    subscribed.called("ReceiveMessage", before + 1).await;
    fails.store(false, Ordering::SeqCst);
    subscribed.until(|status| status.failure.is_none()).await;
    // Longer than the request waits.
    subscribed.called("GetSubscriptionAttributes", subscribed.aws.calls("GetSubscriptionAttributes") + 6).await;
    assert_eq!(subscribed.aws.calls("CreateQueue"), 1);
    silent.store(true, Ordering::SeqCst);
    subscribed.subscriptions.resubscribe(RegionId(0), Duration::ZERO);
    subscribed.called("CreateQueue", 2).await;
}

#[tokio::test]
async fn missing_kms_key_remakes_nothing() {
    let subscribed = Subscribed::start(
        calm(),
        Arc::new(|action, _| (action == "ReceiveMessage").then_some((400, "KMS.NotFoundException"))),
    )
    .await;
    let status = subscribed.until(|status| status.failure.is_some()).await;
    let trouble = status.failure.unwrap();
    assert!(trouble.saw.contains("KMS.NotFoundException") && trouble.advice.contains("queue_kms_key"), "{trouble:?}");
    subscribed.called("ReceiveMessage", 3).await;
    assert_eq!(subscribed.aws.calls("CreateQueue"), 1);
}
