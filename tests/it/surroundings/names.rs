//! Name servers lie, lag, vanish or know half: a region's name is found wherever the C library
//! would find it. The servers are at port 53 of loopback addresses, and the program has a
//! `resolv.conf` of its own in a mount namespace: both need root, and the tests fail without it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use nearside::model::time::Clock;
use rustix::process::Signal;
use tempfile::TempDir;

use super::super::program::{Program, TIMEOUT, get, settings};
use super::super::service::Service;
use super::within;

const NAME: &str = "contexts.eu-west-1.test";
const A: u16 = 1;
const AAAA: u16 = 28;

/// Reaction of a name server to a question.
#[derive(Clone)]
enum Says {
    /// The name has this address, for so many seconds.
    Address(Ipv4Addr, u32),
    /// There is no such name, for an hour.
    Absent,
    /// The name has no address of this family.
    Nothing,
    /// SERVFAIL, REFUSED.
    Code(u8),
    Silence,
    Late(Duration),
    /// Another answer first, with a number that nobody asked by.
    Forged,
    /// Over UDP, that it is too long for UDP.
    Truncated,
    /// Over UDP, nothing at all.
    TcpAlone,
}

use Says::{Absent, Address, Code, Forged, Late, Nothing, Silence, TcpAlone, Truncated};

type Rule = Arc<dyn Fn(&str, u16) -> Says + Send + Sync>;

/// The right answer, for a minute.
const RIGHT: Says = Address(Ipv4Addr::LOCALHOST, 60);

/// A name server at an address of its own.
struct NameServer {
    address: Ipv4Addr,
    rule: Arc<Mutex<Rule>>,
    asked: Arc<AtomicUsize>,
}

impl NameServer {
    fn start(rule: impl Fn(&str, u16) -> Says + Send + Sync + 'static) -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(1);
        let pid = std::process::id().to_be_bytes();
        let (udp, tcp, address) = loop {
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            assert!(next < 250, "port 53 of no loopback address can be bound: this test needs root");
            let address = Ipv4Addr::new(127, 64 + pid[2] % 64, pid[3], u8::try_from(next).unwrap());
            if let (Ok(udp), Ok(tcp)) = (UdpSocket::bind((address, 53)), TcpListener::bind((address, 53))) {
                break (udp, tcp, address);
            }
        };
        let rule: Arc<Mutex<Rule>> = Arc::new(Mutex::new(Arc::new(rule)));
        let asked = Arc::new(AtomicUsize::new(0));
        let (of_udp, of_tcp, count) = (rule.clone(), rule.clone(), asked.clone());
        std::thread::Builder::new().spawn(move || over_udp(&udp, &of_udp, &count)).unwrap();
        std::thread::Builder::new().spawn(move || over_tcp(&tcp, &of_tcp)).unwrap();
        Self { address, rule, asked }
    }

    fn follow(&self, rule: impl Fn(&str, u16) -> Says + Send + Sync + 'static) {
        *self.rule.lock().unwrap() = Arc::new(rule);
    }
}

fn over_udp(socket: &UdpSocket, rule: &Mutex<Rule>, asked: &AtomicUsize) {
    let mut question = [0; 2048];
    while let Ok((length, from)) = socket.recv_from(&mut question) {
        asked.fetch_add(1, Ordering::Relaxed);
        let question = question[..length].to_vec();
        let (name, kind, _) = asks(&question);
        let says = rule.lock().unwrap().clone()(&name, kind);
        match says {
            Silence | TcpAlone => {}
            Late(wait) => {
                let socket = socket.try_clone().unwrap();
                let late = std::thread::Builder::new().spawn(move || {
                    std::thread::sleep(wait);
                    drop(socket.send_to(&answer(&question, &RIGHT), from));
                });
                late.unwrap();
            }
            Forged => {
                let mut forged = answer(&question, &Address(Ipv4Addr::new(127, 0, 0, 99), 60));
                forged[0] ^= 0xff;
                drop(socket.send_to(&forged, from));
                drop(socket.send_to(&answer(&question, &RIGHT), from));
            }
            says => drop(socket.send_to(&answer(&question, &says), from)),
        }
    }
}

fn over_tcp(listener: &TcpListener, rule: &Mutex<Rule>) {
    for stream in listener.incoming() {
        let (mut stream, rule): (TcpStream, Rule) = (stream.unwrap(), rule.lock().unwrap().clone());
        let serving = std::thread::Builder::new().spawn(move || {
            let mut length = [0; 2];
            while stream.read_exact(&mut length).is_ok() {
                let mut question = vec![0; u16::from_be_bytes(length).into()];
                if stream.read_exact(&mut question).is_err() {
                    return;
                }
                let (name, kind, _) = asks(&question);
                let says = match rule(&name, kind) {
                    Truncated | TcpAlone => RIGHT,
                    says => says,
                };
                let reply = answer(&question, &says);
                let length = u16::try_from(reply.len()).unwrap().to_be_bytes();
                drop(stream.write_all(&[&length[..], &reply].concat()));
            }
        });
        serving.unwrap();
    }
}

