//! Sections 3, 3.5 and 4.1: what may be stored.

use super::super::storing::nominated;
use super::*;

const FRESH: (&str, &str) = ("cache-control", "max-age=60");

fn status_is_stored(status: u16, pairs: &[(&str, &str)]) -> bool {
    storable(&Method::GET, &HeaderMap::new(), &reply(status, pairs)).is_some()
}

#[test]
fn s3_only_get_with_lifetime_stored() {
    assert_eq!(stored(&[FRESH]).lifetime, seconds(60));
    for method in [Method::HEAD, Method::POST, Method::PUT, Method::OPTIONS] {
        assert!(storable(&method, &HeaderMap::new(), &reply(200, &[FRESH])).is_none(), "{method}");
    }
}

#[test]
fn s3_lifetime_allows_any_final_status() {
    for status in [200, 302, 403, 404, 418, 500, 599] {
        assert!(status_is_stored(status, &[FRESH]), "{status}");
    }
}

#[test]
fn s3_no_lifetime_needs_status_and_validator() {
    let tag = ("etag", "\"1\"");
    assert!(status_is_stored(200, &[tag]));
    assert!(status_is_stored(404, &[tag]));
    assert!(!status_is_stored(302, &[tag]));
    assert!(status_is_stored(302, &[tag, ("cache-control", "public")]));
    assert!(!status_is_stored(200, &[]), "it could never be used");
    assert!(!status_is_stored(200, &[("cache-control", "max-age=0")]), "nor could this");
}

#[test]
fn s3_3_partial_content_never_stored() {
    assert!(!status_is_stored(206, &[FRESH, ("content-range", "bytes 0-1/7")]));
    assert!(stored_of(&[("range", "bytes=0-1")], &[FRESH]).is_none());
    assert!(!status_is_stored(304, &[FRESH]));
    assert_eq!(handling_of(&Method::GET, &headers(&[("range", "bytes=0-1")])), Handling::Passed);
}

#[test]
fn s5_2_2_no_store_forbids_storing() {
    assert!(stored_of(&[], &[("cache-control", "max-age=60, no-store")]).is_none());
}

#[test]
fn s5_2_1_no_store_forbids_storing() {
    assert!(stored_of(&[("cache-control", "no-store")], &[FRESH]).is_none());
}

#[test]
fn s5_2_2_unqualified_private_not_stored() {
    assert!(stored_of(&[], &[("cache-control", "max-age=60, private")]).is_none());
    assert!(stored_of(&[], &[("cache-control", "max-age=60, private=\"x-me\"")]).is_some());
    assert!(
        !entry(&[("cache-control", "max-age=60, private=\"x-me\""), ("x-me", "1")]).headers().contains_key("x-me")
    );
}

#[test]
fn s5_2_must_understand_overrides_no_store() {
    let both = [("cache-control", "max-age=60, must-understand, no-store")];
    assert!(status_is_stored(200, &both));
    assert!(!status_is_stored(599, &both));
    assert!(!status_is_stored(599, &[("cache-control", "max-age=60, must-understand")]));
    assert!(status_is_stored(599, &[("cache-control", "max-age=60")]));
}

#[test]
fn s3_5_authorized_reply_needs_permission() {
    let authorized = [("authorization", "Bearer x")];
    for (said, allowed) in [
        ("max-age=60", false),
        ("max-age=60, public", true),
        ("max-age=60, must-revalidate", true),
        ("s-maxage=60", true),
        ("max-age=60, proxy-revalidate", false),
        ("max-age=60, s-maxage=x", false),
    ] {
        assert_eq!(stored_of(&authorized, &[("cache-control", said)]).is_some(), allowed, "{said}");
    }
}

#[test]
fn set_cookie_needs_public_or_exclusion() {
    let cookie = ("set-cookie", "session=1");
    assert!(stored_of(&[], &[FRESH, cookie]).is_none());
    assert!(stored_of(&[], &[("cache-control", "s-maxage=60"), cookie]).is_none());
    assert!(stored_of(&[], &[("cache-control", "public, max-age=60"), cookie]).is_some());
    let kept_out = entry(&[("cache-control", "max-age=60, no-cache=\"set-cookie\""), cookie]);
    assert!(!kept_out.headers().contains_key("set-cookie"));
    assert_eq!(kept_out.validity.unrouted().map(|stored| stored.lifetime), Some(seconds(60)));
}

#[test]
fn s4_1_vary_star_never_stored() {
    assert!(stored_of(&[], &[FRESH, ("vary", "*")]).is_none());
    assert!(stored_of(&[], &[FRESH, ("vary", "accept, *")]).is_none());
    assert!(stored_of(&[], &[FRESH, ("vary", "acc ept")]).is_none(), "what cannot be read never matches");
}

#[test]
fn s4_1_vary_names_are_deduplicated() {
    let vary = stored(&[FRESH, ("vary", "X-B, accept"), ("vary", "x-a , x-b,")]).vary;
    assert_eq!(vary.iter().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept", "x-a", "x-b"]);
    let many: Vec<String> = (0..17).map(|number| format!("x-{number}")).collect();
    assert_eq!(nominated(&headers(&[("vary", &many.join(","))])), None);
}

#[test]
fn handling_follows_method_and_conditions() {
    for (method, pairs, expected) in [
        (Method::GET, &[("if-none-match", "\"1\"")][..], Handling::Cached),
        (Method::HEAD, &[], Handling::Cached),
        (Method::GET, &[("if-match", "\"1\"")], Handling::Passed),
        (Method::GET, &[("if-unmodified-since", "x")], Handling::Passed),
        (Method::OPTIONS, &[], Handling::Passed),
        (Method::POST, &[], Handling::Unsafe),
        (Method::from_bytes(b"PURGE").unwrap(), &[], Handling::Unsafe),
    ] {
        assert_eq!(handling_of(&method, &headers(pairs)), expected, "{method}");
    }
}
