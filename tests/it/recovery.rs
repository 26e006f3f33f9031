//! Subscriptions that die while the sidecar serves, in one region and then in all: callers keep
//! being served, `/readyz` says what is wrong, and what changed meanwhile is seen without anything
//! having been flushed (R10, R11).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nearside::model::time::Clock;
use nearside::protocol::event::SubscriptionState;
use nearside::tasks::Tasks;

use super::announced::{Announced, LOOK_AGAIN, NOTHING, TIMEOUT, Wish, changed, until};
use super::emulator::{Emulator, REGIONS};

/// Callers that ask all the time, and whether one of them was ever not served.
struct Callers {
    tasks: Tasks,
    over: Arc<AtomicBool>,
    served: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
}

impl Callers {
    fn of(announced: &Announced) -> Self {
        let callers =
            Self { tasks: Tasks::new(), over: Arc::default(), served: Arc::default(), refused: Arc::default() };
        let (client, tcp) = (announced.client.clone(), announced.app.tcp.unwrap());
        let (over, served, refused) = (callers.over.clone(), callers.served.clone(), callers.refused.clone());
        callers.tasks.spawn("callers", async move {
            while !over.load(Ordering::SeqCst) {
                let answer = client.get(format!("http://{tcp}/v1/contexts/busy")).send().await;
                let good = answer.is_ok_and(|answer| answer.status() == 200);
                if good { &served } else { &refused }.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        });
        callers
    }

    /// Ends them; every single one was served, and there were some.
    async fn were_all_served(self) {
        let enough = self.served.load(Ordering::SeqCst) + 5;
        until("callers are still served", async || self.served.load(Ordering::SeqCst) >= enough).await;
        self.over.store(true, Ordering::SeqCst);
        assert_eq!(self.tasks.drain(TIMEOUT).await, Vec::<&str>::new());
        assert_eq!(self.refused.load(Ordering::SeqCst), 0);
    }
}

/// Publishes on a region's topic until that region is LIVE. A change of the route's own type: a region that
/// announced none, and only what no route names, is found astray before long.
async fn enliven(announced: &Announced, region: usize) {
    until("a region is live", async || {
        announced.publish(region, &changed("busy", 1)).await;
        announced.region_view(region).state == SubscriptionState::Live
    })
    .await;
}

/// Reads until the entry is confirmed while all regions' topics speak.
async fn confirmed(announced: &Announced, key: &str) {
    let (began, mut seen) = (Clock::System.now(), announced.read(key).await);
    while !seen.is_hit() || seen.label.contains("detail=") {
        let states = [0, 1, 2].map(|region| announced.region_view(region).state);
        assert!(Clock::System.now() - began < TIMEOUT, "{key}: {seen:?}, regions are {states:?}");
        announced.publish_everywhere(NOTHING).await;
        // Proofs that come faster than they are taken lie in the queue until they are old.
        tokio::time::sleep(LOOK_AGAIN * 20).await;
        seen = announced.read(key).await;
    }
}

/// Deletes a region's topic: with it go its subscriptions, and no new one can be made.
async fn delete_topic(announced: &Announced, region: usize) {
    let topic = &announced.topics[region];
    Emulator::shared().sns(&topic.region).delete_topic().topic_arn(&topic.arn).send().await.unwrap();
}

/// Makes it again, under the same ARN.
async fn restore_topic(announced: &Announced, region: usize) {
    let topic = &announced.topics[region];
    let made = Emulator::shared().topic(&topic.region, &topic.name, 2).await;
    assert_eq!(made.arn, topic.arn);
}

#[tokio::test]
async fn dead_topics_recover_without_flush() {
    let announced = Announced::subscribed(Wish::over("sqs", "dies")).await;
    for key in ["busy", "changed", "same"] {
        announced.put(key, 1);
    }
    for region in 0..3 {
        enliven(&announced, region).await;
    }
    for key in ["busy", "changed", "same"] {
        confirmed(&announced, key).await;
    }
    let callers = Callers::of(&announced);

    // One region: its queue is gone and, without a topic, no other can be subscribed.
    let queue = announced.queue_url(0).await;
    delete_topic(&announced, 0).await;
    Emulator::shared().sqs(REGIONS[0]).delete_queue().queue_url(queue).send().await.unwrap();
    until("one region is named", async || {
        announced.publish(2, NOTHING).await;
        let warnings = announced.warnings().await;
        warnings.contains(REGIONS[0]) && !warnings.contains(REGIONS[2])
    })
    .await;
    assert!(announced.status(0).losses >= 1);
    assert_eq!(announced.ready().await.0, "fresh", "one live region is enough");
    announced.publish(2, NOTHING).await;
    let seen = announced.read("same").await;
    assert!(seen.is_hit() && !seen.label.contains("detail="), "the others vouch for it: {seen:?}");

    // All regions, until nobody's lease holds.
    delete_topic(&announced, 1).await;
    delete_topic(&announced, 2).await;
    until("every region is named", async || {
        let (state, reasons) = announced.ready().await;
        state == "degraded" && REGIONS.iter().all(|region| reasons.contains(region))
    })
    .await;
    // Nobody can announce this.
    announced.put("changed", 2);
    let store = &announced.app.sidecar.fill.shared.store;
    let (stored, same) = (store.entries(), announced.asked("same"));

    // Recovery.
    for region in 0..3 {
        restore_topic(&announced, region).await;
    }
    for region in 0..3 {
        announced.until_subscribed(region).await;
        enliven(&announced, region).await;
    }
    until("all is well again", async || {
        announced.publish_everywhere(NOTHING).await;
        let warnings = announced.warnings().await;
        // That a subscription was lost is reported for ten minutes.
        let now = warnings.lines().filter(|line| !line.contains("was lost"));
        ["fresh", "doubtful"].contains(&announced.ready().await.0.as_str())
            && !now.into_iter().any(|line| REGIONS.iter().any(|it| line.contains(it)))
    })
    .await;
    assert_eq!(store.entries(), stored, "nothing was flushed");
    let seen = announced.read("changed").await;
    assert_eq!((seen.version, seen.is_hit()), (2, false), "{seen:?}");
    assert_eq!(announced.asked("same"), same, "what nobody reads is not asked for");
    let seen = announced.read("same").await;
    assert!(seen.version == 1 && seen.label.contains("fwd-status=304"), "revalidated, not fetched anew: {seen:?}");
    confirmed(&announced, "same").await;
    // And announcements do again what they did.
    announced.put("changed", 3);
    announced.publish(1, &changed("changed", 3)).await;
    until("an announced change is seen", async || announced.read("changed").await.version == 3).await;
    callers.were_all_served().await;
    announced.stop().await;
}

#[tokio::test]
async fn subscriptions_deleted_everywhere_are_replaced() {
    let announced = Announced::subscribed(Wish::over("sqs", "unsubscribed-by-others")).await;
    announced.put("busy", 1);
    announced.put("changed", 1);
    for region in 0..3 {
        enliven(&announced, region).await;
    }
    confirmed(&announced, "changed").await;
    let callers = Callers::of(&announced);
    for (region, name) in REGIONS.into_iter().enumerate() {
        let arn = announced.status(region).subscription.unwrap();
        Emulator::shared().sns(name).unsubscribe().subscription_arn(arn).send().await.unwrap();
    }
    // Announced to nobody: the topics have no subscription left, or a new one that nothing vouches
    // for yet.
    announced.put("changed", 2);
    for region in 0..3 {
        until("the loss is noticed", async || announced.status(region).losses >= 1).await;
        announced.until_subscribed(region).await;
        enliven(&announced, region).await;
    }
    let seen = announced.read("changed").await;
    assert_eq!((seen.version, seen.is_hit()), (2, false), "{seen:?}");
    callers.were_all_served().await;
    announced.stop().await;
}
