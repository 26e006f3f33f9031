//! `nearside-lab bench` end to end where it is more than load: subscriptions that are live while it
//! measures.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use nearside::model::time::Clock;
use serde_json::Value;

use super::program::{self, TIMEOUT, text};

#[test]
fn bench_hits_stay_fresh_under_announcements() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let done =
        program::bench(&["--only", "live", "--rounds", "1", "--seconds", "0.4", "--json", file.to_str().unwrap()])
            .output()
            .unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let rows = report["scenarios"][0]["rows"].as_array().unwrap();
    let [quiet, reported, idle] = &rows[..] else { panic!("{rows:?}") };
    assert!(idle["rounds"][0]["rss_bytes"].as_u64().unwrap() > 1 << 20, "{idle}");
    for row in [quiet, reported] {
        let proof = row["proof"].as_str().unwrap();
        assert!(proof.starts_with("cache-status: ; hit, not provisional, on all"), "{proof}");
        assert_eq!(row["rounds"][0]["failures"], 0, "{row}");
    }
    // How many is the machine's matter; that some were verified and applied is ours.
    let proof = reported["proof"].as_str().unwrap();
    let applied = proof.rsplit("; ").next().unwrap().split(' ').next().unwrap().parse::<u64>().unwrap();
    assert!(applied > 0, "{proof}");
}

#[test]
fn killed_harness_ends_its_children() {
    let mut harness = Command::new("sh")
        .args(["-c", "\"$0\" bench hold sleep 600 & echo $!; wait"])
        .arg(program::lab_program())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(harness.stdout.take().unwrap()).read_line(&mut line).unwrap();
    until_sleeps(line.trim(), true);
    harness.kill().unwrap();
    harness.wait().unwrap();
    until_sleeps(line.trim(), false);
}

/// Waits until that process is a `sleep`, or no longer is.
fn until_sleeps(pid: &str, wanted: bool) {
    let began = Clock::System.now();
    loop {
        // The first word is its name: `sleep` once it has become that, nothing when it is gone.
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if command.starts_with("sleep") == wanted {
            return;
        }
        assert!(Clock::System.now() - began < TIMEOUT, "{command:?}");
        std::thread::yield_now();
    }
}

/// One short round of these scenarios, away from the repository and its emulator.
fn measured(scenarios: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let page = folder.path().join("page.html");
    let mut args = vec!["--rounds", "1", "--seconds", "0.3", "--json", file.to_str().unwrap()];
    args.extend(["--page", page.to_str().unwrap(), "--charts", folder.path().to_str().unwrap()]);
    scenarios.iter().for_each(|scenario| args.extend(["--only", scenario]));
    let done = program::bench(&args).current_dir(folder.path()).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(scenarios.iter().all(|scenario| page.contains(&format!("id=\"{scenario}\""))), "every scenario is shown");
    let files =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let charts = files.filter(|name| name.ends_with(".svg")).count();
    assert_eq!(charts, page.matches("<figure>").count(), "every chart of the page is a file");
    serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap()
}

/// The rounds of the row whose subject begins like this.
fn rounds<'a>(scenario: &'a Value, subject: &str) -> &'a Vec<Value> {
    let rows = scenario["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["subject"].as_str().unwrap().starts_with(subject));
    row.unwrap_or_else(|| panic!("{subject}: {rows:#?}"))["rounds"].as_array().unwrap()
}

#[test]
fn bench_measures_node_sidecar_and_table() {
    let report = measured(&["node-hit", "node-miss"]);
    let [hit, miss] = &report["scenarios"].as_array().unwrap()[..] else { panic!("{report:#?}") };
    for row in hit["rows"].as_array().unwrap() {
        let proof = row["proof"].as_str().unwrap();
        assert!(proof.starts_with("cache-status: ; hit, not provisional, on all"), "{row}");
        assert!(row["rounds"][0]["cpu_us"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert!(hit["goals"][0]["text"].as_str().unwrap().contains("<= 1.1 x nearside"), "{hit}");
    let (all, misses) = (requests(miss, "nearside, a node"), requests(miss, "nearside, a node's misses"));
    assert!(misses > 0 && misses < all / 20, "{misses} of {all}");
    assert!(
        p50(miss, "nearside, a node's misses") >= 2_000.0 && p50(miss, "the table, without") >= 2_000.0,
        "{miss:#}"
    );
}

fn requests(scenario: &Value, subject: &str) -> u64 {
    rounds(scenario, subject)[0]["requests"].as_u64().unwrap()
}

fn p50(scenario: &Value, subject: &str) -> f64 {
    rounds(scenario, subject)[0]["latency"]["p50_us"].as_f64().unwrap()
}

#[test]
fn bench_counts_changes_and_survived_records() {
    let report = measured(&["ingest", "redb-million"]);
    let [ingest, redb] = &report["scenarios"].as_array().unwrap()[..] else { panic!("{report:#?}") };
    for (subject, changes) in [("a backlog", 3_000), ("a backlog over SNS", 3_000), ("10 changes a second", 3)] {
        let round = &rounds(ingest, &format!("nearside, {subject}"))[0];
        assert_eq!((&round["requests"], &round["failures"]), (&changes.into(), &0.into()), "{subject}");
    }
    assert!(ingest["notes"][1].as_str().unwrap().contains("1.00 puts"), "{ingest:#}");
    let read =
        ["read by one scan", "read bucket by bucket"].map(|subject| rounds(redb, subject)[0]["requests"].clone());
    assert_eq!(read, [600, 600], "{redb:#}");
    assert!(rounds(redb, "32 writers")[0]["requests"].as_u64().unwrap() > 0, "{redb:#}");
    assert!(rounds(redb, "opened after SIGKILL")[0]["latency"]["p50_us"].as_f64().unwrap() > 0.0, "{redb:#}");
}

#[test]
fn bench_times_each_hop_of_change() {
    let report = measured(&["put-to-caller"]);
    let scenario = &report["scenarios"][0];
    for hop in ["PUT to caller", "PUT answered", "record to view", "view to announced", "announced to caller"] {
        let round = &rounds(scenario, &format!("embedded: {hop}"))[0];
        assert_eq!((&round["requests"], &round["failures"]), (&3.into(), &0.into()), "{hop}");
    }
    assert!(report["missing"][0]["why"].as_str().unwrap().contains("run tests/emulator/setup.sh"), "{report:#}");
}

#[test]
fn missing_data_set_names_its_remedy() {
    let report = measured(&["payload"]);
    assert!(report["missing"][0]["why"].as_str().unwrap().contains("run tests/payloads/setup.sh"), "{report:#}");
    assert_eq!(report["scenarios"][0]["goals"].as_array().unwrap().len(), 0, "{report:#}");
}
