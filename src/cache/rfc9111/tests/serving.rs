//! Sections 4, 4.2.4, 4.3.2, 5.2 and RFC 5861: what may be served.

use super::*;
use crate::http::fields::belongs_in_not_modified;
use crate::model::ids::{RegionSet, RouteId};
use crate::protocol::holding::{Routed, Standing};

const MINUTE: (&str, &str) = ("cache-control", "max-age=60");

#[test]
fn s4_2_fresh_while_lifetime_exceeds_age() {
    assert_eq!(decided(&[], &[MINUTE], 59), Decision::Fresh { age: seconds(59), ttl: seconds(1) });
    assert_eq!(decided(&[], &[MINUTE], 60), Decision::Revalidate);
    assert_eq!(decided(&[], &[MINUTE, ("age", "30")], 29), Decision::Fresh { age: seconds(59), ttl: seconds(1) });
    assert_eq!(decided(&[], &[MINUTE, ("age", "30")], 30), Decision::Revalidate);
    // 60 days old and fresh for 58.
    let old = [("cache-control", "max-age=5011200"), ("age", "5184000")];
    assert_eq!(decided(&[], &old, 0), Decision::Revalidate);
}

#[test]
fn s5_2_2_no_cache_revalidates() {
    assert_eq!(
        decided(&[], &[("cache-control", "max-age=60, no-cache"), ("etag", "\"1\"")], 0),
        Decision::Revalidate
    );
    let some = [("cache-control", "max-age=60, no-cache=\"x-who\""), ("x-who", "1")];
    assert!(is_fresh(&[], &some, 0), "the qualified form only keeps fields out");
    assert!(!entry(&some).headers().contains_key("x-who"));
}

#[test]
fn s5_2_1_no_cache_revalidates() {
    assert_eq!(decided(&[("cache-control", "no-cache")], &[MINUTE], 0), Decision::Revalidate);
    assert_eq!(decided(&[("pragma", "no-cache")], &[MINUTE], 0), Decision::Revalidate);
}

#[test]
fn s5_2_1_no_store_allows_hit() {
    assert!(is_fresh(&[("cache-control", "no-store")], &[MINUTE], 0));
}

#[test]
fn s5_2_1_max_age_limits_age() {
    let within = [("cache-control", "max-age=10")];
    assert!(is_fresh(&within, &[MINUTE], 10));
    assert_eq!(decided(&within, &[MINUTE], 11), Decision::Revalidate);
    assert_eq!(decided(&[("cache-control", "max-age=0")], &[MINUTE], 1), Decision::Revalidate);
}

#[test]
fn s5_2_1_min_fresh_needs_lifetime() {
    let left = [("cache-control", "min-fresh=20")];
    assert!(is_fresh(&left, &[MINUTE], 40));
    assert_eq!(decided(&left, &[MINUTE], 41), Decision::Revalidate);
}

#[test]
fn s5_2_1_max_stale_allows_stale() {
    let within = [("cache-control", "max-stale=10")];
    assert_eq!(decided(&within, &[MINUTE], 70), Decision::Stale { age: seconds(70) });
    assert_eq!(decided(&within, &[MINUTE], 71), Decision::Revalidate);
    assert_eq!(decided(&[("cache-control", "max-stale")], &[MINUTE], 9_999), Decision::Stale { age: seconds(9_999) });
    assert!(is_fresh(&within, &[MINUTE], 5));
}

#[test]
fn s5_2_2_must_revalidate_forbids_stale() {
    never_stale("max-age=60, must-revalidate");
}

#[test]
fn s5_2_2_proxy_revalidate_forbids_stale() {
    never_stale("max-age=60, proxy-revalidate");
}

