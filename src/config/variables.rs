//! The environment's part of the configuration: lays `NEARSIDE__*` variables over what the file
//! says. [`super::read`] then reads the tree without knowing which value came from where.
//!
//! A table of a list is addressed by its name in capitals with `_` for everything else, as a region
//! is (`NEARSIDE__SERVICE__REGION__EU_WEST_1__URL`), or by its index from 0, as a route is. If the
//! file has no table of a list at all, variables create them; otherwise a variable that addresses
//! none of them is an error. A variable that begins with `NEARSIDE__` either sets a setting or is
//! an error.

use std::collections::BTreeMap;

use super::proxies;
use super::route::ROUTE_PATH;
use super::service::REGION_URL;
use super::settings::{Addressed, PREFIX, Schema, Section, Setting};
use super::tree::{Raw, TomlEntry, TomlTable, Value};
use crate::config::error::{ConfigError, ConfigProblem, Place, Warning, nearest};

/// The AWS SDKs' own variable, used if [`Schema::aws_endpoint`] is not written.
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

/// Lays the variables over `root`. Returns errors in their names, and warnings about variables
/// that were probably meant for settings.
pub(super) fn overlay(
    schema: &'static Schema,
    root: &mut TomlTable,
    env: impl Iterator<Item = (String, String)>,
) -> (Vec<ConfigError>, Vec<Warning>) {
    let (proxies, env): (Vec<_>, Vec<_>) = env.partition(|(name, _)| proxies::is_proxy(name));
    let (strays, env): (Vec<_>, Vec<_>) = env
        .into_iter()
        .filter(|(name, _)| name.starts_with(STRAY_PREFIX) || name == AWS_ENDPOINT)
        .partition(|(name, _)| !name.starts_with(PREFIX) && name != AWS_ENDPOINT);
    let env: BTreeMap<String, String> = env.into_iter().collect();
    let made = schema.sections().filter(|list| items(root, *list).is_none_or(<[Raw]>::is_empty)).collect();
    let mut overlay = Overlay { schema, made, root, errors: Vec::new() };
    // A variable that renames a table is applied last, so that the others still find it by the
    // name in the file.
    let (renames, others): (Vec<_>, Vec<_>) = env.into_iter().partition(|(name, _)| name.ends_with("__NAME"));
    for (name, value) in others.into_iter().chain(renames) {
        match name.strip_prefix(PREFIX) {
            Some(rest) => overlay.apply(&name, rest, value),
            None => overlay.aws_endpoint(value),
        }
    }
    let strays = strays.iter().filter_map(|(name, _)| overlay.stray(name));
    let warnings = strays.chain(proxies::ignored(&proxies)).collect();
    (overlay.errors, warnings)
}

struct Overlay<'t> {
    schema: &'static Schema,
    /// The lists whose tables variables create.
    made: Vec<Section>,
    root: &'t mut TomlTable,
    errors: Vec<ConfigError>,
}

