//! The house: rooms whose arrows point down, and no circle of files inside a room. What is meant is
//! in docs/architecture.md; this reads every path in `src/` that names another module.
//!
//! Tests are not held to it: they may stand on the lab.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The rooms, lowest first: each imports only from itself and from those before it.
const ROOMS: [&str; 19] = [
    "model",
    "tasks",
    "protocol",
    "config",
    "telemetry",
    "http",
    "payload",
    "cache",
    "aws",
    "engine",
    "core",
    "sidecar",
    "catalogue",
    "views",
    "region",
    "admin",
    "app",
    "lab",
    "cli",
];

/// One module that names another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrow {
    from: String,
    to: String,
    /// File and line.
    place: String,
}

/// What `src/` holds, or a test plants.
#[derive(Default)]
struct House {
    /// A module's path, as in `core::fill`, and where it is.
    modules: BTreeMap<String, PathBuf>,
    /// Without comments and inline tests; every line still where it was.
    texts: BTreeMap<String, String>,
}

impl House {
    fn of_the_crate() -> Self {
        let mut house = Self::default();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder of the source") {
                let path = entry.expect("an entry of it").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|it| it == "rs") {
                    let text = std::fs::read_to_string(&path).expect("source is text");
                    house.add(path.strip_prefix(&root).expect("it lies below"), &text);
                }
            }
        }
        house
    }

    fn add(&mut self, file: &Path, text: &str) {
        let path = file.with_extension("");
        let mut segments: Vec<_> = path.iter().map(|it| it.to_str().expect("names are text")).collect();
        segments.retain(|it| *it != "mod");
        let is_root = segments == ["lib"] || segments == ["main"];
        if is_root || segments.iter().any(|it| ["tests", "scripted"].contains(it)) {
            return;
        }
        let module = segments.join("::");
        self.modules.insert(module.clone(), Path::new("src").join(file));
        self.texts.insert(module, code_of(text));
    }

    /// The module that an absolute path leads into.
    fn module_of(&self, path: &[String]) -> Option<String> {
        let prefixes = (1..=path.len()).rev().map(|count| path[..count].join("::"));
        prefixes.into_iter().find(|prefix| self.modules.contains_key(prefix))
    }

    fn arrows(&self) -> BTreeSet<Arrow> {
        let mut arrows = BTreeSet::new();
        for (from, text) in &self.texts {
            let own: Vec<String> = from.split("::").map(str::to_owned).collect();
            for (at, path) in paths(text) {
                let Some(path) = absolute(&own, &path) else { continue };
                let Some(to) = self.module_of(&path).filter(|to| to != from) else { continue };
                let line = text[..at].matches('\n').count() + 1;
                let place = format!("{}:{line}", self.modules[from].display());
                arrows.insert(Arrow { from: from.clone(), to, place });
            }
        }
        arrows
    }

    /// Arrows from a room to one above it, and rooms that are not on the list.
    fn upward(&self) -> Vec<String> {
        let rank = |module: &str| ROOMS.iter().position(|room| Some(*room) == module.split("::").next());
        let strays = self.modules.iter().filter(|(module, _)| rank(module).is_none());
        let strays = strays.map(|(_, file)| format!("{}: is in no room", file.display()));
        let arrows = self.arrows().into_iter().filter(|arrow| rank(&arrow.to) > rank(&arrow.from));
        strays.chain(arrows.map(|Arrow { from, to, place }| format!("{place}: {from} imports {to}"))).collect()
    }

    /// Names that two public types have.
    fn shared_names(&self) -> Vec<String> {
        let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (module, text) in &self.texts {
            for line in text.lines().map(str::trim_start) {
                let Some(rest) = ["pub ", "pub(crate) "].iter().find_map(|it| line.strip_prefix(it)) else {
                    continue;
                };
                let kinds = ["struct ", "enum ", "type ", "trait "];
                let Some(rest) = kinds.iter().find_map(|kind| rest.strip_prefix(kind)) else { continue };
                let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
                found.entry(name).or_default().push(module);
            }
        }
        let shared = found.into_iter().filter(|(_, modules)| modules.len() > 1);
        shared.map(|(name, modules)| format!("{name}: {}", modules.join(", "))).collect()
    }

    /// Files of one room that import each other in a circle; a parent and its children may.
    fn circles(&self) -> Vec<String> {
        let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let arrows = self.arrows();
        let room = |module: &str| module.split("::").next().map(str::to_owned);
        let related = |one: &str, other: &str| format!("{one}::").starts_with(&format!("{other}::"));
        for Arrow { from, to, .. } in &arrows {
            if room(from) == room(to) && !related(from, to) && !related(to, from) {
                next.entry(from).or_default().insert(to);
            }
        }
        let reached = |start: &str| {
            let (mut seen, mut todo) = (BTreeSet::new(), vec![start]);
            while let Some(module) = todo.pop() {
                for to in next.get(module).into_iter().flatten() {
                    if seen.insert(*to) {
                        todo.push(to);
                    }
                }
            }
            seen
        };
        let reach: BTreeMap<&str, BTreeSet<&str>> = next.keys().map(|module| (*module, reached(module))).collect();
        let in_a_circle = |from: &str, to: &str| reach.get(to).is_some_and(|seen| seen.contains(from));
        let lines = arrows.iter().filter(|arrow| {
            next.get(arrow.from.as_str()).is_some_and(|to| to.contains(arrow.to.as_str()))
                && in_a_circle(&arrow.from, &arrow.to)
        });
        lines.map(|Arrow { from, to, place }| format!("{place}: {from} and {to} are in a circle")).collect()
    }
}

