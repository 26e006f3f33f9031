//! What regions answer to a request for several keys as a whole.

use super::*;

/// A version that only the answer to the batch itself states.
pub(super) const OF_THE_BATCH: u64 = 99;

#[tokio::test(start_paused = true)]
async fn what_a_region_answers_to_a_batch_itself_is_nobodys_record() {
    for status in [201, 202, 203, 204, 205, 206, 299, 301, 302, 304, 400, 404, 405, 409, 410, 415, 422, 501] {
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
        assert_eq!(asked.iter().filter(|(_, _, batch)| *batch).count(), REGIONS, "{status}: none is tried twice");
        assert_eq!(world.floor("a"), 5, "{status}");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_region_that_refuses_a_batch_refuses_its_keys_and_states_no_version_of_them() {
    for status in [401, 403, 406, 408, 421, 429, 500, 503] {
        let (world, regions) = world(|_, _, _| Some(at(5)));
        world.live().await;
        regions.batch_status.store(status, Ordering::Relaxed);
        let parts = many(&world, &["a", "b"]).await;
        for part in &parts {
            assert_eq!((&part["status"], part.get("version")), (&json!(status), None), "{part}");
        }
        assert!(asked(&regions).iter().all(|(_, _, batch)| *batch), "{status}");
        assert!(world.sidecar.store.entries_of(world.record("a")).is_empty(), "{status}");
        assert!(world.floor("a") < OF_THE_BATCH, "{status}");
        world.pass(SECOND * 10).await;
        regions.batch_status.store(200, Ordering::Relaxed);
        assert!(many(&world, &["a", "b"]).await.iter().all(|part| part["version"] == 5), "{status}");
        world.stop().await;
    }
}
