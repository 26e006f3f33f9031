//! The service behind the measured servers: regions that answer any path, each with the delay that
//! it is given. Misses are measured with it. The harness starts it as a process of its own, from
//! the same executable. How late a region answers for a key depends on seed, region and key alone
//! ([`Delay::of`]), so that the harness can work out the exact minimum over all regions. It has one
//! thread, and a kernel timer that is precise to the microsecond.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use nearside::http::limits::REQUEST_HEAD_BYTES;
use nearside::model::time::{Clock, Moment};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::subject::Address;
use super::wire::{BenchListener, BenchStream};
use crate::limits;

/// The path prefix of a region's orders: `/bench/die/MILLISECONDS`, `/bench/live`, and
/// `/bench/count`, which says how many requests the region has received.
pub(crate) const ORDERS: &str = "/bench/";
const TIMER: u64 = u64::MAX;
/// Connections are numbered from here; the numbers below are listening sockets.
const CALLERS: u64 = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Delay {
    None,
    /// A constant delay: region i answers after (i + 1) times this duration.
    Fixed(Duration),
    /// Heavy-tailed (Pareto, at least 2 ms, shape 1.5, at most a second), drawn by seed, region and
    /// key.
    Tail(u64),
}

impl Delay {
    /// Delay of `region`'s answer for `path`.
    pub(crate) fn of(self, region: usize, path: &str) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Fixed(step) => step * (region as u32 + 1),
            Self::Tail(seed) => {
                let mixed = path.bytes().fold(seed ^ (region as u64) << 56, |hash, byte| {
                    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
                });
                let even = 1.0 - fastrand::Rng::with_seed(mixed).f64();
                Duration::from_secs_f64((0.002 * even.powf(-1.0 / 1.5)).min(1.0))
            }
        }
    }

    /// Parses an argument: `none`, `fixed:5ms`, `tail:7`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let delay = match text.split_once(':') {
            None if text == "none" => Some(Self::None),
            Some(("fixed", span)) => humantime::parse_duration(span).ok().map(Self::Fixed),
            Some(("tail", seed)) => seed.parse().ok().map(Self::Tail),
            _ => None,
        };
        delay.ok_or_else(|| format!("{text:?} is no delay; write none, fixed:5ms or tail:SEED"))
    }
}

impl std::fmt::Display for Delay {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => out.write_str("none"),
            Self::Fixed(step) => write!(out, "fixed:{}", humantime::format_duration(*step)),
            Self::Tail(seed) => write!(out, "tail:{seed}"),
        }
    }
}

struct Caller {
    wire: BenchStream,
    region: usize,
    head: Vec<u8>,
    answer: Vec<u8>,
    sent: usize,
}

struct Regions {
    epoll: OwnedFd,
    timer: OwnedFd,
    delay: Delay,
    listeners: Vec<BenchListener>,
    callers: BTreeMap<u64, Caller>,
    next: u64,
    /// Answers that wait for their time, and deaths of regions.
    late: BinaryHeap<Reverse<(Moment, u64)>>,
    dead: Vec<bool>,
    asked: Vec<u64>,
}

/// Serves one region per address until the process ends.
pub(crate) fn serve(addresses: &[SocketAddr], delay: Delay) -> io::Result<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
    let listeners = addresses
        .iter()
        .map(|address| BenchListener::open(&Address::Tcp(*address)))
        .collect::<io::Result<Vec<_>>>()?;
    for (region, listener) in listeners.iter().enumerate() {
        epoll::add(&epoll, listener, EventData::new_u64(region as u64), EventFlags::IN)?;
    }
    let (dead, asked) = (vec![false; listeners.len()], vec![0; listeners.len()]);
    let late = BinaryHeap::new();
    let callers = BTreeMap::new();
    Regions { epoll, timer, delay, listeners, callers, next: CALLERS, late, dead, asked }.run()
}

