//! Reads a queue: when it is polled, and when finished messages are deleted. Every message goes to
//! [`crate::sidecar::announcements::Intake`], and only what that acknowledges or refuses is deleted
//! (R12). What could not be applied comes again after the queue's visibility timeout. Nothing is
//! deleted at the end: the queue itself goes, or its messages come again and change nothing (R13).
//!
//! A call costs many times as much as a message, so calls should be full
//! (`docs/decisions/0010-fuller-polls.md`). A message that comes alone, and the one after it, are
//! taken at once; no other waits longer than [`limits::GATHER`] for the next poll, whatever came
//! before.

use std::collections::VecDeque;
use std::time::Duration;

use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;

use super::backoff::Backoff;
use super::new_queue::NewQueue;
use crate::aws::clients::Clients;
use crate::aws::failure::CallFailure;
use crate::aws::limits::POLL_WAIT;
use crate::aws::sqs::Queue;
use crate::model::ids::RegionId;
use crate::model::time::{Clock, Moment, Wall};
use crate::protocol::event::Event;
use crate::sidecar::announcements::Receipt;
use crate::sidecar::announcements::subscription::{AwsTrouble, Edges, SubscriptionStatus};
use crate::sidecar::limits;
use crate::telemetry::rate_limiter::RateLimiter;

/// The most that SQS takes, of messages and of deletions.
const FULL: usize = limits::MESSAGES_PER_POLL as usize;

/// Polls `queue` for as long as it exists, or until it should have shown, and passes each message to the intake.
///
/// `Event::Polled` follows a poll once everything it brought is applied: it is half of a proof that
/// nothing waits unseen. A full poll, or one with a message that could not be verified or applied,
/// proves nothing.
pub(crate) async fn poll(
    clients: &Clients,
    queue: &Queue,
    new: &NewQueue,
    region: RegionId,
    edges: &Edges,
    status: &watch::Sender<SubscriptionStatus>,
) {
    let (mut backoff, lines) = (Backoff::new(limits::POLL_AGAIN), RateLimiter::new());
    let mut pause = Pause::default();
    let mut aside = Aside::default();
    let mut deletions = FuturesUnordered::new();
    let mut wait = Duration::ZERO;
    loop {
        // Deleting continues beside the next poll: an acknowledgement must not delay the next
        // announcement.
        let mut receiving = std::pin::pin!(receive_after(wait, clients, queue, &edges.clock));
        let (received, asked) = loop {
            tokio::select! {
                received = &mut receiving => break received,
                Some(()) = deletions.next(), if !deletions.is_empty() => {}
                () = tokio::time::sleep(aside.due_in(edges.clock.now())), if !aside.is_empty() => {
                    deletions.push(acknowledge(&clients.sqs, queue, aside.take()));
                }
            }
        };
        let now = edges.clock.now();
        wait = match received {
            Ok(messages) => {
                new.was_seen();
                backoff.worked();
                status.send_if_modified(|status| status.failure.take().is_some());
                let brought = messages.len();
                let (done, all) = take(messages, region, edges, status).await;
                if all && brought < FULL {
                    (edges.events)(Event::Polled(region));
                }
                aside.put(done, now);
                // A message that had to be waited for comes alone: nothing is saved by keeping it,
                // or by letting others gather.
                let alone = now - asked >= limits::GATHER;
                while aside.is_full() || (alone && !aside.is_empty()) {
                    deletions.push(acknowledge(&clients.sqs, queue, aside.take()));
                }
                pause.after(brought, alone)
            }
            Err(failure) if failure.is_gone() && new.is_lost(now) => return,
            Err(failure) if failure.is_gone() => {
                tracing::debug!(%failure, "the new queue does not show yet");
                backoff.wait()
            }
            Err(failure) => {
                let wait = backoff.wait().max(failure.least_wait());
                if !failure.is_passing() || wait > limits::POLL_AGAIN.0 {
                    // Not for a single passing failure: the next poll may work.
                    status.send_modify(|status| status.failure = Some(AwsTrouble::from(&failure)));
                }
                if let Some(left_out) = lines.take(now) {
                    tracing::warn!(%failure, ?wait, advice = failure.advice(), left_out, "a poll failed");
                }
                wait
            }
        };
        while deletions.len() >= limits::DELETIONS {
            deletions.next().await;
        }
    }
}

