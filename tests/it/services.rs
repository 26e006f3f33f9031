//! The services as processes: how they start, what operators see, how they stop.

use std::collections::BTreeSet;
use std::net::TcpListener;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::deployed::Service;
use super::program::{self, get, path, text};
use super::words::undocumented;

const ANYWHERE: &str = "127.0.0.1:0";

/// A file for all three on the memory engine, with these addresses of the catalogue.
fn settings(directory: &TempDir, listen: &str, admin: &str) -> String {
    let views = directory.path().join("views.toml");
    let view = "[[view]]\nname = \"limits\"\ndefinition = 1\nfrom = \"tenant\"\n[view.fields]\nusers = \"/users\"\n";
    std::fs::write(&views, view).unwrap();
    format!(
        "[engine]\nkind = \"memory\"\n[catalogue]\nlisten = \"{listen}\"\nadmin = \"{admin}\"\n\
         [[catalogue.type]]\nname = \"tenant\"\n[views]\nfile = \"{}\"\nadmin = \"{ANYWHERE}\"\n\
         [[region]]\nname = \"eu-west-1\"\nlisten = \"{ANYWHERE}\"\nadmin = \"{ANYWHERE}\"\n\
         [drain]\nlinger = \"0s\"\n[log]\nformat = \"json\"\n",
        views.display()
    )
}

/// The command with a file of its own, which it needs only to start.
async fn start(command: &[&str]) -> Service {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("service.toml");
    std::fs::write(&file, settings(&directory, ANYWHERE, ANYWHERE)).unwrap();
    Service::start(command, &file).await
}

#[tokio::test]
async fn catalogue_starts_and_ends_at_sigterm() {
    let catalogue = start(&["catalogue"]).await;
    assert_eq!(
        (&catalogue.serving["service"], &catalogue.serving["engine"]),
        (&"catalogue".into(), &"memory".into())
    );
    let alone = catalogue.line_with("engine.kind = \"memory\": no other process sees what this one holds").await;
    assert!(
        alone["message"].as_str().unwrap().contains("`nearside-lab dev` runs all roles in one process"),
        "{alone}"
    );
    assert_eq!(catalogue.page("/livez").await, (200, "alive\n".to_owned()));
    assert_eq!(catalogue.page("/readyz").await, (200, "{\"state\":\"serving\",\"reasons\":[]}".to_owned()));
    let status = catalogue.json("/status").await;
    assert_eq!((&status["state"], &status["catalogue"]["types"][0]), (&"serving".into(), &"tenant".into()));
    let metrics = catalogue.page("/metrics").await.1;
    for line in ["nearside_readiness{state=\"serving\"} 1", "# EOF"] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    // One for each family that localhost is here.
    assert!(metrics.lines().any(|found| found.starts_with("nearside_tasks{name=\"accept\"} ")), "{metrics}");
    let callers = get(&format!("http://{}/nowhere", catalogue.listen())).await;
    assert_eq!(callers.0, 404);
    catalogue.signal(Signal::HUP);
    catalogue.line("SIGHUP: settings are read at the start alone; a change needs a restart").await;
    assert_eq!(catalogue.terminated().await, Some(0));
}

/// The metrics that a page writes, as one queries them.
fn written(page: &str) -> BTreeSet<String> {
    page.lines()
        .filter_map(|line| {
            let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
            let end = if kind == "counter" { "_total" } else { "" };
            Some(format!("{name}{}", if kind == "info" { "_info" } else { end }))
        })
        .collect()
}

