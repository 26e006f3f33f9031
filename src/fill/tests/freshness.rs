//! R1, R3, R4, R6, R7 and R8 in fills, and what a reader gets when there is nothing better.

use super::*;
use crate::protocol::event::{Says, Scope};
use crate::request::scripted::{Answer, tombstone, versions};
use crate::telemetry::metrics::requests::StaleReason;

fn gated(say: crate::request::scripted::Say) -> (Arc<Notify>, Act) {
    let gate = Arc::new(Notify::new());
    (gate.clone(), Act::Gate(gate, say))
}

fn said(answer: &Answer) -> (&str, Option<&str>) {
    (answer.body.as_str(), answer.label())
}

/// R3.
#[tokio::test(start_paused = true)]
async fn later_reader_never_joins_older_fill() {
    let (gate, held) = gated(body("old"));
    let world = World::new([(0, held), (0, Act::Hang), (0, Act::Hang)]);
    let early = world.begin(X);
    tokio::time::sleep(ms(5)).await;
    world.announce(A, "x", 0);
    world.set(A, 1, body("new"));
    let late = world.get(X).await;
    assert_eq!(late.body, "new");
    gate.notify_one();
    assert_eq!(early.await.unwrap().unwrap().body, "old", "asked for before the announcement");
    let after = world.get(X).await;
    assert!(after.is_hit());
    assert_eq!(after.body, "new", "the older fill overwrote nothing");
    world.stop().await;
}

/// R3: each generation has its own fill, however they end.
#[tokio::test(start_paused = true)]
async fn newest_generation_wins_in_any_order() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let world = World::new([(0, Act::Hang), (0, Act::Hang), (0, Act::Hang)]);
        let mut under_way = Vec::new();
        for version in 1..=3 {
            let (gate, held) = gated(body(version.to_string()));
            world.set(A, 0, held);
            under_way.push((gate, world.begin(X)));
            tokio::time::sleep(ms(1)).await;
            assert_eq!(world.sidecar.fill.shared.fills.in_flight(), version);
            world.announce(A, "x", 0);
        }
        let (gate, held) = gated(body("4"));
        world.set(A, 0, held);
        let newest = world.begin(X);
        tokio::time::sleep(ms(1)).await;
        for place in order {
            under_way[place].0.notify_one();
            tokio::time::sleep(ms(1)).await;
        }
        gate.notify_one();
        assert_eq!(newest.await.unwrap().unwrap().body, "4");
        let answer = world.get(X).await;
        assert_eq!((answer.is_hit(), answer.body.as_str()), (true, "4"), "{order:?}");
        for (_, reader) in under_way {
            reader.await.unwrap().unwrap();
        }
        world.stop().await;
    }
}

