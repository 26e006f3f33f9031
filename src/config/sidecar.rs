//! The settings of a sidecar, by the sections of its file.

use super::access::PermitsConfig;
use super::announcements::AnnouncementsConfig;
use super::cache::Cache;
use super::freshness::FreshnessConfig;
use super::listen::{Admin, Listen};
use super::process::{Drain, Log};
use super::race::RaceConfig;
use super::scope::Collector;
use super::service::Service;
use super::table::{Table, section};
use super::tree::TomlTable;

/// Everything that `nearside run` needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The one service that this process fronts.
    pub service: Service,
    pub listen: Listen,
    pub admin: Admin,
    pub cache: Cache,
    pub race: RaceConfig,
    pub freshness: FreshnessConfig,
    pub access: PermitsConfig,
    pub announcements: AnnouncementsConfig,
    pub drain: Drain,
    pub log: Log,
}

impl Config {
    pub(super) fn read(collector: &mut Collector, root: &TomlTable) -> Self {
        // Routes take the cache's TTL, and the race's primary is one of the regions.
        let cache = section(collector, root);
        let service = section(collector, root);
        Self {
            service,
            listen: section(collector, root),
            admin: section(collector, root),
            cache,
            race: section(collector, root),
            freshness: section(collector, root),
            access: section(collector, root),
            announcements: section(collector, root),
            drain: section(collector, root),
            log: section(collector, root),
        }
    }

    /// Takes what needs a restart from the `running` settings, the regions excepted.
    pub(super) fn keep_running(&mut self, running: &Self) {
        self.service.keep_running(&running.service);
        self.listen.keep_running(&running.listen);
        self.admin.keep_running(&running.admin);
        self.cache.keep_running(&running.cache);
        self.race.keep_running(&running.race);
        self.freshness.keep_running(&running.freshness);
        self.access.keep_running(&running.access);
        self.announcements.keep_running(&running.announcements);
        self.drain.keep_running(&running.drain);
        self.log.keep_running(&running.log);
    }
}
