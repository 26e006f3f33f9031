//! Part of a record.

use std::sync::Arc;

use super::*;
use crate::cache::entry::Entry;
use crate::request::answer::Outcome;
use crate::request::scripted::{SECOND, status};

const ROUTE: &str =
    "[[service.route]]\npath = \"/v1/parts/{key}\"\nrecords = [\"context:{key}\"]\nfields = \"fields\"\n";
const RECORD: &str =
    r#"{"seats": 9, "plan": {"name": "team", "limits": [{"a": 1, "b": 2}, {"a": 3}]}, "note": null}"#;

pub(super) fn world(say: Say) -> World {
    World::with(ROUTE, all(say))
}

#[tokio::test(start_paused = true)]
async fn fifty_shapes_race_once_without_parameter() {
    let world = world(json(RECORD));
    let first = get(&world, "/v1/parts/x?fields=seats&lang=en", &[]).await;
    assert_eq!((first.status, first.body.as_str()), (200, r#"{"seats": 9}"#));
    let asked = world.requests();
    assert_eq!(asked.len(), REGIONS);
    assert!(asked.iter().all(|(_, _, request)| request.path_and_query == "/v1/parts/x?lang=en"));
    for shape in 0..50 {
        let answer = get(&world, &format!("/v1/parts/x?lang=en&fields=plan.name,f{shape}"), &[]).await;
        assert!(answer.is_hit(), "{answer:?}");
        assert_eq!(answer.body, r#"{"plan": {"name": "team"}}"#);
    }
    assert_eq!(get(&world, "/v1/parts/x?lang=en", &[]).await.body, RECORD);
    assert!(world.asked().is_empty());
    assert_eq!(world.sidecar.fill.shared.store.entries(), 1);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn selections_have_own_etag_length_304() {
    let world = world(json(RECORD).with("content-digest", "sha-256=:x:").with("accept-ranges", "bytes"));
    let whole = get(&world, "/v1/parts/x", &[]).await;
    let part = get(&world, "/v1/parts/x?fields=plan.name,seats", &[]).await;
    let same = get(&world, "/v1/parts/x?fields=seats,plan.name,seats", &[]).await;
    let other = get(&world, "/v1/parts/x?fields=seats", &[]).await;
    assert_eq!((whole.header("etag"), whole.header("content-digest")), ("\"v1\"", "sha-256=:x:"));
    assert_eq!((part.header("content-digest"), part.header("accept-ranges")), ("", ""));
    assert_eq!(part.header("etag"), same.header("etag"));
    assert!(part.header("etag").starts_with("\"v1~m") && part.header("etag") != other.header("etag"));
    for (path, tag, status) in [
        ("/v1/parts/x?fields=plan.name,seats", part.header("etag"), 304),
        ("/v1/parts/x?fields=plan.name,seats", "\"v1\"", 200),
        ("/v1/parts/x?fields=seats", part.header("etag"), 200),
        ("/v1/parts/x", part.header("etag"), 200),
        ("/v1/parts/x", "\"v1\"", 304),
    ] {
        let answer = get(&world, path, &[("if-none-match", tag)]).await;
        assert_eq!((answer.status, answer.is_hit()), (status, true), "{path} {tag}");
    }
    let head = world.ask(Method::HEAD, "/v1/parts/x?fields=seats", HeaderMap::new()).await;
    assert_eq!((head.header("content-length"), head.header("etag")), ("12", other.header("etag")));
    assert!(head.bytes.is_empty());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn last_modified_does_not_validate_selections() {
    let modified = "Fri, 15 Jan 2027 07:00:00 GMT";
    let world = world(json(RECORD).with("last-modified", modified));
    for (path, status) in [("/v1/parts/x", 304), ("/v1/parts/x?fields=seats", 200)] {
        assert_eq!(get(&world, path, &[]).await.status, 200);
        let answer = get(&world, path, &[("if-modified-since", modified)]).await;
        assert_eq!((answer.status, answer.is_hit()), (status, true), "{path}");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn non_objects_and_errors_come_whole() {
    let world = world(json("42"));
    let scalar = get(&world, "/v1/parts/a?fields=seats", &[]).await;
    assert_eq!((scalar.body.as_str(), scalar.header("etag")), ("42", "\"v1\""));
    world.set_all(5, body(RECORD).with("content-type", "text/plain"));
    assert_eq!(get(&world, "/v1/parts/b?fields=seats", &[]).await.body, RECORD);
    world.set_all(5, status(404).with("content-type", "application/json"));
    assert_eq!(get(&world, "/v1/parts/c?fields=seats", &[]).await.status, 404);
    world.set_all(5, json("{\"seats\": 1").with("x", "y"));
    assert_eq!(get(&world, "/v1/parts/d?fields=other", &[]).await.status, 200);
    for forbidden in [("cache-control", "public, No-Transform"), ("signature", "s=:x:"), ("content-encoding", "gzip")]
    {
        world.set_all(5, json(RECORD).with(forbidden.0, forbidden.1));
        let path = format!("/v1/parts/{}?fields=seats", forbidden.0);
        assert_eq!(get(&world, &path, &[]).await.body, RECORD, "{forbidden:?}");
        assert_eq!(get(&world, &path, &[]).await.body, RECORD, "{forbidden:?}");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unreadable_mask_is_400_without_race() {
    let world = world(json(RECORD));
    for mask in ["a..b", "%60", ".", "a,,%ff", &"a,".repeat(70)] {
        let answer = get(&world, &format!("/v1/parts/x?fields={mask}"), &[]).await;
        if answer.status == 400 {
            assert!(answer.body.contains("urn:nearside:problem:bad-fields"), "{}", answer.body);
        }
    }
    assert_eq!(get(&world, "/v1/parts/x?fields=a..b", &[]).await.status, 400);
    assert!(world.asked().is_empty());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn range_of_selection_is_ignored() {
    let world = world(json(RECORD));
    let part = get(&world, "/v1/parts/x?fields=seats", &[("range", "bytes=0-3")]).await;
    assert_eq!((part.status, part.body.as_str()), (200, r#"{"seats": 9}"#));
    assert!(world.requests().iter().all(|(_, _, request)| !request.headers.contains_key("range")));
    world.stop().await;
}

/// The entry of `x`.
fn entry_of(world: &World) -> Arc<Entry> {
    world.sidecar.fill.shared.store.entries_of(world.record("x")).pop().unwrap().1
}

#[tokio::test(start_paused = true)]
async fn index_is_built_once_per_version() {
    let big = format!("{{\"first\": 1, \"filler\": \"{}\", \"last\": {{\"deep\": true}}}}", "x".repeat(100_000));
    let world = world(json(&big));
    world.live().await;
    get(&world, "/v1/parts/x", &[]).await;
    let before = world.sidecar.fill.shared.store.bytes();
    assert!(entry_of(&world).derived.is_none());
    assert_eq!(get(&world, "/v1/parts/x?fields=last.deep", &[]).await.body, r#"{"last": {"deep": true}}"#);
    let entry = entry_of(&world);
    assert!(entry.derived.fields().is_some_and(|fields| fields.indexed.is_some()));
    assert_eq!(world.sidecar.fill.shared.store.bytes() - before, entry.derived.weight() as u64);
    assert!(entry.derived.weight() <= big.len() / 20 + 200, "{}", entry.derived.weight());
    // The same bytes again, after an announcement that changed nothing of them.
    world.announce(A, "x", 1);
    world.pass(SECOND * 3_700).await;
    get(&world, "/v1/parts/x", &[]).await;
    world.pass(SECOND).await;
    assert!(!entry_of(&world).derived.is_none(), "it moved on");
    world.set_all(5, tagged("{\"first\": 2}", "\"v2\""));
    world.pass(SECOND * 3_700).await;
    get(&world, "/v1/parts/x", &[]).await;
    world.pass(SECOND).await;
    assert!(entry_of(&world).derived.is_none(), "it is of other bytes");
    world.stop().await;
}

/// A record whose fields are cut out away from where requests are served, larger than what an index
/// remembers of it.
fn large() -> String {
    format!(r#"{{"seats": 9, "notes": "{}", "plans": "{}"}}"#, "n".repeat(60_000), "p".repeat(60_000))
}

/// An answer that is not sent.
async fn served(world: &World, path: &str) -> Outcome {
    let (path_and_query, path_len) = (path.to_owned(), path.find('?').unwrap());
    let (method, headers, body) = (Method::GET, HeaderMap::new(), bytes::Bytes::new());
    let admitted = crate::http::admission::Admitted { method, path_and_query, path_len, headers, body };
    crate::request::serve::serve(&world.sidecar, admitted).await
}

#[tokio::test(start_paused = true)]
async fn selection_holds_budget_until_sent() {
    let world = world(json(&large()));
    get(&world, "/v1/parts/x", &[]).await;
    // The race holds what its other regions send.
    world.pass(SECOND).await;
    let bodies = &world.sidecar.shared.bodies;
    let notes = "/v1/parts/x?fields=notes";
    let answers = [served(&world, notes).await, served(&world, notes).await];
    assert!((120_000..130_000).contains(&bodies.held()), "both, and no more: {}", bodies.held());
    drop(answers);
    assert_eq!(bodies.held(), 0);
    let small = served(&world, "/v1/parts/x?fields=seats").await;
    assert_eq!(bodies.held(), 0, "it is remembered with the record");
    drop(small);
    let all = bodies.reserve(bodies.limit() - 2_000_000).unwrap();
    assert_eq!(get(&world, "/v1/parts/x?fields=notes", &[]).await.status, 200);
    drop(all);
    let _all = bodies.reserve(bodies.limit() - 1_100_000).unwrap();
    let refused = get(&world, "/v1/parts/x?fields=plans", &[]).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, "1"));
    assert_eq!(get(&world, "/v1/parts/x?fields=seats", &[]).await.status, 200);
    assert_eq!(get(&world, "/v1/parts/x", &[]).await.status, 200);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unheld_record_refuses_parts_serves_whole() {
    let world = world(json(&large()));
    let bodies = &world.sidecar.shared.bodies;
    let all = bodies.reserve(bodies.limit() - 1_100_000).unwrap();
    let refused = get(&world, "/v1/parts/x?fields=seats", &[]).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, "1"));
    assert_eq!(get(&world, "/v1/parts/x", &[]).await.body, large());
    drop(all);
    world.pass(SECOND * 6).await;
    assert_eq!(get(&world, "/v1/parts/x?fields=seats", &[]).await.body, r#"{"seats": 9}"#);
    world.stop().await;
}
