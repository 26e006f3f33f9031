//! Runs the peers that are installed, and tests finding and reading them where they are not.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::bench::h2c::Streams;
use crate::bench::load::BenchRequest;
use crate::bench::pace::{End, LoadPace};
use crate::bench::paths::Paths;
use crate::bench::peers::PEERS;
use crate::bench::subject::Candidate;

/// A wish with placeholder names instead of real places.
pub(crate) fn wish(unix: bool) -> Wish {
    Wish {
        upstreams: vec![upstream()],
        core: None,
        folder: "/folder".into(),
        unix,
        h2c: false,
        keeper: None,
        cache_bytes: 64 << 20,
    }
}

/// The front that fits [`wish`].
pub(crate) fn front(unix: bool) -> Front {
    let wish = wish(unix);
    let tcp = Address::Tcp((Ipv4Addr::LOCALHOST, 7001).into());
    let listen = if unix { Address::Unix(wish.socket()) } else { tcp };
    Front { listen, h2c: false, upstream: upstream() }
}

fn upstream() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 7002).into()
}

/// The headers of the service below, without the length. Ten years, because Envoy counts from the
/// `Date`.
const SENT: [&str; 4] = [
    "content-type: application/json",
    "cache-control: max-age=315360000",
    "x-version: 7",
    "date: Sat, 21 Nov 2026 23:04:04 GMT",
];

/// A service that answers with [`SENT`] and as many bytes as the path says (`/a/1024`), and counts
/// its requests.
fn service() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&asked);
    let serving = std::thread::Builder::new().spawn(move || {
        for stream in listener.incoming().flatten() {
            let counter = Arc::clone(&counter);
            std::thread::Builder::new().spawn(move || converse(stream, &counter)).unwrap();
        }
    });
    serving.unwrap();
    (address, asked)
}

fn converse(stream: TcpStream, asked: &AtomicUsize) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut stream = stream;
    while let Some(Ok(request)) = lines.next() {
        let bytes: usize = request.split(' ').nth(1).unwrap().rsplit('/').next().unwrap().parse().unwrap();
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        asked.fetch_add(1, Ordering::SeqCst);
        let head = format!("HTTP/1.1 200 OK\r\n{}\r\ncontent-length: {bytes}\r\n\r\n", SENT.join("\r\n"));
        if stream.write_all(&[head.into_bytes(), vec![b'x'; bytes]].concat()).is_err() {
            return;
        }
    }
}

/// The head in lower case, and the body.
fn get(at: &Address, path: &str) -> (String, Vec<u8>) {
    fn exchange(mut stream: impl Read + Write, path: &str) -> Vec<u8> {
        write!(stream, "GET {path} HTTP/1.1\r\nhost: service\r\nconnection: close\r\n\r\n").unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        reply
    }
    let reply = match at {
        Address::Tcp(address) => exchange(TcpStream::connect(address).unwrap(), path),
        Address::Unix(socket) => exchange(UnixStream::connect(socket).unwrap(), path),
    };
    let end = reply.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    (String::from_utf8_lossy(&reply[..end]).to_ascii_lowercase(), reply[end + 4..].to_vec())
}

fn shows(proof: &Proof, head: &str) -> bool {
    match proof {
        Proof::Header { name, contains } => {
            let contains = contains.to_ascii_lowercase();
            head.lines().any(|line| line.split_once(": ").is_some_and(|(n, v)| n == name && v.contains(&contains)))
        }
        Proof::HeaderWithout { .. } => unreachable!("no peer has that proof"),
        Proof::HeaderPresent(name) => head.lines().any(|line| line.split(':').next() == Some(name)),
        Proof::Always => true,
    }
}

