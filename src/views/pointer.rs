//! JSON Pointers (RFC 6901) into bodies that stay as they were written: what a pointer finds is a
//! piece of the body, byte for byte, so that every mapper makes the same view of it.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::value::RawValue;

use super::limits;
use crate::config::error::{ConfigProblem, quoted};

/// A parsed pointer: its tokens, without escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonPointer(Vec<String>);

/// A JSON object whose members can be pointed into.
pub(super) struct ParsedObject<'b> {
    whole: &'b RawValue,
    members: BTreeMap<String, &'b RawValue>,
}

impl<'b> ParsedObject<'b> {
    /// `None` if it is not a JSON object.
    pub(super) fn parse(body: &'b [u8]) -> Option<Self> {
        let whole: &RawValue = serde_json::from_slice(body).ok()?;
        Some(Self { whole, members: members(whole)? })
    }
}

fn members(raw: &RawValue) -> Option<BTreeMap<String, &RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

impl JsonPointer {
    /// Parses `/limits/users`; an empty text points to the whole document.
    ///
    /// # Errors
    /// Says what is wrong with the pointer and what to write instead.
    pub(super) fn parse(text: &str) -> Result<Self, ConfigProblem> {
        const INSTEAD: &str = "write a JSON Pointer, such as \"/limits/users\"";
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        if text.len() > limits::SOURCE_BYTES {
            return Err(ConfigProblem::new("a pointer that is too long", INSTEAD));
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err(ConfigProblem::new(format!("{} is no JSON Pointer", quoted(text)), INSTEAD));
        };
        rest.split('/').map(token).collect::<Option<_>>().map(Self).ok_or_else(|| {
            let what = format!("{} has a `~` that escapes nothing", quoted(text));
            ConfigProblem::new(what, "write `~0` for `~` and `~1` for `/` in a name")
        })
    }

    /// Value that it points to, if there is one.
    pub(super) fn find<'b>(&self, object: &ParsedObject<'b>) -> Option<&'b RawValue> {
        let Some((first, rest)) = self.0.split_first() else { return Some(object.whole) };
        rest.iter().try_fold(*object.members.get(first)?, |raw, token| step(raw, token))
    }
}

impl fmt::Display for JsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|token| write!(f, "/{}", token.replace('~', "~0").replace('/', "~1")))
    }
}

/// RFC 6901, section 4: `~1` is `/` and `~0` is `~`.
fn token(written: &str) -> Option<String> {
    let mut pieces = written.split('~');
    let mut token = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        token.push(match piece.as_bytes().first()? {
            b'0' => '~',
            b'1' => '/',
            _ => return None,
        });
        token.push_str(&piece[1..]);
    }
    Some(token)
}

fn step<'b>(raw: &'b RawValue, token: &str) -> Option<&'b RawValue> {
    if !raw.get().starts_with('[') {
        return members(raw)?.remove(token);
    }
    let is_index = token == "0" || (!token.starts_with('0') && token.bytes().all(|byte| byte.is_ascii_digit()));
    let at: usize = is_index.then(|| token.parse().ok())??;
    serde_json::from_str::<Vec<&RawValue>>(raw.get()).ok()?.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'b>(body: &'b str, pointer: &str) -> Option<&'b str> {
        let object = ParsedObject::parse(body.as_bytes()).unwrap();
        JsonPointer::parse(pointer).unwrap().find(&object).map(RawValue::get)
    }

    /// The examples of RFC 6901, section 5, and what they point to.
    #[test]
    fn pointer_follows_rfc_6901_examples() {
        let body = r#"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8}"#;
        for (pointer, expected) in [
            ("", Some(body)),
            ("/foo", Some(r#"["bar","baz"]"#)),
            ("/foo/0", Some("\"bar\"")),
            ("/", Some("0")),
            ("/a~1b", Some("1")),
            ("/c%d", Some("2")),
            ("/e^f", Some("3")),
            ("/g|h", Some("4")),
            ("/i\\j", Some("5")),
            ("/k\"l", Some("6")),
            ("/ ", Some("7")),
            ("/m~0n", Some("8")),
            ("/foo/2", None),
            ("/foo/00", None),
            ("/foo/-", None),
            ("/foo/", None),
            ("/foo/0/x", None),
            ("/none", None),
        ] {
            assert_eq!(found(body, pointer), expected, "{pointer}");
            assert_eq!(JsonPointer::parse(pointer).unwrap().to_string(), pointer);
        }
    }

    #[test]
    fn found_value_keeps_its_bytes() {
        assert_eq!(found("{ \"a\" : { \"b\" : [ 1.50 , 1e400 ] } }", "/a/b"), Some("[ 1.50 , 1e400 ]"));
        assert_eq!(found(r#"{"a":12345678901234567890123}"#, "/a"), Some("12345678901234567890123"));
        assert_eq!(found(r#"{"a":1,"\u0061":2}"#, "/a"), Some("2"), "of two members with a name the last counts");
    }

    #[test]
    fn malformed_pointer_is_refused() {
        for text in ["limits", "~1", "/~", "/a~2", "/a~", "#/a"] {
            assert!(JsonPointer::parse(text).is_err(), "{text}");
        }
        assert!(JsonPointer::parse(&format!("/{}", "x".repeat(2000))).is_err());
    }

    #[test]
    fn only_objects_can_be_pointed_into() {
        for body in ["", "5", "[1]", "\"x\"", "{", "{}x", "null"] {
            assert!(ParsedObject::parse(body.as_bytes()).is_none(), "{body}");
        }
        assert!(ParsedObject::parse(b" { } ").is_some());
    }
}
