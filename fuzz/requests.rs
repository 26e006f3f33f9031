//! Target of a request's way in: bytes on a connection, through hyper and the listener, to what the
//! listener admits.
//!
//! Each connection is served twice, by hyper alone and as it is in the product, where some of it is
//! answered without hyper: both must read the same requests. The connection is a real one in
//! memory: sniffed, HTTP/1.1 or HTTP/2, in pieces of any size. Time is paused and moves by itself
//! when everything waits, so nobody waits.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, Uri, Version, header};
use hyper::body::Incoming;
use nearside::cache::content::Content;
use nearside::cache::derived::Derived;
use nearside::cache::entry::{Entry, Validity};
use nearside::cache::rfc9111::{StoredFacts, end_to_end};
use nearside::config::Listen;
use nearside::http::admission::{Admission, Admitted, Entered, Head, TOKEN};
use nearside::http::body::Body;
use nearside::http::connection::{ConnectionContext, Shutdown, Via};
use nearside::http::limits::{REQUEST_BODY_BYTES, REQUEST_HEADERS, REQUEST_TARGET_BYTES};
use nearside::http::server_tls::peer::PeerCertificate;
use nearside::model::ids::RegionId;
use nearside::model::time::{Clock, Moment, ShortSpan, Wall};
use nearside::request::answer::Outcome;
use nearside::request::caller::Caller;
use nearside::request::current::Current;
use nearside::request::fast_path::Answers;
use nearside::shape::cache_status::CacheLine;
use nearside::shape::cookies::Cookies;
use nearside::shape::shown::Shown;
use nearside::tasks::Tasks;
use nearside::tasks::permits::Permits;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};

const SECRET: &str = "s3cret";
const ALLOWED: &str = "context.internal";

/// One thread, its time paused.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime without I/O")
    });
    &RUNTIME
}

/// The first byte sets the listener and the size of the pieces, the rest is what a caller sends
/// until it says no more.
pub(crate) fn request(data: &[u8]) {
    let Some((first, raw)) = data.split_first() else { return };
    let guarded = first & 1 == 1;
    let via = if first & 4 == 4 { Via::Unix } else { Via::Tcp };
    let listen =
        Listen { allowed_hosts: vec![ALLOWED.to_owned()], allow_cross_site: first & 8 == 0, ..Default::default() };
    let admission = Arc::new(Admission::new(&listen, guarded.then(|| SECRET.as_bytes().to_vec())));
    let raw = Bytes::copy_from_slice(raw);
    let piece = 1 << (first >> 4);
    let [by_hyper, shared] = [Log::default(), Log::default()];
    let [seen_by_hyper, seen] =
        [&by_hyper, &shared].map(|log| Arc::new(Seen { raw: raw.clone(), via, guarded, log: log.clone() }));
    connect(&admission, seen_by_hyper, piece, None);
    connect(&admission, seen, piece, Some(Store { admission: admission.clone(), log: shared.clone() }));
    let [by_hyper, shared] = [by_hyper, shared].map(|log| std::mem::take(&mut *log.lock().expect("nobody panics")));
    assert_eq!(by_hyper, shared, "hyper alone reads the same requests, one by one");
}

/// A connection from its first byte to its last.
fn connect(admission: &Arc<Admission>, seen: Arc<Seen>, piece: usize, store: Option<Store>) {
    let admission = admission.clone();
    runtime().block_on(async move {
        let tasks = Tasks::new();
        let context = ConnectionContext {
            tasks: tasks.clone(),
            clock: Clock::simulated(Wall::from_millis(0)),
            permits: Permits::new(1),
            peers: nearside::http::peers::Peers::new(1 << 20, |_| {}),
            shutdown: Shutdown::default(),
            fast_path: store.map(|store| Arc::new(Current::new(Arc::new(store)))),
        };
        let (raw, via) = (seen.raw.clone(), seen.via);
        nearside::http::connection::serve(
            Pieces { raw, piece },
            nearside::http::kernel_buffers::KernelBuffers::NONE,
            via,
            context,
            move |request: Request<Incoming>, _| answer(admission.clone(), seen.clone(), request),
        )
        .await;
        tasks.drain(Duration::from_secs(60)).await;
    });
}

/// The requests of a connection, as they were read.
type Log = Arc<Mutex<Vec<String>>>;

