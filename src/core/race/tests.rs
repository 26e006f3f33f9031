//! The race's rules, against regions that answer by a script in virtual time.

use std::sync::Mutex;

use http::StatusCode;

use super::*;
use crate::config::RaceMode;
use crate::core::race::scripted::{self, Act, DEADLINE, Script, body, get, ms, retry_after, shows, status};
use crate::http::exchange::Failure;
use crate::model::ids::{RecordId, TypeId, Version};
use crate::model::time::Wall;
use crate::protocol::event::{Event, Says};
use crate::protocol::record::Marker;
use crate::protocol::{Freshness, Room};
use crate::tasks::TaskGroup;

const A: RegionId = RegionId(0);
const B: RegionId = RegionId(1);
const C: RegionId = RegionId(2);
/// Three scripted regions and one record.
struct World {
    script: Arc<Script>,
    regions: Arc<Regions>,
    record: Arc<Mutex<Snapshot>>,
}

impl World {
    fn new(mode: RaceMode, acts: [(u64, Act); 3]) -> Self {
        Self::with_permits(mode, 512, acts)
    }

    fn with_permits(mode: RaceMode, permits: usize, acts: [(u64, Act); 3]) -> Self {
        let (script, regions) = scripted::regions(mode, permits, acts);
        Self { script, regions, record: Arc::default() }
    }

    fn now(&self) -> Moment {
        self.regions.clock.now()
    }

    fn set(&self, region: RegionId, after: u64, act: Act) {
        self.script.acts.lock().unwrap()[region.index()] = (ms(after), act);
    }

    fn announce(&self, region: RegionId, version: u64, deleted: bool) {
        let mut record = self.record.lock().unwrap();
        let regions = RegionSet::EMPTY.with(region);
        record.floor = record.floor.max(Version(version));
        record.marker = Some(Marker { regions, at: self.now(), deleted });
        record.at_floor = version > 0;
        record.changed = version > 0 && !deleted;
    }

    fn race(&self) -> Race {
        self.race_for(Purpose::Foreground, None)
    }

    fn race_for(&self, purpose: Purpose, known: Option<Known>) -> Race {
        let record = self.record.clone();
        let floors = Box::new(move || vec![*record.lock().unwrap()]);
        self.run(purpose, Standard::Routed { floors, known })
    }

    fn unrouted(&self) -> Race {
        self.run(Purpose::Foreground, Standard::Unrouted)
    }

    fn run(&self, purpose: Purpose, standard: Standard) -> Race {
        self.script.asked.lock().unwrap().clear();
        Race::over(&self.regions, Sending::alone(Arc::new(get()), purpose), standard)
    }

    fn asked(&self) -> Vec<RegionId> {
        self.script.asked.lock().unwrap().clone()
    }

    async fn first(&self) -> (First, Duration) {
        let (mut race, start) = (self.race(), self.now());
        let first = race.first().await;
        let took = self.now() - start;
        race.finish().await;
        (first, took)
    }
}

fn winner(first: First) -> Winner {
    match first {
        First::Good(winner) => winner,
        First::Nothing => panic!("nothing was served"),
    }
}

fn about(took: Duration, millis: u64) -> bool {
    took >= ms(millis) && took <= ms(millis + 3)
}

#[tokio::test(start_paused = true)]
async fn the_first_good_reply_is_served_at_once_and_the_best_is_kept() {
    let world = World::new(RaceMode::All, [(50, shows(6)), (10, shows(5)), (80, shows(5))]);
    let (mut race, start) = (world.race(), world.now());
    let first = winner(race.first().await);
    assert_eq!((first.reply.region, first.verdict, first.label), (B, Verdict::Good, None));
    assert!(about(world.now() - start, 10));
    let tally = race.finish().await;
    assert!(about(world.now() - start, 80), "losers are read to their end");
    let best = tally.best.unwrap();
    assert_eq!((best.reply.region, best.versions), (A, vec![Version(6)]));
    assert_eq!(tally.votes.reachable, RegionSet::first(3));
    assert!(!tally.votes.agreed && !tally.votes.unanimous);
}

