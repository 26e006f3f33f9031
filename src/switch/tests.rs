//! Replies while a rule is switched off, over a whole sidecar in virtual time: each time something
//! else, and worse.
//!
//! Each scenario is the smallest of the profile that the table in [`super`] names for its rule. R17
//! is not here, since it serves nothing.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Notify;

use super::{Guard, Rule, is_on, off};
use crate::aws::verify::Rejected;
use crate::http::exchange::Failure;
use crate::model::limits::VERSION_CEILING;
use crate::protocol::event::{Event, Says, Scope};
use crate::request::scripted::{A, Act, Answer, B, C, SECOND, Say, World, body, ms, shows, status};
use crate::sidecar::announcements::Disposition;

const X: &str = "/v1/contexts/x/full";

/// Body, whether it came from what is stored, and the label.
fn said(answer: &Answer) -> String {
    let whence = if answer.is_hit() { "hit" } else { "asked" };
    format!("{} {} {}", answer.status, answer.body, answer.label().unwrap_or(whence))
}

type Scenario = fn() -> Pin<Box<dyn Future<Output = String>>>;

/// Runs a scenario with the rule on, and off.
async fn distinguished(rule: Rule, on: &str, without: &str, scenario: Scenario) {
    assert_eq!(scenario().await, on, "{rule:?} on");
    let _off = off(rule);
    assert_eq!(scenario().await, without, "{rule:?} off");
}

async fn ended(world: World, answer: Answer) -> String {
    world.stop().await;
    said(&answer)
}

/// The announcer is slow, and the others are still at 4.
fn a_miss_at_lagging_regions() -> Pin<Box<dyn Future<Output = String>>> {
    Box::pin(async {
        let world = World::new([(50, shows(5).into()), (1, shows(4).into()), (2, shows(4).into())]);
        world.announce(A, "x", 5);
        let answer = world.get(X).await;
        ended(world, answer).await
    })
}

fn tagged(version: u64) -> Say {
    shows(version).with("etag", "\"5\"")
}

#[test]
fn guard_scopes_rule_switch_to_thread() {
    let guard = off(Rule::R3);
    assert!(!is_on(Rule::R3) && is_on(Rule::R4));
    std::thread::scope(|scope| scope.spawn(|| assert!(is_on(Rule::R3))).join().unwrap());
    drop(guard);
    assert!(is_on(Rule::R3));
}

#[tokio::test(start_paused = true)]
async fn r1_off_lagging_region_undercuts_announcement() {
    distinguished(Rule::R1, "200 5 asked", "200 4 asked", a_miss_at_lagging_regions).await;
}

#[tokio::test(start_paused = true)]
async fn r2_off_absent_key_loses_announcement() {
    distinguished(Rule::R2, "200 5 asked", "200 4 asked", a_miss_at_lagging_regions).await;
}

