//! Bad input, measured: versions that go backwards or jump, announcements of what does not exist,
//! regions that never agree. Nothing older is called fresh, the upstream cost is bounded, the alarm
//! is raised, and it ends without a restart.

use std::time::Duration;

use super::*;
use crate::fill::limits;
use crate::protocol::event::Alarm;
use crate::protocol::event::{Event, OperatorOrder, Says, Scope};

const MINUTE: Duration = Duration::from_secs(60);

impl World {
    /// Alarms raised for this reason, over all regions.
    fn alarms(&self, why: Alarm) -> u64 {
        [A, B, C].iter().map(|region| self.sidecar.fill.shared.metrics.announcements.alarms(*region, why)).sum()
    }

    /// Reads `path` once a second for `span`; every answer is as wanted. Returns how many attempts that
    /// took.
    async fn read_for(&self, span: Duration, path: &str, wanted: impl Fn(&Answer) -> bool) -> usize {
        self.requests();
        for _ in 0..span.as_secs() {
            let answer = self.get(path).await;
            assert!(wanted(&answer), "{answer:?}");
            self.pass(SECOND).await;
        }
        self.asked().len()
    }

    /// An ordinary change, announced as usual: at the latest a second later it is served as a plain
    /// hit.
    async fn is_well_again(&self, version: u64) {
        self.set_all(1, shows(version));
        for region in [A, B, C] {
            self.announce(region, "x", version);
        }
        self.get(X).await;
        self.pass(SECOND).await;
        let answer = self.get(X).await;
        let expected = (version.to_string(), None, true);
        assert_eq!((answer.body.clone(), answer.label(), answer.is_hit()), expected, "{answer:?}");
        let attempts = self.read_for(5 * MINUTE, X, Answer::is_hit).await;
        assert_eq!((attempts, self.floor("x")), (0, version), "nothing is left to be settled");
    }
}

fn is_plain(answer: &Answer, body: &str) -> bool {
    answer.body == body && answer.label().is_none()
}

/// R1, R15.
#[tokio::test(start_paused = true)]
async fn backward_versions_lose_then_are_believed() {
    let world = World::new([(1, shows(5).into()), (5, shows(5).into()), (5, shows(5).into())]);
    world.live().await;
    world.get(X).await;
    world.set(A, 1, shows(3));
    world.requests();
    for _ in 0..60 {
        let answer = world.get_with(X, "cache-control", "no-cache").await;
        assert!(is_plain(&answer, "5"), "{answer:?}");
        world.pass(SECOND).await;
    }
    let one = world.asked().len();
    assert_eq!(one, 60 * REGIONS, "the readers' own");

    // All of them, restored from a backup.
    world.set_all(1, shows(3));
    world.hear(B, Says::Reload(Scope::All));
    let all = world.read_for(3 * MINUTE, X, |answer| answer.body == "3" && answer.label().is_some()).await;
    let alarms = world.alarms(Alarm::FloorDropped);
    println!(
        "backwards: {one} attempts in a minute with one region, {all} in three minutes with all; alarms {alarms}"
    );
    assert_eq!(alarms, 1);
    // One race per reader until the floor is dropped, a minute later; then the short TTL and
    // rechecks.
    assert!(all <= REGIONS * (62 + 2 * 2 + 2 * 14), "{all}");
    world.is_well_again(4).await;
    world.is_well_again(6).await;
    world.stop().await;
}

/// R19: a restore ends with a RESET, for what is stored and for what nothing holds.
#[tokio::test(start_paused = true)]
async fn announced_reset_drops_every_floor() {
    for by_operator in [false, true] {
        let world = World::new([(1, shows(9).into()), (5, shows(9).into()), (5, shows(9).into())]);
        world.live().await;
        world.get(X).await;
        world.announce(A, "y", 9);
        world.set_all(1, shows(4));
        if by_operator {
            world.step(Event::Ordered(OperatorOrder::Reset(Scope::All)));
        } else {
            [A, B, C].into_iter().for_each(|region| world.hear(region, Says::Reset(Scope::All)));
        }
        for path in [X, "/v1/contexts/y/full"] {
            let answer = world.get(path).await;
            assert!(is_plain(&answer, "4"), "{answer:?}");
            world.pass(90 * SECOND).await;
            let answer = world.get(path).await;
            assert!(is_plain(&answer, "4") && answer.is_hit(), "{answer:?}");
        }
        world.stop().await;
    }
}

