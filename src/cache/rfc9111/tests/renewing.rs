//! Sections 3.2, 4.3.1, 4.3.4, 4.3.5 and 4.4: validating, freshening, invalidating.

use std::sync::Arc;

use url::Url;

use super::*;

const MINUTE: (&str, &str) = ("cache-control", "max-age=60");

/// A 304 to a request sent an hour after the entry's.
fn not_modified_reply(pairs: &[(&str, &str)]) -> Reply {
    let sent = START + seconds(3_600);
    let body = Bytes::new();
    Reply { sent, received: sent, sent_wall: DATE + seconds(3_600), body, ..reply(304, pairs) }
}

fn renewed(entry: &Entry, pairs: &[(&str, &str)]) -> Arc<Entry> {
    match refreshed(entry, &HeaderMap::new(), &not_modified_reply(pairs)) {
        Renewal::Store(entry) => entry,
        other => panic!("{other:?}"),
    }
}

#[test]
fn s4_3_1_own_validators_replace_callers() {
    let mut request = headers(&[("if-none-match", "\"mine\""), ("if-modified-since", "x"), ("accept", "y")]);
    let stored = headers(&[("etag", "W/\"1\""), ("last-modified", "Sun, 06 Nov 1994 08:00:00 GMT")]);
    assert!(validators::validate(&mut request, &stored));
    let expected =
        [("accept", "y"), ("if-none-match", "W/\"1\""), ("if-modified-since", "Sun, 06 Nov 1994 08:00:00 GMT")];
    assert_eq!(request, headers(&expected));
    assert!(!validators::validate(&mut request, &HeaderMap::new()), "nothing to ask with");
    assert_eq!(request, headers(&[("accept", "y")]));
}

#[test]
fn s4_3_4_304_freshens_stored_entry() {
    let old = entry(&[MINUTE, ("etag", "\"1\""), ("age", "50")]);
    let new = renewed(&old, &[("etag", "\"1\"")]);
    assert_eq!((new.status, &new.body()[..]), (StatusCode::OK, BODY));
    assert_eq!(new.age(START + seconds(3_600)), Duration::ZERO, "the old Age is gone with the old reply");
    let Validity::Unrouted(stored) = &new.validity else { unreachable!() };
    assert_eq!(stored.lifetime, seconds(60));
    let decision = decide(&RequestDirectives::default(), &new, stored, START + seconds(3_610));
    assert_eq!(decision, Decision::Fresh { age: seconds(10), ttl: seconds(50) });
    let aged = renewed(&old, &[("etag", "\"1\""), ("age", "7")]);
    assert_eq!(aged.age(START + seconds(3_600)), seconds(7));
}

#[test]
fn s3_2_304_updates_header_fields() {
    let old = entry(&[
        MINUTE,
        ("etag", "\"1\""),
        ("x-same", "kept"),
        ("x-many", "a"),
        ("x-many", "b"),
        ("content-length", "7"),
        ("content-encoding", "gzip"),
        ("content-type", "text/plain"),
    ]);
    let new = renewed(
        &old,
        &[
            ("etag", "\"1\""),
            ("cache-control", "max-age=5"),
            ("x-many", "c"),
            ("x-new", "1"),
            ("x-new", "2"),
            ("content-length", "0"),
            ("content-encoding", "br"),
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("age", "3"),
        ],
    );
    let mut expected = headers(&[
        ("cache-control", "max-age=5"),
        ("etag", "\"1\""),
        ("x-same", "kept"),
        ("x-many", "c"),
        ("x-new", "1"),
        ("x-new", "2"),
        ("content-length", "7"),
        ("content-encoding", "gzip"),
        ("content-type", "text/plain"),
    ]);
    expected.insert("date", HeaderValue::from_static("Sun, 06 Nov 1994 09:49:37 GMT"));
    assert_eq!(new.headers(), expected);
    let Validity::Unrouted(stored) = &new.validity else { unreachable!() };
    assert_eq!(stored.lifetime, seconds(5));
}

#[test]
fn s4_3_4_304_needs_matching_validator() {
    for (stored, update, speaks) in [
        (&[("etag", "\"1\"")][..], &[("etag", "\"1\"")][..], true),
        (&[("etag", "\"1\"")], &[("etag", "\"2\"")], false),
        (&[("etag", "W/\"1\"")], &[("etag", "\"1\"")], false),
        (&[("etag", "W/\"1\"")], &[("etag", "W/\"1\"")], true),
        (&[("etag", "\"1\"")], &[("etag", "W/\"1\"")], true),
        (&[("last-modified", "a")], &[("last-modified", "a")], true),
        (&[("last-modified", "a")], &[("last-modified", "b")], false),
        (&[("last-modified", "a")], &[("etag", "\"1\"")], false),
        (&[("etag", "\"1\"")], &[], true),
    ] {
        let old = entry(&[stored, &[MINUTE]].concat());
        let renewal = refreshed(&old, &HeaderMap::new(), &not_modified_reply(update));
        assert_eq!(matches!(renewal, Renewal::Store(_)), speaks, "{stored:?} by {update:?}");
        assert_eq!(matches!(renewal, Renewal::Mismatch), !speaks, "{stored:?} by {update:?}");
    }
}

