//! The floor: a bare epoll loop that answers from memory and looks only for the end of a request.
//! It shows the least that an answer over this kernel's loopback can cost, and every subject is
//! compared with it. The harness starts it as a process of its own, from the same executable. Each
//! request takes one read and one write, unless the kernel takes fewer bytes; nothing is parsed,
//! allocated or looked up.

use std::collections::BTreeMap;
use std::io;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::subject::Address;
use super::wire::{BenchListener, BenchStream};
use crate::limits;

/// The listening socket's number; connections are numbered from 1.
const LISTENER: u64 = 0;
/// End of a request without a body.
const END: &[u8; 4] = b"\r\n\r\n";

struct Caller {
    wire: BenchStream,
    /// Number of bytes of [`END`] that have arrived so far.
    seen: usize,
    /// Number of answers owed; `sent` counts the bytes of the first one that are already sent.
    owed: usize,
    sent: usize,
}

/// Answers every request with `answer`, until the process ends.
pub(crate) fn serve(address: &Address, answer: &[u8]) -> io::Result<()> {
    let listener = BenchListener::open(address)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut callers: BTreeMap<u64, Caller> = BTreeMap::new();
    let mut next = LISTENER + 1;
    let mut events: Vec<Event> = Vec::with_capacity(limits::BENCH_EVENTS);
    let mut buffer = vec![0; limits::BENCH_READ_BYTES];
    loop {
        events.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let number = event.data.u64();
            let flags = event.flags;
            if number == LISTENER {
                while let Some(wire) = listener.accept()? {
                    epoll::add(&epoll, &wire, EventData::new_u64(next), EventFlags::IN)?;
                    callers.insert(next, Caller { wire, seen: 0, owed: 0, sent: 0 });
                    next += 1;
                }
                continue;
            }
            let Some(caller) = callers.get_mut(&number) else { continue };
            let owed_before = caller.owed > 0;
            let open = caller.step(flags, &mut buffer, answer);
            if !open.unwrap_or(false) {
                callers.remove(&number);
            } else if owed_before != (caller.owed > 0) {
                let wanted = if caller.owed > 0 { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
                epoll::modify(&epoll, &caller.wire, EventData::new_u64(number), wanted)?;
            }
        }
    }
}

impl Caller {
    /// Reads and answers; returns whether the connection stays open.
    fn step(&mut self, flags: EventFlags, buffer: &mut [u8], answer: &[u8]) -> io::Result<bool> {
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            match self.wire.read(buffer)? {
                Some(0) => return Ok(false),
                Some(count) => self.count(&buffer[..count]),
                None => {}
            }
        }
        while self.owed > 0 {
            let written = self.wire.write(&answer[self.sent..])?;
            self.sent += written;
            if self.sent < answer.len() {
                break;
            }
            self.sent = 0;
            self.owed -= 1;
        }
        Ok(true)
    }

    /// A caller waits for its answer before it sends again, so only the end of the bytes matters.
    /// If the end of a request arrives in pieces, the last bytes of each piece put it together.
    fn count(&mut self, bytes: &[u8]) {
        if bytes.ends_with(END) {
            self.owed += 1;
            self.seen = 0;
            return;
        }
        for byte in &bytes[bytes.len().saturating_sub(END.len() - 1)..] {
            self.seen = if *byte == END[self.seen] { self.seen + 1 } else { usize::from(*byte == END[0]) };
            if self.seen == END.len() {
                self.seen = 0;
                self.owed += 1;
            }
        }
    }
}

/// The answer for [`serve`]: the same head and body size as the peers send.
pub(crate) fn answer(body_bytes: usize) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\netag: \"5\"\r\ncache-control: max-age=3600\r\n\
         x-record-version: 5\r\ndate: Fri, 15 Jan 2027 08:00:00 GMT\r\nage: 1\r\n\
         cache-status: nearside; hit; ttl=3599\r\ncontent-length: {body_bytes}\r\n\r\n"
    );
    let mut answer = head.into_bytes();
    answer.resize(answer.len() + body_bytes, b'x');
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_request_is_counted_once() {
        let text = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        for at in 0..=text.len() {
            let wire = BenchStream::Unix(std::os::unix::net::UnixStream::pair().unwrap().0);
            let mut caller = Caller { wire, seen: 0, owed: 0, sent: 0 };
            caller.count(&text[..at]);
            caller.count(&text[at..]);
            assert_eq!((caller.owed, caller.seen), (1, 0), "cut at {at}");
        }
    }
}
