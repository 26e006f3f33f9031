//! A region's table as what a node asks: one path, one item, one consistent read. A read that is
//! slow or fails is sent a second time ([`super::hedge`]); a table that fails again is a 503 at
//! once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, select_ok};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use parking_lot::{Mutex, MutexGuard};

use super::hedge::Hedge;
use super::limits::READ_WAIT;
use crate::access::names;
use crate::config::Config;
use crate::config::template::{is_plain, unescaped};
use crate::engine::{EngineError, Item, ItemKey, Table, Tables, bucket};
use crate::http::exchange::{Failure, Origin, Outgoing, Reply};
use crate::model::ids::{RegionId, Version};
use crate::model::names::key_problem;
use crate::model::time::Clock;
use crate::switch::{Guard, is_on};
use crate::telemetry::rate_limiter::RateLimiter;

/// `Cache-Control` for sidecars and callers, with more than `no-cache`: each answers for itself how
/// fresh it is.
const CACHE_CONTROL: &str = "private, no-cache";
const PROBLEM: &str = "application/problem+json";
const ABSENT: &[u8] = br#"{"type":"urn:nearside:problem:not-found","title":"Not Found","status":404}"#;
const CHANGED: &[u8] =
    br#"{"type":"urn:nearside:problem:precondition-failed","title":"Precondition Failed","status":412}"#;
const NOT_ALLOWED: &[u8] = br#"{"type":"urn:nearside:problem:read-only","title":"Method Not Allowed","status":405}"#;
/// It names no other view: its caller may have no grant for any.
const NOT_TAKEN: &[u8] = br#"{"type":"urn:nearside:problem:view-not-taken","title":"Misdirected Request","status":421,"detail":"this region does not take that view; its settings (`region.views`) list those that it takes"}"#;
const NOT_OPEN: &[u8] =
    br#"{"type":"urn:nearside:problem:region-incomplete","title":"Service Unavailable","status":503}"#;
const DOWN: &[u8] = br#"{"type":"urn:nearside:problem:table-down","title":"Service Unavailable","status":503,"detail":"the region's table does not answer; retry"}"#;
const DAMAGED: &[u8] = br#"{"type":"urn:nearside:problem:damaged","title":"Internal Server Error","status":500,"detail":"what the region's table has under this key is no view; other keys are not concerned"}"#;
const BAD_KEY: &[u8] = br#"{"type":"urn:nearside:problem:bad-key","title":"Bad Request","status":400,"detail":"the path is not UTF-8 in percent-encoding: an escape is `%` and two hexadecimal digits, and `%` itself is %25"}"#;

/// Answers for the region's table. Clones share it.
#[derive(Clone)]
pub struct TableOrigin {
    tables: Arc<dyn Tables>,
    clock: Clock,
    views: Arc<BTreeSet<String>>,
    /// True if the region has everything that it must have.
    open: Arc<AtomicBool>,
    hedge: Arc<Mutex<Hedge>>,
    /// A table that is down fails each read.
    failure_lines: Arc<RateLimiter>,
}

impl TableOrigin {
    /// For the views that the routes of a node's configuration show. Until `open` says that the
    /// region is complete, an absence would mean nothing: everything is a 503.
    pub fn new(config: &Config, tables: Arc<dyn Tables>, open: Arc<AtomicBool>, clock: Clock) -> Self {
        let records = config.service.routes.iter().flat_map(|route| &route.records);
        let views: BTreeSet<String> = records.map(|record| record.record_type.clone()).collect();
        let (hedge, failure_lines) = (Arc::default(), Arc::new(RateLimiter::new()));
        Self { tables, clock, views: Arc::new(views), open, hedge, failure_lines }
    }

