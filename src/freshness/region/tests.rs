//! What `region` promises, tried.

use super::*;

const BEAT: Says = Says::Heartbeat { path: false, ingested_through: None, signing_off: false };

/// One region, driven second by second.
struct World {
    region: Region,
    second: u64,
    /// How far the wall clock is ahead of ours, which reads 10,000 at the start.
    wall_ahead: u64,
    actions: Vec<Action>,
}

fn at(second: u64) -> Moment {
    Moment::ZERO + Duration::from_secs(10_000 + second)
}

impl World {
    fn new() -> Self {
        let region = Region::new(RegionId(0), false, at(0));
        Self { region, second: 0, wall_ahead: 1_000_000, actions: Vec::new() }
    }

    fn subscribed() -> Self {
        let mut world = Self::new();
        world.region.subscribing(at(0), &mut world.actions);
        world.region.subscribed(at(0), &mut world.actions);
        world
    }

    fn live() -> Self {
        let mut world = Self::subscribed();
        world.message(BEAT);
        assert_eq!(world.state(), Subscription::Live);
        world.actions.clear();
        world
    }

    /// LIVE by polls and attributes alone.
    fn weakly_live() -> Self {
        let mut world = Self::subscribed();
        world.wait(60);
        world.weak_proof();
        assert_eq!((world.state(), world.sight().grade), (Subscription::Live, Grade::Weak));
        world.actions.clear();
        world
    }

    fn weak_proof(&mut self) {
        self.region.polled(at(self.second), &mut self.actions);
        self.region.attested(at(self.second), &mut self.actions);
    }

    fn unverified(&mut self) {
        self.region.unverified(at(self.second), &mut self.actions);
    }

    fn wall_at(&self, second: u64) -> Wall {
        Wall::from_millis((self.wall_ahead + second) * 1_000)
    }

    fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.second += 1;
            self.region.elapse(at(self.second), &mut self.actions);
        }
    }

    fn hear(&mut self, says: Says, published: Wall, queued: Option<Wall>, numbered: Option<(u64, u64)>) {
        let envelope = Envelope { published, queued, numbered };
        let (now, wall) = (at(self.second), self.wall_at(self.second));
        self.region.heard(envelope, &says, now, wall, &mut self.actions);
    }

    fn message(&mut self, says: Says) {
        self.hear(says, self.wall_at(self.second), None, None);
    }

    fn numbered(&mut self, publisher: u64, number: u64) {
        self.hear(Says::Unrouted, self.wall_at(self.second), None, Some((publisher, number)));
    }

    fn heartbeat(&mut self, publisher: u64, number: u64, through: u64) {
        let ingested_through = Some(self.wall_at(through));
        let says = Says::Heartbeat { path: false, ingested_through, signing_off: false };
        self.hear(says, self.wall_at(self.second), None, Some((publisher, number)));
    }

    fn state(&self) -> Subscription {
        self.region.state
    }

    fn sight(&self) -> Sight {
        self.region.sight(at(self.second))
    }

    /// Why the epoch moved since the last call.
    fn moves(&mut self) -> Vec<&'static str> {
        let moved = |action| match action {
            Action::EpochMoved(_, _, why) => Some(why),
            _ => None,
        };
        std::mem::take(&mut self.actions).into_iter().filter_map(moved).collect()
    }
}

/// R11.
#[test]
fn a_subscription_is_probing_until_its_first_proof() {
    let mut world = World::new();
    assert_eq!(world.state(), Subscription::Pending);
    world.message(Says::Unrouted);
    assert_eq!(world.state(), Subscription::Pending, "nothing is subscribed");
    world.region.subscribing(at(0), &mut world.actions);
    world.region.subscribed(at(0), &mut world.actions);
    assert_eq!(world.state(), Subscription::Probing);
    world.wait(3);
    assert_eq!(world.sight().grade, Grade::None, "what came before proves nothing of this subscription");
    world.message(Says::Unrouted);
    assert_eq!((world.state(), world.sight().grade), (Subscription::Live, Grade::Path));
    assert_eq!(world.sight().unbroken_since, at(3));
}

