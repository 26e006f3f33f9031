//! `[freshness]`: how far replies may lag behind, and what proves that they do not.

use std::path::PathBuf;
use std::time::Duration;

use super::table::settings;
use super::value::words;

settings! {
    /// `[freshness]`
    #[derive(Clone, Debug)]
    pub struct FreshnessConfig in Freshness {
        /// Working subscriptions prove freshness until a region's first heartbeat (`auto`), or never.
        heartbeats: Heartbeats = FRESHNESS_HEARTBEATS(words::<Heartbeats>(), Is("auto")) Restart;
        /// Lag of one region's ingest behind another's, at most.
        worst_lag: Duration = FRESHNESS_WORST_LAG(millis(100, HOUR * 1000), Is("60s"));
        /// Time for which a reader may get the previous value while an announced change is fetched.
        grace: Duration = FRESHNESS_GRACE(millis(0, 10_000), Is("0s"));
        /// A version this far above a record's last is not believed; room for counters and microseconds.
        max_jump: u64 = FRESHNESS_MAX_JUMP(Count(1, (1 << 62) - 1), Is("100000000000000"));
        /// Answer 504 rather than with something known to be too old.
        strict: bool = FRESHNESS_STRICT(Flag, Is("false"));
        /// Time in which each stored reply is compared with all regions once; `0s` compares none.
        audit_period: Duration = FRESHNESS_AUDIT_PERIOD(millis(0, DAY * 1000), Is("10m"));
        /// File that remembers across restarts which regions send heartbeats; none remembers nothing.
        state_file: Option<PathBuf> = FRESHNESS_STATE_FILE(File, Is("")) Restart;
    }
}

impl FreshnessConfig {
    /// The part that the protocol itself uses.
    pub fn protocol(&self) -> crate::protocol::Settings {
        crate::protocol::Settings {
            worst_lag: self.worst_lag,
            max_jump: self.max_jump,
            heartbeats_required: self.heartbeats == Heartbeats::Required,
        }
    }
}

words! {
    /// Need of heartbeats for a lease.
    pub enum Heartbeats {
        /// Weak proof counts until a region's first heartbeat.
        Auto,
        /// Only heartbeats and messages prove anything.
        Required,
    }
}
