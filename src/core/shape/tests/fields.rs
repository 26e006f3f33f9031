//! Part of a record.

use super::*;
use crate::core::scripted::{SECOND, status};

const ROUTE: &str =
    "[[service.route]]\npath = \"/v1/parts/{key}\"\nrecords = [\"context:{key}\"]\nfields = \"fields\"\n";
const RECORD: &str =
    r#"{"seats": 9, "plan": {"name": "team", "limits": [{"a": 1, "b": 2}, {"a": 3}]}, "note": null}"#;

pub(super) fn world(say: Say) -> World {
    World::with(ROUTE, all(say))
}

#[tokio::test(start_paused = true)]
async fn fifty_shapes_of_one_record_cost_one_race_and_no_region_sees_the_parameter() {
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
    assert_eq!(world.sidecar.store.entries(), 1);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_selection_has_its_own_tag_and_length_and_a_304_of_its_own() {
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
async fn a_region_s_date_says_nothing_of_what_is_made_of_its_reply() {
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
async fn what_is_no_object_comes_whole_and_so_do_errors_and_other_media_types() {
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
async fn a_mask_that_cannot_be_read_is_a_400_and_asks_nobody() {
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
async fn a_range_of_a_selection_is_ignored_and_one_of_the_whole_is_the_regions() {
    let world = world(json(RECORD));
    let part = get(&world, "/v1/parts/x?fields=seats", &[("range", "bytes=0-3")]).await;
    assert_eq!((part.status, part.body.as_str()), (200, r#"{"seats": 9}"#));
    assert!(world.requests().iter().all(|(_, _, request)| !request.headers.contains_key("range")));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_index_is_made_once_for_each_version_counts_in_the_weight_and_moves_on_with_the_bytes() {
    let big = format!("{{\"first\": 1, \"filler\": \"{}\", \"last\": {{\"deep\": true}}}}", "x".repeat(100_000));
    let world = world(json(&big));
    world.live().await;
    let entry_of = |world: &World| world.sidecar.store.entries_of(world.record("x")).pop().unwrap().1;
    get(&world, "/v1/parts/x", &[]).await;
    let before = world.sidecar.store.bytes();
    assert!(entry_of(&world).derived.is_none());
    assert_eq!(get(&world, "/v1/parts/x?fields=last.deep", &[]).await.body, r#"{"last": {"deep": true}}"#);
    let entry = entry_of(&world);
    assert!(entry.derived.fields().is_some_and(|fields| fields.indexed.is_some()));
    assert_eq!(world.sidecar.store.bytes() - before, entry.derived.weight() as u64);
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

#[tokio::test(start_paused = true)]
async fn what_is_cut_out_of_a_large_record_has_its_part_of_the_budget_until_it_is_sent() {
    let world = world(json(&large()));
    get(&world, "/v1/parts/x", &[]).await;
    // The race holds what its other regions send.
    world.pass(SECOND).await;
    let bodies = &world.sidecar.bodies;
    let held = |path: &str| {
        let (core, path) = (world.sidecar.clone(), path.to_owned());
        let path_len = path.find('?').unwrap();
        let (method, headers, body) = (Method::GET, HeaderMap::new(), bytes::Bytes::new());
        let admitted = crate::http::admission::Admitted { method, path_and_query: path, path_len, headers, body };
        async move { crate::core::serve::serve(&core, admitted).await }
    };
    let answers = [held("/v1/parts/x?fields=notes").await, held("/v1/parts/x?fields=notes").await];
    assert!((120_000..130_000).contains(&bodies.held()), "both, and no more: {}", bodies.held());
    drop(answers);
    assert_eq!(bodies.held(), 0);
    let small = held("/v1/parts/x?fields=seats").await;
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
async fn what_there_was_no_memory_to_hold_is_told_to_who_wants_a_part_of_it_and_whole_for_all_others() {
    let world = world(json(&large()));
    let bodies = &world.sidecar.bodies;
    let all = bodies.reserve(bodies.limit() - 1_100_000).unwrap();
    let refused = get(&world, "/v1/parts/x?fields=seats", &[]).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, "1"));
    assert_eq!(get(&world, "/v1/parts/x", &[]).await.body, large());
    drop(all);
    world.pass(SECOND * 6).await;
    assert_eq!(get(&world, "/v1/parts/x?fields=seats", &[]).await.body, r#"{"seats": 9}"#);
    world.stop().await;
}
