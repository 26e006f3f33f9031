//! `deploy/aws-local.sh`, which `make aws` runs: to its end, and when something fails.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::super::program::text;

/// Runs it with a directory for all that it leaves behind.
fn run(directory: &Path, program: &Path) -> Output {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/aws-local.sh"))
        .arg("--exit")
        .env("NEARSIDE", program)
        .env("PORTS", "any")
        .env("TMPDIR", directory)
        .stdin(Stdio::null())
        .output()
        .expect("it starts")
}

/// Processes that have this directory in their arguments.
fn left_running(directory: &Path) -> Vec<String> {
    let directory = directory.to_str().unwrap();
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| {
            let line = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
            Some(String::from_utf8_lossy(&line).replace('\0', " "))
        })
        .filter(|line| line.contains(directory))
        .collect()
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn script_runs_demo_and_cleans_up() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), Path::new(assert_cmd::cargo::cargo_bin!("nearside")));
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}\n{}", text(&output.stderr));
    for wanted in [
        "nearside setup  21 tables, streams and topics",
        "{\"users\":25,\"host\":\"db-7.internal\"}",
        "{\"users\":500,\"host\":\"db-7.internal\"}",
        "{\"users\":500,\"host\":\"db-9.internal\"}",
        "HTTP/1.1 401 Unauthorized",
        "HTTP/1.1 403 Forbidden",
        "urn:nearside:problem:not-granted",
        "HTTP/1.1 404 Not Found",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    assert!(!said.contains("eyJ"), "tokens are not shown: {said}");
    assert_eq!(said.matches("pages: http://127.0.0.1:").count(), 6, "{said}");
    assert_eq!(left_running(directory.path()), Vec::<String>::new());
    assert!(is_empty(directory.path()));
}

#[test]
fn failed_step_is_named_nothing_remains() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("broken");
    std::fs::write(&program, "#!/bin/sh\necho \"$1 is broken\"\nexit 1\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output = run(directory.path(), &program);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("aws-local: nearside setup failed\nthe last lines of ") && said.contains("setup is broken")
    );
    assert_eq!(left_running(directory.path()), Vec::<String>::new());
}
