//! Paths that no route names: passed on unless they are to be cached, and then never somebody's own
//! reply for everybody.

use super::{Message, Say, Wire, reply, route};

/// Whose request it was, cacheable for everybody by RFC 9111.
fn yours(request: &Message) -> Say {
    let whose = format!("{:?} {:?}", request.all("cookie"), request.all("x-tenant"));
    reply(200, "Cache-Control: max-age=600\nETag: \"1\"", &whose)
}

#[tokio::test]
async fn unrouted_path_passes_without_storing() {
    // With more regions, one that is late here is one more that is asked.
    let wire = Wire::with(1, &route(""), yours).await;
    for (count, (method, lines)) in
        [("GET", &[][..]), ("GET", &[]), ("HEAD", &[]), ("GET", &["If-None-Match: \"1\""])].into_iter().enumerate()
    {
        let got = wire.ask(method, "/unrouted", lines, b"").await;
        assert_eq!((got.status(), got.parameter("fwd"), got.parameter("stored")), (200, Some("bypass"), None));
        assert_eq!(wire.seen().len(), count + 1, "{method}: once");
        let seen = wire.seen();
        assert!(seen.iter().any(|seen| seen.method() == method && seen.all("if-none-match").len() == lines.len()));
    }
    let kept = wire.get("/unrouted", &["Cache-Control: only-if-cached"]).await;
    assert_eq!((kept.status(), wire.seen().len()), (504, 4));
    wire.end().await;
}

#[tokio::test]
async fn failing_region_costs_unrouted_read_nothing() {
    let wire = Wire::with(3, "", |_| reply(200, "", "x")).await;
    wire.regions[0].says(|_| Say::Last(Vec::new()));
    wire.regions[1].says(|_| reply(503, "", "down"));
    for _ in 0..4 {
        assert_eq!(wire.get("/unrouted", &[]).await.text(), "x");
    }
    wire.end().await;
}

/// Paths that a region may take for the route's, and the sidecar does not.
const NEARLY: [&str; 8] = ["/r/a/", "//r/a", "/r//a", "/R/a", "/r/../r/a", "/r/%2e/a", "/%72/a", "/r/a/?q=1"];

#[tokio::test]
async fn nearly_routed_path_shares_no_reply() {
    for unrouted in ["", "cache.unrouted = \"pass\"", "cache.unrouted = \"cache\""] {
        let settings = format!("{unrouted}\n{}", route("identity_headers = [\"x-tenant\"]"));
        let wire = Wire::with(1, &settings, yours).await;
        for target in NEARLY {
            for tenant in ["one", "two"] {
                let got = wire.get(target, &[&format!("X-Tenant: {tenant}")]).await;
                let whose = format!("[] [\"{tenant}\"]");
                assert_eq!((got.is_hit(), got.text()), (false, whose.as_str()), "{unrouted} {target}");
            }
        }
        wire.end().await;
    }
}

#[tokio::test]
async fn cookie_request_stores_only_public_reply() {
    for (lines, shared) in [
        ("Cache-Control: max-age=600", false),
        ("Cache-Control: s-maxage=600, must-revalidate", false),
        ("Expires: Fri, 01 Jan 2100 00:00:00 GMT", false),
        ("Cache-Control: public, max-age=600", true),
    ] {
        let wire = Wire::with(1, "cache.unrouted = \"cache\"\n", move |request| {
            reply(200, lines, &format!("{:?}", request.all("cookie")))
        })
        .await;
        assert_eq!(wire.get("/a", &["Cookie: one"]).await.text(), "[\"one\"]");
        let other = wire.get("/a", &["Cookie: two"]).await;
        assert_eq!((other.is_hit(), other.text() == "[\"one\"]"), (shared, shared), "{lines}: {}", other.text());
        wire.get("/b", &[]).await;
        assert!(wire.get("/b", &[]).await.is_hit(), "{lines}: without cookies it is shared");
        wire.end().await;
    }
}
