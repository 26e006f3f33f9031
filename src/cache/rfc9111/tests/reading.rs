//! Sections 3.1, 4.2 and 5: parsing what was said, and which header fields are kept.

use proptest::prelude::*;

use super::super::directives::{Delta, Extent, MaxStale, ResponseDirectives};
use super::*;

fn said(value: &str) -> ResponseDirectives {
    ResponseDirectives::of(&headers(&[("cache-control", value)]))
}

fn lifetime(pairs: &[(&str, &str)]) -> Option<Duration> {
    let headers = headers(pairs);
    freshness::lifetime(&ResponseDirectives::of(&headers), &headers, DATE)
}

#[test]
fn s4_2_1_s_maxage_comes_first() {
    assert_eq!(lifetime(&[("cache-control", "max-age=10, s-maxage=20")]), Some(seconds(20)));
    assert_eq!(lifetime(&[("cache-control", "s-maxage=5, max-age=10")]), Some(seconds(5)));
}

#[test]
fn s4_2_1_max_age_beats_expires() {
    let expires = ("expires", "Sun, 06 Nov 1994 09:49:37 GMT");
    assert_eq!(lifetime(&[("cache-control", "max-age=10"), expires]), Some(seconds(10)));
    assert_eq!(lifetime(&[("cache-control", "s-maxage=0"), expires]), Some(Duration::ZERO));
}

#[test]
fn s4_2_1_expires_counts_from_date() {
    let expires = ("expires", "Sun, 06 Nov 1994 08:50:37 GMT");
    assert_eq!(lifetime(&[expires]), Some(seconds(60)));
    assert_eq!(lifetime(&[expires, ("date", "Sun, 06 Nov 1994 08:50:07 GMT")]), Some(seconds(30)));
    assert_eq!(lifetime(&[expires, ("date", "Sun, 06 Nov 1994 09:00:00 GMT")]), Some(Duration::ZERO));
    assert_eq!(lifetime(&[("expires", "Sunday, 06-Nov-94 08:50:37 GMT")]), Some(seconds(60)), "RFC 850's form");
    assert_eq!(lifetime(&[("expires", "Sun Nov  6 08:50:37 1994")]), Some(seconds(60)), "asctime's form");
}

#[test]
fn s4_2_1_contradictions_are_stale() {
    assert_eq!(lifetime(&[("cache-control", "max-age=10, max-age=60")]), Some(Duration::ZERO));
    assert_eq!(lifetime(&[("cache-control", "max-age=10"), ("cache-control", "max-age=10")]), Some(seconds(10)));
    let twice = [("expires", "Sun, 06 Nov 1994 08:50:37 GMT"), ("expires", "Sun, 06 Nov 1994 08:51:37 GMT")];
    assert_eq!(lifetime(&twice), Some(Duration::ZERO));
}

#[test]
fn s4_2_1_unreadable_lifetime_is_stale() {
    for value in ["max-age=ten", "max-age=-1", "max-age=1.5", "max-age", "max-age=", "s-maxage=x, max-age=60"] {
        assert_eq!(lifetime(&[("cache-control", value)]), Some(Duration::ZERO), "{value}");
    }
}

#[test]
fn s4_2_2_no_heuristic_freshness() {
    let modified = [("last-modified", "Sat, 05 Nov 1994 08:49:37 GMT"), ("date", "Sun, 06 Nov 1994 08:49:37 GMT")];
    assert_eq!(lifetime(&modified), None);
    assert_eq!(decided(&[], &modified, 0), Decision::Revalidate);
}

#[test]
fn s1_2_2_delta_seconds_are_capped() {
    assert_eq!(lifetime(&[("cache-control", "max-age=99999999999999999999999999")]), Some(seconds(1 << 31)));
}

