//! Admission on the wire: what is HTTP and not for us, what is no HTTP, what is too large or too
//! slow.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::TokioIo;
use nearside::http::limits::{
    REQUEST_BODY_BYTES, REQUEST_BODY_WAIT, REQUEST_HEAD_BYTES, REQUEST_HEADERS, REQUEST_TARGET_BYTES,
};
use nearside::tasks::Tasks;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::wire::{Message, Say, Wire, connect_unix, exchange, read_message, reply, request, rest};

/// Paths without a route are stored too.
const CACHED: &str = "cache.unrouted = \"cache\"\n";

/// A reply that may be stored and tells its target.
fn echo(request: &Message) -> Say {
    reply(200, "Cache-Control: max-age=600", request.target())
}

/// Sends `bytes`, and tells what came back first, and whether anything came after it.
async fn sent(wire: &Wire, bytes: &[u8]) -> (Option<Message>, Vec<u8>) {
    let mut stream = wire.connect().await;
    let first = exchange(&mut stream, bytes, false).await;
    (first, rest(&mut stream).await)
}

/// A refusal is a problem document with a stable type.
fn is_problem(got: &Message, word: &str) -> bool {
    let document: serde_json::Value = serde_json::from_slice(&got.body).unwrap_or_default();
    got.header("content-type") == "application/problem+json"
        && document["type"] == format!("urn:nearside:problem:{word}")
        && document["status"] == got.status()
}

#[tokio::test]
async fn oversized_headers_get_431_without_smuggling() {
    let wire = Wire::one(echo).await;
    let long = format!("X-Long: {}", "x".repeat(REQUEST_HEAD_BYTES));
    let many: Vec<String> = (0..=REQUEST_HEADERS).map(|number| format!("X-{number}: y")).collect();
    let wide: Vec<String> = (0..40).map(|number| format!("X-{number}: {}", "y".repeat(1000))).collect();
    for lines in [vec![long], many, wide] {
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let mut bytes = request("GET", "/a", &lines, b"");
        bytes.extend(request("GET", "/smuggled", &["Connection: close"], b""));
        let (got, after) = sent(&wire, &bytes).await;
        assert_eq!(got.expect("an answer").status(), 431);
        assert!(after.is_empty(), "the connection ends");
    }
    let fits = format!("X-Long: {}", "x".repeat(REQUEST_HEAD_BYTES - 1000));
    assert_eq!(wire.get("/fits", &[&fits]).await.status(), 200);
    assert_eq!(wire.seen().len(), 1);
    wire.end().await;
}

fn target_of(length: usize) -> String {
    format!("/{}", "a".repeat(length - 1))
}

#[tokio::test]
async fn a_long_target_is_414() {
    let wire = Wire::one(echo).await;
    let most = REQUEST_TARGET_BYTES;
    assert_eq!(wire.get(&target_of(most), &[]).await.status(), 200);
    for length in [most + 1, most * 2, most * 3] {
        let got = wire.get(&target_of(length), &[]).await;
        assert!(got.status() == 414 && is_problem(&got, "long-target"), "{length}: {}", got.first_line);
    }
    for length in [REQUEST_HEAD_BYTES * 2, 1 << 20] {
        // Longer than all headers together may be: either status says so.
        let mut stream = wire.connect().await;
        let got = exchange(&mut stream, &request("GET", &target_of(length), &[], b""), false).await;
        assert!(matches!(got.expect("an answer").status(), 414 | 431));
    }
    assert_eq!(wire.seen().len(), 1);
    wire.end().await;
}

