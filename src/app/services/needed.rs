//! Looks whether the tables, the stream and the topic are there that a process needs: at the start,
//! until all of them are (somebody may be creating them), then now and then, and at once when a
//! part gets the error that something is missing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{FutureExt, join_all};
use tokio_util::sync::CancellationToken;

use super::engines::Engine;
use super::service_process::ServiceProcess;
use super::shell::Shell;
use super::watched::{Lacking, WatchedEngine};
use crate::app::limits::{CHECK_AGAIN, CHECK_WAIT, LOOK_AGAIN, LOOK_FOR_TABLES};
use crate::aws::clients::Sdk;
use crate::config::services::ServicesConfig;
use crate::engine::{EngineError, Feed, ItemKey, Stream, Table, Tables, Topic};
use crate::model::time::Clock;

/// Tables, feed and topic of a place that a process needs, and the place's name.
pub(super) struct Needed {
    pub(super) place: Arc<str>,
    pub(super) tables: Arc<dyn Tables>,
    pub(super) names: &'static [Table],
    pub(super) feed: Option<Arc<dyn Feed>>,
    pub(super) topic: Option<Arc<dyn Topic>>,
}

/// Looks once, unless `stop` is cancelled, and goes on looking for as long as the process runs.
pub(super) async fn look_for_needs(shell: &Shell, process: &ServiceProcess, stop: &CancellationToken) {
    let (lacking, places) = (shell.engine.lacking().clone(), places(&shell.engine, process).await);
    if let Some(found) = stop.run_until_cancelled(look(&places)).await {
        lacking.keep(lines(found, &lacking));
    }
    let (stopping, places) = (shell.tasks.stopping(), Arc::new(places));
    shell.tasks.spawn_service("tables", move || {
        let (lacking, places, stopping) = (lacking.clone(), places.clone(), stopping.clone());
        async move {
            while stopping.run_until_cancelled(until_next_look(&lacking)).await.is_some() {
                // What does not answer must not hold up a stop.
                let Some(found) = stopping.run_until_cancelled(look(&places)).await else { return };
                lacking.keep(lines(found, &lacking));
            }
        }
    });
}

async fn until_next_look(lacking: &Lacking) {
    // Errors come by the dozen: one look answers all of them.
    tokio::time::sleep(LOOK_FOR_TABLES).await;
    if lacking.was_whole() && lacking.lines().is_empty() {
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN.saturating_sub(LOOK_FOR_TABLES)) => {}
            () = lacking.wants_look() => {}
        }
    }
}

/// Lines on what a look found. What passes by itself counts only at the start: later, the caller
/// that meets it reports it.
fn lines(found: Vec<(String, EngineError)>, lacking: &Lacking) -> Vec<String> {
    let was_whole = lacking.was_whole();
    let reported = found.into_iter().filter(|(_, error)| !was_whole || !error.is_transient());
    reported.map(|(place, error)| format!("{place}: {error}")).collect()
}

/// Result of `--check` for the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineCheck {
    /// This is missing, or not allowed.
    Lacks(Vec<String>),
    /// It cannot be asked from here.
    NotAsked(String),
    Whole,
}

/// Looks until nothing fails that passes by itself, for a few seconds; changes nothing.
pub async fn check(process: &ServiceProcess, config: &ServicesConfig) -> EngineCheck {
    let clock = Clock::System;
    let sdk = Sdk::new(config.engine.endpoint_url().cloned());
    // On the heap: opening an engine is large.
    let looked = Box::pin(async {
        let engine = Engine::open(&config.engine, sdk, &clock).await.map_err(|error| error.to_string())?;
        let engine = WatchedEngine::new(engine, clock.clone());
        let places =
            places(&engine, process).await.into_iter().chain(dispensable(&engine, process)).collect::<Vec<_>>();
        let end = clock.now() + CHECK_WAIT;
        loop {
            let found = look(&places).await;
            if clock.now() >= end || !found.iter().any(|(_, error)| error.is_transient()) {
                return Ok(found);
            }
            tokio::time::sleep(CHECK_AGAIN).await;
        }
    });
    // What is asked last may take as long again.
    let found = match within(2 * CHECK_WAIT, looked).await {
        Ok(found) => found,
        Err(why) => return EngineCheck::NotAsked(why),
    };
    let (passing, lacking): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, error)| error.is_transient());
    let reported = |(place, error): (String, EngineError)| format!("{place}: {error}");
    match passing.into_iter().next() {
        _ if !lacking.is_empty() => EngineCheck::Lacks(lacking.into_iter().map(reported).collect()),
        Some(why) => EngineCheck::NotAsked(reported(why)),
        None => EngineCheck::Whole,
    }
}

