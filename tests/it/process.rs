//! The program's start and end, as a person, a shell or a container's runtime meets them: bad
//! surroundings at the start, signals under load at the end.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use nearside::config::TopicArn;
use nearside::model::time::Clock;
use nearside::tasks::Tasks;
use nearside_lab::chaos_server::chaos::Latency;
use rustix::process::Signal;
use serde_json::Value;
use tokio::net::TcpStream;

use super::emulator::{Emulator, REGIONS};
use super::program::{self, Program, TIMEOUT, get, settings, text};
use crate::world::World;

/// URL at which nobody listens.
fn nowhere() -> String {
    format!("http://{}", nearside_lab::loopback::address().unwrap())
}

/// The world's regions as a sidecar's settings name them.
fn regions(world: &World) -> Vec<(String, String)> {
    world.regions.iter().map(|region| (region.name.clone(), region.url())).collect()
}

fn reported<'a>(regions: &'a [(String, String)], topics: &'a [TopicArn]) -> Vec<(&'a str, &'a str, &'a str)> {
    let arns = topics.iter().map(|topic| topic.arn.as_str()).chain(std::iter::repeat(""));
    regions.iter().zip(arns).map(|((name, url), arn)| (name.as_str(), url.as_str(), arn)).collect()
}

const SILENT: &str = "[announcements]\ntransport = \"off\"\n";

#[tokio::test]
async fn port_in_use_names_its_setting() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nearside.toml");
    for (setting, text_of) in [
        ("listen.tcp", format!("[listen]\ntcp = \"{address}\"\n")),
        ("admin.listen", format!("[listen]\ntcp = \"127.0.0.1:0\"\n{SILENT}")),
    ] {
        let mut settings = settings("taken", &[("eu", &nowhere(), "")], &text_of);
        if setting == "admin.listen" {
            settings =
                settings.replace("[admin]\nlisten = \"127.0.0.1:0\"", &format!("[admin]\nlisten = \"{address}\""));
        }
        std::fs::write(&file, settings).unwrap();
        let output = program::run(&["run", "--config", program::path(&file)]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        let reported: Vec<&str> = said.lines().filter(|line| line.starts_with("nearside: ")).collect();
        assert_eq!(reported.len(), 1, "{said}");
        assert!(reported[0].contains(&format!("{address} is in use")) && reported[0].contains(setting), "{said}");
    }
}

#[tokio::test]
async fn missing_token_file_stops_start() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nearside.toml");
    let listen = "[listen]\ntcp = \"127.0.0.1:0\"\ntoken_file = \"/no/such/token\"\n";
    std::fs::write(&file, settings("token", &[("eu", &nowhere(), "")], listen)).unwrap();
    let output = program::run(&["run", "--config", program::path(&file)]);
    assert_eq!(output.status.code(), Some(2));
    let reported = text(&output.stderr);
    assert!(reported.lines().next().unwrap().contains("the token file /no/such/token cannot be read"), "{reported}");
}

#[tokio::test]
async fn unreachable_region_logs_one_line() {
    let world = World::builder().regions(2).records(10).start().await.unwrap();
    let mut regions = regions(&world);
    regions.push(("ap-southeast-2".to_owned(), nowhere()));
    let mut program = Program::start(&settings("unreachable", &reported(&regions, &[]), SILENT)).await;
    let line = program.line(|line| line["level"] == "WARN" && line["region"] == "ap-southeast-2").await;
    let message = line["message"].as_str().unwrap();
    assert!(message.starts_with("the region cannot be reached"), "{line}");
    assert!(line["error"].as_str().unwrap().contains("refused"), "{line}");
    let (status, _) = get(&format!("http://{}/v1/contexts/tenant-1", program.tcp)).await;
    assert_eq!(status, 200);
    assert_eq!(program.page("/readyz").await.0, 200);
    program.signal(Signal::TERM);
    assert!(program.ended().await.success());
    let lines = program.lines();
    let warned = lines.iter().filter(|line| line.contains("cannot be reached")).count();
    assert_eq!(warned, 1, "once, not with every try: {lines:#?}");
}