/// The metrics under these headings of `docs/metrics.md`.
fn documented(headings: [&str; 2]) -> BTreeSet<String> {
    let docs = include_str!("../../docs/metrics.md");
    let lines = headings
        .map(|heading| {
            let (_, rest) = docs.split_once(&format!("\n### {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
            rest.split("\n#").next().unwrap().to_owned()
        })
        .join("\n");
    let names = lines.lines().filter_map(|line| line.strip_prefix("| `nearside_")?.split_once('`'));
    names.map(|(name, _)| format!("nearside_{name}")).collect()
}

#[tokio::test]
async fn service_metrics_match_documentation() {
    for (command, heading) in
        [("catalogue", "The catalogue"), ("views", "The views service"), ("region", "A region's ingester")]
    {
        let service = start(&[command]).await;
        let page = service.page("/metrics").await.1;
        assert_eq!(written(&page), documented(["Every service", heading]), "{command}");
        // Tasks are named by what they do, problems in a table of their own.
        let series = page.lines().filter(|line| !line.starts_with('#'));
        let missing = undocumented(series, &["le", "name", "task", "problem"]);
        assert!(missing.is_empty(), "put these into docs/metrics.md: {missing:#?}");
        assert_eq!(service.terminated().await, Some(0));
    }
}

#[tokio::test]
async fn each_role_listens_only_where_serving() {
    let views = start(&["views"]).await;
    assert_eq!((&views.serving["service"], &views.serving["listen"]), (&"views".into(), &Value::Null));
    assert_eq!(views.terminated().await, Some(0));
    let region = start(&["region", "--role", "ingest"]).await;
    assert_eq!((&region.serving["service"], &region.serving["listen"]), (&"region eu-west-1".into(), &Value::Null));
    assert_eq!(region.json("/status").await["region"]["node"], Value::Null);
    assert_eq!(region.terminated().await, Some(0));
}

#[test]
fn service_port_in_use_names_setting() {
    let taken = TcpListener::bind(ANYWHERE).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("service.toml");
    for (setting, listen, admin) in
        [("catalogue.listen", address.as_str(), ANYWHERE), ("catalogue.admin", ANYWHERE, &address)]
    {
        std::fs::write(&file, settings(&directory, listen, admin)).unwrap();
        let output = program::run(&["catalogue", "--config", path(&file)]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        let reported: Vec<&str> = said.lines().filter(|line| line.starts_with("nearside: ")).collect();
        assert_eq!(reported.len(), 1, "{said}");
        assert!(reported[0].contains(&format!("{address} is in use")) && reported[0].contains(setting), "{said}");
    }
}

#[test]
fn check_output_can_be_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("service.toml");
    std::fs::write(&file, settings(&directory, ANYWHERE, ANYWHERE)).unwrap();
    for role in ["catalogue", "views", "region"] {
        let output = program::run(&[role, "--config", path(&file), "--check"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("no errors: 1 record type, 1 region, "), "{}", text(&output.stderr));
        std::fs::write(&file, &output.stdout).unwrap();
    }
    std::fs::write(&file, "[engine]\nkind = \"memory\"\n[catalogue]\nlisten = \"0.0.0.0:8740\"\n").unwrap();
    let output = program::run(&["catalogue", "--config", path(&file), "--check"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
    let reported = text(&output.stderr);
    assert!(
        reported.contains("other machines could reach") && reported.lines().last() == Some("2 errors"),
        "{reported}"
    );
    let output = program::run(&["region", "--name", "eu-west-2", "--config", path(&file)]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

/// The files that the walk in `docs/services.md` writes.
fn walk(name: &str) -> String {
    let docs = include_str!("../../docs/services.md");
    let (_, rest) = docs.split_once(&format!("cat > {name} <<'END'\n")).unwrap_or_else(|| panic!("no {name}"));
    rest.split("END\n").next().unwrap().to_owned()
}

#[test]
fn walkthrough_files_are_valid() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    std::fs::write(folder.join("views.toml"), walk("views.toml")).unwrap();
    std::fs::write(folder.join("nearside.toml"), walk("nearside.toml")).unwrap();
    // Without AWS, which nobody shall ask here.
    let service = walk("service.toml").replace("\"aws\"", "\"memory\"");
    let service = service.replace("\"views.toml\"", &format!("\"{}\"", path(&folder.join("views.toml"))));
    std::fs::write(folder.join("service.toml"), service).unwrap();
    for (command, name) in [
        (&["catalogue", "--check"][..], "service.toml"),
        (&["views", "--check"], "service.toml"),
        (&["region", "--name", "us-east-1", "--check"], "service.toml"),
        (&["check"], "nearside.toml"),
    ] {
        let output = program::run(&[command, &["--config", path(&folder.join(name))]].concat());
        assert_eq!(output.status.code(), Some(0), "{command:?}: {}", text(&output.stderr));
    }
}

/// Uses the words of IAM: calls are named after them in `src/engine/aws`.
#[test]
fn every_engine_action_is_in_policy() {
    let (code, policies) = (texts_below("src/engine/aws", ".rs"), texts_below("deploy", ".json"));
    // A transaction needs what its parts need; an emulator is polled, and knows no policies.
    let has_none = ["dynamodb:TransactWriteItems", "kinesis:GetShardIterator", "kinesis:GetRecords"];
    let actions: BTreeSet<&str> = code
        .split('"')
        .filter(|text| {
            text.split_once(':').is_some_and(|(service, name)| {
                ["dynamodb", "kinesis", "sns"].contains(&service)
                    && name.bytes().all(|byte| byte.is_ascii_alphabetic())
            })
        })
        .filter(|it| !has_none.contains(it))
        .collect();
    assert!(actions.len() > 15, "{actions:?}");
    let missing: Vec<_> = actions.into_iter().filter(|action| !policies.contains(&format!("\"{action}\""))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// All files below a folder of the project whose names end so.
fn texts_below(folder: &str, end: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut texts, mut folders) = (String::new(), vec![root.join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap().path();
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.to_str().unwrap().ends_with(end) {
                texts += &std::fs::read_to_string(entry).unwrap();
            }
        }
    }
    texts
}
