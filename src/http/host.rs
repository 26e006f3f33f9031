//! Which `Host` a request may carry: the defence against DNS rebinding. A name that an attacker
//! could point at this address is never accepted.

use std::net::{IpAddr, Ipv6Addr};

/// Whether `host` ([`host_of`]) names this process: a loopback name or address, the address that
/// the connection came in on, or one of `allowed`. The port does not matter.
pub(crate) fn is_ours(host: &str, local: Option<IpAddr>, allowed: &[String]) -> bool {
    let lists = |host: &str| allowed.iter().any(|name| name.eq_ignore_ascii_case(host));
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return ip.is_loopback()
            || local.is_some_and(|local| ip.to_canonical() == local.to_canonical())
            || lists(bare);
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || lists(&name)
}

/// The host of `host[:port]`, an address in its brackets; `None` if the text is no authority.
pub(crate) fn host_of(value: &str) -> Option<&str> {
    let (host, port) = match value.strip_prefix('[').and_then(|rest| rest.find(']')) {
        Some(end) => value.split_at(end + 2),
        None => value.split_at(value.find(':').unwrap_or(value.len())),
    };
    // `parse` alone would accept a sign.
    let number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok();
    let port_ok = port.is_empty() || port.strip_prefix(':').is_some_and(number);
    let host_ok = match host.strip_prefix('[') {
        Some(address) => address.strip_suffix(']').is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        // A name that a URL may contain (RFC 3986, 3.2.2). Nobody can have been sent to any other.
        None => {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&byte);
            !host.is_empty() && host.bytes().all(fits)
        }
    };
    (port_ok && host_ok).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 2, 3));

    fn names(authority: &str, allowed: &[String]) -> bool {
        host_of(authority).is_some_and(|host| is_ours(host, Some(POD), allowed))
    }

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
            assert!(names(ours, &allowed), "{ours}");
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
            "localhost:+80",
        ] {
            assert!(!names(foreign, &[]), "{foreign}");
        }
    }
}
