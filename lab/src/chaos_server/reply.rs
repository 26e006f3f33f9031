//! A whole reply, before [`super::payload`] may break it.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// The header in which replies state their records' versions, separated by commas if there are
/// several.
pub const VERSION_HEADER: HeaderName = HeaderName::from_static("x-record-version");

#[derive(Clone, Debug)]
pub struct ScriptedReply {
    pub status: StatusCode,
    /// Its headers, without those that frame the body.
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The version that it shows; the first one if there are several.
    pub version: Option<u64>,
}

impl ScriptedReply {
    /// A JSON body that states no version.
    pub fn json(status: StatusCode, body: impl Into<Bytes>) -> Self {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        Self { status, headers, body: body.into(), version: None }
    }
}

/// A reply that only states a problem, with `no-store`.
pub fn problem(status: StatusCode, title: &str) -> ScriptedReply {
    let mut reply = ScriptedReply::json(status, format!(r#"{{"title":{}}}"#, serde_json::Value::from(title)));
    reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}
