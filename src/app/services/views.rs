//! Wires the views service: the mapper on the changes of the records, jobs and the sweep.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;

use super::{ServiceParts, Shell};
use crate::admin::service_pages::ServiceState;
use crate::engine::Stream;
use crate::views::{ViewsCounters, ViewsService};

pub(super) fn open(shell: &Shell) -> ServiceParts {
    let counters = ViewsCounters::default();
    counters.register(&mut shell.registry());
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
    let (told, stopping) = (wrong.clone(), shell.tasks.stopping());
    shell.tasks.spawn("views", async move {
        if let Err(error) = service.run(&stopping).await {
            tracing::error!(%error, "no view is made until the file of definitions is corrected and this restarted");
            *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
        }
    });
    let names: Vec<String> = shell.contents.views.iter().map(|view| view.name.clone()).collect();
    let (seen, since) = (progress.clone(), clock.clone());
    let state = move || {
        let wrong = wrong.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let failing = seen.failing().map(|(at, error)| format!("for {:?}: {error}", since.now().since(at)));
        match (wrong, failing) {
            (Some(wrong), _) => (ServiceState::Starting, vec![wrong]),
            (None, Some(failing)) => (ServiceState::Serving, vec![failing]),
            (None, None) if seen.through().is_none() => (
                ServiceState::Serving,
                vec!["standing by: another process makes the views, or none has begun".into()],
            ),
            (None, None) => (ServiceState::Serving, Vec::new()),
        }
    };
    ServiceParts {
        state: Box::new(state),
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
                "jobs": jobs.collect::<Vec<_>>(),
                "failures": doing.failures,
                "swept_ms": doing.swept.map(crate::model::time::Wall::as_millis),
            })
        }),
        node: None,
    }
}