#[tokio::test]
async fn start_without_aws_keeps_soft_ttl() {
    let world = World::builder().records(10).start().await.unwrap();
    let topics: Vec<TopicArn> =
        REGIONS.iter().map(|name| format!("arn:aws:sns:{name}:123456789012:contexts").parse().unwrap()).collect();
    let aws = format!("[announcements]\nendpoint_url = \"{}\"\n[drain]\nlinger = \"0s\"\n", nowhere());
    let mut program = Program::start(&settings("no-aws", &reported(&regions(&world), &topics), &aws)).await;
    let line = program.line(|line| line["level"] == "WARN" && line["topic"] == topics[0].arn).await;
    let message = line["message"].as_str().unwrap();
    assert!(message.starts_with("not subscribed; ") && message.contains("endpoint_url"), "{line}");
    assert_eq!(program.json("/readyz").await["state"], "warming");

    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let url = format!("http://{}/v1/contexts/tenant-1", program.tcp);
    let mut label = String::new();
    for _ in 0..2 {
        let answer = client.get(&url).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        label = answer.headers()["cache-status"].to_str().unwrap().to_owned();
    }
    assert!(label.starts_with("nearside; hit"), "{label}");
    program.signal(Signal::TERM);
    assert!(program.ended().await.success());
}

/// Command that has no credentials of AWS.
fn uncredentialed(args: &[&str]) -> Command {
    let mut command = program::command(args);
    command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
    command
}

/// Number of findings that credentials are missing.
fn without_credentials(findings: &Value) -> usize {
    let access = findings.as_array().into_iter().flatten().filter(|finding| finding["check"] == "access");
    let named = access.filter(|finding| says(finding, "saw", "no usable credentials"));
    named.filter(|finding| says(finding, "advice", "a task role")).count()
}

fn says(finding: &Value, part: &str, text: &str) -> bool {
    finding[part].as_str().is_some_and(|it| it.contains(text))
}

#[tokio::test]
async fn missing_credentials_are_reported_everywhere() {
    let world = World::builder().records(10).start().await.unwrap();
    let topics: Vec<TopicArn> =
        REGIONS.iter().map(|name| format!("arn:aws:sns:{name}:123456789012:contexts").parse().unwrap()).collect();
    // Nothing is sent to AWS: calls are not made that cannot be signed.
    let written = settings("no-credentials", &reported(&regions(&world), &topics), "[drain]\nlinger = \"0s\"\n");
    let mut program = Program::start_by(&written, uncredentialed).await;
    program.line(|line| line["message"].as_str().is_some_and(|text| text.contains("AWS_ACCESS_KEY_ID"))).await;
    program.until("/status", |status| without_credentials(&status["findings"]) == 3).await;
    let ready = program.json("/readyz").await;
    assert!(ready["reasons"].to_string().contains("no usable credentials"), "{ready}");

    let file = program.file();
    let order = ["doctor", "--config", file.to_str().unwrap(), "--listen", "1s", "--json"];
    let reported = uncredentialed(&order).output().unwrap();
    let lines: Value = serde_json::from_slice(&reported.stdout).unwrap();
    assert!(reported.status.code() == Some(1) && without_credentials(&lines) == 3, "{lines:#}");
    program.signal(Signal::TERM);
    assert!(program.ended().await.success());
}

#[tokio::test]
async fn rejected_message_is_logged_with_id() {
    let world = World::builder().regions(1).start().await.unwrap();
    let (region, base) = (&world.regions[0], &world.aws.base);
    let rest = format!(
        "[drain]\nlinger = \"0s\"\n[announcements]\nendpoint_url = \"{base}\"\ninsecure_sns_signer = \"{}\"\n",
        nowhere()
    );
    let reported = [(region.name.as_str(), &*region.url(), region.publisher.topic())];
    let mut program = Program::start(&settings("misspelt", &reported, &rest)).await;
    let line = program.line(|line| line["message"] == "an announcement was rejected").await;
    assert_eq!(
        (&line["region"], &line["certificate_at"]),
        (&region.name.as_str().into(), &(**base).into()),
        "{line}"
    );
    assert!(line["message_id"].as_str().is_some_and(|id| id.len() == 36), "{line}");
    assert!(line["insecure_sns_signer"].as_str().is_some_and(|it| it.starts_with("http://127.0.0.1:")), "{line}");
    program.signal(Signal::TERM);
    assert!(program.ended().await.success());
}

