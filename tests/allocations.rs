//! What a hit takes of the allocator, from the caller's first byte to the answer's last, hyper and the runtime included.
//!
//! One thread does all of it, and counts its own allocations; the caller uses two buffers again and again. The figure is
//! the least of several rounds: whatever else the process does now and then (a tick, moka's maintenance) only adds.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http::{HeaderValue, StatusCode, header};
use nearside::app::{self, Instead};
use nearside::clock::Clock;
use nearside::config::read;
use nearside::freshness::event::{Event, Says};
use nearside::freshness::words::{RegionId, Version};
use nearside::origin::reply::{Failure, Origin, Outgoing, Reply};
use nearside::serve::Sidecar;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Allocations of a hundred hits: one each, and what comes once in a while.
const PER_HUNDRED_HITS: u64 = 102;

const CONFIG: &str = r#"
service.name = "contexts"
[[service.region]]
name = "a"
url = "http://127.0.0.1:1"
[[service.route]]
path = "/v1/contexts/{key}/{view}"
records = ["context:{key}"]
[listen]
tcp = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[drain]
linger = "0s"
[announcements]
transport = "off"
"#;
const REQUEST: &str = "GET /v1/contexts/tenant-4711/full HTTP/1.1\r\nhost: localhost:8700\r\naccept: application/json\r\n\
                       accept-encoding: gzip, deflate, br\r\nuser-agent: python-requests/2.32\r\n\
                       authorization: Bearer 0123456789abcdef0123456789abcdef\r\n\r\n";
const BODY_BYTES: usize = 1024;

/// A region that answers at once with 1 KiB and the usual headers.
struct Ready(Clock);

impl Origin for Ready {
    fn ask(&self, region: RegionId, _: Arc<Outgoing>, _: Duration) -> BoxFuture<'static, Result<Reply, Failure>> {
        let (now, wall) = (self.0.now(), self.0.wall());
        let lines = [
            (header::CONTENT_TYPE, "application/json"),
            (header::ETAG, "\"5\""),
            (header::CACHE_CONTROL, "max-age=60"),
            (header::DATE, "Fri, 15 Jan 2027 08:00:00 GMT"),
        ];
        let reply = Reply {
            region,
            status: StatusCode::OK,
            headers: lines.map(|(name, value)| (name, HeaderValue::from_static(value))).into_iter().collect(),
            body: Bytes::from(vec![b'x'; BODY_BYTES]),
            versions: vec![Version(5)],
            sent: now,
            sent_wall: wall,
            received: now,
        };
        async move { Ok(reply) }.boxed()
    }
}

/// The one region is LIVE.
fn speak(sidecar: &Sidecar) {
    let region = RegionId(0);
    let published = sidecar.clock.wall();
    let message = Event::Message { region, published, queued: None, numbered: None, says: Says::Unrouted };
    for event in [Event::Subscribing(region), Event::Subscribed(region), message] {
        sidecar.freshness.step(sidecar.clock.now(), published, event);
    }
}

/// Asks once; `answer` holds what came.
async fn ask(stream: &mut TcpStream, answer: &mut [u8]) -> usize {
    stream.write_all(REQUEST.as_bytes()).await.expect("the sidecar listens");
    let mut length = 0;
    loop {
        let read = stream.read(&mut answer[length..]).await.expect("the sidecar answers");
        assert!(read > 0, "the connection ended");
        length += read;
        let head = answer[..length].windows(4).position(|bytes| bytes == b"\r\n\r\n");
        if head.is_some_and(|head| length >= head + 4 + BODY_BYTES) {
            return length;
        }
    }
}

#[test]
fn a_hundred_hits_allocate_no_more_than_is_stated() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut answer = vec![0; 4096];
    let (app, mut stream) = runtime.block_on(async {
        let instead = Instead { origin: Some(Arc::new(Ready(Clock::System))), ..Instead::default() };
        let app = app::start_with(read::from_toml(CONFIG).unwrap(), instead).await.unwrap();
        speak(&app.sidecar);
        let mut stream = TcpStream::connect(app.tcp.unwrap()).await.unwrap();
        ask(&mut stream, &mut answer).await;
        // One region is all regions: they agree as soon as the fill's task has run.
        while app.sidecar.fills.under_way() > 0 {
            tokio::task::yield_now().await;
        }
        let length = ask(&mut stream, &mut answer).await;
        let text = String::from_utf8_lossy(&answer[..length]);
        assert!(text.contains("cache-status: nearside; hit; ttl=") && !text.contains("detail="), "{text}");
        (app, stream)
    });
    let round = |stream: &mut TcpStream, answer: &mut [u8]| {
        let hits = async {
            for _ in 0..100 {
                ask(stream, answer).await;
            }
        };
        allocation_counter::measure(|| runtime.block_on(hits)).count_total
    };
    let least = (0..10).map(|_| round(&mut stream, &mut answer)).min();
    assert!(least.is_some_and(|least| least <= PER_HUNDRED_HITS), "{least:?} allocations in a hundred hits");
    drop(stream);
    runtime.block_on(app.stop());
}
