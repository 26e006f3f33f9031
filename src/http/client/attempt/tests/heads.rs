//! Odd heads from a raw socket, read for storing (`ask`) and for passing on (`open`) alike.

use super::*;

/// A reply as it comes, and the content length that is left on it with its body; none when it
/// cannot be used.
type Case = (&'static [u8], Option<(Option<&'static str>, &'static [u8])>);

const CASES: [Case; 24] = [
    // RFC 9110, 8.6: one length, a list of equal ones, different ones, none that is a number.
    (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", Some((Some("2"), b"{}"))),
    (b"HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\n{}", Some((Some("2"), b"{}"))),
    (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\n{}", Some((Some("2"), b"{}"))),
    (b"HTTP/1.1 200 OK\r\ncontent-length: 2, 3\r\n\r\n{}", None),
    (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}", None),
    (b"HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\n{}", None),
    // RFC 9112, 6.1: transfer codings.
    (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", Some((None, b"{}"))),
    (
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        Some((None, b"{}")),
    ),
    (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", None),
    (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n{}", None),
    (b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", None),
    // Chunk extensions and trailers are not content (7.1.1, 7.1.2).
    (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;a=\"b\"\r\n{}\r\n0;c\r\n\r\n", Some((None, b"{}"))),
    (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-record-version: 9\r\n\r\n",
        Some((None, b"{}")),
    ),
    (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nz\r\n{}\r\n0\r\n\r\n", None),
    // Interim replies, and a switch that nobody asked for.
    (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n{}", None),
    (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", Some((Some("2"), b"{}"))),
    // Without a body, whatever is said and whatever follows.
    (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 2\r\n\r\n{}", Some((Some("2"), b""))),
    (b"HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\n{}", Some((None, b""))),
    // Until the connection's end.
    (b"HTTP/1.0 200 OK\r\n\r\n{}", Some((None, b"{}"))),
    (b"HTTP/1.1 200 OK\r\n\r\n{}", Some((None, b"{}"))),
    // RFC 9112, 2.2 and 5.2, and RFC 9110, 5.5: what no value may hold.
    (b"HTTP/1.1 200 OK\r\nx-a: b\r\n c\r\ncontent-length: 2\r\n\r\n{}", None),
    (b"HTTP/1.1 200 OK\r\nx-a: b\rc\r\ncontent-length: 2\r\n\r\n{}", None),
    (b"HTTP/1.1 200 OK\r\nx-a: b\0c\r\ncontent-length: 2\r\n\r\n{}", None),
    (b"HTTP/1.1 200 OK\r\nx-a : b\r\ncontent-length: 2\r\n\r\n{}", None),
];

fn length(headers: &HeaderMap) -> Option<&str> {
    let mut lines = headers.get_all("content-length").iter();
    let first = lines.next().map(|length| length.to_str().unwrap());
    assert_eq!(lines.next(), None);
    first
}

#[tokio::test]
async fn odd_heads_are_read_alike_everywhere() {
    for (bytes, expected) in CASES {
        let text = String::from_utf8_lossy(bytes);
        let server = answering(bytes, 1).await;
        let origin = origin(&server);
        // Twice: what follows a reply is never taken for the next one.
        for _ in 0..2 {
            let stored = origin.ask(RegionId(0), get("/"), WITHIN).await;
            let got = stored.as_ref().map(|reply| (length(&reply.headers), &reply.body[..])).ok();
            assert_eq!(got, expected, "stored: {text:?}: {stored:?}");
        }
        for method in [Method::GET, Method::POST] {
            let request = Arc::new(Outgoing { method, ..(*get("/")).clone() });
            let passed = match origin.open(RegionId(0), request, WITHIN).await {
                Err(_) => None,
                Ok(streamed) => {
                    let length = length(&streamed.headers).map(str::to_owned);
                    let chunks: Vec<_> = streamed.body.collect().await;
                    let whole: Result<Vec<Bytes>, _> = chunks.into_iter().collect();
                    whole.ok().map(|chunks| (length, chunks.concat()))
                }
            };
            let got = passed.as_ref().map(|(length, body)| (length.as_deref(), &body[..]));
            assert_eq!(got, expected, "passed on: {text:?}");
        }
    }
}

#[tokio::test]
async fn status_beyond_599_is_no_answer() {
    let server = answering(b"HTTP/1.1 700 Odd\r\ncontent-length: 2\r\n\r\n{}", 1).await;
    assert_eq!(ask(&server, WITHIN).await.unwrap_err(), Failure::Garbage);
    let passed = origin(&server).open(RegionId(0), get("/"), WITHIN).await;
    assert_eq!(passed.map(|streamed| streamed.status).unwrap_err(), Failure::Garbage);
}
