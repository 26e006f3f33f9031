//! Compares two readings of the configuration: what changes with a reload, and what only with a
//! restart.

use std::collections::BTreeMap;

use super::scope::{Effective, Origins};
use super::settings::{Reload, Section, SettingKind};
use super::table::Table as _;
use super::{Config, RegionConfig, schema, value};

#[cfg(test)]
mod tests;

/// Differences between two readings, one line each, without secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Those that take effect with a reload.
    pub live: Vec<String>,
    /// The settings that keep their old value until a restart.
    pub restart: Vec<String>,
}

/// The configuration after a reload: `wanted`, except for what needs a restart. Regions come and go
/// with a restart; those that stay take up how they are reached.
pub(crate) fn merged(running: &Config, wanted: &Config) -> Config {
    let mut merged = wanted.clone();
    merged.keep_running(running);
    let regions = &mut merged.service.regions;
    *regions = running.service.regions.iter().map(|known| region(known, &wanted.service.regions)).collect();
    let primary = wanted.service.regions.get(wanted.race.primary).map(|region| &region.name);
    let index = regions.iter().position(|region| Some(&region.name) == primary);
    merged.race.primary = index.unwrap_or(running.race.primary);
    merged
}

fn region(running: &RegionConfig, wanted: &[RegionConfig]) -> RegionConfig {
    let Some(same) = wanted.iter().find(|region| region.name == running.name) else { return running.clone() };
    let mut region = same.clone();
    region.keep_running(running);
    region
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
                    changes.live.push(reported(name, was.copied(), known));
                }
                // Under the index that the region has in the running process.
                let index = was.filter(|_| known.home() == Section::Region).and_then(|was| was.item);
                holds.settings.push(Effective { item: index.or(known.item), ..(*known).clone() });
            }
        }
    }
    let stay = running.settings.iter().filter(|known| {
        let item = before.items.get(&(known.home(), known.item));
        let gone = item.is_some_and(|item| !after.has(Section::Region, item));
        known.home() == Section::Region && (gone || is_name(known))
    });
    holds.settings.extend(stay.cloned());
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
    if before.routes_also_of(after) != after.routes_also_of(before) {
        changes.live.push(format!("{}: another order", Section::Route.path()));
    }
}

/// The settings of one reading by their full names.
struct Reading<'o> {
    settings: BTreeMap<String, &'o Effective>,
    /// The regions' names and the routes' paths, by their indexes.
    items: BTreeMap<(Section, Option<usize>), String>,
}

impl<'o> Reading<'o> {
    fn of(origins: &'o Origins) -> Self {
        let names = origins.settings.iter().filter(|known| is_name(known));
        let items: BTreeMap<_, _> =
            names.map(|known| ((known.home(), known.item), known.toml.trim_matches('"').to_owned())).collect();
        let mut settings = BTreeMap::new();
        for known in origins.settings.iter().filter(|known| !is_name(known)) {
            let name = match items.get(&(known.home(), known.item)) {
                Some(item) => {
                    let inner = known.setting.section.path().strip_prefix(known.home().path()).unwrap_or_default();
                    format!("{}[{item}]{inner}.{}", known.home().path(), known.setting.key)
                }
                None => known.setting.path(),
            };
            settings.insert(name, known);
        }
        Self { settings, items }
    }

    /// Paths of the routes that `other` has too, in order.
    fn routes_also_of(&self, other: &Self) -> Vec<&str> {
        let routes = self.items.iter().filter(|((home, _), _)| *home == Section::Route);
        routes.map(|(_, item)| item.as_str()).filter(|item| other.has(Section::Route, item)).collect()
    }

    fn has(&self, home: Section, item: &str) -> bool {
        self.items.iter().any(|((section, _), known)| *section == home && known == item)
    }
}

/// Returns whether this setting identifies a region or route.
fn is_name(known: &Effective) -> bool {
    known.setting == &schema::REGION_NAME || known.setting == &schema::ROUTE_PATH
}

/// Returns whether both mean the same, however it is written.
fn is_same(one: &Effective, other: &Effective) -> bool {
    one.toml == other.toml || number(one).is_some_and(|it| Some(it) == number(other))
}

/// The number that a setting says, for those that can be written in several ways.
fn number(known: &Effective) -> Option<u128> {
    let kind = known.setting.kind;
    match kind {
        SettingKind::Duration(..) => value::duration(&known.raw, kind).ok().map(|span| span.as_nanos()),
        SettingKind::Size(..) => value::size(&known.raw, kind).ok().map(u128::from),
        SettingKind::Count(..) => value::count(&known.raw, kind).ok().map(u128::from),
        SettingKind::Mode => value::mode(&known.raw, kind).ok().map(u128::from),
        _ => None,
    }
}

fn reported(name: &str, was: Option<&Effective>, known: &Effective) -> String {
    if known.setting == &schema::CREDENTIALS_PREFIX {
        // The prefix is sent with a secret, and may be part of it.
        return name.to_owned();
    }
    match was {
        Some(was) => format!("{name}: {} -> {}", was.toml, known.toml),
        None => format!("{name}: {}", known.toml),
    }
}
