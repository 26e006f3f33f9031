//! Differences of two JSON values, by JSON Pointer (RFC 6901), fit for a terminal.

use serde_json::{Map, Value};

use crate::model::identities::is_unprintable;

/// The text on one line: what a terminal would obey, or not show, is written as its number.
pub(in crate::cli) fn printable(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\u{2028}' | '\u{2029}' => line.extend(char.escape_unicode()),
            _ if is_unprintable(char) => line.extend(char.escape_unicode()),
            _ => line.push(char),
        }
    }
    line
}

/// Lines that say what differs: `+` for what is new, `-` for what is gone, `~` for what has another value. Arrays
/// are compared whole. `null` is the absence of a record.
pub(super) fn differences(before: &Value, after: &Value) -> Vec<String> {
    let absent = Map::new();
    let mut lines = Vec::new();
    let (before, after) = (before.as_object().unwrap_or(&absent), after.as_object().unwrap_or(&absent));
    compare("", before, after, &mut lines);
    lines.iter().map(|line| printable(line)).collect()
}

/// No deeper than the catalogue takes a body.
fn compare(at: &str, before: &Map<String, Value>, after: &Map<String, Value>, lines: &mut Vec<String>) {
    for (name, was) in before {
        let pointer = pointer(at, name);
        match (was, after.get(name)) {
            (_, None) => lines.push(format!("- {pointer} {was}")),
            (Value::Object(was), Some(Value::Object(is))) => compare(&pointer, was, is, lines),
            (was, Some(is)) if was == is => {}
            (was, Some(is)) => lines.push(format!("~ {pointer} {was} -> {is}")),
        }
    }
    let new = after.iter().filter(|(name, _)| !before.contains_key(*name));
    lines.extend(new.map(|(name, is)| format!("+ {} {is}", pointer(at, name))));
}

/// The pointer of a member. Blanks are escaped as in a URI (RFC 6901, section 6), or what follows would look like a
/// value.
fn pointer(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1").replace(' ', "%20"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_have_their_place() {
        let before = json!({"a/b": 1, "gone": [1], "same": {"x": 1}, "deep": {"y": {"z": "old", "w": 1}}});
        let after = json!({"a/b": 2, "same": {"x": 1}, "deep": {"y": {"z": "new", "w": 1}}, "new": {"n~": null}});
        let expected = ["~ /a~1b 1 -> 2", "~ /deep/y/z \"old\" -> \"new\"", "- /gone [1]", "+ /new {\"n~\":null}"];
        assert_eq!(differences(&before, &after), expected);
        assert_eq!(differences(&Value::Null, &json!({"a": 1})), ["+ /a 1"]);
        assert_eq!(differences(&json!({"a": 1}), &Value::Null), ["- /a 1"]);
        assert_eq!(differences(&before, &before), [""; 0]);
        let forged = json!({"a\n7  2027  admin": "\u{1b}[2J\u{9b}\u{202e}"});
        assert_eq!(
            differences(&Value::Null, &forged),
            ["+ /a\\u{a}7%20%202027%20%20admin \"\\u001b[2J\\u{9b}\\u{202e}\""]
        );
        assert_eq!(differences(&json!({"a": {"b": 1}}), &json!({"a": [1]})), ["~ /a {\"b\":1} -> [1]"]);
    }
}
