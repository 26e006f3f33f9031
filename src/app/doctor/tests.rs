//! A doctor over regions that answer by a script, in virtual time.

use super::*;
use crate::admin::findings::report::LineState;
use crate::core::scripted::{A, Act, B, REGIONS, SECOND, Say, World, body, status};

const PATH: &str = "/v1/moved/k";
const EDITION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/payload/editions.binpb#nearside.editions.Edition");

fn json(text: &str) -> Say {
    body(text.to_owned()).with("content-type", "application/json")
}

/// `/v1/moved/{key}` shows `context:{key}`.
fn world(settings: &str, say: Say) -> World {
    let route =
        format!("[[service.route]]\npath = \"/v1/moved/{{key}}\"\nrecords = [\"context:{{key}}\"]\n{settings}\n");
    let acts: [(u64, Act); REGIONS] = [(10, say.clone().into()), (20, say.clone().into()), (30, say.into())];
    World::with(&route, acts)
}

fn two_ways(second: &str) -> World {
    let settings = format!("second = {{ path = \"/v2/of/{{key}}\", {second} }}");
    world(&settings, json("{\"a\":1,\"b\":1}").at(7))
}

/// What a doctor says of the path who listens for so many seconds.
async fn told(world: &World, path: &str, seconds: u32) -> Vec<ReportLine> {
    told_with(world, &[path], HeaderMap::new(), seconds).await
}

async fn told_with(world: &World, paths: &[&str], headers: HeaderMap, seconds: u32) -> Vec<ReportLine> {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    let order = DoctorOrder { paths, headers, listen: seconds * SECOND };
    let (clock, origin) = (world.sidecar.clock.clone(), world.script.clone());
    let instead = Instead { clock, origin: Some(origin), ..Instead::default() };
    examine(world.sidecar.config.clone(), order, instead).await.unwrap()
}

/// The lines of one check: their states, and what they saw.
fn of(lines: &[ReportLine], check: &str) -> Vec<(LineState, String)> {
    lines.iter().filter(|line| line.check == check).map(|line| (line.state, line.saw.clone())).collect()
}

/// The line about the second way, which is the same in all regions.
async fn second_way(world: &World, seconds: u32) -> (LineState, String) {
    let lines = told(world, PATH, seconds).await;
    let mut found = of(&lines, SECOND_WAY);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(lines.iter().all(|line| line.state == LineState::Well || !line.advice.is_empty()), "{lines:#?}");
    found.remove(0)
}