#[tokio::test(start_paused = true)]
async fn all_regions_with_the_same_version_or_content_are_unanimous() {
    let world = World::new(RaceMode::All, [(1, shows(5)), (2, shows(5)), (3, shows(5))]);
    assert!(world.race().finish().await.votes.unanimous);
    let world = World::new(RaceMode::All, [(1, body("x")), (2, body("x")), (3, body("x"))]);
    assert!(world.race().finish().await.votes.unanimous);
    world.set(C, 3, body("y"));
    assert!(!world.race().finish().await.votes.agreed);
    world.set(C, 3, status(503));
    let votes = world.race().finish().await.votes;
    assert!(votes.agreed && !votes.unanimous, "all reachable, not all configured");
    assert_eq!(votes.reachable, RegionSet::first(2));
}

#[tokio::test(start_paused = true)]
async fn a_lagging_region_cannot_win_after_an_announcement() {
    let world = World::new(RaceMode::All, [(60, shows(5)), (5, shows(4)), (20, shows(5))]);
    world.announce(A, 5, false);
    let (first, took) = world.first().await;
    let first = winner(first);
    assert_eq!((first.reply.region, first.label), (C, None));
    assert!(about(took, 20));
}

#[tokio::test(start_paused = true)]
async fn an_announcement_in_mid_race_counts() {
    let world = World::new(RaceMode::All, [(60, shows(5)), (30, shows(4)), (40, shows(4))]);
    let mut race = world.race();
    tokio::time::advance(ms(10)).await;
    world.announce(A, 5, false);
    let first = winner(race.first().await);
    assert_eq!((first.reply.region, first.label), (A, None));
    assert_eq!(race.finish().await.best.unwrap().reply.region, A);
}

#[tokio::test(start_paused = true)]
async fn what_was_good_when_served_is_too_old_to_keep_after_an_announcement() {
    let world = World::new(RaceMode::All, [(5, shows(4)), (30, shows(4)), (40, shows(4))]);
    let mut race = world.race();
    assert_eq!(winner(race.first().await).verdict, Verdict::Good);
    world.announce(A, 5, false);
    let best = race.finish().await.best.unwrap();
    assert_eq!((best.verdict, best.label), (Verdict::TooOld, Some(Label::BelowFloor)));
}

#[tokio::test(start_paused = true)]
async fn with_the_announcer_dead_the_others_are_served_labelled_after_its_p95_at_most() {
    let world = World::new(RaceMode::All, [(20, shows(4)), (5, shows(4)), (6, shows(4))]);
    for _ in 0..20 {
        world.first().await;
    }
    world.set(A, 0, Act::Hang);
    world.announce(A, 5, false);
    let (first, took) = world.first().await;
    let first = winner(first);
    assert_eq!((first.verdict, first.label), (Verdict::TooOld, Some(Label::BelowFloor)));
    assert!(took < ms(35), "{took:?}: the announcer's p95 is 20 ms");
    world.set(A, 0, Act::Fail(Failure::Connect));
    let (first, took) = world.first().await;
    assert!(winner(first).label.is_some() && about(took, 6), "a region that is gone is not waited for");
}

#[tokio::test(start_paused = true)]
async fn r4_without_versions_the_announcer_is_waited_for_while_it_may_answer() {
    let world = World::new(RaceMode::All, [(60, body("new")), (5, body("old")), (6, body("old"))]);
    world.announce(A, 0, false);
    let (first, took) = world.first().await;
    assert_eq!(winner(first).reply.region, A);
    assert!(about(took, 60));
    world.set(A, 1, status(500));
    let (first, took) = world.first().await;
    assert_eq!(winner(first).reply.region, B, "all reachable regions agree");
    assert!(about(took, 6));
}

