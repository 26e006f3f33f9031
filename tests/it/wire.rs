//! Owns the fixture of the tests that count bytes: regions that answer exactly what a test says and
//! remember what they were asked, a sidecar before them, and a caller who sees raw heads.
//!
//! Before it: a test says what the regions answer. After it: the test asks, lets time pass, and
//! looks at both ends. Invariant: nothing between caller and region but the sidecar touches a byte;
//! time passes by [`Clock::suspend`], never by sleeping.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nearside::app::{self, App, Overrides};
use nearside::fill::effects::apply_actions;
use nearside::model::ids::{RecordId, RegionId, Version};
use nearside::model::time::{Clock, Wall};
use nearside::protocol::event::{Event, Says};
use nearside::tasks::Tasks;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

pub(crate) use message::{Message, connect_unix, exchange, read_message, request, rest};

mod message;

/// Longest wait for anything: far beyond what it takes, so that it only ends a test that has
/// failed.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Beginning of the tests' time.
const BEGIN: Wall = Wall::from_millis(1_800_000_000_000);

/// Reaction of a region to one request.
#[derive(Clone)]
pub(crate) enum Say {
    /// Writes these bytes and keeps the connection.
    Bytes(Vec<u8>),
    /// Writes these bytes and closes it.
    Last(Vec<u8>),
    /// Writes the first, waits for a permit, writes the second.
    Gated(Vec<u8>, Arc<Semaphore>, Vec<u8>),
}

/// A reply with these lines and this body, its length stated.
pub(crate) fn reply(status: u16, lines: &str, body: &str) -> Say {
    let mut head = format!("HTTP/1.1 {status} Whatever\r\n");
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        head.push_str(line);
        head.push_str("\r\n");
    }
    if status == 304 || status == 204 {
        return Say::Bytes(format!("{head}\r\n").into());
    }
    Say::Bytes(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into())
}

/// Reactions of a region, by the request.
pub(crate) type Script = Arc<dyn Fn(&Message) -> Say + Send + Sync>;

/// A region: a raw server.
pub(crate) struct Region {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Message>>>,
    script: Arc<Mutex<Script>>,
}

impl Region {
    /// Starts one that answers by `script`.
    pub(crate) async fn start(tasks: &Tasks, script: Script) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let region = Self { address, seen: Arc::default(), script: Arc::new(Mutex::new(script)) };
        let (seen, script) = (region.seen.clone(), region.script.clone());
        let (own, stopping) = (tasks.clone(), tasks.stopping());
        let accept = async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, script, stopping) = (seen.clone(), script.clone(), own.stopping());
                own.spawn("region-connection", async move {
                    stopping.run_until_cancelled(serve(stream, &seen, &script)).await;
                });
            }
        };
        tasks.spawn("region", async move { stopping.run_until_cancelled(accept).await });
        region
    }

    /// Its base URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests that it got, in order.
    pub(crate) fn seen(&self) -> Vec<Message> {
        self.seen.lock().unwrap().clone()
    }

    /// Answers so from now on.
    pub(crate) fn says(&self, script: impl Fn(&Message) -> Say + Send + Sync + 'static) {
        *self.script.lock().unwrap() = Arc::new(script);
    }
}

async fn serve(mut stream: TcpStream, seen: &Mutex<Vec<Message>>, script: &Mutex<Script>) {
    while let Some(request) = read_message(&mut stream, false).await {
        let script = script.lock().unwrap().clone();
        let says = script(&request);
        let head = request.method() == "HEAD";
        seen.lock().unwrap().push(request);
        let written = match says {
            Say::Bytes(bytes) => stream.write_all(without_body(&bytes, head)).await,
            Say::Last(bytes) => {
                let _gone = stream.write_all(without_body(&bytes, head)).await;
                let _gone = stream.shutdown().await;
                return;
            }
            Say::Gated(first, gate, second) => {
                let _gone = stream.write_all(&first).await;
                gate.acquire().await.expect("the gate stays").forget();
                stream.write_all(&second).await
            }
        };
        if written.is_err() {
            return;
        }
    }
}

/// The head alone, for HEAD.
fn without_body(bytes: &[u8], head: bool) -> &[u8] {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
    if head { &bytes[..end] } else { bytes }
}

/// Raw regions and a sidecar before them.
pub(crate) struct Wire {
    /// The regions, `r0`, `r1`...
    pub(crate) regions: Vec<Region>,
    /// The sidecar.
    pub(crate) app: App,
    /// Its time.
    pub(crate) clock: Clock,
    tasks: Tasks,
}

impl Wire {
    /// One region that answers by `script`, a sidecar without routes.
    pub(crate) async fn one(script: impl Fn(&Message) -> Say + Send + Sync + 'static) -> Self {
        Self::with(1, "", script).await
    }

    /// So many regions that answer by `script`, and `settings` as the configuration file has them.
    pub(crate) async fn with(
        regions: usize,
        settings: &str,
        script: impl Fn(&Message) -> Say + Send + Sync + 'static,
    ) -> Self {
        let (tasks, script): (_, Script) = (Tasks::new(), Arc::new(script));
        let mut all = Vec::new();
        for _ in 0..regions {
            all.push(Region::start(&tasks, script.clone()).await);
        }
        let text = configuration(&all, settings);
        let config = crate::program::read(&text);
        let clock = Clock::simulated(BEGIN);
        let app = app::start_with(config, Overrides { clock: clock.clone(), ..Overrides::default() }).await.unwrap();
        Self { regions: all, app, clock, tasks }
    }

    /// Time passes.
    pub(crate) fn pass(&self, span: Duration) {
        self.clock.suspend(span);
    }

