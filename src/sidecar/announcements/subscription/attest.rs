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

/// What a check of the attributes shows.
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

/// What SNS does not state is not held against it, except that it must name our endpoint.
fn judge(attributes: Option<&HashMap<String, String>>, endpoint: &str) -> Attestation {
    let says = |name: &str| attributes.and_then(|all| all.get(name)).map(|value| value.trim());
    if !says("Endpoint").is_some_and(|stated| same_endpoint(stated, endpoint)) {
        return Attestation::Unfit("endpoint");
    }
    if says("FilterPolicy").is_some_and(|policy| !matches!(policy, "" | "{}")) {
        return Attestation::Unfit("filter");
    }
    if says("RawMessageDelivery").is_some_and(|raw| raw.eq_ignore_ascii_case("true")) {
        return Attestation::Unfit("raw");
    }
    if says("PendingConfirmation").is_some_and(|pending| pending.eq_ignore_ascii_case("true")) {
        return Attestation::Pending;
    }
    Attestation::Sound
}

/// SNS masks a password in an endpoint that it shows, so URLs are compared without user and
/// password.
fn same_endpoint(stated: &str, ours: &str) -> bool {
    let plain = |text: &str| {
        let mut url = Url::parse(text).ok()?;
        url.set_password(None).and_then(|()| url.set_username("")).ok()?;
        Some(url)
    };
    stated == ours || plain(stated).is_some_and(|url| plain(ours) == Some(url))
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
    fn a_subscription_as_we_made_it_is_sound() {
        assert_eq!(with(&[]), Attestation::Sound);
        assert_eq!(with(&[("FilterPolicy", "{}")]), Attestation::Sound);
    }

    #[test]
    fn a_subscription_that_somebody_changed_proves_nothing() {
        assert_eq!(with(&[("FilterPolicy", r#"{"store":["x"]}"#)]), Attestation::Unfit("filter"));
        assert_eq!(with(&[("RawMessageDelivery", "true")]), Attestation::Unfit("raw"));
        assert_eq!(with(&[("Endpoint", "arn:aws:sqs:eu-west-1:000000000000:other")]), Attestation::Unfit("endpoint"));
        assert_eq!(with(&[("PendingConfirmation", "true")]), Attestation::Pending);
        assert_eq!(judge(None, QUEUE), Attestation::Unfit("endpoint"));
    }

    #[test]
    fn a_masked_password_does_not_make_the_endpoint_another() {
        assert!(same_endpoint("https://sns:****@example.com/in/0", "https://sns:secret@example.com/in/0"));
        assert!(!same_endpoint("https://sns:****@example.com/in/1", "https://sns:secret@example.com/in/0"));
        assert!(!same_endpoint(QUEUE, "https://example.com/in/0"));
    }
}
