//! A peer that limits, refuses and ends streams, frame by frame as each test says.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, HeaderName, Method, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::task::JoinHandle;
use url::Url;

use super::*;
use crate::config;
use crate::http::bodies::ByteBudget;
use crate::http::client::attempt::HttpOrigin;
use crate::http::client::tls;
use crate::http::exchange::{Origin, Outgoing, Reply};
use crate::http::limits::{BODIES_BYTES, CONNECTION_AGE, STREAM_TRIES};
use crate::model::ids::RegionId;
use crate::model::time::Wall;
use crate::tasks::Tasks;

const WITHIN: Duration = Duration::from_secs(20);
const PREFACE: usize = 24;

/// A frame that a client sent; `at` is the number of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Seen {
    Request { at: usize, stream: u32 },
    Reset { at: usize, stream: u32 },
    Acknowledged { at: usize },
}

/// An HTTP/2 server over TLS that does nothing of its own but state its limit.
struct Peer {
    origin: Arc<HttpOrigin>,
    seen: AsyncMutex<mpsc::UnboundedReceiver<Seen>>,
    writers: Arc<Mutex<HashMap<usize, mpsc::UnboundedSender<Vec<u8>>>>>,
    clock: Clock,
    _tasks: Tasks,
}

fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), body].concat()
}

fn limit(streams: u32) -> Vec<u8> {
    frame(4, 0, 0, &[&[0, 3], &streams.to_be_bytes()[..]].concat())
}

fn go_away(last: u32) -> Vec<u8> {
    frame(7, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())
}

fn certified() -> (Arc<rustls::ServerConfig>, Arc<rustls::ClientConfig>) {
    let key = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let secret = rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let mut server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.der().clone()], secret)
        .unwrap();
    server.alpn_protocols = vec![b"h2".to_vec()];
    let mut roots = rustls::RootCertStore::empty();
    roots.add(key.cert.der().clone()).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server), Arc::new(tls::with_alpn(client)))
}

async fn peer(streams: u32) -> Peer {
    let (server, client) = certified();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tasks, writers) = (Tasks::new(), Arc::<Mutex<HashMap<_, _>>>::default());
    let (see, seen) = mpsc::unbounded_channel();
    let (spawner, known) = (tasks.clone(), writers.clone());
    tasks.spawn("peer", async move {
        let acceptor = tokio_rustls::TlsAcceptor::from(server);
        for at in 0.. {
            let Ok((stream, _)) = listener.accept().await else { return };
            let (acceptor, see, known) = (acceptor.clone(), see.clone(), known.clone());
            spawner.spawn("connection", async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let (reading, mut writing) = tokio::io::split(stream);
                let (say, mut said) = mpsc::unbounded_channel::<Vec<u8>>();
                say.send(limit(streams)).unwrap();
                known.lock().insert(at, say.clone());
                let write = async {
                    while let Some(bytes) = said.recv().await {
                        if bytes.is_empty() {
                            return;
                        }
                        if writing.write_all(&bytes).await.and(writing.flush().await).is_err() {
                            return;
                        }
                    }
                };
                tokio::select! {
                    () = write => {}
                    _ = watch(reading, at, &say, &see) => {}
                }
            });
        }
    });
    let clock = Clock::simulated(Wall::from_millis(0));
    let origin = Arc::new(origin(address, client, clock.clone()));
    Peer { origin, seen: AsyncMutex::new(seen), writers, clock, _tasks: tasks }
}

