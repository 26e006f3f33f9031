//! What each `Accept` asks for.

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
fn who_names_nothing_gets_json() {
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
fn who_names_protobuf_gets_it_under_that_name() {
    assert_eq!(of(&["application/x-protobuf"]), X);
    assert_eq!(of(&["application/protobuf"]), PLAIN);
    assert_eq!(of(&["APPLICATION/X-Protobuf; messageType=\"a, b;c\"; charset=utf-8"]), X);
    assert_eq!(of(&["application/x-protobuf;q=0.5, application/protobuf;q=0.9"]), PLAIN);
    assert_eq!(of(&["application/protobuf, application/x-protobuf"]), PLAIN);
    assert_eq!(of(&["text/html", "application/x-protobuf;q=0.1"]), X);
    assert_eq!(of(&["*/*", "application/x-protobuf"]), X_OR_JSON);
}

#[test]
fn json_of_a_higher_quality_is_preferred_and_of_the_same_is_not() {
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
fn another_media_type_is_passed_on_as_it_is() {
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
fn a_wildcard_that_takes_no_json_names_another_media_type() {
    for line in ["text/*", "text/*;q=0.1", "text/*, application/json;q=0", "text/*, */*;q=0", "image/*"] {
        assert_eq!(of(&[line]), Choice::AsNamed, "{line}");
    }
    assert_eq!(of(&["text/*;q=0"]), Choice::Json, "as other media types that are not wanted");
    assert_eq!(of(&["text/*, application/x-protobuf"]), X);
}

#[test]
fn what_stands_behind_the_quality_is_no_version() {
    assert_eq!(of(&["application/json;q=0.5;level=1"]), Choice::Json);
}

#[test]
fn replies_are_json_or_protobuf_by_their_media_type_whatever_its_parameters() {
    let value = |text: &'static str| text.as_bytes();
    for json in [
        "application/json",
        "application/JSON;charset=utf-8",
        "application/problem+json",
        "application/a.v2+json;x=\";\"",
    ] {
        assert!(is_json(value(json)) && !is_protobuf(value(json)), "{json}");
    }
    for protobuf in ["application/x-protobuf", "Application/Protobuf ; messageType=a.B"] {
        assert!(is_protobuf(value(protobuf)) && !is_json(value(protobuf)), "{protobuf}");
    }
    for neither in
        ["", "text/html", "application/+json", "application/jsonp", "application/x-protobuf2", "text/x+json"]
    {
        assert!(!is_protobuf(value(neither)) && !is_json(value(neither)), "{neither}");
    }
}

proptest! {
    #[test]
    fn no_line_is_too_odd_to_be_read(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..4)) {
        let mut headers = HeaderMap::new();
        for line in lines.iter().filter_map(|line| HeaderValue::from_bytes(line).ok()) {
            is_json(line.as_bytes());
            is_protobuf(line.as_bytes());
            headers.append(header::ACCEPT, line);
        }
        Choice::of(&headers);
    }

    #[test]
    fn protobuf_is_never_chosen_unless_it_is_named(line in "[a-z*/;=, q0-9.\"+-]{0,60}") {
        let chosen = of(&[&line]);
        prop_assert!(line.contains("protobuf") || matches!(chosen, Choice::Json | Choice::AsNamed));
    }
}
