//! Answers of a node from its table, their metadata, and its behaviour without one.

use super::*;

#[test]
fn configures_one_route_per_view() {
    let topic = "arn:aws:sns:eu-west-1:000000000000:views".to_owned();
    let listen = "0.0.0.0:8700".parse().unwrap();
    let far = NodeSettings { topic: Some(topic), listen, hosts: vec!["node.example".into()], ..settings() };
    let config = config(&far).unwrap();
    let routes: Vec<_> = config.service.routes.iter().map(|route| route.path.text.as_str()).collect();
    assert_eq!(routes, ["/v1/contexts/{key}/limits", "/v1/contexts/{key}/theme"]);
    assert_eq!(config.service.regions[0].topic.as_ref().map(|topic| topic.name.as_str()), Some("views"));
    assert_eq!((config.listen.tcp, config.listen.allowed_hosts.as_slice()), (Some(listen), &far.hosts[..]));
    assert!(config.service.authoritative);
    assert!(
        super::config(&NodeSettings { region: "a\"\nb".into(), ..settings() }).is_err(),
        "no name gets out of it"
    );
}

#[tokio::test(start_paused = true)]
async fn view_is_read_once_then_stored() {
    let node = Node::heard().await;
    node.put("a/b \u{e4}", 5, Some("{\"seats\":9}")).await;
    let path = "/v1/contexts/a%2Fb%20%C3%A4/limits";
    let first = node.get(path, &[]).await;
    assert_eq!((first.status, first.body.as_str(), first.version()), (200, "{\"seats\":9}", 5));
    let stated = ["content-type", "etag", "cache-control"].map(|name| first.header(name));
    assert_eq!(stated, ["application/json", "\"5\"", "private, no-cache"]);
    let second = node.get(path, &[]).await;
    assert!(second.is_hit(), "{second:?}");
    assert_eq!((second.body.as_str(), second.header("cache-control")), ("{\"seats\":9}", "private, no-cache"));
    assert_eq!(node.get(path, &[("if-none-match", "\"5\"")]).await.status, 304);
    assert_eq!(node.reads(), 1);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deleted_404_states_version_unknown_none() {
    let node = Node::heard().await;
    node.put("acme", 6, None).await;
    let gone = node.get(LIMITS, &[]).await;
    assert_eq!((gone.status, gone.version(), gone.header("content-type")), (404, 6, "application/problem+json"));
    let never = node.get("/v1/contexts/nobody/limits", &[]).await;
    assert_eq!((never.status, never.header("x-record-version")), (404, ""));
    assert!(node.get("/v1/contexts/nobody/limits", &[]).await.is_hit());
    assert_eq!(node.reads(), 2);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn impossible_keys_are_never_read() {
    let node = Node::heard().await;
    let long = format!("/v1/contexts/{}/limits", "k".repeat(513));
    let odd = ["", "%00", "%2e%2E", ".", &long[13..526]].map(|key| format!("/v1/contexts/{key}/limits"));
    let odd = odd.iter().map(String::as_str);
    let none =
        ["/v1/contexts/acme", "/", "/v1/contexts/acme/limits/", "/v1/contexts/acme/limits/x", "/v1/contexts/a/L"];
    for path in odd.chain(none) {
        assert_eq!(node.get(path, &[]).await.status, 404, "{path}");
    }
    let refused = node.send(Method::PUT, LIMITS, &[]).await;
    assert_eq!((refused.status, refused.header("allow")), (405, "GET, HEAD"));
    assert_eq!(node.reads(), 0);
    node.stop().await;
}

/// A 404 would say that there is no such record.
#[tokio::test(start_paused = true)]
async fn broken_key_escape_is_bad_request() {
    let node = Node::heard().await;
    node.put("%zz", 5, Some("{}")).await;
    for key in ["%zz", "%", "a%4", "%%41", "%ff", "%C3", "%ED%A0%80"] {
        let refused = node.get(&format!("/v1/contexts/{key}/limits"), &[]).await;
        assert_eq!((refused.status, refused.header("content-type")), (400, "application/problem+json"), "{key}");
        assert!(refused.body.contains("problem:bad-key") && refused.body.contains("%25"), "{}", refused.body);
    }
    assert_eq!(node.reads(), 0);
    assert_eq!(node.get("/v1/contexts/%25zz/limits", &[]).await.version(), 5);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn damaged_item_differs_from_table_outage() {
    let node = Node::heard().await;
    node.table.is_damaged.store(true, Ordering::Relaxed);
    let damaged = node.get(LIMITS, &[]).await;
    assert_eq!(damaged.status, 500, "{}", damaged.body);
    assert!(damaged.body.contains("problem:damaged") && damaged.body.contains("under this key"), "{}", damaged.body);
    node.table.is_damaged.store(false, Ordering::Relaxed);
    node.table.is_down.store(true, Ordering::Relaxed);
    let down = node.get("/v1/contexts/other/limits", &[]).await;
    assert!(down.status == 503 && down.body.contains("problem:table-down"), "{}", down.body);
    node.stop().await;
}

/// A 404 would be this region's word on a record that others have.
#[tokio::test(start_paused = true)]
async fn view_outside_region_is_misdirected() {
    let node = Node::heard().await;
    let refused = node.get("/v1/contexts/acme/prices", &[]).await;
    assert_eq!((refused.status, refused.header("content-type")), (421, "application/problem+json"));
    let is_silent = !refused.body.contains("limits") && !refused.body.contains("theme");
    assert!(refused.body.contains("does not take that view") && is_silent, "{}", refused.body);
    assert_eq!(node.reads(), 0);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn if_match_selects_named_version_only() {
    let node = Node::heard().await;
    node.put("acme", 5, Some("{}")).await;
    for (demand, status) in [("\"5\"", 200), ("\"4\", \"5\"", 200), ("*", 200), ("\"4\"", 412), ("W/\"5\"", 412)] {
        let got = node.get(LIMITS, &[("if-match", demand)]).await;
        assert_eq!((got.status, got.version()), (status, 5), "{demand}");
    }
    node.put("acme", 6, None).await;
    assert_eq!(node.get(LIMITS, &[("if-match", "\"6\"")]).await.status, 404);
    node.stop().await;
}

/// A sidecar takes a reply to be as old as its `Age`.
#[tokio::test(start_paused = true)]
async fn age_comes_from_bound_or_read() {
    let node = Node::heard().await;
    node.put("acme", 5, Some("{}")).await;
    node.get(LIMITS, &[]).await;
    assert_eq!(node.get(LIMITS, &[]).await.header("age"), "0", "just read");
    node.beat(60 * SECOND).await;
    assert_eq!(
        node.get(LIMITS, &[]).await.header("age"),
        "1",
        "heartbeats say so: {:?}",
        node.get(LIMITS, &[]).await
    );
    tokio::time::sleep(9 * SECOND).await;
    assert_eq!(node.get(LIMITS, &[]).await.header("age"), "10", "none came since");
    assert_eq!(node.reads(), 1);
    let silent = Node::new();
    silent.put("acme", 5, Some("{}")).await;
    silent.get(LIMITS, &[]).await;
    tokio::time::sleep(7 * SECOND).await;
    assert_eq!(silent.get(LIMITS, &[]).await.header("age"), "7", "nothing bounds it");
    silent.stop().await;
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn table_outage_serves_stored_or_fails() {
    let node = Node::heard().await;
    // R21: what it hears of has been seen to be what it holds.
    for version in [3, 4, 5] {
        node.ingest("acme", version).await;
        node.get(LIMITS, &[]).await;
        node.beat(61 * SECOND).await;
    }
    node.table.is_down.store(true, Ordering::Relaxed);
    node.beat(60 * SECOND).await;
    let started = node.settings.fill.shared.clock.now();
    assert_eq!(node.get("/v1/contexts/other/limits", &[]).await.status, 503);
    assert_eq!(node.get(LIMITS, &[("cache-control", "no-cache")]).await.status, 503);
    assert_eq!(node.at_floor("6").await.status, 503, "it has less than that");
    assert_eq!(node.settings.fill.shared.clock.now(), started);
    let stored = node.get(LIMITS, &[]).await;
    assert_eq!((stored.status, stored.header("age"), stored.is_hit()), (200, "1", true));
    assert_eq!(node.at_floor("5").await.status, 200);
    // Its TTL ends; nobody can say anything newer.
    node.beat(3_700 * SECOND).await;
    let labelled = node.get(LIMITS, &[]).await;
    assert!(labelled.header("cache-status").contains("detail=stale-if-error"), "{labelled:?}");
    assert_eq!(node.at_floor("5").await.status, 503);
    node.table.is_down.store(false, Ordering::Relaxed);
    node.beat(10 * SECOND).await;
    assert!(!node.get(LIMITS, &[]).await.header("cache-status").contains("stale-if-error"));
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn hanging_read_ends_in_quick_503() {
    let node = Node::heard().await;
    node.next_reads_take(&[60_000]);
    let started = node.settings.fill.shared.clock.now();
    assert_eq!(node.get(LIMITS, &[]).await.status, 503);
    assert_eq!(node.settings.fill.shared.clock.now() - started, SECOND);
    node.stop().await;
}

/// Duration of a read of what is not there.
async fn read(node: &Node, key: usize) -> Duration {
    let started = node.settings.fill.shared.clock.now();
    let status = node.get(&format!("/v1/contexts/k{key}/limits"), &[]).await.status;
    assert_eq!(status, 404);
    node.settings.fill.shared.clock.now() - started
}

#[tokio::test(start_paused = true)]
async fn slow_read_is_hedged_after_p95() {
    let node = Node::heard().await;
    for key in 0..40 {
        node.next_reads_take(&[10]);
        read(&node, key).await;
    }
    assert_eq!(node.reads(), 40);
    node.next_reads_take(&[500, 10]);
    assert_eq!(read(&node, 40).await, Duration::from_millis(20), "the p95, and the second read");
    assert_eq!(node.reads(), 2);
    node.next_reads_take(&[15, 500]);
    assert_eq!(read(&node, 41).await, Duration::from_millis(15), "the first was about to answer");
    assert_eq!(node.reads(), 2);
    node.next_reads_take(&[500, 10]);
    assert_eq!(read(&node, 42).await, Duration::from_millis(500), "one read in twenty, and both are spent");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failed_read_is_retried_once() {
    let node = Node::heard().await;
    for key in 0..40 {
        assert_eq!(node.get(&format!("/v1/contexts/k{key}/limits"), &[]).await.status, 404);
    }
    assert_eq!(node.reads(), 40);
    for (failing, status) in [(1, 404), (2, 503)] {
        node.table.failing.store(failing, Ordering::Relaxed);
        assert_eq!(node.get(&format!("/v1/contexts/f{failing}/limits"), &[]).await.status, status);
        assert_eq!(node.reads(), 2);
    }
    node.stop().await;
}
