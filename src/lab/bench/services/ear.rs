//! Listens to a region's topic beside the sidecar, over a queue of the harness's own: when SNS took
//! each announcement is in its envelope.

use aws_sdk_sqs::types::Message;

use super::deployment::{Deployment, REGION, VIEW};
use crate::aws::clients::{self, Sdk};
use crate::aws::envelope::Envelope;
use crate::aws::failure::CallFailure;
use crate::aws::sqs::{self, QueueOrder};
use crate::config::{QueuesConfig, TopicArn};
use crate::lab::limits;
use crate::model::time::{Clock, Wall};
use crate::protocol::announcement::decode;
use crate::protocol::announcement::message::AnnouncementKind;

pub(crate) struct TopicEar {
    sqs: aws_sdk_sqs::Client,
    /// Gone with whoever has it: with the harness's SQS, or the emulator.
    queue: String,
}

/// A change of the view, and when SNS took its announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ToldChange {
    pub version: u64,
    pub published: Wall,
}

impl TopicEar {
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
    pub(crate) async fn next(&self) -> Result<Vec<ToldChange>, CallFailure> {
        let asked = self.sqs.receive_message().queue_url(&self.queue).max_number_of_messages(10).wait_time_seconds(1);
        let came = asked.send().await.map_err(|error| CallFailure::of("ReceiveMessage", &error))?;
        Ok(came.messages().iter().filter_map(told).collect())
    }
}

fn told(message: &Message) -> Option<ToldChange> {
    let envelope = Envelope::parse(message.body()?.as_bytes()).ok()?;
    let announcement = decode(&envelope.message).ok()?;
    match announcement.kind {
        AnnouncementKind::Changed { version: Some(version) } if announcement.record_type == VIEW => {
            Some(ToldChange { version, published: envelope.published })
        }
        _ => None,
    }
}

/// As the harness itself wrote it.
fn arn(arn: &str) -> TopicArn {
    let part = |at: usize| arn.split(':').nth(at).unwrap_or_default().to_owned();
    TopicArn { partition: part(1), region: part(3), account: part(4), name: part(5), arn: arn.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(said: &str) -> Option<ToldChange> {
        let body = serde_json::json!({
            "Type": "Notification", "MessageId": "7f3a9c52-0000-4000-8000-000000000000",
            "TopicArn": "arn:aws:sns:eu-west-1:000000000000:bench", "Message": said,
            "Timestamp": "2026-11-21T04:00:00.123Z", "SignatureVersion": "2", "Signature": "AAAA",
            "SigningCertURL": "http://127.0.0.1:1/x.pem", "UnsubscribeURL": "http://127.0.0.1:1/",
        });
        told(&Message::builder().body(body.to_string()).build())
    }

    #[test]
    fn a_change_of_the_view_has_its_version_and_when_sns_took_it_and_all_else_is_passed_over() {
        let change = heard(r#"{"recordType":"limits","key":"measured","kind":"CHANGED","version":"7"}"#);
        assert_eq!(change.map(|change| change.version), Some(7), "{change:?}");
        assert_eq!(change.unwrap().published.as_millis() % 1000, 123);
        assert_eq!(heard(r#"{"recordType":"profile","key":"measured","kind":"CHANGED","version":"7"}"#), None);
        assert_eq!(heard("{}"), None);
        let topic = arn("arn:aws:sns:eu-west-1:000000000000:bench");
        assert_eq!((topic.region.as_str(), topic.name.as_str()), ("eu-west-1", "bench"));
    }
}
