//! Requests and replies that are passed on rather than kept: unsafe and unknown methods, targets
//! byte for byte, ranges, replies too large to hold; callers who pipeline or hang up.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

use super::super::wire::{Say, Wire, exchange, read_message, reply, request};
use super::{route, routed, sidecar};

#[tokio::test]
async fn unsafe_request_reaches_one_region_intact() {
    let body: Vec<u8> = (0..300_000_u32).map(|byte| (byte * 7 % 256) as u8).collect();
    for target in ["/r/a?x=%2F", "/unrouted//x;y='1'?a=b&c"] {
        let wire = Wire::with(3, &route(""), |_| reply(201, "Location: /x\nX-Record-Version: 2", "made")).await;
        for (count, method) in ["POST", "PUT", "DELETE", "PATCH", "FROB"].into_iter().enumerate() {
            let lines = ["Content-Type: application/x", "Authorization: me", "X-Any: 1", "If-Match: \"a\", \"b\""];
            let got = wire.ask(method, target, &lines, &body).await;
            assert_eq!((got.status(), got.text(), got.header("location")), (201, "made", "/x"));
            let seen = wire.seen();
            assert_eq!(seen.len(), count + 1, "{method} {target}: one region, once");
            let seen = seen.iter().find(|seen| seen.method() == method).expect("as the caller wrote it");
            assert_eq!(
                (seen.target(), seen.body == body, seen.header("content-type")),
                (target, true, "application/x")
            );
            assert_eq!((seen.header("authorization"), seen.header("x-any")), ("me", "1"));
            assert_eq!(seen.header("if-match"), "\"a\", \"b\"");
        }
        wire.end().await;
    }
}

#[tokio::test]
async fn unsafe_request_keeps_every_condition_line() {
    let wire = Wire::one(|_| reply(204, "", "")).await;
    wire.ask("PUT", "/a", &["If-None-Match: \"a\"", "If-None-Match: \"b\""], b"x").await;
    assert_eq!(wire.last_seen().all("if-none-match").join(", "), "\"a\", \"b\"");
    wire.end().await;
}