fn note(log: &Log, method: &Method, target: &str, headers: &HeaderMap) {
    let mut lines: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    // Lines of one name keep their order.
    lines.sort_by_key(|(name, _)| *name);
    log.lock().expect("nobody panics").push(format!("{method} {target} {lines:?}"));
}

/// A store that has what has an even number of bytes to its name; somebody is asked for the rest,
/// and half of what comes of that is like a stored reply, half is for hyper to write.
struct Store {
    admission: Arc<Admission>,
    log: Log,
}

impl Answers for Store {
    fn admission(&self) -> &Admission {
        &self.admission
    }

    fn names(&self) -> &[String] {
        &[]
    }

    fn is_fast(&self) -> bool {
        true
    }

    fn find(
        self: &Arc<Self>,
        _: &mut Option<Caller>,
        _: Option<&Arc<PeerCertificate>>,
        head: Head<'_>,
    ) -> Result<Shown, BoxFuture<'static, Outcome>> {
        note(&self.log, head.method, head.path_and_query, head.headers);
        let length = head.path_and_query.len();
        if length.is_multiple_of(2) {
            return Ok(shown(head, Validity::Uncacheable));
        }
        let kept = length % 4 == 1;
        let shown =
            shown(head, if kept { Validity::Unrouted(StoredFacts::default()) } else { Validity::Uncacheable });
        Err(async move {
            tokio::task::yield_now().await;
            Outcome::Shown(shown)
        }
        .boxed())
    }
}

fn shown(head: Head<'_>, validity: Validity) -> Shown {
    let entry = Entry {
        status: StatusCode::OK,
        content: Content::new(&HeaderMap::new(), &Bytes::from_static(b"admitted")),
        region: RegionId(0),
        sent: Moment::ZERO,
        age_at_receipt: ShortSpan::default(),
        json: Default::default(),
        derived: Derived::NONE,
        validity,
    };
    let line = CacheLine { hit: true, ..CacheLine::default() };
    let head = *head.method == Method::HEAD;
    Shown {
        entry: Arc::new(entry),
        instead: None,
        age: None,
        not_modified: false,
        head,
        cookies: Cookies::NONE,
        line,
    }
}

/// Values that the assertions compare with.
struct Seen {
    raw: Bytes,
    via: Via,
    guarded: bool,
    log: Log,
}

async fn answer(admission: Arc<Admission>, seen: Arc<Seen>, request: Request<Incoming>) -> Response<Body> {
    let (uri, headers, version) = (request.uri().clone(), request.headers().clone(), request.version());
    let entered = admission.enter(request, seen.via);
    // What a hit is looked up by, before the body has come.
    let early = entered.as_ref().ok().and_then(Entered::head);
    let early = early.map(|head| (head.path_and_query.to_owned(), head.path_len));
    let admitted = match entered {
        Ok(entered) => entered.whole(&Tasks::new()).await,
        Err(refusal) => Err(refusal),
    };
    let body = match admitted {
        Ok(admitted) => {
            let whole = (admitted.path_and_query.clone(), admitted.path_len);
            assert!(early.is_none_or(|early| early == whole), "a hit and a miss see the same target");
            target(&admitted, &uri, version, &seen);
            host(&uri, &headers, version, seen.via);
            fields(&admitted, &headers, &seen);
            passed_on(&headers);
            passed_on(&admitted.headers);
            note(&seen.log, &admitted.method, &admitted.path_and_query, &admitted.headers);
            Bytes::from_static(b"admitted")
        }
        Err(refusal) => Bytes::from(refusal.to_string()),
    };
    Response::new(Body::Whole(Some(body)))
}

/// The target is a path, within its bound, and the caller's own bytes.
fn target(admitted: &Admitted, uri: &Uri, version: Version, seen: &Seen) {
    let target = admitted.path_and_query.as_str();
    assert!(admitted.method != Method::CONNECT);
    assert!(target.starts_with('/') && target.len() <= REQUEST_TARGET_BYTES);
    assert!(!target.bytes().any(|byte| byte <= b' ' || byte == 0x7f || byte == b'#'), "{target:?}");
    let rest = target.strip_prefix(admitted.path()).expect("the target begins with its path");
    assert!(!admitted.path().contains('?') && (rest.is_empty() || rest.starts_with('?')), "{target:?}");
    // `http://localhost?x` names the path `/` without writing it (RFC 9110, 4.2.3); HTTP/2
    // compresses.
    let written = if uri.authority().is_some() && !contains(&seen.raw, target) { &target[1..] } else { target };
    assert!(version >= Version::HTTP_2 || contains(&seen.raw, written), "{target:?}");
}

