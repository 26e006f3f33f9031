//! `nearside changes` beside services that only observe: commands are decided all the same.

use serde_json::json;

use super::super::program::{self, path, text};
use super::access::{Guarded, ISS, now};

const OPERATORS: &str = "https://operators.example";
const OPERATE: &str = "operate_audience = \"https://operators.example\"";

/// Runs `nearside changes tenant` with a token of `sub`.
async fn changes_as(guarded: &Guarded, sub: &str, args: &[&str]) -> (Option<i32>, String) {
    let token = guarded.directory.path().join("operator.token");
    std::fs::write(&token, guarded.issuer.token(sub, OPERATORS, now())).unwrap();
    let admin = format!("http://{}", guarded.services[0].admin);
    let base = ["changes", "tenant", "--since", "1h", "--admin", &admin, "--token-file", path(&token)];
    let mut command = program::command(&[&base, args].concat());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (output.status.code(), text(&output.stdout).to_owned() + text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_counted_for_who_may_inspect() {
    let guarded = Guarded::start_with("observe", None, OPERATE).await;
    let consumers = json!({
        "provisioning": {"who": [{"iss": ISS, "sub": "jobs:*"}], "write": ["tenant"]},
        "support": {"who": [{"iss": ISS, "sub": "anna"}], "may": ["inspect"]},
        "operator": {"who": [{"iss": ISS, "sub": "operator"}], "may": ["operate"]},
    });
    guarded.grant(&consumers, &[]).await;
    for (key, reason) in [("acme", "case 7"), ("beta", "case 7"), ("gamma", "case 8")] {
        let request = guarded.client.put(format!("http://{}/v1/records/tenant/{key}", guarded.catalogue));
        let request = request.header("content-type", "application/json").header("x-change-reason", reason);
        assert!(request.body(r#"{"users":1}"#).send().await.unwrap().status().is_success());
    }
    let url = format!("http://{}/v1/records/tenant/beta", guarded.catalogue);
    assert!(guarded.client.delete(url).send().await.unwrap().status().is_success());

    // The catalogue takes the grants into use when it looks the next time.
    let asking = async {
        loop {
            match changes_as(&guarded, "anna", &[]).await {
                (Some(0), shown) => break shown,
                (_, refused) => assert!(refused.contains("403") || refused.contains("503"), "{refused}"),
            }
        }
    };
    let shown = tokio::time::timeout(program::TIMEOUT, asking).await.unwrap();
    let lines: Vec<&str> = shown.lines().collect();
    // A minute may have begun between two of them.
    let counted = ["because case 7", "because case 8"].map(|reason| {
        let lines = lines.iter().filter(|line| line.ends_with(reason) && line.contains("  anonymous  "));
        lines.filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok()).sum::<u64>()
    });
    assert_eq!(counted, [2, 1], "{shown}");
    assert!(shown.contains("1 deleted") && shown.contains("\n3 of 3 records of tenant changed since "), "{shown}");
    assert!(shown.contains("digests of some keys: ") && !shown.contains("acme"), "{shown}");
    let (code, shown) = changes_as(&guarded, "anna", &["--writer", "consumer/jira"]).await;
    assert!(code == Some(0) && shown.starts_with("0 of 3 records of tenant"), "{shown}");
    for (sub, said) in [("operator", "403"), ("jobs:one", "403"), ("stranger", "403")] {
        let (code, shown) = changes_as(&guarded, sub, &[]).await;
        assert!(code == Some(1) && shown.contains(said) && !shown.contains("case 7"), "{sub}: {shown}");
    }
    guarded.stop().await;
}
