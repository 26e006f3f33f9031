//! A node over a table in memory, in virtual time: what is read, how often, and what is said.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body_util::BodyExt;
use parking_lot::Mutex;

use super::*;
use crate::cache::capacity::Memory;
use crate::cache::key::HashKey;
use crate::engine::delegate_tables;
use crate::engine::memory::MemoryStore;
use crate::engine::{Condition, EngineError, Item, ItemKey, ItemWrite, Table, Tables, bucket};
use crate::fill::effects::apply_actions;
use crate::fill::settings::Parts;
use crate::http::admission::Admitted;
use crate::http::bodies::ByteBudget;
use crate::model::ids::{RegionId, Version};
use crate::model::time::{Clock, Wall};
use crate::protocol::event::{Event, Says};
use crate::region::origin::TableOrigin;
use crate::request::answer::respond;
use crate::request::serve::serve;
use crate::request::settings::Settings;
use crate::tasks::Tasks;

mod compressed;
mod floors;
mod table;

const SECOND: Duration = Duration::from_secs(1);
const LIMITS: &str = "/v1/contexts/acme/limits";

/// Tables that count their reads, take their time, and may be down.
struct Watched {
    inner: MemoryStore,
    reads: AtomicUsize,
    is_down: AtomicBool,
    /// True if its item is none of ours.
    is_damaged: AtomicBool,
    /// So many of the next reads fail.
    failing: AtomicUsize,
    /// Delays of the next reads, the last first; then none.
    delays: Mutex<Vec<Duration>>,
}

impl Tables for Watched {
    delegate_tables!(inner: write, query, last, scan);

    fn get<'a>(&'a self, table: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let delay = self.delays.lock().pop().unwrap_or_default();
        let fails =
            self.failing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        async move {
            // What a consistent read sees is what there was when it came.
            let item = self.inner.get(table, key).await;
            tokio::time::sleep(delay).await;
            if self.is_damaged.load(Ordering::Relaxed) {
                return Err(EngineError::Refused { what: "GetItem".to_owned(), why: "no item of ours".to_owned() });
            }
            if self.is_down.load(Ordering::Relaxed) || fails {
                Err(EngineError::Throttled { what: "GetItem".to_owned() })
            } else {
                item
            }
        }
        .boxed()
    }
}

#[derive(Clone, Debug)]
struct Got {
    status: u16,
    headers: HeaderMap,
    body: String,
    /// The body as it came.
    bytes: Bytes,
}

impl Got {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn version(&self) -> u64 {
        self.header("x-record-version").parse().unwrap_or_default()
    }

    fn is_hit(&self) -> bool {
        self.header("cache-status").contains("; hit")
    }
}

/// A node of the region `here`, which shows the views `limits` and `theme`.
struct Node {
    settings: Arc<Settings>,
    table: Arc<Watched>,
}

fn settings() -> NodeSettings {
    NodeSettings {
        region: "here".into(),
        topic: None,
        listen: "127.0.0.1:0".parse().unwrap(),
        hosts: Vec::new(),
        admin: "127.0.0.1:0".parse().unwrap(),
        views: vec!["limits".into(), "theme".into()],
    }
}

