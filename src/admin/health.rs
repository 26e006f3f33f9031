//! The probe behind `nearside health`, made for a container's HEALTHCHECK: one plain HTTP request
//! to the admin port of a sidecar or a service on this machine. The exit code is 0 if `/readyz` says 200, and 1
//! if it says anything else or nothing. A sidecar that serves stale data is healthy; a draining one
//! is not.
//!
//! What `/readyz` says is not as it should be is handed on all the same.
//!
//! The probe ends within the time given to it, and needs no runtime, and no configuration beyond the
//! address. Over TLS it verifies no certificate: on loopback there is nobody in between, and the
//! certificate names the machine as others know it.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::admin::limits::{LINE_CHARS, PROBE_BYTES};
use crate::model::time::{Clock, Moment};

mod unverified;

/// Why the sidecar is not healthy. A retry helps with one that is starting, not with one that is
/// draining.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unhealthy {
    /// Nobody listens there, or the connection broke.
    #[error("cannot ask {address}: {cause}")]
    Unreachable { address: SocketAddr, cause: std::io::Error },
    /// Over TLS only this machine is asked.
    #[error("{address} is not a loopback address, and its certificate would not be verified; ask on loopback")]
    Unverified { address: SocketAddr },
    /// No status line arrived in time.
    #[error("{address} gave no answer within {within:?}")]
    Silent { address: SocketAddr, within: Duration },
    /// It answered with a status other than 200: it is draining, or it is not Nearside.
    #[error("{address} answered: {answer}")]
    NotReady {
        address: SocketAddr,
        /// The status line, printable characters only.
        answer: String,
    },
}

/// Port with pages for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AdminPort {
    pub(crate) address: SocketAddr,
    pub(crate) has_tls: bool,
}

impl AdminPort {
    pub(crate) const fn plain(address: SocketAddr) -> Self {
        Self { address, has_tls: false }
    }
}

/// Asks `/readyz` at `port`; `Ok` if it answers 200 `within` the time given, with the reasons that
/// it names.
///
/// A sidecar may listen on an unspecified address (`0.0.0.0`, `[::]`), which is asked on loopback.
pub(crate) fn probe(port: AdminPort, within: Duration) -> Result<Vec<String>, Unhealthy> {
    let address = reachable(port.address);
    if port.has_tls && !address.ip().is_loopback() {
        return Err(Unhealthy::Unverified { address });
    }
    let deadline = Clock::System.now() + within;
    let (answer, body) = ask(AdminPort { address, ..port }, deadline).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => Unhealthy::Silent { address, within },
        _ => Unhealthy::Unreachable { address, cause },
    })?;
    let mut words = answer.split(' ');
    let speaks_http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
    let is_ready = speaks_http && words.next() == Some("200");
    if is_ready { Ok(reasons(&body)) } else { Err(Unhealthy::NotReady { address, answer }) }
}

/// The reasons of a readiness document; none where it is something else.
fn reasons(body: &[u8]) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Readiness {
        reasons: Vec<String>,
    }
    let reasons = serde_json::from_slice::<Readiness>(body).map(|readiness| readiness.reasons).unwrap_or_default();
    reasons.iter().map(|reason| printable(reason.chars())).collect()
}

fn printable(text: impl Iterator<Item = char>) -> String {
    text.filter(|letter| !letter.is_control()).take(LINE_CHARS).collect()
}

/// Returns the status line of the answer, and its body or the beginning of that.
fn ask(port: AdminPort, deadline: Moment) -> std::io::Result<(String, Vec<u8>)> {
    let stream = TcpStream::connect_timeout(&port.address, left(deadline)?)?;
    let mut stream = Bounded { stream, deadline };
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", port.address);
    let answer = if port.has_tls {
        let mut session = unverified::session(port.address.ip()).map_err(std::io::Error::other)?;
        answer(&mut rustls::Stream::new(&mut session, &mut stream), &request)?
    } else {
        answer(&mut stream, &request)?
    };
    let line = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let body = answer.windows(4).position(|end| end == b"\r\n\r\n").map_or(&[][..], |end| &answer[end + 4..]);
    Ok((printable(String::from_utf8_lossy(line).chars()), body.to_vec()))
}

