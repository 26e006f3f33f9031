//! The settings as they were written: a tree of raw values in which every key and value knows its
//! [`Place`]. [`super::variables`] lays the environment over it, and [`super::read`] reads it by
//! the schema. Building a tree never panics.

use std::collections::BTreeMap;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::settings::SettingKind;
use crate::config::error::{ConfigError, ConfigProblem, Place, quoted};

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Raw {
    pub(crate) value: Value,
    pub(crate) place: Place,
}

/// A value as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A TOML string.
    Text(String),
    /// Text of no type yet, from a variable or the schema's defaults: `true`, `5`, `a,b`.
    Untyped(String),
    /// A TOML integer: its digits and their base.
    Integer {
        digits: String,
        base: u32,
    },
    /// A TOML float, as it was written.
    Float(String),
    Flag(bool),
    List(Vec<Raw>),
    Table(TomlTable),
    /// A TOML date, which no setting takes; its name.
    Other(&'static str),
}

/// The keys of one table in the order of their names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TomlTable {
    pub(crate) entries: BTreeMap<String, TomlEntry>,
    pub(crate) place: Place,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TomlEntry {
    pub(crate) key_place: Place,
    pub(crate) raw: Raw,
}

impl Raw {
    /// The kind of value, for a sentence: `a string`.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Text(_) | Value::Untyped(_) => "a string",
            Value::Integer { .. } => "a number",
            Value::Float(_) => "a number with a point",
            Value::Flag(_) => "a boolean",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
            Value::Other(kind) => kind,
        }
    }
}

impl Raw {
    /// As a TOML value. Text of no type yet takes the form in which a setting of `kind` is written.
    pub(super) fn to_toml(&self, kind: SettingKind) -> String {
        match &self.value {
            Value::Text(text) => string(text),
            Value::Integer { digits, base: 8 } => format!("0o{digits}"),
            Value::Integer { digits, base: 16 } => format!("0x{digits}"),
            Value::Integer { digits, base: 2 } => format!("0b{digits}"),
            Value::Integer { digits, .. } => digits.clone(),
            Value::Float(number) => number.clone(),
            Value::Flag(flag) => flag.to_string(),
            Value::List(items) => {
                format!("[{}]", items.iter().map(|item| item.to_toml(kind)).collect::<Vec<_>>().join(", "))
            }
            Value::Untyped(text) => match kind {
                SettingKind::Flag | SettingKind::Count(..) | SettingKind::Share => text.clone(),
                SettingKind::Headers
                | SettingKind::HeaderPatterns
                | SettingKind::Hosts
                | SettingKind::Names
                | SettingKind::Claims
                | SettingKind::Audiences
                | SettingKind::Records
                | SettingKind::Tags
                | SettingKind::Uids => {
                    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                    let plain = kind == SettingKind::Uids;
                    let items = words.map(|word| if plain { word.to_owned() } else { string(word) });
                    format!("[{}]", items.collect::<Vec<_>>().join(", "))
                }
                SettingKind::AddressOrNone if text == "false" => text.clone(),
                _ => string(text),
            },
            Value::Table(_) | Value::Other(_) => "{}".to_owned(),
        }
    }
}

/// `text` as a TOML basic string.
fn string(text: &str) -> String {
    let mut written = String::with_capacity(text.len() + 2);
    written.push('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => written.extend(['\\', char]),
            _ if char.is_control() => written.push_str(&format!("\\u{:04X}", u32::from(char))),
            _ => written.push(char),
        }
    }
    written.push('"');
    written
}

impl TomlTable {
    pub(super) fn empty(place: Place) -> Self {
        Self { entries: BTreeMap::new(), place }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Raw> {
        self.entries.get(key).map(|entry| &entry.raw)
    }
}

/// Turns byte offsets into places.
pub(super) struct LineStarts<'t> {
    file: Arc<str>,
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> LineStarts<'t> {
    fn new(file: &str, text: &'t str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { file: file.into(), text, starts: std::iter::once(0).chain(breaks).collect() }
    }

    fn place(&self, offset: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or_default();
        let before = self.text.get(start..offset).unwrap_or_default();
        Place::At { file: self.file.clone(), line: line.max(1), column: before.chars().count() + 1 }
    }
}

/// The errors in a text's TOML syntax.
#[derive(Debug, Default)]
pub(crate) struct Syntax {
    pub(crate) errors: Vec<ConfigError>,
    /// An error leaves open which table the rest belongs to, so nothing should be said about the
    /// rest.
    pub(crate) lost: bool,
}

