//! Load over HTTP/1.1: keep-alive connections, requests sent when they are due, every reply checked
//! and timed. One thread and one epoll serve all connections, as lean as the bare responder,
//! because the server is what is measured. Each sent request is counted once, as answered or as
//! failed.
//!
//! A server may close an idle connection just as a request is sent over it (RFC 9112, 9.5). That is
//! nobody's fault: a GET whose connection had carried replies, and ends before the first byte of
//! this one, is sent once more over a new connection (9.3.1), and its time counts from the first.

use std::io;
use std::time::Duration;

use nearside::model::time::{Clock, Moment};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::time::Timespec;

use super::histogram::Latencies;
use super::http1::{RawReply, ReplyReader};
use super::pace::{End, LoadPace, Schedule};
use super::paths::Paths;
use super::subject::{Address, Proof};
use super::wire::BenchStream;
use crate::limits;

/// Request to send, and its right answer.
#[derive(Clone, Debug)]
pub struct BenchRequest {
    pub paths: Paths,
    /// Header lines after `Host`, each with its line end.
    pub headers: String,
    /// The value of `Host`.
    pub host: String,
    /// The body's length in a right answer; `None` accepts any.
    pub body_bytes: Option<u64>,
    /// Proof of a hit.
    pub proof: Proof,
    /// The body of a POST; empty for GET.
    pub body: String,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// From the first request to the last answer.
    pub took: Duration,
    pub answered: u64,
    /// Number of right answers with the proof.
    pub proven: u64,
    /// Wrong answers, broken connections, and requests that were never sent or never answered.
    pub failures: u64,
    /// Requests sent once more because the server closed their idle connection.
    pub resent: u64,
    /// Text of the first failure.
    pub first_failure: Option<String>,
    /// The latencies of right answers.
    pub latencies: Latencies,
    /// Latencies of those without the proof: misses, where the proof is a hit.
    pub unproven: Latencies,
}

/// Why no load could be put on the server.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{address} could not be connected to: {error}; is the server up?")]
    Connect { address: Address, error: io::Error },
    /// The kernel refused to watch sockets.
    #[error("the connections could not be watched: {0}")]
    Watch(#[from] rustix::io::Errno),
}

pub struct Load {
    address: Address,
    ask: BenchRequest,
    epoll: OwnedFd,
    connections: Vec<Connection>,
    /// Indices of the connections without a request in flight.
    idle: Vec<usize>,
    buffer: Vec<u8>,
    events: Vec<Event>,
}

#[derive(Debug)]
struct Connection {
    wire: BenchStream,
    reader: ReplyReader,
    /// The request in flight; `sent` is how much of it is already sent.
    request: Vec<u8>,
    sent: usize,
    since: Option<Moment>,
    /// Replies have come over it.
    is_used: bool,
}

