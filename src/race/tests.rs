//! The race's rules, against regions that answer by a script in virtual time.

use parking_lot::Mutex;

use http::StatusCode;

use std::time::Duration;

use super::question::Terms;
use super::verdict::Known;
use super::*;
use crate::config::RaceMode;
use crate::http::exchange::Failure;
use crate::model::ids::{RecordId, TypeId, Version};
use crate::model::time::Wall;
use crate::protocol::event::{Event, Says};
use crate::protocol::grants_floor::GrantsFloor;
use crate::protocol::record::Marker;
use crate::protocol::{Freshness, RecordCapacity};
use crate::race::scripted::{self, Act, DEADLINE, Script, body, get, ms, retry_after, shows, status};
use crate::tasks::TaskGroup;
use crate::telemetry::metrics::races::AttemptOutcome;

mod permission;

const A: RegionId = RegionId(0);
const B: RegionId = RegionId(1);
const C: RegionId = RegionId(2);
/// Three scripted regions and one record.
struct World {
    script: Arc<Script>,
    regions: Arc<Regions>,
    record: Arc<Mutex<Snapshot>>,
    grants: Arc<GrantsFloor>,
}

impl World {
    fn new(mode: RaceMode, acts: [(u64, Act); 3]) -> Self {
        Self::with_permits(mode, 512, acts)
    }

    fn with_permits(mode: RaceMode, permits: usize, acts: [(u64, Act); 3]) -> Self {
        let (script, regions) = scripted::regions(mode, permits, acts);
        Self { script, regions, record: Arc::default(), grants: Arc::new(GrantsFloor::new(3, ms(60_000))) }
    }

    fn now(&self) -> Moment {
        self.regions.clock.now()
    }

    fn set(&self, region: RegionId, after: u64, act: Act) {
        self.script.acts.lock()[region.index()] = (ms(after), act);
    }

    fn announce(&self, region: RegionId, version: u64, deleted: bool) {
        let mut record = self.record.lock();
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
        let floors = Box::new(move || vec![*record.lock()]);
        self.run(purpose, Standard::Routed { floors, known, grants: self.grants.clone() })
    }

    fn unrouted(&self) -> Race {
        self.run(Purpose::Foreground, Standard::Unrouted)
    }

    fn run(&self, purpose: Purpose, standard: Standard) -> Race {
        self.script.asked.lock().clear();
        Race::over(&self.regions, Sending::alone(Arc::new(get()), purpose), standard)
    }

