//! The bounds of the wiring. Settings that a user may tune have their defaults and ranges in
//! `config`.

use std::time::Duration;

/// Longest time that a reload may take to read its files; after that the operator gets a report
/// that it did not finish.
pub(super) const RELOAD_WITHIN: Duration = Duration::from_secs(10);
/// Time for which a region may be ahead of all others, unannounced, before `doctor` says so.
pub(super) const LEAD_AT_ONCE: Duration = Duration::from_secs(5);
/// Interval between looks for tables that a process needs and that are not there.
pub(super) const LOOK_FOR_TABLES: Duration = Duration::from_secs(2);
/// Interval between looks whether a process's tables and its stream are still there. An error that
/// says that something is missing makes it look at once.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(300);
/// For how long `--check` asks AWS again what got no answer, and after which pause.
pub(super) const CHECK_WAIT: Duration = Duration::from_secs(5);
pub(super) const CHECK_AGAIN: Duration = Duration::from_millis(250);
/// Interval between updates of a comparison's progress on a terminal, and between its lines
/// elsewhere.
pub(super) const VERIFY_SHOW_EVERY: Duration = Duration::from_secs(1);
pub(super) const VERIFY_LINE_EVERY: Duration = Duration::from_secs(10);
/// Time for which a call that was not allowed is reported, after it happened last.
pub(super) const LACKING_HOLD: Duration = Duration::from_secs(60);
/// Most such lines that are kept.
pub(super) const LACKING_LINES: usize = 32;
/// A store that only fails, or does not answer, for so long is a reason on the pages.
pub(super) const STORE_FAILS: Duration = Duration::from_secs(5);
/// After which a store that nobody has asked anything is probed, and how often that is looked at.
pub(super) const STORE_IDLE: Duration = Duration::from_secs(2);
pub(super) const PROBE_EVERY: Duration = Duration::from_secs(1);
/// Interval between checks of a disk's room.
pub(super) const PROBE_ROOM_EVERY: Duration = Duration::from_secs(5);
/// For how long a failure is a reason while nobody tries again.
pub(super) const TROUBLE_HOLD: Duration = Duration::from_secs(30);
/// The fewest files that a process must be allowed to open.
pub(super) const LEAST_DESCRIPTORS: u64 = 64;
/// Descriptors of the process itself: its runtime, its log, listeners, files that it reads.
pub(super) const OWN_DESCRIPTORS: u64 = 24;
/// Descriptors of an embedded store besides.
pub(super) const STORE_DESCRIPTORS: u64 = 24;
/// Most that are kept for operators: what the admin port has at most.
pub(super) const ADMIN_DESCRIPTORS: u64 = 64;
/// Most that are kept for connections to regions and AWS.
pub(super) const OUTGOING_DESCRIPTORS: u64 = 8192;
/// However few there are, a region gets as many requests at once.
pub(super) const LEAST_REGION_PERMITS: usize = 2;

const _: () = assert!(OWN_DESCRIPTORS < LEAST_DESCRIPTORS / 2);
const _: () = assert!(
    STORE_IDLE.as_millis() + PROBE_EVERY.as_millis() + STORE_FAILS.as_millis() < 10_000,
    "within ten seconds it shows"
);
