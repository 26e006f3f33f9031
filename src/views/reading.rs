//! Reads a file of view definitions, and collects every config error in it with its place.

use std::collections::BTreeMap;

use super::definition::{FieldSource, KeyPart, Need, ViewDefinition, ViewField};
use super::limits;
use super::pointer::JsonPointer;
use crate::config::error::{ConfigError, ConfigProblem, Place, nearest, quoted};
use crate::config::tree::{self, Raw, TomlEntry, TomlTable, Value};
use crate::model::names;

const KEYS: [&str; 6] = ["name", "definition", "from", "needs", "required", "fields"];

/// The views that `text`, the content of `file`, defines. Record types are checked if the
/// catalogue's are given.
///
/// # Errors
/// Every config error in the file, in its order.
pub fn read(file: &str, text: &str, types: Option<&[String]>) -> Result<Vec<ViewDefinition>, Vec<ConfigError>> {
    let (root, syntax) = tree::parse(file, text);
    let mut reader = Reader { errors: syntax.errors };
    let mut views = Vec::new();
    if !syntax.lost {
        reader.keys(&root, "", &["view"]);
        views = reader.views(&root);
        reader.together(&views, types);
    }
    reader.errors.sort();
    if reader.errors.is_empty() {
        Ok(views.into_iter().map(|view| view.definition).collect())
    } else {
        Err(reader.errors)
    }
}

/// A definition that was read, and the places that checks of several views name.
struct ReadView {
    definition: ViewDefinition,
    name: Place,
    /// Each record type that it is made of.
    types: Vec<(String, Place)>,
}

struct Reader {
    errors: Vec<ConfigError>,
}

impl Reader {
    fn error(&mut self, place: &Place, setting: &str, wrong: ConfigProblem) {
        self.errors.push(ConfigError::new(place.clone(), setting, wrong));
    }

    fn wrong(&mut self, place: &Place, setting: &str, what: impl Into<String>, instead: impl Into<String>) {
        self.error(place, setting, ConfigProblem::new(what, instead));
    }

