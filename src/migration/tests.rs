//! Old, new and back over a whole sidecar in virtual time.

use http::header;

use crate::config::{MigrationMode, Share};
use crate::request::scripted::{A, Act, REGIONS, SECOND, Say, World, ms, shows, status, tombstone};

const PATH: &str = "/v1/moved/k?x=1";

fn all(say: Say) -> [(u64, Act); REGIONS] {
    [(10, say.clone().into()), (20, say.clone().into()), (30, say.into())]
}

/// `/v1/moved/{key}` shows `context:{key}`, and so does `/v2/of/{key}` below the same regions.
fn world(candidate: &str, current: Say) -> World {
    let route = format!(
        "[[service.route]]\npath = \"/v1/moved/{{key}}\"\nrecords = [\"context:{{key}}\"]\n\
         candidate = {{ path = \"/v2/of/{{key}}\", {candidate} }}\n[freshness]\nstrict = true\n"
    );
    World::with(&route, all(current))
}

fn go(world: &mut World, mode: MigrationMode, share: f64) {
    world.reload(|config| {
        let candidate = config.service.routes.iter_mut().find_map(|route| route.candidate.as_mut()).unwrap();
        (candidate.mode, candidate.new_share) = (mode, Share::of(share));
    });
}

#[tokio::test(start_paused = true)]
async fn upstreams_have_own_entries_and_paths() {
    let mut world = world("mode = \"old\"", shows(7));
    world.set_candidate(shows(7).with("x-upstream", "candidate"));
    world.live().await;
    let current = world.get(PATH).await;
    assert!(current.header("x-upstream").is_empty() && current.is_stored());
    go(&mut world, MigrationMode::New, 1.0);
    world.asked();
    let candidate = world.get(PATH).await;
    assert_eq!((candidate.status, candidate.header("x-upstream"), candidate.is_hit()), (200, "candidate", false));
    let asked: Vec<_> = world.requests().into_iter().map(|(.., request)| request.path_and_query.clone()).collect();
    assert_eq!(asked, ["/v2/of/k?x=1"; REGIONS]);
    assert_eq!(world.get(PATH).await.header("x-upstream"), "candidate");
    go(&mut world, MigrationMode::Old, 1.0);
    let back = world.get(PATH).await;
    assert!(
        back.header("x-upstream").is_empty() && back.is_hit(),
        "what the current upstream brought is still there"
    );
    assert_eq!(world.asked(), vec![]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn switching_upstreams_never_serves_below_floor() {
    let mut world = world("versions = \"own\"", shows(7));
    world.set_candidate(shows(900_000));
    world.live().await;
    assert_eq!(world.get(PATH).await.body, "7");
    for (mode, body) in [
        (MigrationMode::New, "900000"),
        (MigrationMode::Old, "7"),
        (MigrationMode::New, "900000"),
        (MigrationMode::Old, "7"),
    ] {
        go(&mut world, mode, 1.0);
        let answer = world.get(PATH).await;
        assert_eq!((answer.status, &*answer.body, answer.label()), (200, body, None), "{mode:?}");
        world.pass(SECOND).await;
        world.asked();
        for _ in 0..20 {
            let again = world.get(PATH).await;
            assert!(again.is_hit() && again.label().is_none(), "{mode:?}: {}", again.line);
            world.pass(ms(200)).await;
        }
        assert_eq!(world.asked(), vec![], "{mode:?}: nothing is asked for again");
        assert_eq!(world.floor("k"), 7, "no floor heard of the candidate's numbers");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn current_upstreams_announcements_refresh_candidate() {
    let mut world = world("versions = \"own\", mode = \"new\"", shows(7));
    world.set_candidate(shows(500));
    world.live().await;
    assert_eq!(world.get(PATH).await.body, "500");
    world.set_candidate(shows(3));
    world.announce(A, "k", 8);
    world.pass(SECOND).await;
    let answer = world.get(PATH).await;
    assert_eq!((&*answer.body, answer.label()), ("3", None), "a lower number of its own is no step back");
    world.set_all(10, shows(8));
    go(&mut world, MigrationMode::Old, 1.0);
    let answer = world.get(PATH).await;
    assert_eq!((answer.status, &*answer.body, answer.label()), (200, "8", None));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deletion_under_own_versions_yields_404() {
    let mut world = world("versions = \"own\", mode = \"new\"", shows(7));
    world.set_candidate(shows(500));
    world.live().await;
    world.get(PATH).await;
    world.set_candidate(tombstone(501));
    world.delete(A, "k", 8);
    world.pass(SECOND).await;
    let answer = world.get(PATH).await;
    assert_eq!((answer.status, answer.label()), (404, None));
    world.set_all(10, tombstone(8));
    go(&mut world, MigrationMode::Old, 1.0);
    assert_eq!(world.get(PATH).await.status, 404);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn larger_share_keeps_already_moved_records() {
    let mut world = world("mode = \"old\"", shows(7));
    world.set_candidate(status(410));
    let mut moved = Vec::new();
    for share in [0.0, 0.2, 0.6, 1.0] {
        go(&mut world, MigrationMode::New, share);
        let mut now = Vec::new();
        for key in 0..50 {
            if world.get(&format!("/v1/moved/k{key}")).await.status == 410 {
                now.push(key);
            }
        }
        assert!(moved.iter().all(|key| now.contains(key)), "{share}: {moved:?} {now:?}");
        let expected = (share * 50.0) as usize;
        assert!(now.len().abs_diff(expected) <= 12, "{share}: {}", now.len());
        moved = now;
    }
    assert_eq!(moved.len(), 50);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn replaced_candidate_shares_no_entries() {
    let mut world = world("mode = \"new\"", shows(7));
    world.set_candidate(shows(7).with("x-upstream", "candidate"));
    world.get(PATH).await;
    world.reload(|config| {
        let candidate = config.service.routes.iter_mut().find_map(|route| route.candidate.as_mut()).unwrap();
        candidate.path = Some(crate::config::PathTemplate::parse("/v2/other/{key}").unwrap());
    });
    world.asked();
    assert!(!world.get(PATH).await.is_hit());
    assert!(world.requests().iter().all(|(.., request)| request.path_and_query == "/v2/other/k?x=1"));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn other_service_gets_only_own_credentials() {
    let files = tempfile::tempdir().unwrap();
    let [own, others] = ["own-token", "other-token"].map(|name| {
        std::fs::write(files.path().join(name), name).unwrap();
        files.path().join(name).display().to_string()
    });
    for (candidate, expected) in [
        ("path = \"/v2/of/{key}\"".to_owned(), Some("Bearer own-token")),
        (format!("path = \"/v2/of/{{key}}\", credentials_file = \"{others}\""), Some("Bearer other-token")),
        ("url = \"http://127.0.0.1:2/{region}\"".to_owned(), None),
        (
            format!("url = \"http://127.0.0.1:2/{{region}}\", credentials_file = \"{others}\""),
            Some("Bearer other-token"),
        ),
    ] {
        let route = format!(
            "[[service.route]]\npath = \"/v1/moved/{{key}}\"\nrecords = [\"context:{{key}}\"]\nidentity = \"sidecar\"\n\
             credentials = {{ file = \"{own}\", prefix = \"Bearer \" }}\ncandidate = {{ {candidate}, mode = \"new\" }}\n"
        );
        let world = World::with(&route, all(shows(7)));
        world.get(PATH).await;
        let requests = world.requests();
        assert_eq!(requests.len(), REGIONS);
        for (.., request) in requests {
            let sent = request.headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap());
            assert_eq!(sent, expected, "{candidate}");
        }
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn passed_reads_use_answering_upstream() {
    let mut world = world("mode = \"old\"", shows(7));
    world.set_candidate(shows(7).with("x-upstream", "candidate"));
    for (mode, path) in
        [(MigrationMode::Old, "/v1/moved/x"), (MigrationMode::Check, "/v1/moved/x"), (MigrationMode::New, "/v2/of/x")]
    {
        go(&mut world, mode, 1.0);
        world.requests();
        let answer = world.get_with("/v1/moved/x", "x-tenant", "acme").await;
        let asked = world.requests();
        assert_eq!((asked.len(), asked[0].2.path_and_query.as_str()), (1, path), "{mode:?}");
        assert_eq!(asked[0].2.headers["x-tenant"], "acme");
        assert_eq!(answer.header("x-upstream").is_empty(), mode != MigrationMode::New, "{mode:?}");
    }
    world.stop().await;
}
