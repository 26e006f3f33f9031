//! Owns how readers ask a sidecar, and how they read what they get: a GET's answer, or the parts of
//! a batch as they come.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use http_body_util::BodyExt;
use nearside::http::admission::Admitted;
use nearside::http::body::Body;
use nearside::request::answer::respond;
use nearside::request::serve::serve;
use nearside::request::settings::Settings;
use nearside::shape::cache_status::CACHE_STATUS;
use serde_json::Value;

use super::super::content;
use super::super::manner::{Manner, Shape};
use super::super::plan::{Read, Wish};
use super::super::world::{SHOWS, World};
use super::{Asked, Got, Seen, Tell, path, read_shows};

/// Asks in the reader's manner.
pub(super) async fn ask(sidecar: Arc<Settings>, world: Arc<World>, read: Read, mut tell: Tell) {
    let manner = Manner::of(&world.plan, read);
    if !manner.keys.is_empty() {
        return ask_in_a_batch(&sidecar, &world, read, manner, tell).await;
    }
    let mut path_and_query = path(&world.plan, read);
    let path_len = path_and_query.len();
    path_and_query += &query(&manner);
    let headers = headers(read, &manner);
    let admitted = Admitted { method: Method::GET, path_and_query, path_len, headers, body: Bytes::new() };
    let (head, body) = respond(serve(&sidecar, admitted).await, &sidecar.fill.shared.names).into_parts();
    let status = head.status.as_u16();
    let seen = if manner.reads_body() {
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        Head::of(&head.headers).seen(status, &body, &world, read, manner.who)
    } else {
        read_shows(text(&head.headers, &SHOWS))
    };
    let line = text(&head.headers, &CACHE_STATUS).to_owned();
    tell(Asked { read, got: (status, line, seen), waited: false });
}

/// A caller writes.
pub(super) async fn write(sidecar: Arc<Settings>, method: Method, path_and_query: String, number: usize) -> Got {
    let (path_len, body) = (path_and_query.len(), number.to_string().into());
    let admitted = Admitted { method, path_and_query, path_len, headers: HeaderMap::new(), body };
    let response = respond(serve(&sidecar, admitted).await, &sidecar.fill.shared.names);
    (response.status().as_u16(), text(response.headers(), &CACHE_STATUS).to_owned(), None)
}

fn query(manner: &Manner) -> String {
    match manner.shape {
        Shape::Fields(fields) => format!("?fields={fields}"),
        Shape::Plain | Shape::Protobuf => String::new(),
    }
}

fn headers(read: Read, manner: &Manner) -> HeaderMap {
    let wish = match read.wish {
        Wish::NoCache => Some("no-cache".to_owned()),
        Wish::MaxAge(seconds) => Some(format!("max-age={seconds}")),
        Wish::MinFresh(seconds) => Some(format!("min-fresh={seconds}")),
        Wish::Nothing | Wish::Part => None,
    };
    let mut headers = HeaderMap::new();
    headers.extend(wish.map(|wish| (header::CACHE_CONTROL, HeaderValue::from_str(&wish).expect("visible"))));
    if read.wish == Wish::Part {
        headers.insert(header::RANGE, HeaderValue::from_static("bytes=0-3"));
    }
    if manner.shape == Shape::Protobuf {
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/x-protobuf"));
    }
    if !manner.who.is_empty() {
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static(manner.who));
    }
    headers
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|line| line.to_str().ok()).unwrap_or_default()
}

/// Metadata of an answer, or of a part, about its body.
struct Head<'a> {
    /// `None` of a part that has no head.
    shows: Option<&'a str>,
    media_type: &'a str,
}

impl<'a> Head<'a> {
    fn of(headers: &'a HeaderMap) -> Self {
        Self { shows: Some(text(headers, &SHOWS)), media_type: text(headers, &header::CONTENT_TYPE) }
    }

    /// Content of a region's reply; `None` of what is no region's.
    fn seen(&self, status: u16, body: &[u8], world: &World, read: Read, who: &str) -> Option<Seen> {
        let at = world.elapsed();
        let mut seen = match self.shows {
            Some(shows) => read_shows(shows)?,
            None => Seen {
                race: u64::MAX,
                region: 0,
                asked: at,
                generated: at,
                shown: Vec::new(),
                is_dated: false,
                foreign: None,
            },
        };
        // Of a range nothing can be read.
        if status != 206 {
            match content::read(self.media_type, body) {
                Some(content) => content.put(&world.plan, read, who, at, &mut seen),
                None if seen.is_dated => seen.foreign = Some(format!("a body that nobody can read: {body:?}")),
                // What the sidecar itself says.
                None => return None,
            }
        }
        Some(seen)
    }
}

