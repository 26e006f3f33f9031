//! The topics: who is subscribed, and how a message gets from its publisher to each subscriber, as
//! in SNS: through [`super::queue`] for `sqs`, through [`super::deliver`] for `http`. Each message
//! is signed once; every copy, retry and duplicate carries the same id, timestamp and signature.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, OnceLock};

use nearside::model::time::Clock;
use nearside::tasks::Tasks;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;

use super::deliver::{self, Post};
use super::envelope_signer::{EnvelopeSigner, Letter, Signed};
use super::queue::{ACCOUNT, EmulatedQueues, Taken};
use super::standing::{SentMessage, SubscriptionStanding};
use super::subscription::{EmulatedSubscription, Endpoint};
use crate::chaos_server::chaos::Delivery;
use crate::limits;

/// Why SNS would refuse a call. The fault is always the caller's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopicFault {
    #[error("{0} does not exist")]
    NotFound(&'static str),
    /// An invalid parameter.
    #[error("Invalid parameter: {0}")]
    Invalid(&'static str),
    #[error("limit exceeded: {0}")]
    Limit(&'static str),
}

/// All topics of all regions, and their subscriptions.
pub struct Topics {
    clock: Clock,
    tasks: Tasks,
    queues: Arc<EmulatedQueues>,
    signer: EnvelopeSigner,
    base: OnceLock<String>,
    http: reqwest::Client,
    permits: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    topics: BTreeMap<String, Topic>,
    subscriptions: BTreeMap<String, Arc<EmulatedSubscription>>,
}

#[derive(Debug, Default)]
struct Topic {
    faults: Delivery,
    sent: VecDeque<SentMessage>,
    published: u64,
    lost: u64,
}

impl Topics {
    /// No topics yet; envelopes are signed with `signer`.
    pub fn new(
        clock: Clock,
        tasks: Tasks,
        queues: Arc<EmulatedQueues>,
        signer: EnvelopeSigner,
        http: reqwest::Client,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(limits::LAB_DELIVERIES));
        Self { clock, tasks, queues, signer, base: OnceLock::new(), http, permits, state: Mutex::default() }
    }

    /// Sets the URL under which this endpoint serves its certificate; called once, before anything
    /// is published.
    pub fn serve_at(&self, base: String) {
        // A second call would mean a second server for the same topics, so the first one stays.
        let _ = self.base.set(base);
    }

    pub fn signer(&self) -> &EnvelopeSigner {
        &self.signer
    }

    /// Makes the topic `name` in `region` if it does not exist, and returns its ARN.
    pub fn create(&self, region: &str, name: &str) -> Result<String, TopicFault> {
        let arn = format!("arn:aws:sns:{region}:{ACCOUNT}:{name}");
        let mut state = self.locked();
        if !state.topics.contains_key(&arn) && state.topics.len() >= limits::LAB_CHANNELS {
            return Err(TopicFault::Limit("topics"));
        }
        state.topics.entry(arn.clone()).or_default();
        Ok(arn)
    }

    /// The ARNs of the region's topics.
    pub fn arns(&self, region: &str) -> Vec<String> {
        let state = self.locked();
        state.topics.keys().filter(|arn| region_of(arn) == Some(region)).cloned().collect()
    }

    /// Subscribes `endpoint`; the same endpoint again gets the same subscription.
    pub fn subscribe(
        self: &Arc<Self>,
        topic: &str,
        endpoint: Endpoint,
        attributes: BTreeMap<String, String>,
    ) -> Result<Arc<EmulatedSubscription>, TopicFault> {
        let mut state = self.locked();
        if !state.topics.contains_key(topic) {
            return Err(TopicFault::NotFound("Topic"));
        }
        let mut known = state.subscriptions.values();
        if let Some(known) = known.find(|one| one.topic == topic && one.endpoint == endpoint).cloned() {
            drop(state);
            if !known.is_confirmed() {
                self.ask_to_confirm(&known);
            }
            return Ok(known);
        }
        if state.subscriptions.len() >= limits::LAB_CHANNELS {
            return Err(TopicFault::Limit("subscriptions"));
        }
        let subscription = Arc::new(EmulatedSubscription::new(topic, endpoint, attributes));
        state.subscriptions.insert(subscription.arn.clone(), subscription.clone());
        drop(state);
        match &subscription.endpoint {
            // EmulatedQueue and topic have the same owner, so SNS does not ask.
            Endpoint::Sqs(_) => subscription.confirm(),
            Endpoint::Http(_) => self.ask_to_confirm(&subscription),
        }
        Ok(subscription)
    }

    /// Confirms by token; returns the subscription's ARN.
    pub fn confirm(&self, topic: &str, token: &str) -> Result<String, TopicFault> {
        let state = self.locked();
        let subscription = state
            .subscriptions
            .values()
            .find(|one| one.topic == topic && one.token() == token)
            .ok_or(TopicFault::Invalid("Token"))?;
        subscription.confirm();
        Ok(subscription.arn.clone())
    }

    /// Ends a subscription; it is no error if there is none.
    pub fn unsubscribe(&self, arn: &str) {
        self.locked().subscriptions.remove(arn);
    }

    pub fn subscription(&self, arn: &str) -> Result<Arc<EmulatedSubscription>, TopicFault> {
        self.locked().subscriptions.get(arn).cloned().ok_or(TopicFault::NotFound("Subscription"))
    }

    pub fn set_attribute(&self, arn: &str, name: &str, value: &str) -> Result<(), TopicFault> {
        let fits = self.subscription(arn)?.set_attribute(name, value);
        fits.then_some(()).ok_or(TopicFault::Limit("attributes"))
    }

    /// The subscriptions of `topic`, or of the whole region if it is `None`.
    pub fn subscriptions(
        &self,
        region: &str,
        topic: Option<&str>,
    ) -> Result<Vec<Arc<EmulatedSubscription>>, TopicFault> {
        let state = self.locked();
        if topic.is_some_and(|topic| !state.topics.contains_key(topic)) {
            return Err(TopicFault::NotFound("Topic"));
        }
        Ok(state
            .subscriptions
            .values()
            .filter(|one| topic.map_or(region_of(&one.topic) == Some(region), |topic| one.topic == topic))
            .cloned()
            .collect())
    }

    pub fn set_faults(&self, topic: &str, change: impl FnOnce(&mut Delivery)) {
        if let Some(topic) = self.locked().topics.get_mut(topic) {
            change(&mut topic.faults);
        }
    }

    /// The current state of `topic`.
    pub fn standing(&self, topic: &str) -> SubscriptionStanding {
        let state = self.locked();
        let subscriptions =
            state.subscriptions.values().filter(|one| one.topic == topic && one.is_confirmed()).count();
        state.topics.get(topic).map_or_else(SubscriptionStanding::default, |topic| SubscriptionStanding {
            published: topic.published,
            lost: topic.lost,
            subscriptions,
            open: topic.sent.iter().filter(|sent| sent.taken.get().is_none()).count(),
            faults: topic.faults,
        })
    }

    /// The newest copies on `topic`, oldest first.
    pub fn sent(&self, topic: &str) -> Vec<SentMessage> {
        self.locked().topics.get(topic).map_or_else(Vec::new, |topic| topic.sent.iter().cloned().collect())
    }

    /// Publishes for publishers in this process, whose topics exist.
    pub fn announce(self: &Arc<Self>, topic: &str, message: &str) {
        if let Err(fault) = self.publish(topic, None, message) {
            tracing::warn!(%fault, "the emulator could not announce");
        }
    }

    /// Publishes `message` to all subscribers and returns its id.
    pub fn publish(
        self: &Arc<Self>,
        topic: &str,
        subject: Option<&str>,
        message: &str,
    ) -> Result<String, TopicFault> {
        if message.is_empty() || message.len() > 256 << 10 {
            return Err(TopicFault::Invalid("Message"));
        }
        let (faults, subscribed) = self.readers(topic)?;
        if subscribed.is_empty() {
            return Ok(crate::uuid::random());
        }
        let signed = self.sign(topic, subject, message);
        self.deliver(topic, &signed, faults, subscribed);
        Ok(signed.id)
    }

    /// Signs `message` as published on `topic` now.
    pub fn sign(&self, topic: &str, subject: Option<&str>, message: &str) -> Signed {
        let id = crate::uuid::random();
        let letter = Letter { id: &id, topic, subject, message, published: self.clock.wall(), base: self.base() };
        let envelope = self.signer.notification(&letter);
        Signed { id, message: message.to_owned(), envelope }
    }

    /// Sends what was signed for `topic` to all subscribers, for publishers in this process, whose
    /// topics exist.
    pub fn announce_signed(self: &Arc<Self>, topic: &str, signed: &Signed) {
        match self.readers(topic) {
            Ok((faults, subscribed)) => self.deliver(topic, signed, faults, subscribed),
            Err(fault) => tracing::warn!(%fault, "the emulator could not announce"),
        }
    }

    /// One signature serves all copies, because the parts that differ are not signed.
    fn deliver(
        self: &Arc<Self>,
        topic: &str,
        signed: &Signed,
        faults: Delivery,
        subscribed: Vec<Arc<EmulatedSubscription>>,
    ) {
        let Signed { id, message, envelope } = signed;
        let message: Arc<str> = message.as_str().into();
        for subscription in subscribed {
            let raw = subscription.attribute("RawMessageDelivery").is_some_and(|raw| raw == "true");
            let body: Arc<str> =
                if raw { message.clone() } else { envelope.to_subscriber(self.base(), &subscription.arn).into() };
            let taken = self.note(topic, id, &subscription.arn, &message);
            let post = Post { kind: "Notification", id: id.clone(), body, raw, taken, subscription };
            for copy in 0..=u32::from(faults.duplicate) {
                self.send(post.clone(), faults.delay + deliver::BETWEEN_COPIES * copy);
            }
        }
    }

    /// Who gets a message now; a muted topic counts it as lost and has no readers.
    fn readers(&self, arn: &str) -> Result<(Delivery, Vec<Arc<EmulatedSubscription>>), TopicFault> {
        let mut state = self.locked();
        let State { topics, subscriptions } = &mut *state;
        let topic = topics.get_mut(arn).ok_or(TopicFault::NotFound("Topic"))?;
        topic.published += 1;
        let mut subscribed: Vec<_> = subscriptions
            .values()
            .filter(|one| one.topic == arn && one.is_confirmed() && !one.filters())
            .cloned()
            .collect();
        if topic.faults.mute {
            topic.lost += subscribed.len() as u64;
            subscribed.clear();
        }
        Ok((topic.faults, subscribed))
    }

    fn note(&self, topic: &str, id: &str, subscription: &str, message: &Arc<str>) -> Taken {
        let taken = Taken::default();
        let sent = SentMessage {
            id: id.to_owned(),
            subscription: subscription.to_owned(),
            message: message.clone(),
            published: self.clock.now(),
            taken: taken.clone(),
        };
        if let Some(topic) = self.locked().topics.get_mut(topic) {
            if topic.sent.len() == limits::LAB_DELIVERIES {
                topic.sent.pop_front();
            }
            topic.sent.push_back(sent);
        }
        taken
    }

    /// Counts a copy as lost, so that nobody waits for it.
    fn lose(&self, post: &Post) {
        if let Some(topic) = self.locked().topics.get_mut(&post.subscription.topic) {
            topic.lost += 1;
            topic.sent.retain(|sent| !Arc::ptr_eq(&sent.taken, &post.taken));
        }
    }

    /// Delivers one copy after `after`; without a delay, a copy for a queue is delivered at once.
    fn send(self: &Arc<Self>, post: Post, after: std::time::Duration) {
        if after.is_zero()
            && let Endpoint::Sqs(queue) = &post.subscription.endpoint
        {
            return self.enqueue(queue, &post);
        }
        let Ok(permit) = self.permits.clone().try_acquire_owned() else { return self.lose(&post) };
        let topics = self.clone();
        let stopping = self.tasks.stopping();
        self.tasks.spawn("sns-delivery", async move {
            let _permit = permit;
            let delivery = async {
                tokio::time::sleep(after).await;
                match &post.subscription.endpoint {
                    Endpoint::Sqs(queue) => topics.enqueue(queue, &post),
                    Endpoint::Http(url)
                        if deliver::to_endpoint(&topics.http, url, &post, limits::SNS_RETRIES.1).await =>
                    {
                        // The first of two copies counts.
                        let _ = post.taken.set(topics.clock.now());
                    }
                    Endpoint::Http(_) => topics.lose(&post),
                }
            };
            stopping.run_until_cancelled(delivery).await;
        });
    }

    fn enqueue(&self, queue: &str, post: &Post) {
        let queue = self.queues.by_arn(queue);
        let kept =
            queue.is_some_and(|queue| queue.push(&post.subscription.topic, post.body.clone(), post.taken.clone()));
        if !kept {
            self.lose(post);
        }
    }

    fn ask_to_confirm(self: &Arc<Self>, subscription: &Arc<EmulatedSubscription>) {
        let id = crate::uuid::random();
        let message = format!(
            "You have chosen to subscribe to the topic {}.\nTo confirm the subscription, visit the SubscribeURL \
             included in this message.",
            subscription.topic
        );
        let letter = Letter {
            id: &id,
            topic: &subscription.topic,
            subject: None,
            message: &message,
            published: self.clock.wall(),
            base: self.base(),
        };
        let body = self.signer.confirmation(&letter, subscription.token());
        let post = Post {
            kind: "SubscriptionConfirmation",
            id: id.clone(),
            body: body.into(),
            raw: false,
            taken: Taken::default(),
            subscription: subscription.clone(),
        };
        self.send(post, std::time::Duration::ZERO);
    }

    fn base(&self) -> &str {
        self.base.get().map_or("", String::as_str)
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is harmless: nothing in here can panic between two writes that belong
        // together.
        self.state.lock()
    }
}

impl fmt::Debug for Topics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topics").finish_non_exhaustive()
    }
}

/// The region that an ARN names.
pub(super) fn region_of(arn: &str) -> Option<&str> {
    arn.split(':').nth(3)
}
