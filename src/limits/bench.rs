//! Owns every bound of `nearside bench`: what the harness starts, asks and waits for.
//!
//! Before it: [`super`], whose names these are too. Invariant: it never bounds what serves callers.

use std::time::Duration;

use super::{KIB, MIB};

/// How long a server that is measured may take until it answers: Varnish has its program compiled first.
pub const BENCH_READY_WAIT: Duration = Duration::from_secs(60);
/// How often it is looked whether a server answers.
pub const BENCH_READY_STEP: Duration = Duration::from_millis(2);
/// How long a server may take to stop before it is killed.
pub const BENCH_STOP_WAIT: Duration = Duration::from_secs(3);
/// How much of a server's output an error repeats, bytes.
pub const BENCH_OUTPUT_BYTES: usize = KIB;
/// What is read from a socket at once, bytes.
pub const BENCH_READ_BYTES: usize = 64 * KIB;
/// What a server may send over HTTP/2 before the load generator has said that it took it, bytes.
pub const BENCH_WINDOW_BYTES: u32 = 8 << 20;
/// Sockets that one look at the kernel tells of.
pub const BENCH_EVENTS: usize = 256;
/// Requests of an open loop that are due and wait for a connection; what more comes due has failed. At 100,000 a second
/// they are as patient as [`BENCH_ANSWER_WAIT`]: a pause is told by the latencies of those whom it kept waiting.
pub const BENCH_BACKLOG: u64 = 1_000_000;
/// How long nothing may be answered before everything under way has failed.
pub const BENCH_ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Connections of the load generator.
pub const BENCH_CONNECTIONS: usize = 4096;
/// The largest body that the harness's regions send, KiB.
pub const BENCH_BODY_KIB: usize = 8 * KIB;
/// The longest page that the harness fetches beside its load: metrics, bytes.
pub const BENCH_PAGE_BYTES: u64 = MIB as u64;
/// Records that the harness's announcer changes, in turn.
pub const BENCH_ANNOUNCED: u64 = 10_000;
/// Changes that the harness's announcer keeps signed, and how many it signs for one order.
pub const BENCH_SIGNED: (usize, usize) = (20_000, 250);