impl Overlay<'_> {
    fn apply(&mut self, name: &str, rest: &str, value: String) {
        let place = Place::Variable(name.into());
        let mut words: Vec<&str> = rest.split("__").collect();
        let key = words.pop().unwrap_or_default();
        let schema = self.schema;
        let meant = schema.sections().find_map(|section| {
            let item = addressed_by(section, &words)?;
            Some((schema.settings_of(section).find(|setting| setting.key.to_ascii_uppercase() == key)?, item))
        });
        match meant.and_then(|(setting, item)| Some((self.table(setting.section, item, &place)?, setting))) {
            Some((table, setting)) => set(table, setting.key, Value::Untyped(value), place),
            None => {
                let suggestion = self.suggest(name);
                self.errors.push(ConfigError::new(
                    place,
                    "",
                    ConfigProblem::new("a variable that sets nothing", suggestion),
                ));
            }
        }
    }

    fn aws_endpoint(&mut self, value: String) {
        let place = Place::Variable(AWS_ENDPOINT.into());
        let Setting { section, key, .. } = self.schema.aws_endpoint;
        if let Some(table) = inner(self.root, section.path(), &place)
            && table.get(key).is_none()
            && !value.is_empty()
        {
            set(table, key, Value::Untyped(value), place);
        }
    }

    /// The table of the section, created if missing; of a list, the one that `item` addresses.
    fn table(&mut self, section: Section, item: Option<&str>, place: &Place) -> Option<&mut TomlTable> {
        let table = match (section.addressed(), item) {
            (Some(Addressed::Name), Some(item)) => self.named(section.home(), item, place)?,
            (Some(Addressed::Index), Some(item)) => self.numbered(section.home(), item, place)?,
            _ => inner(self.root, section.home().path(), place)?,
        };
        match section.inner_key() {
            Some(key) => inner(table, key, place),
            None => Some(table),
        }
    }

    /// The table of this name, created if variables create those of its list.
    fn named(&mut self, list: Section, written: &str, place: &Place) -> Option<&mut TomlTable> {
        let makes = self.made.contains(&list) && !written.is_empty();
        let items = items_mut(self.root, list, place)?;
        let named = items.iter().position(|raw| name_of(raw).is_some_and(|name| variable_name(name) == written));
        let at = match named {
            Some(at) => at,
            None if makes => {
                let mut table = TomlTable::empty(place.clone());
                let name = written.to_ascii_lowercase().replace('_', "-");
                set(&mut table, "name", Value::Untyped(name), place.clone());
                items.push(Raw { value: Value::Table(table), place: place.clone() });
                items.len() - 1
            }
            None => return None,
        };
        as_table(items.get_mut(at)?)
    }

    /// The table at this place, created if variables create those of its list.
    fn numbered(&mut self, list: Section, written: &str, place: &Place) -> Option<&mut TomlTable> {
        let makes = self.made.contains(&list);
        let items = items_mut(self.root, list, place)?;
        let at: usize = written.parse().ok().filter(|at: &usize| at.to_string() == written)?;
        if makes && at == items.len() {
            let table = TomlTable::empty(place.clone());
            items.push(Raw { value: Value::Table(table), place: place.clone() });
        }
        as_table(items.get_mut(at)?)
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
        self.schema.settings().flat_map(|setting| self.variables_of(setting)).collect()
    }

    fn variables_of(&self, setting: &Setting) -> Vec<String> {
        let (variable, list) = (setting.variable(), setting.section.home());
        let items = items(self.root, list).unwrap_or_default();
        match setting.section.addressed() {
            None => vec![variable],
            Some(by @ Addressed::Name) => {
                let names = items.iter().filter_map(name_of).map(variable_name);
                names.map(|name| variable.replace(by.placeholder(), &name)).collect()
            }
            Some(by @ Addressed::Index) => {
                let indexes = 0..items.len().max(1);
                indexes.map(|index| variable.replace(by.placeholder(), &index.to_string())).collect()
            }
        }
    }
}

/// The name or number of a list's table in `words`, if they lead to the section; `None`
/// inside for a single table.
fn addressed_by<'w>(section: Section, words: &[&'w str]) -> Option<Option<&'w str>> {
    let pattern = section.variable_words();
    let placeholder = section.addressed().map(Addressed::placeholder);
    let item = pattern.iter().position(|wanted| Some(wanted.as_str()) == placeholder);
    let fits = pattern.len() == words.len()
        && pattern.iter().zip(words).enumerate().all(|(at, (wanted, word))| wanted == word || Some(at) == item);
    fits.then(|| item.map(|at| words[at]))
}

fn set(table: &mut TomlTable, key: &str, value: Value, place: Place) {
    let raw = Raw { value, place: place.clone() };
    table.entries.insert(key.to_owned(), TomlEntry { key_place: place, raw });
}

fn name_of(raw: &Raw) -> Option<&str> {
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

/// The tables of a list.
fn items(root: &TomlTable, list: Section) -> Option<&[Raw]> {
    let (table, key) = match list.path().rsplit_once('.') {
        Some((parent, key)) => {
            let Value::Table(table) = &root.get(parent)?.value else { return None };
            (table, key)
        }
        None => (root, list.path()),
    };
    if let Value::List(items) = &table.get(key)?.value { Some(items) } else { None }
}

/// Like [`items`], created if missing.
fn items_mut<'t>(root: &'t mut TomlTable, list: Section, place: &Place) -> Option<&'t mut Vec<Raw>> {
    let (table, key) = match list.path().rsplit_once('.') {
        Some((parent, key)) => (inner(root, parent, place)?, key),
        None => (root, list.path()),
    };
    if table.get(key).is_none() {
        set(table, key, Value::List(Vec::new()), place.clone());
    }
    match &mut table.entries.get_mut(key)?.raw.value {
        Value::List(items) => Some(items),
        _ => None,
    }
}

/// An empty tree for settings that come without a file.
pub(super) fn nowhere() -> TomlTable {
    TomlTable::empty(Place::Environment)
}

/// Suggests how to write a first region.
pub(super) fn first_region() -> String {
    let variable = REGION_URL.variable().replace("{NAME}", "EU_WEST_1");
    format!("write [[service.region]] with a name and a url, or set {variable}")
}

/// Suggests how to write a first route.
pub(super) fn first_route() -> String {
    format!("write [[service.route]] with a path and records, or set {}", ROUTE_PATH.variable().replace("{N}", "0"))
}
