//! `nearside verify` on what services left in an embedded engine's directory.

use std::path::Path;

use nearside::app::services::Engine;
use nearside::aws::clients::Sdk;
use nearside::config::services::{ServiceRole, ServicesConfig, load};
use nearside::engine::{Condition, Item, ItemKey, ItemWrite, Table, Tables, bucket};
use nearside::model::time::Clock;
use serde_json::json;

use super::super::program::{path, run, text};
use super::in_process::{InProcess, REGIONS};

/// Three tenants, each on a shard of its own, in both regions; returns the directory's settings.
async fn filled(directory: &tempfile::TempDir) -> ServicesConfig {
    let engine = format!("kind = \"embedded\"\ndirectory = \"{}\"", directory.path().join("data").display());
    let whole = Box::pin(InProcess::start(directory, &engine)).await;
    for at in 0..3 {
        whole.reach.put("shard", &format!("s{at}"), &json!({"host": "db"})).await;
        whole.reach.put("tenant", &format!("t{at}"), &json!({"users": at, "shard": format!("s{at}")})).await;
    }
    for node in &whole.reach.nodes {
        for at in 0..3 {
            let key = format!("t{at}");
            whole.reach.until_at(node, &key, |seen| seen.is_view(&json!({"users": at, "host": "db"}))).await;
        }
    }
    whole.stop().await;
    load(ServiceRole::Views, Some(&directory.path().join("service.toml")), std::iter::empty()).unwrap().0
}

/// `nearside verify`: its exit code, and what it prints.
fn verified(directory: &Path, more: &[&str]) -> (Option<i32>, String) {
    let file = directory.join("service.toml");
    let output = run(&[&["verify", "--config", path(&file), "--wait", "0s"], more].concat());
    (output.status.code(), text(&output.stdout).to_owned() + text(&output.stderr))
}

async fn write(tables: &dyn Tables, write: ItemWrite) {
    tables.write(vec![write]).await.unwrap();
}

fn place(of: &str, key: &str) -> ItemKey {
    ItemKey::new(bucket::partition(of, key), key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manual_table_changes_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let config = Box::pin(filled(&directory)).await;
    let (code, said) = verified(directory.path(), &[]);
    assert!(
        code == Some(0)
            && said.contains("compared 3 views")
            && said.contains("in eu-west-1, us-east-1\nnothing differs"),
        "{said}"
    );
    {
        let engine = Engine::open(&config.engine, Sdk::new(None), &Clock::System).await.unwrap();
        let region = engine.regional(config.region(Some(REGIONS[0])).unwrap()).await;
        let mut changed = region.get(Table::Contexts, &place("limits", "t0")).await.unwrap().unwrap();
        changed.body = Some("{}".into());
        write(&*region, ItemWrite::Put(Table::Contexts, changed, Condition::Any)).await;
        write(&*region, ItemWrite::Delete(Table::Contexts, place("limits", "t1"), Condition::Any)).await;
        let added = Item::new(place("limits", "nobody"), 1);
        write(&*region, ItemWrite::Put(Table::Contexts, added, Condition::Any)).await;
        let newer = Item::new(place("shard", "s2"), u64::MAX).with_body(r#"{"host":"moved"}"#);
        write(&*engine.home(), ItemWrite::Put(Table::Records, newer, Condition::Any)).await;
    }
    let (code, said) = verified(directory.path(), &[]);
    assert_eq!(code, Some(1), "{said}");
    for line in [
        "eu-west-1: different 1",
        "eu-west-1: missing 1",
        "eu-west-1: extra 1",
        "views: old-input 1",
        "4 differences",
    ] {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
    assert!(!said.contains("us-east-1: ") && !said.contains("nobody"), "{said}");
    let (code, said) = verified(directory.path(), &["--show-keys"]);
    assert_eq!(code, Some(1));
    for line in ["  eu-west-1: extra limits nobody", "  views: old-input limits t2"] {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
}

#[test]
fn uncomparable_settings_are_config_errors() {
    let directory = tempfile::tempdir().unwrap();
    super::deployment::service_file(directory.path(), "kind = \"memory\"", &[]);
    let (code, said) = verified(directory.path(), &[]);
    assert!(code == Some(2) && said.contains("cannot be compared"), "{said}");
    std::fs::write(directory.path().join("service.toml"), "[engine]\nkind = \"embedded\"\n").unwrap();
    let (code, said) = verified(directory.path(), &[]);
    assert!(code == Some(2) && said.contains("views.file: missing"), "{said}");
}
