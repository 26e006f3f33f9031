//! One region: a small read service over its own copy of the records, behind a
//! [`ChaosServer`].
//! [`super::ingest`] brings the catalogue's changes, late by the region's lag. A request sees the
//! records as they were when it arrived.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use nearside::model::time::Clock;
use nearside::tasks::Tasks;
use nearside_lab::aws::publisher::TopicPublisher;
use nearside_lab::chaos_server::ChaosServer;
use nearside_lab::chaos_server::knobs::Knobs;
use nearside_lab::chaos_server::port::Port;
use nearside_lab::chaos_server::reply::{self, ScriptedReply, VERSION_HEADER};
use tokio::net::TcpListener;

use super::catalogue::{PutRefused, VALUE_BYTES, WorldCatalogue};
use super::records::{self, ScriptedRequest, StoredRecord};

/// Scripted answers of one region.
const SCRIPTS: usize = 1024;

#[derive(Debug)]
pub(crate) struct WorldRegion {
    server: Arc<ChaosServer>,
    pub(crate) publisher: TopicPublisher,
    /// The source of truth that it follows.
    pub(crate) catalogue: Arc<WorldCatalogue>,
    records: RwLock<HashMap<Arc<str>, StoredRecord>>,
    cursor: AtomicU64,
    scripts: Mutex<HashMap<String, ScriptedReply>>,
}

/// A region is what callers meet at its port, and more.
impl Deref for WorldRegion {
    type Target = ChaosServer;

    fn deref(&self) -> &ChaosServer {
        &self.server
    }
}

pub(crate) struct RegionParts {
    /// Such as `eu-west-1`.
    pub(crate) name: String,
    pub(crate) port: Port,
    pub(crate) publisher: TopicPublisher,
    pub(crate) catalogue: Arc<WorldCatalogue>,
    pub(crate) clock: Clock,
    /// Behaviour at first and after a reset.
    pub(crate) knobs: Knobs,
}

impl WorldRegion {
    /// A region that has everything in the catalogue, and does not listen yet.
    pub(crate) fn new(parts: RegionParts) -> Self {
        let (records, cursor) = parts.catalogue.snapshot();
        Self {
            server: Arc::new(ChaosServer::new(parts.name, parts.port, parts.clock, parts.knobs)),
            publisher: parts.publisher,
            catalogue: parts.catalogue,
            records: RwLock::new(records),
            cursor: AtomicU64::new(cursor),
            scripts: Mutex::default(),
        }
    }

    /// Answers GET and HEAD of `path` with this reply, whatever the records say; `None` ends that.
    /// Returns `false` if there is no room.
    pub(crate) fn script(&self, path: &str, reply: Option<ScriptedReply>) -> bool {
        let mut scripts = self.scripts.lock().unwrap_or_else(PoisonError::into_inner);
        match reply {
            None => scripts.remove(path).is_some(),
            Some(_) if scripts.len() >= SCRIPTS => false,
            Some(reply) => {
                scripts.insert(path.to_owned(), reply);
                true
            }
        }
    }

    /// The record as this region has it.
    pub(crate) fn read(&self, key: &str) -> Option<StoredRecord> {
        self.records.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Offset up to which it has ingested and announced the catalogue's log.
    pub(crate) fn cursor(&self) -> u64 {
        self.cursor.load(Ordering::Acquire)
    }

    /// Records that it has announced everything before `cursor`.
    pub(crate) fn announced(&self, cursor: u64) {
        self.cursor.store(cursor, Ordering::Release);
    }

    pub(crate) fn ingest(&self, key: Arc<str>, stored: StoredRecord) {
        self.records.write().unwrap_or_else(PoisonError::into_inner).insert(key, stored);
    }

    /// Replaces all records with those of the catalogue.
    pub(crate) fn reload(&self, records: HashMap<Arc<str>, StoredRecord>) {
        *self.records.write().unwrap_or_else(PoisonError::into_inner) = records;
    }

    /// Answers until the tasks stop.
    pub(crate) async fn run(self: Arc<Self>, listener: TcpListener, tasks: Tasks) {
        let region = self.clone();
        let answering = self.server.clone().run(listener, tasks, move |request| {
            let region = region.clone();
            async move { region.reply(request).await }
        });
        answering.await;
    }

    /// The reply as of now.
    async fn reply(&self, request: Request<Incoming>) -> ScriptedReply {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        if head.method == Method::GET || head.method == Method::HEAD {
            let scripts = self.scripts.lock().unwrap_or_else(PoisonError::into_inner);
            let scripted = scripts.get(path).cloned();
            return scripted
                .unwrap_or_else(|| records::read(ScriptedRequest::read(path), |key| self.read(key), &head.headers));
        }
        let ScriptedRequest::Context(key, None) = ScriptedRequest::read(path) else {
            return reply::problem(StatusCode::METHOD_NOT_ALLOWED, "only /v1/contexts/{key} can be written");
        };
        let outcome = match head.method {
            Method::PUT => match Limited::new(body, VALUE_BYTES).collect().await {
                Ok(body) => self.catalogue.put(key, body.to_bytes()),
                Err(_) => Err(PutRefused::Value),
            },
            Method::DELETE => self.catalogue.delete(key),
            _ => return reply::problem(StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD, PUT or DELETE"),
        };
        match outcome {
            Ok(version) => written(version),
            Err(refused) => reply::problem(StatusCode::UNPROCESSABLE_ENTITY, &refused.to_string()),
        }
    }
}

/// The reply to a write, with the new version.
fn written(version: u64) -> ScriptedReply {
    let mut reply = ScriptedReply::json(StatusCode::OK, format!(r#"{{"version":{version}}}"#));
    reply.headers.insert(VERSION_HEADER, version.into());
    reply
}
