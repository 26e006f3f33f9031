//! A doctor over regions that answer by a script, in virtual time.

use super::*;
use crate::admin::findings::report::LineState;
use crate::request::scripted::{A, Act, B, REGIONS, SECOND, World, json, status};

const PATH: &str = "/v1/moved/k";
const EDITION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/payload/editions.binpb#nearside.editions.Edition");

fn moved(candidate: &str) -> World {
    let settings = format!("candidate = {{ path = \"/v2/of/{{key}}\", {candidate} }}");
    World::moved(&settings, json("{\"a\":1,\"b\":1}").at(7))
}

/// Lines of a doctor on the path, after listening for so many seconds.
async fn reported(world: &World, path: &str, seconds: u32) -> Vec<ReportLine> {
    reported_with(world, &[path], HeaderMap::new(), seconds).await
}

async fn reported_with(world: &World, paths: &[&str], headers: HeaderMap, seconds: u32) -> Vec<ReportLine> {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    let order = DoctorOrder { paths, headers, listen: seconds * SECOND };
    let (clock, origin) = (world.sidecar.fill.shared.clock.clone(), world.script.clone());
    let instead = Overrides { clock, origin: Some(origin), ..Overrides::default() };
    examine(world.sidecar.fill.config.clone(), order, instead).await.unwrap()
}

/// The lines of one check: their states, and what they saw.
fn of(lines: &[ReportLine], check: &str) -> Vec<(LineState, String)> {
    lines.iter().filter(|line| line.check == check).map(|line| (line.state, line.saw.clone())).collect()
}

/// The line about the candidate, which is the same in all regions.
async fn about_candidate(world: &World, seconds: u32) -> (LineState, String) {
    let lines = reported(world, PATH, seconds).await;
    let mut found = of(&lines, CANDIDATE);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(lines.iter().all(|line| line.state == LineState::Well || !line.advice.is_empty()), "{lines:#?}");
    found.remove(0)
}

