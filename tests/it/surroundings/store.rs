//! The store of a service has no room: its pages say so, and callers learn what is certain.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;

use super::super::deployed::Service;
use super::super::program;
use super::within;

/// Longest time until a page says what is wrong.
const SHOWN: Duration = Duration::from_secs(60);

/// A full disk is a limit on the size of files, 3 MiB where the shell counts as POSIX does.
#[tokio::test]
async fn full_disk_refuses_writes_and_degrades() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("service.toml");
    let text = format!(
        "[engine]\nkind = \"embedded\"\ndirectory = \"{}\"\n[catalogue]\nlisten = \"127.0.0.1:0\"\n\
         admin = \"127.0.0.1:0\"\n[[catalogue.type]]\nname = \"tenant\"\n[drain]\nlinger = \"0s\"\n\
         [log]\nformat = \"json\"\n",
        directory.path().join("data").display()
    );
    std::fs::write(&file, text).unwrap();
    let catalogue =
        Service::start_by(within("ulimit -f 6144; exec", &["catalogue", "--config", program::path(&file)])).await;
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let mut refused = None;
    for number in 0..100 {
        let url = format!("http://{}/v1/records/tenant/key-{number}", catalogue.listen());
        let put = http.put(url).header("content-type", "application/json");
        let sent = put.body(json!({"x": "y".repeat(60_000)}).to_string()).send().await.unwrap();
        let (status, body) = (sent.status().as_u16(), sent.text().await.unwrap());
        if status >= 400 {
            refused = Some((number, status, body));
            break;
        }
    }
    let (number, status, body) = refused.expect("the disk becomes full");
    assert!(status == 507 && body.contains("store-full") && body.contains("nothing was written"), "{body}");
    let url = format!("http://{}/v1/records/tenant/key-{number}", catalogue.listen());
    assert_eq!(program::get(&url).await.0, 404, "as it was said");
    let ready = catalogue.json("/readyz").await;
    assert_eq!(ready["state"], "degraded", "{ready}");
    assert!(ready["reasons"][0].as_str().unwrap().contains("the disk is full"), "{ready}");
    let health = program::run(&["health", "--admin", catalogue.admin()]);
    assert!(health.status.success() && program::text(&health.stdout).contains("the disk is full"), "{health:?}");
    let first = format!("http://{}/v1/records/tenant/key-0", catalogue.listen());
    let read = tokio::time::timeout(SHOWN, program::get(&first)).await.expect("reads go on");
    assert_eq!(read.0, 200);
    assert_eq!(catalogue.terminated().await, Some(0));
}

/// An AWS that takes every call and answers none.
#[tokio::test]
async fn stopping_during_start_waits_for_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (file, hole) = (directory.path().join("service.toml"), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let text = format!(
        "[engine]\nkind = \"aws\"\nregion = \"us-east-1\"\nendpoint_url = \"http://{}\"\n\
         [catalogue]\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n[[catalogue.type]]\nname = \"tenant\"\n\
         [drain]\nlinger = \"0s\"\n[log]\nformat = \"json\"\n",
        hole.local_addr().unwrap()
    );
    std::fs::write(&file, text).unwrap();
    let catalogue = Service::begin_by(program::command(&["catalogue", "--config", program::path(&file)]));
    let call = tokio::time::timeout(SHOWN, hole.accept()).await.expect("it calls AWS").unwrap();
    let (code, said) = catalogue.terminated_saying().await;
    assert!(
        code == Some(0) && !said.iter().any(|line| line.contains("AWS cannot be reached")),
        "{code:?}: {said:#?}"
    );
    drop(call);
}

/// Bytes beyond which a file of a service does not grow: as many as its store has, and the room that it
/// asks for now and then is more.
fn size(data: &Path) -> u64 {
    std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).max().unwrap()
}

/// The other roles write by themselves alone: leases, positions, copies.
async fn bears_a_full_disk(role: &str) {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let (file, views, data) = (folder.join("service.toml"), folder.join("views.toml"), folder.join("data"));
    let view = "[[view]]\nname = \"limits\"\ndefinition = 1\nfrom = \"tenant\"\n[view.fields]\nusers = \"/users\"\n";
    std::fs::write(&views, view).unwrap();
    let text = format!(
        "[engine]\nkind = \"embedded\"\ndirectory = \"{}\"\n[views]\nfile = \"{}\"\nadmin = \"127.0.0.1:0\"\n\
         [[region]]\nname = \"eu-west-1\"\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n\
         [drain]\nlinger = \"0s\"\n[log]\nformat = \"json\"\n",
        data.display(),
        views.display()
    );
    std::fs::write(&file, text).unwrap();
    let service = Service::start(&[role], &file).await;
    assert_eq!(service.ready_says("\"serving\"").await, 200);
    service.limit_files(Some(size(&data)));
    assert_eq!(service.ready_says("the disk is full").await, 200, "degraded: it still answers");
    let health = program::run(&["health", "--admin", service.admin()]);
    assert!(health.status.success() && program::text(&health.stdout).contains("the disk is full"), "{health:?}");
    assert_eq!(service.page("/livez").await.0, 200);
    if role == "region" {
        let url = format!("http://{}/v1/contexts/acme/limits", service.listen());
        assert_eq!(program::get(&url).await.0, 404, "reads go on");
    }
    service.limit_files(None);
    assert_eq!(service.ready_says("\"serving\"").await, 200, "there is room again");
    service.limit_files(Some(size(&data)));
    assert_eq!(service.ready_says("the disk is full").await, 200);
    assert_eq!(service.terminated().await, Some(0), "on a full disk too");
}

#[tokio::test]
async fn views_bear_a_full_disk() {
    bears_a_full_disk("views").await;
}

#[tokio::test]
async fn a_region_bears_a_full_disk() {
    bears_a_full_disk("region").await;
}
