//! What an announced key may hold besides the key that is meant: a prefix, a suffix, another letter case.
//!
//! Before it: [`super::apply`] met a key that nobody reads. After it: [`crate::telemetry::observed`] keeps the form, for a finding
//! that shows what to mend. Pure.

/// Parts of a key that are looked up, at most.
const PARTS: usize = 6;

/// A key that may be meant by an announced one, and how that one writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meant {
    pub(crate) key: String,
    pub(crate) form: String,
}

/// The keys that `announced` may mean, a few at most: what stands between separators, and other letter cases.
pub(crate) fn meant(announced: &str) -> impl Iterator<Item = Meant> {
    let separates = |letter: char| matches!(letter, ':' | '/' | '|' | ',' | ';' | '#' | '=' | '.' | ' ' | '"');
    let mut start = 0;
    let parts = announced.split_inclusive(separates).map(move |part| {
        let at = start;
        start += part.len();
        (at, part.trim_end_matches(separates))
    });
    let parts =
        parts.filter(move |(_, part)| !part.is_empty() && part.len() < announced.len()).map(move |(at, part)| {
            let (before, after) = (&announced[..at], &announced[at + part.len()..]);
            Meant { key: part.to_owned(), form: format!("as `{before}{{key}}{after}`") }
        });
    let cases = [announced.to_lowercase(), announced.to_uppercase()].into_iter().filter(move |key| key != announced);
    let cases = cases.map(|key| Meant { key, form: "in another letter case".to_owned() });
    cases.chain(parts).take(PARTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(announced: &str) -> Vec<(String, String)> {
        meant(announced).map(|it| (it.key, it.form)).collect()
    }

    #[test]
    fn a_key_is_looked_for_between_separators_and_in_another_case() {
        let pair = |key: &str, form: &str| (key.to_owned(), form.to_owned());
        assert_eq!(
            forms("context:acme"),
            [
                pair("CONTEXT:ACME", "in another letter case"),
                pair("context", "as `{key}:acme`"),
                pair("acme", "as `context:{key}`")
            ]
        );
        assert_eq!(forms("ACME"), [pair("acme", "in another letter case")]);
        assert!(forms("sku-1/en").contains(&pair("sku-1", "as `{key}/en`")));
        assert_eq!(forms("7"), []);
    }

    #[test]
    fn a_long_list_of_parts_is_cut() {
        assert_eq!(forms(&"a:".repeat(10_000)).len(), PARTS);
        assert_eq!(forms(""), []);
    }
}
