//! Wires a region: its ingester on the changes of the views, its node on the port, or one of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;

use super::gate;
use super::parts::ServiceParts;
use super::service_process::RegionDuties;
use super::shell::Shell;
use super::start_error::ServiceStartError;
use super::views;
use crate::access::gate::Gate;
use crate::admin::service_pages::ServiceState;
use crate::app::{self, App, Overrides, StartError};
use crate::config::Config;
use crate::config::services::{NodeCompression, ServedRegion};
use crate::engine::limits::BUCKETS;
use crate::engine::{EngineError, Stream, Table, Tables, bucket};
use crate::region::exposition::IngestExposition;
use crate::region::grants;
use crate::region::ingest::{IngestParts, Ingester, is_complete};
use crate::region::node::{self, NodeSettings};
use crate::region::origin::TableOrigin;

/// Interval between looks whether the region is complete, before the search for its views.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval between looks for views of which the region has nothing.
const VIEWS_LOOK_EVERY: Duration = Duration::from_secs(300);

pub(super) async fn open(
    shell: &Arc<Shell>,
    region: &ServedRegion,
    duties: RegionDuties,
) -> Result<ServiceParts, ServiceStartError> {
    let own = shell.engine.regional(region).await;
    let table = own.clone();
    // Operators from elsewhere are asked who they are also where nobody reads.
    let is_asked = duties.node || gate::is_for_others(&shell.config.access, region.admin, region.behind_proxy);
    let gate = if is_asked { open_gate(shell, region, &own)? } else { None };
    let ingester = if duties.ingest { Some(ingest(shell, region, own.clone()).await) } else { None };
    let (node, complete) = if duties.node {
        let complete = watch_completeness(shell, own.clone());
        (Some(serve(shell, region, own, complete.clone(), gate.as_ref()).await?), complete)
    } else {
        (None, Arc::new(AtomicBool::new(true)))
    };
    let (asked, shown) = (gate.clone().filter(|_| duties.node), gate.clone());
    let admin = node.as_ref().map(|node| node.admin.to_string());
    let name = region.name.clone();
    let unseen = look_for_views(shell, region, table);
    let (watched, since, clock) = (ingester.clone(), shell.clock.clone(), shell.clock.clone());
    Ok(ServiceParts {
        gate,
        state: Box::new(move || {
            let mut reasons =
                watched.as_ref().map_or_else(Vec::new, |ingester| views::failing_parts(ingester.progress(), &since));
            reasons.extend(asked.as_ref().and_then(|gate| gate.reason()));
            if complete.load(Ordering::Acquire) {
                let unseen = unseen.lock().join(", ");
                if !unseen.is_empty() {
                    reasons.push(format!("region.views: nothing has been seen of {unseen}"));
                }
                return (gate::state(asked.as_ref()), reasons);
            }
            reasons.push("the region has not been filled yet: readers get 503".to_owned());
            (ServiceState::Starting, reasons)
        }),
        status: Box::new(move || {
            let ingest = ingester.as_ref().map(|ingester| {
                let seconds = |span: Duration| span.as_secs_f64();
                let (counts, swept) = (&ingester.counts, &ingester.sweep_counts.metrics);
                json!({
                    "state": ingester.state(),
                    "behind_s": ingester.behind().map(seconds),
                    "canary_age_s": ingester.canary_age().map(seconds),
                    "shards": ingester.progress().shards(),
                    "failing": views::failing_parts(ingester.progress(), &clock),
                    "put": counts.put.get(),
                    "not_newer": counts.not_newer.get(),
                    "skipped": ingester.skipped(),
                    "announced": ingester.publisher().counts.metrics.announced.get(),
                    "sweep": {
                        "buckets": swept.buckets.get(),
                        "differing": swept.differing.get(),
                        "mended": swept.mended.get(),
                        "failed": swept.failed.get(),
                    },
                })
            });
            let node = admin.as_ref().map(|admin| json!({ "admin": admin }));
            json!({ "name": name, "ingest": ingest, "node": node, "access": gate::status(shown.as_ref()) })
        }),
        commands: Vec::new(),
        node,
    })
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
    let (own, holder, stopping) = (ingester.clone(), shell.holder(), shell.tasks.stopping());
    shell.tasks.spawn_service("ingest", move || own.clone().run(holder.clone(), stopping.clone()));
    ingester
}

/// The gate of the region's process, which follows the region's grants.
fn open_gate(
    shell: &Arc<Shell>,
    region: &ServedRegion,
    own: &Arc<dyn Tables>,
) -> Result<Option<Arc<Gate>>, ServiceStartError> {
    let opened = gate::open(shell, &shell.config.access.region_audience, views_of(shell, region))?;
    let Some(gate) = opened else { return Ok(None) };
    let (own, followed, clock, stopping) = (own.clone(), gate.clone(), shell.clock.clone(), shell.tasks.stopping());
    shell.tasks.spawn_service("grants", move || {
        let (own, gate, clock, stopping) = (own.clone(), followed.clone(), clock.clone(), stopping.clone());
        async move { stopping.run_until_cancelled(grants::follow(&*own, &gate, &clock)).await }
    });
    Ok(Some(gate))
}

