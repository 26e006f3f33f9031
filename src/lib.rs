//! Nearside: a client sidecar for lookups against a read service that runs in several regions.
//!
//! An application calls `http://127.0.0.1:8700/...` as it would call the service. On a miss every region is asked at
//! once and the first good reply is served; it is kept for an hour or more, because the regions announce their
//! changes. This file is the map: two paths, and the place where they meet. Names are those of the design
//! (`docs/architecture.md`); the rules `R1` to `R18` are those of the freshness protocol.
//!
//! ```text
//!  a request                                          an announcement
//!
//!  listener    accept: TCP, Unix socket               announce::subscription   one per region, kept alive
//!     |                                                  |
//!  request     admit, or refuse                       announce::{sqs, http}    receive
//!     |                                                  |
//!  serve       hit | revalidate | fill | stale        announce::verify         the topic's own signature
//!     |    \                                             |
//!     |     cache::fill    one per representation     announce::decode         JSON or Protobuf
//!     |        |           and generation                |
//!     |     origin::race   every region at once       announce::apply          acknowledge after applying
//!     |        |                                         |
//!     |     cache::store <------- freshness ------------+
//!     |    /                 floors, generations,
//!  response    one place      leases, epochs
//!              picks a status
//! ```
//!
//! A hit is `listener`, `request`, `serve`, `response`: a look into the store and a comparison of numbers; on HTTP/1.1 from
//! the bytes that were read to the bytes that are written ([`listener::hits`]). Everything else is somebody's miss, or nobody's
//! wait.
//!
//! Three seams let a simulation drive the same code: replies in ([`origin::reply::Origin`]), announcements in
//! ([`announce::Intake`] and [`freshness::Freshness::step`]), time in ([`clock::Clock`]).

// What everything stands on: time, bounds, tasks, settings.
pub mod clock;
pub mod config;
pub mod limits;
pub mod tasks;

// A request, in the order it passes through.
pub mod bodies;
pub mod listener;
pub mod request;

pub mod identity;
pub mod serve;

pub mod cache;
pub mod codec;
pub mod origin;
pub mod response;

// An announcement.
pub mod announce;

// Where the two meet.
pub mod freshness;

// Around them.
pub mod admin;
pub mod app;
pub mod bench;
pub mod cli;
pub mod telemetry;

// A world to run against.
pub mod world;
