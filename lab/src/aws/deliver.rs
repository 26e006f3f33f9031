//! Delivers one message to an HTTP endpoint, with SNS's headers, timeout and retries. Every attempt
//! sends the same bytes. A status from 200 to 499 ends the attempts, whether or not the endpoint
//! liked the message.

use std::sync::Arc;
use std::time::Duration;

use super::queue::Taken;
use super::subscription::EmulatedSubscription;
use crate::limits;

/// Time from a message to its duplicate.
pub(super) const BETWEEN_COPIES: Duration = Duration::from_millis(40);

/// One copy of a message, ready to be sent.
#[derive(Clone, Debug)]
pub(super) struct Post {
    /// `Notification` or `SubscriptionConfirmation`
    pub kind: &'static str,
    /// The message's id, the same for every copy and attempt.
    pub id: String,
    pub body: Arc<str>,
    /// True without an envelope.
    pub raw: bool,
    /// Set when it is taken.
    pub taken: Taken,
    /// The subscription that this copy is for.
    pub subscription: Arc<EmulatedSubscription>,
}

/// Posts until the endpoint takes it or the attempts, `pause` apart, are used up; returns whether
/// it was taken.
pub(super) async fn to_endpoint(http: &reqwest::Client, url: &url::Url, post: &Post, pause: Duration) -> bool {
    let (retries, _) = limits::SNS_RETRIES;
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use http::Response;
    use http_body_util::{BodyExt, Full};
    use parking_lot::Mutex;

    use super::*;
    use crate::aws::subscription::Endpoint;
    use crate::chaos_server::port::{self, Port};
    use nearside::tasks::{TaskGroup, Tasks};

    /// Delivers to an endpoint that answers with `statuses` in turn; returns whether it took the
    /// message, and the bodies that it received.
    async fn tried(statuses: &'static [u16]) -> (bool, Vec<Bytes>) {
        let port = Port::hold(0).unwrap();
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let noted = bodies.clone();
        let mut serving = TaskGroup::new();
        serving.start(port::serve(port.listen().unwrap(), Tasks::new(), "endpoint", move |request| {
            let noted = noted.clone();
            async move {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let mut noted = noted.lock();
                noted.push(body);
                let status = statuses[noted.len() - 1];
                Response::builder().status(status).body(Full::<Bytes>::default()).unwrap()
            }
        }));
        let url = url::Url::parse(&format!("http://{}/", port.address())).unwrap();
        let subscription =
            EmulatedSubscription::new("arn:aws:sns:r:0:t", Endpoint::Http(url.clone()), BTreeMap::new());
        let post = Post {
            kind: "Notification",
            id: crate::uuid::random(),
            body: "envelope".into(),
            raw: false,
            taken: Taken::default(),
            subscription: Arc::new(subscription),
        };
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let taken = to_endpoint(&http, &url, &post, Duration::from_millis(1)).await;
        let bodies = bodies.lock().clone();
        (taken, bodies)
    }

    #[tokio::test]
    async fn failed_delivery_retries_thrice_then_drops() {
        let (taken, bodies) = tried(&[503, 500, 200]).await;
        assert_eq!((taken, bodies.len()), (true, 3));
        assert!(bodies.iter().all(|body| body == "envelope"), "every try sends the same bytes");
        let (taken, bodies) = tried(&[503, 503, 503, 503, 200]).await;
        assert_eq!((taken, bodies.len()), (false, 4));
    }

    #[tokio::test]
    async fn status_below_500_counts_as_delivered() {
        let (taken, bodies) = tried(&[404]).await;
        assert_eq!((taken, bodies.len()), (true, 1));
    }
}
