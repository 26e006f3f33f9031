//! Differences between keys, and what they have in common.

use proptest::prelude::*;

use super::*;
use crate::model::ids::RouteId;

const HASH_KEY: HashKey = HashKey::fixed(7);

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    map
}

fn routed(path_and_query: &str, pairs: &[(&str, &str)], forward: &[&str], identity: u128) -> Key {
    let forward: Vec<_> = forward.iter().map(|name| HeaderName::from_bytes(name.as_bytes()).unwrap()).collect();
    let headers = headers(pairs);
    let parts = Representation {
        route: RouteId(1),
        path_and_query,
        headers: &headers,
        forward: &forward,
        is_form_known: false,
        is_uncoded: false,
        identity,
    };
    let (mut buffer, tail) = (KeyBuffer::new(HASH_KEY), KeyBuffer::new(HASH_KEY).tail(parts).to_vec());
    let key = buffer.routed(parts).to_key();
    assert_eq!(buffer.routed_with(path_and_query, &tail).to_key(), key, "put together as a connection does");
    key
}

#[test]
fn every_key_part_distinguishes_representations() {
    let plain = routed("/a", &[], &["x-team"], 0);
    assert_eq!(routed("/a", &[], &["x-team"], 0), plain);
    assert_eq!(routed("/a", &[("x-request-id", "1"), ("cookie", "c")], &["x-team"], 0), plain, "not in the key");
    for other in [
        routed("/a?", &[], &["x-team"], 0),
        routed("/a", &[("accept", "text/html")], &["x-team"], 0),
        routed("/a", &[("accept-encoding", "gzip")], &["x-team"], 0),
        routed("/a", &[("x-team", "red")], &["x-team"], 0),
        routed("/a", &[("x-team", "")], &["x-team"], 0),
        routed("/a", &[], &["x-team"], 1),
        KeyBuffer::new(HASH_KEY).primary("/a").to_key(),
        KeyBuffer::new(HASH_KEY).variant("/a", &[], &HeaderMap::new()).to_key(),
    ] {
        assert_ne!(other, plain);
    }
    let empty = HeaderMap::new();
    let parts = Representation {
        route: RouteId(2),
        path_and_query: "/a",
        headers: &empty,
        forward: &[],
        is_form_known: false,
        is_uncoded: false,
        identity: 0,
    };
    assert_ne!(KeyBuffer::new(HASH_KEY).routed(parts).to_key(), routed("/a", &[], &[], 0));
}

#[test]
fn reused_buffer_gives_same_keys() {
    let mut buffer = KeyBuffer::new(HASH_KEY);
    let long = buffer.primary("/a/much/longer/path").to_key();
    assert_eq!(buffer.primary("/a").to_key(), KeyBuffer::new(HASH_KEY).primary("/a").to_key());
    assert_eq!(buffer.primary("/a/much/longer/path").to_key(), long);
    assert_ne!(KeyBuffer::new(HashKey::fixed(8)).primary("/a").hash(), buffer.primary("/a").hash());
}

#[test]
fn rfc9111_4_1_only_nominated_headers_select() {
    let english = by_language(&[("accept-language", "en")]);
    assert_eq!(by_language(&[("accept-language", " en "), ("accept", "x")]), english);
    assert_ne!(by_language(&[("accept-language", "de")]), english);
    assert_ne!(by_language(&[]), english);
    assert_ne!(by_language(&[]), by_language(&[("accept-language", "")]), "missing is not empty");
    assert_ne!(
        by_language(&[("accept-language", "en"), ("accept-language", "fr")]),
        by_language(&[("accept-language", "en"), ("accept-language", "de")]),
        "every line counts"
    );
}

fn by_language(pairs: &[(&str, &str)]) -> Key {
    let names = [HeaderName::from_static("accept-language")];
    KeyBuffer::new(HASH_KEY).variant("/a", &names, &headers(pairs)).to_key()
}

#[test]
fn sharing_fill_needs_equal_keyed_headers() {
    assert_eq!(
        of_request(&[("accept", "x"), ("via", "y")]),
        of_request(&[("via", "y"), ("accept", "x"), ("traceparent", "1")])
    );
    assert_ne!(of_request(&[("accept", "x")]), of_request(&[("accept", "y")]));
    assert_ne!(of_request(&[("accept", "x")]), of_request(&[]));
}

fn of_request(pairs: &[(&str, &str)]) -> Key {
    let except = [HeaderName::from_static("traceparent")];
    KeyBuffer::new(HASH_KEY).whole_request(&Method::GET, "/a", &headers(pairs), &except).to_key()
}

