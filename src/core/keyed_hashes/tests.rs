//! Tests of identities, record ids, credentials and the churn warning.

use std::time::Duration;

use super::*;
use crate::config::{Credentials, RecordTemplate, RegionConfig, Route};
use crate::core::churn::Churn;
use crate::core::credentials::{CredentialsError, HeldCredentials};
use crate::core::limits;
use crate::tasks::Tasks;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
}

fn keyring(types: &[&str]) -> KeyedHashes {
    KeyedHashes::new(&service(types))
}

fn service(types: &[&str]) -> Service {
    let records = types.iter().map(|kind| RecordTemplate { record_type: (*kind).into(), key: Vec::new() }).collect();
    let route = Route {
        path: crate::config::PathTemplate { text: "/".into(), segments: Vec::new() },
        records,
        identity: IdentityMode::Exact(Vec::new()),
        forward: Vec::new(),
        ignore: Vec::new(),
        ttl: Duration::from_secs(1),
        store_no_store: false,
        payload: Default::default(),
        batch: None,
        upstream_batch: None,
        second: None,
        compression: None,
    };
    let regions: Vec<RegionConfig> = Vec::new();
    let version_header = HeaderName::from_static("x-record-version");
    Service { name: "test".into(), regions, routes: vec![route], version_header, authoritative: false }
}

#[test]
fn announcements_of_a_type_that_a_reload_brought_are_heeded_from_then_on() {
    let ring = keyring(&["context"]);
    let (context, later) = (ring.type_id("context").unwrap(), Moment::from_nanos(1_000));
    ring.learn(&service(&["tenant"]), later).unwrap();
    let tenant = ring.type_id("tenant").unwrap();
    assert_ne!(context, tenant);
    assert!(ring.heeded(context, Moment::ZERO) && !ring.heeded(tenant, Moment::ZERO) && ring.heeded(tenant, later));
    assert_eq!(ring.type_id("context"), Some(context), "gone from the routes, and not forgotten");
    ring.learn(&service(&["context"]), Moment::from_nanos(2_000)).unwrap();
    assert!(ring.heeded(context, Moment::ZERO), "it was heeded all along");
    let many: Vec<String> = (0..=limits::RECORD_TYPES).map(|number| format!("type-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(ring.learn(&service(&many), later).is_err() && ring.type_id("type-0").is_none(), "nothing has changed");
}

#[test]
fn callers_differ_when_any_named_header_differs() {
    let ring = keyring(&["context"]);
    let mode = IdentityMode::Exact(vec![http::header::AUTHORIZATION, http::header::COOKIE]);
    let of = |pairs: &[(&'static str, &str)]| ring.identity(&mode, &headers(pairs));
    assert_eq!(of(&[("authorization", "a"), ("accept", "x")]), of(&[("authorization", "a"), ("accept", "y")]));
    assert_ne!(of(&[("authorization", "a")]), of(&[("authorization", "b")]));
    assert_ne!(of(&[("authorization", "a")]), of(&[("cookie", "a")]));
    assert_ne!(of(&[("cookie", "ab")]), of(&[("cookie", "a"), ("cookie", "b")]));
    assert_ne!(of(&[]), of(&[("cookie", "")]));
    assert_ne!(of(&[]), Identity::SIDECAR);
}

#[test]
fn a_record_type_that_no_route_names_has_no_id() {
    let ring = keyring(&["context", "tenant"]);
    assert_eq!(ring.record("other", "k"), None);
    let (context, tenant) = (ring.record("context", "k").unwrap(), ring.record("tenant", "k").unwrap());
    assert_ne!(context.hash, tenant.hash);
    assert_eq!(ring.record("context", "k"), Some(context));
}

#[tokio::test(start_paused = true)]
async fn credentials_are_read_again_when_their_file_changes_and_a_bad_file_keeps_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let credentials =
        Credentials { header: http::header::AUTHORIZATION, prefix: "Bearer ".into(), file: file.clone() };
    assert!(matches!(HeldCredentials::read(&credentials), Err(CredentialsError::Unreadable(..))));
    std::fs::write(&file, "first\n").unwrap();
    let held = HeldCredentials::read(&credentials).unwrap();
    assert_eq!(held.value(), "Bearer first");
    assert!(held.value().is_sensitive());

    let tasks = Tasks::new();
    held.watch(credentials, &tasks);
    let wait_for = |wanted: &'static str| {
        let held = held.clone();
        async move {
            let changed = async {
                while held.value() != wanted {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), changed).await.unwrap();
        }
    };
    std::fs::write(&file, "second, longer").unwrap();
    wait_for("Bearer second, longer").await;
    std::fs::write(&file, "").unwrap();
    tokio::time::sleep(limits::WATCH_EVERY * 2).await;
    assert_eq!(held.value(), "Bearer second, longer");
    assert!(tasks.drain(Duration::from_secs(5)).await.is_empty());
}

#[test]
fn many_identities_on_one_record_raise_the_warning_once_and_few_never() {
    let churn = Churn::default();
    let record = keyring(&["context"]).record("context", "k").unwrap();
    let now = Moment::ZERO;
    let raised = (1..=200u128).filter(|id| churn.note(record, Identity(*id), now)).count();
    assert_eq!((raised, churn.raised()), (1, 1));
    let other = RecordId { hash: record.hash ^ 1, ..record };
    assert!((0..1000).all(|_| !churn.note(other, Identity(7), now)));
}