async fn within<T>(wait: Duration, looked: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let looked = tokio::time::timeout(wait, looked).await;
    looked.unwrap_or_else(|_| Err(format!("no answer within {}", humantime::format_duration(wait))))
}

pub(super) async fn places(engine: &WatchedEngine, process: &ServiceProcess) -> Vec<Needed> {
    let home = |names, feed| Needed { place: "home".into(), tables: engine.home(), names, feed, topic: None };
    let feed = |stream, reader: &str| Some(engine.feed(stream, reader));
    match process {
        ServiceProcess::Catalogue => vec![home(&[Table::Records, Table::History, Table::Requests], None)],
        ServiceProcess::Views => {
            vec![home(&[Table::Records, Table::Views, Table::Mapping], feed(Stream::Changes, "views"))]
        }
        ServiceProcess::Region(region, duties) => {
            let (place, tables) = (region.name.as_str().into(), engine.regional(region).await);
            let own = Needed { place, tables, names: &[Table::Contexts, Table::Region], feed: None, topic: None };
            if duties.ingest {
                let own = Needed { topic: Some(engine.topic(region).await), ..own };
                vec![home(&[Table::Views, Table::Mapping], feed(Stream::Views, &region.name)), own]
            } else {
                vec![own]
            }
        }
    }
}

/// Tables that a process works without, less well: it becomes ready before `setup` of its version has made them.
fn dispensable(engine: &WatchedEngine, process: &ServiceProcess) -> Option<Needed> {
    let (place, names) = ("home".into(), &[Table::Operations][..]);
    let is_catalogue = matches!(process, ServiceProcess::Catalogue);
    is_catalogue.then(|| Needed { place, tables: engine.home(), names, feed: None, topic: None })
}

/// Each place and what it says that stands in the way.
async fn look(places: &[Needed]) -> Vec<(String, EngineError)> {
    let nothing = ItemKey::new("is it there", "?");
    let tables = places.iter().flat_map(|place| place.names.iter().map(move |table| (place, *table)));
    let gets = tables.map(|(place, table)| {
        let get = place.tables.get(table, &nothing);
        async { get.await.err().map(|error| (place.place.to_string(), error)) }.boxed()
    });
    let streams = places.iter().filter_map(|place| Some((place, place.feed.as_ref()?)));
    let lists = streams.map(|(place, feed)| {
        async { feed.shards().await.err().map(|error| (place.place.to_string(), error)) }.boxed()
    });
    let topics = places.iter().filter_map(|place| Some((place, place.topic.as_ref()?)));
    let topics = topics.map(|(place, topic)| {
        async { topic.look().await.err().filter(is_missing).map(|error| (place.place.to_string(), error)) }.boxed()
    });
    join_all(gets.chain(lists).chain(topics)).await.into_iter().flatten().collect()
}

/// True if it is missing. Of a topic this is all that a look can say: who may publish may not
/// always ask.
const fn is_missing(error: &EngineError) -> bool {
    matches!(error, EngineError::Missing { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Vec<(String, EngineError)> {
        let throttled = EngineError::Throttled { what: "p-records".to_owned() };
        let missing = EngineError::Missing { what: "p-history".to_owned(), advice: "create it".to_owned() };
        vec![("home".to_owned(), throttled), ("home".to_owned(), missing)]
    }

    #[test]
    fn transient_failure_blocks_start_only() {
        let lacking = Lacking::new(Clock::System);
        assert_eq!(lines(found(), &lacking).len(), 2);
        lacking.keep(Vec::new());
        assert_eq!(lines(found(), &lacking), ["home: p-history does not exist: create it"]);
    }
}
