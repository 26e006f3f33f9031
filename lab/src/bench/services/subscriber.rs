//! Listens to a region's topic beside the sidecar, over a queue of the harness's own: when SNS took
//! each announcement is in its envelope.

use aws_sdk_sqs::types::Message;
use nearside::aws::clients::{self, Sdk};
use nearside::aws::envelope::Envelope;
use nearside::aws::failure::CallFailure;
use nearside::aws::sqs::{self, QueueOrder};
use nearside::config::{QueuesConfig, TopicArn};
use nearside::model::time::{Clock, Wall};
use nearside::protocol::announcement::decode;
use nearside::protocol::announcement::message::AnnouncementKind;

use super::deployment::{Deployment, REGION, VIEW};
use crate::limits;

pub(crate) struct TopicSubscriber {
    sqs: aws_sdk_sqs::Client,
    /// Gone with its owner: with the harness's SQS, or the emulator.
    queue: String,
}

/// A change of the view, and when SNS took its announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnnouncedChange {
    pub version: u64,
    pub published: Wall,
}

impl TopicSubscriber {
    pub(crate) async fn open(deployment: &Deployment) -> Result<Self, CallFailure> {
        let clients = Sdk::new(Some(deployment.endpoint.clone())).clients(REGION).await;
        let topic = arn(&deployment.topic);
        let order = QueueOrder {
            name: &sqs::draw_name("bench"),
            topic: &topic,
            service: "bench",
            queues: &QueuesConfig::default(),
            // What was received once does not come again.
            visibility: limits::BENCH_DISK_WAIT,
            now: Clock::System.wall(),
        };
        let queue = sqs::create(&clients.sqs, order).await?;
        clients::subscribe(&clients.sns, &topic, "sqs", &queue.arn).await?;
        Ok(Self { sqs: clients.polling, queue: queue.url })
    }

    /// Some of what has come; empty if nothing has for a second.
    pub(crate) async fn next(&self) -> Result<Vec<AnnouncedChange>, CallFailure> {
        let asked = self.sqs.receive_message().queue_url(&self.queue).max_number_of_messages(10).wait_time_seconds(1);
        let came = asked.send().await.map_err(|error| CallFailure::of("ReceiveMessage", &error))?;
        Ok(came.messages().iter().filter_map(reported).collect())
    }
}

fn reported(message: &Message) -> Option<AnnouncedChange> {
    let envelope = Envelope::parse(message.body()?.as_bytes()).ok()?;
    let announcement = decode(&envelope.message).ok()?;
    match announcement.kind {
        AnnouncementKind::Changed { version: Some(version) } if announcement.record_type == VIEW => {
            Some(AnnouncedChange { version, published: envelope.published })
        }
        _ => None,
    }
}

/// As the harness itself wrote it.
fn arn(arn: &str) -> TopicArn {
    TopicArn {
        partition: part(arn, 1),
        region: part(arn, 3),
        account: part(arn, 4),
        name: part(arn, 5),
        arn: arn.to_owned(),
    }
}

fn part(arn: &str, at: usize) -> String {
    arn.split(':').nth(at).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change_of(said: &str) -> Option<AnnouncedChange> {
        let body = serde_json::json!({
            "Type": "Notification", "MessageId": "7f3a9c52-0000-4000-8000-000000000000",
            "TopicArn": "arn:aws:sns:eu-west-1:000000000000:bench", "Message": said,
            "Timestamp": "2026-11-21T04:00:00.123Z", "SignatureVersion": "2", "Signature": "AAAA",
            "SigningCertURL": "http://127.0.0.1:1/x.pem", "UnsubscribeURL": "http://127.0.0.1:1/",
        });
        reported(&Message::builder().body(body.to_string()).build())
    }

    #[test]
    fn only_view_changes_yield_version_time() {
        let change = change_of(r#"{"recordType":"limits","key":"measured","kind":"CHANGED","version":"7"}"#);
        assert_eq!(change.map(|change| change.version), Some(7), "{change:?}");
        assert_eq!(change.unwrap().published.as_millis() % 1000, 123);
        assert_eq!(change_of(r#"{"recordType":"profile","key":"measured","kind":"CHANGED","version":"7"}"#), None);
        assert_eq!(change_of("{}"), None);
        let topic = arn("arn:aws:sns:eu-west-1:000000000000:bench");
        assert_eq!((topic.region.as_str(), topic.name.as_str()), ("eu-west-1", "bench"));
    }
}
