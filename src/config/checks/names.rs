//! List entries whose names give the same `NEARSIDE__...` environment variable.

use std::collections::BTreeMap;

use crate::config::error::quoted;
use crate::config::scope::Collector;
use crate::config::settings::Setting;
use crate::config::variables::variable_name;

/// Refuses entries of a list whose names give the same environment variable.
pub(in crate::config) fn refuse_clashing_names<'n>(
    collector: &mut Collector,
    setting: &'static Setting,
    noun: &str,
    names: impl Iterator<Item = &'n str>,
) {
    let mut by_variable: BTreeMap<String, &str> = BTreeMap::new();
    for (at, name) in names.enumerate() {
        if let Some(other) = by_variable.insert(variable_name(name), name) {
            let what = if other == name {
                format!("a second {noun} called {}", quoted(other))
            } else {
                format!("{} gives the same environment variable as {}", quoted(name), quoted(other))
            };
            collector.refuse(setting, Some(at), what, &format!("give each {noun} a name of its own"));
        }
    }
}
