//! Requests and replies of `compare`, over regions that answer by a script.

use std::collections::BTreeMap;

use super::*;
use crate::http::exchange::Outgoing;
use crate::request::scripted::{B, REGIONS, Say, World, json, ms, status};

const PATH: &str = "/v1/moved/k?x=1";

fn written(headers: &[(&str, &str)]) -> WrittenPath {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    WrittenPath { path: PATH.to_owned(), headers }
}

async fn compared(world: &World, headers: &[(&str, &str)]) -> ComparedPath {
    compare(&world.sidecar, &written(headers)).await.unwrap()
}

async fn read(world: &World, headers: &[(&str, &str)]) {
    let headers = written(headers).headers().unwrap();
    assert_eq!(world.ask(Method::GET, PATH, headers).await.status, 200);
    tokio::time::sleep(ms(100)).await;
}

/// A request's target and its lines, without those that say how its body may come, and what was
/// received of its records.
fn lines_of(request: &Outgoing) -> (String, BTreeMap<String, Vec<String>>) {
    let mut lines: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (name, value) in &request.headers {
        if ![header::ACCEPT_ENCODING.as_str(), "x-record-floor"].contains(&name.as_str()) {
            lines.entry(name.to_string()).or_default().push(value.to_str().unwrap().to_owned());
        }
    }
    (request.path_and_query.clone(), lines)
}

