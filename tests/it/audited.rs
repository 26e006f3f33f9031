//! R17 through the whole program: a change that no topic ever carried.

use std::time::Duration;

use serde_json::Value;

use super::announced::{Announced, NOTHING, Wish, until};

const KEY: &str = "tenant-of-nobody-in-particular";

/// A line of `/metrics`, its number.
fn counted(metrics: &str, line: &str) -> u64 {
    let found = metrics.lines().find_map(|it| it.strip_prefix(line)?.trim().parse::<f64>().ok());
    found.map(|count| count as u64).unwrap_or_else(|| panic!("{line} is missing from\n{metrics}"))
}

#[tokio::test]
async fn audit_finds_unannounced_change_in_time() {
    let freshness = "audit_period = \"500ms\"".to_owned();
    let announced = Announced::subscribed(Wish { freshness, ..Wish::over("http", "audited") }).await;
    announced.publish_everywhere(NOTHING).await;
    announced.until_counted("unrouted", 3).await;
    announced.put(KEY, 4);
    assert_eq!(announced.read(KEY).await.version, 4);
    until("an audit that finds nothing", async || {
        let metrics = announced.page("metrics").await;
        counted(&metrics, "nearside_audit_entries_total{result=\"fresh\"}") > 0
    })
    .await;
    let hit = announced.read(KEY).await;
    assert!(hit.is_hit() && hit.version == 4, "{hit:?}: it is right, and stays");

    announced.put(KEY, 5);
    until("the new value", async || announced.read(KEY).await.version == 5).await;
    let hit = announced.read(KEY).await;
    assert!(hit.is_hit() && hit.version == 5, "{hit:?}");
    let mut status = String::new();
    until("the violation", async || {
        status = announced.page("status").await;
        let status: Value = serde_json::from_str(&status).unwrap();
        status["audit"]["violations"].as_array().is_some_and(|violations| !violations.is_empty())
    })
    .await;
    let reported: Value = serde_json::from_str(&status).unwrap();
    let (audit, violation) = (&reported["audit"], &reported["audit"]["violations"][0]);
    assert_eq!((&violation["record_type"], &violation["held_version"]), (&"context".into(), &4.into()));
    assert_eq!((&violation["seen_version"], &violation["announced"]), (&5.into(), &Value::Null));
    assert_eq!(violation["key_hash"].as_str().map(str::len), Some(16));
    assert_eq!((&audit["open"], audit["violations"].as_array().map(Vec::len)), (&1.into(), Some(1)));
    assert!(!status.contains(KEY) && !status.contains("{\\\"n\\\""), "neither key nor content: {status}");
    assert_eq!(counted(&announced.page("metrics").await, "nearside_audit_open"), 1);

    // The announcement comes after all, seconds late: the violation is closed, and says so.
    announced.publish(0, &super::announced::changed(KEY, 5)).await;
    until("the end of the violation", async || {
        let metrics = announced.page("metrics").await;
        counted(&metrics, "nearside_audit_windows_total{within=\"1s\",outcome=\"stale\"}") == 1
    })
    .await;
    let reported: Value = serde_json::from_str(&announced.page("status").await).unwrap();
    let after = reported["audit"]["violations"][0]["announced_after_ms"].as_u64().map(Duration::from_millis);
    assert!(after.is_some_and(|after| after > Duration::from_secs(1)), "{reported}");
    assert_eq!(reported["audit"]["fresh"][2]["share"], 1.0, "within 60 s");
    announced.stop().await;
}
