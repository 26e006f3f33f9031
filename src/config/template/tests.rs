//! Path and record templates.

use std::borrow::Cow;

use super::escapes::{escapes_are_plain, is_dots};
use super::*;

/// The values of the named segments in `path`, as the router takes them.
fn matches<'p>(template: &'p PathTemplate, path: &'p str) -> Option<Captures<'p>> {
    template.captures(path).filter(|_| is_plain(path))
}

fn path(text: &str) -> PathTemplate {
    PathTemplate::parse(text).unwrap()
}

fn key(template: &str, record: &str, written: &str) -> Option<String> {
    let (template, record) = (path(template), RecordTemplate::parse(record).unwrap());
    matches(&template, written).map(|captures| record.key_of(&captures).into_owned())
}

#[test]
fn named_segment_matches_any_nonempty() {
    assert_eq!(key("/v1/contexts/{key}", "c:{key}", "/v1/contexts/acme").as_deref(), Some("acme"));
    for other in [
        "/v1/contexts/",
        "/v1/contexts",
        "/v1/contexts/a/b",
        "/v1//contexts/a",
        "//v1/contexts/a",
        "/V1/contexts/a",
        "",
        "a",
    ] {
        assert_eq!(key("/v1/contexts/{key}", "c:{key}", other), None, "{other}");
    }
}

#[test]
fn a_trailing_slash_counts() {
    assert_eq!(key("/c/{key}/", "c:{key}", "/c/a/").as_deref(), Some("a"));
    assert_eq!(key("/c/{key}/", "c:{key}", "/c/a"), None);
    assert_eq!(key("/c/{key}", "c:{key}", "/c/a/"), None);
    assert!(matches(&path("/"), "/").is_some());
    assert!(matches(&path("/"), "//").is_none());
}

#[test]
fn only_key_escapes_are_decoded() {
    assert_eq!(key("/c/{key}", "c:{key}", "/c/a%2Fb%20%C3%A9").as_deref(), Some("a/b é"));
    assert_eq!(key("/c/{key}", "c:{key}", "/c/a+b").as_deref(), Some("a+b"));
    assert_eq!(key("/c%20d/{key}", "c:{key}", "/c%20d/a").as_deref(), Some("a"));
    assert_eq!(key("/c/{key}", "c:{key}", "/%63/a"), None);
}

#[test]
fn escaping_does_not_change_keys() {
    for written in ["/c/acme", "/c/%61cme", "/c/%61%63%6D%65", "/c/%61%63%6d%65"] {
        assert_eq!(key("/c/{key}", "c:{key}", written).as_deref(), Some("acme"), "{written}");
    }
}

#[test]
fn ambiguous_paths_match_nothing() {
    for segment in [
        ".",
        "..",
        "%2e",
        "%2E%2e",
        ".%2e",
        "a%2F..%2Fb",
        "a%2f.",
        "..%5Ca",
        "a\\..\\b",
        "%",
        "%4",
        "%zz",
        "a%",
        "%ff",
        "%C3",
    ] {
        for written in [format!("/c/{segment}/x"), format!("/c/x/{segment}")] {
            assert_eq!(key("/c/{key}/{view}", "c:{key}", &written), None, "{written}");
        }
    }
    for harmless in ["...", ".a", "a..b", "%2e%2e%2e", "a%2Fb", "%25"] {
        assert!(key("/c/{key}", "c:{key}", &format!("/c/{harmless}")).is_some(), "{harmless}");
    }
}

#[test]
fn key_combines_names_and_text() {
    assert_eq!(key("/t/{t}/c/{c}", "context:{t}/{c}", "/t/acme/c/7").as_deref(), Some("acme/7"));
    assert_eq!(key("/t/{t}/c/{c}", "context:{c}@{t}!", "/t/acme/c/7").as_deref(), Some("7@acme!"));
    assert_eq!(key("/flags", "flags:all", "/flags").as_deref(), Some("all"));
    assert_eq!(key("/t/{t}", "urn:x:{t}", "/t/acme").as_deref(), Some("x:acme"));
}

