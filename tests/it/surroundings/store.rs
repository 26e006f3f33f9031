//! The store of a service has no room: its pages say so, and callers learn what is certain.

use std::time::Duration;

use serde_json::json;

use super::super::deployed::Service;
use super::super::program;
use super::within;

/// How long a page may take to say what is wrong.
const SHOWN: Duration = Duration::from_secs(60);

/// A full disk is a limit on the size of files, 3 MiB where the shell counts as POSIX does.
#[tokio::test]
async fn a_full_disk_is_a_reason_and_a_certain_answer() {
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
    let put = async |key: &str| {
        let url = format!("http://{}/v1/records/tenant/{key}", catalogue.listen());
        let body = json!({"x": "y".repeat(60_000)}).to_string();
        let sent = http.put(url).header("content-type", "application/json").body(body).send().await.unwrap();
        (sent.status().as_u16(), sent.text().await.unwrap())
    };
    let mut refused = None;
    for number in 0..100 {
        let (status, body) = put(&format!("key-{number}")).await;
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