#[tokio::test(start_paused = true)]
async fn undecodable_region_is_reported_wrong() {
    for (coding, saw) in [
        ("zstd", "the last one said `zstd`, and its bytes are not that"),
        ("br", "the last one came in the coding `br`, which was not asked for"),
        ("gzip, zstd", "in several codings one behind the other (`gzip, zstd`)"),
    ] {
        let world = World::moved("compression = \"zstd\"", json("{\"a\":1}").at(7));
        world.set(A, 1, json("{\"a\":1}").at(7).with("content-encoding", coding));
        // Replies of other routes hide nothing of it.
        let lines = reported_with(&world, &[PATH, "/v1/contexts/k/v"], HeaderMap::new(), 4).await;
        let [odd, well] =
            ["a", "b"].map(|name| lines.iter().find(|line| line.check == "coding" && line.subject == name).unwrap());
        assert_eq!((odd.state, well.state), (LineState::Wrong, LineState::Well));
        assert!(odd.saw.contains(saw) && !odd.advice.is_empty(), "{}", odd.saw);
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn fields_missing_in_schema_are_refused() {
    let settings = format!("fields = \"fields\"\nschema = \"{EDITION}\"");
    let world = World::moved(&settings, json("{}").at(7));
    let lines = reported(&world, "/v1/moved/k?fields=nope", 4).await;
    let saw = "the sidecar itself answers 400 and asks no region: the path \"nope\" leads to no field of this record";
    assert_eq!(of(&lines, "shape"), [(LineState::Wrong, saw.to_owned())]);
    assert_eq!(lines.iter().filter(|line| line.state == LineState::Wrong).count(), 1);
    assert_eq!(world.asked(), []);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn schema_misfit_explains_what_callers_get() {
    let settings = format!("schema = \"{EDITION}\"");
    let world = World::moved(&settings, json("{").at(7));
    let accept = http::HeaderValue::from_static("application/x-protobuf");
    let headers = HeaderMap::from_iter([(http::header::ACCEPT, accept)]);
    let lines = reported_with(&world, &[PATH], headers, 4).await;
    let reported = of(&lines, "shape");
    assert!(
        reported[0].0 == LineState::Wrong && reported[0].1.starts_with("the sidecar itself answers 502: "),
        "{reported:?}"
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn candidate_is_always_reported() {
    for mode in ["mode = \"check\"", "mode = \"new\", new_share = 0.000001", "mode = \"new\", new_share = 1"] {
        let world = moved(mode);
        world.set_candidate(json("{\"b\":1.0, \"a\":1}").at(7));
        assert_eq!(about_candidate(&world, 4).await, (LineState::Well, "it does in a, b and c".to_owned()), "{mode}");
        for (candidate, wrong) in [
            (Act::Say(json("{\"a\":1,\"b\":\"secret\"}").at(7)), "differs: the two differ in /b in a, b and c"),
            (status(404).at(7).into(), "differs: the two differ in (record) in a, b and c"),
            (status(401).into(), "refused: in a, b and c it refuses or redirects"),
            (status(301).into(), "refused: in a, b and c it refuses or redirects"),
            (status(503).into(), "failed: in a, b and c it gave no answer in time"),
            (Act::Hang, "failed: in a, b and c it gave no answer in time"),
            (Act::Say(json("{").at(7)), "unreadable: what one of the two says in a, b and c"),
        ] {
            world.set_candidate(candidate);
            let (state, saw) = about_candidate(&world, 4).await;
            assert!(state == LineState::Wrong && saw.starts_with(wrong), "{mode}: {saw}");
            assert!(!saw.contains("secret"));
        }
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn candidates_are_reported_per_region() {
    let world = moved("mode = \"check\"");
    world.set(B, 20, status(503));
    let lines = reported(&world, PATH, 4).await;
    let unseen = "not compared in b: the current upstream gave nothing to compare with".to_owned();
    let well = (LineState::Well, "it does in a and c".to_owned());
    assert_eq!(of(&lines, CANDIDATE), [well, (LineState::Unchecked, unseen)]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn single_candidate_read_is_not_overstated() {
    let world = moved("mode = \"check\", versions = \"own\"");
    world.set_candidate(json("{\"a\":2,\"b\":2}").at(900));
    let once = "the two differ in /a, /b in a, b and c, read once: the record may have changed between".to_owned();
    assert_eq!(about_candidate(&world, 4).await, (LineState::Unchecked, once));
    let changed = async {
        tokio::time::sleep(5 * SECOND).await;
        world.set_candidate(json("{\"a\":1,\"b\":3}").at(901));
    };
    let (again, ()) = tokio::join!(about_candidate(&world, 15), changed);
    assert_eq!(again, (LineState::Wrong, "differs: the two differ in /b in a, b and c".to_owned()));
    world.set_candidate(Act::Hang);
    let late = (LineState::Unchecked, "not compared in this time in a, b and c".to_owned());
    assert_eq!(about_candidate(&world, 1).await, late);
    world.stop().await;
    let world = moved("mode = \"check\"");
    world.set_candidate(json("{\"a\":1,\"b\":1}").at(900));
    let once = "the two state different versions in a, b and c, read once: the record may have changed between";
    assert_eq!(about_candidate(&world, 4).await, (LineState::Unchecked, once.to_owned()));
    let (state, saw) = about_candidate(&world, 15).await;
    assert!(state == LineState::Wrong && saw.starts_with("version-differs: in a, b and c it states other"), "{saw}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unasked_candidate_has_no_line() {
    let world = moved("mode = \"old\"");
    assert_eq!(of(&reported(&world, PATH, 4).await, CANDIDATE), []);
    assert!(world.requests().iter().all(|(.., request)| request.path_and_query == PATH));
    world.stop().await;
}

/// Lines of one caller's header: its value, as callers send it.
async fn of_header(world: &World, name: &'static str, value: &'static str) -> (LineState, String, String) {
    let headers =
        HeaderMap::from_iter([(http::HeaderName::from_static(name), http::HeaderValue::from_static(value))]);
    let lines = reported_with(world, &[PATH], headers, 1).await;
    let line = lines.into_iter().find(|line| line.check == "header-passed" && line.subject == PATH).unwrap();
    (line.state, line.saw, line.advice)
}

#[tokio::test(start_paused = true)]
async fn method_override_headers_are_never_sent() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "own").unwrap();
    let own = format!("identity = \"sidecar\"\ncredentials = {{ file = \"{}\" }}", file.path().display());
    for (settings, name, value, saw) in [
        ("", "x-http-method-override", "PUT", "makes a write of a read"),
        (&own, "x-http-method-override", "PUT", "goes to no region beside the sidecar's own credentials"),
        (&own, "x-original-url", "/b", "goes to no region beside the sidecar's own credentials"),
        (&own, "impersonate-user", "root", "goes to no region beside the sidecar's own credentials"),
    ] {
        let world = World::moved(settings, json("{\"a\":1}").at(7));
        let (state, said, advice) = of_header(&world, name, value).await;
        assert!(state == LineState::Wrong && said.contains(saw), "{name}: {said}");
        assert!(advice.contains("ignore = [") && !advice.contains("forward"), "{advice}");
        let asked = world.requests();
        assert!(!asked.is_empty() && asked.iter().all(|(.., request)| !request.headers.contains_key(name)));
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn target_override_is_never_forwarded() {
    let world = World::moved("", json("{\"a\":1}").at(7));
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
    let world = self::World::moved("ignore = [\"x-original-url\"]", vary);
    let (state, _, advice) = of_header(&world, "x-original-url", "/b").await;
    assert_eq!((state, advice.as_str()), (LineState::Wrong, "take x-original-url out of the route's ignore"));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn headers_are_compared_on_answering_upstream() {
    let world = moved("mode = \"new\"");
    world.set_candidate(json("{\"a\":1,\"b\":1}").at(7).with("vary", "X-Tenant"));
    let (state, saw, _) = of_header(&world, "x-tenant", "acme").await;
    assert!(state == LineState::Wrong && saw.contains("say that they vary by x-tenant"), "{saw}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn record_change_hides_no_header_effect() {
    let world = World::moved("", json("{\"a\":1}").at(7).with("vary", "X-Tenant"));
    world.set_all(20, json("{\"a\":1}").at(7).with("vary", "X-Tenant"));
    let changed = async {
        // Until it is asked for without the header.
        while world.requests().iter().all(|(.., request)| request.headers.contains_key("x-tenant")) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        world.set_all(20, json("{\"a\":2}").at(8).with("vary", "X-Tenant"));
    };
    let ((state, saw, _), ()) = tokio::join!(of_header(&world, "x-tenant", "acme"), changed);
    assert!(state == LineState::Wrong && saw.contains("say that they vary by x-tenant"), "{saw}");
    world.stop().await;
}
