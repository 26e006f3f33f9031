//! Services whose ports speak TLS, to callers with tokens and to a sidecar.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::super::program::{self, TIMEOUT, path, text};
use super::access::{Guarded, VIEW};
use super::certified::Certified;

async fn status_of(guarded: &Guarded, at: usize) -> Value {
    let reply = guarded.get(&guarded.services[at].admin.to_string(), "/status").await;
    serde_json::from_str(&reply.body).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_way_leads_over_tls() {
    let certified = Certified::new();
    let guarded = Guarded::over_tls(&certified).await;
    let jira = guarded.sidecar("jira:api").await;
    let read = format!("http://{}{VIEW}", jira.tcp.unwrap());
    let answer = guarded.client.get(&read).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.text().await.unwrap().as_str()), (200, r#"{"users":5}"#));
    // HTTP/2 by ALPN at the node, as the sidecar speaks it; HTTP/1.1 at the catalogue.
    let token = guarded.token("jira:api", &guarded.node);
    let node = format!("https://{}{VIEW}", guarded.node);
    let answer = guarded.client.get(&node).bearer_auth(&token).send().await.unwrap();
    assert_eq!((answer.version(), answer.status().as_u16()), (http::Version::HTTP_2, 200));
    let answer = guarded.client.get(format!("https://{}/v1/types", guarded.catalogue)).send().await.unwrap();
    assert_eq!((answer.version(), answer.status().as_u16()), (http::Version::HTTP_11, 401));
    // Pages, and what they say of the certificate.
    for at in 0..3 {
        let status = status_of(&guarded, at).await;
        assert_eq!(status["tls"]["ends"], "2030-01-01T00:00:00Z", "{status}");
        let admin = guarded.services[at].admin.to_string();
        let metrics = guarded.get(&admin, "/metrics").await.body;
        assert!(metrics.contains("nearside_tls_certificate_end_timestamp_seconds 1893456000"), "{metrics}");
        let docs = include_str!("../../../docs/metrics.md");
        for name in ["nearside_tls_handshakes_total", "nearside_tls_certificate_end_timestamp_seconds"] {
            assert!(metrics.contains(name) && docs.contains(&format!("| `{name}` |")), "{name}");
        }
        assert!(!metrics.contains("nearside_tls_handshakes_total{outcome=\"complete\"} 0"), "{metrics}");
    }
    // Plain HTTP gets no answer of ours.
    assert!(guarded.client.get(format!("http://{}/v1/types", guarded.catalogue)).send().await.is_err());
    assert_eq!(jira.stop().await.late, Vec::<&str>::new());
    guarded.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_certificate_fails_no_request() {
    let certified = Certified::new();
    let guarded = Guarded::over_tls(&certified).await;
    let (clients, stop, asked) =
        ([true, false].map(|keeps| certified.client(keeps)), AtomicBool::new(false), AtomicU64::new(0));
    let token = guarded.token("jira:api", &guarded.node);
    let url = format!("https://{}{VIEW}", guarded.node);
    let reading = |client: reqwest::Client| {
        let (stop, asked, token, url) = (&stop, &asked, &token, &url);
        async move {
            while !stop.load(Ordering::Relaxed) {
                let answer = client.get(url).bearer_auth(token).send().await.unwrap();
                assert_eq!(answer.status().as_u16(), 200);
                assert_eq!(answer.text().await.unwrap(), r#"{"users":5}"#);
                asked.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let replacing = async {
        for year in [2031, 2032, 2033] {
            let (certificate, key) = certified.pair(year);
            // The key first: until the certificate is there, the last pair stays in use.
            certified.write("services.key", &key);
            tokio::time::sleep(Duration::from_millis(1_200)).await;
            certified.write("services.pem", &certificate);
            let wanted = format!("{year}-01-01T00:00:00Z");
            let taken = async { while status_of(&guarded, 2).await["tls"]["ends"] != wanted.as_str() {} };
            tokio::time::timeout(TIMEOUT, taken).await.unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    };
    let [kept, fresh] = clients;
    tokio::join!(reading(kept), reading(fresh), replacing);
    assert!(asked.load(Ordering::Relaxed) > 100, "{asked:?}");
    guarded.stop().await;
}

/// Runs the program to its end beside the services.
async fn run(args: Vec<String>) -> (Option<i32>, String) {
    let output = tokio::task::spawn_blocking(move || {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        program::run(&args)
    });
    let output = output.await.unwrap();
    (output.status.code(), text(&output.stdout).to_owned() + text(&output.stderr))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_speak_tls() {
    let certified = Certified::new();
    let guarded = Guarded::over_tls(&certified).await;
    for service in &guarded.services {
        let admin = service.admin.to_string();
        let (code, shown) = run(words(&["health", "--admin", &admin, "--tls"])).await;
        assert_eq!(code, Some(0), "{shown}");
        let (code, shown) = run(words(&["health", "--admin", &admin])).await;
        assert_eq!(code, Some(1), "{shown}");
    }
    let (token, ca) = (guarded.directory.path().join("admin.token"), certified.path("ca.pem"));
    std::fs::write(&token, guarded.token("admin", &guarded.catalogue)).unwrap();
    let catalogue = format!("https://{}", guarded.catalogue);
    let show = ["grants", "show", "--catalogue", &catalogue, "--token-file", path(&token)];
    let (code, shown) = run(words(&[&show[..], &["--ca-file", path(&ca)]].concat())).await;
    assert!(code == Some(0) && shown.contains("\"jira\""), "{shown}");
    for wrong in [certified.path("services.key"), certified.path("nothing")] {
        let (code, shown) = run(words(&[&show[..], &["--ca-file", path(&wrong)]].concat())).await;
        assert!(code == Some(2) && shown.contains("--ca-file"), "{shown}");
    }
    guarded.stop().await;
}

#[test]
fn service_refuses_key_of_another_certificate() {
    let certified = Certified::new();
    certified.write("services.key", &certified.pair(2031).1);
    let file = certified.path("service.toml");
    let text_of = format!(
        "[engine]\nkind = \"memory\"\n[catalogue]\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n{}\
         [[catalogue.type]]\nname = \"tenant\"\n",
        certified.setting()
    );
    std::fs::write(&file, text_of).unwrap();
    let output = program::run(&["catalogue", "--config", path(&file)]);
    let shown = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{shown}");
    assert!(
        shown.contains("catalogue.tls.key: ") && shown.contains("is not the key of the certificate in"),
        "{shown}"
    );
}
