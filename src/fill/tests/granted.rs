//! `identity = "granted"`: all who may read share what is stored, each under a permit of its own (R22).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::json;

use super::*;
use crate::config::IdentityMode;

const Y: &str = "/v1/contexts/y/full";
/// Two callers with a grant, and one without.
const ONE: &str = "Bearer one";
const OTHER: &str = "Bearer other";
const STRANGER: &str = "Bearer stranger";

fn tagged(by: u64) -> Say {
    shows(5).with("etag", "\"5\"").by(by)
}

fn refused(by: u64) -> Say {
    status(403).by(by)
}

/// Regions decide about these by this version of the grants.
fn decided(version: u64) -> Act {
    Act::By(vec![(ONE, tagged(version)), (OTHER, tagged(version)), (STRANGER, refused(version))])
}

fn shared(acts: [(u64, Act); REGIONS]) -> World {
    let mut world = World::new(acts);
    world.reload(|config| config.service.routes[0].identity = IdentityMode::Granted);
    world
}

/// X is stored, asked for by one caller.
async fn stored() -> World {
    let world = shared([1, 2, 3].map(|after| (after, decided(7))));
    world.live().await;
    assert_eq!(read(&world, X, ONE).await.status, 200);
    tokio::time::sleep(SECOND).await;
    assert!(read(&world, X, ONE).await.is_hit());
    world.asked();
    world
}

async fn read(world: &World, path: &str, caller: &'static str) -> Answer {
    world.ask(Method::GET, path, token(caller)).await
}

