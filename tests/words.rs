//! The language of the house, counted: `make words` prints the figures. The whole list of words is
//! docs/decisions/0036-the-words.md.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Folders of the counted files.
const FOLDERS: [&str; 6] = ["src", "lab", "tests", "benches", "fuzz", "docs"];

/// Words that stand for something which has a name in the field; a word of several parts joined by
/// `_` is found in identifiers, anything else also in prose.
const DENIED: [&str; 9] =
    ["told", "ledger", "mistake", "keyring", "door", "dressed", "passed_over", "patience", "whoever"];

/// Pieces of code that hide what a number counts.
const DENIED_CODE: [&str; 1] = ["place: usize"];

/// Beginnings of doc comments that answer an indirect question where a noun phrase or a verb says
/// what the item is.
const INDIRECT: [&str; 9] = ["What", "How", "Whether", "Where", "When", "Of", "In", "By", "The same"];

/// The page that lists the denied words, and this file.
const LISTS: [&str; 2] = ["tests/words.rs", "docs/decisions/0036-the-words.md"];

fn files() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut todo: Vec<PathBuf> = FOLDERS.iter().map(|folder| root.join(folder)).filter(|it| it.is_dir()).collect();
    let mut files = BTreeMap::new();
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of the project") {
            let path = entry.expect("an entry of it").path();
            let skipped = ["target", "corpus", "node_modules"].iter().any(|it| path.ends_with(it));
            if path.is_dir() && !skipped {
                todo.push(path);
            } else if path.extension().is_some_and(|it| it == "rs" || it == "md") {
                let name = path.strip_prefix(root).expect("it lies below").display().to_string();
                files.insert(name, std::fs::read_to_string(&path).expect("prose is text"));
            }
        }
    }
    files
}

/// First lines of doc comments, without their slashes.
fn doc_comments(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut in_comment = false;
    for line in text.lines().map(str::trim_start) {
        let comment = ["/// ", "//! "].iter().find_map(|slashes| line.strip_prefix(slashes));
        found.extend(comment.filter(|_| !in_comment));
        in_comment = line.starts_with("///") || line.starts_with("//!");
    }
    found
}

fn is_indirect(comment: &str) -> bool {
    INDIRECT.iter().any(|word| comment.strip_prefix(word).is_some_and(|rest| rest.starts_with([' ', ',', ':', ';'])))
}

/// True if `line` gives a closure a name: `let name = |`.
fn names_a_closure(line: &str) -> bool {
    let Some((_, rest)) = line.split_once("let ") else { return false };
    let Some((name, value)) = rest.split_once(" = ") else { return false };
    let name = name.strip_prefix("mut ").unwrap_or(name);
    let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let value = ["async ", "move "].iter().fold(value, |value, word| value.strip_prefix(word).unwrap_or(value));
    is_name && value.starts_with('|')
}

/// Names of the functions that follow a `#[test]`.
fn test_names(text: &str) -> Vec<&str> {
    let (mut found, mut is_test) = (Vec::new(), false);
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test && !line.starts_with("//")) {
            found.extend(rest.split('(').next());
            is_test = false;
        }
    }
    found
}

