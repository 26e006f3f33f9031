//! The house: rooms whose arrows point down, and no files that import each other. The rooms are in
//! docs/architecture.md; this reads every path in `src/` and in `lab/src/` that names another module.
//!
//! Tests are not held to it: they may stand on the lab.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The product's rooms, lowest first: each imports only from itself and from those before it.
const ROOMS: [&str; 28] = [
    "switch",
    "model",
    "tasks",
    "protocol",
    "config",
    "telemetry",
    "http",
    "access",
    "payload",
    "cache",
    "aws",
    "credentials",
    "engine",
    "routing",
    "shape",
    "race",
    "migration",
    "unrouted",
    "fill",
    "request",
    "sidecar",
    "catalogue",
    "views",
    "region",
    "repair",
    "admin",
    "app",
    "cli",
];
/// The lab's, which stand on the product.
const LAB_ROOMS: [&str; 11] =
    ["names", "limits", "uuid", "loopback", "signer", "issuer", "chaos_server", "aws", "dev", "bench", "cli"];

/// One module that names another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrow {
    from: String,
    to: String,
    /// File and line.
    place: String,
}

/// Sources of a crate, or of a test.
struct House {
    /// Folder of the sources.
    folder: &'static str,
    rooms: &'static [&'static str],
    /// A module's path, as in `fill::routed`, and where it is.
    modules: BTreeMap<String, PathBuf>,
    /// Without comments and inline tests; every line still where it was.
    texts: BTreeMap<String, String>,
}

impl House {
    const fn empty(folder: &'static str, rooms: &'static [&'static str]) -> Self {
        Self { folder, rooms, modules: BTreeMap::new(), texts: BTreeMap::new() }
    }

    fn of_the_product() -> Self {
        Self::empty("src", &ROOMS).filled()
    }

    fn of_the_lab() -> Self {
        Self::empty("lab/src", &LAB_ROOMS).filled()
    }

    fn filled(self) -> Self {
        let mut house = self;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(house.folder);
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
        self.modules.insert(module.clone(), Path::new(self.folder).join(file));
        self.texts.insert(module, code_of(text));
    }

    /// The module that an absolute path leads into.
    fn module_of(&self, path: &[String]) -> Option<String> {
        let prefixes = (1..=path.len()).rev().map(|count| path[..count].join("::"));
        prefixes.into_iter().find(|prefix| self.modules.contains_key(prefix))
    }

    /// Names of the modules that `parent` declares.
    fn children(&self, parent: &str) -> Vec<&str> {
        let below = self.modules.keys().filter_map(|it| it.strip_prefix(parent)?.strip_prefix("::"));
        below.filter(|name| !name.contains("::")).collect()
    }

    fn arrows(&self) -> BTreeSet<Arrow> {
        let mut arrows = BTreeSet::new();
        for (from, text) in &self.texts {
            let own: Vec<String> = from.split("::").map(str::to_owned).collect();
            let children = self.children(from);
            let relative = children.iter().flat_map(|child| relative_paths(text, child));
            for (at, path) in paths(text).into_iter().chain(relative) {
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
        let rank = |module: &str| self.rooms.iter().position(|room| Some(*room) == module.split("::").next());
        let strays = self.modules.iter().filter(|(module, _)| rank(module).is_none());
        let strays = strays.map(|(_, file)| format!("{}: is in no room", file.display()));
        let arrows = self.arrows().into_iter().filter(|arrow| rank(&arrow.to) > rank(&arrow.from));
        strays.chain(arrows.map(|Arrow { from, to, place }| format!("{place}: {from} imports {to}"))).collect()
    }

    /// Imports between files that reach each other, a parent and its children included.
    fn circles(&self) -> Vec<String> {
        let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let arrows = self.arrows();
        for Arrow { from, to, .. } in &arrows {
            next.entry(from).or_default().insert(to);
        }
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            next.keys().map(|module| (*module, reached(&next, module))).collect();
        let in_a_circle = |from: &str, to: &str| reach.get(to).is_some_and(|seen| seen.contains(from));
        let lines = arrows.iter().filter(|arrow| in_a_circle(&arrow.from, &arrow.to));
        lines.map(|Arrow { from, to, place }| format!("{place}: {from} and {to} are in a circle")).collect()
    }
}

/// Modules that imports lead to from `start`.
fn reached<'m>(next: &BTreeMap<&'m str, BTreeSet<&'m str>>, start: &str) -> BTreeSet<&'m str> {
    let (mut seen, mut todo) = (BTreeSet::new(), vec![start]);
    while let Some(module) = todo.pop() {
        let imported = next.get(module).into_iter().flatten();
        let new: Vec<_> = imported.copied().filter(|to| seen.insert(*to)).collect();
        todo.extend(new);
    }
    seen
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
            // `pub(in crate::config)` says who may import, and imports nothing.
            let is_visibility = text[..at].ends_with("pub(in ");
            if !inside && !is_visibility {
                branches(text, at, &mut Vec::new(), at, &mut found);
            }
        }
    }
    found
}

/// Paths that begin with the name of a child, as in `use store::Store`, with their places.
fn relative_paths(text: &str, child: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(&format!("{child}::")) {
        let inside = text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
        if !inside {
            branches(text, at, &mut Vec::new(), at, &mut found);
        }
    }
    found.into_iter().map(|(at, path)| (at, [vec!["self".to_owned()], path].concat())).collect()
}

/// Reads the path at `at` behind `prefix`; returns where it ends.
fn branches(
    text: &str,
    mut at: usize,
    prefix: &mut Vec<String>,
    start: usize,
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
    found.push((start, prefix.clone()));
    prefix.truncate(depth);
    // An alias is no path of its own.
    match text[at..].trim_start().strip_prefix("as ") {
        Some(alias) => text.len() - alias.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len(),
        None => at,
    }
}

/// Absolute path of `path`, as written in the module `own`.
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
    for (house, least) in [(House::of_the_product(), 200), (House::of_the_lab(), 80)] {
        assert!(house.modules.len() > least, "this looks at {}", house.folder);
        let upward = house.upward();
        assert!(upward.is_empty(), "a room imports only rooms below it:\n{}", upward.join("\n"));
    }
}

