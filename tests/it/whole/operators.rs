//! Operators who come from elsewhere, at every service, and admins with certificates.

use std::path::Path;

use rcgen::SanType;
use serde_json::json;

use super::super::program::{self, TIMEOUT, path, text};
use super::access::{Guarded, ISS, Reached, TENANT, VIEW, now};
use super::certified::Certified;

/// An address of this machine that counts as one that others reach, since it is no loopback address of
/// IPv6.
const REACHED: &str = "[::ffff:127.0.0.1]:0";
const OPERATORS: &str = "https://operators.example";
const OPERATE: &str = "operate_audience = \"https://operators.example\"";

/// Services that enforce, over TLS, with grants for a scraper and an operator.
async fn reached(certified: &Certified) -> Guarded {
    let guarded =
        Guarded::start_as("enforce", Some(certified), Reached { at: Some(REACHED), access: OPERATE, admins: "" })
            .await;
    guarded.grant(&consumers(), &[]).await;
    for at in 0..guarded.services.len() {
        until(&guarded, at, "operator", 200).await;
    }
    guarded
}

fn consumers() -> serde_json::Value {
    json!({
        "scraper": {"who": [{"iss": ISS, "sub": "scraper"}], "may": ["metrics"]},
        "operator": {"who": [{"iss": ISS, "sub": "operator"}], "may": ["operate"]},
        "writer": {"who": [{"iss": ISS, "sub": "writer"}], "write": ["tenant"]},
    })
}

/// Address of a service's pages, as the certificate has it.
fn admin(guarded: &Guarded, at: usize) -> String {
    format!("127.0.0.1:{}", guarded.services[at].admin.port())
}

fn token(guarded: &Guarded, sub: &str) -> String {
    guarded.issuer.token(sub, OPERATORS, now())
}

async fn status(guarded: &Guarded, at: usize, path: &str, token: Option<&str>) -> u16 {
    guarded.send("GET", &admin(guarded, at), path, token, "").await.status
}

