//! A task that panics, as operators see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nearside::app;
use serde_json::Value;

use super::program::{self, TIMEOUT, get, settings};
use super::service::Service;

#[tokio::test]
async fn panicked_task_appears_on_every_page() {
    let service = Service::start(1);
    let rest = "[announcements]\ntransport = \"off\"\n[drain]\nlinger = \"0s\"\n";
    let text = settings("supervised", &[("eu-west-1", service.urls()[0].as_str(), "")], rest);
    let app = app::start(program::read(&text)).await.unwrap();
    let tasks = app.sidecar.fill.shared.tasks.clone();
    for name in ["accept", "admin", "ticker", "findings", "files", "warm"] {
        assert!(tasks.panics().contains_key(name), "{name} runs");
    }
    let (has_panicked, stopping) = (Arc::new(AtomicBool::new(false)), tasks.stopping());
    let seen = has_panicked.clone();
    tasks.spawn_service("unsteady", move || {
        let (seen, stopping) = (seen.clone(), stopping.clone());
        async move {
            assert!(seen.swap(true, Ordering::SeqCst), "on purpose");
            stopping.cancelled().await;
        }
    });
    let base = format!("http://{}", app.admin);
    let named = async {
        loop {
            let ready: Value = serde_json::from_str(&get(&format!("{base}/readyz")).await.1).unwrap();
            let reasons = ready["reasons"].as_array().unwrap().clone();
            if reasons.iter().any(|line| line.as_str().unwrap().contains("\"unsteady\" panicked once")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, named).await.expect("/readyz names it");
    let status: Value = serde_json::from_str(&get(&format!("{base}/status")).await.1).unwrap();
    assert_eq!((&status["task_panics"]["unsteady"], &status["task_panics"]["ticker"]), (&1.into(), &0.into()));
    let metrics = get(&format!("{base}/metrics")).await.1;
    for line in ["nearside_task_panics_total{task=\"unsteady\"} 1", "nearside_task_panics_total{task=\"ticker\"} 0"] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    assert_eq!(app.stop().await, app::Stopped::default());
}
