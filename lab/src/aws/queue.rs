//! The queues, in which SQS keeps messages for each reader until it deletes them. A message that
//! was received and not deleted comes back when its visibility timeout ends. A topic can send to a
//! queue only if the queue's policy allows it. [`super::sqs`] speaks the protocol on top.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nearside::model::time::{Clock, Moment, Wall};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::limits;

/// The account that everything here belongs to.
pub(crate) const ACCOUNT: &str = "000000000000";

/// Moment at which one delivery was taken by its reader; shared with the topic's log.
pub(crate) type Taken = Arc<OnceLock<Moment>>;

/// All queues of all regions.
#[derive(Debug)]
pub struct EmulatedQueues {
    clock: Clock,
    queues: Mutex<BTreeMap<(String, String), Arc<EmulatedQueue>>>,
}

#[derive(Debug)]
pub struct EmulatedQueue {
    /// `arn:aws:sqs:REGION:ACCOUNT:NAME`
    pub arn: String,
    clock: Clock,
    created: Wall,
    inner: Mutex<Inner>,
    arrived: Notify,
    gone: CancellationToken,
}

#[derive(Debug, Default)]
struct Inner {
    attributes: BTreeMap<String, String>,
    tags: BTreeMap<String, String>,
    messages: VecDeque<Message>,
    next: u64,
    lost: u64,
}

#[derive(Debug)]
struct Message {
    number: u64,
    body: Arc<str>,
    sent: Wall,
    visible: Moment,
    received: u32,
    taken: Taken,
}

/// A message as a reader gets it.
#[derive(Clone, Debug)]
pub struct Received {
    pub id: String,
    /// The receipt handle that deletes it.
    pub receipt: String,
    pub body: Arc<str>,
    /// Time at which it entered the queue.
    pub sent: Wall,
    /// Number of receives, including this one.
    pub count: u32,
}

impl EmulatedQueues {
    pub fn new(clock: Clock) -> Self {
        Self { clock, queues: Mutex::default() }
    }

    /// Makes a queue, or finds the one of that name; `None` if it exists with other attributes or
    /// there is no room.
    pub fn create(
        &self,
        region: &str,
        name: &str,
        attributes: BTreeMap<String, String>,
        tags: BTreeMap<String, String>,
    ) -> Option<Arc<EmulatedQueue>> {
        let mut queues = self.locked();
        let place = (region.to_owned(), name.to_owned());
        if let Some(queue) = queues.get(&place) {
            let same = attributes.iter().all(|(name, value)| queue.locked().attributes.get(name) == Some(value));
            return same.then(|| queue.clone());
        }
        if queues.len() >= limits::LAB_CHANNELS {
            return None;
        }
        let queue = Arc::new(EmulatedQueue {
            arn: format!("arn:aws:sqs:{region}:{ACCOUNT}:{name}"),
            clock: self.clock.clone(),
            created: self.clock.wall(),
            inner: Mutex::new(Inner { attributes, tags, ..Inner::default() }),
            arrived: Notify::new(),
            gone: CancellationToken::new(),
        });
        queues.insert(place, queue.clone());
        Some(queue)
    }

    pub fn find(&self, region: &str, name: &str) -> Option<Arc<EmulatedQueue>> {
        self.locked().get(&(region.to_owned(), name.to_owned())).cloned()
    }

    pub fn by_arn(&self, arn: &str) -> Option<Arc<EmulatedQueue>> {
        let mut parts = arn.strip_prefix("arn:aws:sqs:")?.splitn(3, ':');
        let (region, _, name) = (parts.next()?, parts.next()?, parts.next()?);
        self.find(region, name).filter(|queue| queue.arn == arn)
    }

    /// Names of the region's queues that start with `prefix`.
    pub fn names(&self, region: &str, prefix: &str) -> Vec<String> {
        let queues = self.locked();
        queues
            .keys()
            .filter(|(of, name)| of == region && name.starts_with(prefix))
            .map(|(_, name)| name.clone())
            .collect()
    }

