//! Rules for the names of record types, views and keys. They become parts of paths, of table keys
//! and of announcements, and are the same in all of them.

/// The longest name of a record type or a view, in bytes.
pub const NAME_BYTES: usize = 64;
/// The longest key, in bytes. With a view's name it fits into a sort key.
pub const KEY_BYTES: usize = 512;

/// True if it can be the name of a record type or a view: a lower-case letter, then letters,
/// digits, `-` and `_`.
pub fn is_name(name: &str) -> bool {
    name.len() <= NAME_BYTES
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_'))
}

/// Why a text cannot be a key; `None` if it can. In a path a key is one segment, percent-encoded.
pub fn key_problem(key: &str) -> Option<&'static str> {
    match key {
        "" => Some("a key must not be empty"),
        // Clients take these two out of a path, encoded or not.
        "." | ".." => Some("a key must not be . or .."),
        _ if key.len() > KEY_BYTES => Some("a key must not be longer than 512 bytes"),
        _ if key.chars().any(char::is_control) => Some("a key must not hold control characters"),
        // SQS refuses some of them in a message, so such a key could not be announced.
        _ if key.chars().any(is_noncharacter) => {
            Some("a key must not hold what Unicode keeps from being a character, such as U+FFFE")
        }
        _ => None,
    }
}

/// Unicode's own word: code points that are never assigned, such as U+FFFE and U+FFFF.
fn is_noncharacter(character: char) -> bool {
    let code = u32::from(character);
    code & 0xFFFE == 0xFFFE || (0xFDD0..=0xFDEF).contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_into_paths_and_partitions() {
        for name in ["tenant", "t", "site-2_a", &"x".repeat(64)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "Tenant", "2x", "-a", "a#b", "a b", "a/b", "ä", &"x".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn odd_keys_pass_invisible_keys_fail() {
        for key in ["acme", "a/b", "a#b:c%2F", "ä 🦀", "...", &"k".repeat(512)] {
            assert_eq!(key_problem(key), None, "{key}");
        }
        for key in ["", ".", "..", "a\nb", "\u{0}", "\u{85}", &"k".repeat(513)] {
            assert!(key_problem(key).is_some(), "{key:?}");
        }
    }

    /// A message of SQS holds what XML 1.0 calls characters, and a key goes into announcements.
    #[test]
    fn every_key_can_be_announced() {
        for character in '\0'..=char::MAX {
            let is_key = key_problem(&format!("a{character}")).is_none();
            let code = u32::from(character);
            let fits = matches!(code, 0x9 | 0xA | 0xD | 0x20..=0xD7FF | 0xE000..=0xFFFD | 0x10000..=0x10FFFF);
            assert!(!is_key || fits, "{character:?}");
        }
        for odd in ["a\u{FFFE}", "\u{FFFF}", "\u{FDD0}", "\u{FDEF}", "\u{1FFFE}", "\u{10FFFF}"] {
            assert!(key_problem(odd).is_some_and(|problem| problem.contains("Unicode")), "{odd:?}");
        }
        assert_eq!(key_problem("\u{FFFD}\u{FDCF}\u{FDF0}\u{E000}"), None);
    }
}