#[tokio::test]
async fn oversized_body_gets_413_without_smuggling() {
    let wire = Wire::one(echo).await;
    let inside = request("GET", "/smuggled", &[], b"");
    let most = REQUEST_BODY_BYTES;
    let counted = format!("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", most + 1);
    let mut large = inside.repeat(most / inside.len() + 1);
    large.truncate(most + 1);
    let mut chunked = b"POST /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in large.chunks(1 << 20) {
        chunked.extend(format!("{:x}\r\n", chunk.len()).as_bytes());
        chunked.extend(chunk);
        chunked.extend(b"\r\n");
    }
    chunked.extend(b"0\r\n\r\n");
    let whole = [counted.as_bytes(), &large].concat();
    let promised = [counted.as_bytes(), &large[..1000]].concat();
    for bytes in [whole, promised, chunked] {
        let (got, after) = sent(&wire, &bytes).await;
        let got = got.expect("an answer");
        assert!(got.status() == 413 && is_problem(&got, "large-body"), "{}", got.first_line);
        assert!(after.is_empty(), "{}", String::from_utf8_lossy(&after));
    }
    assert!(wire.seen().is_empty());
    assert_eq!(wire.ask("POST", "/a", &[], &large[..most]).await.status(), 200);
    assert_eq!(wire.last_seen().body.len(), most);
    wire.end().await;
}

/// Head of a request that sends its body only when asked to.
fn expecting(length: usize) -> Vec<u8> {
    format!("POST /a HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n").into()
}

#[tokio::test]
async fn expect_100_continue_is_answered() {
    let wire = Wire::one(echo).await;
    let mut stream = wire.connect().await;
    let refused = exchange(&mut stream, &expecting(REQUEST_BODY_BYTES + 1), false).await.unwrap();
    assert_eq!(refused.status(), 413, "before a byte of it was sent");
    let mut stream = wire.connect().await;
    assert_eq!(exchange(&mut stream, &expecting(4), false).await.unwrap().status(), 100);
    assert_eq!(exchange(&mut stream, b"body", false).await.unwrap().status(), 200);
    assert_eq!((wire.last_seen().body, wire.seen().len()), (b"body".to_vec(), 1));
    wire.end().await;
}

#[tokio::test]
async fn malformed_requests_get_400_and_close() {
    let wire = Wire::one(echo).await;
    let host = "Host: localhost";
    for malformed in [
        "nonsense\r\n\r\n".to_owned(),
        format!("GET /a HTTP/9.9\r\n{host}\r\n\r\n"),
        format!("GET  /a HTTP/1.1\r\n{host}\r\n\r\n"),
        format!("G@T /a HTTP/1.1\r\n{host}\r\n\r\n"),
        format!("GET /a b HTTP/1.1\r\n{host}\r\n\r\n"),
        format!("GET /a\0 HTTP/1.1\r\n{host}\r\n\r\n"),
        format!("GET /a HTTP/1.1\r\n{host}\r\nNo colon\r\n\r\n"),
        format!("GET /a HTTP/1.1\r\n{host}\r\nSpace : x\r\n\r\n"),
        format!("GET /a HTTP/1.1\r\n{host}\r\n: x\r\n\r\n"),
        format!("GET /a HTTP/1.1\r\n{host}\r\nX: a\0b\r\n\r\n"),
        format!("GET /a HTTP/1.1\r\n{host}\r\nX: a\rb\r\n\r\n"),
        format!("GET /a HTTP/1.1\r\n{host}\r\nFolded: x\r\n y\r\n\r\n"),
        format!("GET /a HTTP/1.1\r\n {host}\r\n\r\n"),
        format!("POST /a HTTP/1.1\r\n{host}\r\nContent-Length: x\r\n\r\n"),
        format!("POST /a HTTP/1.1\r\n{host}\r\nContent-Length: -1\r\n\r\n"),
        format!("POST /a HTTP/1.1\r\n{host}\r\nContent-Length: +5\r\n\r\n"),
        format!("POST /a HTTP/1.1\r\n{host}\r\nContent-Length: 99999999999999999999999\r\n\r\n"),
    ] {
        let bytes = [malformed.as_bytes(), &request("GET", "/smuggled", &[], b"")].concat();
        let (got, after) = sent(&wire, &bytes).await;
        assert_eq!(got.map(|got| got.status()), Some(400), "{malformed:?}");
        assert!(after.is_empty(), "{malformed:?}: {}", String::from_utf8_lossy(&after));
    }
    for target in ["*", "a", "http:"] {
        let got = wire.ask("OPTIONS", target, &[], b"").await;
        assert!(matches!(got.status(), 400), "{target}: {}", got.first_line);
    }
    assert!(wire.seen().is_empty());
    wire.end().await;
}

