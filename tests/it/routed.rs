//! Routed paths on the wire.

use std::time::Duration;

use super::wire::{Message, Say, Wire, reply};

mod passing;

const MINUTE: Duration = Duration::from_secs(60);

/// One route, `/r/{key}`, and more of its settings.
fn route(more: &str) -> String {
    format!("[[service.route]]\npath = \"/r/{{key}}\"\nrecords = [\"thing:{{key}}\"]\n{more}\n")
}

/// One region that always says `say`, and `/r/{key}` over it.
async fn routed(more: &str, say: Say) -> Wire {
    Wire::with(1, &route(more), move |_| say.clone()).await
}

#[tokio::test]
async fn route_ttl_overrides_reply_lifetime() {
    for lines in ["Cache-Control: max-age=1", "Cache-Control: s-maxage=0", "Cache-Control: no-cache", "Expires: 0"] {
        let wire = routed("", reply(200, &format!("X-Record-Version: 1\n{lines}"), "x")).await;
        wire.live();
        wire.get("/r/a", &[]).await;
        wire.idle().await;
        wire.pass_live(50 * MINUTE);
        let hit = wire.get("/r/a", &[]).await;
        assert!(hit.is_hit() && hit.parameter("detail").is_none(), "{lines}: {hit:?}");
        let age: u64 = hit.header("age").parse().unwrap();
        assert!((3000..3100).contains(&age), "{age}");
        wire.pass_live(10 * MINUTE);
        assert_eq!(wire.get("/r/a", &[]).await.parameter("fwd"), Some("stale"), "{lines}");
        wire.end().await;
    }
}

#[tokio::test]
async fn route_may_set_its_ttl() {
    let wire = routed("ttl = \"2h\"", reply(200, "X-Record-Version: 1\nCache-Control: max-age=1", "x")).await;
    wire.live();
    wire.get("/r/a", &[]).await;
    wire.idle().await;
    wire.pass_live(110 * MINUTE);
    assert!(wire.get("/r/a", &[]).await.is_hit());
    wire.pass_live(11 * MINUTE);
    assert!(!wire.get("/r/a", &[]).await.is_hit());
    wire.end().await;
}

#[tokio::test]
async fn soft_ttl_applies_without_announcements() {
    let wire = routed("", reply(200, "X-Record-Version: 1\nCache-Control: max-age=6000", "x")).await;
    wire.get("/r/a", &[]).await;
    wire.idle().await;
    assert!(wire.get("/r/a", &[]).await.is_hit());
    wire.pass(Duration::from_secs(31));
    assert!(!wire.get("/r/a", &[]).await.is_hit());
    wire.end().await;
}

#[tokio::test]
async fn no_store_holds_unless_route_overrides() {
    for (setting, stored) in [("", false), ("store_no_store = true", true)] {
        let wire = routed(setting, reply(200, "Cache-Control: no-store", "x")).await;
        let first = wire.get("/r/a", &[]).await;
        assert_eq!((first.text(), first.parameter("stored").is_some()), ("x", stored), "{setting}");
        assert_eq!(wire.get("/r/a", &[]).await.is_hit(), stored, "{setting}");
        wire.end().await;
    }
}

#[tokio::test]
async fn private_reply_loses_only_set_cookie() {
    for said in ["private", "private=\"x-own, set-cookie\"", "private, no-cache=\"x-own\""] {
        let wire = routed("", reply(200, &format!("Cache-Control: {said}\nX-Own: 1\nSet-Cookie: a=b"), "x")).await;
        for hit in [false, true] {
            let got = wire.get("/r/a", &["Authorization: me"]).await;
            assert_eq!((got.is_hit(), got.header("x-own"), got.has("set-cookie")), (hit, "1", !hit), "{said}");
        }
        assert!(!wire.get("/r/a", &["Authorization: somebody else"]).await.is_hit());
        wire.end().await;
    }
}