/// R4: it may have answered before what it announces.
#[tokio::test(start_paused = true)]
async fn a_region_that_joins_the_marker_in_mid_race_is_no_announcer_to_that_race() {
    let world = World::new(RaceMode::All, [(60, body("new")), (20, body("old")), (30, body("old"))]);
    let freshness = Freshness::new(&crate::protocol::tests::settings(), 3, Room::new(1 << 12, 0), world.now());
    let id = RecordId { record_type: TypeId(0), hash: 7 };
    let record = freshness.pin(id);
    let announce = |region| {
        let (published, says) = (Wall::default(), Says::Changed(id, Some(Version(5))));
        let message = Event::Message { region, published, queued: None, numbered: None, says };
        freshness.step(world.now(), published, message);
    };
    announce(A);
    let terms = Terms::Routed { records: vec![record.clone()], known: None, worst_lag: ms(60_000) };
    let question = Question { sending: Sending::alone(Arc::new(get()), Purpose::Foreground), terms };
    let mut race = Race::start(&world.regions, question);
    tokio::select! {
        _ = race.first() => panic!("nobody has answered yet"),
        () = tokio::time::sleep(ms(10)) => announce(B),
    }
    assert_eq!(record.snapshot().marker.unwrap().regions, RegionSet::first(2));
    assert_eq!(winner(race.first().await).reply.region, A);
    assert_eq!(race.finish().await.best.unwrap().reply.region, A);
}

#[tokio::test(start_paused = true)]
async fn r6_a_404_waits_for_the_others_and_loses_to_a_200() {
    let world = World::new(RaceMode::All, [(5, status(404)), (30, shows(1)), (40, status(404))]);
    let (first, took) = world.first().await;
    assert_eq!(winner(first).reply.region, B);
    assert!(about(took, 30));
    world.set(B, 30, status(404));
    let mut race = world.race();
    let first = winner(race.first().await);
    assert_eq!((first.verdict, first.label), (Verdict::Absent, None));
    assert!(race.finish().await.votes.unanimous);
}

#[tokio::test(start_paused = true)]
async fn r6_the_announcer_of_a_deletion_is_believed_at_once_and_a_404_below_a_changed_floor_is_labelled() {
    let world = World::new(RaceMode::All, [(5, status(404)), (30, status(404)), (40, status(404))]);
    world.announce(A, 0, true);
    let (first, took) = world.first().await;
    assert_eq!(winner(first).verdict, Verdict::Absent);
    assert!(about(took, 5));
    world.announce(A, 5, false);
    let (first, _) = world.first().await;
    assert_eq!(winner(first).label, Some(Label::BelowFloor));
}

