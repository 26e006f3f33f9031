//! The name servers of one version of `resolv.conf`, and a name's way through them: `hosts` first,
//! then each name that the search list makes of it, at each server, in both families.

use std::future::ready;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::FutureExt;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, LookupIpStrategy, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::system_conf::parse_resolv_conf;

use super::local::LocalNames;
use super::order::{Absence, Found, in_order, side_by_side};
use crate::http::limits::{NAME_SERVERS, NEGATIVE_CACHE_TTL, SERVER_HEAD_START, SUFFIX_HEAD_START};

pub(super) struct Servers {
    /// Servers in the order of the file; each keeps its answers for their TTL.
    servers: Vec<TokioResolver>,
    search: Vec<Name>,
    ndots: usize,
    pub(super) local: Arc<LocalNames>,
    extra: ExtraOptions,
    /// The server that is asked first, with `rotate`.
    turn: AtomicUsize,
}

/// Options of `resolv.conf` that hickory ignores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ExtraOptions {
    rotate: bool,
    /// Asks nobody for IPv6 addresses.
    no_aaaa: bool,
    /// Asks over TCP alone.
    use_vc: bool,
}

impl ExtraOptions {
    fn parsed(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("options"));
        let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
        Self {
            rotate: words.contains(&"rotate"),
            no_aaaa: words.contains(&"no-aaaa"),
            use_vc: words.contains(&"use-vc"),
        }
    }
}

/// Options for asking one server: those of `resolv.conf`, except that an absence is not kept for
/// long.
fn server_options(parsed_options: ResolverOpts) -> ResolverOpts {
    let mut options = parsed_options;
    // hickory's `attempts` counts retries only.
    options.attempts = options.attempts.saturating_sub(1);
    options.negative_max_ttl = Some(NEGATIVE_CACHE_TTL);
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.use_hosts_file = ResolveHosts::Never;
    options
}

impl Servers {
    /// Servers that the text of `resolv.conf` names, consulted after `/etc/hosts`.
    pub(super) fn from_resolv_conf(text: &[u8], local: Arc<LocalNames>) -> io::Result<Self> {
        let (config, parsed_options) = parse_resolv_conf(text).map_err(io::Error::other)?;
        let (extra, server_options) = (ExtraOptions::parsed(text), server_options(parsed_options));
        let servers = config
            .name_servers()
            .iter()
            .take(NAME_SERVERS)
            .map(|server| {
                let mut server = server.clone();
                if extra.use_vc {
                    server.connections = vec![ConnectionConfig::tcp()];
                }
                let one_server = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
                let builder = TokioResolver::builder_with_config(one_server, TokioRuntimeProvider::default());
                builder.with_options(server_options.clone()).build().map_err(io::Error::other)
            })
            .collect::<Result<_, _>>()?;
        // Without `search`, `domain` is the search list.
        let search = match config.search() {
            [] => config.domain().filter(|domain| !domain.is_root()).cloned().into_iter().collect(),
            search => search.to_vec(),
        };
        Ok(Self { servers, search, ndots: server_options.ndots, local, extra, turn: AtomicUsize::new(0) })
    }

    /// The addresses of `name`, IPv6 first: the connector begins with the family of the first.
    pub(super) async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        if let Some(mut found) = self.local.addresses(name) {
            found.sort_by_key(IpAddr::is_ipv4);
            return Ok(found);
        }
        let asked = parsed(name)?;
        let asks = self.candidates(&asked).into_iter().map(|candidate| self.both_families(candidate));
        match in_order(asks, SUFFIX_HEAD_START, Absence::Continues).await {
            Found::Addresses(mut found) => {
                found.sort_by_key(IpAddr::is_ipv4);
                Ok(found)
            }
            Found::Absent => Err(io::Error::new(io::ErrorKind::NotFound, "no name server knows the name")),
            Found::Failed(error) => Err(error),
        }
    }

    /// Names that the search list makes of a name, in the order of the questions.
    fn candidates(&self, name: &Name) -> Vec<Name> {
        let mut alone = name.clone();
        alone.set_fqdn(true);
        if name.is_fqdn() {
            return vec![alone];
        }
        let mut candidates: Vec<Name> =
            self.search.iter().filter_map(|suffix| name.clone().append_domain(suffix).ok()).collect();
        let dots = usize::from(name.num_labels()).saturating_sub(1);
        let place = if dots >= self.ndots { 0 } else { candidates.len() };
        candidates.insert(place, alone);
        candidates
    }

    async fn both_families(&self, name: Name) -> Found {
        let v4 = self.of_servers(&name, RecordType::A).boxed();
        let v6 = if self.extra.no_aaaa {
            ready(Found::Absent).boxed()
        } else {
            self.of_servers(&name, RecordType::AAAA).boxed()
        };
        side_by_side(v4, v6).await
    }

    async fn of_servers(&self, name: &Name, kind: RecordType) -> Found {
        let count = self.servers.len();
        let first = if self.extra.rotate { self.turn.fetch_add(1, Ordering::Relaxed) % count.max(1) } else { 0 };
        let asks = (0..count).map(|index| of_one(&self.servers[(first + index) % count], name.clone(), kind));
        in_order(asks, SERVER_HEAD_START, Absence::Ends).await
    }
}

