//! Header fields of answers.

use http::{HeaderMap, HeaderName, HeaderValue, header};

const X_RECORD_VERSION: HeaderName = HeaderName::from_static("x-record-version");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

pub(super) fn state_version(headers: &mut HeaderMap, version: u64) {
    let tag = HeaderValue::try_from(format!("\"{version}\"")).expect("digits and quotes are a header's value");
    headers.insert(header::ETAG, tag);
    headers.insert(X_RECORD_VERSION, HeaderValue::from(version));
}

pub(super) fn state_replayed(headers: &mut HeaderMap, replayed: bool) {
    if replayed {
        headers.insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    }
}
