//! An AWS endpoint before the world's, as an account has it whose policies refuse some calls: in
//! AWS's own words.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use nearside::model::time::{Clock, Moment};
use nearside::tasks::Tasks;
use nearside_lab::aws::sns;
use nearside_lab::chaos_server::port::{self, Port};

/// Treatment of calls by the account.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    /// The API call that is refused, as AWS names it, and the code.
    pub(crate) refuses: (&'static str, &'static str),
    /// For how long it is not.
    pub(crate) after: Duration,
}

const WHO: &str = "User: arn:aws:sts::000000000000:assumed-role/contexts/i-0";

impl Account {
    /// Serves it before `world`; where.
    pub(crate) fn serve(self, world: &str, tasks: &Tasks) -> String {
        let port = Port::hold(0).unwrap();
        let listener = port.listen().unwrap();
        let base = format!("http://{}", port.address());
        let (world, since, http) = (world.to_owned(), Clock::System.now(), super::client());
        let serving = port::serve(listener, tasks.clone(), "call", move |request| {
            self.answer(request, world.clone(), since, http.clone())
        });
        tasks.spawn("account", serving);
        base
    }

    async fn answer(
        self,
        request: Request<Incoming>,
        world: String,
        since: Moment,
        http: reqwest::Client,
    ) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = String::from_utf8(body.collect().await.unwrap().to_bytes().into()).unwrap();
        let target = head.headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
        let (call, code) = self.refuses;
        let is_meant =
            target.ends_with(&format!(".{call}")) || body.split('&').any(|part| part == format!("Action={call}"));
        if is_meant && Clock::System.now().since(since) >= self.after {
            return refusal(call, code, target);
        }
        let mut headers = head.headers;
        headers.remove(http::header::HOST);
        headers.remove(http::header::CONTENT_LENGTH);
        let sent = http.request(head.method, format!("{world}{}", head.uri)).headers(headers).body(body).send().await;
        // The world may be gone already.
        let Ok(reply) = sent else { return status(StatusCode::SERVICE_UNAVAILABLE, String::new()) };
        let (code, headers) = (reply.status(), reply.headers().clone());
        let mut passed = status(code, reply.text().await.unwrap_or_default());
        for name in ["content-type", "x-amzn-query-error"] {
            if let Some(value) = headers.get(name) {
                passed.headers_mut().insert(name, value.clone());
            }
        }
        passed
    }
}

/// As SNS (XML) and the others (JSON) say it.
fn refusal(call: &str, code: &str, target: &str) -> Response<Full<Bytes>> {
    let known = code.starts_with("AccessDenied") || code == "AuthorizationError";
    let service = match target.split(['_', '.']).next().unwrap_or_default() {
        "" => "SNS",
        "DynamoDB" => "dynamodb",
        "Kinesis" => "kinesis",
        _ => "sqs",
    };
    // The batch has no action of its own.
    let action = if call == "PublishBatch" { "Publish" } else { call };
    let message = if known {
        format!(
            "{WHO} is not authorized to perform: {service}:{action} because no identity-based policy allows the {service}:{action} action"
        )
    } else {
        "The security token included in the request is not valid".to_owned()
    };
    if !target.is_empty() {
        let text = serde_json::json!({ "__type": format!("com.amazon.coral.service#{code}"), "message": message });
        return status(StatusCode::BAD_REQUEST, text.to_string());
    }
    let (code, text) = sns::error(StatusCode::FORBIDDEN, code, &message);
    status(code, text)
}

fn status(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::from(text)).unwrap()
}