/// The name and type that are asked for, and where the question ends.
fn asks(question: &[u8]) -> (String, u16, usize) {
    let (mut labels, mut at) = (Vec::new(), 12);
    while question[at] != 0 {
        let end = at + 1 + usize::from(question[at]);
        labels.push(String::from_utf8_lossy(&question[at + 1..end]).to_lowercase());
        at = end;
    }
    (labels.join("."), u16::from_be_bytes([question[at + 1], question[at + 2]]), at + 5)
}

fn answer(question: &[u8], says: &Says) -> Vec<u8> {
    let (_, kind, end) = asks(question);
    let (flags, code) = match says {
        Truncated => (0x83, 0),
        Absent => (0x81, 3),
        Code(code) => (0x81, *code),
        _ => (0x81, 0),
    };
    let is_answer = matches!(says, Address(..));
    let counts = [0, 1, 0, u8::from(is_answer), 0, u8::from(matches!(says, Absent | Nothing)), 0, 0];
    let mut reply = [&question[..2], &[flags, 0x80 | code], &counts, &question[12..end]].concat();
    match says {
        Address(address, ttl) => {
            let data =
                if kind == AAAA { address.to_ipv6_mapped().octets().to_vec() } else { address.octets().to_vec() };
            reply.extend([0xc0, 12]);
            reply.extend(kind.to_be_bytes().into_iter().chain([0, 1]).chain(ttl.to_be_bytes()));
            reply.extend([0, u8::try_from(data.len()).unwrap()].into_iter().chain(data));
        }
        Absent | Nothing => {
            // The root's SOA; an hour in its TTL and in its minimum.
            let hour = 3600_u32.to_be_bytes();
            reply.extend([0, 0, 6, 0, 1].into_iter().chain(hour).chain([0, 22, 0, 0]));
            reply.extend([hour; 5].concat());
        }
        _ => {}
    }
    reply
}

/// The right answer in the family of most, and no address in the other.
fn v4_alone(kind: u16) -> Says {
    if kind == A { RIGHT } else { Nothing }
}

/// A sidecar whose region is at [`NAME`], with a `resolv.conf` of its own.
struct Place {
    program: Program,
    resolv_conf: PathBuf,
    _folder: TempDir,
    _service: Service,
}

/// `resolv.conf` with these servers and further lines.
fn resolv_conf(servers: &[&NameServer], lines: &str) -> String {
    servers.iter().map(|server| format!("nameserver {}\n", server.address)).collect::<String>() + lines
}

impl Place {
    async fn start(text: &str) -> Self {
        let (service, folder) = (Service::start(1), tempfile::tempdir().unwrap());
        let resolv_conf = folder.path().join("resolv.conf");
        std::fs::write(&resolv_conf, text).unwrap();
        let mount = format!("mount --bind {} /etc/resolv.conf", resolv_conf.display());
        let shell = format!("exec unshare -m sh -c '{mount} && exec \"$0\" \"$@\"'");
        let at: SocketAddr = service.urls()[0].strip_prefix("http://").unwrap().parse().unwrap();
        let rest = "[announcements]\ntransport = \"off\"\n[drain]\nlinger = \"0s\"\n";
        let config = settings("names", &[("eu-west-1", &format!("http://{NAME}:{}", at.port()), "")], rest);
        let program = Program::start_by(&config, |args| within(&shell, args)).await;
        Self { program, resolv_conf, _folder: folder, _service: service }
    }

    /// One request for a key that nobody asked for before.
    async fn ask(&self) -> u16 {
        get(&format!("http://{}/v1/contexts/{:x}", self.program.tcp, fastrand::u64(..))).await.0
    }

    /// Waits until the region is reached, and says whether it ever was.
    async fn is_reached(&self) -> bool {
        let asking = async {
            while self.ask().await != 200 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, asking).await.is_ok()
    }

    /// Waits until the region is reached.
    async fn reaches(&self, what: &str) {
        assert!(self.is_reached().await, "{what}: the region is never reached: {:#?}", self.program.lines());
    }

    async fn serves_and_stops(self, what: &str) {
        self.reaches(what).await;
        super::serves(&self.program, "alpha").await;
        super::stops(self.program).await;
    }
}

