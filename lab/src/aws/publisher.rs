//! A region's announcements: numbered messages on its topic, and heartbeats that say how far it has
//! ingested. Messages are numbered 1, 2, 3, ... in the order in which they are published, and a
//! heartbeat carries the last number.

use std::sync::Arc;

use nearside::model::time::{Clock, Wall};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::envelope_signer::{Signed, stamp};
use super::topic::Topics;

/// A region's only announcing process.
#[derive(Debug)]
pub struct TopicPublisher {
    name: String,
    topic: String,
    topics: Arc<Topics>,
    clock: Clock,
    last: Mutex<u64>,
}

/// Announcement of one record, before it is written as JSON.
#[derive(Clone, Copy, Debug)]
pub struct RecordChange<'a> {
    pub record_type: &'a str,
    pub key: &'a str,
    pub version: u64,
    pub is_deleted: bool,
}

/// An announcement that is numbered and signed, but not yet published.
#[derive(Debug)]
pub struct Ahead {
    number: u64,
    signed: Signed,
}

impl TopicPublisher {
    /// A publisher on `topic` that has not announced anything yet.
    pub fn new(name: String, topic: String, topics: Arc<Topics>, clock: Clock) -> Self {
        Self { name, topic, topics, clock, last: Mutex::new(0) }
    }

    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The number of its last announcement.
    pub fn sequence(&self) -> u64 {
        *self.last.lock()
    }

    pub fn record(&self, change: RecordChange<'_>) {
        self.numbered(said_of(change));
    }

    /// Signs what [`record`](Self::record) would announce after `between` other announcements that
    /// are not published yet.
    pub fn sign_ahead(&self, between: u64, change: RecordChange<'_>) -> Ahead {
        let number = self.sequence() + 1 + between;
        let signed = self.topics.sign(&self.topic, None, &self.with_number(said_of(change), number));
        Ahead { number, signed }
    }

    /// Publishes what was signed ahead; returns `false` if its number is not the next one.
    pub fn publish_ahead(&self, ahead: &Ahead) -> bool {
        let mut last = self.last.lock();
        let next = ahead.number == *last + 1;
        if next {
            *last += 1;
            self.topics.announce_signed(&self.topic, &ahead.signed);
        }
        next
    }

    /// Announces that anything may have changed.
    pub fn reload(&self) {
        self.numbered(json!({ "kind": "RELOAD" }));
    }

    /// Sends a heartbeat with the last number and the time up to which everything is announced with
    /// that number or a lower one.
    pub fn heartbeat(&self, through: Wall) {
        let last = self.last.lock();
        let says = json!({
            "kind": "HEARTBEAT", "publisher": self.name, "sequence": last.to_string(), "ingestedThrough": stamp(through),
        });
        self.topics.announce(&self.topic, &says.to_string());
    }

    /// Publishes `says` with the next number; the lock keeps numbers in the order of publication.
    fn numbered(&self, says: Value) {
        let mut last = self.last.lock();
        *last += 1;
        self.topics.announce(&self.topic, &self.with_number(says, *last));
    }

    fn with_number(&self, mut says: Value, number: u64) -> String {
        says["publisher"] = Value::from(self.name.as_str());
        says["sequence"] = Value::from(number.to_string());
        says["ingestedAt"] = Value::from(stamp(self.clock.wall()));
        says.to_string()
    }
}

fn said_of(change: RecordChange<'_>) -> Value {
    let kind = if change.is_deleted { "DELETED" } else { "CHANGED" };
    let version = change.version.to_string();
    json!({ "recordType": change.record_type, "key": change.key, "version": version, "kind": kind })
}
