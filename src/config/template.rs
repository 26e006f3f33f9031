//! The templates of a route: the path that it answers to, and the records that such a path shows.
//! [`crate::core::router`] matches paths with them.
//!
//! One path leads to one key per record. A path that a region might read differently (dot segments,
//! encoded or not, or a broken escape) leads to none.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode_str;

use super::{PathTemplate, RecordTemplate, Segment};
use crate::config::error::{ConfigProblem, nearest, quoted};
use crate::config::limits;

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

/// `value` without its percent-encoding; [`is_plain`] made sure that this is UTF-8.
fn decoded(value: &str) -> Cow<'_, str> {
    percent_decode_str(value).decode_utf8_lossy()
}

impl PathTemplate {
    /// Parses `/v1/contexts/{key}/{view}`.
    ///
    /// # Errors
    /// Says what is wrong with the template and what to write instead.
    pub fn parse(text: &str) -> Result<Self, ConfigProblem> {
        let Some(rest) = text.strip_prefix('/') else {
            let instead = "begin with a `/`, such as \"/v1/contexts/{key}\"";
            return Err(ConfigProblem::new(format!("{} is not a path", quoted(text)), instead));
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
        let known = |name: &str| self.names().any(|own| own == name);
        let mut missing = self.names().filter(|name| !batch.names().any(|named| named == *name));
        missing.next().filter(|_| missing.next().is_none() && batch.names().all(known))
    }

    /// The path in which each named segment has the value that `value` gives, which is written as
    /// in a path.
    pub fn filled<'v>(&self, value: impl Fn(&str) -> &'v str) -> String {
        let text = |segment: &Segment| match segment {
            Segment::Literal(literal) => format!("/{literal}"),
            Segment::Named(name) => format!("/{}", value(name)),
        };
        self.segments.iter().map(text).collect()
    }

    /// The values of the named segments in `path` (no query), or `None` if it does not match.
    /// Literal segments are compared byte for byte; a trailing slash is an empty last segment. The
    /// path is known to be plain ([`is_plain`]).
    pub fn captures<'p>(&'p self, path: &'p str) -> Option<Captures<'p>> {
        let mut captures = Captures { template: self, values: [""; limits::NAMES_PER_PATH] };
        let mut free = captures.values.iter_mut();
        self.walk(path, |value| free.next().map(|place| *place = value))?;
        Some(captures)
    }

    /// Whether [`PathTemplate::captures`] would match, without noting the values.
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

    /// Whether a path of these segments, none of them empty, matches if letter case, escapes and a
    /// trailing slash are ignored.
    pub fn is_like(&self, segments: &[&str]) -> bool {
        let own =
            self.segments.iter().filter(|segment| !matches!(segment, Segment::Literal(text) if text.is_empty()));
        own.clone().count() == segments.len()
            && own.zip(segments).all(|(segment, found)| match segment {
                Segment::Literal(literal) => decoded(literal).eq_ignore_ascii_case(found),
                Segment::Named(_) => true,
            })
    }

    /// Whether a path of these segments may have been meant: at most one segment more or less, and
    /// literal ones spelt alike.
    pub fn resembles(&self, segments: &[&str]) -> bool {
        /// From 0 to 1: `context` and `contexts` are 0.88 alike.
        const ALIKE: f64 = 0.6;
        let mut literals = self.segments.iter().zip(segments).filter_map(|(segment, found)| match segment {
            Segment::Literal(literal) => Some((decoded(literal), *found)),
            Segment::Named(_) => None,
        });
        let alike = |(literal, found): (std::borrow::Cow<'_, str>, &str)| {
            strsim::normalized_damerau_levenshtein(&literal.to_lowercase(), &found.to_lowercase()) >= ALIKE
        };
        self.segments.len().abs_diff(segments.len()) <= 1
            && self.segments.iter().any(|segment| matches!(segment, Segment::Literal(text) if !text.is_empty()))
            && literals.all(alike)
    }

    /// Whether this template matches every path that `other` matches.
    pub fn covers(&self, other: &Self) -> bool {
        self.segments.len() == other.segments.len()
            && self.segments.iter().zip(&other.segments).all(|pair| match pair {
                (Segment::Named(_), Segment::Named(_)) => true,
                (Segment::Named(_), Segment::Literal(literal)) => !literal.is_empty(),
                (mine, theirs) => mine == theirs,
            })
    }

    /// Whether some path matches both this template and `other`.
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

/// One segment of a path template: `{name}` or literal text, never both.
fn segment(written: &str) -> Result<Segment, ConfigProblem> {
    if let Some(name) = written.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        return named(name);
    }
    if written.contains(['{', '}']) {
        let instead = "let a name be the whole segment, such as \"/v1/contexts/{key}\"";
        return Err(ConfigProblem::new(format!("{} mixes a name and text", quoted(written)), instead));
    }
    if let Some(stray) = written.chars().find(|char| !is_path_char(*char)) {
        let instead = match stray {
            '?' | '#' => "leave the query out: it is part of every key by itself",
            _ => "write it percent-encoded, as it stands in a request",
        };
        return Err(ConfigProblem::new(format!("{} in a path", quoted(&stray.to_string())), instead));
    }
    if !escapes_are_plain(written) || is_dots(written) {
        let what = format!("{} matches no path", quoted(written));
        return Err(ConfigProblem::new(what, "write a segment without dot segments and broken escapes"));
    }
    Ok(Segment::Literal(written.to_owned()))
}