/// `text` without comments, and without the inline tests at its end.
fn code_of(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let bare = |line: &str| line.split_once("//").map_or(line, |(code, _)| code).to_owned();
    text[..end].lines().map(|line| bare(line) + "\n").collect()
}

/// Every path that begins with `crate`, `super` or `self`, with its place; of a tree in braces,
/// each branch.
fn paths(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = text.as_bytes();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in text.match_indices(start) {
            let inside = at > 0 && (is_word(bytes[at - 1]) || bytes[at - 1] == b':');
            if !inside {
                branches(text, at, &mut Vec::new(), at, &mut found);
            }
        }
    }
    found
}

/// Reads the path at `at` behind `prefix`; returns where it ends.
fn branches(
    text: &str,
    mut at: usize,
    prefix: &mut Vec<String>,
    place: usize,
    found: &mut Vec<(usize, Vec<String>)>,
) -> usize {
    let depth = prefix.len();
    let skip = |at: usize| at + text[at..].len() - text[at..].trim_start().len();
    loop {
        at = skip(at);
        let rest = &text[at..];
        if rest.starts_with('{') {
            at += 1;
            loop {
                at = skip(at);
                match text.as_bytes().get(at) {
                    Some(b'}') => break,
                    Some(b',') => at += 1,
                    Some(_) => {
                        let end = branches(text, at, prefix, at, found);
                        // A brace that opens no tree of imports.
                        if end == at {
                            prefix.truncate(depth);
                            return at;
                        }
                        at = end;
                    }
                    None => return at,
                }
            }
            prefix.truncate(depth);
            return at + 1;
        }
        let word: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        at += word.len();
        if !word.is_empty() {
            prefix.push(word);
        }
        match text[at..].strip_prefix("::") {
            Some(more) if more.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '{') => at += 2,
            _ => break,
        }
    }
    found.push((place, prefix.clone()));
    prefix.truncate(depth);
    // An alias is no path of its own.
    match text[at..].trim_start().strip_prefix("as ") {
        Some(alias) => text.len() - alias.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len(),
        None => at,
    }
}

/// Where `path`, as written in the module `own`, leads.
fn absolute(own: &[String], path: &[String]) -> Option<Vec<String>> {
    let mut base = own.to_vec();
    let mut rest = path;
    match rest.first()?.as_str() {
        "crate" => (base, rest) = (Vec::new(), &rest[1..]),
        "self" => rest = &rest[1..],
        _ => {}
    }
    while rest.first().is_some_and(|it| it == "super") {
        base.pop()?;
        rest = &rest[1..];
    }
    base.extend(rest.iter().filter(|it| *it != "self").cloned());
    Some(base)
}

