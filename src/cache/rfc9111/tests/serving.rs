//! Sections 4, 4.2.4, 4.3.2, 5.2 and RFC 5861: what may be served.

use super::*;
use crate::model::ids::RegionSet;
use crate::protocol::holding::{Routed, Standing};

const MINUTE: (&str, &str) = ("cache-control", "max-age=60");

#[test]
fn rfc9111_4_2_a_reply_is_fresh_while_its_lifetime_exceeds_its_age() {
    assert_eq!(decided(&[], &[MINUTE], 59), Decision::Fresh { age: seconds(59), ttl: seconds(1) });
    assert_eq!(decided(&[], &[MINUTE], 60), Decision::Revalidate);
    assert_eq!(decided(&[], &[MINUTE, ("age", "30")], 29), Decision::Fresh { age: seconds(59), ttl: seconds(1) });
    assert_eq!(decided(&[], &[MINUTE, ("age", "30")], 30), Decision::Revalidate);
    // 60 days old and fresh for 58.
    let old = [("cache-control", "max-age=5011200"), ("age", "5184000")];
    assert_eq!(decided(&[], &old, 0), Decision::Revalidate);
}

#[test]
fn rfc9111_5_2_2_4_no_cache_is_asked_about_each_time() {
    assert_eq!(
        decided(&[], &[("cache-control", "max-age=60, no-cache"), ("etag", "\"1\"")], 0),
        Decision::Revalidate
    );
    let some = [("cache-control", "max-age=60, no-cache=\"x-who\""), ("x-who", "1")];
    assert!(is_fresh(&[], &some, 0), "the qualified form only keeps fields out");
    assert!(!entry(&some).headers().contains_key("x-who"));
}

#[test]
fn rfc9111_5_2_1_4_request_no_cache_asks() {
    assert_eq!(decided(&[("cache-control", "no-cache")], &[MINUTE], 0), Decision::Revalidate);
    assert_eq!(decided(&[("pragma", "no-cache")], &[MINUTE], 0), Decision::Revalidate);
}

#[test]
fn rfc9111_5_2_1_5_request_no_store_may_still_be_answered_from_the_store() {
    assert!(is_fresh(&[("cache-control", "no-store")], &[MINUTE], 0));
}

#[test]
fn rfc9111_5_2_1_1_request_max_age_limits_the_age() {
    let within = [("cache-control", "max-age=10")];
    assert!(is_fresh(&within, &[MINUTE], 10));
    assert_eq!(decided(&within, &[MINUTE], 11), Decision::Revalidate);
    assert_eq!(decided(&[("cache-control", "max-age=0")], &[MINUTE], 1), Decision::Revalidate);
}

#[test]
fn rfc9111_5_2_1_3_min_fresh_wants_lifetime_left() {
    let left = [("cache-control", "min-fresh=20")];
    assert!(is_fresh(&left, &[MINUTE], 40));
    assert_eq!(decided(&left, &[MINUTE], 41), Decision::Revalidate);
}

#[test]
fn rfc9111_5_2_1_2_max_stale_takes_a_stale_one_within_its_limit() {
    let within = [("cache-control", "max-stale=10")];
    assert_eq!(decided(&within, &[MINUTE], 70), Decision::Stale { age: seconds(70) });
    assert_eq!(decided(&within, &[MINUTE], 71), Decision::Revalidate);
    assert_eq!(decided(&[("cache-control", "max-stale")], &[MINUTE], 9_999), Decision::Stale { age: seconds(9_999) });
    assert!(is_fresh(&within, &[MINUTE], 5));
}

#[test]
fn rfc9111_5_2_2_2_must_revalidate_is_never_served_stale() {
    never_stale("max-age=60, must-revalidate");
}

#[test]
fn rfc9111_5_2_2_8_proxy_revalidate_is_never_served_stale_but_served_fresh() {
    never_stale("max-age=60, proxy-revalidate");
}

#[test]
fn rfc9111_5_2_2_10_s_maxage_is_never_served_stale() {
    never_stale("s-maxage=60");
}

