//! AWS out of reach of every role, refused and silent: each says so on its pages and to
//! `nearside health`, and takes it back.

use std::time::Duration;

use futures_util::future::join_all;
use nearside::model::time::{Clock, Moment};
use nearside::tasks::Tasks;

use super::super::deployed::Service;
use super::super::emulator::{Emulator, REGIONS};
use super::super::program::{run, text};
use super::super::relay::{Relay, Treatment};
use super::emulated::{configure, set_up};

/// Promised, and what a loaded machine adds.
const SHOWN: Duration = Duration::from_secs(10 + 5);

/// Each role, and the places whose reads fail.
const ROLES: [(&[&str], &[&str]); 4] = [
    (&["catalogue"], &["home"]),
    (&["views"], &["home"]),
    (&["region", "--name", REGIONS[1], "--role", "ingest"], &["home", REGIONS[1]]),
    (&["region", "--name", REGIONS[1], "--role", "node"], &[REGIONS[1]]),
];

/// Waits for all of the reasons; returns how long that took.
async fn shown(service: &Service, places: &[&str], since: Moment) -> Duration {
    for place in places {
        let status = service.ready_says(&format!("{place}: reads have failed or had no answer for ")).await;
        assert_eq!(status, 200, "nobody is helped by going elsewhere");
    }
    Clock::System.now() - since
}

async fn serves_without_reasons(service: &Service) {
    let nothing = r#""reasons":[]"#;
    assert_eq!(service.ready_says(nothing).await, 200);
    assert_eq!(service.json("/readyz").await["state"], "serving");
}

/// The relay passes on while the test waits for `nearside health`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreachable_store_is_reported_until_back() {
    let (directory, tasks) = (tempfile::tempdir().unwrap(), Tasks::new());
    let (file, _) = configure(&directory, "out-of-reach");
    set_up(&file);
    let emulator = Emulator::shared().url();
    let relay = Relay::before(emulator.port().unwrap(), &tasks).await;
    let settings = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, settings.replace(emulator.as_str().trim_end_matches('/'), &relay.url())).unwrap();
    let services = join_all(ROLES.iter().map(|(command, _)| Service::start(command, &file))).await;
    join_all(services.iter().map(serves_without_reasons)).await;
    for treatment in [Treatment::Refused, Treatment::Silent] {
        relay.set(treatment);
        let since = Clock::System.now();
        let looks = services.iter().zip(ROLES).map(|(service, (_, places))| shown(service, places, since));
        let took = join_all(looks).await;
        assert!(took.iter().all(|took| *took <= SHOWN), "{treatment:?}: {took:?}");
        for service in &services {
            let health = run(&["health", "--admin", service.admin()]);
            let said = text(&health.stdout);
            assert!(health.status.success() && said.contains("reads have failed"), "{treatment:?}: {health:?}");
        }
        relay.set(Treatment::Open);
        join_all(services.iter().map(serves_without_reasons)).await;
    }
    for service in services {
        assert_eq!(service.terminated().await, Some(0));
    }
    tasks.drain(Duration::ZERO).await;
}
