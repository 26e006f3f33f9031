//! What publishers' numbers and claims do to their region.

use super::*;

/// R10.
#[test]
fn a_hole_open_for_ten_seconds_moves_the_epoch_once() {
    let mut world = World::live();
    world.numbered(1, 1);
    world.numbered(1, 3);
    for _ in 0..9 {
        world.wait(1);
        world.message(BEAT);
    }
    assert_eq!((world.state(), world.moves()), (SubscriptionState::Live, vec![]));
    world.wait(1);
    assert_eq!((world.state(), world.moves()), (SubscriptionState::Suspect, vec!["hole"]));
    world.message(BEAT);
    assert_eq!((world.state(), world.moves()), (SubscriptionState::Live, vec!["live"]));
    world.wait(10);
    assert_eq!(world.moves(), Vec::<&str>::new());
}

/// R10: whatever its number, and however young the subscription.
#[test]
fn a_publisher_first_heard_far_along_moves_the_epoch_once_within_ten_seconds_and_the_region_stays_live() {
    for (subscribed_for, number) in [(100, 66), (100, 1_000_000), (100, 3), (5, 66), (5, 3)] {
        let mut world = World::live();
        for _ in 0..subscribed_for {
            world.wait(1);
            world.message(BEAT);
        }
        let before = world.sight().epoch;
        world.numbered(7, number);
        let mut moved = Vec::new();
        for _ in 0..10 {
            world.wait(1);
            world.message(BEAT);
            assert_eq!(world.state(), SubscriptionState::Live, "its past is no reason to doubt what arrives");
            moved.extend(world.moves());
        }
        assert_eq!(moved, ["first-heard"], "{subscribed_for} s, {number}");
        assert_ne!(world.sight().epoch, before);
    }
}

/// R10: at every start there are publishers that are hours old.
#[test]
fn the_pasts_of_all_publishers_at_a_start_cost_one_move_and_the_bound_a_few_seconds() {
    let mut world = World::subscribed();
    world.heartbeat(0, 70_000, 0);
    assert_eq!(world.sight().watermark, None, "others may have ingested more, and not been heard yet");
    for publisher in 1..5 {
        world.wait(1);
        world.heartbeat(publisher, 80_000 + publisher, world.second);
        assert_eq!(world.sight().watermark, None, "it may have said anything");
    }
    world.wait(1);
    world.heartbeat(0, 70_000, 5);
    assert_eq!(world.moves(), ["live"]);
    world.wait(1);
    assert_eq!((world.state(), world.moves()), (SubscriptionState::Live, vec!["first-heard"]));
    assert_eq!(world.sight().watermark, Some(world.wall_at(1)));
    world.wait(1);
    for second in 7..60 {
        world.heartbeat(second % 5, if second % 5 == 0 { 70_000 } else { 80_000 + second % 5 }, second);
        world.wait(1);
    }
    assert_eq!((world.state(), world.moves()), (SubscriptionState::Live, vec![]));
}

/// R10.
#[test]
fn a_young_publisher_whose_first_messages_overtook_each_other_moves_nothing() {
    let mut world = World::live();
    world.wait(3);
    for number in [4, 2, 1] {
        world.numbered(7, number);
    }
    world.wait(4);
    world.numbered(7, 3);
    world.wait(8);
    assert_eq!((world.state(), world.moves()), (SubscriptionState::Live, vec![]));
}

/// R10, R13.
#[test]
fn a_message_that_only_came_late_opens_no_hole_for_long() {
    let mut world = World::live();
    world.numbered(1, 1);
    world.numbered(1, 3);
    world.wait(9);
    world.numbered(1, 2);
    world.wait(5);
    assert_eq!((world.state(), world.moves()), (SubscriptionState::Live, vec![]));
}

/// Watermark grade.
#[test]
fn a_regions_watermark_is_the_oldest_of_its_active_publishers() {
    let mut world = World::live();
    world.wait(20);
    world.heartbeat(1, 0, 19);
    assert_eq!(world.sight().watermark, Some(world.wall_at(19)));
    assert_eq!((world.sight().grade, world.sight().watermark_at), (Grade::Watermark, Some(at(19))));
    world.heartbeat(2, 0, 12);
    assert_eq!(world.sight().watermark, Some(world.wall_at(12)));
    let bye = Says::Heartbeat { path: false, ingested_through: None, signing_off: true };
    world.hear(bye, world.wall_at(20), None, Some((2, 0)));
    assert_eq!(world.sight().watermark, Some(world.wall_at(19)), "it signed off");
    world.numbered(3, 1);
    assert_eq!((world.sight().watermark, world.sight().grade), (None, Grade::Path), "3 claims nothing");
    world.wait(40);
    world.heartbeat(1, 0, 59);
    world.wait(21);
    assert_eq!(world.sight().watermark, Some(world.wall_at(59)), "3 has been silent for a minute");
}

