//! `[cache]`: the replies that are kept, and for how long.

use std::time::Duration;

use super::table::settings;
use super::value::words;

settings! {
    /// `[cache]`
    #[derive(Clone, Debug)]
    pub struct Cache in Cache {
        /// Time that a confirmed reply is kept where a route does not say.
        ttl: Duration = CACHE_TTL(seconds(1, 30 * DAY), Is("1h"));
        /// Time that an absence (404, 410) is kept.
        negative_ttl: Duration = CACHE_NEGATIVE_TTL(seconds(0, 30), Is("30s"));
        /// Time that a reply is kept while nothing proves that announcements arrive.
        soft_ttl: Duration = CACHE_SOFT_TTL(seconds(0, HOUR), Is("30s"));
        /// Memory for the cache; by default half of the cgroup's limit, or a 16th of the machine's.
        max_bytes: Option<u64> = CACHE_MAX_BYTES(Size(MIB, TIB), Is(""));
        /// Paths that no route names: passed to one region and never stored, or shared by all callers
        /// as RFC 9111 allows.
        unrouted: Unrouted = CACHE_UNROUTED(words::<Unrouted>(), Is("pass"));
        /// Time past its end for which a reply may be served, labelled, while every region fails.
        stale_if_error: Duration = CACHE_STALE_IF_ERROR(seconds(0, 30 * DAY), Is("24h"));
    }
}

words! {
    /// Fate of paths that no route names.
    pub enum Unrouted {
        /// Passed to one region, and not stored.
        Pass,
        /// Stored for all callers as RFC 9111 lets a shared cache.
        Cache,
    }
}
