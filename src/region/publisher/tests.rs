//! Topics that refuse, and numbers that must arrive all the same.

use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use parking_lot::Mutex as StdMutex;

use super::*;
use crate::engine::faulty::{FaultRates, Faults, Faulty};
use crate::protocol::announcement::decode;

/// Takes what it is given.
#[derive(Clone, Default)]
struct TakesAll {
    taken: Arc<StdMutex<Vec<String>>>,
}

impl Topic for TakesAll {
    fn publish(&self, messages: Vec<String>) -> BoxFuture<'_, Result<Vec<usize>, EngineError>> {
        self.taken.lock().extend(messages);
        std::future::ready(Ok(Vec::new())).boxed()
    }
}

fn changed(key: &str, version: u64) -> Said {
    Said {
        record_type: "limits".to_owned(),
        key: key.to_owned(),
        kind: AnnouncementKind::Changed { version: Some(version) },
    }
}

fn numbers(taken: &TakesAll) -> Vec<(String, u64)> {
    let messages = taken.taken.lock();
    messages
        .iter()
        .map(|message| decode(message).unwrap().numbered.unwrap())
        .map(|numbered| (numbered.publisher, numbered.sequence))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn numbers_arrive_and_heartbeats_never_overclaim() {
    for seed in 0..50 {
        fastrand::seed(seed);
        let (topic, faults) = (TakesAll::default(), Faults::default());
        faults.set(FaultRates { refuses: 0.3, fails: 0.2, ..FaultRates::default() });
        let publisher = RegionPublisher::new("a", Arc::new(Faulty::new(topic.clone(), faults)), Clock::System);
        for round in 0..5 {
            publisher.announce((0..25).map(|key| changed(&format!("k{key}"), round + 1)).collect()).await;
            let _ = publisher.heartbeat(None).await;
        }
        let numbers = numbers(&topic);
        let name = &numbers[0].0;
        assert!(numbers.iter().all(|(publisher, _)| publisher == name), "the name is kept");
        assert!((1..=125).all(|number| numbers.iter().any(|(_, seen)| *seen == number)), "seed {seed}");
        let mut reached = 0;
        for (place, (_, number)) in numbers.iter().enumerate() {
            let before = &numbers[..place];
            let is_heartbeat = decode(&topic.taken.lock()[place]).unwrap().key.is_empty();
            if is_heartbeat {
                assert!((1..=*number).all(|n| before.iter().any(|(_, seen)| *seen == n)), "seed {seed}: {number}");
            }
            // A call of ten may be taken in part; nothing of the next goes before the rest.
            assert!(*number <= reached + 10, "seed {seed}: {number} after {reached}");
            while numbers[..=place].iter().any(|(_, seen)| *seen == reached + 1) {
                reached += 1;
            }
        }
    }
}

/// True of a message about the key that is refused, by this publisher if one is named.
fn is_bad(message: &str, publisher: Option<&str>) -> bool {
    message.contains("\"bad\"") && publisher.is_none_or(|publisher| message.contains(publisher))
}

/// Refuses one key for ever, as SNS would a message that it cannot take.
struct Refuses(TakesAll);

impl Topic for Refuses {
    fn publish(&self, messages: Vec<String>) -> BoxFuture<'_, Result<Vec<usize>, EngineError>> {
        let name = numbers(&self.0).first().map(|(name, _)| name.clone());
        let refused = (0..messages.len()).filter(|place| is_bad(&messages[*place], name.as_deref())).collect();
        let taken = messages.into_iter().filter(|message| !is_bad(message, name.as_deref())).collect();
        async move {
            self.0.publish(taken).await?;
            Ok(refused)
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn unpublishable_number_hands_over_to_successor() {
    let topic = TakesAll::default();
    let publisher = RegionPublisher::new("a", Arc::new(Refuses(topic.clone())), Clock::System);
    publisher.announce(vec![changed("good", 1), changed("bad", 2), changed("good", 3)]).await;
    let numbers = numbers(&topic);
    let names: std::collections::BTreeSet<&String> = numbers.iter().map(|(name, _)| name).collect();
    assert_eq!((names.len(), publisher.counts.metrics.publisher_renamed.get()), (2, 1));
    let last: Vec<u64> = numbers.iter().rev().take(3).map(|(_, number)| *number).collect();
    assert_eq!(last, [3, 2, 1], "all of the batch under the new name");
}

#[tokio::test(start_paused = true)]
async fn unanswering_topic_means_silence() {
    let faults = Faults::default();
    faults.set(FaultRates { fails: 1.0, ..FaultRates::default() });
    let topic = TakesAll::default();
    let publisher = RegionPublisher::new("a", Arc::new(Faulty::new(topic.clone(), faults)), Clock::System);
    let announcing = publisher.announce(vec![changed("k", 1)]);
    assert!(tokio::time::timeout(Duration::from_secs(60), announcing).await.is_err());
    assert!(publisher.heartbeat(None).await.is_err());
    assert!(topic.taken.lock().is_empty());
}

/// Refuses one key under every name: the message alone, or the whole call that it is in.
struct Never {
    topic: TakesAll,
    whole_call: bool,
}

impl Topic for Never {
    fn publish(&self, messages: Vec<String>) -> BoxFuture<'_, Result<Vec<usize>, EngineError>> {
        let refused: Vec<usize> = (0..messages.len()).filter(|place| is_bad(&messages[*place], None)).collect();
        if self.whole_call && !refused.is_empty() {
            let (what, why) = ("sns:Publish".to_owned(), "InvalidParameter".to_owned());
            return std::future::ready(Err(EngineError::Refused { what, why })).boxed();
        }
        let taken = messages.into_iter().filter(|message| !is_bad(message, None)).collect();
        async move {
            self.topic.publish(taken).await?;
            Ok(refused)
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn refused_announcement_becomes_reload_without_blocking() {
    for whole_call in [false, true] {
        let topic = TakesAll::default();
        let never = Never { topic: topic.clone(), whole_call };
        let publisher = RegionPublisher::new("a", Arc::new(never), Clock::System);
        let said = [("good", 1), ("bad", 2), ("other", 3), ("bad", 2)];
        let announced = publisher.announce(said.map(|(key, version)| changed(key, version)).to_vec());
        tokio::time::timeout(Duration::from_secs(3_600), announced).await.expect("it ends");
        publisher.announce(vec![changed("next", 4)]).await;
        let last = numbers(&topic).last().unwrap().0.clone();
        let messages = topic.taken.lock().clone();
        let said: Vec<_> = messages.iter().map(|message| decode(message).unwrap()).collect();
        let own = said.iter().filter(|one| one.numbered.as_ref().is_some_and(|it| it.publisher == last));
        let keys: Vec<&str> = own.filter(|one| !one.record_type.is_empty()).map(|one| one.key.as_str()).collect();
        assert_eq!(keys, ["good", "", "other", "next"], "whole call {whole_call}");
        assert!(publisher.counts.metrics.announced_as_reload.get() >= 1);
    }
}

#[tokio::test(start_paused = true)]
async fn never_accepted_reload_ends_too() {
    let topic = Never { topic: TakesAll::default(), whole_call: true };
    let publisher = RegionPublisher::new("a", Arc::new(topic), Clock::System);
    let announced = publisher.announce(vec![Said { record_type: "bad".to_owned(), ..changed("k", 1) }]);
    tokio::time::timeout(Duration::from_secs(3_600), announced).await.expect("it ends");
    assert_eq!(publisher.counts.metrics.announced_as_reload.get(), 2);
}

/// SNS refuses characters that XML does not have. All but these are escaped by JSON anyway.
#[tokio::test(start_paused = true)]
async fn any_key_characters_can_be_announced() {
    let topic = TakesAll::default();
    let publisher = RegionPublisher::new("a", Arc::new(topic.clone()), Clock::System);
    let key = "\u{fffe}\u{ffff}\u{1}\u{7f}\u{e4}\u{1f980}\\ufffe";
    publisher.announce(vec![changed(key, 1)]).await;
    let message = topic.taken.lock().remove(0);
    assert!(message.chars().all(|char| !matches!(char, '\u{0}'..'\u{20}' | '\u{fffe}' | '\u{ffff}')), "{message}");
    assert_eq!(decode(&message).unwrap().key, key);
}
