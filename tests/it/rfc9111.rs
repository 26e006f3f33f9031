//! Unrouted paths on the wire: a shared HTTP cache by RFC 9111, RFC 5861 (stale-if-error) and RFC
//! 9211 (`Cache-Status`). A test's name begins with the section that it holds, of RFC 9111 unless
//! another is named.

use std::time::Duration;

use super::wire::{Message, Say, Wire, exchange, reply, request};

mod forwarding;
mod validation;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// One region that answers by `script`, and a sidecar that caches what no route names.
async fn cached(script: impl Fn(&Message) -> Say + Send + Sync + 'static) -> Wire {
    Wire::with(1, "cache.unrouted = \"cache\"\n", script).await
}

/// True if `text` is this number, or a little more: the tests' time goes on while they run.
fn says(text: &str, number: i64) -> bool {
    text.parse().is_ok_and(|found: i64| (number..number + 50).contains(&found))
}

/// True if the label states this `ttl`, or a little less.
fn ttl(got: &Message, number: i64) -> bool {
    let found = got.parameter("ttl").and_then(|text| text.parse().ok());
    found.is_some_and(|found: i64| (number - 50..=number).contains(&found))
}

/// Number of requests that the regions got.
fn asked(wire: &Wire) -> usize {
    wire.seen().len()
}

/// Stores what `lines` say, lets `age` pass, and tells whether the reply is then served without
/// asking.
async fn is_fresh_after(lines: &str, age: u64) -> bool {
    let say = reply(200, lines, "x");
    let wire = cached(move |_| say.clone()).await;
    assert!(!wire.get("/a", &[]).await.is_hit());
    wire.pass(secs(age));
    let hit = wire.get("/a", &[]).await.is_hit();
    assert_eq!(asked(&wire), if hit { 1 } else { 2 }, "{lines}: a hit asks nobody");
    wire.end().await;
    hit
}

/// A region that takes the request and says nothing.
fn silence() -> Say {
    Say::Last(Vec::new())
}

#[tokio::test]
async fn s4_2_1_lifetime_directive_precedence() {
    let far = "Expires: Fri, 01 Jan 2100 00:00:00 GMT";
    for (lines, fresh, stale) in [
        ("Cache-Control: s-maxage=900, max-age=5".to_owned(), 800, 901),
        ("Cache-Control: max-age=5000, s-maxage=100".to_owned(), 50, 101),
        (format!("Cache-Control: max-age=300\n{far}"), 200, 301),
        ("Cache-Control: MAX-AGE=300".to_owned(), 200, 301),
    ] {
        assert!(is_fresh_after(&lines, fresh).await, "{lines} at {fresh} s");
        assert!(!is_fresh_after(&lines, stale).await, "{lines} at {stale} s");
    }
}

#[tokio::test]
async fn s5_3_expires_counts_from_date() {
    let wire = cached(|_| reply(200, "", "")).await;
    let dates = (wire.date(0), wire.date(600));
    wire.says_always(reply(200, &format!("Date: {}\nExpires: {}", dates.0, dates.1), "x"));
    wire.get("/a", &[]).await;
    wire.pass(secs(540));
    assert!(wire.get("/a", &[]).await.is_hit());
    wire.pass(secs(61));
    assert!(!wire.get("/a", &[]).await.is_hit());
    wire.end().await;
}

#[tokio::test]
async fn s5_3_invalid_expires_is_past() {
    for expires in ["0", "-1", "soon", "1800000000"] {
        assert!(!is_fresh_after(&format!("ETag: \"1\"\nExpires: {expires}"), 0).await, "{expires}");
    }
}

#[tokio::test]
async fn s4_2_1_zeroes_invalid_lifetime() {
    for lines in ["Cache-Control: max-age=60, max-age=90", "Cache-Control: max-age=1.5", "Cache-Control: max-age=-1"]
    {
        assert!(!is_fresh_after(&format!("ETag: \"1\"\n{lines}"), 0).await, "{lines}");
    }
}

#[tokio::test]
async fn s4_2_2_no_heuristic_freshness() {
    assert!(!is_fresh_after("Last-Modified: Fri, 01 Jan 2016 00:00:00 GMT", 0).await);
    assert!(!is_fresh_after("", 0).await);
}

