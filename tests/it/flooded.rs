//! A public endpoint that anybody posts rubbish to: each post is refused and counted, and the log
//! stays short.

use std::time::Duration;

use futures_util::future::join_all;
use nearside::telemetry::limits::RATIONED_LINES;
use nearside_lab::chaos_server::port::Port;
use rustix::process::Signal;

use super::program::{Program, settings};
use crate::world::World;

const POSTS: usize = 500;

#[tokio::test]
async fn posted_rubbish_is_refused_and_counted() {
    let world = World::builder().regions(1).records(1).start().await.unwrap();
    let (port, region, base) = (Port::hold(0).unwrap(), world.region(0), &world.aws.base);
    let listen = port.address();
    let rest = format!(
        "[drain]\nlinger = \"0s\"\n[announcements]\ntransport = \"http\"\nendpoint_url = \"{base}\"\n\
         insecure_sns_signer = \"{base}\"\nhttp_listen = \"{listen}\"\nhttp_public_url = \"http://{listen}/in\"\n"
    );
    let url = region.url();
    let reported = [(region.name.as_str(), url.as_str(), region.publisher.topic())];
    let mut program = Program::start(&settings("flooded", &reported, &rest)).await;
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    for _ in 0..POSTS / 50 {
        let posts =
            (0..50).map(|_| client.post(format!("http://{listen}/in/0")).body("{\"Type\":\"Rubbish\"}").send());
        for answer in join_all(posts).await {
            assert!(answer.unwrap().status().is_client_error());
        }
    }
    let (_, metrics) = program.page("/metrics").await;
    let counted: usize = metrics
        .lines()
        .filter(|line| line.starts_with("nearside_announcements_total{") && !line.contains("outcome=\"heartbeat\""))
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<usize>().ok())
        .sum();
    let lines = program.lines();
    let logged = lines.iter().filter(|line| line.contains("an announcement was rejected")).count();
    println!("{POSTS} posts of rubbish: {counted} counted, {logged} lines of {} in all", lines.len());
    assert!(counted >= POSTS, "{metrics}");
    // One window may end in between.
    assert!((1..=2 * RATIONED_LINES.0 as usize).contains(&logged), "{logged}");
    program.until("/readyz", |page| page["state"] == "fresh").await;
    program.signal(Signal::TERM);
    assert!(program.ended().await.success());
    world.stop(Duration::from_secs(5)).await;
}