#[tokio::test(start_paused = true)]
async fn stored_reply_needs_own_permit() {
    let world = stored().await;
    let stranger = read(&world, X, STRANGER).await;
    assert_eq!((stranger.status, stranger.body.as_str()), (403, ""));
    assert_eq!(world.asked().len(), REGIONS);
    // Refused again from memory, and for the other key too.
    assert_eq!(read(&world, X, STRANGER).await.status, 403);
    assert_eq!(world.asked(), []);
    assert_eq!(world.get(X).await.status, 401, "a caller without credentials");
    world.asked();
    assert!(read(&world, X, ONE).await.is_hit(), "the refusals are not its own");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn new_caller_costs_conditional_request() {
    let world = stored().await;
    assert_eq!(read(&world, X, OTHER).await.status, 200);
    let requests = world.requests();
    assert_eq!(requests.len(), REGIONS);
    for (_, _, request) in requests {
        assert_eq!(request.headers[header::IF_NONE_MATCH], "\"5\"");
        assert_eq!(request.headers[header::AUTHORIZATION], OTHER);
    }
    tokio::time::sleep(SECOND).await;
    assert!(read(&world, X, OTHER).await.is_hit());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn permit_holds_for_whole_view() {
    let world = stored().await;
    read(&world, Y, ONE).await;
    tokio::time::sleep(SECOND).await;
    world.asked();
    let readers: Vec<_> = [X, Y, X, Y].map(|path| world.begin_with(path, token(OTHER))).into();
    for reader in readers {
        assert_eq!(reader.await.unwrap().unwrap().status, 200);
    }
    assert_eq!(world.asked().len(), REGIONS, "one request for the caller and the view");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn joined_fill_needs_own_permit() {
    for (first, then) in [(ONE, STRANGER), (STRANGER, ONE)] {
        let world = shared([1, 2, 3].map(|after| (after, decided(7))));
        let readers: Vec<_> = [first, then, then].map(|caller| world.begin_with(X, token(caller))).into();
        let mut answers = Vec::new();
        for reader in readers {
            answers.push(reader.await.unwrap().unwrap());
        }
        for (answer, caller) in answers.iter().zip([first, then, then]) {
            let expected = if caller == ONE { (200, "5") } else { (403, "") };
            assert_eq!((answer.status, answer.body.as_str()), expected, "{caller}, after {first}");
        }
        // The one who joined twice asked once.
        assert_eq!(world.asked().len(), 2 * REGIONS, "{first}");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn joined_failure_is_its_readers_alone() {
    let acts = Act::By(vec![(ONE, tagged(7)), (OTHER, status(503))]);
    let world = shared([1, 2, 3].map(|after| (after, acts.clone())));
    let [other, one] = [OTHER, ONE].map(|caller| world.begin_with(X, token(caller)));
    assert_eq!(other.await.unwrap().unwrap().status, 503);
    assert_eq!(one.await.unwrap().unwrap().status, 200);
    world.set_all(1, Act::By(vec![(ONE, tagged(7)), (OTHER, status(503)), (STRANGER, tagged(7))]));
    world.asked();
    assert_eq!(read(&world, Y, OTHER).await.status, 503);
    assert_eq!(read(&world, Y, OTHER).await.status, 503);
    assert_eq!(world.asked().len(), REGIONS, "it is remembered for its reader");
    assert_eq!(read(&world, Y, STRANGER).await.status, 200, "and for nobody else");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn caller_is_given_its_own_error() {
    let world = stored().await;
    world.set_all(1, Act::By(vec![(ONE, tagged(7)), (OTHER, status(503).with("x-why", "keys-unknown"))]));
    for _ in 0..2 {
        let answer = read(&world, X, OTHER).await;
        assert_eq!((answer.status, answer.header("x-why")), (503, "keys-unknown"));
    }
    assert_eq!(world.asked().len(), REGIONS, "it is remembered for a second");
    world.pass(3 * SECOND).await;
    world.set_all(1, shows(5).with("etag", "\"5\""));
    for _ in 0..2 {
        let answer = read(&world, X, OTHER).await;
        assert_eq!((answer.status, answer.is_hit()), (200, false), "by regions that check nobody");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn silence_of_regions_is_shared() {
    let world = shared([1, 2, 3].map(|after| (after, Act::Fail(Failure::Connect))));
    let readers: Vec<_> = [ONE, OTHER, STRANGER].map(|caller| world.begin_with(X, token(caller))).into();
    for reader in readers {
        assert_eq!(reader.await.unwrap().unwrap().status, 502);
    }
    assert_eq!(world.asked().len(), REGIONS);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unstated_reply_is_neither_stored_nor_shared() {
    let unstated = shows(5).with("etag", "\"5\"");
    let acts = Act::By(vec![(ONE, unstated.clone()), (OTHER, unstated)]);
    let world = shared([1, 2, 3].map(|after| (after, acts.clone())));
    let readers = [ONE, OTHER].map(|caller| world.begin_with(X, token(caller)));
    for reader in readers {
        let answer = reader.await.unwrap().unwrap();
        assert_eq!((answer.status, answer.is_stored()), (200, false));
    }
    assert_eq!(world.asked().len(), 2 * REGIONS);
    for _ in 0..2 {
        assert_eq!(read(&world, X, ONE).await.status, 200, "asked for each time");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn reply_that_varies_by_caller_is_unshared() {
    let private = tagged(7).with("vary", "authorization");
    let world =
        shared([1, 2, 3].map(|after| (after, Act::By(vec![(ONE, private.clone()), (OTHER, private.clone())]))));
    assert!(!read(&world, X, ONE).await.is_stored());
    tokio::time::sleep(SECOND).await;
    assert!(!read(&world, X, ONE).await.is_hit());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn withdrawal_reaches_one_caller() {
    let world = stored().await;
    read(&world, X, OTHER).await;
    world.announce_grants(A, 8);
    world.set_all(1, Act::By(vec![(ONE, tagged(8)), (OTHER, refused(8))]));
    assert_eq!(read(&world, X, ONE).await.status, 200);
    tokio::time::sleep(SECOND).await;
    assert!(read(&world, X, ONE).await.is_hit());
    assert_eq!(read(&world, X, OTHER).await.status, 403);
    assert!(read(&world, X, ONE).await.is_hit());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn permit_ends_with_its_token() {
    let now = 1_800_000_000;
    let claims = BASE64_URL_SAFE_NO_PAD.encode(json!({"exp": now + 180}).to_string());
    let head = BASE64_URL_SAFE_NO_PAD.encode(json!({"alg": "ES256"}).to_string());
    let caller = format!("Bearer {head}.{claims}.c2ln").leak();
    let world = shared([1, 2, 3].map(|after| (after, Act::By(vec![(caller, tagged(7))]))));
    world.live().await;
    read(&world, X, caller).await;
    tokio::time::sleep(SECOND).await;
    assert!(read(&world, X, caller).await.is_hit());
    world.set_all(1, Act::By(Vec::new()));
    world.pass(60 * SECOND).await;
    assert_eq!(read(&world, X, caller).await.status, 401);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn entry_keeps_no_credentials() {
    let world = stored().await;
    let entries = world.sidecar.fill.shared.store.entries_of(world.record("x"));
    assert_eq!(entries.len(), 1, "all callers share it");
    for (key, entry) in entries {
        let request = entry.request(key.as_ref().target());
        assert!(!request.headers.contains_key(header::AUTHORIZATION));
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn background_asks_with_newest_permitted_caller() {
    let world = stored().await;
    read(&world, X, OTHER).await;
    read(&world, X, STRANGER).await;
    world.asked();
    let by_other = |version| {
        let say = shows(version).with("etag", "\"6\"").by(7);
        Act::By(vec![(ONE, say.clone()), (OTHER, say)])
    };
    world.set_all(1, by_other(6));
    world.announce(A, "x", 6);
    tokio::time::sleep(SECOND).await;
    let requests = world.requests();
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|(_, _, request)| request.headers[header::AUTHORIZATION] == OTHER));
    assert_eq!(read(&world, X, ONE).await.body, "6");
    world.asked();
    // Nobody has a permit by newer grants: the change waits for a reader.
    world.announce_grants(A, 8);
    world.announce(A, "x", 7);
    tokio::time::sleep(SECOND).await;
    assert_eq!(world.asked(), []);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn outage_is_bridged_under_permits_alone() {
    let world = stored().await;
    world.announce(A, "x", 6);
    world.set_all(1, Act::Fail(Failure::Connect));
    let answer = read(&world, X, ONE).await;
    assert_eq!((answer.status, answer.label()), (200, Some("stale-if-error")));
    assert_eq!(read(&world, X, STRANGER).await.status, 503);
    let cached = HeaderMap::from_iter([
        (header::CACHE_CONTROL, HeaderValue::from_static("only-if-cached")),
        (header::AUTHORIZATION, HeaderValue::from_static(STRANGER)),
    ]);
    assert_eq!(world.ask(Method::GET, X, cached).await.status, 504);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn thousand_callers_cost_a_request_each() {
    let world = stored().await;
    let tokens: Vec<&'static str> = (0..1_000).map(|at| &*format!("Bearer {at}").leak()).collect();
    world.set_all(1, Act::By(tokens.iter().map(|token| (*token, tagged(7))).collect()));
    for token in &tokens {
        assert_eq!(read(&world, X, token).await.status, 200);
    }
    let requests = world.requests();
    assert_eq!(requests.len(), 1_000 * REGIONS);
    assert!(requests.iter().all(|(_, _, request)| request.headers.contains_key(header::IF_NONE_MATCH)));
    for token in &tokens {
        assert!(read(&world, X, token).await.is_hit());
    }
    assert_eq!(world.asked(), []);
    world.stop().await;
}
