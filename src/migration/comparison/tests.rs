//! Check over a whole sidecar in virtual time.

use http::header;

use crate::request::scripted::{A, Act, B, REGIONS, SECOND, Say, World, body, ms, status};

fn all(say: Say) -> [(u64, Act); REGIONS] {
    [(10, say.clone().into()), (20, say.clone().into()), (30, say.into())]
}

fn json(text: &str) -> Say {
    body(text.to_owned()).with("content-type", "application/json")
}

fn world(settings: &str, current: Say) -> World {
    let route = format!(
        "[[service.route]]\npath = \"/v1/moved/{{key}}\"\nrecords = [\"context:{{key}}\"]\n\
         candidate = {{ path = \"/v2/of/{{key}}\", mode = \"check\", check_share = 1, {settings} }}\n"
    );
    World::with(&route, all(current))
}

/// Words, or places, and how often each was counted.
type Counts<W> = Vec<(W, u64)>;

/// Endings of comparisons, without those words that nothing ended with, and the places that
/// differed.
fn found(world: &World) -> (Counts<&'static str>, Counts<String>) {
    let candidate = (0..world.sidecar.fill.config.service.routes.len())
        .find_map(|place| world.sidecar.fill.router.candidate_id(crate::model::ids::RouteIndex(place)));
    let findings = world.sidecar.fill.shared.comparisons.tally.findings(candidate.unwrap());
    (findings.endings().into_iter().filter(|(_, count)| *count > 0).collect(), findings.places())
}

fn places(pointers: &[&str]) -> Counts<String> {
    pointers.iter().map(|pointer| ((*pointer).to_owned(), 1)).collect()
}

