//! The path that a route answers to.

use std::borrow::Cow;
use std::fmt;

use super::escapes::decoded;
use super::segment::{Segment, segment};
use crate::config::error::{ConfigProblem, quoted};
use crate::config::limits;

/// A path with named segments; parsed by [`PathTemplate::parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathTemplate {
    /// As written.
    pub text: String,
    /// Between the slashes.
    pub segments: Vec<Segment>,
}

/// The values of a template's named segments in one path, as written there.
#[derive(Clone, Copy, Debug)]
pub struct Captures<'p> {
    template: &'p PathTemplate,
    values: [&'p str; limits::NAMES_PER_PATH],
}

impl<'p> Captures<'p> {
    /// The value of `name` with its escapes decoded; `None` if the template has no such name.
    pub fn get(&self, name: &str) -> Option<Cow<'p, str>> {
        let at = self.template.names().position(|known| known == name)?;
        self.values.get(at).map(|value| decoded(value))
    }

    /// The value of `name` as it is written in the path.
    pub fn written(&self, name: &str) -> Option<&'p str> {
        let at = self.template.names().position(|known| known == name)?;
        self.values.get(at).copied()
    }
}

impl PathTemplate {
    /// Parses `/v1/contexts/{key}/{view}`.
    ///
    /// # Errors
    /// Says what is wrong with the template and what to write instead.
    pub fn parse(text: &str) -> Result<Self, ConfigProblem> {
        let Some(rest) = text.strip_prefix('/') else {
            let suggestion = "begin with a `/`, such as \"/v1/contexts/{key}\"";
            return Err(ConfigProblem::new(format!("{} is not a path", quoted(text)), suggestion));
        };
        let count = rest.split('/').count();
        let mut segments = Vec::with_capacity(count);
        for (at, written) in rest.split('/').enumerate() {
            if written.is_empty() && at + 1 < count {
                return Err(ConfigProblem::new(
                    format!("{} has an empty segment", quoted(text)),
                    "write one `/`, not two",
                ));
            }
            let segment = segment(written)?;
            if let Segment::Named(name) = &segment
                && segments.contains(&segment)
            {
                let what = format!("`{{{name}}}` stands there twice");
                return Err(ConfigProblem::new(what, "give each segment a name of its own"));
            }
            segments.push(segment);
        }
        let template = Self { text: text.to_owned(), segments };
        match template.names().count() {
            0..=limits::NAMES_PER_PATH => Ok(template),
            names => {
                let most = limits::NAMES_PER_PATH;
                Err(ConfigProblem::new(format!("{names} named segments"), format!("name at most {most}")))
            }
        }
    }

    /// The names of its named segments, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Named(name) => Some(name.as_str()),
            Segment::Literal(_) => None,
        })
    }

    /// The one name that `batch` leaves out, all of whose names stand here too.
    pub fn left_out_by(&self, batch: &Self) -> Option<&str> {
        let mut missing = self.names().filter(|name| !batch.names().any(|named| named == *name));
        missing
            .next()
            .filter(|_| missing.next().is_none() && batch.names().all(|name| self.names().any(|own| own == name)))
    }

    /// The path in which each named segment has the value that `value` gives, which is written as
    /// in a path.
    pub fn filled<'v>(&self, value: impl Fn(&str) -> &'v str) -> String {
        let texts = self.segments.iter().map(|segment| match segment {
            Segment::Literal(literal) => format!("/{literal}"),
            Segment::Named(name) => format!("/{}", value(name)),
        });
        texts.collect()
    }

    /// The values of the named segments in `path` (no query), or `None` if it does not match.
    /// Literal segments are compared byte for byte; a trailing slash is an empty last segment. The
    /// path is known to be plain ([`super::is_plain`]).
    pub fn captures<'p>(&'p self, path: &'p str) -> Option<Captures<'p>> {
        let mut captures = Captures { template: self, values: [""; limits::NAMES_PER_PATH] };
        let mut free = captures.values.iter_mut();
        self.walk(path, |value| free.next().map(|slot| *slot = value))?;
        Some(captures)
    }

    /// Returns whether [`PathTemplate::captures`] would match, without noting the values.
    pub fn fits(&self, path: &str) -> bool {
        self.walk(path, |_| Some(())).is_some()
    }

    /// Walks along a plain `path` and passes the value of each named segment to `named`.
    fn walk<'p>(&self, path: &'p str, mut named: impl FnMut(&'p str) -> Option<()>) -> Option<()> {
        let mut rest = path;
        for segment in &self.segments {
            rest = rest.strip_prefix('/')?;
            rest = match segment {
                // A slash or the end must follow; the next turn finds out if neither does.
                Segment::Literal(literal) => rest.strip_prefix(literal.as_str())?,
                Segment::Named(_) => {
                    let end = rest.bytes().position(|byte| byte == b'/').unwrap_or(rest.len());
                    let (value, after) = rest.split_at(end);
                    (!value.is_empty()).then(|| named(value))??;
                    after
                }
            };
        }
        rest.is_empty().then_some(())
    }

    /// Returns whether a path of these segments, none of them empty, matches if letter case, escapes and a
    /// trailing slash are ignored.
    pub fn matches_loosely(&self, segments: &[&str]) -> bool {
        let own =
            self.segments.iter().filter(|segment| !matches!(segment, Segment::Literal(text) if text.is_empty()));
        own.clone().count() == segments.len()
            && own.zip(segments).all(|(segment, found)| match segment {
                Segment::Literal(literal) => decoded(literal).eq_ignore_ascii_case(found),
                Segment::Named(_) => true,
            })
    }

    /// Returns whether a caller who asked for these segments may have meant this route: at most one segment
    /// more or less, and literal ones spelt alike.
    pub fn is_similar_to(&self, requested: &[&str]) -> bool {
        /// Least similarity of each literal, from 0 to 1: `context` and `contexts` are 0.88 alike.
        const LITERAL_SIMILARITY: f64 = 0.6;
        // From the front on: what is left out or added is mostly at the end.
        let mut literals = self.segments.iter().zip(requested).filter_map(|(segment, found)| match segment {
            Segment::Literal(literal) => Some((decoded(literal), *found)),
            Segment::Named(_) => None,
        });
        self.segments.len().abs_diff(requested.len()) <= 1
            // Or `/{a}/{b}` would be similar to everything.
            && self.segments.iter().any(|segment| matches!(segment, Segment::Literal(text) if !text.is_empty()))
            && literals.all(|(literal, found)| {
                strsim::normalized_damerau_levenshtein(&literal.to_lowercase(), &found.to_lowercase()) >= LITERAL_SIMILARITY
            })
    }

    /// Returns whether this template matches every path that `other` matches.
    pub fn covers(&self, other: &Self) -> bool {
        self.segments.len() == other.segments.len()
            && self.segments.iter().zip(&other.segments).all(|pair| match pair {
                (Segment::Named(_), Segment::Named(_)) => true,
                (Segment::Named(_), Segment::Literal(literal)) => !literal.is_empty(),
                (mine, theirs) => mine == theirs,
            })
    }

    /// Returns whether some path matches both this template and `other`.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.segments.len() == other.segments.len()
            && self.segments.iter().zip(&other.segments).all(|pair| match pair {
                (Segment::Literal(mine), Segment::Literal(theirs)) => mine == theirs,
                (Segment::Named(_), Segment::Literal(literal)) | (Segment::Literal(literal), Segment::Named(_)) => {
                    !literal.is_empty()
                }
                (Segment::Named(_), Segment::Named(_)) => true,
            })
    }
}

impl fmt::Display for PathTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