#[test]
fn s4_2_3_larger_age_from_request() {
    assert_eq!(age_when_sent(&[]), Duration::ZERO);
    // corrected_age_value = 10 + the delay of 4, so ten when sent.
    assert_eq!(age_when_sent(&[("age", "10")]), seconds(10));
    // apparent_age = 34 when received, so thirty when sent.
    assert_eq!(age_when_sent(&[("date", "Sun, 06 Nov 1994 08:49:07 GMT"), ("age", "10")]), seconds(30));
    assert_eq!(
        age_when_sent(&[("date", "Sun, 06 Nov 1994 08:49:37 GMT")]),
        Duration::ZERO,
        "the delay is not counted twice"
    );
    assert_eq!(age_when_sent(&[("date", "Sun, 06 Nov 1994 10:00:00 GMT")]), Duration::ZERO, "a clock ahead of ours");
    let mut aged = entry(&[("cache-control", "max-age=60")]);
    aged.age_at_receipt = seconds(10).into();
    assert_eq!(aged.age(START + seconds(7)), seconds(17));
}

/// The age of a reply that took four seconds, when it was sent.
fn age_when_sent(pairs: &[(&str, &str)]) -> Duration {
    freshness::initial_age(&headers(pairs), START, START + seconds(4), DATE + seconds(4))
}

#[test]
fn s5_1_first_of_ages_counts() {
    assert_eq!(freshness::stated_age(&headers(&[("age", "7, 9")])), seconds(7));
    assert_eq!(freshness::stated_age(&headers(&[("age", "7"), ("age", "9")])), seconds(7));
    assert_eq!(freshness::stated_age(&headers(&[("age", "-7")])), Duration::ZERO);
    assert_eq!(freshness::stated_age(&headers(&[("age", "7.5")])), Duration::ZERO);
}

#[test]
fn s5_2_directives_ignore_case_and_quotes() {
    let read = said(" , MAX-AGE=\"60\",,no-store , Public;x , ext=\"a, no-cache, \\\" private\" ,must-revalidate");
    assert_eq!(read.max_age, Delta::Seconds(60));
    assert!(read.no_store && read.must_revalidate);
    assert!(!read.public, "that is another word");
    assert_eq!(read.no_cache, Extent::Nothing, "inside quotes it is no directive");
    assert_eq!(read.private, Extent::Nothing);
    let two = ResponseDirectives::of(&headers(&[("cache-control", "max-age=60"), ("cache-control", "no-cache")]));
    assert_eq!((two.max_age, two.no_cache), (Delta::Seconds(60), Extent::Everything));
    let mut odd = HeaderMap::new();
    odd.insert("cache-control", HeaderValue::from_bytes(b"x=\xff, no-store").unwrap());
    assert!(ResponseDirectives::of(&odd).no_store, "a letter that is none hides nothing beside it");
}

#[test]
fn s5_2_2_qualified_directives_name_fields() {
    let read = said("no-cache=\"set-cookie, X-Who\", private=\"x-a\", private=x-b");
    assert_eq!(read.no_cache.fields(), ["set-cookie", "x-who"]);
    assert_eq!(read.private.fields(), ["x-a", "x-b"]);
    for everything in ["private=\"x-a\", private", "private, private=\"x-a\"", "private=\"\"", "private=\"a b\""] {
        assert_eq!(said(everything).private, Extent::Everything, "{everything}");
    }
}

#[test]
fn s5_2_1_request_directives_are_read() {
    let asked = RequestDirectives::of(&headers(&[(
        "cache-control",
        "no-cache, no-store, only-if-cached, max-age=5, min-fresh=6, max-stale=7, stale-if-error=8",
    )]));
    assert!(asked.no_cache && asked.no_store && asked.only_if_cached);
    assert_eq!((asked.max_age, asked.min_fresh), (Some(seconds(5)), Some(seconds(6))));
    assert_eq!(asked.max_stale, Some(MaxStale::Within(seconds(7))));
    assert_eq!(asked.stale_if_error, Some(seconds(8)));
    let any = RequestDirectives::of(&headers(&[("cache-control", "max-stale")]));
    assert_eq!(any.max_stale, Some(MaxStale::Any));
    let odd = RequestDirectives::of(&headers(&[("cache-control", "max-age=x, max-stale=y, min-fresh=z")]));
    assert_eq!(odd.max_age, Some(Duration::ZERO), "the careful reading");
    assert_eq!(odd.max_stale, Some(MaxStale::Within(Duration::ZERO)));
    assert_eq!(odd.min_fresh, Some(Duration::MAX));
}