/// A name as it is asked for. Underscores are no part of host names and are resolved all the same,
/// as the C library does.
fn parsed(name: &str) -> io::Result<Name> {
    if name.trim_end_matches('.').is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "no name at all"));
    }
    Name::from_str_relaxed(name).map_err(io::Error::other)
}

async fn of_one(server: &TokioResolver, name: Name, kind: RecordType) -> Found {
    match server.lookup(name, kind).await {
        Ok(lookup) => {
            let found: Vec<IpAddr> = lookup.answers().iter().filter_map(|record| record.data.ip_addr()).collect();
            if found.is_empty() { Found::Absent } else { Found::Addresses(found) }
        }
        Err(error) if error.is_no_records_found() => Found::Absent,
        Err(error) => Found::Failed(io::Error::other(error)),
    }
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Servers")
            .field("servers", &self.servers.len())
            .field("search", &self.search)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn servers(text: &str) -> Servers {
        Servers::from_resolv_conf(text.as_bytes(), Arc::default()).unwrap()
    }

    #[test]
    fn resolv_conf_timeout_and_attempts_honoured() {
        for (line, wait, retries) in [("", 5, 1), ("timeout:1 attempts:1", 1, 0), ("timeout:9 attempts:4", 9, 3)] {
            let text = format!("nameserver 127.0.0.1\noptions {line}\n");
            let options = server_options(parse_resolv_conf(text).unwrap().1);
            assert_eq!((options.timeout, options.attempts), (Duration::from_secs(wait), retries), "{line}");
            assert_eq!(options.negative_max_ttl, Some(NEGATIVE_CACHE_TTL), "an absence is kept for seconds");
        }
    }

    #[test]
    fn options_skipped_by_library_are_read() {
        assert_eq!(ExtraOptions::parsed(b"nameserver 127.0.0.1\n# options rotate\n"), ExtraOptions::default());
        let all = ExtraOptions { rotate: true, no_aaaa: true, use_vc: true };
        assert_eq!(ExtraOptions::parsed(b"options rotate use-vc\n options\tno-aaaa ndots:5\n"), all);
    }

    fn candidates(text: &str, name: &str) -> Vec<String> {
        let made = servers(&format!("nameserver 127.0.0.1\n{text}"));
        made.candidates(&parsed(name).unwrap()).iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn search_names_match_c_library() {
        assert_eq!(candidates("search a.test b.test\n", "region"), ["region.a.test.", "region.b.test.", "region."]);
        assert_eq!(candidates("search a.test\n", "eu.region"), ["eu.region.", "eu.region.a.test."]);
        assert_eq!(candidates("search a.test\noptions ndots:5\n", "eu.region"), ["eu.region.a.test.", "eu.region."]);
        assert_eq!(candidates("search a.test\noptions ndots:5\n", "eu.region."), ["eu.region."]);
        assert_eq!(candidates("search a.test\n", "eu_west.region"), ["eu_west.region.", "eu_west.region.a.test."]);
        assert_eq!(candidates("", "_region"), ["_region."]);
        let longest = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61)].join(".");
        // What a suffix would make too long is not asked for.
        assert_eq!(candidates("search a.test\n", &longest), [format!("{longest}.")]);
    }

    #[test]
    fn invalid_names_are_refused() {
        let (label, name) = ("a".repeat(64), vec!["a".repeat(63); 4].join("."));
        for name in ["", ".", "a..b", &label, &name, "a b", "a/b", "-a.b"] {
            assert!(parsed(name).is_err(), "{name}");
        }
        for name in ["EU.Region", "a_b.c", "xn--bcher-kva.test"] {
            assert!(parsed(name).is_ok(), "{name}");
        }
    }

    #[tokio::test]
    async fn localhost_needs_no_name_server() {
        let found = servers("nameserver 192.0.2.1\n").lookup("localhost").await.unwrap();
        assert!(found.iter().all(IpAddr::is_loopback) && found.len() == 2);
    }
}
