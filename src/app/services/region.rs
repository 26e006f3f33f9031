//! Wires a region: its ingester on the changes of the views, its node on the port, or one of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::{RegionDuties, ServiceParts, ServiceStartError, Shell};
use crate::admin::service_pages::ServiceState;
use crate::app::{self, App, Instead, StartError};
use crate::config::Config;
use crate::config::services::ServedRegion;
use crate::engine::{Stream, Tables};
use crate::region::exposition::IngestExposition;
use crate::region::ingest::{IngestParts, Ingester};
use crate::region::node::{self, NodeSettings};
use crate::region::origin::TableOrigin;

pub(super) async fn open(
    shell: &Arc<Shell>,
    region: &ServedRegion,
    duties: RegionDuties,
) -> Result<ServiceParts, ServiceStartError> {
    let own = shell.engine.regional(region).await;
    let ingester = if duties.ingest { Some(ingest(shell, region, own.clone()).await) } else { None };
    let (node, complete) = match duties.node {
        true => {
            let complete = watch_completeness(shell, own.clone());
            (Some(serve(shell, region, own, complete.clone()).await?), complete)
        }
        false => (None, Arc::new(AtomicBool::new(true))),
    };
    let admin = node.as_ref().map(|node| node.admin.to_string());
    let name = region.name.clone();
    let watched = ingester.clone();
    let state = move || {
        let failing = watched.as_ref().and_then(|ingester| ingester.progress().failing());
        let mut reasons: Vec<String> = failing.into_iter().map(|(_, error)| error.to_string()).collect();
        if complete.load(Ordering::Acquire) {
            return (ServiceState::Serving, reasons);
        }
        reasons.push("the region has not been filled yet: readers get 503".to_owned());
        (ServiceState::Starting, reasons)
    };
    let status = move || {
        let ingest = ingester.as_ref().map(|ingester| {
            let seconds = |span: Duration| span.as_secs_f64();
            json!({
                "state": ingester.state(),
                "behind_s": ingester.behind().map(seconds),
                "canary_age_s": ingester.canary_age().map(seconds),
                "put": ingester.counts.put.load(Ordering::Relaxed),
                "not_newer": ingester.counts.not_newer.load(Ordering::Relaxed),
                "announced": ingester.publisher().counts.announced.load(Ordering::Relaxed),
            })
        });
        let node = admin.as_ref().map(|admin| json!({ "admin": admin }));
        json!({ "name": name, "ingest": ingest, "node": node })
    };
    Ok(ServiceParts { state: Box::new(state), status: Box::new(status), node })
}

async fn ingest(shell: &Arc<Shell>, region: &ServedRegion, own: Arc<dyn Tables>) -> Arc<Ingester> {
    let ingester = Ingester::new(IngestParts {
        region: region.name.clone(),
        home: shell.engine.home(),
        own,
        feed: shell.feed(Stream::Views, &region.name),
        topic: shell.engine.topic(region).await,
        views: region.only(),
        clock: shell.clock.clone(),
    });
    shell.registry().register_collector(Box::new(IngestExposition::new(ingester.clone())));
    shell.tasks.spawn("ingest", ingester.clone().run(shell.holder(), shell.tasks.stopping()));
    ingester
}

async fn serve(
    shell: &Arc<Shell>,
    region: &ServedRegion,
    own: Arc<dyn Tables>,
    complete: Arc<AtomicBool>,
) -> Result<App, ServiceStartError> {
    let views = match region.views.as_slice() {
        [] => shell.contents.views.iter().map(|view| view.name.clone()).collect(),
        listed => listed.to_vec(),
    };
    if views.is_empty() {
        return Err(ServiceStartError::NoViews(region.name.clone()));
    }
    let settings = NodeSettings {
        region: region.name.clone(),
        topic: region.topic.as_ref().map(|topic| topic.arn.clone()),
        listen: region.listen,
        hosts: Vec::new(),
        // The region's own pages are on `region.admin`, and say where this is.
        admin: ([127, 0, 0, 1], 0).into(),
        views,
    };
    let mut config = node::config(&settings).map_err(ServiceStartError::Node)?;
    config.drain = shell.config.drain;
    config.announcements.endpoint_url = shell.topics.clone();
    config.announcements.insecure_sns_signer = shell.topics.clone().filter(crate::config::is_loopback);
    let instead = Instead { clock: shell.clock.clone(), ..Instead::default() };
    start_node(config, own, complete, instead).await.map_err(|error| ServiceStartError::NodeStart(Box::new(error)))
}

/// Starts a node that answers from `tables`. `config` is what [`crate::region::node::config`] made,
/// with whatever else a file says about listeners, announcements and bounds. Until `complete`, it
/// answers 503.
pub async fn start_node(
    config: Config,
    tables: Arc<dyn Tables>,
    complete: Arc<AtomicBool>,
    instead: Instead,
) -> Result<App, StartError> {
    let origin = TableOrigin::new(&config, tables, complete, instead.clock.clone());
    app::start_with(config, Instead { origin: Some(Arc::new(origin)), ..instead }).await
}

fn watch_completeness(shell: &Arc<Shell>, own: Arc<dyn Tables>) -> Arc<AtomicBool> {
    let complete = Arc::new(AtomicBool::new(false));
    let (told, stopping) = (complete.clone(), shell.tasks.stopping());
    shell.tasks.spawn("completeness", async move {
        stopping.run_until_cancelled(node::watch_completeness(&*own, &told)).await;
    });
    complete
}
