//! `nearside bench` end to end where it is more than load: subscriptions that are live while it
//! measures.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use nearside::model::time::Clock;
use serde_json::Value;

use super::program::{self, PATIENCE, run, text};

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

/// One short round of these scenarios, away from the repository and its emulator.
fn measured(scenarios: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let page = folder.path().join("page.html");
    let mut args = vec!["bench", "--rounds", "1", "--seconds", "0.3", "--json", file.to_str().unwrap()];
    args.extend(["--page", page.to_str().unwrap()]);
    scenarios.iter().for_each(|scenario| args.extend(["--only", scenario]));
    let done = program::command(&args).current_dir(folder.path()).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(scenarios.iter().all(|scenario| page.contains(&format!("id=\"{scenario}\""))), "every scenario is shown");
    serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap()
}

/// The rounds of the row whose subject begins like this.
fn rounds<'a>(scenario: &'a Value, subject: &str) -> &'a Vec<Value> {
    let rows = scenario["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["subject"].as_str().unwrap().starts_with(subject));
    row.unwrap_or_else(|| panic!("{subject}: {rows:#?}"))["rounds"].as_array().unwrap()
}

#[test]
fn a_node_is_measured_beside_a_sidecar_and_beside_its_own_table() {
    let report = measured(&["node-hit", "node-miss"]);
    let [hit, miss] = &report["scenarios"].as_array().unwrap()[..] else { panic!("{report:#?}") };
    for row in hit["rows"].as_array().unwrap() {
        let proof = row["proof"].as_str().unwrap();
        assert!(proof.starts_with("cache-status: ; hit, not provisional, on all"), "{row}");
        assert!(row["rounds"][0]["cpu_us"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert!(hit["goals"][0]["text"].as_str().unwrap().contains("<= 1.1 x nearside"), "{hit}");
    let of = |subject: &str, what: &str| rounds(miss, subject)[0][what].as_u64().unwrap();
    let (all, misses) = (of("nearside, a node", "requests"), of("nearside, a node's misses", "requests"));
    assert!(misses > 0 && misses < all / 20, "{misses} of {all}");
    let p50 = |subject: &str| rounds(miss, subject)[0]["latency"]["p50_us"].as_f64().unwrap();
    assert!(p50("nearside, a node's misses") >= 2_000.0 && p50("the table, without") >= 2_000.0, "{miss:#}");
}

#[test]
fn changes_are_counted_from_the_feed_to_announced_and_records_on_a_disk_whose_process_was_killed() {
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
fn each_hop_of_a_change_has_its_time_and_without_the_emulator_it_is_said_how_to_get_it() {
    let report = measured(&["put-to-caller"]);
    let scenario = &report["scenarios"][0];
    for hop in ["PUT to caller", "PUT answered", "record to view", "view to announced", "announced to caller"] {
        let round = &rounds(scenario, &format!("embedded: {hop}"))[0];
        assert_eq!((&round["requests"], &round["failures"]), (&3.into(), &0.into()), "{hop}");
    }
    assert!(report["missing"][0]["why"].as_str().unwrap().contains("run tests/emulator/setup.sh"), "{report:#}");
}

#[test]
fn without_the_public_data_set_it_is_said_how_to_get_it() {
    let report = measured(&["payload"]);
    assert!(report["missing"][0]["why"].as_str().unwrap().contains("run tests/payloads/setup.sh"), "{report:#}");
    assert_eq!(report["scenarios"][0]["goals"].as_array().unwrap().len(), 0, "{report:#}");
}
