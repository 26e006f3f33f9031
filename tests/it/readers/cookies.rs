//! `Set-Cookie`: never stored, and never anybody's but the caller's whose request it answers.

use std::time::Duration;

use super::{Say, Wire, reply, route, sidecar};

const COOKIE: &str = "Set-Cookie: session=1";

#[tokio::test]
async fn set_cookie_reaches_only_its_caller() {
    let stored = format!("{COOKIE}\nSet-Cookie: other=2\nCache-Control: public, max-age=60");
    let settings = format!("cache.unrouted = \"cache\"\n{}", route(""));
    let wire = Wire::with(1, &settings, move |_| reply(200, &stored, "x")).await;
    for target in ["/r/a", "/unrouted"] {
        let first = wire.get(target, &[]).await;
        assert_eq!(first.all("set-cookie"), ["session=1", "other=2"], "{target}");
        assert!(first.parameter("stored").is_some(), "{target}: {}", first.label());
        for (method, head) in [("GET", false), ("HEAD", true)] {
            let hit = wire.ask(method, target, &[], b"").await;
            assert_eq!((hit.is_hit(), hit.has("set-cookie")), (true, false), "{method} {target}");
            assert_eq!(hit.text(), if head { "" } else { "x" });
        }
    }
    wire.end().await;
}

#[tokio::test]
async fn cookie_of_304_is_never_stored() {
    let settings = format!("cache.unrouted = \"cache\"\n{}", route(""));
    let wire = Wire::with(1, &settings, |request| {
        let lines = format!("ETag: \"1\"\n{COOKIE}\nCache-Control: public, max-age=20");
        reply(if request.has("if-none-match") { 304 } else { 200 }, &lines, "x")
    })
    .await;
    for target in ["/r/a", "/unrouted"] {
        assert!(wire.get(target, &[]).await.has("set-cookie"));
        wire.idle().await;
        wire.pass(Duration::from_secs(31));
        let refreshed = wire.get(target, &[]).await;
        assert_eq!((refreshed.status(), refreshed.parameter("fwd-status")), (200, Some("304")), "{target}");
        assert_eq!((refreshed.header("set-cookie"), refreshed.text()), ("session=1", "x"), "{target}");
        let hit = wire.get(target, &[]).await;
        assert_eq!((hit.is_hit(), hit.has("set-cookie")), (true, false), "{target}");
    }
    wire.end().await;
}

#[tokio::test]
async fn remembered_error_omits_its_cookie() {
    let settings = format!("cache.unrouted = \"cache\"\n{}", route(""));
    let wire = Wire::with(1, &settings, |_| reply(500, COOKIE, "broken")).await;
    for target in ["/r/a", "/unrouted"] {
        let (first, again) = (wire.get(target, &[]).await, wire.get(target, &[]).await);
        assert_eq!((first.status(), first.header("set-cookie")), (500, "session=1"), "{target}");
        assert_eq!((again.status(), again.text(), again.has("set-cookie")), (500, "broken", false), "{target}");
    }
    assert_eq!(wire.seen().len(), 2, "each error was remembered");
    wire.end().await;
}

/// The stored reply of an earlier caller, while every region fails.
#[tokio::test]
async fn a_stale_reply_carries_no_cookie() {
    let wire = Wire::with(1, &route(""), |_| reply(200, COOKIE, "x")).await;
    wire.get("/r/a", &[]).await;
    wire.idle().await;
    wire.pass(Duration::from_secs(31));
    wire.says_always(reply(503, COOKIE, "down"));
    let stale = wire.get("/r/a", &[]).await;
    assert_eq!((stale.text(), stale.parameter("detail")), ("x", Some("stale-if-error")));
    assert!(!stale.has("set-cookie"));
    wire.end().await;
}

/// Checks that a region's cookie for the sidecar's own token is nobody's, whichever way the reply
/// takes.
#[tokio::test]
async fn sidecar_route_passes_no_cookie() {
    const LARGE: usize = 9 << 20;
    let dir = tempfile::tempdir().unwrap();
    let settings = sidecar(&dir.path().join("token"));
    let wire = Wire::with(1, &settings, |request| match request.target() {
        "/r/refused" => reply(403, COOKIE, "no"),
        "/r/broken" => reply(500, COOKIE, "broken"),
        "/r/secret" => reply(200, &format!("Cache-Control: no-store\n{COOKIE}"), "x"),
        "/r/large" => {
            let head = format!("HTTP/1.1 200 OK\r\n{COOKIE}\r\nContent-Length: {LARGE}\r\n\r\n");
            Say::Last([head.as_bytes(), &vec![b'x'; LARGE]].concat())
        }
        _ => reply(200, COOKIE, "x"),
    })
    .await;
    for (method, target, lines) in [
        ("GET", "/r/a", &[][..]),
        ("GET", "/r/a", &[]),
        ("GET", "/r/a", &["Cache-Control: no-cache"]),
        ("GET", "/r/a", &["Cache-Control: no-store"]),
        ("HEAD", "/r/b", &[]),
        ("GET", "/r/refused", &[]),
        ("GET", "/r/broken", &[]),
        ("GET", "/r/secret", &[]),
        ("GET", "/r/large", &[]),
        ("GET", "/r/a", &["Range: bytes=0-0"]),
        ("PUT", "/r/a", &[]),
    ] {
        let got = wire.ask(method, target, lines, b"").await;
        assert!(got.status() > 0 && !got.has("set-cookie"), "{method} {target} {lines:?}: {got:?}");
    }
    wire.end().await;
}

#[tokio::test]
async fn passed_reply_keeps_its_cookie() {
    let wire = Wire::with(1, &route(""), |_| reply(200, COOKIE, "x")).await;
    for (method, target, lines) in
        [("POST", "/r/a", &[][..]), ("GET", "/r/a", &["Range: bytes=0-0"]), ("GET", "/unrouted", &[])]
    {
        let got = wire.ask(method, target, lines, b"").await;
        assert_eq!(got.header("set-cookie"), "session=1", "{method} {target}");
    }
    wire.end().await;
}