#[test]
fn s5_2_1_2_smallest_max_stale_counts() {
    for (value, smallest) in [
        ("max-stale=5, max-stale", 5),
        ("max-stale, max-stale=5", 5),
        ("max-stale=7, max-stale=5", 5),
        ("max-stale=5, max-stale=7", 5),
        ("max-stale=x, max-stale=5", 0),
        ("max-stale=5, max-stale=x", 0),
    ] {
        let read = RequestDirectives::of(&headers(&[("cache-control", value)]));
        assert_eq!(read.max_stale, Some(MaxStale::Within(seconds(smallest))), "{value}");
    }
}

#[test]
fn s5_4_pragma_yields_to_cache_control() {
    assert!(RequestDirectives::of(&headers(&[("pragma", "no-cache")])).no_cache);
    assert!(!RequestDirectives::of(&headers(&[("pragma", "no-cache"), ("cache-control", "max-age=5")])).no_cache);
    assert!(!RequestDirectives::of(&headers(&[("pragma", "other")])).no_cache);
    assert!(is_fresh(&[], &[("cache-control", "max-age=60"), ("pragma", "no-cache")], 0), "no meaning in a reply");
}

#[test]
fn rfc9110_7_6_1_connection_fields_removed() {
    let kept = end_to_end(&headers(&[
        ("connection", "close, X-Once"),
        ("connection", "x-twice"),
        ("x-once", "1"),
        ("x-twice", "2"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("proxy-authenticate", "Basic"),
        ("proxy-authorization", "Basic x"),
        ("proxy-authentication-info", "x"),
        ("te", "trailers"),
        ("trailer", "x-sum"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("http2-settings", "x"),
        ("x-kept", "3"),
        ("x-kept", "4"),
        ("content-length", "7"),
    ]));
    assert_eq!(kept, headers(&[("x-kept", "3"), ("x-kept", "4"), ("content-length", "7")]));
}

#[test]
fn s3_1_stores_date_without_age() {
    let kept = fields::kept(
        &headers(&[
            ("age", "5"),
            ("cache-control", "private=\"x-me\", no-cache=\"set-cookie\", max-age=9"),
            ("x-me", "1"),
            ("set-cookie", "a=b"),
            ("etag", "\"1\""),
        ]),
        DATE,
    );
    let cache_control = ("cache-control", "private=\"x-me\", no-cache=\"set-cookie\", max-age=9");
    assert_eq!(kept, headers(&[cache_control, ("etag", "\"1\""), ("date", "Sun, 06 Nov 1994 08:49:37 GMT")]));
    let dated = headers(&[("date", "Sun, 06 Nov 1994 08:00:00 GMT")]);
    assert_eq!(fields::kept(&dated, DATE), dated, "a reply's own date stays");
}

proptest! {
    #[test]
    fn any_bytes_can_be_read(bytes in proptest::collection::vec(prop_oneof![
        Just(b','), Just(b'='), Just(b'"'), Just(b'\\'), Just(b' '), Just(b'*'), Just(b'W'), Just(b'/'), 33u8..127
    ], 0..64)) {
        if let Ok(value) = HeaderValue::from_bytes(&bytes) {
            let mut map = HeaderMap::new();
            for name in ["cache-control", "vary", "etag", "if-none-match", "expires", "age", "connection"] {
                map.insert(HeaderName::from_static(name), value.clone());
            }
            let _ = (ResponseDirectives::of(&map), RequestDirectives::of(&map), end_to_end(&map), super::super::storing::nominated(&map));
            let _ = not_modified(&map, &entry(&[("etag", "\"1\"")]));
            let _ = validators::speaks_of(&map, &map);
        }
    }

    #[test]
    fn directive_is_found_at_any_position(
        before in proptest::collection::vec("[a-z]{1,4}(=([0-9]{1,3}|\"[a-z, =]{0,6}\"))?", 0..4),
        after in proptest::collection::vec("[a-z]{1,4}(=([0-9]{1,3}|\"[a-z, =]{0,6}\"))?", 0..4),
    ) {
        let all: Vec<&str> = before.iter().map(String::as_str).chain(["no-store"])
            .chain(after.iter().map(String::as_str)).collect();
        prop_assert!(said(&all.join(" , ")).no_store);
        let without: Vec<&str> = before.iter().chain(&after).map(String::as_str).collect();
        prop_assert!(!said(&without.join(",")).no_store);
    }
}
