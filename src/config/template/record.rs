//! The records that a route's paths show.

use std::borrow::Cow;
use std::fmt;

use super::path::{Captures, PathTemplate};
use super::segment::{Segment, named};
use crate::config::error::{ConfigProblem, nearest, quoted};

/// A record type and a key made of named segments and literal text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordTemplate {
    /// The record type that announcements name.
    pub record_type: String,
    /// The parts of the key, in order.
    pub key: Vec<Segment>,
}

impl RecordTemplate {
    /// Parses `context:{key}`: a record type, a colon, and a key of names and text.
    ///
    /// # Errors
    /// Says what is wrong with the template and what to write instead.
    pub fn parse(text: &str) -> Result<Self, ConfigProblem> {
        const SUGGESTION: &str = "write a record type, a colon and a key, such as \"context:{key}\"";
        let Some((record_type, key)) = text.split_once(':') else {
            return Err(ConfigProblem::new(format!("{} has no record type", quoted(text)), SUGGESTION));
        };
        let shaped = (1..=128).contains(&record_type.len())
            && record_type.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if !shaped {
            return Err(ConfigProblem::new(format!("{} is not a record type", quoted(record_type)), SUGGESTION));
        }
        let key = key_parts(key)?;
        if key.is_empty() {
            return Err(ConfigProblem::new(format!("{} has no key", quoted(text)), SUGGESTION));
        }
        Ok(Self { record_type: record_type.to_owned(), key })
    }

    /// The key of this record in a matching path. Borrowed if it is one segment without escapes.
    pub fn key_of<'p>(&self, captures: &Captures<'p>) -> Cow<'p, str> {
        if let [Segment::Named(name)] = self.key.as_slice() {
            return captures.get(name).unwrap_or_default();
        }
        let parts = self.key.iter().map(|part| match part {
            Segment::Literal(text) => Cow::Borrowed(text.as_str()),
            Segment::Named(name) => captures.get(name).unwrap_or_default(),
        });
        Cow::Owned(parts.collect())
    }

    /// The names in its key.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.key.iter().filter_map(|part| match part {
            Segment::Named(name) => Some(name.as_str()),
            Segment::Literal(_) => None,
        })
    }

    /// The key alone, as the route writes it: `{tenant}/{id}`.
    pub fn key_text(&self) -> String {
        let texts = self.key.iter().map(|part| match part {
            Segment::Literal(text) => text.clone(),
            Segment::Named(name) => format!("{{{name}}}"),
        });
        texts.collect()
    }

    /// The ASCII punctuation of the template's own text, which every key of it has.
    pub fn punctuation(&self) -> impl Iterator<Item = char> {
        let literals = self.key.iter().filter_map(|part| match part {
            Segment::Literal(text) => Some(text.as_str()),
            Segment::Named(_) => None,
        });
        literals.flat_map(str::chars).filter(char::is_ascii_punctuation)
    }

    /// Count of the bytes of its key that are the template's own text.
    pub fn literal_bytes(&self) -> usize {
        self.key.iter().map(|part| if let Segment::Literal(text) = part { text.len() } else { 0 }).sum()
    }

    /// Checks that `path` has every name of the key.
    pub(in crate::config) fn check_against(&self, path: &PathTemplate) -> Result<(), ConfigProblem> {
        let Some(missing) = self.names().find(|name| !path.names().any(|known| known == *name)) else {
            return Ok(());
        };
        // How other routers write names.
        let elsewhere = [format!(":{missing}"), format!("<{missing}>")];
        let colon = path.text.split('/').find(|segment| elsewhere.iter().any(|name| name == segment));
        let suggestion = match (colon, nearest(missing, path.names())) {
            (Some(segment), _) => format!("write `{{{missing}}}` for `{segment}` in the path"),
            (None, Some(known)) => format!("did you mean `{{{known}}}`?"),
            (None, None) => "use a name that stands in the path".to_owned(),
        };
        Err(ConfigProblem::new(
            format!("`{{{missing}}}` does not stand in the path {}", quoted(&path.text)),
            suggestion,
        ))
    }
}

impl fmt::Display for RecordTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.record_type, self.key_text())
    }
}

/// Splits `{tenant}/{id}` into its parts.
fn key_parts(mut text: &str) -> Result<Vec<Segment>, ConfigProblem> {
    const SUGGESTION: &str = "write names between braces with text around them, such as \"context:{tenant}/{id}\"";
    let mut parts = Vec::new();
    while !text.is_empty() {
        let (part, rest) = match text.strip_prefix('{') {
            Some(inner) => {
                let (name, rest) =
                    inner.split_once('}').ok_or_else(|| ConfigProblem::new("a brace without its end", SUGGESTION))?;
                (named(name)?, rest)
            }
            None => {
                let (literal, rest) = text.split_at(text.find('{').unwrap_or(text.len()));
                (Segment::Literal(literal.to_owned()), rest)
            }
        };
        let bad = match &part {
            Segment::Literal(literal) => literal.contains(['}', ',']) || literal.chars().any(char::is_control),
            Segment::Named(_) => parts.contains(&part) || matches!(parts.last(), Some(Segment::Named(_))),
        };
        if bad {
            let what = "a key with a stray `}` or `,`, a name twice, or two names without text between them";
            return Err(ConfigProblem::new(what, SUGGESTION));
        }
        parts.push(part);
        text = rest;
    }
    Ok(parts)
}