/// R13, R19.
#[tokio::test(start_paused = true)]
async fn announcement_before_reset_leaves_no_floor() {
    let world = World::new([(1, shows(4).into()), (5, shows(4).into()), (5, shows(4).into())]);
    world.live().await;
    let before = world.sidecar.fill.shared.clock.wall();
    world.pass(SECOND).await;
    world.hear(A, Says::Reset(Scope::Record(world.record("x"))));
    let says = Says::Changed(world.record("x"), Some(crate::model::ids::Version(9)));
    world.step(Event::Message { region: A, published: before, queued: None, numbered: None, says });
    assert!(is_plain(&world.get(X).await, "4"));
    world.announce(A, "x", 5);
    assert_eq!(world.floor("x"), 5, "published after it");
    world.stop().await;
}

/// R8, R19: a copy that an intermediary took before the restore shows a version from before it.
#[tokio::test(start_paused = true)]
async fn copy_before_reset_leaves_no_floor() {
    let world = World::new([(5, shows(4).into()), (1, shows(9).with("age", "60").into()), (6, shows(4).into())]);
    world.live().await;
    world.hear(A, Says::Reset(Scope::All));
    world.pass(SECOND).await;
    assert!(is_plain(&world.get(X).await, "4"));
    world.pass(SECOND).await;
    assert_eq!(world.floor("x"), 4);
    world.stop().await;
}

/// R13, R19: SNS delivers at least once, in any order.
#[tokio::test(start_paused = true)]
async fn duplicate_reset_keeps_newer_floor() {
    let world = World::new([(1, shows(4).into()), (5, shows(4).into()), (5, shows(4).into())]);
    world.live().await;
    let published = world.sidecar.fill.shared.clock.wall();
    let says = Says::Reset(Scope::All);
    let reset = Event::Message { region: A, published, queued: None, numbered: None, says };
    world.step(reset.clone());
    world.get(X).await;
    world.announce(A, "x", 5);
    world.step(reset);
    assert_eq!(world.floor("x"), 5);
    world.stop().await;
}

/// R15: hits on such a record are labelled too.
#[tokio::test(start_paused = true)]
async fn hit_after_dropped_floor_is_labelled() {
    let world = World::new([(1, shows(9).into()), (5, shows(9).into()), (5, shows(9).into())]);
    world.live().await;
    world.get(X).await;
    world.set_all(1, shows(4));
    world.hear(B, Says::Reload(Scope::All));
    world.read_for(65 * SECOND, X, |answer| answer.label().is_some()).await;
    let answer = world.get(X).await;
    assert_eq!((answer.body.as_str(), answer.label(), answer.is_hit()), ("4", Some("floor-escaped"), true));
    world.stop().await;
}

/// R15.
#[tokio::test(start_paused = true)]
async fn maximal_version_reply_alarms_until_change() {
    let world = World::new([(1, shows(5).into()), (2, shows(5).into()), (2, shows(5).into())]);
    world.live().await;
    world.get(X).await;
    world.set(A, 1, shows(u64::MAX));
    world.hear(B, Says::Reload(Scope::All));
    let attempts = world.read_for(5 * MINUTE, X, |answer| answer.label().is_some() || answer.body == "5").await;
    println!(
        "the highest version in replies: {attempts} attempts in five minutes; alarms {}",
        world.alarms(Alarm::VersionJump)
    );
    assert!(world.alarms(Alarm::VersionJump) >= 1 && world.floor("x") == 5);
    // Rechecks double to one a minute; readers ask when the short TTL of 30 s is over.
    assert!(attempts <= REGIONS * (10 + 5 + 10 + 2), "{attempts}");
    world.is_well_again(6).await;
    world.stop().await;
}

/// R15.
#[tokio::test(start_paused = true)]
async fn maximal_version_announcement_costs_one_refetch() {
    let world = World::new([(1, shows(5).into()), (2, shows(5).into()), (2, shows(5).into())]);
    world.live().await;
    world.get(X).await;
    world.requests();
    for _ in 0..60 {
        world.announce(A, "x", u64::MAX);
        let answer = world.get(X).await;
        assert!(answer.body == "5" && answer.label() == Some("floor-escaped"), "{answer:?}");
        world.pass(SECOND).await;
    }
    let (attempts, alarms) = (world.asked().len(), world.alarms(Alarm::VersionJump));
    println!("the highest version in 60 announcements: {attempts} attempts in a minute; alarms {alarms}");
    assert_eq!(alarms, 60);
    // A refetch, and its rechecks within the second.
    assert!(attempts <= 60 * REGIONS * 6, "{attempts}");
    assert_eq!(world.floor("x"), 5);
    world.is_well_again(6).await;
    world.stop().await;
}