#[tokio::test]
async fn odd_name_servers_still_resolve_region() {
    type Rules = Vec<fn(&str, u16) -> Says>;
    let right: fn(&str, u16) -> Says = |_, kind| v4_alone(kind);
    let silent: fn(&str, u16) -> Says = |_, _| Silence;
    let search = "search gone.internal\noptions ndots:5\n";
    let cases: Vec<(&str, Rules, &str)> = vec![
        ("AAAA unanswered", vec![|_, kind| if kind == A { RIGHT } else { Silence }], ""),
        ("A unanswered", vec![|_, kind| if kind == AAAA { RIGHT } else { Silence }], ""),
        ("AAAA alone", vec![|_, kind| if kind == AAAA { RIGHT } else { Nothing }], ""),
        ("AAAA refused with SERVFAIL", vec![|_, kind| if kind == A { RIGHT } else { Code(2) }], ""),
        ("AAAA said to be absent", vec![|_, kind| if kind == A { RIGHT } else { Absent }], ""),
        (
            "a search suffix unanswered",
            vec![|name, kind| if name.ends_with("gone.internal") { Silence } else { v4_alone(kind) }],
            search,
        ),
        (
            "a search suffix with SERVFAIL",
            vec![|name, kind| if name.ends_with("gone.internal") { Code(2) } else { v4_alone(kind) }],
            search,
        ),
        ("every answer 2 s late", vec![|_, _| Late(Duration::from_secs(2))], ""),
        ("the first server gone", vec![silent, right], ""),
        ("two servers of three gone", vec![silent, silent, right], ""),
        ("the first server gone, rotate", vec![silent, right], "options rotate\n"),
        ("the first server with SERVFAIL", vec![|_, _| Code(2), right], ""),
        ("the first server refuses", vec![|_, _| Code(5), right], ""),
        ("answers too long for UDP", vec![|_, kind| if kind == A { Truncated } else { Nothing }], ""),
        ("TCP alone", vec![|_, _| TcpAlone], "options use-vc\n"),
        ("no-aaaa", vec![right], "options no-aaaa\n"),
        ("a forged answer first", vec![|_, kind| if kind == A { Forged } else { Nothing }], ""),
        (
            "the second server knows nothing, and is quicker",
            vec![|_, kind| if kind == A { Late(Duration::from_millis(500)) } else { Nothing }, |_, _| Absent],
            "",
        ),
    ];
    let each = cases.into_iter().map(|(what, rules, lines)| async move {
        let servers: Vec<NameServer> = rules.into_iter().map(NameServer::start).collect();
        let text = resolv_conf(&servers.iter().collect::<Vec<_>>(), lines);
        let place = Place::start(&text).await;
        if !place.is_reached().await {
            return Some(what);
        }
        place.serves_and_stops(what).await;
        None
    });
    let never: Vec<_> = join_all(each).await.into_iter().flatten().collect();
    assert!(never.is_empty(), "the region is never reached: {never:?}");
}

/// Its zone says an hour.
#[tokio::test]
async fn new_name_is_found_within_seconds() {
    for says in [Absent, Nothing, Code(2)] {
        let server = NameServer::start(move |_, _| says.clone());
        let place = Place::start(&resolv_conf(&[&server], "")).await;
        assert_ne!(place.ask().await, 200);
        server.follow(|_, kind| v4_alone(kind));
        let began = Clock::System.now();
        place.reaches("it has appeared").await;
        let took = Clock::System.now() - began;
        assert!(took < Duration::from_secs(30), "{took:?}");
        super::stops(place.program).await;
    }
}

#[tokio::test]
async fn changed_resolv_conf_applies_while_running() {
    let (wrong, right) = (NameServer::start(|_, _| Absent), NameServer::start(|_, kind| v4_alone(kind)));
    let place = Place::start(&resolv_conf(&[&wrong], "")).await;
    assert_ne!(place.ask().await, 200);
    assert!(wrong.asked.load(Ordering::Relaxed) > 0);
    std::fs::write(&place.resolv_conf, resolv_conf(&[&right], "")).unwrap();
    place.serves_and_stops("another server").await;
}

#[tokio::test]
async fn sighup_drops_cached_address() {
    let server = NameServer::start(|_, kind| match kind {
        A => Address(Ipv4Addr::new(127, 0, 0, 99), 3600),
        _ => Nothing,
    });
    let place = Place::start(&resolv_conf(&[&server], "")).await;
    assert_ne!(place.ask().await, 200, "nobody listens there");
    server.follow(|_, kind| v4_alone(kind));
    place.program.hang_up().await;
    place.serves_and_stops("its address was corrected").await;
}

#[tokio::test]
async fn vanished_server_leaves_cached_address() {
    let server = NameServer::start(|_, kind| v4_alone(kind));
    let place = Place::start(&resolv_conf(&[&server], "")).await;
    place.reaches("all is well").await;
    server.follow(|_, _| Silence);
    super::serves(&place.program, "alpha").await;
    // A name that nobody answers for keeps nothing from ending.
    place.program.signal(Signal::HUP);
    super::stops(place.program).await;
}
