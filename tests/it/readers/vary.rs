//! `Vary` on routes: a reply is shared by those for whom the region would have given the same.

use std::time::Duration;

use super::{Message, Say, Wire, reply, route};

/// A reply that varies by these headers, and tells what they were.
fn varies(request: &Message, by: &str, lines: &str) -> Say {
    let seen: Vec<_> = by.split(", ").flat_map(|name| request.all(name)).collect();
    reply(200, &format!("Vary: {by}\n{lines}"), &seen.join("|"))
}

#[tokio::test]
async fn unkeyed_vary_header_prevents_sharing() {
    for by in ["User-Agent", "Accept, user-agent", "X-Request-Id", "traceparent, Origin", "*"] {
        let wire = Wire::with(1, &route(""), move |request| varies(request, by, "X-Record-Version: 1")).await;
        wire.live();
        for caller in ["one", "two", "one"] {
            let lines = ["User-Agent", "X-Request-Id", "Traceparent"].map(|name| format!("{name}: {caller}"));
            let got = wire.get("/r/a", &lines.each_ref().map(String::as_str)).await;
            assert_eq!((got.is_hit(), got.parameter("stored")), (false, None), "{by}: {}", got.label());
            assert_eq!(got.text(), if by == "*" { "" } else { caller }, "{by}");
            wire.idle().await;
        }
        assert!(!wire.get("/r/a", &[]).await.is_hit(), "{by}: nor with those who send none");
        wire.end().await;
    }
}

#[tokio::test]
async fn keyed_or_passed_header_allows_vary() {
    let by = "Origin, Accept-Encoding, Accept, Authorization, Cookie, Accept-Language, X-Tenant";
    let wire = Wire::with(1, &route("forward = [\"x-tenant\"]"), move |request| varies(request, by, "")).await;
    let lines = ["Authorization: me", "Cookie: a=b", "Accept: a/b", "X-Tenant: 1"];
    wire.get("/r/a", &lines).await;
    let hit = wire.get("/r/a", &[&lines[..], &["User-Agent: other", "Accept-Language: *"]].concat()).await;
    assert!(hit.is_hit(), "{}", hit.label());
    for line in ["X-Tenant: 2", "Accept: c/d", "Accept-Encoding: gzip", "Origin: http://a", "Accept-Language: de"] {
        let got = wire.get("/r/a", &[&lines[..3], &[line]].concat()).await;
        assert!(!got.is_hit(), "{line}");
        assert!(
            got.text().contains(line.split_once(": ").unwrap().1) || line.contains("gzip"),
            "{line}: {}",
            got.text()
        );
    }
    wire.end().await;
}

#[tokio::test]
async fn forwarded_user_agent_allows_vary() {
    let settings = route("forward = [\"user-agent\"]");
    let wire = Wire::with(1, &settings, |request| varies(request, "User-Agent", "")).await;
    for (caller, hit) in [("one", false), ("one", true), ("two", false), ("two", true), ("one", true)] {
        let got = wire.get("/r/a", &[&format!("User-Agent: {caller}")]).await;
        assert_eq!((got.is_hit(), got.text()), (hit, caller));
    }
    wire.end().await;
}

#[tokio::test]
async fn newly_varying_304_is_not_stored() {
    let wire = Wire::with(1, &route(""), |request| {
        if request.has("if-none-match") {
            reply(304, "ETag: \"1\"\nVary: User-Agent", "")
        } else {
            reply(200, "ETag: \"1\"", "x")
        }
    })
    .await;
    wire.get("/r/a", &[]).await;
    wire.idle().await;
    wire.pass(Duration::from_secs(31));
    let refreshed = wire.get("/r/a", &["User-Agent: one"]).await;
    assert_eq!((refreshed.text(), refreshed.parameter("fwd-status")), ("x", Some("304")));
    assert_eq!(refreshed.parameter("stored"), None, "{}", refreshed.label());
    assert!(!wire.get("/r/a", &["User-Agent: two"]).await.is_hit());
    wire.end().await;
}