    /// An HTTP date so many seconds from now.
    pub(crate) fn date(&self, seconds: i64) -> String {
        let wall = self.clock.wall().as_millis().checked_add_signed(seconds * 1000).unwrap();
        httpdate::fmt_http_date(Wall::from_millis(wall).to_system_time())
    }

    /// All requests that regions got, region by region.
    pub(crate) fn seen(&self) -> Vec<Message> {
        self.regions.iter().flat_map(Region::seen).collect()
    }

    /// The newest request that a region got.
    pub(crate) fn last_seen(&self) -> Message {
        self.seen().pop().expect("a region was asked")
    }

    /// Every region answers so from now on.
    pub(crate) fn says(&self, script: impl Fn(&Message) -> Say + Send + Sync + 'static) {
        let script: Script = Arc::new(script);
        for region in &self.regions {
            *region.script.lock().unwrap() = script.clone();
        }
    }

    /// Every region answers with this reply from now on.
    pub(crate) fn says_always(&self, say: Say) {
        self.says(move |_| say.clone());
    }

    /// A connection to the sidecar.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.app.tcp.unwrap()).await.unwrap()
    }

    /// A GET with these header lines.
    pub(crate) async fn get(&self, target: &str, lines: &[&str]) -> Message {
        self.ask("GET", target, lines, b"").await
    }

    /// A request with these header lines, on a connection of its own. A body's length is stated.
    pub(crate) async fn ask(&self, method: &str, target: &str, lines: &[&str], body: &[u8]) -> Message {
        let mut stream = self.connect().await;
        let request = request(method, target, lines, body);
        exchange(&mut stream, &request, method == "HEAD").await.expect("an answer")
    }

    /// Resolves once no fill is under way, and none is about to begin.
    pub(crate) async fn idle(&self) {
        until(|| {
            let running = self.app.sidecar.fill.shared.tasks.running();
            !running.contains_key("fill") && !running.contains_key("refetch")
        })
        .await;
    }

    /// Resolves once a region has been asked.
    pub(crate) async fn asked(&self) {
        until(|| !self.seen().is_empty()).await;
    }

    /// A message without content from every region's topic: proof that the way is open.
    pub(crate) fn prove(&self) {
        for region in (0u8..).map(RegionId).take(self.regions.len()) {
            self.hear(region, Says::Unrouted);
        }
    }

    /// Every region is LIVE and has been for longer than `worst_lag`.
    pub(crate) fn live(&self) {
        for region in (0u8..).map(RegionId).take(self.regions.len()) {
            self.step(Event::Subscribing(region));
            self.step(Event::Subscribed(region));
        }
        self.pass_live(Duration::from_secs(120));
    }

    /// Time passes while every region keeps proving that its announcements arrive.
    pub(crate) fn pass_live(&self, span: Duration) {
        let mut left = span;
        self.prove();
        while !left.is_zero() {
            let step = left.min(Duration::from_secs(9));
            self.pass(step);
            self.prove();
            left -= step;
        }
    }

    /// `region`'s topic says this now.
    pub(crate) fn hear(&self, region: RegionId, says: Says) {
        let published = self.clock.wall();
        self.step(Event::Message { region, published, queued: None, numbered: None, says });
    }

    /// The first region announces a change.
    pub(crate) fn announce(&self, record_type: &str, key: &str, version: Option<u64>) {
        self.hear(RegionId(0), Says::Changed(self.record(record_type, key), version.map(Version)));
    }

    /// A record's id.
    pub(crate) fn record(&self, record_type: &str, key: &str) -> RecordId {
        self.app.sidecar.fill.shared.keyed_hashes.record(record_type, key).expect("a type that a route names")
    }

    fn step(&self, event: Event) {
        let sidecar = &self.app.sidecar;
        apply_actions(&sidecar.fill, sidecar.fill.shared.freshness.step(self.clock.now(), self.clock.wall(), event));
    }

    /// An admin page.
    pub(crate) async fn page(&self, path: &str) -> Message {
        let mut stream = TcpStream::connect(self.app.admin).await.unwrap();
        exchange(&mut stream, &request("GET", path, &[], b""), false).await.expect("an answer")
    }

    /// Stops the sidecar, then the regions; nothing may be left over.
    pub(crate) async fn end(self) {
        let stopped = self.app.stop().await;
        assert!(stopped.late.is_empty(), "{stopped:?}");
        assert!(self.tasks.drain(TIMEOUT).await.is_empty());
    }
}

async fn until(mut holds: impl FnMut() -> bool) {
    let looking = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, looking).await.expect("it comes to hold");
}

/// A configuration file over `regions`.
pub(crate) fn configuration(regions: &[Region], settings: &str) -> String {
    let defaults = [
        ("listen.tcp", "listen.tcp = \"127.0.0.1:0\"\n"),
        ("admin.listen", "admin.listen = \"127.0.0.1:0\"\n"),
        ("announcements.transport", "announcements.transport = \"off\"\n"),
        ("drain.linger", "drain.linger = \"0s\"\n"),
    ];
    let mut text: String =
        defaults.iter().filter(|(name, _)| !settings.contains(name)).map(|(_, line)| *line).collect();
    let (plain, tables) = settings.split_at(settings.find("[[").unwrap_or(settings.len()));
    text.push_str(plain);
    text.push('\n');
    for (place, region) in regions.iter().enumerate() {
        let url = region.url();
        text.push_str(&format!("\n[[service.region]]\nname = \"r{place}\"\nurl = \"{url}\"\n"));
    }
    text + tables
}
