//! Items of a table or a feed that cannot be used: written by somebody else, by a later version, or
//! too large. One such item must not hold up the others: it is skipped, counted and reported.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::digest::{SHA256, digest};

use super::{ItemKey, Table};
use crate::model::time::Moment;
use crate::telemetry::rate_limiter::RateLimiter;

/// Unusable items of one place; all its readers count here.
#[derive(Debug, Default)]
pub struct Skipped {
    count: AtomicU64,
    lines: RateLimiter,
}

impl Skipped {
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts one, and tells of it; not of each where there are many.
    pub fn note(&self, now: Moment, table: Table, key: Option<&ItemKey>, why: &str) {
        self.count.fetch_add(1, Ordering::Relaxed);
        if let Some(suppressed) = self.lines.admit(now) {
            let item = key.map(|key| LoggedKey(table, key).to_string());
            let item = item.as_deref().unwrap_or("without a key");
            tracing::warn!(table = table.into_str(), item, why, suppressed, "an item was skipped");
        }
    }
}

/// An item's key as logs may show it: `limits#94 822b33ad` is the partition, which is no secret
/// where it is a type and a bucket, and the beginning of the key's SHA-256, as `verify` shows it.
pub struct LoggedKey<'k>(pub Table, pub &'k ItemKey);

impl fmt::Display for LoggedKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(table, ItemKey { partition, sort }) = self;
        if matches!(table, Table::Records | Table::Views | Table::Contexts) {
            write!(f, "{partition} ")?;
        }
        digest(&SHA256, sort.as_bytes()).as_ref()[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_locates_item_without_key() {
        for (table, partition, reported) in
            [(Table::Views, "limits#94", "limits#94 822b33ad"), (Table::History, "tenant#acme", "822b33ad")]
        {
            assert_eq!(LoggedKey(table, &ItemKey::new(partition, "acme")).to_string(), reported);
        }
    }
}