/// The keys travel together; each part is reported when it comes.
async fn ask_in_a_batch(sidecar: &Arc<Settings>, world: &World, read: Read, manner: Manner, mut tell: Tell) {
    let mut headers = headers(read, &manner);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let keys: Vec<String> = manner.keys.iter().map(|key| format!("k{key}")).collect();
    let body = serde_json::json!({ "keys": keys, "headers": manner.has_heads }).to_string().into();
    let mut path_and_query = format!("/v1/batch/{}", read.view);
    let path_len = path_and_query.len();
    path_and_query += &query(&manner);
    let admitted = Admitted { method: Method::POST, path_and_query, path_len, headers, body };
    let response = respond(serve(sidecar, admitted).await, &sidecar.fill.shared.names);
    assert_eq!(response.status(), 200, "whatever becomes of its parts");
    let mut parts = Parts { body: response.into_body(), text: Vec::new(), received: 0 };
    while let Some(more) = parts.more().await {
        for part in more {
            let read = Read { key: manner.keys[parts.received], ..read };
            parts.received += 1;
            let got = part_of(&part, world, read, &manner);
            tell(Asked { read, got, waited: true });
        }
    }
    assert_eq!(parts.received, keys.len(), "each key has a part");
}

/// The parts of an answer that is still coming.
struct Parts {
    body: Body,
    text: Vec<u8>,
    /// Number of parts that were taken.
    received: usize,
}

impl Parts {
    /// The next that are whole.
    async fn more(&mut self) -> Option<Vec<Value>> {
        let frame = self.body.frame().await?.expect("it is no region's");
        self.text.extend_from_slice(&frame.into_data().unwrap_or_default());
        let whole: Option<Value> = serde_json::from_slice(&self.text).ok();
        let parts = whole
            .or_else(|| serde_json::from_slice(&[&self.text[..], b"]}"].concat()).ok())
            .map(|mut answer: Value| answer["parts"].take());
        let Some(Value::Array(mut parts)) = parts else { return Some(Vec::new()) };
        Some(parts.split_off(self.received))
    }
}

/// One part, read as its caller would. Without a head it says less.
fn part_of(part: &Value, world: &World, read: Read, manner: &Manner) -> Got {
    assert_eq!(part["key"], format!("k{}", read.key), "in their order");
    let status = part["status"].as_u64().unwrap_or_default() as u16;
    if !manner.reads_body() {
        return (status, line(part, &CACHE_STATUS).to_owned(), read_shows(line(part, &SHOWS)));
    }
    let body = match (&part["body"], part["encoding"].as_str()) {
        (Value::String(text), Some("base64")) => STANDARD.decode(text).expect("base64"),
        (body, _) => body.to_string().into_bytes(),
    };
    let stated = part["contentType"].as_str();
    if part["headers"].is_array() {
        let head = Head { shows: Some(line(part, &SHOWS)), media_type: line(part, &header::CONTENT_TYPE) };
        return (status, line(part, &CACHE_STATUS).to_owned(), head.seen(status, &body, world, read, manner.who));
    }
    let head = Head { shows: None, media_type: stated.unwrap_or("application/json") };
    (status, said(part), head.seen(status, &body, world, read, manner.who))
}

/// A line of a part's head.
fn line<'a>(part: &'a Value, name: &HeaderName) -> &'a str {
    let lines = part["headers"].as_array().into_iter().flatten();
    let mut named = lines.filter(|line| line[0].as_str() == Some(name.as_str()));
    named.next().and_then(|line| line[1].as_str()).unwrap_or_default()
}

/// Metadata of a part, written as `Cache-Status` would.
fn said(part: &Value) -> String {
    let mut line = "nearside".to_owned();
    // What was just fetched has no age.
    if part["age"].is_u64() {
        line += "; hit";
    }
    if let Some(bound) = part["bound"].as_u64() {
        line += &format!("; bound={bound}");
    }
    if let Some(label) = part["label"].as_str() {
        line += &format!("; detail={label}");
    }
    line
}
