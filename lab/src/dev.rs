//! `nearside-lab dev`: the real catalogue, views, regions and sidecar in one process, on loopback, and
//! the story that they tell. The way of a change:
//!
//! ```text
//! catalogue -> views -> ingest (late) -> node -> server (latency, chaos) <- GET - the sidecar
//!                            |                                                       ^
//!                            +-> topic -> queue -------------------------------------+
//! ```
//!
//! Of the lab are the chaos servers, what makes a region late, and SNS and SQS ([`super::aws`]).

pub mod access;
mod announced;
mod behind;
pub mod build;
pub(crate) mod catalogue;
mod contents;
pub(crate) mod control;
pub mod demo;
mod folder;
mod late;
pub mod measured;
mod ports;
pub mod reader;
pub(crate) mod region;
mod schema;
pub mod screen;
pub mod story;
pub mod story_error;
mod withdrawal;

pub use build::DevWorld;
pub use ports::{AWS_PORT, CATALOGUE_PORT, CONTROL_PORT, Ports, REGION_PORT};