/// Parses TOML text as far as possible, and collects the errors in its syntax.
pub(crate) fn parse(file: &str, text: &str) -> (TomlTable, Syntax) {
    let lines = LineStarts::new(file, text);
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut syntax = Syntax::default();
    for error in &errors {
        let (error, lost) = syntax_error(&lines, error);
        syntax.errors.push(error);
        syntax.lost |= lost;
    }
    let mut table = table(&lines, document.get_ref(), 0);
    table.place = Place::File(lines.file.clone());
    (table, syntax)
}

/// The error, and whether it leaves the rest open ([`Syntax::lost`]).
fn syntax_error(lines: &LineStarts<'_>, error: &toml::de::Error) -> (ConfigError, bool) {
    let span = error.span().unwrap_or(0..0);
    let place = lines.place(span.start);
    let written = lines.text.get(span).unwrap_or_default().trim();
    let message = error.message();
    let mut lost = false;
    let wrong = if message.starts_with("string values must be quoted") {
        match written {
            "" => ConfigProblem::new("a key without a value", "write a value after the `=`, or remove the line"),
            // The message must fit on one line, however long the text is.
            _ if written.len() > 60 => {
                ConfigProblem::new(format!("{} needs quotes", quoted(written)), "put quotes around it")
            }
            _ => {
                ConfigProblem::new(format!("{} needs quotes", quoted(written)), format!("write {}", string(written)))
            }
        }
    } else if message.starts_with("duplicate key") {
        ConfigProblem::new(format!("{} is written twice", quoted(written)), "keep one of the two")
    } else if message.starts_with("invalid float") || message.starts_with("invalid integer") {
        let what = format!("not TOML: {message}");
        ConfigProblem::new(what, "put quotes around anything that is not a plain number, true or false")
    } else {
        lost = true;
        ConfigProblem::new(format!("not TOML: {message}"), "correct the syntax here")
    };
    (ConfigError::new(place, "", wrong), lost)
}

fn table(lines: &LineStarts<'_>, from: &DeTable<'_>, offset: usize) -> TomlTable {
    let entries = from.iter().map(|(key, value)| {
        let entry = TomlEntry { key_place: lines.place(key.span().start), raw: raw(lines, value) };
        (key.get_ref().to_string(), entry)
    });
    TomlTable { entries: entries.collect(), place: lines.place(offset) }
}

fn raw(lines: &LineStarts<'_>, from: &Spanned<DeValue<'_>>) -> Raw {
    let at = from.span().start;
    let value = match from.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(whole) => Value::Integer { digits: whole.as_str().to_owned(), base: whole.radix() },
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Array(items) => Value::List(items.iter().map(|item| raw(lines, item)).collect()),
        DeValue::Table(inner) => Value::Table(table(lines, inner, at)),
        DeValue::Float(float) => Value::Float(float.as_str().to_owned()),
        DeValue::Datetime(_) => Value::Other("a date"),
    };
    Raw { value, place: lines.place(at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: usize, column: usize) -> Place {
        Place::At { file: "f".into(), line, column }
    }

    #[test]
    fn positions_count_from_one() {
        let (tree, Syntax { errors, .. }) = parse("f", "# é\n\"é\" = \"x\"\n[a]\n  b = 5\n");
        assert!(errors.is_empty());
        assert_eq!(tree.get("é").unwrap().place, at(2, 7));
        let Value::Table(inner) = &tree.get("a").unwrap().value else { panic!("not a table") };
        assert_eq!(inner.entries["b"].key_place, at(4, 3));
        assert_eq!(inner.get("b").unwrap().place, at(4, 7));
    }

    #[test]
    fn unquoted_text_suggests_quotes() {
        let (tree, Syntax { errors, lost }) = parse("f", "ttl = 1h\nmax_bytes = 256MiB\nrest = 1\nrest = 2\n");
        let lines: Vec<_> = errors.iter().map(|error| error.place.clone()).collect();
        assert!(!lost);
        assert_eq!(lines, vec![at(1, 7), at(2, 13), at(4, 1)]);
        assert_eq!(errors[0].suggestion, "write \"1h\"");
        assert_eq!(errors[2].wrong, "`rest` is written twice");
        assert_eq!(tree.get("ttl").unwrap().value, Value::Text("1h".to_owned()));
    }

    fn suggestion(text: &str) -> Option<String> {
        let errors = parse("f", text).1.errors;
        errors.into_iter().find(|error| error.wrong.contains("needs quotes")).map(|error| error.suggestion)
    }

    #[test]
    fn suggested_quotes_stay_on_one_line() {
        assert_eq!(suggestion("ttl = 1\0h\u{1b}\n").as_deref(), Some("write \"1\\u0000h\\u001B\""));
        let long = format!("ttl = {}\n", "h".repeat(100));
        assert_eq!(suggestion(&long).as_deref(), Some("put quotes around it"));
    }
}
