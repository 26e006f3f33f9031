//! Bounds on the connections and files of the process, by the machine's limits. Descriptors are
//! shared out before they run out: some for the process itself, some for operators and for what it
//! opens to regions and AWS, the rest for callers.

use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::limits::{
    ADMIN_DESCRIPTORS, LEAST_DESCRIPTORS, LEAST_REGION_PERMITS, OUTGOING_DESCRIPTORS, OWN_DESCRIPTORS,
    STORE_DESCRIPTORS,
};
use crate::cache::capacity::Memory;
use crate::config::Config;
use crate::http::limits::{REQUEST_HEAD_BYTES, REQUEST_HEADERS};
use crate::http::server_tls::ServerTls;

/// The process may open too few files to do its work.
#[derive(Debug, thiserror::Error)]
#[error(
    "the process may open {0} files (RLIMIT_NOFILE), and needs at least {least}: raise the hard limit, \
     with `ulimit -Hn`, LimitNOFILE= or --ulimit nofile=",
    least = LEAST_DESCRIPTORS
)]
pub(crate) struct TooFewDescriptors(u64);

/// Limits of the machine that bound connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    memory: Memory,
    descriptors: u64,
    /// Bytes that TLS adds to each connection.
    tls: usize,
}

/// Raises the soft limit of open files to the hard one.
///
/// # Errors
/// When even that is not enough.
pub(crate) fn raise_descriptors() -> Result<(), TooFewDescriptors> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // If that is not allowed, the soft limit holds.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    let descriptors = descriptors();
    if descriptors < LEAST_DESCRIPTORS { Err(TooFewDescriptors(descriptors)) } else { Ok(()) }
}

/// Limit on open files; without one, more than anybody needs.
fn descriptors() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

impl Bounds {
    pub(crate) fn of_the_machine(memory: Memory) -> Self {
        Self { memory, descriptors: descriptors(), tls: 0 }
    }

    /// Bounds of ports that speak TLS, if there is any.
    pub(crate) fn over(self, tls: Option<&Arc<ServerTls>>) -> Self {
        Self { tls: tls.map_or(0, |tls| tls.connection_bytes()), ..self }
    }

    /// Bound on callers connected at once, and its reason if `asked` is too many.
    pub(crate) fn connections(self, asked: usize) -> (usize, Option<&'static str>) {
        self.bounded(asked, self.memory.connections(self.tls), 0)
    }

    /// Bound for a service, whose connections may each hold a whole head, and whose store has
    /// files.
    pub(crate) fn service_connections(self, asked: usize) -> (usize, Option<&'static str>) {
        let head = REQUEST_HEAD_BYTES + REQUEST_HEADERS * size_of::<[usize; 4]>();
        self.bounded(asked, self.memory.connections(head + self.tls), STORE_DESCRIPTORS)
    }

    fn bounded(self, asked: usize, by_memory: usize, store: u64) -> (usize, Option<&'static str>) {
        let spare = self.spare();
        let callers = spare - self.admin() as u64 - self.outgoing() - store.min(spare / 4);
        let by_files = usize::try_from(callers).unwrap_or(usize::MAX);
        match asked {
            _ if asked <= by_memory.min(by_files) => (asked, None),
            _ if by_files <= by_memory => (by_files, Some("open files (RLIMIT_NOFILE)")),
            _ => (by_memory, Some("memory")),
        }
    }

    /// Bound on operators' open connections to the admin port.
    pub(crate) fn admin(self) -> usize {
        // Not above a constant.
        (self.spare() / 8).min(ADMIN_DESCRIPTORS) as usize
    }

    /// Bound on requests under way to each region.
    pub(crate) fn permits(self, config: &Config) -> usize {
        let regions = config.service.regions.len().max(1) as u64;
        let by_files = usize::try_from(self.outgoing() * 3 / 4 / regions).unwrap_or(usize::MAX);
        config.race.permits.min(self.memory.permits()).min(by_files.max(LEAST_REGION_PERMITS))
    }

    fn spare(self) -> u64 {
        self.descriptors.max(LEAST_DESCRIPTORS) - OWN_DESCRIPTORS
    }

    fn outgoing(self) -> u64 {
        (self.spare() / 3).min(OUTGOING_DESCRIPTORS)
    }
}

/// Bound on connected callers; says so if it is lower than the settings ask for.
pub(super) fn bound_connections(bounds: Bounds, config: &Config) -> usize {
    let asked = config.listen.max_connections;
    let (connections, by) = bounds.connections(asked);
    if let Some(by) = by {
        tracing::info!(connections, asked, by, "fewer connections than listen.max_connections are accepted at once");
    }
    connections
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use crate::http::limits::TLS_BYTES;

    #[test]
    fn scarce_descriptors_are_shared_among_all() {
        let config = "service.name = \"a\"\nannouncements.transport = \"off\"\n\
                      service.region = [{ name = \"a\", url = \"http://127.0.0.1:1\" }]\n";
        let config = read::from_toml(config).unwrap();
        for descriptors in [64, 65, 100, 256, 1024, 4096, 20_000, u64::MAX] {
            let bounds = Bounds { memory: Memory::AMPLE, descriptors, tls: 0 };
            let (callers, why) = bounds.connections(4096);
            let (of_service, _) = bounds.service_connections(4096);
            let all = OWN_DESCRIPTORS + (callers + bounds.admin()) as u64 + bounds.outgoing();
            assert!(all <= descriptors, "{descriptors}: {callers}, {}", bounds.admin());
            assert!(callers >= 20 && of_service >= 10 && bounds.admin() >= 5, "{descriptors}: {callers}");
            assert!((LEAST_REGION_PERMITS..=512).contains(&bounds.permits(&config)));
            assert_eq!(why.is_some(), callers < 4096, "{descriptors}");
        }
        let ample = Bounds { memory: Memory::AMPLE, descriptors: 20_000, tls: 0 };
        assert_eq!((ample.connections(4096), ample.permits(&config)), ((4096, None), 512));
    }

    #[test]
    fn memory_bounds_connections_too() {
        let memory = Memory { limit: crate::cache::limits::LEAST_CONTAINER, is_own: true };
        let bounds = Bounds { memory, descriptors: 20_000, tls: 0 };
        assert_eq!(bounds.connections(4096), (341, Some("memory")));
        assert!(bounds.service_connections(1024).0 < 120);
        assert_eq!(bounds.connections(10), (10, None));
        let over_tls = Bounds { tls: TLS_BYTES, ..bounds };
        assert!(over_tls.connections(4096).0 < 341 / 4 && over_tls.service_connections(4096).0 >= 40);
    }
}
