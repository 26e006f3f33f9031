//! Which `Host` an operator's request may carry: the defence against DNS rebinding. A name that an
//! attacker could point at this address is never accepted.

use std::net::IpAddr;

/// Whether `authority` (`host` or `host:port`, as in `Host`) names this process: a loopback name or
/// address, the address the connection came in on, or one of `allowed`.
pub(super) fn names_us(authority: &str, local: IpAddr, allowed: &[String]) -> bool {
    let Some(host) = host_of(authority) else { return false };
    if let Ok(ip) = host.parse::<IpAddr>() {
        return ip.is_loopback() || ip.to_canonical() == local.to_canonical() || lists(allowed, host);
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    let name = host.to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || lists(allowed, &name)
}

fn lists(allowed: &[String], host: &str) -> bool {
    allowed.iter().any(|name| name.eq_ignore_ascii_case(host))
}

/// The host without port and brackets; `None` if the text is not an authority.
fn host_of(authority: &str) -> Option<&str> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port_or_nothing = rest.is_empty() || rest.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    (port_or_nothing && !host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 2, 3));

    #[test]
    fn loopback_the_address_connected_to_and_allowed_names_are_ours() {
        let allowed = ["Nearside.internal".to_owned()];
        for ours in [
            "localhost",
            "LocalHost:8701",
            "localhost.:8701",
            "app.localhost",
            "127.0.0.1:8701",
            "127.9.9.9",
            "[::1]:8701",
            "10.1.2.3:8701",
            "[::ffff:10.1.2.3]:8701",
            "nearside.internal:8701",
        ] {
            assert!(names_us(ours, POD, &allowed), "{ours}");
        }
    }

    #[test]
    fn a_name_that_could_be_rebound_or_is_no_authority_is_not() {
        for foreign in [
            "evil.example",
            "localhost.evil.example",
            "evil.example:8701",
            "10.1.2.4",
            "notlocalhost",
            "",
            ":8701",
            "localhost:port",
            "localhost:8701:1",
            "[::1",
            "user@localhost",
        ] {
            assert!(!names_us(foreign, POD, &[]), "{foreign}");
        }
    }
}