#[tokio::test]
async fn misframed_body_never_reaches_region() {
    let wire = Wire::one(echo).await;
    let head = "POST /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    for body in [
        "zz\r\nab\r\n0\r\n\r\n",
        "5\r\nab\r\n0\r\n\r\n",
        "-1\r\n\r\n",
        "2;\n\r\nab\r\n0\r\n\r\n",
        "ffffffffffffffffff\r\n",
    ] {
        let mut stream = wire.connect().await;
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let got = read_message(&mut stream, false).await;
        assert!(got.is_none_or(|got| got.status() == 400), "{body:?}");
    }
    let mut stream = wire.connect().await;
    stream.write_all(b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345").await.unwrap();
    stream.shutdown().await.unwrap();
    let got = read_message(&mut stream, false).await;
    assert!(got.is_none_or(|got| got.status() == 400 && is_problem(&got, "bad-body")));
    assert!(wire.seen().is_empty());
    wire.end().await;
}

#[tokio::test]
async fn smuggled_requests_never_reach_a_region() {
    let wire = Wire::one(echo).await;
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let te = "Transfer-Encoding: chunked";
    let refused = [
        "Content-Length: 0\r\nContent-Length: 5".to_owned(),
        "Content-Length: 0, 5".to_owned(),
        "Transfer-Encoding: identity".to_owned(),
        "Transfer-Encoding: chunked, identity".to_owned(),
        "Transfer-Encoding: xchunked".to_owned(),
        "Transfer-Encoding: gzip, chunked".to_owned(),
        "Transfer-Encoding: chunked, chunked".to_owned(),
        format!("{te}\r\nTransfer-Encoding: identity"),
        "Transfer-Encoding : chunked".to_owned(),
        "Transfer-Encoding: \u{b}chunked".to_owned(),
    ];
    for framing in refused {
        let bytes = format!("POST /a HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n0\r\n\r\n{smuggled}");
        let (got, after) = sent(&wire, bytes.as_bytes()).await;
        let status = got.map(|got| got.status());
        assert!(matches!(status, Some(400 | 501)), "{framing:?}: {status:?}");
        assert!(!String::from_utf8_lossy(&after).contains("/smuggled"), "{framing:?}");
    }
    assert!(wire.seen().is_empty(), "{:?}", wire.seen());
    // RFC 9112, 6.1: with both, the chunks count, and the connection ends after the answer.
    for framing in [format!("Content-Length: 4\r\n{te}"), format!("{te}\r\nContent-Length: 4")] {
        let before = wire.seen().len();
        let bytes = format!("POST /a HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n1\r\nx\r\n0\r\n\r\n{smuggled}");
        let (got, after) = sent(&wire, bytes.as_bytes()).await;
        assert!(matches!(got.map(|got| got.status()), Some(200 | 400)), "{framing:?}");
        assert!(after.is_empty(), "{framing:?}: {}", String::from_utf8_lossy(&after));
        for seen in &wire.seen()[before..] {
            assert_eq!(
                (seen.target(), seen.all("content-length"), seen.has("transfer-encoding")),
                ("/a", vec!["1"], false)
            );
        }
    }
    // Bare LF ends a line or is refused; either way there is one request.
    let before = wire.seen().len();
    let (got, _) = sent(&wire, b"GET /lf HTTP/1.1\nHost: localhost\nConnection: close\n\n").await;
    assert!(matches!(got.map(|got| got.status()), Some(200 | 400)));
    assert!(wire.seen().len() <= before + 1);
    wire.end().await;
}