impl Load {
    pub fn open(address: &Address, connections: usize, ask: BenchRequest) -> Result<Self, LoadError> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut load = Self {
            address: address.clone(),
            ask,
            epoll,
            connections: Vec::with_capacity(connections),
            idle: (0..connections).rev().collect(),
            buffer: vec![0; limits::BENCH_READ_BYTES],
            events: Vec::with_capacity(connections.max(1)),
        };
        for index in 0..connections {
            let wire = load.connect(index)?;
            let (reader, request) = (ReplyReader::default(), Vec::new());
            load.connections.push(Connection { wire, reader, request, sent: 0, since: None, is_used: false });
        }
        Ok(load)
    }

    /// From now on, asks for other paths.
    pub fn ask_for(&mut self, paths: Paths) {
        self.ask.paths = paths;
    }

    fn connect(&self, index: usize) -> Result<BenchStream, LoadError> {
        let wire = BenchStream::open(&self.address)
            .map_err(|error| LoadError::Connect { address: self.address.clone(), error })?;
        epoll::add(&self.epoll, &wire, EventData::new_u64(index as u64), EventFlags::IN)?;
        Ok(wire)
    }

    /// Sends until `end`, then waits for the outstanding replies.
    pub fn run(&mut self, pace: LoadPace, end: End) -> Result<Counted, LoadError> {
        let mut counted = Counted::default();
        let start = Clock::System.now();
        let mut schedule = Schedule::new(pace, end, start);
        let mut now = start;
        let mut last = start;
        loop {
            while let Some(index) = self.idle.last().copied() {
                let Some(since) = schedule.take(now) else { break };
                self.idle.pop();
                self.send(index, since, &mut counted)?;
            }
            let under_way = self.idle.len() < self.connections.len();
            if !under_way && (schedule.over(now) || self.connections.is_empty()) {
                break;
            }
            if under_way && now.since(last) > limits::BENCH_ANSWER_WAIT {
                self.give_up(&mut counted)?;
                break;
            }
            let over = schedule.over(now);
            self.wait(if over { None } else { schedule.wait(now) }, under_way)?;
            now = Clock::System.now();
            for at in 0..self.events.len() {
                let index = self.events[at].data.u64() as usize;
                if self.take_reply(index, &mut counted)? {
                    now = Clock::System.now();
                    last = now;
                    match schedule.take(now) {
                        Some(since) => self.send(index, since, &mut counted)?,
                        None => self.idle.push(index),
                    }
                }
            }
            if !under_way {
                last = now;
            }
        }
        counted.failures += schedule.given_up;
        counted.took = last.since(start);
        Ok(counted)
    }

    /// Waits for the kernel, or until the next request is nearly due. A timer would wake too late,
    /// so the last two milliseconds are spent polling.
    fn wait(&mut self, due: Option<Duration>, under_way: bool) -> Result<(), LoadError> {
        const EARLY: Duration = Duration::from_millis(2);
        let most = limits::BENCH_ANSWER_WAIT;
        let wait = match due {
            // No connection is idle to send it.
            Some(_) if under_way && self.idle.is_empty() => most,
            Some(due) => due.saturating_sub(EARLY).min(most),
            None => most,
        };
        let timeout =
            Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_millis()) * 1_000_000 };
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn send(&mut self, index: usize, since: Moment, counted: &mut Counted) -> Result<(), LoadError> {
        let connection = &mut self.connections[index];
        self.ask.write(&mut connection.request);
        connection.since = Some(since);
        connection.sent = 0;
        match connection.wire.write(&connection.request) {
            // A request fits into an empty socket buffer.
            Ok(sent) if sent == connection.request.len() => Ok(()),
            Ok(sent) => self.fail(index, format!("only {sent} bytes of a request could be sent"), counted),
            Err(error) if is_close(&error) && self.may_resend(index) => self.resend(index, since, counted),
            Err(error) => self.fail(index, format!("a request could not be sent: {error}"), counted),
        }
    }

    /// True if the connection can have been closed as idle before the server saw the request, which
    /// may be sent again.
    fn may_resend(&self, index: usize) -> bool {
        let connection = &self.connections[index];
        connection.is_used && connection.reader.is_between_replies() && self.ask.body.is_empty()
    }

    /// Sends the same request again over a new connection, which has carried nothing: so it is not
    /// sent a third time.
    fn resend(&mut self, index: usize, since: Moment, counted: &mut Counted) -> Result<(), LoadError> {
        self.renew(index)?;
        counted.resent += 1;
        let connection = &mut self.connections[index];
        connection.since = Some(since);
        match connection.wire.write(&connection.request) {
            Ok(sent) if sent == connection.request.len() => Ok(()),
            Ok(sent) => self.fail(index, format!("only {sent} bytes of a request could be sent"), counted),
            Err(error) => self.fail(index, format!("a request could not be sent: {error}"), counted),
        }
    }

    /// Takes a complete reply; returns true if the connection is free for another request.
    fn take_reply(&mut self, index: usize, counted: &mut Counted) -> Result<bool, LoadError> {
        let read = self.connections[index].wire.read(&mut self.buffer);
        let is_closed = match &read {
            Ok(read) => *read == Some(0),
            Err(error) => is_close(error),
        };
        if is_closed
            && let Some(since) = self.connections[index].since
            && self.may_resend(index)
        {
            self.resend(index, since, counted)?;
            return Ok(false);
        }
        let connection = &mut self.connections[index];
        let read = match read {
            Ok(None) => return Ok(false),
            Ok(Some(0)) => Err("the server closed the connection".to_owned()),
            Ok(Some(count)) => {
                connection.reader.read(&self.buffer[..count], &self.ask.proof).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        let (reply, since) = match (read, connection.since) {
            (Ok(None), Some(_)) => return Ok(false),
            (Ok(Some(reply)), Some(since)) => (reply, since),
            (Err(why), Some(_)) => {
                self.fail(index, why, counted)?;
                // `fail` made it idle.
                return Ok(false);
            }
            // A server may close an idle connection; bytes that nobody asked for end it too.
            (_, None) => {
                self.renew(index)?;
                return Ok(false);
            }
        };
        connection.since = None;
        connection.is_used = true;
        counted.take(&reply, &self.ask, Clock::System.now().since(since));
        if reply.closes {
            self.renew(index)?;
        }
        Ok(true)
    }

    fn fail(&mut self, index: usize, why: String, counted: &mut Counted) -> Result<(), LoadError> {
        counted.fail(|| why);
        self.idle.push(index);
        self.renew(index)
    }

    fn renew(&mut self, index: usize) -> Result<(), LoadError> {
        let wire = self.connect(index)?;
        let connection = &mut self.connections[index];
        // Closing the old one takes it out of the epoll.
        connection.wire = wire;
        connection.reader.reset();
        connection.since = None;
        connection.is_used = false;
        Ok(())
    }

    fn give_up(&mut self, counted: &mut Counted) -> Result<(), LoadError> {
        for index in 0..self.connections.len() {
            if self.connections[index].since.is_some() {
                self.fail(index, "a request was not answered".to_owned(), counted)?;
            }
        }
        Ok(())
    }
}

/// The other side has closed the connection, or it did so before it read what was sent.
fn is_close(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

impl BenchRequest {
    /// For a server on loopback, with nothing in the head that is not needed.
    pub fn new(paths: Paths, body_bytes: u64) -> Self {
        let (headers, host) = (String::new(), "127.0.0.1".to_owned());
        Self { paths, headers, host, body_bytes: Some(body_bytes), proof: Proof::Always, body: String::new() }
    }

    /// Writes the next request into `out`, replacing what it held.
    pub fn write(&mut self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(if self.body.is_empty() { b"GET " } else { b"POST " });
        self.paths.write(out);
        for part in [" HTTP/1.1\r\nHost: ", &self.host, "\r\n", &self.headers, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(self.body.as_bytes());
    }
}

impl Counted {
    /// Counts a reply, right or wrong.
    pub fn take(&mut self, reply: &RawReply, ask: &BenchRequest, latency: Duration) {
        let right = reply.status == 200 && ask.body_bytes.is_none_or(|bytes| bytes == reply.body_bytes);
        if right {
            self.answered += 1;
            self.proven += u64::from(reply.proven);
            self.latencies.record(latency);
            if !reply.proven {
                self.unproven.record(latency);
            }
        } else {
            self.fail(|| format!("status {} with {} bytes of body", reply.status, reply.body_bytes));
        }
    }

    /// Counts a request that got no usable reply.
    pub fn fail(&mut self, why: impl FnOnce() -> String) {
        self.failures += 1;
        self.first_failure.get_or_insert_with(why);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::thread::JoinHandle;

    use super::*;

    const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

    fn read_request(stream: &mut TcpStream) {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
            head.push(byte[0]);
        }
    }

    /// Starts a server that says one text for each request on each of its connections, and closes
    /// it.
    fn server(connections: &'static [&'static [&'static [u8]]]) -> (Address, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let serving = std::thread::Builder::new().spawn(move || {
            for replies in connections {
                let (mut stream, _) = listener.accept().unwrap();
                for reply in *replies {
                    read_request(&mut stream);
                    stream.write_all(reply).unwrap();
                }
                stream.shutdown(Shutdown::Write).unwrap();
            }
        });
        (address, serving.unwrap())
    }

    fn ask(address: &Address, requests: u64, body: &str) -> Counted {
        let mut ask = BenchRequest::new(Paths::Fixed("/a".to_owned()), 2);
        ask.body = body.to_owned();
        let mut load = Load::open(address, 1, ask).unwrap();
        load.run(LoadPace::Closed, End::Requests(requests)).unwrap()
    }

    #[test]
    fn requests_survive_idle_close() {
        // The second request meets the end of its connection: an empty text is no reply.
        let (address, serving) = server(&[&[REPLY, b""], &[REPLY, REPLY]]);
        let counted = ask(&address, 3, "");
        assert_eq!((counted.answered, counted.failures, counted.resent), (3, 0, 1), "{:?}", counted.first_failure);
        serving.join().unwrap();
    }

    #[test]
    fn possibly_processed_requests_fail_once() {
        // A connection that had carried nothing; half a reply; a method that is not safe.
        assert_fails(&[&[b""], &[REPLY]], "");
        assert_fails(&[&[REPLY, b"HTTP/1.1 200"], &[]], "");
        assert_fails(&[&[REPLY, b""], &[]], "{}");
    }

    fn assert_fails(connections: &'static [&'static [&'static [u8]]], body: &str) {
        let (address, _serving) = server(connections);
        let counted = ask(&address, 1 + u64::from(connections.len() == 2), body);
        assert_eq!((counted.failures, counted.resent), (1, 0), "{:?}", counted.first_failure);
    }
}