#[tokio::test]
async fn unsafe_request_is_never_resent() {
    let broken = [
        Say::Last(Vec::new()),
        Say::Last(b"HTTP/1.1 200 O".to_vec()),
        Say::Last(b"rubbish\r\n\r\n".to_vec()),
        Say::Last(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345".to_vec()),
        reply(503, "Retry-After: 1", "busy"),
    ];
    for (place, say) in broken.into_iter().enumerate() {
        let wire = Wire::with(3, &route(""), |_| reply(200, "", "warm")).await;
        // Connections that have carried a reply: a client library may take such a one's end for an
        // idle timeout.
        wire.get("/r/warm", &[]).await;
        wire.idle().await;
        wire.says(move |request| if request.method() == "GET" { reply(200, "", "x") } else { say.clone() });
        let got = wire.ask("POST", "/r/a", &[], b"once").await;
        let posts = wire.seen().iter().filter(|seen| seen.method() == "POST").count();
        assert_eq!(posts, 1, "{place}");
        match place {
            3 => assert!(got.status() == 200 && !got.complete, "cut off as the region cut it off: {got:?}"),
            4 => assert_eq!((got.status(), got.text(), got.header("retry-after")), (503, "busy", "1")),
            _ => assert_eq!((got.status(), got.header("content-type")), (502, "application/problem+json"), "{place}"),
        }
        wire.end().await;
    }
}

#[tokio::test]
async fn targets_pass_byte_exact_and_distinct() {
    let wire = Wire::with(1, &route(""), |request| reply(200, "", request.target())).await;
    let targets = [
        "/r/a",
        "/r/a?",
        "/r/a?q=1",
        "/r/a?q=2",
        "/r/a?q=%31",
        "/r/a%2Fb",
        "/r/a%2fb",
        "/r/a;v=1",
        "/r/it's",
        "/r/%61",
        "/r/a:b@c,d+e!$&()*=~",
        "/r/%C3%A9?%C3%A9=/?",
        "//r/a",
        "/r//a",
        "/r/a/",
        "/r/../r/a",
        "/r/%2e%2e/a",
        "/",
    ];
    for target in targets {
        let got = wire.get(target, &[]).await;
        assert_eq!((got.is_hit(), got.text(), wire.last_seen().target()), (false, target, target));
    }
    for target in targets.into_iter().filter(|target| target.starts_with("/r/a") && !target.ends_with('/')) {
        let hit = wire.get(target, &[]).await;
        assert_eq!((hit.is_hit(), hit.text()), (true, target));
    }
    wire.end().await;
}

#[tokio::test]
async fn options_and_unknown_methods_pass_through() {
    let wire = Wire::with(3, &route(""), |_| reply(204, "Allow: GET, PUT", "")).await;
    for (method, target) in [("OPTIONS", "/r/a"), ("OPTIONS", "/u"), ("PROPFIND", "/r/a"), ("X-Y", "/u")] {
        let before = wire.seen().len();
        let got = wire.ask(method, target, &["Origin: http://a", "Access-Control-Request-Method: PUT"], b"").await;
        assert_eq!((got.status(), got.header("allow")), (204, "GET, PUT"), "{method} {target}");
        assert_eq!(wire.seen().len(), before + 1);
        let all = wire.seen();
        let seen = all.iter().find(|seen| seen.method() == method && seen.target() == target).unwrap();
        assert_eq!(seen.header("access-control-request-method"), "PUT");
    }
    wire.end().await;
}

#[tokio::test]
async fn connect_and_upgrade_get_501() {
    let wire = routed("", reply(200, "", "x")).await;
    let upgrade = wire.get("/r/a", &["Connection: Upgrade", "Upgrade: websocket"]).await;
    assert_eq!((upgrade.status(), upgrade.header("content-type")), (501, "application/problem+json"));
    let mut stream = wire.connect().await;
    let connect = exchange(&mut stream, b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", false).await.unwrap();
    assert_eq!(connect.status(), 501);
    assert!(wire.seen().is_empty());
    wire.end().await;
}

/// A body that no cache holds: the announced length is beyond `limits.body`.
const LARGE: usize = 9 << 20;

#[tokio::test]
async fn oversized_reply_streams_without_being_stored() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "own").unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let (head, open) =
        (format!("HTTP/1.1 200 OK\r\nX-Record-Version: 1\r\nContent-Length: {LARGE}\r\n\r\n"), gate.clone());
    let first = [head.as_bytes(), &vec![1; 1000]].concat();
    let say = Say::Gated(first, open, vec![2; LARGE - 1000]);
    let wire = routed(&format!("{}\nignore = [\"x-other\"]", sidecar(&file)), say).await;
    let mut stream = wire.connect().await;
    let lines = ["Authorization: mine", "X-Other: 1"];
    stream.write_all(&request("GET", "/r/a", &lines, b"")).await.unwrap();
    let mut beginning = vec![0; 1000];
    while !beginning.ends_with(&[1; 500]) {
        // The region holds the rest back until this has come.
        let byte = stream.read_u8().await.unwrap();
        beginning.push(byte);
    }
    let head = String::from_utf8_lossy(&beginning[1000..]).into_owned();
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("detail=r0") && !head.contains("stored"), "{head}");
    gate.add_permits(100);
    let body_at = beginning.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let left = LARGE - (beginning.len() - body_at);
    let mut rest = vec![0; left];
    stream.read_exact(&mut rest).await.unwrap();
    assert!(rest[1000..].iter().all(|byte| *byte == 2));
    for seen in wire.seen() {
        assert_eq!(
            (seen.all("authorization"), seen.has("x-other")),
            (vec!["Bearer own"], false),
            "as any other read"
        );
    }
    let again = wire.get("/r/a", &[]).await;
    assert!(!again.is_hit() && again.complete && again.body.len() == LARGE);
    wire.end().await;
}

#[tokio::test]
async fn oversized_replies_keep_regions_healthy() {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n");
    let large = Say::Last([head.as_bytes(), &vec![1; LARGE]].concat());
    let wire = Wire::with(3, &route(""), move |request| match request.target() {
        "/r/large" => large.clone(),
        _ => reply(200, "", "x"),
    })
    .await;
    for _ in 0..8 {
        assert_eq!(wire.get("/r/large", &[]).await.body.len(), LARGE);
        wire.idle().await;
    }
    wire.get("/r/small", &[]).await;
    wire.idle().await;
    assert_eq!(wire.seen().iter().filter(|seen| seen.target() == "/r/small").count(), 3, "all are still raced");
    wire.end().await;
}