    async fn answer(&self, request: &Outgoing) -> (StatusCode, HeaderMap, Bytes, Vec<Version>) {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            let mut said = problem(StatusCode::METHOD_NOT_ALLOWED, NOT_ALLOWED);
            said.1.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return said;
        }
        let key = match self.item_of(&request.path_and_query) {
            Named::Item(key) => key,
            Named::Nothing => return problem(StatusCode::NOT_FOUND, ABSENT),
            Named::Unreadable => return problem(StatusCode::BAD_REQUEST, BAD_KEY),
            // A 404 would say that the view has no such record, and count as this region's word.
            Named::NotTaken => return problem(StatusCode::MISDIRECTED_REQUEST, NOT_TAKEN),
        };
        if !self.open.load(Ordering::Acquire) && is_on(Guard::CompleteFirst) {
            return problem(StatusCode::SERVICE_UNAVAILABLE, NOT_OPEN);
        }
        let read = tokio::time::timeout(READ_WAIT, self.read(&key)).await;
        let read = read.unwrap_or_else(|_| {
            Err(EngineError::Unavailable { what: "the table".to_owned(), why: "no answer in time".to_owned() })
        });
        match read {
            Ok(Some(item)) if demands_another(&request.headers, &item) => {
                let (status, mut headers, body, _) = problem(StatusCode::PRECONDITION_FAILED, CHANGED);
                headers.insert("x-record-version", item.version.into());
                (status, headers, body, vec![Version(item.version)])
            }
            Ok(Some(item)) => answer_of(item),
            Ok(None) => problem(StatusCode::NOT_FOUND, ABSENT),
            Err(error) => {
                if let Some(suppressed) = self.failure_lines.admit(self.clock.now()) {
                    tracing::warn!(%error, suppressed, "the region's table, or an item of it, cannot be read");
                }
                match error {
                    // Of this item alone: the table answers.
                    EngineError::Refused { .. } => problem(StatusCode::INTERNAL_SERVER_ERROR, DAMAGED),
                    _ => problem(StatusCode::SERVICE_UNAVAILABLE, DOWN),
                }
            }
        }
    }

    /// Item of `/v1/contexts/{key}/{view}`.
    fn item_of(&self, path_and_query: &str) -> Named {
        let path = path_and_query.split('?').next().unwrap_or_default();
        // A 404 would say that there is no such record.
        if unescaped(path).is_none() {
            return Named::Unreadable;
        }
        let Some((key, view)) = names::context(path).filter(|_| is_plain(path)) else {
            return Named::Nothing;
        };
        let key = unescaped(key).filter(|key| key_problem(key).is_none());
        match key {
            Some(_) if !self.views.contains(view) => Named::NotTaken,
            Some(key) => Named::Item(ItemKey::new(bucket::partition(view, &key), key)),
            None => Named::Nothing,
        }
    }

    /// The first answer of one or two reads.
    async fn read(&self, key: &ItemKey) -> Result<Option<Item>, EngineError> {
        let started = self.clock.now();
        let worth_while = self.hedge().begin();
        let mut first = self.tables.get(Table::Contexts, key);
        let answered = match worth_while {
            None => first.await,
            Some(wait) => match tokio::time::timeout(wait, &mut first).await {
                Ok(Err(error)) if error.is_transient() && self.hedge().spend() => {
                    self.tables.get(Table::Contexts, key).await
                }
                Ok(answered) => answered,
                Err(_) if self.hedge().spend() => {
                    let second = self.tables.get(Table::Contexts, key);
                    select_ok([first, second]).await.map(|(item, _)| item)
                }
                Err(_) => first.await,
            },
        };
        if answered.is_ok() {
            self.hedge().answered(self.clock.now() - started);
        }
        answered
    }

    fn hedge(&self) -> MutexGuard<'_, Hedge> {
        // Each change is a few plain stores.
        self.hedge.lock()
    }
}

impl Origin for TableOrigin {
    fn ask(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Reply, Failure>> {
        let own = self.clone();
        let (sent, sent_wall) = (own.clock.now(), own.clock.wall());
        let reply = async move {
            let (status, headers, body, versions) = own.answer(&request).await;
            Reply {
                region,
                status,
                headers,
                body,
                versions,
                sent,
                sent_wall,
                received: own.clock.now(),
                grants: None,
            }
        };
        let late = Failure::Deadline { within, head: false };
        tokio::time::timeout(within, reply).map(|reply| reply.map_err(|_| late)).boxed()
    }
}

/// Meaning of a path.
enum Named {
    Item(ItemKey),
    /// A record of a view that this region does not take.
    NotTaken,
    /// Nothing that any region has.
    Nothing,
    /// Its escapes are broken.
    Unreadable,
}

/// True if `If-Match` names another version than the current one (RFC 9110, 13.1.1: 412). No tag is
/// that of a record that is gone, which stays a 404.
fn demands_another(headers: &HeaderMap, item: &Item) -> bool {
    let own = format!("\"{}\"", item.version);
    let mut demands = headers.get_all(header::IF_MATCH).iter().peekable();
    item.body.is_some()
        && demands.peek().is_some()
        && !demands.any(|line| {
            line.to_str().is_ok_and(|line| line.split(',').map(str::trim).any(|tag| tag == "*" || tag == own))
        })
}

/// A view as it is, or that it is gone: with its version in both cases.
fn answer_of(item: Item) -> (StatusCode, HeaderMap, Bytes, Vec<Version>) {
    let (status, mut headers, body, _) = match item.body {
        Some(body) => (StatusCode::OK, stated("application/json"), body, Vec::new()),
        None => problem(StatusCode::NOT_FOUND, ABSENT),
    };
    headers.insert("x-record-version", item.version.into());
    if status == StatusCode::OK
        && let Ok(tag) = HeaderValue::try_from(format!("\"{}\"", item.version))
    {
        headers.insert(header::ETAG, tag);
    }
    (status, headers, body, vec![Version(item.version)])
}

fn problem(status: StatusCode, body: &'static [u8]) -> (StatusCode, HeaderMap, Bytes, Vec<Version>) {
    (status, stated(PROBLEM), Bytes::from_static(body), Vec::new())
}

fn stated(content_type: &'static str) -> HeaderMap {
    HeaderMap::from_iter([
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static(CACHE_CONTROL)),
    ])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    use super::*;
    use crate::access::denial::Denial;
    use crate::engine::memory::MemoryStore;
    use crate::http::body::Body;
    use crate::http::problem::page::{chapter, row};
    use crate::region::node::{self, NodeSettings};
    use crate::request::answer::{Outcome, respond};