/// A reply that tells whose it is.
fn yours(request: &Message) -> Say {
    reply(200, "", &format!("{:?} {:?}", request.all("authorization"), request.all("cookie")))
}

#[tokio::test]
async fn exact_callers_share_no_reply() {
    let wire = Wire::with(1, &route(""), yours).await;
    let callers: [&[&str]; 8] = [
        &[],
        &["Authorization: a"],
        &["Authorization: ab"],
        &["Cookie: a"],
        &["Authorization: a", "Cookie: b"],
        &["Authorization: ab", "Cookie: "],
        &["Authorization: a", "Authorization: b"],
        &["Authorization: a, b"],
    ];
    let mut bodies = Vec::new();
    for caller in callers {
        let got = wire.get("/r/a", caller).await;
        assert!(!got.is_hit(), "{caller:?} was given somebody else's");
        bodies.push(got.text().to_owned());
    }
    for (caller, body) in callers.into_iter().zip(&bodies) {
        let got = wire.get("/r/a", caller).await;
        assert_eq!((got.is_hit(), got.text()), (true, body.as_str()), "{caller:?}");
    }
    wire.end().await;
}

#[tokio::test]
async fn caller_headers_join_key_and_request() {
    let wire = routed("identity_headers = [\"x-tenant\"]\nignore = [\"authorization\"]", reply(200, "", "x")).await;
    wire.get("/r/a", &["X-Tenant: 1", "Authorization: a"]).await;
    let seen = wire.last_seen();
    assert_eq!((seen.header("x-tenant"), seen.has("authorization")), ("1", false));
    assert!(wire.get("/r/a", &["X-Tenant: 1", "Authorization: b"]).await.is_hit());
    assert!(!wire.get("/r/a", &["X-Tenant: 2", "Authorization: a"]).await.is_hit());
    wire.end().await;
}

fn sidecar(file: &std::path::Path) -> String {
    let file = file.display();
    format!("identity = \"sidecar\"\ncredentials = {{ file = \"{file}\", prefix = \"Bearer \" }}")
}

#[tokio::test]
async fn sidecar_credentials_replace_callers() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "first\n").unwrap();
    let wire = routed(&sidecar(&file), reply(200, "Cache-Control: private", "x")).await;
    wire.get("/r/a", &["Authorization: mine", "Cookie: c=d"]).await;
    let seen = wire.last_seen();
    assert_eq!((seen.all("authorization"), seen.has("cookie")), (vec!["Bearer first"], false));
    assert!(wire.get("/r/a", &["Authorization: another's"]).await.is_hit(), "all who reach the listener may read");
    assert!(wire.get("/r/a", &[]).await.is_hit());

    wire.get("/r/a", &["Range: bytes=0-0", "Authorization: mine", "Cookie: c=d"]).await;
    let seen = wire.last_seen();
    assert_eq!((seen.all("authorization"), seen.has("cookie")), (vec!["Bearer first"], false));
    for method in ["POST", "TRACE", "OPTIONS"] {
        wire.ask(method, "/r/a", &["Authorization: mine"], b"").await;
        // A write has what is stored fetched anew.
        let all = wire.seen();
        let seen = all.iter().rfind(|seen| seen.method() == method).expect("it was passed on");
        assert_eq!(seen.all("authorization"), ["mine"], "{method}: nothing but reads in our own name");
    }

    std::fs::write(dir.path().join("new"), "the second one").unwrap();
    std::fs::rename(dir.path().join("new"), &file).unwrap();
    let mut key = 0;
    while wire.last_seen().header("authorization") != "Bearer the second one" {
        assert!(key < 3000, "the file was not read again");
        tokio::time::sleep(Duration::from_millis(20)).await;
        wire.get(&format!("/r/{key}"), &[]).await;
        key += 1;
    }
    std::fs::remove_file(&file).unwrap();
    assert_eq!(wire.get("/r/z", &[]).await.status(), 200, "the last good one stays while a file is being replaced");
    wire.end().await;
}

