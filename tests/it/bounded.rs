//! The real program's memory while others try to fill it: it grows by its budgets at most, and goes
//! back.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use nearside::cache::limits::{ENDPOINT_CONNECTIONS, ENVELOPE_BYTES, ENVELOPES_BYTES, LEAST_CONTAINER};
use nearside::http::limits::{BODIES_BYTES, REQUEST_BODY_BYTES};
use nearside::model::time::Clock;
use nearside::sidecar::limits::ENDPOINT_READ_BYTES;
use nearside_lab::bench::load::{BenchRequest, Load};
use nearside_lab::bench::pace::{End, LoadPace};
use nearside_lab::bench::paths::Paths;
use nearside_lab::bench::subject::Address;
use nearside_lab::chaos_server::port::Port;
use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::program::{self, Program, TIMEOUT, get, path, settings};
use crate::world::World;

const MIB: u64 = 1 << 20;
/// Difference between one run and another: stacks, timers, tables that grow once.
const NOISE: u64 = 16 * MIB;

/// A POST of which all but the last byte is sent, as far as the other side takes it; what it
/// answers, if it does.
async fn half_sent(to: SocketAddr, path: &str, bytes: usize) -> (TcpStream, Option<String>) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\n\r\n");
    let mut left = bytes - 1;
    // Who is refused may find the connection closed.
    let sent = async {
        stream.write_all(head.as_bytes()).await?;
        while left > 0 {
            left -= stream.write(&[b'x'; 64 << 10][..left.min(64 << 10)]).await?;
        }
        Ok::<_, std::io::Error>(())
    };
    let _ = sent.await;
    let mut answer = [0; 512];
    match tokio::time::timeout(Duration::from_millis(500), stream.read(&mut answer)).await {
        Ok(Ok(read)) if read > 0 => (stream, Some(String::from_utf8_lossy(&answer[..read]).into_owned())),
        _ => (stream, None),
    }
}

