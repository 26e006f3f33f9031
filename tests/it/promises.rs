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

/// Defects of `promises`, a line each; `exists` says which names are tests.
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
    collect(&root.join("lab/src"), &mut tests);
    collect(&root.join("tests"), &mut tests);
    assert!(promises.len() > 100 && tests.len() > 300, "{} promises, {} tests", promises.len(), tests.len());
    let broken = broken(&promises, |name| tests.contains(name) || name.contains('/') && root.join(name).is_file());
    assert!(broken.is_empty(), "tests/README.md:\n{}", broken.join("\n"));
}

#[test]
fn promise_without_existing_test_is_found() {
    let page = "| promise | tests |\n| --- | --- |\n| a | `one`, `two` |\n| b, with a `word` | |\n\nprose\n";
    let promises = promises(page);
    assert_eq!(promises.len(), 2);
    assert_eq!(promises[0].tests, ["one", "two"]);
    let found = broken(&promises, |name| name == "one");
    assert_eq!(found, ["no such test: two (for: a)", "no test holds: b, with a `word`"]);
}

#[test]
fn only_attributed_functions_are_tests() {
    let text = "fn helper() {}\n#[tokio::test(start_paused = true)]\n#[cfg(unix)]\nasync fn one() {\n fn inner() {}\n}\n\
                proptest! {\n    #[test]\n    fn two(text in \".*\") {}\n}\n";
    assert_eq!(tests_in(text).collect::<Vec<_>>(), ["one", "two"]);
}

/// Filters of test names in the Makefile's calls of `cargo test`: what `--skip` names, and the words
/// that follow `--test it`.
fn filters(makefile: &str) -> Vec<String> {
    let lines = makefile.replace("\\\n", " ");
    let mut found = Vec::new();
    for line in lines.lines().filter(|line| line.contains("cargo test")) {
        let skipped = line.split("--skip ").skip(1).filter_map(|rest| rest.split_whitespace().next());
        found.extend(skipped.map(str::to_owned));
        let Some((_, wanted)) = line.split_once("--test it ") else { continue };
        let words = wanted.split_whitespace().filter(|word| !word.starts_with('-') && word.parse::<u32>().is_err());
        found.extend(words.map(str::to_owned));
    }
    found
}

/// A filter that matches nothing skips nothing and runs nothing, without a word.
#[test]
fn every_filter_of_tests_matches_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let filters = filters(&std::fs::read_to_string(root.join("Makefile")).unwrap());
    assert!(filters.len() > 10, "this reads the Makefile: {filters:?}");
    let mut tests = BTreeSet::new();
    collect(&root.join("tests/it"), &mut tests);
    for filter in filters {
        let (module, name) = filter.rsplit_once("::").unwrap_or(("", &filter));
        let is_module = module.is_empty() || root.join(format!("tests/it/{module}.rs")).is_file();
        let is_name = root.join(format!("tests/it/{name}.rs")).is_file() || tests.iter().any(|it| it.contains(name));
        assert!(is_module && is_name, "the Makefile names {filter}, and no test is called so");
    }
}

#[test]
fn filters_are_read_across_lines() {
    let makefile =
        "test:\n\tcargo test -- --skip a:: --skip b\n\tcargo test --test it -- \\\n\t    c:: d --test-threads 1\n";
    assert_eq!(filters(makefile), ["a::", "b", "c::", "d"]);
}

proptest! {
    #[test]
    fn no_page_makes_the_check_panic(page in "[|` a-z\n-]{0,200}") {
        let _ = broken(&promises(&page), |_| false);
    }
}