#[tokio::test]
async fn queues_carry_configured_tags_and_key() {
    let world = World::builder().regions(1).start().await.unwrap();
    let (region, base) = (&world.regions[0], &world.aws.base);
    let rest = format!(
        "[drain]\nlinger = \"0s\"\n[announcements]\nendpoint_url = \"{base}\"\ninsecure_sns_signer = \"{base}\"\n\
         queue_tags = [\"team=contexts\"]\nqueue_kms_key = \"alias/queues\"\n"
    );
    let reported = [(region.name.as_str(), &*region.url(), region.publisher.topic())];
    let mut program = Program::start(&settings("tagged", &reported, &rest)).await;
    program.until("/readyz", |page| page["state"] == "fresh").await;
    let names = world.aws.queues.names(&region.name, "nearside-tagged-");
    let queue = world.aws.queues.find(&region.name, &names[0]).unwrap();
    assert_eq!((names.len(), &*queue.tags()["team"], &*queue.tags()["service"]), (1, "contexts", "tagged"));
    assert_eq!(queue.attributes()["KmsMasterKeyId"], "alias/queues");
    program.signal(Signal::TERM);
    assert!(program.ended().await.success());
}

#[tokio::test]
async fn second_signal_ends_process_at_once() {
    for (first, second) in [(Signal::TERM, Signal::TERM), (Signal::INT, Signal::TERM), (Signal::TERM, Signal::INT)] {
        let linger = format!("{SILENT}[drain]\nlinger = \"300s\"\n");
        let mut program = Program::start(&settings("twice", &[("eu", &nowhere(), "")], &linger)).await;
        program.signal(first);
        program.line(|line| line["message"].as_str().unwrap().starts_with("stopping")).await;
        assert_eq!(program.page("/readyz").await.0, 503, "the first lets it linger");
        program.signal(second);
        program.ended().await;
        assert!(program.lines().last().unwrap().contains("asked to stop twice"));
    }
}

#[tokio::test]
async fn sigint_stops_orderly_and_removes_socket() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nearside.sock");
    let rest =
        format!("{SILENT}[drain]\nlinger = \"0s\"\n[listen]\ntcp = false\nunix = \"{}\"\n", program::path(&socket));
    let mut program = Program::start(&settings("interrupt", &[("eu", &nowhere(), "")], &rest)).await;
    assert!(socket.exists());
    program.signal(Signal::INT);
    assert_eq!(program.ended().await.code(), Some(0));
    assert!(program.lines().last().unwrap().contains("\"stopped\""), "{:#?}", program.lines());
    assert!(!socket.exists());
}

/// Counts of the callers' requests and answers.
#[derive(Default)]
struct Tally {
    sent: AtomicU64,
    answered: AtomicU64,
    goodbyes: AtomicU64,
    stop_requested: AtomicBool,
    failures: std::sync::Mutex<Vec<String>>,
}

impl Tally {
    fn fail(&self, what: impl std::fmt::Display) {
        self.failures.lock().unwrap().push(what.to_string());
    }

    async fn until_answered(&self, count: u64) {
        let came = async {
            while self.answered.load(Ordering::Acquire) < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, came).await.expect("the load runs");
    }

    fn goes_on(&self) -> bool {
        !self.stop_requested.load(Ordering::Acquire)
    }

    fn note(&self, answer: Result<(StatusCode, usize), hyper::Error>) {
        match answer {
            Ok((status, length)) if status == 200 && length > 0 => drop(self.answered.fetch_add(1, Ordering::AcqRel)),
            Ok((status, length)) => self.fail(format!("{status} with {length} bytes")),
            Err(error) => self.fail(format!("{error:?}")),
        }
    }
}

/// A request for any of the records.
fn any_record(address: SocketAddr) -> Request<Empty<Bytes>> {
    let uri = format!("http://{address}/v1/contexts/tenant-{}", fastrand::u32(1..=5_000));
    Request::get(uri).header(header::HOST, address.to_string()).body(Empty::new()).unwrap()
}

async fn read(response: http::Response<hyper::body::Incoming>) -> Result<(StatusCode, usize), hyper::Error> {
    let status = response.status();
    Ok((status, response.into_body().collect().await?.to_bytes().len()))
}

