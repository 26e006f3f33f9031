//! One subscription: where a topic's messages go, whether its endpoint confirmed it, and its
//! attributes. Once confirmed, it stays confirmed until it is removed, however often deliveries
//! fail.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use parking_lot::{Mutex, MutexGuard};

use super::queue::ACCOUNT;
use crate::limits;

#[derive(Debug)]
pub struct EmulatedSubscription {
    pub arn: String,
    pub topic: String,
    pub endpoint: Endpoint,
    token: String,
    confirmed: OnceLock<()>,
    attributes: Mutex<BTreeMap<String, String>>,
}

/// Destination of a subscription's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// The ARN of a queue.
    Sqs(String),
    Http(url::Url),
}

impl Endpoint {
    /// `sqs` or `http`.
    pub const fn protocol(&self) -> &'static str {
        match self {
            Self::Sqs(_) => "sqs",
            Self::Http(_) => "http",
        }
    }

    /// The endpoint as it was given.
    pub fn text(&self) -> &str {
        match self {
            Self::Sqs(arn) => arn,
            Self::Http(url) => url.as_str(),
        }
    }
}

impl EmulatedSubscription {
    /// A subscription that is not confirmed yet.
    pub fn new(topic: &str, endpoint: Endpoint, attributes: BTreeMap<String, String>) -> Self {
        Self {
            arn: format!("{topic}:{}", crate::uuid::random()),
            topic: topic.to_owned(),
            endpoint,
            token: format!("{:032x}{:032x}", fastrand::u128(..), fastrand::u128(..)),
            confirmed: OnceLock::new(),
            attributes: Mutex::new(attributes),
        }
    }

    /// The token that its endpoint is sent and must confirm with.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Marks it as confirmed by its endpoint; doing so twice is not an error.
    pub fn confirm(&self) {
        let _ = self.confirmed.set(());
    }

    /// Sets an attribute; returns `false` if there would be too many.
    pub fn set_attribute(&self, name: &str, value: &str) -> bool {
        let mut set = self.set();
        let fits = set.len() < limits::LAB_TAGS || set.contains_key(name);
        if fits {
            set.insert(name.to_owned(), value.to_owned());
        }
        fits
    }

    pub fn is_confirmed(&self) -> bool {
        self.confirmed.get().is_some()
    }

    pub fn attribute(&self, name: &str) -> Option<String> {
        self.set().get(name).cloned()
    }

    /// Its attributes as SNS states them.
    pub fn attributes(&self) -> BTreeMap<String, String> {
        let mut all = self.set().clone();
        let stated = [
            ("SubscriptionArn", self.arn.as_str()),
            ("TopicArn", &self.topic),
            ("Owner", ACCOUNT),
            ("Protocol", self.endpoint.protocol()),
            ("Endpoint", self.endpoint.text()),
            ("PendingConfirmation", if self.is_confirmed() { "false" } else { "true" }),
            ("ConfirmationWasAuthenticated", "true"),
        ];
        all.extend(stated.map(|(name, value)| (name.to_owned(), value.to_owned())));
        all.entry("RawMessageDelivery".to_owned()).or_insert_with(|| "false".to_owned());
        all
    }

    fn set(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.attributes.lock()
    }

    /// True if its filter policy keeps everything out: announcements carry no message attributes,
    /// so any filter does.
    pub fn filters(&self) -> bool {
        self.attribute("FilterPolicy").is_some_and(|policy| !matches!(policy.trim(), "" | "{}"))
    }
}