fn named(name: &str) -> Result<Segment, ConfigProblem> {
    let shaped = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.len() <= 64
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if shaped {
        return Ok(Segment::Named(name.to_owned()));
    }
    Err(ConfigProblem::new(format!("{} is not a name", quoted(name)), "write letters, digits and `_`, such as {key}"))
}

/// RFC 3986 section 3.3: what a segment may hold unescaped, and the `%` of an escape.
fn is_path_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@%".contains(char)
}

/// Whether everyone who reads `path` takes it for the same one. It must have no dot segment (RFC
/// 3986 section 5.2.4), raw or encoded, nor one that shows only when `%2F` or `%5C` is decoded, and
/// no escape that is broken or not UTF-8.
pub fn is_plain(path: &str) -> bool {
    if !path.bytes().any(|byte| matches!(byte, b'%' | b'.' | b'\\')) {
        return true;
    }
    // A dot segment begins with a dot; dots elsewhere are common in keys.
    let is_suspect = path.contains(['%', '\\']) || path.starts_with('.') || path.contains("/.");
    !is_suspect || path.split('/').all(|segment| !is_dots(segment) && escapes_are_plain(segment))
}

fn is_dots(segment: &str) -> bool {
    segment.split('\\').any(|part| part == "." || part == "..")
}

/// Whether the escapes of one segment are complete, decode to UTF-8, and hide no dot segment.
fn escapes_are_plain(segment: &str) -> bool {
    let hides_dots = |text: Cow<'_, str>| text.split(['/', '\\']).any(|part| part == "." || part == "..");
    !segment.contains('%') || unescaped(segment).is_some_and(|text| !hides_dots(text))
}

/// `text` without its percent-encoding; `None` if an escape is broken or is no UTF-8.
pub fn unescaped(text: &str) -> Option<Cow<'_, str>> {
    let is_whole = |after: &str| after.len() >= 2 && after.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit);
    if !text.split('%').skip(1).all(is_whole) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok()
}

impl RecordTemplate {
    /// Parses `context:{key}`: a record type, a colon, and a key of names and text.
    ///
    /// # Errors
    /// Says what is wrong with the template and what to write instead.
    pub fn parse(text: &str) -> Result<Self, ConfigProblem> {
        const INSTEAD: &str = "write a record type, a colon and a key, such as \"context:{key}\"";
        let Some((record_type, key)) = text.split_once(':') else {
            return Err(ConfigProblem::new(format!("{} has no record type", quoted(text)), INSTEAD));
        };
        let shaped = (1..=128).contains(&record_type.len())
            && record_type.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if !shaped {
            return Err(ConfigProblem::new(format!("{} is not a record type", quoted(record_type)), INSTEAD));
        }
        let key = key_parts(key)?;
        if key.is_empty() {
            return Err(ConfigProblem::new(format!("{} has no key", quoted(text)), INSTEAD));
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
        let text = |part: &Segment| match part {
            Segment::Literal(text) => text.clone(),
            Segment::Named(name) => format!("{{{name}}}"),
        };
        self.key.iter().map(text).collect()
    }

    /// The ASCII punctuation of the template's own text, which every key of it has.
    pub fn punctuation(&self) -> impl Iterator<Item = char> {
        let literals = self.key.iter().filter_map(|part| match part {
            Segment::Literal(text) => Some(text.as_str()),
            Segment::Named(_) => None,
        });
        literals.flat_map(str::chars).filter(char::is_ascii_punctuation)
    }

    /// How many bytes of its key are the template's own text.
    pub fn literal_bytes(&self) -> usize {
        let literal = |part: &Segment| if let Segment::Literal(text) = part { text.len() } else { 0 };
        self.key.iter().map(literal).sum()
    }

    /// Checks that `path` has every name of the key.
    pub(super) fn check_against(&self, path: &PathTemplate) -> Result<(), ConfigProblem> {
        let Some(missing) = self.names().find(|name| !path.names().any(|known| known == *name)) else {
            return Ok(());
        };
        // How other routers write names.
        let elsewhere = [format!(":{missing}"), format!("<{missing}>")];
        let colon = path.text.split('/').find(|segment| elsewhere.iter().any(|name| name == segment));
        let instead = match (colon, nearest(missing, path.names())) {
            (Some(segment), _) => format!("write `{{{missing}}}` for `{segment}` in the path"),
            (None, Some(known)) => format!("did you mean `{{{known}}}`?"),
            (None, None) => "use a name that stands in the path".to_owned(),
        };
        Err(ConfigProblem::new(format!("`{{{missing}}}` does not stand in the path {}", quoted(&path.text)), instead))
    }
}

impl fmt::Display for RecordTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.record_type, self.key_text())
    }
}

/// Splits `{tenant}/{id}` into its parts.
fn key_parts(mut text: &str) -> Result<Vec<Segment>, ConfigProblem> {
    const INSTEAD: &str = "write names between braces with text around them, such as \"context:{tenant}/{id}\"";
    let mut parts = Vec::new();
    while !text.is_empty() {
        let (part, rest) = match text.strip_prefix('{') {
            Some(inner) => {
                let (name, rest) =
                    inner.split_once('}').ok_or_else(|| ConfigProblem::new("a brace without its end", INSTEAD))?;
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
            return Err(ConfigProblem::new(what, INSTEAD));
        }
        parts.push(part);
        text = rest;
    }
    Ok(parts)
}

#[cfg(test)]
mod tests;
