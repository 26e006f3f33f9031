//! The sqs transport's queue in a topic's region: how it is created, tagged, found and deleted.
//!
//! From the moment the queue exists, only its one topic may write to it. Tags tell the queues that
//! Nearside created from all others.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName;

use crate::aws::failure::{CallFailure, CallFault};
use crate::aws::limits;
use crate::config::{QueuesConfig, TopicArn};
use crate::model::time::Wall;

/// Prefix of the names of all our queues.
pub const PREFIX: &str = "nearside-";
/// The tag that marks a queue as ours; its value is `1`.
pub const OURS: &str = "nearside";
/// The tag that says when the queue's process was last alive, in seconds since 1970.
pub const ALIVE: &str = "alive";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    pub url: String,
    pub arn: String,
    /// True if SQS returned the policy right after the queue was created. If it did, a policy that
    /// is missing later has been removed.
    pub(crate) states_policy: bool,
}

/// A random queue name that no other process will draw.
pub fn draw_name(service: &str) -> String {
    let service: String = service.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
    let drawn: String = (0..20).map(|_| fastrand::alphanumeric().to_ascii_lowercase()).collect();
    format!("{PREFIX}{service}-{drawn}")
}

/// Attributes with which a queue is created.
pub struct QueueOrder<'a> {
    pub name: &'a str,
    pub topic: &'a TopicArn,
    pub service: &'a str,
    pub queues: &'a QueuesConfig,
    pub visibility: Duration,
    pub now: Wall,
}

/// Creates a queue with its policy and tags. Calling it again with the same name is harmless.
pub async fn create(sqs: &aws_sdk_sqs::Client, order: QueueOrder<'_>) -> Result<Queue, CallFailure> {
    let made = sqs
        .create_queue()
        .queue_name(order.name)
        .set_attributes(Some(attributes(order.topic, order.visibility, order.queues)))
        .set_tags(Some(tags(order.topic, order.service, order.queues, order.now)))
        .send()
        .await
        .map_err(|error| CallFailure::of("CreateQueue", &error))?;
    let missing =
        |what: &str| CallFailure { call: "CreateQueue", fault: CallFault::Refused(format!("no queue {what}")) };
    let url = made.queue_url.ok_or_else(|| missing("URL"))?;
    let mut stated = stated(sqs, &url, &[QueueAttributeName::QueueArn, QueueAttributeName::Policy]).await?;
    let states_policy = stated.contains_key(&QueueAttributeName::Policy);
    let arn = stated.remove(&QueueAttributeName::QueueArn);
    Ok(Queue { url, arn: arn.ok_or_else(|| missing("ARN"))?, states_policy })
}

/// The values that SQS reports for these attributes of the queue at `url`.
pub(crate) async fn stated(
    sqs: &aws_sdk_sqs::Client,
    url: &str,
    names: &[QueueAttributeName],
) -> Result<HashMap<QueueAttributeName, String>, CallFailure> {
    let asked = sqs.get_queue_attributes().queue_url(url).set_attribute_names(Some(names.to_vec())).send();
    let answer = asked.await.map_err(|error| CallFailure::of("GetQueueAttributes", &error))?;
    Ok(answer.attributes.unwrap_or_default())
}