#[test]
fn no_files_import_each_other() {
    let circles = [House::of_the_product(), House::of_the_lab()].map(|house| house.circles()).concat();
    assert!(circles.is_empty(), "{} imports in circles:\n{}", circles.len(), circles.join("\n"));
}

/// Most fields of a struct. One that a document is written from or read into has a row for each of
/// its members, and one of `config` a field for each setting: they have as many as there are.
const FIELDS: usize = 15;

/// Structs with more than [`FIELDS`] fields, with where they begin.
fn wide_structs(house: &House) -> Vec<String> {
    let mut wide = Vec::new();
    for (module, text) in house.texts.iter().filter(|(module, _)| module.split("::").next() != Some("config")) {
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(name) = struct_name(line) else { continue };
            let attributes = lines[..at].iter().rev().take_while(|line| is_attribute(line));
            if attributes.into_iter().any(|line| line.contains("Serialize") || line.contains("Deserialize")) {
                continue;
            }
            let indent = line.len() - line.trim_start().len();
            let body = lines[at + 1..].iter().take_while(|line| !is_end(line, indent));
            let fields = body.filter(|line| is_field(line, indent + 4)).count();
            if fields > FIELDS {
                wide.push(format!("{}:{}: {name} has {fields} fields", house.modules[module].display(), at + 1));
            }
        }
    }
    wide
}

/// The name of the struct with named fields that begins on this line.
fn struct_name(line: &str) -> Option<&str> {
    let code = line.trim();
    let rest = code.strip_prefix("struct ").or_else(|| code.split_once(" struct ").map(|(_, rest)| rest))?;
    let is_one = code.starts_with("pub") || code.starts_with("struct ");
    rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().filter(|_| is_one && code.ends_with('{'))
}

fn is_attribute(line: &str) -> bool {
    let code = line.trim();
    code.is_empty() || code.starts_with("#[")
}

/// True if a struct with this indent ends here.
fn is_end(line: &str, indent: usize) -> bool {
    line.trim_end().len() == indent + 1 && line.trim() == "}"
}

/// True if a field with this indent begins here.
fn is_field(line: &str, indent: usize) -> bool {
    let code = line.trim_start();
    let after = code.strip_prefix("pub").map_or(code, |rest| rest.split_once(") ").map_or(rest, |(_, rest)| rest));
    let name = after.trim_start().split(':').next().unwrap_or_default();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    line.len() - code.len() == indent && is_name && line.contains(':')
}

