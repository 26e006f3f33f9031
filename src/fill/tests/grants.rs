//! R22 over a whole sidecar: a withdrawal reaches what is stored, whichever way it would be served.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::json;

use super::*;
use crate::http::admission::{Admitted, Head};
use crate::request::answer::respond;
use crate::request::caller::Caller;
use crate::request::found::Found;
use crate::request::lookup::lookup;
use crate::request::serve::serve;
use crate::telemetry::metrics::grants::{Contradiction, GrantsAnswer, PermitOutcome};

const Y: &str = "/v1/contexts/y/full";

fn tagged(by: u64) -> Say {
    shows(5).with("etag", "\"5\"").by(by)
}

fn only_if_cached() -> HeaderMap {
    HeaderMap::from_iter([(http::header::CACHE_CONTROL, HeaderValue::from_static("only-if-cached"))])
}

/// Statuses of the parts of a batch of both.
async fn batch(world: &World) -> Vec<u64> {
    let headers = HeaderMap::from_iter([(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    let (path_and_query, body) = ("/v1/batch/full".to_owned(), json!({"keys": ["x", "y"]}).to_string().into());
    let path_len = path_and_query.len();
    let admitted = Admitted { method: Method::POST, path_and_query, path_len, headers, body };
    let response = respond(serve(&world.sidecar, admitted).await, &world.sidecar.fill.shared.names);
    let bytes = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    let answer: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    answer["parts"].as_array().unwrap().iter().map(|part| part["status"].as_u64().unwrap()).collect()
}

/// X and Y are stored, and its caller may have them by grants 7, which are announced.
async fn granted(settings: &str) -> World {
    let world = World::with(settings, [1, 2, 3].map(|after| (after, tagged(7).into())));
    world.live().await;
    world.announce_grants(A, 7);
    for path in [X, Y] {
        world.get(path).await;
    }
    tokio::time::sleep(SECOND).await;
    assert!(world.get(X).await.is_hit());
    world.asked();
    world
}

/// Regions withdraw the grant by 8, and one announces it.
fn withdraw(world: &World) {
    world.set_all(1, status(403).by(8));
    world.announce_grants(A, 8);
}

#[tokio::test(start_paused = true)]
async fn stored_reply_ends_with_its_grant() {
    let world = granted("").await;
    withdraw(&world);
    for path in [X, Y, X] {
        assert_eq!(world.get(path).await.status, 403, "{path}");
    }
    // The refusal holds for the view: the other key's reader asked nobody.
    assert_eq!(world.asked().len(), REGIONS);
    // In the last second or so another version of the grants may have allowed it again.
    world.set_all(1, tagged(9));
    world.announce_grants(B, 9);
    assert_eq!(world.get(Y).await.status, 200);
    assert!(world.get(X).await.is_hit());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn moved_floor_costs_one_request() {
    let world = granted("").await;
    world.set_all(10, tagged(8));
    world.announce_grants(A, 8);
    let readers: Vec<_> = [X, Y, X, Y].into_iter().map(|path| world.begin(path)).collect();
    for reader in readers {
        assert_eq!(reader.await.unwrap().unwrap().status, 200);
    }
    let requests = world.requests();
    assert_eq!(requests.len(), REGIONS, "one request for the view, however many keys");
    for (_, _, request) in requests {
        assert_eq!(request.headers["x-grants-version"], "8");
        assert_eq!(request.headers["if-none-match"], "\"5\"");
    }
    assert!(world.get(X).await.is_hit());
    assert!(world.get(Y).await.is_hit());
    world.stop().await;
}

/// A request that was sent before the grants changed says nothing about the regions now.
#[tokio::test(start_paused = true)]
async fn request_under_way_postpones_no_other() {
    let world = granted("").await;
    world.set_all(1_000, tagged(7));
    let no_cache = HeaderValue::from_static("no-cache");
    let slow = world.begin_with(X, HeaderMap::from_iter([(http::header::CACHE_CONTROL, no_cache)]));
    tokio::time::sleep(SECOND / 2).await;
    withdraw(&world);
    assert_eq!(slow.await.unwrap().unwrap().status, 200);
    assert_eq!(world.get(Y).await.status, 403);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn outcomes_and_contradictions_are_counted() {
    let world = World::with("", [(1, tagged(7).into()), (2, status(403).by(7).into()), (3, shows(5).into())]);
    world.live().await;
    world.announce_grants(A, 7);
    assert_eq!(world.get(X).await.status, 200);
    tokio::time::sleep(SECOND).await;
    let grants = &world.sidecar.fill.shared.metrics.grants;
    for (region, contradiction) in
        [(A, Contradiction::Allowed), (B, Contradiction::Refused), (C, Contradiction::Silent)]
    {
        assert!(grants.contradictions(region, contradiction) > 0, "{contradiction:?}");
    }
    assert_eq!(grants.contradictions(A, Contradiction::Refused) + grants.contradictions(A, Contradiction::Silent), 0);
    let answers = [(A, GrantsAnswer::Allowed), (B, GrantsAnswer::Refused), (C, GrantsAnswer::Silent)];
    assert!(answers.iter().all(|(region, answer)| grants.answers(*region, *answer) > 0));
    assert!(grants.checks(PermitOutcome::Granted) > 0 && grants.checks(PermitOutcome::Refused) == 0);
    withdraw(&world);
    assert_eq!(world.get(X).await.status, 403);
    tokio::time::sleep(SECOND).await;
    assert!(grants.checks(PermitOutcome::Refused) > 0 && grants.checks(PermitOutcome::Unconfirmed) == 0);
    // Nobody goes by what was announced.
    world.announce_grants(A, 9);
    world.get(X).await;
    tokio::time::sleep(SECOND).await;
    assert!(grants.checks(PermitOutcome::Unconfirmed) > 0);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_if_cached_needs_a_permit() {
    let world = granted("").await;
    assert_eq!(world.ask(Method::GET, X, only_if_cached()).await.status, 200);
    withdraw(&world);
    assert_eq!(world.ask(Method::GET, X, only_if_cached()).await.status, 504);
    assert_eq!(world.asked(), []);
    assert_eq!(world.get(X).await.status, 403);
    assert_eq!(world.ask(Method::GET, X, only_if_cached()).await.status, 403);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn conditional_reader_needs_a_permit() {
    let world = granted("").await;
    assert_eq!(world.get_with(X, "if-none-match", "\"5\"").await.status, 304);
    withdraw(&world);
    assert_eq!(world.get_with(X, "if-none-match", "\"5\"").await.status, 403);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn grace_needs_a_permit() {
    let world = granted("[freshness]\ngrace = \"5s\"\n").await;
    world.announce(A, "x", 6);
    let served = world.get(X).await;
    assert_eq!((served.status, served.label()), (200, Some("grace")));
    tokio::time::sleep(SECOND).await;
    withdraw(&world);
    world.announce(A, "y", 6);
    assert_eq!(world.get(Y).await.status, 403);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn batch_parts_need_a_permit() {
    let world = granted("").await;
    let mut world = world;
    world.reload(|config| {
        let batch = crate::config::PathTemplate::parse("/v1/batch/{view}").unwrap();
        config.service.routes[0].batch = Some(batch);
    });
    assert_eq!(batch(&world).await, [200, 200]);
    withdraw(&world);
    assert_eq!(batch(&world).await, [403, 403]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unconfirmed_permit_ends_after_max_age() {
    let world = granted("[access]\nmax_age = \"10m\"\n[cache]\nttl = \"1d\"\n").await;
    world.set_all(1, Act::Fail(Failure::Connect));
    world.announce_grants(A, 8);
    let answer = world.get(X).await;
    assert_eq!((answer.status, answer.label()), (200, Some("grants-unproven")));
    assert_eq!(world.asked().len(), REGIONS);
    // Others are served at once while it is tried again.
    let answer = world.get(Y).await;
    assert_eq!((answer.status, answer.label()), (200, Some("grants-unproven")));
    assert_eq!(world.asked(), []);
    world.pass(10 * 60 * SECOND).await;
    assert_eq!(world.get(X).await.status, 503);
    assert_eq!(world.get(Y).await.status, 503);
    // A refusal that is known is never overridden.
    world.set_all(1, tagged(8));
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(world.get(X).await.status, 200);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn strict_service_serves_nothing_unconfirmed() {
    let world = granted("[access]\nwhen_unknown = \"refuse\"\n").await;
    world.set_all(1, Act::Fail(Failure::Connect));
    world.announce_grants(A, 8);
    assert_eq!(world.get(X).await.status, 503);
    world.set_all(1, tagged(7));
    tokio::time::sleep(5 * SECOND).await;
    // What older grants allow is no answer either.
    assert_eq!(world.get(X).await.status, 503);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn known_refusal_is_never_overridden() {
    let world = granted("").await;
    withdraw(&world);
    assert_eq!(world.get(X).await.status, 403);
    // The regions that refused it are off, and one that lags answers.
    world.set_all(1, Act::Fail(Failure::Connect));
    world.set(C, 1, tagged(7));
    world.pass(10 * SECOND).await;
    assert_eq!(world.get(X).await.status, 503);
    assert_eq!(world.get("/v1/contexts/z/full").await.status, 503);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn lagging_region_is_given_labelled() {
    let world = granted("").await;
    world.set_all(1, tagged(7));
    world.announce_grants(A, 8);
    let answer = world.get("/v1/contexts/z/full").await;
    assert_eq!((answer.status, answer.label(), answer.is_stored()), (200, Some("grants-unproven"), false));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn permit_is_rechecked_while_readers_are_served() {
    let world = granted("[cache]\nttl = \"1d\"\n").await;
    world.pass(245 * SECOND).await;
    world.asked();
    assert!(world.get(X).await.is_hit());
    tokio::time::sleep(SECOND).await;
    assert_eq!(world.asked().len(), REGIONS, "in the background");
    world.pass(100 * SECOND).await;
    world.asked();
    assert!(world.get(Y).await.is_hit());
    assert_eq!(world.asked(), []);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn silent_region_gives_no_permit() {
    let world = granted("").await;
    world.set_all(1, shows(5).with("etag", "\"5\""));
    world.set(B, 2, tagged(7));
    world.announce_grants(A, 8);
    for _ in 0..2 {
        assert!(!world.get(X).await.is_hit());
        tokio::time::sleep(6 * SECOND).await;
    }
    world.set(B, 1, tagged(8));
    world.get(X).await;
    tokio::time::sleep(SECOND).await;
    assert!(world.get(X).await.is_hit());
    world.stop().await;
}

/// The document is written before any region goes by it, or after all went back to `off`.
#[tokio::test(start_paused = true)]
async fn regions_that_check_nobody_permit() {
    let world = World::with("", [1, 2, 3].map(|after| (after, shows(5).with("etag", "\"5\"").into())));
    world.live().await;
    for version in [7, 8] {
        world.announce_grants(A, version);
        for path in [X, Y] {
            assert_eq!(world.get(path).await.status, 200, "{version}");
        }
        tokio::time::sleep(SECOND).await;
        for path in [X, Y, X] {
            assert!(world.get(path).await.is_hit(), "{version}");
        }
    }
    // One begins to go by them.
    world.pass(300 * SECOND).await;
    world.set_all(1, status(403).by(8));
    world.announce_grants(B, 8);
    assert_eq!(world.get(X).await.status, 403);
    assert_eq!(world.get(X).await.status, 403);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn answer_about_other_view_is_not_stored() {
    let world = granted("").await;
    world.set_all(1, shows(5).with("x-grants-version", "7; other"));
    assert!(!world.get("/v1/contexts/z/full").await.is_stored());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_is_shown_the_grants_version() {
    let world = granted("").await;
    for path in [X, "/v1/contexts/z/full"] {
        assert_eq!(world.get(path).await.header("x-grants-version"), "");
    }
    let name = HeaderName::from_static("x-grants-version");
    let stated = HeaderMap::from_iter([(name.clone(), HeaderValue::from_static("99"))]);
    world.asked();
    world.ask(Method::PUT, "/v1/contexts/z/full", stated).await;
    assert!(world.requests().iter().all(|(_, _, request)| !request.headers.contains_key(&name)));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn reset_keeps_grants_floor() {
    let world = granted("").await;
    world.hear(A, crate::protocol::event::Says::Reset(crate::protocol::event::Scope::All));
    assert_eq!(world.sidecar.fill.shared.freshness.grants().floor(), 7);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn caller_keeps_what_others_lose() {
    let world = World::new([1, 2, 3].map(|after| (after, tagged(7).into())));
    world.live().await;
    world.announce_grants(A, 7);
    world.ask(Method::GET, X, token("Bearer 1")).await;
    tokio::time::sleep(SECOND).await;
    world.ask(Method::GET, X, token("Bearer 2")).await;
    tokio::time::sleep(SECOND).await;
    assert!(
        world.ask(Method::GET, X, token("Bearer 1")).await.is_hit()
            && world.ask(Method::GET, X, token("Bearer 2")).await.is_hit()
    );
    world.set_all(1, tagged(8));
    world.announce_grants(A, 8);
    assert_eq!(world.ask(Method::GET, X, token("Bearer 1")).await.status, 200);
    tokio::time::sleep(SECOND).await;
    world.set_all(1, status(403).by(8));
    assert!(world.ask(Method::GET, X, token("Bearer 1")).await.is_hit());
    assert_eq!(world.ask(Method::GET, X, token("Bearer 2")).await.status, 403);
    assert!(world.ask(Method::GET, X, token("Bearer 1")).await.is_hit(), "the other's refusal is not its own");
    world.stop().await;
}

/// Returns whether X is there for a caller whom its connection remembers, and whether its permit is
/// rechecked.
fn remembered(world: &World, caller: &mut Caller) -> (bool, bool) {
    let headers = HeaderMap::new();
    let head = Head { method: &Method::GET, path_and_query: X, path_len: X.len(), headers: &headers };
    match lookup(&world.sidecar, caller, head, false) {
        Found::Answer(shown, refresh) => (shown.entry.status == 200, refresh.is_some()),
        _ => (false, false),
    }
}

#[tokio::test(start_paused = true)]
async fn remembered_caller_notices_every_change() {
    let world = granted("[cache]\nttl = \"1d\"\n").await;
    let mut caller = Caller::of(&HeaderMap::new());
    for _ in 0..2 {
        assert_eq!(remembered(&world, &mut caller), (true, false));
    }
    world.set_all(1, tagged(8));
    world.announce_grants(A, 8);
    assert_eq!(remembered(&world, &mut caller), (false, false), "the grants moved");
    world.get(X).await;
    assert_eq!(remembered(&world, &mut caller), (true, false));
    world.pass(245 * SECOND).await;
    assert_eq!(remembered(&world, &mut caller), (true, true), "it is due");
    // Regions that check nobody permit it, until one refuses it by the same grants.
    world.set_all(1, shows(5).with("etag", "\"5\""));
    world.announce_grants(A, 9);
    world.get(X).await;
    tokio::time::sleep(SECOND).await;
    for _ in 0..2 {
        assert_eq!(remembered(&world, &mut caller), (true, false));
    }
    world.set_all(1, status(403).by(9));
    assert_eq!(world.get("/v1/contexts/z/full").await.status, 403);
    assert!(!remembered(&world, &mut caller).0, "it was refused");
    world.stop().await;
}