#[tokio::test]
async fn foreign_host_gets_421_over_tcp() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nearside.sock");
    let settings = format!("listen.unix = \"{}\"\nlisten.allowed_hosts = [\"cache.internal\"]", path.display());
    let wire = Wire::with(1, &settings, echo).await;
    for host in [
        "127.0.0.1",
        "127.0.0.1:8700",
        "localhost",
        "LOCALHOST:1",
        "a.localhost",
        "[::1]:80",
        "127.9.9.9",
        "Cache.Internal",
    ] {
        assert_eq!(wire.get("/a", &[&format!("Host: {host}")]).await.status(), 200, "{host}");
    }
    let foreign = [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "10.0.0.1",
        "[::2]",
        "0.0.0.0",
        "cache.internal.x",
    ];
    for host in foreign {
        let got = wire.get("/a", &[&format!("Host: {host}")]).await;
        assert!(got.status() == 421 && is_problem(&got, "foreign-host"), "{host}: {}", got.first_line);
        let absolute = wire.get(&format!("http://{host}/a"), &["Host: localhost"]).await;
        assert!(absolute.status() == 400 && is_problem(&absolute, "bad-host"), "{host}: it names two");
        let both = wire.get(&format!("http://{host}/a"), &[&format!("Host: {host}")]).await;
        assert_eq!(both.status(), 421, "{host}: the absolute target counts");
        let mut unix = connect_unix(&path).await;
        let bytes = request("GET", "/a", &[&format!("Host: {host}")], b"");
        assert_eq!(exchange(&mut unix, &bytes, false).await.unwrap().status(), 200, "{host}");
    }
    for lines in [
        &["Host: a", "Host: b"][..],
        &["Host: localhost", "Host: localhost"],
        &["Host: "],
        &["Host: a b"],
        &["Host: u@localhost"],
    ] {
        assert_eq!(wire.get("/a", lines).await.status(), 400, "{lines:?}");
    }
    let mut stream = wire.connect().await;
    assert_eq!(exchange(&mut stream, b"GET /a HTTP/1.1\r\n\r\n", false).await.unwrap().status(), 400);
    wire.end().await;
}

#[tokio::test]
async fn unix_socket_serves_and_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nearside.sock");
    let wire = Wire::with(1, &format!("{CACHED}listen.unix = \"{}\"", path.display()), echo).await;
    let mut unix = connect_unix(&path).await;
    for hit in [false, true, true] {
        let got = exchange(&mut unix, &request("GET", "/u?x=1", &["Host: any"], b""), false).await.unwrap();
        assert_eq!((got.status(), got.text(), got.is_hit()), (200, "/u?x=1", hit));
    }
    assert!(wire.get("/u?x=1", &[]).await.is_hit(), "one store for both listeners");
    wire.end().await;
    assert!(!path.exists());
}

#[tokio::test]
async fn missing_or_wrong_token_gets_401() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "s3cret\n").unwrap();
    let wire = Wire::with(1, &format!("listen.token_file = \"{}\"", file.display()), echo).await;
    let refused: [&[&str]; 5] = [
        &[],
        &["X-Nearside-Token: s3cre"],
        &["X-Nearside-Token: s3crets"],
        &["X-Nearside-Token: "],
        &["X-Nearside-Token: no", "X-Nearside-Token: s3cret"],
    ];
    for lines in refused {
        let got = wire.get("/a", lines).await;
        assert!(got.status() == 401 && is_problem(&got, "token") && got.has("www-authenticate"), "{lines:?}");
    }
    assert!(wire.seen().is_empty());
    let token = "X-Nearside-Token: s3cret";
    assert_eq!(wire.get("/a", &[token]).await.status(), 200);
    assert_eq!(wire.ask("POST", "/a", &[token], b"x").await.status(), 200);
    assert_eq!(wire.get("/a", &[token, "Range: bytes=0-0"]).await.status(), 200);
    assert!(wire.seen().iter().all(|seen| !seen.has("x-nearside-token")), "{:?}", wire.seen());
    assert_eq!(wire.seen().len(), 3);
    wire.end().await;
}

