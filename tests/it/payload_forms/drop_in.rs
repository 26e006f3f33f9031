//! A schema changes nothing for clients that know nothing of it: the recorded requests of ordinary
//! ones get from a route with a schema what they get from one without.

use std::collections::BTreeSet;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::net::TcpStream;

use super::{declared, descriptors};
use crate::wire::{Message, Say, Wire, exchange, reply};

/// One request a block, as it was on the wire; only host and path were changed.
const CORPUS: &str = include_str!("corpus");

/// Steps that clients take with each kind of record, in this order: the record's key ends with the
/// first word. A second request for the same is a hit.
const STEPS: [(&str, &str, &str); 13] = [
    ("own", "GET", ""),
    ("own", "GET", ""),
    ("own", "HEAD", ""),
    ("own", "GET", "If-None-Match: \"v1\""),
    ("own", "GET", "If-None-Match: W/\"v0\", \"other\""),
    ("own", "GET", "Range: bytes=2-9"),
    ("own", "PUT", "If-Match: \"v1\""),
    ("head", "HEAD", ""),
    ("head", "GET", ""),
    ("known", "GET", "If-None-Match: \"v1\""),
    ("known", "GET", "If-None-Match: \"v1\""),
    ("range", "GET", "Range: bytes=2-9"),
    ("put", "PUT", "If-Match: \"v0\""),
];
const KINDS: [&str; 5] = ["odd", "coded", "missing", "page", "chunked"];
/// No serialiser would write it so.
const ODD: &str = "{ \"aString\" : \"a\",\"aString\":\"\\u0062\" ,\n\"unknown\":[1.0,1E2], \"anInt64\": 7 }\n";
/// `Date` line that a sidecar adds where it is missing.
const DATE: &str = "Date: Fri, 15 Jan 2027 08:00:00 GMT";

struct Client {
    name: &'static str,
    lines: Vec<&'static str>,
}

fn clients() -> Vec<Client> {
    let blocks = CORPUS.trim_end().split("\n\n").map(|block| {
        let mut lines = block.lines();
        let name = lines.next().unwrap().strip_prefix("# ").unwrap();
        assert_eq!(lines.next(), Some("GET /v1/contexts/acme HTTP/1.1"), "{name}");
        Client { name, lines: lines.collect() }
    });
    blocks.collect()
}

/// Answer of a region, by the kind that a record's key begins with.
fn region(asked: &Message) -> Say {
    let kind = asked.target().trim_start_matches("/v1/contexts/").split('-').next().unwrap().to_owned();
    let own = format!("{DATE}\nETag: \"v1\"\nX-Record-Version: 1\nX-Service: a\nX-Service: b");
    if asked.method() == "PUT" {
        let status = if asked.header("if-match") == "\"v1\"" { 200 } else { 412 };
        return reply(status, &format!("{own}\nContent-Type: application/json"), &format!("{{\"put\":{status}}}"));
    }
    if asked.header("if-none-match") == "\"v1\"" {
        return reply(304, &own, "");
    }
    match &*kind {
        "missing" => {
            reply(404, &format!("{DATE}\nContent-Type: application/problem+json\nX-Service: a"), "{\"status\": 404}")
        }
        "page" if asked.header("accept").contains("text/html") => {
            reply(200, &format!("{own}\nContent-Type: text/html\nVary: Accept"), "<p>a")
        }
        "coded" if asked.header("accept-encoding").contains("gzip") => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(ODD.as_bytes()).unwrap();
            let body = encoder.finish().unwrap();
            let lines = own.replace('\n', "\r\n");
            let head = format!(
                "HTTP/1.1 200 OK\r\n{lines}\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\
                 Vary: Accept-Encoding\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            Say::Bytes([head.as_bytes(), &body].concat())
        }
        _ if asked.header("range") == "bytes=2-9" => {
            let lines = format!("{own}\nContent-Type: application/json\nContent-Range: bytes 2-9/{}", ODD.len());
            reply(206, &lines, &ODD[2..10])
        }
        "chunked" => {
            let lines = own.replace('\n', "\r\n");
            let head = format!("HTTP/1.1 200 OK\r\n{lines}\r\nContent-Type: application/json; charset=utf-8\r\n");
            let (one, two) = ODD.split_at(10);
            let chunks = format!("{:x}\r\n{one}\r\n{:x}\r\n{two}\r\n0\r\n\r\n", one.len(), two.len());
            Say::Bytes(format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunks}").into())
        }
        _ => {
            let also = "Content-Type: application/json\nAccept-Ranges: bytes\nContent-MD5: abc\nVary: Origin";
            reply(200, &format!("{own}\n{also}"), if kind == "plain" { "{\"anInt64\":7}" } else { ODD })
        }
    }
}

/// One client's connection to one sidecar.
struct Caller<'a> {
    wire: &'a Wire,
    stream: Option<TcpStream>,
    connections: usize,
}

impl<'a> Caller<'a> {
    fn new(wire: &'a Wire) -> Self {
        Self { wire, stream: None, connections: 0 }
    }

