//! The environment's part of the configuration: lays `NEARSIDE__*` variables over what the file
//! says. [`super::read`] then reads the tree without knowing which value came from where.
//!
//! A region is addressed by its name in capitals with `_` for everything else
//! (`NEARSIDE__SERVICE__REGION__EU_WEST_1__URL`), a route by its place from 0. If the file has no
//! regions (or no routes) at all, variables create them; otherwise a variable that addresses none
//! of them is a mistake. A variable that begins with `NEARSIDE__` either sets a setting or is a
//! mistake.

use std::collections::BTreeMap;

use super::settings::{ANNOUNCEMENTS_ENDPOINT_URL, REGION_URL, ROUTE_PATH, Section, Setting, of};
use super::tree::{Raw, TomlEntry, TomlTable, Value};
use crate::config::error::{ConfigError, ConfigProblem, Place, Warning, nearest};

pub(super) const PREFIX: &str = "NEARSIDE__";

/// The AWS SDKs' own variable, used if `announcements.endpoint_url` is not written.
const AWS_ENDPOINT: &str = "AWS_ENDPOINT_URL";

/// `eu-west-1` as variables write it: `EU_WEST_1`.
pub(super) fn variable_name(name: &str) -> String {
    let mut written = String::with_capacity(name.len());
    for char in name.chars() {
        match char {
            _ if char.is_ascii_alphanumeric() => written.push(char.to_ascii_uppercase()),
            _ if written.ends_with('_') => {}
            _ => written.push('_'),
        }
    }
    written
}

/// A likely misspelling of [`PREFIX`].
const STRAY_PREFIX: &str = "NEARSIDE_";

/// Lays the variables over `root`. Returns mistakes in their names, and warnings about variables
/// that were probably meant for settings.
pub(super) fn overlay(
    root: &mut TomlTable,
    env: impl Iterator<Item = (String, String)>,
) -> (Vec<ConfigError>, Vec<Warning>) {
    let (strays, env): (Vec<_>, Vec<_>) = env
        .filter(|(name, _)| name.starts_with(STRAY_PREFIX) || name == AWS_ENDPOINT)
        .partition(|(name, _)| !name.starts_with(PREFIX) && name != AWS_ENDPOINT);
    let env: BTreeMap<String, String> = env.into_iter().collect();
    let mut overlay = Overlay {
        makes_regions: items(root, "region").is_none_or(<[Raw]>::is_empty),
        makes_routes: items(root, "route").is_none_or(<[Raw]>::is_empty),
        root,
        mistakes: Vec::new(),
    };
    // A variable that renames a region is applied last, so that the others still find it by the
    // name in the file.
    let (renames, others): (Vec<_>, Vec<_>) =
        env.into_iter().partition(|(name, _)| name.contains("__REGION__") && name.ends_with("__NAME"));
    for (name, value) in others.into_iter().chain(renames) {
        match name.strip_prefix(PREFIX) {
            Some(rest) => overlay.apply(&name, rest, value),
            None => overlay.aws_endpoint(value),
        }
    }
    let warnings = strays.iter().filter_map(|(name, _)| overlay.stray(name)).collect();
    (overlay.mistakes, warnings)
}

struct Overlay<'t> {
    root: &'t mut TomlTable,
    makes_regions: bool,
    makes_routes: bool,
    mistakes: Vec<ConfigError>,
}

