//! A stored reply looks on the wire as hyper would have written it.

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::cache::content::Content;
use crate::cache::entry::{Entry, Validity};
use crate::cache::limits::COPIED_BODY_BYTES;
use crate::model::ids::RegionId;
use crate::model::time::{Moment, ShortSpan};
use crate::protocol::label::Label;
use crate::request::answer::{show, state};
use crate::shape::cache_status::{Bound, CacheLine, Detail};
use crate::shape::cookies::Cookies;

fn entry(status: u16, lines: &[(&'static str, &'static str)], body: &str) -> Arc<Entry> {
    let lines = lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    let mut headers: HeaderMap = HeaderMap::new();
    lines.for_each(|(name, value)| {
        headers.append(name, value);
    });
    Arc::new(Entry {
        status: StatusCode::from_u16(status).unwrap(),
        content: Content::new(&headers, &Bytes::from(body.to_owned())),
        region: RegionId(0),
        sent: Moment::ZERO,
        age_at_receipt: ShortSpan::default(),
        derived: crate::cache::derived::Derived::NONE,
        json: Default::default(),
        validity: Validity::Uncacheable,
    })
}

/// Status line, the other lines in alphabetical order, body.
fn parts(bytes: &[u8]) -> (String, Vec<String>, Vec<u8>) {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("the head ends");
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let (status, lines) = head.split_once("\r\n").unwrap();
    let mut lines: Vec<String> = lines.split("\r\n").map(str::to_owned).collect();
    lines.sort();
    (status.to_owned(), lines, bytes[end + 4..].to_vec())
}

async fn by_hyper(shown: impl Fn() -> Shown, method: &str) -> Vec<u8> {
    let (mut caller, wire) = tokio::io::duplex(1 << 20);
    let service = service_fn(move |_: Request<hyper::body::Incoming>| {
        let stated = HeaderValue::from_static("7; limits");
        let response = state(show(shown(), HeaderMap::new(), &names()), Some(stated));
        async move { Ok::<_, Infallible>(response) }
    });
    caller.write_all(format!("{method} / HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await.unwrap();
    caller.shutdown().await.unwrap();
    let mut answer = Vec::new();
    let served = http1::Builder::new().half_close(true).serve_connection(TokioIo::new(wire), service);
    let (served, read) = tokio::join!(served, caller.read_to_end(&mut answer));
    served.unwrap();
    read.unwrap();
    answer
}

fn names() -> Vec<String> {
    vec!["a".to_owned()]
}

#[tokio::test]
async fn stored_reply_matches_hyper_output() {
    const DATE: (&str, &str) = ("date", "Fri, 15 Jan 2027 08:00:00 GMT");
    let long: &'static str = String::leak("x".repeat(COPIED_BODY_BYTES + 1));
    let entries = [
        entry(200, &[DATE, ("content-type", "text/plain"), ("etag", "\"5\"")], "hello"),
        entry(200, &[DATE, ("content-length", "5"), ("x-twice", "1"), ("x-twice", "2")], "hello"),
        entry(
            200,
            &[DATE, ("cache-status", "inner; hit"), ("content-type", "a/b"), ("content-language", "de")],
            long,
        ),
        entry(200, &[DATE], ""),
        entry(404, &[DATE, ("content-type", "text/plain")], "none"),
        entry(204, &[DATE], ""),
        entry(301, &[DATE, ("location", "/b")], ""),
        entry(299, &[DATE], "no name"),
    ];
    for entry in entries {
        for (method, not_modified) in [("GET", false), ("HEAD", false), ("GET", true), ("HEAD", true)] {
            let line = CacheLine {
                hit: true,
                ttl: Some(-3),
                bound: Some(Bound::Seconds(2)),
                detail: Some(Detail::Label(Label::Grace)),
                ..CacheLine::default()
            };
            let (stored, head) = (entry.clone(), method == "HEAD");
            let cookie = HeaderValue::from_static("a=b; Secure");
            let cookies = Cookies::of(&HeaderMap::from_iter([(http::header::SET_COOKIE, cookie)]));
            let shown = move || {
                let (entry, cookies) = (stored.clone(), cookies.clone());
                Shown { entry, instead: None, age: Some(7), not_modified, head, cookies, line }
            };
            let (mut ours, stated) = (Vec::new(), HeaderValue::from_static("7; limits"));
            let body = put(&shown(), Some(&stated), &names(), &mut ours);
            ours.extend_from_slice(body.as_deref().unwrap_or_default());
            let theirs = by_hyper(shown, method).await;
            let what = format!("{method} {} {not_modified}", entry.status);
            assert_eq!(parts(&ours), parts(&theirs), "{what}");
        }
    }
}
