//! Checks a subscription's attributes, and its queue's policy: is it still as we made it? A sound
//! result becomes `Event::Attested`, the second half of the weak proof (docs/freshness.md); an
//! unfit one ends the subscription. Only an answer from AWS is a proof or a loss; a call that
//! failed is neither.

use std::collections::HashMap;

use aws_sdk_sqs::types::QueueAttributeName;
use url::Url;

use crate::aws::failure::CallFailure;
use crate::aws::policy;
use crate::aws::sqs::{self, Queue};
use crate::config::TopicArn;

/// Result of a check of the attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attestation {
    /// Ours, confirmed, unfiltered, with envelopes.
    Sound,
    Pending,
    /// Somebody changed it: messages are missing or unsigned; why, in a stable word.
    Unfit(&'static str),
    Gone,
}

/// Asks SNS for the attributes of `subscription`, which we made for `endpoint`.
pub(crate) async fn look(
    sns: &aws_sdk_sns::Client,
    subscription: &str,
    endpoint: &str,
) -> Result<Attestation, CallFailure> {
    match sns.get_subscription_attributes().subscription_arn(subscription).send().await {
        Ok(answer) => Ok(judge(answer.attributes(), endpoint)),
        Err(error) => match CallFailure::of("GetSubscriptionAttributes", &error) {
            failure if failure.is_gone() => Ok(Attestation::Gone),
            failure => Err(failure),
        },
    }
}

/// Asks SQS whether the policy of `queue` still lets `topic` send. If it does not, that is a loss
/// and the queue is made anew: nobody knows since when nothing arrives, which only an epoch can
/// answer for, and a new queue needs no operator.
pub(crate) async fn look_at_policy(
    sqs: &aws_sdk_sqs::Client,
    queue: &Queue,
    topic: &TopicArn,
) -> Result<Attestation, CallFailure> {
    if !queue.states_policy {
        return Ok(Attestation::Sound);
    }
    match sqs::stated(sqs, &queue.url, &[QueueAttributeName::Policy]).await {
        Ok(stated) => {
            let policy = stated.get(&QueueAttributeName::Policy).map_or("", String::as_str);
            Ok(if policy::admits(policy, topic, &queue.arn) {
                Attestation::Sound
            } else {
                Attestation::Unfit("policy")
            })
        }
        Err(failure) if failure.is_gone() => Ok(Attestation::Unfit("queue")),
        Err(failure) => Err(failure),
    }
}

/// Judges the attributes: a missing one is no fault, except that SNS must name our endpoint.
fn judge(attributes: Option<&HashMap<String, String>>, endpoint: &str) -> Attestation {
    if !attribute(attributes, "Endpoint").is_some_and(|stated| same_endpoint(stated, endpoint)) {
        return Attestation::Unfit("endpoint");
    }
    if attribute(attributes, "FilterPolicy").is_some_and(|policy| !matches!(policy, "" | "{}")) {
        return Attestation::Unfit("filter");
    }
    if attribute(attributes, "RawMessageDelivery").is_some_and(|raw| raw.eq_ignore_ascii_case("true")) {
        return Attestation::Unfit("raw");
    }
    if attribute(attributes, "PendingConfirmation").is_some_and(|pending| pending.eq_ignore_ascii_case("true")) {
        return Attestation::Pending;
    }
    Attestation::Sound
}

fn attribute<'a>(attributes: Option<&'a HashMap<String, String>>, name: &str) -> Option<&'a str> {
    attributes?.get(name).map(|value| value.trim())
}

/// SNS masks a password in an endpoint that it shows, so URLs are compared without user and
/// password.
fn same_endpoint(stated: &str, ours: &str) -> bool {
    stated == ours || without_user(stated).is_some_and(|url| without_user(ours) == Some(url))
}

fn without_user(text: &str) -> Option<Url> {
    let mut url = Url::parse(text).ok()?;
    url.set_password(None).and_then(|()| url.set_username("")).ok()?;
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: &str = "arn:aws:sqs:eu-west-1:000000000000:nearside-x";

    fn with(changed: &[(&str, &str)]) -> Attestation {
        let mut attributes: HashMap<String, String> =
            [("Endpoint", QUEUE), ("RawMessageDelivery", "false"), ("PendingConfirmation", "false")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
        attributes.extend(changed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        judge(Some(&attributes), QUEUE)
    }

    #[test]
    fn unchanged_subscription_is_sound() {
        assert_eq!(with(&[]), Attestation::Sound);
        assert_eq!(with(&[("FilterPolicy", "{}")]), Attestation::Sound);
    }

    #[test]
    fn changed_subscription_proves_nothing() {
        assert_eq!(with(&[("FilterPolicy", r#"{"store":["x"]}"#)]), Attestation::Unfit("filter"));
        assert_eq!(with(&[("RawMessageDelivery", "true")]), Attestation::Unfit("raw"));
        assert_eq!(with(&[("Endpoint", "arn:aws:sqs:eu-west-1:000000000000:other")]), Attestation::Unfit("endpoint"));
        assert_eq!(with(&[("PendingConfirmation", "true")]), Attestation::Pending);
        assert_eq!(judge(None, QUEUE), Attestation::Unfit("endpoint"));
    }

    #[test]
    fn masked_password_keeps_endpoint_same() {
        assert!(same_endpoint("https://sns:****@example.com/in/0", "https://sns:secret@example.com/in/0"));
        assert!(!same_endpoint("https://sns:****@example.com/in/1", "https://sns:secret@example.com/in/0"));
        assert!(!same_endpoint(QUEUE, "https://example.com/in/0"));
    }
}
