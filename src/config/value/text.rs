//! Text, and lists of it, as they are written in a file or in a variable.

use crate::config::error::ConfigProblem;
use crate::config::settings::SettingKind;
use crate::config::tree::{Raw, Value};

/// A value, or what is wrong with it.
pub(in crate::config) type Read<T> = Result<T, ConfigProblem>;

/// The text of a string or a variable.
pub(in crate::config) fn text_of<'r>(raw: &'r Raw, suggestion: &str) -> Read<&'r str> {
    match &raw.value {
        Value::Text(text) | Value::Untyped(text) => Ok(text),
        _ => Err(ConfigProblem::new(format!("{} where text belongs", raw.kind()), suggestion)),
    }
}

/// Returns whether it says "none": `""` or, for an address, `false`.
pub(in crate::config) fn is_none(raw: &Raw, kind: SettingKind) -> bool {
    match &raw.value {
        Value::Text(text) | Value::Untyped(text) if text.is_empty() => true,
        Value::Untyped(text) => kind == SettingKind::AddressOrNone && text == "false",
        Value::Flag(flag) => kind == SettingKind::AddressOrNone && !flag,
        _ => false,
    }
}

/// [`SettingKind::Text`] and other text that needs no further parsing.
pub(in crate::config) fn text(raw: &Raw, _: SettingKind) -> Read<String> {
    let text = text_of(raw, "write it between quotes")?;
    if text.chars().any(char::is_control) {
        return Err(ConfigProblem::new("text with a control character", "write printable text"));
    }
    Ok(text.to_owned())
}

/// The items of a list, each read by `item`; a variable's text is split at commas.
pub(super) fn list<T>(raw: &Raw, at_most: usize, of: &str, item: impl Fn(&Raw) -> Read<T>) -> Read<Vec<T>> {
    let split;
    let items = match &raw.value {
        Value::List(items) => items,
        Value::Untyped(text) => {
            let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
            split = words
                .map(|word| Raw { value: Value::Untyped(word.to_owned()), place: raw.place.clone() })
                .collect::<Vec<_>>();
            &split
        }
        _ => {
            let suggestion = format!("write {of} between square brackets, such as [\"..\", \"..\"]");
            return Err(ConfigProblem::new(format!("{} where a list belongs", raw.kind()), suggestion));
        }
    };
    if items.len() > at_most {
        let what = format!("{} where at most {at_most} are taken", items.len());
        return Err(ConfigProblem::new(what, "remove some"));
    }
    items.iter().map(item).collect()
}
