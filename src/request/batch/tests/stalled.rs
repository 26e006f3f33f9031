//! Readers who take nothing while parts arrive for them.

use super::*;
use crate::model::size::MIB;

/// A body that counts how many like it are alive.
struct Counted(Vec<u8>, Arc<AtomicUsize>);

impl Counted {
    fn body(text: Vec<u8>, alive: &Arc<AtomicUsize>) -> Bytes {
        alive.fetch_add(1, Ordering::Relaxed);
        Bytes::from_owner(Self(text, alive.clone()))
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A mebibyte of a key of four letters.
fn large(key: &str) -> Vec<u8> {
    json!(key.repeat(MIB / 4)).to_string().into_bytes()
}

#[tokio::test(start_paused = true)]
async fn stalled_reader_holds_bounded_parts() {
    let alive = Arc::new(AtomicUsize::new(0));
    let bodies = alive.clone();
    let (world, regions) = world(move |_, key, _| Some(Says { body: Counted::body(large(key), &bodies), ..at(5) }));
    regions.batch_status.store(404, Ordering::Relaxed);
    world.live().await;
    let keys: Vec<String> = (100..164).map(|n| format!("{n}x")).collect();
    let answer = post(world.sidecar.clone(), json!({ "keys": keys }).to_string(), HeaderMap::new()).await;
    // Its reader does nothing while everything arrives.
    world.pass(SECOND * 10).await;
    let stored: Vec<_> =
        keys.iter().flat_map(|key| world.sidecar.fill.shared.store.entries_of(world.record(key))).collect();
    assert_eq!(stored.len(), keys.len());
    for (key, _) in &stored {
        world.sidecar.fill.shared.store.remove(key.as_ref());
    }
    drop(stored);
    let held = alive.load(Ordering::Relaxed);
    assert!(held <= limits::HELD_BYTES / MIB + 1, "{held} of a mebibyte each");
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let parts: Value = serde_json::from_slice(&body).unwrap();
    let statuses: Vec<_> = parts["parts"].as_array().unwrap().iter().map(|part| part["status"].clone()).collect();
    assert_eq!(statuses, vec![json!(200); 64]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn passed_parts_are_refetched_not_held() {
    let (world, _regions) = world(|_, key, _| Some(Says { body: large(key).into(), ..at(5) }));
    let keys: Vec<String> = (100..116).map(|n| format!("{n}x")).collect();
    let foreign = HeaderMap::from_iter([("x-tenant".parse().unwrap(), HeaderValue::from_static("acme"))]);
    let answer = post(world.sidecar.clone(), json!({ "keys": keys }).to_string(), foreign).await;
    // Its reader does nothing while everything arrives.
    world.pass(SECOND * 10).await;
    let document: Value = serde_json::from_str(&text(answer).await).unwrap();
    for (part, key) in document["parts"].as_array().unwrap().iter().zip(&keys) {
        assert_eq!((&part["status"], part["body"].as_str()), (&json!(200), Some(&*key.repeat(MIB / 4))), "{key}");
    }
    world.stop().await;
}
