//! The log of a catalogue whose grants are written.

use std::time::Duration;

use super::*;
use crate::access::gate::GateParts;
use crate::access::issuers::Issuers;
use crate::config::services::{AccessConfig, AccessMode, AdminConfig, AdminIdentity, IssuerConfig, KeysSource};
use crate::lab::issuer::Issuer;
use crate::model::time::Clock;
use crate::telemetry::scripted::CountedLines;

/// A gate with one admin, in this mode.
fn gate(mode: AccessMode, issuer: &Issuer, tasks: &Tasks) -> Arc<Gate> {
    let directory = tempfile::tempdir().unwrap();
    let keys = directory.path().join("keys.json");
    std::fs::write(&keys, issuer.jwks()).unwrap();
    let (iss, keys) = ("https://i.example".to_owned(), KeysSource::File(keys));
    let admin = AdminIdentity::Token { iss: iss.clone(), sub: "admin".to_owned() };
    let config = AccessConfig {
        mode,
        catalogue_audience: "https://c.example".to_owned(),
        max_lifetime: Duration::from_secs(86_400),
        issuers: vec![IssuerConfig { iss, keys, ca_file: None, subject: "sub".to_owned() }],
        admins: vec![AdminConfig { who: admin }],
        ..AccessConfig::default()
    };
    let issuers = Issuers::open(&config, "https://c.example", &Clock::System).unwrap();
    let parts = GateParts { issuers, deny: None, names: Vec::new(), clock: Clock::System, tasks: tasks.clone() };
    Arc::new(Gate::new(&config, parts))
}

#[tokio::test]
async fn written_grants_are_in_the_log() {
    let issuer = Issuer::new("https://i.example", "one");
    let token = issuer.token("admin", "https://c.example", Clock::System.wall().as_millis() / 1_000);
    let put = format!(
        "PUT /v1/grants HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{JSON}Idempotency-Key: once\r\n\
         Authorization: Bearer {token}\r\nContent-Length: 28\r\n\r\n{{\"format\":1,\"consumers\":{{}}}}\n"
    );
    for (mode, principal) in [
        (None, "principal=\"-\""),
        (Some(AccessMode::Observe), "principal=\"admin of https://i.example\""),
        (Some(AccessMode::Enforce), "principal=\"admin of https://i.example\""),
    ] {
        let (tasks, lines) = (Tasks::new(), CountedLines::start());
        let port = port_of(mode.map(|mode| gate(mode, &issuer, &tasks))).await;
        let written = port.say(&put).await;
        assert_eq!(written.status, 201, "{}", written.body);
        tasks.drain(Duration::from_secs(5)).await;
        let line =
            format!("the grants were written version={} {principal} consumer=\"-\"", written.json()["version"]);
        assert_eq!(lines.with(&line), 1, "{mode:?}");
        // What is repeated was written once.
        assert_eq!(port.say(&put).await.status, 201, "{mode:?}");
        assert_eq!(lines.with("the grants were written"), 1, "{mode:?}");
    }
}