fn attributes(topic: &TopicArn, visibility: Duration, queues: &QueuesConfig) -> HashMap<QueueAttributeName, String> {
    // In a queue's own policy `*` can only mean this queue. Its ARN is not known before it exists.
    let policy = serde_json::json!({
        "Version": "2012-10-17",
        "Statement": [{
            "Sid": "OneTopicOnly",
            "Effect": "Allow",
            "Principal": {"Service": "sns.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": "*",
            "Condition": {"ArnEquals": {"aws:SourceArn": topic.arn}},
        }],
    });
    let mut attributes = HashMap::from([
        (QueueAttributeName::Policy, policy.to_string()),
        (QueueAttributeName::VisibilityTimeout, visibility.as_secs().to_string()),
        (QueueAttributeName::MessageRetentionPeriod, limits::RETENTION.as_secs().to_string()),
        (QueueAttributeName::ReceiveMessageWaitTimeSeconds, limits::POLL_WAIT.as_secs().to_string()),
    ]);
    attributes.extend(queues.kms_key.iter().map(|key| (QueueAttributeName::KmsMasterKeyId, key.clone())));
    attributes
}

fn tags(topic: &TopicArn, service: &str, queues: &QueuesConfig, now: Wall) -> HashMap<String, String> {
    let mut tags: HashMap<_, _> = queues.tags.iter().cloned().collect();
    tags.extend([
        (OURS.to_owned(), "1".to_owned()),
        (ALIVE.to_owned(), seconds(now)),
        ("service".to_owned(), tag_value(service)),
        ("topic".to_owned(), tag_value(&topic.arn)),
    ]);
    // Helps the operator who finds the queue; containers have it in their environment.
    if let Ok(host) = std::env::var("HOSTNAME") {
        tags.insert("host".to_owned(), tag_value(&host));
    }
    tags
}

/// A text cut to what a tag's value may hold.
fn tag_value(text: &str) -> String {
    let kept = text.chars().map(|c| if c.is_ascii_alphanumeric() || " _.:/=+-@".contains(c) { c } else { '-' });
    kept.take(256).collect()
}

fn seconds(now: Wall) -> String {
    (now.as_millis() / 1000).to_string()
}

/// Updates the tag that says this queue's process is alive.
pub(crate) async fn tag_alive(sqs: &aws_sdk_sqs::Client, queue: &Queue, now: Wall) -> Result<(), CallFailure> {
    let tagged = sqs.tag_queue().queue_url(&queue.url).tags(ALIVE, seconds(now)).send().await;
    tagged.map(drop).map_err(|error| CallFailure::of("TagQueue", &error))
}

/// Deletes the queue at `url`; succeeds if it does not exist.
pub(crate) async fn delete(sqs: &aws_sdk_sqs::Client, url: &str) -> Result<(), CallFailure> {
    match sqs.delete_queue().queue_url(url).send().await {
        Ok(_) => Ok(()),
        Err(error) => match CallFailure::of("DeleteQueue", &error) {
            failure if failure.is_gone() => Ok(()),
            failure => Err(failure),
        },
    }
}

/// The URL of the queue `name` in the caller's account, or in `owner`'s; `None` if there is no such
/// queue.
pub(crate) async fn find(
    sqs: &aws_sdk_sqs::Client,
    name: &str,
    owner: Option<&str>,
) -> Result<Option<String>, CallFailure> {
    let asked = sqs.get_queue_url().queue_name(name).set_queue_owner_aws_account_id(owner.map(str::to_owned));
    match asked.send().await {
        Ok(answer) => Ok(answer.queue_url),
        Err(error) => match CallFailure::of("GetQueueUrl", &error) {
            failure if failure.is_gone() => Ok(None),
            failure => Err(failure),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic() -> TopicArn {
        TopicArn {
            arn: "arn:aws:sns:eu-west-1:000000000000:contexts".to_owned(),
            partition: "aws".to_owned(),
            region: "eu-west-1".to_owned(),
            account: "000000000000".to_owned(),
            name: "contexts".to_owned(),
        }
    }

    #[test]
    fn queue_accepts_only_its_topic() {
        let policy: serde_json::Value = serde_json::from_str(
            &attributes(&topic(), limits::VISIBILITY, &QueuesConfig::default())[&QueueAttributeName::Policy],
        )
        .unwrap();
        let statements = policy["Statement"].as_array().unwrap();
        assert_eq!(statements.len(), 1);
        assert_eq!(statements[0]["Action"], "sqs:SendMessage");
        assert_eq!(statements[0]["Principal"]["Service"], "sns.amazonaws.com");
        assert_eq!(statements[0]["Condition"]["ArnEquals"]["aws:SourceArn"], topic().arn);
    }

    #[test]
    fn queue_names_are_valid_and_random() {
        let name = draw_name("Tenant contexts / \u{e9}\u{e8} with a very long name that goes on and on and on");
        assert!(name.len() <= 80 && name.starts_with(PREFIX));
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{name}");
        assert_ne!(draw_name("x"), draw_name("x"));
    }

    #[test]
    fn tags_record_owner_and_process_lifetime() {
        let queues =
            QueuesConfig { tags: vec![("team".to_owned(), "contexts".to_owned())], ..QueuesConfig::default() };
        let tags = tags(&topic(), "contexts!", &queues, Wall::from_millis(1_795_240_036_425));
        assert_eq!(tags["team"], "contexts");
        assert_eq!(tags[OURS], "1");
        assert_eq!(tags[ALIVE], "1795240036");
        assert_eq!(tags["service"], "contexts-");
        assert_eq!(tags["topic"], topic().arn);
    }
}
