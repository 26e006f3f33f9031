//! Which `Host` a request may carry: the defence against DNS rebinding. A name that an attacker
//! could point at this address is never accepted.

use std::net::{IpAddr, Ipv6Addr};

use http::uri::Authority;
use http::{HeaderMap, Version, header};

/// Why nobody can say which host a request names: the caller has to fix it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHost {
    #[error("the request names no Host; send one")]
    Missing,
    #[error("the request has several Host headers; send one")]
    Several,
    #[error("what the request names as its host is none; write a name or an address, and a port if need be")]
    Malformed,
    /// An intermediary may have gone by the other one.
    #[error("the request's target names another host than its Host header; send a path, or the same host in both")]
    Differ,
}

/// The host that a request names, without its port: `authority`, which is `:authority` or in an
/// absolute target, else `Host` (RFC 9112, 3.2; RFC 9113, 8.3.1). `None` only for HTTP/1.0, which
/// need not name one.
pub fn named<'a>(
    headers: &'a HeaderMap,
    authority: Option<&'a Authority>,
    version: Version,
) -> Result<Option<&'a str>, BadHost> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let header = hosts.next();
    if hosts.next().is_some() {
        return Err(BadHost::Several);
    }
    let header = header.map(|value| value.to_str().ok().and_then(host_of).ok_or(BadHost::Malformed)).transpose()?;
    // `http` lets a user through, and a port that is not a number.
    let target = authority.map(|target| host_of(target.as_str()).ok_or(BadHost::Malformed)).transpose()?;
    match (target, header) {
        (Some(target), Some(header)) if !is_same(target, header) => Err(BadHost::Differ),
        (None, None) if version >= Version::HTTP_11 => Err(BadHost::Missing),
        // An absolute target needs one all the same.
        (Some(_), None) if version == Version::HTTP_11 => Err(BadHost::Missing),
        (target, header) => Ok(target.or(header)),
    }
}

/// True if both mean the same host: a process's own names are one.
fn is_same(one: &str, other: &str) -> bool {
    plain_name(one) == plain_name(other) || is_ours(one, None, &[]) && is_ours(other, None, &[])
}

/// True if `host` ([`host_of`]) names this process: a loopback name or address, the address that
/// the connection came in on, or one of `allowed`. The port does not matter.
pub fn is_ours(host: &str, local: Option<IpAddr>, allowed: &[String]) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return ip.is_loopback()
            || local.is_some_and(|local| ip.to_canonical() == local.to_canonical())
            || is_listed(bare, allowed);
    }
    let name = plain_name(host);
    name == "localhost" || name.ends_with(".localhost") || is_listed(&name, allowed)
}

/// The name without the dot of the root, in lower case.
fn plain_name(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

fn is_listed(host: &str, allowed: &[String]) -> bool {
    allowed.iter().any(|name| name.eq_ignore_ascii_case(host))
}

/// The host of `host[:port]`, an address in its brackets; `None` if the text is no authority.
pub(crate) fn host_of(value: &str) -> Option<&str> {
    let (host, port) = match value.strip_prefix('[').and_then(|rest| rest.find(']')) {
        Some(end) => value.split_at(end + 2),
        None => value.split_at(value.find(':').unwrap_or(value.len())),
    };
    // `parse` alone would accept a sign.
    let port_ok = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok());
    let host_ok = match host.strip_prefix('[') {
        Some(address) => address.strip_suffix(']').is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        // A name that a URL may contain (RFC 3986, 3.2.2). Nobody can have been sent to any other.
        None => {
            !host.is_empty()
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&byte))
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
    fn loopback_connected_and_allowed_hosts_accepted() {
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

    fn host_named(target: Option<&str>, hosts: &[&'static str], version: Version) -> Result<Option<String>, BadHost> {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, http::HeaderValue::from_static(host));
        }
        let authority = target.map(|target| target.parse::<Authority>().unwrap());
        named(&headers, authority.as_ref(), version).map(|host| host.map(str::to_owned))
    }

    #[test]
    fn a_request_names_one_host() {
        for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
            let old = version == Version::HTTP_10;
            assert_eq!(host_named(None, &[], version), if old { Ok(None) } else { Err(BadHost::Missing) });
            assert_eq!(host_named(None, &["a", "b"], version), Err(BadHost::Several));
            assert_eq!(host_named(Some("a"), &["a", "a"], version), Err(BadHost::Several));
            assert_eq!(host_named(None, &["a:1"], version), Ok(Some("a".to_owned())));
            assert_eq!(
                host_named(Some("a:1"), &["A.:2"], version),
                Ok(Some("a".to_owned())),
                "the port does not matter"
            );
            assert_eq!(host_named(Some("[::1]:1"), &["localhost"], version), Ok(Some("[::1]".to_owned())));
            assert_eq!(host_named(Some("localhost"), &["evil.example"], version), Err(BadHost::Differ));
            assert_eq!(host_named(Some("evil.example"), &["localhost"], version), Err(BadHost::Differ));
            assert_eq!(host_named(Some("user@a"), &["a"], version), Err(BadHost::Malformed));
            assert_eq!(host_named(Some("a"), &[""], version), Err(BadHost::Malformed));
        }
        assert_eq!(host_named(Some("a"), &[], Version::HTTP_11), Err(BadHost::Missing));
        assert_eq!(host_named(Some("a"), &[], Version::HTTP_2), Ok(Some("a".to_owned())));
    }

    #[test]
    fn rebindable_or_invalid_hosts_are_refused() {
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