#[tokio::test]
async fn s4_2_3_age_reduces_lifetime() {
    assert!(is_fresh_after("Cache-Control: max-age=1000\nAge: 600", 340).await);
    assert!(!is_fresh_after("Cache-Control: max-age=1000\nAge: 600", 401).await);
    let wire = cached(|_| reply(200, "", "")).await;
    let old = wire.date(-600);
    wire.says_always(reply(200, &format!("Cache-Control: max-age=1000\nDate: {old}"), "x"));
    wire.get("/a", &[]).await;
    wire.pass(secs(340));
    let hit = wire.get("/a", &[]).await;
    assert!(hit.is_hit() && says(hit.header("age"), 939), "{hit:?}");
    wire.pass(secs(61));
    assert!(!wire.get("/a", &[]).await.is_hit());
    wire.end().await;
}

#[tokio::test]
async fn s5_1_hit_states_its_age() {
    let wire = cached(|_| reply(200, "Cache-Control: max-age=1000\nAge: 70", "x")).await;
    let miss = wire.get("/a", &[]).await;
    assert!(says(miss.header("age"), 70) && miss.all("age").len() == 1, "{miss:?}");
    wire.pass(secs(200));
    let hit = wire.get("/a", &[]).await;
    assert!(hit.is_hit() && says(hit.header("age"), 270) && hit.all("age").len() == 1, "{hit:?}");
    wire.end().await;
}

#[tokio::test]
async fn s3_1_hit_equals_regions_reply() {
    let lines = "Cache-Control: max-age=60\nContent-Type: text/x; charset=y\nX-Two: a\nX-Two: b\nETag: W/\"q\"\n\
                 Content-Encoding: gzip\nDate: Fri, 15 Jan 2027 08:00:00 GMT";
    let say = reply(203, lines, "\u{1f}\u{8b}not really gzip\0\r\n");
    let wire = cached(move |_| say.clone()).await;
    let (miss, hit) = (wire.get("/a", &[]).await, wire.get("/a", &[]).await);
    assert!(!miss.is_hit() && hit.is_hit());
    for got in [&miss, &hit] {
        assert_eq!((got.status(), got.body.as_slice()), (203, "\u{1f}\u{8b}not really gzip\0\r\n".as_bytes()));
        assert_eq!((got.all("x-two"), got.header("content-type")), (vec!["a", "b"], "text/x; charset=y"));
        assert_eq!((got.header("etag"), got.header("content-encoding")), ("W/\"q\"", "gzip"));
        assert_eq!(got.all("date"), ["Fri, 15 Jan 2027 08:00:00 GMT"]);
        assert_eq!(got.all("content-length"), ["21"]);
    }
    wire.end().await;
}

#[tokio::test]
async fn s3_unstorable_replies_are_not_stored() {
    for lines in [
        "Cache-Control: no-store, max-age=60",
        "Cache-Control: private, max-age=60",
        "Cache-Control: max-age=60\nSet-Cookie: a=b",
        "Cache-Control: max-age=60\nVary: *",
    ] {
        let say = reply(200, lines, "x");
        let wire = cached(move |_| say.clone()).await;
        for _ in 0..2 {
            let got = wire.get("/a", &[]).await;
            assert_eq!((got.is_hit(), got.parameter("stored"), got.text()), (false, None, "x"), "{lines}");
        }
        assert_eq!(asked(&wire), 2, "{lines}");
        wire.end().await;
    }
}

#[tokio::test]
async fn s3_error_unstored_unlike_fresh_404() {
    let wire = cached(|_| reply(404, "Cache-Control: max-age=60", "none")).await;
    wire.get("/a", &[]).await;
    let hit = wire.get("/a", &[]).await;
    assert_eq!((hit.status(), hit.is_hit(), hit.text()), (404, true, "none"));
    wire.says_always(reply(500, "Cache-Control: max-age=60", "broken"));
    assert_eq!(wire.get("/b", &[]).await.status(), 500);
    wire.pass(secs(10));
    wire.says_always(reply(200, "", "well"));
    assert_eq!(wire.get("/b", &[]).await.text(), "well");
    wire.end().await;
}

