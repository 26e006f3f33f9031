//! Who writes through a sidecar reads what he wrote (R20), over real sockets: each region shows at
//! once what it took itself, and what another took only after its lag. Nothing is announced, so
//! that nothing but the write itself can tell.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use nearside::app;
use nearside::model::time::{Clock, Moment};
use nearside::tasks::Tasks;
use nearside_lab::chaos_server::port::{self, Port};

const PAIRS: u64 = 10_000;
const WRITERS: u64 = 16;
/// Lag of each region behind what the others took: some reads meet a region that has it already.
const LAGS: [Duration; 3] = [Duration::from_millis(900), Duration::from_millis(30), Duration::from_millis(300)];

/// A write: its version, who took it, and when.
#[derive(Clone, Copy)]
struct Written {
    version: u64,
    taken_by: usize,
    at: Moment,
}

/// Writes that any region has taken, by path.
#[derive(Default)]
struct Truth {
    written: Mutex<BTreeMap<String, Vec<Written>>>,
    versions: AtomicU64,
}

impl Truth {
    fn write(&self, path: &str, taken_by: usize) -> u64 {
        let mut written = self.written.lock().unwrap();
        let version = self.versions.fetch_add(1, Ordering::SeqCst) + 1;
        written.entry(path.to_owned()).or_default().push(Written { version, taken_by, at: Clock::System.now() });
        version
    }

    /// The newest version that a region shows; 0 for none.
    fn read(&self, path: &str, region: usize) -> u64 {
        let written = self.written.lock().unwrap();
        let now = Clock::System.now();
        written
            .get(path)
            .into_iter()
            .flatten()
            .filter(|it| it.taken_by == region || now.since(it.at) >= LAGS[region])
            .map(|it| it.version)
            .max()
            .unwrap_or_default()
    }
}

async fn answer(request: Request<Incoming>, truth: Arc<Truth>, region: usize) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let is_write = *request.method() == Method::PUT;
    // What is not read to its end would close the connection.
    let _ = request.into_body().collect().await;
    let version = if is_write { truth.write(&path, region) } else { truth.read(&path, region) };
    let status = if version == 0 { 404 } else { 200 };
    Response::builder()
        .status(status)
        .header("x-record-version", version.to_string())
        .body(Full::from(version.to_string()))
        .unwrap()
}

fn version(answer: &reqwest::Response) -> u64 {
    answer.headers().get("x-record-version").and_then(|text| text.to_str().ok()?.parse().ok()).unwrap_or_default()
}

/// So many writes, each followed by a read of the same path; how many of the reads said that they
/// may be old.
async fn write_and_read(base: String, writer: u64) -> u64 {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut labelled = 0;
    for pair in 0..PAIRS / WRITERS {
        let path = format!("{base}/v1/contexts/{writer}-{}", pair % 4);
        let put = client.put(&path).body("{}").send().await.unwrap();
        let (status, wrote) = (put.status(), version(&put));
        put.bytes().await.unwrap();
        let got = client.get(&path).send().await.unwrap();
        let (seen, line) = (version(&got), got.headers()["cache-status"].to_str().unwrap().to_owned());
        got.bytes().await.unwrap();
        assert!(status.is_success() && wrote > 0, "{status}");
        assert!(seen >= wrote, "{path}: {seen} after a write of {wrote}: {line}");
        labelled += u64::from(line.contains("detail=below-floor"));
    }
    labelled
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_after_writes_never_regress() {
    let (tasks, truth) = (Tasks::new(), Arc::new(Truth::default()));
    let mut text = String::from(
        "[listen]\ntcp = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[announcements]\ntransport = \"off\"\n\
         [drain]\nlinger = \"0s\"\n[service]\nname = \"contexts\"\n",
    );
    for region in 0..LAGS.len() {
        let (port, truth) = (Port::hold(0).unwrap(), truth.clone());
        text += &format!("[[service.region]]\nname = \"r{region}\"\nurl = \"http://{}\"\n", port.address());
        let serving = port::serve(port.listen().unwrap(), tasks.clone(), "connection", move |request| {
            answer(request, truth.clone(), region)
        });
        tasks.spawn("region", serving);
    }
    text += "[[service.route]]\npath = \"/v1/contexts/{key}\"\nrecords = [\"context:{key}\"]\n";
    let app = app::start(crate::program::read(&text)).await.unwrap();
    let base = format!("http://{}", app.tcp.unwrap());
    let started = Clock::System.now();
    let writers: Vec<_> =
        (0..WRITERS).map(|writer| tasks.spawn("writer", write_and_read(base.clone(), writer))).collect();
    let mut labelled = 0;
    for writer in writers {
        labelled += writer.await.unwrap().expect("no writer is cancelled");
    }
    println!("{PAIRS} pairs in {:?}, {labelled} of the reads labelled", Clock::System.now() - started);
    assert_eq!(labelled, 0, "the region that took the write was there all the time");
    app.stop().await;
    tasks.drain(Duration::from_secs(2)).await;
}
