//! Nearside: a client sidecar for lookups against a read service that runs in several regions.
//!
//! An application calls `http://127.0.0.1:8700/...` as it would call the service. On a miss every
//! region is asked at once and the first good reply is served; it is kept for an hour or more,
//! because the regions announce their changes. `docs/architecture.md` is the map,
//! `docs/life-of-a-request.md` the way through it; the rules R1 to R23 are those of the
//! freshness protocol (`docs/freshness.md`).
//!
//! The order of the rooms is that of `docs/architecture.md`: each imports only from rooms before it,
//! and `tests/house.rs` holds that.

pub mod switch;

pub mod model;
pub mod tasks;

pub mod protocol;

pub mod config;
pub mod telemetry;

pub mod access;
pub mod aws;
pub mod cache;
pub mod credentials;
pub mod engine;
pub mod http;
pub mod payload;

pub mod routing;
pub mod shape;

pub mod race;

pub mod migration;
pub mod unrouted;

pub mod fill;

pub mod request;
pub mod sidecar;

pub mod catalogue;
pub mod region;
pub mod views;

pub mod admin;
pub mod app;
pub mod repair;

pub mod cli;

// The unit tests verify what the lab signs. A crate's own tests cannot share types with a crate that
// depends on it, so they compile these files once more.
#[cfg(test)]
extern crate self as nearside;
#[cfg(test)]
#[path = "../lab/src"]
#[allow(dead_code, unreachable_pub, reason = "it belongs to the lab")]
mod lab {
    pub(crate) mod issuer;
    pub(crate) mod signer;
    mod uuid;
}