/// How long the queue is left alone after a poll.
#[derive(Debug, Default)]
struct Pause(Duration);

impl Pause {
    /// The pause after a poll that brought so many messages. If none came, or what came was alone,
    /// the next is waited for at the queue. If some came, more may gather. A full poll means that
    /// the pause was too long; after several in a row there is none, so that a backlog is emptied
    /// as fast as possible.
    fn after(&mut self, brought: usize, alone: bool) -> Duration {
        self.0 = match brought {
            _ if alone => Duration::ZERO,
            0 => Duration::ZERO,
            FULL.. => Duration::from_millis(self.0.as_millis() as u64 / 2),
            _ => limits::GATHER,
        };
        self.0
    }
}

/// Receipt handles of messages that must not come again, oldest first, until there are enough for
/// one call.
#[derive(Debug, Default)]
struct Aside(VecDeque<(Moment, String)>);

impl Aside {
    fn put(&mut self, handles: Vec<String>, now: Moment) {
        self.0.extend(handles.into_iter().map(|handle| (now, handle)));
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn is_full(&self) -> bool {
        self.0.len() >= FULL
    }

    /// How long the oldest may still wait.
    fn due_in(&self, now: Moment) -> Duration {
        let waited = self.0.front().map_or(Duration::ZERO, |(since, _)| now - *since);
        limits::DELETE_WITHIN.saturating_sub(waited)
    }

    /// As many as one call takes.
    fn take(&mut self) -> Vec<String> {
        self.0.drain(..self.0.len().min(FULL)).map(|(_, handle)| handle).collect()
    }
}

/// Leaves the queue alone for `wait`, then receives; also returns when it asked.
async fn receive_after(
    wait: Duration,
    clients: &Clients,
    queue: &Queue,
    clock: &Clock,
) -> (Result<Vec<Message>, CallFailure>, Moment) {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    let asked = clock.now();
    (receive(&clients.polling, queue).await, asked)
}

async fn receive(sqs: &aws_sdk_sqs::Client, queue: &Queue) -> Result<Vec<Message>, CallFailure> {
    let asked = sqs
        .receive_message()
        .queue_url(&queue.url)
        .max_number_of_messages(limits::MESSAGES_PER_POLL)
        .wait_time_seconds(POLL_WAIT.as_secs() as i32)
        .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp);
    let answer = asked.send().await.map_err(|error| CallFailure::of("ReceiveMessage", &error))?;
    Ok(answer.messages.unwrap_or_default())
}

/// Hands a poll's messages to the intake, all at once: their order means nothing (R13). Returns the
/// receipt handles of those that must not come again, and whether all were verified and applied.
///
/// The queue's policy admits only the topic, so even what cannot be verified is news from it (R14).
async fn take(
    messages: Vec<Message>,
    region: RegionId,
    edges: &Edges,
    status: &watch::Sender<SubscriptionStatus>,
) -> (Vec<String>, bool) {
    let received = messages.len();
    let taken = join_all(messages.into_iter().map(|message| async move {
        let queued = sent_at(&message);
        let raw = Bytes::from(message.body.unwrap_or_default());
        // SNS confirms a queue by itself: receipts about the subscription have no meaning here.
        let receipt = edges.intake.take(region, raw, queued).await;
        if let Receipt::Unverified(why) = receipt {
            status.send_modify(|status| status.unverified = Some(why));
            (edges.events)(Event::Unverified(region));
        }
        let verified = !matches!(receipt, Receipt::Unverified(_));
        (message.receipt_handle.filter(|_| receipt.may_be_deleted()), verified)
    }));
    let (done, verified): (Vec<_>, Vec<bool>) = taken.await.into_iter().unzip();
    let done: Vec<String> = done.into_iter().flatten().collect();
    let all = done.len() == received && verified.into_iter().all(|verified| verified);
    (done, all)
}

