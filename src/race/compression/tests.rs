//! Regions that compress, over a whole sidecar in virtual time.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use super::*;
use crate::config::IdentityMode;
use crate::config::MigrationMode;
use crate::http::exchange::Outgoing;
use crate::payload::coding::encode;
use crate::request::scripted::{A, Act, Answer, B, C, DEADLINE, REGIONS, SECOND, Say, World, body, ms};

const PATH: &str = "/v1/packed/k";
const JSON: &str = "{\"plan\":\"gold\",\"plans\":[\"gold\",\"gold\",\"gold\"]}";

fn coded(coding: Coding, content: &[u8]) -> Say {
    let word = match coding {
        Coding::Zstd => "zstd",
        Coding::Gzip => "gzip",
        _ => return body(content.to_vec()),
    };
    body(encode(coding, &Bytes::copy_from_slice(content), 3, None).unwrap()).with("content-encoding", word)
}

fn all(say: Say) -> [(u64, Act); REGIONS] {
    [(10, say.clone().into()), (20, say.clone().into()), (30, say.into())]
}

/// `/v1/packed/{key}` shows `context:{key}`.
fn world(settings: &str, say: Say) -> World {
    let route = format!(
        "[[service.route]]\npath = \"/v1/packed/{{key}}\"\nrecords = [\"context:{{key}}\"]\n\
         compression = \"zstd\"\n{settings}\n"
    );
    World::with(&route, all(say))
}

fn line(name: &'static str, value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static(value))])
}

/// Asserts the answer of a region without codings to a caller that asks for none.
fn is_plain(answer: &Answer, content: &str) {
    assert_eq!((answer.status, &*answer.body), (200, content), "{}", answer.line);
    assert_eq!(answer.header("content-length"), content.len().to_string());
    for name in ["content-encoding", "content-digest", "repr-digest"] {
        assert_eq!(answer.header(name), "", "{name}");
    }
}

fn asked_for(world: &World) -> Vec<String> {
    let requests = world.requests();
    let codings = requests.iter().map(|(.., request)| &request.headers[header::ACCEPT_ENCODING]);
    codings.map(|codings| codings.to_str().unwrap().to_owned()).collect()
}

