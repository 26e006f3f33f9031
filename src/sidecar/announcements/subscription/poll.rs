//! Reads a queue: when it is polled, and when finished messages are deleted. Every message goes to
//! [`crate::sidecar::announcements::Intake`], and only what that acknowledges or refuses is deleted
//! (R12). What cannot be verified yet comes again after the queue's visibility timeout. Nothing is
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
use crate::sidecar::announcements::Disposition;
use crate::sidecar::announcements::subscription::deps::SubscriptionDeps;
use crate::sidecar::announcements::subscription::status::{AwsTrouble, SubscriptionStatus};
use crate::sidecar::limits;
use crate::telemetry::rate_limiter::RateLimiter;

/// SQS's batch limit, of messages and of deletions.
const FULL: usize = limits::MESSAGES_PER_POLL as usize;

/// Polls `queue` for as long as it exists, or until it should have appeared, and passes each
/// message to the intake.
///
/// `Event::Polled` follows a poll once everything it brought is applied: it is half of a proof that
/// nothing waits unseen. A full poll, or one with a message that could not be verified or applied,
/// proves nothing.
pub(crate) async fn poll(
    clients: &Clients,
    queue: &Queue,
    new: &NewQueue,
    region: RegionId,
    deps: &SubscriptionDeps,
    status: &watch::Sender<SubscriptionStatus>,
) {
    let (mut backoff, log_limiter) = (Backoff::new(limits::POLL_AGAIN), RateLimiter::new());
    let mut pause = Pause::default();
    let mut pending = PendingDeletions::default();
    let mut deletions = FuturesUnordered::new();
    let mut wait = Duration::ZERO;
    loop {
        // Deleting continues beside the next poll: an acknowledgement must not delay the next
        // announcement.
        let mut receiving = std::pin::pin!(receive_after(wait, clients, queue, &deps.clock));
        let (received, asked) = loop {
            tokio::select! {
                received = &mut receiving => break received,
                Some(()) = deletions.next(), if !deletions.is_empty() => {}
                () = tokio::time::sleep(pending.due_in(deps.clock.now())), if !pending.is_empty() => {
                    deletions.push(acknowledge(&clients.sqs, queue, pending.take()));
                }
            }
        };
        let now = deps.clock.now();
        wait = match received {
            Ok(messages) => {
                new.was_seen();
                backoff.worked();
                status.send_if_modified(|status| status.failure.take().is_some());
                let brought = messages.len();
                let (to_delete, all_applied) = process_messages(messages, region, deps, status).await;
                if all_applied && brought < FULL {
                    (deps.events)(Event::Polled(region));
                }
                pending.put(to_delete, now);
                // A message that had to be waited for comes alone: nothing is saved by keeping it,
                // or by letting others gather.
                let alone = now - asked >= limits::GATHER;
                while pending.is_full() || (alone && !pending.is_empty()) {
                    deletions.push(acknowledge(&clients.sqs, queue, pending.take()));
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
                if let Some(suppressed) = log_limiter.admit(now) {
                    tracing::warn!(%failure, ?wait, advice = failure.advice(), suppressed, "a poll failed");
                }
                wait
            }
        };
        while deletions.len() >= limits::DELETIONS {
            deletions.next().await;
        }
    }
}

/// Pause of the queue after a poll.
#[derive(Debug, Default)]
struct Pause(Duration);

impl Pause {
    /// The pause after a poll that brought so many messages: none if the poll was empty or its message
    /// came alone, since the next is waited for at the queue; else [`limits::GATHER`]; halved after each
    /// full poll, so that a backlog is emptied as fast as possible.
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

/// SQS's receipt handles of messages to delete, oldest first, until there are enough for
/// one call.
#[derive(Debug, Default)]
struct PendingDeletions(VecDeque<(Moment, String)>);

impl PendingDeletions {
    fn put(&mut self, handles: Vec<String>, now: Moment) {
        self.0.extend(handles.into_iter().map(|handle| (now, handle)));
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn is_full(&self) -> bool {
        self.0.len() >= FULL
    }

    /// Time that the oldest may still wait.
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
/// receipt handles of those to delete, and whether all were verified and applied.
///
/// The queue's policy admits only the topic, so an unverifiable message was still sent by it: it
/// reports `Unverified` (R14).
async fn process_messages(
    messages: Vec<Message>,
    region: RegionId,
    deps: &SubscriptionDeps,
    status: &watch::Sender<SubscriptionStatus>,
) -> (Vec<String>, bool) {
    let received = messages.len();
    let taken = join_all(messages.into_iter().map(|message| async move {
        let sqs_sent_at = sent_at(&message);
        let raw = Bytes::from(message.body.unwrap_or_default());
        // SNS confirms SQS subscriptions itself: `Confirm` and `Unsubscribed` need no action.
        let disposition = deps.intake.take(region, raw, sqs_sent_at).await;
        if let Disposition::Unverified(why) = disposition {
            status.send_modify(|status| status.unverified = Some(why));
            (deps.events)(Event::Unverified(region));
        }
        let verified = !matches!(disposition, Disposition::Unverified(_));
        (message.receipt_handle.filter(|_| disposition.may_be_deleted()), verified)
    }));
    let (handles, verified): (Vec<_>, Vec<bool>) = taken.await.into_iter().unzip();
    let to_delete: Vec<String> = handles.into_iter().flatten().collect();
    let all_applied = to_delete.len() == received && verified.into_iter().all(|verified| verified);
    (to_delete, all_applied)
}

fn sent_at(message: &Message) -> Option<Wall> {
    let stated = message.attributes.as_ref()?.get(&MessageSystemAttributeName::SentTimestamp)?;
    stated.parse().ok().map(Wall::from_millis)
}

/// Deletes messages; one that cannot be deleted comes again and changes nothing (R13).
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

    /// Moment at which the message of this number is there.
    fn arrival(number: u64, per_second: u64) -> Duration {
        Duration::from_nanos(number * 1_000_000_000 / per_second)
    }

    /// Average number of messages per poll when they arrive evenly and each poll takes `call`, and
    /// the longest wait of a message.
    fn polled(per_second: u64, call: Duration, span: Duration) -> (f64, Duration) {
        let (mut pause, mut now, mut taken, mut polls) = (Pause::default(), Duration::ZERO, 0_u64, 0_u64);
        let mut longest = Duration::ZERO;
        while now < span {
            // A long poll waits for the first.
            let asked = now;
            now = (now + call).max(arrival(taken, per_second));
            let alone = now - asked >= limits::GATHER;
            let brought =
                (taken..).take(FULL).take_while(|number| arrival(*number, per_second) <= now).count() as u64;
            longest = longest.max(now - arrival(taken, per_second));
            (taken, polls) = (taken + brought, polls + 1);
            now += pause.after(brought as usize, alone);
        }
        (taken as f64 / polls as f64, longest)
    }

    #[test]
    fn busy_poll_gathers_nearly_full_batch() {
        for (per_second, call) in [(167, 1), (167, 10), (250, 1), (400, 5), (1000, 5)] {
            let (each, longest) = polled(per_second, MS(call), MS(60_000));
            assert!(each >= 7.5, "{each} at {per_second}/s, {call} ms each");
            assert!(longest <= 2 * limits::GATHER + MS(2 * call), "{longest:?} at {per_second}/s");
        }
    }

    #[test]
    fn lone_message_is_taken_at_once() {
        for per_second in [1, 10, 19] {
            let (each, longest) = polled(per_second, MS(1), MS(60_000));
            assert!((each - 1.0).abs() < 1e-9 && longest <= MS(1), "{each} {longest:?}");
        }
        assert_eq!(Pause::default().after(1, true), Duration::ZERO);
    }

    #[test]
    fn backlog_is_emptied_without_pause() {
        let mut pause = Pause::default();
        assert_eq!(pause.after(FULL, false), Duration::ZERO, "the first is full: there is more");
        assert_eq!(pause.after(FULL - 1, false), limits::GATHER);
        let pauses: Vec<_> = (0..7).map(|_| pause.after(FULL, false).as_millis()).collect();
        assert_eq!(pauses, [25, 12, 6, 3, 1, 0, 0]);
        assert_eq!(pause.after(1, false), limits::GATHER);
        assert_eq!(pause.after(0, false), Duration::ZERO, "the queue is empty: the next message is waited for there");
    }

    /// Effects of a poll's messages: events, handles to delete, whether all were applied, and the
    /// status.
    async fn taken(bodies: &[&str]) -> (Vec<Event>, Vec<String>, bool, Option<Rejected>) {
        let (emit, mut events) = tokio::sync::mpsc::unbounded_channel();
        let deps = SubscriptionDeps {
            tasks: crate::tasks::Tasks::new(),
            clock: Clock::System,
            events: Arc::new(move |event| emit.send(event).unwrap()),
            speaks: Arc::new(|_| false),
            is_live: Arc::new(|_| false),
            intake: Arc::new(Scripted),
            metrics: Arc::default(),
            sdk: nowhere(),
        };
        let status = watch::Sender::new(SubscriptionStatus::new(RegionId(1), "r", "arn", Moment::ZERO));
        let (done, all) = process_messages(
            bodies.iter().map(|body| Message::builder().body(*body).receipt_handle(*body).build()).collect(),
            RegionId(1),
            &deps,
            &status,
        )
        .await;
        drop(deps);
        let mut emitted = Vec::new();
        while let Some(event) = events.recv().await {
            emitted.push(event);
        }
        (emitted, done, all, status.borrow().unverified)
    }

    /// Gives the disposition that the body names.
    struct Scripted;

    impl Intake for Scripted {
        fn take(&self, _: RegionId, raw: Bytes, _: Option<Wall>) -> BoxFuture<'static, Disposition> {
            Box::pin(std::future::ready(match &raw[..] {
                b"applied" => Disposition::Acknowledge,
                b"not applied" => Disposition::Retry,
                b"forged" => Disposition::Unverified(Rejected::Signature),
                _ => Disposition::Unverified(Rejected::Unfetched(Unfetched::Status(503))),
            }))
        }
    }

    /// R14.
    #[tokio::test]
    async fn unverified_message_stays_only_if_retryable() {
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
    fn deletes_by_ten_or_by_age() {
        let clock = Clock::simulated(Wall::from_millis(0));
        let start = clock.now();
        let mut pending = PendingDeletions::default();
        pending.put(handles(0..7), start);
        assert!(!pending.is_full());
        assert_eq!(pending.due_in(start + MS(100)), limits::DELETE_WITHIN - MS(100));
        pending.put(handles(7..15), start + MS(100));
        assert!(pending.is_full());
        assert_eq!(pending.take(), handles(0..10));
        assert!(!pending.is_full() && !pending.is_empty());
        assert_eq!(pending.due_in(start + MS(100)), limits::DELETE_WITHIN, "what is left came with the last");
        assert_eq!(pending.due_in(start + MS(700)), Duration::ZERO);
        assert_eq!(pending.take(), handles(10..15));
        assert!(pending.is_empty());
    }
}
