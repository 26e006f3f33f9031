//! That `tests/README.md` keeps its word: every promise names tests, and they exist.

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;

/// A row of a table: what is promised, and the names that stand in backticks beside it.
#[derive(Debug, PartialEq, Eq)]
struct Promise {
    text: String,
    tests: Vec<String>,
}

fn promises(page: &str) -> Vec<Promise> {
    page.lines().filter_map(row).collect()
}

/// The row on this line; headings, rules and prose are none.
fn row(line: &str) -> Option<Promise> {
    let (text, tests) = line.strip_prefix('|')?.strip_suffix('|')?.rsplit_once('|')?;
    let (text, tests) = (text.trim(), tests.trim());
    if text == "promise" || text.starts_with("---") {
        return None;
    }
    let tests = tests.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    Some(Promise { text: text.to_owned(), tests })
}

/// What is wrong with `promises`, a line each, where `exists` says which names are tests.
fn broken(promises: &[Promise], exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut lines = Vec::new();
    for promise in promises {
        if promise.tests.is_empty() {
            lines.push(format!("no test holds: {}", promise.text));
        }
        for test in promise.tests.iter().filter(|test| !exists(test)) {
            lines.push(format!("no such test: {test} (for: {})", promise.text));
        }
    }
    lines
}

/// The names of all functions in `text` that stand under a test attribute, or in a `proptest!`
/// block as one.
fn tests_in(text: &str) -> impl Iterator<Item = &str> {
    let mut attributed = false;
    text.lines().filter_map(move |line| {
        let line = line.trim_start();
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            attributed = true;
            return None;
        }
        let declared = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
        std::mem::take(&mut attributed).then(|| declared.split(['(', '<']).next().unwrap_or_default())
    })
}

fn collect(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.extend(tests_in(&text).map(str::to_owned));
        }
    }
}

#[test]
fn every_promise_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let promises = promises(&std::fs::read_to_string(root.join("tests/README.md")).unwrap());
    let mut tests = BTreeSet::new();
    collect(&root.join("src"), &mut tests);
    collect(&root.join("tests"), &mut tests);
    assert!(promises.len() > 100 && tests.len() > 300, "{} promises, {} tests", promises.len(), tests.len());
    let exists = |name: &str| tests.contains(name) || name.contains('/') && root.join(name).is_file();
    let broken = broken(&promises, exists);
    assert!(broken.is_empty(), "tests/README.md:\n{}", broken.join("\n"));
}

#[test]
fn a_promise_without_a_test_or_with_one_that_does_not_exist_is_found() {
    let page = "| promise | tests |\n| --- | --- |\n| a | `one`, `two` |\n| b, with a `word` | |\n\nprose\n";
    let promises = promises(page);
    assert_eq!(promises.len(), 2);
    assert_eq!(promises[0].tests, ["one", "two"]);
    let found = broken(&promises, |name| name == "one");
    assert_eq!(found, ["no such test: two (for: a)", "no test holds: b, with a `word`"]);
}

#[test]
fn only_functions_under_a_test_attribute_are_tests() {
    let text = "fn helper() {}\n#[tokio::test(start_paused = true)]\n#[cfg(unix)]\nasync fn one() {\n fn inner() {}\n}\n\
                proptest! {\n    #[test]\n    fn two(text in \".*\") {}\n}\n";
    assert_eq!(tests_in(text).collect::<Vec<_>>(), ["one", "two"]);
}

proptest! {
    #[test]
    fn no_page_makes_the_check_panic(page in "[|` a-z\n-]{0,200}") {
        let _ = broken(&promises(&page), |_| false);
    }
}
