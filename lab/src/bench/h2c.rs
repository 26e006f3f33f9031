//! Load over HTTP/2 in plain text: one connection with many requests in flight, every reply checked
//! and timed. It runs on one thread, and counts each sent request once, as answered or as failed.
//! hyper does the frames and the header compression, so this generator costs more than
//! [`super::load`]: compare the server's CPU time, not the rate.

use std::cell::RefCell;
use std::io;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use nearside::model::time::{Clock, Moment};
use nearside::tasks::Tasks;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{self, Runtime};

use super::http1::{RawReply, proves};
use super::load::{BenchRequest, Counted, LoadError};
use super::pace::{End, LoadPace, Schedule};
use super::paths::Paths;
use super::subject::{Address, Proof};
use crate::limits;

type Sender = SendRequest<Empty<Bytes>>;

/// A connection to one server.
pub(super) struct Streams {
    address: Address,
    runtime: Runtime,
    tasks: Tasks,
    sender: Sender,
    streams: usize,
    ask: BenchRequest,
    headers: HeaderMap,
}

/// State that all streams of a run share.
struct Shared<'a> {
    schedule: Schedule,
    counted: Counted,
    ask: &'a mut BenchRequest,
    headers: &'a HeaderMap,
    path: Vec<u8>,
    last: Moment,
    under_way: u64,
}

impl Streams {
    pub(super) fn open(address: &Address, streams: usize, ask: BenchRequest) -> Result<Self, LoadError> {
        let tasks = Tasks::new();
        let (runtime, sender) =
            connected(address, &tasks).map_err(|error| LoadError::Connect { address: address.clone(), error })?;
        let headers = ask.headers.lines().filter_map(field).collect();
        Ok(Self { address: address.clone(), runtime, tasks, sender, streams, ask, headers })
    }

    /// From now on, asks for other paths.
    pub(super) fn ask_for(&mut self, paths: Paths) {
        self.ask.paths = paths;
    }

    /// Sends until `end`, then waits for the outstanding replies.
    pub(super) fn run(&mut self, pace: LoadPace, end: End) -> Result<Counted, LoadError> {
        if self.sender.is_closed() {
            self.sender = self
                .runtime
                .block_on(connect(&self.address, &self.tasks))
                .map_err(|error| LoadError::Connect { address: self.address.clone(), error })?;
        }
        let start = Clock::System.now();
        let shared = RefCell::new(Shared {
            schedule: Schedule::new(pace, end, start),
            counted: Counted::default(),
            ask: &mut self.ask,
            headers: &self.headers,
            path: Vec::new(),
            last: start,
            under_way: 0,
        });
        self.runtime.block_on(async {
            let mut streams: FuturesUnordered<_> =
                (0..self.streams).map(|_| stream(self.sender.clone(), &shared)).collect();
            // A stream that gets no answer never ends, so this watch checks whether any stream was
            // answered lately.
            let mut watch = tokio::time::interval(limits::BENCH_ANSWER_WAIT / 4);
            loop {
                tokio::select! {
                    biased;
                    ended = streams.next() => if ended.is_none() { break },
                    _ = watch.tick() => {
                        let shared = shared.borrow();
                        let silent = Clock::System.now().since(shared.last) > limits::BENCH_ANSWER_WAIT;
                        if silent && shared.under_way > 0 { break }
                    }
                }
            }
        });
        let Shared { schedule, mut counted, last, under_way, .. } = shared.into_inner();
        (0..under_way).for_each(|_| counted.fail(|| "a request was not answered".to_owned()));
        counted.failures += schedule.given_up;
        counted.took = last.since(start);
        Ok(counted)
    }
}

fn connected(address: &Address, tasks: &Tasks) -> io::Result<(Runtime, Sender)> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let sender = runtime.block_on(connect(address, tasks))?;
    Ok((runtime, sender))
}

async fn connect(address: &Address, tasks: &Tasks) -> io::Result<Sender> {
    match address {
        Address::Tcp(address) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            handshake(stream, tasks).await
        }
        Address::Unix(path) => handshake(UnixStream::connect(path).await?, tasks).await,
    }
}

async fn handshake<S>(stream: S, tasks: &Tasks) -> io::Result<Sender>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new(tasks.clone());
    // Large windows, so that no reply has to wait for a window update from the generator.
    builder.initial_stream_window_size(limits::BENCH_WINDOW_BYTES);
    builder.initial_connection_window_size(limits::BENCH_WINDOW_BYTES);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // The streams that send on it notice its end.
    tasks.spawn("h2c", async move { drop(connection.await) });
    Ok(sender)
}

/// Sends one request after another; one such task runs per request in flight.
async fn stream(mut sender: Sender, shared: &RefCell<Shared<'_>>) {
    /// The runtime's timers wake too late, so the last 2 ms are spent yielding.
    const EARLY: std::time::Duration = std::time::Duration::from_millis(2);
    loop {
        let now = Clock::System.now();
        let (due, wait) = shared.borrow_mut().take(now);
        let (since, request) = match (due, wait) {
            (Some(due), _) => due,
            (None, None) => return,
            (None, Some(wait)) if wait > EARLY => {
                tokio::time::sleep(wait - EARLY).await;
                continue;
            }
            (None, Some(_)) => {
                tokio::task::yield_now().await;
                continue;
            }
        };
        let proof = shared.borrow().ask.proof.clone();
        let answered = exchange(&mut sender, request, &proof).await;
        let mut shared = shared.borrow_mut();
        let now = Clock::System.now();
        shared.under_way -= 1;
        shared.last = now;
        match answered {
            Ok(reply) => shared.answered(&reply, now.since(since)),
            Err(error) => shared.counted.fail(|| error.to_string()),
        }
        if sender.is_closed() {
            // The other streams fail what is left of the run, and the next run connects again.
            return;
        }
    }
}

