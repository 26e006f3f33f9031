//! Loopback addresses for programs that must know theirs before they listen.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

/// Number of ports from [`FIRST_PORT`] on.
const PORTS: u16 = 20_000;

/// Lowest port. All lie below those that the system hands out (from 32,768 on: Linux,
/// `ip_local_port_range`): of those, one that was found free may be somebody's outgoing connection,
/// or somebody's port 0, before the program that is given it listens.
const FIRST_PORT: u16 = 10_000;

/// A loopback address at which nobody listens, another at each call of this process.
pub fn address() -> io::Result<SocketAddr> {
    static CALLS: AtomicU16 = AtomicU16::new(0);
    // Processes that run at once begin at different ports.
    let start = u64::from(process::id()) * 97;
    for _ in 0..PORTS {
        let call = u64::from(CALLS.fetch_add(1, Ordering::Relaxed));
        let number = u16::try_from((start + call) % u64::from(PORTS)).map_err(io::Error::other)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, FIRST_PORT + number));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_are_not_ephemeral() {
        let mut ports: Vec<u16> = (0..200).map(|_| address().unwrap().port()).collect();
        assert!(ports.iter().all(|port| (FIRST_PORT..FIRST_PORT + PORTS).contains(port)), "{ports:?}");
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 200);
    }

    #[test]
    fn used_port_is_left_alone() {
        let given = address().unwrap();
        let _taken = TcpListener::bind(given).unwrap();
        let again: Vec<_> = (0..PORTS).map_while(|_| address().ok()).take(200).collect();
        assert!(!again.contains(&given));
    }
}
