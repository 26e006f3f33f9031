//! What a person is told about a setting: the [`Place`] where it was written, what is wrong, and
//! what to write instead. A mistake never shows a value that may hold a secret (a URL with a
//! password, a token).

use std::fmt;
use std::sync::Arc;

/// Where a setting was written. The order is the one in which mistakes are listed: the file from
/// its top, then the environment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In this file, nowhere in particular.
    File(Arc<str>),
    /// In this file; line and column count from 1, the column in characters.
    At {
        file: Arc<str>,
        line: usize,
        column: usize,
    },
    /// In the environment, in no variable in particular.
    Environment,
    Variable(Arc<str>),
    /// Nowhere: it is the default.
    Default,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => f.write_str(file),
            Self::At { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Environment => f.write_str("environment"),
            Self::Variable(name) => f.write_str(name),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Something that must be changed before Nearside starts. It is for the operator to fix; a retry
/// does not help.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{place}: {}{wrong}; {instead}", self.prefix())]
pub struct ConfigError {
    pub place: Place,
    /// The setting's full name, such as `cache.ttl`; empty if no single setting is meant.
    pub setting: String,
    pub wrong: String,
    pub instead: String,
}

impl ConfigError {
    pub fn new(place: Place, setting: impl Into<String>, wrong: ConfigProblem) -> Self {
        Self { place, setting: setting.into(), wrong: wrong.what, instead: wrong.instead }
    }

    fn prefix(&self) -> String {
        if self.setting.is_empty() { String::new() } else { format!("{}: ", self.setting) }
    }
}

/// Something that is allowed but probably not meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// Where it was written, or [`Place::Default`].
    pub place: Place,
    /// What will happen, and what to write if that is not meant.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Default => f.write_str(&self.text),
            place => write!(f, "{place}: {}", self.text),
        }
    }
}

/// What is wrong with a value and what to write instead, before it is known where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    pub what: String,
    pub instead: String,
}

impl ConfigProblem {
    pub fn new(what: impl Into<String>, instead: impl Into<String>) -> Self {
        Self { what: what.into(), instead: instead.into() }
    }
}

/// The word of `known` that `written` was probably meant to be.
pub fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    /// Below this two words have too little in common to be worth a guess.
    const ALIKE: f64 = 0.65;
    known
        .into_iter()
        .map(|word| {
            // Jaro-Winkler recognises words that begin alike, Damerau-Levenshtein letters that
            // changed places.
            let alike = strsim::jaro_winkler(written, word);
            (alike.max(strsim::normalized_damerau_levenshtein(written, word)), word)
        })
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}

/// `text` between backticks, cut to fit a line, with control characters escaped.
pub fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    let shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    let more = if text.chars().nth(SHOWN).is_some() { "..." } else { "" };
    format!("`{shown}{more}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_reads_place_setting_wrong_instead() {
        let place = Place::At { file: "nearside.toml".into(), line: 12, column: 5 };
        let mistake =
            ConfigError::new(place, "cache.ttl", ConfigProblem::new("`1x` is not a duration", "write \"1h\""));
        assert_eq!(mistake.to_string(), "nearside.toml:12:5: cache.ttl: `1x` is not a duration; write \"1h\"");
    }

    #[test]
    fn the_nearest_word_is_a_guess_only_when_there_is_something_to_guess_from() {
        let known = ["ttl", "negative_ttl", "soft_ttl"];
        assert_eq!(nearest("ttll", known), Some("ttl"));
        assert_eq!(nearest("negativ_ttl", known), Some("negative_ttl"));
        assert_eq!(nearest("zebra", known), None);
        assert_eq!(nearest("kye", ["key", "view"]), Some("key"));
    }

    #[test]
    fn a_quoted_value_is_cut_and_holds_no_control_character() {
        let shown = quoted(&format!("\n{}", "x".repeat(500)));
        assert!(shown.starts_with("`\\nx"), "{shown}");
        assert!(shown.len() < 80, "{shown}");
    }
}
