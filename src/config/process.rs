//! `[drain]` and `[log]`: how a process stops, and what it logs.

use std::time::Duration;

use super::table::settings;
use super::value::words;

settings! {
    /// `[drain]`
    #[derive(Clone, Copy, Debug)]
    pub struct Drain in Drain {
        /// After SIGTERM everything is still answered for this long.
        linger: Duration = DRAIN_LINGER(millis(0, 300_000), Is("5s"));
        /// Then requests under way end and subscriptions are removed, within this.
        deadline: Duration = DRAIN_DEADLINE(millis(100, 300_000), Is("10s"));
    }
}

settings! {
    /// `[log]`
    #[derive(Clone, Debug)]
    pub struct Log in Log {
        /// For people, or one JSON object per line.
        format: LogFormat = LOG_FORMAT(words::<LogFormat>(), Is("human")) Restart;
        /// Events that are logged: a level, or levels by module, such as `info,nearside::sidecar=debug`.
        filter: String = LOG_FILTER(Filter, Is("info"));
    }
}

words! {
    /// Form of the log's lines.
    pub enum LogFormat {
        Human,
        Json,
    }
}
