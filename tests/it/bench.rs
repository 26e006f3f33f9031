//! `nearside bench` end to end where it is more than load: subscriptions that are live while it
//! measures.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use nearside::model::time::Clock;
use serde_json::Value;

use super::program::{PATIENCE, run, text};

#[test]
fn announcements_arrive_while_hits_are_measured_and_every_hit_is_fresh() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let done =
        run(&["bench", "--only", "live", "--rounds", "1", "--seconds", "0.4", "--json", file.to_str().unwrap()]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let rows = report["scenarios"][0]["rows"].as_array().unwrap();
    let [quiet, told, idle] = &rows[..] else { panic!("{rows:?}") };
    assert!(idle["rounds"][0]["rss_bytes"].as_u64().unwrap() > 1 << 20, "{idle}");
    for row in [quiet, told] {
        let proof = row["proof"].as_str().unwrap();
        assert!(proof.starts_with("cache-status: ; hit, not provisional, on all"), "{proof}");
        assert_eq!(row["rounds"][0]["failures"], 0, "{row}");
    }
    // How many is the machine's matter; that some were verified and applied is ours.
    let proof = told["proof"].as_str().unwrap();
    let applied = proof.rsplit("; ").next().unwrap().split(' ').next().unwrap().parse::<u64>().unwrap();
    assert!(applied > 0, "{proof}");
}

#[test]
fn what_the_harness_holds_ends_with_it_even_when_it_is_killed() {
    let nearside = assert_cmd::cargo::cargo_bin!("nearside");
    let mut harness = Command::new("sh")
        .args(["-c", "\"$0\" bench hold sleep 600 & echo $!; wait"])
        .arg(nearside)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(harness.stdout.take().unwrap()).read_line(&mut line).unwrap();
    // The first word is its name: `sleep` once it has become that, nothing when it is gone.
    let runs = || std::fs::read_to_string(format!("/proc/{}/cmdline", line.trim())).unwrap_or_default();
    let within = |done: &dyn Fn() -> bool| {
        let began = Clock::System.now();
        while !done() {
            assert!(Clock::System.now() - began < PATIENCE, "{:?}", runs());
            std::thread::yield_now();
        }
    };
    within(&|| runs().starts_with("sleep"));
    harness.kill().unwrap();
    harness.wait().unwrap();
    within(&|| !runs().starts_with("sleep"));
}