#[tokio::test]
async fn s5_2_2_3_must_understand_statuses() {
    for (status, stored) in [(200, true), (404, true), (299, false), (418, false)] {
        let say = reply(status, "Cache-Control: must-understand, no-store, max-age=60", "x");
        let wire = cached(move |_| say.clone()).await;
        wire.get("/a", &[]).await;
        assert_eq!(wire.get("/a", &[]).await.is_hit(), stored, "{status}");
        wire.end().await;
    }
}

#[tokio::test]
async fn s5_2_2_4_no_cache_validates() {
    let wire = cached(|request| match request.header("if-none-match") {
        "" => reply(200, "Cache-Control: no-cache, max-age=60\nETag: \"1\"", "x"),
        _ => reply(304, "ETag: \"1\"", ""),
    })
    .await;
    wire.get("/a", &[]).await;
    for _ in 0..2 {
        let got = wire.get("/a", &[]).await;
        assert_eq!((got.status(), got.text(), got.parameter("fwd")), (200, "x", Some("stale")));
        assert_eq!((got.parameter("fwd-status"), wire.last_seen().header("if-none-match")), (Some("304"), "\"1\""));
    }
    assert_eq!(asked(&wire), 3);
    wire.end().await;
}

#[tokio::test]
async fn s5_2_2_7_private_fields_unstored() {
    for directive in ["private=\"set-cookie, x-mine\"", "no-cache=\"set-cookie, x-mine\""] {
        let lines = format!("Cache-Control: public, max-age=60, {directive}\nSet-Cookie: a=b\nX-Mine: 1\nX-All: 2");
        let wire = cached(move |_| reply(200, &lines, "x")).await;
        let first = wire.get("/a", &[]).await;
        assert_eq!((first.header("set-cookie"), first.header("x-mine")), ("a=b", "1"), "{directive}");
        let second = wire.get("/a", &[]).await;
        assert_eq!((second.is_hit(), second.has("set-cookie"), second.has("x-mine")), (true, false, false));
        assert_eq!(second.header("x-all"), "2");
        wire.end().await;
    }
}

/// A region that answered once, and then fails: what does the caller get once the reply is stale?
async fn stale_while_failing(lines: &str, failure: Say, caller: &[&str]) -> Message {
    let first = reply(200, lines, "old");
    let wire = cached(move |_| first.clone()).await;
    wire.get("/a", &[]).await;
    wire.says_always(failure);
    wire.pass(secs(100));
    let got = wire.get("/a", caller).await;
    wire.end().await;
    got
}

#[tokio::test]
async fn s4_2_4_disconnected_serves_stale() {
    let got = stale_while_failing("Cache-Control: max-age=60", silence(), &[]).await;
    assert_eq!((got.status(), got.text(), got.parameter("detail")), (200, "old", Some("stale-if-error")));
    assert!(says(got.header("age"), 100) && ttl(&got, -40), "{got:?}");
    for forbidding in ["must-revalidate", "proxy-revalidate", "s-maxage=60", "no-cache"] {
        let lines = format!("ETag: \"1\"\nCache-Control: max-age=60, {forbidding}");
        let got = stale_while_failing(&lines, silence(), &[]).await;
        assert_eq!((got.status(), got.header("content-type")), (502, "application/problem+json"), "{forbidding}");
    }
}

#[tokio::test]
async fn rfc5861_stale_if_error_is_bounded() {
    for (lines, caller, status) in [
        ("Cache-Control: max-age=60, stale-if-error=90", vec![], 200),
        ("Cache-Control: max-age=60, stale-if-error=39", vec![], 503),
        ("Cache-Control: max-age=60", vec![], 503),
        ("Cache-Control: max-age=60", vec!["Cache-Control: stale-if-error=90"], 200),
        ("Cache-Control: max-age=60, stale-if-error=90, must-revalidate", vec![], 503),
        ("Cache-Control: max-age=60, stale-if-error=90", vec!["Cache-Control: no-cache"], 503),
    ] {
        let got = stale_while_failing(lines, reply(503, "", "down"), &caller).await;
        assert_eq!(got.status(), status, "{lines} {caller:?}");
        assert_eq!(got.text(), if status == 200 { "old" } else { "down" });
        assert_eq!(got.parameter("detail") == Some("stale-if-error"), status == 200);
    }
    let refused =
        stale_while_failing("Cache-Control: max-age=60, stale-if-error=90", reply(403, "", "no"), &[]).await;
    assert_eq!((refused.status(), refused.text()), (403, "no"), "a refusal is an answer, not an error");
}

