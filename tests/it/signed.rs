//! Requests that the sidecar signs (Signature Version 4), on the wire: botocore finds the signatures that
//! it would have made.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::drop_in::script_file;
use super::support::emulator;
use super::wire::{Message, Wire, reply};

const ROUTE: &str = "announcements.endpoint_url = \"http://127.0.0.1:9\"\n[[service.route]]\n\
                     path = \"/r/{key}\"\nrecords = [\"thing:{key}\"]\nidentity = \"sidecar\"\n\
                     forward = [\"x-amz-target\"]\nbatch = \"/many\"\nupstream_batch = \"/many\"\n\
                     credentials = { kind = \"sigv4\", service = \"execute-api\", aws_regions = [\"eu-west-1\", \"us-east-1\"] }\n";

/// Faults that botocore finds in each of these, by the keys that stand in on loopback.
fn judged(seen: &[Message]) -> Vec<Value> {
    let requests = seen.iter().map(|seen| {
        let url = format!("http://{}{}", seen.header("host"), seen.target());
        json!({"method": seen.method(), "url": url, "headers": seen.headers, "body": String::from_utf8_lossy(&seen.body)})
    });
    let requests = Value::Array(requests.collect()).to_string();
    let mut command = Command::new(emulator::set_up().join("bin/python"));
    command.arg(script_file("sigv4.py")).args(["test", "execute-api"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(requests.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "what it said is above");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn signatures_are_what_botocore_expects() {
    let wire = Wire::with(2, ROUTE, |_| reply(200, "X-Record-Version: 1", "x")).await;
    for (target, lines) in [
        ("/r/plain", &["Authorization: AWS4-HMAC-SHA256 Credential=theirs", "X-Amz-Date: 20200101T000000Z"][..]),
        ("/r/a%20b%2Fc?x=2&x=1&flag&empty=", &["X-Amz-Target: one  two"]),
        ("/r/~tilde-_.?q=%C3%BC", &["Range: bytes=0-0"]),
    ] {
        assert_eq!(wire.get(target, lines).await.status(), 200, "{target}");
    }
    wire.ask("POST", "/many", &["Content-Type: application/json"], b"{\"keys\": [\"one\", \"two\"]}").await;
    wire.idle().await;
    let mut seen = wire.seen();
    let posts = seen.iter().filter(|seen| seen.method() == "POST").count();
    assert!(seen.len() >= 6 && posts >= 1, "{posts} batches of {} requests", seen.len());
    let found = judged(&seen);
    assert!(found.len() == seen.len() && found.iter().all(Value::is_null), "{found:#?}");
    for (region, name) in wire.regions.iter().zip(["eu-west-1", "us-east-1"]) {
        let scope = format!("/{name}/execute-api/aws4_request");
        let seen = region.seen();
        assert!(!seen.is_empty() && seen.iter().all(|it| it.header("authorization").contains(&scope)), "{name}");
    }
    // Such a judge sees a difference.
    for (_, value) in seen[0].headers.iter_mut().filter(|(name, _)| name.eq_ignore_ascii_case("x-amz-date")) {
        *value = "20270115T080001Z".to_owned();
    }
    assert!(!judged(&seen[..1])[0].is_null());
    wire.end().await;
}

/// A writer is known by its own credentials.
#[tokio::test]
async fn writes_carry_no_signature() {
    let wire = Wire::with(2, ROUTE, |_| reply(200, "", "")).await;
    wire.ask("PUT", "/r/a", &[], b"x").await;
    assert!(!wire.last_seen().has("authorization") && !wire.last_seen().has("x-amz-date"));
    wire.end().await;
}
