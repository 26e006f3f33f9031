//! Measured servers: the address, the proof of a hit, and the processes. A subject that exists
//! answers, because its maker waits for that first.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::process::{ProcessError, Running};

/// A server that is measured: started on loopback, proved to work, and stopped on drop.
#[derive(Debug)]
pub struct Subject {
    /// Such as `nearside`, `haproxy`, `bare responder`.
    pub name: String,
    /// Its version in its own words.
    pub version: String,
    /// The settings that matter, in a few words.
    pub settings: String,
    /// Proof of a hit.
    pub proof: Proof,
    pub address: Address,
    /// Its processes, stopped on drop; `None` if they are not ours to stop or to look at.
    pub process: Option<Running>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
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

/// Proof that a reply came from the subject's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A header whose value contains a text: `x-cache-status` and `HIT`. Both are compared without
    /// regard to case.
    Header {
        name: String,
        /// A text somewhere in its value.
        contains: String,
    },
    /// Header whose value must lack a second text as well: `; hit` without `provisional`.
    HeaderWithout {
        name: String,
        /// A text somewhere in its value.
        contains: String,
        /// A text that its value must not contain.
        lacks: String,
    },
    /// A header with any value: `age`.
    HeaderPresent(String),
    /// No proof is needed, because every reply counts as one.
    Always,
}

impl Proof {
    pub fn in_words(&self) -> String {
        match self {
            Self::Header { name, contains } => format!("{name}: {contains}"),
            Self::HeaderWithout { name, contains, lacks } => format!("{name}: {contains}, not {lacks},"),
            Self::HeaderPresent(name) => format!("{name} is there"),
            Self::Always => "it has nothing else".to_owned(),
        }
    }
}

/// Settings of a server that the harness starts.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The regions behind it, the first one first. There is at least one; a peer uses only the
    /// first.
    pub upstreams: Vec<SocketAddr>,
    /// The core that all its threads are pinned to; `None` leaves them free.
    pub core: Option<usize>,
    /// A fresh folder for its configuration, logs and sockets; removed after the run.
    pub folder: PathBuf,
    /// True if it listens on a Unix socket (`folder/listen.sock`) instead of a port.
    pub unix: bool,
    /// True if it speaks HTTP/2 with prior knowledge, instead of HTTP/1.1 if it cannot do both.
    pub h2c: bool,
    /// The program that starts it so that it ends with the harness
    /// ([`super::process::start_held`]); with `None`, it is started directly.
    pub keeper: Option<PathBuf>,
    /// Capacity of its store, in bytes; in 4 GiB, a million replies of 1 KiB fit.
    pub cache_bytes: u64,
}

impl Wish {
    pub fn socket(&self) -> PathBuf {
        self.folder.join("listen.sock")
    }
}

/// A server that the harness knows how to start.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub name: &'static str,
    /// True if it can listen on a Unix socket.
    pub unix: bool,
    /// Starts one and waits until it answers.
    pub start: fn(&Wish) -> Result<Subject, SubjectError>,
}

/// Why a server cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum SubjectError {
    #[error("{program} is not on PATH; {instead}")]
    Missing {
        program: String,
        /// Way to get it.
        instead: String,
    },
    /// The product's binary, unlike a peer's, is built here.
    #[error(
        "there is no nearside at {path}: `cargo build --release --bin nearside` builds one, and --nearside PATH names \
         another"
    )]
    NoProduct {
        /// Path where it was looked for.
        path: String,
    },
    /// It is installed but does not run.
    #[error("{program} did not start: {why}; its output is in {log}")]
    Failed {
        program: String,
        why: String,
        /// File of its output.
        log: String,
    },
    /// It cannot do what is wished.
    #[error("{program} cannot be measured here: {why}")]
    Unable { program: String, why: String },
    /// The harness could not start a process, or could not prepare for it.
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("{path} could not be written: {error}")]
    Write { path: String, error: std::io::Error },
}