fn undecodable(world: &World, why: &str) -> u64 {
    let page = world.sidecar.fill.shared.metrics.render(&Default::default());
    let name = format!("nearside_undecodable_replies_total{{why=\"{why}\"}} ");
    page.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn all_callers_share_one_requested_coding() {
    let say =
        |coding| coded(coding, JSON.as_bytes()).at(7).with("etag", "\"t\"").with("repr-digest", "sha-256=:AA==:");
    let world = world("", say(Coding::Zstd));
    world.set(B, 20, say(Coding::Gzip));
    world.set(C, 30, body(JSON).at(7).with("etag", "\"t\""));
    world.live().await;
    let first = world.get_with(PATH, "accept-encoding", "br, gzip").await;
    is_plain(&first, JSON);
    assert_eq!((first.header("etag"), first.header("vary"), first.is_stored()), ("\"t\"", "accept-encoding", true));
    assert_eq!(asked_for(&world), ["zstd, gzip;q=0.5"; REGIONS]);
    for accepted in ["zstd", "gzip", "identity", "*;q=0"] {
        let hit = world.get_with(PATH, "accept-encoding", accepted).await;
        is_plain(&hit, JSON);
        assert!(hit.is_hit() && hit.label().is_none(), "{accepted}: {}", hit.line);
    }
    assert_eq!(world.get_with(PATH, "if-none-match", "\"t\"").await.status, 304);
    assert_eq!(asked_for(&world), Vec::<String>::new());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn different_codings_agree_without_versions() {
    let world = world("", coded(Coding::Zstd, JSON.as_bytes()));
    world.set(B, 20, coded(Coding::Gzip, JSON.as_bytes()));
    world.set(C, 30, body(JSON));
    world.live().await;
    is_plain(&world.get(PATH).await, JSON);
    world.pass(SECOND).await;
    let agreed = world.get(PATH).await;
    assert_eq!((agreed.is_hit(), agreed.label()), (true, None), "{}", agreed.line);
    world.set(C, 30, body("{\"plan\":\"tin\"}"));
    world.get("/v1/packed/other").await;
    world.pass(SECOND).await;
    assert_eq!(world.get("/v1/packed/other").await.label(), Some("provisional"));
    world.stop().await;
}

fn encoded_as(coding: &str, bytes: &[u8]) -> Say {
    body(bytes.to_vec()).with("content-encoding", coding).at(99)
}

/// Replies that nobody can use, and the word that counts each. All state a version that no other
/// region has.
fn unusable() -> Vec<(&'static str, Say)> {
    let zstd = encode(Coding::Zstd, &Bytes::from_static(JSON.as_bytes()), 3, None).unwrap();
    let bomb = encode(Coding::Zstd, &Bytes::from(vec![b' '; REPLY_BODY_BYTES + 1]), 3, None).unwrap();
    vec![
        ("too-large", encoded_as("zstd", &bomb)),
        ("damaged", encoded_as("zstd", &zstd[..zstd.len() - 2])),
        ("damaged", encoded_as("gzip", JSON.as_bytes())),
        ("several", encoded_as("gzip, zstd", &zstd)),
        ("unasked", encoded_as("br", &zstd)),
        ("unasked", encoded_as("dcz", &zstd)),
        ("unasked", encoded_as("aes128gcm", &zstd)),
    ]
}

#[tokio::test(start_paused = true)]
async fn undecodable_reply_fails_its_attempt() {
    for (word, bad) in unusable() {
        let world = world("", coded(Coding::Gzip, JSON.as_bytes()).at(7));
        world.set(A, 1, bad);
        world.live().await;
        for key in 0..8 {
            is_plain(&world.get(&format!("/v1/packed/k{key}")).await, JSON);
        }
        world.pass(SECOND).await;
        assert_eq!(world.floor("k0"), 7, "{word}: a floor heard of it");
        assert!(world.get("/v1/packed/k0").await.is_hit());
        assert_eq!(world.sidecar.fill.regions.status()[A.index()].health, "fit", "{word}");
        assert_eq!(undecodable(&world, word), 8);
        let notes = world.sidecar.fill.shared.observed.seen().regions;
        let reported = if word == "too-large" { 0 } else { 8 };
        assert_eq!(
            (notes[A.index()].undecoded.yes_count(), notes[B.index()].undecoded.yes_count()),
            (reported, 0),
            "{word}"
        );
        assert!(notes[B.index()].undecoded.len() >= 8, "those that can be used are noted too");
        if reported > 0 {
            let last = &notes[A.index()].undecoded_last;
            assert_eq!((last.why, &*last.route), (word, "/v1/packed/{key}"));
            assert!(!last.stated.is_empty());
        }
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn all_undecodable_answers_502() {
    for (word, bad) in unusable() {
        let world = world("", bad);
        world.live().await;
        let answer = world.get_with(PATH, "accept-encoding", "gzip").await;
        if word == "too-large" {
            assert_eq!((answer.status, answer.header("content-encoding")), (200, "zstd"));
            assert_eq!(asked_for(&world).last().unwrap(), "gzip", "for this caller alone");
        } else {
            assert_eq!(answer.status, 502, "{word}");
        }
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn compressed_304_confirms_plain_entry() {
    let said = coded(Coding::Zstd, JSON.as_bytes()).at(7).with("etag", "\"t\"");
    let world = world("", said.with("vary", "accept, accept-encoding"));
    world.live().await;
    world.get(PATH).await;
    world.asked();
    world.set_all(10, coded(Coding::Zstd, JSON.as_bytes()).at(7).with("etag", "\"t\"").with("x-new", "1"));
    world.pass(3600 * SECOND).await;
    let again = world.get(PATH).await;
    is_plain(&again, JSON);
    assert!(
        world.requests().iter().any(|(.., request)| request.headers.contains_key(header::IF_NONE_MATCH)),
        "it was asked for with its tag"
    );
    assert_eq!(
        (again.header("x-new"), again.header("etag"), again.header("vary")),
        ("1", "\"t\"", "accept, accept-encoding")
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn coding_suffix_leaves_node_etag() {
    let world = world("", coded(Coding::Zstd, JSON.as_bytes()).at(7).with("etag", "W/\"t~zstd\""));
    world.live().await;
    assert_eq!(world.get(PATH).await.header("etag"), "W/\"t\"");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn passed_reply_keeps_callers_coding() {
    let say = coded(Coding::Gzip, JSON.as_bytes());
    let world = world("", say.with("content-digest", "sha-256=:AA==:"));
    let mut headers = line("accept-encoding", "gzip");
    headers.insert(header::RANGE, HeaderValue::from_static("bytes=0-9"));
    let ranged = world.ask(Method::GET, PATH, headers).await;
    let written = world.ask(Method::POST, PATH, line("accept-encoding", "gzip")).await;
    for answer in [ranged, written] {
        assert_eq!((answer.header("content-encoding"), answer.header("content-digest")), ("gzip", "sha-256=:AA==:"));
    }
    assert_eq!(asked_for(&world), ["gzip", "gzip"]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn large_reply_decodes_within_budget() {
    let content = "[\"gold\"]".repeat(200_000);
    let world = world("", coded(Coding::Zstd, content.as_bytes()).at(7));
    world.live().await;
    is_plain(&world.get(PATH).await, &content);
    let bodies = &world.sidecar.shared.bodies;
    world.pass(SECOND).await;
    assert_eq!(bodies.held(), 0);
    let taken = bodies.reserve(bodies.limit() - content.len() as u64).unwrap();
    let began = world.now();
    let refused = world.get("/v1/packed/other").await;
    assert!(!refused.is_stored() && world.now() - began < DEADLINE);
    assert_eq!(undecodable(&world, "no-room"), 3);
    drop(taken);
    world.pass(SECOND).await;
    is_plain(&world.get("/v1/packed/other").await, &content);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn dictionary_is_never_exposed_to_callers() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("contexts.dict");
    std::fs::write(&file, JSON).unwrap();
    let hash = "8f1fbaa3fcd2a9dcd1cd6b6c9f7b5b1f6b8b8f5c2cb3a9f4b1f3f6f8f6a0e1aa".to_owned();
    let Err(DictionaryError::OtherHash { found: hash }) = Dictionary::read(JSON.as_bytes(), &hash) else {
        panic!("a made-up hash")
    };
    let dictionary = Dictionary::read(JSON.as_bytes(), &hash).unwrap();
    let candidate = "candidate = { path = \"/v2/{key}\", url = \"https://candidate.{region}.example\" }";
    let mut world = world(candidate, coded(Coding::Zstd, JSON.as_bytes()).at(7));
    world.reload(|config| {
        let named = DictionaryFile { file: file.clone(), hash: hash.clone() };
        config.service.routes.last_mut().unwrap().compression = Some(Compression::Zstd(Some(named)));
    });
    world.set(A, 1, dcz(&dictionary));
    world.live().await;
    let answer = world.get(PATH).await;
    is_plain(&answer, JSON);
    assert_eq!((answer.header("available-dictionary"), answer.header("use-as-dictionary")), ("", ""));
    for (.., request) in world.requests() {
        assert_eq!(request.headers["accept-encoding"], "dcz, zstd;q=0.9, gzip;q=0.5");
        assert!(request.headers["available-dictionary"].to_str().unwrap().starts_with(':'));
    }
    // Another dictionary of the same content's length.
    let other = JSON.replace("gold", "iron");
    let Err(DictionaryError::OtherHash { found }) = Dictionary::read(other.clone(), &hash) else { panic!("another") };
    world.set(A, 1, dcz(&Dictionary::read(other, &found).unwrap()));
    is_plain(&world.get("/v1/packed/other").await, JSON);
    world.pass(SECOND).await;
    assert_eq!(undecodable(&world, "other-dictionary"), 1);
    // Another service is no origin that the dictionary is for.
    world.asked();
    world.reload(|config| {
        config.service.routes.last_mut().unwrap().candidate.as_mut().unwrap().mode = MigrationMode::New;
    });
    world.set_candidate(coded(Coding::Zstd, JSON.as_bytes()).at(7));
    is_plain(&world.get(PATH).await, JSON);
    for (.., request) in world.requests() {
        let lines = &request.headers;
        assert_eq!(
            (&*request.path_and_query, &lines["accept-encoding"]),
            ("/v2/k", &"zstd, gzip;q=0.5".parse().unwrap())
        );
        assert!(!lines.contains_key("available-dictionary"));
    }
    // Another file under the same name is no dictionary of this route.
    std::fs::write(&file, "something else").unwrap();
    assert!(matches!(
        codings(world.sidecar.fill.config.service.routes.last().unwrap()),
        Err(CompressionError::Dictionary { .. })
    ));
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(
        codings(world.sidecar.fill.config.service.routes.last().unwrap()),
        Err(CompressionError::File { .. })
    ));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn joint_compression_needs_common_access() {
    let world = world("", body(JSON));
    let route = world.sidecar.fill.config.service.routes.last().unwrap();
    let regions = &world.sidecar.fill.regions;
    let dictionary = {
        let Err(DictionaryError::OtherHash { found }) = Dictionary::read("gold", &"0".repeat(64)) else { panic!() };
        Dictionary::read("gold", &found).unwrap()
    };
    let exact = Route { identity: IdentityMode::Exact(vec![header::AUTHORIZATION]), ..route.clone() };
    let credentials = config::Credentials::in_file(header::AUTHORIZATION, String::new(), "/nowhere".into());
    let shared = Route { identity: IdentityMode::Sidecar(credentials), ..route.clone() };
    for (route, expected) in [(exact, "identity"), (shared, "zstd, gzip;q=0.5")] {
        let origin = over(regions.origin().clone(), regions, &route, Codings::Dcz(dictionary.clone()));
        let headers = line("accept-encoding", "identity");
        let path_and_query = "/v1/batch".to_owned();
        let request = Outgoing { method: Method::POST, path_and_query, headers, body: Bytes::new() };
        origin.ask(A, Arc::new(request), ms(100)).await.unwrap();
        let asked = world.requests();
        assert_eq!(asked[0].2.headers["accept-encoding"], expected);
        assert!(!asked[0].2.headers.contains_key("available-dictionary"));
    }
    world.stop().await;
}

fn dcz(dictionary: &Dictionary) -> Say {
    let content = Bytes::from_static(JSON.as_bytes());
    body(encode(Coding::Dcz, &content, 3, Some(dictionary)).unwrap())
        .with("content-encoding", "dcz")
        .with("use-as-dictionary", "match=\"/*\"")
        .at(7)
}