/// R9.
#[test]
fn a_proof_dates_from_publication_and_never_from_receipt() {
    let mut world = World::subscribed();
    world.wait(30);
    world.hear(BEAT, world.wall_at(20), None, None);
    assert_eq!(world.sight().proof, at(20));
    assert_eq!(world.sight().lease_until, at(35));
    world.hear(BEAT, world.wall_at(10), None, None);
    assert_eq!(world.sight().proof, at(20), "an older message takes nothing back");
}

/// R9.
#[test]
fn the_older_of_what_sns_and_sqs_say_counts_and_neither_may_lie_ahead_of_receipt() {
    let mut world = World::subscribed();
    world.wait(30);
    world.hear(BEAT, world.wall_at(29), Some(world.wall_at(18)), None);
    assert_eq!(world.sight().proof, at(18));
    world.hear(BEAT, world.wall_at(500), Some(world.wall_at(400)), None);
    assert_eq!(world.sight().proof, at(30));
}

/// R9, R13.
#[test]
fn an_hour_late_message_is_no_proof() {
    let mut world = World::subscribed();
    world.hear(Says::Unrouted, Wall::from_millis(1_000), None, None);
    assert_eq!(world.state(), Subscription::Probing);
}

/// R10.
#[test]
fn silence_for_fifteen_seconds_moves_the_epoch_and_for_a_minute_kills() {
    let mut world = World::live();
    world.wait(15);
    assert_eq!((world.state(), world.moves()), (Subscription::Live, vec![]));
    world.wait(1);
    assert_eq!((world.state(), world.moves()), (Subscription::Suspect, vec!["silence"]));
    world.wait(44);
    assert_eq!(world.state(), Subscription::Suspect);
    world.wait(1);
    assert_eq!(world.state(), Subscription::Dead);
    assert!(world.actions.contains(&Action::Resubscribe(RegionId(0), limits::RESUBSCRIBE_WAIT.0)));
}

/// R10.
#[test]
fn the_epoch_moves_again_when_a_region_turns_live() {
    let mut world = World::live();
    world.wait(20);
    let broken = world.sight().epoch;
    world.actions.clear();
    world.message(BEAT);
    assert_eq!(world.state(), Subscription::Live);
    assert_eq!(world.moves(), ["live"]);
    assert!(world.sight().epoch > broken);
    assert_eq!(world.sight().unbroken_since, at(20));
}

/// R10.
#[test]
fn a_lost_queue_moves_the_epoch_and_asks_for_another_each_time_later() {
    let mut world = World::live();
    for expected in [1, 2, 4, 8] {
        world.region.lost(at(world.second), &mut world.actions);
        assert_eq!(world.state(), Subscription::Dead);
        assert_eq!(world.actions.last(), Some(&Action::Resubscribe(RegionId(0), Duration::from_secs(expected))));
        assert_eq!(world.moves(), ["lost"]);
        world.message(BEAT);
        assert_eq!(world.state(), Subscription::Dead, "a straggler proves nothing");
        world.region.subscribing(at(world.second), &mut world.actions);
        world.region.subscribed(at(world.second), &mut world.actions);
    }
    world.message(BEAT);
    assert_eq!(world.state(), Subscription::Live);
    world.region.lost(at(world.second), &mut world.actions);
    assert_eq!(world.actions.last(), Some(&Action::Resubscribe(RegionId(0), Duration::from_secs(1))));
}

