//! RFC 9111, 4.3 and 4.4: asking about what is stored, answering callers' conditions and HEAD, and
//! invalidation.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::super::wire::{Say, reply};
use super::{asked, cached, says, secs, silence};

#[tokio::test]
async fn s4_3_1_uses_stored_validators() {
    let lines = "Cache-Control: max-age=60\nETag: \"v1\"\nLast-Modified: Fri, 01 Jan 2016 00:00:00 GMT";
    let say = reply(200, lines, "x");
    let wire = cached(move |_| say.clone()).await;
    wire.get("/a", &["If-None-Match: \"mine\"", "If-Modified-Since: Thu, 01 Jan 2015 00:00:00 GMT"]).await;
    let first = wire.last_seen();
    assert!(!first.has("if-none-match") && !first.has("if-modified-since"), "the whole is asked for: {first:?}");
    wire.pass(secs(61));
    wire.get("/a", &["If-None-Match: \"mine\""]).await;
    let second = wire.last_seen();
    assert_eq!(second.all("if-none-match"), ["\"v1\""]);
    assert_eq!(second.all("if-modified-since"), ["Fri, 01 Jan 2016 00:00:00 GMT"]);
    wire.end().await;
}

#[tokio::test]
async fn s4_3_2_store_answers_condition() {
    let lines = "Cache-Control: max-age=60\nETag: \"v1\"\nLast-Modified: Fri, 01 Jan 2016 00:00:00 GMT\nVary: x-a\n\
                 Content-Type: text/plain";
    let say = reply(200, lines, "x");
    let wire = cached(move |_| say.clone()).await;
    wire.get("/a", &[]).await;
    for (condition, status) in [
        ("If-None-Match: \"v1\"", 304),
        ("If-None-Match: \"v0\", W/\"v1\"", 304),
        ("If-None-Match: *", 304),
        ("If-None-Match: \"v2\"", 200),
        ("If-Modified-Since: Fri, 01 Jan 2016 00:00:00 GMT", 304),
        ("If-Modified-Since: Thu, 31 Dec 2015 00:00:00 GMT", 200),
        ("If-None-Match: \"v2\"\r\nIf-Modified-Since: Fri, 01 Jan 2016 00:00:00 GMT", 200),
    ] {
        let got = wire.get("/a", &[condition]).await;
        assert_eq!((got.status(), got.is_hit()), (status, true), "{condition}");
        if status == 304 {
            assert_eq!((got.header("etag"), got.header("cache-control")), ("\"v1\"", "max-age=60"));
            assert_eq!((got.header("vary"), got.has("date"), got.has("content-type")), ("x-a", true, false));
            assert!(got.has("age") && got.body.is_empty());
        }
    }
    assert_eq!(asked(&wire), 1);
    wire.end().await;
}

#[tokio::test]
async fn s4_3_2_miss_answers_condition() {
    let wire = cached(|_| reply(200, "Cache-Control: max-age=60\nETag: \"v1\"", "x")).await;
    assert_eq!(wire.get("/a", &["If-None-Match: \"v1\""]).await.status(), 304);
    let whole = wire.get("/a", &[]).await;
    assert_eq!((whole.is_hit(), whole.text()), (true, "x"));
    wire.end().await;
}

#[tokio::test]
async fn s4_3_4_304_renews_reply() {
    let wire = cached(|request| match request.header("if-none-match") {
        "" => reply(200, "Cache-Control: max-age=60\nETag: \"v1\"\nX-Kept: 1\nX-New: old\nX-New: older", "whole"),
        _ => reply(304, "Cache-Control: max-age=600\nETag: \"v1\"\nX-New: new\nContent-Length: 999", ""),
    })
    .await;
    wire.get("/a", &[]).await;
    wire.pass(secs(61));
    let renewed = wire.get("/a", &[]).await;
    assert_eq!((renewed.status(), renewed.text(), renewed.all("content-length")), (200, "whole", vec!["5"]));
    assert_eq!((renewed.parameter("fwd"), renewed.parameter("fwd-status")), (Some("stale"), Some("304")));
    wire.pass(secs(500));
    let hit = wire.get("/a", &[]).await;
    assert!(hit.is_hit() && hit.text() == "whole" && says(hit.header("age"), 500), "{hit:?}");
    assert_eq!((hit.all("x-new"), hit.all("x-kept")), (vec!["new"], vec!["1"]));
    assert_eq!((hit.header("cache-control"), hit.all("content-length")), ("max-age=600", vec!["5"]));
    assert_eq!(asked(&wire), 2);
    wire.end().await;
}