#[test]
fn s5_2_2_s_maxage_forbids_stale() {
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
fn s5_2_only_if_cached_never_fetches() {
    let only = [("cache-control", "only-if-cached")];
    assert!(is_fresh(&only, &[MINUTE], 0));
    assert_eq!(decided(&only, &[MINUTE], 60), Decision::Unsatisfiable);
    assert_eq!(
        decided(&[("cache-control", "only-if-cached, max-stale")], &[MINUTE], 60),
        Decision::Stale { age: seconds(60) }
    );
    assert_eq!(decided(&[("cache-control", "only-if-cached, max-age=1")], &[MINUTE], 2), Decision::Unsatisfiable);
    assert_eq!(decided(&[("cache-control", "only-if-cached, no-cache")], &[MINUTE], 0), Decision::Unsatisfiable);
}

/// True if an entry is served in place of `trouble`. When disconnected, the limit is 100 s if the
/// reply says nothing.
fn served_on(trouble: OriginTrouble, request: &[(&str, &str)], pairs: &[(&str, &str)], after: u64) -> bool {
    let entry = entry(pairs);
    let Validity::Unrouted(stored) = &entry.validity else { unreachable!() };
    let asked = RequestDirectives::of(&headers(request));
    may_serve_on_error(&asked, &entry, stored, trouble, seconds(100), START + seconds(after))
}

#[test]
fn rfc5861_4_stale_if_error_covers_5xx() {
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
fn rfc5861_4_request_allows_stale_if_error() {
    let request = [("cache-control", "stale-if-error=20")];
    let trouble = OriginTrouble::Status(StatusCode::SERVICE_UNAVAILABLE);
    assert!(served_on(trouble, &request, &[MINUTE], 80));
    assert!(!served_on(trouble, &request, &[MINUTE], 81));
}

#[test]
fn s4_2_4_disconnected_cache_serves_stale() {
    assert!(served_on(OriginTrouble::Disconnected, &[], &[MINUTE], 160));
    assert!(!served_on(OriginTrouble::Disconnected, &[], &[MINUTE], 161));
    let limited = [("cache-control", "max-age=60, stale-if-error=0")];
    assert!(!served_on(OriginTrouble::Disconnected, &[], &limited, 61));
}

#[test]
fn s4_2_4_no_cache_forbids_stale() {
    let pairs = [("cache-control", "max-age=60, no-cache, stale-if-error=100"), ("etag", "\"1\"")];
    assert!(!served_on(OriginTrouble::Disconnected, &[], &pairs, 0));
    assert!(!served_on(OriginTrouble::Disconnected, &[("cache-control", "no-cache")], &[MINUTE], 0));
}

fn gets_304(request: &[(&str, &str)], pairs: &[(&str, &str)]) -> bool {
    not_modified(&headers(request), &entry(pairs))
}

#[test]
fn s4_3_2_etag_list_compares_weakly() {
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
fn s4_3_2_last_modified_else_date() {
    let modified = ("last-modified", "Sun, 06 Nov 1994 08:00:00 GMT");
    for (since, reply, unchanged) in [
        ("Sun, 06 Nov 1994 08:00:00 GMT", &[MINUTE, modified][..], true),
        ("Sun, 06 Nov 1994 08:00:01 GMT", &[MINUTE, modified], true),
        ("Sun, 06 Nov 1994 07:59:59 GMT", &[MINUTE, modified], false),
        ("Sun, 06 Nov 1994 08:49:36 GMT", &[MINUTE], false),
        ("Sun, 06 Nov 1994 08:49:37 GMT", &[MINUTE], true),
        ("yesterday", &[MINUTE, modified], false),
    ] {
        assert_eq!(gets_304(&[("if-modified-since", since)], reply), unchanged, "{since}");
    }
    assert!(!gets_304(&[], &[MINUTE, modified]));
}

/// Promise 1: a 304 must not hide a change made within the second of `Date`, or reported by regions
/// whose clocks differ, from a caller who has the previous value.
#[test]
fn date_on_route_is_no_validator() {
    let since = headers(&[("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")]);
    assert!(!not_modified(&since, &routed(&[MINUTE])));
    assert!(not_modified(&since, &routed(&[MINUTE, ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")])));
}

fn routed(pairs: &[(&str, &str)]) -> Entry {
    Entry {
        json: Default::default(),
        validity: Validity::Routed(Routed {
            route: RouteId(0),
            shows: std::iter::empty().collect(),
            digest: None,
            standing: Standing::Confirmed,
            epochs: vec![].into(),
            live: RegionSet::EMPTY,
            confirmed: START,
            ttl: seconds(3_600).into(),
        }),
        ..entry(pairs)
    }
}

#[test]
fn s4_3_2_etag_condition_beats_date() {
    let both = [("if-none-match", "\"2\""), ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")];
    assert!(!gets_304(&both, &[MINUTE, ("etag", "\"1\""), ("last-modified", "Sun, 06 Nov 1994 08:00:00 GMT")]));
}

#[test]
fn rfc9110_13_2_1_conditions_need_success() {
    let mut missing = entry(&[MINUTE, ("etag", "\"1\"")]);
    missing.status = StatusCode::NOT_FOUND;
    assert!(!not_modified(&headers(&[("if-none-match", "\"1\"")]), &missing));
}

#[test]
fn rfc9110_15_4_5_304_carries_validators() {
    for name in ["etag", "date", "cache-control", "expires", "vary", "content-location", "last-modified"] {
        assert!(belongs_in_not_modified(name.as_bytes()), "{name}");
    }
    for name in ["content-length", "content-encoding", "content-type", "content-range", "content-language"] {
        assert!(!belongs_in_not_modified(name.as_bytes()), "{name}");
    }
}