/// R10.
#[test]
fn a_pause_beyond_the_lease_moves_the_epoch_and_is_not_taken_for_a_dead_subscription() {
    let mut world = World::live();
    world.second += 600;
    world.region.elapse(at(world.second), &mut world.actions);
    assert_eq!((world.state(), world.moves()), (Subscription::Suspect, vec!["silence"]));
    world.wait(45);
    assert_eq!(world.state(), Subscription::Suspect);
    world.wait(1);
    assert_eq!(world.state(), Subscription::Dead);
}

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
    assert_eq!((world.state(), world.moves()), (Subscription::Live, vec![]));
    world.wait(1);
    assert_eq!((world.state(), world.moves()), (Subscription::Suspect, vec!["hole"]));
    world.message(BEAT);
    assert_eq!((world.state(), world.moves()), (Subscription::Live, vec!["live"]));
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
            assert_eq!(world.state(), Subscription::Live, "its past is no reason to doubt what arrives");
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
    assert_eq!(world.sight().watermark, Some(world.wall_at(0)), "nothing hangs on this region yet");
    for publisher in 1..5 {
        world.wait(1);
        world.heartbeat(publisher, 80_000 + publisher, world.second);
        assert_eq!(world.sight().watermark, None, "it may have said anything");
    }
    world.wait(1);
    world.heartbeat(0, 70_000, 5);
    assert_eq!(world.moves(), ["live"]);
    world.wait(1);
    assert_eq!((world.state(), world.moves()), (Subscription::Live, vec!["first-heard"]));
    assert_eq!(world.sight().watermark, Some(world.wall_at(1)));
    world.wait(1);
    for second in 7..60 {
        world.heartbeat(second % 5, if second % 5 == 0 { 70_000 } else { 80_000 + second % 5 }, second);
        world.wait(1);
    }
    assert_eq!((world.state(), world.moves()), (Subscription::Live, vec![]));
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
    assert_eq!((world.state(), world.moves()), (Subscription::Live, vec![]));
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
    assert_eq!((world.state(), world.moves()), (Subscription::Live, vec![]));
}

/// R14.
#[test]
fn undecodable_messages_move_the_epoch_at_a_bounded_rate_the_last_at_the_end_of_the_window() {
    let mut world = World::live();
    for _ in 0..5 {
        world.message(Says::Undecodable);
    }
    assert_eq!(world.moves(), ["undecodable"]);
    world.wait(9);
    assert_eq!(world.moves(), Vec::<&str>::new());
    world.wait(1);
    assert_eq!(world.moves(), ["undecodable"], "for those within the window");
    assert_eq!(world.state(), Subscription::Live);
    world.message(BEAT);
    world.wait(11);
    assert_eq!(world.moves(), Vec::<&str>::new(), "nothing was left over");
    world.message(Says::Undecodable);
    assert_eq!(world.moves(), ["undecodable"]);
}

/// R14.
#[test]
fn what_cannot_be_verified_moves_the_epoch_at_a_bounded_rate_the_last_at_the_end_of_the_window() {
    let mut world = World::live();
    for _ in 0..5 {
        world.unverified();
    }
    assert_eq!((world.moves(), world.state()), (vec!["unverified"], Subscription::Live), "the lease holds");
    world.message(Says::Undecodable);
    assert_eq!(world.moves(), ["undecodable"], "a window of its own");
    world.wait(9);
    assert_eq!(world.moves(), Vec::<&str>::new());
    world.wait(1);
    assert_eq!(world.moves(), ["unverified"], "for those within the window");
}

/// R14: an empty queue proves nothing while what came through it could not be read.
#[test]
fn what_cannot_be_verified_ends_weak_proof_until_something_can() {
    let mut world = World::weakly_live();
    world.unverified();
    assert_eq!((world.state(), world.moves()), (Subscription::Suspect, vec!["unverified"]));
    for _ in 0..3 {
        world.wait(10);
        world.weak_proof();
    }
    assert_eq!(world.state(), Subscription::Suspect, "polls and attributes are as before");
    world.message(Says::Unrouted);
    assert_eq!((world.state(), world.moves()), (Subscription::Live, vec!["live"]));
    world.wait(20);
    world.weak_proof();
    world.wait(20);
    assert_eq!((world.state(), world.sight().grade), (Subscription::Live, Grade::Weak), "it is back");
}

/// R14: a new queue would lose what waits in the old one to be verified.
#[test]
fn a_subscription_is_kept_while_anything_arrives_through_it() {
    let mut world = World::weakly_live();
    for _ in 0..20 {
        world.unverified();
        world.wait(30);
    }
    world.wait(15);
    assert_eq!(world.state(), Subscription::Suspect);
    world.wait(1);
    assert_eq!(world.state(), Subscription::Dead, "nothing arrives any more");
}