    /// Refuses keys that mean nothing.
    fn keys(&mut self, table: &TomlTable, setting: &str, known: &[&str]) {
        for (key, entry) in table.entries.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            let instead = match nearest(key, known.iter().copied()) {
                Some(name) => format!("did you mean {name}?"),
                None => format!("known here: {}", known.join(", ")),
            };
            self.wrong(&entry.key_place, setting, format!("nothing is called {}", quoted(key)), instead);
        }
    }

    fn views(&mut self, root: &TomlTable) -> Vec<ReadView> {
        let items = match root.get("view") {
            None => {
                self.wrong(&root.place, "view", "no view", "write [[view]], with name, definition, from and fields");
                return Vec::new();
            }
            Some(Raw { value: Value::List(items), .. }) => items,
            Some(raw) => {
                self.wrong(&raw.place, "view", format!("{} where views belong", raw.kind()), "write [[view]]");
                return Vec::new();
            }
        };
        if let Some(surplus) = items.get(limits::VIEWS) {
            let instead = format!("define at most {} in a file", limits::VIEWS);
            self.wrong(&surplus.place, "view", format!("{} views", items.len()), instead);
        }
        items.iter().take(limits::VIEWS).filter_map(|item| self.view(item)).collect()
    }

    fn view(&mut self, item: &Raw) -> Option<ReadView> {
        let Value::Table(table) = &item.value else {
            self.wrong(&item.place, "view", format!("{} where a view belongs", item.kind()), "write [[view]]");
            return None;
        };
        self.keys(table, "view", &KEYS);
        let (name, name_place) = self.name(table, "name", "view.name");
        let (from, from_place) = self.name(table, "from", "view.from");
        let number = self.number(table);
        let mut types = vec![(from.clone(), from_place)];
        let mut needs = self.needs(table, &mut types);
        self.required(table, &mut needs);
        let fields = self.fields(table, &needs);
        types.retain(|(name, _)| !name.is_empty());
        let definition = ViewDefinition { name, number, from, needs, fields };
        Some(ReadView { definition, name: name_place, types })
    }

    /// Text under `key`, which is required; otherwise nothing, and a config error.
    fn written<'t>(&mut self, table: &'t TomlTable, key: &str, setting: &str, instead: &str) -> Option<&'t Raw> {
        let found = table.get(key);
        if found.is_none() {
            self.wrong(&table.place, setting, "missing", instead);
        }
        found
    }

    /// A name, or an empty one if it is mistaken.
    fn name(&mut self, table: &TomlTable, key: &str, setting: &str) -> (String, Place) {
        let instead = format!("write `{key} = \"...\"`: a lower-case letter, then letters, digits, `-` and `_`");
        let Some(raw) = self.written(table, key, setting, &instead) else {
            return (String::new(), table.place.clone());
        };
        let name = match &raw.value {
            Value::Text(text) if names::is_name(text) => text.clone(),
            Value::Text(text) => {
                self.wrong(&raw.place, setting, format!("{} is not a name", quoted(text)), instead);
                String::new()
            }
            _ => {
                self.wrong(&raw.place, setting, format!("{} where a name belongs", raw.kind()), instead);
                String::new()
            }
        };
        (name, raw.place.clone())
    }

    fn number(&mut self, table: &TomlTable) -> u64 {
        const INSTEAD: &str = "write `definition = 1`, and raise it with every change of the view";
        const SETTING: &str = "view.definition";
        let Some(raw) = self.written(table, "definition", SETTING, INSTEAD) else { return 0 };
        match &raw.value {
            Value::Integer { digits, base: 10 } => match digits.replace('_', "").parse() {
                Ok(number @ 1..=limits::DEFINITION) => return number,
                _ => self.wrong(&raw.place, SETTING, format!("{} is out of range", quoted(digits)), INSTEAD),
            },
            _ => self.wrong(&raw.place, SETTING, format!("{} where a number belongs", raw.kind()), INSTEAD),
        }
        0
    }

    fn table<'t>(&mut self, table: &'t TomlTable, key: &str, instead: &str) -> Option<&'t TomlTable> {
        match &table.get(key)?.value {
            Value::Table(inner) => Some(inner),
            _ => {
                let raw = table.get(key)?;
                self.wrong(
                    &raw.place,
                    &format!("view.{key}"),
                    format!("{} where a table belongs", raw.kind()),
                    instead,
                );
                None
            }
        }
    }

    fn needs(&mut self, table: &TomlTable, types: &mut Vec<(String, Place)>) -> Vec<Need> {
        const INSTEAD: &str = "write `needs = { shard = \"shard:{/shard}\" }`";
        let Some(written) = self.table(table, "needs", INSTEAD) else { return Vec::new() };
        if written.entries.len() > limits::NEEDS {
            let instead = format!("name at most {}", limits::NEEDS);
            self.wrong(&written.place, "view.needs", format!("{} needs", written.entries.len()), instead);
        }
        let mut needs = Vec::new();
        for (alias, entry) in written.entries.iter().take(limits::NEEDS) {
            let setting = format!("view.needs.{alias}");
            if !names::is_name(alias) {
                let what = format!("{} is not a name", quoted(alias));
                self.wrong(
                    &entry.key_place,
                    "view.needs",
                    what,
                    "write a lower-case letter, then letters and digits",
                );
            }
            let parsed = match &entry.raw.value {
                Value::Text(text) => need(alias, text),
                _ => Err(ConfigProblem::new(format!("{} where text belongs", entry.raw.kind()), INSTEAD)),
            };
            // A stand-in, so that a reference to the alias is no further error.
            let need = parsed.unwrap_or_else(|wrong| {
                self.error(&entry.raw.place, &setting, wrong);
                Need { alias: alias.clone(), record_type: String::new(), key: Vec::new(), is_required: false }
            });
            types.push((need.record_type.clone(), entry.raw.place.clone()));
            needs.push(need);
        }
        needs
    }

    fn required(&mut self, table: &TomlTable, needs: &mut [Need]) {
        const INSTEAD: &str = "write a list of names from `needs`, such as `required = [\"shard\"]`";
        const SETTING: &str = "view.required";
        let Some(raw) = table.get("required") else { return };
        let Value::List(items) = &raw.value else {
            return self.wrong(&raw.place, SETTING, format!("{} where a list belongs", raw.kind()), INSTEAD);
        };
        for item in items {
            let Value::Text(alias) = &item.value else {
                self.wrong(&item.place, SETTING, format!("{} where text belongs", item.kind()), INSTEAD);
                continue;
            };
            match needs.iter_mut().find(|need| need.alias == *alias) {
                Some(need) => need.is_required = true,
                None => {
                    let instead = alias_hint(alias, needs);
                    self.wrong(&item.place, SETTING, format!("{} is not among the needs", quoted(alias)), instead);
                }
            }
        }
    }

    fn fields(&mut self, table: &TomlTable, needs: &[Need]) -> Vec<ViewField> {
        const INSTEAD: &str = "write [view.fields] with at least one line, such as `users = \"/limits/users\"`";
        let written = table.get("fields").is_none().then(|| self.written(table, "fields", "view.fields", INSTEAD));
        let Some(written) = written.is_none().then(|| self.table(table, "fields", INSTEAD)).flatten() else {
            return Vec::new();
        };
        let count = written.entries.len();
        if count == 0 {
            self.wrong(&written.place, "view.fields", "no fields", INSTEAD);
        }
        if count > limits::FIELDS {
            let instead = format!("write at most {}", limits::FIELDS);
            self.wrong(&written.place, "view.fields", format!("{count} fields"), instead);
        }
        let mut entries: Vec<(&String, &TomlEntry)> = written.entries.iter().take(limits::FIELDS).collect();
        // As the file has them: that is the view's order.
        entries.sort_by(|(_, one), (_, other)| one.key_place.cmp(&other.key_place));
        let mut fields = Vec::new();
        for (name, TomlEntry { key_place, raw }) in entries {
            if name.is_empty() || name.len() > limits::FIELD_NAME_BYTES {
                let instead = format!("write 1 to {} bytes", limits::FIELD_NAME_BYTES);
                self.wrong(key_place, "view.fields", "a name that is empty or too long", instead);
            }
            match source(raw, needs) {
                Ok(source) => fields.push(ViewField { name: name.clone(), source }),
                Err(wrong) => self.error(&raw.place, &format!("view.fields.{}", shown(name)), wrong),
            }
        }
        fields
    }

    /// Checks that need all views together, and the catalogue's types.
    fn together(&mut self, views: &[ReadView], types: Option<&[String]>) {
        let mut known: BTreeMap<&str, &Place> = BTreeMap::new();
        for view in views.iter().filter(|view| !view.definition.name.is_empty()) {
            let name = view.definition.name.as_str();
            if known.insert(name, &view.name).is_some() {
                let what = format!("a second view called {}", quoted(name));
                self.wrong(&view.name, "view.name", what, "give each view a name of its own");
            }
        }
        for (name, place) in views.iter().flat_map(|view| &view.types) {
            let is_record = types.map_or_else(
                || !known.contains_key(name.as_str()) || views.iter().any(|view| view.definition.from == *name),
                |types| types.iter().any(|known| known == name),
            );
            if is_record {
                continue;
            }
            let known_types = types.unwrap_or_default();
            let (what, instead) = match nearest(name, known_types.iter().map(String::as_str)) {
                _ if known.contains_key(name.as_str()) => {
                    let what = format!("{} is a view, and views are made of records alone", quoted(name));
                    (what, "name a type of the catalogue".to_owned())
                }
                Some(near) => (no_type(name), format!("did you mean {near}?")),
                None => (no_type(name), format!("known types: {}", known_types.join(", "))),
            };
            self.wrong(place, "view", what, instead);
        }
    }
}

