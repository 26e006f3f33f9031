//! A region's subscription: proof, lease, epoch (R9 to R11).

use super::*;

mod numbers;

const BEAT: Says = Says::Heartbeat { path: false, ingested_through: None, signing_off: false };

/// One region, driven second by second.
struct World {
    region: RegionState,
    second: u64,
    /// Lead of the wall clock over ours, which reads 10,000 at the start.
    wall_ahead: u64,
    actions: Vec<Action>,
}

fn at(second: u64) -> Moment {
    Moment::ZERO + Duration::from_secs(10_000 + second)
}

impl World {
    fn new() -> Self {
        let region = RegionState::new(RegionId(0), false, at(0));
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
        assert_eq!(world.state(), SubscriptionState::Live);
        world.actions.clear();
        world
    }

    /// LIVE by polls and attributes alone.
    fn weakly_live() -> Self {
        let mut world = Self::subscribed();
        world.wait(60);
        world.weak_proof();
        assert_eq!((world.state(), world.region_view().grade), (SubscriptionState::Live, Grade::Weak));
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
        let envelope = MessageEnvelope { published, queued, numbered };
        let (now, wall) = (at(self.second), self.wall_at(self.second));
        self.region.note_message(envelope, &says, now, wall, &mut self.actions);
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

    fn state(&self) -> SubscriptionState {
        self.region.state
    }

    /// Number of times that another subscription was asked for.
    fn resubscribes(&self) -> usize {
        self.actions.iter().filter(|it| matches!(it, Action::Resubscribe(..))).count()
    }

    fn region_view(&self) -> RegionView {
        self.region.region_view(at(self.second))
    }

    /// Why the epoch moved since the last call.
    fn moves(&mut self) -> Vec<EpochMove> {
        std::mem::take(&mut self.actions)
            .into_iter()
            .filter_map(|action| match action {
                Action::EpochMoved(_, _, why) => Some(why),
                _ => None,
            })
            .collect()
    }
}

/// R11.
#[test]
fn subscription_is_probing_until_first_proof() {
    let mut world = World::new();
    assert_eq!(world.state(), SubscriptionState::Pending);
    world.message(Says::Unrouted);
    assert_eq!(world.state(), SubscriptionState::Pending, "nothing is subscribed");
    world.region.subscribing(at(0), &mut world.actions);
    world.region.subscribed(at(0), &mut world.actions);
    assert_eq!(world.state(), SubscriptionState::Probing);
    world.wait(3);
    assert_eq!(world.region_view().grade, Grade::None, "what came before proves nothing of this subscription");
    world.message(Says::Unrouted);
    assert_eq!((world.state(), world.region_view().grade), (SubscriptionState::Live, Grade::Path));
    assert_eq!(world.region_view().unbroken_since, at(3));
}

/// R9.
#[test]
fn proof_dates_from_publication_not_receipt() {
    let mut world = World::subscribed();
    world.wait(30);
    world.hear(BEAT, world.wall_at(20), None, None);
    assert_eq!(world.region_view().proof, at(20));
    assert_eq!(world.region_view().lease_until, at(35));
    world.hear(BEAT, world.wall_at(10), None, None);
    assert_eq!(world.region_view().proof, at(20), "an older message takes nothing back");
}

/// R9.
#[test]
fn older_sns_or_sqs_time_counts() {
    let mut world = World::subscribed();
    world.wait(30);
    world.hear(BEAT, world.wall_at(29), Some(world.wall_at(18)), None);
    assert_eq!(world.region_view().proof, at(18));
    world.hear(BEAT, world.wall_at(500), Some(world.wall_at(400)), None);
    assert_eq!(world.region_view().proof, at(30));
}

/// R9, R13.
#[test]
fn hour_late_message_is_no_proof() {
    let mut world = World::subscribed();
    world.hear(Says::Unrouted, Wall::from_millis(1_000), None, None);
    assert_eq!(world.state(), SubscriptionState::Probing);
}

/// R9: messages arrive, and prove nothing; another subscription would bring the same.
#[test]
fn clock_ahead_is_measured_and_tolerated() {
    let mut world = World::subscribed();
    for _ in 0..60 {
        world.wait(5);
        let published = world.wall_at(world.second).as_millis() - 20_000;
        world.hear(BEAT, Wall::from_millis(published), None, None);
    }
    assert_eq!(world.state(), SubscriptionState::Probing);
    assert!(!world.actions.iter().any(|action| matches!(action, Action::Resubscribe(..))));
    assert_eq!(world.region.arrived(at(world.second)).lag_ms, Some(20_000));
    world.wait(60);
    assert_eq!(world.state(), SubscriptionState::Probing);
    world.wait(1);
    assert_eq!(world.state(), SubscriptionState::Dead, "nothing arrives any more");
}

/// R10.
#[test]
fn silence_moves_epoch_then_kills_subscription() {
    let mut world = World::live();
    world.wait(15);
    assert_eq!((world.state(), world.moves()), (SubscriptionState::Live, vec![]));
    world.wait(1);
    assert_eq!((world.state(), world.moves()), (SubscriptionState::Suspect, vec![EpochMove::Silence]));
    world.wait(44);
    assert_eq!(world.state(), SubscriptionState::Suspect);
    world.wait(1);
    assert_eq!(world.state(), SubscriptionState::Dead);
    assert!(world.actions.contains(&Action::Resubscribe(RegionId(0), limits::RESUBSCRIBE_WAIT.0)));
}

/// R10.
#[test]
fn epoch_moves_when_region_turns_live() {
    let mut world = World::live();
    world.wait(20);
    let broken = world.region_view().epoch;
    world.actions.clear();
    world.message(BEAT);
    assert_eq!(world.state(), SubscriptionState::Live);
    assert_eq!(world.moves(), [EpochMove::Live]);
    assert!(world.region_view().epoch > broken);
    assert_eq!(world.region_view().unbroken_since, at(20));
}

/// R10.
#[test]
fn lost_queue_moves_epoch_retries_later() {
    let mut world = World::live();
    for expected in [1, 2, 4, 8] {
        world.region.lost(at(world.second), &mut world.actions);
        assert_eq!(world.state(), SubscriptionState::Dead);
        assert_eq!(world.actions.last(), Some(&Action::Resubscribe(RegionId(0), Duration::from_secs(expected))));
        assert_eq!(world.moves(), [EpochMove::Lost]);
        world.message(BEAT);
        assert_eq!(world.state(), SubscriptionState::Dead, "a straggler proves nothing");
        world.region.subscribing(at(world.second), &mut world.actions);
        world.region.subscribed(at(world.second), &mut world.actions);
    }
    world.message(BEAT);
    assert_eq!(world.state(), SubscriptionState::Live);
    world.region.lost(at(world.second), &mut world.actions);
    assert_eq!(world.actions.last(), Some(&Action::Resubscribe(RegionId(0), Duration::from_secs(1))));
}

/// R10.
#[test]
fn long_pause_moves_epoch_without_death() {
    let mut world = World::live();
    world.second += 600;
    world.region.elapse(at(world.second), &mut world.actions);
    assert_eq!((world.state(), world.moves()), (SubscriptionState::Suspect, vec![EpochMove::Silence]));
    world.wait(45);
    assert_eq!(world.state(), SubscriptionState::Suspect);
    world.wait(1);
    assert_eq!(world.state(), SubscriptionState::Dead);
}

/// R14.
#[test]
fn undecodable_messages_move_epoch_rate_limited() {
    let mut world = World::live();
    for _ in 0..5 {
        world.message(Says::Undecodable);
    }
    assert_eq!(world.moves(), [EpochMove::Undecodable]);
    world.wait(9);
    assert_eq!(world.moves(), []);
    world.wait(1);
    assert_eq!(world.moves(), [EpochMove::Undecodable], "for those within the window");
    assert_eq!(world.state(), SubscriptionState::Live);
    world.message(BEAT);
    world.wait(11);
    assert_eq!(world.moves(), [], "nothing was left over");
    world.message(Says::Undecodable);
    assert_eq!(world.moves(), [EpochMove::Undecodable]);
}

/// R10: a machine that is younger than what a region has ingested can tell no bound. That the region lags
/// is known all the same.
#[test]
fn ingestion_before_boot_states_no_bound() {
    for (seconds, bound) in [(9_000, Some(9_000)), (20_000, None)] {
        let mut world = World::live();
        world.wait(60);
        let through = Some(Wall::from_millis((1_000_060 - seconds) * 1_000));
        let says = Says::Heartbeat { path: false, ingested_through: through, signing_off: false };
        world.hear(says, world.wall_at(60), None, Some((1, 1)));
        let region_view = world.region_view();
        assert_eq!((region_view.bound(at(60)), region_view.watermark.is_some()), (bound, bound.is_some()));
        assert!(region_view.proof == at(60) && region_view.known_through < at(0), "{region_view:?}");
    }
}

/// R14, promise 2: meanwhile, another publisher's heartbeats may not vouch for what was missed of a
/// change.
#[test]
fn owed_epoch_move_withholds_watermark() {
    let owed: [fn(&mut World); 2] = [|world| world.message(Says::Undecodable), World::unverified];
    for arrive in owed {
        let mut world = World::live();
        world.wait(60);
        world.heartbeat(1, 1, 60);
        world.actions.clear();
        arrive(&mut world);
        assert_eq!(
            (world.moves().len(), world.region_view().watermark),
            (1, Some(world.wall_at(60))),
            "the epoch moved"
        );
        world.wait(2);
        arrive(&mut world);
        world.heartbeat(1, 1, 62);
        assert_eq!((world.moves().len(), world.region_view().watermark), (0, None));
        world.wait(8);
        assert_eq!((world.moves().len(), world.region_view().watermark), (1, Some(world.wall_at(62))));
    }
}

/// R14.
#[test]
fn unverifiable_messages_move_epoch_rate_limited() {
    let mut world = World::live();
    for _ in 0..5 {
        world.unverified();
    }
    assert_eq!(
        (world.moves(), world.state()),
        (vec![EpochMove::Unverified], SubscriptionState::Live),
        "the lease holds"
    );
    world.message(Says::Undecodable);
    assert_eq!(world.moves(), [EpochMove::Undecodable], "a window of its own");
    world.wait(9);
    assert_eq!(world.moves(), []);
    world.wait(1);
    assert_eq!(world.moves(), [EpochMove::Unverified], "for those within the window");
}

/// R14: an empty queue proves nothing while what came through it could not be read.
#[test]
fn unverifiable_message_suspends_weak_proof() {
    let mut world = World::weakly_live();
    world.unverified();
    assert_eq!((world.state(), world.moves()), (SubscriptionState::Suspect, vec![EpochMove::Unverified]));
    for _ in 0..3 {
        world.wait(10);
        world.weak_proof();
    }
    assert_eq!(world.state(), SubscriptionState::Suspect, "polls and attributes are as before");
    world.message(Says::Unrouted);
    assert_eq!((world.state(), world.moves()), (SubscriptionState::Live, vec![EpochMove::Live]));
    world.wait(20);
    world.weak_proof();
    world.wait(20);
    assert_eq!((world.state(), world.region_view().grade), (SubscriptionState::Live, Grade::Weak), "it is back");
}

/// R14: a new queue would lose what waits in the old one to be verified.
#[test]
fn subscription_is_kept_while_messages_arrive() {
    let mut world = World::weakly_live();
    for _ in 0..20 {
        world.unverified();
        world.wait(30);
    }
    world.wait(15);
    assert_eq!(world.state(), SubscriptionState::Suspect);
    world.wait(1);
    assert_eq!(world.state(), SubscriptionState::Dead, "nothing arrives any more");
}

/// Weak grade.
#[test]
fn weak_proof_needs_polls_and_attributes() {
    let mut world = World::subscribed();
    world.wait(59);
    world.region.polled(at(59), &mut world.actions);
    world.region.attested(at(59), &mut world.actions);
    assert_eq!(world.state(), SubscriptionState::Probing);
    world.wait(1);
    world.region.polled(at(60), &mut world.actions);
    assert_eq!((world.state(), world.region_view().grade), (SubscriptionState::Live, Grade::Weak));
    assert_eq!(world.region_view().lease_until, at(60 + 75), "by the poll");
    world.actions.clear();
    world.wait(75);
    assert_eq!(world.state(), SubscriptionState::Live);
    world.wait(1);
    assert_eq!(
        (world.state(), world.moves()),
        (SubscriptionState::Suspect, vec![EpochMove::Silence]),
        "a look alone is no proof"
    );
}

/// Weak grade: a look at the attributes holds for longer than a poll, so that a fleet need not look
/// every minute.
#[test]
fn weak_proof_lasts_with_recent_attributes() {
    let mut world = World::subscribed();
    world.wait(60);
    world.region.attested(at(60), &mut world.actions);
    world.actions.clear();
    for _ in 0..15 {
        world.region.polled(at(world.second), &mut world.actions);
        world.wait(20);
        assert_eq!(world.state(), SubscriptionState::Live, "{} s", world.second);
    }
    world.region.polled(at(world.second), &mut world.actions);
    assert_eq!(world.region_view().lease_until, at(60 + 300), "by the look");
    world.wait(1);
    assert_eq!(
        (world.state(), world.moves()),
        (SubscriptionState::Suspect, vec![EpochMove::Live, EpochMove::Silence]),
        "polls alone are none"
    );
}

/// Weak grade: AWS throttles the looks.
#[test]
fn failed_attestation_never_remakes_subscription() {
    let mut world = World::subscribed();
    world.wait(60);
    world.region.unattested();
    for _ in 0..60 {
        world.region.polled(at(world.second), &mut world.actions);
        world.wait(20);
        assert_eq!(world.state(), SubscriptionState::Probing, "it proves nothing, and is not made anew");
    }
    world.region.polled(at(world.second), &mut world.actions);
    world.region.attested(at(world.second), &mut world.actions);
    assert_eq!(world.state(), SubscriptionState::Live);
    world.region.unattested();
    world.wait(700);
    assert_eq!(world.state(), SubscriptionState::Suspect, "long past its lease");
    world.region.remember_heartbeats();
    world.wait(1);
    assert_eq!(world.state(), SubscriptionState::Dead, "where heartbeats are to be heard, silence decides");
}

/// Weak grade.
#[test]
fn message_keeps_weak_lease_without_heartbeats() {
    let mut world = World::subscribed();
    world.wait(60);
    world.region.polled(at(60), &mut world.actions);
    world.region.attested(at(60), &mut world.actions);
    world.message(Says::Unrouted);
    world.wait(30);
    assert_eq!((world.state(), world.region_view().grade), (SubscriptionState::Live, Grade::Weak));
}

/// Weak grade.
#[test]
fn first_heartbeat_ends_weak_proof() {
    let mut world = World::subscribed();
    world.wait(60);
    world.region.polled(at(60), &mut world.actions);
    world.region.attested(at(60), &mut world.actions);
    world.message(BEAT);
    world.message(BEAT);
    assert_eq!(world.actions.iter().filter(|action| matches!(action, Action::HeartbeatSeen(_))).count(), 1);
    world.wait(16);
    assert_eq!(world.state(), SubscriptionState::Suspect);
}

/// Weak grade.
#[test]
fn expected_heartbeats_rule_out_weak_proof() {
    let mut remembered = World::subscribed();
    remembered.region.remember_heartbeats();
    let mut required = World::subscribed();
    required.region.signals.weak_refused = true;
    for world in [&mut remembered, &mut required] {
        world.wait(60);
        world.region.polled(at(60), &mut world.actions);
        world.region.attested(at(60), &mut world.actions);
        assert_eq!(world.state(), SubscriptionState::Probing);
        world.wait(1);
        assert_eq!(world.state(), SubscriptionState::Dead, "a minute without a heartbeat");
    }
    remembered.message(BEAT);
    assert!(!remembered.actions.iter().any(|action| matches!(action, Action::HeartbeatSeen(_))));
}

/// Path grade.
#[test]
fn future_path_heartbeat_is_ignored() {
    let mut world = World::subscribed();
    let slot = world.wall_at(0).as_millis() / 5_000;
    let path = Says::Heartbeat { path: true, ingested_through: None, signing_off: false };
    world.hear(path.clone(), world.wall_at(0), None, Some((9, slot + 3)));
    assert_eq!((world.state(), world.region.signals.heartbeat_seen), (SubscriptionState::Probing, false));
    for _copy in 0..3 {
        world.hear(path.clone(), world.wall_at(0), None, Some((9, slot + 2)));
    }
    assert_eq!((world.state(), world.region_view().grade), (SubscriptionState::Live, Grade::Path));
    world.actions.clear();
    world.hear(path, world.wall_at(0), None, Some((9, slot - 100)));
    world.wait(11);
    assert_eq!(world.moves(), [], "slots are no numbering: they leave no holes");
}

/// R10, R11: a request for another subscription is over when the region is LIVE, and not before.
#[test]
fn dead_region_resubscribes_once_until_proven() {
    let (mut strong, mut weak) = (World::live(), World::weakly_live());
    for world in [&mut strong, &mut weak] {
        world.wait(600);
        assert_eq!((world.state(), world.resubscribes()), (SubscriptionState::Dead, 1));
        world.weak_proof();
    }
    assert_eq!((strong.state(), weak.state()), (SubscriptionState::Dead, SubscriptionState::Live));
    strong.wait(600);
    assert_eq!(strong.resubscribes(), 1, "no other is asked for after that one");
    strong.message(BEAT);
    assert_eq!(strong.state(), SubscriptionState::Live);
}
