//! Sections 3, 3.5 and 4.1: what may be stored.

use super::super::storing::nominated;
use super::*;

const FRESH: (&str, &str) = ("cache-control", "max-age=60");

fn status_is_stored(status: u16, pairs: &[(&str, &str)]) -> bool {
    storable(&Method::GET, &HeaderMap::new(), &reply(status, pairs)).is_some()
}

#[test]
fn rfc9111_3_a_get_with_a_lifetime_is_stored_and_another_method_is_not() {
    assert_eq!(stored(&[FRESH]).lifetime, seconds(60));
    for method in [Method::HEAD, Method::POST, Method::PUT, Method::OPTIONS] {
        assert!(storable(&method, &HeaderMap::new(), &reply(200, &[FRESH])).is_none(), "{method}");
    }
}

#[test]
fn rfc9111_3_an_explicit_lifetime_allows_any_final_status() {
    for status in [200, 302, 403, 404, 418, 500, 599] {
        assert!(status_is_stored(status, &[FRESH]), "{status}");
    }
}

#[test]
fn rfc9111_3_without_one_the_status_must_allow_it_and_it_must_have_a_validator() {
    let tag = ("etag", "\"1\"");
    assert!(status_is_stored(200, &[tag]));
    assert!(status_is_stored(404, &[tag]));
    assert!(!status_is_stored(302, &[tag]));
    assert!(status_is_stored(302, &[tag, ("cache-control", "public")]));
    assert!(!status_is_stored(200, &[]), "it could never be used");
    assert!(!status_is_stored(200, &[("cache-control", "max-age=0")]), "nor could this");
}

#[test]
fn rfc9111_3_3_partial_content_and_range_requests_are_not_stored() {
    assert!(!status_is_stored(206, &[FRESH, ("content-range", "bytes 0-1/7")]));
    assert!(stored_of(&[("range", "bytes=0-1")], &[FRESH]).is_none());
    assert!(!status_is_stored(304, &[FRESH]));
    assert_eq!(way(&Method::GET, &headers(&[("range", "bytes=0-1")])), Handling::Passed);
}

#[test]
fn rfc9111_5_2_2_5_no_store_is_not_stored() {
    assert!(stored_of(&[], &[("cache-control", "max-age=60, no-store")]).is_none());
}

#[test]
fn rfc9111_5_2_1_5_nor_is_the_reply_to_a_request_that_says_it() {
    assert!(stored_of(&[("cache-control", "no-store")], &[FRESH]).is_none());
}

#[test]
fn rfc9111_5_2_2_7_private_is_not_stored_unless_it_names_fields() {
    assert!(stored_of(&[], &[("cache-control", "max-age=60, private")]).is_none());
    assert!(stored_of(&[], &[("cache-control", "max-age=60, private=\"x-me\"")]).is_some());
    assert!(
        !entry(&[("cache-control", "max-age=60, private=\"x-me\""), ("x-me", "1")]).headers().contains_key("x-me")
    );
}

#[test]
fn rfc9111_5_2_2_3_must_understand_overrides_no_store_for_known_statuses_only() {
    let both = [("cache-control", "max-age=60, must-understand, no-store")];
    assert!(status_is_stored(200, &both));
    assert!(!status_is_stored(599, &both));
    assert!(!status_is_stored(599, &[("cache-control", "max-age=60, must-understand")]));
    assert!(status_is_stored(599, &[("cache-control", "max-age=60")]));
}

#[test]
fn rfc9111_3_5_a_reply_to_an_authorized_request_is_stored_only_by_leave() {
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
fn a_reply_that_sets_a_cookie_is_stored_only_if_it_says_public_or_keeps_the_cookie_out() {
    let cookie = ("set-cookie", "session=1");
    assert!(stored_of(&[], &[FRESH, cookie]).is_none());
    assert!(stored_of(&[], &[("cache-control", "s-maxage=60"), cookie]).is_none());
    assert!(stored_of(&[], &[("cache-control", "public, max-age=60"), cookie]).is_some());
    let kept_out = entry(&[("cache-control", "max-age=60, no-cache=\"set-cookie\""), cookie]);
    assert!(!kept_out.headers().contains_key("set-cookie"));
    assert_eq!(kept_out.hold.unrouted().map(|stored| stored.lifetime), Some(seconds(60)));
}

#[test]
fn rfc9111_4_1_vary_star_is_not_stored() {
    assert!(stored_of(&[], &[FRESH, ("vary", "*")]).is_none());
    assert!(stored_of(&[], &[FRESH, ("vary", "accept, *")]).is_none());
    assert!(stored_of(&[], &[FRESH, ("vary", "acc ept")]).is_none(), "what cannot be read never matches");
}

#[test]
fn rfc9111_4_1_vary_nominates_each_name_once_over_all_lines() {
    let vary = stored(&[FRESH, ("vary", "X-B, accept"), ("vary", "x-a , x-b,")]).vary;
    assert_eq!(vary.iter().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept", "x-a", "x-b"]);
    let many: Vec<String> = (0..17).map(|number| format!("x-{number}")).collect();
    assert_eq!(nominated(&headers(&[("vary", &many.join(","))])), None);
}

#[test]
fn requests_go_the_way_that_their_method_and_conditions_allow() {
    for (method, pairs, expected) in [
        (Method::GET, &[("if-none-match", "\"1\"")][..], Handling::Cached),
        (Method::HEAD, &[], Handling::Cached),
        (Method::GET, &[("if-match", "\"1\"")], Handling::Passed),
        (Method::GET, &[("if-unmodified-since", "x")], Handling::Passed),
        (Method::OPTIONS, &[], Handling::Passed),
        (Method::POST, &[], Handling::Unsafe),
        (Method::from_bytes(b"PURGE").unwrap(), &[], Handling::Unsafe),
    ] {
        assert_eq!(way(&method, &headers(pairs)), expected, "{method}");
    }
}