#[test]
fn no_struct_is_wide() {
    let wide = wide_structs(&House::of_the_product());
    assert!(wide.is_empty(), "{} structs are wide:\n{}", wide.len(), wide.join("\n"));
    let mut house = House::empty("src", &ROOMS);
    let fields: String = (0..=FIELDS).map(|n| format!("    pub(crate) f{n}: u8,\n")).collect();
    let few: String = (0..FIELDS).map(|n| format!("    f{n}: Vec<(u8, u8)>,\n    // of: it\n")).collect();
    house.add(Path::new("fill/few.rs"), &format!("pub struct Few {{\n{few}}}\n"));
    house.add(Path::new("fill/many.rs"), &format!("\npub struct Many {{\n{fields}}}\n"));
    house.add(Path::new("admin/row.rs"), &format!("#[derive(Serialize)]\npub struct Row {{\n{fields}}}\n"));
    house.add(Path::new("config/set.rs"), &format!("pub struct Settings {{\n{fields}}}\n"));
    assert_eq!(wide_structs(&house), ["src/fill/many.rs:2: Many has 16 fields"]);
}

/// Imports of `engine` or of the AWS SDK by rooms that every request passes through.
fn heavy_imports(house: &House) -> Vec<String> {
    let is_light = |module: &str| ["fill", "request"].contains(&module.split("::").next().unwrap_or_default());
    let is_heavy = |to: &str| ["aws", "engine"].contains(&to.split("::").next().unwrap_or_default());
    let arrows = house.arrows().into_iter().filter(|arrow| is_light(&arrow.from) && is_heavy(&arrow.to));
    let arrows = arrows.map(|Arrow { from, to, place }| format!("{place}: {from} imports {to}"));
    let sdk = house.texts.iter().filter(|(module, text)| is_light(module) && text.contains("aws_"));
    arrows.chain(sdk.map(|(module, _)| format!("{module} names the AWS SDK"))).collect()
}

#[test]
fn the_request_path_imports_no_engine_and_no_sdk() {
    assert_eq!(heavy_imports(&House::of_the_product()), Vec::<String>::new());
    let mut house = House::empty("src", &ROOMS);
    house.add(Path::new("engine/guard.rs"), "");
    house.add(Path::new("fill/flight.rs"), "use crate::engine::guard::{Guard, is_on};\n");
    house.add(Path::new("request/serve.rs"), "use aws_sdk_sqs::Client;\n");
    house.add(Path::new("region/copy.rs"), "use crate::engine::guard::Guard;\n");
    let expected = ["src/fill/flight.rs:1: fill::flight imports engine::guard", "request::serve names the AWS SDK"];
    assert_eq!(heavy_imports(&house), expected);
}

/// The names of tasks that end soon or with a peer, which nobody restarts. Every other task is one
/// that a panic must not end for good: it is spawned with `spawn_service`.
const SHORT_TASKS: [&str; 19] = [
    // Of a caller, a peer or an operator.
    "admin-connection",
    "announcement connection",
    "catalogue-connection",
    "command",
    "connection",
    "observed-caller",
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
    let (house, mut seen) = (House::of_the_product(), BTreeSet::new());
    for (module, code) in &house.texts {
        for task in unsupervised(code) {
            assert!(SHORT_TASKS.contains(&task.as_str()), "{module}: {task:?} is no short task: use spawn_service");
            seen.insert(task);
        }
    }
    assert!(seen.contains("fill") && seen.contains("connection"), "this looks at the crate");
    assert_eq!(unsupervised("tasks.spawn(\"ticker\", async {});\n"), ["ticker"]);
}

/// Modules that make a client of their own outside the one policy: `reqwest` and the SDK read the
/// environment's proxies unless they are configured otherwise. The lab asks its own ports alone.
fn clients_of_their_own(house: &House) -> Vec<&str> {
    const MAKES: [&str; 5] =
        ["Client::builder()", "Client::new()", "ClientBuilder::new(", "aws_config::defaults(", "aws_config::load"];
    const MAY: [&str; 2] = ["http::client::outgoing", "aws::clients"];
    let makes = |text: &str| MAKES.iter().any(|it| text.contains(it));
    let own = house.texts.iter().filter(|(module, text)| !MAY.contains(&module.as_str()) && makes(text));
    own.map(|(module, _)| module.as_str()).collect()
}

#[test]
fn outgoing_calls_have_one_policy() {
    let house = House::of_the_product();
    assert!(house.texts["http::client::outgoing"].contains(".no_proxy()"));
    assert!(house.texts["aws::clients"].contains(".http_client(direct::client())"));
    assert_eq!(clients_of_their_own(&house), Vec::<&str>::new());
    let mut house = House::empty("src", &ROOMS);
    house.add(Path::new("views/ask.rs"), "let client = reqwest::Client::builder().build();\n");
    assert_eq!(clients_of_their_own(&house), ["views::ask"]);
}

