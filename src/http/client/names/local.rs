//! Names that need no name server: addresses in any spelling that the C library takes, the file of
//! `hosts`, and `localhost`.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Names of one reading of `hosts`, in lower case, with their addresses in the order of the file.
#[derive(Debug, Default)]
pub(super) struct LocalNames {
    hosts: HashMap<String, Vec<IpAddr>>,
}

impl LocalNames {
    /// Lines of a file. What a line says wrong costs that line alone.
    pub(super) fn of(text: &[u8]) -> Self {
        let mut hosts: HashMap<String, Vec<IpAddr>> = HashMap::new();
        for line in String::from_utf8_lossy(text).trim_start_matches('\u{feff}').lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(Ok(address)) = words.next().map(str::parse) else { continue };
            for name in words {
                let known = hosts.entry(spelled(name)).or_default();
                if !known.contains(&address) {
                    known.push(address);
                }
            }
        }
        Self { hosts }
    }

    /// The addresses of `name`, if they are known without asking anybody.
    pub(super) fn addresses(&self, name: &str) -> Option<Vec<IpAddr>> {
        if let Some(address) = literal(name) {
            return Some(vec![address]);
        }
        let name = spelled(name);
        let is_localhost = name == "localhost" || name.ends_with(".localhost");
        self.hosts
            .get(&name)
            .cloned()
            .or_else(|| is_localhost.then(|| vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()]))
    }
}

/// A name as it is compared.
fn spelled(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// An address that is written as one: IPv6, or IPv4 in one to four numbers, each of which may be
/// decimal, octal or hexadecimal, the last one for all bytes that are left (`inet_aton`).
fn literal(name: &str) -> Option<IpAddr> {
    if let Ok(address) = name.parse() {
        return Some(address);
    }
    let numbers: Vec<u32> = name.split('.').map(number).collect::<Option<_>>()?;
    let (last, first) = numbers.split_last()?;
    let left = 4usize.checked_sub(first.len()).filter(|left| *left > 0)?;
    if first.iter().any(|byte| *byte > 0xff) || u64::from(*last) >= 1 << (8 * left) {
        return None;
    }
    let bits = first.iter().zip([24, 16, 8]).fold(*last, |bits, (byte, by)| bits | byte << by);
    Some(Ipv4Addr::from_bits(bits).into())
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => unsigned(digits, 16),
        None if text.len() > 1 && text.starts_with('0') => unsigned(text, 8),
        None => unsigned(text, 10),
    }
}

fn unsigned(digits: &str, radix: u32) -> Option<u32> {
    // `from_str_radix` takes a sign too.
    u32::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(hosts: &LocalNames, name: &str) -> String {
        let found = hosts.addresses(name).unwrap_or_default();
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn addresses_parse_like_inet_aton() {
        let none = LocalNames::default();
        for (name, address) in [
            ("127.0.0.1", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("10.1.258", "10.1.1.2"),
            ("0x7f.1", "127.0.0.1"),
            ("0X7F000001", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0177.0.0.01", "127.0.0.1"),
            ("0", "0.0.0.0"),
            ("::1", "::1"),
            ("255.255.255.255", "255.255.255.255"),
            ("4294967295", "255.255.255.255"),
        ] {
            assert_eq!(found(&none, name), address, "{name}");
        }
        for name in [
            "",
            ".",
            "127.",
            "256.1",
            "1.2.3.256",
            "1.2.3.4.5",
            "4294967296",
            "09.1",
            "0x",
            "+1",
            "1.+2",
            "0xg",
            "a.1",
            "1.2.65536",
            "0x100000000",
            "1e3",
        ] {
            assert_eq!(found(&none, name), "", "{name}");
        }
    }

    #[test]
    fn hosts_are_read_line_by_line() {
        let text = b"\xef\xbb\xbf127.0.0.7 Region.Test region_one.test # region.two\n\xff\xfe nonsense\n\
                     127.0.0.8\tregion.test\n::7 region.test\n127.0.0.8 region.test\n# 127.0.0.9 other\n127.0.0.5\n\
                     fe80::1%lo0 scoped\nxn--bcher-kva 127.0.0.1\n127.0.0.6 xn--bcher-kva.test last";
        let hosts = LocalNames::of(text);
        for (name, addresses) in [
            ("region.test", "127.0.0.7 127.0.0.8 ::7"),
            ("REGION.test.", "127.0.0.7 127.0.0.8 ::7"),
            ("region_one.test", "127.0.0.7"),
            ("xn--bcher-kva.test", "127.0.0.6"),
            ("last", "127.0.0.6"),
            ("region.two", ""),
            ("other", ""),
            ("scoped", ""),
            ("region", ""),
        ] {
            assert_eq!(found(&hosts, name), addresses, "{name}");
        }
    }

    #[test]
    fn localhost_resolves_unless_hosts_override() {
        let none = LocalNames::default();
        for name in ["localhost", "LOCALHOST", "localhost.", "a.localhost"] {
            assert_eq!(found(&none, name), "::1 127.0.0.1", "{name}");
        }
        assert_eq!(found(&none, "notlocalhost"), "");
        assert_eq!(found(&LocalNames::of(b"127.0.0.3 localhost\n"), "localhost"), "127.0.0.3");
    }
}