    #[test]
    fn problems_page_shows_the_nodes() {
        let documents = [ABSENT, CHANGED, NOT_ALLOWED, NOT_TAKEN, NOT_OPEN, DOWN, DAMAGED, BAD_KEY];
        let said: BTreeSet<_> = documents.into_iter().map(row).collect();
        let denied: BTreeSet<_> = Denial::every()
            .into_iter()
            .map(|denial| match respond(Outcome::Denied(denial), &[]).into_body() {
                Body::Whole(Some(bytes)) => row(&bytes),
                _ => panic!("a problem has a body"),
            })
            .collect();
        // One that is not in the list above is written in this file all the same.
        let code = include_str!("origin.rs").split("#[cfg(test)]").next().unwrap_or_default();
        let written = code.split("urn:nearside:problem:").skip(1).filter_map(|rest| rest.split('"').next());
        assert_eq!(written.collect::<BTreeSet<_>>(), said.iter().map(|(word, _)| word.as_str()).collect());
        assert_eq!(chapter("A region's node"), said.union(&denied).cloned().collect());
    }

    /// Paths that mean something, or nearly do.
    fn paths() -> impl Strategy<Value = String> {
        let starts =
            prop::sample::select(vec!["/v1/contexts/", "/v1/contexts/", "/v1/contexts/acme/", "/v1/batch/", "/"]);
        let pieces = vec!["/", "acme", "limits", "%2F", "..", "?x=/limits", "limit%73", "_grants", "\u{e4}"];
        let middle = prop::collection::vec(prop::sample::select(pieces), 0..4);
        let ends = prop::sample::select(vec!["/limits", "/limits", "/profile", "limits", "/limits/", ""]);
        (starts, middle, ends).prop_map(|(start, middle, end)| format!("{start}{}{end}", middle.concat()))
    }

    #[test]
    fn gate_and_table_read_paths_alike() {
        let config = node::config(&NodeSettings {
            region: "eu-west-1".to_owned(),
            topic: None,
            listen: ([127, 0, 0, 1], 0).into(),
            hosts: Vec::new(),
            admin: ([127, 0, 0, 1], 0).into(),
            views: vec!["limits".to_owned()],
        });
        let (store, open) = (Arc::new(MemoryStore::new(Clock::default())), Arc::new(AtomicBool::new(true)));
        let origin = TableOrigin::new(&config.unwrap(), store, open, Clock::default());
        let items = std::cell::Cell::new(0);
        let read = |path_and_query: String| {
            let path = path_and_query.split('?').next().unwrap_or_default();
            let asked = names::asked(&Method::GET, path);
            match origin.item_of(&path_and_query) {
                // What the table gives is a view's by the name that the gate decided about.
                Named::Item(_) => {
                    items.set(items.get() + 1);
                    prop_assert_eq!(asked, names::Asked::View("limits"));
                }
                Named::NotTaken => prop_assert!(asked.view().is_some_and(|view| view != "limits")),
                Named::Nothing | Named::Unreadable => {}
            }
            Ok(())
        };
        let mut runner =
            TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_000) });
        runner.run(&paths(), read).unwrap();
        assert!(items.get() > 100, "{} paths named an item", items.get());
    }
}