/// Answers by the language asked for.
fn in_your_language(request: &Message) -> Say {
    let language = request.header("accept-language").to_owned();
    reply(200, "Cache-Control: max-age=60\nVary: Accept-Language", &format!("<{language}>"))
}

#[tokio::test]
async fn s4_1_variants_have_own_replies() {
    let wire = cached(in_your_language).await;
    let callers: [&[&str]; 4] =
        [&[], &["Accept-Language: de"], &["Accept-Language: en"], &["Accept-Language: de, en;q=0.5"]];
    for caller in callers {
        assert!(!wire.get("/a", caller).await.is_hit(), "{caller:?}");
    }
    for (caller, body) in callers.into_iter().zip(["<>", "<de>", "<en>", "<de, en;q=0.5>"]) {
        let hit = wire.get("/a", caller).await;
        assert_eq!((hit.is_hit(), hit.text()), (true, body));
    }
    assert!(wire.get("/a", &["Accept-Language:   de  ", "X-Other: 1"]).await.is_hit(), "only what Vary names counts");
    assert_eq!(asked(&wire), 4);
    wire.end().await;
}

#[tokio::test]
async fn s4_1_stale_variant_validates_itself() {
    let wire = cached(|request| {
        let language = request.header("accept-language").to_owned();
        let tag = format!("\"{language}\"");
        if request.header("if-none-match") == tag {
            reply(304, &format!("ETag: {tag}"), "")
        } else {
            reply(200, &format!("Cache-Control: max-age=60\nVary: accept-language\nETag: {tag}"), &language)
        }
    })
    .await;
    for caller in ["Accept-Language: de", "Accept-Language: en"] {
        wire.get("/a", &[caller]).await;
    }
    wire.pass(secs(61));
    for (caller, body, tag) in [("Accept-Language: de", "de", "\"de\""), ("Accept-Language: en", "en", "\"en\"")] {
        let got = wire.get("/a", &[caller]).await;
        assert_eq!((got.text(), got.parameter("fwd-status")), (body, Some("304")));
        assert_eq!(wire.last_seen().header("if-none-match"), tag);
    }
    wire.end().await;
}

/// Regions get their own, whatever the caller's is.
#[tokio::test]
async fn vary_host_hits_under_each_name() {
    let wire = cached(|_| reply(200, "Cache-Control: max-age=60\nVary: Host", "x")).await;
    wire.get("/a", &[]).await;
    wire.idle().await;
    assert!(wire.get("/a", &[]).await.is_hit());
    let mut stream = wire.connect().await;
    let bytes = request("GET", "/a", &["Host: 127.0.0.1:8700"], b"");
    assert!(exchange(&mut stream, &bytes, false).await.unwrap().is_hit());
    wire.end().await;
}

#[tokio::test]
async fn s4_1_agent_variant_is_unshared() {
    let wire = cached(|request| {
        let agent = request.header("user-agent").to_owned();
        reply(200, "Cache-Control: max-age=60\nVary: User-Agent", &agent)
    })
    .await;
    for agent in ["one", "two", "one", "two"] {
        assert_eq!(wire.get("/a", &[&format!("User-Agent: {agent}")]).await.text(), agent);
    }
    assert_eq!(asked(&wire), 2);
    wire.end().await;
}

#[tokio::test]
async fn s5_2_1_4_no_cache_refetches() {
    let wire = cached(|_| reply(200, "Cache-Control: max-age=60", "one")).await;
    wire.get("/a", &[]).await;
    wire.says_always(reply(200, "Cache-Control: max-age=60", "two"));
    for (line, sent) in [("Cache-Control: no-cache", "cache-control"), ("Pragma: no-cache", "pragma")] {
        let got = wire.get("/a", &[line]).await;
        assert_eq!((got.text(), got.parameter("fwd")), ("two", Some("request")), "{line}");
        assert_eq!(wire.last_seen().header(sent), "no-cache", "the region hears of it");
    }
    let hit = wire.get("/a", &["Cache-Control: x", "Pragma: no-cache"]).await;
    assert_eq!((hit.is_hit(), hit.text()), (true, "two"), "5.4: Pragma counts only without Cache-Control");
    wire.end().await;
}

