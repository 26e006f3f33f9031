//! R20: a caller that writes through a sidecar reads its own write; and `no-cache` gets what was
//! asked for after it came.

use http::{HeaderMap, HeaderValue, Method, header};

use super::*;

/// Region `a` is asked first and takes the write; the others lag.
fn written(before: u64, after: u64) -> [(u64, Act); 3] {
    [(20, shows(after).into()), (1, shows(before).into()), (1, shows(before).into())]
}

/// R1, R20.
#[tokio::test(start_paused = true)]
async fn read_after_write_meets_stated_version() {
    let world = World::new(at_five());
    world.live().await;
    world.get(X).await;
    tokio::time::sleep(SECOND).await;
    assert!(world.get(X).await.is_hit());
    for (place, act) in [A, B, C].into_iter().zip(written(5, 6)) {
        world.set(place, act.0, act.1);
    }
    let put = world.send(Method::PUT, X).await;
    assert_eq!(put.body, "6");
    let answer = world.get(X).await;
    assert_eq!((answer.body.as_str(), answer.label()), ("6", None), "{answer:?}");
    world.stop().await;
}

/// R4, R20: the region that took it speaks first.
#[tokio::test(start_paused = true)]
async fn unversioned_write_reads_from_its_region() {
    for method in [Method::PUT, Method::POST, Method::PATCH, Method::DELETE] {
        let world = World::new([(5, body("old").into()), (6, body("old").into()), (7, Act::from(body("old")))]);
        world.live().await;
        world.get(X).await;
        tokio::time::sleep(SECOND).await;
        world.set(A, 20, body("new"));
        world.send(method.clone(), X).await;
        let answer = world.get(X).await;
        assert_eq!((answer.body.as_str(), answer.is_hit()), ("new", false), "{method}: {answer:?}");
        world.stop().await;
    }
}

/// R20: the region that took it may be slower than usual just now.
#[tokio::test(start_paused = true)]
async fn read_after_write_waits_bounded_time() {
    for (say, slow, wanted) in [
        (shows as fn(u64) -> Say, 400, ("6", None)),
        (|version| body(version.to_string()), 400, ("6", None)),
        (shows, 1_500, ("6", None)),
        (|version| body(version.to_string()), 1_500, ("6", None)),
        (shows, 2_500, ("5", Some("below-floor"))),
    ] {
        let world = World::new([(20, say(5).into()), (30, say(5).into()), (40, say(5).into())]);
        world.live().await;
        world.get(X).await;
        tokio::time::sleep(SECOND).await;
        world.set(A, 20, say(6));
        world.send(Method::PUT, X).await;
        world.set(A, slow, say(6));
        let answer = world.get(X).await;
        assert_eq!((answer.body.as_str(), answer.label()), wanted, "{answer:?}");
        world.stop().await;
    }
}

/// R4, R6, R20: what another region announces may have come before the write.
#[tokio::test(start_paused = true)]
async fn foreign_announcement_cannot_confirm_unversioned_write() {
    for (method, say, after, version, wanted) in [
        (Method::PUT, body("old"), body("new"), 0, "new"),
        // They announce the change before it, with its version, which they show.
        (Method::PUT, shows(6), shows(7), 6, "7"),
        (Method::DELETE, body("old"), status(404), 0, ""),
    ] {
        let world = World::new([(20, say.clone().into()), (30, say.clone().into()), (40, say.clone().into())]);
        world.live().await;
        world.get(X).await;
        tokio::time::sleep(SECOND).await;
        world.set(A, 20, status(204));
        world.send(method.clone(), X).await;
        world.set(A, 300, after);
        for region in [B, C] {
            world.announce(region, "x", version);
            let answer = world.get(X).await;
            assert_eq!(answer.body, wanted, "{method} {version}: {answer:?}");
            assert_ne!(answer.label(), Some("below-floor"), "{method} {version}");
        }
        world.stop().await;
    }
}

/// R6, R20: neither that it is there nor that it is not.
#[tokio::test(start_paused = true)]
async fn versionless_delete_waits_for_its_region() {
    let world = World::new([(5, body("old").into()), (6, body("old").into()), (7, Act::from(body("old")))]);
    world.live().await;
    world.get(X).await;
    tokio::time::sleep(SECOND).await;
    world.set(A, 5, status(204));
    world.send(Method::DELETE, X).await;
    world.set(A, 5, body("old"));
    world.set(B, 60, status(404));
    world.get(X).await;
    world.delete(B, "x", 0);
    world.get(X).await;
    world.pass(SECOND).await;
    world.set(A, 5, status(404));
    world.delete(A, "x", 0);
    assert_eq!(world.get(X).await.status, 404);
    world.pass(SECOND * 4).await;
    assert_eq!(world.get(X).await.status, 404);
    world.stop().await;
}