fn no_type(name: &str) -> String {
    format!("the catalogue has no type {}", quoted(name))
}

/// A name in a config error: one line, not too long.
fn shown(name: &str) -> String {
    quoted(name).trim_matches('`').to_owned()
}

fn alias_hint(alias: &str, needs: &[Need]) -> String {
    match nearest(alias, needs.iter().map(|need| need.alias.as_str())) {
        Some(name) => format!("did you mean {name}?"),
        None => format!("write it there: `needs = {{ {} = \"type:{{/pointer}}\" }}`", shown(alias)),
    }
}

/// `shard:{/shard}`: a record type, and a key of text and pointers into the main record.
fn need(alias: &str, text: &str) -> Result<Need, ConfigProblem> {
    const INSTEAD: &str = "write a record type, a colon and a key, such as \"shard:{/shard}\"";
    let Some((record_type, mut rest)) = text.split_once(':').filter(|(name, _)| names::is_name(name)) else {
        return Err(ConfigProblem::new(format!("{} has no record type", quoted(text)), INSTEAD));
    };
    if text.len() > limits::SOURCE_BYTES {
        return Err(ConfigProblem::new("a key that is too long", INSTEAD));
    }
    let mut key = Vec::new();
    while !rest.is_empty() {
        let part = match rest.strip_prefix('{') {
            Some(inner) => {
                let (pointer, behind) =
                    inner.split_once('}').ok_or_else(|| ConfigProblem::new("a brace without its end", INSTEAD))?;
                rest = behind;
                KeyPart::Main(JsonPointer::parse(pointer)?)
            }
            None => {
                let (literal, behind) = rest.split_at(rest.find('{').unwrap_or(rest.len()));
                if literal.contains('}') {
                    return Err(ConfigProblem::new("a brace without its beginning", INSTEAD));
                }
                rest = behind;
                KeyPart::Text(literal.to_owned())
            }
        };
        key.push(part);
    }
    if key.is_empty() {
        return Err(ConfigProblem::new(format!("{} has no key", quoted(text)), INSTEAD));
    }
    Ok(Need { alias: alias.to_owned(), record_type: record_type.to_owned(), key, is_required: false })
}

