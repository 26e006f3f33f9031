//! One try against real sockets that answer badly.

use std::net::SocketAddr;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use super::*;
use crate::config;
use crate::http::client::tls;
use crate::http::limits::{BODIES_BYTES, CONNECTION_AGE, REPLY_BODY_BYTES};
use crate::model::ids::Version;
use crate::model::time::Wall;
use crate::tasks::Tasks;

mod heads;

const WITHIN: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(150);

/// A server that runs `serve` for each connection, and the requests' heads that it has read.
struct Server {
    at: SocketAddr,
    connections: Arc<std::sync::atomic::AtomicUsize>,
    _tasks: Tasks,
}

async fn server<F, R>(serve: F) -> Server
where
    F: Fn(TcpStream) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (tasks, connections) = (Tasks::new(), Arc::<std::sync::atomic::AtomicUsize>::default());
    let (spawner, count) = (tasks.clone(), Arc::clone(&connections));
    tasks.spawn("server", async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            spawner.spawn("connection", serve(stream));
        }
    });
    Server { at, connections, _tasks: tasks }
}

impl Server {
    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Reads one request's head; `None` at the connection's end.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

/// Answers each request on a connection with the same bytes, `times` times, then closes it.
async fn answering(bytes: &'static [u8], times: usize) -> Server {
    server(move |mut stream| async move {
        for _ in 0..times {
            if head(&mut stream).await.is_none() || stream.write_all(bytes).await.is_err() {
                return;
            }
        }
    })
    .await
}

fn origin_at(url: &str, tls: Option<Arc<rustls::ClientConfig>>) -> HttpOrigin {
    origin_by(Clock::System, url, tls)
}

fn origin_by(clock: Clock, url: &str, tls: Option<Arc<rustls::ClientConfig>>) -> HttpOrigin {
    let region = config::RegionConfig { name: "a".into(), url: Url::parse(url).unwrap(), ..Default::default() };
    let header = HeaderName::from_static("x-record-version");
    HttpOrigin::of(&[region], &header, tls, clock, &ByteBudget::new(BODIES_BYTES)).unwrap()
}

fn origin(server: &Server) -> HttpOrigin {
    origin_at(&format!("http://{}", server.at), None)
}

fn get(path_and_query: &str) -> Arc<Outgoing> {
    let path_and_query = path_and_query.to_owned();
    Arc::new(Outgoing { method: Method::GET, path_and_query, headers: HeaderMap::new(), body: Bytes::new() })
}

/// Lets other tasks run until `holds` is true.
async fn until(holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WITHIN, wait).await.expect("it comes about");
}

async fn ask(server: &Server, within: Duration) -> Result<Reply, Failure> {
    origin(server).ask(RegionId(0), get("/"), within).await
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-record-version: 7, 8\r\netag: \"e\"\r\n\
    connection: x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\n\r\nhello";

#[tokio::test]
async fn reply_carries_body_versions_and_headers() {
    let reply = ask(&answering(OK, 1).await, WITHIN).await.unwrap();
    assert_eq!((reply.status, &reply.body[..]), (StatusCode::OK, &b"hello"[..]));
    assert_eq!(reply.versions, [Version(7), Version(8)]);
    assert_eq!(reply.headers["etag"], "\"e\"");
    for hop in ["connection", "x-hop", "keep-alive"] {
        assert!(!reply.headers.contains_key(hop), "{hop}");
    }
    assert!(reply.sent <= reply.received);
}

#[tokio::test]
async fn target_passes_unchanged_behind_prefix() {
    let echo = server(|mut stream| async move {
        while let Some(head) = head(&mut stream).await {
            let reply = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{head}", head.len());
            stream.write_all(reply.as_bytes()).await.unwrap();
        }
    })
    .await;
    let origin = origin_at(&format!("http://{}/prefix/", echo.at), None);
    let targets = ["/", "/a/../b", "/%2e%2E/%7e~", "//x", "/a?q='1'|{z}&%27", "/a%20b?x=%", "/\\?a//b?c"];
    for target in targets {
        let reply = origin.ask(RegionId(0), get(target), WITHIN).await.expect(target);
        let head = String::from_utf8(reply.body.to_vec()).unwrap();
        assert!(head.starts_with(&format!("GET /prefix{target} HTTP/1.1\r\n")), "{head}");
        assert!(head.contains(&format!("host: {}\r\n", echo.at)), "{head}");
    }
    assert_eq!(origin.ask(RegionId(0), get("*"), WITHIN).await.unwrap_err(), Failure::Target);
}

#[tokio::test]
async fn each_bad_reply_has_failure_kind() {
    let cases: [(&[u8], Failure); 6] = [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", Failure::Truncated),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nhalf", Failure::Truncated),
        (b"HTTP/1.1 200 OK\r\ncontent-le", Failure::Truncated),
        (b"", Failure::Truncated),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n\r\n", Failure::Garbage),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 9000000\r\n\r\n",
            Failure::Oversized { limit: REPLY_BODY_BYTES as u64, announced: true },
        ),
    ];
    for (bytes, failure) in cases {
        let got = ask(&answering(bytes, 1).await, WITHIN).await;
        assert_eq!(got.map(|reply| reply.status), Err(failure), "{}", String::from_utf8_lossy(bytes));
    }
}