async fn until(guarded: &Guarded, at: usize, sub: &str, wanted: u16) {
    let token = token(guarded, sub);
    let asking = async { while status(guarded, at, "/status", Some(&token)).await != wanted {} };
    tokio::time::timeout(TIMEOUT, asking).await.unwrap_or_else(|_| panic!("{at} never was {wanted}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reached_pages_are_for_operators() {
    let certified = Certified::new();
    let guarded = reached(&certified).await;
    let [scraper, operator, stranger, admin_token] =
        ["scraper", "operator", "stranger", "admin"].map(|sub| token(&guarded, sub));
    let expired = guarded.issuer.token("operator", OPERATORS, now() - 86_000);
    let callers = guarded.token("operator", &guarded.node);
    // Who asks, and the statuses of `/livez`, `/readyz`, `/metrics`, `/status`, `/` and of nothing.
    let rows: [(&str, Option<&str>, [u16; 6]); 8] = [
        ("nobody", None, [200, 200, 401, 401, 401, 401]),
        ("scraper", Some(&scraper), [200, 200, 200, 403, 403, 403]),
        ("operator", Some(&operator), [200, 200, 403, 200, 200, 404]),
        ("stranger", Some(&stranger), [200, 200, 403, 403, 403, 403]),
        ("admin", Some(&admin_token), [200, 200, 403, 403, 403, 403]),
        ("expired", Some(&expired), [200, 200, 401, 401, 401, 401]),
        ("reader's audience", Some(&callers), [200, 200, 401, 401, 401, 401]),
        ("no token", Some("opaque"), [200, 200, 401, 401, 401, 401]),
    ];
    for at in 0..guarded.services.len() {
        for (who, token, statuses) in rows {
            for (path, wanted) in ["/livez", "/readyz", "/metrics", "/status", "/", "/nowhere"].iter().zip(statuses) {
                let reply = guarded.send("GET", &admin(&guarded, at), path, token, "").await;
                assert_eq!(reply.status, wanted, "{at} {path} by {who}: {reply:?}");
                if *path == "/readyz" {
                    assert_eq!(reply.body, r#"{"state":"serving","reasons":[]}"#, "{at} by {who}");
                }
                let is_challenged = reply.headers.iter().any(|(name, _)| name == "www-authenticate");
                assert_eq!(is_challenged, wanted == 401, "{at} {path} by {who}: {reply:?}");
            }
            // What acts needs more than to be reached.
            let posted = guarded.send("POST", &admin(&guarded, at), "/status", token, "{}").await.status;
            assert_eq!(posted, if statuses[3] == 200 { 405 } else { statuses[3] }, "{at} by {who}");
        }
    }
    guarded.grant(&consumers(), &["operator"]).await;
    for at in 0..guarded.services.len() {
        until(&guarded, at, "operator", 403).await;
    }
    guarded.stop().await;
}

/// A request over loopback may be anybody's, where a proxy hands requests on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loopback_behind_proxy_is_checked() {
    let at = "127.0.0.1:0\"\nbehind_proxy = true\n#\"";
    let guarded = Guarded::start_as("enforce", None, Reached { at: Some(at), access: OPERATE, admins: "" }).await;
    guarded.grant(&consumers(), &[]).await;
    for at in 0..guarded.services.len() {
        until(&guarded, at, "operator", 200).await;
        assert_eq!(status(&guarded, at, "/status", None).await, 401, "{at}");
        assert_eq!(status(&guarded, at, "/readyz", None).await, 200, "{at}");
    }
    guarded.stop().await;
}

/// Without TLS, which the proxy ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxy_decides_until_enforce() {
    let at = format!("{REACHED}\"\nbehind_proxy = true\n#\"");
    for (mode, statuses) in [("off", [200, 200]), ("observe", [200, 200]), ("enforce", [401, 200])] {
        let guarded = Guarded::start_as(mode, None, Reached { at: Some(&at), access: OPERATE, admins: "" }).await;
        if mode == "enforce" {
            guarded.grant(&consumers(), &[]).await;
            until(&guarded, 0, "operator", 200).await;
        }
        let token = token(&guarded, "operator");
        let found = [status(&guarded, 0, "/status", None).await, status(&guarded, 0, "/status", Some(&token)).await];
        assert_eq!(found, statuses, "{mode}");
        guarded.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_states_and_counts_each_request() {
    let certified = Certified::new();
    let guarded = Guarded::over_tls(&certified).await;
    let node = &guarded.services[2].admin.to_string();
    let granted = async || {
        let metrics = guarded.get(node, "/metrics").await.body;
        let counted =
            metrics.lines().filter(|line| line.starts_with("nearside_access_requests_total{consumer=\"jira\""));
        counted.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum::<u64>()
    };
    // Each token is new, so each answer waits for a signature before it states by what it was decided.
    for (method, path, body) in [("GET", VIEW, ""), ("POST", "/v1/batch/limits", r#"{"keys":["acme"]}"#)] {
        for (sub, wanted) in [("jira:api", 200), ("other", 403)] {
            let reply = guarded.ask(sub, method, &guarded.node, path, body).await;
            let stated = reply.headers.iter().find(|(name, _)| name == "x-grants-version");
            assert_eq!(reply.status, wanted, "{reply:?}");
            assert!(stated.is_some_and(|(_, line)| line.ends_with("; limits")), "{path} by {sub}: {reply:?}");
        }
        let reply = guarded.send(method, &guarded.node, path, Some("opaque"), body).await;
        assert!(reply.status == 401 && reply.headers.iter().all(|(name, _)| name != "x-grants-version"), "{reply:?}");
    }
    let before = granted().await;
    let url = format!("https://{}{VIEW}", guarded.node);
    // Newer than what the node has, and not yet anybody's.
    let newer = (now() + 10) * 1_000;
    let request = guarded.client.get(&url).bearer_auth(guarded.token("jira:api", &guarded.node));
    assert_eq!(request.header("x-grants-version", newer).send().await.unwrap().status().as_u16(), 200);
    assert_eq!(granted().await, before + 1);
    guarded.stop().await;
}

const PLATFORM: &str = "spiffe://corp/platform/grants";

/// Runs `nearside grants` with this certificate.
async fn grants_as(guarded: &Guarded, certified: &Certified, file: &Path, args: &[&str]) -> (Option<i32>, String) {
    let (catalogue, ca) = (format!("https://{}", guarded.catalogue), certified.path("ca.pem"));
    let mut command = program::command(&[&["grants"], args].concat());
    command.args(["--catalogue", &catalogue, "--ca-file", path(&ca), "--certificate", path(file)]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (output.status.code(), text(&output.stdout).to_owned() + text(&output.stderr))
}

fn names() -> Vec<SanType> {
    vec![SanType::URI(PLATFORM.try_into().unwrap())]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certified_admins_write_grants_alone() {
    let certified = Certified::new();
    certified.vouch_by(&certified);
    let admins = format!("[[access.admin]]\nspiffe = \"{PLATFORM}\"\n");
    let reached = Reached { at: None, access: "", admins: &admins };
    let guarded = Guarded::start_as("enforce", Some(&certified), reached).await;
    let both = certified.caller("admin.pem", names());
    let file = guarded.directory.path().join("grants.json");
    std::fs::write(&file, json!({ "consumers": consumers() }).to_string()).unwrap();
    let (code, shown) = grants_as(&guarded, &certified, &both, &["apply", path(&file)]).await;
    assert!(code == Some(0) && shown.contains("+ writer writes tenant"), "{shown}");
    // Key and certificate may be in files of their own.
    let pem = std::fs::read_to_string(&both).unwrap();
    let (certificate, key) = pem.split_at(pem.find("-----BEGIN PRIVATE").unwrap());
    certified.write("admin.crt", certificate);
    certified.write("admin.key", key);
    let (one, other) = (certified.path("admin.crt"), certified.path("admin.key"));
    let (code, shown) = grants_as(&guarded, &certified, &one, &["stop", "writer", "--key", path(&other)]).await;
    assert!(code == Some(0) && shown.contains("- writer writes tenant"), "{shown}");
    let (code, shown) = grants_as(&guarded, &certified, &one, &["show"]).await;
    assert!(code == Some(2) && shown.contains("name the key's file with --key"), "{shown}");
    // It may do nothing else.
    let client = certified.client_as(&both);
    for (method, path, body, wanted) in [
        ("GET", "/v1/grants", "", 200),
        ("GET", "/v1/grants/history", "", 200),
        ("GET", "/v1/records/tenant/acme", "", 403),
        ("PUT", "/v1/records/tenant/acme", TENANT, 403),
        ("GET", "/v1/records/_grants/grants", "", 403),
    ] {
        let method = method.parse::<reqwest::Method>().unwrap();
        let request = client.request(method, format!("https://{}{path}", guarded.catalogue));
        let request = request.header("content-type", "application/json").body(body);
        assert_eq!(request.send().await.unwrap().status().as_u16(), wanted, "{path}");
    }
    let view = client.get(format!("https://{}{VIEW}", guarded.node)).send().await.unwrap();
    assert_eq!(view.status().as_u16(), 403);
    // Another CA vouches for anything, and another name is nobody's.
    let another = Certified::new();
    let foreign = another.caller("admin.pem", names());
    let other = certified.caller("other.pem", vec![SanType::URI("spiffe://corp/platform/other".try_into().unwrap())]);
    for (file, said) in [(&foreign, "401"), (&other, "403")] {
        let (code, shown) = grants_as(&guarded, &certified, file, &["show"]).await;
        assert!(code == Some(1) && shown.contains(said) && shown.contains("--certificate"), "{shown}");
    }
    guarded.stop().await;
}