/// On a TCP port the host is this machine's or a configured one, as a browser reads it; one host,
/// not two.
fn host(uri: &Uri, headers: &HeaderMap, version: Version, via: Via) {
    assert!(headers.get_all(header::HOST).iter().count() <= 1);
    let named = uri.authority().map(|authority| authority.as_str().as_bytes());
    let named = named.or(headers.get(header::HOST).map(|value| value.as_bytes()));
    assert!(named.is_some() || version < Version::HTTP_11 && via == Via::Unix);
    if via == Via::Unix {
        return;
    }
    let named = named.and_then(|bytes| std::str::from_utf8(bytes).ok()).expect("it was compared as text");
    let url = url::Url::parse(&format!("http://{named}/"));
    let ours = match url.as_ref().map(url::Url::host) {
        Ok(Some(url::Host::Domain(name))) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost") || name == ALLOWED
        }
        Ok(Some(url::Host::Ipv4(address))) => IpAddr::from(address).is_loopback(),
        Ok(Some(url::Host::Ipv6(address))) => IpAddr::from(address).is_loopback(),
        // No browser goes there, so no page can name it; it still has to look like ours.
        _ => named
            .split(':')
            .next()
            .is_some_and(|name| name.trim_end_matches('.').to_ascii_lowercase().ends_with(".localhost")),
    };
    assert!(ours, "{named:?} is not ours");
}

/// Checks that the token does not go on, nothing was lost beside it, and the head is within its
/// bounds.
fn fields(admitted: &Admitted, sent: &HeaderMap, seen: &Seen) {
    let headers = &admitted.headers;
    assert!(!headers.contains_key(&TOKEN));
    assert!(!seen.guarded || sent.get(&TOKEN).is_some_and(|token| token.as_bytes() == SECRET.as_bytes()));
    assert!(headers.len() <= REQUEST_HEADERS && admitted.body.len() <= REQUEST_BODY_BYTES);
    assert!(headers.get_all(header::COOKIE).iter().count() <= 1);
    assert!(headers.get_all(header::CONTENT_LENGTH).iter().count() <= 1);
    let framed_twice =
        headers.contains_key(header::CONTENT_LENGTH) && headers.contains_key(header::TRANSFER_ENCODING);
    assert!(!framed_twice, "a length and chunks");
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    assert!(length.is_none_or(|length| length == admitted.body.len()), "{length:?}");
    let hop = named_by_connection(sent);
    assert!(!hop.iter().any(|name| headers.contains_key(name)), "named by Connection, and part of the request");
    let others = sent.keys().filter(|name| **name != TOKEN && **name != header::COOKIE && !hop.contains(name));
    for name in others {
        assert!(headers.get_all(name).iter().eq(sent.get_all(name).iter()), "{name} goes along as it came");
    }
}

/// Checks that a request to a region holds nothing that was for this hop.
fn passed_on(headers: &HeaderMap) {
    let kept = end_to_end(headers);
    for name in ["connection", "te", "trailer", "transfer-encoding", "upgrade", "keep-alive", "proxy-connection"] {
        assert!(!kept.contains_key(name), "{name} goes on");
    }
    assert!(
        !named_by_connection(headers).iter().any(|name| kept.contains_key(name)),
        "named by Connection, and goes on"
    );
    assert_eq!(end_to_end(&kept), kept);
}

/// `Connection` and the fields that it makes fields of this hop (RFC 9110, 7.6.1).
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let lines = headers.get_all(header::CONNECTION).iter();
    let names = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let names = names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok());
    names.chain([header::CONNECTION]).collect()
}

fn contains(bytes: &[u8], wanted: &str) -> bool {
    wanted.is_empty() || bytes.windows(wanted.len()).any(|window| window == wanted.as_bytes())
}

/// Sends its bytes in pieces, then says no more; takes whatever it receives.
struct Pieces {
    raw: Bytes,
    piece: usize,
}

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let size = self.piece.min(buffer.remaining()).min(self.raw.len());
        let piece = self.raw.split_to(size);
        buffer.put_slice(&piece);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pieces {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buffer.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
