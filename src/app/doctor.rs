//! `nearside doctor`: a sidecar without listeners that asks, subscribes and listens for a while,
//! and reports what it saw.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderMap, Method};

use super::limits::LEAD_AT_ONCE;
use super::{Overrides, StartError, Topics, build, findings, process, subscribe};
use crate::admin::findings::Evidence;
use crate::admin::findings::report::{ReportLine, report};
use crate::cache::capacity::Memory;
use crate::config::overrides::{is_override, overrides};
use crate::config::{Config, Transport};
use crate::http::admission::Admitted;
use crate::migration::trial::Trial;
use crate::request::answer::Outcome;
use crate::request::lookup::route_of;
use crate::request::serve;
use crate::request::settings::Settings;
use crate::request::trial::trials as trials_of;
use crate::routing::foreign::{self, HeaderFate, fate};
use crate::shape::shapes::ShapeRefused;
use crate::sidecar::announcements::subscription::Subscriptions;

mod credentials;
mod grants;
mod headers;
mod paths;

pub use paths::CANDIDATE;

/// Order of an examination.
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
pub async fn examine(config: Config, order: DoctorOrder, instead: Overrides) -> Result<Vec<ReportLine>, StartError> {
    // SNS posts to one endpoint, that of a running sidecar. A doctor that subscribed and
    // unsubscribed it would take that sidecar's topic away.
    let subscribes = !is_posted_to(&config);
    // What is passed on for its headers races no regions, and shows little of what is examined.
    let (routes, mut config) = (config.service.routes.clone(), config);
    for route in &mut config.service.routes {
        let foreign: Vec<_> = foreign::names(route, &order.headers)
            .filter(|name| fate(route, name) == HeaderFate::Foreign && !is_override(name))
            .cloned()
            .collect();
        route.forward.extend(foreign);
    }
    let (sidecar, _) = build(config, &instead, Memory::of_the_machine())?;
    let topics = Topics::default();
    let started = if subscribes { subscribe(&sidecar, &topics, instead.pace.unwrap_or_default()) } else { Ok(()) };
    sidecar.fill.minters.first_mints().await;
    let trials = trials(&sidecar, &order);
    let mut refused = BTreeMap::new();
    if started.is_ok() {
        tokio::select! {
            () = look(&sidecar, &order, &trials, &mut refused) => {}
            // Even then, what was made is removed.
            Ok(()) = process::stop_requested() => {}
        }
    }
    let subscriptions = topics.get().map(Subscriptions::status).unwrap_or_default();
    let now = sidecar.fill.shared.clock.now();
    let mut lines = findings::with_evidence(&sidecar, &subscriptions, now, |evidence: &Evidence<'_>| {
        let lead_wait = evidence.lead_wait.min(LEAD_AT_ONCE);
        report(&Evidence { lead_wait, ..*evidence })
    });
    lines.extend(credentials::lines(&sidecar.fill.minters.status(now)));
    lines.extend(of_grants(&sidecar));
    lines.extend(refused.iter().map(|(path, refused)| paths::refused(path, refused)));
    for (path, trials) in &trials {
        let seen: Vec<_> = trials.iter().map(|it| (sidecar.fill.regions.name(it.region()), it.shown())).collect();
        lines.extend(paths::candidate(path, &seen));
    }
    if started.is_ok() {
        for path in &order.paths {
            let request = request(&sidecar, path, &order.headers);
            if let Some(matched) = route_of(&sidecar, request.head().path()) {
                let route = &routes[matched.index.0];
                lines.extend(headers::lines(&sidecar, route, matched, &request, &order.headers).await);
            }
        }
    }
    let deadline = sidecar.fill.config.drain.deadline;
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
    sidecar.fill.shared.tasks.drain(deadline).await;
    started.map(|()| lines)
}

fn of_grants(sidecar: &Settings) -> Vec<ReportLine> {
    let shared = &sidecar.fill.shared;
    let (view, now) = (shared.freshness.grants().view(), shared.clock.wall());
    let known = grants::Known { view: &view, metrics: &shared.metrics.grants, now };
    grants::lines(&known, shared.names.iter().map(String::as_str))
}

/// Replies of both upstreams of a path's route, in each region.
fn trials<'o>(sidecar: &Arc<Settings>, order: &'o DoctorOrder) -> Vec<(&'o str, Vec<Trial>)> {
    order
        .paths
        .iter()
        .map(|path| {
            let request = request(sidecar, path, &order.headers);
            (path.as_str(), trials_of(sidecar, request.head()))
        })
        .collect()
}

/// Examines the paths; those that the sidecar itself refuses stand in `refused`.
async fn look<'o>(
    sidecar: &Arc<Settings>,
    order: &'o DoctorOrder,
    trials: &[(&str, Vec<Trial>)],
    refused: &mut BTreeMap<&'o str, ShapeRefused>,
) {
    let asks = async {
        loop {
            for path in &order.paths {
                let outcome = serve::serve(sidecar, request(sidecar, path, &order.headers)).await;
                match unshaped(outcome) {
                    Some(why) => drop(refused.insert(path, why)),
                    None => drop(refused.remove(path.as_str())),
                }
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    };
    let compared = join_all(trials.iter().flat_map(|(_, trials)| trials).map(Trial::run));
    let _ = tokio::time::timeout(order.listen, futures_util::future::join(asks, compared)).await;
}

/// Why the sidecar itself refused, if the request asks for something that cannot be had.
fn unshaped(outcome: Outcome) -> Option<ShapeRefused> {
    match outcome {
        Outcome::Unshaped(why) => Some(why),
        Outcome::ByAccept(outcome, _) => unshaped(*outcome),
        _ => None,
    }
}

/// As a caller asks who wants an answer from the regions themselves, without headers that could make
/// it a write, a read of another path or somebody else's.
fn request(sidecar: &Settings, path: &str, headers: &HeaderMap) -> Admitted {
    let mut headers = headers.clone();
    headers.insert(http::header::CACHE_CONTROL, http::HeaderValue::from_static("no-cache"));
    let path_len = path.find('?').unwrap_or(path.len());
    let route = sidecar.fill.router.find(&path[..path_len]).map(|matched| matched.route);
    let left_out: Vec<_> = match route {
        // What else it is passed on for is forwarded here.
        Some(route) => foreign::names(route, &headers).cloned().collect(),
        None => overrides(&headers).cloned().collect(),
    };
    left_out.iter().for_each(|name| drop(headers.remove(name)));
    Admitted { method: Method::GET, path_and_query: path.to_owned(), path_len, headers, body: Bytes::new() }
}

/// True if SNS posts to this configuration's sidecars: what comes from topics then shows only
/// there.
pub fn is_posted_to(config: &Config) -> bool {
    matches!(config.announcements.transport, Transport::Http { .. })
}

#[cfg(test)]
mod tests;
