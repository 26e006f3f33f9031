//! The bounds of the wiring. Settings that a user may tune have their defaults and ranges in
//! `config`.

use std::time::Duration;

/// How long a reload may take to read its files; after that the operator is told that it did not
/// finish.
pub(super) const RELOAD_WITHIN: Duration = Duration::from_secs(10);
/// How often a process looks again for tables that it needs and that are not there.
pub(super) const LOOK_FOR_TABLES: Duration = Duration::from_secs(2);
/// How often a process looks whether its tables and its stream are still there. An error that says
/// that something is missing makes it look at once.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(300);
/// For how long `--check` asks AWS again what got no answer, and after which pause.
pub(super) const CHECK_WAIT: Duration = Duration::from_secs(5);
pub(super) const CHECK_AGAIN: Duration = Duration::from_millis(250);
/// How often a terminal shows how far a comparison is, and how often something else gets a line.
pub(super) const VERIFY_SHOW_EVERY: Duration = Duration::from_secs(1);
pub(super) const VERIFY_LINE_EVERY: Duration = Duration::from_secs(10);
/// For how long it is told that a call was not allowed, after it happened last.
pub(super) const LACKING_HOLD: Duration = Duration::from_secs(60);
/// How many such lines are kept.
pub(super) const LACKING_LINES: usize = 32;
