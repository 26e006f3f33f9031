//! The protocol as a whole: events in, horizon and actions out.

use super::event::{Scope, SubscriptionState};
use super::*;
use crate::model::ids::{Generation, TypeId};
use crate::protocol::limits;

const A: RegionId = RegionId(0);
const B: RegionId = RegionId(1);
const BEAT: Says = Says::Heartbeat { path: false, ingested_through: None, signing_off: false };
const SLOTS: usize = 1 << 16;

/// A minute of lag.
pub(crate) const fn settings() -> Settings {
    Settings { worst_lag: Duration::from_secs(60), max_jump: 1_000_000, heartbeats_required: false }
}

fn id(hash: u64) -> RecordId {
    RecordId { record_type: TypeId(0), hash }
}

fn at(second: u64) -> Moment {
    Moment::ZERO + Duration::from_secs(10_000 + second)
}

fn wall(second: u64) -> Wall {
    Wall::from_millis((1_000_000 + second) * 1_000)
}

fn hear(freshness: &Freshness, second: u64, region: RegionId, says: Says) -> Vec<Action> {
    let message = Event::Message { region, published: wall(second), queued: None, numbered: None, says };
    freshness.step(at(second), wall(second), message)
}

fn step(freshness: &Freshness, second: u64, event: Event) -> Vec<Action> {
    freshness.step(at(second), wall(second), event)
}

/// Two regions, A subscribed and LIVE at second 0.
fn world() -> Freshness {
    let freshness = Freshness::new(&settings(), 2, Room::new(SLOTS, 0), at(0));
    step(&freshness, 0, Event::Subscribing(A));
    step(&freshness, 0, Event::Subscribed(A));
    hear(&freshness, 0, A, BEAT);
    assert_eq!(freshness.horizon().live(at(0)), RegionSet::EMPTY.with(A));
    freshness
}

#[test]
fn an_announcement_moves_the_record_and_proves_its_region_in_one_step() {
    let freshness = world();
    let record = freshness.pin(id(7));
    freshness.read(&record, at(1));
    let actions = hear(&freshness, 5, A, Says::Changed(id(7), Some(Version(5))));
    assert_eq!(actions, [Action::Refetch(id(7))]);
    assert_eq!(record.snapshot().floor, Version(5));
    assert_eq!(freshness.horizon().regions[0].proof, at(5));
}

/// R13: it merges whatever the state of its region's subscription is.
#[test]
fn an_announcement_counts_even_when_its_region_is_not_subscribed() {
    let freshness = world();
    hear(&freshness, 1, B, Says::Deleted(id(7), Some(Version(5))));
    assert_eq!(freshness.pin(id(7)).snapshot().floor, Version(5));
    assert_eq!(freshness.horizon().regions[1].state, SubscriptionState::Pending);
}

/// R9, R10: a lease is over without a tick, and the next step moves the epoch whatever it is about.
#[test]
fn a_lease_ends_without_a_tick_and_any_step_then_moves_the_epoch() {
    let freshness = world();
    let before = freshness.horizon().regions[0].epoch;
    assert!(freshness.horizon().live(at(16)).is_empty());
    let actions = hear(&freshness, 16, B, BEAT);
    assert!(actions.iter().any(|action| matches!(action, Action::EpochMoved(A, _, "silence"))), "{actions:?}");
    assert!(freshness.horizon().regions[0].epoch > before);
}

/// R14.
#[test]
fn an_undecodable_message_moves_the_epoch_of_its_region_alone() {
    let freshness = world();
    step(&freshness, 1, Event::Subscribed(B));
    hear(&freshness, 1, B, BEAT);
    let before = freshness.horizon().clone();
    hear(&freshness, 2, A, Says::Undecodable);
    let after = freshness.horizon().clone();
    assert_ne!(after.regions[0].epoch, before.regions[0].epoch);
    assert_eq!(after.regions[1].epoch, before.regions[1].epoch);
    assert_eq!(after.live(at(2)), RegionSet::first(2));
}

/// R18.
#[test]
fn a_reload_of_everything_moves_generations_and_keeps_floors() {
    let freshness = world();
    let record = freshness.pin(id(7));
    hear(&freshness, 1, A, Says::Changed(id(7), Some(Version(5))));
    hear(&freshness, 2, A, Says::Reload(Scope::All));
    let state = record.snapshot();
    assert_eq!((state.floor, state.generation), (Version(5), Generation(2)));
    assert!(!state.upholds(Version(5), Generation(1)));
}

#[test]
fn in_a_flood_the_published_lease_lags_by_less_than_its_grain() {
    let freshness = world();
    for millis in 1..1_000 {
        let now = at(0) + Duration::from_millis(millis);
        let wall = wall(0) + Duration::from_millis(millis);
        let says = Says::Changed(id(millis), Some(Version(1)));
        freshness.step(now, wall, Event::Message { region: A, published: wall, queued: None, numbered: None, says });
        let lease_until = freshness.horizon().regions[0].lease_until;
        assert!(now + limits::STRONG_LEASE - lease_until < LEASE_GRAIN);
        assert!(lease_until <= now + limits::STRONG_LEASE);
    }
}