/// The program's memory once it holds as little as `wanted`, or what it holds after a while.
async fn settled(program: &Program, wanted: u64) -> u64 {
    let settling = async {
        while held(program) > wanted {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    // How much it still holds is the caller's to judge.
    let _ = tokio::time::timeout(TIMEOUT / 2, settling).await;
    held(program)
}

/// Resident bytes, without the pages of the program itself: code that ran for the first time stays,
/// and holds nothing.
fn held(program: &Program) -> u64 {
    program.memory("VmRSS").unwrap() - program.memory("RssFile").unwrap()
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / MIB as f64)
}

async fn count(program: &Program, metric: &str) -> u64 {
    let (_, page) = program.page("/metrics").await;
    let value = page.lines().find_map(|line| line.strip_prefix(metric)).unwrap_or("0");
    value.trim().parse::<f64>().unwrap() as u64
}

#[tokio::test]
async fn half_sent_requests_stay_within_budget() {
    const REQUESTS: usize = 60;
    let world = World::builder().regions(1).records(10).start().await.unwrap();
    let region = world.region(0);
    let url = region.url();
    let reported = [(region.name.as_str(), url.as_str(), "")];
    let program = Program::start(&settings("half", &reported, "[announcements]\ntransport = \"off\"\n")).await;
    let read = format!("http://{}/v1/contexts/tenant-1", program.tcp);
    // What so many callers take who ask for something ordinary.
    let ordinary = join_all((0..REQUESTS).map(|_| get(&read))).await;
    assert!(ordinary.iter().all(|(status, _)| *status == 200));
    let (before, held_before) = (program.memory("VmRSS").unwrap(), held(&program));
    let path = "/v1/contexts/tenant-1";
    let all = join_all((0..REQUESTS).map(|_| half_sent(program.tcp, path, REQUEST_BODY_BYTES))).await;
    let during = program.memory("VmHWM").unwrap();
    let refused: Vec<&str> = all.iter().filter_map(|(_, answer)| answer.as_deref()).collect();
    assert!(!refused.is_empty() && refused.iter().all(|answer| answer.starts_with("HTTP/1.1 503 ")), "{refused:?}");
    assert!(refused.iter().all(|answer| answer.contains("retry-after: 1")), "{refused:?}");
    assert_eq!(get(&read).await.0, 200, "others are served meanwhile");
    assert_eq!(get(&format!("http://{}/v1/contexts/tenant-2", program.tcp)).await.0, 200);
    let counted = count(&program, "nearside_budget_refusals_total{budget=\"request-bodies\"}").await;
    assert!(counted >= refused.len() as u64, "{counted} of {}", refused.len());
    drop(all);
    let wanted = held_before + before / 5;
    let after = settled(&program, wanted).await;
    println!(
        "{REQUESTS} half-sent requests: {} before, {} most, {} held after",
        mib(before),
        mib(during),
        mib(after)
    );
    assert!(during <= before + BODIES_BYTES + NOISE, "{} to {}", mib(before), mib(during));
    assert!(after <= wanted, "{} held before, {} after", mib(held_before), mib(after));
    world.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn half_sent_posts_stay_within_budget() {
    const POSTS: usize = ENDPOINT_CONNECTIONS - 6;
    let heartbeat = Duration::from_millis(200);
    let world = World::builder().regions(1).records(1).heartbeat(heartbeat).start().await.unwrap();
    let (port, region, base) = (Port::hold(0).unwrap(), world.region(0), &world.aws.base);
    let listen = port.address();
    let rest = format!(
        "[announcements]\ntransport = \"http\"\nendpoint_url = \"{base}\"\n\
         insecure_sns_signer = \"{base}\"\nhttp_listen = \"{listen}\"\nhttp_public_url = \"http://{listen}/in\"\n"
    );
    let url = region.url();
    let reported = [(region.name.as_str(), url.as_str(), region.publisher.topic())];
    let program = Program::start(&settings("posts", &reported, &rest)).await;
    program.until("/readyz", |page| page["state"] == "fresh").await;
    let (before, held_before) = (program.memory("VmRSS").unwrap(), held(&program));
    let all = join_all((0..POSTS).map(|_| half_sent(listen, "/in/0", ENVELOPE_BYTES))).await;
    let during = program.memory("VmHWM").unwrap();
    let refused: Vec<&str> = all.iter().filter_map(|(_, answer)| answer.as_deref()).collect();
    assert!(!refused.is_empty() && refused.iter().all(|answer| answer.starts_with("HTTP/1.1 503 ")), "{refused:?}");
    let heartbeats = "nearside_announcements_total{region=\"eu-west-1\",outcome=\"heartbeat\"}";
    let (heard, mut again) = (count(&program, heartbeats).await, 0);
    let arriving = async {
        while again <= heard {
            again = count(&program, heartbeats).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, arriving).await.expect("a heartbeat arrives beside the half-sent posts");
    drop(all);
    let wanted = held_before + before / 5;
    let after = settled(&program, wanted).await;
    println!("{POSTS} half-sent posts: {} before, {} most, {} held after", mib(before), mib(during), mib(after));
    let read = (POSTS * ENDPOINT_READ_BYTES) as u64;
    let budget = ENVELOPES_BYTES as u64 + read;
    assert!(during <= before + budget + NOISE, "{} to {}", mib(before), mib(during));
    assert!(after <= wanted, "{} held before, {} after", mib(held_before), mib(after));
    world.stop(Duration::from_secs(5)).await;
}

/// A memory cgroup of a test's own, of version 1 or 2; removed when it is dropped.
struct Cgroup {
    at: PathBuf,
    /// File and line that count the processes in it that the kernel ended.
    kills: (&'static str, &'static str),
}

impl Cgroup {
    /// `None` where the machine does not let one be made.
    fn of(bytes: u64) -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("nearside-test-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let one = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", ("memory.oom_control", "oom_kill "));
        let two = ("/sys/fs/cgroup", "memory.max", ("memory.events", "oom_kill "));
        [one, two].into_iter().find_map(|(root, limit, kills)| {
            if !Path::new(root).join("cgroup.procs").exists() {
                return None;
            }
            let group = Self { at: Path::new(root).join(&name), kills };
            std::fs::create_dir(&group.at).ok()?;
            // Without the controller there is no such file, and none can be made.
            std::fs::write(group.at.join(limit), bytes.to_string()).ok()?;
            Some(group)
        })
    }

    /// A command that runs the program within it.
    fn command(&self, args: &[&str]) -> Command {
        let plain = program::command(args);
        let mut within = Command::new("/bin/sh");
        within.arg("-c").arg(format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", path(&self.at)));
        within.arg(plain.get_program()).args(args).env_clear().stdin(Stdio::null());
        within.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        within
    }

    /// Number of processes in it that the kernel ended.
    fn kills(&self) -> u64 {
        let text = std::fs::read_to_string(self.at.join(self.kills.0)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(self.kills.1));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // It goes when its last process has: the kernel may take a moment.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.at).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Result of load on a program in the least container.
struct Loaded {
    /// Answers to each kind of request.
    answered: Vec<u64>,
    entries: u64,
    metrics: String,
}

/// A program with this route in a container of 64 MiB, and callers who ask for keys at random, 64
/// connections in all; none of them fails and nothing is killed. A kind is a view, header lines, and
/// the body's length if all have one. `None` where no container can be
/// made.
///
/// `NEARSIDE_MISSES=600` makes it the ten minutes that the README promises.
async fn in_the_least_container(route: &str, kinds: &[(&'static str, &str, Option<u64>)]) -> Option<Loaded> {
    let Some(group) = Cgroup::of(LEAST_CONTAINER) else {
        println!("SKIPPED: no memory cgroup can be made here (it takes root and a writable /sys/fs/cgroup)");
        return None;
    };
    let seconds = std::env::var("NEARSIDE_MISSES").ok().and_then(|text| text.parse().ok()).unwrap_or(30);
    let ports: Vec<Port> = (0..3).map(|_| Port::hold(0).unwrap()).collect();
    let addresses: Vec<SocketAddr> = ports.iter().map(Port::address).collect();
    drop(ports);
    let texts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    let mut regions = program::lab(&["bench", "regions"]).args(&texts).spawn().unwrap();
    let urls: Vec<String> = texts.iter().map(|text| format!("http://{text}")).collect();
    let reported = [("a", urls[0].as_str(), ""), ("b", urls[1].as_str(), ""), ("c", urls[2].as_str(), "")];
    let settings = settings("least", &reported, "[announcements]\ntransport = \"off\"\n");
    // The load's paths, so that what it asks for is stored.
    let settings = settings.replace("path = \"/v1/contexts/{key}\"", route);
    let program = Program::start_by(&settings, |args| group.command(args)).await;
    let loads = kinds.iter().zip(7..).map(|((view, headers, body_bytes), seed)| {
        let paths = Paths::Even { keys: u64::MAX, view, rng: fastrand::Rng::with_seed(seed) };
        let (headers, body_bytes) = ((*headers).to_owned(), *body_bytes);
        let request = BenchRequest { headers, body_bytes, ..BenchRequest::new(paths, 0) };
        let (address, connections) = (Address::Tcp(program.tcp), 64 / kinds.len());
        tokio::task::spawn_blocking(move || {
            let mut load = Load::open(&address, connections, request)?;
            load.run(LoadPace::Closed, End::After(Duration::from_secs(seconds)))
        })
    });
    let counted: Result<Vec<_>, _> = join_all(loads).await.into_iter().map(Result::unwrap).collect();
    let counted = counted.unwrap_or_else(|error| panic!("{error}: {} killed, {:#?}", group.kills(), program.lines()));
    let most = program.memory("VmHWM");
    let (entries, kills) = (count(&program, "nearside_cache_entries").await, group.kills());
    for (counted, (view, headers, _)) in counted.iter().zip(kinds) {
        println!(
            "{seconds} s of misses of {view} ({}) in {}: {} answered, {} failed ({:?}), {entries} entries, {} most, \
             {kills} killed",
            headers.trim_end(),
            mib(LEAST_CONTAINER),
            counted.answered,
            counted.failures,
            counted.first_failure,
            mib(most.unwrap_or(0))
        );
    }
    assert_eq!((kills, counted.iter().find_map(|counted| counted.first_failure.clone())), (0, None));
    let answered: Vec<u64> = counted.iter().map(|counted| counted.answered).collect();
    assert!(answered.iter().sum::<u64>() > 1000 * seconds / 10, "{answered:?}");
    let (_, metrics) = program.page("/metrics").await;
    drop(program);
    let _ = regions.kill();
    let _ = regions.wait();
    Some(Loaded { answered, entries, metrics })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn random_misses_fit_64_mib() {
    let route = "path = \"/v1/contexts/{key}/{view}\"";
    let Some(loaded) = in_the_least_container(route, &[("1k", "", Some(1024))]).await else { return };
    let (entries, answered) = (loaded.entries, loaded.answered[0]);
    assert!(entries > u64::min(5_000, answered / 2), "the store was full all the while: {entries}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn large_misses_fit_64_mib() {
    let route = "path = \"/v1/contexts/{key}/{view}\"";
    let kinds = [("20k", "", Some(20 << 10)), ("100k", "", Some(100 << 10))];
    let Some(loaded) = in_the_least_container(route, &kinds).await else { return };
    assert!(loaded.answered.iter().all(|answered| *answered > 100), "{:?}", loaded.answered);
}

/// Each as misses of its own: a form and fields of small records, and an index of larger ones with what
/// was cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn forms_and_fields_fit_64_mib() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/payload");
    let set = protox::compile(["shown.proto"], [folder]).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), prost::Message::encode_to_vec(&set)).unwrap();
    let route = format!(
        "path = \"/v1/contexts/{{key}}/{{view}}\"\nschema = \"{}#nearside.sim.Shown\"\nfields = \"fields\"",
        path(file.path())
    );
    let kinds = [
        ("1k.json", "Accept: application/x-protobuf\r\n", None),
        ("1k.json", "Accept: application/protobuf\r\n", None),
        ("20k.json?fields=who", "", Some(2)),
        ("100k.json?fields=who", "", Some(2)),
    ];
    let Some(loaded) = in_the_least_container(&route, &kinds).await else { return };
    assert!(loaded.answered.iter().all(|answered| *answered > 100), "{:?}", loaded.answered);
    assert!(loaded.entries > 100, "{}", loaded.entries);
    for work in ["to-protobuf", "index", "project"] {
        let times = loaded.metrics.lines().find(|line| {
            line.starts_with("nearside_payload_work_seconds_count") && line.contains(&format!("\"{work}\""))
        });
        let times: u64 = times.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default();
        assert!(times > 100, "{work}: {times}");
    }
}

/// Connection or request that a caller leaves unfinished.
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// A connection and nothing else.
    Silent,
    /// 29 KiB of a head that does not end.
    HalfHead,
    /// HTTP/2 with 256 POSTs of which no body comes, each with so many KiB of head.
    Streams(usize),
    /// Twenty requests for what is stored, of which no answer is read.
    SlowReader,
}

impl Attack {
    fn bytes(self) -> Vec<u8> {
        match self {
            Self::Silent => Vec::new(),
            Self::HalfHead => {
                let mut head = b"GET /v1/contexts/a HTTP/1.1\r\nHost: localhost\r\n".to_vec();
                (0..29).for_each(|n| head.extend(format!("x-{n}: {}\r\n", "y".repeat(1000)).bytes()));
                head
            }
            Self::SlowReader => b"GET /v1/contexts/tenant-1 HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(4000),
            Self::Streams(kib) => {
                let mut block = Vec::new();
                for (name, value) in
                    [(":method", "POST"), (":scheme", "http"), (":path", "/v1/a"), (":authority", "localhost")]
                {
                    literal(&mut block, name, value);
                }
                (0..kib).for_each(|n| literal(&mut block, &format!("x-{n}"), &"y".repeat(1000)));
                let mut all = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
                frame(&mut all, 4, 0, 0, &[]);
                for stream in 0..256 {
                    let (first, rest) = block.split_at(block.len().min(16_000));
                    frame(&mut all, 1, if rest.is_empty() { 4 } else { 0 }, 2 * stream + 1, first);
                    if !rest.is_empty() {
                        frame(&mut all, 9, 4, 2 * stream + 1, rest);
                    }
                }
                all
            }
        }
    }
}

/// A frame of HTTP/2: its type, flags and stream, and its payload.
fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
}

/// A header line that enters no table (RFC 7541, 6.2.2).
fn literal(out: &mut Vec<u8>, name: &str, value: &str) {
    out.push(0);
    for text in [name, value] {
        let mut left = text.len();
        if left < 127 {
            out.push(left as u8);
        } else {
            out.push(127);
            left -= 127;
            while left >= 128 {
                out.push((left % 128) as u8 | 128);
                left /= 128;
            }
            out.push(left as u8);
        }
        out.extend(text.bytes());
    }
}

/// Opens a connection and leaves `bytes` there, unless there is one that was not closed. Of one that
/// is there a little is read.
async fn begin_again(held: &mut Option<TcpStream>, to: SocketAddr, bytes: &[u8]) {
    let read = held.as_ref().map(|stream| stream.try_read(&mut [0; 64]));
    let is_open = read.is_some_and(|read| match read {
        Ok(read) => read > 0,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    });
    if is_open {
        return;
    }
    let begin = async {
        let mut stream = TcpStream::connect(to).await.ok()?;
        // Nor is all taken of who reads nothing.
        let _ = tokio::time::timeout(Duration::from_millis(20), stream.write_all(bytes)).await;
        Some(stream)
    };
    // Effects the backlog nobody is let in.
    *held = tokio::time::timeout(Duration::from_millis(100), begin).await.ok().flatten();
}

/// The port that is attacked.
#[derive(Clone, Copy, Debug)]
enum Target {
    Callers,
    Operators,
    Announcers,
}

/// Attacks one program in a container of its own for so long, while honest callers ask. `None` where
/// no container can be made.
async fn attack(world: &World, attack: Attack, target: Target, connections: usize, seconds: Duration) -> Option<()> {
    let group = Cgroup::of(LEAST_CONTAINER)?;
    let (region, url, base) = (world.region(0), world.region(0).url(), &world.aws.base);
    let port = Port::hold(0).unwrap();
    let listen = port.address();
    let rest = format!(
        "[announcements]\ntransport = \"http\"\nendpoint_url = \"{base}\"\ninsecure_sns_signer = \"{base}\"\n\
         http_listen = \"{listen}\"\nhttp_public_url = \"http://{listen}/in\"\n\
         [drain]\nlinger = \"0s\"\ndeadline = \"3s\"\n"
    );
    let settings = settings("attacked", &[(region.name.as_str(), url.as_str(), region.publisher.topic())], &rest);
    let mut program = Program::start_by(&settings, |args| group.command(args)).await;
    let to = match target {
        Target::Callers => program.tcp,
        Target::Operators => program.admin,
        Target::Announcers => listen,
    };
    let (read, bytes) = (format!("http://{}/v1/contexts/tenant-1", program.tcp), attack.bytes());
    program.until("/readyz", |page| page["state"] == "fresh").await;
    assert_eq!(get(&read).await.0, 200);
    let mut held: Vec<Option<TcpStream>> = (0..connections).map(|_| None).collect();
    for (place, connection) in held.iter_mut().enumerate() {
        begin_again(connection, to, &bytes).await;
        if place % (connections / 4) == 0 {
            assert_eq!(get(&read).await.0, 200, "{attack:?} of {target:?}: a hit after {place}");
            assert_eq!(program.page("/livez").await.0, 200, "{attack:?} of {target:?}");
        }
    }
    let (began, mut hits) = (Clock::System.now(), 0);
    // Callers that were turned away come again, and honest callers come in between.
    for place in (0..connections).cycle() {
        if Clock::System.now() - began >= seconds {
            break;
        }
        begin_again(&mut held[place], to, &bytes).await;
        if place % 50 == 0 {
            assert_eq!(get(&read).await.0, 200, "{attack:?} of {target:?}: a hit after {hits}");
            hits += 1;
            // Ten minutes of it are several attacks at once.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let heartbeats = "nearside_announcements_total{region=\"eu-west-1\",outcome=\"heartbeat\"}";
    let heard = count(&program, heartbeats).await;
    let arriving = async {
        while count(&program, heartbeats).await <= heard {
            begin_again(&mut held[0], to, &bytes).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, arriving).await.expect("announcements go on arriving");
    let most = mib(program.memory("VmHWM").unwrap_or(0));
    println!("{connections} of {attack:?} of {target:?}: {hits} hits, {most} most, {} killed", group.kills());
    assert_eq!(group.kills(), 0, "{attack:?} of {target:?}: {:#?}", program.lines());
    assert_eq!(get(&read).await.0, 200, "{attack:?} of {target:?}");
    // A caller that keeps it waiting does not make its end a failure.
    program.signal(Signal::TERM);
    assert_eq!(program.ended().await.code(), Some(0), "{attack:?} of {target:?}: {:#?}", program.lines());
    Some(())
}

/// `NEARSIDE_ATTACKS=600` (`make attacks`) makes each of them ten minutes long, all at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn attacks_end_nothing_in_64_mib() {
    let seconds = std::env::var("NEARSIDE_ATTACKS").ok().and_then(|text| text.parse().ok());
    let attacks = [
        (Attack::Silent, Target::Callers, 3500),
        (Attack::HalfHead, Target::Callers, 1200),
        (Attack::Streams(0), Target::Callers, 60),
        (Attack::Streams(29), Target::Callers, 12),
        (Attack::SlowReader, Target::Callers, 400),
        (Attack::Silent, Target::Operators, 300),
        (Attack::HalfHead, Target::Operators, 300),
        (Attack::HalfHead, Target::Announcers, 600),
    ];
    let heartbeat = Duration::from_millis(200);
    let world = World::builder().regions(1).records(10).heartbeat(heartbeat).start().await.unwrap();
    let at_once = if seconds.is_some() { attacks.len() } else { 1 };
    let lasting = Duration::from_secs(seconds.unwrap_or(2));
    let all = attacks.map(|(kind, target, connections)| attack(&world, kind, target, connections, lasting));
    let done: Vec<Option<()>> = stream::iter(all).buffered(at_once).collect().await;
    if done.iter().all(Option::is_none) {
        println!("SKIPPED: no memory cgroup can be made here (it takes root and a writable /sys/fs/cgroup)");
    }
    world.stop(Duration::from_secs(5)).await;
}