    fn asked(&self) -> Vec<RegionId> {
        self.script.asked.lock().clone()
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
async fn first_good_reply_served_best_kept() {
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
async fn same_version_or_content_is_unanimous() {
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
async fn lagging_region_loses_after_announcement() {
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
async fn announcement_prevents_keeping_served_reply() {
    let world = World::new(RaceMode::All, [(5, shows(4)), (30, shows(4)), (40, shows(4))]);
    let mut race = world.race();
    assert_eq!(winner(race.first().await).verdict, Verdict::Good);
    world.announce(A, 5, false);
    let best = race.finish().await.best.unwrap();
    assert_eq!((best.verdict, best.label), (Verdict::TooOld, Some(Label::BelowFloor)));
}

#[tokio::test(start_paused = true)]
async fn dead_announcer_yields_labelled_after_p95() {
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
async fn r4_versionless_race_waits_for_announcer() {
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

fn changed(region: RegionId, record: RecordId) -> Event {
    let says = Says::Changed(record, Some(Version(5)));
    Event::Message { region, published: Wall::default(), queued: None, numbered: None, says }
}

/// R4: it may have answered before what it announces.
#[tokio::test(start_paused = true)]
async fn announcer_joining_mid_race_is_ignored() {
    let world = World::new(RaceMode::All, [(60, body("new")), (20, body("old")), (30, body("old"))]);
    let freshness = Freshness::new(
        &crate::protocol::freshness::tests::settings(),
        3,
        RecordCapacity::new(1 << 12, 0),
        world.now(),
    );
    let id = RecordId { record_type: TypeId(0), hash: 7 };
    let record = freshness.pin(id);
    freshness.step(world.now(), Wall::default(), changed(A, id));
    let terms = Terms::Routed {
        records: vec![record.clone()],
        known: None,
        worst_lag: ms(60_000),
        grants: world.grants.clone(),
    };
    let question = Question { sending: Sending::alone(Arc::new(get()), Purpose::Foreground), terms };
    let mut race = Race::start(&world.regions, question);
    tokio::select! {
        _ = race.first() => panic!("nobody has answered yet"),
        () = tokio::time::sleep(ms(10)) => drop(freshness.step(world.now(), Wall::default(), changed(B, id))),
    }
    assert_eq!(record.snapshot().marker.unwrap().regions, RegionSet::first(2));
    assert_eq!(winner(race.first().await).reply.region, A);
    assert_eq!(race.finish().await.best.unwrap().reply.region, A);
}

#[tokio::test(start_paused = true)]
async fn r6_404_waits_for_later_200() {
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
async fn r6_announced_404_believed_else_labelled() {
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
async fn hanging_region_delays_no_404() {
    let world = World::new(RaceMode::All, [(5, status(404)), (6, status(404)), (0, Act::Hang)]);
    let (first, took) = world.first().await;
    assert_eq!(winner(first).verdict, Verdict::Absent);
    assert!(took <= ms(10) + crate::race::limits::LATE_ATTEMPT_WAIT, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn r7_304_agrees_with_same_content() {
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
async fn refusal_ranks_between_good_and_failure() {
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
async fn only_shared_refusal_beats_below_floor() {
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
async fn misdirected_request_loses_to_any_reply() {
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
async fn agreed_refusal_ignores_hanging_region() {
    let world = World::new(RaceMode::All, [(5, status(401)), (6, status(401)), (0, Act::Hang)]);
    let (first, took) = world.first().await;
    assert_eq!(winner(first).reply.status, StatusCode::UNAUTHORIZED);
    assert!(took <= ms(10) + crate::race::limits::LATE_ATTEMPT_WAIT, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn all_failing_passes_on_best_error() {
    let acts = [(5, status(500)), (6, retry_after(503, "3")), (7, Act::Fail(Failure::Garbage))];
    let world = World::new(RaceMode::All, acts);
    let mut race = world.race();
    assert!(matches!(race.first().await, First::Nothing));
    let tally = race.finish().await;
    assert!(tally.best.is_none());
    assert_eq!(tally.best_error.unwrap().status, StatusCode::SERVICE_UNAVAILABLE);
    let words: Vec<_> = tally.attempts.iter().map(|attempt| attempt.label().into_str()).collect();
    assert_eq!(words, ["worthless", "worthless", "garbage"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_outlives_the_deadline() {
    let world = World::new(RaceMode::All, [(0, Act::Hang), (0, Act::Hang), (0, Act::Hang)]);
    let (mut race, start) = (world.race(), world.now());
    assert!(matches!(race.first().await, First::Nothing));
    let tally = race.finish().await;
    assert!(about(world.now() - start, DEADLINE.as_millis() as u64));
    assert!(tally.attempts.iter().all(|attempt| attempt.label() == AttemptOutcome::Deadline));
    assert_eq!(world.regions.status().iter().map(|region| region.in_flight).sum::<usize>(), 0);
}

#[tokio::test(start_paused = true)]
async fn unrouted_path_takes_first_nonfailure() {
    let world = World::new(RaceMode::All, [(5, status(503)), (20, status(404)), (30, status(200))]);
    let mut race = world.unrouted();
    assert_eq!(winner(race.first().await).reply.status, StatusCode::NOT_FOUND);
    assert_eq!(race.finish().await.best.unwrap().reply.region, B);
}

#[tokio::test(start_paused = true)]
async fn hedge_asks_primary_alone_within_p95() {
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
async fn hedge_widens_on_bad_primary_reply() {
    let bad = [Act::Fail(Failure::Connect), status(500), shows(4), status(403), status(404)];
    for act in bad {
        let world = World::new(RaceMode::Hedge, [(1, act), (20, shows(5)), (20, shows(5))]);
        world.record.lock().floor = Version(5);
        let (first, took) = world.first().await;
        assert_ne!(winner(first).reply.region, A);
        assert!(about(took, 21), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn hedge_asks_announcer_before_primary() {
    let world = World::new(RaceMode::Hedge, [(5, shows(4)), (5, shows(4)), (5, shows(5))]);
    world.announce(C, 5, false);
    let (first, _) = world.first().await;
    assert_eq!(winner(first).reply.region, C);
    assert_eq!(world.asked(), [C]);
}

#[tokio::test(start_paused = true)]
async fn outlier_is_skipped_probed_and_recovers() {
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
async fn outlier_probe_is_never_awaited() {
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
async fn outliers_are_asked_as_last_resort() {
    let world = World::new(RaceMode::All, [1; 3].map(|after| (after, Act::Fail(Failure::Connect))));
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
async fn recovered_outlier_answers_while_others_hang() {
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
async fn all_outliers_still_get_background_attempt() {
    let world = World::new(RaceMode::All, [1; 3].map(|after| (after, Act::Fail(Failure::Connect))));
    for _ in 0..6 {
        world.first().await;
    }
    let status = world.regions.status();
    assert!(status.iter().all(|region| region.health == "outlier"), "{status:?}");
    let tally = world.race_for(Purpose::Background, None).finish().await;
    assert_eq!(tally.attempts.len(), 1, "none is due to be probed, and a recheck must not come to nothing");
    let asked = tally.attempts[0].region;
    world.set(asked, 5, shows(1));
    assert_eq!(winner(world.first().await.0).reply.region, asked);
    assert_eq!(world.asked(), [asked], "the others were not needed");
}

#[tokio::test(start_paused = true)]
async fn announcing_outlier_asked_before_below_floor() {
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
async fn retry_after_obeyed_while_others_answer() {
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
async fn hanging_region_does_not_block_load() {
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
async fn spent_tokens_degrade_race_to_hedge() {
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
async fn background_races_ask_all_within_budget() {
    let world = World::new(RaceMode::Hedge, [(0, shows(1)), (0, shows(1)), (0, shows(1))]);
    let tally = world.race_for(Purpose::Background, None).finish().await;
    assert_eq!(tally.attempts.iter().map(|attempt| attempt.region).collect::<RegionSet>(), RegionSet::first(3));
    assert!(tally.votes.unanimous);
    for _ in 0..30 {
        world.race_for(Purpose::Background, None).finish().await;
    }
    let tally = world.race_for(Purpose::Background, None).finish().await;
    assert!(tally.attempts.is_empty() && tally.best.is_none(), "twenty a second and region");
    assert!(matches!(world.first().await.0, First::Good(_)), "readers are not held up by it");
}
