//! Tests of what the regions say.

use bytes::Bytes;
use http::header::IF_NONE_MATCH;
use http::{HeaderMap, HeaderValue, StatusCode};
use nearside_lab::chaos_server::reply::{ScriptedReply, VERSION_HEADER};

use super::records::{ScriptedRequest, StoredRecord, read};

fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap()
}

fn look(key: &str) -> Option<StoredRecord> {
    match key {
        "a" => Some(StoredRecord { version: 3, value: Some(Bytes::from_static(b"{\"x\":1}")) }),
        "b" => Some(StoredRecord { version: 8, value: Some(Bytes::from_static(b"2")) }),
        "gone" => Some(StoredRecord { version: 4, value: None }),
        _ => None,
    }
}

fn get(path: &str, known: &str) -> ScriptedReply {
    let mut headers = HeaderMap::new();
    headers.insert(IF_NONE_MATCH, header(known));
    read(ScriptedRequest::read(path), look, &headers)
}

#[test]
fn json_reply_states_its_versions() {
    for (path, versions) in [("/v1/contexts/a", "3"), ("/v1/contexts/a/summary", "3"), ("/v1/pairs/a/b", "3,8")] {
        let reply = get(path, "");
        assert_eq!((reply.status, &reply.headers[VERSION_HEADER]), (StatusCode::OK, &header(versions)), "{path}");
        serde_json::from_slice::<serde_json::Value>(&reply.body).unwrap();
    }
}

#[test]
fn only_known_validator_gets_304() {
    for known in ["\"v3\"", "W/\"v3\"", "\"v1\", \"v3\"", "*"] {
        assert_eq!(get("/v1/contexts/a", known).status, StatusCode::NOT_MODIFIED, "{known}");
    }
    assert_eq!(get("/v1/contexts/a", "\"v2\"").status, StatusCode::OK);
}

#[test]
fn tombstone_states_version_unknown_none() {
    let gone = get("/v1/contexts/gone", "");
    assert_eq!((gone.status, gone.version), (StatusCode::NOT_FOUND, Some(4)));
    assert_eq!(gone.headers[VERSION_HEADER], "4");
    assert!(!get("/v1/contexts/never", "").headers.contains_key(VERSION_HEADER));
}

#[test]
fn meaningless_path_is_not_found() {
    for path in ["/", "/v1/contexts/", "/v1/contexts//x", "/v1/contexts/a/b/c", "/v2/contexts/a", "/v1/pairs/a"] {
        assert_eq!(ScriptedRequest::read(path), ScriptedRequest::Nothing, "{path}");
    }
}
