//! Additions of an announced key to the key that is meant: a prefix, a suffix, another letter case.
//! [`super::apply`] asks for keys that nobody reads, and [`crate::telemetry::observed`] keeps the
//! spelling for a finding that says what to fix. Pure.

use std::borrow::Cow;

use crate::protocol::wiring::KeySpelling;

/// Most keys that are looked up for one that nobody reads.
const LOOKUPS: usize = 24;

/// A key that an announced one may mean, and what surrounds it there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meant<'a> {
    pub(crate) key: Cow<'a, str>,
    /// The text before it and after it; `None` when only the letter case differs.
    around: Option<(&'a str, &'a str)>,
}

impl Meant<'_> {
    pub(crate) fn kind(&self) -> KeySpelling {
        if self.around.is_some() { KeySpelling::Around } else { KeySpelling::LetterCase }
    }

    pub(crate) fn spelling(&self) -> String {
        match self.around {
            Some((before, after)) => format!("as `{before}{{key}}{after}`"),
            None => "in another letter case".to_owned(),
        }
    }
}

/// The keys that `announced` may mean, a few at most: other letter cases, and the text between
/// separators.
pub(crate) fn meant(announced: &str) -> impl Iterator<Item = Meant<'_>> {
    let cases = [announced.to_lowercase(), announced.to_uppercase()].into_iter().filter(move |key| key != announced);
    let cases = cases.map(|key| Meant { key: Cow::Owned(key), around: None });
    cases.chain(inside(announced)).take(LOOKUPS)
}

/// Every text in `announced` from the beginning of one part to the end of another: a key may itself
/// have several parts.
fn inside(announced: &str) -> impl Iterator<Item = Meant<'_>> {
    let parts = parts(announced);
    let count = parts.len();
    // How many parts are left out in front and behind: none (only separators at the ends), some at
    // one end, some at both.
    let none = (0..count.min(1)).map(|_| (0, 0));
    let at_one_end = (1..count).flat_map(|out| [(out, 0), (0, out)]);
    let at_both = (2..count).flat_map(|out| (1..out).map(move |front| (front, out - front)));
    none.chain(at_one_end).chain(at_both).filter_map(move |(front, back)| {
        let (from, to) = (parts[front].0, parts[count - 1 - back].1);
        let around = (&announced[..from], &announced[to..]);
        let key = &announced[from..to];
        (key.len() < announced.len()).then_some(Meant { key: Cow::Borrowed(key), around: Some(around) })
    })
}

/// Start and end of each non-empty part.
fn parts(announced: &str) -> Vec<(usize, usize)> {
    let mut next = 0;
    let parts = announced.split_inclusive(separates).map(|part| {
        let from = next;
        next += part.len();
        (from, from + part.trim_end_matches(separates).len())
    });
    parts.filter(|(from, to)| from < to).collect()
}

fn separates(letter: char) -> bool {
    matches!(letter, ':' | '/' | '|' | ',' | ';' | '#' | '=' | '.' | ' ' | '"')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spellings(announced: &str) -> Vec<(String, String)> {
        meant(announced).map(|it| (it.key.to_string(), it.spelling())).collect()
    }

    fn pair(key: &str, spelling: &str) -> (String, String) {
        (key.to_owned(), spelling.to_owned())
    }

    #[test]
    fn matches_key_by_separator_and_case() {
        assert_eq!(
            spellings("context:acme"),
            [
                pair("CONTEXT:ACME", "in another letter case"),
                pair("acme", "as `context:{key}`"),
                pair("context", "as `{key}:acme`")
            ]
        );
        assert_eq!(spellings("ACME"), [pair("acme", "in another letter case")]);
        assert!(spellings("sku-1/en").contains(&pair("sku-1", "as `{key}/en`")));
        assert_eq!(spellings("7"), []);
    }

    #[test]
    fn matches_key_of_several_parts() {
        let found = spellings("meter:oslo/7");
        for (key, spelling) in [
            ("oslo/7", "as `meter:{key}`"),
            ("meter:oslo", "as `{key}/7`"),
            ("7", "as `meter:oslo/{key}`"),
            ("oslo", "as `meter:{key}/7`"),
        ] {
            assert!(found.contains(&pair(key, spelling)), "{key}: {found:?}");
        }
        assert!(spellings("/oslo/7").contains(&pair("oslo/7", "as `/{key}`")));
        assert!(spellings("\"oslo/7\"").contains(&pair("oslo/7", "as `\"{key}\"`")));
        assert!(spellings("eu/meter:oslo/7:v2").contains(&pair("oslo/7", "as `eu/meter:{key}:v2`")));
        let address = spellings("https://api.example.com/v1/sites/oslo/7");
        assert!(address.contains(&pair("oslo/7", "as `https://api.example.com/v1/sites/{key}`")), "{address:?}");
    }

    #[test]
    fn long_part_list_is_cut() {
        assert_eq!(spellings(&"a:".repeat(10_000)).len(), LOOKUPS);
        assert_eq!(spellings(""), []);
        assert_eq!(spellings("::"), []);
    }
}
