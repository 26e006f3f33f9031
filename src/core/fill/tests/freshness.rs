//! R1, R3, R4, R6, R7 and R8 in fills, and what a reader gets when there is nothing better.

use super::*;
use crate::core::scripted::{Answer, tombstone, versions};
use crate::protocol::event::{Says, Scope};

fn gated(say: crate::core::scripted::Say) -> (Arc<Notify>, Act) {
    let gate = Arc::new(Notify::new());
    (gate.clone(), Act::Gate(gate, say))
}

fn said(answer: &Answer) -> (&str, Option<&str>) {
    (answer.body.as_str(), answer.label())
}

/// R3.
#[tokio::test(start_paused = true)]
async fn a_reader_who_comes_after_an_announcement_never_joins_an_older_fill() {
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
async fn of_many_generations_under_way_the_newest_is_kept_whatever_order_they_land_in() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let world = World::new([(0, Act::Hang), (0, Act::Hang), (0, Act::Hang)]);
        let mut under_way = Vec::new();
        for version in 1..=3 {
            let (gate, held) = gated(body(version.to_string()));
            world.set(A, 0, held);
            under_way.push((gate, world.begin(X)));
            tokio::time::sleep(ms(1)).await;
            assert_eq!(world.sidecar.fills.in_flight(), version);
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
async fn what_was_announced_before_the_fill_is_not_undercut_by_a_lagging_region() {
    let world = World::new([(50, shows(5).into()), (1, shows(4).into()), (2, shows(4).into())]);
    world.announce(A, "x", 5);
    assert_eq!(said(&world.get(X).await), ("5", None));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_announced_during_the_fill_is_not_undercut_by_a_lagging_region() {
    let world = World::new([(50, shows(5).into()), (10, shows(4).into()), (20, shows(4).into())]);
    let reader = world.begin(X);
    tokio::time::sleep(ms(5)).await;
    world.announce(A, "x", 5);
    assert_eq!(said(&reader.await.unwrap().unwrap()), ("5", None));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_announced_after_the_fill_makes_its_entry_too_old_at_once() {
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
async fn with_the_announcer_gone_what_is_below_the_floor_is_labelled_and_never_stored() {
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
    assert!(world.sidecar.metrics.stale_served("below-floor") == 3);
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
    assert_eq!(world.sidecar.fills.in_flight(), 0);
    world.announce(A, "x", version);
}

/// R1: the reply was judged before the announcement, and would reach its reader after it.
#[tokio::test(start_paused = true)]
async fn a_reply_that_an_announcement_overtakes_on_its_way_to_the_reader_is_asked_for_anew() {
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
async fn a_reply_that_is_overtaken_every_time_is_served_labelled_in_the_end_or_not_at_all_in_strict_mode() {
    for (strict, expected) in [("", (200, Some("below-floor"))), ("[freshness]\nstrict = true\n", (504, None))] {
        let (gate, held) = gated(shows(1));
        let world = World::with(strict, [(0, held), (0, Act::Hang), (0, Act::Hang)]);
        let mut reader = Box::pin(world.get(X));
        for version in 2..=2 + crate::core::limits::REFILLS as u64 {
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
async fn an_absence_that_a_changed_overtakes_is_asked_for_anew() {
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
async fn in_strict_mode_nothing_below_the_floor_is_served_and_the_504_is_not_remembered() {
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
async fn in_strict_mode_a_stored_reply_that_was_overtaken_does_not_stand_in_for_dead_regions() {
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
async fn after_a_tombstone_was_served_an_older_version_is_labelled() {
    let world = World::new([(1, tombstone(7).into()), (1, tombstone(7).into()), (1, tombstone(7).into())]);
    assert_eq!(world.get(X).await.status, 404);
    assert_eq!(world.floor("x"), 7);
    world.set_all(1, shows(6));
    let answer = world.get("/v1/contexts/x/other").await;
    assert_eq!(said(&answer), ("6", Some("below-floor")));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_losing_tombstone_raises_the_floor_too() {
    let world = World::new([(1, shows(6).into()), (5, tombstone(7).into()), (5, tombstone(7).into())]);
    assert_eq!(world.get(X).await.body, "6");
    tokio::time::sleep(ms(20)).await;
    assert_eq!(world.floor("x"), 7);
    assert_eq!(world.get(X).await.status, 404, "the better reply was kept");
    world.stop().await;
}

/// R6: a CHANGED makes an unversioned 404 from before it too old, also on its way to the reader.
#[tokio::test(start_paused = true)]
async fn an_absence_without_a_version_is_below_what_a_changed_announced() {
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
async fn a_deletion_without_a_version_is_provisional_until_all_agree_and_then_holds_for_the_full_time() {
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
async fn an_absence_nobody_announced_holds_for_thirty_seconds_at_most() {
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
async fn what_is_current_is_asked_about_by_its_tag_and_what_is_not_is_asked_for_whole() {
    let tagged = |version: u64| shows(version).with("etag", &format!("\"{version}\""));
    let world = World::new([(1, tagged(5).into()), (1, tagged(5).into()), (1, tagged(5).into())]);
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
        world.set_all(1, tagged(6));
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
async fn replies_without_versions_are_confirmed_by_304s_of_all_regions() {
    let tagged = || Act::from(body("same").with("etag", "\"t\""));
    let world = World::new([(1, tagged()), (1, tagged()), (1, tagged())]);
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
async fn a_304_for_two_records_of_which_one_has_a_version_stands_for_that_version() {
    const PAIR: &str = "/v1/pairs/x/y";
    let tagged = || Act::from(versions(&[5, 0]).with("etag", "\"t\""));
    let world = World::new([(1, tagged()), (2, tagged()), (3, tagged())]);
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
async fn after_an_announcement_regions_are_asked_end_to_end_and_an_older_reply_of_an_intermediary_is_too_old() {
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
async fn a_path_that_shows_two_records_obeys_both_floors() {
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
async fn a_reload_in_mid_fill_keeps_its_reply_out_of_the_store() {
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
async fn in_grace_the_previous_value_is_served_labelled_while_its_refetch_runs() {
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
async fn in_strict_mode_there_is_no_grace() {
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
async fn with_all_regions_down_the_stored_reply_is_labelled_for_a_day_beyond_its_time() {
    let world = World::new([(1, shows(4).into()), (1, shows(4).into()), (1, shows(4).into())]);
    world.get(X).await;
    world.set_all(1, Act::Fail(Failure::Connect));
    tokio::time::sleep(24 * 3_600 * SECOND).await;
    assert_eq!(said(&world.get(X).await), ("4", Some("stale-if-error")));
    tokio::time::sleep(3_601 * SECOND).await;
    assert_eq!(world.get(X).await.status, 502);
    world.stop().await;
}
