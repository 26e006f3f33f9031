//! One connection of the load generator or of the harness's own servers, over TCP or a Unix socket.
//! No call blocks except the connect, which is immediate on loopback.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use super::subject::Address;

#[derive(Debug)]
pub(super) enum BenchStream {
    /// Over TCP, with `TCP_NODELAY`.
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A listening socket.
#[derive(Debug)]
pub(super) enum BenchListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl BenchStream {
    pub(super) fn open(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => Self::tcp(TcpStream::connect(address)?),
            Address::Unix(path) => Self::unix(UnixStream::connect(path)?),
        }
    }

    fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self::Tcp(stream))
    }

    fn unix(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self::Unix(stream))
    }

    /// Reads what is there; `None` if there is nothing yet.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        at_once(match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
        })
    }

    /// Returns how many bytes the kernel took.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = at_once(match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        });
        Ok(written?.unwrap_or(0))
    }
}

impl AsFd for BenchStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl BenchListener {
    pub(super) fn open(address: &Address) -> io::Result<Self> {
        let opened = match address {
            Address::Tcp(address) => Self::Tcp(TcpListener::bind(address)?),
            Address::Unix(path) => Self::Unix(UnixListener::bind(path)?),
        };
        match &opened {
            Self::Tcp(listener) => listener.set_nonblocking(true)?,
            Self::Unix(listener) => listener.set_nonblocking(true)?,
        }
        Ok(opened)
    }

    /// The next connection; `None` if nobody is waiting.
    pub(super) fn accept(&self) -> io::Result<Option<BenchStream>> {
        let accepted = match self {
            Self::Tcp(listener) => listener.accept().and_then(|(stream, _)| BenchStream::tcp(stream)),
            Self::Unix(listener) => listener.accept().and_then(|(stream, _)| BenchStream::unix(stream)),
        };
        at_once(accepted)
    }
}

impl AsFd for BenchListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

fn at_once<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}
