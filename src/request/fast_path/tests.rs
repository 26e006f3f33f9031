//! Tests of connections on real sockets: protocols, timeouts, bounds, how connections end.

mod drains;
mod idle;
mod tls;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use crate::cache::capacity::Memory;
use crate::cache::key::HashKey;
use crate::cache::limits::COPIED_BODY_BYTES;
use crate::config::{UnixSocket, read};
use crate::fill::settings::Parts;
use crate::http::admission::Admitted;
use crate::http::bodies::ByteBudget;
use crate::http::body::Body;
use crate::http::connection::{self, ConnectionContext, Shutdown, Via};
use crate::http::exchange::{Failure, Origin, Outgoing, Reply};
use crate::http::kernel_buffers::KernelBuffers;
use crate::http::limits::{self, BODIES_BYTES};
use crate::http::listener::{ListenError, accept_tcp, accept_unix, bind_tcp, bind_unix};
use crate::model::ids::RegionId;
use crate::model::time::{Clock, Wall};
use crate::request::current::Current;
use crate::request::serve::serve;
use crate::request::settings::Settings;
use crate::tasks::Tasks;
use crate::tasks::permits::Permits;

const SIZES: [usize; 4] = [COPIED_BODY_BYTES, COPIED_BODY_BYTES + 1, 3 << 20, 1];

struct Listening {
    addr: SocketAddr,
    context: ConnectionContext<Arc<Current<Settings>>>,
}

/// Paths whose answer by [`ByPath`] is stored before the first connection.
const STORED: [&str; 9] = ["1", "2", "3", "last", "one", "x", "inside", "x?16777216", "x?3145728"];

async fn context(permits: usize) -> ConnectionContext<Arc<Current<Settings>>> {
    context_with(permits, "").await
}

async fn context_with(permits: usize, settings: &str) -> ConnectionContext<Arc<Current<Settings>>> {
    let (clock, tasks) = (Clock::simulated(Wall::from_millis(1_800_000_000_000)), Tasks::new());
    let config = "[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n\
                  [announcements]\ntransport = \"off\"\n[cache]\nmax_bytes = \"4GiB\"\nunrouted = \"cache\"\n";
    let parts = Parts {
        clock: clock.clone(),
        origin: Arc::new(ByPath(clock.clone())),
        tasks: tasks.clone(),
        hash_key: HashKey::fixed(7),
        floor_slots: 1 << 12,
        memory: Memory::AMPLE,
        bodies: ByteBudget::new(BODIES_BYTES),
    };
    let settings = Settings::new(read::from_toml(&format!("{config}{settings}")).unwrap(), parts).unwrap();
    let sizes = SIZES.map(|size| format!("x?{size}"));
    for path in STORED.into_iter().chain(sizes.iter().map(String::as_str)) {
        let (method, path_and_query) = (Method::GET, format!("/stored/{path}"));
        let path_len = path_and_query.find('?').unwrap_or(path_and_query.len());
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        serve(&settings, Admitted { method, path_and_query, path_len, headers, body }).await;
    }
    let (permits, peers) = (Permits::new(permits), settings.shared.peers.clone());
    let fast_path = Some(settings.into_current());
    ConnectionContext { tasks, clock, permits, peers, shutdown: Shutdown::default(), fast_path }
}

/// A region that answers with the path, or with as many bytes as the query says: after a second
/// under `/slow/`, and as not storable under `/passing/`.
struct ByPath(Clock);

impl Origin for ByPath {
    fn ask(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        _within: Duration,
    ) -> BoxFuture<'static, Result<Reply, Failure>> {
        let (clock, sent, sent_wall) = (self.0.clone(), self.0.now(), self.0.wall());
        async move {
            let target = &request.path_and_query;
            tokio::time::sleep(Duration::from_secs(u64::from(target.starts_with("/slow/")))).await;
            let stored = if target.starts_with("/passing/") { "no-store" } else { "max-age=3600" };
            let headers = HeaderMap::from_iter([(header::CACHE_CONTROL, HeaderValue::from_static(stored))]);
            let bytes = target.split_once('?').map(|(_, bytes)| bytes.parse().unwrap());
            let body = bytes.map_or_else(|| target.clone(), |bytes| "x".repeat(bytes)).into();
            let (status, versions, received) = (StatusCode::OK, Vec::new(), clock.now());
            Ok(Reply { region, status, headers, body, versions, sent, sent_wall, received, grants: None })
        }
        .boxed()
    }
}