/// R20: by then every region has it.
#[tokio::test(start_paused = true)]
async fn versionless_write_expires_within_two_lags() {
    let world = World::new([(20, body("a").into()), (30, body("b").into()), (40, Act::from(body("c")))]);
    world.live().await;
    world.send(Method::PUT, X).await;
    let begun = world.now();
    let mut last = None;
    for _ in 0..30 {
        tokio::time::sleep(SECOND * 5).await;
        world.announce(B, "x", 0);
        let answer = world.get(X).await;
        if answer.body == "a" {
            last = Some(world.now() - begun);
        }
    }
    let last = last.unwrap();
    assert!(SECOND * 55 <= last && last <= SECOND * 121, "{last:?}");
    world.stop().await;
}

/// R3, R20.
#[tokio::test(start_paused = true)]
async fn reads_after_write_skip_older_fill() {
    for path in [X, "/elsewhere"] {
        let gate = Arc::new(Notify::new());
        let world = World::new([(1, Act::Gate(gate.clone(), shows(5))), (0, Act::Hang), (0, Act::Hang)]);
        let before = world.begin(path);
        tokio::time::sleep(ms(5)).await;
        world.set_all(1, shows(6));
        world.send(Method::PUT, path).await;
        assert_eq!(world.get(path).await.body, "6", "{path}");
        gate.notify_waiters();
        before.await.unwrap();
        world.stop().await;
    }
}

/// R20: nobody knows whether it was done.
#[tokio::test(start_paused = true)]
async fn failed_write_invalidates_refused_does_not() {
    let acts: [(Act, bool); 8] = [
        (Act::Fail(Failure::Truncated), false),
        (Act::Fail(Failure::Connect), true),
        (Act::Fail(Failure::Unprocessed), true),
        (Act::Fail(Failure::Target), true),
        (status(500).into(), false),
        (status(412).into(), true),
        (status(303).into(), false),
        (Act::Hang, false),
    ];
    for (place, (act, kept)) in acts.into_iter().enumerate() {
        let world = World::new(at_five());
        world.live().await;
        world.get(X).await;
        tokio::time::sleep(SECOND).await;
        world.set_all(1, act);
        let write = world.send(Method::PUT, X);
        // The caller hangs up during the write that hangs.
        let _ = tokio::time::timeout(SECOND, write).await;
        world.set_all(1, shows(5));
        assert_eq!(world.get(X).await.is_hit(), kept, "{place}");
        world.stop().await;
    }
}

/// R20: only the answer is unknown, not the region that the write was sent to.
#[tokio::test(start_paused = true)]
async fn unknown_write_outcome_counts_for_region() {
    let acts = [Act::Fail(Failure::Truncated), Act::Fail(Failure::Garbage), Act::Hang];
    let methods = [Method::PUT, Method::POST, Method::PATCH];
    for (place, (act, method)) in acts.into_iter().zip(methods).enumerate() {
        let world = World::new([(5, body("old").into()), (6, body("old").into()), (7, Act::from(body("old")))]);
        world.live().await;
        world.get(X).await;
        tokio::time::sleep(SECOND).await;
        world.set(A, 5, act);
        // The caller hangs up during the write that hangs.
        let _ = tokio::time::timeout(SECOND, world.send(method, X)).await;
        world.set(A, 20, body("new"));
        for read in 0..10 {
            let answer = world.get(X).await;
            assert_eq!(answer.body, "new", "{place}, read {read}: {answer:?}");
            tokio::time::sleep(ms(500)).await;
        }
        world.stop().await;
    }
}

/// R20: by RFC 9110, 10.2.2 and 8.7, the write says what it made.
#[tokio::test(start_paused = true)]
async fn location_of_write_invalidates_its_records() {
    let world = World::new(at_five());
    world.live().await;
    world.get(X).await;
    world.set_all(1, status(201).with("location", X));
    world.send(Method::POST, "/v1/contexts").await;
    world.set_all(1, shows(6));
    let answer = world.get(X).await;
    assert_eq!((answer.body.as_str(), answer.is_hit()), ("6", false));
    world.stop().await;
}

/// RFC 9111, 5.2.1.4.
#[tokio::test(start_paused = true)]
async fn no_cache_waiters_share_next_fill() {
    for path in [X, "/elsewhere"] {
        let [five, six] = [5, 6].map(|version| shows(version).with("cache-control", "max-age=60"));
        let acts = [50; REGIONS].map(|after| (after, five.clone().into()));
        let world = World::with("[cache]\nunrouted = \"cache\"\n", acts);
        let no_cache = HeaderMap::from_iter([(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))]);
        let plain = world.begin(path);
        tokio::time::sleep(ms(10)).await;
        let first = world.begin_with(path, no_cache.clone());
        tokio::time::sleep(ms(10)).await;
        // A write that was made elsewhere.
        world.set_all(50, six);
        let later: Vec<_> = (0..100).map(|_| world.begin_with(path, no_cache.clone())).collect();
        assert_eq!(plain.await.unwrap().unwrap().body, "5");
        assert_eq!(first.await.unwrap().unwrap().body, "5");
        for reader in later {
            assert_eq!(reader.await.unwrap().unwrap().body, "6", "{path}");
        }
        assert_eq!(world.asked().len(), 3 * REGIONS, "{path}: a hundred readers share one fill");
        world.stop().await;
    }
}