    /// Removes a queue and its messages, and wakes those who poll it.
    pub fn delete(&self, region: &str, name: &str) -> bool {
        let removed = self.locked().remove(&(region.to_owned(), name.to_owned()));
        if let Some(queue) = &removed {
            queue.gone.cancel();
        }
        removed.is_some()
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<(String, String), Arc<EmulatedQueue>>> {
        // A map of pointers cannot be left half-written, so a poisoned lock is harmless.
        self.queues.lock()
    }
}

impl EmulatedQueue {
    /// Takes an envelope from `topic`; returns `false` if the policy forbids it or the queue is
    /// gone.
    pub fn push(&self, topic: &str, body: Arc<str>, taken: Taken) -> bool {
        let mut inner = self.locked();
        let policy = inner.attributes.get("Policy").map_or("", String::as_str);
        if self.gone.is_cancelled() || !admits(policy, topic) {
            return false;
        }
        if inner.messages.len() >= limits::LAB_QUEUE_MESSAGES {
            inner.messages.pop_front();
            inner.lost += 1;
        }
        inner.next += 1;
        let (number, sent, visible) = (inner.next, self.clock.wall(), self.clock.now());
        inner.messages.push_back(Message { number, body, sent, visible, received: 0, taken });
        drop(inner);
        self.arrived.notify_waiters();
        true
    }

    /// Up to `most` messages, waiting at most `wait` for the first; `None` if the queue is deleted
    /// meanwhile.
    pub async fn receive(&self, most: usize, wait: Duration, hide: Option<Duration>) -> Option<Vec<Received>> {
        let hide = hide.unwrap_or_else(|| self.seconds("VisibilityTimeout", 30));
        let until = self.clock.now() + wait;
        loop {
            let mut arrived = std::pin::pin!(self.arrived.notified());
            // Enabled before looking, so that nothing can arrive unnoticed in between.
            arrived.as_mut().enable();
            let (found, next) = self.take(most, hide);
            let now = self.clock.now();
            if self.gone.is_cancelled() {
                return None;
            }
            if !found.is_empty() || now >= until {
                return Some(found);
            }
            let wake = next.map_or(until, |next| next.min(until));
            tokio::select! {
                () = &mut arrived => {}
                () = tokio::time::sleep(wake - now) => {}
                () = self.gone.cancelled() => {}
            }
        }
    }

    /// Deletes by receipt; returns `false` for an invalid receipt (deleting twice is not an error).
    pub fn remove(&self, receipt: &str) -> bool {
        let Some(number) = number_in(receipt) else { return false };
        let mut inner = self.locked();
        if let Some(place) = inner.messages.iter().position(|message| message.number == number)
            && let Some(message) = inner.messages.remove(place)
        {
            // The first of two copies counts.
            let _ = message.taken.set(self.clock.now());
        }
        true
    }

    /// Hides a received message for `span` from now; returns `false` if the receipt is invalid or
    /// the message is gone.
    pub fn hide(&self, receipt: &str, span: Duration) -> bool {
        let Some(number) = number_in(receipt) else { return false };
        let visible = self.clock.now() + span;
        let mut inner = self.locked();
        let found = inner.messages.iter_mut().find(|message| message.number == number);
        let known = found.map(|message| message.visible = visible).is_some();
        drop(inner);
        self.arrived.notify_waiters();
        known
    }

    pub fn purge(&self) {
        self.locked().messages.clear();
    }