/// Words of `line`: identifiers are split at `_` and before capitals, and a plural is its singular.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in line.chars() {
        if !c.is_ascii_alphabetic() || c.is_ascii_uppercase() && was_lower {
            words.push(String::new());
        }
        was_lower = c.is_ascii_lowercase();
        if c.is_ascii_alphabetic() {
            words.last_mut().expect("it begins with one").push(c.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Denied words in `line`.
fn denied(line: &str) -> Vec<&'static str> {
    let words = words(line);
    let in_prose = DENIED.iter().filter(|word| {
        if word.contains('_') {
            line.contains(**word)
        } else {
            words.iter().any(|it| it == *word || it.strip_suffix('s') == Some(word))
        }
    });
    in_prose.chain(DENIED_CODE.iter().filter(|code| line.contains(**code))).copied().collect()
}

#[test]
fn doc_comments_begin_with_a_name_or_verb() {
    let files = files();
    let comments: Vec<_> = files.values().flat_map(|text| doc_comments(text)).collect();
    let indirect = comments.iter().filter(|comment| is_indirect(comment)).count();
    println!("doc comments: {indirect} of {} are indirect questions", comments.len());
    assert!(comments.len() > 4000, "this reads the crate");
    assert!(indirect * 1000 <= comments.len() * INDIRECT_PER_MILLE, "{indirect} of {}", comments.len());
    assert_eq!(doc_comments("/// How it\n/// is.\nfn a() {}\n//! Bound\n"), ["How it", "Bound"]);
    assert!(
        is_indirect("How it is.") && is_indirect("The same of") && !is_indirect("However") && !is_indirect("Bound")
    );
}

#[test]
fn few_closures_have_names() {
    let files = files();
    let code = files.iter().filter(|(name, _)| name.ends_with(".rs"));
    let lines: Vec<_> = code.flat_map(|(_, text)| text.lines()).collect();
    let named = lines.iter().filter(|line| names_a_closure(line)).count();
    println!("named closures: {named} in {} lines", lines.len());
    assert!(lines.len() > 100_000, "this reads the crate");
    assert!(named * 10_000 <= lines.len() * CLOSURES_PER_10_000, "{named} in {} lines", lines.len());
    assert!(names_a_closure("    let at = move |it: u8| it;") && names_a_closure("let mut f = || {"));
    assert!(!names_a_closure("let sum = a | b;") && !names_a_closure("it.map(|it| it)"));
}

#[test]
fn test_names_are_short() {
    let files = files();
    let mut counts: Vec<_> =
        files.values().flat_map(|text| test_names(text)).map(|name| name.split('_').count()).collect();
    counts.sort_unstable();
    let median = counts[counts.len() / 2];
    println!("test names: {} with {median} words in the median", counts.len());
    assert!(counts.len() > 2000, "this reads the tests");
    assert!(median <= WORDS_IN_A_TEST_NAME);
    assert_eq!(test_names("#[test]\n#[cfg(unix)]\nfn is_read() {}\nfn other() {}\n"), ["is_read"]);
}

#[test]
fn no_denied_word_is_used() {
    let files = files();
    let mut found = Vec::new();
    for (name, text) in files.iter().filter(|(name, _)| !LISTS.contains(&name.as_str())) {
        for (number, line) in text.lines().enumerate() {
            found.extend(denied(line).into_iter().map(|word| format!("{name}:{}: {word}", number + 1)));
        }
    }
    println!("denied words: {}", found.len());
    assert!(found.is_empty(), "{} denied words:\n{}", found.len(), found.join("\n"));
    assert_eq!(denied("let told_at = Mistakes::default(); // the door"), ["told", "mistake", "door"]);
    assert_eq!(denied("fn at(place: usize) // outdoors, doorway"), ["place: usize"]);
}

/// Lines of prose in a page that are longer than `WIDTH` and could be broken.
fn wide_lines(page: &str) -> Vec<usize> {
    let mut in_code = false;
    let mut wide = Vec::new();
    for (number, line) in page.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        let is_prose = !in_code && !line.trim_start().starts_with(['|', '#', '`', '!', '$', '<']);
        if is_prose && line.chars().count() > WIDTH {
            wide.push(number + 1);
        }
    }
    wide
}

#[test]
fn documents_are_wrapped() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .map(|name| (name.to_owned(), std::fs::read_to_string(root.join(name)).expect("a page of the project")));
    let mut wide = Vec::new();
    for (name, page) in files().into_iter().chain(named.clone()).filter(|(name, _)| name.ends_with(".md")) {
        wide.extend(wide_lines(&page).into_iter().map(|line| format!("{name}:{line}")));
    }
    assert!(wide.is_empty(), "longer than {WIDTH} columns:\n{}", wide.join("\n"));
    assert!(named[0].1.lines().count() <= README_LINES, "the README is a page");
    let planted = format!("{0}\n| {0} |\n```\n{0}\n```\n{0} {0}\n", "word ".repeat(15).trim_end());
    assert_eq!(wide_lines(&planted), [6]);
}

/// Columns of a page's prose.
const WIDTH: usize = 100;
const README_LINES: usize = 150;

/// Bounds that only ever go down.
const INDIRECT_PER_MILLE: usize = 0;
const CLOSURES_PER_10_000: usize = 5;
const WORDS_IN_A_TEST_NAME: usize = 6;
