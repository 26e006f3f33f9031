//! `X-Record-Floor`: what a sidecar states of the records that it asks for, and when it does not.

use super::*;
use crate::protocol::event::{Says, Scope};

impl World {
    /// Floors of the last requests, which all state the same line.
    fn stated(&self) -> Option<String> {
        let requests = self.requests();
        let stated = requests.iter().map(|(.., request)| request.headers.get("x-record-floor"));
        let lines: Vec<_> = stated.map(|line| line.map(|line| line.to_str().unwrap().to_owned())).collect();
        assert!(lines.windows(2).all(|two| two[0] == two[1]), "every region is sent the same: {lines:?}");
        lines.into_iter().next().expect("regions were asked")
    }
}

#[tokio::test(start_paused = true)]
async fn request_states_announced_floor() {
    let world = World::new(at_five());
    world.live().await;
    world.get(X).await;
    assert_eq!(world.stated(), None, "nothing was heard of it");
    world.announce(A, "x", 6);
    world.set_all(1, shows(6));
    world.get(X).await;
    assert_eq!(world.stated().as_deref(), Some("6"));
    world.pass(SECOND).await;
    world.announce(A, "two", 9);
    world.requests();
    world.set_all(1, crate::request::scripted::versions(&[3, 9]));
    world.get("/v1/pairs/one/two").await;
    assert_eq!(world.stated().as_deref(), Some("0, 9"), "in the order of the route's records");
    world.stop().await;
}

/// The refetch of a record that is read is what a region's nodes see of a hot change.
#[tokio::test(start_paused = true)]
async fn refetch_states_announced_floor() {
    let world = World::new(at_five());
    world.live().await;
    world.get(X).await;
    world.requests();
    world.set_all(1, shows(6));
    world.announce(A, "x", 6);
    tokio::time::sleep(ms(100)).await;
    assert_eq!(world.stated().as_deref(), Some("6"));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn outdated_floor_is_not_stated() {
    let world = World::new(at_five());
    world.live().await;
    world.announce(A, "x", 5);
    world.hear(A, Says::Reload(Scope::Record(world.record("x"))));
    world.get(X).await;
    assert_eq!(world.stated(), None, "a region's store may hold the same version from before");
    world.stop().await;
}

/// A region's first scan sends a RELOAD, so this is what every sidecar lives with.
#[tokio::test(start_paused = true)]
async fn floors_are_restated_after_reload() {
    let world = World::new(at_five());
    world.live().await;
    world.get(X).await;
    world.hear(A, Says::Reload(Scope::All));
    for (seconds, key, version) in [(10, "x", 6), (80, "never-read", 8)] {
        world.pass(seconds * SECOND).await;
        world.announce(A, key, version);
        world.set_all(1, shows(version));
        world.requests();
        world.get(&format!("/v1/contexts/{key}/full")).await;
        assert_eq!(world.stated(), Some(version.to_string()), "{key}");
    }
    world.announce(A, "x", 9);
    world.set_all(1, shows(9));
    world.requests();
    world.get(X).await;
    let asked = world.requests()[0].2.headers["cache-control"].clone();
    assert!(["no-cache, max-age=88", "no-cache, max-age=89"].contains(&asked.to_str().unwrap()), "{asked:?}");
    world.stop().await;
}

/// R8: it proves nothing about what the RELOAD was for.
#[tokio::test(start_paused = true)]
async fn late_announcement_revives_no_older_copy() {
    for (age, label) in [("120", Some("below-floor")), ("20", None)] {
        let world = World::new([(1, shows(6).with("age", age).into()), (2, Act::Hang), (3, Act::Hang)]);
        world.live().await;
        world.hear(A, Says::Reload(Scope::All));
        // A slot keeps the time of the RELOAD to 69 seconds.
        world.pass(100 * SECOND).await;
        world.announce(A, "x", 6);
        let answer = world.get(X).await;
        assert_eq!((answer.body.as_str(), answer.label()), ("6", label), "{answer:?}");
        world.stop().await;
    }
}

/// A region's node may hold what is too large to be held here.
#[tokio::test(start_paused = true)]
async fn passed_read_states_floor() {
    let world = World::new(at_five());
    world.live().await;
    world.announce(A, "x", 6);
    world.set_all(1, shows(6));
    world.announce_grants(A, 7);
    // Foreign headers are another way to a region.
    for line in [("range", "bytes=0-1"), ("x-any", "1")] {
        world.get_with(X, line.0, line.1).await;
        let asked = world.requests();
        assert_eq!(asked[0].2.headers["x-record-floor"], "6", "{line:?}");
        assert_eq!(asked[0].2.headers["x-grants-version"], "7", "{line:?}");
    }
    for directive in ["no-cache", "max-age=0"] {
        let lines = [("range", "bytes=0-1"), ("cache-control", directive)];
        world
            .begin_with(
                X,
                lines
                    .into_iter()
                    .map(|(name, value)| (http::HeaderName::from_static(name), http::HeaderValue::from_static(value)))
                    .collect(),
            )
            .await
            .unwrap();
        let asked = world.requests();
        assert_eq!(asked[0].2.headers.get("x-record-floor"), None, "{directive}");
        assert_eq!(asked[0].2.headers["cache-control"], "no-cache");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_cache_reader_bypasses_region_store() {
    let world = World::new(at_five());
    world.live().await;
    world.announce(A, "x", 5);
    for directive in ["no-cache", "max-age=0"] {
        world.get_with(X, "cache-control", directive).await;
        assert_eq!(world.stated(), None, "{directive}");
        world.pass(SECOND).await;
        world.requests();
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn callers_floor_reaches_no_region() {
    let world = World::new(at_five());
    world.live().await;
    world.get_with(X, "x-record-floor", "9").await;
    assert_eq!(world.stated(), None);
    assert_eq!(world.floor("x"), 5);
    assert!(world.get(X).await.is_hit(), "the same representation");
    assert!(world.get_with(X, "x-record-floor", "9").await.is_hit());
    world.stop().await;
}

/// R8: what is at or above the floor passes whatever its `Age`.
#[tokio::test(start_paused = true)]
async fn aged_reply_at_floor_is_unlabelled() {
    let aged = shows(6).with("age", "5");
    let world = World::new([1, 2, 3].map(|after| (after, aged.clone().into())));
    world.live().await;
    world.announce(A, "x", 6);
    let answer = world.get(X).await;
    assert_eq!((answer.body.as_str(), answer.label()), ("6", None), "{answer:?}");
    world.announce(A, "x", 7);
    assert_eq!(world.get(X).await.label(), Some("below-floor"));
    world.stop().await;
}
