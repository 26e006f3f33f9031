//! `nearside doctor`: a sidecar without listeners that asks, subscribes and listens for a while,
//! and reports what it saw.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::{Instead, StartError, Topics, build, findings, process, subscribe};
use crate::admin::findings::Evidence;
use crate::admin::findings::report::{ReportLine, report};
use crate::cache::capacity::Memory;
use crate::config::{Config, Transport};
use crate::core::{Core, serve};
use crate::http::admission::Admitted;
use crate::sidecar::announcements::subscription::Subscriptions;

/// What to examine.
#[derive(Clone, Debug, Default)]
pub struct DoctorOrder {
    /// Paths that are asked for while it listens.
    pub paths: Vec<String>,
    /// Sent with them, as a caller would.
    pub headers: HeaderMap,
    pub listen: Duration,
}

/// Time between two requests for the same path, so that changes made meanwhile show.
const ASK_EVERY: Duration = Duration::from_millis(900);

/// Examines, and leaves nothing behind.
///
/// # Errors
/// Like a start.
pub async fn examine(config: Config, order: DoctorOrder, instead: Instead) -> Result<Vec<ReportLine>, StartError> {
    // SNS posts to one endpoint, that of a running sidecar. A doctor that subscribed and
    // unsubscribed it would take that sidecar's topic away.
    let subscribes = !is_posted_to(&config);
    let (sidecar, _) = build(config, &instead, Memory::of_the_machine())?;
    let topics = Topics::default();
    let started = if subscribes { subscribe(&sidecar, &topics, instead.pace.unwrap_or_default()) } else { Ok(()) };
    if started.is_ok() {
        tokio::select! {
            () = look(&sidecar, &order) => {}
            // Even then, what was made is removed.
            Ok(()) = process::told_to_stop() => {}
        }
    }
    let subscriptions = topics.get().map(Subscriptions::status).unwrap_or_default();
    let now = sidecar.clock.now();
    let lines = findings::with_evidence(&sidecar, &subscriptions, now, |evidence: &Evidence<'_>| report(evidence));
    let deadline = sidecar.config.drain.deadline;
    if let Some(subscriptions) = topics.get() {
        let left = subscriptions.shutdown(deadline).await;
        for left in left {
            tracing::warn!(
                queue = left.queue,
                subscription = left.subscription,
                "left behind: the janitor will remove it"
            );
        }
    }
    sidecar.tasks.drain(deadline).await;
    started.map(|()| lines)
}

async fn look(sidecar: &Arc<Core>, order: &DoctorOrder) {
    let asks = async {
        loop {
            for path in &order.paths {
                ask(sidecar, path, &order.headers).await;
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    };
    let _ = tokio::time::timeout(order.listen, asks).await;
}

/// Asks like a caller who wants an answer from the regions themselves.
async fn ask(sidecar: &Arc<Core>, path: &str, headers: &HeaderMap) {
    let mut headers = headers.clone();
    headers.insert(http::header::CACHE_CONTROL, http::HeaderValue::from_static("no-cache"));
    let path_len = path.find('?').unwrap_or(path.len());
    let admitted =
        Admitted { method: Method::GET, path_and_query: path.to_owned(), path_len, headers, body: Bytes::new() };
    drop(serve::serve(sidecar, admitted).await);
}

/// Whether SNS posts to this configuration's sidecars: what comes from topics then shows only
/// there.
pub fn is_posted_to(config: &Config) -> bool {
    matches!(config.announcements.transport, Transport::Http { .. })
}