fn never_stale(said: &str) {
    let said = format!("{said}, stale-if-error=1000");
    let pairs = [("cache-control", said.as_str())];
    assert!(is_fresh(&[], &pairs, 59));
    assert_eq!(decided(&[("cache-control", "max-stale")], &pairs, 60), Decision::Revalidate);
    assert!(!served_on(OriginTrouble::Disconnected, &[], &pairs, 60));
    assert!(!served_on(OriginTrouble::Status(StatusCode::BAD_GATEWAY), &[], &pairs, 60));
    assert!(served_on(OriginTrouble::Disconnected, &[], &pairs, 59), "fresh, though the caller wanted it younger");
}

#[test]
fn rfc9111_5_2_1_7_only_if_cached_is_answered_from_the_store_or_with_504() {
    let only = [("cache-control", "only-if-cached")];
    assert!(is_fresh(&only, &[MINUTE], 0));
    assert_eq!(decided(&only, &[MINUTE], 60), Decision::Unsatisfiable);
    let and = |more: &str| format!("only-if-cached, {more}");
    assert_eq!(decided(&[("cache-control", &and("max-stale"))], &[MINUTE], 60), Decision::Stale { age: seconds(60) });
    assert_eq!(decided(&[("cache-control", &and("max-age=1"))], &[MINUTE], 2), Decision::Unsatisfiable);
    assert_eq!(decided(&[("cache-control", &and("no-cache"))], &[MINUTE], 0), Decision::Unsatisfiable);
}

/// Whether an entry is served in place of `trouble`. When disconnected, the limit is 100 s if the
/// reply says nothing.
fn served_on(trouble: OriginTrouble, request: &[(&str, &str)], pairs: &[(&str, &str)], after: u64) -> bool {
    let entry = entry(pairs);
    let Hold::Unrouted(stored) = &entry.hold else { unreachable!() };
    let asked = RequestDirectives::of(&headers(request));
    may_serve_on_error(&asked, &entry, stored, trouble, seconds(100), START + seconds(after))
}

#[test]
fn rfc5861_4_stale_if_error_covers_500_502_503_and_504_for_as_long_as_the_reply_says() {
    let pairs = [("cache-control", "max-age=60, stale-if-error=30")];
    for status in [500, 502, 503, 504] {
        let trouble = OriginTrouble::Status(StatusCode::from_u16(status).unwrap());
        assert!(served_on(trouble, &[], &pairs, 90), "{status}");
        assert!(!served_on(trouble, &[], &pairs, 91), "{status}");
        assert!(!served_on(trouble, &[], &[MINUTE], 61), "{status}: nobody allowed it");
    }
    for status in [400, 401, 403, 404, 410, 429, 501, 301] {
        let trouble = OriginTrouble::Status(StatusCode::from_u16(status).unwrap());
        assert!(!served_on(trouble, &[], &pairs, 61), "{status} is an answer");
    }
}

#[test]
fn rfc5861_4_a_request_may_allow_it_too() {
    let request = [("cache-control", "stale-if-error=20")];
    let trouble = OriginTrouble::Status(StatusCode::SERVICE_UNAVAILABLE);
    assert!(served_on(trouble, &request, &[MINUTE], 80));
    assert!(!served_on(trouble, &request, &[MINUTE], 81));
}

#[test]
fn rfc9111_4_2_4_a_disconnected_cache_may_serve_stale_unless_the_reply_limits_it() {
    assert!(served_on(OriginTrouble::Disconnected, &[], &[MINUTE], 160));
    assert!(!served_on(OriginTrouble::Disconnected, &[], &[MINUTE], 161));
    let limited = [("cache-control", "max-age=60, stale-if-error=0")];
    assert!(!served_on(OriginTrouble::Disconnected, &[], &limited, 61));
}

#[test]
fn rfc9111_4_2_4_no_cache_is_not_served_in_place_of_an_error() {
    let pairs = [("cache-control", "max-age=60, no-cache, stale-if-error=100"), ("etag", "\"1\"")];
    assert!(!served_on(OriginTrouble::Disconnected, &[], &pairs, 0));
    assert!(!served_on(OriginTrouble::Disconnected, &[("cache-control", "no-cache")], &[MINUTE], 0));
}

fn gets_304(request: &[(&str, &str)], pairs: &[(&str, &str)]) -> bool {
    not_modified(&headers(request), &entry(pairs))
}

