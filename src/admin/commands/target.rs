//! Targets of a command: a record, a type, everything, or the paths that match a pattern.

use serde::{Deserialize, Serialize};

use super::refused::CommandRefused;
use crate::model::ids::RecordId;
use crate::protocol::event::Scope;
use crate::request::settings::Settings;

/// A target as an operator writes it: exactly one of these is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenTarget {
    /// A path as callers write it; any query matches, and `*` at the end stands for the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `type:key`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// A record type of a route.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub record_type: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Of(Scope),
    Paths(Pattern),
}

/// Paths, without their query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    text: String,
    prefix: bool,
}

impl WrittenTarget {
    /// Resolves it with this sidecar's routes and record types.
    pub(super) fn read(&self, sidecar: &Settings) -> Result<Target, CommandRefused> {
        match self {
            Self { path: Some(path), record: None, record_type: None, all: false } => {
                Pattern::read(path).map(Target::Paths)
            }
            Self { path: None, record: Some(record), record_type: None, all: false } => {
                record_of(sidecar, record).map(|id| Target::Of(Scope::Record(id)))
            }
            Self { path: None, record: None, record_type: Some(name), all: false } => {
                let found = sidecar.fill.shared.keyed_hashes.type_id(name).map(|id| Target::Of(Scope::Type(id)));
                found.ok_or_else(|| {
                    let known = types(sidecar).join(", ");
                    CommandRefused::Malformed(format!("no route names the type {name:?}; write one of: {known}"))
                })
            }
            Self { path: None, record: None, record_type: None, all: true } => Ok(Target::Of(Scope::All)),
            _ => Err(CommandRefused::Malformed(
                "write exactly one of: path (\"/v1/contexts/acme\", or \"/v1/contexts/*\"), record (\"context:acme\"), \
                 type (\"context\"), all (true)"
                    .to_owned(),
            )),
        }
    }
}

/// Parses `type:key`; some route must name the type.
pub(super) fn record_of(sidecar: &Settings, text: &str) -> Result<RecordId, CommandRefused> {
    let (record_type, key) = text.split_once(':').filter(|(_, key)| !key.is_empty()).ok_or_else(|| {
        CommandRefused::Malformed("write a record as type:key, such as \"context:acme\"".to_owned())
    })?;
    sidecar.fill.shared.keyed_hashes.record(record_type, key).ok_or_else(|| {
        let known = types(sidecar).join(", ");
        CommandRefused::Malformed(format!(
            "no route names the type {record_type:?}; write type:key with one of: {known}"
        ))
    })
}

/// The records that a routed path shows.
pub(super) fn shown_by(sidecar: &Settings, path: &str) -> Vec<RecordId> {
    let matched = sidecar.fill.router.find(path);
    let records = matched.iter().flat_map(|matched| matched.records());
    records.filter_map(|(record_type, key)| sidecar.fill.shared.keyed_hashes.record(record_type, &key)).collect()
}

/// The record types that routes name.
fn types(sidecar: &Settings) -> Vec<String> {
    let records = sidecar.fill.router.routes().flat_map(|route| &route.records);
    let mut names: Vec<String> = records.map(|record| record.record_type.clone()).collect();
    names.sort();
    names.dedup();
    names
}

impl Pattern {
    pub(super) fn read(text: &str) -> Result<Self, CommandRefused> {
        let (text, prefix) = text.strip_suffix('*').map_or((text, false), |text| (text, true));
        if !text.starts_with('/') || text.contains(['?', '#', '*']) {
            let what = "write a path from its first slash and without a query, such as \"/v1/contexts/acme\"; a `*` \
                        may only stand at its end";
            return Err(CommandRefused::Malformed(what.to_owned()));
        }
        Ok(Self { text: text.to_owned(), prefix })
    }

    /// True if it matches the path of `target`, whatever its query.
    pub(super) fn matches(&self, target: &str) -> bool {
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        if self.prefix { path.starts_with(&self.text) } else { path == self.text }
    }

    /// The path, if it matches only one.
    pub(super) fn exact(&self) -> Option<&str> {
        (!self.prefix).then_some(self.text.as_str())
    }
}

impl Target {
    /// For logs: types by name, keys and paths by hash only.
    pub(super) fn described(&self, sidecar: &Settings) -> String {
        let named = |id| sidecar.fill.shared.keyed_hashes.type_name(id).unwrap_or_else(|| "?".to_owned());
        match self {
            Self::Of(Scope::Record(id)) => format!("record {}:{:016x}", named(id.record_type), id.hash),
            Self::Of(Scope::Type(id)) => format!("type {}", named(*id)),
            Self::Of(Scope::All) => "everything".to_owned(),
            Self::Paths(pattern) => {
                let hash = sidecar.fill.shared.keyed_hashes.publisher(&pattern.text);
                let route = sidecar.fill.router.find(&pattern.text).filter(|_| !pattern.prefix);
                match (route, pattern.prefix) {
                    (Some(matched), _) => format!("a path of {} ({hash:016x})", matched.route.path.text),
                    (None, true) => format!("paths by a prefix ({hash:016x})"),
                    (None, false) => format!("a path of no route ({hash:016x})"),
                }
            }
        }
    }

    /// One target per record if this is a single path of a route, so that a record's past can be
    /// reported.
    pub(super) fn by_record(&self, sidecar: &Settings) -> Vec<Self> {
        let path = match self {
            Self::Paths(pattern) => pattern.exact(),
            Self::Of(_) => None,
        };
        let records = path.map(|path| shown_by(sidecar, path)).unwrap_or_default();
        if records.is_empty() {
            vec![self.clone()]
        } else {
            records.into_iter().map(|id| Self::Of(Scope::Record(id))).collect()
        }
    }

    /// True if a command on it touched this record. For paths that is unknown, and this is false.
    pub(super) fn covers(&self, id: RecordId) -> bool {
        match self {
            Self::Of(Scope::Record(only)) => *only == id,
            Self::Of(Scope::Type(only)) => *only == id.record_type,
            Self::Of(Scope::All) => true,
            Self::Paths(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_matches_path_or_prefix() {
        let one = Pattern::read("/v1/contexts/acme").unwrap();
        assert!(one.matches("/v1/contexts/acme") && one.matches("/v1/contexts/acme?view=full"));
        assert!(!one.matches("/v1/contexts/acme/limits") && !one.matches("/v1/contexts/acm"));
        let all = Pattern::read("/v1/contexts/*").unwrap();
        assert!(all.matches("/v1/contexts/acme/limits?x") && !all.matches("/v1/tenants/acme"));
        assert!(!all.matches("/v1/x?/v1/contexts/acme"), "what stands in a query is no path");
        for wrong in ["", "*", "v1", "/a?b", "/a*b", "http://host/a", "/a#b"] {
            let described = Pattern::read(wrong).unwrap_err().to_string();
            assert!(described.contains("/v1/contexts/acme"), "{wrong}: {described}");
        }
    }
}