#[test]
fn an_event_of_a_region_that_is_not_configured_does_nothing() {
    let freshness = world();
    let far = RegionId(9);
    assert_eq!(hear(&freshness, 1, far, Says::Changed(id(7), Some(Version(5)))), []);
    assert_eq!(step(&freshness, 1, Event::Lost(far)), []);
    assert_eq!(freshness.pin(id(7)).snapshot().floor, Version::NONE);
}

/// The simulator relies on this.
#[test]
fn the_same_events_at_the_same_times_do_the_same() {
    let run = || {
        let freshness = world();
        let mut log = Vec::new();
        let records: Vec<_> = (0..300).map(|hash| freshness.pin(id(hash << 28))).collect();
        records.iter().for_each(|record| freshness.read(record, at(0)));
        log.extend(hear(&freshness, 1, A, Says::Reload(Scope::All)));
        log.extend(hear(&freshness, 2, B, Says::Changed(id(1 << 28), None)));
        log.extend(step(&freshness, 40, Event::Tick));
        (log, freshness.horizon().as_ref().clone())
    };
    assert_eq!(run(), run());
    assert!(run().0.len() > 300);
}

/// `heartbeats = required` refuses the weak grade.
#[test]
fn a_required_heartbeat_is_waited_for() {
    let strict = Settings { heartbeats_required: true, ..settings() };
    for (settings, expected) in [(settings(), SubscriptionState::Live), (strict, SubscriptionState::Probing)] {
        let freshness = Freshness::new(&settings, 1, Room::new(SLOTS, 0), at(0));
        step(&freshness, 0, Event::Subscribed(A));
        (1..=60).for_each(|second| drop(step(&freshness, second, Event::Tick)));
        step(&freshness, 60, Event::Polled(A));
        step(&freshness, 60, Event::Attested(A));
        assert_eq!(freshness.horizon().regions[0].state, expected);
    }
}

/// A message that was published at `published` and comes at `second`.
fn hear_late(freshness: &Freshness, (published, second): (u64, u64), region: RegionId, says: Says) {
    let message = Event::Message { region, published: wall(published), queued: None, numbered: None, says };
    freshness.step(at(second), wall(second), message);
}

/// R13, R19: from one topic in time, from another minutes late.
#[test]
fn a_reset_that_comes_late_forgets_what_was_said_before_it() {
    let freshness = world();
    let records = [7, 8].map(|hash| freshness.pin(id(hash)));
    hear(&freshness, 5, A, Says::Changed(id(7), Some(Version(9))));
    hear(&freshness, 5, A, Says::Changed(id(8), Some(Version(9))));
    hear(&freshness, 100, A, Says::Changed(id(7), Some(Version(10))));
    hear(&freshness, 399, B, BEAT);
    hear_late(&freshness, (50, 400), B, Says::Reset(Scope::All));
    assert_eq!(records.each_ref().map(|record| record.snapshot().floor.0), [10, 0]);
}

/// R13, R19: whichever topic brings it, what was published before a RESET sets no floor after it.
#[test]
fn what_a_reset_of_another_topic_overtook_sets_no_floor() {
    let freshness = world();
    hear_late(&freshness, (50, 50), A, Says::Reset(Scope::All));
    hear_late(&freshness, (49, 51), B, Says::Changed(id(7), Some(Version(9))));
    hear_late(&freshness, (51, 52), B, Says::Changed(id(8), Some(Version(9))));
    assert_eq!([7, 8].map(|hash| freshness.pin(id(hash)).snapshot().floor.0), [0, 9]);
}

/// R19: over http anybody may repeat an old message, to processes that never heard it.
#[test]
fn a_replayed_reset_of_yesterday_forgets_nothing() {
    let freshness = world();
    hear(&freshness, 5, A, Says::Changed(id(7), Some(Version(9))));
    for published in [86_400, 3_600, 300] {
        let published = Wall::from_millis((1_000_000 - published) * 1_000);
        let says = Says::Reset(Scope::Type(TypeId(0)));
        let message = Event::Message { region: B, published, queued: None, numbered: None, says };
        freshness.step(at(6), wall(6), message);
        assert_eq!(freshness.pin(id(7)).snapshot().floor, Version(9), "{published:?}");
    }
}

/// R19: a calendar that is wrong makes no RESET late whose topic is heard.
#[test]
fn a_reset_in_time_forgets_all_whatever_the_calendar_says() {
    for ahead in [-20_000, 0, 20_000] {
        let freshness = world();
        let wall = |second: u64| Wall::from_millis(wall(second).as_millis().saturating_add_signed(ahead));
        for (second, says) in
            [(95, BEAT), (99, Says::Changed(id(7), Some(Version(9)))), (100, Says::Reset(Scope::All))]
        {
            let published = self::wall(second);
            let message = Event::Message { region: A, published, queued: None, numbered: None, says };
            freshness.step(at(second), wall(second), message);
        }
        assert_eq!(freshness.pin(id(7)).snapshot().floor, Version::NONE, "{ahead}");
    }
}
