//! Upstream of a chaos server: the region's node, asked over loopback. What it says is handed on as it is;
//! only what frames a message is the server's own.

use std::net::SocketAddr;
use std::sync::Arc;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use parking_lot::RwLock;

use crate::chaos_server::reply::{self, ScriptedReply, VERSION_HEADER};
use crate::limits;

/// A node, and how it is reached. Clones share their connections, and the node.
#[derive(Clone)]
pub(super) struct NodeBehind {
    http: reqwest::Client,
    node: Arc<RwLock<SocketAddr>>,
}

/// Headers that concern one connection alone.
const FRAMING: [HeaderName; 4] = [CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING];

impl NodeBehind {
    pub(super) fn new(http: reqwest::Client, node: SocketAddr) -> Self {
        Self { http, node: Arc::new(RwLock::new(node)) }
    }

    /// Asks this node from now on.
    pub(super) fn point_at(&self, node: SocketAddr) {
        *self.node.write() = node;
    }

    pub(super) async fn reply(self, request: Request<Incoming>) -> ScriptedReply {
        let is_batch = *request.method() == Method::POST && request.uri().path().starts_with("/v1/batch/");
        if !is_batch && !matches!(*request.method(), Method::GET | Method::HEAD) {
            return reply::problem(StatusCode::METHOD_NOT_ALLOWED, "a region is read only: write to the catalogue");
        }
        let (head, body) = request.into_parts();
        let node = *self.node.read();
        let url = format!("http://{node}{}", head.uri.path_and_query().map_or("/", |target| target.as_str()));
        // GET also for HEAD: the server leaves the body out, and states its length.
        let asked = if is_batch {
            let Ok(keys) = Limited::new(body, limits::FRONT_BATCH_BYTES).collect().await else {
                return reply::problem(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "the keys are too many for the region's server",
                );
            };
            self.http.post(url).body(keys.to_bytes())
        } else {
            self.http.get(url)
        };
        match whole(asked.headers(unframed(head.headers))).await {
            Ok(reply) => reply,
            Err(_) => reply::problem(StatusCode::BAD_GATEWAY, "the node did not answer"),
        }
    }
}

async fn whole(asked: reqwest::RequestBuilder) -> Result<ScriptedReply, reqwest::Error> {
    let mut response = asked.send().await?;
    let (status, headers) = (response.status(), unframed(std::mem::take(response.headers_mut())));
    let version = headers.get(VERSION_HEADER).and_then(|version| version.to_str().ok()?.parse().ok());
    Ok(ScriptedReply { status, headers, body: response.bytes().await?, version })
}

fn unframed(mut headers: HeaderMap) -> HeaderMap {
    for name in FRAMING {
        headers.remove(name);
    }
    headers
}
