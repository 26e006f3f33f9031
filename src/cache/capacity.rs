//! Decides how much memory the cache and the other large consumers may use when the settings do not
//! say, and what to give up when memory runs short.
//!
//! The limit is the cgroup's (v2, else v1), otherwise the machine's memory. Ten times a second
//! [`Memory::pressure`] decides whether background work is put off, and then whether entries are
//! evicted. Requests are never refused for lack of memory. The process stays within a limit of its
//! own as long as the cache has something to give; what siblings take of a shared limit is not
//! seen. Decisions are pure; reading files is kept apart from them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::limits;
use crate::http::limits::{BODIES_BYTES, CONNECTION_BYTES, PEERS_BYTES, SOCKET_BUFFER_BYTES, SOCKET_BUFFERS_FREE};
use crate::protocol::limits::FLOOR_SLOTS;

/// Memory that this process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of the cgroup's limit or of the machine's memory.
    pub limit: u64,
    /// The limit is a cgroup's: it is the process's own, and exceeding it ends the process.
    pub is_own: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    None,
    /// Refetches, rechecks and audits are put off; readers still fetch for themselves.
    Shed,
    /// Entries are evicted as well.
    Evict,
}

impl Memory {
    /// More than anything here needs, and no limit of its own: for simulations, which must not
    /// depend on where they run.
    pub const AMPLE: Self = Self { limit: 1 << 40, is_own: false };

    /// Reads this machine's limit. A machine that does not say is taken to have the least memory
    /// that works.
    pub fn of_the_machine() -> Self {
        let total = fs::read_to_string("/proc/meminfo").ok().and_then(|text| field(&text, "MemTotal:"));
        let total = total.unwrap_or(limits::LEAST_MEMORY);
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let limit = limit_of(&groups, Path::new("/sys/fs/cgroup"), |file| fs::read_to_string(file).ok());
        Self::of(limit, total)
    }

    fn of(cgroup: Option<u64>, total: u64) -> Self {
        // A limit above what the machine has limits nothing; v1 expresses "no limit" as a very
        // large number.
        match cgroup.filter(|limit| *limit < total) {
            Some(limit) => Self { limit, is_own: true },
            None => Self { limit: total, is_own: false },
        }
    }

    /// Bytes that the cache may hold when the settings do not say. Under a cgroup: half of the
    /// limit, or what everything else leaves of it, if that is less. On a machine that others use
    /// too: a sixteenth.
    pub fn capacity(self) -> u64 {
        let (of_a_group, of_a_machine) = limits::CACHE_SHARE;
        if !self.is_own {
            return (self.limit / of_a_machine).max(limits::LEAST_CAPACITY);
        }
        (self.limit / of_a_group).min(self.limit.saturating_sub(self.beyond())).max(limits::LEAST_CAPACITY)
    }

    /// Bytes that the process may come to need besides the cache: its own under load, remembered
    /// floors and failures, bodies, envelopes.
    fn beyond(self) -> u64 {
        let floors = self.floor_slots() as u64 * limits::FLOOR_SLOT_BYTES;
        let errors = self.remembered_errors() as u64;
        limits::PROCESS_BYTES + floors + errors + self.bodies() + self.peers() + limits::ENVELOPES_BYTES as u64
    }

    /// Most bytes that all remembered failures take together.
    pub fn remembered_errors(self) -> usize {
        let share = usize::try_from(self.limit / limits::REMEMBERED_ERRORS_SHARE).unwrap_or(usize::MAX);
        if self.is_own { share.min(limits::REMEMBERED_ERROR_BYTES) } else { limits::REMEMBERED_ERROR_BYTES }
    }

    /// Most races that are undecided at once; the others wait their turn.
    pub fn races(self) -> usize {
        let races = usize::try_from(self.limit / limits::BYTES_PER_RACE).unwrap_or(limits::FILLS);
        if self.is_own { races.clamp(limits::LEAST_RACES, limits::FILLS) } else { limits::FILLS }
    }

