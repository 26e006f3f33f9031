//! R22 in a race: who may read is decided by the grants' versions, what they read by the records'.

use http::{HeaderMap, HeaderValue};

use super::*;
use crate::config::grants_version::GRANTS_VERSION;
use crate::model::stated_grants;

const WALL: Wall = Wall::from_millis(1_800_000_000_000);

/// A reply that was decided by this version of the grants; 0 states none.
fn decided(status: u16, by: u64) -> Act {
    let line = stated_grants::line(by, "x").filter(|_| by > 0);
    let headers = HeaderMap::from_iter(line.map(|line| (GRANTS_VERSION, line)));
    let version = (status == 200).then_some(1);
    Act::Say { status, version, body: "x", headers }
}

/// Reply that is given first: status, region and label.
async fn given(floor: u64, acts: [(u64, Act); 3]) -> (u16, u8, Option<Label>) {
    let world = World::new(RaceMode::All, acts);
    for region in [B, C] {
        world.grants.announced(region, floor, world.now(), WALL);
    }
    let winner = winner(world.first().await.0);
    (winner.reply.status.as_u16(), winner.reply.region.0, winner.label)
}

#[tokio::test(start_paused = true)]
async fn older_permission_loses_to_newer() {
    let unproven = Some(Label::GrantsUnproven);
    for (name, acts, expected) in [
        ("all old", [decided(200, 7), decided(200, 7), decided(200, 7)], (200, 0, unproven)),
        ("one new", [decided(200, 7), decided(200, 7), decided(200, 9)], (200, 2, None)),
        ("new refuses", [decided(200, 7), decided(200, 7), decided(403, 9)], (403, 2, None)),
        ("new refuses alone", [decided(200, 7), Act::Fail(Failure::Connect), decided(403, 9)], (403, 2, None)),
        ("old refuses", [decided(403, 7), decided(403, 7), decided(200, 9)], (200, 2, None)),
        ("older refuse old", [decided(403, 6), decided(403, 6), decided(200, 7)], (200, 2, unproven)),
        ("one version, two words", [decided(403, 9), decided(200, 9), Act::Fail(Failure::Connect)], (200, 1, None)),
        (
            "nobody vouches for it",
            [decided(200, 8), decided(403, 11), Act::Fail(Failure::Connect)],
            (200, 0, unproven),
        ),
        ("staging's document", [decided(200, 9), decided(403, 11), Act::Fail(Failure::Connect)], (200, 0, None)),
        ("silent", [decided(200, 0), decided(200, 7), decided(200, 7)], (200, 0, None)),
        ("silent beside a refusal", [decided(403, 9), decided(200, 0), Act::Fail(Failure::Connect)], (200, 1, None)),
        ("all refuse", [decided(403, 9), decided(403, 9), decided(403, 9)], (403, 0, None)),
        ("all refuse, one ahead", [decided(403, 11), decided(403, 9), Act::Fail(Failure::Connect)], (403, 1, None)),
        ("all refuse, one late", [decided(403, 6), decided(403, 9), Act::Fail(Failure::Connect)], (403, 1, None)),
        ("each by its own", [decided(403, 11), decided(403, 6), decided(403, 9)], (403, 2, None)),
        ("withdrawn twice", [decided(200, 6), decided(403, 7), decided(403, 9)], (403, 2, None)),
        ("ahead refuses alone", [decided(403, 11), decided(503, 0), Act::Fail(Failure::Connect)], (403, 0, None)),
        ("no key", [decided(401, 0), decided(200, 9), Act::Fail(Failure::Connect)], (200, 1, None)),
    ] {
        let acts = std::array::from_fn(|at| (at as u64 + 1, acts[at].clone()));
        assert_eq!(given(9, acts).await, expected, "{name}");
    }
}

/// A region with a document of its own, or wrong settings, announces it and refuses everybody.
#[tokio::test(start_paused = true)]
async fn lone_region_refuses_nobody() {
    let acts = [(1, decided(403, 9)), (2, decided(200, 7)), (3, decided(200, 7))];
    let world = World::new(RaceMode::All, acts);
    world.grants.announced(A, 9, world.now(), WALL);
    let first = winner(world.first().await.0);
    assert_eq!((first.reply.status.as_u16(), first.label), (200, Some(Label::GrantsUnproven)));
    // A second region has it: it is a withdrawal.
    world.set(B, 2, decided(403, 9));
    assert_eq!(winner(world.first().await.0).reply.status.as_u16(), 403);
}

#[tokio::test(start_paused = true)]
async fn absence_is_a_permission() {
    let acts = [(1, decided(404, 7)), (2, decided(403, 9)), (3, decided(403, 9))];
    assert_eq!(given(9, acts).await.0, 403);
    let acts = [(1, decided(404, 9)), (2, decided(403, 9)), (3, decided(403, 9))];
    assert_eq!(given(9, acts).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn two_replies_move_the_floor() {
    let acts = [(1, decided(503, 9)), (2, decided(403, 9)), (30, decided(200, 7))];
    let world = World::new(RaceMode::All, acts);
    let mut race = world.race();
    race.first().await;
    race.finish().await;
    assert_eq!(world.grants.floor(), 7, "an error decides nothing");
    world.set(A, 1, decided(200, 9));
    let mut race = world.race();
    race.first().await;
    let tally = race.finish().await;
    assert_eq!(world.grants.floor(), 9);
    assert_eq!(tally.alarm, None);
}

/// It is no word on the document that its region has.
#[tokio::test(start_paused = true)]
async fn unreadable_statement_lowers_no_floor() {
    let headers = HeaderMap::from_iter([(GRANTS_VERSION, HeaderValue::from_static("soon"))]);
    let unreadable = Act::Say { status: 200, version: Some(1), body: "x", headers };
    let world = World::new(RaceMode::All, [1, 2, 3].map(|after| (after, unreadable.clone())));
    world.grants.announced(A, 9, world.now(), WALL);
    tokio::time::sleep(Duration::from_secs(100)).await;
    let mut race = world.race();
    race.first().await;
    assert_eq!(race.finish().await.alarm, None);
    assert_eq!(world.grants.floor(), 9);
}
