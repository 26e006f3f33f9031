//! Writes log lines on a thread of its own, so that no thread that serves ever waits for the reader
//! of the log, and none sees its errors.
//!
//! Lines wait in a queue with a bound in bytes. What does not fit, or cannot be written, is counted
//! and left out; when writing works again, a line says how many there were.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, poll};
use tracing_subscriber::fmt::MakeWriter;

use crate::model::time::{Clock, Moment};
use crate::telemetry::limits::{LOG_FLUSH, LOG_LOSS_LINES, LOG_QUEUE_BYTES, LOG_STALL};

/// Lines that were lost since the process started, by reason.
static QUEUE_FULL: AtomicU64 = AtomicU64::new(0);
static NOT_WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Lost log lines by reason, for metrics.
pub(crate) fn lost() -> [(&'static str, u64); 2] {
    [("queue-full", QUEUE_FULL.load(Ordering::Relaxed)), ("not-written", NOT_WRITTEN.load(Ordering::Relaxed))]
}

/// A bounded queue of lines and the thread that writes them; clones share it.
#[derive(Clone, Default)]
pub struct LogSink {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Something was queued, taken or written.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// A line is being written.
    is_writing: bool,
    /// Lines that were taken from the queue since the start.
    taken: u64,
    /// Lines that were lost since the start, and those of them that a line has reported.
    lost: u64,
    reported: u64,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is a few plain stores, so a panic cannot leave it half-made.
        self.state.lock()
    }
}

impl LogSink {
    /// Starts the thread that writes to `to`.
    ///
    /// # Errors
    /// If the machine gives no thread.
    pub fn start(to: impl AsFd + Send + 'static) -> io::Result<Self> {
        let sink = Self::default();
        let own = sink.clone();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || own.write_lines(&to, &Clock::System))?;
        Ok(sink)
    }

    /// Queues a line, or counts it as lost. Never waits for the reader of the log.
    pub(crate) fn push(&self, line: &[u8]) {
        let mut state = self.shared.state();
        let after = state.bytes + line.len();
        if after > LOG_QUEUE_BYTES {
            state.lost += 1;
            QUEUE_FULL.fetch_add(1, Ordering::Relaxed);
            return;
        }
        state.bytes = after;
        state.lines.push_back(line.to_vec());
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits until everything queued is written: at most [`LOG_FLUSH`], and no longer than
    /// [`LOG_STALL`] while nothing is taken.
    pub fn flush(&self) {
        let (end, mut state) = (Clock::System.now() + LOG_FLUSH, self.shared.state());
        while Clock::System.now() < end && (state.is_writing || !state.lines.is_empty()) {
            let taken = state.taken;
            let waited = self.shared.changed.wait_while_for(
                &mut state,
                |now| now.taken == taken && (now.is_writing || !now.lines.is_empty()),
                LOG_STALL,
            );
            if waited.timed_out() {
                return;
            }
        }
    }

    fn write_lines(&self, to: &impl AsFd, clock: &Clock) {
        let (mut cut, mut reported) = (false, None::<Moment>);
        loop {
            let line = self.next();
            let written = write_whole(to.as_fd(), &line, &mut cut);
            let mut state = self.shared.state();
            state.is_writing = false;
            state.taken += 1;
            if written.is_err() {
                state.lost += 1;
                NOT_WRITTEN.fetch_add(1, Ordering::Relaxed);
            }
            let now = clock.now();
            let is_due = reported.is_none_or(|at| now.since(at) >= LOG_LOSS_LINES);
            let lost = if written.is_ok() && is_due { state.lost - state.reported } else { 0 };
            state.reported += lost;
            drop(state);
            self.shared.changed.notify_all();
            if lost > 0 {
                reported = Some(now);
                tracing::warn!(lost, "log lines were lost: the log was not read, or could not be written");
            }
        }
    }

    /// Waits for a line and takes it.
    fn next(&self) -> Vec<u8> {
        let mut state = self.shared.state();
        loop {
            if let Some(line) = state.lines.pop_front() {
                state.bytes -= line.len();
                state.is_writing = true;
                return line;
            }
            self.shared.changed.wait(&mut state);
        }
    }
}

/// Writes a line whole. `cut` says that the last one was not: then a line end comes first.
fn write_whole(to: BorrowedFd<'_>, line: &[u8], cut: &mut bool) -> io::Result<()> {
    if *cut {
        write_all(to, b"\n", &mut false)?;
        *cut = false;
    }
    write_all(to, line, cut)
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8], begun: &mut bool) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = &bytes[count..];
                *begun = !bytes.is_empty();
            }
            Err(rustix::io::Errno::INTR) => {}
            // Another process that shares the descriptor made it non-blocking.
            Err(rustix::io::Errno::AGAIN) => {
                poll(&mut [PollFd::from_borrowed_fd(to, PollFlags::OUT)], None)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

impl Write for LogSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !bytes.is_empty() {
            self.push(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LogSink {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};

    use super::*;

    #[test]
    fn lines_are_written_ordered_and_flushed() {
        let (mut reader, writer) = io::pipe().unwrap();
        let sink = LogSink::start(writer).unwrap();
        (0..100).for_each(|number| sink.push(format!("{number}\n").as_bytes()));
        sink.flush();
        let mut page = [0; 290];
        reader.read_exact(&mut page).unwrap();
        let expected: String = (0..100).map(|number| format!("{number}\n")).collect();
        assert_eq!(std::str::from_utf8(&page).unwrap(), expected);
    }

    #[test]
    fn a_blocked_reader_costs_lines_alone() {
        let (reader, writer) = io::pipe().unwrap();
        let sink = LogSink::start(writer).unwrap();
        let line = [[b'x'; 1023].as_slice(), b"\n"].concat();
        for _ in 0..4 * LOG_QUEUE_BYTES / line.len() {
            sink.push(&line);
        }
        sink.flush();
        let state = sink.shared.state();
        assert!(state.lost > 0 && state.bytes <= LOG_QUEUE_BYTES);
        drop(state);
        let lines = BufReader::new(reader).lines();
        assert!(lines.take(100).all(|line| line.unwrap().len() == 1023), "what was queued comes whole");
    }

    #[test]
    fn departed_reader_costs_lines_alone() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let sink = LogSink::start(writer).unwrap();
        sink.push(b"one\n");
        sink.flush();
        assert_eq!(sink.shared.state().lost, 1);
    }
}