/// Files that name the standard library's locks, which a panic poisons. The house has one lock type,
/// `parking_lot`'s: changes are computed before they are stored, so a panic leaves nothing half.
fn poisoned_locks(house: &House) -> Vec<&str> {
    const NAMES: [&str; 4] = ["Mutex", "RwLock", "Condvar", "PoisonError"];
    let mut found = Vec::new();
    for (module, text) in &house.texts {
        let mut uses = text.split(';').filter(|it| it.contains("std::sync::"));
        if uses.any(|it| NAMES.iter().any(|name| it.contains(name))) {
            found.push(module.as_str());
        }
    }
    found
}

#[test]
fn no_lock_is_poisoned() {
    for house in [House::of_the_product(), House::of_the_lab()] {
        assert_eq!(poisoned_locks(&house), Vec::<&str>::new());
    }
    let mut house = House::empty("src", &ROOMS);
    house.add(Path::new("fill/one.rs"), "use std::sync::{Arc, Mutex};\n");
    house.add(Path::new("fill/two.rs"), "use parking_lot::Mutex;\nuse std::sync::Arc;\n");
    assert_eq!(poisoned_locks(&house), ["fill::one"]);
}

/// Modules that make types of problems: docs/problems.md has a chapter for each, held by a test
/// beside it. `http::problem` writes documents for the others.
#[test]
fn problem_types_have_known_modules() {
    let house = House::of_the_product();
    let makes =
        |text: &str| ["nearside:problem", "problem::document", "problem::urn"].iter().any(|it| text.contains(it));
    let places = house.texts.iter().filter(|(_, text)| makes(text));
    let places: Vec<_> = places.map(|(module, _)| module.as_str()).collect();
    let known =
        ["admin::commands::problem", "catalogue::api::refused", "http::problem", "region::origin", "request::answer"];
    assert_eq!(places, known);
}

#[test]
fn planted_upward_import_is_located() {
    let mut house = House::empty("src", &ROOMS);
    house.add(Path::new("fill/lookup.rs"), "");
    house.add(
        Path::new("cache/store.rs"),
        "// use crate::fill::lookup;\nuse crate::{\n    fill::lookup::{self as it},\n};\n",
    );
    house.add(Path::new("cache/mod.rs"), "fn now() { super::fill::lookup::find() }\n");
    house.add(Path::new("utils.rs"), "");
    let expected = [
        "src/utils.rs: is in no room",
        "src/cache/mod.rs:1: cache imports fill::lookup",
        "src/cache/store.rs:3: cache::store imports fill::lookup",
    ];
    assert_eq!(house.upward(), expected);
}

#[test]
fn planted_circles_are_found() {
    let mut house = House::empty("src", &ROOMS);
    house.add(Path::new("fill/one.rs"), "use super::two::B;\n");
    house.add(
        Path::new("fill/two.rs"),
        "use super::three::D as A;\n#[cfg(test)]\nmod tests {\nuse crate::lab::X;\n}\n",
    );
    house.add(Path::new("fill/three.rs"), "fn f() -> super::one::A {}\n");
    // A parent with its child.
    house.add(Path::new("cache/mod.rs"), "mod store;\n\nuse store::Store;\npub use self::store::Kept;\n");
    house.add(Path::new("cache/store.rs"), "use super::Entry;\n");
    // A child that its parent does not import is none.
    house.add(Path::new("model/mod.rs"), "mod ids;\n");
    house.add(Path::new("model/ids.rs"), "use super::Moment;\n");
    // Nor is a visibility.
    house.add(Path::new("http/mod.rs"), "mod body;\n\npub use body::Body;\n");
    house.add(Path::new("http/body.rs"), "pub(in crate::http) struct Body;\n");
    let expected = [
        "src/cache/mod.rs:3: cache and cache::store are in a circle",
        "src/cache/mod.rs:4: cache and cache::store are in a circle",
        "src/cache/store.rs:1: cache::store and cache are in a circle",
        "src/fill/one.rs:1: fill::one and fill::two are in a circle",
        "src/fill/three.rs:1: fill::three and fill::one are in a circle",
        "src/fill/two.rs:1: fill::two and fill::three are in a circle",
    ];
    assert_eq!(house.circles(), expected);
}