/// Names of the views that the region takes.
fn views_of(shell: &Shell, region: &ServedRegion) -> Vec<String> {
    match region.views.as_slice() {
        [] => shell.contents.views.iter().map(|view| view.name.clone()).collect(),
        listed => listed.to_vec(),
    }
}

async fn serve(
    shell: &Arc<Shell>,
    region: &ServedRegion,
    own: Arc<dyn Tables>,
    complete: Arc<AtomicBool>,
    gate: Option<&Arc<Gate>>,
) -> Result<App, ServiceStartError> {
    let views = views_of(shell, region);
    if views.is_empty() {
        return Err(ServiceStartError::NoViews(region.name.clone()));
    }
    let settings = NodeSettings {
        region: region.name.clone(),
        topic: region.topic.as_ref().map(|topic| topic.arn.clone()),
        listen: region.listen,
        hosts: region.allowed_hosts.clone(),
        // The region's own pages are on `region.admin`, and say where this is.
        admin: ([127, 0, 0, 1], 0).into(),
        views,
    };
    let mut config = node::config(&settings).map_err(ServiceStartError::Node)?;
    if region.compression == NodeCompression::Zstd {
        node::compress(&mut config);
    }
    config.drain = shell.config.drain;
    config.announcements.endpoint_url = shell.topics.clone();
    config.announcements.insecure_sns_signer = shell.topics.clone().filter(crate::config::is_loopback);
    let (gate, tls) = (gate.cloned(), shell.tls.clone());
    let instead = Overrides { clock: shell.clock.clone(), gate, tls, ..Overrides::default() };
    start_node(config, own, complete, instead).await.map_err(|error| ServiceStartError::NodeStart(Box::new(error)))
}

/// Starts a node that answers from `tables`. `config` is what [`crate::region::node::config`] made,
/// with whatever else a file says about listeners, announcements and bounds. Until `complete`, it
/// answers 503.
pub async fn start_node(
    config: Config,
    tables: Arc<dyn Tables>,
    complete: Arc<AtomicBool>,
    instead: Overrides,
) -> Result<App, StartError> {
    let origin = TableOrigin::new(&config, tables, complete, instead.clock.clone());
    app::start_with(config, Overrides { origin: Some(Arc::new(origin)), ..instead }).await
}

fn watch_completeness(shell: &Arc<Shell>, own: Arc<dyn Tables>) -> Arc<AtomicBool> {
    let complete = Arc::new(AtomicBool::new(false));
    let (reported, stopping) = (complete.clone(), shell.tasks.stopping());
    shell.tasks.spawn_service("completeness", move || {
        let (own, reported, stopping) = (own.clone(), reported.clone(), stopping.clone());
        async move { stopping.run_until_cancelled(node::watch_completeness(&*own, &reported)).await }
    });
    complete
}

/// The views that the region is to take and of which it has nothing, where no file says which
/// ones there are. A misspelt one is never seen.
fn look_for_views(shell: &Arc<Shell>, region: &ServedRegion, own: Arc<dyn Tables>) -> Arc<Mutex<Vec<String>>> {
    let unseen = Arc::new(Mutex::new(Vec::new()));
    let views = region.views.clone();
    if shell.config.views.file.is_some() || views.is_empty() {
        return unseen;
    }
    let (reported, stopping) = (unseen.clone(), shell.tasks.stopping());
    shell.tasks.spawn_service("views", move || {
        let look = look_until_seen(views.clone(), own.clone(), reported.clone());
        let stopping = stopping.clone();
        async move { stopping.run_until_cancelled(look).await }
    });
    unseen
}

async fn look_until_seen(mut views: Vec<String>, own: Arc<dyn Tables>, reported: Arc<Mutex<Vec<String>>>) {
    while !views.is_empty() {
        let mut wait = LOOK_EVERY;
        // An incomplete region has not taken yet what there is.
        if is_complete(&*own).await.unwrap_or(false) {
            let mut without = Vec::new();
            for view in std::mem::take(&mut views) {
                if !has_any(&*own, &view).await.unwrap_or(false) {
                    without.push(view);
                }
            }
            views = without;
            *reported.lock() = views.clone();
            wait = VIEWS_LOOK_EVERY;
        }
        tokio::time::sleep(wait).await;
    }
}

/// True if the table has a copy of this view.
async fn has_any(own: &dyn Tables, view: &str) -> Result<bool, EngineError> {
    for number in 0..BUCKETS {
        if !own.query(Table::Contexts, &bucket::of(view, number), None, 1).await?.items.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::memory::MemoryStore;
    use crate::engine::{Condition, Item, ItemKey, ItemWrite};
    use crate::model::time::Clock;

    #[tokio::test]
    async fn view_is_found_in_any_bucket() {
        let own = MemoryStore::new(Clock::default());
        assert_eq!(has_any(&own, "limits").await, Ok(false));
        let item = Item::new(ItemKey::new(bucket::partition("limits", "acme"), "acme"), 5);
        own.write(vec![ItemWrite::Put(Table::Contexts, item, Condition::Any)]).await.unwrap();
        assert_eq!(has_any(&own, "limits").await, Ok(true));
        assert_eq!(has_any(&own, "limit").await, Ok(false));
    }
}
