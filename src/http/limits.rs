//! The bounds of this room. What a user may tune has its default and range here.

use std::time::Duration;

use crate::model::size::{KIB, MIB};

/// Streams open at once on one h2c connection.
pub const STREAMS_PER_CONNECTION: u32 = 256;
/// A request's line and headers together, bytes: more is 431.
pub const REQUEST_HEAD_BYTES: usize = 32 * KIB;
/// Headers of a request: more is 431.
pub const REQUEST_HEADERS: usize = 100;
/// A request's target, bytes: more is 414.
pub const REQUEST_TARGET_BYTES: usize = 8 * KIB;
/// A request's body, bytes: more is 413.
pub const REQUEST_BODY_BYTES: usize = 8 * MIB;
/// Bodies held in memory at once, of callers' requests and of regions' replies, bytes: the most, the least, and the part
/// of a cgroup's limit between the two. Beyond it a request is 503, and a reply is streamed unstored.
pub const BODIES_BYTES: u64 = 128 * MIB as u64;
/// A body up to this is small, bytes, and so many bytes of the budget are for small ones alone.
pub const SMALL_BODY_BYTES: usize = 64 * KIB;
/// See [`SMALL_BODY_BYTES`].
pub const SMALL_BODIES_BYTES: usize = MIB;
/// What a body is first given, bytes; then as much as one on the heap may have, as a small one may have, and steps.
pub const FIRST_BODY_BYTES: usize = 4 * KIB;
/// A larger body lies in pages of its own while it comes, bytes.
pub const HEAP_BODY_BYTES: usize = 16 * KIB;
/// See [`FIRST_BODY_BYTES`].
pub const BODY_STEP_BYTES: usize = 256 * KIB;
/// A stored body from this on lies in pages of its own, bytes.
pub const MAPPED_BODY_BYTES: usize = 512 * KIB;
/// How long a new connection may stay silent before its first bytes show which protocol it speaks.
pub const SNIFF_WAIT: Duration = Duration::from_secs(5);
/// How long a request's line and headers may take to arrive.
pub const HEADER_WAIT: Duration = Duration::from_secs(10);
/// How long a request's body may take to arrive.
pub const REQUEST_BODY_WAIT: Duration = Duration::from_secs(30);
/// How long a kept-alive connection may idle between requests.
pub const IDLE_WAIT: Duration = Duration::from_secs(90);
/// What a connection's bytes are read into, bytes: a head beyond it is left to hyper.
pub const WIRE_BYTES: usize = 8 * KIB;
/// Answers that are written together when their requests came together, bytes, before they are sent.
pub const ANSWERS_BYTES: usize = 64 * KIB;
/// Pieces of memory that a thread keeps for requests to come, and as many for their answers.
pub const SPARES: usize = 16;
/// The largest of them, bytes.
pub const SPARE_BYTES: usize = 2 * ANSWERS_BYTES;
/// Largest body that is buffered and stored, bytes (DESIGN.md section 3).
pub const REPLY_BODY_BYTES: usize = 8 * MIB;
/// A reply's headers together, bytes.
pub const REPLY_HEAD_BYTES: usize = 64 * KIB;
/// Connections being opened at once to one region: 50 cold requests must not open 50 connections.
pub const CONNECTS_PER_REGION: usize = 8;
/// How long opening a connection to a region may take, TLS included.
pub const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// How long a connection to a region may idle before TCP and HTTP/2 ask whether the other side still lives.
pub const KEEPALIVE: Duration = Duration::from_secs(20);
/// Idle connections kept per region, and for how long.
pub const IDLE_PER_REGION: (usize, Duration) = (64, Duration::from_secs(55));
/// How long a connection is used before its region's name is resolved anew for the next one.
pub const CONNECTION_AGE: Duration = Duration::from_secs(300);
/// How long a connection that was opened ahead may wait for its first request; servers close silent ones after 60 s.
pub const READY_AGE: Duration = Duration::from_secs(45);
/// How often it is looked whether a region has a connection; doubles while none can be opened, up to the second.
pub const WARM_WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// How long a streamed (too large to store) reply may pause between two chunks.
pub const STREAM_CHUNK_WAIT: Duration = Duration::from_secs(10);

const _: () = assert!(REQUEST_TARGET_BYTES < REQUEST_HEAD_BYTES);
