//! Reads one table by the schema: each setting's value or default, and a record of where it came
//! from ([`Origins`], which `nearside check` shows). An error never ends the reading: a default or
//! stand-in takes the place of what is wrong, so that the next error is found too.

use super::settings::{PresetValue, Schema, Section, Setting};
use super::tree::{Raw, TomlTable, Value};
use super::value::FromRaw;
use crate::config::error::{ConfigError, ConfigProblem, Place, Warning, nearest, quoted};

/// The place that every setting came from, and warnings.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    /// Every setting in effect, in the order of the schema within its table.
    pub settings: Vec<Effective>,
    /// Values that are allowed but probably not meant, in the order of their places.
    pub warnings: Vec<Warning>,
}

/// A setting in effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    pub setting: &'static Setting,
    /// The region or route that it belongs to, by its index from 0.
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

    /// Its value, if that is text.
    pub(super) fn text(&self) -> Option<&str> {
        if let Value::Text(text) | Value::Untyped(text) = &self.raw.value { Some(text) } else { None }
    }

    /// The table under whose heading it belongs.
    pub fn home(&self) -> Section {
        self.setting.section.home()
    }
}

impl Origins {
    /// The place where this setting (of this region or route) was written.
    pub fn place(&self, setting: &Setting, item: Option<usize>) -> Place {
        self.find(setting, item).map_or(Place::Default, |found| found.place.clone())
    }

    pub fn is_written(&self, setting: &Setting, item: Option<usize>) -> bool {
        self.place(setting, item) != Place::Default
    }

    /// Returns whether it was written with a value other than its default.
    pub(super) fn is_changed(&self, setting: &Setting, item: Option<usize>) -> bool {
        let PresetValue::Is(text) = setting.preset else { return self.is_written(setting, item) };
        self.find(setting, item).is_some_and(|known| known.toml != default(text).to_toml(setting.kind))
    }

    /// Text of this setting.
    pub(super) fn text(&self, setting: &Setting, item: Option<usize>) -> Option<&str> {
        self.find(setting, item)?.text()
    }

    /// Index of the table whose `setting` is this text.
    pub(super) fn item_of(&self, setting: &Setting, text: &str) -> Option<usize> {
        self.settings.iter().find(|known| known.setting == setting && known.text() == Some(text))?.item
    }

    fn find(&self, setting: &Setting, item: Option<usize>) -> Option<&Effective> {
        self.settings.iter().find(|known| known.setting == setting && known.item == item)
    }
}

/// Collects what a whole configuration holds.
#[derive(Debug)]
pub(super) struct Collector {
    pub(super) schema: &'static Schema,
    /// The file, or the environment alone.
    pub(super) root: Place,
    pub(super) origins: Origins,
    pub(super) errors: Vec<ConfigError>,
    /// Settings that already have an error: no check looks at them again.
    failed: Vec<(&'static Setting, Option<usize>)>,
}

impl Collector {
    pub(super) fn new(schema: &'static Schema, root: Place) -> Self {
        Self { schema, root, origins: Origins::default(), errors: Vec::new(), failed: Vec::new() }
    }

    /// Notes an error, unless the setting has one already.
    pub(super) fn error(
        &mut self,
        setting: &'static Setting,
        item: Option<usize>,
        place: Place,
        wrong: ConfigProblem,
    ) {
        if !self.has_error(setting, item) {
            self.failed.push((setting, item));
            self.errors.push(ConfigError::new(place, setting.path(), wrong));
        }
    }

    /// Notes an error where the setting was written.
    pub(super) fn refuse(&mut self, setting: &'static Setting, item: Option<usize>, what: String, suggestion: &str) {
        let place = self.origins.place(setting, item);
        self.error(setting, item, place, ConfigProblem::new(what, suggestion));
    }

    /// Returns whether this setting has an error already.
    pub(super) fn has_error(&self, setting: &'static Setting, item: Option<usize>) -> bool {
        self.failed.contains(&(setting, item))
    }

    /// Notes a list with more tables than it may have; `name` is a setting of each.
    pub(super) fn at_most(&mut self, section: Section, name: &Setting, count: usize, most: usize) {
        if count > most {
            let place = self.origins.place(name, Some(most));
            let wrong =
                ConfigProblem::new(format!("{count} of {}", section.heading()), format!("write at most {most}"));
            self.errors.push(ConfigError::new(place, section.path(), wrong));
        }
    }

    /// Notes something that is allowed but probably not meant.
    pub(super) fn warn(&mut self, place: Place, text: impl Into<String>) {
        self.origins.warnings.push(Warning { place, text: text.into() });
    }

    /// Warns of a setting where it was written.
    pub(super) fn warn_of(&mut self, setting: &'static Setting, item: Option<usize>, text: String) {
        self.warn(self.origins.place(setting, item), text);
    }

    /// The table of a section in `parent`, with its keys checked; an empty one if there is none.
    pub(super) fn table(&mut self, parent: &TomlTable, section: Section) -> SettingScope {
        let key = section.path();
        if let Some(Raw { value: Value::Table(table), .. }) = parent.get(key) {
            return self.checked_scope(table.clone(), section, None);
        }
        if let Some(raw) = parent.get(key) {
            let what = format!("{} where a table belongs", raw.kind());
            let problem = ConfigProblem::new(what, format!("write [{key}]"));
            self.errors.push(ConfigError::new(raw.place.clone(), section.path(), problem));
        }
        self.checked_scope(TomlTable::empty(parent.place.clone()), section, None)
    }

