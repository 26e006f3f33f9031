//! The endpoint that SNS posts to: answers, bounds, confirmations.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::io::AsyncWriteExt;

use super::*;
use crate::aws::certificate::fetch::Unfetched;
use crate::aws::clients::tests::nowhere;
use crate::aws::verify::Rejected;
use crate::model::time::{Clock, Wall};
use crate::sidecar::announcements::Intake;
use crate::tasks::Tasks;
use crate::telemetry::metrics::Metrics;

/// Gives the receipt that the body names.
struct Scripted;

impl Intake for Scripted {
    fn take(&self, _region: RegionId, raw: Bytes, _queued: Option<Wall>) -> BoxFuture<'static, Disposition> {
        let disposition = match &raw[..] {
            b"applied" => Disposition::Acknowledge,
            b"not applied" => Disposition::Retry,
            b"forged" => Disposition::Unverified(Rejected::Signature),
            b"no certificate" => Disposition::Unverified(Rejected::Unfetched(Unfetched::Status(503))),
            b"confirmation" => Disposition::Confirm { token: "secret".to_owned() },
            b"unsubscribed" => Disposition::Unsubscribed { published: Wall::from_millis(7) },
            other => panic!("an unexpected body of {} bytes was taken", other.len()),
        };
        Box::pin(std::future::ready(disposition))
    }
}

struct Posting {
    base: String,
    client: reqwest::Client,
    notices: mpsc::Receiver<Notice>,
    tasks: Tasks,
}

impl Posting {
    fn new() -> Self {
        let tasks = Tasks::new();
        let deps = SubscriptionDeps {
            tasks: tasks.clone(),
            clock: Clock::System,
            events: Arc::new(|_| {}),
            speaks: Arc::new(|_| false),
            is_live: Arc::new(|_| false),
            intake: Arc::new(Scripted),
            metrics: Arc::new(Metrics::default()),
            sdk: nowhere(),
        };
        let (knock, notices) = mpsc::channel(limits::NOTICES);
        let topic = TopicArn {
            arn: "arn:aws:sns:eu-west-1:000000000000:t".to_owned(),
            partition: "aws".to_owned(),
            region: "eu-west-1".to_owned(),
            account: "000000000000".to_owned(),
            name: "t".to_owned(),
        };
        let entrance = Entrance { region: RegionId(2), topic, notices: knock };
        let address = open("127.0.0.1:0".parse().unwrap(), vec![entrance], &deps, tasks.stopping()).unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { base: format!("http://{address}"), client, notices, tasks }
    }

    async fn post(&self, path: &str, header: (&str, &str), body: impl Into<reqwest::Body>) -> u16 {
        let request = self.client.post(format!("{}{path}", self.base)).header(header.0, header.1).body(body);
        request.send().await.unwrap().status().as_u16()
    }

    async fn notification(&self, body: &'static str) -> u16 {
        self.post("/in/2", ("x-amz-sns-message-type", "Notification"), body).await
    }
}

#[tokio::test]
async fn only_applied_message_gets_200() {
    let posting = Posting::new();
    assert_eq!(posting.notification("applied").await, 200);
    assert_eq!(posting.notification("not applied").await, 503);
    assert_eq!(posting.notification("forged").await, 403);
}

#[tokio::test]
async fn message_without_type_header_is_accepted() {
    let posting = Posting::new();
    assert_eq!(posting.post("/2", ("accept", "*/*"), "applied").await, 200);
}

#[tokio::test]
async fn non_topic_post_is_refused_unread() {
    let posting = Posting::new();
    let named = ("x-amz-sns-message-type", "Notification");
    assert_eq!(posting.post("/in/2", ("x-amz-sns-message-type", "Rubbish"), "unread").await, 400);
    assert_eq!(posting.post("/in/7", named, "unread").await, 404);
    assert_eq!(posting.post("/", named, "unread").await, 404);
    let got = posting.client.get(format!("{}/in/2", posting.base)).send().await.unwrap();
    assert_eq!(got.status(), 405);
}

#[tokio::test]
async fn oversized_envelope_is_refused() {
    let posting = Posting::new();
    let named = ("x-amz-sns-message-type", "Notification");
    assert_eq!(posting.post("/2", named, vec![b'x'; ENVELOPE_BYTES + 1]).await, 413);
}

#[tokio::test]
async fn raw_delivery_gets_retryable_503() {
    let posting = Posting::new();
    assert_eq!(posting.post("/2", ("x-amz-sns-rawdelivery", "true"), "unread").await, 503);
}

#[tokio::test]
async fn failed_confirmation_is_retried() {
    let posting = Posting::new();
    assert_eq!(posting.post("/2", ("x-amz-sns-message-type", "SubscriptionConfirmation"), "confirmation").await, 503);
}

#[tokio::test]
async fn an_unsubscribe_confirmation_reaches_the_lifecycle() {
    let mut posting = Posting::new();
    assert_eq!(posting.post("/2", ("x-amz-sns-message-type", "UnsubscribeConfirmation"), "unsubscribed").await, 200);
    assert_eq!(posting.notices.recv().await, Some(Notice::Unsubscribed(Wall::from_millis(7))));
}

#[tokio::test]
async fn idle_connection_never_blocks_drain() {
    let posting = Posting::new();
    assert_eq!(posting.notification("applied").await, 200);
    assert_eq!(posting.tasks.drain(std::time::Duration::from_secs(5)).await, Vec::<&str>::new());
}

/// A message of which all but the last byte is sent.
async fn half_a_post(posting: &Posting) -> TcpStream {
    let mut stream = TcpStream::connect(posting.base.trim_start_matches("http://")).await.unwrap();
    let head = "POST /in/2 HTTP/1.1\r\nHost: a\r\nx-amz-sns-message-type: Notification\r\nContent-Length: 7\r\n\r\n";
    stream.write_all(format!("{head}applie").as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn half_sent_post_never_blocks_drain() {
    let posting = Posting::new();
    let half = half_a_post(&posting).await;
    assert_eq!(posting.notification("applied").await, 200);
    assert_eq!(posting.tasks.drain(std::time::Duration::from_secs(3)).await, Vec::<&str>::new());
    drop(half);
}

#[tokio::test]
async fn excess_half_sent_posts_make_room() {
    let posting = Posting::new();
    let mut held = Vec::new();
    for _ in 0..ENDPOINT_CONNECTIONS + 10 {
        held.push(half_a_post(&posting).await);
    }
    let posted = tokio::time::timeout(limits::ENVELOPE_WAIT / 2, posting.notification("applied"));
    assert_eq!(posted.await, Ok(200), "before any of them has had its time");
    assert!(posting.tasks.drain(std::time::Duration::from_secs(3)).await.is_empty());
}

#[test]
fn region_index_is_last_url_segment() {
    for (url, joined) in [
        ("https://sidecar.example.com", "https://sidecar.example.com/1"),
        ("https://sidecar.example.com/in/?a=b", "https://sidecar.example.com/in/1?a=b"),
    ] {
        assert_eq!(endpoint(&Url::parse(url).unwrap(), RegionId(1)), joined);
    }
}
