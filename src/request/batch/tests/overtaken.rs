//! Parts that wait for those before them while something newer of their record is announced or
//! served.

use super::*;

/// The first key holds up the parts behind it; `k` has what `version` says.
fn slow_and_k(version: &Arc<AtomicUsize>) -> (World, Arc<Regions>) {
    let version = version.clone();
    world(move |_, key, _| Some(at(if key == "k" { version.load(Ordering::Relaxed) as u64 } else { 1 })))
}

/// A batch with a key that nobody has asked for before `keys`; returns their parts.
async fn behind_a_slow_one(world: &World, keys: &[&str], meanwhile: impl AsyncFnOnce()) -> Vec<Value> {
    let all = [&["slow"], keys].concat();
    let body = json!({ "keys": all }).to_string();
    let answer = async { text(post(world.sidecar.clone(), body, HeaderMap::new()).await).await };
    let meanwhile = async {
        tokio::time::sleep(ms(100)).await;
        meanwhile().await;
    };
    let (answer, ()) = tokio::join!(answer, meanwhile);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    answer["parts"].as_array().unwrap()[1..].to_vec()
}

#[tokio::test(start_paused = true)]
async fn waiting_part_is_never_outdated() {
    let version = Arc::new(AtomicUsize::new(1));
    let (world, regions) = slow_and_k(&version);
    world.live().await;
    many(&world, &["k", "l"]).await;
    regions.latency_ms.store(800, Ordering::Relaxed);
    let parts = behind_a_slow_one(&world, &["k", "l", "k"], async || {
        version.store(2, Ordering::Relaxed);
        world.announce(A, "k", 2);
    })
    .await;
    assert_eq!(parts.iter().map(|part| &part["version"]).collect::<Vec<_>>(), [&json!(2), &json!(1), &json!(2)]);
    assert!(parts.iter().all(|part| part.get("label").is_none()), "{parts:?}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unrenewable_part_is_labelled_below_floor() {
    let version = Arc::new(AtomicUsize::new(1));
    let (world, regions) = slow_and_k(&version);
    world.live().await;
    many(&world, &["k"]).await;
    regions.latency_ms.store(800, Ordering::Relaxed);
    let parts = behind_a_slow_one(&world, &["k"], async || world.announce(A, "k", 2)).await;
    assert_eq!((&parts[0]["version"], &parts[0]["label"]), (&json!(1), &json!("below-floor")));
    assert_eq!(parts[0]["bound"], json!(null));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn duplicate_parts_never_go_backwards() {
    let version = Arc::new(AtomicUsize::new(1));
    let (world, _regions) = slow_and_k(&version);
    world.live().await;
    many(&world, &["k"]).await;
    version.store(2, Ordering::Relaxed);
    let body = json!({ "keys": ["k", { "key": "k", "cacheControl": "no-cache" }, "k", "k"] }).to_string();
    let answer: Value =
        serde_json::from_str(&text(post(world.sidecar.clone(), body, HeaderMap::new()).await).await).unwrap();
    let versions: Vec<_> = answer["parts"].as_array().unwrap().iter().map(|part| part["version"].as_u64()).collect();
    assert_eq!(versions, [Some(1), Some(2), Some(2), Some(2)]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn overtaken_parts_are_refetched_together() {
    let version = Arc::new(AtomicUsize::new(1));
    let (world, regions) = slow_and_k(&version);
    world.live().await;
    let keys = names(0, 100);
    many(&world, &strs(&keys)).await;
    world.pass(SECOND).await;
    regions.latency_ms.store(800, Ordering::Relaxed);
    let began = world.sidecar.fill.shared.clock.now();
    let parts = behind_a_slow_one(&world, &strs(&keys), async || {
        keys.iter().for_each(|key| world.announce(A, key, 2));
        set(&regions, |_, _, _| Some(at(2)));
    })
    .await;
    assert!(parts.iter().all(|part| part["version"] == 2 && part.get("label").is_none()), "{parts:?}");
    assert!(world.sidecar.fill.shared.clock.now() - began < 4 * SECOND, "not one after the other");
    world.stop().await;
}