    /// Most requests to each region that are under way at once: races, and what is passed on.
    pub fn permits(self) -> usize {
        let permits = usize::try_from(self.limit / limits::BYTES_PER_PERMIT).unwrap_or(limits::FILLS);
        if self.is_own { permits.clamp(limits::LEAST_PERMITS, limits::FILLS) } else { limits::FILLS }
    }

    /// Most bytes taken by bodies that are held while they arrive or while a race runs.
    pub fn bodies(self) -> u64 {
        if self.is_own {
            (self.limit / limits::BODIES_SHARE).clamp(limits::LEAST_BODIES_BYTES, BODIES_BYTES)
        } else {
            BODIES_BYTES
        }
    }

    /// Most bytes taken by callers' connections and by what is half sent or under way on them.
    fn peers(self) -> u64 {
        if self.is_own {
            (self.limit / limits::PEERS_SHARE).clamp(limits::LEAST_PEERS_BYTES, PEERS_BYTES)
        } else {
            PEERS_BYTES
        }
    }

    /// Most bytes that callers add to what their idle connections take.
    pub fn requests(self) -> u64 {
        self.peers() / 2
    }

    /// Most connections that take `more` than an idle one of HTTP/1.1.
    pub fn connections(self, more: usize) -> usize {
        let connections = self.peers() / 2 / (CONNECTION_BYTES + more as u64);
        if self.is_own { usize::try_from(connections).unwrap_or(usize::MAX) } else { usize::MAX }
    }

    /// Bytes that the kernel may buffer per connection and direction; `None` leaves it to the
    /// kernel.
    pub fn socket_buffer(self) -> Option<usize> {
        (self.is_own && self.limit < SOCKET_BUFFERS_FREE).then_some(SOCKET_BUFFER_BYTES)
    }

    /// True if the kernel buffers so much that peers who take nothing of it have to go.
    pub fn is_clogged(self, sockets: u64) -> bool {
        self.is_own && sockets > self.limit / limits::SOCKETS_SHARE
    }

    /// Number of records without an entry that are remembered; a power of two.
    pub fn floor_slots(self) -> usize {
        if !self.is_own {
            return FLOOR_SLOTS;
        }
        let slots = self.limit / limits::FLOORS_SHARE / limits::FLOOR_SLOT_BYTES;
        let slots = usize::try_from(slots).unwrap_or(FLOOR_SLOTS).clamp(limits::LEAST_FLOOR_SLOTS, FLOOR_SLOTS);
        1 << slots.ilog2()
    }

    /// Returns what to give up while the process holds `resident` bytes. Without a limit of its
    /// own, nothing.
    pub fn pressure(self, resident: u64) -> Pressure {
        let (shed, evict) = limits::MEMORY_PRESSURE;
        match resident as f64 / self.limit as f64 {
            _ if !self.is_own => Pressure::None,
            share if share >= evict => Pressure::Evict,
            share if share >= shed => Pressure::Shed,
            _ => Pressure::None,
        }
    }
}

/// Bytes that the process holds now, and those that the kernel holds for its sockets, where those
/// count towards the limit (v2); `None` if the system does not say, as when it is short itself.
/// Pages of the program's own file do not count, because the kernel reclaims them by itself.
pub fn resident() -> Option<(u64, u64)> {
    let own = held(&fs::read_to_string("/proc/self/status").ok()?);
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    Some((own, sockets(&groups, Path::new("/sys/fs/cgroup"), |file| fs::read_to_string(file).ok())))
}

/// The bytes that the kernel buffers of the group's sockets.
fn sockets(groups: &str, root: &Path, read: impl Fn(&Path) -> Option<String>) -> u64 {
    let Some(group) = groups.lines().find_map(|line| line.strip_prefix("0::")) else { return 0 };
    // In a container the file system often starts at the group itself.
    let own = root.join(group.trim_start_matches('/'));
    let text = [own.as_path(), root].into_iter().find_map(|at| read(&at.join("memory.stat")));
    let line = text.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("sock ")));
    line.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0)
}

fn held(status: &str) -> u64 {
    ["RssAnon:", "RssShmem:"].iter().filter_map(|name| field(status, name)).sum()
}