/// Weak grade.
#[test]
fn weak_proof_begins_a_minute_after_subscribing_and_takes_both_halves() {
    let mut world = World::subscribed();
    world.wait(59);
    world.region.polled(at(59), &mut world.actions);
    world.region.attested(at(59), &mut world.actions);
    assert_eq!(world.state(), Subscription::Probing);
    world.wait(1);
    world.region.polled(at(60), &mut world.actions);
    assert_eq!((world.state(), world.sight().grade), (Subscription::Live, Grade::Weak));
    assert_eq!(world.sight().lease_until, at(59 + 75), "by the older half");
    world.actions.clear();
    for _ in 0..3 {
        world.wait(20);
        world.region.polled(at(world.second), &mut world.actions);
    }
    world.wait(14);
    assert_eq!(world.state(), Subscription::Live);
    world.wait(1);
    assert_eq!((world.state(), world.moves()), (Subscription::Suspect, vec!["silence"]), "polls alone are no proof");
}

/// Weak grade.
#[test]
fn a_message_does_not_shorten_the_weak_lease_of_a_topic_without_heartbeats() {
    let mut world = World::subscribed();
    world.wait(60);
    world.region.polled(at(60), &mut world.actions);
    world.region.attested(at(60), &mut world.actions);
    world.message(Says::Unrouted);
    world.wait(30);
    assert_eq!((world.state(), world.sight().grade), (Subscription::Live, Grade::Weak));
}

/// Weak grade.
#[test]
fn the_first_heartbeat_ends_weak_proof_and_is_to_be_remembered_once() {
    let mut world = World::subscribed();
    world.wait(60);
    world.region.polled(at(60), &mut world.actions);
    world.region.attested(at(60), &mut world.actions);
    world.message(BEAT);
    world.message(BEAT);
    let seen = |action: &&Action| matches!(action, Action::HeartbeatSeen(_));
    assert_eq!(world.actions.iter().filter(seen).count(), 1);
    world.wait(16);
    assert_eq!(world.state(), Subscription::Suspect);
}

/// Weak grade.
#[test]
fn weak_proof_is_refused_where_heartbeats_are_required_or_remembered() {
    let mut remembered = World::subscribed();
    remembered.region.remember_heartbeats();
    let mut required = World::subscribed();
    required.region.weak_refused = true;
    for world in [&mut remembered, &mut required] {
        world.wait(60);
        world.region.polled(at(60), &mut world.actions);
        world.region.attested(at(60), &mut world.actions);
        assert_eq!(world.state(), Subscription::Probing);
        world.wait(1);
        assert_eq!(world.state(), Subscription::Dead, "a minute without a heartbeat");
    }
    remembered.message(BEAT);
    assert!(!remembered.actions.iter().any(|action| matches!(action, Action::HeartbeatSeen(_))));
}

/// Path grade.
#[test]
fn a_path_heartbeat_more_than_two_slots_ahead_is_ignored() {
    let mut world = World::subscribed();
    let slot = world.wall_at(0).as_millis() / 5_000;
    let path = Says::Heartbeat { path: true, ingested_through: None, signing_off: false };
    world.hear(path.clone(), world.wall_at(0), None, Some((9, slot + 3)));
    assert_eq!((world.state(), world.region.heartbeat_seen), (Subscription::Probing, false));
    for _copy in 0..3 {
        world.hear(path.clone(), world.wall_at(0), None, Some((9, slot + 2)));
    }
    assert_eq!((world.state(), world.sight().grade), (Subscription::Live, Grade::Path));
    world.actions.clear();
    world.hear(path, world.wall_at(0), None, Some((9, slot - 100)));
    world.wait(11);
    assert_eq!(world.moves(), Vec::<&str>::new(), "slots are no numbering: they leave no holes");
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

/// Promise 2: a publisher that dies holds the watermark back until the epoch moves. What it announced last may be lost
/// without a trace, so that nothing from before may be vouched for by the others alone.
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
    assert!(world.sight().epoch != before && world.state() == Subscription::Live);
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
    world.wait(5);
    world.heartbeat(1, 0, 5);
    let through = Some(world.wall_at(5));
    let bye = Says::Heartbeat { path: false, ingested_through: through, signing_off: true };
    world.hear(bye, world.wall_at(5), None, Some((2, 1)));
    assert_eq!(world.sight().watermark, Some(world.wall_at(0)), "its message 1 is missing");
    world.numbered(2, 1);
    assert_eq!(world.sight().watermark, Some(world.wall_at(5)));
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
    assert_eq!(world.state(), Subscription::Live);
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