#[test]
fn plain_key_borrows_from_path() {
    let (template, record) = (path("/c/{key}"), RecordTemplate::parse("c:{key}").unwrap());
    let captures = matches(&template, "/c/acme").unwrap();
    assert!(matches!(record.key_of(&captures), Cow::Borrowed("acme")));
}

#[test]
fn invalid_template_is_refused_with_suggestion() {
    for text in [
        "",
        "v1/{key}",
        "/v1//{key}",
        "//",
        "/v1/{key}x",
        "/v1/x{key}",
        "/v1/{key",
        "/v1/{}",
        "/v1/{a b}",
        "/v1/{key}/{key}",
        "/v1/{key}?a=b",
        "/v1/{key}#a",
        "/v1/a b",
        "/v1/é",
        "/v1/..",
        "/v1/%2e%2e/{key}",
        "/v1/%zz",
        "/v1/*",
        "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}",
        "/v1/{1}",
    ] {
        let parsed = PathTemplate::parse(text);
        if text == "/v1/*" {
            assert!(parsed.is_ok(), "a star is a literal path character (RFC 3986)");
            continue;
        }
        let wrong = parsed.expect_err(text);
        assert!(!wrong.what.is_empty() && !wrong.suggestion.is_empty());
    }
    for text in [
        "",
        "context",
        "{key}",
        ":{key}",
        "context:",
        "a b:{key}",
        "c:{key",
        "c:key}",
        "c:{a}{b}",
        "c:{a}-{a}",
        "c:a,b",
    ] {
        assert!(RecordTemplate::parse(text).is_err(), "{text}");
    }
}

#[test]
fn covers_means_taking_every_path() {
    assert!(covers("/v1/{a}", "/v1/{b}") && covers("/v1/{a}", "/v1/latest") && covers("/{x}/{y}", "/v1/{a}"));
    assert!(!covers("/v1/latest", "/v1/{a}") && !covers("/v1/{a}", "/v1/") && !covers("/v1/{a}", "/v1/{a}/b"));
    assert!(overlaps("/v1/{a}/x", "/v1/y/{b}") && overlaps("/v1/{a}", "/v1/latest"));
    assert!(!overlaps("/v1/{a}/x", "/v1/{a}/y") && !overlaps("/v1/{a}", "/v1/"));
}

fn covers(one: &str, other: &str) -> bool {
    path(one).covers(&path(other))
}

fn overlaps(one: &str, other: &str) -> bool {
    path(one).overlaps(&path(other))
}

proptest::proptest! {
    #[test]
    fn templates_and_matches_never_panic(template in ".{0,40}", record in ".{0,40}", written in ".{0,60}") {
        if let Ok(template) = PathTemplate::parse(&template) {
            matches(&template, &written);
            proptest::prop_assert!(template.covers(&template) && template.overlaps(&template));
        }
        let _ = RecordTemplate::parse(&record);
        is_plain(&written);
    }

    #[test]
    fn path_is_plain_if_segments_are(written in "[a./%2eE5cF\\\\]{0,12}") {
        let each = written.split('/').all(|segment| !is_dots(segment) && escapes_are_plain(segment));
        proptest::prop_assert_eq!(is_plain(&written), each);
    }

    #[test]
    fn covering_template_matches_every_covered_path(
        one in "(/(a|b|\\{x\\}|\\{y\\})){1,3}", other in "(/(a|b|\\{x\\}|\\{y\\})){1,3}", written in "(/(a|b|c)){1,3}",
    ) {
        if let (Ok(one), Ok(other)) = (PathTemplate::parse(&one), PathTemplate::parse(&other)) {
            let (mine, theirs) = (matches(&one, &written).is_some(), matches(&other, &written).is_some());
            proptest::prop_assert!(!(one.covers(&other) && theirs) || mine);
            proptest::prop_assert!(!(mine && theirs) || one.overlaps(&other));
        }
    }

    #[test]
    fn escaped_key_decodes_to_original(text in "[^.]{1,20}") {
        use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
        let written = format!("/c/{}", utf8_percent_encode(&text, NON_ALPHANUMERIC));
        proptest::prop_assert_eq!(key("/c/{key}", "c:{key}", &written), Some(text));
    }
}
