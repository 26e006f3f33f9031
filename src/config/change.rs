//! Compares two readings of the configuration: what changes with a reload, and what only with a
//! restart.

use std::collections::BTreeMap;

use super::scope::{Effective, Origins};
use super::settings::{self as schema, Reload, Section, SettingKind};
use super::{Admin, AnnouncementsConfig, Cache, Config, FreshnessConfig, Listen, Log, RegionConfig, Service, value};

#[cfg(test)]
mod tests;

/// What differs between two readings, one line each, without secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// What takes effect with a reload.
    pub live: Vec<String>,
    /// The settings that keep their old value until a restart.
    pub restart: Vec<String>,
}

/// The configuration after a reload: `wanted`, except for what needs a restart.
///
/// Every field is named here, so that a new one has to be decided about.
pub(crate) fn merged(running: &Config, wanted: &Config) -> Config {
    let mut merged = wanted.clone();
    let Config { service, listen, admin, cache, race, freshness, announcements, drain: _, log } = &mut merged;
    let Service { name, regions, routes: _, version_header, authoritative } = service;
    *authoritative = running.service.authoritative;
    name.clone_from(&running.service.name);
    version_header.clone_from(&running.service.version_header);
    *regions = running.service.regions.iter().map(|known| region(known, &wanted.service.regions)).collect();
    let primary = wanted.service.regions.get(race.primary).map(|region| &region.name);
    let place = regions.iter().position(|region| Some(&region.name) == primary);
    race.primary = place.unwrap_or(running.race.primary);
    let Listen {
        tcp,
        unix,
        allowed_hosts: _,
        refuse_forwarded: _,
        allow_cross_site: _,
        token_file: _,
        max_connections: _,
        fast: _,
    } = listen;
    *tcp = running.listen.tcp;
    unix.clone_from(&running.listen.unix);
    let Admin { listen: admin_listen, unix: _, token_file: _ } = admin;
    *admin_listen = running.admin.listen;
    let Cache { ttl: _, negative_ttl: _, soft_ttl: _, max_bytes: _, stale_if_error: _, unrouted: _ } = cache;
    let FreshnessConfig { heartbeats, worst_lag: _, grace: _, max_jump: _, strict: _, audit_period: _, state_file } =
        freshness;
    *heartbeats = running.freshness.heartbeats;
    state_file.clone_from(&running.freshness.state_file);
    let AnnouncementsConfig { transport, endpoint_url, insecure_sns_signer, queues } = announcements;
    transport.clone_from(&running.announcements.transport);
    endpoint_url.clone_from(&running.announcements.endpoint_url);
    insecure_sns_signer.clone_from(&running.announcements.insecure_sns_signer);
    queues.clone_from(&running.announcements.queues);
    let Log { json, filter: _ } = log;
    *json = running.log.json;
    merged
}

/// A region, with where and how it is reached taken from `wanted`.
fn region(running: &RegionConfig, wanted: &[RegionConfig]) -> RegionConfig {
    let RegionConfig { name, url: _, topic, tls: _ } = running;
    match wanted.iter().find(|region| region.name == *name) {
        Some(RegionConfig { url, tls, .. }) => {
            RegionConfig { name: name.clone(), url: url.clone(), topic: topic.clone(), tls: tls.clone() }
        }
        None => running.clone(),
    }
}

/// The differences between the `running` settings and those `wanted`, and the origins of the
/// settings that hold after a reload.
pub(crate) fn compare(running: &Origins, wanted: &Origins) -> (Changes, Origins) {
    let (before, after) = (Reading::of(running), Reading::of(wanted));
    let mut changes = Changes::default();
    let mut holds = Origins { settings: Vec::new(), warnings: wanted.warnings.clone() };
    for (name, known) in &after.settings {
        let item = after.items.get(&(known.home(), known.item));
        let was = before.settings.get(name);
        let needs_restart = known.setting.reload == Reload::Restart;
        match was {
            None if item.is_some_and(|item| !before.has(known.home(), item)) => {
                if known.home() == Section::Route {
                    holds.settings.push((*known).clone());
                }
            }
            Some(was) if !is_same(was, known) && needs_restart => {
                changes.restart.push(name.clone());
                holds.settings.push((*was).clone());
            }
            was => {
                let inherited = known.is_default() && was.is_some_and(|was| was.is_default());
                if !inherited && was.is_none_or(|was| !is_same(was, known)) {
                    changes.live.push(told(name, was.copied(), known));
                }
                // Under the place that the region has in the running process.
                let place = was.filter(|_| known.home() == Section::Region).and_then(|was| was.item);
                holds.settings.push(Effective { item: place.or(known.item), ..(*known).clone() });
            }
        }
    }
    let stays = |known: &&Effective| {
        let item = before.items.get(&(known.home(), known.item));
        let gone = item.is_some_and(|item| !after.has(Section::Region, item));
        known.home() == Section::Region && (gone || is_name(known))
    };
    holds.settings.extend(running.settings.iter().filter(stays).cloned());
    let paths = wanted.settings.iter().filter(|known| known.home() == Section::Route && is_name(known));
    holds.settings.extend(paths.cloned());
    items(&before, &after, &mut changes);
    (changes, holds)
}