#[tokio::test]
async fn s4_3_4_304_mismatch_refetches() {
    let wire = cached(|_| reply(200, "Cache-Control: max-age=60\nETag: \"v1\"", "one")).await;
    wire.get("/a", &[]).await;
    wire.says(|request| match request.header("if-none-match") {
        "" => reply(200, "Cache-Control: max-age=60\nETag: \"v2\"", "two"),
        _ => reply(304, "ETag: \"v2\"", ""),
    });
    wire.pass(secs(61));
    let got = wire.get("/a", &[]).await;
    assert_eq!((got.status(), got.text(), got.header("etag")), (200, "two", "\"v2\""));
    assert_eq!(asked(&wire), 3);
    assert!(wire.get("/a", &[]).await.is_hit());
    wire.end().await;
}

#[tokio::test]
async fn s4_3_4_unstorable_304_evicts() {
    let wire = cached(|request| match request.header("if-none-match") {
        "" => reply(200, "Cache-Control: max-age=60\nETag: \"v1\"", "one"),
        _ => reply(304, "Cache-Control: no-store\nETag: \"v1\"", ""),
    })
    .await;
    wire.get("/a", &[]).await;
    wire.pass(secs(61));
    assert_eq!(wire.get("/a", &[]).await.text(), "one");
    let after = wire.get("/a", &[]).await;
    assert_eq!((after.is_hit(), after.parameter("fwd")), (false, Some("uri-miss")));
    wire.end().await;
}

#[tokio::test]
async fn s4_3_3_replaces_stored_reply() {
    let wire = cached(|_| reply(200, "Cache-Control: max-age=60\nETag: \"v1\"\nX-Old: 1", "one")).await;
    wire.get("/a", &[]).await;
    wire.says_always(reply(200, "Cache-Control: max-age=60\nETag: \"v2\"", "two"));
    wire.pass(secs(61));
    assert_eq!(wire.get("/a", &[]).await.text(), "two");
    let hit = wire.get("/a", &[]).await;
    assert_eq!((hit.is_hit(), hit.text(), hit.has("x-old")), (true, "two", false));
    wire.end().await;
}

#[tokio::test]
async fn s4_head_uses_stored_get() {
    let wire = cached(|_| reply(200, "Cache-Control: max-age=60\nETag: \"1\"", "12345")).await;
    wire.get("/a", &[]).await;
    let head = wire.ask("HEAD", "/a", &[], b"").await;
    assert_eq!((head.status(), head.is_hit(), head.all("content-length")), (200, true, vec!["5"]));
    assert_eq!((head.header("etag"), asked(&wire)), ("\"1\"", 1));
    assert_eq!(wire.ask("HEAD", "/a", &["If-None-Match: \"1\""], b"").await.status(), 304);
    wire.end().await;
}

#[tokio::test]
async fn s3_head_reply_serves_no_get() {
    let wire = cached(|_| reply(200, "Cache-Control: max-age=60", "12345")).await;
    let head = wire.ask("HEAD", "/a", &[], b"").await;
    assert_eq!((head.status(), head.all("content-length"), head.is_hit()), (200, vec!["5"], false));
    assert_eq!(wire.last_seen().method(), "HEAD");
    let get = wire.get("/a", &[]).await;
    assert_eq!((get.is_hit(), get.text()), (false, "12345"));
    wire.end().await;
}