/// An application with one HTTP/1.1 connection, which it keeps until a response closes it.
async fn keep_alive(address: SocketAddr, tally: Arc<Tally>, tasks: Tasks) {
    while tally.goes_on() {
        let stream = match TcpStream::connect(address).await {
            Ok(stream) => stream,
            Err(error) => return tally.fail(format!("refused: {error}")),
        };
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tasks.spawn("caller", connection);
        while tally.goes_on() {
            tally.sent.fetch_add(1, Ordering::AcqRel);
            let response = match sender.send_request(any_record(address)).await {
                Ok(response) => response,
                Err(error) => return tally.fail(format!("h1: {error:?}")),
            };
            let goodbye = response.headers().get(header::CONNECTION).is_some_and(|value| value == "close");
            tally.note(read(response).await);
            if goodbye {
                tally.goodbyes.fetch_add(1, Ordering::AcqRel);
                break;
            }
        }
    }
}

/// Asks on an HTTP/2 connection, each time when the last answer is read, until either ends.
async fn one_after_another(mut sender: http2::SendRequest<Empty<Bytes>>, address: SocketAddr, tally: &Tally) {
    while tally.goes_on() && sender.ready().await.is_ok() {
        match sender.send_request(any_record(address)).await {
            Err(error) if was_not_taken(&error) => return,
            Err(error) => return tally.fail(format!("h2: {error:?}")),
            Ok(response) => {
                tally.sent.fetch_add(1, Ordering::AcqRel);
                tally.note(read(response).await);
            }
        }
    }
}

