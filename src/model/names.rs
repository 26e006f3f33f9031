//! What record types, views and keys may be called. They become parts of paths, of table keys and
//! of announcements, and are the same in all of them.

/// The longest name of a record type or a view, in bytes.
pub const NAME_BYTES: usize = 64;
/// The longest key, in bytes. With a view's name it fits into a sort key.
pub const KEY_BYTES: usize = 512;

/// Whether it can be the name of a record type or a view: a lower-case letter, then letters,
/// digits, `-` and `_`.
pub fn is_name(name: &str) -> bool {
    let rest = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    name.len() <= NAME_BYTES && name.starts_with(|first: char| first.is_ascii_lowercase()) && name.bytes().all(rest)
}

/// Why a text cannot be a key; `None` if it can. In a path a key is one segment, percent-encoded.
pub fn key_problem(key: &str) -> Option<&'static str> {
    match key {
        "" => Some("a key must not be empty"),
        // Clients take these two out of a path, encoded or not.
        "." | ".." => Some("a key must not be . or .."),
        _ if key.len() > KEY_BYTES => Some("a key must not be longer than 512 bytes"),
        _ if key.chars().any(char::is_control) => Some("a key must not hold control characters"),
        _ => None,
    }
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
    fn keys_may_be_odd_but_not_invisible() {
        for key in ["acme", "a/b", "a#b:c%2F", "ä 🦀", "...", &"k".repeat(512)] {
            assert_eq!(key_problem(key), None, "{key}");
        }
        for key in ["", ".", "..", "a\nb", "\u{0}", "\u{85}", &"k".repeat(513)] {
            assert!(key_problem(key).is_some(), "{key:?}");
        }
    }
}