/// The smallest limit among the process's cgroup and its ancestors.
fn limit_of(groups: &str, root: &Path, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let mut smallest: Option<u64> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        // Exceeding `memory.high` does not end the process, but throttles it.
        let (root, files): (_, &[_]) = if controllers.is_empty() {
            (root.to_owned(), &["memory.max", "memory.high"])
        } else if controllers.split(',').any(|name| name == "memory") {
            (root.join("memory"), &["memory.limit_in_bytes"])
        } else {
            continue;
        };
        // In a container the file system often starts at the group itself, whatever its name is
        // outside.
        let mut at = root.join(group.trim_start_matches('/'));
        loop {
            let limits = files.iter().filter_map(|file| read(&at.join(file))?.trim().parse().ok());
            smallest = smallest.into_iter().chain(limits).min();
            if at == root || !up(&mut at, &root) {
                break;
            }
        }
    }
    smallest
}

fn up(at: &mut PathBuf, root: &Path) -> bool {
    at.pop() && at.starts_with(root)
}

/// A field of a file under `/proc` that is given in KiB, converted to bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn found(groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        limit_of(groups, Path::new("/c"), |file| {
            files.iter().find(|(path, _)| Path::new(path) == file).map(|(_, text)| (*text).into())
        })
    }

    #[test]
    fn smallest_ancestor_limit_holds() {
        let files =
            [("/c/pod/memory.max", "536870912\n"), ("/c/pod/own/memory.max", "max\n"), ("/c/memory.max", "max\n")];
        assert_eq!(found("0::/pod/own\n", &files), Some(512 * MIB));
        let throttled = [files[0], ("/c/pod/memory.high", "268435456\n")];
        assert_eq!(found("0::/pod\n", &throttled), Some(256 * MIB));
        assert_eq!(found("0::/\n", &[("/c/memory.max", "268435456\n")]), Some(256 * MIB), "a namespace of its own");
        assert_eq!(found("0::/\n", &[]), None);
        assert_eq!(found("nonsense", &files), None);
    }

    #[test]
    fn cgroup_socket_memory_counts() {
        let files = [("/c/own/memory.stat", "anon 5\nsock 4096\nslab 7\n"), ("/c/memory.stat", "sock 9\n")];
        // v1, the fourth, has another limit for them.
        for (groups, bytes) in
            [("0::/own\n", 4096), ("0::/\n", 9), ("0::/elsewhere\n", 9), ("4:memory:/own\n", 0), ("", 0)]
        {
            let found = sockets(groups, Path::new("/c"), |file| {
                files.iter().find(|(path, _)| Path::new(path) == file).map(|(_, text)| (*text).into())
            });
            assert_eq!(found, bytes, "{groups}");
        }
    }

    #[test]
    fn connection_buffers_fit_least_container() {
        for mib in [64, 128, 256, 512, 1023] {
            let memory = Memory { limit: mib * MIB, is_own: true };
            let (bytes, connections) = (memory.socket_buffer().unwrap(), memory.connections(0).min(4096));
            // The kernel doubles what it is given, to have room for its own data.
            let all = (2 * bytes * connections) as u64;
            assert!(all <= memory.limit * 2 / 5, "{mib} MiB: {connections} of {bytes}");
            assert!(!memory.is_clogged(memory.limit / 4) && memory.is_clogged(memory.limit / 3), "{mib} MiB");
        }
        assert_eq!(Memory { limit: 2048 * MIB, is_own: true }.socket_buffer(), None);
        assert!(!Memory { limit: MIB, is_own: false }.is_clogged(MIB));
    }

    #[test]
    fn odd_values_limit_nothing() {
        for text in ["max", "", "many", "-1", "0x10", "18446744073709551616"] {
            assert_eq!(found("0::/a\n", &[("/c/a/memory.max", text)]), None, "{text}");
        }
        for bytes in [0, 1, 4096] {
            let memory = Memory::of(found("0::/a\n", &[("/c/a/memory.max", &bytes.to_string())]), GIB);
            assert!(memory.capacity() >= limits::LEAST_CAPACITY && memory.races() > 0, "{memory:?}");
            assert!(memory.permits() > 0 && memory.connections(0) > 0 && memory.pressure(0) == Pressure::None);
        }
        assert!(!Memory::of(found("0::/a\n", &[("/c/a/memory.max", "9000000000000000000")]), GIB).is_own);
    }

    #[test]
    fn cgroup_v1_is_read() {
        let groups = "12:cpu,cpuacct:/a\n4:memory:/docker/1\n1:name=systemd:/a\n";
        let inside = [("/c/memory/memory.limit_in_bytes", "134217728\n")];
        assert_eq!(found(groups, &inside), Some(128 * MIB), "a container sees its own group as the root");
        let outside = [("/c/memory/docker/1/memory.limit_in_bytes", "67108864\n"), inside[0]];
        assert_eq!(found(groups, &outside), Some(64 * MIB));
    }

    #[test]
    fn capacity_is_half_of_cgroup_limit() {
        assert_eq!(Memory::of(Some(512 * MIB), 64 * GIB).capacity(), 256 * MIB);
        assert_eq!(Memory::of(None, 64 * GIB).capacity(), 4 * GIB);
        assert_eq!(Memory::of(Some(9_223_372_036_854_771_712), 64 * GIB).capacity(), 4 * GIB, "v1's way to say none");
        assert_eq!(Memory::of(Some(20 * MIB), 64 * GIB).capacity(), limits::LEAST_CAPACITY);
    }

    #[test]
    fn least_container_has_room_for_everything() {
        for mib in [64, 96, 128, 256, 1024, 8192] {
            let memory = Memory::of(Some(mib * MIB), 64 * GIB);
            assert!(memory.capacity() + memory.beyond() <= memory.limit, "{mib} MiB: {memory:?}");
            assert!(memory.floor_slots().is_power_of_two() && memory.floor_slots() >= limits::LEAST_FLOOR_SLOTS);
        }
        let least = Memory::of(Some(limits::LEAST_CONTAINER), 64 * GIB);
        assert!(least.capacity() >= 18 * MIB, "{} bytes for the cache", least.capacity());
        assert_eq!((least.floor_slots(), least.races()), (limits::LEAST_FLOOR_SLOTS, 16));
        assert_eq!(least.permits(), 256);
        assert_eq!((least.connections(0), least.requests()), (341, 4 * MIB));
        let ample = [Memory::of(None, 64 * GIB), Memory::of(Some(8 * GIB), 64 * GIB)];
        for memory in ample {
            assert_eq!((memory.floor_slots(), memory.permits()), (FLOOR_SLOTS, limits::FILLS));
            assert!(memory.races() >= 2_000, "{memory:?}");
            assert_eq!(memory.bodies(), BODIES_BYTES);
            assert_eq!(memory.remembered_errors(), limits::REMEMBERED_ERROR_BYTES);
        }
    }

    #[test]
    fn reclaimable_pages_are_not_counted() {
        let status = "VmRSS:\t   15748 kB\nRssAnon:\t    1764 kB\nRssFile:\t   13980 kB\nRssShmem:\t       4 kB\n";
        assert_eq!(held(status), 1768 << 10);
    }

    #[test]
    fn background_is_shed_before_entries() {
        let own = Memory::of(Some(100 * MIB), GIB);
        let reported = [50, 84, 85, 91, 92, 120].map(|used| own.pressure(used * MIB));
        assert_eq!(reported[..2], [Pressure::None; 2]);
        assert_eq!(reported[2..4], [Pressure::Shed; 2]);
        assert_eq!(reported[4..], [Pressure::Evict; 2]);
        assert_eq!(Memory::of(None, GIB).pressure(2 * GIB), Pressure::None);
    }

    #[test]
    fn memory_of_this_machine_is_read() {
        let memory = Memory::of_the_machine();
        assert!(memory.limit >= limits::LEAST_MEMORY && resident().unwrap().0 > MIB / 4, "{memory:?}");
    }
}