async fn answer(request: Request<Incoming>, _via: Via) -> Response<Body> {
    Response::new(Body::Whole(Some(Bytes::from(request.uri().path().to_owned()))))
}

async fn open(permits: usize) -> Listening {
    let context = context(permits).await;
    let listener = bind_tcp((Ipv4Addr::LOCALHOST, 0).into(), "test", "test").unwrap();
    let addr = listener.local_addr().unwrap();
    context.tasks.spawn("accept", accept_tcp(listener, context.clone(), answer));
    Listening { addr, context }
}

async fn send(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

/// Reads until `wanted` has come, or the end.
async fn read_until(stream: &mut (impl AsyncRead + Unpin), wanted: &str) -> String {
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains(wanted) {
        if stream.read_buf(&mut text).await.unwrap_or(0) == 0 {
            break;
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

const GET: &str = "GET /one HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A goodbye in HTTP/2 is a frame that is to be answered.
#[tokio::test(start_paused = true)]
async fn silent_peer_never_delays_drain() {
    let listening = open(8).await;
    let mut silent = TcpStream::connect(listening.addr).await.unwrap();
    let no_settings = "\0\0\0\x04\0\0\0\0\0";
    send(&mut silent, &format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{no_settings}")).await;
    // The server's own settings: it is served.
    assert_ne!(silent.read(&mut [0; 64]).await.unwrap(), 0);
    // Its silence until then is forgiven.
    tokio::time::sleep(limits::IDLE_WAIT / 4).await;
    listening.context.shutdown.closing.cancel();
    let began = tokio::time::Instant::now();
    assert_eq!(listening.context.tasks.drain(limits::LAST_REPLY_WAIT * 2).await, Vec::<&str>::new());
    let waited = began.elapsed();
    assert!(waited >= limits::LAST_REPLY_WAIT, "it had its time: {waited:?}");
}

/// A client that sends half a body has no later deadline than one that reads nothing.
#[tokio::test(start_paused = true)]
async fn partial_body_never_delays_drain() {
    let context = context(8).await;
    let settings = context.fast_path.clone().unwrap().load_full();
    let listener = bind_tcp((Ipv4Addr::LOCALHOST, 0).into(), "test", "test").unwrap();
    let addr = listener.local_addr().unwrap();
    let accept = accept_tcp(listener, context.clone(), move |request, via| {
        crate::request::serve::answer(&settings, request, via)
    });
    context.tasks.spawn("accept", accept);
    let mut half = TcpStream::connect(addr).await.unwrap();
    send(&mut half, "PUT /stored/one HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    context.shutdown.closing.cancel();
    assert_eq!(context.tasks.drain(limits::LAST_REPLY_WAIT * 2).await, Vec::<&str>::new());
    assert!(read_until(&mut half, "slow-body").await.contains("HTTP/1.1 408"));
}

#[tokio::test(start_paused = true)]
async fn slow_reader_is_not_dripping_head() {
    let listening = open(8).await;
    let mut stream = TcpStream::connect(listening.addr).await.unwrap();
    let [large, last] = ["/stored/x?16777216", "/stored/last"].map(|path| GET.replace("/one", path));
    send(&mut stream, &(large + &last)).await;
    // As long as nothing is read, the second request waits behind the first one's answer.
    tokio::time::sleep(limits::HEADER_WAIT * 3).await;
    let mut text = Vec::new();
    while !text.ends_with(b"/stored/last") {
        assert_ne!(stream.read_buf(&mut text).await.unwrap(), 0, "cut off after {} bytes", text.len());
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let listening = open(8).await;
    let mut stream = TcpStream::connect(listening.addr).await.unwrap();
    let three = ["/a", "/b", "/last"].map(|path| GET.replace("/one", path)).concat();
    send(&mut stream, &three).await;
    let text = read_until(&mut stream, "/last").await;
    let places: Vec<_> = ["\r\n/a", "\r\n/b", "\r\n/last"].iter().map(|body| text.find(body).unwrap()).collect();
    assert!(places.is_sorted(), "{text}");
}

#[tokio::test]
async fn hits_and_misses_keep_pipeline_order() {
    let listening = open(8).await;
    let mut stream = TcpStream::connect(listening.addr).await.unwrap();
    let paths = ["/stored/1", "/a", "/stored/2", "/stored/3", "/b", "/passing/c", "/d", "/stored/last"];
    send(&mut stream, &paths.map(|path| GET.replace("/one", path)).concat()).await;
    let text = read_until(&mut stream, "\r\n/stored/last").await;
    let places: Vec<_> = paths.iter().map(|path| text.find(&format!("\r\n\r\n{path}")).unwrap()).collect();
    assert!(places.is_sorted(), "{text}");
    assert_eq!(text.matches("nearside; hit").count(), 4, "{text}");
    assert_eq!(text.matches("date: ").count(), paths.len(), "{text}");
    assert!(!text.contains("connection: close"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn answers_pending_at_linger_are_delivered() {
    for ended in [false, true] {
        let listening = open(8).await;
        let mut stream = TcpStream::connect(listening.addr).await.unwrap();
        send(&mut stream, &GET.replace("/one", "/slow/1")).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        listening.context.shutdown.lingering.cancel();
        if ended {
            listening.context.shutdown.closing.cancel();
        }
        let text = read_until(&mut stream, "\r\n/slow/1").await;
        assert!(text.contains("connection: close") && text.ends_with("/slow/1"), "ended: {ended}, {text}");
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
    }
}

/// The caller shuts down its side, which is allowed, and the answer still comes; the connection of
/// a caller that is gone is dropped.
#[tokio::test(start_paused = true)]
async fn hangup_during_miss_frees_connection() {
    let listening = open(1).await;
    let mut half = TcpStream::connect(listening.addr).await.unwrap();
    send(&mut half, &GET.replace("/one", "/slow/1")).await;
    half.shutdown().await.unwrap();
    assert!(read_until(&mut half, "\r\n/slow/1").await.contains("200 OK"));
    let mut gone = TcpStream::connect(listening.addr).await.unwrap();
    send(&mut gone, &GET.replace("/one", "/slow/2")).await;
    drop(gone);
    let mut next = TcpStream::connect(listening.addr).await.unwrap();
    send(&mut next, GET).await;
    assert!(read_until(&mut next, "\r\n/one").await.contains("200 OK"));
}

#[tokio::test]
async fn pipelined_answers_are_written_together() {
    let log = Log::default();
    let context = context(8).await;
    let mut callers = ["a", "b"].map(|name| {
        let (caller, ours) = tokio::io::duplex(65_536);
        let connection =
            connection::serve(Noted(ours, name, log.clone()), KernelBuffers::NONE, Via::Tcp, context.clone(), answer);
        context.tasks.spawn("caller", connection);
        caller
    });
    for round in 0..2 {
        log.lock().clear();
        for caller in &mut callers {
            let request = GET.replace("/one", "/stored/x");
            caller.write_all(request.as_bytes()).now_or_never().expect("there is room for it").unwrap();
        }
        for caller in &mut callers {
            read_until(caller, "/stored/x").await;
        }
        assert_eq!(log.lock().join(", "), "a read, b read, a written, b written", "round {round}");
    }
}

#[tokio::test]
async fn listen_fast_off_uses_hyper() {
    let (mut caller, ours) = tokio::io::duplex(65_536);
    let context = context_with(8, "[listen]\nfast = false\n").await;
    context.tasks.spawn("caller", connection::serve(ours, KernelBuffers::NONE, Via::Tcp, context.clone(), answer));
    caller.write_all(GET.replace("/one", "/stored/x").as_bytes()).await.unwrap();
    let text = read_until(&mut caller, "/stored/x").await;
    assert!(!text.contains("hit"), "the handler was asked: {text}");
}

#[tokio::test]
async fn next_request_releases_replaced_core() {
    let (mut caller, ours) = tokio::io::duplex(65_536);
    let context = context(8).await;
    let current = context.fast_path.clone().unwrap();
    context.tasks.spawn("caller", connection::serve(ours, KernelBuffers::NONE, Via::Tcp, context.clone(), answer));
    let request = GET.replace("/one", "/stored/x");
    caller.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut caller, "/stored/x").await;
    let first = current.load_full();
    current.replace(first.renewed(first.fill.config.clone(), first.fill.regions.origin().clone()).unwrap());
    let first = {
        let weak = Arc::downgrade(&first);
        drop(first);
        weak
    };
    caller.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut caller, "/stored/x").await;
    assert_eq!(first.strong_count(), 0, "nothing of the connection holds it");
}

#[tokio::test]
async fn lone_caller_is_not_delayed() {
    let (mut caller, ours) = tokio::io::duplex(65_536);
    let mut connection = pin!(connection::serve(ours, KernelBuffers::NONE, Via::Tcp, context(8).await, answer));
    for round in 0..3 {
        caller.write_all(GET.replace("/one", "/stored/x").as_bytes()).await.unwrap();
        assert!(futures_util::poll!(&mut connection).is_pending());
        let answered = read_until(&mut caller, "/stored/x").now_or_never();
        // Before the first one, another connection may have been answered.
        assert!(round == 0 || answered.is_some());
        assert!(futures_util::poll!(&mut connection).is_pending());
        assert!(answered.is_some() || read_until(&mut caller, "/stored/x").now_or_never().is_some());
    }
}

type Log = Arc<parking_lot::Mutex<Vec<String>>>;

/// A stream that notes what happens to it.
struct Noted<S>(S, &'static str, Log);

impl<S> Noted<S> {
    fn note(&self, what: &str) {
        self.2.lock().push(format!("{} {what}", self.1));
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Noted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let polled = Pin::new(&mut self.0).poll_read(cx, buf);
        if polled.is_ready() {
            self.note("read");
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        self.note("written");
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn fragmented_request_is_answered() {
    let listening = open(8).await;
    let mut stream = TcpStream::connect(listening.addr).await.unwrap();
    for path in ["/stored/1", "/a", "/stored/2"] {
        for byte in GET.replace("/one", path).bytes() {
            stream.write_all(&[byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert!(read_until(&mut stream, &format!("\r\n\r\n{path}")).await.contains("200 OK"), "{path}");
    }
}

#[tokio::test]
async fn body_after_hits_reaches_hyper() {
    let listening = open(8).await;
    let mut stream = TcpStream::connect(listening.addr).await.unwrap();
    let inside = GET.replace("/one", "/stored/inside");
    let post = format!("POST /post HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{inside}", inside.len());
    let [hit, last] = ["/stored/1", "/last"].map(|path| GET.replace("/one", path));
    send(&mut stream, &[hit, post, last].concat()).await;
    let text = read_until(&mut stream, "\r\n/last").await;
    assert!(text.contains("/stored/1") && text.contains("\r\n\r\n/post") && !text.contains("inside"), "{text}");
}

#[tokio::test]
async fn slow_readers_get_whole_stored_bodies() {
    let listening = open(8).await;
    let mut stream = TcpStream::connect(listening.addr).await.unwrap();
    let asked = SIZES.map(|size| GET.replace("/one", &format!("/stored/x?{size}")));
    send(&mut stream, &[asked.concat(), GET.replace("/one", "/last")].concat()).await;
    let text = read_until(&mut stream, "\r\n/last").await;
    let bodies: Vec<_> = text.split("\r\n\r\n").skip(1).map(|rest| rest.matches("xx").count()).collect();
    assert_eq!(bodies[..3], [SIZES[0] / 2, SIZES[1] / 2, SIZES[2] / 2]);
    assert_eq!(text.replace("max-age", "").matches('x').count(), SIZES.iter().sum::<usize>());
}

#[tokio::test]
async fn foreign_host_gets_no_stored_reply() {
    let listening = open(8).await;
    let mut stream = TcpStream::connect(listening.addr).await.unwrap();
    send(&mut stream, &GET.replace("/one", "/stored/1").replace("localhost", "evil.example")).await;
    assert!(!read_until(&mut stream, "/stored/1").await.contains("hit"), "the handler was asked");
}

#[tokio::test]
async fn http2_prior_knowledge_shares_port() {
    let listening = open(8).await;
    let client = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build().unwrap();
    let response = client.get(format!("http://{}/two", listening.addr)).send().await.unwrap();
    assert_eq!(response.version(), Version::HTTP_2);
    assert_eq!(response.text().await.unwrap(), "/two");
}

#[tokio::test]
async fn non_http_gets_400_oversized_431() {
    let listening = open(8).await;
    let large =
        format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "a".repeat(limits::REQUEST_HEAD_BYTES * 3));
    let many: String = (0..limits::REQUEST_HEADERS + 1).map(|i| format!("x-{i}: 1\r\n")).collect();
    let many = format!("GET / HTTP/1.1\r\nhost: localhost\r\n{many}\r\n");
    let cases = [
        ("nonsense that is no request line at all\r\n\r\n", " 400 "),
        ("GET / HTTP/1.1\r\nhost localhost\r\n\r\n", " 400 "),
        ("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", " 400 "),
        (large.as_str(), " 431 "),
        (many.as_str(), " 431 "),
    ];
    for (request, status) in cases {
        let mut stream = TcpStream::connect(listening.addr).await.unwrap();
        // The server may close while the rest is being sent; what counts is what it answered.
        let _ = stream.write_all(request.as_bytes()).await;
        let text = read_until(&mut stream, "\r\n\r\n").await;
        assert!(text.contains(status), "{status}: {text} to {:?}", &request[..40]);
    }
}

#[tokio::test]
async fn excess_connection_waits_for_slot() {
    let listening = open(1).await;
    let mut first = TcpStream::connect(listening.addr).await.unwrap();
    send(&mut first, GET).await;
    read_until(&mut first, "/one").await;
    let mut second = TcpStream::connect(listening.addr).await.unwrap();
    send(&mut second, GET).await;
    assert!(listening.context.permits.try_take().is_err());
    drop(first);
    assert!(read_until(&mut second, "/one").await.contains("200 OK"));
}

#[tokio::test]
async fn linger_still_serves_new_connections() {
    let listening = open(8).await;
    let mut kept = TcpStream::connect(listening.addr).await.unwrap();
    send(&mut kept, GET).await;
    assert!(!read_until(&mut kept, "/one").await.contains("connection: close"));
    let mut hitting = TcpStream::connect(listening.addr).await.unwrap();
    send(&mut hitting, &GET.replace("one", "stored/1")).await;
    read_until(&mut hitting, "/stored/1").await;
    listening.context.shutdown.lingering.cancel();
    for stream in [kept, hitting, TcpStream::connect(listening.addr).await.unwrap()] {
        let mut stream = stream;
        send(&mut stream, &GET.replace("one", "stored/one")).await;
        let text = read_until(&mut stream, "never").await;
        assert!(text.contains("connection: close") && text.contains("/one"), "{text}");
    }
    listening.context.shutdown.closing.cancel();
    assert!(listening.context.tasks.drain(Duration::from_secs(5)).await.is_empty());
    assert!(TcpStream::connect(listening.addr).await.is_err());
}

#[tokio::test]
async fn port_in_use_names_setting() {
    let listening = open(1).await;
    let error =
        bind_tcp(listening.addr, "listen.tcp", "listen.tcp or NEARSIDE__LISTEN__TCP").unwrap_err().to_string();
    assert!(error.contains(&listening.addr.to_string()) && error.contains("NEARSIDE__LISTEN__TCP"), "{error}");
}

#[tokio::test]
async fn unix_socket_sets_mode_replaces_dead() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nearside.sock");
    let socket = UnixSocket { path: path.clone(), mode: 0o600, uids: Vec::new() };
    drop(bind_unix(&socket, "listen.unix").unwrap());
    let listener = bind_unix(&socket, "listen.unix").unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(matches!(bind_unix(&socket, "listen.unix"), Err(ListenError::InUse { .. })));
    let plain = UnixSocket { path: folder.path().join("plain"), ..socket };
    std::fs::write(&plain.path, "keep me").unwrap();
    assert!(matches!(bind_unix(&plain, "listen.unix"), Err(ListenError::NotASocket(..))));
    assert_eq!(std::fs::read_to_string(&plain.path).unwrap(), "keep me");

    let context = context(4).await;
    context.tasks.spawn("accept", accept_unix(listener, Vec::new(), context.clone(), answer));
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(GET.as_bytes()).await.unwrap();
    assert!(read_until(&mut stream, "/one").await.contains("200 OK"));
}

fn unix_socket() -> socket2::Socket {
    socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap()
}

#[test]
fn frozen_process_keeps_socket_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let socket = UnixSocket { path: folder.path().join("nearside.sock"), mode: 0o600, uids: Vec::new() };
    let (frozen, address) = (unix_socket(), socket2::SockAddr::unix(&socket.path).unwrap());
    frozen.bind(&address).unwrap();
    frozen.listen(1).unwrap();
    let mut waiting = Vec::new();
    loop {
        let caller = unix_socket();
        caller.set_nonblocking(true).unwrap();
        if caller.connect(&address).is_err() {
            break;
        }
        waiting.push(caller);
    }
    assert!(matches!(bind_unix(&socket, "listen.unix"), Err(ListenError::InUse { .. })));
}

#[tokio::test]
async fn unlisted_peer_uid_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nearside.sock");
    let socket = UnixSocket { path: path.clone(), mode: 0o666, uids: vec![u32::MAX - 7] };
    let context = context(4).await;
    let listener = bind_unix(&socket, "listen.unix").unwrap();
    context.tasks.spawn("accept", accept_unix(listener, socket.uids.clone(), context.clone(), answer));
    let mut stream = UnixStream::connect(&path).await.unwrap();
    let _ = stream.write_all(GET.as_bytes()).await;
    assert_eq!(read_until(&mut stream, "/one").await, "");
}

/// Reads HTTP/2 frames until one of type `wanted` has come; returns the types of all, including
/// that one.
async fn frames_until(stream: &mut TcpStream, wanted: u8) -> Vec<u8> {
    let mut kinds = Vec::new();
    while kinds.last() != Some(&wanted) {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        stream.read_exact(&mut vec![0; length]).await.unwrap();
        kinds.push(head[3]);
    }
    kinds
}

#[tokio::test]
async fn http2_goaway_follows_first_answer() {
    const HEADERS: u8 = 1;
    const PING: u8 = 6;
    const GOAWAY: u8 = 7;
    let listening = open(8).await;
    listening.context.shutdown.lingering.cancel();
    let mut stream = TcpStream::connect(listening.addr).await.unwrap();
    // The preface, an empty SETTINGS and a PING, whose answer tells that both were read.
    send(&mut stream, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    stream.write_all(&[0, 0, 8, PING, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]).await.unwrap();
    assert!(!frames_until(&mut stream, PING).await.contains(&GOAWAY), "it would be of no use");
    // GET / over http from localhost, by HPACK's static table; the end of headers and of the
    // stream.
    let fields = [&[0x82, 0x84, 0x86, 0x41, 9][..], b"localhost"].concat();
    stream.write_all(&[0, 0, fields.len() as u8, HEADERS, 5, 0, 0, 0, 1]).await.unwrap();
    stream.write_all(&fields).await.unwrap();
    // The two go out together, in either order.
    if !frames_until(&mut stream, HEADERS).await.contains(&GOAWAY) {
        frames_until(&mut stream, GOAWAY).await;
    }
}
