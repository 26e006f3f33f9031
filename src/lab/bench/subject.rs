//! Owns what a measured server is to the harness: where it listens, how its hits are proven, what runs.
//!
//! Before it: [`super::process`] starts programs. After it: the scenarios put load on it. Invariant: a subject that
//! exists answers; whoever makes one has waited for that.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::process::{ProcessError, Running};

/// A server that is measured. Started on loopback, proven, stopped when it is dropped.
#[derive(Debug)]
pub struct Subject {
    /// Who: `nearside`, `haproxy`, `bare responder`.
    pub name: String,
    /// Its version, as it says itself.
    pub version: String,
    /// The settings that matter, in a few words.
    pub settings: String,
    /// What shows that a reply was a hit.
    pub proof: Proof,
    /// Where it listens.
    pub address: Address,
    /// Its processes, stopped on drop; `None` when it is not ours to stop or to look at.
    pub process: Option<Running>,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// What shows that a reply came from the subject's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A header whose value contains a text: `x-cache-status` and `HIT`. Both are compared without regard to case.
    Header {
        /// Its name.
        name: String,
        /// What is somewhere in its value.
        contains: String,
    },
    /// The same, and another text is nowhere in the value: `; hit` without `provisional`.
    HeaderWithout {
        /// Its name.
        name: String,
        /// What is somewhere in its value.
        contains: String,
        /// What is nowhere in it.
        lacks: String,
    },
    /// A header, whatever it says: `age`.
    HeaderPresent(String),
    /// Nothing is to be shown: it cannot do anything else.
    Always,
}

impl Proof {
    /// In words, for the report.
    pub fn in_words(&self) -> String {
        match self {
            Self::Header { name, contains } => format!("{name}: {contains}"),
            Self::HeaderWithout { name, contains, lacks } => format!("{name}: {contains}, not {lacks},"),
            Self::HeaderPresent(name) => format!("{name} is there"),
            Self::Always => "it has nothing else".to_owned(),
        }
    }
}

/// What the harness wishes of a server that it starts.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The service that it fronts, the first region first. At least one; a peer takes the first.
    pub upstreams: Vec<SocketAddr>,
    /// The core that all its threads are to be held on; `None` leaves them free.
    pub core: Option<usize>,
    /// A fresh folder for its configuration, logs and sockets; removed after the run.
    pub folder: PathBuf,
    /// Whether it listens on a Unix socket (`folder/listen.sock`) instead of a port.
    pub unix: bool,
    /// Whether it speaks HTTP/2 with prior knowledge there, in place of HTTP/1.1 where it cannot do both.
    pub h2c: bool,
    /// Who starts it so that it ends with the harness ([`super::process::start_held`]); it is started as it is without.
    pub keeper: Option<PathBuf>,
    /// How much it may keep, bytes; a million replies of 1 KiB fit when it is 4 GiB.
    pub cache_bytes: u64,
}

impl Wish {
    /// Where the Unix socket goes.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("listen.sock")
    }
}

/// A server that the harness knows how to start.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its name.
    pub name: &'static str,
    /// Whether it can listen on a Unix socket.
    pub unix: bool,
    /// Starts one and waits until it answers.
    pub start: fn(&Wish) -> Result<Subject, StartError>,
}

/// Why a server is not there to be measured.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It is not on this machine.
    #[error("{program} is not on PATH; {instead}")]
    Missing {
        /// The program that was looked for.
        program: String,
        /// How to get it.
        instead: String,
    },
    /// It is there and does not run.
    #[error("{program} did not start: {why}; its output is in {log}")]
    Failed {
        /// The program.
        program: String,
        /// What was seen.
        why: String,
        /// Where more is.
        log: String,
    },
    /// It cannot do what is wished.
    #[error("{program} cannot be measured here: {why}")]
    Unable {
        /// The program.
        program: String,
        /// What it lacks.
        why: String,
    },
    /// The harness could not start a process, or prepare for it.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A configuration could not be written.
    #[error("{path} could not be written: {error}")]
    Write {
        /// What.
        path: String,
        /// Why.
        error: std::io::Error,
    },
}