#[tokio::test(start_paused = true)]
async fn equal_versions_are_compared_after_fill() {
    let world = world("versions = \"same\"", json("{\"a\":1,\"b\":{\"c\":[1,2]}}").at(7));
    world.set_candidate(json("{\"b\":{\"c\":[1,3.0]},\"a\":1.0}").at(7));
    world.live().await;
    assert_eq!(world.get("/v1/moved/k").await.status, 200);
    world.pass(SECOND).await;
    assert_eq!(found(&world), (vec![("differs", 1)], places(&["/b/c/*"])));
    world.asked();
    assert!(world.get("/v1/moved/k").await.is_hit());
    world.pass(SECOND).await;
    assert_eq!((world.asked(), found(&world).0), (vec![], vec![("differs", 1)]), "a hit compares nothing");
    world.get_with("/v1/moved/other", "cache-control", "no-store").await;
    world.pass(SECOND).await;
    assert_eq!(found(&world).0, vec![("differs", 1)], "nothing was stored");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unversioned_difference_needs_second_reading() {
    let world = world("versions = \"own\"", json("{\"a\":1,\"b\":1}").at(7));
    world.set_candidate(json("{\"a\":2,\"b\":2}").at(900));
    world.live().await;
    world.get("/v1/moved/k").await;
    world.pass(5 * SECOND).await;
    assert_eq!(found(&world).0, vec![], "the record may have changed between");
    world.set_candidate(json("{\"a\":1,\"b\":3}").at(901));
    world.pass(10 * SECOND).await;
    assert_eq!(found(&world), (vec![("differs", 1)], places(&["/b"])));
    world.get("/v1/moved/other").await;
    world.pass(SECOND).await;
    world.set_candidate(json("{\"a\":1,\"b\":1}").at(902));
    world.pass(15 * SECOND).await;
    assert_eq!(found(&world).0, vec![("same", 1), ("differs", 1)]);
    assert_eq!(world.floor("k"), 7, "no floor heard of it");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unrelated_versions_never_reach_floor() {
    let world = world("versions = \"same\"", json("{\"a\":1}").at(7));
    world.set_candidate(json("{\"a\":1}").at(900));
    world.live().await;
    world.get("/v1/moved/k").await;
    world.pass(15 * SECOND).await;
    assert_eq!(found(&world), (vec![("version-differs", 1)], vec![]));
    assert_eq!(world.floor("k"), 7);
    assert!(world.get("/v1/moved/k").await.is_hit(), "nor was the store touched");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failing_candidate_changes_nothing() {
    for (candidate, word) in [
        (Act::Say(status(503)), "failed"),
        (Act::Say(status(401)), "refused"),
        (Act::Hang, "failed"),
        (Act::Say(json("{").at(7)), "unreadable"),
        (Act::Say(json("{\"a\":1}").at(7).with("content-encoding", "gzip")), "unreadable"),
        (Act::Say(status(404).at(7)), "differs"),
        (Act::Say(status(403)), "refused"),
        (Act::Say(status(301)), "refused"),
        (Act::Say(status(429)), "failed"),
    ] {
        let world = world("versions = \"same\"", json("{\"a\":1}").at(7));
        world.set_candidate(candidate);
        world.live().await;
        world.get("/v1/moved/k").await;
        world.pass(30 * SECOND).await;
        assert_eq!(found(&world).0, vec![(word, 1)]);
        assert_eq!((world.get("/v1/moved/k").await.is_hit(), world.floor("k")), (true, 7), "{word}");
        let healths = world.sidecar.fill.regions.status();
        assert!(healths.iter().all(|region| region.health == "fit"), "{word}");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn undecodable_candidate_is_unreadable() {
    let compressed = "[[service.route]]\npath = \"/v1/moved/{key}\"\nrecords = [\"context:{key}\"]\n\
                      compression = \"zstd\"\ncandidate = { path = \"/v2/of/{key}\", mode = \"check\", check_share = 1 }\n";
    let world = World::with(compressed, all(json("{\"a\":1}").at(7)));
    world.set_candidate(json("{\"a\":1}").at(7).with("content-encoding", "zstd"));
    world.live().await;
    world.get("/v1/moved/k").await;
    world.pass(SECOND).await;
    assert_eq!(found(&world).0, vec![("unreadable", 1)]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn comparison_asks_answering_region_uncompressed() {
    let world = world("versions = \"same\"", json("{\"a\":1}").at(7));
    world.set(A, 500, json("{\"a\":1}").at(7));
    world.set(B, 5, json("{\"a\":1}").at(7));
    world.live().await;
    world.get("/v1/moved/k").await;
    world.pass(5 * SECOND).await;
    let asked = world.requests();
    let candidate: Vec<_> = asked.iter().filter(|(.., request)| request.path_and_query == "/v2/of/k").collect();
    assert_eq!(candidate.iter().map(|(region, ..)| *region).collect::<Vec<_>>(), [B]);
    assert!(candidate.iter().all(|(.., request)| request.headers[header::ACCEPT_ENCODING] == "identity"));
    world.pass(SECOND).await;
    world.asked();
    let began = world.now();
    for key in 0..60 {
        world.get(&format!("/v1/moved/n{key}")).await;
    }
    world.sidecar.fill.regions.spend_background(B);
    world.pass(ms(100)).await;
    assert!(found(&world).0[0].1 < 40, "comparisons wait for their turn: {:?}", found(&world));
    world.pass(40 * SECOND).await;
    let compared = world.requests().into_iter().filter(|(.., request)| request.path_and_query.starts_with("/v2/"));
    let mut seconds = compared.map(|(_, at, _)| at.since(began).as_secs()).fold(vec![0; 60], |mut count, second| {
        count[second as usize] += 1;
        count
    });
    seconds.sort_unstable();
    assert_eq!(found(&world).0, vec![("same", 61)], "and all come to it");
    assert!(seconds[59] <= 15, "{seconds:?}");
    world.stop().await;
}

/// A thousand records of a hundred fields, a tenth of them with one field that differs, by chance
/// and by value.
#[tokio::test(start_paused = true)]
async fn finds_planted_differences_without_values() {
    let world = world("versions = \"same\"", json(&record(None, false)).at(7));
    world.live().await;
    let mut planted = Vec::new();
    for key in 0..300 {
        let at = (key % 10 == 3).then_some(key * 7 % 100);
        planted.extend(at.map(|at| format!("/f{}", letters(at))));
        world.set_candidate(json(&record(at, true)).at(7));
        world.get(&format!("/v1/moved/k{key}")).await;
        world.pass(ms(500)).await;
    }
    planted.sort();
    let (endings, places) = found(&world);
    assert_eq!(endings, [("same", 270), ("differs", 30)]);
    let mut found: Vec<_> =
        places.iter().flat_map(|(pointer, count)| vec![pointer.clone(); *count as usize]).collect();
    found.sort();
    assert_eq!(found, planted);
    world.stop().await;
}

fn letters(at: usize) -> String {
    [at / 26, at % 26].map(|n| char::from(b'a' + n as u8)).iter().collect()
}

/// A record of a hundred fields, one of which may differ, and which may be spelled another way.
fn record(planted: Option<usize>, spelled: bool) -> String {
    let mut fields: Vec<_> = (0..100)
        .map(|at| {
            let value = if planted == Some(at) { "planted-secret".to_owned() } else { format!("value-{at}") };
            if spelled {
                format!("\"f{}\" : \"{value}\"", letters(at))
            } else {
                format!("\"f{}\":\"{value}\"", letters(at))
            }
        })
        .collect();
    if spelled {
        fields.reverse();
    }
    format!("{{\"people\":{{\"kept.secret@example.com\":{{\"age\":1}}}},{}}}", fields.join(","))
}
