//! What is served when a rule is switched off, over a whole sidecar in virtual time: each time
//! something else, and worse.
//!
//! Each scenario is the smallest of the profile that the table in [`super`] names for its rule. R17
//! is not here, since it serves nothing.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Notify;

use super::{Rule, is_on, off};
use crate::aws::verify::Rejected;
use crate::core::scripted::{A, Act, Answer, B, C, SECOND, Say, World, body, ms, shows, status};
use crate::http::exchange::Failure;
use crate::model::limits::VERSION_CEILING;
use crate::protocol::event::{Event, Says, Scope};
use crate::sidecar::announcements::Receipt;

const X: &str = "/v1/contexts/x/full";

/// Body, whether it came from what is stored, and the label.
fn said(answer: &Answer) -> String {
    let whence = if answer.is_hit() { "hit" } else { "asked" };
    format!("{} {} {}", answer.status, answer.body, answer.label().unwrap_or(whence))
}

type Scenario = fn() -> Pin<Box<dyn Future<Output = String>>>;

/// The same scenario with the rule on, and off.
async fn told_apart(rule: Rule, on: &str, without: &str, scenario: Scenario) {
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
fn a_rule_is_off_for_as_long_as_its_guard_lives_and_for_this_thread_only() {
    let guard = off(Rule::R3);
    assert!(!is_on(Rule::R3) && is_on(Rule::R4));
    std::thread::scope(|scope| scope.spawn(|| assert!(is_on(Rule::R3))).join().unwrap());
    drop(guard);
    assert!(is_on(Rule::R3));
}

#[tokio::test(start_paused = true)]
async fn r1_off_a_lagging_region_undercuts_what_was_announced() {
    told_apart(Rule::R1, "200 5 asked", "200 4 asked", a_miss_at_lagging_regions).await;
}

#[tokio::test(start_paused = true)]
async fn r2_off_what_was_announced_of_an_absent_key_is_forgotten() {
    told_apart(Rule::R2, "200 5 asked", "200 4 asked", a_miss_at_lagging_regions).await;
}

#[tokio::test(start_paused = true)]
async fn r3_off_a_reader_after_the_announcement_joins_an_older_fill() {
    told_apart(Rule::R3, "200 new asked", "200 old asked", || {
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
async fn r4_off_a_lagging_region_beats_the_announcer() {
    told_apart(Rule::R4, "200 new asked", "200 old asked", || {
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
async fn r5_off_what_the_regions_disagree_about_at_the_start_is_kept_for_the_full_ttl() {
    told_apart(Rule::R5, "200 new hit", "200 old hit", || {
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
async fn r6_off_the_404_of_a_lagging_region_hides_what_was_created() {
    told_apart(Rule::R6, "200 5 asked", "404  asked", || {
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
async fn r7_off_a_lagging_region_confirms_what_an_announcement_put_out_of_date() {
    told_apart(Rule::R7, "200 5 below-floor", "200 5 asked", || {
        Box::pin(async {
            let quiet = || body("5").with("etag", "\"5\"");
            let world = World::new([(1, tagged(5).into()), (20, quiet().into()), (20, quiet().into())]);
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
async fn r8_off_the_announcers_own_intermediary_answers_from_before_the_change() {
    told_apart(Rule::R8, "200 new asked", "200 old asked", || {
        Box::pin(async {
            let aged = || body("old").with("age", "30");
            let world = World::new([(1, aged().into()), (20, body("new").into()), (20, body("new").into())]);
            world.announce(A, "x", 0);
            tokio::time::sleep(5 * SECOND).await;
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r9_off_silence_is_taken_for_no_news() {
    told_apart(Rule::R9, "200 5 asked", "200 5 hit", || {
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

#[tokio::test(start_paused = true)]
async fn r10_off_a_lost_message_that_the_numbers_show_is_not_asked_about() {
    told_apart(Rule::R10, "200 5 asked", "200 5 hit", || {
        Box::pin(async {
            let world = World::new([(1, shows(5).into()), (1, shows(5).into()), (1, shows(5).into())]);
            let number = |number| Event::Message {
                region: A,
                published: world.sidecar.clock.wall(),
                queued: None,
                numbered: Some((1, number)),
                says: Says::Unrouted,
            };
            world.live().await;
            world.step(number(7));
            world.get(X).await;
            world.step(number(9));
            world.pass(12 * SECOND).await;
            let answer = world.get(X).await;
            ended(world, answer).await
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r11_off_what_was_asked_for_before_the_first_proof_is_vouched_for() {
    told_apart(Rule::R11, "200 5 asked", "200 5 hit", || {
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
fn r12_off_what_could_not_be_applied_does_not_come_again() {
    assert!(!Receipt::Retry.may_be_deleted());
    assert!(Receipt::Acknowledge.may_be_deleted() && Receipt::Unverified(Rejected::Signature).may_be_deleted());
    let _off = off(Rule::R12);
    assert!(Receipt::Retry.may_be_deleted());
}

#[tokio::test(start_paused = true)]
async fn r13_off_an_older_announcement_takes_the_floor_down() {
    told_apart(Rule::R13, "200 6 asked", "200 5 asked", || {
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
async fn r14_off_what_cannot_be_decoded_is_passed_over() {
    told_apart(Rule::R14, "200 5 asked", "200 5 hit", || {
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
async fn r14_off_what_cannot_be_verified_is_passed_over() {
    told_apart(Rule::R14, "200 5 asked", "200 5 hit", || {
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
async fn r15_off_one_impossible_version_puts_everything_below_the_floor_for_good() {
    told_apart(Rule::R15, "200 6 asked", "200 6 below-floor", || {
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
    told_apart(Rule::R16, "200 6 asked", "200 5 hit", || {
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
async fn r18_off_an_operator_says_reload_and_nothing_happens() {
    told_apart(Rule::R18, "200 restored asked", "200 damaged hit", || {
        Box::pin(async {
            let damaged = || body("damaged");
            let world = World::new([(1, damaged().into()), (1, damaged().into()), (1, damaged().into())]);
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
async fn r19_off_a_restore_is_below_the_floor_after_its_reset_too() {
    told_apart(Rule::R19, "200 4 asked", "200 4 below-floor", || {
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
async fn r20_off_a_write_is_passed_on_and_the_next_read_is_from_before() {
    told_apart(Rule::R20, "200 6 asked", "200 5 hit", || {
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