#[test]
fn key_reveals_nothing_of_request() {
    let shown = format!("{:?} {:?}", routed("/secret", &[], &[], 3), HASH_KEY);
    assert!(!shown.contains("secret"), "{shown}");
    assert!(!shown.contains("115, 101"), "{shown}");
}

#[test]
fn accept_encoding_is_normalized() {
    for (asked, sent) in [
        ("gzip, deflate, br", Some("br, gzip")),
        ("GZIP;q=0.5", Some("gzip")),
        ("x-gzip", Some("gzip")),
        ("zstd , br;q=1.0,gzip ; q=0.1", Some("br, gzip, zstd")),
        ("gzip;q=0, br;q=0.000", None),
        ("*", Some("br, gzip, zstd")),
        ("*;q=0, zstd", Some("zstd")),
        ("gzip;q=0, *", Some("br, zstd")),
        ("identity", None),
        ("", None),
    ] {
        let of = AcceptEncoding::of(&headers(&[("accept-encoding", asked)]));
        assert_eq!(of.header(), sent.map(HeaderValue::from_static), "{asked}");
    }
    assert_eq!(AcceptEncoding::of(&HeaderMap::new()).header(), None);
    let lines = headers(&[("accept-encoding", "br"), ("accept-encoding", "gzip")]);
    assert_eq!(AcceptEncoding::of(&lines).header(), Some(HeaderValue::from_static("br, gzip")));
    assert_eq!(
        routed("/a", &[("accept-encoding", "gzip, br, deflate")], &[], 0),
        routed("/a", &[("accept-encoding", "br;q=0.9, gzip")], &[], 0)
    );
}

/// Few letters and short texts, so that it often draws parts that differ only in where one ends.
fn part() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop_oneof![Just('a'), Just(','), Just('\u{1}'), Just('\0')], 0..4)
        .prop_map(|letters| letters.into_iter().collect())
}

fn line() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop_oneof![Just('a'), Just(',')], 0..3)
        .prop_map(|letters| letters.into_iter().collect())
}

proptest! {
    #[test]
    fn routed_keys_differ_in_any_part(
        left in (part(), proptest::collection::vec(line(), 0..3), proptest::collection::vec(line(), 0..3), 0u128..2),
        right in (part(), proptest::collection::vec(line(), 0..3), proptest::collection::vec(line(), 0..3), 0u128..2),
    ) {
        let keys = [&left, &right].map(|(path, accept, team, identity)| {
            let pairs: Vec<(&str, &str)> = accept.iter().map(|line| ("accept", line.as_str()))
                .chain(team.iter().map(|line| ("x-team", line.as_str()))).collect();
            routed(path, &pairs, &["x-team"], *identity)
        });
        prop_assert_eq!(keys[0] == keys[1], left == right);
    }

    #[test]
    fn variant_keys_differ_in_any_part(
        left in (part(), proptest::collection::vec((0..2usize, line()), 0..4), 0..4usize),
        right in (part(), proptest::collection::vec((0..2usize, line()), 0..4), 0..4usize),
    ) {
        const NAMES: [&str; 2] = ["x-a", "x-aa"];
        let [(left_key, left_selected), (right_key, right_selected)] = [left, right].map(|(path, lines, set)| {
            let names: Vec<_> = (0..2).filter(|bit| set & 1 << bit != 0).collect();
            let nominated: Vec<_> = names.iter().map(|name| HeaderName::from_static(NAMES[*name])).collect();
            let pairs: Vec<_> = lines.iter().map(|(name, line)| (NAMES[*name], line.as_str())).collect();
            let key = KeyBuffer::new(HASH_KEY).variant(&path, &nominated, &headers(&pairs)).to_key();
            let values: Vec<Vec<_>> = names.iter().map(|name| {
                lines.iter().filter(|(at, _)| at == name).map(|(_, line)| line.clone()).collect()
            }).collect();
            (key, (path, set, values))
        });
        prop_assert_eq!(left_key == right_key, left_selected == right_selected);
    }
}

#[test]
fn key_returns_its_target() {
    let key = routed("/v1/contexts/caf\u{e9}?b=c", &[("accept", "text/html")], &["x-tenant"], 7);
    assert_eq!(key.as_ref().target(), "/v1/contexts/caf\u{e9}?b=c");
    assert_eq!(KeyBuffer::new(HASH_KEY).primary("").target(), "");
}
