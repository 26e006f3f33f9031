//! Errors and warnings about a setting: the [`Place`] where it was written, what is wrong, and
//! what to write instead. An error never shows a value that may hold a secret (a URL with a
//! password, a token).

use std::fmt;
use std::sync::Arc;

/// The place where a setting was written. The order is the one in which errors are listed: the file from
/// its top, then the environment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A file, nowhere in particular.
    File(Arc<str>),
    /// A place in a file; line and column count from 1, the column in characters.
    At {
        file: Arc<str>,
        line: usize,
        column: usize,
    },
    /// The environment, no variable in particular.
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
#[error("{place}: {}{wrong}; {suggestion}", self.prefix())]
pub struct ConfigError {
    pub place: Place,
    /// The setting's full name, such as `cache.ttl`; empty if no single setting is meant.
    pub setting: String,
    pub wrong: String,
    pub suggestion: String,
}

impl ConfigError {
    pub fn new(place: Place, setting: impl Into<String>, wrong: ConfigProblem) -> Self {
        Self { place, setting: setting.into(), wrong: wrong.what, suggestion: wrong.suggestion }
    }

    fn prefix(&self) -> String {
        if self.setting.is_empty() { String::new() } else { format!("{}: ", self.setting) }
    }
}

/// Something that is allowed but probably not meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// The place where it was written, or [`Place::Default`].
    pub place: Place,
    /// Says what will happen, and what to write if that is not meant.
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

/// The fault of a value and what to write instead, before it is known where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    pub what: String,
    pub suggestion: String,
}

impl ConfigProblem {
    pub fn new(what: impl Into<String>, suggestion: impl Into<String>) -> Self {
        Self { what: what.into(), suggestion: suggestion.into() }
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
    fn config_error_has_position_setting_suggestion() {
        let place = Place::At { file: "nearside.toml".into(), line: 12, column: 5 };
        let error =
            ConfigError::new(place, "cache.ttl", ConfigProblem::new("`1x` is not a duration", "write \"1h\""));
        assert_eq!(error.to_string(), "nearside.toml:12:5: cache.ttl: `1x` is not a duration; write \"1h\"");
    }

    #[test]
    fn suggestions_need_similar_words() {
        let known = ["ttl", "negative_ttl", "soft_ttl"];
        assert_eq!(nearest("ttll", known), Some("ttl"));
        assert_eq!(nearest("negativ_ttl", known), Some("negative_ttl"));
        assert_eq!(nearest("zebra", known), None);
        assert_eq!(nearest("kye", ["key", "view"]), Some("key"));
    }

    #[test]
    fn quoted_values_are_truncated_and_escaped() {
        let shown = quoted(&format!("\n{}", "x".repeat(500)));
        assert!(shown.starts_with("`\\nx"), "{shown}");
        assert!(shown.len() < 80, "{shown}");
    }
}
