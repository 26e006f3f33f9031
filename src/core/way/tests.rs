//! Old, new and back over a whole core in virtual time.

use http::header;

use crate::config::{Share, Way};
use crate::core::scripted::{A, Act, REGIONS, SECOND, Say, World, ms, shows, status, tombstone};

const PATH: &str = "/v1/moved/k?x=1";

fn all(say: Say) -> [(u64, Act); REGIONS] {
    [(10, say.clone().into()), (20, say.clone().into()), (30, say.into())]
}

/// `/v1/moved/{key}` shows `context:{key}`, and so does `/v2/of/{key}` below the same regions.
fn world(second: &str, first: Say) -> World {
    let route = format!(
        "[[service.route]]\npath = \"/v1/moved/{{key}}\"\nrecords = [\"context:{{key}}\"]\n\
         second = {{ path = \"/v2/of/{{key}}\", {second} }}\n[freshness]\nstrict = true\n"
    );
    World::with(&route, all(first))
}

fn go(world: &mut World, way: Way, share: f64) {
    world.reload(|config| {
        let second = config.service.routes.iter_mut().find_map(|route| route.second.as_mut()).unwrap();
        (second.way, second.new_share) = (way, Share::of(share));
    });
}

#[tokio::test(start_paused = true)]
async fn each_way_serves_what_it_brought_and_the_second_is_asked_at_its_own_path() {
    let mut world = world("way = \"old\"", shows(7));
    world.set_second(shows(7).with("x-way", "second"));
    world.live().await;
    let first = world.get(PATH).await;
    assert!(first.header("x-way").is_empty() && first.is_stored());
    go(&mut world, Way::New, 1.0);
    world.asked();
    let second = world.get(PATH).await;
    assert_eq!((second.status, second.header("x-way"), second.is_hit()), (200, "second", false));
    let asked: Vec<_> = world.requests().into_iter().map(|(.., request)| request.path_and_query.clone()).collect();
    assert_eq!(asked, ["/v2/of/k?x=1"; REGIONS]);
    assert_eq!(world.get(PATH).await.header("x-way"), "second");
    go(&mut world, Way::Old, 1.0);
    let back = world.get(PATH).await;
    assert!(back.header("x-way").is_empty() && back.is_hit(), "what the first way brought is still there");
    assert_eq!(world.asked(), vec![]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn old_new_old_with_unrelated_numbers_serves_nobody_below_and_asks_no_more_than_it_must() {
    let mut world = world("versions = \"own\"", shows(7));
    world.set_second(shows(900_000));
    world.live().await;
    assert_eq!(world.get(PATH).await.body, "7");
    for (way, body) in [(Way::New, "900000"), (Way::Old, "7"), (Way::New, "900000"), (Way::Old, "7")] {
        go(&mut world, way, 1.0);
        let answer = world.get(PATH).await;
        assert_eq!((answer.status, &*answer.body, answer.label()), (200, body, None), "{way:?}");
        world.pass(SECOND).await;
        world.asked();
        for _ in 0..20 {
            let again = world.get(PATH).await;
            assert!(again.is_hit() && again.label().is_none(), "{way:?}: {}", again.line);
            world.pass(ms(200)).await;
        }
        assert_eq!(world.asked(), vec![], "{way:?}: nothing is asked for again");
        assert_eq!(world.floor("k"), 7, "no floor heard of the second way's numbers");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn announcements_of_the_first_ways_numbers_refresh_the_second_and_hold_on_the_way_back() {
    let mut world = world("versions = \"own\", way = \"new\"", shows(7));
    world.set_second(shows(500));
    world.live().await;
    assert_eq!(world.get(PATH).await.body, "500");
    world.set_second(shows(3));
    world.announce(A, "k", 8);
    world.pass(SECOND).await;
    let answer = world.get(PATH).await;
    assert_eq!((&*answer.body, answer.label()), ("3", None), "a lower number of its own is no step back");
    world.set_all(10, shows(8));
    go(&mut world, Way::Old, 1.0);
    let answer = world.get(PATH).await;
    assert_eq!((answer.status, &*answer.body, answer.label()), (200, "8", None));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_by_a_way_of_its_own_numbers_ends_in_an_absence_and_not_in_a_504() {
    let mut world = world("versions = \"own\", way = \"new\"", shows(7));
    world.set_second(shows(500));
    world.live().await;
    world.get(PATH).await;
    world.set_second(tombstone(501));
    world.delete(A, "k", 8);
    world.pass(SECOND).await;
    let answer = world.get(PATH).await;
    assert_eq!((answer.status, answer.label()), (404, None));
    world.set_all(10, tombstone(8));
    go(&mut world, Way::Old, 1.0);
    assert_eq!(world.get(PATH).await.status, 404);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_share_moves_the_same_records_each_time_and_a_larger_one_keeps_them() {
    let mut world = world("way = \"old\"", shows(7));
    world.set_second(status(410));
    let mut moved = Vec::new();
    for share in [0.0, 0.2, 0.6, 1.0] {
        go(&mut world, Way::New, share);
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
async fn another_second_way_serves_nothing_of_the_one_before() {
    let mut world = world("way = \"new\"", shows(7));
    world.set_second(shows(7).with("x-way", "second"));
    world.get(PATH).await;
    world.reload(|config| {
        let second = config.service.routes.iter_mut().find_map(|route| route.second.as_mut()).unwrap();
        second.path = Some(crate::config::PathTemplate::parse("/v2/other/{key}").unwrap());
    });
    world.asked();
    assert!(!world.get(PATH).await.is_hit());
    assert!(world.requests().iter().all(|(.., request)| request.path_and_query == "/v2/other/k?x=1"));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn another_service_gets_its_own_credentials_and_never_the_routes() {
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        std::fs::write(files.path().join(name), name).unwrap();
        files.path().join(name).display().to_string()
    };
    let (own, others) = (file("own-token"), file("other-token"));
    for (second, expected) in [
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
             credentials = {{ file = \"{own}\", prefix = \"Bearer \" }}\nsecond = {{ {second}, way = \"new\" }}\n"
        );
        let world = World::with(&route, all(shows(7)));
        world.get(PATH).await;
        let requests = world.requests();
        assert_eq!(requests.len(), REGIONS);
        for (.., request) in requests {
            let sent = request.headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap());
            assert_eq!(sent, expected, "{second}");
        }
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn passed_reads_go_the_way_that_answers() {
    let mut world = world("way = \"old\"", shows(7));
    world.set_second(shows(7).with("x-way", "second"));
    for (way, path) in [(Way::Old, "/v1/moved/x"), (Way::Check, "/v1/moved/x"), (Way::New, "/v2/of/x")] {
        go(&mut world, way, 1.0);
        world.requests();
        let answer = world.get_with("/v1/moved/x", "x-tenant", "acme").await;
        let asked = world.requests();
        assert_eq!((asked.len(), asked[0].2.path_and_query.as_str()), (1, path), "{way:?}");
        assert_eq!(asked[0].2.headers["x-tenant"], "acme");
        assert_eq!(answer.header("x-way").is_empty(), way != Way::New, "{way:?}");
    }
    world.stop().await;
}