/// R2, R6, R15.
#[tokio::test(start_paused = true)]
async fn announcing_absent_records_asks_nobody() {
    let world = World::new([(1, status(404).into()), (2, status(404).into()), (2, status(404).into())]);
    world.live().await;
    for ghost in 0..10_000 {
        world.announce(A, &ghost.to_string(), 5);
    }
    world.pass(10 * SECOND).await;
    assert_eq!((world.asked().len(), world.sidecar.fill.shared.freshness.held_records()), (0, 0));
    let ghost = "/v1/contexts/7/full";
    let first = world.read_for(MINUTE, ghost, |answer| answer.status == 404 && answer.label().is_some()).await;
    world.get(ghost).await;
    world.pass(SECOND).await;
    let then = world.read_for(5 * MINUTE, ghost, |answer| answer.status == 404 && answer.label().is_none()).await;
    println!(
        "a record that does not exist, read every second: {first} attempts in a minute, {then} in the next five"
    );
    assert!(first <= 60 * REGIONS);
    // The absence was believed after a minute: it is an ordinary one, for the negative TTL of 30 s.
    assert!(then <= REGIONS * (10 + 2), "{then}");
    assert_eq!(world.alarms(Alarm::AbsenceAccepted), 1);
    // It is created after all.
    world.set_all(1, shows(6));
    [A, B, C].into_iter().for_each(|region| world.announce(region, "7", 6));
    world.get(ghost).await;
    world.pass(SECOND).await;
    let answer = world.get(ghost).await;
    assert!(is_plain(&answer, "6") && answer.is_hit(), "{answer:?}");
    world.stop().await;
}

/// Promise 3.
#[tokio::test(start_paused = true)]
async fn disagreement_costs_one_recheck_per_minute() {
    let world = World::new([(1, body("one").into()), (1, body("another").into()), (1, body("one").into())]);
    world.live().await;
    world.get(X).await;
    world.pass(5 * MINUTE).await;
    world.requests();
    let (mut misses, mut rechecks) = (0, Vec::new());
    for _ in 0..3_600 {
        let background = world.requests();
        rechecks.extend(background.iter().filter(|(region, ..)| *region == A).map(|(_, at, _)| *at));
        let answer = world.get(X).await;
        let first_hand = !answer.is_hit();
        assert!(first_hand || answer.label() == Some("provisional"), "{answer:?}");
        misses += usize::from(first_hand);
        tokio::time::sleep(ms(3)).await;
        let asked = world.asked().len();
        assert_eq!(asked, if first_hand { REGIONS } else { 0 });
        world.pass(SECOND - ms(3)).await;
    }
    let closest = rechecks.windows(2).skip(12).map(|pair| pair[1] - pair[0]).min().unwrap();
    println!("never agreed, an hour: {} rechecks, the closest {closest:.1?} apart; {misses} misses", rechecks.len());
    assert!(rechecks.len() <= 60 + 12, "{}", rechecks.len());
    assert!(closest >= limits::RECHECK_WAIT.1, "{closest:?}");
    assert!(misses <= 3_600 / 30 + 1, "{misses}: the short TTL is 30 s");

    world.set_all(1, body("one"));
    world.pass(61 * SECOND).await;
    let answer = world.get(X).await;
    assert!(is_plain(&answer, "one") && answer.is_hit(), "{answer:?}");
    let attempts = world.read_for(5 * MINUTE, X, Answer::is_hit).await;
    assert_eq!(attempts, 0, "settled");
    world.stop().await;
}

/// Each region is blamed under its own name.
#[tokio::test(start_paused = true)]
async fn version_jump_alarm_names_region() {
    let world = World::new([(1, shows(5).into()), (1, shows(5).into()), (1, shows(5).into())]);
    world.get(X).await;
    world.announce(C, "x", u64::MAX);
    assert_eq!(
        [A, B, C].map(|region| world.sidecar.fill.shared.metrics.announcements.alarms(region, Alarm::VersionJump)),
        [0, 0, 1]
    );
    world.stop().await;
}
