//! Effects of publishers' numbers and claims on their region.

use super::*;

/// R10.
#[test]
fn ten_second_hole_moves_epoch_once() {
    let mut world = World::live();
    world.numbered(1, 1);
    world.numbered(1, 3);
    for _ in 0..9 {
        world.wait(1);
        world.message(BEAT);
    }
    assert_eq!((world.state(), world.moves()), (SubscriptionState::Live, vec![]));
    world.wait(1);
    assert_eq!((world.state(), world.moves()), (SubscriptionState::Suspect, vec![EpochMove::Hole]));
    world.message(BEAT);
    assert_eq!((world.state(), world.moves()), (SubscriptionState::Live, vec![EpochMove::Live]));
    world.wait(10);
    assert_eq!(world.moves(), []);
}

/// R10: whatever its number, and however young the subscription.
#[test]
fn unseen_publisher_past_moves_epoch_once() {
    for (subscribed_for, number) in [(100, 66), (100, 1_000_000), (100, 3), (5, 66), (5, 3)] {
        let mut world = World::live();
        for _ in 0..subscribed_for {
            world.wait(1);
            world.message(BEAT);
        }
        let before = world.region_view().epoch;
        world.numbered(7, number);
        let mut moved = Vec::new();
        for _ in 0..10 {
            world.wait(1);
            world.message(BEAT);
            assert_eq!(world.state(), SubscriptionState::Live, "its past is no reason to doubt what arrives");
            moved.extend(world.moves());
        }
        assert_eq!(moved, [EpochMove::FirstHeard], "{subscribed_for} s, {number}");
        assert_ne!(world.region_view().epoch, before);
    }
}

/// R10: at every start there are publishers that are hours old.
#[test]
fn startup_publishers_move_epoch_only_once() {
    let mut world = World::subscribed();
    world.heartbeat(0, 70_000, 0);
    assert_eq!(world.region_view().watermark, None, "others may have ingested more, and not been heard yet");
    for publisher in 1..5 {
        world.wait(1);
        world.heartbeat(publisher, 80_000 + publisher, world.second);
        assert_eq!(world.region_view().watermark, None, "it may have said anything");
    }
    world.wait(1);
    world.heartbeat(0, 70_000, 5);
    assert_eq!(world.moves(), [EpochMove::Live]);
    world.wait(1);
    assert_eq!((world.state(), world.moves()), (SubscriptionState::Live, vec![EpochMove::FirstHeard]));
    assert_eq!(world.region_view().watermark, Some(world.wall_at(1)));
    world.wait(1);
    for second in 7..60 {
        world.heartbeat(second % 5, if second % 5 == 0 { 70_000 } else { 80_000 + second % 5 }, second);
        world.wait(1);
    }
    assert_eq!((world.state(), world.moves()), (SubscriptionState::Live, vec![]));
}