    async fn send(&mut self, client: &Client, method: &str, key: &str, line: &str) -> Message {
        let body = if method == "PUT" { "{\"aString\":\"b\"}" } else { "" };
        let mut request = format!("{method} /v1/contexts/{key} HTTP/1.1\r\n");
        let own = client.lines.iter().filter(|line| body.is_empty() || !line.starts_with("Content-Length"));
        own.copied().chain([line]).filter(|line| !line.is_empty()).for_each(|line| {
            request += line;
            request += "\r\n";
        });
        if !body.is_empty() {
            request += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        request += "\r\n";
        request += body;
        if self.stream.is_none() {
            self.stream = Some(self.wire.connect().await);
            self.connections += 1;
        }
        let stream = self.stream.as_mut().unwrap();
        let got = exchange(stream, request.as_bytes(), method == "HEAD").await.expect("an answer");
        assert!(got.complete, "{}: {method} {key} {line}", client.name);
        if client.lines.contains(&"Connection: close") {
            self.stream = None;
        }
        // A stored answer has no part in the fill that goes on behind it.
        self.wire.idle().await;
        got
    }
}

/// Every header line but those of time, and those that say what an answer varies by.
fn lines(got: &Message) -> Vec<&(String, String)> {
    let apart = ["age", "cache-status", "vary"];
    got.headers.iter().filter(|(name, _)| !apart.contains(&&*name.to_ascii_lowercase())).collect()
}

fn varied(got: &Message) -> BTreeSet<String> {
    let names = got.all("vary").into_iter().flat_map(|line| line.split(','));
    names.map(|name| name.trim().to_ascii_lowercase()).collect()
}

/// Settings of a [`Wire`] beside a schema.
const FIELDS: &str = "fields = \"fields\"\nignore = [\"accept-language\"]\n";

async fn nothing_changes(fast: bool) {
    let descriptors = descriptors();
    let with = declared(&descriptors, FIELDS).replacen("[[", &format!("listen.fast = {fast}\n[["), 1);
    let with = Wire::with(3, &with, region).await;
    let without = "[[service.route]]\npath = \"/v1/contexts/{key}\"\nrecords = [\"context:{key}\"]\n\
                   ignore = [\"accept-language\"]\n";
    let without = Wire::with(3, &format!("listen.fast = {fast}\n{without}"), region).await;
    let mut hits = 0;
    for (place, client) in clients().iter().enumerate() {
        let (mut one, mut other) = (Caller::new(&with), Caller::new(&without));
        for kind in KINDS {
            for (number, (key, method, line)) in STEPS.into_iter().enumerate() {
                let key = format!("{kind}-{place}-{key}");
                let got = one.send(client, method, &key, line).await;
                let expected = other.send(client, method, &key, line).await;
                let what = format!("{}, step {number}: {method} {key} {line}\n{got:?}\n{expected:?}", client.name);
                assert_eq!(got.first_line, expected.first_line, "{what}");
                assert_eq!(got.body, expected.body, "{what}");
                assert_eq!(lines(&got), lines(&expected), "{what}");
                assert_eq!(got.is_hit(), expected.is_hit(), "{what}");
                let mut varies = varied(&expected);
                if method != "PUT" {
                    varies.extend(["accept".to_owned(), "accept-encoding".to_owned()]);
                }
                assert_eq!(varied(&got), varies, "{what}");
                hits += usize::from(got.is_hit());
            }
        }
        let closes = client.lines.contains(&"Connection: close");
        assert!(closes || (one.connections, other.connections) == (1, 1), "{}: one connection", client.name);
    }
    assert_eq!(hits, clients().len() * KINDS.len() * 6);
    with.end().await;
    without.end().await;
}

#[tokio::test]
async fn schema_route_keeps_bytes_and_headers() {
    nothing_changes(true).await;
}

#[tokio::test]
async fn schema_route_keeps_bytes_over_hyper() {
    nothing_changes(false).await;
}

#[tokio::test]
async fn forwarded_condition_names_regions_etag() {
    for fast in [true, false] {
        let descriptors = descriptors();
        let settings = declared(&descriptors, FIELDS).replacen("[[", &format!("listen.fast = {fast}\n[["), 1);
        let wire = Wire::with(1, &settings, region).await;
        let path = "/v1/contexts/plain-1";
        let protobuf = tag(&wire.get(path, &["Accept: application/x-protobuf"]).await);
        let fields = tag(&wire.get(&format!("{path}?fields=anInt64"), &[]).await);
        let own = tag(&wire.get(path, &[]).await);
        assert!(protobuf.starts_with("\"v1~p") && fields.starts_with("\"v1~m") && own == "\"v1\"");
        for sent in [&protobuf, &fields, &own] {
            for (method, line) in [("PUT", "If-Match"), ("DELETE", "If-Match"), ("PUT", "If-None-Match")] {
                wire.ask(method, path, &[&format!("{line}: {sent}")], b"{}").await;
                assert_eq!(wire.last_seen().all(line), ["\"v1\""], "{method} {sent}");
            }
            let got = wire.ask("PUT", path, &[&format!("If-Match: \"v0\", W/{sent}")], b"{}").await;
            assert_eq!((got.status(), wire.last_seen().all("if-match")), (412, vec!["\"v0\", W/\"v1\""]));
            let got = wire.ask("PUT", path, &[&format!("If-Match: {sent}")], b"{}").await;
            assert_eq!((got.status(), tag(&got)), (200, own.clone()), "the region agrees");
            wire.get(path, &["Range: bytes=2-9", &format!("If-Range: {sent}")]).await;
            let as_it_came = [sent.as_str()];
            assert_eq!(wire.last_seen().all("if-range"), as_it_came, "parts of one form are no parts of another");
        }
        wire.end().await;
    }
}

fn tag(got: &Message) -> String {
    got.header("etag").to_owned()
}