#[tokio::test(start_paused = true)]
async fn r3_off_reader_joins_older_fill() {
    distinguished(Rule::R3, "200 new asked", "200 old asked", || {
        Box::pin(async {
            let gate = Arc::new(Notify::new());
            let world = World::new([(0, Act::Gate(gate.clone(), body("old"))), (0, Act::Hang), (0, Act::Hang)]);
            let early = world.begin(X);
            tokio::time::sleep(ms(5)).await;
            world.announce(A, "x", 0);
            world.set(A, 1, body("new"));
            let late = world.begin(X);
            tokio::time::sleep(ms(5)).await;
            gate.notify_one();
            early.await.unwrap().unwrap();
            let answer = late.await.unwrap().unwrap();
            ended(world, answer).await
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r4_off_lagging_region_beats_announcer() {
    distinguished(Rule::R4, "200 new asked", "200 old asked", || {
        Box::pin(async {
            let world = World::new([(50, body("new").into()), (1, body("old").into()), (2, body("old").into())]);
            world.announce(A, "x", 0);
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r5_off_disagreement_keeps_full_ttl() {
    distinguished(Rule::R5, "200 new hit", "200 old hit", || {
        Box::pin(async {
            let world = World::new([(20, body("new").into()), (1, body("old").into()), (20, body("new").into())]);
            world.step(Event::Subscribing(A));
            world.step(Event::Subscribed(A));
            world.hear(A, Says::Unrouted);
            world.get(X).await;
            world.set(B, 1, body("new"));
            world.pass(10 * SECOND).await;
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r6_off_lagging_404_hides_creation() {
    distinguished(Rule::R6, "200 5 asked", "404  asked", || {
        Box::pin(async {
            let world = World::new([(50, shows(5).into()), (1, status(404).into()), (2, status(404).into())]);
            world.announce(A, "x", 5);
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r7_off_lagging_region_confirms_outdated() {
    distinguished(Rule::R7, "200 5 below-floor", "200 5 asked", || {
        Box::pin(async {
            let quiet = body("5").with("etag", "\"5\"");
            let world = World::new([(1, tagged(5).into()), (20, quiet.clone().into()), (20, quiet.into())]);
            world.get(X).await;
            world.announce(A, "x", 6);
            world.set(A, 0, Act::Fail(Failure::Connect));
            world.set(B, 1, tagged(5));
            world.set(C, 1, tagged(5));
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r8_off_intermediary_answers_older_reply() {
    distinguished(Rule::R8, "200 new asked", "200 old asked", || {
        Box::pin(async {
            let aged = body("old").with("age", "30");
            let world = World::new([(1, aged.into()), (20, body("new").into()), (20, body("new").into())]);
            world.announce(A, "x", 0);
            tokio::time::sleep(5 * SECOND).await;
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r9_off_silence_counts_as_fresh() {
    distinguished(Rule::R9, "200 5 asked", "200 5 hit", || {
        Box::pin(async {
            let world = World::new([(1, shows(5).into()), (1, shows(5).into()), (1, shows(5).into())]);
            world.live().await;
            world.get(X).await;
            tokio::time::sleep(40 * SECOND).await;
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

fn numbered(world: &World, number: u64) -> Event {
    let published = world.sidecar.fill.shared.clock.wall();
    Event::Message { region: A, published, queued: None, numbered: Some((1, number)), says: Says::Unrouted }
}

#[tokio::test(start_paused = true)]
async fn r10_off_numbered_loss_goes_unnoticed() {
    distinguished(Rule::R10, "200 5 asked", "200 5 hit", || {
        Box::pin(async {
            let world = World::new([(1, shows(5).into()), (1, shows(5).into()), (1, shows(5).into())]);
            world.live().await;
            world.step(numbered(&world, 7));
            world.get(X).await;
            world.step(numbered(&world, 9));
            world.pass(12 * SECOND).await;
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r11_off_unproven_reply_is_trusted() {
    distinguished(Rule::R11, "200 5 asked", "200 5 hit", || {
        Box::pin(async {
            let world = World::new([(1, shows(5).into()), (1, shows(5).into()), (1, shows(5).into())]);
            world.step(Event::Subscribing(A));
            world.step(Event::Subscribed(A));
            world.get(X).await;
            world.pass(40 * SECOND).await;
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

#[test]
fn r12_off_unapplied_message_is_deleted() {
    assert!(!Disposition::Retry.may_be_deleted());
    assert!(
        Disposition::Acknowledge.may_be_deleted() && Disposition::Unverified(Rejected::Signature).may_be_deleted()
    );
    let _off = off(Rule::R12);
    assert!(Disposition::Retry.may_be_deleted());
}

#[tokio::test(start_paused = true)]
async fn r13_off_older_announcement_lowers_floor() {
    distinguished(Rule::R13, "200 6 asked", "200 5 asked", || {
        Box::pin(async {
            let world = World::new([(50, shows(6).into()), (1, shows(5).into()), (2, shows(5).into())]);
            world.announce(A, "x", 6);
            world.announce(B, "x", 5);
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r14_off_undecodable_message_is_skipped() {
    distinguished(Rule::R14, "200 5 asked", "200 5 hit", || {
        Box::pin(async {
            let world = World::new([(1, shows(5).into()), (1, shows(5).into()), (1, shows(5).into())]);
            world.live().await;
            world.get(X).await;
            world.hear(A, Says::Undecodable);
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r14_off_unverifiable_message_is_skipped() {
    distinguished(Rule::R14, "200 5 asked", "200 5 hit", || {
        Box::pin(async {
            let world = World::new([(1, shows(5).into()), (1, shows(5).into()), (1, shows(5).into())]);
            world.live().await;
            world.get(X).await;
            world.step(Event::Unverified(A));
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r15_off_impossible_version_poisons_floor() {
    distinguished(Rule::R15, "200 6 asked", "200 6 below-floor", || {
        Box::pin(async {
            let world = World::new([(1, shows(6).into()), (1, shows(6).into()), (1, shows(6).into())]);
            world.announce(A, "x", VERSION_CEILING);
            world.announce(A, "x", 6);
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r16_off_an_entry_never_ends() {
    distinguished(Rule::R16, "200 6 asked", "200 5 hit", || {
        Box::pin(async {
            let world = World::new([(1, shows(5).into()), (1, shows(5).into()), (1, shows(5).into())]);
            world.live().await;
            world.get(X).await;
            world.set_all(1, shows(6));
            world.pass(3_601 * SECOND).await;
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r18_off_reload_does_nothing() {
    distinguished(Rule::R18, "200 restored asked", "200 damaged hit", || {
        Box::pin(async {
            let world = World::new([1; 3].map(|after| (after, body("damaged").into())));
            world.live().await;
            world.get(X).await;
            world.set_all(1, body("restored"));
            world.hear(A, Says::Reload(Scope::All));
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r19_off_restore_stays_below_floor() {
    distinguished(Rule::R19, "200 4 asked", "200 4 below-floor", || {
        Box::pin(async {
            let world = World::new([(1, shows(9).into()), (1, shows(9).into()), (1, shows(9).into())]);
            world.live().await;
            world.get(X).await;
            tokio::time::sleep(SECOND).await;
            world.set_all(1, shows(4));
            // The stored copy is gone as well.
            world.hear(A, Says::Reload(Scope::All));
            world.hear(A, Says::Reset(Scope::All));
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r20_off_write_leaves_stale_read() {
    distinguished(Rule::R20, "200 6 asked", "200 5 hit", || {
        Box::pin(async {
            let world = World::new([(1, shows(5).into()), (2, shows(5).into()), (3, shows(5).into())]);
            world.live().await;
            world.get(X).await;
            tokio::time::sleep(SECOND).await;
            world.set(A, 1, shows(6));
            world.send(http::Method::PUT, X).await;
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r22_off_stored_reply_outlives_grant() {
    distinguished(Rule::R22, "403  asked", "200 5 hit", || {
        Box::pin(async {
            let world = World::new([1, 2, 3].map(|after| (after, shows(5).by(7).into())));
            world.live().await;
            world.announce_grants(A, 7);
            world.get(X).await;
            tokio::time::sleep(SECOND).await;
            world.set_all(1, status(403).by(8));
            world.announce_grants(A, 8);
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

#[test]
fn guard_is_off_while_its_value_lives() {
    for guard in Guard::ALL {
        let off = off(guard);
        assert_eq!(Guard::ALL.iter().filter(|other| !is_on(**other)).collect::<Vec<_>>(), [&guard]);
        drop(off);
    }
    assert!(Guard::ALL.into_iter().all(is_on));
}
