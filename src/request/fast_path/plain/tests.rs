//! Tests of what is read as a plain request, and of what is left to hyper.

use super::*;

const LINES: &str = "host: localhost\r\naccept: */*\r\n\r\n";

fn read(plain: &mut Plain, text: &str) -> String {
    match plain.read(text.as_bytes(), |_| true) {
        Parsed::Part => "part".to_owned(),
        Parsed::Other => "other".to_owned(),
        Parsed::Plain(head, len) => {
            let Head { method, path_and_query, path_len, headers } = head;
            let rest = &text[len..];
            format!("{method} {path_and_query} {path_len} with {} lines, then {rest:?}", headers.len())
        }
    }
}

fn once(text: &str) -> String {
    read(&mut Plain::default(), text)
}

#[test]
fn get_and_head_are_plain() {
    assert_eq!(once(&format!("GET /a/b?c=d HTTP/1.1\r\n{LINES}")), "GET /a/b?c=d 4 with 2 lines, then \"\"");
    assert_eq!(once(&format!("HEAD /a HTTP/1.1\r\n{LINES}GET")), "HEAD /a 2 with 2 lines, then \"GET\"");
    assert_eq!(once("GET / HTTP/1.1\r\nconnection: Keep-Alive\r\n\r\n"), "GET / 1 with 1 lines, then \"\"");
}

#[test]
fn truncated_request_is_partial() {
    let text = format!("HEAD /a?b HTTP/1.1\r\n{LINES}");
    let mut plain = Plain::default();
    for at in 0..text.len() {
        assert_eq!(read(&mut plain, &text[..at]), "part", "{:?}", &text[..at]);
    }
    assert!(read(&mut plain, &text).starts_with("HEAD"));
}

#[test]
fn ambiguous_request_is_not_plain() {
    for line in [
        "POST / HTTP/1.1",
        "GET / HTTP/1.0",
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET http://localhost/ HTTP/1.1",
        "GET * HTTP/1.1",
        "GET /a#b HTTP/1.1",
        "GET /\u{e4} HTTP/1.1",
        "GET /\"a\" HTTP/1.1",
        "get / HTTP/1.1",
        "GET / http/1.1",
        "\r\nGET / HTTP/1.1",
    ] {
        assert_eq!(once(&format!("{line}\r\n{LINES}")), "other", "{line}");
    }
    assert_eq!(once("GET / HTTP/1.1\nhost: localhost\n\n"), "other", "no line ends with a line feed alone");
    for lines in [
        "content-length: 0",
        "transfer-encoding: chunked",
        "upgrade: h2c",
        "expect: 100-continue",
        "trailer: x",
        "connection: close",
        "connection: keep-alive, x",
        "cookie: a=1\r\ncookie: b=2",
        "no colon",
        "space : before the colon",
        "folded: a\r\n b",
    ] {
        assert_eq!(once(&format!("GET / HTTP/1.1\r\nhost: localhost\r\n{lines}\r\n\r\n")), "other", "{lines}");
    }
}

#[test]
fn admitted_lines_are_not_rechecked() {
    let (mut plain, mut asked) = (Plain::default(), Vec::new());
    for (host, path) in [("a", "/1"), ("a", "/2"), ("b", "/3"), ("a", "/4"), ("a", "/5")] {
        let text = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
        let found = plain.read(text.as_bytes(), |headers| {
            asked.push(headers[header::HOST].to_str().unwrap().to_owned());
            true
        });
        let Parsed::Plain(head, len) = found else { panic!("{text}") };
        let seen = (head.path_and_query, head.headers[header::HOST].to_str().unwrap(), len);
        assert_eq!(seen, (path, host, text.len()));
    }
    assert_eq!(asked, ["a", "b", "a"]);
}

#[test]
fn refused_lines_clear_admitted_ones() {
    let mut plain = Plain::default();
    assert!(read(&mut plain, &format!("GET / HTTP/1.1\r\n{LINES}")).starts_with("GET"));
    let refused = "GET / HTTP/1.1\r\nhost: evil\r\n\r\n";
    for _ in 0..2 {
        assert!(matches!(plain.read(refused.as_bytes(), |_| false), Parsed::Other));
    }
    let mut asked = 0;
    plain.read(format!("GET / HTTP/1.1\r\n{LINES}").as_bytes(), |_| {
        asked += 1;
        true
    });
    assert_eq!(asked, 1);
}

#[test]
fn common_prefix_is_no_admission() {
    let mut plain = Plain::default();
    assert!(read(&mut plain, "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").starts_with("GET"));
    let more = "GET / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\nhello";
    assert_eq!(read(&mut plain, more), "other");
    assert_eq!(read(&mut plain, "GET / HTTP/1.1\r\nhost: localhost\r\n\r"), "part");
}

#[test]
fn token_is_not_part_of_lookup() {
    let text = "GET / HTTP/1.1\r\nhost: localhost\r\nx-nearside-token: s3cret\r\n\r\n";
    assert_eq!(once(text), "GET / 1 with 1 lines, then \"\"");
}

#[test]
fn oversized_requests_are_left_to_hyper() {
    let long = "a".repeat(REQUEST_TARGET_BYTES);
    assert_eq!(once(&format!("GET /{long} HTTP/1.1\r\n{LINES}")), "other");
    assert_eq!(once(&format!("GET /{long}")), "other");
    let many = "x: 1\r\n".repeat(limits::PLAIN_HEADERS + 1);
    assert_eq!(once(&format!("GET / HTTP/1.1\r\n{many}\r\n")), "other");
}
