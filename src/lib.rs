//! Nearside: a client sidecar for lookups against a read service that runs in several regions.

pub mod admin;
pub mod announce;
pub mod app;
pub mod cache;
pub mod cli;
pub mod clock;
pub mod codec;
pub mod config;
pub mod freshness;
pub mod identity;
pub mod limits;
pub mod listener;
pub mod origin;
pub mod request;
pub mod response;
pub mod serve;
pub mod tasks;
pub mod telemetry;
pub mod world;