impl Node {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Config)) -> Self {
        fastrand::seed(7);
        let clock = Clock::simulated(Wall::from_millis(1_800_000_000_000));
        let table = Arc::new(Watched {
            inner: MemoryStore::new(clock.clone()),
            reads: AtomicUsize::new(0),
            is_down: AtomicBool::new(false),
            is_damaged: AtomicBool::new(false),
            failing: AtomicUsize::new(0),
            delays: Mutex::default(),
        });
        let mut config = config(&settings()).unwrap();
        change(&mut config);
        let parts = Parts {
            origin: Arc::new(TableOrigin::new(&config, table.clone(), Arc::new(true.into()), clock.clone())),
            clock,
            tasks: Tasks::new(),
            hash_key: HashKey::fixed(7),
            floor_slots: crate::protocol::limits::FLOOR_SLOTS,
            memory: Memory::AMPLE,
            bodies: ByteBudget::new(crate::http::limits::BODIES_BYTES),
        };
        Self { settings: Settings::new(config, parts).unwrap(), table }
    }

    /// A node that has received its region's announcements for two minutes.
    async fn heard() -> Self {
        let node = Self::new();
        node.step(Event::Subscribing(RegionId(0)));
        node.step(Event::Subscribed(RegionId(0)));
        node.beat(120 * SECOND).await;
        node
    }

    fn step(&self, event: Event) {
        let actions = self.settings.fill.shared.freshness.step(
            self.settings.fill.shared.clock.now(),
            self.settings.fill.shared.clock.wall(),
            event,
        );
        apply_actions(&self.settings.fill, actions);
    }

    fn hear(&self, says: Says) {
        let (region, published) = (RegionId(0), self.settings.fill.shared.clock.wall());
        self.step(Event::Message { region, published, queued: None, numbered: Some((1, 1)), says });
    }

    /// Time passes, with a heartbeat every second that has ingested everything.
    async fn beat(&self, span: Duration) {
        for _ in 0..span.as_secs() {
            let ingested_through = Some(self.settings.fill.shared.clock.wall());
            self.hear(Says::Heartbeat { path: false, ingested_through, signing_off: false });
            tokio::time::sleep(SECOND).await;
        }
    }

    /// Writes a view into the table, without announcing it; a tombstone without a body.
    async fn put(&self, key: &str, version: u64, body: Option<&'static str>) {
        let item = Item::new(ItemKey::new(bucket::partition("limits", key), key), version);
        let item = Item { body: body.map(|text| Bytes::from_static(text.as_bytes())), ..item };
        let write = ItemWrite::Put(Table::Contexts, item, Condition::Any);
        self.table.inner.write(vec![write]).await.unwrap();
    }

    /// Writes and announces a version as the region's ingester does.
    async fn ingest(&self, key: &str, version: u64) {
        self.put(key, version, Some("{}")).await;
        let id = self.settings.fill.shared.keyed_hashes.record("limits", key).unwrap();
        self.hear(Says::Changed(id, Some(Version(version))));
    }

    async fn send(&self, method: Method, path: &str, lines: &[(&'static str, &str)]) -> Got {
        let headers: HeaderMap = lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect();
        let (path_and_query, path_len) = (path.to_owned(), path.find('?').unwrap_or(path.len()));
        let admitted = Admitted { method, path_and_query, path_len, headers, body: Bytes::new() };
        let response = respond(serve(&self.settings, admitted).await, &self.settings.fill.shared.names);
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8_lossy(&bytes).into_owned();
        Got { status: head.status.as_u16(), headers: head.headers, body, bytes }
    }

    async fn get(&self, path: &str, lines: &[(&'static str, &str)]) -> Got {
        self.send(Method::GET, path, lines).await
    }

    /// Asks as a sidecar that knows of this version.
    async fn at_floor(&self, floor: &str) -> Got {
        self.get(LIMITS, &[("cache-control", "no-cache"), ("x-record-floor", floor)]).await
    }

    /// Reads of the table since the last call.
    fn reads(&self) -> usize {
        self.table.reads.swap(0, Ordering::Relaxed)
    }

    fn next_reads_take(&self, millis: &[u64]) {
        let delays = millis.iter().rev().map(|millis| Duration::from_millis(*millis)).collect();
        *self.table.delays.lock() = delays;
    }

    fn floor(&self) -> u64 {
        let id = self.settings.fill.shared.keyed_hashes.record("limits", "acme").unwrap();
        let floor = self.settings.fill.shared.freshness.pin(id).snapshot().floor.0;
        self.settings.fill.shared.freshness.release(id);
        floor
    }

    async fn stop(self) {
        assert_eq!(self.settings.fill.shared.tasks.drain(60 * SECOND).await, Vec::<&str>::new());
        assert_eq!(self.settings.fill.shared.fills.under_way(), 0);
    }
}
