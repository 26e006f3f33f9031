//! What stands behind a front: the region's node, asked over loopback. What it says is handed on as
//! it is; only what frames a message is the front's own.

use std::net::SocketAddr;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, Method, Request, StatusCode};
use hyper::body::Incoming;

use crate::lab::front::reply::{self, ScriptedReply, VERSION_HEADER};

/// A node, and how it is reached. Clones share their connections.
#[derive(Clone)]
pub(super) struct NodeBehind {
    http: reqwest::Client,
    base: String,
}

/// What concerns one connection alone.
const FRAMING: [HeaderName; 4] = [CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING];

impl NodeBehind {
    pub(super) fn new(http: reqwest::Client, node: SocketAddr) -> Self {
        Self { http, base: format!("http://{node}") }
    }

    pub(super) async fn reply(self, request: Request<Incoming>) -> ScriptedReply {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return reply::problem(StatusCode::METHOD_NOT_ALLOWED, "a region is read only: write to the catalogue");
        }
        let (head, _) = request.into_parts();
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        // Also for HEAD: the front leaves the body out, and states its length.
        let asked = self.http.get(format!("{}{target}", self.base)).headers(unframed(head.headers));
        match whole(asked).await {
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