#[tokio::test(start_paused = true)]
async fn a_404_is_not_held_up_by_a_region_that_hangs() {
    let world = World::new(RaceMode::All, [(5, status(404)), (6, status(404)), (0, Act::Hang)]);
    let (first, took) = world.first().await;
    assert_eq!(winner(first).verdict, Verdict::Absent);
    assert!(took <= ms(10) + crate::core::limits::LATE_LEG_WAIT, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn r7_a_304_wins_for_what_is_known_and_agrees_with_the_same_content() {
    let world = World::new(RaceMode::All, [(5, status(304)), (6, body("x")), (7, status(304))]);
    let digest = Some(crate::payload::digest::digest(&"x".into(), &http::HeaderMap::new()));
    let known = Known { versions: Vec::new(), digest };
    let mut race = world.race_for(Purpose::Foreground, Some(known));
    assert_eq!(winner(race.first().await).reply.status, StatusCode::NOT_MODIFIED);
    assert!(race.finish().await.votes.unanimous);
    world.announce(B, 5, false);
    let stale = Known { versions: vec![Version(4)], digest: None };
    world.set(B, 6, shows(5));
    let mut race = world.race_for(Purpose::Foreground, Some(stale));
    assert_eq!(winner(race.first().await).reply.region, B, "a 304 below the floor is too old");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_loses_to_a_good_reply_and_beats_failures() {
    let world = World::new(RaceMode::All, [(5, status(403)), (300, shows(1)), (20, Act::Fail(Failure::Truncated))]);
    let (first, took) = world.first().await;
    assert_eq!(winner(first).verdict, Verdict::Good);
    assert!(about(took, 300));
    world.set(B, 30, status(500));
    let (first, took) = world.first().await;
    assert_eq!(winner(first).reply.status, StatusCode::FORBIDDEN);
    assert!(about(took, 30), "at once when nobody else can answer");
}

#[tokio::test(start_paused = true)]
async fn a_lone_refusal_loses_to_what_is_below_the_floor_and_one_that_two_regions_share_wins() {
    let world = World::new(RaceMode::All, [(5, shows(4)), (6, status(403)), (7, Act::Fail(Failure::Connect))]);
    world.announce(C, 5, false);
    let first = winner(world.first().await.0);
    assert_eq!((first.verdict, first.label), (Verdict::TooOld, Some(Label::BelowFloor)));
    world.set(C, 7, status(403));
    let first = winner(world.first().await.0);
    assert_eq!((first.verdict, first.label), (Verdict::Refused, None));
}

/// A region that does not take a view says nothing about its records.
#[tokio::test(start_paused = true)]
async fn a_misdirected_request_is_no_word_on_the_record_and_loses_to_any() {
    let world = World::new(RaceMode::All, [(5, status(421)), (6, status(421)), (30, shows(1))]);
    assert_eq!(winner(world.first().await.0).verdict, Verdict::Good);
    world.set(C, 30, status(404));
    assert_eq!(winner(world.first().await.0).verdict, Verdict::Absent);
    world.set(C, 30, status(403));
    assert_eq!(winner(world.first().await.0).verdict, Verdict::Refused);
    world.set(C, 30, status(503));
    let mut race = world.race();
    assert!(matches!(race.first().await, First::Nothing));
    assert_eq!(race.finish().await.best_error.unwrap().status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(start_paused = true)]
async fn regions_that_agree_on_a_refusal_do_not_wait_for_one_that_hangs() {
    let world = World::new(RaceMode::All, [(5, status(401)), (6, status(401)), (0, Act::Hang)]);
    let (first, took) = world.first().await;
    assert_eq!(winner(first).reply.status, StatusCode::UNAUTHORIZED);
    assert!(took <= ms(10) + crate::core::limits::LATE_LEG_WAIT, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn when_all_fail_nothing_is_served_and_the_real_error_with_advice_is_passed_on() {
    let acts = [(5, status(500)), (6, retry_after(503, "3")), (7, Act::Fail(Failure::Garbage))];
    let world = World::new(RaceMode::All, acts);
    let mut race = world.race();
    assert!(matches!(race.first().await, First::Nothing));
    let tally = race.finish().await;
    assert!(tally.best.is_none());
    assert_eq!(tally.best_error.unwrap().status, StatusCode::SERVICE_UNAVAILABLE);
    let words: Vec<_> = tally.legs.iter().map(Leg::word).collect();
    assert_eq!(words, ["worthless", "worthless", "garbage"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_outlives_the_deadline() {
    let world = World::new(RaceMode::All, [(0, Act::Hang), (0, Act::Hang), (0, Act::Hang)]);
    let (mut race, start) = (world.race(), world.now());
    assert!(matches!(race.first().await, First::Nothing));
    let tally = race.finish().await;
    assert!(about(world.now() - start, DEADLINE.as_millis() as u64));
    assert!(tally.legs.iter().all(|leg| leg.word() == "deadline"));
    assert_eq!(world.regions.status().iter().map(|region| region.in_flight).sum::<usize>(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unrouted_path_takes_the_first_status_that_is_no_failure() {
    let world = World::new(RaceMode::All, [(5, status(503)), (20, status(404)), (30, status(200))]);
    let mut race = world.unrouted();
    assert_eq!(winner(race.first().await).reply.status, StatusCode::NOT_FOUND);
    assert_eq!(race.finish().await.best.unwrap().reply.region, B);
}

#[tokio::test(start_paused = true)]
async fn hedge_asks_the_primary_alone_while_it_answers_within_its_p95() {
    let world = World::new(RaceMode::Hedge, [(20, shows(1)), (20, shows(1)), (20, shows(1))]);
    world.first().await;
    assert_eq!(world.asked(), [A]);
    world.set(A, 0, Act::Hang);
    let (first, took) = world.first().await;
    assert_ne!(winner(first).reply.region, A);
    assert!(about(took, 40), "{took:?}: the p95, then another's answer");
    assert_eq!(world.asked().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn hedge_asks_the_others_at_once_when_the_primary_fails_refuses_or_is_below_the_floor() {
    let bad = [Act::Fail(Failure::Connect), status(500), shows(4), status(403), status(404)];
    for act in bad {
        let world = World::new(RaceMode::Hedge, [(1, act), (20, shows(5)), (20, shows(5))]);
        world.record.lock().unwrap().floor = Version(5);
        let (first, took) = world.first().await;
        assert_ne!(winner(first).reply.region, A);
        assert!(about(took, 21), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn hedge_asks_the_announcer_before_the_primary() {
    let world = World::new(RaceMode::Hedge, [(5, shows(4)), (5, shows(4)), (5, shows(5))]);
    world.announce(C, 5, false);
    let (first, _) = world.first().await;
    assert_eq!(winner(first).reply.region, C);
    assert_eq!(world.asked(), [C]);
}

#[tokio::test(start_paused = true)]
async fn pair_asks_the_primary_and_one_other_and_the_third_when_both_fail() {
    let world = World::new(RaceMode::Pair, [(5, shows(1)), (5, shows(1)), (5, shows(1))]);
    let mut others = RegionSet::EMPTY;
    for _ in 0..64 {
        world.first().await;
        let asked = world.asked();
        assert_eq!((asked.len(), asked[0]), (2, A));
        others = others.with(asked[1]);
    }
    assert_eq!(others, RegionSet::EMPTY.with(B).with(C), "drawn at random");
    world.set(A, 1, Act::Fail(Failure::Connect));
    world.set(B, 1, Act::Fail(Failure::Connect));
    assert_eq!(winner(world.first().await.0).reply.region, C);
}

#[tokio::test(start_paused = true)]
async fn a_region_that_keeps_failing_is_skipped_but_probed_and_comes_back() {
    let world = World::new(RaceMode::All, [(5, shows(1)), (5, shows(1)), (1, Act::Fail(Failure::Connect))]);
    for _ in 0..5 {
        world.first().await;
    }
    world.first().await;
    assert_eq!(world.asked().len(), 2, "skipped");
    tokio::time::advance(Duration::from_secs(1)).await;
    world.first().await;
    assert_eq!(world.asked().len(), 3, "probed");
    world.set(C, 5, shows(1));
    tokio::time::advance(Duration::from_secs(5)).await;
    world.first().await;
    world.first().await;
    assert_eq!(world.asked().len(), 3, "back");
    assert_eq!(world.regions.status()[2].health, "fit");
}

#[tokio::test(start_paused = true)]
async fn a_probe_of_an_outlier_is_never_waited_for() {
    let world = World::new(RaceMode::All, [(5, status(404)), (5, status(404)), (1, Act::Fail(Failure::Connect))]);
    for _ in 0..5 {
        world.first().await;
    }
    world.set(C, 0, Act::Hang);
    tokio::time::advance(Duration::from_secs(1)).await;
    let (first, took) = world.first().await;
    assert!(world.asked().contains(&C));
    assert_eq!(winner(first).verdict, Verdict::Absent);
    assert!(about(took, 5), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_last_region_is_never_skipped_and_outliers_are_asked_when_nobody_else_answers() {
    let fails = || Act::Fail(Failure::Connect);
    let world = World::new(RaceMode::All, [(1, fails()), (1, fails()), (1, fails())]);
    for _ in 0..8 {
        assert!(matches!(world.first().await.0, First::Nothing));
        assert!(!world.asked().is_empty());
    }
    world.set(B, 5, shows(1));
    assert_eq!(winner(world.first().await.0).reply.region, B);
}

/// Found by `make chaos`: a region that had been dead was well again, unnoticed, when the others
/// began to hang.
#[tokio::test(start_paused = true)]
async fn an_outlier_that_is_well_again_answers_while_all_fit_regions_hang() {
    let world = World::new(RaceMode::All, [(5, shows(1)), (5, shows(1)), (1, Act::Fail(Failure::Connect))]);
    for _ in 0..5 {
        world.race().finish().await;
    }
    for region in [A, B] {
        world.set(region, 0, Act::Hang);
    }
    world.set(C, 5, shows(1));
    let (first, took) = world.first().await;
    assert_eq!(winner(first).reply.region, C);
    assert!(took < DEADLINE * 3 / 4, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn where_all_are_outliers_one_is_asked_first_in_the_background_too() {
    let fails = || Act::Fail(Failure::Connect);
    let world = World::new(RaceMode::All, [(1, fails()), (1, fails()), (1, fails())]);
    for _ in 0..6 {
        world.first().await;
    }
    let status = world.regions.status();
    assert!(status.iter().all(|region| region.health == "outlier"), "{status:?}");
    let tally = world.race_for(Purpose::Background, None).finish().await;
    assert_eq!(tally.legs.len(), 1, "none is due to be probed, and a recheck must not come to nothing");
    let asked = tally.legs[0].region;
    world.set(asked, 5, shows(1));
    assert_eq!(winner(world.first().await.0).reply.region, asked);
    assert_eq!(world.asked(), [asked], "the others were not needed");
}

#[tokio::test(start_paused = true)]
async fn an_outlier_that_announced_is_asked_before_anything_below_the_floor_is_served() {
    let world = World::new(RaceMode::All, [(1, Act::Fail(Failure::Connect)), (5, shows(4)), (5, shows(4))]);
    for _ in 0..6 {
        world.first().await;
    }
    assert_eq!(world.asked().len(), 2, "an outlier");
    world.set(A, 5, shows(5));
    world.announce(A, 5, false);
    let (first, took) = world.first().await;
    assert_eq!(winner(first).label, None);
    assert!(about(took, 10), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_obeyed_while_another_region_can_answer() {
    let world = World::new(RaceMode::All, [(5, shows(1)), (5, shows(1)), (1, retry_after(429, "10"))]);
    world.first().await;
    world.first().await;
    assert_eq!(world.asked().len(), 2);
    assert_eq!(world.regions.status()[2].health, "held-off");
    tokio::time::advance(Duration::from_secs(10)).await;
    world.first().await;
    assert_eq!(world.asked().len(), 3);
    for region in [A, B, C] {
        world.set(region, 1, retry_after(503, "10"));
    }
    world.first().await;
    world.first().await;
    assert_eq!(world.asked().len(), 1, "the last one is asked all the same");
}

#[tokio::test(start_paused = true)]
async fn a_region_that_hangs_does_not_hold_up_two_hundred_requests_a_second() {
    let world = World::with_permits(RaceMode::All, 64, [(20, shows(1)), (0, Act::Hang), (0, Act::Hang)]);
    let mut races = TaskGroup::new();
    for _ in 0..1000 {
        let (mut race, regions) = (world.race(), world.regions.clone());
        let start = world.now();
        races.start(async move {
            let served = matches!(race.first().await, First::Good(_));
            let took = regions.clock.now() - start;
            race.finish().await;
            (served, took)
        });
        tokio::time::sleep(ms(5)).await;
    }
    while let Some((served, took)) = races.next().await {
        assert!(served && took <= ms(25), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn with_the_tokens_gone_a_race_degrades_to_one_leg_and_a_hedge() {
    let world = World::new(RaceMode::All, [(20, shows(1)), (30, shows(1)), (30, shows(1))]);
    world.first().await;
    for region in [A, B, C] {
        world.regions.spend_all_tokens(region);
    }
    world.first().await;
    assert_eq!(world.asked(), [A], "the fastest alone");
    world.set(A, 1, Act::Fail(Failure::Connect));
    let (first, took) = world.first().await;
    assert!(matches!(first, First::Good(_)) && about(took, 31), "{took:?}: it never stops");
}

#[tokio::test(start_paused = true)]
async fn background_races_have_a_budget_and_ask_every_region_whatever_the_mode() {
    let world = World::new(RaceMode::Hedge, [(0, shows(1)), (0, shows(1)), (0, shows(1))]);
    let tally = world.race_for(Purpose::Background, None).finish().await;
    assert_eq!(tally.legs.iter().map(|leg| leg.region).collect::<RegionSet>(), RegionSet::first(3));
    assert!(tally.votes.unanimous);
    for _ in 0..30 {
        world.race_for(Purpose::Background, None).finish().await;
    }
    let tally = world.race_for(Purpose::Background, None).finish().await;
    assert!(tally.legs.is_empty() && tally.best.is_none(), "twenty a second and region");
    assert!(matches!(world.first().await.0, First::Good(_)), "readers are not held up by it");
}
