//! All roles as processes of the program, on the emulator's tables, streams and topics.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::super::deployed::Service;
use super::super::emulator::{Emulator, REGIONS};
use super::super::program::{self, Program, path, text};
use super::deployment::{Reach, service_file, sidecar_settings};
use super::{assert_all_serve, measure, tell_the_story};

const CHANGES: u64 = 20;
/// Far above what it takes: 0.6 s.
const PROMISED: Duration = Duration::from_secs(20);

struct Processes {
    services: Vec<Service>,
    sidecar: Program,
    reach: Reach,
    _directory: TempDir,
}

impl Processes {
    /// Two regions, in tables of this prefix.
    async fn start(prefix: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (file, topics) = configure(&directory, prefix);
        set_up(&file);
        let (url, regions) = (Emulator::shared().url(), &REGIONS[..2]);
        let mut services = vec![Service::start(&["catalogue"], &file).await, Service::start(&["views"], &file).await];
        for region in regions {
            services.push(Service::start(&["region", "--name", region], &file).await);
        }
        let nodes: Vec<_> =
            (0..2).map(|at| (regions[at], topics[at].as_str(), services[at + 2].listen().to_owned())).collect();
        let sidecar = Program::start(&sidecar_settings(url.as_str().trim_end_matches('/'), &nodes)).await;
        let names = ["catalogue", "views", regions[0], regions[1]].map(str::to_owned);
        let admins = names.into_iter().zip(services.iter().map(|service| service.admin().to_owned()));
        let admins = admins.chain([("sidecar".to_owned(), sidecar.admin.to_string())]).collect();
        let catalogue = services[0].listen().to_owned();
        let nodes = nodes.into_iter().map(|(.., address)| address).collect();
        let reach = Reach::new(catalogue, sidecar.tcp.to_string(), nodes, admins);
        reach.ready().await;
        Self { services, sidecar, reach, _directory: directory }
    }

    async fn stop(mut self) {
        self.sidecar.signal(rustix::process::Signal::TERM);
        assert_eq!(self.sidecar.ended().await.code(), Some(0));
        for service in self.services.into_iter().rev() {
            assert_eq!(service.terminated().await, Some(0));
        }
    }
}

/// The services' file for two regions in tables of this prefix, and their topics.
pub(super) fn configure(directory: &TempDir, prefix: &str) -> (PathBuf, Vec<String>) {
    let (url, regions) = (Emulator::shared().url(), &REGIONS[..2]);
    let url = url.as_str().trim_end_matches('/');
    let topics: Vec<_> = regions.iter().map(|region| format!("arn:aws:sns:{region}:000000000000:{prefix}")).collect();
    let engine =
        format!("kind = \"aws\"\nregion = \"{}\"\nprefix = \"{prefix}\"\nendpoint_url = \"{url}\"", regions[0],);
    let named: Vec<_> = regions.iter().zip(&topics).map(|(name, topic)| (*name, topic.as_str())).collect();
    (service_file(directory.path(), &engine, &named), topics)
}

/// Twice: what is there already stays as it is.
pub(super) fn set_up(file: &Path) {
    for said in ["created", "was there"] {
        let output = program::run(&["setup", "--config", path(file)]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let lines: Vec<_> = text(&output.stdout).lines().collect();
        // Six tables, two with a time to live, two streams and the tables' streaming to them; two
        // tables and a topic of each region.
        assert_eq!(lines.len(), 6 + 2 + 2 * 2 + 2 * (2 + 1), "{lines:#?}");
        assert!(lines.iter().all(|line| line.ends_with(said)), "{lines:#?}");
    }
}

#[tokio::test]
async fn processes_carry_each_change_to_caller() {
    let whole = Processes::start("whole").await;
    tell_the_story(&whole.reach).await;
    assert_all_serve(&whole.reach).await;
    let slowest = measure(&whole.reach, "emulator", CHANGES).await;
    assert!(slowest < PROMISED, "{slowest:?}");
    whole.stop().await;
}

#[tokio::test]
async fn missing_tables_name_remedy_then_serve() {
    let directory = tempfile::tempdir().unwrap();
    let (file, topics) = configure(&directory, "lacking");
    let topic = format!("us-east-1: {} does not exist", topics[1]);
    let catalogue = Service::start(&["catalogue"], &file).await;
    let region = Service::start(&["region", "--name", REGIONS[1]], &file).await;
    for (service, lacking) in [
        (&catalogue, vec!["home: lacking-records does not exist", "home: lacking-requests does not exist"]),
        (&region, vec!["home: lacking-views does not exist", "us-east-1: lacking-contexts does not exist", &topic]),
    ] {
        let (status, said) = service.page("/readyz").await;
        assert_eq!(status, 503, "{said}");
        for lacking in lacking {
            assert!(said.contains(lacking) && said.contains("create it (`nearside setup`)"), "{said}");
        }
    }
    catalogue.line_with("home: lacking-history does not exist: create it (`nearside setup`)").await;
    set_up(&file);
    for service in [&catalogue, &region] {
        service.line("all that this process needs is there").await;
        assert!(!service.page("/status").await.1.contains("nearside setup"));
    }
    assert_eq!(region.terminated().await, Some(0));

    let clients = Emulator::shared().sdk().engine_clients(REGIONS[0]).await;
    clients.tables.delete_table().table_name("lacking-history").send().await.unwrap();
    let url = format!("http://{}/v1/records/tenant/acme", catalogue.listen());
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let write = client.put(&url).header("content-type", "application/json").body("{}");
    assert_eq!(write.try_clone().unwrap().send().await.unwrap().status(), 500);
    let deleted = "home: lacking-history does not exist: create it (`nearside setup`)";
    assert_eq!(catalogue.ready_says(deleted).await, 200, "a table that was deleted later is reported too");
    catalogue.line_with(deleted).await;
    let output = program::run(&["setup", "--config", path(&file)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(write.send().await.unwrap().status().is_success());
    assert_eq!(catalogue.terminated().await, Some(0));
}

#[tokio::test]
async fn regionless_file_sets_up_home_only() {
    let directory = tempfile::tempdir().unwrap();
    let (file, _) = configure(&directory, "home-only");
    let home = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, home.split("[[region]]").next().unwrap()).unwrap();
    let output = program::run(&["setup", "--config", path(&file)]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(said.lines().filter(|line| line.ends_with(": created")).count(), 6 + 2 + 2 * 2, "{said}");
    assert!(said.lines().last().unwrap().starts_with("no region's tables and no topic: "), "{said}");
    let verified = program::run(&["verify", "--config", path(&file), "--wait", "0s"]);
    let said = text(&verified.stdout);
    assert!(said.contains("not compared: any region") && said.contains("nothing was compared: "), "{said}");
    assert_eq!(verified.status.code(), Some(1), "{said}");
}