#[tokio::test]
async fn unreadable_credentials_fail_start_clearly() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    let tables =
        format!("[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n{}", route(&sidecar(&file)));
    let text = format!("listen.tcp = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\n{tables}");
    for content in [None, Some(""), Some("two\nlines")] {
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        let config = crate::program::read(&text);
        let error = nearside::app::start(config).await.err().expect("no start").to_string();
        assert!(error.contains("the credentials file") && error.contains("token"), "{error}");
        assert!(!error.contains("two"), "its content is nobody's business: {error}");
    }
}

#[tokio::test]
async fn forwarded_headers_join_key_and_request() {
    let settings = "forward = [\"x-tenant\", \"accept-language\"]\nignore = [\"x-other\", \"origin\"]";
    let wire = routed(settings, reply(200, "", "x")).await;
    let lines = ["X-Tenant: 1", "X-Tenant: 2", "Accept-Language: de", "X-Other: 3", "Origin: http://a", "Referer: b"];
    wire.get("/r/a", &lines).await;
    let seen = wire.last_seen();
    assert_eq!((seen.all("x-tenant"), seen.all("accept-language")), (vec!["1", "2"], vec!["de"]));
    for name in ["x-other", "origin", "referer"] {
        assert!(!seen.has(name), "{name}");
    }
    assert!(wire.get("/r/a", &["X-Tenant: 1", "X-Tenant: 2", "Accept-Language: de", "X-Other: 4"]).await.is_hit());
    for lines in [&["X-Tenant: 1", "Accept-Language: de"][..], &["X-Tenant: 1", "X-Tenant: 2"], &["X-Tenant: 1, 2"]] {
        assert!(!wire.get("/r/a", lines).await.is_hit(), "{lines:?}");
    }
    wire.end().await;
}

/// RFC 9110, 7.6.1. Else a caller could have an answer without a header stored for those who send it.
#[tokio::test]
async fn connection_named_header_is_dropped() {
    let settings = "forward = [\"x-tenant\"]\nidentity_headers = [\"authorization\", \"cookie\"]";
    let all = ["x-tenant", "authorization", "cookie", "accept", "accept-encoding"];
    let wire = Wire::with(1, &route(settings), move |seen: &Message| {
        let reported = all.map(|name| format!("{name}={}", seen.all(name).join(",")));
        reply(200, "X-Record-Version: 1", &reported.join("|"))
    })
    .await;
    let lines =
        ["X-Tenant: 1", "Authorization: Bearer a", "Cookie: s=1", "Accept: text/plain", "Accept-Encoding: gzip"];
    for (at, line) in lines.iter().enumerate() {
        let (name, path) = (line.split_once(':').unwrap().0.to_ascii_uppercase(), format!("/r/{at}"));
        for connection in [format!("Connection: {name}"), format!("Connection: keep-alive , {name}")] {
            wire.get(&path, &[line, &connection]).await;
            wire.idle().await;
            let with = wire.get(&path, &[line]).await;
            assert!(!wire.last_seen().has("connection"));
            let seen = with.text().split('|').nth(all.iter().position(|it| name.eq_ignore_ascii_case(it)).unwrap());
            assert!(!seen.unwrap().ends_with(['=', 'y']), "{connection}, then without: {}", with.text());
            wire.idle().await;
            // A credential is for all recipients: who named it asked with it.
            if name != "AUTHORIZATION" {
                assert!(wire.get(&path, &[]).await.is_hit(), "it is stored as what was asked for");
            }
        }
    }
    wire.end().await;
}

#[tokio::test]
async fn request_metadata_stays_out_of_key() {
    let wire = routed("", reply(200, "", "x")).await;
    wire.get(
        "/r/a",
        &["Traceparent: 00-a-b-01", "Tracestate: v=1", "Baggage: k=1", "X-Request-Id: 1", "User-Agent: me/1"],
    )
    .await;
    let seen = wire.last_seen();
    assert_eq!((seen.header("traceparent"), seen.header("x-request-id")), ("00-a-b-01", "1"));
    assert_eq!((seen.header("tracestate"), seen.header("baggage")), ("v=1", "k=1"));
    assert_eq!(seen.header("user-agent"), "me/1");
    assert!(
        wire.get(
            "/r/a",
            &["Traceparent: 00-c-d-01", "Tracestate: v=2", "Baggage: k=2", "X-Request-Id: 2", "User-Agent: you/2"]
        )
        .await
        .is_hit()
    );
    wire.end().await;
}

