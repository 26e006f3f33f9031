//! The bounds of the wiring. Settings that a user may tune have their defaults and ranges in
//! `config`.

use std::time::Duration;

/// How long a reload may take to read its files; after that the operator is told that it did not
/// finish.
pub(super) const RELOAD_WITHIN: Duration = Duration::from_secs(10);
/// How often a process looks again for tables that it needs and that are not there.
pub(super) const LOOK_FOR_TABLES: Duration = Duration::from_secs(2);
