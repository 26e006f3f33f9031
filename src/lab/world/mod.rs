//! A pretend world for tests to run against: catalogue, regions, topics and chaos. `nearside dev` has
//! its topics, queues and chaos from here.
//!
//! It is one process, on loopback only and all in memory, so a new process is a clean world. The
//! way of a change:
//!
//! ```text
//! catalogue -> ingest (lag) -> region -> publisher -> topic -> queue or HTTP post -> the sidecar
//!                                 ^                                                      |
//!                                 +--------------- GET (latency, chaos) ----------------+
//! ```
//!
//! The sidecar reaches topics and queues through [`aws`], with the same SDK calls as in production.

pub mod aws;
pub mod catalogue;
pub mod chaos;
mod deliver;
pub(crate) mod front;
mod held;
pub(crate) mod ingest;
pub(crate) mod knobs;
mod payload;
pub mod port;
pub(crate) mod publisher;
pub(crate) mod queue;
mod region;
pub mod reply;
pub mod seal;
pub mod sns;
mod sqs;
mod subscription;
pub(crate) mod topic;
pub(crate) mod traffic;

pub(crate) mod build;

pub use held::HeldReplies;

pub use build::{Builder, REGION_NAMES, TOPIC, World, WorldError};
