//! Reads one table by the schema: each setting's value or default, and a record of where it came
//! from ([`Origins`], which `nearside check` shows). A mistake never ends the reading: a default or
//! stand-in takes the place of what is wrong, so that the next mistake is found too.

use super::settings::{PresetValue, ROUTE_SCHEMA, SERVICES, SIDECAR, Schema, Section, Setting, SettingKind, of};
use super::tree::{Raw, TomlTable, Value};
use super::value;
use crate::config::error::{ConfigError, ConfigProblem, Place, Warning, nearest, quoted};

/// Where every setting came from, and what is allowed but probably not meant.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    /// Every setting in effect, in the order of the schema within its table.
    pub settings: Vec<Effective>,
    /// In the order of their places.
    pub warnings: Vec<Warning>,
}

/// A setting in effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    pub setting: &'static Setting,
    /// The region or route that it belongs to, by its place from 0.
    pub item: Option<usize>,
    /// Its value as TOML.
    pub toml: String,
    pub place: Place,
    pub(super) raw: Raw,
}

impl Effective {
    pub fn is_default(&self) -> bool {
        self.place == Place::Default
    }

    /// The table under whose heading it belongs.
    pub fn home(&self) -> Section {
        self.setting.section.home()
    }
}

impl Origins {
    /// Where this setting (of this region or route) was written.
    pub fn place(&self, setting: &Setting, item: Option<usize>) -> Place {
        self.find(setting, item).map_or(Place::Default, |found| found.place.clone())
    }

    /// A mistake in what the file of a route's `schema` holds: found when it is read, by those who
    /// know what a schema is.
    pub fn schema_mistake(&self, route: usize, wrong: ConfigProblem) -> ConfigError {
        ConfigError::new(self.place(&ROUTE_SCHEMA, Some(route)), ROUTE_SCHEMA.path(), wrong)
    }

    pub fn is_written(&self, setting: &Setting, item: Option<usize>) -> bool {
        self.place(setting, item) != Place::Default
    }

    /// Whether it was written with a value other than its default.
    pub(super) fn is_changed(&self, setting: &Setting, item: Option<usize>) -> bool {
        let PresetValue::Is(text) = setting.preset else { return self.is_written(setting, item) };
        let default = Raw { value: Value::Untyped(text.to_owned()), place: Place::Default };
        self.find(setting, item).is_some_and(|known| known.toml != default.to_toml(setting.kind))
    }

    fn find(&self, setting: &Setting, item: Option<usize>) -> Option<&Effective> {
        self.settings.iter().find(|known| known.setting == setting && known.item == item)
    }
}

/// What reading a whole configuration collects.
#[derive(Debug)]
pub(super) struct Collector {
    pub(super) schema: &'static Schema,
    /// What is read: the file, or the environment alone.
    pub(super) root: Place,
    pub(super) origins: Origins,
    pub(super) mistakes: Vec<ConfigError>,
    /// Settings that already have a mistake: no check looks at them again.
    mistaken: Vec<(&'static str, Option<usize>)>,
}

impl Collector {
    pub(super) fn new(schema: &'static Schema, root: Place) -> Self {
        Self { schema, root, origins: Origins::default(), mistakes: Vec::new(), mistaken: Vec::new() }
    }

    /// Notes a mistake, unless the setting has one already.
    pub(super) fn mistake(
        &mut self,
        setting: &'static Setting,
        item: Option<usize>,
        place: Place,
        wrong: ConfigProblem,
    ) {
        if !self.is_mistaken(setting, item) {
            self.mistaken.push((setting.about, item));
            self.mistakes.push(ConfigError::new(place, setting.path(), wrong));
        }
    }

    /// Whether this setting has a mistake already. Settings are told apart by `about`, which is
    /// different for each.
    pub(super) fn is_mistaken(&self, setting: &Setting, item: Option<usize>) -> bool {
        self.mistaken.iter().any(|(about, of)| *about == setting.about && *of == item)
    }

    /// Notes something that is allowed but probably not meant.
    pub(super) fn warn(&mut self, place: Place, text: impl Into<String>) {
        self.origins.warnings.push(Warning { place, text: text.into() });
    }

    /// The table under `key` of `parent`, with its keys checked; an empty one if there is none.
    pub(super) fn table(&mut self, parent: &TomlTable, section: Section, key: &str) -> SettingScope {
        let empty = || TomlTable::empty(parent.place.clone());
        let table = match parent.get(key) {
            None => empty(),
            Some(Raw { value: Value::Table(table), .. }) => table.clone(),
            Some(raw) => {
                let wrong =
                    ConfigProblem::new(format!("{} where a table belongs", raw.kind()), format!("write [{key}]"));
                self.mistakes.push(ConfigError::new(raw.place.clone(), section.path(), wrong));
                empty()
            }
        };
        self.scope(table, section, None)
    }

    /// Refuses top-level keys that are not sections.
    pub(super) fn check_sections(&mut self, root: &TomlTable) {
        let schema = self.schema;
        let sections = || schema.sections.iter().copied();
        let known = || sections().map(Section::path).filter(|path| !path.contains('.'));
        for (key, entry) in root.entries.iter().filter(|(key, _)| !known().any(|name| name == key.as_str())) {
            let home = schema.settings().find(|setting| setting.key == key);
            let is_list = |section: &Section| {
                let last = section.path().rsplit_once('.').map(|(_, last)| last);
                section.inner_key().is_none() && last == Some(key.trim_end_matches('s'))
            };
            let of = |schema: &&Schema| schema.sections.iter().any(|section| section.path() == key);
            let instead = if let Some(list) = sections().find(is_list) {
                format!("did you mean {}?", list.heading())
            } else if let Some(other) = [&SIDECAR, &SERVICES].into_iter().find(of) {
                format!("it belongs in the file of {}", other.program)
            } else if let Some(name) = nearest(key, known()) {
                let meant = sections().find(|section| section.path() == name);
                format!("did you mean {}?", meant.map_or(String::new(), Section::heading))
            } else if let Some(setting) = home {
                format!("did you mean {}?", setting.path())
            } else {
                format!("known sections: {}", known().collect::<Vec<_>>().join(", "))
            };
            let wrong = ConfigProblem::new(format!("no section is called {}", quoted(key)), instead);
            self.mistakes.push(ConfigError::new(entry.key_place.clone(), "", wrong));
        }
    }

