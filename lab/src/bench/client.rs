//! The harness's clients behind one type, so that [`super::run`] puts load on a server without
//! knowing the protocol. All of them count alike: each sent request is either answered or failed,
//! and its latency begins when it was due.

use std::net::SocketAddr;
use std::time::Duration;

use super::failover::Failover;
use super::h2c::Streams;
use super::load::{BenchRequest, Counted, Load, LoadError};
use super::pace::{End, LoadPace};
use super::paths::Paths;
use super::subject::Address;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// HTTP/1.1 on this many keep-alive connections.
    Http1 { connections: usize },
    /// HTTP/2 with prior knowledge: one connection with this many requests in flight.
    H2c { streams: usize },
    /// HTTP/1.1, one request at a time: ask the first region, and the next one if it is late.
    InOrder {
        /// Regions in the order in which they are asked.
        regions: Vec<SocketAddr>,
        /// Longest wait for each region but the last.
        wait: Duration,
    },
}

pub(super) enum Client {
    Http1(Load),
    H2c(Streams),
    InOrder(Failover),
}

impl Client {
    /// Connects to `address`; `InOrder` has addresses of its own.
    pub(super) fn open(address: &Address, speaks: &Speaks, ask: BenchRequest) -> Result<Self, LoadError> {
        Ok(match speaks {
            Speaks::Http1 { connections } => Self::Http1(Load::open(address, *connections, ask)?),
            Speaks::H2c { streams } => Self::H2c(Streams::open(address, *streams, ask)?),
            Speaks::InOrder { regions, wait } => Self::InOrder(Failover::new(regions, *wait, ask)),
        })
    }

    /// From now on, asks for other paths.
    pub(super) fn ask_for(&mut self, paths: Paths) {
        match self {
            Self::Http1(load) => load.ask_for(paths),
            Self::H2c(streams) => streams.ask_for(paths),
            Self::InOrder(failover) => failover.ask_for(paths),
        }
    }

    /// Sends until `end`, then waits for the outstanding replies.
    pub(super) fn run(&mut self, pace: LoadPace, end: End) -> Result<Counted, LoadError> {
        match self {
            Self::Http1(load) => load.run(pace, end),
            Self::H2c(streams) => streams.run(pace, end),
            Self::InOrder(failover) => failover.run(pace, end),
        }
    }
}