#[tokio::test]
async fn truncated_reply_ends_incomplete() {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n0123456789");
    let wire = routed("", Say::Last(head.into_bytes())).await;
    let got = wire.get("/r/a", &[]).await;
    assert!(got.status() == 200 && !got.complete, "{}", got.first_line);
    wire.end().await;
}

/// A record that is too large to be stored.
fn large(version: u64) -> Say {
    let head = format!("HTTP/1.1 200 OK\r\nX-Record-Version: {version}\r\nContent-Length: {LARGE}\r\n\r\n");
    Say::Bytes([head.as_bytes(), &vec![b'x'; LARGE]].concat())
}

/// The first byte of a record.
fn part(version: u64) -> Say {
    reply(206, &format!("X-Record-Version: {version}\nContent-Range: bytes 0-0/5"), "1")
}

#[tokio::test]
async fn large_reply_below_floor_is_skipped() {
    let (old, new) = (large(4), large(5));
    let wire = Wire::with(2, &route(""), move |_| old.clone()).await;
    wire.regions[1].says(move |_| new.clone());
    wire.announce("thing", "a", Some(5));
    let got = wire.get("/r/a", &[]).await;
    assert_eq!((got.header("x-record-version"), got.complete), ("5", true), "{}", got.label());
    let old = large(4);
    wire.says_always(old);
    let got = wire.get("/r/a", &[]).await;
    assert_eq!((got.header("x-record-version"), got.parameter("detail")), ("4", Some("below-floor")));
    wire.end().await;
}

/// R1 in strict mode: a part, and a reply too large to hold.
#[tokio::test]
async fn strict_sidecar_passes_nothing_below_floor() {
    for (say, lines, sound) in [(part(4), &["Range: bytes=0-0"][..], part(5)), (large(4), &[][..], large(5))] {
        let wire = Wire::with(2, &format!("freshness.strict = true\n{}", route("")), move |_| say.clone()).await;
        wire.announce("thing", "a", Some(5));
        let got = wire.get("/r/a", lines).await;
        assert_eq!((got.status(), got.has("x-record-version")), (504, false), "{}", got.label());
        assert!(got.text().contains("urn:nearside:problem:below-floor"), "{}", got.text());
        wire.regions[1].says(move |_| sound.clone());
        let got = wire.get("/r/a", lines).await;
        assert_eq!((got.header("x-record-version"), got.complete), ("5", true), "{}", got.label());
        wire.end().await;
    }
}

#[tokio::test]
async fn range_passes_with_route_headers_only() {
    let settings = "forward = [\"x-tenant\"]\nignore = [\"x-other\"]";
    let wire = routed(settings, reply(206, "Content-Range: bytes 0-0/5", "1")).await;
    let lines = ["Range: bytes=0-0", "X-Tenant: 1", "X-Other: 2", "Authorization: me", "Accept: a/b"];
    for _ in 0..2 {
        let part = wire.get("/r/a", &lines).await;
        assert_eq!((part.status(), part.text(), part.parameter("fwd")), (206, "1", Some("bypass")));
        let seen = wire.last_seen();
        assert_eq!((seen.header("range"), seen.header("x-tenant"), seen.has("x-other")), ("bytes=0-0", "1", false));
        assert_eq!((seen.header("authorization"), seen.header("accept")), ("me", "a/b"));
    }
    assert_eq!(wire.seen().len(), 2);
    wire.end().await;
}

#[tokio::test]
async fn caller_hang_up_still_fills_store() {
    let gate = Arc::new(Semaphore::new(0));
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n".to_vec();
    let wire = routed("", Say::Gated(head, gate.clone(), b"x".to_vec())).await;
    let mut stream = wire.connect().await;
    stream.write_all(&request("GET", "/r/a", &[], b"")).await.unwrap();
    wire.asked().await;
    drop(stream);
    gate.add_permits(1);
    wire.idle().await;
    assert!(wire.get("/r/a", &[]).await.is_hit());
    wire.end().await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let wire = Wire::with(1, &route(""), |request| reply(200, "", request.target())).await;
    let mut stream = wire.connect().await;
    let targets: Vec<_> = (0..20).map(|number| format!("/r/{}", number % 7)).collect();
    let all: Vec<u8> = targets.iter().flat_map(|target| request("GET", target, &[], b"")).collect();
    stream.write_all(&all).await.unwrap();
    for target in &targets {
        assert_eq!(read_message(&mut stream, false).await.unwrap().text(), target);
    }
    wire.end().await;
}
