//! Segments of templates: names and literal text.

use super::escapes::{escapes_are_plain, is_dots};
use crate::config::error::{ConfigProblem, quoted};

/// One segment of a path template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Must match byte for byte.
    Literal(String),
    /// Any one non-empty segment, under this name.
    Named(String),
}

/// One segment of a path template: `{name}` or literal text, never both.
pub(super) fn segment(written: &str) -> Result<Segment, ConfigProblem> {
    if let Some(name) = written.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        return named(name);
    }
    if written.contains(['{', '}']) {
        let suggestion = "let a name be the whole segment, such as \"/v1/contexts/{key}\"";
        return Err(ConfigProblem::new(format!("{} mixes a name and text", quoted(written)), suggestion));
    }
    if let Some(stray) = written.chars().find(|char| !is_path_char(*char)) {
        let suggestion = match stray {
            '?' | '#' => "leave the query out: it is part of every key by itself",
            _ => "write it percent-encoded, as it stands in a request",
        };
        return Err(ConfigProblem::new(format!("{} in a path", quoted(&stray.to_string())), suggestion));
    }
    if !escapes_are_plain(written) || is_dots(written) {
        let what = format!("{} matches no path", quoted(written));
        return Err(ConfigProblem::new(what, "write a segment without dot segments and broken escapes"));
    }
    Ok(Segment::Literal(written.to_owned()))
}

pub(super) fn named(name: &str) -> Result<Segment, ConfigProblem> {
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