fn source(raw: &Raw, needs: &[Need]) -> Result<FieldSource, ConfigProblem> {
    const INSTEAD: &str = "write \"/pointer\", \"need:/pointer\" or { value = ... }";
    match &raw.value {
        Value::Text(text) if text.is_empty() || text.starts_with('/') => {
            JsonPointer::parse(text).map(FieldSource::Main)
        }
        Value::Text(text) => {
            let (alias, pointer) = text
                .split_once(':')
                .ok_or_else(|| ConfigProblem::new(format!("{} is no JSON Pointer", quoted(text)), INSTEAD))?;
            let at = needs.iter().position(|need| need.alias == alias).ok_or_else(|| {
                ConfigProblem::new(format!("{} is not among the needs", quoted(alias)), alias_hint(alias, needs))
            })?;
            JsonPointer::parse(pointer).map(|pointer| FieldSource::Need(at, pointer))
        }
        Value::Table(table) => match (table.entries.len(), table.get("value")) {
            (1, Some(value)) => {
                let json = constant(value)?.to_string();
                match json.len() {
                    ..=limits::SOURCE_BYTES => Ok(FieldSource::Constant(json)),
                    _ => Err(ConfigProblem::new("a constant that is too long", "keep it in a record")),
                }
            }
            _ => Err(ConfigProblem::new("a table that is no constant", INSTEAD)),
        },
        _ => Err(ConfigProblem::new(format!("{} where a source belongs", raw.kind()), INSTEAD)),
    }
}

/// A TOML value as JSON.
fn constant(raw: &Raw) -> Result<serde_json::Value, ConfigProblem> {
    Ok(match &raw.value {
        Value::Text(text) | Value::Untyped(text) => text.as_str().into(),
        Value::Flag(flag) => (*flag).into(),
        Value::Integer { digits, base } => i64::from_str_radix(&digits.replace('_', ""), *base)
            .map_err(|_| ConfigProblem::new("a number beyond 64 bits", "write it between quotes"))?
            .into(),
        Value::List(items) => items.iter().map(constant).collect::<Result<Vec<_>, _>>()?.into(),
        Value::Table(table) => {
            let entries = table.entries.iter().map(|(key, entry)| Ok((key.clone(), constant(&entry.raw)?)));
            entries.collect::<Result<serde_json::Map<_, _>, _>>()?.into()
        }
        Value::Float(_) | Value::Other(_) => {
            return Err(ConfigProblem::new(format!("{} as a constant", raw.kind()), "write it between quotes"));
        }
    })
}

#[cfg(test)]
mod tests;
