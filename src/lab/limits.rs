//! The bounds of this room. What a user may tune has its default and range here.

use std::time::Duration;

use crate::http::limits::REPLY_BODY_BYTES;
use crate::model::size::{KIB, MIB};
use crate::protocol::limits::RECORD_KEY_BYTES;

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
/// The largest body that the harness's regions send, KiB.
pub const BENCH_BODY_KIB: usize = 8 * KIB;
/// The longest page that the harness fetches beside its load: metrics, bytes.
pub const BENCH_PAGE_BYTES: u64 = MIB as u64;
/// Records that the harness's announcer changes, in turn.
pub const BENCH_ANNOUNCED: u64 = 10_000;
/// Changes that the harness's announcer keeps signed, and how many it signs for one order.
pub const BENCH_SIGNED: (usize, usize) = (20_000, 250);
/// Records in the catalogue.
pub const WORLD_RECORDS: usize = 200_000;
/// A record's key in the catalogue, bytes: shorter than what an announcement may carry.
pub const WORLD_KEY_BYTES: usize = 512;
/// A record's value, bytes.
pub const WORLD_VALUE_BYTES: usize = 64 * KIB;
/// Changes kept for regions that lag; one that falls further behind reloads everything.
pub const WORLD_CHANGES: usize = 65_536;
/// Connections open at once to one of the world's servers.
pub const WORLD_CONNECTIONS: usize = 4096;
/// A request's body to one of the world's servers, bytes.
pub const WORLD_BODY_BYTES: usize = 512 * KIB;
/// Paths whose requests a region counts one by one, and answers it remembers.
pub const WORLD_PATHS: usize = 32_768;
/// Scripted answers of one region.
pub const WORLD_SCRIPTS: usize = 1024;
/// Topics, queues and subscriptions, each.
pub const WORLD_CHANNELS: usize = 256;
/// Messages that wait in one queue; beyond it the oldest is lost, and counted.
pub const WORLD_QUEUE_MESSAGES: usize = 10_000;
/// Tags of one queue, attributes of a queue or subscription: what AWS allows.
pub const WORLD_TAGS: usize = 50;
/// Deliveries that wait for their time, or for an endpoint's answer, at once.
pub const WORLD_DELIVERIES: usize = 4096;
/// Retries of a failed HTTP delivery, and the wait between them: what SNS does.
pub const SNS_RETRIES: (u32, Duration) = (3, Duration::from_secs(20));
/// How long SNS waits for an endpoint's answer.
pub const SNS_DELIVERY_WAIT: Duration = Duration::from_secs(15);
/// How often a publisher sends its heartbeat (DESIGN.md section 1).
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);
/// What an endless body may grow to before the region gives up, bytes.
pub const ENDLESS_BYTES: usize = 256 * MIB;

const _: () = assert!(WORLD_KEY_BYTES <= RECORD_KEY_BYTES);
const _: () = assert!(ENDLESS_BYTES > REPLY_BODY_BYTES);
const _: () = assert!(ENDLESS_BYTES > REPLY_BODY_BYTES);
