//! Callers with certificates, at services that take them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rcgen::SanType;
use serde_json::json;

use super::super::program::{self, TIMEOUT, path, text};
use super::access::{Guarded, ISS, TENANT, VIEW};
use super::certified::Certified;

const JIRA: &str = "spiffe://corp/jira/api";

/// Services with these CAs of callers, and grants for a reader and a writer with certificates.
async fn guarded(certified: &Certified) -> Guarded {
    certified.vouch_by(certified);
    let guarded = Guarded::over_tls(certified).await;
    let consumers = json!({
        "jira": {"who": [{"iss": ISS, "sub": "jira:*"}, {"spiffe": "spiffe://corp/jira/*"}], "views": ["limits"]},
        "writer": {"who": [{"dns": "writer.example"}], "write": ["tenant"]},
    });
    guarded.grant(&consumers, &[]).await;
    guarded
}

fn spiffe(certified: &Certified, file: &str) -> std::path::PathBuf {
    certified.caller(file, vec![SanType::URI(JIRA.try_into().unwrap())])
}

async fn status(client: &reqwest::Client, url: &str, token: Option<&str>) -> u16 {
    let request = client.get(url);
    let request = match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    };
    request.send().await.unwrap().status().as_u16()
}

async fn until(client: &reqwest::Client, url: &str, wanted: u16) {
    let asking = async { while status(client, url, None).await != wanted {} };
    tokio::time::timeout(TIMEOUT, asking).await.unwrap_or_else(|_| panic!("{url} never was {wanted}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_credentials_everywhere() {
    let certified = Certified::new();
    let guarded = guarded(&certified).await;
    let node = format!("https://{}{VIEW}", guarded.node);
    let jira = certified.client_as(&spiffe(&certified, "jira.pem"));
    until(&jira, &node, 200).await;
    // Also where hyper reads the request, and for what there is not.
    let batch = jira.post(format!("https://{}/v1/batch/limits", guarded.node));
    let batch = batch.header("content-type", "application/json").body(r#"{"keys":["acme"]}"#);
    assert_eq!(batch.send().await.unwrap().status().as_u16(), 200);
    assert_eq!(status(&jira, &format!("https://{}/v1/contexts/acme/profile", guarded.node), None).await, 403);
    let writer = certified.caller("writer.pem", vec![SanType::DnsName("writer.example".try_into().unwrap())]);
    let writer = certified.client_as(&writer);
    let record = format!("https://{}/v1/records/tenant/acme", guarded.catalogue);
    until(&writer, &record, 200).await;
    let put = writer.put(&record).header("content-type", "application/json").body(TENANT).send().await.unwrap();
    assert_eq!(put.status().as_u16(), 200);
    assert_eq!(status(&jira, &record, None).await, 403);
    // Nobody is asked for one on pages.
    let page = format!("https://{}/readyz", guarded.services[2].admin);
    assert_eq!(status(&guarded.client, &page, None).await, 200);
    // A token counts before a certificate, and a bad one counts.
    let token = guarded.token("jira:api", &guarded.node);
    assert_eq!(status(&writer, &node, None).await, 403);
    assert_eq!(status(&writer, &node, Some(&token)).await, 200);
    assert_eq!(status(&jira, &node, Some("a.b.c")).await, 401);
    // Nor does a line hide it that calls it the connection's own.
    let old = certified.builder(Some(&certified.path("jira.pem"))).http1_only().build().unwrap();
    let hidden = old.get(&node).bearer_auth("a.b.c").header("connection", "Authorization");
    assert_eq!(hidden.send().await.unwrap().status().as_u16(), 401);
    assert_eq!(status(&old, &node, None).await, 200);
    let foreign = certified.client_as(&spiffe(&Certified::new(), "jira.pem"));
    assert_eq!(status(&foreign, &node, None).await, 401);
    assert_eq!(status(&foreign, &node, Some(&token)).await, 200);
    assert_eq!(status(&guarded.client, &node, None).await, 401);
    let (code, shown) = who(&guarded, &certified).await;
    assert!(code == Some(0) && shown.contains(&format!("it is {JIRA}, if")), "{shown}");
    assert!(shown.contains("jira") && shown.contains("limits"), "{shown}");
    guarded.stop().await;
}

/// Asks, as an admin, what the holder of `jira.pem` may do.
async fn who(guarded: &Guarded, certified: &Certified) -> (Option<i32>, String) {
    let token = guarded.directory.path().join("admin.token");
    std::fs::write(&token, guarded.token("admin", &guarded.catalogue)).unwrap();
    let (catalogue, ca, file) =
        (format!("https://{}", guarded.catalogue), certified.path("ca.pem"), certified.path("jira.pem"));
    let mut command = program::command(&["grants", "who", "--holder", path(&file), "--catalogue", &catalogue]);
    command.args(["--token-file", path(&token), "--ca-file", path(&ca)]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (output.status.code(), text(&output.stdout).to_owned() + text(&output.stderr))
}

/// Settings of a sidecar that presents the certificate in this file.
fn presenting(file: &Path) -> String {
    format!(", client_cert = \"{0}\", client_key = \"{0}\"", file.display())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_ca_ends_open_connections() {
    let certified = Certified::new();
    let guarded = guarded(&certified).await;
    let file = spiffe(&certified, "jira.pem");
    let node = format!("https://{}{VIEW}", guarded.node);
    let (jira, sidecar) = (certified.client_as(&file), guarded.sidecar_with("", &presenting(&file)).await);
    until(&jira, &node, 200).await;
    let read = format!("http://{}{VIEW}", sidecar.tcp.unwrap());
    until(&guarded.client, &read, 200).await;
    let other = Certified::new();
    certified.vouch_by(&other);
    until(&jira, &node, 401).await;
    until(&certified.client_as(&spiffe(&other, "jira.pem")), &node, 200).await;
    certified.vouch_by(&certified);
    until(&jira, &node, 200).await;
    assert_eq!(sidecar.stop().await.late, Vec::<&str>::new());
    guarded.stop().await;
}

/// Asks until it is to stop; the number of answers, all of them 200.
async fn asked_until(client: &reqwest::Client, url: &str, stop: &AtomicBool) -> usize {
    let mut asked = 0;
    while !stop.load(Ordering::Relaxed) {
        assert_eq!(status(client, url, None).await, 200, "after {asked}");
        asked += 1;
    }
    asked
}

/// Both are taken while callers go from one CA to the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ca_swapped_by_overlap_fails_nothing() {
    let (certified, other) = (Certified::new(), Certified::new());
    let guarded = guarded(&certified).await;
    let node = format!("https://{}{VIEW}", guarded.node);
    let [old, new] = [&certified, &other].map(|authority| certified.client_as(&spiffe(authority, "jira.pem")));
    until(&old, &node, 200).await;
    let [no_more_old, no_more_new] = [AtomicBool::new(false), AtomicBool::new(false)];
    let swapping = async {
        let [first, second] = [&certified, &other].map(|ca| std::fs::read_to_string(ca.path("ca.pem")).unwrap());
        certified.write("client-ca.pem", &(first + &second));
        until(&new, &node, 200).await;
        no_more_old.store(true, Ordering::Relaxed);
    };
    let (asked, ()) = tokio::join!(asked_until(&old, &node, &no_more_old), swapping);
    let dropping = async {
        certified.vouch_by(&other);
        until(&old, &node, 401).await;
        no_more_new.store(true, Ordering::Relaxed);
    };
    let (asked_after, ()) = tokio::join!(asked_until(&new, &node, &no_more_new), dropping);
    assert!(asked > 50 && asked_after > 50, "{asked}, then {asked_after}");
    guarded.stop().await;
}
