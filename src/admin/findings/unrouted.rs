//! Announced record types that no route names. Other services may share the topic, so one is not
//! wrong as such; but if a reply shows records of it, their changes reach nothing that is stored.

use serde::Serialize;

use super::evidence::Evidence;

/// An announced record type that no route names, in `/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnroutedStatus {
    pub record_type: String,
    /// Number of announcements that named it since the process started.
    pub announced: u64,
    /// The regions whose topics brought it.
    pub regions: Vec<String>,
    /// Time since the last one came, in seconds.
    pub last_s: u64,
    /// Setting to write if replies show it.
    pub advice: String,
}

/// All that are remembered, by name.
pub fn types(evidence: &Evidence<'_>) -> Vec<UnroutedStatus> {
    let seen = evidence.notes.unrouted_types.iter();
    let unrouted = seen.filter(|(name, _)| !evidence.types.iter().any(|(known, _)| known == *name));
    let shown = unrouted.map(|(name, seen)| UnroutedStatus {
        record_type: name.clone(),
        announced: seen.count,
        regions: seen.regions.iter().map(|region| evidence.name(*region).to_owned()).collect(),
        last_s: evidence.now.since(seen.last).as_secs(),
        advice: format!(
            "if replies of a route show such records, name them in that route's records too, with the key as announcements \
             write it: records = [..., \"{name}:{{key}}\"]; if it is another service's, leave it as it is"
        ),
    });
    shown.collect()
}