#[tokio::test]
async fn accept_headers_join_key_normalised() {
    let wire = routed("", reply(200, "", "x")).await;
    for (sent, upstream) in [
        ("gzip, deflate, br", "br, gzip"),
        ("*", "br, gzip, zstd"),
        ("gzip;q=0, br;q=0.5", "br"),
        ("identity", "identity"),
        ("ZSTD", "zstd"),
    ] {
        wire.get("/r/a", &[&format!("Accept-Encoding: {sent}")]).await;
        assert_eq!(wire.last_seen().all("accept-encoding"), [upstream], "{sent}");
    }
    let before = wire.seen().len();
    for same in ["br,gzip", "gzip;q=0.1 , br, x-y", "br", "", "deflate", "zstd"] {
        assert!(wire.get("/r/a", &[&format!("Accept-Encoding: {same}")]).await.is_hit(), "{same}");
    }
    assert_eq!(wire.seen().len(), before);
    wire.get("/r/a", &["Accept: text/a", "Accept-Encoding: br"]).await;
    assert_eq!((wire.seen().len(), wire.last_seen().header("accept")), (before + 1, "text/a"));
    wire.end().await;
}

#[tokio::test]
async fn reply_passes_unchanged_plus_cache_status() {
    let lines = "X-Record-Version: 7\nContent-Type: text/x; q=1\nX-Two: a\nX-Two: b\nETag: W/\"e\"\nContent-Encoding: br\n\
                 Date: Fri, 15 Jan 2027 08:00:00 GMT\nConnection: x-hop\nX-Hop: 1\nKeep-Alive: timeout=5\nServer: s";
    let wire = routed("", reply(203, lines, "not\u{0} really br\r\n")).await;
    wire.get("/r/a", &[]).await;
    wire.pass(Duration::from_secs(10));
    let hit = wire.get("/r/a", &[]).await;
    assert_eq!((hit.status(), hit.is_hit(), hit.text()), (203, true, "not\u{0} really br\r\n"));
    let mut names: Vec<_> = hit.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    let expected = [
        "age",
        "cache-status",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "etag",
        "server",
        "x-record-version",
        "x-two",
        "x-two",
    ];
    assert_eq!(names, expected);
    assert_eq!((hit.all("x-two"), hit.header("content-type")), (vec!["a", "b"], "text/x; q=1"));
    assert!(hit.label().starts_with("nearside; hit; ttl="), "{}", hit.label());
    wire.end().await;
}

#[tokio::test]
async fn path_may_show_several_records() {
    let pair =
        "[[service.route]]\npath = \"/pair/{left}/{right}\"\nrecords = [\"thing:{left}\", \"thing:{right}\"]\n";
    let wire = Wire::with(1, pair, |_| reply(200, "X-Record-Version: 3, 8", "3 and 8")).await;
    wire.live();
    wire.get("/pair/l/r", &[]).await;
    wire.idle().await;
    wire.announce("thing", "l", Some(3));
    wire.announce("thing", "elsewhere", Some(99));
    wire.announce("thing", "r", Some(8));
    assert!(wire.get("/pair/l/r", &[]).await.is_hit(), "nothing newer was announced");
    for (record, versions) in [("r", "3, 9"), ("l", "4, 9")] {
        wire.says_always(reply(200, &format!("X-Record-Version: {versions}"), versions));
        let version = versions.split(", ").nth(usize::from(record == "r")).unwrap();
        wire.announce("thing", record, version.parse().ok());
        let got = wire.get("/pair/l/r", &[]).await;
        assert_eq!((got.text(), got.header("x-record-version")), (versions, versions));
        wire.idle().await;
    }
    wire.end().await;
}

