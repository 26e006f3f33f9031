//! Statements of a node's answers, and its looks for newer grants.

use std::time::Duration;

use http::{HeaderMap, header};
use serde_json::json;

use super::*;
use crate::access::gate::GateParts;
use crate::access::grants::Grants;
use crate::access::issuers::Issuers;
use crate::config::services::{AccessConfig, AccessMode, IssuerConfig, KeysSource, WhenUnknown};
use crate::lab::issuer::Issuer;
use crate::model::time::{Clock, Wall};
use crate::tasks::Tasks;

const NOW: u64 = 1_800_000_000;

struct Node {
    gate: Arc<Gate>,
    issuer: Issuer,
    clock: Clock,
    _directory: tempfile::TempDir,
}

fn node(mode: AccessMode) -> Node {
    let directory = tempfile::tempdir().unwrap();
    let (keys, issuer) = (directory.path().join("keys.json"), Issuer::new("https://i.example", "one"));
    std::fs::write(&keys, issuer.jwks()).unwrap();
    let keys = KeysSource::File(keys);
    let issuers = vec![IssuerConfig { iss: "https://i.example".into(), keys, ca_file: None, subject: "sub".into() }];
    let config = AccessConfig {
        mode,
        region_audience: "https://r.example".into(),
        max_lifetime: Duration::from_secs(86_400),
        max_age: Duration::from_secs(3_600),
        when_unknown: WhenUnknown::Serve,
        issuers,
        ..AccessConfig::default()
    };
    let clock = Clock::simulated(Wall::from_millis(NOW * 1_000));
    let issuers = Issuers::open(&config, "https://r.example", &clock).unwrap();
    let parts = GateParts { issuers, deny: None, names: Vec::new(), clock: clock.clone(), tasks: Tasks::new() };
    let gate = Arc::new(Gate::new(&config, parts));
    Node { gate, issuer, clock, _directory: directory }
}

impl Node {
    fn grant(&self, version: u64) {
        let who = json!([{"iss": "https://i.example", "sub": "jira"}]);
        let document = json!({"format": 1, "consumers": {"jira": {"who": who, "views": ["limits"]}}});
        self.gate.take(Grants::read(document.to_string().as_bytes(), version).unwrap());
    }

    /// Decision, statement, and true if the node looks for newer grants first.
    async fn ask(&self, memory: &mut GateMemory, sub: &str, path: &str, newest: Option<u64>) -> (bool, String, bool) {
        let mut headers = HeaderMap::new();
        let token = self.issuer.token(sub, "https://r.example", NOW);
        headers.insert(header::AUTHORIZATION, format!("Bearer {token}").try_into().unwrap());
        headers.extend(newest.map(|newest| (GRANTS_VERSION, HeaderValue::from(newest))));
        let gated = memory.ask(&self.gate, &Method::GET, path, Credentials::of(&headers, None), Turn::First);
        let stated = memory.stated().map_or("", |line| line.to_str().unwrap()).to_owned();
        let is_admitted = gated.ruling.settled().await.is_ok();
        (is_admitted, stated, is_admitted && is_behind(&self.gate, gated.newer))
    }
}

impl Node {
    async fn looks(&self, sub: &str, newest: u64) -> bool {
        self.ask(&mut GateMemory::default(), sub, LIMITS, Some(newest)).await.2
    }
}

const LIMITS: &str = "/v1/contexts/acme/limits";

#[tokio::test]
async fn answer_states_version_and_view() {
    let node = node(AccessMode::Enforce);
    let mut memory = GateMemory::default();
    assert_eq!(node.ask(&mut memory, "jira", LIMITS, None).await, (false, String::new(), false));
    node.grant(7);
    assert_eq!(node.ask(&mut memory, "jira", LIMITS, None).await, (true, "7; limits".into(), false));
    assert_eq!(
        node.ask(&mut memory, "jira", "/v1/contexts/acme/other", None).await,
        (false, "7; other".into(), false)
    );
    assert_eq!(node.ask(&mut memory, "jira", "/v1/contexts/acme", None).await.1, "");
    node.grant(8);
    assert_eq!(node.ask(&mut memory, "jira", LIMITS, None).await.1, "8; limits");
}

#[tokio::test]
async fn observing_node_states_and_open_one_does_not() {
    let observing = node(AccessMode::Observe);
    observing.grant(7);
    let asked = observing.ask(&mut GateMemory::default(), "stranger", LIMITS, None).await;
    assert_eq!(asked, (true, "7; limits".into(), false));
    let open = node(AccessMode::Off);
    open.grant(7);
    assert_eq!(open.ask(&mut GateMemory::default(), "jira", LIMITS, Some(9)).await, (true, String::new(), false));
}

#[tokio::test]
async fn node_looks_for_what_granted_callers_know() {
    let node = node(AccessMode::Enforce);
    node.grant(7);
    assert!(!node.looks("jira", 7).await);
    assert!(!node.looks("stranger", 9).await, "nobody without a grant makes a node read");
    assert!(!node.looks("jira", NOW * 1_000 + 400_000).await, "nobody can have written that yet");
    assert!(node.looks("jira", 9).await);
    assert!(!node.looks("jira", 9).await, "ten times a second at most");
    node.clock.suspend(Duration::from_millis(100));
    assert!(node.looks("jira", 9).await);
}

#[test]
fn errors_and_bad_credentials_state_nothing() {
    for (status, stated) in [(200, true), (304, true), (403, true), (404, true), (412, true), (421, true)] {
        assert_eq!(is_stated(StatusCode::from_u16(status).unwrap()), stated, "{status}");
    }
    for status in [401, 500, 503] {
        assert!(!is_stated(StatusCode::from_u16(status).unwrap()), "{status}");
    }
}