impl Overlay<'_> {
    fn apply(&mut self, name: &str, rest: &str, value: String) {
        let place = Place::Variable(name.into());
        let words: Vec<&str> = rest.split("__").collect();
        let table = match words.as_slice() {
            ["SERVICE", "REGION", region, key] => {
                found(Section::Region, key).and_then(|setting| Some((self.region(region, &place)?, setting)))
            }
            ["SERVICE", "REGION", region, "TLS", key] => found(Section::Tls, key).and_then(|setting| {
                let region = self.region(region, &place)?;
                Some((inner(region, "tls", &place)?, setting))
            }),
            ["SERVICE", "ROUTE", at, "CREDENTIALS", key] => found(Section::Credentials, key).and_then(|setting| {
                let route = self.route(at, &place)?;
                Some((inner(route, "credentials", &place)?, setting))
            }),
            ["SERVICE", "ROUTE", at, key] => {
                found(Section::Route, key).and_then(|setting| Some((self.route(at, &place)?, setting)))
            }
            [section, key] => Section::ALL
                .into_iter()
                .find(|known| known.path().to_ascii_uppercase() == *section)
                .and_then(|section| found(section, key))
                .and_then(|setting| Some((inner(self.root, setting.section.path(), &place)?, setting))),
            _ => None,
        };
        match table {
            Some((table, setting)) => set(table, setting.key, Value::Untyped(value), place),
            None => {
                let instead = self.suggest(name);
                self.mistakes.push(ConfigError::new(
                    place,
                    "",
                    ConfigProblem::new("a variable that sets nothing", instead),
                ));
            }
        }
    }

    fn aws_endpoint(&mut self, value: String) {
        let place = Place::Variable(AWS_ENDPOINT.into());
        let key = ANNOUNCEMENTS_ENDPOINT_URL.key;
        if let Some(table) = inner(self.root, Section::Announcements.path(), &place)
            && table.get(key).is_none()
            && !value.is_empty()
        {
            set(table, key, Value::Untyped(value), place);
        }
    }

    /// The region that the variable addresses, created if variables create regions.
    fn region(&mut self, written: &str, place: &Place) -> Option<&mut TomlTable> {
        let makes = self.makes_regions && !written.is_empty();
        let regions = items_mut(self.root, "region", place)?;
        let meant = |raw: &Raw| region_name(raw).is_some_and(|name| variable_name(name) == written);
        let at = match regions.iter().position(meant) {
            Some(at) => at,
            None if makes => {
                let mut table = TomlTable::empty(place.clone());
                let name = written.to_ascii_lowercase().replace('_', "-");
                set(&mut table, "name", Value::Untyped(name), place.clone());
                regions.push(Raw { value: Value::Table(table), place: place.clone() });
                regions.len() - 1
            }
            None => return None,
        };
        as_table(regions.get_mut(at)?)
    }

    /// The route at this place, created if variables create routes.
    fn route(&mut self, written: &str, place: &Place) -> Option<&mut TomlTable> {
        let makes = self.makes_routes;
        let routes = items_mut(self.root, "route", place)?;
        let at: usize = written.parse().ok().filter(|at: &usize| at.to_string() == written)?;
        if makes && at == routes.len() {
            let table = TomlTable::empty(place.clone());
            routes.push(Raw { value: Value::Table(table), place: place.clone() });
        }
        as_table(routes.get_mut(at)?)
    }

    /// Warns about a variable that sets nothing because it has too few underscores.
    fn stray(&self, name: &str) -> Option<Warning> {
        let meant = self.known().into_iter().find(|known| known.replace("__", "_") == *name)?;
        let text = format!("this variable sets nothing: sections and keys are joined by two underscores, {meant}");
        Some(Warning { place: Place::Variable(name.into()), text })
    }

    fn suggest(&self, name: &str) -> String {
        let known = self.known();
        match nearest(name, known.iter().map(String::as_str)) {
            Some(variable) => format!("did you mean {variable}?"),
            None => "write NEARSIDE__SECTION__KEY, such as NEARSIDE__CACHE__TTL".to_owned(),
        }
    }

    /// Every variable that would set something.
    fn known(&self) -> Vec<String> {
        let regions = items(self.root, "region").unwrap_or_default();
        let names: Vec<String> = regions.iter().filter_map(region_name).map(variable_name).collect();
        let routes = items(self.root, "route").map_or(0, <[Raw]>::len).max(1);
        let mut known: Vec<String> = Vec::new();
        for setting in Section::ALL.into_iter().flat_map(of) {
            let variable = setting.variable();
            match setting.section {
                Section::Region | Section::Tls => {
                    known.extend(names.iter().map(|name| variable.replace("{NAME}", name)))
                }
                Section::Route | Section::Credentials => {
                    known.extend((0..routes).map(|at| variable.replace("{N}", &at.to_string())));
                }
                _ => known.push(variable),
            }
        }
        known
    }
}

/// The setting of `section` whose key is `key` in capitals.
fn found(section: Section, key: &str) -> Option<&'static Setting> {
    of(section).find(|setting| setting.key.to_ascii_uppercase() == key)
}

fn set(table: &mut TomlTable, key: &str, value: Value, place: Place) {
    let raw = Raw { value, place: place.clone() };
    table.entries.insert(key.to_owned(), TomlEntry { key_place: place, raw });
}

fn region_name(raw: &Raw) -> Option<&str> {
    let Value::Table(table) = &raw.value else { return None };
    match &table.get("name")?.value {
        Value::Text(name) | Value::Untyped(name) => Some(name),
        _ => None,
    }
}

fn as_table(raw: &mut Raw) -> Option<&mut TomlTable> {
    if let Value::Table(table) = &mut raw.value { Some(table) } else { None }
}

/// The table under `key`, created if missing; `None` if something else is there.
fn inner<'t>(table: &'t mut TomlTable, key: &str, place: &Place) -> Option<&'t mut TomlTable> {
    if table.get(key).is_none() {
        set(table, key, Value::Table(TomlTable::empty(place.clone())), place.clone());
    }
    as_table(&mut table.entries.get_mut(key)?.raw)
}

/// The tables of `[[service.KEY]]`.
fn items<'t>(root: &'t TomlTable, key: &str) -> Option<&'t [Raw]> {
    let Value::Table(service) = &root.get(Section::Service.path())?.value else { return None };
    if let Value::List(items) = &service.get(key)?.value { Some(items) } else { None }
}

fn items_mut<'t>(root: &'t mut TomlTable, key: &str, place: &Place) -> Option<&'t mut Vec<Raw>> {
    let service = inner(root, Section::Service.path(), place)?;
    if service.get(key).is_none() {
        set(service, key, Value::List(Vec::new()), place.clone());
    }
    match &mut service.entries.get_mut(key)?.raw.value {
        Value::List(items) => Some(items),
        _ => None,
    }
}

/// An empty tree for settings that come without a file.
pub(super) fn nowhere() -> TomlTable {
    TomlTable::empty(Place::Environment)
}

/// How to write a first region, for whoever has none.
pub(super) fn first_region() -> String {
    let variable = REGION_URL.variable().replace("{NAME}", "EU_WEST_1");
    format!("write [[service.region]] with a name and a url, or set {variable}")
}

/// How to write a first route, for whoever has none.
pub(super) fn first_route() -> String {
    format!("write [[service.route]] with a path and records, or set {}", ROUTE_PATH.variable().replace("{N}", "0"))
}