fn answer(stream: &mut (impl Read + Write), request: &str) -> std::io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut answer = Vec::new();
    let mut chunk = [0; 512];
    while answer.len() < PROBE_BYTES {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&chunk[..read]),
            // Its status line is what counts.
            Err(_) if answer.contains(&b'\n') => break,
            Err(error) => return Err(error),
        }
    }
    Ok(answer)
}

/// A stream on which nothing takes longer than until the deadline.
struct Bounded {
    stream: TcpStream,
    deadline: Moment,
}

impl Read for Bounded {
    fn read(&mut self, chunk: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.deadline)?))?;
        self.stream.read(chunk)
    }
}

impl Write for Bounded {
    fn write(&mut self, chunk: &[u8]) -> std::io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.deadline)?))?;
        self.stream.write(chunk)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

/// The time left. Never zero, which to the operating system would mean no timeout.
fn left(deadline: Moment) -> std::io::Result<Duration> {
    let left = deadline.since(Clock::System.now());
    if left.is_zero() { Err(std::io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Turns an unspecified address, on which a sidecar listens, into one that this machine can ask.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Answers one connection with `pieces`, then closes it; returns its address.
    fn answering(pieces: &'static [&'static str]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answering = std::thread::Builder::new().spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 512];
            let read = stream.read(&mut request).unwrap();
            assert!(request[..read].starts_with(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:"));
            for piece in pieces {
                stream.write_all(piece.as_bytes()).unwrap();
            }
        });
        answering.unwrap();
        address
    }

    const SOON: Duration = Duration::from_secs(5);

    fn ask_plain(address: SocketAddr, within: Duration) -> Result<Vec<String>, Unhealthy> {
        probe(AdminPort::plain(address), within)
    }

    #[test]
    fn other_machines_are_not_asked_over_tls() {
        let port = AdminPort { address: "192.0.2.1:8741".parse().unwrap(), has_tls: true };
        assert!(matches!(probe(port, SOON), Err(Unhealthy::Unverified { .. })));
    }

    #[test]
    fn fragmented_200_is_healthy() {
        assert!(ask_plain(answering(&["HTTP/1.1 2", "00 OK\r\n", "\r\n"]), SOON).is_ok());
    }

    #[test]
    fn probe_returns_reasons_of_200() {
        const ANSWER: &[&str] = &[
            "HTTP/1.1 200 OK\r\nx: y\r\n\r\n",
            r#"{"state":"degraded","reasons":["home: the disk is full","a \u001b[2J"]}"#,
        ];
        let reasons = ask_plain(answering(ANSWER), SOON).unwrap();
        assert_eq!(reasons, ["home: the disk is full", "a [2J"]);
    }

    #[test]
    fn unhealthy_503_is_named_in_error() {
        let error = ask_plain(answering(&["HTTP/1.1 503 Service Unavailable\r\n\r\n"]), SOON).unwrap_err();
        assert!(error.to_string().ends_with("answered: HTTP/1.1 503 Service Unavailable"), "{error}");
    }

    #[test]
    fn non_http_answer_is_unhealthy() {
        for pieces in [&["200 200 200\r\n"][..], &["HTTP/1.1 2000\r\n"], &["\u{1b}[2J\r\n"], &[]] {
            let error = ask_plain(answering(pieces), SOON).unwrap_err();
            assert!(matches!(&error, Unhealthy::NotReady { answer, .. } if !answer.contains('\u{1b}')), "{error}");
        }
    }

    #[test]
    fn closed_port_is_unreachable() {
        // Port 1, tcpmux: nobody listens, and the system hands it to nobody.
        let closed = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        assert!(matches!(ask_plain(closed, SOON), Err(Unhealthy::Unreachable { .. })));
    }

    #[test]
    fn silent_peer_times_out_at_deadline() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap();
        let error = ask_plain(address, Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, Unhealthy::Silent { .. }), "{error}");
    }

    #[test]
    fn unspecified_address_is_probed_on_loopback() {
        let everywhere: SocketAddr = "0.0.0.0:8701".parse().unwrap();
        assert_eq!(reachable(everywhere).to_string(), "127.0.0.1:8701");
        assert_eq!(reachable("[::]:8701".parse().unwrap()).to_string(), "[::1]:8701");
    }
}
