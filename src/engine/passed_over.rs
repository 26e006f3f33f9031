//! What lies in a table or a feed and cannot be used: written by somebody else, by a later version,
//! or too large. One such item must not hold up the others: it is passed over, counted and told.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::digest::{SHA256, digest};

use super::{ItemKey, Table};
use crate::model::time::Moment;
use crate::telemetry::rate_limiter::RateLimiter;

/// Of one place; whoever reads there counts in it.
#[derive(Debug, Default)]
pub struct PassedOver {
    count: AtomicU64,
    lines: RateLimiter,
}

impl PassedOver {
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts one, and tells of it; not of each where there are many.
    pub fn note(&self, now: Moment, table: Table, key: Option<&ItemKey>, why: &str) {
        self.count.fetch_add(1, Ordering::Relaxed);
        if let Some(left_out) = self.lines.take(now) {
            let item = key.map(|key| ToldKey(table, key).to_string());
            let item = item.as_deref().unwrap_or("without a key");
            tracing::warn!(table = table.word(), item, why, left_out, "an item was passed over");
        }
    }
}

/// An item's key as logs may show it: `limits#94 822b33ad` is the partition, which is no secret
/// where it is a type and a bucket, and the beginning of the key's SHA-256, as `verify` shows it.
pub struct ToldKey<'k>(pub Table, pub &'k ItemKey);

impl fmt::Display for ToldKey<'_> {
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
    fn a_log_shows_where_an_item_lies_and_not_its_key() {
        let told = |table, partition: &str| ToldKey(table, &ItemKey::new(partition, "acme")).to_string();
        assert_eq!(told(Table::Views, "limits#94"), "limits#94 822b33ad");
        assert_eq!(told(Table::History, "tenant#acme"), "822b33ad");
    }
}
