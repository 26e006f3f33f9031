//! Wires the views service: the mapper on the changes of the records, jobs and the sweep.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;

use super::gate;
use super::parts::ServiceParts;
use super::shell::Shell;
use super::start_error::ServiceStartError;
use crate::access::gate::Gate;
use crate::admin::service_pages::ServiceState;
use crate::engine::Stream;
use crate::engine::follow::FeedProgress;
use crate::model::time::Clock;
use crate::views::grants;
use crate::views::{ViewsCounters, ViewsService};

pub(super) fn open(shell: &Shell) -> Result<ServiceParts, ServiceStartError> {
    let gate = open_gate(shell)?;
    let counters = ViewsCounters::default();
    shell.registry().register_collector(Box::new(counters.metrics.clone()));
    let service = ViewsService {
        definitions: shell.contents.views.iter().cloned().map(Arc::new).collect(),
        store: shell.engine.home(),
        feed: shell.feed(Stream::Changes, "views"),
        clock: shell.clock.clone(),
        holder: shell.holder(),
        views_per_second: u32::try_from(shell.config.views.rate).unwrap_or(u32::MAX),
        sweep_period: shell.config.views.sweep,
        counters,
        status: Arc::default(),
        progress: Arc::default(),
    };
    let (progress, clock) = (service.progress.clone(), shell.clock.clone());
    let doing = service.status.clone();
    let wrong: Arc<Mutex<Option<String>>> = Arc::default();
    let (reported, stopping) = (wrong.clone(), shell.tasks.stopping());
    shell.tasks.spawn_service("views", move || {
        let (service, reported, stopping) = (service.clone(), reported.clone(), stopping.clone());
        async move {
            if let Err(error) = service.run(&stopping).await {
                tracing::error!(%error, "no view is made until the file of definitions is corrected and this restarted");
                *reported.lock() = Some(error.to_string());
            }
        }
    });
    let names: Vec<String> = shell.contents.views.iter().map(|view| view.name.clone()).collect();
    let (seen, since, engine) = (progress.clone(), clock.clone(), shell.engine.clone());
    Ok(ServiceParts {
        gate,
        state: Box::new(move || {
            let wrong = wrong.lock().clone();
            let failing = failing_parts(&seen, &since);
            match (wrong, failing) {
                (Some(wrong), _) => (ServiceState::Starting, vec![wrong]),
                (None, failing) if !failing.is_empty() => (ServiceState::Serving, failing),
                // Who cannot reach the store does not know who else makes them.
                (None, _) if seen.through().is_none() && engine.health().lines().is_empty() => (
                    ServiceState::Serving,
                    vec!["standing by: another process makes the views, or none has begun".into()],
                ),
                (None, _) => (ServiceState::Serving, Vec::new()),
            }
        }),
        status: Box::new(move || {
            let behind = progress.through().map(|through| clock.wall().since(through).as_secs_f64());
            let doing = doing.get();
            let jobs = doing.jobs.iter().map(|job| json!({ "what": job.what, "views": job.views, "done": job.done }));
            json!({
                "views": names,
                "left_alone": doing.left_alone,
                "holds_lease": doing.holds_lease,
                "behind_s": behind,
                "shards": progress.shards(),
                "failing": failing_parts(&progress, &clock),
                "jobs": jobs.collect::<Vec<_>>(),
                "failures": doing.failures,
                "swept_ms": doing.swept.map(crate::model::time::Wall::as_millis),
            })
        }),
        commands: Vec::new(),
        node: None,
    })
}

/// The gate of operators, who are this service's only callers: none where only this machine uses it.
fn open_gate(shell: &Shell) -> Result<Option<Arc<Gate>>, ServiceStartError> {
    let (access, views) = (&shell.config.access, &shell.config.views);
    if !gate::is_for_others(access, views.admin, views.behind_proxy) {
        return Ok(None);
    }
    let opened = gate::open(shell, &access.operate_audience, Vec::new())?;
    let Some(gate) = opened else { return Ok(None) };
    let (store, followed, clock, stopping) =
        (shell.engine.home(), gate.clone(), shell.clock.clone(), shell.tasks.stopping());
    shell.tasks.spawn_service("grants", move || {
        let (store, gate, clock, stopping) = (store.clone(), followed.clone(), clock.clone(), stopping.clone());
        async move { stopping.run_until_cancelled(grants::follow(&*store, &gate, &clock)).await }
    });
    Ok(Some(gate))
}

/// Parts of reading a feed that fail, that which has failed for longest first.
pub(super) fn failing_parts(progress: &FeedProgress, clock: &Clock) -> Vec<String> {
    let now = clock.now();
    progress
        .failing()
        .into_iter()
        .take(FAILING_REPORTED)
        .map(|failing| format!("{} for {:?}: {}", failing.part, now.since(failing.since), failing.error))
        .collect()
}

/// Failing shards that pages name.
const FAILING_REPORTED: usize = 10;
