//! Owns the service of the drop-in tests: what a read service does with HTTP, on one port or behind
//! several regions.
//!
//! Codings, validators, ranges, redirects, writes, errors, large and chunked bodies. Invariant: the
//! same requests in the same order to a new service get the same answers, whichever of its regions
//! they reach.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use http::header::{self, HeaderMap};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use nearside::tasks::Tasks;
use nearside_lab::chaos_server::port::{self, Port};

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// More than the sidecar buffers, so that it streams.
const HUGE: usize = 12 << 20;
const LARGE: usize = 3 << 20;

/// A running service.
pub(crate) struct Service {
    ports: Vec<Port>,
    tasks: Tasks,
}

impl Service {
    /// On so many ports, which share their notes.
    pub(crate) fn start(regions: usize) -> Self {
        let (tasks, notes) = (Tasks::new(), Arc::new(Mutex::new(BTreeMap::new())));
        let ports: Vec<Port> = (0..regions).map(|_| Port::hold(0).unwrap()).collect();
        for port in &ports {
            let notes = notes.clone();
            let listener = port.listen().unwrap();
            let serving =
                port::serve(listener, tasks.clone(), "connection", move |request| answer(request, notes.clone()));
            tasks.spawn("service", serving);
        }
        Self { ports, tasks }
    }

    /// URL of each of its regions.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("http://{}", port.address())).collect()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.tasks.stopping().cancel();
    }
}

type Notes = Arc<Mutex<BTreeMap<String, Bytes>>>;

async fn answer(request: Request<Incoming>, notes: Notes) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let path = head.uri.path();
    if let Some(key) = path.strip_prefix("/v1/contexts/") {
        return context(key, &head.method, &head.headers);
    }
    if path.starts_with("/v1/notes/") {
        return note(path, &head.method, body, &notes);
    }
    match path {
        "/v1/about" => about(&head.headers),
        "/v1/search" => plain(StatusCode::OK, format!("asked for {}", head.uri.query().unwrap_or("nothing"))),
        "/v1/echo" => {
            let kind = head.headers.get(header::CONTENT_TYPE).cloned();
            let mut response = whole(StatusCode::OK, body);
            kind.map(|kind| response.headers_mut().insert(header::CONTENT_TYPE, kind));
            response
        }
        _ => plain(StatusCode::NOT_FOUND, "nothing here".to_owned()),
    }
}

/// A record: routed in the sidecar's configuration.
fn context(key: &str, method: &Method, asked: &HeaderMap) -> Response<Body> {
    if *method == Method::OPTIONS {
        let mut response = whole(StatusCode::NO_CONTENT, Bytes::new());
        response.headers_mut().insert(header::ALLOW, "GET, HEAD, OPTIONS".parse().unwrap());
        return response;
    }
    let body = match key {
        "missing" => return problem(StatusCode::NOT_FOUND),
        "denied" => return problem(StatusCode::FORBIDDEN),
        "broken" => return problem(StatusCode::INTERNAL_SERVER_ERROR),
        "moved" => {
            let mut response = whole(StatusCode::FOUND, Bytes::new());
            response.headers_mut().insert(header::LOCATION, "/v1/contexts/alpha".parse().unwrap());
            return response;
        }
        "large" => noise().slice(..LARGE),
        "huge" => noise().clone(),
        _ => format!("{{\"key\":\"{key}\",\"padding\":\"{}\"}}", "nearside ".repeat(500)).into(),
    };
    let mut response = if asked.get(header::IF_NONE_MATCH).is_some_and(|tag| tag == "\"v1\"") {
        whole(StatusCode::NOT_MODIFIED, Bytes::new())
    } else if let Some(range) = asked.get(header::RANGE) {
        assert_eq!(range, "bytes=0-9", "the only one that the steps ask for");
        let mut response = whole(StatusCode::PARTIAL_CONTENT, body.slice(..10));
        response.headers_mut().insert(header::CONTENT_RANGE, format!("bytes 0-9/{}", body.len()).parse().unwrap());
        response
    } else if key == "chunked" {
        let pieces: Vec<_> = body.chunks(1000).map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece)))).collect();
        Response::new(StreamBody::new(stream::iter(pieces)).boxed_unsync())
    } else {
        coded(body, asked)
    };
    for (name, value) in [
        ("etag", "\"v1\""),
        ("x-record-version", "1"),
        ("cache-control", "private, max-age=5"),
        ("vary", "accept-encoding"),
        ("x-service", "contexts"),
        ("link", "</v1/about>; rel=\"help\""),
        ("link", "</v1/contexts>; rel=\"up\""),
    ] {
        response.headers_mut().append(name, value.parse().unwrap());
    }
    if response.status() != StatusCode::NOT_MODIFIED {
        response.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    }
    response
}

