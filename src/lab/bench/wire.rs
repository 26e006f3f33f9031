//! Owns one connection of the load generator and of the harness's own servers: TCP or a Unix socket, never waiting.
//!
//! Before it: an [`Address`]. After it: bytes, and the kernel's word when there are more. Invariant: no call waits but
//! the connect, which on loopback is done at once.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use super::subject::Address;

/// A connection.
#[derive(Debug)]
pub enum Wire {
    /// Over a port, without Nagle's wait.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

/// Where connections come in.
#[derive(Debug)]
pub enum Door {
    /// A port.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
}

impl Wire {
    /// Connects.
    pub fn open(address: &Address) -> io::Result<Self> {
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

    /// Bytes that are there; `None` when there are none yet.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        at_once(match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
        })
    }

    /// How many bytes the kernel took.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = at_once(match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        });
        Ok(written?.unwrap_or(0))
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Door {
    /// Listens.
    pub fn open(address: &Address) -> io::Result<Self> {
        let door = match address {
            Address::Tcp(address) => Self::Tcp(TcpListener::bind(address)?),
            Address::Unix(path) => Self::Unix(UnixListener::bind(path)?),
        };
        match &door {
            Self::Tcp(listener) => listener.set_nonblocking(true)?,
            Self::Unix(listener) => listener.set_nonblocking(true)?,
        }
        Ok(door)
    }

    /// The next that connected; `None` when nobody did.
    pub fn accept(&self) -> io::Result<Option<Wire>> {
        let accepted = match self {
            Self::Tcp(listener) => listener.accept().and_then(|(stream, _)| Wire::tcp(stream)),
            Self::Unix(listener) => listener.accept().and_then(|(stream, _)| Wire::unix(stream)),
        };
        at_once(accepted)
    }
}

impl AsFd for Door {
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
