//! A topic in SNS.

use std::ops::Range;

use aws_sdk_sns::types::{BatchResultErrorEntry, PublishBatchRequestEntry};
use futures_util::future::{BoxFuture, FutureExt};

use super::super::{EngineError, Topic, limits};
use super::errors::Asked;
use crate::aws::engine_clients::EngineClients;

/// One topic; clones share its connections.
#[derive(Clone, Debug)]
pub struct SnsTopic {
    sns: aws_sdk_sns::Client,
    arn: String,
}

impl SnsTopic {
    pub fn new(clients: &EngineClients, arn: impl Into<String>) -> Self {
        Self { sns: clients.sns.clone(), arn: arn.into() }
    }

    async fn publish_all(&self, messages: Vec<String>) -> Result<Vec<usize>, EngineError> {
        let asked = Asked { action: "sns:Publish", resource: &self.arn };
        let mut refused = Vec::new();
        let sizes: Vec<usize> = messages.iter().map(String::len).collect();
        let mut messages = messages.into_iter().enumerate();
        for call in calls(&sizes) {
            let entries: Result<Vec<_>, _> =
                messages.by_ref().take(call.len()).map(|(at, message)| entry(at, message)).collect();
            let entries = entries.map_err(|_| asked.refused("an entry lacks a field"))?;
            let request =
                self.sns.publish_batch().topic_arn(&self.arn).set_publish_batch_request_entries(Some(entries));
            let answer = request.send().await.map_err(|error| asked.failed(&error))?;
            refused.extend(places(answer.failed()));
        }
        refused.sort_unstable();
        Ok(refused)
    }
}

fn entry(at: usize, message: String) -> Result<PublishBatchRequestEntry, aws_sdk_sns::error::BuildError> {
    PublishBatchRequestEntry::builder().id(at.to_string()).message(message).build()
}

fn places(failed: &[BatchResultErrorEntry]) -> impl Iterator<Item = usize> {
    failed.iter().filter_map(|entry| entry.id().parse().ok())
}

/// Which messages go together, given their sizes. One that is too large for any call has its own,
/// which SNS refuses.
fn calls(sizes: &[usize]) -> Vec<Range<usize>> {
    let (mut calls, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (place, size) in sizes.iter().enumerate() {
        if place > start && (place - start == limits::PUBLISH_BATCH || bytes + size > limits::PUBLISH_BYTES) {
            calls.push(start..place);
            (start, bytes) = (place, 0);
        }
        bytes += size;
    }
    if start < sizes.len() {
        calls.push(start..sizes.len());
    }
    calls
}

impl Topic for SnsTopic {
    fn publish(&self, messages: Vec<String>) -> BoxFuture<'_, Result<Vec<usize>, EngineError>> {
        self.publish_all(messages).boxed()
    }

    fn look(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        let asked = Asked { action: "sns:GetTopicAttributes", resource: &self.arn };
        let call = self.sns.get_topic_attributes().topic_arn(&self.arn).send();
        async move { call.await.map(drop).map_err(|error| asked.failed(&error)) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_messages_are_named_by_place() {
        let failed = [7, 12].map(|place| {
            let id = entry(place, String::new()).unwrap().id;
            BatchResultErrorEntry::builder().id(id).code("InternalError").sender_fault(false).build().unwrap()
        });
        assert_eq!(places(&failed).collect::<Vec<_>>(), [7, 12]);
    }

    #[test]
    fn messages_are_batched_to_call_limits() {
        assert!(calls(&[]).is_empty());
        assert_eq!(calls(&[1; 10]).len(), 1);
        assert_eq!(calls(&[1; 11]), [0..10, 10..11]);
        let half = limits::PUBLISH_BYTES / 2;
        assert_eq!(calls(&[half, half, 1]), [0..2, 2..3]);
        assert_eq!(calls(&[1, limits::PUBLISH_BYTES + 1, 1]), [0..1, 1..2, 2..3]);
    }
}
