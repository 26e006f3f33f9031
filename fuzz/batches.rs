//! Targets of what callers POST to a batch path, and of what regions answer to one.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use nearside::race::gather::request::{BatchRequest, read};
use nearside::race::gather::upstream::parts;

/// A batch, and the same bytes as a region's answer: what is read is within bounds and reads back
/// from what it would be sent as.
pub(crate) fn batch(data: &[u8]) {
    let json = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    let mut keys: Vec<Arc<str>> = vec!["a".into(), "b".into()];
    if let Ok(request) = read(&json, data) {
        assert!(request.keys.len() <= 1000 && data.len() <= 1 << 20);
        let sent = serde_json::json!({ "keys": request.keys, "headers": request.headers }).to_string();
        let BatchRequest { keys: again, headers } = read(&json, sent.as_bytes()).expect("it was a batch before");
        assert!(again == request.keys && headers == request.headers);
        keys.extend(request.keys.iter().map(|wanted| wanted.key.as_str().into()));
    }
    let answered = parts(data, &keys, &HeaderName::from_static("x-record-version"));
    assert!(answered.len() <= keys.len());
    for part in answered.into_iter().flatten() {
        assert!(part.body.len() <= data.len() && !part.headers.contains_key(header::CONNECTION));
    }
}