async fn watch(
    mut reading: impl tokio::io::AsyncRead + Unpin,
    at: usize,
    say: &mpsc::UnboundedSender<Vec<u8>>,
    see: &mpsc::UnboundedSender<Seen>,
) -> io::Result<()> {
    reading.read_exact(&mut [0; PREFACE]).await?;
    loop {
        let mut head = [0; 9];
        reading.read_exact(&mut head).await?;
        let mut body = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        reading.read_exact(&mut body).await?;
        let (kind, flags, stream) = (head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
        let _ = match (kind, flags & 1) {
            (1, _) => see.send(Seen::Request { at, stream }).is_ok(),
            (3, _) => see.send(Seen::Reset { at, stream }).is_ok(),
            (4, 1) => see.send(Seen::Acknowledged { at }).is_ok(),
            (4, _) => say.send(frame(4, 1, 0, &[])).is_ok(),
            (6, 0) => say.send(frame(6, 1, 0, &body)).is_ok(),
            _ => true,
        };
    }
}

fn origin(address: SocketAddr, client: Arc<rustls::ClientConfig>, clock: Clock) -> HttpOrigin {
    let region = config::RegionConfig {
        name: "a".into(),
        url: Url::parse(&format!("https://localhost:{}", address.port())).unwrap(),
        ..Default::default()
    };
    let header = HeaderName::from_static("x-record-version");
    HttpOrigin::of(&[region], &header, Some(client), clock, &ByteBudget::new(BODIES_BYTES)).unwrap()
}

fn outgoing(method: Method) -> Arc<Outgoing> {
    Arc::new(Outgoing { method, path_and_query: "/".to_owned(), headers: HeaderMap::new(), body: Bytes::new() })
}

impl Peer {
    fn ask(&self, method: Method) -> JoinHandle<Option<Result<Reply, Failure>>> {
        Tasks::new().spawn("asks", self.origin.ask(RegionId(0), outgoing(method), WITHIN))
    }

    fn say(&self, at: usize, bytes: Vec<u8>) {
        self.writers.lock()[&at].send(bytes).unwrap();
    }

    /// Ends a connection, and waits until the pool has none.
    async fn hang_up(&self, at: usize) {
        self.say(at, Vec::new());
        let gone = async {
            while self.alive() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(WITHIN, gone).await.expect("an ended connection is let go");
    }

    fn reply(&self, (at, stream): (usize, u32)) {
        self.say(at, frame(1, 5, stream, &[0x88]));
    }

    async fn see(&self) -> Seen {
        let mut seen = self.seen.lock().await;
        tokio::time::timeout(WITHIN, seen.recv()).await.expect("a frame comes").unwrap()
    }

    async fn request(&self) -> (usize, u32) {
        loop {
            if let Seen::Request { at, stream } = self.see().await {
                return (at, stream);
            }
        }
    }

    /// Waits until the client has taken in the limit that the connection stated with `bytes`.
    async fn state(&self, at: usize, bytes: Vec<u8>) {
        let mut seen = self.seen.lock().await;
        while seen.try_recv().is_ok() {}
        drop(seen);
        self.say(at, bytes);
        while self.see().await != (Seen::Acknowledged { at }) {}
    }

    async fn requests(&self, count: usize) -> Vec<(usize, u32)> {
        let mut requests = Vec::new();
        for _ in 0..count {
            requests.push(self.request().await);
        }
        requests
    }

    /// Asks and answers this many requests at once, and returns where they came.
    async fn serve(&self, count: usize) -> Vec<(usize, u32)> {
        let asked: Vec<_> = (0..count).map(|_| self.ask(Method::GET)).collect();
        let requests = self.requests(count).await;
        requests.iter().for_each(|request| self.reply(*request));
        for asked in asked {
            ok(asked).await;
        }
        requests
    }

    fn alive(&self) -> usize {
        self.origin.sites[0].connector.alive()
    }
}

async fn ok(asked: JoinHandle<Option<Result<Reply, Failure>>>) {
    assert_eq!(asked.await.unwrap().unwrap().unwrap().status, StatusCode::OK);
}

fn per_connection(requests: &[(usize, u32)]) -> Vec<usize> {
    let mut counts: HashMap<usize, usize> = HashMap::new();
    requests.iter().for_each(|(at, _)| *counts.entry(*at).or_default() += 1);
    let mut counts: Vec<_> = counts.into_values().collect();
    counts.sort_unstable();
    counts
}

#[tokio::test]
async fn requests_beyond_limit_open_connections() {
    let peer = peer(3).await;
    let asked: Vec<_> = (0..10).map(|_| peer.ask(Method::GET)).collect();
    // None is answered before all have come.
    let requests = peer.requests(10).await;
    assert_eq!(per_connection(&requests), [1, 3, 3, 3]);
    requests.into_iter().for_each(|request| peer.reply(request));
    for asked in asked {
        ok(asked).await;
    }
    // What came back is used before anything is opened.
    let again: Vec<_> = (0..10).map(|_| peer.ask(Method::POST)).collect();
    for request in peer.requests(10).await {
        peer.reply(request);
    }
    for asked in again {
        ok(asked).await;
    }
    assert_eq!(peer.writers.lock().len(), 4);
}

#[tokio::test]
async fn connections_to_one_region_are_bounded() {
    let peer = peer(1).await;
    let asked: Vec<_> = (0..HTTP2_PER_REGION + 6).map(|_| peer.ask(Method::GET)).collect();
    let mut requests = peer.requests(HTTP2_PER_REGION).await;
    assert_eq!(per_connection(&requests), vec![1; HTTP2_PER_REGION]);
    // The others wait, and each goes over a connection whose reply has come.
    for _ in 0..6 {
        let (at, stream) = requests.remove(0);
        peer.reply((at, stream));
        let (next, _) = peer.request().await;
        assert_eq!(next, at);
        requests.push((at, stream + 2));
    }
    assert_eq!(peer.alive(), HTTP2_PER_REGION);
    requests.into_iter().for_each(|request| peer.reply(request));
    for asked in asked {
        ok(asked).await;
    }
}

#[tokio::test]
async fn lowered_limit_takes_effect() {
    let peer = peer(5).await;
    let first = peer.ask(Method::GET);
    let carried = peer.request().await;
    peer.state(0, limit(1)).await;
    let second = peer.ask(Method::GET);
    let elsewhere = peer.request().await;
    assert_eq!((carried.0, elsewhere.0), (0, 1));
    [carried, elsewhere].into_iter().for_each(|request| peer.reply(request));
    ok(first).await;
    ok(second).await;
}

#[tokio::test]
async fn an_ended_connection_is_replaced() {
    let peer = peer(8).await;
    for (at, method) in [Method::GET, Method::POST, Method::GET].into_iter().enumerate() {
        let asked = peer.ask(method);
        let request = peer.request().await;
        assert_eq!(request.0, at);
        peer.reply(request);
        ok(asked).await;
        peer.hang_up(at).await;
    }
}

#[tokio::test]
async fn goaway_after_last_stream_ends_connection() {
    let peer = peer(8).await;
    let asked = peer.ask(Method::GET);
    let request = peer.request().await;
    peer.say(request.0, go_away(request.1));
    peer.reply(request);
    ok(asked).await;
    let again = peer.ask(Method::POST);
    let elsewhere = peer.request().await;
    assert_eq!(elsewhere.0, 1);
    peer.reply(elsewhere);
    ok(again).await;
}

#[tokio::test]
async fn raised_limit_frees_waiting_requests() {
    let peer = peer(0).await;
    let asked: Vec<_> = (0..4).map(|_| peer.ask(Method::GET)).collect();
    // Nothing, if it came after the peer's settings.
    let (at, stream) = tokio::time::timeout(Duration::from_millis(300), peer.request()).await.unwrap_or_default();
    assert_eq!(peer.alive(), 1, "a peer that allows no stream is not asked for more connections");
    peer.state(at, limit(8)).await;
    if stream > 0 {
        peer.reply((at, stream));
    }
    for request in peer.requests(4 - usize::from(stream > 0)).await {
        assert_eq!(request.0, at);
        peer.reply(request);
    }
    for asked in asked {
        ok(asked).await;
    }
}

#[tokio::test]
async fn requests_after_a_goaway_go_elsewhere() {
    let peer = peer(9).await;
    let (first, write) = (peer.ask(Method::GET), peer.ask(Method::POST));
    let (known, lost) = (peer.request().await, peer.request().await);
    // The peer finishes the first and has not looked at the second, which comes again.
    peer.say(0, go_away(known.1));
    let again = peer.request().await;
    assert_eq!((known.0, lost.0, again.0), (0, 0, 1));
    [known, again].into_iter().for_each(|request| peer.reply(request));
    ok(first).await;
    ok(write).await;
}

#[tokio::test]
async fn a_refused_stream_is_sent_again() {
    let peer = peer(9).await;
    let write = peer.ask(Method::POST);
    let (at, stream) = peer.request().await;
    peer.say(at, frame(3, 0, stream, &7u32.to_be_bytes()));
    let again = peer.request().await;
    assert_eq!(again.0, at);
    peer.reply(again);
    ok(write).await;
    // Another reason says nothing about what was done: a write is not sent twice.
    let write = peer.ask(Method::POST);
    let (at, stream) = peer.request().await;
    peer.say(at, frame(3, 0, stream, &2u32.to_be_bytes()));
    assert_eq!(write.await.unwrap().unwrap().unwrap_err(), Failure::Truncated);
}

#[tokio::test]
async fn stream_refusal_retries_are_bounded() {
    let peer = peer(9).await;
    let asked = peer.ask(Method::POST);
    for _ in 0..STREAM_TRIES {
        let (at, stream) = peer.request().await;
        peer.say(at, frame(3, 0, stream, &7u32.to_be_bytes()));
    }
    let failure = asked.await.unwrap().unwrap().unwrap_err();
    assert_eq!(failure, Failure::Unprocessed);
    assert!(failure.is_without_effect(), "a write that was refused each time was not done");
}

#[tokio::test]
async fn shut_connection_blocks_no_others() {
    let peer = peer(1).await;
    let first = peer.ask(Method::GET);
    let carried = peer.request().await;
    peer.state(0, limit(0)).await;
    // All that there is is shut: no other is opened at once.
    let second = peer.ask(Method::GET);
    peer.reply(carried);
    ok(first).await;
    assert_eq!(peer.alive(), 1);
    // Later another is tried, and more while one is shut and the others are full.
    peer.clock.suspend(REFUSED_CONNECTION_WAIT);
    let third = peer.ask(Method::GET);
    let requests = peer.requests(2).await;
    assert_eq!(per_connection(&requests), [1, 1]);
    assert!(requests.iter().all(|(at, _)| *at > 0), "{requests:?}");
    requests.into_iter().for_each(|request| peer.reply(request));
    ok(second).await;
    ok(third).await;
}

#[tokio::test]
async fn old_connections_are_replaced_gradually() {
    let peer = peer(1).await;
    assert_eq!(per_connection(&peer.serve(5).await), [1; 5]);
    peer.clock.suspend(CONNECTION_AGE);
    let connector = &peer.origin.sites[0].connector;
    connector.make_ready().await.unwrap();
    let before = peer.alive();
    peer.serve(5).await;
    until(|| peer.alive() == before - 1).await;
    // The others are still there, and go on with the successor.
    let mut used: Vec<_> = peer.serve(5).await.into_iter().map(|(at, _)| at).collect();
    used.sort_unstable();
    assert_eq!(used.len(), 5);
    assert_eq!(used[4], 5, "{used:?}");
    assert_eq!(peer.alive(), before - 1);
}

#[tokio::test]
async fn stream_is_held_until_body_ends() {
    let peer = peer(1).await;
    let opened = Tasks::new().spawn("opens", peer.origin.open(RegionId(0), outgoing(Method::PUT), WITHIN));
    let (at, stream) = peer.request().await;
    peer.say(at, frame(1, 4, stream, &[0x88]));
    let mut streamed = opened.await.unwrap().unwrap().unwrap();
    let second = peer.ask(Method::GET);
    let elsewhere = peer.request().await;
    assert_eq!((at, elsewhere.0), (0, 1));
    peer.say(at, frame(0, 1, stream, b"{}"));
    assert_eq!(streamed.body.next().await.unwrap().unwrap(), "{}");
    drop(streamed);
    let third = peer.ask(Method::GET);
    let reused = peer.request().await;
    assert_eq!(reused.0, 0);
    [elsewhere, reused].into_iter().for_each(|request| peer.reply(request));
    ok(second).await;
    ok(third).await;
}

#[tokio::test]
async fn abandoned_request_releases_its_stream() {
    let peer = peer(1).await;
    let asked = peer.ask(Method::GET);
    let (at, stream) = peer.request().await;
    asked.abort();
    while peer.see().await != (Seen::Reset { at, stream }) {}
    let next = peer.ask(Method::GET);
    let request = peer.request().await;
    assert_eq!(request.0, at);
    peer.reply(request);
    ok(next).await;
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let peer = peer(1).await;
    let asked: Vec<_> = (0..3).map(|_| peer.ask(Method::GET)).collect();
    let mut requests = peer.requests(3).await;
    let last = requests.pop().unwrap();
    requests.into_iter().for_each(|request| peer.reply(request));
    let pool = &peer.origin.sites[0].streams;
    until(|| asked.iter().filter(|asked| asked.is_finished()).count() == 2).await;
    peer.clock.suspend(IDLE_PER_REGION.1);
    pool.sweep();
    until(|| peer.alive() == 1).await;
    peer.reply(last);
    for asked in asked {
        ok(asked).await;
    }
    pool.sweep();
    assert_eq!(peer.alive(), 1, "it carried a reply just now");
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
