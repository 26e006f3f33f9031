//! The client that people have instead of a race: it asks the first region, and the next one when
//! the first is late. It stops listening to a region that it gave up on: it closes the connection,
//! as HTTP/1.1 asks, and makes a new one when it asks that region again.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use nearside::model::time::{Clock, Moment};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::http1::{RawReply, ReplyReader};
use super::load::{BenchRequest, Counted, LoadError};
use super::pace::{End, LoadPace, Schedule};
use super::paths::Paths;
use super::subject::Address;
use super::wire::BenchStream;
use crate::limits;

/// One caller with one connection to each region.
pub(super) struct Failover {
    regions: Vec<Region>,
    wait: Duration,
    ask: BenchRequest,
    request: Vec<u8>,
    buffer: Vec<u8>,
}

struct Region {
    address: Address,
    open: Option<(BenchStream, ReplyReader)>,
}

impl Failover {
    /// Asks the regions in this order, and waits `wait` for each but the last.
    pub(super) fn new(regions: &[SocketAddr], wait: Duration, ask: BenchRequest) -> Self {
        let regions = regions.iter().map(|address| Region { address: Address::Tcp(*address), open: None });
        let buffer = vec![0; limits::BENCH_READ_BYTES];
        Self { regions: regions.collect(), wait, ask, request: Vec::new(), buffer }
    }

    /// From now on, asks for other paths.
    pub(super) fn ask_for(&mut self, paths: Paths) {
        self.ask.paths = paths;
    }

    /// Sends one request after another until `end`, and sleeps until the next one is due.
    pub(super) fn run(&mut self, pace: LoadPace, end: End) -> Result<Counted, LoadError> {
        let start = Clock::System.now();
        let (mut schedule, mut counted, mut last) = (Schedule::new(pace, end, start), Counted::default(), start);
        loop {
            let now = Clock::System.now();
            let Some(since) = schedule.take(now) else {
                if schedule.over(now) {
                    break;
                }
                std::thread::sleep(schedule.wait(now).unwrap_or_default());
                continue;
            };
            self.ask.write(&mut self.request);
            let answered = self.in_order();
            last = Clock::System.now();
            match answered {
                Ok(reply) => counted.take(&reply, &self.ask, last.since(since)),
                Err(error) => counted.fail(|| error.to_string()),
            }
        }
        counted.failures += schedule.given_up;
        counted.took = last.since(start);
        Ok(counted)
    }

    /// The first good reply; if there is none, what the last region said.
    fn in_order(&mut self) -> io::Result<RawReply> {
        let mut said = Err(io::Error::from(io::ErrorKind::NotConnected));
        let count = self.regions.len();
        for (place, region) in self.regions.iter_mut().enumerate() {
            let wait = if place + 1 < count { self.wait } else { limits::BENCH_ANSWER_WAIT };
            let until = Clock::System.now() + wait;
            said = region.ask(&self.request, until, &self.ask, &mut self.buffer);
            match &said {
                Ok(reply) if reply.status < 500 => break,
                Ok(_) => {}
                Err(_) => region.open = None,
            }
        }
        said
    }
}

impl Region {
    /// Sends the request and waits for its reply until `until`.
    fn ask(&mut self, request: &[u8], until: Moment, ask: &BenchRequest, buffer: &mut [u8]) -> io::Result<RawReply> {
        if self.open.is_none() {
            self.open = Some((BenchStream::open(&self.address)?, ReplyReader::default()));
        }
        let Some((wire, reader)) = &mut self.open else { return Err(io::ErrorKind::NotConnected.into()) };
        if wire.write(request)? < request.len() {
            return Err(io::Error::other("a request does not fit into an empty socket"));
        }
        let reply = loop {
            match wire.read(buffer)? {
                None => listen(wire, until)?,
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(count) => {
                    if let Some(reply) = reader.read(&buffer[..count], &ask.proof).map_err(io::Error::other)? {
                        break reply;
                    }
                }
            }
        };
        if reply.closes {
            self.open = None;
        }
        Ok(reply)
    }
}

/// Waits for bytes with microsecond precision, which a socket's own timeout does not have.
fn listen(wire: &BenchStream, until: Moment) -> io::Result<()> {
    let left = until.since(Clock::System.now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let span = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
    match poll(&mut [PollFd::new(wire, PollFlags::IN)], Some(&span)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    /// A region that answers everything with this status at once; with `None` it never answers.
    fn region(status: Option<u16>) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::Builder::new().spawn(move || serve(&listener, status)).unwrap();
        address
    }

    fn serve(listener: &TcpListener, status: Option<u16>) {
        for stream in listener.incoming().flatten() {
            std::thread::Builder::new().spawn(move || converse(stream, status)).unwrap();
        }
    }

    fn converse(mut stream: std::net::TcpStream, status: Option<u16>) {
        let mut request = [0; 1024];
        while stream.read(&mut request).is_ok_and(|count| count > 0) {
            if let Some(status) = status {
                let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nok");
                if stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        }
    }

    fn asked(regions: &[SocketAddr], wait: Duration) -> Counted {
        let ask = BenchRequest::new(Paths::Fixed("/a".to_owned()), 2);
        Failover::new(regions, wait, ask).run(LoadPace::Closed, End::Requests(3)).unwrap()
    }

    const WAIT: Duration = Duration::from_millis(30);

    #[test]
    fn late_region_is_abandoned_and_timed() {
        let counted = asked(&[region(None), region(Some(200))], WAIT);
        assert_eq!((counted.answered, counted.failures), (3, 0), "{:?}", counted.first_failure);
        assert!(counted.latencies.summary().p50_us >= 30_000.0, "{:?}", counted.latencies.summary());
    }

    #[test]
    fn failed_region_starts_next_at_once() {
        let long = limits::BENCH_ANSWER_WAIT;
        let counted = asked(&[region(Some(503)), region(Some(200))], long);
        assert_eq!((counted.answered, counted.failures), (3, 0), "{:?}", counted.first_failure);
        assert!(counted.took < long);
    }

    #[test]
    fn prompt_first_region_is_asked_alone() {
        // Nobody listens at the second.
        let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        assert_eq!(asked(&[region(Some(200)), nobody], limits::BENCH_ANSWER_WAIT).answered, 3);
    }

    #[test]
    fn request_fails_when_all_regions_fail() {
        let counted = asked(&[region(Some(503)), region(Some(502))], limits::BENCH_ANSWER_WAIT);
        assert_eq!((counted.answered, counted.failures), (0, 3));
        assert!(counted.first_failure.unwrap().contains("502"));
    }
}
