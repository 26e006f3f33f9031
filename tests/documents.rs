//! The documents: what they name is there, and what has to be named is named.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// `file.rs`: `function`, as docs/life-of-a-request.md names the hops.
#[test]
fn every_request_hop_matches_its_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/life-of-a-request.md")).expect("the page is there");
    let words: Vec<&str> = page.split('`').collect();
    let hops: Vec<_> = words.windows(3).filter(|it| it[0].ends_with(".rs") && it[1] == ": ").collect();
    assert!(hops.len() > 20, "this reads the page's tables");
    for hop in hops {
        let text = std::fs::read_to_string(root.join("src").join(hop[0])).unwrap_or_default();
        let found = ["fn {}(", "fn {}<"].iter().any(|it| text.contains(&it.replace("{}", hop[2])));
        assert!(found, "src/{} has no function {}", hop[0], hop[2]);
    }
}

/// Covers the project's own prose: code, tests, documentation.
#[test]
fn every_named_document_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut missing = Vec::new();
    let mut todo: Vec<PathBuf> =
        ["src", "lab", "tests", "benches", "fuzz", "docs", "deploy", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
            .map(|name| root.join(name))
            .into();
    while let Some(path) = todo.pop() {
        if path.is_dir() {
            let skipped = ["node_modules", "target", "corpus"].iter().any(|it| path.ends_with(it));
            let entries = std::fs::read_dir(&path).expect("a folder of the project");
            todo.extend(entries.map(|entry| entry.expect("an entry of it").path()).filter(|_| !skipped));
            continue;
        }
        if path.extension().is_none_or(|it| it != "rs" && it != "md") || path.ends_with("tests/documents.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("prose is text");
        for (number, line) in text.lines().enumerate() {
            for word in line
                .split(|c: char| !(c.is_ascii_alphanumeric() || "./-_".contains(c)))
                .filter(|word| word.ends_with(".md") && word.len() > 3)
            {
                let folder = path.parent().expect("a file lies in a folder");
                let candidates = [folder.join(word), root.join(word), root.join("docs").join(word)];
                if !candidates.iter().any(|it| it.exists()) && !line.contains("://") {
                    missing.push(format!("{}:{}: {word}", path.display(), number + 1));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Pages of documentation, by their place in the repository.
fn pages() -> BTreeMap<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = BTreeMap::new();
    for folder in ["", "docs", "docs/decisions", "deploy", "tests", "tests/chaos", "tests/kills"] {
        for entry in std::fs::read_dir(root.join(folder)).expect("a folder of the project") {
            let path = entry.expect("an entry of it").path();
            if path.extension().is_some_and(|it| it == "md" || it == "yaml") {
                let place = path.strip_prefix(root).expect("it lies below").to_owned();
                pages.insert(place, std::fs::read_to_string(&path).expect("prose is text"));
            }
        }
    }
    pages
}

/// The name by which a link reaches this heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    text.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
}

/// Links to headings that are not there, with the page that has them.
fn dead_anchors(pages: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let headings = |text: &str| {
        let prose = text.split("```").step_by(2);
        let headings = prose.flat_map(str::lines).filter(|line| line.starts_with('#'));
        headings.map(anchor).collect::<BTreeSet<_>>()
    };
    let headings: BTreeMap<_, _> = pages.iter().map(|(place, text)| (place.as_path(), headings(text))).collect();
    let mut dead = Vec::new();
    for (place, text) in pages {
        for (link, named) in
            text.split(|c: char| c.is_whitespace() || "()<>`\"".contains(c)).filter_map(|word| word.split_once('#'))
        {
            let named = named.trim_end_matches(['.', ',', ';', ':']);
            let folder = place.parent().expect("a file lies in a folder");
            let beside = folder.join(link);
            let target = if link.is_empty() { place.as_path() } else { &beside };
            let target = target.components().fold(PathBuf::new(), |path, part| match part {
                std::path::Component::ParentDir => path.parent().unwrap_or(Path::new("")).to_owned(),
                part => path.join(part),
            });
            let is_link = link.ends_with(".md") || link.is_empty() && text.contains(&format!("](#{named})"));
            // The runbooks of alerts are named from the root.
            let known = headings.get(target.as_path()).or_else(|| headings.get(Path::new(link)));
            if is_link && !link.contains("://") && !known.is_some_and(|known| known.contains(named)) {
                dead.push(format!("{}: {link}#{named}", place.display()));
            }
        }
    }
    dead
}

#[test]
fn every_linked_heading_exists() {
    assert_eq!(dead_anchors(&pages()), Vec::<String>::new());
    let page = |text: &str| text.to_owned();
    let planted = BTreeMap::from([
        (PathBuf::from("README.md"), page("[a](docs/a.md#one-thing) [b](docs/a.md#two) [c](#none)\n")),
        (PathBuf::from("docs/a.md"), page("## One `thing`\n```\n# two\n```\n[home](../README.md#gone)\n")),
    ]);
    let dead = ["README.md: docs/a.md#two", "README.md: #none", "docs/a.md: ../README.md#gone"];
    assert_eq!(dead_anchors(&planted), dead);
}

/// Alerts of the rules that no page names.
fn unnamed_alerts<'r>(rules: &'r str, pages: &BTreeMap<PathBuf, String>) -> Vec<&'r str> {
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let is_named = |alert: &str| {
        ["docs/deployment.md", "docs/services.md"].iter().any(|page| {
            let rows = pages[Path::new(page)].lines().filter(|line| line.starts_with("| `"));
            rows.map(|row| row.split(" | ").next().unwrap_or_default())
                .any(|cell| cell.contains(&format!("`{alert}`")))
        })
    };
    alerts.filter(|alert| !is_named(alert)).collect()
}

#[test]
fn every_alert_is_documented() {
    let pages = pages();
    let rules = &pages[Path::new("deploy/prometheus-rules.yaml")];
    assert!(rules.matches("- alert: ").count() > 30, "this reads the rules");
    assert_eq!(unnamed_alerts(rules, &pages), Vec::<&str>::new());
    assert_eq!(unnamed_alerts("      - alert: NearsideAsleep\n", &pages), ["NearsideAsleep"]);
}