#[test]
fn s4_3_4_unstorable_304_is_served() {
    let old = entry(&[MINUTE, ("etag", "\"1\"")]);
    for said in ["no-store", "private"] {
        let update = not_modified_reply(&[("etag", "\"1\""), ("cache-control", said)]);
        assert!(matches!(refreshed(&old, &HeaderMap::new(), &update), Renewal::ServeOnly(_)), "{said}");
    }
    let update = not_modified_reply(&[("etag", "\"1\"")]);
    let authorized = headers(&[("authorization", "Bearer x")]);
    assert!(matches!(refreshed(&old, &authorized, &update), Renewal::ServeOnly(_)), "3.5 holds again");
}

fn after(stored: &[(&str, &str)], head: &[(&str, &str)]) -> HeadEffect {
    let reply = Reply { status: StatusCode::OK, ..not_modified_reply(head) };
    after_head(&entry(stored), &HeaderMap::new(), &reply)
}

#[test]
fn s4_3_5_matching_head_freshens_get() {
    let stored = [MINUTE, ("etag", "\"1\""), ("content-length", "7")];
    match after(&stored, &[("etag", "\"1\""), ("content-length", "7"), ("cache-control", "max-age=9")]) {
        HeadEffect::Store(entry) => {
            assert_eq!(&entry.body()[..], BODY);
            assert_eq!(entry.validity.unrouted().map(|stored| stored.lifetime), Some(seconds(9)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn s4_3_5_differing_head_removes_get() {
    let stored = [MINUTE, ("etag", "\"1\"")];
    for head in [("etag", "\"2\""), ("content-length", "8"), ("last-modified", "Sun, 06 Nov 1994 08:00:00 GMT")] {
        assert!(matches!(after(&stored, &[head]), HeadEffect::Remove), "{head:?}");
    }
    let failed = Reply { status: StatusCode::BAD_GATEWAY, ..not_modified_reply(&[]) };
    assert!(matches!(after_head(&entry(&stored), &HeaderMap::new(), &failed), HeadEffect::Nothing));
}

fn invalidated(method: Method, outcome: Option<u16>, pairs: &[(&str, &str)]) -> Vec<String> {
    let bases = ["https://eu.example.net/base/", "https://us.example.net/"].map(|url| Url::parse(url).unwrap());
    let outcome = outcome.map(|status| StatusCode::from_u16(status).unwrap());
    invalidates(&method, outcome, "/things/7?x=1", Some("127.0.0.1:8700"), &bases.each_ref(), &headers(pairs))
}

#[test]
fn s4_4_unsafe_method_invalidates_target() {
    for status in [200, 201, 204, 303] {
        assert_eq!(invalidated(Method::PUT, Some(status), &[]), ["/things/7?x=1"], "{status}");
    }
    for status in [400, 404, 500, 503] {
        assert!(invalidated(Method::PUT, Some(status), &[]).is_empty(), "{status}");
    }
    assert_eq!(invalidated(Method::PUT, None, &[]), ["/things/7?x=1"], "nobody knows: rather ask again");
}

#[test]
fn s4_4_safe_method_invalidates_nothing() {
    for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE] {
        assert!(invalidated(method.clone(), Some(200), &[]).is_empty(), "{method}");
    }
    let unknown = Method::from_bytes(b"FROBNICATE").unwrap();
    assert_eq!(invalidated(unknown, Some(200), &[]), ["/things/7?x=1"]);
}

#[test]
fn s4_4_same_origin_locations_invalidated() {
    for (to, path) in [
        ("/things/8", Some("/things/8")),
        ("8?y=2", Some("/things/8?y=2")),
        ("http://127.0.0.1:8700/things/8", Some("/things/8")),
        ("https://eu.example.net/base/things/8", Some("/things/8")),
        ("https://eu.example.net/other/8", None),
        ("https://eu.example.net/basement", None),
        ("https://us.example.net/things/8", Some("/things/8")),
        ("https://ap.example.net/things/8", None),
        ("http://127.0.0.1:8701/things/8", None),
        ("//evil.example/things/8", None),
        ("http://[", None),
        ("/things/7?x=1", None),
    ] {
        for name in ["location", "content-location"] {
            let expected: Vec<&str> = ["/things/7?x=1"].into_iter().chain(path).collect();
            assert_eq!(invalidated(Method::POST, Some(201), &[(name, to)]), expected, "{name}: {to}");
        }
    }
    let both = invalidated(Method::POST, Some(201), &[("location", "/a"), ("content-location", "/b")]);
    assert_eq!(both, ["/things/7?x=1", "/a", "/b"]);
    let own = invalidated(Method::POST, Some(201), &[("location", "/base/a?y")]);
    assert_eq!(own, ["/things/7?x=1", "/base/a?y", "/a?y"], "as a service below a path of its own sees itself");
}