/// Promise 2: a publisher that dies holds the watermark back until the epoch moves. What it
/// announced last may be lost without a trace, so the others alone may not vouch for anything from
/// before.
#[test]
fn a_publisher_that_falls_silent_moves_the_epoch_before_the_watermark_goes_on_without_it() {
    let mut world = World::live();
    world.heartbeat(1, 0, 0);
    world.heartbeat(2, 0, 0);
    world.wait(2);
    world.heartbeat(2, 0, 2);
    for _ in 0..12 {
        world.wait(5);
        world.heartbeat(1, 0, world.second);
    }
    assert_eq!((world.second, world.sight().watermark), (62, Some(world.wall_at(2))), "2 was heard a minute ago");
    assert_eq!(world.moves(), Vec::<&str>::new());
    let before = world.sight().epoch;
    world.wait(1);
    assert_eq!((world.sight().watermark, world.moves()), (Some(world.wall_at(62)), vec!["publisher-gone"]));
    assert!(world.sight().epoch != before && world.state() == SubscriptionState::Live);
    world.wait(2);
    world.heartbeat(1, 0, 65);
    assert_eq!(world.moves(), Vec::<&str>::new(), "once");
    world.numbered(2, 1);
    assert_eq!(world.sight().watermark, None, "it is back, and claims nothing yet");
}

/// Promise 2: signing off closes no hole.
#[test]
fn the_watermark_waits_for_the_last_messages_of_a_publisher_that_signed_off() {
    let mut world = World::live();
    world.heartbeat(1, 0, 0);
    world.heartbeat(2, 0, 0);
    world.wait(6);
    world.heartbeat(1, 0, 6);
    let through = Some(world.wall_at(6));
    let bye = Says::Heartbeat { path: false, ingested_through: through, signing_off: true };
    world.hear(bye, world.wall_at(6), None, Some((2, 1)));
    assert_eq!(world.sight().watermark, Some(world.wall_at(0)), "its message 1 is missing");
    world.numbered(2, 1);
    assert_eq!(world.sight().watermark, Some(world.wall_at(6)));
    let mut lost = World::live();
    lost.heartbeat(1, 0, 0);
    lost.heartbeat(2, 0, 0);
    lost.wait(5);
    lost.heartbeat(1, 0, 5);
    let bye = Says::Heartbeat { path: false, ingested_through: Some(lost.wall_at(5)), signing_off: true };
    lost.hear(bye, lost.wall_at(5), None, Some((2, 1)));
    lost.wait(10);
    assert_eq!((lost.sight().watermark, lost.moves()), (Some(lost.wall_at(5)), vec!["hole"]), "written off");
}

/// Watermark grade: ingest stalls while heartbeats go on.
#[test]
fn a_watermark_stands_still_with_the_ingest_behind_it() {
    let mut world = World::live();
    for _ in 0..10 {
        world.wait(5);
        world.heartbeat(1, 0, 3);
    }
    assert_eq!(world.state(), SubscriptionState::Live);
    assert_eq!(world.sight().watermark, Some(world.wall_at(3)));
}

/// R9: a publisher's clock runs ahead.
#[test]
fn a_watermark_cannot_claim_more_than_sns_saw() {
    let mut world = World::live();
    world.wait(10);
    world.heartbeat(1, 0, 500);
    assert_eq!(world.sight().watermark, Some(world.wall_at(10)));
    assert_eq!(world.sight().watermark_at, Some(at(10)));
}

/// R10.
#[test]
fn a_publisher_that_starts_its_numbers_again_moves_the_epoch() {
    let mut world = World::live();
    world.heartbeat(1, 500, 0);
    world.wait(5);
    world.heartbeat(1, 2, 5);
    assert_eq!(world.moves(), ["first-heard", "restarted", "live"]);
}

#[test]
fn a_forgotten_publisher_that_was_active_withholds_the_watermark_for_a_minute() {
    let mut world = World::live();
    world.heartbeat(0, 0, 0);
    world.wait(1);
    for publisher in 1..=limits::PUBLISHERS_PER_REGION as u64 {
        world.heartbeat(publisher, 0, 1);
    }
    assert_eq!(world.region.publishers.len(), limits::PUBLISHERS_PER_REGION);
    assert_eq!((world.sight().watermark, world.sight().grade), (None, Grade::Path));
    world.numbered(0, 9);
    world.wait(10);
    assert_eq!(world.moves(), Vec::<&str>::new(), "0 was forgotten, and has no unheard past");
    world.wait(60);
    world.heartbeat(1, 0, 71);
    assert_eq!(world.sight().watermark, Some(world.wall_at(71)));
}
