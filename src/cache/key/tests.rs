//! What tells keys apart, and what they have in common.

use proptest::prelude::*;

use super::*;

const SEED: HashKey = HashKey::fixed(7);

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
        route: 1,
        path_and_query,
        headers: &headers,
        forward: &forward,
        is_form_known: false,
        is_identity: false,
        identity,
    };
    let (mut buffer, tail) = (KeyBuffer::new(SEED), KeyBuffer::new(SEED).tail(parts).to_vec());
    let key = buffer.routed(parts).to_key();
    assert_eq!(buffer.routed_with(path_and_query, &tail).to_key(), key, "put together as a connection does");
    key
}

#[test]
fn every_part_of_a_routed_representation_tells_it_apart() {
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
        KeyBuffer::new(SEED).primary("/a").to_key(),
        KeyBuffer::new(SEED).variant("/a", &[], &HeaderMap::new()).to_key(),
    ] {
        assert_ne!(other, plain);
    }
    let empty = HeaderMap::new();
    let parts = Representation {
        route: 2,
        path_and_query: "/a",
        headers: &empty,
        forward: &[],
        is_form_known: false,
        is_identity: false,
        identity: 0,
    };
    assert_ne!(KeyBuffer::new(SEED).routed(parts).to_key(), routed("/a", &[], &[], 0));
}

#[test]
fn a_reused_buffer_gives_the_same_keys_as_a_new_one() {
    let mut buffer = KeyBuffer::new(SEED);
    let long = buffer.primary("/a/much/longer/path").to_key();
    assert_eq!(buffer.primary("/a").to_key(), KeyBuffer::new(SEED).primary("/a").to_key());
    assert_eq!(buffer.primary("/a/much/longer/path").to_key(), long);
    assert_ne!(KeyBuffer::new(HashKey::fixed(8)).primary("/a").hash(), buffer.primary("/a").hash());
}

#[test]
fn rfc9111_4_1_nominated_headers_select_and_others_do_not() {
    let names = [HeaderName::from_static("accept-language")];
    let key = |pairs| KeyBuffer::new(SEED).variant("/a", &names, &headers(pairs)).to_key();
    let english = key(&[("accept-language", "en")]);
    assert_eq!(key(&[("accept-language", " en "), ("accept", "x")]), english);
    assert_ne!(key(&[("accept-language", "de")]), english);
    assert_ne!(key(&[]), english);
    assert_ne!(key(&[]), key(&[("accept-language", "")]), "missing is not empty");
    assert_ne!(
        key(&[("accept-language", "en"), ("accept-language", "fr")]),
        key(&[("accept-language", "en"), ("accept-language", "de")]),
        "every line counts"
    );
}

#[test]
fn requests_share_a_fill_only_if_all_headers_that_count_are_the_same() {
    let except = [HeaderName::from_static("traceparent")];
    let key = |pairs| KeyBuffer::new(SEED).request(&Method::GET, "/a", &headers(pairs), &except).to_key();
    assert_eq!(key(&[("accept", "x"), ("via", "y")]), key(&[("via", "y"), ("accept", "x"), ("traceparent", "1")]));
    assert_ne!(key(&[("accept", "x")]), key(&[("accept", "y")]));
    assert_ne!(key(&[("accept", "x")]), key(&[]));
}

#[test]
fn a_key_shows_nothing_of_what_was_asked() {
    let shown = format!("{:?} {:?}", routed("/secret", &[], &[], 3), SEED);
    assert!(!shown.contains("secret"), "{shown}");
    assert!(!shown.contains("115, 101"), "{shown}");
}

#[test]
fn accept_encoding_is_reduced_to_what_is_taken() {
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
    fn routed_keys_are_equal_only_if_every_part_is(
        left in (part(), proptest::collection::vec(line(), 0..3), proptest::collection::vec(line(), 0..3), 0u128..2),
        right in (part(), proptest::collection::vec(line(), 0..3), proptest::collection::vec(line(), 0..3), 0u128..2),
    ) {
        let key = |(path, accept, team, identity): &(String, Vec<String>, Vec<String>, u128)| {
            let pairs: Vec<(&str, &str)> = accept.iter().map(|line| ("accept", line.as_str()))
                .chain(team.iter().map(|line| ("x-team", line.as_str()))).collect();
            routed(path, &pairs, &["x-team"], *identity)
        };
        prop_assert_eq!(key(&left) == key(&right), left == right);
    }

    #[test]
    fn variant_keys_are_equal_only_if_every_part_is(
        left in (part(), proptest::collection::vec((0..2usize, line()), 0..4), 0..4usize),
        right in (part(), proptest::collection::vec((0..2usize, line()), 0..4), 0..4usize),
    ) {
        const NAMES: [&str; 2] = ["x-a", "x-aa"];
        let nominated = |set: usize| -> Vec<HeaderName> {
            (0..2).filter(|bit| set & 1 << bit != 0).map(|bit| HeaderName::from_static(NAMES[bit])).collect()
        };
        let selected = |(path, lines, set): &(String, Vec<(usize, String)>, usize)| {
            let of = |name: usize| -> Vec<String> {
                lines.iter().filter(|(at, _)| *at == name).map(|(_, line)| line.clone()).collect()
            };
            let values: Vec<_> = (0..2).filter(|bit| set & 1 << bit != 0).map(of).collect();
            (path.clone(), *set, values)
        };
        let key = |(path, lines, set): &(String, Vec<(usize, String)>, usize)| {
            let pairs: Vec<(&str, &str)> = lines.iter().map(|(name, line)| (NAMES[*name], line.as_str())).collect();
            KeyBuffer::new(SEED).variant(path, &nominated(*set), &headers(&pairs)).to_key()
        };
        prop_assert_eq!(key(&left) == key(&right), selected(&left) == selected(&right));
    }
}

#[test]
fn a_key_gives_back_the_target_that_it_is_of() {
    let key = routed("/v1/contexts/caf\u{e9}?b=c", &[("accept", "text/html")], &["x-tenant"], 7);
    assert_eq!(key.as_ref().target(), "/v1/contexts/caf\u{e9}?b=c");
    assert_eq!(KeyBuffer::new(SEED).primary("").target(), "");
}
