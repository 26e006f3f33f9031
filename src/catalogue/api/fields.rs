//! Header fields of answers.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::catalogue::author::RequestId;

const X_RECORD_VERSION: HeaderName = HeaderName::from_static("x-record-version");
pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

pub(super) fn state_version(headers: &mut HeaderMap, version: u64) {
    let tag = HeaderValue::try_from(format!("\"{version}\"")).expect("digits and quotes are a header's value");
    headers.insert(header::ETAG, tag);
    headers.insert(X_RECORD_VERSION, HeaderValue::from(version));
}

/// States that a write had taken place before, or by which name the history has what this one changed.
pub(super) fn state_taken(headers: &mut HeaderMap, replayed: bool, request: &RequestId) {
    if replayed {
        headers.insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    } else {
        let name = HeaderValue::try_from(request.as_str()).expect("visible ASCII is a header's value");
        headers.insert(X_REQUEST_ID, name);
    }
}