/// Compressed where the caller takes it.
fn coded(body: Bytes, asked: &HeaderMap) -> Response<Body> {
    let takes = asked.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !takes.split(',').any(|coding| coding.trim() == "gzip") {
        return whole(StatusCode::OK, body);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&body).unwrap();
    let mut response = whole(StatusCode::OK, encoder.finish().unwrap().into());
    response.headers_mut().insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
    response
}

/// On no route: cached by RFC 9111.
fn about(asked: &HeaderMap) -> Response<Body> {
    const CHANGED: &str = "Thu, 01 Jan 2026 00:00:00 GMT";
    let known = asked.get(header::IF_MODIFIED_SINCE).is_some_and(|since| since == CHANGED);
    let mut response = if known {
        whole(StatusCode::NOT_MODIFIED, Bytes::new())
    } else {
        plain(StatusCode::OK, "the service of the drop-in tests".to_owned())
    };
    response.headers_mut().insert(header::CACHE_CONTROL, "public, max-age=60".parse().unwrap());
    response.headers_mut().insert(header::LAST_MODIFIED, CHANGED.parse().unwrap());
    response
}

/// On no route, and written too.
fn note(path: &str, method: &Method, body: Bytes, notes: &Notes) -> Response<Body> {
    let mut notes = notes.lock().unwrap();
    match *method {
        Method::PUT => {
            let created = notes.insert(path.to_owned(), body).is_none();
            plain(if created { StatusCode::CREATED } else { StatusCode::OK }, "noted".to_owned())
        }
        Method::DELETE => {
            notes.remove(path);
            whole(StatusCode::NO_CONTENT, Bytes::new())
        }
        _ => match notes.get(path) {
            Some(note) => {
                let mut response = whole(StatusCode::OK, note.clone());
                response.headers_mut().insert(header::CACHE_CONTROL, "max-age=60".parse().unwrap());
                response
            }
            None => problem(StatusCode::NOT_FOUND),
        },
    }
}

fn problem(status: StatusCode) -> Response<Body> {
    let mut response = whole(status, format!("{{\"status\":{}}}", status.as_u16()).into());
    response.headers_mut().insert(header::CONTENT_TYPE, "application/problem+json".parse().unwrap());
    response.headers_mut().insert("x-service", "contexts".parse().unwrap());
    response
}

fn plain(status: StatusCode, text: String) -> Response<Body> {
    let mut response = whole(status, text.into());
    response.headers_mut().insert(header::CONTENT_TYPE, "text/plain; charset=utf-8".parse().unwrap());
    response
}

fn whole(status: StatusCode, body: Bytes) -> Response<Body> {
    let bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let body = if bodiless { Empty::new().boxed_unsync() } else { Full::new(body).boxed_unsync() };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// Bytes that do not compress away, the same every time.
fn noise() -> &'static Bytes {
    static NOISE: OnceLock<Bytes> = OnceLock::new();
    NOISE.get_or_init(|| {
        let mut noise = vec![0; HUGE];
        fastrand::Rng::with_seed(7).fill(&mut noise);
        noise.into()
    })
}