#[test]
fn rfc9111_4_3_2_if_none_match_compares_weakly_over_the_whole_list() {
    for (asked, tag, met) in [
        ("\"1\"", "\"1\"", true),
        ("W/\"1\"", "\"1\"", true),
        ("\"1\"", "W/\"1\"", true),
        ("\"0\", W/\"1\" , \"2\"", "\"1\"", true),
        ("\"0,1\"", "\"1\"", false),
        ("\"a,b\"", "\"a,b\"", true),
        ("\"a,b\"", "\"b\"", false),
        ("*", "\"1\"", true),
        ("\"2\"", "\"1\"", false),
        ("\"A\"", "\"a\"", false),
        ("1", "\"1\"", true),
    ] {
        assert_eq!(gets_304(&[("if-none-match", asked)], &[MINUTE, ("etag", tag)]), met, "{asked} of {tag}");
    }
    assert!(gets_304(&[("if-none-match", "\"0\""), ("if-none-match", "\"1\"")], &[MINUTE, ("etag", "\"1\"")]));
    assert!(!gets_304(&[("if-none-match", "\"1\"")], &[MINUTE]));
    assert!(gets_304(&[("if-none-match", "*")], &[MINUTE]));
}

#[test]
fn rfc9111_4_3_2_if_modified_since_compares_with_last_modified_else_date() {
    let modified = ("last-modified", "Sun, 06 Nov 1994 08:00:00 GMT");
    let since = |text| [("if-modified-since", text)];
    assert!(gets_304(&since("Sun, 06 Nov 1994 08:00:00 GMT"), &[MINUTE, modified]));
    assert!(gets_304(&since("Sun, 06 Nov 1994 08:00:01 GMT"), &[MINUTE, modified]));
    assert!(!gets_304(&since("Sun, 06 Nov 1994 07:59:59 GMT"), &[MINUTE, modified]));
    assert!(!gets_304(&since("Sun, 06 Nov 1994 08:49:36 GMT"), &[MINUTE]));
    assert!(gets_304(&since("Sun, 06 Nov 1994 08:49:37 GMT"), &[MINUTE]));
    assert!(!gets_304(&since("yesterday"), &[MINUTE, modified]));
    assert!(!gets_304(&[], &[MINUTE, modified]));
}

/// Promise 1: a 304 must not hide a change made within the second of `Date`, or reported by regions
/// whose clocks differ, from a caller who has the previous value.
#[test]
fn on_a_route_date_is_no_validator() {
    let since = headers(&[("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")]);
    let routed = |pairs: &[(&str, &str)]| Entry {
        json: Default::default(),
        hold: Hold::Routed(Routed {
            route: 0,
            shows: std::iter::empty().collect(),
            digest: None,
            standing: Standing::Confirmed,
            epochs: vec![].into(),
            live: RegionSet::EMPTY,
            confirmed: START,
            ttl: seconds(3_600).into(),
        }),
        ..entry(pairs)
    };
    assert!(!not_modified(&since, &routed(&[MINUTE])));
    assert!(not_modified(&since, &routed(&[MINUTE, ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")])));
}

#[test]
fn rfc9111_4_3_2_if_none_match_hides_if_modified_since() {
    let both = [("if-none-match", "\"2\""), ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")];
    assert!(!gets_304(&both, &[MINUTE, ("etag", "\"1\""), ("last-modified", "Sun, 06 Nov 1994 08:00:00 GMT")]));
}

#[test]
fn rfc9110_13_2_1_conditions_are_only_for_what_would_be_a_success() {
    let mut missing = entry(&[MINUTE, ("etag", "\"1\"")]);
    missing.status = StatusCode::NOT_FOUND;
    assert!(!not_modified(&headers(&[("if-none-match", "\"1\"")]), &missing));
}

#[test]
fn rfc9110_15_4_5_a_304_carries_validators_and_what_caches_need() {
    let stays = |name: &str| crate::http::fields::belongs_in_not_modified(name.as_bytes());
    for name in ["etag", "date", "cache-control", "expires", "vary", "content-location", "last-modified"] {
        assert!(stays(name), "{name}");
    }
    for name in ["content-length", "content-encoding", "content-type", "content-range", "content-language"] {
        assert!(!stays(name), "{name}");
    }
}
