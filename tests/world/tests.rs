//! Tests of the world that the other tests run against: what regions ingest, and when.

use std::time::Duration;

use http::StatusCode;
use nearside::tasks::TaskGroup;
use nearside_lab::chaos_server::reply::problem;

use super::World;

const PATH: &str = "/v1/contexts/tenant-1";
const HOUR: Duration = Duration::from_secs(3600);

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap()
}

async fn world() -> World {
    World::builder().regions(1).records(3).start().await.unwrap()
}

#[tokio::test]
async fn held_replies_show_state_at_arrival() {
    let world = world().await;
    let region = world.region(0);
    let held = world.hold().await;
    let mut readers = TaskGroup::new();
    for _ in 0..50 {
        let url = format!("{}{PATH}", region.url());
        let client = client();
        readers.start(async move {
            let response = client.get(url).send().await.unwrap();
            response.headers()["x-record-version"].to_str().unwrap().to_owned()
        });
    }
    held.until(50).await;
    assert_eq!(world.catalogue.put("tenant-1", "7"), Ok(2));
    world.ingested().await;
    held.release();
    while let Some(version) = readers.next().await {
        assert_eq!(version, "1");
    }
    let now = client().get(format!("{}{PATH}", region.url())).send().await.unwrap();
    assert_eq!(now.headers()["x-record-version"], "2");
}

#[tokio::test]
async fn region_ingests_in_order_after_lag() {
    let world = World::builder().regions(2).records(1).start().await.unwrap();
    world.region(1).turn(|knobs| knobs.lag = HOUR).await;
    world.catalogue.put("tenant-1", "1").unwrap();
    world.catalogue.put("tenant-1", "2").unwrap();
    while world.region(0).cursor() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.region(0).read("tenant-1").unwrap().version, 3);
    assert_eq!(world.region(1).read("tenant-1").unwrap().version, 1);
    assert_eq!((world.region(0).publisher.sequence(), world.region(1).publisher.sequence()), (2, 0));
    world.region(1).turn(|knobs| knobs.lag = Duration::ZERO).await;
    world.ingested().await;
    assert_eq!(world.region(1).read("tenant-1").unwrap().version, 3);
    assert_eq!(world.region(1).publisher.sequence(), 2, "each change was announced");
}

#[tokio::test]
async fn writes_reach_catalogue_bad_ones_refused() {
    let world = world().await;
    let (region, client) = (world.region(0), client());
    let url = format!("{}/v1/contexts/new", region.url());
    assert_eq!(client.put(&url).body("{\"a\":1}").send().await.unwrap().status(), 200);
    assert_eq!(client.put(&url).body("{broken").send().await.unwrap().status(), 422);
    assert_eq!(client.delete(&url).send().await.unwrap().headers()["x-record-version"], "2");
    assert_eq!(client.post(&url).send().await.unwrap().status(), 405);
    assert_eq!(world.catalogue.read("new").unwrap().version, 2);
}

#[tokio::test]
async fn scripted_path_answers_until_script_ends() {
    let world = world().await;
    let (region, client) = (world.region(0), client());
    let url = format!("{}{PATH}", region.url());
    assert!(region.script(PATH, Some(problem(StatusCode::UNAUTHORIZED, "who are you"))));
    assert_eq!(client.get(&url).send().await.unwrap().status(), 401);
    assert!(region.script(PATH, None));
    assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_stopped_world_answers_nowhere() {
    let world = World::builder().regions(2).start().await.unwrap();
    let addresses = [world.region(0).address(), world.region(1).address()];
    world.stop(Duration::from_secs(2)).await;
    for address in addresses {
        assert!(tokio::net::TcpStream::connect(address).await.is_err(), "{address}");
    }
}