#[tokio::test]
async fn pipelining_keeps_order_around_refusal() {
    let wire = Wire::with(1, CACHED, echo).await;
    let mut stream = wire.connect().await;
    let bytes = [
        request("GET", "/1", &[], b""),
        request("POST", "/2", &[], b"some body"),
        request("GET", "/3", &["Host: evil.example"], b""),
        request("GET", "/1", &[], b""),
        request("GET", "/5", &["Connection: close"], b""),
    ]
    .concat();
    stream.write_all(&bytes).await.unwrap();
    let mut answers = Vec::new();
    while let Some(got) = read_message(&mut stream, false).await {
        answers.push((got.status(), got.text().to_owned(), got.is_hit()));
    }
    let texts: Vec<_> = answers.iter().map(|(status, text, hit)| (*status, text.as_str(), *hit)).collect();
    assert_eq!(texts[..2], [(200, "/1", false), (200, "/2", false)]);
    assert_eq!((texts[2].0, &texts[3..]), (421, &[(200, "/1", true), (200, "/5", false)][..]));
    wire.end().await;
}

/// Virtual time runs on whenever nothing else does: the waits that are measured here take none of
/// ours.
#[tokio::test(start_paused = true)]
async fn undelivered_body_is_408_and_closes() {
    let wire = Wire::one(echo).await;
    let began = tokio::time::Instant::now();
    let mut stream = wire.connect().await;
    stream.write_all(b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345").await.unwrap();
    let got = read_message(&mut stream, false).await.unwrap();
    assert!(got.status() == 408 && is_problem(&got, "slow-body"), "{}", got.first_line);
    let waited = began.elapsed();
    assert!(waited >= REQUEST_BODY_WAIT && waited < REQUEST_BODY_WAIT * 2, "{waited:?}");
    assert!(rest(&mut stream).await.is_empty());
    assert!(wire.seen().is_empty(), "half a body is nobody's request");
    wire.end().await;
}

#[tokio::test(start_paused = true)]
async fn dripping_body_has_one_total_wait() {
    let wire = Wire::one(echo).await;
    let began = tokio::time::Instant::now();
    let mut stream = wire.connect().await;
    stream.write_all(b"POST /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n").await.unwrap();
    let (mut read, mut write) = stream.split();
    let dripping = async {
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            if write.write_all(b"1\r\nx\r\n").await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let got = tokio::select! {
        got = read_message(&mut read, false) => got.unwrap(),
        () = dripping => unreachable!("it drips for ever"),
    };
    assert_eq!(got.status(), 408);
    assert!(began.elapsed() < REQUEST_BODY_WAIT * 2);
    wire.end().await;
}

/// An HTTP/2 connection with prior knowledge.
pub(crate) async fn h2c(wire: &Wire, tasks: &Tasks) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(wire.app.tcp.unwrap()).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(tasks.clone(), TokioIo::new(stream)).await.unwrap();
    tasks.spawn("client", connection);
    sender
}

/// One request over HTTP/2.
pub(crate) async fn over_h2(
    sender: &mut SendRequest<Full<Bytes>>,
    method: &str,
    uri: &str,
    headers: &[(&'static str, &str)],
    body: Vec<u8>,
) -> (u16, http::HeaderMap, Bytes) {
    let mut request = http::Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    sender.ready().await.unwrap();
    let response = sender.send_request(request.body(Full::new(body.into())).unwrap()).await.expect("an answer");
    let (head, body) = response.into_parts();
    (head.status.as_u16(), head.headers, body.collect().await.unwrap().to_bytes())
}

#[tokio::test]
async fn h2c_streams_share_one_store() {
    let (wire, tasks) = (Wire::with(1, CACHED, echo).await, Tasks::new());
    let mut sender = h2c(&wire, &tasks).await;
    let (status, headers, body) = over_h2(&mut sender, "GET", "http://localhost/a?x=%2F", &[], vec![]).await;
    assert_eq!((status, &body[..]), (200, &b"/a?x=%2F"[..]));
    assert!(headers["cache-status"].to_str().unwrap().contains("fwd=uri-miss"));
    assert!(wire.get("/a?x=%2F", &[]).await.is_hit());
    let asks = (0..50).map(|number| {
        let mut sender = sender.clone();
        async move { over_h2(&mut sender, "GET", &format!("http://localhost/{number}"), &[], vec![]).await }
    });
    for (number, (status, _, body)) in futures_util::future::join_all(asks).await.into_iter().enumerate() {
        assert_eq!((status, &body[..]), (200, format!("/{number}").as_bytes()));
    }
    let body = vec![7; 100_000];
    assert_eq!(over_h2(&mut sender, "POST", "http://localhost/p", &[], body.clone()).await.0, 200);
    assert_eq!(wire.last_seen().body, body);
    let (status, headers, body) = over_h2(&mut sender, "HEAD", "http://localhost/a?x=%2F", &[], vec![]).await;
    assert_eq!((status, headers["content-length"].to_str().unwrap(), body.len()), (200, "8", 0));
    drop(sender);
    wire.end().await;
    tasks.drain(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn h2c_meets_same_admission() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "s3cret").unwrap();
    let settings = format!("listen.token_file = \"{}\"", file.display());
    let (wire, tasks) = (Wire::with(1, &settings, echo).await, Tasks::new());
    let mut sender = h2c(&wire, &tasks).await;
    let here = "http://localhost/a";
    let token = ("x-nearside-token", "s3cret");
    let long = format!("http://localhost/{}", "a".repeat(REQUEST_TARGET_BYTES));
    let wide = "x".repeat(REQUEST_HEAD_BYTES - 500);
    let (large, wide) = (vec![0; REQUEST_BODY_BYTES + 1], ("x-wide", wide.as_str()));
    for (method, uri, headers, body, expected) in [
        ("GET", here, vec![token], vec![], 200),
        ("GET", here, vec![], vec![], 401),
        ("GET", here, vec![("x-nearside-token", "wrong")], vec![], 401),
        ("GET", "http://evil.example/a", vec![token], vec![], 421),
        ("GET", here, vec![token, ("host", "evil.example"), ("host", "b")], vec![], 400),
        ("GET", long.as_str(), vec![token], vec![], 414),
        ("GET", here, vec![token, wide, ("x-more", &"y".repeat(600))], vec![], 431),
        ("POST", here, vec![token], large, 413),
    ] {
        let (status, ..) = over_h2(&mut sender, method, uri, &headers, body).await;
        assert_eq!(status, expected, "{method} {} {:?}", &uri[..20.min(uri.len())], headers.first());
    }
    assert_eq!(wire.seen().len(), 1);
    drop(sender);
    wire.end().await;
    tasks.drain(Duration::from_secs(10)).await;
}

/// RFC 9113, 8.2.3: HTTP/2 may split cookies over lines; a region over HTTP/1.1 gets one.
#[tokio::test]
async fn h2c_cookie_crumbs_are_joined_first() {
    let route = "[[service.route]]\npath = \"/r/{key}\"\nrecords = [\"thing:{key}\"]\n";
    let (wire, tasks) = (Wire::with(1, route, |_| reply(200, "", "x")).await, Tasks::new());
    let mut sender = h2c(&wire, &tasks).await;
    over_h2(&mut sender, "GET", "http://localhost/r/a", &[("cookie", "a=1"), ("cookie", "b=2")], vec![]).await;
    assert_eq!(wire.last_seen().all("cookie"), ["a=1; b=2"]);
    assert!(wire.get("/r/a", &["Cookie: a=1; b=2"]).await.is_hit(), "the same caller over HTTP/1.1");
    drop(sender);
    wire.end().await;
    tasks.drain(Duration::from_secs(10)).await;
}