#[tokio::test]
async fn s5_2_1_5_no_store_obeyed() {
    let wire = cached(|_| reply(200, "Cache-Control: max-age=60", "x")).await;
    let got = wire.get("/a", &["Cache-Control: no-store"]).await;
    assert_eq!((got.text(), got.parameter("stored")), ("x", None));
    assert!(!wire.get("/a", &[]).await.is_hit());
    wire.end().await;
}

#[tokio::test]
async fn s5_2_1_max_age_min_fresh() {
    for (line, hit) in [
        ("Cache-Control: max-age=400", true),
        ("Cache-Control: max-age=299", false),
        ("Cache-Control: max-age=0", false),
        ("Cache-Control: max-age=soon", false),
        ("Cache-Control: min-fresh=200", true),
        ("Cache-Control: min-fresh=301", false),
    ] {
        let wire = cached(|_| reply(200, "Cache-Control: max-age=600", "x")).await;
        wire.get("/a", &[]).await;
        wire.pass(secs(300));
        assert_eq!(wire.get("/a", &[line]).await.is_hit(), hit, "{line}");
        wire.end().await;
    }
}

#[tokio::test]
async fn s5_2_1_2_max_stale_labelled() {
    for (said, line, hit) in [
        ("max-age=60", "Cache-Control: max-stale", true),
        ("max-age=60", "Cache-Control: max-stale=90", true),
        ("max-age=60", "Cache-Control: max-stale=39", false),
        ("max-age=60, must-revalidate", "Cache-Control: max-stale", false),
        ("max-age=60, proxy-revalidate", "Cache-Control: max-stale", false),
        ("s-maxage=60", "Cache-Control: max-stale", false),
    ] {
        let say = reply(200, &format!("Cache-Control: {said}"), "x");
        let wire = cached(move |_| say.clone()).await;
        wire.get("/a", &[]).await;
        wire.pass(secs(100));
        let got = wire.get("/a", &[line]).await;
        assert_eq!(got.is_hit(), hit, "{said} {line}");
        if hit {
            assert!(got.parameter("detail") == Some("max-stale") && ttl(&got, -40), "{got:?}");
        }
        wire.end().await;
    }
}

#[tokio::test]
async fn s5_2_1_only_if_cached_504() {
    let wire = cached(|_| reply(200, "Cache-Control: max-age=60", "x")).await;
    let only = "Cache-Control: only-if-cached";
    let none = wire.get("/a", &[only]).await;
    assert_eq!((none.status(), none.header("content-type"), asked(&wire)), (504, "application/problem+json", 0));
    wire.get("/a", &[]).await;
    let hit = wire.get("/a", &[only]).await;
    assert_eq!((hit.status(), hit.is_hit()), (200, true));
    wire.pass(secs(61));
    assert_eq!(wire.get("/a", &[only]).await.status(), 504);
    assert_eq!(wire.get("/a", &["Cache-Control: only-if-cached, max-stale"]).await.status(), 200);
    assert_eq!(asked(&wire), 1);
    wire.end().await;
}

#[tokio::test]
async fn s3_5_authorized_sharing_needs_permission() {
    for (said, stored) in [
        ("max-age=60", false),
        ("max-age=60, public", true),
        ("max-age=60, must-revalidate", true),
        ("s-maxage=60", true),
    ] {
        let say = reply(200, &format!("Cache-Control: {said}"), "x");
        let wire = cached(move |_| say.clone()).await;
        wire.get("/a", &["Authorization: Bearer one"]).await;
        assert_eq!(wire.last_seen().header("authorization"), "Bearer one");
        assert_eq!(wire.get("/a", &["Authorization: Bearer two"]).await.is_hit(), stored, "{said}");
        assert_eq!(wire.get("/a", &[]).await.is_hit(), stored, "{said}");
        wire.end().await;
    }
}
