//! Fields that are remembered with an entry: what they are still served for, and what not.

use std::sync::Arc;

use super::super::derive::ToDerive;
use super::fields::world;
use super::forms::{BINARY, Forms, SCHEMA};
use super::*;
use crate::cache::derived::Derived;
use crate::cache::entry::Entry;
use crate::request::scripted::{SECOND, status};

/// Large enough for an index.
fn record(of_plan: &str) -> String {
    format!(r#"{{"seats": 9, "plan": {of_plan}, "note": "{}"}}"#, "n".repeat(20_000))
}

/// Everything is fetched again.
async fn an_hour_later(world: &World, path: &str) {
    world.pass(SECOND * 3_700).await;
    get(world, path, &[]).await;
    world.pass(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn no_transform_disables_remembered_fields() {
    let big = record("{}");
    for again in [json(&big), status(304).with("etag", "\"v1\"")] {
        let world = world(json(&big));
        for _ in 0..2 {
            assert_eq!(get(&world, "/v1/parts/x?fields=seats", &[]).await.body, r#"{"seats": 9}"#);
        }
        world.set_all(5, again.with("cache-control", "no-transform"));
        an_hour_later(&world, "/v1/parts/x").await;
        let answer = get(&world, "/v1/parts/x?fields=seats", &[]).await;
        assert!(answer.is_hit() && answer.body == big, "{answer:?}");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn schema_change_rederives_fields() {
    let big = [BINARY, b"\x1a\xb0\x9c\x01", &[b'x'; 20_016][..]].concat();
    let say = body(big).with("content-type", "application/x-protobuf").with("etag", "\"v1\"");
    let mut forms = Forms::with("form = \"protobuf\"", say);
    for _ in 0..2 {
        assert_eq!(forms.get("/v1/forms/x?fields=plan", &[]).await.body, r#"{"plan":{"name":"team"}}"#);
    }
    // Of the same length.
    forms.reload(&SCHEMA.replace("string name", "string mark"));
    for _ in 0..2 {
        let answer = forms.get("/v1/forms/x?fields=plan", &[]).await;
        assert_eq!((answer.is_hit(), answer.body.as_str()), (true, r#"{"plan":{"mark":"team"}}"#));
    }
    forms.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn schema_spelling_change_finds_other_fields() {
    let big = record(r#"{"sold_by": "x", "seller": "y"}"#);
    let mut forms = Forms::new(json(&big));
    let mut tags = Vec::new();
    for (schema, body) in [
        (SCHEMA.to_owned(), r#"{"plan": {"sold_by": "x"}}"#),
        (SCHEMA.replace("sold_by = 2", "seller = 2 [json_name = \"soldBy\"]"), r#"{"plan": {"seller": "y"}}"#),
    ] {
        forms.reload(&schema);
        for _ in 0..2 {
            let answer = forms.get("/v1/forms/x?fields=plan.soldBy", &[]).await;
            assert_eq!((answer.status, answer.body.as_str()), (200, body));
            tags.push(answer.header("etag").to_owned());
        }
    }
    assert!(tags[0] == tags[1] && tags[1] != tags[2] && tags[2] == tags[3], "{tags:?}");
    assert_eq!(forms.world.asked().len(), REGIONS, "one race");
    forms.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn carried_over_fields_take_newer_head() {
    let big = [BINARY, b"\x1a\xb0\x9c\x01", &[b'x'; 20_016][..]].concat();
    let [first, second] = ["\"v1\"", "W/\"v2\""]
        .map(|tag| body(big.clone()).with("content-type", "application/x-protobuf").with("etag", tag));
    let derived = Forms::with("form = \"protobuf\"", first);
    let text = record("{}");
    let stored = Forms::new(json(&text));
    let rounds =
        [(derived, second.with("x-of", "second")), (stored, tagged(&text, "W/\"v2\"").with("x-of", "second"))];
    for (forms, second) in rounds {
        forms.world.live().await;
        let path = "/v1/forms/x?fields=seats";
        forms.get(path, &[]).await;
        let first = forms.get(path, &[]).await;
        forms.world.set_all(5, second);
        an_hour_later(&forms.world, "/v1/forms/x").await;
        let moved = forms.get(path, &[]).await;
        assert_eq!((moved.is_hit(), &moved.body), (true, &first.body));
        assert_eq!(moved.header("x-of"), "second");
        let (old, new) = (first.header("etag"), moved.header("etag"));
        assert!(old.starts_with("\"v1~") && new.starts_with("W/\"v2~"), "{old} {new}");
        assert!(forms.get(path, &[("if-none-match", new)]).await.status == 304);
        forms.world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn mask_is_independent_of_query_encoding() {
    let world = world(json(&record("{}")));
    let first = get(&world, "/v1/parts/x?fields=seats,plan", &[]).await;
    assert_eq!(first.body, r#"{"seats": 9,"plan": {}}"#);
    for query in ["fields=seats%2Cplan", "fields=plan&fields=%73eats", "f%69elds=plan,+seats", "fields=seats,plan,,"]
    {
        for _ in 0..2 {
            let answer = get(&world, &format!("/v1/parts/x?{query}"), &[]).await;
            assert_eq!((&answer.body, answer.header("etag")), (&first.body, first.header("etag")), "{query}");
        }
    }
    for query in ["fields=%e2&fields=%82%ac", "fields=%ff", "fields=a..b"] {
        assert_eq!(get(&world, &format!("/v1/parts/x?{query}"), &[]).await.status, 400, "{query}");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn derivation_survives_confirmation_of_same_bytes() {
    let (world, other) = (world(json(&record("{}"))), record("{\"name\": \"team\"}"));
    get(&world, "/v1/parts/x", &[]).await;
    let settings = world.sidecar.clone();
    let (key, entry) = settings.fill.shared.store.entries_of(world.record("x")).pop().unwrap();
    let confirmed = Arc::new(entry.with(Derived::NONE));
    assert!(settings.fill.shared.store.replace(key.as_ref(), &entry, &confirmed));
    let index = ToDerive { form: None, index: true, zstd: false };
    settings.shared.deriver.derive(&key, &entry, index.clone()).await.unwrap();
    assert!(
        settings.fill.shared.store.peek(key.as_ref()).unwrap().derived.fields().is_some(),
        "the bytes are the same"
    );
    let instead = entry.content.outline(None).of("", other.into());
    let changed = Arc::new(Entry { content: instead, ..confirmed.with(Derived::NONE) });
    assert!(settings.fill.shared.store.replace(
        key.as_ref(),
        &settings.fill.shared.store.peek(key.as_ref()).unwrap(),
        &changed
    ));
    settings.shared.deriver.derive(&key, &entry, index).await.unwrap();
    assert!(settings.fill.shared.store.peek(key.as_ref()).unwrap().derived.is_none(), "they are others");
    world.stop().await;
}
