//! Owns the delivery of one message to an HTTP endpoint: SNS's headers, its patience and its retries.
//!
//! Before it: [`super::topic`]. After it: whoever subscribed. Invariant: every try sends the same bytes; a status from
//! 200 to 499 ends the tries, delivered or not.

use std::sync::Arc;
use std::time::Duration;

use super::queue::Taken;
use super::subscription::Subscription;
use crate::limits;

/// How long after a message its duplicate follows.
pub const BETWEEN_COPIES: Duration = Duration::from_millis(40);

/// One copy of a message, ready to go.
#[derive(Clone, Debug)]
pub struct Post {
    /// `Notification` or `SubscriptionConfirmation`
    pub kind: &'static str,
    /// The message's id, the same for every copy and try.
    pub id: String,
    /// What is sent.
    pub body: Arc<str>,
    /// Without an envelope.
    pub raw: bool,
    /// Set when it is taken.
    pub taken: Taken,
    /// Whose copy it is.
    pub subscription: Arc<Subscription>,
}

/// Posts until the endpoint takes it or the tries are used up; whether it was taken.
pub async fn to_endpoint(http: &reqwest::Client, url: &url::Url, post: &Post) -> bool {
    let (retries, pause) = limits::SNS_RETRIES;
    for attempt in 0..=retries {
        if attempt > 0 {
            tokio::time::sleep(pause).await;
        }
        let mut request = http
            .post(url.clone())
            .timeout(limits::SNS_DELIVERY_WAIT)
            .header("content-type", "text/plain; charset=UTF-8")
            .header("user-agent", "Amazon Simple Notification Service Agent")
            .header("x-amz-sns-message-type", post.kind)
            .header("x-amz-sns-message-id", &post.id)
            .header("x-amz-sns-topic-arn", &post.subscription.topic)
            .body(post.body.as_bytes().to_vec());
        if post.kind == "Notification" {
            request = request.header("x-amz-sns-subscription-arn", &post.subscription.arn);
        }
        if post.raw {
            request = request.header("x-amz-sns-rawdelivery", "true");
        }
        match request.send().await {
            Ok(response) if (200..500).contains(&response.status().as_u16()) => return true,
            Ok(response) => {
                tracing::debug!(status = response.status().as_u16(), attempt, "an endpoint refused a delivery")
            }
            Err(error) => tracing::debug!(error = %error.without_url(), attempt, "a delivery failed"),
        }
    }
    false
}

/// A random name in UUID form; nothing secret hangs on it.
pub fn uuid() -> String {
    let random = fastrand::u128(..);
    let bits = random & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
