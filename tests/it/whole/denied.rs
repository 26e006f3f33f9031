//! Roles that lack a permission, on the emulator behind an account whose policies refuse one call:
//! each says which action it lacks on what, on its pages, in its log and to `--check`.

use std::path::Path;
use std::time::Duration;

use nearside::tasks::Tasks;
use serde_json::json;

use super::super::deployed::Service;
use super::super::emulator::{Emulator, REGIONS};
use super::super::misconfigurations::account::Account;
use super::super::program::{get, path, run, text};
use super::emulated::{configure, set_up};

/// Settings with an account before the emulator that refuses this call.
fn refusing(file: &Path, call: &'static str, code: &'static str, tasks: &Tasks) -> std::path::PathBuf {
    let emulator = Emulator::shared().url();
    let emulator = emulator.as_str().trim_end_matches('/');
    let account = Account { refuses: (call, code), after: Duration::ZERO }.serve(emulator, tasks);
    let refused = file.with_file_name(format!("{call}.toml"));
    std::fs::write(&refused, std::fs::read_to_string(file).unwrap().replace(emulator, &account)).unwrap();
    refused
}

/// The account answers while the test waits for `--check`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denied_role_names_missing_permission() {
    let directory = tempfile::tempdir().unwrap();
    let (file, topics) = configure(&directory, "denied");
    set_up(&file);
    let tasks = Tasks::new();
    let (name, topic) = (REGIONS[0], topics[0].as_str());
    let published = format!("{name}: not allowed: SNS:Publish on {topic}; grant it to the role");
    for (command, call, code, line, status) in [
        (
            &["catalogue"][..],
            "GetItem",
            "AccessDeniedException",
            "home: not allowed: dynamodb:GetItem on denied-records",
            503,
        ),
        (
            &["views"],
            "ListShards",
            "AccessDeniedException",
            "home: not allowed: kinesis:ListShards on denied-changes",
            503,
        ),
        (
            &["region", "--name", name, "--role", "node"],
            "GetItem",
            "AccessDeniedException",
            "eu-west-1: not allowed: dynamodb:GetItem on denied-contexts",
            503,
        ),
        (
            &["region", "--name", name, "--role", "ingest"],
            "PublishBatch",
            "AuthorizationError",
            published.as_str(),
            200,
        ),
    ] {
        let file = refusing(&file, call, code, &tasks);
        let service = Service::start(command, &file).await;
        assert_eq!(service.ready_says(line).await, status, "{line}");
        service.line_with(line).await;
        let checked = run(&[command, &["--config", path(&file), "--check"]].concat());
        if status == 503 {
            let said = text(&checked.stderr);
            assert!(checked.status.code() == Some(1) && said.contains(line), "{said}");
        } else {
            // Nobody can ask SNS without publishing.
            assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
        }
        assert_eq!(service.terminated().await, Some(0));
    }
    tasks.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn denied_write_is_reported_reads_continue() {
    let directory = tempfile::tempdir().unwrap();
    let (file, _) = configure(&directory, "denied-write");
    set_up(&file);
    let tasks = Tasks::new();
    let file = refusing(&file, "TransactWriteItems", "AccessDeniedException", &tasks);
    let catalogue = Service::start(&["catalogue"], &file).await;
    let url = format!("http://{}/v1/records/tenant/acme", catalogue.listen());
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let written = client.put(&url).header("content-type", "application/json").body(json!({}).to_string());
    assert_eq!(written.send().await.unwrap().status(), 500);
    assert_eq!(catalogue.ready_says("home: not allowed: dynamodb:TransactWriteItems on denied-write-").await, 200);
    assert_eq!(catalogue.json("/status").await["state"], "degraded");
    assert_eq!(get(&url).await.0, 404, "it reads");
    assert_eq!(catalogue.terminated().await, Some(0));
    tasks.drain(Duration::ZERO).await;
}