#[tokio::test]
async fn absence_has_negative_ttl_refusal_none() {
    for (status, kept) in [(404, true), (410, true), (403, false), (302, false)] {
        let wire = routed("", reply(status, "Cache-Control: max-age=600", "none")).await;
        wire.live();
        let first = wire.get("/r/a", &[]).await;
        assert_eq!((first.status(), first.text(), first.parameter("stored").is_some()), (status, "none", kept));
        wire.idle().await;
        wire.pass_live(Duration::from_secs(10));
        let again = wire.get("/r/a", &[]).await;
        assert_eq!((again.status(), again.text(), again.is_hit()), (status, "none", kept));
        wire.pass_live(Duration::from_secs(21));
        assert!(!wire.get("/r/a", &[]).await.is_hit());
        wire.end().await;
    }
}

#[tokio::test]
async fn store_answers_callers_condition() {
    let wire = routed("", reply(200, "X-Record-Version: 7\nETag: \"v7\"\nContent-Type: text/plain", "x")).await;
    assert_eq!(wire.get("/r/a", &["If-None-Match: \"v7\""]).await.status(), 304);
    assert!(!wire.last_seen().has("if-none-match"), "the whole was asked for");
    for (method, condition, status) in [
        ("GET", "If-None-Match: W/\"v7\"", 304),
        ("HEAD", "If-None-Match: \"v0\", \"v7\"", 304),
        ("HEAD", "If-None-Match: \"v8\"", 200),
        ("GET", "If-None-Match: \"v8\"", 200),
    ] {
        let got = wire.ask(method, "/r/a", &[condition], b"").await;
        assert_eq!((got.status(), got.is_hit()), (status, true), "{method} {condition}");
        assert_eq!((got.header("etag"), got.header("x-record-version")), ("\"v7\"", "7"), "{method} {condition}");
        assert_eq!(got.has("content-type"), status == 200);
        assert_eq!(got.has("content-length"), status == 200);
    }
    assert_eq!(wire.seen().len(), 1);
    wire.end().await;
}

#[tokio::test]
async fn head_uses_stored_reply_or_get() {
    let wire = routed("", reply(200, "ETag: \"1\"", "12345")).await;
    let miss = wire.ask("HEAD", "/r/a", &[], b"").await;
    assert_eq!((miss.status(), miss.all("content-length"), miss.is_hit()), (200, vec!["5"], false));
    assert_eq!(wire.last_seen().method(), "GET");
    let (head, get) = (wire.ask("HEAD", "/r/a", &[], b"").await, wire.get("/r/a", &[]).await);
    assert_eq!((head.is_hit(), head.all("content-length")), (true, vec!["5"]));
    assert_eq!((get.is_hit(), get.text()), (true, "12345"));
    wire.end().await;
}

#[tokio::test]
async fn revalidation_sends_validator_and_no_cache() {
    let wire = routed("", reply(200, "", "")).await;
    wire.says(|request| match request.header("if-none-match") {
        "\"v1\"" => reply(304, "ETag: \"v1\"\nX-Record-Version: 1\nX-New: 1", ""),
        _ => reply(200, "ETag: \"v1\"\nX-Record-Version: 1\nX-Old: 1", "one"),
    });
    wire.live();
    wire.get("/r/a", &[]).await;
    wire.idle().await;
    wire.pass_live(61 * MINUTE);
    let got = wire.get("/r/a", &[]).await;
    assert_eq!((got.status(), got.text(), got.parameter("fwd-status")), (200, "one", Some("304")));
    assert_eq!((got.header("x-old"), got.header("x-new")), ("1", "1"), "RFC 9111, 3.2");
    let seen = wire.last_seen();
    assert_eq!((seen.header("if-none-match"), seen.has("cache-control")), ("\"v1\"", false));
    wire.idle().await;
    assert!(wire.get("/r/a", &[]).await.is_hit(), "renewed");

    wire.says_always(reply(200, "ETag: \"v2\"\nX-Record-Version: 2", "two"));
    wire.announce("thing", "a", Some(2));
    assert_eq!(wire.get("/r/a", &[]).await.text(), "two");
    let seen = wire.last_seen();
    assert_eq!((seen.has("if-none-match"), seen.header("cache-control")), (false, "no-cache"), "R7, R8");
    wire.idle().await;
    wire.pass_live(61 * MINUTE);
    wire.get("/r/a", &[]).await;
    let seen = wire.last_seen();
    assert_eq!((seen.header("if-none-match"), seen.header("cache-control")), ("\"v2\"", "no-cache"));
    wire.end().await;
}