fn sent_at(message: &Message) -> Option<Wall> {
    let stated = message.attributes.as_ref()?.get(&MessageSystemAttributeName::SentTimestamp)?;
    stated.parse().ok().map(Wall::from_millis)
}

/// What cannot be deleted comes again and changes nothing (R13).
async fn acknowledge(sqs: &aws_sdk_sqs::Client, queue: &Queue, handles: Vec<String>) {
    let entries = handles.into_iter().enumerate().filter_map(|(place, handle)| {
        DeleteMessageBatchRequestEntry::builder().id(place.to_string()).receipt_handle(handle).build().ok()
    });
    let deleted = sqs.delete_message_batch().queue_url(&queue.url).set_entries(Some(entries.collect())).send().await;
    match deleted {
        Ok(answer) if answer.failed().is_empty() => {}
        Ok(answer) => tracing::debug!(failed = answer.failed().len(), "messages were not deleted and come again"),
        Err(error) => {
            let failure = CallFailure::of("DeleteMessageBatch", &error);
            tracing::debug!(%failure, "messages were not deleted and come again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::future::BoxFuture;

    use super::*;
    use crate::aws::certificate::fetch::Unfetched;
    use crate::aws::clients::tests::nowhere;
    use crate::aws::verify::Rejected;
    use crate::sidecar::announcements::Intake;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// How many messages a poll brings on average when they arrive evenly and each poll takes
    /// `call`, and the longest that a message waited.
    fn polled(per_second: u64, call: Duration, span: Duration) -> (f64, Duration) {
        let (mut pause, mut now, mut taken, mut polls) = (Pause::default(), Duration::ZERO, 0_u64, 0_u64);
        let arrival = |number: u64| Duration::from_nanos(number * 1_000_000_000 / per_second);
        let mut longest = Duration::ZERO;
        while now < span {
            // A long poll waits for the first.
            let asked = now;
            now = (now + call).max(arrival(taken));
            let alone = now - asked >= limits::GATHER;
            let brought = (taken..).take(FULL).take_while(|number| arrival(*number) <= now).count() as u64;
            longest = longest.max(now - arrival(taken));
            (taken, polls) = (taken + brought, polls + 1);
            now += pause.after(brought as usize, alone);
        }
        (taken as f64 / polls as f64, longest)
    }

    #[test]
    fn a_poll_brings_most_of_what_it_may_at_a_rate_that_would_fill_it() {
        for (per_second, call) in [(167, 1), (167, 10), (250, 1), (400, 5), (1000, 5)] {
            let (each, longest) = polled(per_second, MS(call), MS(60_000));
            assert!(each >= 7.5, "{each} at {per_second}/s, {call} ms each");
            assert!(longest <= 2 * limits::GATHER + MS(2 * call), "{longest:?} at {per_second}/s");
        }
    }

    #[test]
    fn a_message_that_comes_alone_is_taken_at_once_and_so_is_the_one_after_it() {
        for per_second in [1, 10, 19] {
            let (each, longest) = polled(per_second, MS(1), MS(60_000));
            assert!((each - 1.0).abs() < 1e-9 && longest <= MS(1), "{each} {longest:?}");
        }
        assert_eq!(Pause::default().after(1, true), Duration::ZERO);
    }

    #[test]
    fn a_backlog_is_emptied_without_a_pause() {
        let mut pause = Pause::default();
        assert_eq!(pause.after(FULL, false), Duration::ZERO, "the first is full: there is more");
        assert_eq!(pause.after(FULL - 1, false), limits::GATHER);
        let pauses: Vec<_> = (0..7).map(|_| pause.after(FULL, false).as_millis()).collect();
        assert_eq!(pauses, [25, 12, 6, 3, 1, 0, 0]);
        assert_eq!(pause.after(1, false), limits::GATHER);
        assert_eq!(pause.after(0, false), Duration::ZERO, "the queue is empty: the next message is waited for there");
    }

    /// What a poll's messages lead to: events, handles to delete, whether all were applied, and
    /// what the status says.
    async fn taken(bodies: &[&str]) -> (Vec<Event>, Vec<String>, bool, Option<Rejected>) {
        let (emit, mut events) = tokio::sync::mpsc::unbounded_channel();
        let edges = Edges {
            tasks: crate::tasks::Tasks::new(),
            clock: Clock::System,
            events: Arc::new(move |event| emit.send(event).unwrap()),
            speaks: Arc::new(|_| false),
            is_live: Arc::new(|_| false),
            intake: Arc::new(Scripted),
            metrics: Arc::default(),
            sdk: nowhere(),
        };
        let message = |body: &&str| Message::builder().body(*body).receipt_handle(*body).build();
        let status = watch::Sender::new(SubscriptionStatus::new(RegionId(1), "r", "arn", Moment::ZERO));
        let (done, all) = take(bodies.iter().map(message).collect(), RegionId(1), &edges, &status).await;
        drop(edges);
        let mut emitted = Vec::new();
        while let Some(event) = events.recv().await {
            emitted.push(event);
        }
        (emitted, done, all, status.borrow().unverified)
    }

    /// Gives the receipt that the body names.
    struct Scripted;

    impl Intake for Scripted {
        fn take(&self, _: RegionId, raw: Bytes, _: Option<Wall>) -> BoxFuture<'static, Receipt> {
            Box::pin(std::future::ready(match &raw[..] {
                b"applied" => Receipt::Acknowledge,
                b"not applied" => Receipt::Retry,
                b"forged" => Receipt::Unverified(Rejected::Signature),
                _ => Receipt::Unverified(Rejected::Unfetched(Unfetched::Status(503))),
            }))
        }
    }

    /// R14.
    #[tokio::test]
    async fn what_cannot_be_verified_is_reported_and_stays_in_the_queue_only_if_it_may_be_verified_later() {
        let unverified = Event::Unverified(RegionId(1));
        assert_eq!(taken(&["applied"]).await, (vec![], vec!["applied".to_owned()], true, None));
        let forged = taken(&["applied", "forged"]).await;
        let both = vec!["applied".to_owned(), "forged".to_owned()];
        assert_eq!(forged, (vec![unverified.clone()], both, false, Some(Rejected::Signature)));
        let unavailable = Some(Rejected::Unfetched(Unfetched::Status(503)));
        assert_eq!(taken(&["503"]).await, (vec![unverified], vec![], false, unavailable));
        assert_eq!(taken(&["not applied"]).await, (vec![], vec![], false, None), "verified");
    }

    fn handles(numbers: std::ops::Range<u32>) -> Vec<String> {
        numbers.map(|number| number.to_string()).collect()
    }

    #[test]
    fn what_is_done_with_is_deleted_ten_at_a_time_or_when_the_oldest_has_waited_long_enough() {
        let clock = Clock::simulated(Wall::from_millis(0));
        let start = clock.now();
        let mut aside = Aside::default();
        aside.put(handles(0..7), start);
        assert!(!aside.is_full());
        assert_eq!(aside.due_in(start + MS(100)), limits::DELETE_WITHIN - MS(100));
        aside.put(handles(7..15), start + MS(100));
        assert!(aside.is_full());
        assert_eq!(aside.take(), handles(0..10));
        assert!(!aside.is_full() && !aside.is_empty());
        assert_eq!(aside.due_in(start + MS(100)), limits::DELETE_WITHIN, "what is left came with the last");
        assert_eq!(aside.due_in(start + MS(700)), Duration::ZERO);
        assert_eq!(aside.take(), handles(10..15));
        assert!(aside.is_empty());
    }
}