    /// The tables of a list, such as `[[service.region]]`, under its key of `parent`.
    pub(super) fn items(&mut self, parent: &TomlTable, section: Section) -> Vec<SettingScope> {
        let key = section.path().rsplit('.').next().unwrap_or_default();
        let Some(raw) = parent.get(key) else { return Vec::new() };
        let mut refuse = |raw: &Raw| {
            let what = format!("{} where a list of tables belongs", raw.kind());
            let wrong = ConfigProblem::new(what, format!("write {}", section.heading()));
            self.mistakes.push(ConfigError::new(raw.place.clone(), section.path(), wrong));
        };
        let Value::List(list) = &raw.value else {
            refuse(raw);
            return Vec::new();
        };
        let mut tables = Vec::with_capacity(list.len());
        for item in list {
            match &item.value {
                Value::Table(table) => tables.push(table.clone()),
                _ => refuse(item),
            }
        }
        tables.into_iter().enumerate().map(|(at, table)| self.scope(table, section, Some(at))).collect()
    }

    /// Checks the keys of a table against the schema.
    pub(super) fn scope(&mut self, table: TomlTable, section: Section, item: Option<usize>) -> SettingScope {
        let known = || of(section).map(|setting| setting.key).chain(section.nested().iter().copied());
        for (key, entry) in &table.entries {
            if known().any(|name| name == key) {
                continue;
            }
            let instead = match nearest(key, known()) {
                Some(name) => format!("did you mean {name}?"),
                None => format!("known here: {}", known().collect::<Vec<_>>().join(", ")),
            };
            let wrong = ConfigProblem::new(format!("no setting is called {}", quoted(key)), instead);
            self.mistakes.push(ConfigError::new(entry.key_place.clone(), section.path(), wrong));
        }
        SettingScope { table, item }
    }
}

/// One table being read.
#[derive(Debug)]
pub(super) struct SettingScope {
    pub(super) table: TomlTable,
    pub(super) item: Option<usize>,
}

/// How a value is read: one of [`value`]'s functions.
type Reading<T> = fn(&Raw, SettingKind) -> Result<T, ConfigProblem>;

impl SettingScope {
    /// A setting that has a default, its own or another setting's.
    pub(super) fn given<T>(&self, ledger: &mut Collector, setting: &'static Setting, read: Reading<T>) -> T {
        if let Some(raw) = self.table.get(setting.key) {
            match read(raw, setting.kind) {
                Ok(value) => {
                    self.record(ledger, setting, raw);
                    return value;
                }
                Err(wrong) => ledger.mistake(setting, self.item, raw.place.clone(), wrong),
            }
        }
        let preset = preset(ledger, setting);
        self.record(ledger, setting, &preset);
        read(&preset, setting.kind).expect("the schema's tests read every default")
    }

    /// A setting that may be none.
    pub(super) fn optional<T>(
        &self,
        ledger: &mut Collector,
        setting: &'static Setting,
        read: Reading<T>,
    ) -> Option<T> {
        let default = preset(ledger, setting);
        let raw = self.table.get(setting.key).unwrap_or(&default);
        let value = if value::is_none(raw, setting.kind) { Ok(None) } else { read(raw, setting.kind).map(Some) };
        match value {
            Ok(value) => {
                self.record(ledger, setting, raw);
                value
            }
            Err(wrong) => {
                ledger.mistake(setting, self.item, raw.place.clone(), wrong);
                None
            }
        }
    }

    /// A setting that must be written; if it is missing or wrong, `instead` takes its place.
    pub(super) fn required<T>(
        &self,
        ledger: &mut Collector,
        setting: &'static Setting,
        read: Reading<T>,
        instead: impl FnOnce() -> T,
    ) -> T {
        let Some(raw) = self.table.get(setting.key) else {
            let wrong = ConfigProblem::new("missing", format!("write `{} = ..`: {}", setting.key, setting.takes()));
            ledger.mistake(setting, self.item, self.table.place.clone(), wrong);
            return instead();
        };
        match read(raw, setting.kind) {
            Ok(value) => {
                self.record(ledger, setting, raw);
                value
            }
            Err(wrong) => {
                ledger.mistake(setting, self.item, raw.place.clone(), wrong);
                instead()
            }
        }
    }

    fn record(&self, ledger: &mut Collector, setting: &'static Setting, raw: &Raw) {
        ledger.origins.settings.push(Effective {
            setting,
            item: self.item,
            toml: raw.to_toml(setting.kind),
            place: raw.place.clone(),
            raw: raw.clone(),
        });
    }
}

/// The value of a setting that is not written.
fn preset(ledger: &Collector, setting: &'static Setting) -> Raw {
    let text = match setting.preset {
        PresetValue::Required => "",
        PresetValue::Is(text) => text,
        PresetValue::Like(other) => match ledger.origins.find(other, None) {
            Some(found) => return Raw { place: Place::Default, ..found.raw.clone() },
            None => return preset(ledger, other),
        },
    };
    Raw { value: Value::Untyped(text.to_owned()), place: Place::Default }
}
