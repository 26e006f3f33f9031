//! The bounds of the lab.

use std::time::Duration;

use nearside::http::limits::REPLY_BODY_BYTES;
use nearside::model::size::{KIB, MIB};

/// The largest request for many keys that a region's server hands on, in bytes.
pub(crate) const FRONT_BATCH_BYTES: usize = MIB;
/// Longest wait until a measured server answers; Varnish compiles its program first.
pub(crate) const BENCH_READY_WAIT: Duration = Duration::from_secs(60);
/// Interval between probes of a server.
pub(crate) const BENCH_READY_STEP: Duration = Duration::from_millis(2);
/// Grace of a server to stop before it is killed.
pub(crate) const BENCH_STOP_WAIT: Duration = Duration::from_secs(3);
/// Bound on a server's output in an error, in bytes.
pub(crate) const BENCH_OUTPUT_BYTES: usize = KIB;
/// Size of a read from a socket, in bytes.
pub(crate) const BENCH_READ_BYTES: usize = 64 * KIB;
/// HTTP/2 window of the load generator, in bytes.
pub(crate) const BENCH_WINDOW_BYTES: u32 = 8 << 20;
/// Most sockets that one call to the kernel reports.
pub(crate) const BENCH_EVENTS: usize = 256;
/// Requests of an open loop that are due and wait for a connection; any further request that comes
/// due fails. At 100,000 a second this lasts as long as [`BENCH_ANSWER_WAIT`], so that a pause
/// shows in the latencies of the requests that it delayed.
pub(crate) const BENCH_BACKLOG: u64 = 1_000_000;
/// Longest time without any answer before every request in flight fails.
pub(crate) const BENCH_ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Connections of the load generator.
pub(crate) const BENCH_CONNECTIONS: usize = 4096;
/// The largest body that the harness's regions send, in KiB.
pub(crate) const BENCH_BODY_KIB: usize = 8 * KIB;
/// The longest page that the harness fetches besides its load, such as metrics, in bytes.
pub(crate) const BENCH_PAGE_BYTES: u64 = MIB as u64;
/// Number of records that the harness's announcer changes in turn.
pub(crate) const BENCH_ANNOUNCED: u64 = 10_000;
/// Most signed changes that the harness's announcer keeps, and most that it signs for one order.
pub(crate) const BENCH_SIGNED: (usize, usize) = (20_000, 250);
/// Records that are written between two reports of how many there are.
pub(crate) const BENCH_FILLED_AT_ONCE: u64 = 20_000;
/// Longest wait until a million records are on the disk and measured.
pub(crate) const BENCH_DISK_WAIT: Duration = Duration::from_secs(3600);
/// Longest wait until the services serve; on the emulator, a table takes seconds.
pub(crate) const BENCH_DEPLOYMENT_WAIT: Duration = Duration::from_secs(180);
/// Longest way of a change from its writer to a sidecar's caller, or to a topic.
pub(crate) const BENCH_CHANGE_WAIT: Duration = Duration::from_secs(60);
/// Connections open at once to one of the lab's servers.
pub(crate) const LAB_CONNECTIONS: usize = 4096;
/// The body of a request to one of the lab's servers, in bytes.
pub(crate) const LAB_BODY_BYTES: usize = 512 * KIB;
/// Paths for which a region counts the requests separately, and answers that it remembers.
pub(crate) const LAB_PATHS: usize = 32_768;
/// Batches of a feed that wait for a region's lag, an empty one a second among them; beyond it the
/// feed is not read on.
pub(crate) const LATE_BATCHES: usize = 4096;
/// Items of a page while the world counts what a table has.
pub(crate) const COUNTED_AT_ONCE: usize = 1_000;
/// Topics, queues and subscriptions, each.
pub(crate) const LAB_CHANNELS: usize = 256;
/// Messages waiting in one queue; beyond this the oldest is lost, and counted.
pub(crate) const LAB_QUEUE_MESSAGES: usize = 10_000;
/// Tags of one queue, and attributes of a queue or subscription: as many as AWS allows.
pub(crate) const LAB_TAGS: usize = 50;
/// Deliveries that wait at once for their time or for an endpoint's answer.
pub(crate) const LAB_DELIVERIES: usize = 4096;
/// Retries of a failed HTTP delivery and the wait between them, as in SNS.
pub(crate) const SNS_RETRIES: (u32, Duration) = (3, Duration::from_secs(20));
/// Time for which SNS waits for an endpoint's answer.
pub(crate) const SNS_DELIVERY_WAIT: Duration = Duration::from_secs(15);
/// Interval between a publisher's heartbeats (`docs/freshness.md`).
pub(crate) const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);
/// Length of an endless body at which the region gives up, in bytes.
pub(crate) const ENDLESS_BYTES: usize = 256 * MIB;

const _: () = assert!(ENDLESS_BYTES > REPLY_BODY_BYTES);