#[tokio::test(start_paused = true)]
async fn a_region_whose_compressed_replies_cannot_be_used_is_wrong_with_what_came() {
    for (coding, saw) in [
        ("zstd", "the last one said `zstd`, and its bytes are not that"),
        ("br", "the last one came in the coding `br`, which was not asked for"),
        ("gzip, zstd", "in several codings one behind the other (`gzip, zstd`)"),
    ] {
        let world = world("compression = \"zstd\"", json("{\"a\":1}").at(7));
        world.set(A, 1, json("{\"a\":1}").at(7).with("content-encoding", coding));
        // Replies of other routes hide nothing of it.
        let lines = told_with(&world, &[PATH, "/v1/contexts/k/v"], HeaderMap::new(), 4).await;
        let region = |name: &str| lines.iter().find(|line| line.check == "coding" && line.subject == name).unwrap();
        assert_eq!((region("a").state, region("b").state), (LineState::Wrong, LineState::Well));
        assert!(region("a").saw.contains(saw) && !region("a").advice.is_empty(), "{}", region("a").saw);
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn fields_that_the_schema_lacks_are_told_as_refused_and_ask_nobody() {
    let settings = format!("fields = \"fields\"\nschema = \"{EDITION}\"");
    let world = world(&settings, json("{}").at(7));
    let lines = told(&world, "/v1/moved/k?fields=nope", 4).await;
    let saw = "the sidecar itself answers 400 and asks no region: the path \"nope\" leads to no field of this record";
    assert_eq!(of(&lines, "shape"), [(LineState::Wrong, saw.to_owned())]);
    assert_eq!(lines.iter().filter(|line| line.state == LineState::Wrong).count(), 1);
    assert_eq!(world.asked(), []);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_does_not_fit_the_schema_is_told_with_what_callers_get() {
    let settings = format!("schema = \"{EDITION}\"");
    let world = world(&settings, json("{").at(7));
    let accept = http::HeaderValue::from_static("application/x-protobuf");
    let headers = HeaderMap::from_iter([(http::header::ACCEPT, accept)]);
    let lines = told_with(&world, &[PATH], headers, 4).await;
    let told = of(&lines, "shape");
    assert!(told[0].0 == LineState::Wrong && told[0].1.starts_with("the sidecar itself answers 502: "), "{told:?}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn how_the_second_way_does_is_told_whoever_answers() {
    for way in ["way = \"check\"", "way = \"new\", new_share = 0.000001", "way = \"new\", new_share = 1"] {
        let world = two_ways(way);
        world.set_second(json("{\"b\":1.0, \"a\":1}").at(7));
        assert_eq!(second_way(&world, 4).await, (LineState::Well, "it does in a, b and c".to_owned()), "{way}");
        for (second, wrong) in [
            (Act::Say(json("{\"a\":1,\"b\":\"secret\"}").at(7)), "differs: the two differ in /b in a, b and c"),
            (status(404).at(7).into(), "differs: the two differ in (record) in a, b and c"),
            (status(401).into(), "refused: in a, b and c it refuses or redirects"),
            (status(301).into(), "refused: in a, b and c it refuses or redirects"),
            (status(503).into(), "failed: in a, b and c it gave no answer in time"),
            (Act::Hang, "failed: in a, b and c it gave no answer in time"),
            (Act::Say(json("{").at(7)), "unreadable: what one of the two says in a, b and c"),
        ] {
            world.set_second(second);
            let (state, saw) = second_way(&world, 4).await;
            assert!(state == LineState::Wrong && saw.starts_with(wrong), "{way}: {saw}");
            assert!(!saw.contains("secret"));
        }
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_region_has_its_own_second_way_and_one_is_told_apart_from_the_others() {
    let world = two_ways("way = \"check\"");
    world.set(B, 20, status(503));
    let lines = told(&world, PATH, 4).await;
    let unseen = "not compared in b: the first way gave nothing to compare with".to_owned();
    let well = (LineState::Well, "it does in a and c".to_owned());
    assert_eq!(of(&lines, SECOND_WAY), [well, (LineState::Unseen, unseen)]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_read_once_or_not_at_all_is_not_told_as_more_than_that() {
    let world = two_ways("way = \"check\", versions = \"own\"");
    world.set_second(json("{\"a\":2,\"b\":2}").at(900));
    let once = "the two differ in /a, /b in a, b and c, read once: the record may have changed between".to_owned();
    assert_eq!(second_way(&world, 4).await, (LineState::Unseen, once));
    let changed = async {
        tokio::time::sleep(5 * SECOND).await;
        world.set_second(json("{\"a\":1,\"b\":3}").at(901));
    };
    let (again, ()) = tokio::join!(second_way(&world, 15), changed);
    assert_eq!(again, (LineState::Wrong, "differs: the two differ in /b in a, b and c".to_owned()));
    world.set_second(Act::Hang);
    let late = (LineState::Unseen, "not compared in this time in a, b and c".to_owned());
    assert_eq!(second_way(&world, 1).await, late);
    world.stop().await;
    let world = two_ways("way = \"check\"");
    world.set_second(json("{\"a\":1,\"b\":1}").at(900));
    let once = "the two state different versions in a, b and c, read once: the record may have changed between";
    assert_eq!(second_way(&world, 4).await, (LineState::Unseen, once.to_owned()));
    let (state, saw) = second_way(&world, 15).await;
    assert!(state == LineState::Wrong && saw.starts_with("version-differs: in a, b and c it states other"), "{saw}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_way_that_is_not_asked_has_no_line() {
    let world = two_ways("way = \"old\"");
    assert_eq!(of(&told(&world, PATH, 4).await, SECOND_WAY), []);
    assert!(world.requests().iter().all(|(.., request)| request.path_and_query == PATH));
    world.stop().await;
}

/// Lines of one caller's header: its value, as callers send it.
async fn of_header(world: &World, name: &'static str, value: &'static str) -> (LineState, String, String) {
    let headers = HeaderMap::from_iter([(HeaderName::from_static(name), http::HeaderValue::from_static(value))]);
    let lines = told_with(world, &[PATH], headers, 1).await;
    let line = lines.into_iter().find(|line| line.check == "header-passed" && line.subject == PATH).unwrap();
    (line.state, line.saw, line.advice)
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_with_what_makes_another_request() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "own").unwrap();
    let own = format!("identity = \"sidecar\"\ncredentials = {{ file = \"{}\" }}", file.path().display());
    for (settings, name, value, saw) in [
        ("", "x-http-method-override", "PUT", "makes a write of a read"),
        (&own, "x-http-method-override", "PUT", "goes to no region beside the sidecar's own credentials"),
        (&own, "x-original-url", "/b", "goes to no region beside the sidecar's own credentials"),
        (&own, "impersonate-user", "root", "goes to no region beside the sidecar's own credentials"),
    ] {
        let world = world(settings, json("{\"a\":1}").at(7));
        let (state, said, advice) = of_header(&world, name, value).await;
        assert!(state == LineState::Wrong && said.contains(saw), "{name}: {said}");
        assert!(advice.contains("ignore = [") && !advice.contains("forward"), "{advice}");
        let asked = world.requests();
        assert!(!asked.is_empty() && asked.iter().all(|(.., request)| !request.headers.contains_key(name)));
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn another_target_is_asked_for_alone_and_never_forwarded() {
    let world = world("", json("{\"a\":1}").at(7));
    let (state, _, advice) = of_header(&world, "x-original-url", "/b").await;
    assert_eq!(state, LineState::Wrong);
    assert!(advice.contains("ignore = [\"x-original-url\"]"), "{advice}");
    let with = world.requests().iter().filter(|(.., request)| request.headers.contains_key("x-original-url")).count();
    assert_eq!(with, 2 * REGIONS, "twice in each region, and in no race");
    world.set_all(10, json("{\"a\":1}").at(7).with("vary", "X-Original-URL"));
    let (state, saw, advice) = of_header(&world, "x-original-url", "/b").await;
    assert!(state == LineState::Well && saw.contains("makes another request of it"), "{saw}: {advice}");
    world.stop().await;
    let vary = json("{\"a\":1}").at(7).with("vary", "X-Original-URL");
    let world = self::world("ignore = [\"x-original-url\"]", vary);
    let (state, _, advice) = of_header(&world, "x-original-url", "/b").await;
    assert_eq!((state, advice.as_str()), (LineState::Wrong, "take x-original-url out of the route's ignore"));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn headers_are_compared_by_the_way_that_answers() {
    let world = two_ways("way = \"new\"");
    world.set_second(json("{\"a\":1,\"b\":1}").at(7).with("vary", "X-Tenant"));
    let (state, saw, _) = of_header(&world, "x-tenant", "acme").await;
    assert!(state == LineState::Wrong && saw.contains("say that they vary by x-tenant"), "{saw}");
    world.stop().await;
}
