//! Reads `compression` and `dictionary = { .. }` of a route.

use crate::config::error::ConfigProblem;
use crate::config::scope::{Collector, SettingScope};
use crate::config::settings::{self as schema, Section};
use crate::config::tree::{Raw, TomlTable, Value};
use crate::config::{Compression, DictionaryFile, checks, value};

pub(super) fn read(ledger: &mut Collector, route: &SettingScope) -> Option<Compression> {
    let word = route.given(ledger, &schema::ROUTE_COMPRESSION, value::word);
    let dictionary = dictionary(ledger, route);
    if dictionary.is_some() && word != 2 {
        checks::dictionary_without_zstd(ledger, route.item);
    }
    match word {
        2 => Some(Compression::Zstd(dictionary)),
        1 => Some(Compression::Gzip),
        _ => None,
    }
}

fn dictionary(ledger: &mut Collector, route: &SettingScope) -> Option<DictionaryFile> {
    let table = match route.table.get("dictionary")? {
        Raw { value: Value::Table(table), .. } => table.clone(),
        raw => {
            let what = format!("{} where a table belongs", raw.kind());
            let wrong = ConfigProblem::new(what, "write dictionary = { file = \"..\", hash = \"..\" }");
            ledger.mistake(&schema::DICTIONARY_FILE, route.item, raw.place.clone(), wrong);
            TomlTable::empty(raw.place.clone())
        }
    };
    let scope = ledger.scope(table, Section::Dictionary, route.item);
    Some(DictionaryFile {
        file: scope.required(ledger, &schema::DICTIONARY_FILE, value::file, std::path::PathBuf::new),
        hash: scope.required(ledger, &schema::DICTIONARY_HASH, value::hash, String::new),
    })
}
