//! The loopback AWS endpoint: one port that speaks SNS and SQS as the SDKs expect, and serves the
//! certificate that verifies its envelopes. A sidecar's aws-sdk-sns and aws-sdk-sqs use it with
//! their endpoint overridden. The region is the one in the call's SigV4 scope. The signatures of
//! calls are not checked, so any credentials work. [`publisher`] announces on a topic as a region
//! does.

mod deliver;
pub mod envelope_signer;
pub mod publisher;
pub mod queue;
pub mod sns;
mod sqs;
pub mod standing;
mod subscription;
pub mod topic;

use std::sync::Arc;

use bytes::Bytes;
use envelope_signer::EnvelopeSigner;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use nearside::model::time::Clock;
use nearside::tasks::Tasks;
use queue::EmulatedQueues;
use topic::{Topics, region_of};

use crate::chaos_server::port::{self, Port};
use crate::limits;
use crate::names::LabError;

#[derive(Clone, Debug)]
pub struct Aws {
    pub topics: Arc<Topics>,
    pub queues: Arc<EmulatedQueues>,
    /// Its base URL, such as `http://127.0.0.1:8720`.
    pub base: Arc<str>,
}

const XML: HeaderValue = HeaderValue::from_static("text/xml");
const JSON: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.0");
const PEM: HeaderValue = HeaderValue::from_static("application/x-pem-file");

impl Aws {
    /// Serves SNS and SQS at `held` until the tasks stop.
    pub fn start(held: Port, clock: &Clock, tasks: &Tasks) -> Result<Self, LabError> {
        let base = format!("http://{}", held.address());
        // Deliveries go to loopback only, so no proxy and no root certificates are needed, and it
        // works in an image without CA certificates.
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tls_certs_only([])
            .build()?;
        let queues = Arc::new(EmulatedQueues::new(clock.clone()));
        let signer = EnvelopeSigner::generate(clock.wall());
        let topics = Arc::new(Topics::new(clock.clone(), tasks.clone(), queues.clone(), signer, http));
        topics.serve_at(base.clone());
        let aws = Self { topics, queues, base: base.into() };
        let listener = held.listen_for("the AWS endpoint")?;
        let (answering, serving) = (aws.clone(), tasks.clone());
        tasks.spawn("aws", async move {
            // Holds the port for as long as it is listened on.
            let _held = held;
            port::serve(listener, serving, "aws-connection", move |request| answering.clone().answer(request)).await;
        });
        Ok(aws)
    }

    /// Answers one call.
    pub async fn answer(self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        if head.method == Method::GET {
            return self.get(head.uri.path(), head.uri.query().unwrap_or(""));
        }
        let Ok(body) = Limited::new(body, limits::LAB_BODY_BYTES).collect().await else {
            return xml(sns::error(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", "The call is too large."));
        };
        let body = body.to_bytes();
        let Some(region) = scope(&head.headers) else {
            return xml(sns::error(StatusCode::FORBIDDEN, "MissingAuthenticationToken", "The call is not signed."));
        };
        let target = head.headers.get("x-amz-target").and_then(|target| target.to_str().ok());
        match target.and_then(|target| target.strip_prefix("AmazonSQS.")) {
            Some(action) => {
                let (status, text, error) = sqs::call(&self.queues, region, &self.base, action, &body).await;
                let mut response = reply(status, JSON, text);
                if let Some(error) = error.and_then(|error| HeaderValue::try_from(error).ok()) {
                    response.headers_mut().insert("x-amzn-query-error", error);
                }
                response
            }
            None => xml(sns::call(&self.topics, region, &sns::form(&body))),
        }
    }

    /// Serves the certificate, and the two links in an envelope that work unsigned.
    fn get(&self, path: &str, query: &str) -> Response<Full<Bytes>> {
        let signer = self.topics.signer();
        if path == signer.path() {
            return reply(StatusCode::OK, PEM, signer.certificate().to_owned());
        }
        let form = sns::form(query.as_bytes());
        let linked = match form.get("Action").map(String::as_str) {
            Some("ConfirmSubscription") => form.get("TopicArn"),
            Some("Unsubscribe") => form.get("SubscriptionArn"),
            _ => None,
        };
        match linked.and_then(|arn| region_of(arn)) {
            Some(region) => xml(sns::call(&self.topics, region, &form)),
            None => xml(sns::error(StatusCode::NOT_FOUND, "NotFound", "There is nothing at this path.")),
        }
    }
}

/// The region in `Authorization: AWS4-HMAC-SHA256 Credential=ID/DATE/REGION/SERVICE/aws4_request,
/// ...`.
fn scope(headers: &HeaderMap) -> Option<&str> {
    let credential = headers.get(AUTHORIZATION)?.to_str().ok()?.split("Credential=").nth(1)?;
    credential.split(',').next()?.split('/').nth(2).filter(|region| !region.is_empty())
}

fn xml((status, text): sns::SnsAnswer) -> Response<Full<Bytes>> {
    reply(status, XML, text)
}

fn reply(status: StatusCode, kind: HeaderValue, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    let id = HeaderValue::try_from(crate::uuid::random()).expect("hex and hyphens are valid in a header");
    response.headers_mut().insert("x-amzn-requestid", id);
    response
}

#[cfg(test)]
mod tests;