#[test]
fn arrows_between_rooms_point_down() {
    let house = House::of_the_crate();
    assert!(house.modules.len() > 200, "this looks at the crate");
    let upward = house.upward();
    assert!(upward.is_empty(), "a room imports only rooms below it:\n{}", upward.join("\n"));
}

#[test]
fn no_files_of_a_room_import_each_other_in_a_circle() {
    let circles = House::of_the_crate().circles();
    assert!(circles.is_empty(), "only a parent and its children may:\n{}", circles.join("\n"));
}

/// The names of tasks that end soon or with a peer, which nobody restarts. Every other task is one
/// that a panic must not end for good: it is spawned with `spawn_service`.
const SHORT_TASKS: [&str; 18] = [
    // Of a caller, a peer or an operator.
    "act",
    "admin-connection",
    "announcement connection",
    "catalogue-connection",
    "connection",
    "stream",
    // Of a request or an entry.
    "audit-entry",
    "batch",
    "compare",
    "derive",
    "fill",
    "recheck",
    "refetch",
    "refresh",
    // One line into freshness.state_file, tried again while that fails.
    "state-file",
    // After a reload.
    "forget",
    "permits",
    "resize",
];

/// The names of the tasks that code spawns and nobody supervises.
fn unsupervised(code: &str) -> Vec<String> {
    let calls = code.split(".spawn(").skip(1);
    calls.filter_map(|call| call.trim_start().strip_prefix('"')?.split_once('"')).map(|it| it.0.to_owned()).collect()
}

#[test]
fn every_long_lived_task_is_supervised() {
    let (house, mut seen) = (House::of_the_crate(), BTreeSet::new());
    // The lab is no part of what runs in production.
    for (module, code) in house.texts.iter().filter(|(module, _)| !module.starts_with("lab::")) {
        for task in unsupervised(code) {
            assert!(SHORT_TASKS.contains(&task.as_str()), "{module}: {task:?} is no short task: use spawn_service");
            seen.insert(task);
        }
    }
    assert!(seen.contains("fill") && seen.contains("connection"), "this looks at the crate");
    assert_eq!(unsupervised("tasks.spawn(\"ticker\", async {});\n"), ["ticker"]);
}

#[test]
fn no_two_public_types_share_a_name() {
    let shared = House::of_the_crate().shared_names();
    assert!(shared.is_empty(), "one name, one thing:\n{}", shared.join("\n"));
    let mut house = House::default();
    house.add(Path::new("core/plan.rs"), "pub struct Plan;\n");
    house.add(Path::new("lab/plan.rs"), "pub(crate) enum Plan {}\nstruct Other;\n");
    assert_eq!(house.shared_names(), ["Plan: core::plan, lab::plan"]);
}

/// Modules that make a client of their own outside the one policy: `reqwest` and the SDK read the
/// environment's proxies unless they are told not to. The lab asks its own ports alone.
fn clients_of_their_own(house: &House) -> Vec<&str> {
    const MAKES: [&str; 5] =
        ["Client::builder()", "Client::new()", "ClientBuilder::new(", "aws_config::defaults(", "aws_config::load"];
    const MAY: [&str; 2] = ["http::client::outgoing", "aws::clients"];
    let makes = |text: &str| MAKES.iter().any(|it| text.contains(it));
    let own = house
        .texts
        .iter()
        .filter(|(module, text)| !module.starts_with("lab::") && !MAY.contains(&module.as_str()) && makes(text));
    own.map(|(module, _)| module.as_str()).collect()
}

#[test]
fn outgoing_calls_have_one_policy() {
    let house = House::of_the_crate();
    assert!(house.texts["http::client::outgoing"].contains(".no_proxy()"));
    assert!(house.texts["aws::clients"].contains(".http_client(direct::client())"));
    assert_eq!(clients_of_their_own(&house), Vec::<&str>::new());
    let mut house = House::default();
    house.add(Path::new("views/ask.rs"), "let client = reqwest::Client::builder().build();\n");
    assert_eq!(clients_of_their_own(&house), ["views::ask"]);
}