impl Shared<'_> {
    /// The next request, or how long to wait for it; neither when the run is over.
    #[expect(clippy::type_complexity, reason = "it is read in one place")]
    fn take(&mut self, now: Moment) -> (Option<(Moment, Request<Empty<Bytes>>)>, Option<std::time::Duration>) {
        let Some(since) = self.schedule.take(now) else {
            let over = self.schedule.over(now);
            return (None, (!over).then(|| self.schedule.wait(now).unwrap_or_default()));
        };
        self.under_way += 1;
        self.path.clear();
        self.path.extend_from_slice(b"http://");
        self.path.extend_from_slice(self.ask.host.as_bytes());
        self.ask.paths.write(&mut self.path);
        let mut request = Request::new(Empty::new());
        // An invalid path is asked for as `/`, and the answer shows what is wrong with it.
        *request.uri_mut() = Uri::try_from(self.path.as_slice()).unwrap_or_default();
        request.headers_mut().clone_from(self.headers);
        (Some((since, request)), None)
    }

    fn answered(&mut self, reply: &RawReply, latency: std::time::Duration) {
        self.counted.take(reply, self.ask, latency);
    }
}

async fn exchange(sender: &mut Sender, request: Request<Empty<Bytes>>, proof: &Proof) -> hyper::Result<RawReply> {
    let response = sender.send_request(request).await?;
    let mut fields = response.headers().iter();
    let proven = *proof == Proof::Always
        || fields.any(|(name, value)| proves(proof, name.as_str().as_bytes(), value.as_bytes()));
    let mut reply = RawReply { status: response.status().as_u16(), proven, ..RawReply::default() };
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        reply.body_bytes += frame?.data_ref().map_or(0, |data| data.len() as u64);
    }
    Ok(reply)
}

/// Parses `name: value`; `None` if the line is not a header.
fn field(line: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_once(':')?;
    Some((name.trim().parse().ok()?, value.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use http::Response;
    use http_body_util::Full;
    use hyper::server::conn::http2;
    use hyper::service::service_fn;

    use super::*;

    /// Answers every request with 2 bytes and returns its header `x-say` as `x-said`, for ever;
    /// `/never` gets no answer.
    fn server() -> Address {
        let (reported, address) = std::sync::mpsc::channel();
        std::thread::Builder::new().spawn(move || serve(&reported)).unwrap();
        Address::Tcp(address.recv().unwrap())
    }

    fn serve(reported: &std::sync::mpsc::Sender<std::net::SocketAddr>) {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            reported.send(listener.local_addr().unwrap()).unwrap();
            let tasks = Tasks::new();
            while let Ok((stream, _)) = listener.accept().await {
                let served =
                    http2::Builder::new(tasks.clone()).serve_connection(TokioIo::new(stream), service_fn(answer));
                tasks.spawn("served", async move { drop(served.await) });
            }
        });
    }

    async fn answer(request: Request<hyper::body::Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let mut response = Response::new(Full::new(Bytes::from_static(b"ok")));
        if let Some(said) = request.headers().get("x-say") {
            response.headers_mut().insert("x-said", said.clone());
        }
        if request.uri().path() == "/never" {
            std::future::pending::<()>().await;
        }
        Ok(response)
    }

    fn ask(path: &str, headers: &str) -> BenchRequest {
        let proof = Proof::Header { name: "x-said".to_owned(), contains: "HIT".to_owned() };
        BenchRequest { headers: headers.to_owned(), proof, ..BenchRequest::new(Paths::Fixed(path.to_owned()), 2) }
    }

    #[test]
    fn each_request_answered_once_with_proof() {
        let server = server();
        let mut streams = Streams::open(&server, 16, ask("/a", "x-say: hit\r\n")).unwrap();
        let counted = streams.run(LoadPace::Closed, End::Requests(1000)).unwrap();
        assert_eq!((counted.answered, counted.proven, counted.failures), (1000, 1000, 0));
        let mut unproven = Streams::open(&server, 1, ask("/a", "x-say: miss\r\n")).unwrap();
        let counted = unproven.run(LoadPace::Closed, End::Requests(10)).unwrap();
        assert_eq!((counted.answered, counted.proven), (10, 0));
    }

    #[test]
    fn open_loop_sends_only_due_requests() {
        let mut streams = Streams::open(&server(), 4, ask("/a", "")).unwrap();
        let counted =
            streams.run(LoadPace::Open { per_second: 2000.0 }, End::After(Duration::from_millis(100))).unwrap();
        assert_eq!((counted.answered, counted.failures), (200, 0));
    }

    #[test]
    fn missing_server_is_named() {
        let nobody = Address::Tcp(([127, 0, 0, 1], 1).into());
        let error = Streams::open(&nobody, 1, ask("/a", "")).err().unwrap();
        assert!(error.to_string().starts_with("127.0.0.1:1 could not be connected to"), "{error}");
    }
}
