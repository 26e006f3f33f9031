//! The whole way: a record is written to the catalogue, the views service makes a view of it, two
//! regions take and announce it, and a sidecar's caller reads it. Once as processes of the program on
//! the AWS emulator, once in this process on the memory engine.

mod access;
pub(crate) mod certified;
mod changes;
mod client_certificates;
mod denied;
mod deployment;
mod emulated;
mod history;
mod in_process;
mod matrix;
mod operators;
mod rollout;
mod scripted;
mod tls;
mod unreachable;
mod verified;

use std::time::Duration;

use nearside::model::time::Clock;
use serde_json::{Value, json};

use deployment::{Reach, Shown};

/// Writes, reads, changes and deletes; each must be seen by the sidecar's caller.
async fn tell_the_story(reach: &Reach) {
    let absent = reach.read("acme").await;
    assert_eq!((absent.status, absent.version), (404, 0), "{absent:?}");
    reach.put("shard", "s1", &json!({"host": "db-1"})).await;
    let written = reach.put("tenant", "acme", &json!({"users": 5, "shard": "s1"})).await;
    let first = reach.until("acme", |seen| seen.is_view(&json!({"users": 5, "host": "db-1"}))).await;
    assert!(first.version >= written, "a view's version is the time it was made, as a record's is: {first:?}");
    let second = reach.read("acme").await;
    assert!(second.label.contains("; hit") && second.version == first.version, "{second:?}");
    for node in &reach.nodes {
        // The other region may hear of it later, and then has the same version.
        reach.until_at(node, "acme", |seen| seen.version == first.version).await;
    }
    reach.put("tenant", "acme", &json!({"users": 6, "shard": "s1"})).await;
    let changed = reach.until("acme", |seen| seen.version > first.version).await;
    assert!(changed.is_view(&json!({"users": 6, "host": "db-1"})), "{changed:?}");
    reach.put("shard", "s1", &json!({"host": "db-2"})).await;
    let moved = reach.until("acme", |seen| seen.version > changed.version).await;
    assert!(moved.is_view(&json!({"users": 6, "host": "db-2"})), "a join's change is the view's: {moved:?}");
    reach.delete("tenant", "acme").await;
    let gone = reach.until("acme", |seen| seen.status == 404).await;
    assert!(gone.version > moved.version, "a deletion has a version: {gone:?}");
    reach.put("tenant", "acme", &json!({"users": 7, "shard": "s1"})).await;
    let back = reach.until("acme", |seen| seen.status == 200).await;
    assert!(back.version > gone.version && back.is_view(&json!({"users": 7, "host": "db-2"})), "{back:?}");
}

/// Asserts that every process says that it serves.
async fn assert_all_serve(reach: &Reach) {
    for (name, admin) in &reach.admins {
        let status: Value = serde_json::from_str(&reach.page(admin, "/status").await.1).unwrap();
        let wanted = if name == "sidecar" { "fresh" } else { "serving" };
        assert_eq!((&status["state"], &status["reasons"]), (&wanted.into(), &json!([])), "{name}: {status}");
    }
}

/// One change after the other, from the PUT to a sidecar's caller; prints how long each part took.
async fn measure(reach: &Reach, engine: &str, changes: u64) -> Duration {
    let clock = Clock::System;
    reach.put("tenant", "measured", &json!({"users": 0})).await;
    let mut before = reach.until("measured", |seen| seen.status == 200).await;
    let (mut whole, mut put, mut mapped, mut reported) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for users in 1..=changes {
        let started = clock.now();
        let written = reach.put("tenant", "measured", &json!({"users": users})).await;
        put.push(clock.now() - started);
        let Shown { version, .. } = before;
        before = reach.until("measured", |seen| seen.version > version).await;
        whole.push(clock.now() - started);
        assert!(before.is_view(&json!({"users": users})), "{before:?}");
        // Both versions are the times at which they were given.
        mapped.push(Duration::from_millis(before.version - written));
        reported.push(Duration::from_millis(clock.wall().as_millis().saturating_sub(before.version)));
    }
    for (part, took) in [
        ("PUT -> caller", &mut whole),
        ("PUT answered", &mut put),
        ("record -> view", &mut mapped),
        ("view -> caller", &mut reported),
    ] {
        println!(
            "{engine}: {part}: p50 {:?}, p99 {:?}, {changes} changes",
            percentile(took, 50),
            percentile(took, 99)
        );
    }
    percentile(&mut whole, 99)
}

fn percentile(took: &mut [Duration], share: usize) -> Duration {
    took.sort_unstable();
    took[(took.len() * share / 100).min(took.len() - 1)]
}
