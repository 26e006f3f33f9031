//! Problem documents (RFC 9457) of the admin side and of the services.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};

/// The `type` of the problem with this word.
pub(crate) fn urn(word: &str) -> String {
    format!("urn:nearside:problem:{word}")
}

/// An answer that says what is wrong; `more` are members of its own.
pub(crate) fn document(status: StatusCode, word: &str, detail: &str, mut more: Map<String, Value>) -> Response {
    more.insert("type".to_owned(), urn(word).into());
    more.insert("title".to_owned(), status.canonical_reason().unwrap_or("Error").into());
    more.insert("status".to_owned(), json!(status.as_u16()));
    more.insert("detail".to_owned(), detail.into());
    let mut response = (status, Value::Object(more).to_string()).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response
}