impl Regions {
    fn run(mut self) -> io::Result<()> {
        let mut events: Vec<Event> = Vec::with_capacity(limits::BENCH_EVENTS);
        let mut buffer = vec![0; limits::BENCH_READ_BYTES];
        loop {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let number = event.data.u64();
                let stays = match number {
                    TIMER => self.ring()?,
                    listener if listener < CALLERS => self.open(listener as usize)?,
                    caller => self.step(caller, &mut buffer).unwrap_or(false),
                };
                if !stays {
                    self.callers.remove(&number);
                }
            }
        }
    }

    /// Accepts every connection, even for a dead region.
    fn open(&mut self, region: usize) -> io::Result<bool> {
        while let Some(wire) = self.listeners[region].accept()? {
            // The region may be revived, so a dead one accepts too, and closes the connection when
            // a request arrives.
            epoll::add(&self.epoll, &wire, EventData::new_u64(self.next), EventFlags::IN)?;
            let caller = Caller { wire, region, head: Vec::new(), answer: Vec::new(), sent: 0 };
            self.callers.insert(self.next, caller);
            self.next += 1;
        }
        Ok(true)
    }

    /// Sends what is due.
    fn ring(&mut self) -> io::Result<bool> {
        let mut expirations = [0_u8; 8];
        // Reading only silences the timer.
        let _ = rustix::io::read(&self.timer, expirations.as_mut_slice());
        let now = Clock::System.now();
        while let Some(Reverse((due, number))) = self.late.peek().copied() {
            if due > now {
                self.wind(due, now)?;
                break;
            }
            self.late.pop();
            if number < CALLERS {
                self.die(number as usize);
            } else if !self.flush(number).unwrap_or(false) {
                self.callers.remove(&number);
            }
        }
        Ok(true)
    }

    fn wind(&self, due: Moment, now: Moment) -> io::Result<()> {
        let span = due.since(now).max(Duration::from_nanos(1));
        let once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: once, it_value: value })?;
        Ok(())
    }

    /// Reads and answers; returns whether the connection stays open.
    fn step(&mut self, number: u64, buffer: &mut [u8]) -> io::Result<bool> {
        let Some(caller) = self.callers.get_mut(&number) else { return Ok(true) };
        if !caller.answer.is_empty() && caller.sent > 0 {
            return self.flush(number);
        }
        match caller.wire.read(buffer)? {
            Some(0) => return Ok(false),
            Some(count) => caller.head.extend_from_slice(&buffer[..count]),
            None => return Ok(true),
        }
        if caller.head.len() > REQUEST_HEAD_BYTES {
            return Ok(false);
        }
        if !caller.head.ends_with(b"\r\n\r\n") {
            return Ok(true);
        }
        let head = std::mem::take(&mut caller.head);
        let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let path = std::str::from_utf8(line).ok().and_then(|line| line.split(' ').nth(1)).unwrap_or("/");
        let region = caller.region;
        if let Some(order) = path.strip_prefix(ORDERS) {
            let reported = match order.split_once('/').unwrap_or((order, "0")) {
                ("die", millis) => {
                    let due = Clock::System.now() + Duration::from_millis(millis.parse().unwrap_or(0));
                    self.remember(due, region as u64)?;
                    true.to_string()
                }
                ("live", _) => std::mem::replace(&mut self.dead[region], false).to_string(),
                _ => self.asked[region].to_string(),
            };
            return self.answer(number, reported.as_bytes(), Duration::ZERO);
        }
        if self.dead[region] {
            return Ok(false);
        }
        self.asked[region] += 1;
        let body = body(path);
        let delay = self.delay.of(region, path);
        self.answer(number, &body, delay)
    }

    /// Closes all connections of the region; from now on, requests are answered by closing the
    /// connection.
    fn die(&mut self, region: usize) {
        self.dead[region] = true;
        self.callers.retain(|_, caller| caller.region != region);
    }

    /// Wakes at `due` for a caller, or for the death of a region.
    fn remember(&mut self, due: Moment, number: u64) -> io::Result<()> {
        let first = self.late.peek().is_none_or(|Reverse((first, _))| due < *first);
        self.late.push(Reverse((due, number)));
        if first { self.wind(due, Clock::System.now()) } else { Ok(()) }
    }

    fn answer(&mut self, number: u64, body: &[u8], delay: Duration) -> io::Result<bool> {
        let now = Clock::System.now();
        let Some(caller) = self.callers.get_mut(&number) else { return Ok(false) };
        let date = httpdate::fmt_http_date(Clock::System.wall().to_system_time());
        caller.answer.clear();
        write!(
            caller.answer,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\netag: \"5\"\r\ncache-control: max-age=3600\r\n\
             x-record-version: 5\r\ndate: {date}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )?;
        caller.answer.extend_from_slice(body);
        caller.sent = 0;
        if delay.is_zero() {
            return self.flush(number);
        }
        self.remember(now + delay, number)?;
        Ok(true)
    }

    /// Sends what the kernel takes, and the rest when the socket is writable again.
    fn flush(&mut self, number: u64) -> io::Result<bool> {
        let Some(caller) = self.callers.get_mut(&number) else { return Ok(true) };
        let waited = caller.sent > 0;
        caller.sent += caller.wire.write(&caller.answer[caller.sent..])?;
        let waits = caller.sent < caller.answer.len();
        if waits != waited {
            let wanted = if waits { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            epoll::modify(&self.epoll, &caller.wire, EventData::new_u64(number), wanted)?;
        }
        if !waits {
            caller.answer.clear();
            caller.sent = 0;
        }
        Ok(true)
    }
}

/// The least that a stored reply of this length takes, in bytes: its header lines as in HTTP/1.1,
/// and the body.
pub(crate) fn stored_bytes(view: &str) -> usize {
    const HEADERS: [(&str, &str); 6] = [
        ("content-type", "application/json"),
        ("etag", "\"5\""),
        ("cache-control", "max-age=3600"),
        ("x-record-version", "5"),
        ("date", "Fri, 15 Jan 2027 08:00:00 GMT"),
        ("content-length", "1024"),
    ];
    HEADERS.iter().map(|(name, value)| name.len() + value.len() + 4).sum::<usize>() + body_bytes(view)
}

fn number(view: &str, unit: char) -> Option<usize> {
    view.strip_suffix(unit)?.parse().ok()
}

/// The body size that the last segment of a path asks for: `1k`, `100k`, `129b`, `1k.json`.
pub(crate) fn body_bytes(path: &str) -> usize {
    let view = path.rsplit('/').next().unwrap_or_default();
    let view = view.strip_suffix(JSON).unwrap_or(view);
    let bytes = number(view, 'b').or_else(|| number(view, 'k').map(|kib| kib.saturating_mul(1 << 10)));
    bytes.unwrap_or(1 << 10).min(limits::BENCH_BODY_KIB << 10)
}

/// The view of a record of 1 MiB, as JSON: an object of [`RECORD_MEMBERS`] objects.
pub(crate) const RECORD: &str = "record";
pub(crate) const RECORD_MEMBERS: usize = 8192;
/// Length of a member with the comma behind it, in bytes.
pub(crate) const MEMBER_BYTES: usize = 128;

/// The name of one of its members.
pub(crate) fn member(index: usize) -> String {
    format!("m{index:04}")
}

const JSON: &str = ".json";

/// Body of a path: a record, as many bytes of an object for `1k.json`, else text that is no JSON.
fn body(path: &str) -> Vec<u8> {
    let view = path.rsplit('/').next().unwrap_or_default();
    if view == RECORD {
        let text = "x".repeat(MEMBER_BYTES - r#""m0000":{"v":""},"#.len());
        let members = (0..RECORD_MEMBERS).map(|index| format!(r#""{}":{{"v":"{text}"}}"#, member(index)));
        return format!("{{{}}}", members.collect::<Vec<_>>().join(",")).into_bytes();
    }
    let mut body = vec![b'x'; body_bytes(path)];
    if view.ends_with(JSON) {
        let (open, close) = (&b"{\"padding\":\""[..], &b"\"}"[..]);
        let end = body.len() - close.len();
        body[..open.len()].copy_from_slice(open);
        body[end..].copy_from_slice(close);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_is_seeded_and_heavy_tailed() {
        let delay = Delay::Tail(7);
        assert_eq!(delay.of(1, "/a"), delay.of(1, "/a"));
        assert_ne!(delay.of(1, "/a"), delay.of(2, "/a"));
        assert_ne!(delay.of(1, "/a"), Delay::Tail(8).of(1, "/a"));
        let mut all: Vec<_> = (0..10_000).map(|key| delay.of(0, &super::super::paths::path(key, "1k"))).collect();
        all.sort();
        // Pareto: the median is 2 ms x 2^(2/3), the 99th percentile 2 ms x 100^(2/3).
        assert!((all[5000].as_secs_f64() / 0.003_175 - 1.0).abs() < 0.1, "{:?}", all[5000]);
        assert!((all[9900].as_secs_f64() / 0.043_09 - 1.0).abs() < 0.3, "{:?}", all[9900]);
    }

    #[test]
    fn delay_round_trips_as_text() {
        for delay in [Delay::None, Delay::Fixed(Duration::from_millis(5)), Delay::Tail(7)] {
            assert_eq!(Delay::parse(&delay.to_string()), Ok(delay));
        }
        assert!(Delay::parse("fixed").is_err() && Delay::parse("tail:x").is_err());
    }

    #[test]
    fn path_states_body_size() {
        assert_eq!(["/a/k/1k", "/a/k/100k", "/a/k/129b", "/a"].map(body_bytes), [1024, 102_400, 129, 1024]);
        let record = body("/a/k/record");
        assert_eq!(record.len(), RECORD_MEMBERS * MEMBER_BYTES + 1);
        let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
        assert!(record[member(RECORD_MEMBERS - 1)]["v"].is_string());
    }
}