#[tokio::test]
async fn s4_3_5_head_validates_get() {
    for (tag, body, still) in [("\"1\"", "12345", true), ("\"2\"", "12345", false), ("\"1\"", "123456", false)] {
        let wire = cached(|_| reply(200, "Cache-Control: max-age=60\nETag: \"1\"", "12345")).await;
        wire.get("/a", &[]).await;
        wire.pass(secs(61));
        wire.says_always(reply(200, &format!("Cache-Control: max-age=60\nETag: {tag}"), body));
        assert_eq!(wire.ask("HEAD", "/a", &[], b"").await.status(), 200);
        wire.idle().await;
        let got = wire.get("/a", &[]).await;
        assert_eq!((got.is_hit(), got.text()), (still, body), "{tag} {body}");
        wire.end().await;
    }
}

/// Stores `/a`, sends `request` whose reply is `said`, and tells whether `/a` is still served
/// without asking.
async fn survives(method: &str, target: &str, said: Say) -> bool {
    let wire = cached(|_| reply(200, "Cache-Control: max-age=60\nVary: x-a", "x")).await;
    wire.get("/a", &["X-A: 1"]).await;
    wire.get("/a", &["X-A: 2"]).await;
    wire.says_always(said);
    wire.ask(method, target, &[], b"body").await;
    wire.says_always(reply(200, "", "asked again"));
    let (one, two) = (wire.get("/a", &["X-A: 1"]).await.is_hit(), wire.get("/a", &["X-A: 2"]).await.is_hit());
    assert_eq!(one, two, "all variants go, or none");
    wire.end().await;
    one
}

#[tokio::test]
async fn s4_4_unsafe_success_invalidates_target() {
    for method in ["POST", "PUT", "DELETE", "PATCH", "FROB"] {
        assert!(!survives(method, "/a", reply(204, "", "")).await, "{method}");
        assert!(!survives(method, "/a", reply(302, "Location: /z", "")).await, "{method}");
        assert!(survives(method, "/a", reply(409, "", "")).await, "{method}");
        assert!(survives(method, "/a", reply(500, "", "")).await, "{method}");
        assert!(survives(method, "/b", reply(204, "", "")).await, "{method} elsewhere");
    }
    assert!(!survives("POST", "/a", silence()).await, "nobody knows whether it was done");
    assert!(survives("OPTIONS", "/a", reply(200, "", "")).await, "a safe method invalidates nothing");
}

#[tokio::test]
async fn s4_4_invalidates_same_origin_locations() {
    for (line, still) in [
        ("Location: /a", false),
        ("Content-Location: /a", false),
        ("Location: http://127.0.0.1/a", false),
        ("Location: a", false),
        ("Location: http://elsewhere.example/a", true),
        ("Location: /a/", true),
    ] {
        assert_eq!(survives("POST", "/b", reply(201, line, "")).await, still, "{line}");
    }
}

#[tokio::test]
async fn s4_4_outdated_fetch_stays_unstored() {
    let gate = Arc::new(Semaphore::new(0));
    let (own, head) =
        (gate.clone(), b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 3\r\n\r\n".to_vec());
    let wire = cached(move |request| match request.method() {
        "GET" => Say::Gated(head.clone(), own.clone(), b"old".to_vec()),
        _ => reply(204, "", ""),
    })
    .await;
    let (before, _) = tokio::join!(wire.get("/a", &[]), async {
        wire.asked().await;
        wire.pass(secs(1));
        wire.ask("PUT", "/a", &[], b"new").await;
        gate.add_permits(1);
    });
    assert_eq!((before.text(), before.parameter("stored")), ("old", None));
    wire.says_always(reply(200, "", "new"));
    assert_eq!(wire.get("/a", &[]).await.text(), "new");
    wire.end().await;
}

#[tokio::test]
async fn s4_3_2_origin_conditions_pass() {
    let wire = cached(|request| {
        if request.has("if-match") || request.has("if-unmodified-since") {
            reply(412, "", "")
        } else {
            reply(200, "Cache-Control: max-age=60\nETag: \"1\"", "x")
        }
    })
    .await;
    wire.get("/a", &[]).await;
    for line in ["If-Match: \"2\"", "If-Unmodified-Since: Fri, 01 Jan 2016 00:00:00 GMT"] {
        assert_eq!(wire.get("/a", &[line]).await.status(), 412, "{line}");
    }
    assert!(wire.get("/a", &[]).await.is_hit());
    wire.end().await;
}