/// A server whose answers go on with `more` without an end.
async fn endless(start: &'static [u8], more: &'static [u8]) -> Server {
    server(move |mut stream| async move {
        if head(&mut stream).await.is_some() && stream.write_all(start).await.is_ok() {
            while stream.write_all(more).await.is_ok() {}
        }
    })
    .await
}

#[tokio::test]
async fn endless_head_or_body_is_limited() {
    let body = endless(b"HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 16_384]).await;
    assert_eq!(
        ask(&body, WITHIN).await.unwrap_err(),
        Failure::Oversized { limit: REPLY_BODY_BYTES as u64, announced: false }
    );
    let head =
        endless(b"HTTP/1.1 200 OK\r\n", b"x-a: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n").await;
    let failure = ask(&head, WITHIN).await.unwrap_err();
    assert!(matches!(failure, Failure::Oversized { .. } | Failure::Garbage), "{failure:?}");
}

#[tokio::test]
async fn silent_or_dripping_region_hits_deadline() {
    let silent = server(|mut stream| async move {
        head(&mut stream).await;
        std::future::pending::<()>().await;
    })
    .await;
    assert_eq!(ask(&silent, SHORT).await.unwrap_err(), Failure::Deadline { within: SHORT, head: false });
    let dripping = server(|mut stream| async move {
        head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n").await;
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(ask(&dripping, SHORT).await.unwrap_err(), Failure::Deadline { within: SHORT, head: true });
}

#[tokio::test]
async fn refused_connection_fails_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    drop(listener);
    let failure = origin_at(&format!("http://{at}"), None).ask(RegionId(0), get("/"), WITHIN).await.unwrap_err();
    assert_eq!(failure, Failure::Connect);
}

#[tokio::test]
async fn unresolvable_name_fails_to_connect() {
    let failure = origin_at("http://nowhere.invalid", None).ask(RegionId(0), get("/"), WITHIN).await.unwrap_err();
    assert!(matches!(failure, Failure::Connect | Failure::Deadline { head: false, .. }), "{failure:?}");
}

#[tokio::test]
async fn redirects_and_codings_pass_unchanged() {
    let redirect = answering(b"HTTP/1.1 302 Found\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n", 1).await;
    assert_eq!(ask(&redirect, WITHIN).await.unwrap().status, StatusCode::FOUND);
    let coded =
        answering(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n\x1f\x8b??", 1).await;
    let reply = ask(&coded, WITHIN).await.unwrap();
    assert_eq!((&reply.body[..], &reply.headers["content-encoding"]), (&b"\x1f\x8b??"[..], &"gzip".parse().unwrap()));
}

#[tokio::test]
async fn safe_request_survives_idle_close() {
    // Closes each connection when the second request has arrived on it, unanswered. This is what a
    // client sees that sends just as its server closes.
    let closing = server(|mut stream| async move {
        head(&mut stream).await;
        let _ = stream.write_all(OK).await;
        head(&mut stream).await;
    })
    .await;
    let origin = origin(&closing);
    for _ in 0..3 {
        assert!(origin.ask(RegionId(0), get("/"), WITHIN).await.is_ok());
    }
    assert_eq!(closing.connections(), 3);
    let post = Outgoing { method: Method::POST, ..(*get("/")).clone() };
    let unsafe_one = origin.ask(RegionId(0), Arc::new(post), WITHIN).await;
    assert_eq!(unsafe_one.unwrap_err(), Failure::Truncated, "never sent twice");
    assert_eq!(closing.connections(), 3);
}

#[tokio::test]
async fn request_on_closed_connection_fails_promptly() {
    let (close, closed) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (reported, tells) = (close.clone(), closed.clone());
    let closing = server(move |mut stream| {
        let (reported, tells) = (reported.clone(), tells.clone());
        async move {
            head(&mut stream).await;
            let _ = stream.write_all(OK).await;
            reported.notified().await;
            drop(stream);
            tells.notify_one();
        }
    })
    .await;
    let origin = origin(&closing);
    origin.ask(RegionId(0), get("/"), WITHIN).await.unwrap();
    let mut line = origin.sites[0].lines.take().await.unwrap();
    let request = http::Request::get("/").header("host", "a").body(Full::new(Bytes::new())).unwrap();
    let reply = line.as_mut().unwrap().send(request);
    close.notify_one();
    closed.notified().await;
    // The runtime checks its sockets every 61 turns: it has received the end, and nobody has asked
    // the connection.
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    let replied = tokio::time::timeout(SHORT, crate::http::client::http1_pool::driven(&mut line, reply)).await;
    assert!(replied.expect("nothing is waited for").is_err());
}

#[tokio::test]
async fn fully_passed_reply_frees_connection() {
    const EMPTY: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    for (reply, chunks) in [(OK, 1), (EMPTY, 0)] {
        let server = answering(reply, usize::MAX).await;
        let origin = origin(&server);
        for _ in 0..3 {
            let mut streamed = origin.open(RegionId(0), get("/"), WITHIN).await.unwrap();
            for _ in 0..chunks {
                // Nobody asks for what comes after the last byte.
                streamed.body.next().await.unwrap().unwrap();
            }
        }
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn first_caller_finds_open_connection() {
    let server = answering(OK, usize::MAX).await;
    let origin = Arc::new(origin(&server));
    let tasks = Tasks::new();
    let warm = origin.clone();
    tasks.spawn("keep-warm", async move { warm.keep_warm().await });
    until(|| origin.sites[0].connector.is_ready()).await;
    assert_eq!(server.connections(), 1);
    origin.ask(RegionId(0), get("/"), WITHIN).await.unwrap();
    assert_eq!(server.connections(), 1, "the caller did not open another");
}

#[tokio::test]
async fn closed_ready_connection_is_not_used() {
    let server = server(drop_at_once).await;
    let origin = origin(&server);
    origin.sites[0].connector.make_ready().await.unwrap();
    until(|| !origin.sites[0].connector.is_ready()).await;
    assert_eq!(origin.sites[0].connector.alive(), 0);
}

#[tokio::test]
async fn preconnected_replaces_old_connection() {
    let server = answering(OK, usize::MAX).await;
    let clock = Clock::simulated(Wall::from_millis(0));
    let origin = Arc::new(origin_by(clock.clone(), &format!("http://{}", server.at), None));
    origin.ask(RegionId(0), get("/"), WITHIN).await.unwrap();
    let (tasks, warm) = (Tasks::new(), origin.clone());
    tasks.spawn("keep-warm", async move { warm.keep_warm().await });
    until(|| origin.sites[0].connector.is_ready()).await;
    // Never idle for as long as an idle one is kept.
    for _ in 0..5 {
        clock.suspend(CONNECTION_AGE / 6);
        origin.ask(RegionId(0), get("/"), WITHIN).await.unwrap();
    }
    clock.suspend(CONNECTION_AGE / 6);
    assert!(!origin.sites[0].connector.is_ready(), "what waited that long is not trusted");
    origin.ask(RegionId(0), get("/"), WITHIN).await.unwrap();
    until(|| origin.sites[0].connector.is_ready()).await;
    assert_eq!(server.connections(), 3, "a successor, before anybody needs it");
    origin.ask(RegionId(0), get("/"), WITHIN).await.unwrap();
    origin.ask(RegionId(0), get("/"), WITHIN).await.unwrap();
    until(|| origin.sites[0].connector.alive() == 1).await;
    assert_eq!(server.connections(), 3);
}

async fn drop_at_once(stream: TcpStream) {
    drop(stream);
}

#[tokio::test]
async fn streamed_reply_reports_truncation() {
    let server = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", 1).await;
    let mut streamed = origin(&server).open(RegionId(0), get("/"), WITHIN).await.unwrap();
    assert_eq!(streamed.body.next().await.unwrap().unwrap(), "half");
    assert_eq!(streamed.body.next().await.unwrap().unwrap_err(), Failure::Truncated);
    assert!(streamed.body.next().await.is_none());
}

/// A TLS server on loopback that speaks HTTP/2, and a client configuration that trusts it.
async fn tls_server() -> (Server, Arc<rustls::ClientConfig>) {
    let key = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut server_config = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![key.cert.der().clone()],
            rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap(),
        )
        .unwrap();
    server_config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server_config));
    let server = server(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = hyper::service::service_fn(|request: Request<Incoming>| async move {
                let authority = request.uri().authority().map(ToString::to_string).unwrap_or_default();
                Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from(authority))))
            });
            let io = hyper_util::rt::TokioIo::new(stream);
            let _ = hyper::server::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new())
                .serve_connection(io, service)
                .await;
        }
    })
    .await;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(key.cert.der().clone()).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (server, Arc::new(tls::with_alpn(client)))
}

#[tokio::test]
async fn cold_tls_burst_shares_http2_connection() {
    let (server, tls) = tls_server().await;
    let origin = origin_at(&format!("https://localhost:{}", server.at.port()), Some(tls));
    let burst = (0..50).map(|_| origin.ask(RegionId(0), get("/"), WITHIN));
    for reply in futures_util::future::join_all(burst).await {
        assert_eq!(reply.unwrap().body, format!("localhost:{}", server.at.port()));
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn untrusted_certificate_fails_to_connect() {
    let (server, _) = tls_server().await;
    let (_, other) = tls_server().await;
    let origin = origin_at(&format!("https://localhost:{}", server.at.port()), Some(other));
    assert_eq!(origin.ask(RegionId(0), get("/"), WITHIN).await.unwrap_err(), Failure::Connect);
}
