//! SNS and SQS as far as a sidecar uses them, with failures of a test's choice. The emulator shows
//! every queue at once and never fails, which is what cannot be had from it here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nearside::tasks::Tasks;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Status and code of the failure of a call, by its action and how many of these came before; `None`
/// lets it succeed.
pub(crate) type Script = Arc<dyn Fn(&str, usize) -> Option<(u16, &'static str)> + Send + Sync>;

/// The server; it ends with the test's runtime.
pub(crate) struct ScriptedAws {
    pub(crate) url: String,
    calls: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl ScriptedAws {
    pub(crate) async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let calls = Arc::<Mutex<BTreeMap<_, _>>>::default();
        let (served, base) = (calls.clone(), url.clone());
        let tasks = Tasks::new();
        let each = tasks.clone();
        tasks.spawn("accept", async move {
            while let Ok((stream, _)) = listener.accept().await {
                each.spawn("serve", serve(stream, base.clone(), script.clone(), served.clone()));
            }
        });
        Self { url, calls }
    }

    /// Number of calls of `action`.
    pub(crate) fn calls(&self, action: &str) -> usize {
        self.calls.lock().unwrap().get(action).copied().unwrap_or_default()
    }
}

/// Answers the calls of one connection until it ends.
async fn serve(mut stream: TcpStream, base: String, script: Script, calls: Arc<Mutex<BTreeMap<String, usize>>>) {
    let mut kept = Vec::new();
    while let Some((head, body)) = request(&mut stream, &mut kept).await {
        let target = head.lines().find_map(|line| line.strip_prefix("x-amz-target: AmazonSQS."));
        let form: BTreeMap<_, _> = url::form_urlencoded::parse(&body).into_owned().collect();
        let action = target.map_or_else(|| form["Action"].clone(), str::to_owned);
        let before = {
            let mut calls = calls.lock().unwrap();
            let count = calls.entry(action.clone()).or_default();
            *count += 1;
            *count - 1
        };
        let (status, text) = match script(&action, before) {
            Some((status, code)) if target.is_some() => {
                (status, format!("{{\"__type\":\"com.amazonaws.sqs#{code}\",\"message\":\"no\"}}"))
            }
            Some((status, code)) => (
                status,
                format!("<ErrorResponse><Error><Code>{code}</Code><Message>no</Message></Error></ErrorResponse>"),
            ),
            None if target.is_some() => (200, sqs(&action, &body, &base).await),
            None => (200, sns(&action, &form)),
        };
        let kind = if target.is_some() { "application/x-amz-json-1.0" } else { "text/xml" };
        let length = text.len();
        let reply = format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{text}");
        if stream.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The head in lower-case names, and the body, of the next request.
async fn request(stream: &mut TcpStream, kept: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    loop {
        if let Some(end) = kept.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&kept[..end]).into_owned();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |it| it.parse().unwrap());
            if kept.len() >= end + 4 + length {
                let body = kept[end + 4..end + 4 + length].to_vec();
                kept.drain(..end + 4 + length);
                return Some((head, body));
            }
        }
        if stream.read_buf(kept).await.ok()? == 0 {
            return None;
        }
    }
}

async fn sqs(action: &str, body: &[u8], base: &str) -> String {
    let given: serde_json::Value = serde_json::from_slice(body).unwrap();
    match action {
        "CreateQueue" => {
            format!("{{\"QueueUrl\":\"{base}/000000000000/{}\"}}", given["QueueName"].as_str().unwrap())
        }
        "GetQueueAttributes" => {
            let name = given["QueueUrl"].as_str().unwrap().rsplit('/').next().unwrap();
            // No policy is stated, so none is expected.
            format!("{{\"Attributes\":{{\"QueueArn\":\"arn:aws:sqs:eu-west-1:000000000000:{name}\"}}}}")
        }
        "ReceiveMessage" => {
            tokio::time::sleep(Duration::from_millis(50)).await;
            "{}".to_owned()
        }
        _ => "{}".to_owned(),
    }
}

/// A subscription is named as its queue is, and is as it was made.
fn sns(action: &str, form: &BTreeMap<String, String>) -> String {
    let inner = match action {
        "Subscribe" => {
            let name = last_part(&form["Endpoint"]);
            format!("<SubscriptionArn>arn:aws:sns:eu-west-1:000000000000:changes:{name}</SubscriptionArn>")
        }
        "GetSubscriptionAttributes" => {
            let endpoint = format!("arn:aws:sqs:eu-west-1:000000000000:{}", last_part(&form["SubscriptionArn"]));
            format!("<Attributes><entry><key>Endpoint</key><value>{endpoint}</value></entry></Attributes>")
        }
        _ => String::new(),
    };
    format!("<{action}Response><{action}Result>{inner}</{action}Result></{action}Response>")
}

fn last_part(arn: &str) -> &str {
    arn.rsplit(':').next().unwrap()
}