/// R10.
#[test]
fn young_publisher_reordering_moves_no_epoch() {
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
fn late_message_closes_its_hole() {
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
fn watermark_is_oldest_of_active_publishers() {
    let mut world = World::live();
    world.wait(20);
    world.heartbeat(1, 0, 19);
    assert_eq!(world.region_view().watermark, Some(world.wall_at(19)));
    assert_eq!((world.region_view().grade, world.region_view().watermark_at), (Grade::Watermark, Some(at(19))));
    world.heartbeat(2, 0, 12);
    assert_eq!(world.region_view().watermark, Some(world.wall_at(12)));
    let bye = Says::Heartbeat { path: false, ingested_through: None, signing_off: true };
    world.hear(bye, world.wall_at(20), None, Some((2, 0)));
    assert_eq!(world.region_view().watermark, Some(world.wall_at(19)), "it signed off");
    world.numbered(3, 1);
    assert_eq!((world.region_view().watermark, world.region_view().grade), (None, Grade::Path), "3 claims nothing");
    world.wait(40);
    world.heartbeat(1, 0, 59);
    world.wait(21);
    assert_eq!(world.region_view().watermark, Some(world.wall_at(59)), "3 has been silent for a minute");
}

/// Promise 2: a publisher that dies holds the watermark back until the epoch moves. What it
/// announced last may be lost without a trace, so the others alone may not vouch for anything from
/// before.
#[test]
fn silent_publisher_moves_epoch_before_watermark() {
    let mut world = World::live();
    world.heartbeat(1, 0, 0);
    world.heartbeat(2, 0, 0);
    world.wait(2);
    world.heartbeat(2, 0, 2);
    for _ in 0..12 {
        world.wait(5);
        world.heartbeat(1, 0, world.second);
    }
    assert_eq!(
        (world.second, world.region_view().watermark),
        (62, Some(world.wall_at(2))),
        "2 was heard a minute ago"
    );
    assert_eq!(world.moves(), []);
    let before = world.region_view().epoch;
    world.wait(1);
    assert_eq!(
        (world.region_view().watermark, world.moves()),
        (Some(world.wall_at(62)), vec![EpochMove::PublisherGone])
    );
    assert!(world.region_view().epoch != before && world.state() == SubscriptionState::Live);
    world.wait(2);
    world.heartbeat(1, 0, 65);
    assert_eq!(world.moves(), [], "once");
    world.numbered(2, 1);
    assert_eq!(world.region_view().watermark, None, "it is back, and claims nothing yet");
}

/// Promise 2: signing off closes no hole.
#[test]
fn watermark_waits_for_signed_off_publisher() {
    let mut world = World::live();
    world.heartbeat(1, 0, 0);
    world.heartbeat(2, 0, 0);
    world.wait(6);
    world.heartbeat(1, 0, 6);
    let through = Some(world.wall_at(6));
    let bye = Says::Heartbeat { path: false, ingested_through: through, signing_off: true };
    world.hear(bye, world.wall_at(6), None, Some((2, 1)));
    assert_eq!(world.region_view().watermark, Some(world.wall_at(0)), "its message 1 is missing");
    world.numbered(2, 1);
    assert_eq!(world.region_view().watermark, Some(world.wall_at(6)));
    let mut lost = World::live();
    lost.heartbeat(1, 0, 0);
    lost.heartbeat(2, 0, 0);
    lost.wait(5);
    lost.heartbeat(1, 0, 5);
    let bye = Says::Heartbeat { path: false, ingested_through: Some(lost.wall_at(5)), signing_off: true };
    lost.hear(bye, lost.wall_at(5), None, Some((2, 1)));
    lost.wait(10);
    assert_eq!(
        (lost.region_view().watermark, lost.moves()),
        (Some(lost.wall_at(5)), vec![EpochMove::Hole]),
        "written off"
    );
}

/// Watermark grade: ingest stalls while heartbeats go on.
#[test]
fn watermark_stalls_with_ingest() {
    let mut world = World::live();
    for _ in 0..10 {
        world.wait(5);
        world.heartbeat(1, 0, 3);
    }
    assert_eq!(world.state(), SubscriptionState::Live);
    assert_eq!(world.region_view().watermark, Some(world.wall_at(3)));
}

/// R9: a publisher's clock runs ahead.
#[test]
fn watermark_never_exceeds_sns_timestamp() {
    let mut world = World::live();
    world.wait(10);
    world.heartbeat(1, 0, 500);
    assert_eq!(world.region_view().watermark, Some(world.wall_at(10)));
    assert_eq!(world.region_view().watermark_at, Some(at(10)));
}

/// R10.
#[test]
fn restarted_publisher_numbering_moves_epoch() {
    let mut world = World::live();
    world.heartbeat(1, 500, 0);
    world.wait(5);
    world.heartbeat(1, 2, 5);
    assert_eq!(world.moves(), [EpochMove::FirstHeard, EpochMove::Restarted, EpochMove::Live]);
}

#[test]
fn evicted_active_publisher_withholds_watermark_briefly() {
    let mut world = World::live();
    world.heartbeat(0, 0, 0);
    world.wait(1);
    for publisher in 1..=limits::PUBLISHERS_PER_REGION as u64 {
        world.heartbeat(publisher, 0, 1);
    }
    assert_eq!(world.region.publishers.len(), limits::PUBLISHERS_PER_REGION);
    assert_eq!((world.region_view().watermark, world.region_view().grade), (None, Grade::Path));
    world.numbered(0, 9);
    world.wait(10);
    assert_eq!(world.moves(), [], "0 was forgotten, and has no unheard past");
    world.wait(60);
    world.heartbeat(1, 0, 71);
    assert_eq!(world.region_view().watermark, Some(world.wall_at(71)));
}
