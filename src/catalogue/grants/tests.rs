//! A catalogue whose table was put back, and one that meets rights of a newer version.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::access::gate::GateParts;
use crate::access::issuers::Issuers;
use crate::access::principal::Principal;
use crate::catalogue::RecordTypes;
use crate::config::services::{AccessConfig, AccessMode, WhenUnknown};
use crate::engine::memory::MemoryStore;
use crate::engine::{Condition, Item, ItemWrite, Tables};
use crate::model::time::{Clock, Wall};
use crate::tasks::Tasks;

const NOW: u64 = 1_800_000_000_000;

fn gate(clock: &Clock) -> Gate {
    let config = AccessConfig {
        mode: AccessMode::Enforce,
        catalogue_audience: String::new(),
        region_audience: String::new(),
        operate_audience: String::new(),
        max_lifetime: Duration::from_secs(1),
        max_age: Duration::from_secs(60),
        when_unknown: WhenUnknown::Serve,
        max_key_age: Duration::from_secs(86_400),
        deny_file: None,
        issuers: Vec::new(),
        admins: Vec::new(),
    };
    let issuers = Issuers::open(&config, "", clock).unwrap();
    let parts = GateParts { issuers, deny: None, names: Vec::new(), clock: clock.clone(), tasks: Tasks::new() };
    Gate::new(&config, parts)
}

fn document(views: &[&str]) -> Bytes {
    let jira = json!({"who": [{"dns": "j.example"}], "views": views});
    json!({"format": 1, "consumers": {"jira": jira}}).to_string().into()
}

async fn put(store: &MemoryStore, table: Table, version: u64, document: &Bytes) {
    let item = Item { body: Some(document.clone()), ..Item::new(place(GRANTS, DOCUMENT), version) };
    store.write(vec![ItemWrite::Put(table, item, Condition::Any)]).await.unwrap();
}

/// A catalogue on this store, as it starts, and its gate after the first look.
async fn started(store: &Arc<MemoryStore>, clock: &Clock) -> (Catalogue, Gate) {
    let catalogue = Catalogue::new(store.clone(), clock.clone(), RecordTypes::default());
    let gate = gate(clock);
    catalogue.follow_once(&gate).await.unwrap();
    (catalogue, gate)
}

#[tokio::test(start_paused = true)]
async fn record_that_was_put_back_grants_nothing() {
    let clock = Clock::simulated(Wall::from_millis(NOW));
    let (old, new) = (document(&["limits", "profile"]), document(&["limits"]));
    for known_by in [Table::History, Table::Views] {
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let (catalogue, gate) = started(&store, &clock).await;
        let first = catalogue
            .write_grants(old.clone(), Preconditions::none(), None, &Author::anonymous())
            .await
            .unwrap()
            .0
            .version;
        let second = catalogue
            .write_grants(new.clone(), Preconditions::none(), None, &Author::anonymous())
            .await
            .unwrap()
            .0
            .version;
        put(&store, Table::Views, if known_by == Table::Views { second } else { first }, &new).await;
        catalogue.follow_once(&gate).await.unwrap();
        assert_eq!(gate.reason(), None);
        // As a whole: what nobody put back says so.
        put(&store, Table::Records, first, &old).await;
        let (catalogue, gate) = started(&store, &clock).await;
        let reason = gate.reason().unwrap();
        assert!(reason.contains(&format!("older than version {second}")), "{known_by:?}: {reason}");
        let (applied, _) = catalogue
            .write_grants(new.clone(), Preconditions::version_is(first), None, &Author::anonymous())
            .await
            .unwrap();
        assert!(applied.version > second, "{known_by:?}: {} {second}", applied.version);
        catalogue.follow_once(&gate).await.unwrap();
        assert_eq!(gate.reason(), None, "{known_by:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_right_is_kept_not_introduced() {
    let clock = Clock::simulated(Wall::from_millis(NOW));
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let (catalogue, gate) = started(&store, &clock).await;
    let newer = |stopped: &[&str]| -> Bytes {
        let jira = json!({"who": [{"dns": "j.example"}], "may": ["levitate"]});
        json!({"format": 1, "stopped": stopped, "consumers": {"jira": jira}}).to_string().into()
    };
    let refused =
        catalogue.write_grants(newer(&[]), Preconditions::none(), None, &Author::anonymous()).await.unwrap_err();
    assert!(
        matches!(&refused, CatalogueError::Grants(errors) if errors[0].contains("jira.may: levitate")),
        "{refused:?}"
    );
    // A newer process wrote it; in an incident this one must be able to stop.
    put(&store, Table::Records, NOW, &newer(&[])).await;
    catalogue.write_grants(newer(&["jira"]), Preconditions::none(), None, &Author::anonymous()).await.unwrap();
    catalogue.follow_once(&gate).await.unwrap();
    let jira = Principal::Dns("j.example".into());
    assert!(gate.grants().unwrap().rights_of(&jira).unwrap().is_stopped());
}
