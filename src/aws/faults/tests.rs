//! The table against what AWS documents.

use std::collections::BTreeSet;

use super::*;

/// Codes that AWS's references document, service by service: the error types of each API (as its
/// SDK's error types have them, and the code on the wire where it differs), and the errors common to
/// all.
const DOCUMENTED: &str = include_str!("documented.txt");

fn documented() -> impl Iterator<Item = (&'static str, &'static str)> {
    DOCUMENTED.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).flat_map(|line| {
        let (service, codes) = line.split_once(": ").expect("SERVICE: CODES");
        codes.split_whitespace().map(move |code| (service, code))
    })
}

#[test]
fn every_documented_code_has_a_row() {
    let missing: Vec<_> = documented().filter(|(_, code)| find(code).is_none()).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(documented().count() > 200, "{}", documented().count());
}

#[test]
fn each_code_stands_in_one_row() {
    let mut seen = BTreeSet::new();
    for code in TABLE.iter().flat_map(|row| row.codes) {
        assert!(seen.insert(code), "{code} stands twice");
        assert_eq!(bare(code), *code, "{code} is never looked for");
    }
}

/// A row of the table in `docs/operations.md`.
fn as_markdown(row: &FaultRow) -> String {
    let codes: Vec<_> = row.codes.iter().map(|code| format!("`{code}`")).collect();
    let wait = match row.least_wait.as_secs() {
        0 => "usual".to_owned(),
        seconds => format!("at least {seconds} s"),
    };
    format!("| {} | {} | {wait} | {} |", codes.join(", "), row.meaning.into_str(), row.advice)
}

#[test]
fn operations_page_shows_the_whole_table() {
    let page = include_str!("../../../docs/operations.md");
    let missing: Vec<_> = TABLE.iter().map(as_markdown).filter(|row| !page.contains(row)).collect();
    assert!(missing.is_empty(), "put these into docs/operations.md:\n{}", missing.join("\n"));
}
