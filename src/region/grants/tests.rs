//! A node's look at its region's copy.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::access::gate::GateParts;
use crate::access::issuers::Issuers;
use crate::config::services::{AccessConfig, AccessMode, WhenUnknown};
use crate::engine::memory::MemoryStore;
use crate::engine::{Condition, Item, ItemWrite};
use crate::model::time::Wall;
use crate::tasks::Tasks;

fn gate(clock: &Clock) -> Gate {
    let config = AccessConfig {
        mode: AccessMode::Enforce,
        catalogue_audience: String::new(),
        region_audience: String::new(),
        operate_audience: String::new(),
        max_lifetime: Duration::from_secs(1),
        max_age: Duration::from_secs(60),
        max_key_age: Duration::from_secs(86_400),
        deny_file: None,
        when_unknown: WhenUnknown::Serve,
        issuers: Vec::new(),
        admins: Vec::new(),
    };
    let issuers = Issuers::open(&config, "", clock).unwrap();
    let parts = GateParts { issuers, deny: None, names: Vec::new(), clock: clock.clone(), tasks: Tasks::new() };
    Gate::new(&config, parts)
}

async fn put(own: &MemoryStore, item: Item) {
    own.write(vec![ItemWrite::Put(Table::Contexts, item, Condition::Any)]).await.unwrap();
}

async fn put_document(own: &MemoryStore, version: u64, document: &str) {
    put(own, Item::new(key(DOCUMENT), version).with_body(document.to_owned())).await;
}

fn document(views: &[&str]) -> String {
    json!({"format": 1, "consumers": {"jira": {"who": [{"dns": "j.example"}], "views": views}}}).to_string()
}

fn version(gate: &Gate) -> Option<u64> {
    gate.grants().map(|grants| grants.version())
}

#[tokio::test]
async fn newer_copy_is_taken_and_confirmed() {
    let clock = Clock::simulated(Wall::from_millis(1_800_000_000_000));
    let (own, gate) = (MemoryStore::new(clock.clone()), gate(&clock));
    read(&own, &gate, true).await.unwrap();
    assert_eq!(version(&gate), None);
    put_document(&own, 5, &document(&["limits"])).await;
    read(&own, &gate, false).await.unwrap();
    assert_eq!((version(&gate), gate.age()), (Some(5), None));
    let confirmation = Confirmation { at: clock.wall(), version: 5 };
    let item = Item::new(key(CONFIRMED), confirmation.at.as_millis()).with_note(confirmation.note());
    put(&own, item).await;
    put_document(&own, 6, &document(&[])).await;
    // What is confirmed is not newer than what is in use, so the document is not read for it.
    read(&own, &gate, false).await.unwrap();
    assert_eq!((version(&gate), gate.age()), (Some(5), Some(Duration::ZERO)));
    read(&own, &gate, true).await.unwrap();
    assert_eq!(version(&gate), Some(6));
}

#[tokio::test]
async fn unusable_copy_leaves_last_grants() {
    let clock = Clock::simulated(Wall::from_millis(1_800_000_000_000));
    let (own, gate) = (MemoryStore::new(clock.clone()), gate(&clock));
    put_document(&own, 5, &document(&["limits"])).await;
    read(&own, &gate, true).await.unwrap();
    for unusable in [r#"{"format":2}"#, "", r#"{"format":1}"#] {
        put_document(&own, 6, unusable).await;
        let error = read(&own, &gate, true).await.unwrap_err();
        assert!(matches!(error, GrantsUnread::Unusable { version: 6, .. }), "{error}");
    }
    put_document(&own, 4, &document(&[])).await;
    read(&own, &gate, true).await.unwrap();
    assert_eq!(version(&gate), Some(5));
}

#[tokio::test(start_paused = true)]
async fn announcement_causes_a_look() {
    let clock = Clock::simulated(Wall::from_millis(1_800_000_000_000));
    let (own, gate) = (MemoryStore::new(clock.clone()), gate(&clock));
    put_document(&own, 5, &document(&[])).await;
    let looks = follow(&own, &gate, &clock);
    let taken = async {
        while version(&gate).is_none() {
            tokio::task::yield_now().await;
        }
        put_document(&own, 6, &document(&["limits"])).await;
        let began = clock.now();
        gate.note_announced();
        while version(&gate) != Some(6) {
            tokio::task::yield_now().await;
        }
        clock.now() - began
    };
    tokio::select! {
        () = looks => unreachable!("it never ends"),
        took = taken => assert_eq!(took, Duration::ZERO),
    }
}
