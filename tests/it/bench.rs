//! `nearside bench` end to end where it is more than load: subscriptions that are live while it measures.

use serde_json::Value;

use super::program::{run, text};

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