/// An application with one HTTP/2 connection and several requests on it at once; a GOAWAY makes it
/// open another.
async fn multiplexed(address: SocketAddr, tally: Arc<Tally>, tasks: Tasks) {
    while tally.goes_on() {
        let stream = match TcpStream::connect(address).await {
            Ok(stream) => stream,
            Err(error) => return tally.fail(format!("refused: {error}")),
        };
        let (sender, connection) = http2::handshake(tasks.clone(), TokioIo::new(stream)).await.unwrap();
        tasks.spawn("caller", connection);
        join_all((0..4).map(|_| one_after_another(sender.clone(), address, &tally))).await;
        if tally.goes_on() {
            tally.goodbyes.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// A GOAWAY came first: the request was not taken, and any client sends it again over another
/// connection (RFC 9113, 6.8). hyper tells it by its cause only.
fn was_not_taken(error: &hyper::Error) -> bool {
    format!("{error:?}").contains("GoAway(b\"\", NO_ERROR, Remote)") || error.is_canceled()
}

/// Queues and subscriptions of `service` on `topics`, in all regions.
pub(crate) async fn in_aws(service: &str, topics: &[TopicArn]) -> (usize, usize) {
    let (mut queues, mut subscriptions) = (0, 0);
    for topic in topics {
        let (sqs, sns) = (Emulator::shared().sqs(&topic.region), Emulator::shared().sns(&topic.region));
        let listed = sqs.list_queues().queue_name_prefix(format!("nearside-{service}-")).send().await.unwrap();
        queues += listed.queue_urls().len();
        let listed = sns.list_subscriptions_by_topic().topic_arn(&topic.arn).send().await.unwrap();
        subscriptions += listed.subscriptions().len();
    }
    (queues, subscriptions)
}

const LINGER: Duration = Duration::from_secs(3);
const DEADLINE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_under_load_loses_no_request() {
    let emulator = Emulator::shared();
    let world = World::builder().records(5_000).latency(Latency::millis(10, 5)).start().await.unwrap();
    let mut topics = Vec::new();
    for region in REGIONS {
        topics.push(emulator.topic(region, "sigterm", 2).await);
    }
    let url = emulator.url();
    let rest = format!(
        "[announcements]\nendpoint_url = \"{url}\"\ninsecure_sns_signer = \"{url}\"\n\
         [drain]\nlinger = \"{}s\"\ndeadline = \"{}s\"\n",
        LINGER.as_secs(),
        DEADLINE.as_secs()
    );
    let mut program = Program::start(&settings("sigterm", &reported(&regions(&world), &topics), &rest)).await;
    for topic in &topics {
        program.line(|line| line["message"] == "subscribed" && line["topic"] == topic.arn).await;
    }
    assert_eq!(in_aws("sigterm", &topics).await, (3, 3));

    let tasks = Tasks::new();
    let (one, two) = (Arc::new(Tally::default()), Arc::new(Tally::default()));
    let load: Vec<_> = (0..8)
        .map(|_| tasks.spawn("load", keep_alive(program.tcp, one.clone(), tasks.clone())))
        .chain((0..2).map(|_| tasks.spawn("load", multiplexed(program.tcp, two.clone(), tasks.clone()))))
        .collect();
    for tally in [&one, &two] {
        tally.until_answered(200).await;
        assert_eq!(tally.goodbyes.load(Ordering::Acquire), 0, "connections are kept before the signal");
    }

    let signalled = Clock::System.now();
    program.signal(Signal::TERM);
    program.line(|line| line["message"].as_str().unwrap().starts_with("stopping")).await;
    let before = [&one, &two].map(|tally| tally.answered.load(Ordering::Acquire));
    assert_eq!(program.page("/readyz").await.0, 503, "new work goes elsewhere");
    let health = program::run(&["health", "--admin", &program.admin.to_string()]);
    assert_eq!(health.status.code(), Some(1));
    assert!(text(&health.stderr).contains("503"), "{}", text(&health.stderr));
    // The last second is left to the machine: what is written to a socket must have been read
    // before the linger ends.
    tokio::time::sleep((LINGER - Duration::from_secs(1)).saturating_sub(Clock::System.now() - signalled)).await;
    for tally in [&one, &two] {
        tally.stop_requested.store(true, Ordering::Release);
    }
    for caller in load {
        caller.await.unwrap();
    }
    for (name, tally, before) in [("HTTP/1.1", &one, before[0]), ("h2c", &two, before[1])] {
        let (sent, answered) = (tally.sent.load(Ordering::Acquire), tally.answered.load(Ordering::Acquire));
        let goodbyes = tally.goodbyes.load(Ordering::Acquire);
        println!("{name}: {answered} of {sent} answered, {} in the linger, {goodbyes} goodbyes", answered - before);
        assert_eq!(*tally.failures.lock().unwrap(), Vec::<String>::new());
        assert_eq!(sent, answered);
        assert!(answered > before && goodbyes > 0, "it went on answering, and said goodbye");
    }

    let status = program.ended().await;
    let took = Clock::System.now() - signalled;
    println!("ended {took:?} after the signal");
    assert_eq!(status.code(), Some(0), "{:#?}", program.lines());
    assert!(took >= LINGER && took <= LINGER + DEADLINE, "{took:?}");
    assert_eq!(in_aws("sigterm", &topics).await, (0, 0));
    tasks.drain(TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_in_flight_finish_after_linger() {
    let world = World::builder().records(10).start().await.unwrap();
    let rest = format!("{SILENT}[race]\ndeadline = \"50s\"\n[drain]\nlinger = \"100ms\"\ndeadline = \"50s\"\n");
    let mut program = Program::start(&settings("under-way", &reported(&regions(&world), &[]), &rest)).await;
    let held = world.hold().await;
    let (address, tasks) = (program.tcp, Tasks::new());
    let [ask_one, ask_two] = ["tenant-1", "tenant-2"].map(|key| {
        let request = Request::get(format!("http://{address}/v1/contexts/{key}")).header(header::HOST, "localhost");
        request.body(Empty::<Bytes>::new()).unwrap()
    });
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut one, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tasks.spawn("caller", connection);
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut two, connection) = http2::handshake(tasks.clone(), TokioIo::new(stream)).await.unwrap();
    tasks.spawn("caller", connection);
    let first = tasks.spawn("asked", async move { one.send_request(ask_one).await });
    let second = tasks.spawn("asked", async move { two.send_request(ask_two).await });
    for region in world.regions.iter() {
        region.until_held(2).await;
    }
    program.signal(Signal::TERM);
    let closed = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await
        }
    };
    tokio::time::timeout(TIMEOUT, closed).await.expect("the linger ends");
    drop(held);
    for answer in [first, second] {
        let response = answer.await.unwrap().unwrap().unwrap();
        let (status, length) = read(response).await.unwrap();
        assert!(status == 200 && length > 0, "{status} with {length} bytes");
    }
    assert_eq!(program.ended().await.code(), Some(0), "{:#?}", program.lines());
    tasks.drain(TIMEOUT).await;
}