/// R1, criterion 5: before, during and after the fill, and with the announcer gone right after.
#[tokio::test(start_paused = true)]
async fn lagging_region_loses_to_earlier_announcement() {
    let world = World::new([(50, shows(5).into()), (1, shows(4).into()), (2, shows(4).into())]);
    world.announce(A, "x", 5);
    assert_eq!(said(&world.get(X).await), ("5", None));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn lagging_region_loses_to_concurrent_announcement() {
    let world = World::new([(50, shows(5).into()), (10, shows(4).into()), (20, shows(4).into())]);
    let reader = world.begin(X);
    tokio::time::sleep(ms(5)).await;
    world.announce(A, "x", 5);
    assert_eq!(said(&reader.await.unwrap().unwrap()), ("5", None));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn later_announcement_outdates_entry_at_once() {
    let world = World::new([(5, shows(4).into()), (1, shows(4).into()), (2, shows(4).into())]);
    assert_eq!(world.get(X).await.body, "4");
    tokio::time::sleep(ms(100)).await;
    world.announce(A, "x", 5);
    world.set(A, 5, shows(5));
    let answer = world.get(X).await;
    assert_eq!((said(&answer), answer.is_hit()), (("5", None), false));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn below_floor_is_labelled_never_stored() {
    let world = World::new([(5, shows(4).into()), (1, shows(4).into()), (2, shows(4).into())]);
    world.get(X).await;
    tokio::time::sleep(ms(100)).await;
    world.announce(A, "x", 5);
    world.set(A, 0, Act::Hang);
    for _ in 0..3 {
        let answer = world.get(X).await;
        assert_eq!(said(&answer), ("4", Some("below-floor")));
        assert!(!answer.is_hit() && !answer.is_stored(), "{}", answer.line);
    }
    assert!(world.sidecar.fill.shared.metrics.requests.stale_for(StaleReason::BelowFloor) == 3);
    world.stop().await;
}

/// A reader who has asked and is not polled: what comes meanwhile overtakes it.
async fn away(reader: &mut (impl Future<Output = Answer> + Unpin)) {
    tokio::select! {
        biased;
        answer = reader => panic!("{answer:?} came too early"),
        () = tokio::time::sleep(ms(1)) => {}
    }
}

/// Lets the fill behind `gate` finish, and then announces `version`.
async fn overtake(world: &World, gate: &Notify, version: u64) {
    gate.notify_one();
    tokio::time::sleep(ms(1)).await;
    assert_eq!(world.sidecar.fill.shared.fills.in_flight(), 0);
    world.announce(A, "x", version);
}

/// R1: the reply was judged before the announcement, and would reach its reader after it.
#[tokio::test(start_paused = true)]
async fn overtaken_reply_is_fetched_again() {
    let (gate, held) = gated(shows(4));
    let world = World::new([(0, held), (0, Act::Hang), (0, Act::Hang)]);
    let mut reader = Box::pin(world.get(X));
    away(&mut reader).await;
    overtake(&world, &gate, 5).await;
    world.set(A, 1, shows(5));
    assert_eq!(said(&reader.await), ("5", None));
    assert_eq!(world.asked().len(), 2 * REGIONS);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn repeatedly_overtaken_reply_is_labelled() {
    for (strict, expected) in [("", (200, Some("below-floor"))), ("[freshness]\nstrict = true\n", (504, None))] {
        let (gate, held) = gated(shows(1));
        let world = World::with(strict, [(0, held), (0, Act::Hang), (0, Act::Hang)]);
        let mut reader = Box::pin(world.get(X));
        for version in 2..=2 + crate::request::limits::REFILLS as u64 {
            away(&mut reader).await;
            overtake(&world, &gate, version).await;
            world.set(A, 0, Act::Gate(gate.clone(), shows(version)));
        }
        let answer = reader.await;
        assert_eq!((answer.status, answer.label()), expected, "{answer:?}");
        world.stop().await;
    }
}

/// R6.
#[tokio::test(start_paused = true)]
async fn overtaken_absence_is_fetched_again() {
    let (gate, held) = gated(status(404));
    let world = World::new([(0, held), (0, status(404).into()), (0, status(404).into())]);
    let mut reader = Box::pin(world.get(X));
    away(&mut reader).await;
    overtake(&world, &gate, 5).await;
    world.set(A, 1, shows(5));
    assert_eq!(said(&reader.await), ("5", None));
    world.stop().await;
}

/// R1 in strict mode.
#[tokio::test(start_paused = true)]
async fn strict_mode_serves_nothing_below_floor() {
    let strict = "[freshness]\nstrict = true\n";
    let world = World::with(strict, [(0, Act::Hang), (1, shows(4).into()), (2, shows(4).into())]);
    world.announce(A, "x", 5);
    let started = world.now();
    assert_eq!(world.get(X).await.status, 504);
    assert!(world.now() - started < SECOND, "the missing region is not waited for to the deadline");
    world.set(A, 1, shows(5));
    assert_eq!(said(&world.get(X).await), ("5", None));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn strict_mode_forbids_overtaken_stale_reply() {
    for (strict, expected) in [("", 200), ("[freshness]\nstrict = true\n", 504)] {
        let world = World::with(strict, [(1, shows(4).into()), (1, shows(4).into()), (1, shows(4).into())]);
        world.get(X).await;
        tokio::time::sleep(31 * SECOND).await;
        world.set_all(20, Act::Fail(Failure::Connect));
        let reader = world.begin(X);
        tokio::time::sleep(ms(10)).await;
        world.announce(A, "x", 5);
        let answer = reader.await.unwrap().unwrap();
        assert_eq!(answer.status, expected, "expired when it came, below the floor when the regions had failed");
        world.stop().await;
    }
}

/// R6: a tombstone's version counts as served like any other.
#[tokio::test(start_paused = true)]
async fn older_version_after_tombstone_is_labelled() {
    let world = World::new([(1, tombstone(7).into()), (1, tombstone(7).into()), (1, tombstone(7).into())]);
    assert_eq!(world.get(X).await.status, 404);
    assert_eq!(world.floor("x"), 7);
    world.set_all(1, shows(6));
    let answer = world.get("/v1/contexts/x/other").await;
    assert_eq!(said(&answer), ("6", Some("below-floor")));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn losing_tombstone_raises_floor() {
    let world = World::new([(1, shows(6).into()), (5, tombstone(7).into()), (5, tombstone(7).into())]);
    assert_eq!(world.get(X).await.body, "6");
    tokio::time::sleep(ms(20)).await;
    assert_eq!(world.floor("x"), 7);
    assert_eq!(world.get(X).await.status, 404, "the better reply was kept");
    world.stop().await;
}

/// R6: a CHANGED makes an unversioned 404 from before it too old, also on its way to the reader.
#[tokio::test(start_paused = true)]
async fn unversioned_absence_is_below_announcement() {
    let world = World::new([(1, status(404).into()), (1, status(404).into()), (1, status(404).into())]);
    world.announce(A, "x", 5);
    let answer = world.get(X).await;
    assert_eq!((answer.status, answer.label()), (404, Some("below-floor")));
    world.set(B, 1, shows(5));
    assert_eq!(said(&world.get(X).await), ("5", None));
    world.stop().await;
}

/// R6: a deletion with a version is a tombstone; without one, all regions have to answer 404.
#[tokio::test(start_paused = true)]
async fn unversioned_deletion_needs_agreement() {
    let world = World::new([(1, status(404).into()), (1, status(404).into()), (100, shows(5).into())]);
    world.live().await;
    world.delete(A, "x", 0);
    assert_eq!(world.get(X).await.status, 404);
    tokio::time::sleep(ms(10)).await;
    assert_eq!(world.get(X).await.label(), Some("provisional"));
    world.set(C, 1, status(404));
    world.pass(SECOND).await;
    let settled = world.get(X).await;
    assert_eq!((settled.is_hit(), settled.label()), (true, None));
    world.pass(600 * SECOND).await;
    assert!(world.get(X).await.is_hit(), "not the negative TTL");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unannounced_absence_lasts_thirty_seconds() {
    let world = World::new([(1, status(404).into()), (1, status(404).into()), (1, status(404).into())]);
    world.live().await;
    world.get(X).await;
    world.pass(28 * SECOND).await;
    assert!(world.get(X).await.is_hit());
    world.pass(3 * SECOND).await;
    assert!(!world.get(X).await.is_hit());
    world.stop().await;
}

/// R7.
#[tokio::test(start_paused = true)]
async fn only_current_entries_send_validators() {
    let [five, six] = [5, 6].map(|version| shows(version).with("etag", &format!("\"{version}\"")));
    let world = World::new([1; REGIONS].map(|after| (after, five.clone().into())));
    world.live().await;
    world.get(X).await;
    world.requests();
    world.pass(3_601 * SECOND).await;
    let answer = world.get(X).await;
    assert!(answer.body == "5" && answer.line.contains("fwd-status=304"), "{}", answer.line);
    assert!(world.requests().iter().all(|(_, _, request)| request.headers["if-none-match"] == "\"5\""));
    assert!(world.get(X).await.is_hit());
    for reason in ["a version", "none"] {
        world.announce(A, "x", if reason == "none" { 0 } else { 6 });
        world.set_all(1, six.clone());
        assert_eq!(world.get(X).await.body, "6", "{reason}");
        let unconditional =
            world.requests().iter().all(|(_, _, request)| !request.headers.contains_key("if-none-match"));
        assert!(unconditional, "{reason}");
        tokio::time::sleep(ms(10)).await;
    }
    world.stop().await;
}

/// R7 without versions: all three answer 304 to what one of them once sent, which is agreement.
#[tokio::test(start_paused = true)]
async fn unversioned_replies_need_all_304s() {
    let tagged = body("same").with("etag", "\"t\"");
    let world = World::new([1; REGIONS].map(|after| (after, tagged.clone().into())));
    world.live().await;
    world.get(X).await;
    world.pass(3_601 * SECOND).await;
    let answer = world.get(X).await;
    assert!(answer.body == "same" && answer.line.contains("fwd-status=304"), "{}", answer.line);
    tokio::time::sleep(ms(10)).await;
    let after = world.get(X).await;
    assert_eq!((after.is_hit(), after.label()), (true, None));
    world.stop().await;
}

/// R7: a record without a version keeps its position among those that have one.
#[tokio::test(start_paused = true)]
async fn partly_versioned_304_confirms_its_version() {
    const PAIR: &str = "/v1/pairs/x/y";
    let tagged = versions(&[5, 0]).with("etag", "\"t\"");
    let world = World::new([1, 2, 3].map(|after| (after, tagged.clone().into())));
    world.live().await;
    world.get(PAIR).await;
    tokio::time::sleep(ms(10)).await;
    world.set_all(1, status(304));
    let confirmed = world.get_with(PAIR, "cache-control", "no-cache").await;
    assert!(confirmed.body == "5,0" && confirmed.line.contains("fwd-status=304"), "{confirmed:?}");
    tokio::time::sleep(ms(10)).await;
    world.announce(A, "x", 5);
    let answer = world.get(PAIR).await;
    assert_eq!((said(&answer), answer.is_hit()), (("5,0", None), true), "it shows what was announced");
    world.set_all(20, status(304));
    world.requests();
    let headers = http::HeaderMap::from_iter([(http::header::CACHE_CONTROL, "no-cache".parse().unwrap())]);
    let reader = world.begin_with(PAIR, headers);
    tokio::time::sleep(ms(5)).await;
    world.announce(A, "x", 6);
    let answer = reader.await.unwrap().unwrap();
    assert_eq!((said(&answer), answer.is_stored()), (("5,0", Some("below-floor")), false));
    world.stop().await;
}

/// R8.
#[tokio::test(start_paused = true)]
async fn announcement_bypasses_older_intermediary_copies() {
    let aged = body("old").with("age", "3");
    let world = World::new([(1, aged.clone().into()), (1, aged.clone().into()), (9, body("new").into())]);
    world.get("/v1/contexts/y/full").await;
    assert!(world.requests().iter().all(|(_, _, request)| !request.headers.contains_key("cache-control")));
    tokio::time::sleep(SECOND).await;
    world.announce(A, "x", 0);
    let answer = world.get(X).await;
    assert_eq!(said(&answer), ("new", None), "{}", answer.line);
    assert!(world.requests().iter().all(|(_, _, request)| request.headers["cache-control"] == "no-cache"));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_record_path_obeys_both_floors() {
    const PAIR: &str = "/v1/pairs/x/y";
    let world =
        World::new([(1, versions(&[5, 4]).into()), (2, versions(&[4, 9]).into()), (9, versions(&[5, 9]).into())]);
    world.live().await;
    world.announce(A, "x", 5);
    world.announce(A, "y", 9);
    assert_eq!(said(&world.get(PAIR).await), ("5,9", None));
    assert!(world.get(PAIR).await.is_hit());
    world.announce(B, "y", 10);
    world.set_all(1, versions(&[5, 9]));
    assert_eq!(said(&world.get(PAIR).await), ("5,9", Some("below-floor")));
    world.set(C, 1, versions(&[5, 10]));
    assert_eq!(said(&world.get(PAIR).await), ("5,10", None));
    assert_eq!((world.floor("x"), world.floor("y")), (5, 10));
    world.stop().await;
}

/// R18.
#[tokio::test(start_paused = true)]
async fn reload_during_fill_prevents_storing() {
    let (gate, held) = gated(shows(5));
    let world = World::new([(0, held), (0, Act::Hang), (0, Act::Hang)]);
    let reader = world.begin(X);
    tokio::time::sleep(ms(1)).await;
    world.hear(A, Says::Reload(Scope::All));
    gate.notify_one();
    let answer = reader.await.unwrap().unwrap();
    assert!(answer.body == "5" && !answer.is_stored(), "{answer:?}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn grace_serves_labelled_previous_value() {
    let grace = "[freshness]\ngrace = \"2s\"\n";
    let world = World::with(grace, [(50, shows(4).into()), (50, shows(4).into()), (50, shows(4).into())]);
    world.live().await;
    world.get(X).await;
    // Nobody has read it for a while, so the announcement itself begins no refetch.
    world.pass(90 * SECOND).await;
    world.requests();
    world.set_all(50, shows(5));
    world.announce(A, "x", 5);
    tokio::time::sleep(ms(40)).await;
    assert!(world.asked().is_empty());
    let answer = world.get(X).await;
    assert_eq!((said(&answer), answer.is_hit()), (("4", Some("grace")), true));
    tokio::time::sleep(ms(60)).await;
    let refetched = world.get(X).await;
    assert_eq!((said(&refetched), refetched.is_hit()), (("5", None), true), "nobody else asked for it");
    world.set_all(50, shows(6));
    world.announce(A, "x", 6);
    assert_eq!(world.get(X).await.label(), Some("grace"));
    let insistent = world.get_with(X, "cache-control", "no-cache").await;
    assert_eq!(said(&insistent), ("6", None), "who says no-cache gets no previous value");
    assert_eq!(world.asked().len(), 3 * REGIONS, "one refetch for each announcement, and one for who insists");
    world.set_all(0, Act::Hang);
    world.announce(A, "x", 7);
    world.pass(3 * SECOND).await;
    assert_ne!(world.get(X).await.label(), Some("grace"), "it is over");
    world.stop().await;
}

/// R1 in strict mode: the previous value is known to be too old from the moment of the
/// announcement.
#[tokio::test(start_paused = true)]
async fn strict_mode_has_no_grace() {
    let settings = "[freshness]\ngrace = \"2s\"\nstrict = true\n";
    let world = World::with(settings, [(50, shows(4).into()), (50, shows(4).into()), (50, shows(4).into())]);
    world.live().await;
    world.get(X).await;
    world.announce(A, "x", 5);
    assert_eq!(world.get(X).await.status, 504, "no region has it yet");
    world.pass(SECOND).await;
    world.set(A, 50, shows(5));
    let answer = world.get(X).await;
    assert_eq!((said(&answer), answer.is_hit()), (("5", None), false));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn outage_serves_labelled_for_one_day() {
    let world = World::new([(1, shows(4).into()), (1, shows(4).into()), (1, shows(4).into())]);
    world.get(X).await;
    world.set_all(1, Act::Fail(Failure::Connect));
    tokio::time::sleep(24 * 3_600 * SECOND).await;
    assert_eq!(said(&world.get(X).await), ("4", Some("stale-if-error")));
    tokio::time::sleep(3_601 * SECOND).await;
    assert_eq!(world.get(X).await.status, 502);
    world.stop().await;
}
