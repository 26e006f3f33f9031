//! Forwarding, and its report: hop-by-hop headers, ranges, targets, shared requests,
//! `Cache-Status`.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::super::wire::{Say, reply};
use super::{asked, cached, says, secs, silence, ttl};

#[tokio::test]
async fn rfc9110_strips_hop_by_hop_headers() {
    let say = reply(
        200,
        "Cache-Control: max-age=60\nConnection: X-Hop, keep-alive\nX-Hop: region\nKeep-Alive: timeout=5\n\
         Proxy-Authenticate: Basic\nProxy-Connection: x\nTrailer: x-t\nX-End: region",
        "x",
    );
    let wire = cached(move |_| say.clone()).await;
    let lines = [
        "Connection: keep-alive, x-hop",
        "X-Hop: caller",
        "Keep-Alive: timeout=9",
        "Proxy-Authorization: Basic x",
        "Proxy-Connection: keep-alive",
        "TE: trailers",
        "Trailer: x-t",
        "HTTP2-Settings: AAA",
        "X-End: caller",
    ];
    for got in
        [wire.get("/a", &lines).await, wire.get("/a", &lines).await, wire.ask("POST", "/a", &lines, b"x").await]
    {
        for name in ["x-hop", "keep-alive", "proxy-authenticate", "proxy-connection", "trailer", "connection"] {
            assert!(!got.has(name), "{name}: {got:?}");
        }
        assert_eq!(got.header("x-end"), "region");
    }
    assert_eq!(asked(&wire), 2);
    for seen in wire.seen() {
        for name in
            ["x-hop", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "http2-settings"]
        {
            assert!(!seen.has(name), "{name}: {seen:?}");
        }
        assert_eq!(seen.header("x-end"), "caller");
        let host = wire.regions[0].url();
        assert_eq!(seen.all("host"), [host.trim_start_matches("http://")], "the region's own");
    }
    wire.end().await;
}

#[tokio::test]
async fn rfc9211_cache_status_explains_each_answer() {
    let wire = cached(|_| reply(200, "Cache-Control: max-age=600\nCache-Status: inner; hit", "x")).await;
    let miss = wire.get("/a", &[]).await;
    assert_eq!(miss.all("cache-status"), ["inner; hit", "nearside; fwd=uri-miss; fwd-status=200; stored; detail=r0"]);
    wire.pass(secs(100));
    let hit = wire.get("/a", &[]).await;
    assert!(
        hit.label().starts_with("nearside; hit; ttl=") && ttl(&hit, 499) && says(hit.header("age"), 100),
        "{hit:?}"
    );
    assert_eq!(wire.ask("POST", "/b", &[], b"x").await.label(), "nearside; fwd=method; fwd-status=200; detail=r0");
    assert_eq!(
        wire.get("/c", &["Range: bytes=0-1"]).await.label(),
        "nearside; fwd=bypass; fwd-status=200; detail=r0"
    );
    wire.says_always(silence());
    assert_eq!(wire.get("/d", &[]).await.label(), "nearside; fwd=miss");
    wire.end().await;
}

#[tokio::test]
async fn s4_concurrent_misses_share_one_request() {
    let gate = Arc::new(Semaphore::new(0));
    let (own, head) =
        (gate.clone(), b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 1\r\n\r\n".to_vec());
    let wire = cached(move |request| match request.target() {
        "/a" => Say::Gated(head.clone(), own.clone(), b"x".to_vec()),
        _ => reply(204, "", ""),
    })
    .await;
    let both = async { tokio::join!(wire.get("/a", &[]), wire.get("/a", &["X-Request-Id: 2", "User-Agent: u"])) };
    let open = async {
        // Sent after both and answered at once: by then both have been read.
        wire.ask("POST", "/probe", &[], b"x").await;
        gate.add_permits(2);
    };
    let ((one, two), ()) = tokio::join!(both, open);
    assert_eq!((one.text(), two.text()), ("x", "x"));
    let collapsed = [&one, &two].into_iter().filter(|got| got.parameter("collapsed").is_some()).count();
    assert_eq!((collapsed, wire.seen().iter().filter(|seen| seen.target() == "/a").count()), (1, 1));
    wire.end().await;
}

#[tokio::test]
async fn s3_3_range_passes_without_storing() {
    let wire = cached(|request| match request.header("range") {
        "" => reply(200, "Cache-Control: max-age=60", "0123456789"),
        _ => reply(206, "Cache-Control: max-age=60\nContent-Range: bytes 2-4/10", "234"),
    })
    .await;
    for _ in 0..2 {
        let part = wire.get("/a", &["Range: bytes=2-4", "If-Range: \"1\""]).await;
        assert_eq!((part.status(), part.text(), part.header("content-range")), (206, "234", "bytes 2-4/10"));
        assert_eq!((wire.last_seen().header("range"), wire.last_seen().header("if-range")), ("bytes=2-4", "\"1\""));
    }
    let whole = wire.get("/a", &[]).await;
    assert_eq!((whole.status(), whole.text(), whole.is_hit()), (200, "0123456789", false));
    assert_eq!(wire.get("/a", &["Range: bytes=2-4"]).await.status(), 206);
    assert_eq!(asked(&wire), 4);
    wire.end().await;
}

#[tokio::test]
async fn s2_query_is_keyed_byte_exactly() {
    let wire = cached(|request| reply(200, "Cache-Control: max-age=60", request.target())).await;
    let targets =
        ["/a", "/a?", "/a?x=1", "/a?x=2", "/a?x=%31", "/a?x=1&", "/A", "/a/", "/%61", "//a", "/a;v=1", "/a'"];
    for target in targets {
        assert_eq!((wire.get(target, &[]).await.text(), wire.last_seen().target()), (target, target));
    }
    for target in targets {
        let hit = wire.get(target, &[]).await;
        assert_eq!((hit.is_hit(), hit.text()), (true, target));
    }
    assert_eq!(asked(&wire), targets.len());
    wire.end().await;
}