    /// Messages in the queue, including received ones.
    pub fn len(&self) -> usize {
        self.locked().messages.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its attributes as SQS states them.
    pub fn attributes(&self) -> BTreeMap<String, String> {
        let now = self.clock.now();
        let inner = self.locked();
        let visible = inner.messages.iter().filter(|message| message.visible <= now).count();
        let mut all = inner.attributes.clone();
        let created = (self.created.as_millis() / 1000).to_string();
        let stated = [
            ("QueueArn", self.arn.clone()),
            ("ApproximateNumberOfMessages", visible.to_string()),
            ("ApproximateNumberOfMessagesNotVisible", (inner.messages.len() - visible).to_string()),
            ("ApproximateNumberOfMessagesDelayed", "0".to_owned()),
            ("CreatedTimestamp", created.clone()),
            ("LastModifiedTimestamp", created),
        ];
        all.extend(stated.map(|(name, value)| (name.to_owned(), value)));
        for (name, default) in [("VisibilityTimeout", "30"), ("MessageRetentionPeriod", "345600")] {
            all.entry(name.to_owned()).or_insert_with(|| default.to_owned());
        }
        all
    }

    pub fn set_attributes(&self, attributes: BTreeMap<String, String>) {
        self.locked().attributes.extend(attributes);
    }

    pub fn tags(&self) -> BTreeMap<String, String> {
        self.locked().tags.clone()
    }

    /// Adds tags; returns `false` if there would be too many.
    pub fn tag(&self, tags: BTreeMap<String, String>) -> bool {
        let mut inner = self.locked();
        let mut all = inner.tags.clone();
        all.extend(tags);
        let fits = all.len() <= limits::LAB_TAGS;
        if fits {
            inner.tags = all;
        }
        fits
    }

    pub fn untag(&self, names: &[String]) {
        self.locked().tags.retain(|name, _| !names.contains(name));
    }

    /// Takes what is visible, and says when the next hidden message becomes visible.
    fn take(&self, most: usize, hide: Duration) -> (Vec<Received>, Option<Moment>) {
        let retention = self.seconds("MessageRetentionPeriod", 345_600);
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let mut inner = self.locked();
        while inner.messages.front().is_some_and(|message| wall.since(message.sent) > retention) {
            inner.messages.pop_front();
            inner.lost += 1;
        }
        let mut found = Vec::new();
        for message in inner.messages.iter_mut().filter(|message| message.visible <= now).take(most) {
            message.received += 1;
            message.visible = now + hide;
            found.push(Received {
                id: format!("00000000-0000-4000-8000-{:012x}", message.number),
                receipt: format!("receipt-{}-{}", message.number, message.received),
                body: message.body.clone(),
                sent: message.sent,
                count: message.received,
            });
        }
        (found, inner.messages.iter().map(|message| message.visible).min())
    }

    fn seconds(&self, attribute: &str, default: u64) -> Duration {
        let stated = self.locked().attributes.get(attribute).and_then(|text| text.parse().ok());
        Duration::from_secs(stated.unwrap_or(default))
    }

    fn locked(&self) -> MutexGuard<'_, Inner> {
        // A poisoned lock is harmless: nothing in here can panic between two writes that belong
        // together.
        self.inner.lock()
    }
}

fn number_in(receipt: &str) -> Option<u64> {
    receipt.strip_prefix("receipt-")?.split('-').next()?.parse().ok()
}

/// True if a queue's policy lets `topic` send: an Allow of `sqs:SendMessage` without a condition,
/// or under one that names the topic.
fn admits(policy: &str, topic: &str) -> bool {
    let Ok(policy) = serde_json::from_str::<Value>(policy) else { return false };
    match &policy["Statement"] {
        Value::Array(all) => all.iter().any(|one| allows(one, topic)),
        one => allows(one, topic),
    }
}

fn allows(statement: &Value, topic: &str) -> bool {
    statement["Effect"] == "Allow"
        && is_any(&statement["Action"], is_send)
        && names_topic(statement, topic).unwrap_or(statement.get("Condition").is_none())
}

fn is_send(action: &str) -> bool {
    matches!(action.to_ascii_lowercase().as_str(), "sqs:sendmessage" | "sqs:*" | "*")
}

/// True if the condition on the topic names this one; `None` without such a condition.
fn names_topic(statement: &Value, topic: &str) -> Option<bool> {
    let arns = statement["Condition"].as_object()?.values().find_map(|one| {
        let keys = one.as_object()?;
        keys.iter().find(|(key, _)| key.eq_ignore_ascii_case("aws:SourceArn")).map(|(_, arns)| arns)
    })?;
    Some(is_any(arns, |arn| arn == topic))
}

/// Tests a text, or each one of a list.
fn is_any(value: &Value, test: impl Fn(&str) -> bool) -> bool {
    match value {
        Value::Array(all) => all.iter().filter_map(Value::as_str).any(test),
        one => one.as_str().is_some_and(test),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: &str = "arn:aws:sns:eu-west-1:000000000000:contexts";

    fn policy(topic: &str) -> String {
        format!(
            r#"{{"Statement":[{{"Effect":"Allow","Principal":{{"Service":"sns.amazonaws.com"}},"Action":"sqs:SendMessage",
            "Resource":"*","Condition":{{"ArnEquals":{{"aws:SourceArn":"{topic}"}}}}}}]}}"#
        )
    }

    fn queue(clock: Clock) -> Arc<EmulatedQueue> {
        let attributes = BTreeMap::from([("Policy".to_owned(), policy(TOPIC))]);
        EmulatedQueues::new(clock).create("eu-west-1", "q", attributes, BTreeMap::new()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn undeleted_message_returns_after_visibility_timeout() {
        let clock = Clock::simulated(Wall::from_millis(1_000_000));
        let queue = queue(clock.clone());
        let taken = Taken::default();
        assert!(queue.push(TOPIC, "hello".into(), taken.clone()));
        let first = queue.receive(10, Duration::ZERO, Some(Duration::from_secs(20))).await.unwrap();
        assert_eq!(first.len(), 1);
        assert!(queue.receive(10, Duration::from_secs(5), None).await.unwrap().is_empty(), "hidden");
        let before = clock.now();
        let again = queue.receive(10, Duration::from_secs(20), None).await.unwrap();
        assert_eq!((again.len(), again[0].count, again[0].sent), (1, 2, first[0].sent));
        assert_eq!(clock.now() - before, Duration::from_secs(15), "as soon as it is visible");
        assert!(queue.remove(&again[0].receipt) && queue.is_empty());
        assert_eq!(taken.get(), Some(&clock.now()), "the topic learns when it was taken");
    }

    #[tokio::test(start_paused = true)]
    async fn queue_deletion_ends_long_poll() {
        let queues = EmulatedQueues::new(Clock::simulated(Wall::from_millis(0)));
        let queue = queues.create("eu-west-1", "q", BTreeMap::new(), BTreeMap::new()).unwrap();
        let (outcome, ()) = tokio::join!(queue.receive(1, Duration::from_secs(20), None), async {
            tokio::task::yield_now().await;
            assert!(queues.delete("eu-west-1", "q"));
        });
        assert!(outcome.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn full_queue_drops_oldest_message() {
        let queue = queue(Clock::simulated(Wall::from_millis(0)));
        for number in 0..=limits::LAB_QUEUE_MESSAGES {
            queue.push(TOPIC, number.to_string().into(), Taken::default());
        }
        assert_eq!(queue.len(), limits::LAB_QUEUE_MESSAGES);
        assert_eq!(&*queue.receive(1, Duration::ZERO, None).await.unwrap()[0].body, "1");
    }

    #[test]
    fn only_policy_naming_topic_admits_it() {
        assert!(admits(&policy(TOPIC), TOPIC));
        assert!(admits(
            &policy(TOPIC).replace("ArnEquals", "ArnLike").replace("aws:SourceArn", "AWS:SourceArn"),
            TOPIC
        ));
        assert!(!admits(&policy("arn:aws:sns:eu-west-1:000000000000:other"), TOPIC));
        assert!(!admits(&policy(TOPIC).replace("Allow", "Deny"), TOPIC));
        assert!(!admits(&policy(TOPIC).replace("sqs:SendMessage", "sqs:ReceiveMessage"), TOPIC));
        assert!(!admits("", TOPIC));
    }
}
