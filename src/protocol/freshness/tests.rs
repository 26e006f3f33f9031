//! The protocol as a whole: events in, region_views and actions out.

use super::*;
use crate::model::ids::{Generation, TypeId};
use crate::protocol::event::EpochMove;
use crate::protocol::event::{Scope, SubscriptionState};
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
    let freshness = Freshness::new(&settings(), 2, RecordCapacity::new(SLOTS, 0), at(0));
    step(&freshness, 0, Event::Subscribing(A));
    step(&freshness, 0, Event::Subscribed(A));
    hear(&freshness, 0, A, BEAT);
    assert_eq!(freshness.region_views().live(at(0)), RegionSet::EMPTY.with(A));
    freshness
}

#[test]
fn announcement_moves_record_and_proves_region() {
    let freshness = world();
    let record = freshness.pin(id(7));
    freshness.read(&record, at(1));
    let actions = hear(&freshness, 5, A, Says::Changed(id(7), Some(Version(5))));
    assert_eq!(actions, [Action::Refetch(id(7))]);
    assert_eq!(record.snapshot().floor, Version(5));
    assert_eq!(freshness.region_views().regions[0].proof, at(5));
}

/// R13: it merges whatever the state of its region's subscription is.
#[test]
fn unsubscribed_region_announcement_still_counts() {
    let freshness = world();
    hear(&freshness, 1, B, Says::Deleted(id(7), Some(Version(5))));
    assert_eq!(freshness.pin(id(7)).snapshot().floor, Version(5));
    assert_eq!(freshness.region_views().regions[1].state, SubscriptionState::Pending);
}

/// R9, R10: a lease is over without a tick, and the next step moves the epoch whatever it is about.
#[test]
fn expired_lease_moves_epoch_without_tick() {
    let freshness = world();
    let before = freshness.region_views().regions[0].epoch;
    assert!(freshness.region_views().live(at(16)).is_empty());
    let actions = hear(&freshness, 16, B, BEAT);
    assert!(
        actions.iter().any(|action| matches!(action, Action::EpochMoved(A, _, EpochMove::Silence))),
        "{actions:?}"
    );
    assert!(freshness.region_views().regions[0].epoch > before);
}

/// R14.
#[test]
fn undecodable_message_moves_only_its_epoch() {
    let freshness = world();
    step(&freshness, 1, Event::Subscribed(B));
    hear(&freshness, 1, B, BEAT);
    let before = freshness.region_views().clone();
    hear(&freshness, 2, A, Says::Undecodable);
    let after = freshness.region_views().clone();
    assert_ne!(after.regions[0].epoch, before.regions[0].epoch);
    assert_eq!(after.regions[1].epoch, before.regions[1].epoch);
    assert_eq!(after.live(at(2)), RegionSet::first(2));
}

/// R18.
#[test]
fn full_reload_moves_generations_keeps_floors() {
    let freshness = world();
    let record = freshness.pin(id(7));
    hear(&freshness, 1, A, Says::Changed(id(7), Some(Version(5))));
    hear(&freshness, 2, A, Says::Reload(Scope::All));
    let state = record.snapshot();
    assert_eq!((state.floor, state.generation), (Version(5), Generation(2)));
    assert!(!state.matches(Version(5), Generation(1)));
}

#[test]
fn published_lease_lags_within_its_grain() {
    let freshness = world();
    for millis in 1..1_000 {
        let now = at(0) + Duration::from_millis(millis);
        let wall = wall(0) + Duration::from_millis(millis);
        let says = Says::Changed(id(millis), Some(Version(1)));
        freshness.step(now, wall, Event::Message { region: A, published: wall, queued: None, numbered: None, says });
        let lease_until = freshness.region_views().regions[0].lease_until;
        assert!(now + limits::STRONG_LEASE - lease_until < LEASE_GRAIN);
        assert!(lease_until <= now + limits::STRONG_LEASE);
    }
}

#[test]
fn unconfigured_region_event_does_nothing() {
    let freshness = world();
    let far = RegionId(9);
    assert_eq!(hear(&freshness, 1, far, Says::Changed(id(7), Some(Version(5)))), []);
    assert_eq!(step(&freshness, 1, Event::Lost(far)), []);
    assert_eq!(freshness.pin(id(7)).snapshot().floor, Version::NONE);
}

