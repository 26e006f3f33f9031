//! Owns what a person is told about a setting: the [`Place`] it was written in, what is wrong, what to write instead.
//!
//! Before it: every reader and check of this directory makes these. After it: `nearside check` and `nearside run`
//! print them. Invariant: a mistake never shows a value that may hold a secret (a URL with a password, a token).

use std::fmt;
use std::sync::Arc;

/// Where a setting was written. Ordered as mistakes are listed: the file from its top, then the environment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Nowhere in particular in this file.
    File(Arc<str>),
    /// Here in this file; line and column count from 1, the column in characters.
    At {
        /// The file as it was named.
        file: Arc<str>,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// In the environment, in no variable in particular.
    Environment,
    /// In this environment variable.
    Variable(Arc<str>),
    /// Nowhere: it is what Nearside does unless told otherwise.
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

/// One thing that must be changed before Nearside starts. The operator's fault; a retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{place}: {}{wrong}; {instead}", self.prefix())]
pub struct Mistake {
    /// Where it was written.
    pub place: Place,
    /// The setting as one names it, `cache.ttl`; empty when no one setting is meant.
    pub setting: String,
    /// What is wrong.
    pub wrong: String,
    /// What to write instead.
    pub instead: String,
}

impl Mistake {
    /// A mistake about `setting` at `place`.
    pub fn new(place: Place, setting: impl Into<String>, wrong: Wrong) -> Self {
        Self { place, setting: setting.into(), wrong: wrong.what, instead: wrong.instead }
    }

    fn prefix(&self) -> String {
        if self.setting.is_empty() { String::new() } else { format!("{}: ", self.setting) }
    }
}

/// Something that is allowed and probably not meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// Where it was written, or [`Place::Default`].
    pub place: Place,
    /// What will happen, and what to write when it is not meant.
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

/// What is wrong with a value and what to write instead, before anyone knows where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub instead: String,
}

impl Wrong {
    /// What is wrong, and what to write instead.
    pub fn new(what: impl Into<String>, instead: impl Into<String>) -> Self {
        Self { what: what.into(), instead: instead.into() }
    }
}

/// The one of `known` that `written` was probably meant to be.
pub fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    /// Below this two words have too little in common to be worth a guess.
    const ALIKE: f64 = 0.65;
    known
        .into_iter()
        .map(|word| {
            // The first knows words that begin alike, the second letters that changed places.
            let alike = strsim::jaro_winkler(written, word);
            (alike.max(strsim::normalized_damerau_levenshtein(written, word)), word)
        })
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}

/// `text` between backticks, cut to a length that fits a line, control characters shown.
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
        let mistake = Mistake::new(place, "cache.ttl", Wrong::new("`1x` is not a duration", "write \"1h\""));
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
