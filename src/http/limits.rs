//! The bounds of HTTP. Settings that a user may tune have their defaults and ranges in `config`.

use std::time::Duration;

use crate::model::size::{KIB, MIB};

/// A request's line and headers together, in bytes; more gets 431.
pub const REQUEST_HEAD_BYTES: usize = 32 * KIB;
/// Headers of a request; more get 431.
pub const REQUEST_HEADERS: usize = 100;
/// A request's target in bytes; more gets 414.
pub const REQUEST_TARGET_BYTES: usize = 8 * KIB;
/// A request's body in bytes; more gets 413.
pub const REQUEST_BODY_BYTES: usize = 8 * MIB;
/// Most bytes of bodies held in memory at once, of callers' requests and of regions' replies; a
/// cgroup's limit can lower it. Beyond it a request gets 503, and a reply is streamed unstored.
pub const BODIES_BYTES: u64 = 128 * MIB as u64;
/// The size in bytes up to which a body is small.
pub const SMALL_BODY_BYTES: usize = 64 * KIB;
/// Bytes of the budget that only small bodies may take.
pub const SMALL_BODIES_BYTES: usize = MIB;
/// Memory in bytes that a body is given first. It then grows to [`HEAP_BODY_BYTES`], to
/// [`SMALL_BODY_BYTES`], and from there in steps.
pub const FIRST_BODY_BYTES: usize = 4 * KIB;
/// A body larger than this many bytes is kept in separate pages while it arrives.
pub const HEAP_BODY_BYTES: usize = 16 * KIB;
/// See [`FIRST_BODY_BYTES`].
pub const BODY_STEP_BYTES: usize = 256 * KIB;
/// A stored body of this many bytes or more is kept in separate pages.
pub const MAPPED_BODY_BYTES: usize = 512 * KIB;
/// Cost of an idle connection in bytes: its task, timers, socket and kernel buffers. Of 2,000 in a
/// debug build each took 5.2 KiB of the heap and 3.8 KiB of the kernel (27 KiB before their futures
/// were boxed).
pub const CONNECTION_BYTES: u64 = 12 * KIB as u64;
/// Addition by TLS in bytes: its keys and state, a record that has not arrived as a whole, and what
/// [`TLS_WRITE_BYTES`] says.
pub const TLS_BYTES: usize = 40 * KIB;
/// Bytes of answers that TLS keeps while the kernel takes no more.
pub const TLS_WRITE_BYTES: usize = 16 * KIB;
/// A caller's certificate and its issuers' in bytes; with more, the handshake fails.
pub const CLIENT_CHAIN_BYTES: usize = 12 * KIB;
/// Longest time for a TLS handshake, from the first byte on.
pub const HANDSHAKE_WAIT: Duration = Duration::from_secs(5);
/// TLS handshakes that run at once on all of a service's ports. The others wait, so that those that
/// have begun come to an end when thousands of callers connect at once.
pub const HANDSHAKES: usize = 256;
/// Time for which a peer that does not answer the server's part keeps others from a handshake.
pub const HANDSHAKE_SLOT_WAIT: Duration = Duration::from_secs(1);
/// Interval between looks at the files of a service's certificate.
pub const CERTIFICATE_LOOK: Duration = Duration::from_secs(1);
/// Time before a certificate's end from which a service says that it has to be replaced.
pub const CERTIFICATE_NOTICE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Addition by HTTP/2 in bytes: frames either way, a head that is not complete, the tables of
/// HPACK.
pub const HTTP2_BYTES: u64 = 48 * KIB as u64;
/// Addition by each stream that an HTTP/2 connection may open, in bytes. All of them may come in
/// one read, before any is looked at.
pub const STREAM_BYTES: u64 = 4 * KIB as u64;
/// Streams that a connection may open at least, and at most: it gets one in [`STREAMS_SHARE`] of
/// the bytes that are left when it comes.
pub const LEAST_STREAMS_PER_CONNECTION: u32 = 16;
/// See [`LEAST_STREAMS_PER_CONNECTION`].
pub const STREAMS_PER_CONNECTION: u32 = 256;
/// See [`LEAST_STREAMS_PER_CONNECTION`].
pub const STREAMS_SHARE: u64 = 8;
/// Cost of a request under way besides its head and body, in bytes: its task, its stream, its
/// waits.
pub const REQUEST_BYTES: u64 = 8 * KIB as u64;
/// Only complete requests may take the last one in this many bytes of what requests may take.
pub const COMPLETE_SHARE: u64 = 4;
/// Divisor of the share of memory that HTTP/2 leaves to everything else.
pub const HTTP2_SHARE: u64 = 2;
/// Wait of a new connection before an idle one is closed for it, and interval of the tries for
/// HTTP/2.
pub const ROOM_WAIT: Duration = Duration::from_millis(10);
/// See [`ROOM_WAIT`]: often enough for the most patient of [`IDLE_LOOKS`], and to see its room free.
pub const ROOM_TRIES: usize = IDLE_LOOKS[2] as usize + 3;
/// One in this many of the connections that may be closed is, when room is needed.
pub const CLOSED_SHARE: usize = 8;
/// A connection that has sent fewer requests is closed before one that has sent more.
pub const FEW_REQUESTS: u32 = 8;
/// Weight of refused credentials with which a connection ends.
pub const REFUSED_WEIGHT: u32 = 16;
/// Weight of one whose signature does not hold: it cost a verification.
pub const FORGED_WEIGHT: u32 = 4;
/// Looks, [`ROOM_WAIT`] apart, without a new request before a connection may be closed: one that
/// never asked, one that asked a few times, others. The first look may come in the moment between a
/// caller's connecting and its request.
pub const IDLE_LOOKS: [u32; 3] = [2, 20, 50];
/// Most bytes that peers may make a process hold besides bodies, connections included; a cgroup's
/// limit can lower it.
pub const PEERS_BYTES: u64 = 256 * MIB as u64;
/// Buffers of the kernel per connection and direction, in bytes, under a cgroup's limit: sockets
/// count towards it. Below [`SOCKET_BUFFERS_FREE`] bytes they are bounded, so that all connections
/// together fit. With 64 KiB in a container of 64 MiB, 330 callers who asked for 300 KiB each and read
/// nothing held 44 MiB in the kernel.
pub const SOCKET_BUFFER_BYTES: usize = 32 * KIB;
/// See [`SOCKET_BUFFER_BYTES`].
pub const SOCKET_BUFFERS_FREE: u64 = 1024 * MIB as u64;
/// The receive windows of an HTTP/2 connection and of a stream, in bytes: what may arrive before it
/// is read.
pub const HTTP2_WINDOW_BYTES: u32 = 256 * KIB as u32;
/// Buffer for answers per HTTP/2 stream, in bytes.
pub const HTTP2_SEND_BYTES: usize = 64 * KIB;
/// Longest wait for a request's line and headers.
pub const HEADER_WAIT: Duration = Duration::from_secs(10);
/// Longest wait for a request's body.
pub const REQUEST_BODY_WAIT: Duration = Duration::from_secs(30);
/// Time that a connection may idle, before its first request or after others. Longer than the usual
/// pools keep one (Go and reqwest 90 s; .NET, nginx and AWS's load balancers 60 s): the side that
/// closes first takes the risk that the other has just asked.
pub const IDLE_WAIT: Duration = Duration::from_secs(120);
/// Time that a connection to the admin side or to a service lives before an answer on it announces
/// its end; after as long again it is ended.
pub const SERVICE_CONNECTION_LIFE: Duration = Duration::from_secs(300);
/// Longest time for a closing connection to hand over its last reply.
pub const LAST_REPLY_WAIT: Duration = Duration::from_secs(5);
/// Pause in accepting after the kernel refused a connection.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// A connection's read buffer in bytes. A larger head is left to hyper.
pub const WIRE_BYTES: usize = 8 * KIB;
/// Bytes of answers that are written together before they are sent, when their requests came
/// together.
pub const ANSWERS_BYTES: usize = 64 * KIB;
/// Buffers that a thread keeps for future requests, and as many for their answers.
pub const SPARES: usize = 16;
/// The largest of them in bytes.
pub const SPARE_BYTES: usize = 2 * ANSWERS_BYTES;
/// The largest body that is buffered and stored, in bytes.
pub const REPLY_BODY_BYTES: usize = 8 * MIB;
/// A reply's headers together, in bytes.
pub const REPLY_HEAD_BYTES: usize = 64 * KIB;
/// Connections being opened at once to one region: 50 cold requests must not open 50 connections.
pub const CONNECTS_PER_REGION: usize = 8;
/// Longest time for all tries for a region's name: every search suffix, and then the name itself.
pub const NAME_WAIT: Duration = Duration::from_secs(10);
/// Time for which a search suffix may be silent before the next one, or the name itself, is asked
/// for too.
pub const SUFFIX_HEAD_START: Duration = Duration::from_secs(1);
/// Time for which a name server may be silent before the next one is asked too.
pub const SERVER_HEAD_START: Duration = Duration::from_millis(300);
/// Name servers that are asked. The C library asks no more either.
pub const NAME_SERVERS: usize = 3;
/// Wait of IPv4 addresses for those of IPv6 (RFC 8305, 3).
pub const OTHER_FAMILY_WAIT: Duration = Duration::from_millis(50);
/// Wait of IPv6 addresses for those of IPv4.
pub const IPV4_WAIT: Duration = Duration::from_secs(1);
/// Lifetime of a name server's answer that a name is absent, whatever its zone says.
pub const NEGATIVE_CACHE_TTL: Duration = Duration::from_secs(5);
/// Longest time for each of TCP and TLS in connecting to a region.
pub const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// Idle time of a connection to a region before TCP and HTTP/2 check whether the other side still
/// lives.
pub const KEEPALIVE: Duration = Duration::from_secs(20);
/// Idle connections kept per region, and for how long.
pub const IDLE_PER_REGION: (usize, Duration) = (64, Duration::from_secs(55));
/// HTTP/2 connections to one region, as many as idle ones of HTTP/1.1 are kept: a region that allows
/// one stream on each is asked like one over HTTP/1.1.
pub const HTTP2_PER_REGION: usize = 64;
/// Requests under way at once on one of them, whatever its peer allows beyond that. RFC 9113, 6.5.2
/// recommends that a peer allow 100 at least.
pub const STREAMS_PER_REGION_CONNECTION: usize = 100;
/// Pause in opening further connections after one could not be opened.
pub const REFUSED_CONNECTION_WAIT: Duration = Duration::from_secs(1);
/// Number of tries over HTTP/2 of a request that the region refuses without having acted on it.
pub const STREAM_TRIES: usize = 3;
/// Age of a connection at which its region's name is resolved again for the next one.
pub const CONNECTION_AGE: Duration = Duration::from_secs(300);
/// Longest wait of a connection that was opened ahead for its first request; servers close silent
/// ones after 60 s.
pub const READY_AGE: Duration = Duration::from_secs(45);
/// Interval between checks that a region has a connection; doubles up to the second value while
/// none can be opened.
pub const WARM_WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Longest pause between two chunks of a streamed (too large to store) reply.
pub const STREAM_CHUNK_WAIT: Duration = Duration::from_secs(10);

const _: () = assert!(REQUEST_TARGET_BYTES < REQUEST_HEAD_BYTES);