/// The simulator relies on this.
#[test]
fn event_replay_is_deterministic() {
    let [(actions, region_views), again] = [replay(), replay()];
    assert!(actions.len() > 300);
    assert_eq!((actions, region_views), again);
}

/// Actions and region_views that follow from a few events.
fn replay() -> (Vec<Action>, RegionViews) {
    let freshness = world();
    let mut actions = Vec::new();
    let records: Vec<_> = (0..300).map(|hash| freshness.pin(id(hash << 28))).collect();
    records.iter().for_each(|record| freshness.read(record, at(0)));
    actions.extend(hear(&freshness, 1, A, Says::Reload(Scope::All)));
    actions.extend(hear(&freshness, 2, B, Says::Changed(id(1 << 28), None)));
    actions.extend(step(&freshness, 40, Event::Tick));
    (actions, freshness.region_views().as_ref().clone())
}

/// `heartbeats = required` refuses the weak grade.
#[test]
fn a_required_heartbeat_is_waited_for() {
    let strict = Settings { heartbeats_required: true, ..settings() };
    for (settings, expected) in [(settings(), SubscriptionState::Live), (strict, SubscriptionState::Probing)] {
        let freshness = Freshness::new(&settings, 1, RecordCapacity::new(SLOTS, 0), at(0));
        step(&freshness, 0, Event::Subscribed(A));
        (1..=60).for_each(|second| drop(step(&freshness, second, Event::Tick)));
        step(&freshness, 60, Event::Polled(A));
        step(&freshness, 60, Event::Attested(A));
        assert_eq!(freshness.region_views().regions[0].state, expected);
    }
}

/// A message that was published at `published` and comes at `second`.
fn hear_late(freshness: &Freshness, published: u64, second: u64, region: RegionId, says: Says) {
    let message = Event::Message { region, published: wall(published), queued: None, numbered: None, says };
    freshness.step(at(second), wall(second), message);
}

/// R13, R19: from one topic in time, from another minutes late.
#[test]
fn late_reset_clears_older_announcements() {
    let freshness = world();
    let records = [7, 8].map(|hash| freshness.pin(id(hash)));
    hear(&freshness, 5, A, Says::Changed(id(7), Some(Version(9))));
    hear(&freshness, 5, A, Says::Changed(id(8), Some(Version(9))));
    hear(&freshness, 100, A, Says::Changed(id(7), Some(Version(10))));
    hear(&freshness, 399, B, BEAT);
    hear_late(&freshness, 50, 400, B, Says::Reset(Scope::All));
    assert_eq!(records.each_ref().map(|record| record.snapshot().floor.0), [10, 0]);
}

/// R13, R19: whichever topic brings it, what was published before a RESET sets no floor after it.
#[test]
fn reset_voids_overtaken_announcements() {
    let freshness = world();
    hear_late(&freshness, 50, 50, A, Says::Reset(Scope::All));
    hear_late(&freshness, 49, 51, B, Says::Changed(id(7), Some(Version(9))));
    hear_late(&freshness, 51, 52, B, Says::Changed(id(8), Some(Version(9))));
    assert_eq!([7, 8].map(|hash| freshness.pin(id(hash)).snapshot().floor.0), [0, 9]);
}

/// R19: over http anybody may repeat an old message, to processes that never received it.
#[test]
fn replayed_old_reset_clears_nothing() {
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

/// R19: a calendar that is wrong makes no RESET late whose topic is received.
#[test]
fn timely_reset_clears_all_despite_calendar() {
    for ahead in [-20_000, 0, 20_000] {
        let freshness = world();
        for (second, says) in
            [(95, BEAT), (99, Says::Changed(id(7), Some(Version(9)))), (100, Says::Reset(Scope::All))]
        {
            let published = wall(second);
            let ours = Wall::from_millis(published.as_millis().saturating_add_signed(ahead));
            let message = Event::Message { region: A, published, queued: None, numbered: None, says };
            freshness.step(at(second), ours, message);
        }
        assert_eq!(freshness.pin(id(7)).snapshot().floor, Version::NONE, "{ahead}");
    }
}
