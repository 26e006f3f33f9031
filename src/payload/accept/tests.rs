//! Choices by `Accept`.

use http::HeaderValue;
use proptest::prelude::*;

use super::*;

fn of(lines: &[&str]) -> Choice {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(header::ACCEPT, HeaderValue::from_str(line).unwrap());
    }
    Choice::of(&headers)
}

const X: Choice = Choice::Protobuf { media_type: "application/x-protobuf", or_json: false };
const X_OR_JSON: Choice = Choice::Protobuf { media_type: "application/x-protobuf", or_json: true };
const PLAIN: Choice = Choice::Protobuf { media_type: "application/protobuf", or_json: false };

#[test]
fn unnamed_form_defaults_to_json() {
    for lines in [
        &[][..],
        &[""],
        &["*/*"],
        &["application/*", "text/*;q=0.1"],
        &["text/*, application/json;q=0.1"],
        &["text/*, */*;q=0.1"],
        &["application/json"],
        &["Application/JSON; charset=utf-8"],
        &["text/json"],
        &["application/json, text/plain, */*"],
        &["text/plain"],
        &["application/x-protobuf;q=0"],
        &["application/x-protobuf;q=0, */*"],
        &["text/html;q=0, */*"],
    ] {
        assert_eq!(of(lines), Choice::Json, "{lines:?}");
    }
}

#[test]
fn protobuf_reply_uses_requested_name() {
    assert_eq!(of(&["application/x-protobuf"]), X);
    assert_eq!(of(&["application/protobuf"]), PLAIN);
    assert_eq!(of(&["APPLICATION/X-Protobuf; messageType=\"a, b;c\"; charset=utf-8"]), X);
    assert_eq!(of(&["application/x-protobuf;q=0.5, application/protobuf;q=0.9"]), PLAIN);
    assert_eq!(of(&["application/protobuf, application/x-protobuf"]), PLAIN);
    assert_eq!(of(&["text/html", "application/x-protobuf;q=0.1"]), X);
    assert_eq!(of(&["*/*", "application/x-protobuf"]), X_OR_JSON);
}

#[test]
fn json_needs_higher_quality_than_protobuf() {
    assert_eq!(of(&["application/x-protobuf, application/json"]), X_OR_JSON);
    assert_eq!(of(&["application/json;q=0.5, application/x-protobuf;q=0.5"]), X_OR_JSON);
    assert_eq!(of(&["application/x-protobuf, application/json;q=0.5"]), X_OR_JSON);
    assert_eq!(of(&["application/x-protobuf, */*;q=0.1"]), X_OR_JSON);
    assert_eq!(of(&["application/x-protobuf, */*;q=0.1, application/json;q=0"]), X);
    assert_eq!(of(&["application/x-protobuf;q=0.9, application/json"]), Choice::Json);
    assert_eq!(of(&["application/x-protobuf;q=0.1, */*;q=0.9"]), Choice::Json);
    assert_eq!(of(&["*/*", "application/x-protobuf;q=0.001"]), Choice::Json);
    assert_eq!(of(&["application/x-protobuf;q=0.5, application/*;q=0.1, */*;q=0.9"]), X_OR_JSON);
    assert_eq!(of(&["application/x-protobuf;q=0.5, application/json;q=0.1, */*"]), X_OR_JSON);
    assert_eq!(of(&["application/x-protobuf;q=0.5, application/json;q=0, */*"]), X);
    assert_eq!(of(&["application/x-protobuf, */*;q=0"]), X);
    assert_eq!(of(&["application/x-protobuf;q=0.9, text/json;q=0.901"]), Choice::Json);
    assert_eq!(of(&["application/x-protobuf;q=0.9, application/vnd.acme.v2+json"]), Choice::AsNamed);
}

#[test]
fn other_media_type_passes_unchanged() {
    for lines in [
        "text/html",
        "application/vnd.acme.v2+json",
        "application/json;version=2",
        "application/json;profile=\"a\", */*",
        "text/html, application/json",
        "text/plain;format=flowed",
        "image/*",
        "application/json;q=0, */*",
        "application/json;q=2",
        "no media type",
        "\"",
    ] {
        assert_eq!(of(&[lines]), Choice::AsNamed, "{lines:?}");
    }
}

#[test]
fn wildcard_excluding_json_is_other_type() {
    for line in ["text/*", "text/*;q=0.1", "text/*, application/json;q=0", "text/*, */*;q=0", "image/*"] {
        assert_eq!(of(&[line]), Choice::AsNamed, "{line}");
    }
    assert_eq!(of(&["text/*;q=0"]), Choice::Json, "as other media types that are not wanted");
    assert_eq!(of(&["text/*, application/x-protobuf"]), X);
}

#[test]
fn parameters_after_quality_are_no_version() {
    assert_eq!(of(&["application/json;q=0.5;level=1"]), Choice::Json);
}

#[test]
fn reply_form_ignores_media_type_parameters() {
    for json in [
        "application/json",
        "application/JSON;charset=utf-8",
        "application/problem+json",
        "application/a.v2+json;x=\";\"",
    ] {
        assert!(is_json(json.as_bytes()) && !is_protobuf(json.as_bytes()), "{json}");
    }
    for protobuf in ["application/x-protobuf", "Application/Protobuf ; messageType=a.B"] {
        assert!(is_protobuf(protobuf.as_bytes()) && !is_json(protobuf.as_bytes()), "{protobuf}");
    }
    for neither in
        ["", "text/html", "application/+json", "application/jsonp", "application/x-protobuf2", "text/x+json"]
    {
        assert!(!is_protobuf(neither.as_bytes()) && !is_json(neither.as_bytes()), "{neither}");
    }
}

proptest! {
    #[test]
    fn arbitrary_accept_lines_never_panic(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..4)) {
        let mut headers = HeaderMap::new();
        for line in lines.iter().filter_map(|line| HeaderValue::from_bytes(line).ok()) {
            is_json(line.as_bytes());
            is_protobuf(line.as_bytes());
            headers.append(header::ACCEPT, line);
        }
        Choice::of(&headers);
    }

    #[test]
    fn protobuf_is_chosen_only_when_named(line in "[a-z*/;=, q0-9.\"+-]{0,60}") {
        let chosen = of(&[&line]);
        prop_assert!(line.contains("protobuf") || matches!(chosen, Choice::Json | Choice::AsNamed));
    }
}
