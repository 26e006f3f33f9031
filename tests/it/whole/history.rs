//! `nearside history` beside services that enforce.

use serde_json::{Value, json};

use super::super::program::{self, path, text};
use super::access::{Guarded, ISS};

/// Runs `nearside history` of the tenant with a token of `sub`.
async fn history_as(guarded: &Guarded, sub: &str, args: &[&str]) -> (Option<i32>, String) {
    let token = guarded.directory.path().join("token");
    std::fs::write(&token, guarded.token(sub, &guarded.catalogue)).unwrap();
    let catalogue = format!("http://{}", guarded.catalogue);
    let base = ["history", "tenant", "acme", "--catalogue", &catalogue, "--token-file", path(&token)];
    let mut command = program::command(&[&base, args].concat());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (output.status.code(), text(&output.stdout).to_owned() + text(&output.stderr))
}

/// Writes the tenant, and returns the name of the request.
async fn write(guarded: &Guarded, sub: &str, body: &Value, lines: &[(&'static str, &str)]) -> String {
    let url = format!("http://{}/v1/records/tenant/acme", guarded.catalogue);
    let mut request =
        guarded.client.put(&url).bearer_auth(guarded.token(sub, &guarded.catalogue)).body(body.to_string());
    request = request.header("content-type", "application/json");
    for (name, value) in lines {
        request = request.header(*name, *value);
    }
    let answer = request.send().await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
    answer.headers()["x-request-id"].to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_says_who_and_why() {
    let guarded = Guarded::start_with("enforce", None, "").await;
    let who = |sub: &str| json!([{"iss": ISS, "sub": sub}]);
    let consumers = json!({
        "provisioning": {"who": who("jobs:*"), "write": ["tenant"]},
        "support": {"who": who("anna"), "write": ["tenant"]},
        "jira": {"who": who("jira:*"), "views": ["limits"]},
    });
    guarded.grant(&consumers, &[]).await;
    let drawn = write(&guarded, "jobs:one", &json!({"shard": "s1", "users": 10}), &[]).await;
    let reason = [("x-change-reason", "case 7"), ("x-request-id", "r-2")];
    write(&guarded, "anna", &json!({"shard": "s1", "users": 20}), &reason).await;
    let (code, shown) = history_as(&guarded, "jobs:two", &["--diff"]).await;
    assert_eq!(code, Some(0), "{shown}");
    let lines: Vec<&str> = shown.lines().collect();
    let [first, shard, users, second, change] = lines[..] else { panic!("{shown}") };
    assert!(first.ends_with(&format!("Z  created by consumer/provisioning  request {drawn}")), "{shown}");
    assert_eq!([shard, users], ["  + /shard \"s1\"", "  + /users 10"]);
    assert!(second.ends_with("Z  written by consumer/support  request r-2  because case 7"), "{shown}");
    assert_eq!(change, "  ~ /users 10 -> 20");
    let version = second.split(' ').next().unwrap();
    let since = version.parse::<u64>().unwrap() - 1;
    let since = humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + std::time::Duration::from_millis(since));
    let (_, shown) = history_as(&guarded, "anna", &["--diff", "--since", &since.to_string()]).await;
    assert!(shown.contains("because case 7") && !shown.contains(&drawn), "{shown}");
    assert!(shown.ends_with("  what it was before is not shown here\n"), "{shown}");
    let (code, shown) = history_as(&guarded, "anna", &["--since", "2099-01-01T00:00:00Z"]).await;
    assert_eq!((code, shown.as_str()), (Some(0), "no version since then\n"));
    // Who may only read a view sees nothing of it.
    let (code, shown) = history_as(&guarded, "jira:api", &[]).await;
    assert!(code == Some(1) && shown.contains("403") && shown.contains("send a writer's token"), "{shown}");
    assert!(!shown.contains("case 7"), "{shown}");
    guarded.stop().await;
}