/// Starts a peer, if it is installed, on a port and on a socket, and expects a miss and two hits of
/// each size.
fn tried(candidate: Candidate) {
    for unix in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (address, asked) = service();
        let wish = Wish { upstreams: vec![address], folder: folder.path().to_owned(), ..wish(unix) };
        let subject = match (candidate.start)(&wish) {
            Err(missing @ SubjectError::Missing { .. }) => return eprintln!("not tried: {missing}"),
            started => started.unwrap(),
        };
        assert_eq!(asked.load(Ordering::SeqCst), 0, "waiting for {} asked the service", subject.name);
        for (seen, bytes) in [1024, 100 * 1024].into_iter().enumerate() {
            let path = format!("/a/{bytes}");
            for hit in [false, true, true] {
                let (head, body) = get(&subject.address, &path);
                assert_eq!(shows(&subject.proof, &head), hit, "{}: {head}", subject.name);
                let missing = SENT.iter().find(|line| !head.contains(&line.to_ascii_lowercase()));
                assert_eq!(missing, None, "{}: {head}", subject.name);
                assert!(body == vec![b'x'; bytes], "{}: {head}", subject.name);
                assert_eq!(asked.load(Ordering::SeqCst), seen + 1, "{}", subject.name);
            }
        }
        let address = subject.address.clone();
        drop(subject);
        assert!(!answers(&address, false));
    }
}

#[test]
fn haproxy_marks_hits_and_relays_body() {
    tried(PEERS[0]);
}

#[test]
fn nginx_marks_hits_and_relays_body() {
    tried(PEERS[1]);
}

#[test]
fn nginx_sendfile_marks_hits_relays_body() {
    tried(PEERS[2]);
}

#[test]
fn varnish_marks_hits_and_relays_body() {
    tried(PEERS[3]);
}

#[test]
fn envoy_marks_hits_and_relays_body() {
    tried(PEERS[4]);
}

#[test]
fn missing_peer_says_how_to_install() {
    let error = find("no-such-peer", "-v", |text| after(text, "/")).unwrap_err();
    let words = error.to_string();
    assert!(words.contains("no-such-peer is not on PATH") && words.contains("benches/peers.sh"), "{words}");
}

#[test]
fn versions_are_parsed_from_program_output() {
    assert_eq!(after("nginx version: nginx/1.22.1\n", "nginx/"), Some("1.22.1"));
    assert_eq!(after("varnishd (varnish-7.1.1 revision 7cee)\n", "(varnish-"), Some("7.1.1"));
    assert_eq!(after("HAProxy version 2.6.12-1+deb12u4 2026/10/17\n", "version "), Some("2.6.12-1+deb12u4"));
}

#[test]
fn unexecutable_file_is_skipped() {
    use std::os::unix::fs::PermissionsExt;
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let places = [first.path().to_owned(), second.path().to_owned()];
    std::fs::write(first.path().join("server"), "").unwrap();
    assert_eq!(look("server", places.clone().into_iter()), None);
    let program = second.path().join("server");
    std::fs::write(&program, "").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(look("server", places.into_iter()), Some(program));
}

#[test]
fn installed_peers_mark_hits_over_h2c() {
    for candidate in PEERS {
        let folder = tempfile::tempdir().unwrap();
        let (address, asked) = service();
        let wish = Wish { upstreams: vec![address], folder: folder.path().to_owned(), h2c: true, ..wish(false) };
        let subject = match (candidate.start)(&wish) {
            Err(SubjectError::Missing { .. }) => continue,
            started => started.unwrap(),
        };
        assert_eq!(asked.load(Ordering::SeqCst), 0, "waiting for {} asked the service", subject.name);
        let ask = BenchRequest {
            proof: subject.proof.clone(),
            ..BenchRequest::new(Paths::Fixed("/a/1024".to_owned()), 1024)
        };
        let mut streams = Streams::open(&subject.address, 4, ask).unwrap();
        let fill = streams.run(LoadPace::Closed, End::Requests(16)).unwrap();
        assert_eq!((fill.answered, fill.failures), (16, 0), "{}: {:?}", subject.name, fill.first_failure);
        let hits = streams.run(LoadPace::Closed, End::Requests(16)).unwrap();
        assert_eq!((hits.proven, hits.failures), (16, 0), "{}: {:?}", subject.name, hits.first_failure);
    }
}