#[tokio::test]
async fn faster_reader_makes_refetch_unnecessary() {
    let wire = routed("", reply(200, "X-Record-Version: 1", "one")).await;
    wire.live();
    wire.get("/r/a", &[]).await;
    wire.idle().await;
    wire.says_always(reply(200, "X-Record-Version: 2", "two"));
    wire.announce("thing", "a", Some(2));
    assert_eq!(wire.get("/r/a", &[]).await.text(), "two");
    wire.idle().await;
    assert_eq!(wire.seen().len(), 2);
    assert!(wire.get("/r/a", &[]).await.is_hit());
    wire.announce("thing", "a", Some(3));
    wire.says_always(reply(200, "X-Record-Version: 3", "three"));
    wire.idle().await;
    let hit = wire.get("/r/a", &[]).await;
    assert_eq!((hit.is_hit(), hit.text()), (true, "three"), "nobody asked: the refetch did");
    wire.end().await;
}

#[tokio::test]
async fn request_cache_directives_are_obeyed() {
    let wire = routed("", reply(200, "", "x")).await;
    let none = wire.get("/r/a", &["Cache-Control: only-if-cached"]).await;
    assert_eq!((none.status(), wire.seen().len()), (504, 0));
    assert_eq!(wire.get("/r/a", &["Cache-Control: no-store"]).await.parameter("stored"), None);
    assert!(!wire.get("/r/a", &[]).await.is_hit());
    assert!(wire.get("/r/a", &["Cache-Control: only-if-cached"]).await.is_hit());
    let asked = wire.get("/r/a", &["Cache-Control: no-cache"]).await;
    assert_eq!((asked.parameter("fwd"), wire.last_seen().header("cache-control")), (Some("request"), "no-cache"));
    wire.end().await;
}

#[tokio::test]
async fn change_reaches_every_spelling_and_query() {
    let wire = routed("", reply(200, "X-Record-Version: 1", "one")).await;
    wire.live();
    let targets = ["/r/a%20b", "/r/a%20b?view=x", "/r/%61%20b"];
    for target in targets {
        wire.get(target, &[]).await;
    }
    wire.idle().await;
    wire.says_always(reply(200, "X-Record-Version: 2", "two"));
    wire.announce("thing", "a b", Some(2));
    for target in targets {
        assert_eq!(wire.get(target, &[]).await.text(), "two", "{target}");
    }
    wire.idle().await;
    wire.end().await;
}

#[tokio::test]
async fn per_request_tokens_raise_warning() {
    let wire = routed("", reply(200, "", "x")).await;
    for caller in 0..63 {
        wire.get("/r/a", &[&format!("Authorization: {caller}")]).await;
    }
    assert!(wire.page("/metrics").await.text().contains("nearside_identity_churn_total 0"));
    assert!(!wire.page("/status").await.text().contains("identity = "));
    wire.get("/r/a", &["Authorization: one too many"]).await;
    assert!(wire.page("/metrics").await.text().contains("nearside_identity_churn_total 1"));
    let status = wire.page("/status").await;
    assert!(status.text().contains("identity") && status.text().contains("sidecar"), "{}", status.text());
    wire.end().await;
}
