//! Owns who asks: one of the harness's clients, whichever a scenario wants.
//!
//! Before it: a scenario names the protocol. After it: [`super::run`] puts load without knowing how it travels. Invariant:
//! all of them count alike: a request that was sent is answered or failed, and its latency begins when it was due.

use std::net::SocketAddr;
use std::time::Duration;

use super::failover::Failover;
use super::h2c::Streams;
use super::load::{Ask, Counted, Load, LoadError};
use super::pace::{End, Pace};
use super::paths::Paths;
use super::subject::Address;

/// How requests travel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// HTTP/1.1 on so many connections that are kept alive.
    Http1 {
        /// How many.
        connections: usize,
    },
    /// HTTP/2 with prior knowledge: one connection, so many requests under way on it.
    H2c {
        /// How many.
        streams: usize,
    },
    /// HTTP/1.1, one request at a time: the first region, and the next when it has not answered in time.
    InOrder {
        /// In which order.
        regions: Vec<SocketAddr>,
        /// How long each but the last is waited for.
        wait: Duration,
    },
}

/// A client with its connections.
pub enum Client {
    /// HTTP/1.1.
    Http1(Load),
    /// HTTP/2 in plain text.
    H2c(Streams),
    /// One region after the other.
    InOrder(Failover),
}

impl Client {
    /// Connects to `address`; who asks in order has addresses of its own.
    pub fn open(address: &Address, speaks: &Speaks, ask: Ask) -> Result<Self, LoadError> {
        Ok(match speaks {
            Speaks::Http1 { connections } => Self::Http1(Load::open(address, *connections, ask)?),
            Speaks::H2c { streams } => Self::H2c(Streams::open(address, *streams, ask)?),
            Speaks::InOrder { regions, wait } => Self::InOrder(Failover::new(regions, *wait, ask)),
        })
    }

    /// Asks for other paths from now on.
    pub fn ask_for(&mut self, paths: Paths) {
        match self {
            Self::Http1(load) => load.ask_for(paths),
            Self::H2c(streams) => streams.ask_for(paths),
            Self::InOrder(failover) => failover.ask_for(paths),
        }
    }

    /// Sends until `end`, and waits for what was sent.
    pub fn run(&mut self, pace: Pace, end: End) -> Result<Counted, LoadError> {
        match self {
            Self::Http1(load) => load.run(pace, end),
            Self::H2c(streams) => streams.run(pace, end),
            Self::InOrder(failover) => failover.run(pace, end),
        }
    }
}