/// `file.rs`: `function`, as docs/life-of-a-request.md names the hops.
#[test]
fn every_hop_of_the_life_of_a_request_is_where_the_page_says() {
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

/// Of the project's own prose: code, tests, documentation.
#[test]
fn every_document_that_is_named_is_in_the_repository() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut missing = Vec::new();
    let mut todo: Vec<PathBuf> =
        ["src", "tests", "benches", "fuzz", "docs", "deploy", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
            .map(|name| root.join(name))
            .into();
    while let Some(path) = todo.pop() {
        if path.is_dir() {
            let skipped = ["node_modules", "target", "corpus"].iter().any(|it| path.ends_with(it));
            let entries = std::fs::read_dir(&path).expect("a folder of the project");
            todo.extend(entries.map(|entry| entry.expect("an entry of it").path()).filter(|_| !skipped));
            continue;
        }
        if path.extension().is_none_or(|it| it != "rs" && it != "md") || path.ends_with("tests/house.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("prose is text");
        for (number, line) in text.lines().enumerate() {
            let ends_a_name = |c: char| !(c.is_ascii_alphanumeric() || "./-_".contains(c));
            for word in line.split(ends_a_name).filter(|word| word.ends_with(".md") && word.len() > 3) {
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
        let ends = |c: char| c.is_whitespace() || "()<>`\"".contains(c);
        for (link, named) in text.split(ends).filter_map(|word| word.split_once('#')) {
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
fn every_alert_is_named_in_a_page() {
    let pages = pages();
    let rules = &pages[Path::new("deploy/prometheus-rules.yaml")];
    assert!(rules.matches("- alert: ").count() > 30, "this reads the rules");
    assert_eq!(unnamed_alerts(rules, &pages), Vec::<&str>::new());
    assert_eq!(unnamed_alerts("      - alert: NearsideAsleep\n", &pages), ["NearsideAsleep"]);
}

/// Modules that make types of problems: docs/problems.md has a chapter for each, held by a test
/// beside it. `http::problem` writes documents for the others.
#[test]
fn problem_types_are_made_in_known_places() {
    let house = House::of_the_crate();
    let makes =
        |text: &str| ["nearside:problem", "problem::document", "problem::urn"].iter().any(|it| text.contains(it));
    let places = house.texts.iter().filter(|(module, text)| !module.starts_with("lab::") && makes(text));
    let places: Vec<_> = places.map(|(module, _)| module.as_str()).collect();
    let known =
        ["admin::acts::problem", "catalogue::api::refused", "core::answer", "http::problem", "region::origin"];
    assert_eq!(places, known);
}

#[test]
fn an_arrow_that_is_planted_the_wrong_way_is_found_with_file_and_line() {
    let mut house = House::default();
    house.add(Path::new("core/lookup.rs"), "");
    house.add(
        Path::new("cache/store.rs"),
        "// use crate::core::lookup;\nuse crate::{\n    core::lookup::{self as it},\n};\n",
    );
    house.add(Path::new("cache/mod.rs"), "fn now() { super::core::lookup::find() }\n");
    house.add(Path::new("utils.rs"), "");
    let expected = [
        "src/utils.rs: is in no room",
        "src/cache/mod.rs:1: cache imports core::lookup",
        "src/cache/store.rs:3: cache::store imports core::lookup",
    ];
    assert_eq!(house.upward(), expected);
}

#[test]
fn a_circle_that_is_planted_is_found_and_a_parent_with_its_child_is_none() {
    let mut house = House::default();
    house.add(Path::new("core/one.rs"), "use super::two::B;\nuse self::child::C;\n");
    house.add(Path::new("core/one/child.rs"), "use super::A;\n");
    house.add(
        Path::new("core/two.rs"),
        "use super::three::D as A;\n#[cfg(test)]\nmod tests {\nuse crate::lab::X;\n}\n",
    );
    house.add(Path::new("core/three.rs"), "fn f() -> super::one::A {}\n");
    let expected = [
        "src/core/one.rs:1: core::one and core::two are in a circle",
        "src/core/three.rs:1: core::three and core::one are in a circle",
        "src/core/two.rs:1: core::two and core::three are in a circle",
    ];
    assert_eq!(house.circles(), expected);
}