#[tokio::test(start_paused = true)]
async fn compare_asks_regions_like_caller() {
    let files = tempfile::tempdir().unwrap();
    let [own, other] = ["own", "other"].map(|name| {
        std::fs::write(files.path().join(name), name).unwrap();
        files.path().join(name).display().to_string()
    });
    let own = format!("identity = \"sidecar\"\ncredentials = {{ file = \"{own}\" }}");
    let candidate = "candidate = { path = \"/v2/of/{key}\", mode = \"new\" }";
    let others =
        format!("{own}\ncandidate = {{ path = \"/v2/of/{{key}}\", credentials_file = \"{other}\", mode = \"new\" }}");
    for settings in [
        "",
        "forward = [\"x-tenant\"]",
        "ignore = [\"x-tenant\"]",
        "fields = \"x\"",
        &own,
        candidate,
        &format!("{own}\n{candidate}"),
        &others,
        "candidate = { path = \"/v2/of/{key}\", mode = \"old\" }",
    ] {
        let world = World::moved(settings, json("{\"a\":1}").at(7));
        for headers in [
            &[][..],
            &[("accept", "application/json"), ("authorization", "theirs"), ("traceparent", "00-1-2-01")],
            &[("x-tenant", "acme"), ("cookie", "a=b")],
            &[("x-tenant", "acme"), ("impersonate-user", "root"), ("user-agent", "curl")],
        ] {
            world.requests();
            read(&world, headers).await;
            let callers = lines_of(&world.requests()[0].2);
            compared(&world, headers).await;
            let asked = world.requests();
            assert_eq!(asked.len(), REGIONS, "{settings}");
            for (.., request) in asked {
                assert_eq!(lines_of(&request), callers, "{settings}, {headers:?}");
            }
        }
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn foreign_headers_expose_no_stored_entry() {
    let world = World::moved("", json("{\"a\":1}").at(7));
    read(&world, &[]).await;
    assert!(compared(&world, &[]).await.stored.is_some());
    world.set(B, 20, json("{\"a\":\"acmes\"}").at(7));
    let seen = compared(&world, &[("X-Tenant", "acme")]).await;
    assert_eq!((&seen.stored, &seen.passed_for[..]), (&None, &["x-tenant".to_owned()][..]));
    assert_eq!(seen.says.len(), 1, "{seen:?}");
    assert!(seen.says[0].starts_with("a request with x-tenant is passed on whole to one region"), "{seen:?}");
    assert!(!serde_json::to_string(&seen).unwrap().contains("acme"), "{seen:?}");
    assert_ne!(seen.regions[0].content, seen.regions[1].content);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn compares_answering_upstream() {
    let world = World::moved("candidate = { path = \"/v2/of/{key}\", mode = \"new\" }", json("{\"a\":1}").at(7));
    world.set_candidate(json("{\"a\":2}").at(8));
    read(&world, &[]).await;
    world.requests();
    let seen = compared(&world, &[]).await;
    assert!(world.requests().iter().all(|(.., request)| request.path_and_query == "/v2/of/k?x=1"));
    assert_eq!(seen.stored.unwrap().content.versions, [8]);
    assert!(seen.regions.iter().all(|region| region.says == "the same version and content"), "{:?}", seen.regions);
    assert!(seen.says[0].starts_with("its route's candidate answers"), "{:?}", seen.says);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn differences_name_fields_not_map_keys() {
    let whole = r#"{"plan":{"c-d":[1,2]},"people":{"ann@example.com":{"age":1}},"4711":1}"#;
    for (other, at) in [
        (r#"{"plan":{"c-d":[1,3]},"people":{"ann@example.com":{"age":1}},"4711":1}"#, &["/plan/c-d/*"][..]),
        (r#"{"plan":{"c-d":[1,2]},"people":{"ann@example.com":{"age":2}},"4711":1}"#, &["/people/*/age"]),
        (r#"{"plan":{"c-d":[1,2]},"people":{"bob@example.com":{"age":1}},"4711":2}"#, &["/*", "/people/*"]),
        (r#"{"plan":{"c-d":[1]},"people":{"ann@example.com":{"age":1}},"4711":1}"#, &["/plan/c-d"]),
        ("[]", &["(record)"]),
        ("no json", &[]),
    ] {
        let world = World::moved("", json(whole).at(7));
        read(&world, &[]).await;
        world.set(B, 20, json(other).at(7));
        let seen = compared(&world, &[]).await;
        assert_eq!(seen.regions[1].differs_at, at, "{other}");
        assert_eq!(seen.regions[0].differs_at, [""; 0]);
        let shown = serde_json::to_string(&seen).unwrap();
        assert!(!shown.contains("example.com") && !shown.contains("4711"), "{shown}");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn schema_distinguishes_fields_from_keys() {
    let edition = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/payload/editions.binpb#nearside.editions.Edition");
    for (other, at) in [
        (r#"{"implicit":2,"plain":{"implicit":1}}"#, &["/implicit"][..]),
        (r#"{"implicit":1,"plain":{"implicit":2}}"#, &["/plain/implicit"]),
        // Nobody can tell what is a key where it does not fit.
        (r#"{"implicit":"ann"}"#, &[]),
    ] {
        let world =
            World::moved(&format!("schema = \"{edition}\""), json(r#"{"implicit":1,"plain":{"implicit":1}}"#).at(7));
        read(&world, &[]).await;
        world.set(B, 20, json(other).at(7));
        assert_eq!(compared(&world, &[]).await.regions[1].differs_at, at, "{other}");
        world.stop().await;
    }
}

/// An object with this value under every letter.
fn alphabet(value: u32) -> Say {
    let members: Vec<_> = ('a'..='z').map(|name| format!("\"{name}\":{value}")).collect();
    json(&format!("{{{}}}", members.join(","))).at(7)
}

#[tokio::test(start_paused = true)]
async fn many_differences_are_truncated() {
    let world = World::moved("", alphabet(1));
    read(&world, &[]).await;
    world.set(B, 20, alphabet(2));
    let at = &compared(&world, &[]).await.regions[1].differs_at;
    assert_eq!((at.len(), at.last().map(String::as_str)), (limits::COMPARED_POINTERS + 1, Some("and more")));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rejects_partial_or_overridden_reads() {
    let files = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(files.path(), "own").unwrap();
    let own = format!("identity = \"sidecar\"\ncredentials = {{ file = \"{}\" }}", files.path().display());
    for (settings, name, refused) in [
        ("", "range", "with a range"),
        ("", "if-match", "with a range"),
        ("", "x-http-method-override", "with x-http-method-override a region may do something else"),
        ("", "x-original-url", "with x-original-url a region may do something else"),
        ("ignore = [\"x-original-url\"]", "x-original-url", ""),
        (&own, "x-http-method-override", ""),
    ] {
        let world = World::moved(settings, json("{}").at(7));
        let said = compare(&world.sidecar, &written(&[(name, "PUT")])).await.map(|_| ());
        let said = said.map_err(|error| error.to_string());
        assert_eq!(said.is_ok(), refused.is_empty(), "{name}: {said:?}");
        assert!(said.is_ok() || said.as_ref().is_err_and(|said| said.contains(refused)), "{said:?}");
        let asked = world.requests();
        assert_eq!(asked.is_empty(), said.is_err());
        assert!(asked.iter().all(|(.., request)| !request.headers.contains_key(name)), "{name}");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn failing_region_leaves_others_compared() {
    let world = World::moved("", json("{}").at(7));
    read(&world, &[]).await;
    world.set(B, 20, status(503));
    let seen = compared(&world, &[]).await;
    assert!(seen.regions[1].says.starts_with("it says 503"), "{seen:?}");
    assert_eq!(seen.regions[0].says, "the same version and content");
    world.stop().await;
}
