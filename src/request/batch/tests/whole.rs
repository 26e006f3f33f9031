//! Regions that fail, refuse or do not take a request for several keys, whole or for one of them.

use super::*;

/// A version that only the answer to the batch itself states.
pub(super) const OF_THE_BATCH: u64 = 99;
/// A 200 whose body is no batch.
pub(super) const NO_BATCH: u16 = 999;

/// Number of these requests that were for several keys.
fn batches(asked: &[(RegionId, Vec<String>, bool)]) -> usize {
    asked.iter().filter(|(_, _, batch)| *batch).count()
}

fn all_fit(world: &World) -> bool {
    world.sidecar.fill.regions.status().iter().all(|region| region.health == "fit")
}

#[tokio::test(start_paused = true)]
async fn batch_response_is_no_record() {
    for status in [201, 202, 203, 204, 205, 206, 299, 301, 302, 304, 400, 404, 405, 409, 410, 415, 422, 501, NO_BATCH]
    {
        let (world, regions) = world(|_, _, _| Some(at(5)));
        world.live().await;
        // The second time the regions are asked whether what is stored still holds.
        for more in ["max-age=60", "no-cache"] {
            regions.batch_status.store(status, Ordering::Relaxed);
            let more = HeaderMap::from_iter([(header::CACHE_CONTROL, HeaderValue::from_static(more))]);
            let parts = many_with(&world, &["a", "b"], more).await;
            assert!(parts.iter().all(|part| part["status"] == 200 && part["version"] == 5), "{status}: {parts:?}");
            assert!(parts.iter().all(|part| part.get("label").is_none()), "{status}: {parts:?}");
            world.pass(SECOND).await;
        }
        let asked = asked(&regions);
        assert_eq!(batches(&asked), REGIONS, "{status}: none is tried twice");
        assert_eq!(world.floor("a"), 5, "{status}");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn refused_batch_refuses_every_key() {
    for status in [401, 403, 406, 408, 421, 429, 500, 503] {
        let (world, regions) = world(|_, _, _| Some(at(5)));
        world.live().await;
        regions.batch_status.store(status, Ordering::Relaxed);
        let parts = many(&world, &["a", "b"]).await;
        for part in &parts {
            assert_eq!((&part["status"], part.get("version")), (&json!(status), None), "{part}");
        }
        assert!(asked(&regions).iter().all(|(_, _, batch)| *batch), "{status}");
        assert!(world.sidecar.fill.shared.store.entries_of(world.record("a")).is_empty(), "{status}");
        assert!(world.floor("a") < OF_THE_BATCH, "{status}");
        world.pass(SECOND * 10).await;
        regions.batch_status.store(200, Ordering::Relaxed);
        assert!(many(&world, &["a", "b"]).await.iter().all(|part| part["version"] == 5), "{status}");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn batchless_region_gets_single_keys() {
    let (world, regions) = world(|_, _, _| Some(at(5)));
    regions.batch_status.store(404, Ordering::Relaxed);
    let parts = many(&world, &["a", "b"]).await;
    assert!(parts.iter().all(|part| part["status"] == 200));
    let first = asked(&regions);
    assert_eq!((batches(&first), first.len()), (REGIONS, 3 * REGIONS));
    many(&world, &["c", "d"]).await;
    let second = asked(&regions);
    assert_eq!((batches(&second), second.len()), (0, 2 * REGIONS));
    tokio::time::sleep(crate::race::gather::limits::UNABLE_FOR).await;
    regions.batch_status.store(200, Ordering::Relaxed);
    many(&world, &["e", "f"]).await;
    assert_eq!(asked(&regions).len(), REGIONS);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn oversized_or_interrupted_batch_is_retried() {
    let (world, regions) = world(|_, _, _| Some(at(5)));
    *regions.failing.lock() = vec![Failure::Oversized { limit: 1, announced: true }; REGIONS];
    assert!(many(&world, &["a", "b"]).await.iter().all(|part| part["status"] == 200));
    assert_eq!(asked(&regions).iter().filter(|(_, _, batch)| !batch).count(), 2 * REGIONS, "one by one");
    *regions.failing.lock() = vec![Failure::Truncated; REGIONS];
    assert!(many(&world, &["c", "d"]).await.iter().all(|part| part["status"] == 200));
    assert!(asked(&regions).iter().all(|(_, _, batch)| *batch));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failed_batch_counts_as_one_failure() {
    let keys: Vec<String> = (0..20).map(|n| format!("k{n}")).collect();
    for failure in [Failure::Connect, Failure::Deadline { within: SECOND, head: false }] {
        let (world, regions) = world(|_, _, _| Some(at(5)));
        *regions.failing.lock() = vec![failure; REGIONS];
        assert!(many(&world, &strs(&keys)).await.iter().all(|part| part["status"] != 200));
        assert!(all_fit(&world));
        world.stop().await;
    }
    // Every part but one is missing.
    let (world, _regions) = world(|_, key, _| (key == "k0").then(|| at(5)));
    many(&world, &strs(&keys)).await;
    assert!(all_fit(&world));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn invalid_json_goes_as_base64() {
    let (world, regions) = world(|_, _, _| Some(Says { body: "}]}".into(), ..at(5) }));
    regions.batch_status.store(404, Ordering::Relaxed);
    for _ in 0..2 {
        let parts = many(&world, &["a", "b"]).await;
        assert!(parts.iter().all(|part| part["encoding"] == "base64" && part["body"] == "fV19"), "{parts:?}");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deep_record_spoils_no_other_part() {
    let (world, _regions) = world(|_, key, _| {
        let depth = key.parse::<usize>().unwrap();
        Some(Says { body: format!("{}\"[[[\\\"[\"{}", "[".repeat(depth), "]".repeat(depth)).into(), ..at(5) })
    });
    for _ in 0..2 {
        let parts = many(&world, &["60", "61", "5000"]).await;
        assert_eq!(parts.iter().map(|part| part["encoding"] == "base64").collect::<Vec<_>>(), [false, true, true]);
    }
    world.stop().await;
}

/// One record must not cost the others: what strict readers refuse goes as base64.
#[tokio::test(start_paused = true)]
async fn strictly_invalid_json_goes_as_base64() {
    let refused: [&[u8]; 10] = [
        br#"{"a":"\ud800"}"#,
        br#"{"\udc00":1}"#,
        br#"["\ud800\u0041"]"#,
        br#"["\ud83d\\ude00"]"#,
        b"[1e999]",
        b"-1E400",
        b"{\"a\":[1,1e+309]}",
        b"\xef\xbb\xbf{}",
        b"NaN",
        b"[1,]",
    ];
    let taken: [&[u8]; 9] = [
        br#"["\ud83d\ude00"]"#,
        br#"["\\ud800"]"#,
        br#"["\"1e999"]"#,
        b"[-0,-0.0,1e-999,1e308]",
        b"123456789012345678901234567890",
        br#"{"a":1,"a":2}"#,
        "[\"\u{2028}\"]".as_bytes(),
        br#""\u0000""#,
        b"0.1234567890123456789012345678901234567890",
    ];
    let all: Vec<Vec<u8>> = refused.iter().chain(&taken).map(|body| body.to_vec()).collect();
    let bodies = all.clone();
    let (world, _regions) =
        world(move |_, key, _| Some(Says { body: bodies[key.parse::<usize>().unwrap()].clone().into(), ..at(5) }));
    let keys: Vec<String> = (0..all.len()).map(|key| key.to_string()).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let parts = many(&world, &keys).await;
    for (place, part) in parts.iter().enumerate() {
        let is_base64 = part["encoding"] == "base64";
        assert_eq!(is_base64, place < refused.len(), "{}: {part}", String::from_utf8_lossy(&all[place]));
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failed_part_is_won_elsewhere() {
    let (world, _regions) = world(|region, key, _| match key {
        "missing" if region == A => None,
        "gone" => None,
        "broken" => Some(Says { status: 500, version: 0, ..at(0) }),
        _ => Some(at(5)),
    });
    let parts = many(&world, &["a", "missing", "gone", "broken", "b"]).await;
    let status: Vec<_> = parts.iter().map(|part| part["status"].as_u64().unwrap()).collect();
    assert_eq!(status, [200, 200, 502, 500, 200]);
    assert_eq!(parts[2]["body"]["regions"][0]["outcome"], "garbage");
    world.stop().await;
}
