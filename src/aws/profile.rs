//! Profile files as the SDKs read them (`~/.aws/config`, `~/.aws/credentials`), each line with its
//! place. The SDK itself drops a file with one wrong line, and its endpoint and region with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::error::{ConfigError, ConfigProblem, Place};

/// The properties of one section, by name.
pub(super) type Properties = BTreeMap<String, Property>;

/// A property's value and where it was written.
#[derive(Clone, Debug)]
pub(super) struct Property {
    pub(super) value: String,
    pub(super) place: Place,
    /// Lines `name = value` below one that has no value of its own.
    pub(super) inner: Properties,
}

/// The sections of a file, by their names as written (`default`, `profile x`, `services y`).
pub(super) type Sections = BTreeMap<String, Properties>;

/// A profile as the SDK makes it of the two files: what the credentials file says goes before what the
/// config file says. `None` if neither has it.
pub(super) fn merged(config: &Sections, credentials: &Sections, name: &str) -> Option<Properties> {
    let configured =
        config.get(&format!("profile {name}")).or_else(|| config.get(name).filter(|_| name == "default"));
    let credited = credentials.get(name);
    (configured.is_some() || credited.is_some()).then(|| {
        configured.into_iter().chain(credited).flatten().map(|(key, it)| (key.clone(), it.clone())).collect()
    })
}

/// Reads a file; what is no profile file is in `wrong`.
pub(super) fn read(file: &str, text: &str, wrong: &mut Vec<ConfigError>) -> Sections {
    let mut sections = Sections::new();
    let (mut section, mut last) = (None::<String>, None::<String>);
    let file: Arc<str> = file.into();
    for (index, line) in text.lines().enumerate() {
        let place = Place::At { file: file.clone(), line: index + 1, column: 1 };
        let content = line.trim_matches(SPACE);
        if content.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with('[') {
            last = None;
            section = name_of(line);
            match &section {
                Some(name) => drop(sections.entry(name.clone()).or_default()),
                None => refuse(
                    wrong,
                    &place,
                    "a section's line does not end with ]",
                    "write [default], or [profile NAME]",
                ),
            }
            continue;
        }
        let Some(properties) = section.as_ref().and_then(|name| sections.get_mut(name)) else {
            refuse(wrong, &place, "a line before any section", "write [default] above it");
            continue;
        };
        let pair = split(content);
        if line.starts_with(SPACE) {
            let outer = last.as_ref().and_then(|name| properties.get_mut(name));
            match (outer, pair) {
                (None, _) => {
                    refuse(wrong, &place, "an indented line below no property", "begin the line at its left margin")
                }
                (Some(outer), Some((name, value))) if outer.value.is_empty() => {
                    outer.inner.insert(name, Property { value, place, inner: Properties::new() });
                }
                (Some(outer), None) if outer.value.is_empty() => {
                    refuse(wrong, &place, "a line without =", "write NAME = VALUE")
                }
                (Some(outer), _) => outer.value = format!("{}\n{content}", outer.value),
            }
            continue;
        }
        match pair {
            Some((name, value)) => {
                last = Some(name.clone());
                properties.insert(name, Property { value, place, inner: Properties::new() });
            }
            None => refuse(
                wrong,
                &place,
                "a line without = or without a name",
                "write NAME = VALUE, or # before a comment",
            ),
        }
    }
    sections
}

fn refuse(wrong: &mut Vec<ConfigError>, place: &Place, what: &str, instead: &str) {
    wrong.push(ConfigError::new(place.clone(), "", ConfigProblem::new(what, instead)));
}

/// White space at the ends of lines, names and values; nothing else is.
const SPACE: [char; 2] = [' ', '\t'];

/// A section's name with single spaces; `None` if it has no end.
fn name_of(line: &str) -> Option<String> {
    let name = without_comment(line, false).strip_prefix('[')?.strip_suffix(']')?;
    Some(name.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Name and value of a line.
fn split(line: &str) -> Option<(String, String)> {
    let (name, value) = without_comment(line, true).split_once('=')?;
    let name = name.trim_matches(SPACE).to_ascii_lowercase();
    (!name.is_empty()).then(|| (name, value.trim_matches(SPACE).to_owned()))
}

/// A line up to its first `#` or `;`, which `after_space` has to have white space before it.
fn without_comment(line: &str, after_space: bool) -> &str {
    let line = line.trim_matches(SPACE);
    let mut is_after = !after_space;
    let end = line
        .char_indices()
        .find(|(_, letter)| {
            let begins = matches!(letter, '#' | ';') && is_after;
            is_after = !after_space || letter.is_whitespace();
            begins
        })
        .map_or(line.len(), |(at, _)| at);
    line[..end].trim_matches(SPACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_and_nested_properties_are_read() {
        let text = "# mine\n[ default ]\nregion = eu-west-1 # here\nservices=s\n[services s]\nsqs =\n  endpoint_url = http://a\n";
        let mut wrong = Vec::new();
        let sections = read("f", text, &mut wrong);
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!(sections["default"]["region"].value, "eu-west-1");
        assert_eq!(sections["services s"]["sqs"].inner["endpoint_url"].value, "http://a");
        assert_eq!(sections["services s"]["sqs"].inner["endpoint_url"].place.to_string(), "f:7:1");
    }

    #[test]
    fn comment_begins_after_white_space() {
        for (line, value) in [
            ("a = b # c ; d", Some("b")),
            ("a = b ; c # d", Some("b")),
            ("a = b\t# c", Some("b")),
            ("a = b\t;c", Some("b")),
            ("a = b#c;d", Some("b#c;d")),
            ("a = # b", Some("")),
            ("a = https://h/#x #y", Some("https://h/#x")),
            ("a # = b", None),
            ("# a = b", Some("b")),
        ] {
            assert_eq!(split(line).map(|(_, value)| value).as_deref(), value, "{line:?}");
        }
        for (line, name) in [
            ("[default]# c", Some("default")),
            ("[ profile  x ] ; c", Some("profile x")),
            ("[default] c", None),
            ("[a#b]", None),
        ] {
            assert_eq!(name_of(line).as_deref(), name, "{line}");
        }
    }

    #[test]
    fn malformed_lines_report_their_position() {
        let text = "region = x\n[default\n[default]\n  a = b\nnothing\n= x\n";
        let mut wrong = Vec::new();
        read("f", text, &mut wrong);
        let places: Vec<_> = wrong.iter().map(|it| it.place.to_string()).collect();
        assert_eq!(places, ["f:1:1", "f:2:1", "f:4:1", "f:5:1", "f:6:1"], "{wrong:?}");
    }
}