    /// Refuses top-level keys that are not sections.
    pub(super) fn check_sections(&mut self, root: &TomlTable) {
        let schema = self.schema;
        let known: Vec<_> = schema.sections().map(Section::path).filter(|path| !path.contains('.')).collect();
        for (key, entry) in root.entries.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            let home = schema.settings().find(|setting| setting.key == key);
            let list = schema.sections().find(|section| {
                let last = section.path().rsplit_once('.').map(|(_, last)| last);
                section.inner_key().is_none() && last == Some(key.trim_end_matches('s'))
            });
            let suggestion = if let Some(list) = list {
                format!("did you mean {}?", list.heading())
            } else if schema.other.sections().any(|section| section.path() == key) {
                format!("it belongs in the file of {}", schema.other.program)
            } else if let Some(name) = nearest(key, known.iter().copied()) {
                let meant = schema.sections().find(|section| section.path() == name);
                format!("did you mean {}?", meant.map_or(String::new(), Section::heading))
            } else if let Some(setting) = home {
                format!("did you mean {}?", setting.path())
            } else {
                format!("known sections: {}", known.join(", "))
            };
            let wrong = ConfigProblem::new(format!("no section is called {}", quoted(key)), suggestion);
            self.errors.push(ConfigError::new(entry.key_place.clone(), "", wrong));
        }
    }

    /// The tables of a list, such as `[[service.region]]`, under its key of `parent`.
    pub(super) fn items(&mut self, parent: &TomlTable, section: Section) -> Vec<SettingScope> {
        let key = section.path().rsplit('.').next().unwrap_or_default();
        let Some(raw) = parent.get(key) else { return Vec::new() };
        let Value::List(list) = &raw.value else {
            self.no_list(raw, section);
            return Vec::new();
        };
        let mut tables = Vec::with_capacity(list.len());
        for item in list {
            match &item.value {
                Value::Table(table) => tables.push(table.clone()),
                _ => self.no_list(item, section),
            }
        }
        tables.into_iter().enumerate().map(|(at, table)| self.checked_scope(table, section, Some(at))).collect()
    }

    fn no_list(&mut self, raw: &Raw, section: Section) {
        let what = format!("{} where a list of tables belongs", raw.kind());
        let problem = ConfigProblem::new(what, format!("write {}", section.heading()));
        self.errors.push(ConfigError::new(raw.place.clone(), section.path(), problem));
    }

    /// Reports unknown keys and returns the table for reading.
    pub(super) fn checked_scope(
        &mut self,
        table: TomlTable,
        section: Section,
        list_index: Option<usize>,
    ) -> SettingScope {
        let setting_keys = self.schema.settings_of(section).map(|setting| setting.key);
        let known: Vec<_> = setting_keys.chain(section.nested().iter().copied()).collect();
        for (key, entry) in table.entries.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            let suggestion = match nearest(key, known.iter().copied()) {
                Some(name) => format!("did you mean {name}?"),
                None => format!("known here: {}", known.join(", ")),
            };
            let wrong = ConfigProblem::new(format!("no setting is called {}", quoted(key)), suggestion);
            self.errors.push(ConfigError::new(entry.key_place.clone(), section.path(), wrong));
        }
        SettingScope { table, item: list_index }
    }
}

/// One table being read.
#[derive(Debug)]
pub(super) struct SettingScope {
    pub(super) table: TomlTable,
    pub(super) item: Option<usize>,
}

impl SettingScope {
    /// The value of a setting, its default where it is not written, or a stand-in for what is wrong.
    pub(super) fn get<T: FromRaw>(&self, collector: &mut Collector, setting: &'static Setting) -> T {
        if let Some(raw) = self.table.get(setting.key) {
            match T::from_raw(raw, setting.kind) {
                Ok(value) => {
                    self.record(collector, setting, raw);
                    return value;
                }
                Err(problem) => collector.error(setting, self.item, raw.place.clone(), problem),
            }
            if let Some(none) = T::NONE {
                return none;
            }
        }
        let preset = match setting.preset {
            PresetValue::Required(stand_in) => {
                let suggestion = format!("write `{} = ..`: {}", setting.key, setting.takes());
                let missing = ConfigProblem::new("missing", suggestion);
                collector.error(setting, self.item, self.table.place.clone(), missing);
                let index = self.item.unwrap_or_default().to_string();
                default(&stand_in.replace("{N}", &index))
            }
            _ => {
                let preset = preset(collector, setting);
                self.record(collector, setting, &preset);
                preset
            }
        };
        T::from_raw(&preset, setting.kind).expect("the schema's tests read every default")
    }

    fn record(&self, collector: &mut Collector, setting: &'static Setting, raw: &Raw) {
        collector.origins.settings.push(Effective {
            setting,
            item: self.item,
            toml: raw.to_toml(setting.kind),
            place: raw.place.clone(),
            raw: raw.clone(),
        });
    }
}

/// The value of a setting that is not written.
fn preset(collector: &Collector, setting: &'static Setting) -> Raw {
    match setting.preset {
        PresetValue::Required(text) | PresetValue::Is(text) => default(text),
        PresetValue::Like(other) => match collector.origins.find(other, None) {
            Some(found) => Raw { place: Place::Default, ..found.raw.clone() },
            None => preset(collector, other),
        },
    }
}

fn default(text: &str) -> Raw {
    Raw { value: Value::Untyped(text.to_owned()), place: Place::Default }
}