/// Notes regions and routes that came or went.
fn items(before: &Reading<'_>, after: &Reading<'_>, changes: &mut Changes) {
    for (one, other, what) in [(after, before, "new"), (before, after, "taken away")] {
        for ((home, _), item) in &one.items {
            if other.has(*home, item) {
                continue;
            }
            match home {
                Section::Region => changes.restart.push(format!("{}[{item}] ({what})", home.path())),
                _ => changes.live.push(format!("{}[{item}]: {what}", home.path())),
            }
        }
    }
    let order = |reading: &Reading<'_>, other: &Reading<'_>| {
        let routes = reading.items.iter().filter(|((home, _), _)| *home == Section::Route);
        let common = routes.map(|(_, item)| item.clone()).filter(|item| other.has(Section::Route, item));
        common.collect::<Vec<_>>()
    };
    if order(before, after) != order(after, before) {
        changes.live.push(format!("{}: another order", Section::Route.path()));
    }
}

/// The settings of one reading by their full names.
struct Reading<'o> {
    settings: BTreeMap<String, &'o Effective>,
    /// The regions' names and the routes' paths, by their places.
    items: BTreeMap<(Section, Option<usize>), String>,
}

impl<'o> Reading<'o> {
    fn of(origins: &'o Origins) -> Self {
        let names = origins.settings.iter().filter(|known| is_name(known));
        let items: BTreeMap<_, _> =
            names.map(|known| ((known.home(), known.item), known.toml.trim_matches('"').to_owned())).collect();
        let named = |known: &'o Effective| {
            let name = match items.get(&(known.home(), known.item)) {
                Some(item) => {
                    let inner = known.setting.section.path().strip_prefix(known.home().path()).unwrap_or_default();
                    format!("{}[{item}]{inner}.{}", known.home().path(), known.setting.key)
                }
                None => known.setting.path(),
            };
            (name, known)
        };
        let settings = origins.settings.iter().filter(|known| !is_name(known)).map(named).collect();
        Self { settings, items }
    }

    fn has(&self, home: Section, item: &str) -> bool {
        self.items.iter().any(|((section, _), known)| *section == home && known == item)
    }
}

/// Whether this setting identifies a region or route.
fn is_name(known: &Effective) -> bool {
    known.setting == &schema::REGION_NAME || known.setting == &schema::ROUTE_PATH
}

/// Whether both mean the same, however it is written.
fn is_same(one: &Effective, other: &Effective) -> bool {
    let kind = one.setting.kind;
    let both = |read: fn(&Effective, SettingKind) -> Option<u128>| {
        read(one, kind).zip(read(other, kind)).is_some_and(|(one, other)| one == other)
    };
    one.toml == other.toml
        || match kind {
            SettingKind::Duration(..) => {
                both(|it, kind| value::duration(&it.raw, kind).ok().map(|span| span.as_nanos()))
            }
            SettingKind::Size(..) => both(|it, kind| value::size(&it.raw, kind).ok().map(u128::from)),
            SettingKind::Count(..) => both(|it, kind| value::count(&it.raw, kind).ok().map(u128::from)),
            SettingKind::Mode => both(|it, kind| value::mode(&it.raw, kind).ok().map(u128::from)),
            _ => false,
        }
}

fn told(name: &str, was: Option<&Effective>, known: &Effective) -> String {
    if known.setting == &schema::CREDENTIALS_PREFIX {
        // The prefix is sent with a secret, and may be part of it.
        return name.to_owned();
    }
    match was {
        Some(was) => format!("{name}: {} -> {}", was.toml, known.toml),
        None => format!("{name}: {}", known.toml),
    }
}
