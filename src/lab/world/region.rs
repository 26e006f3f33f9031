//! One region: a small read service over its own copy of the records, behind a [`Front`].
//! [`super::ingest`] brings the catalogue's changes, late by the region's lag. A request sees the
//! records as they were when it arrived.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::net::TcpListener;

use super::catalogue::{PutRefused, StoredRecord, WorldCatalogue};
use super::front::Front;
use super::knobs::Knobs;
use super::port::Port;
use super::publisher::WorldPublisher;
use super::reply::{self, ScriptedReply, ScriptedRequest};
use crate::lab::limits;
use crate::model::time::Clock;
use crate::tasks::Tasks;

#[derive(Debug)]
pub struct WorldRegion {
    front: Arc<Front>,
    pub publisher: WorldPublisher,
    /// The source of truth that it follows.
    pub catalogue: Arc<WorldCatalogue>,
    records: RwLock<HashMap<Arc<str>, StoredRecord>>,
    cursor: AtomicU64,
    scripts: Mutex<HashMap<String, ScriptedReply>>,
}

/// A region is what callers meet at its port, and more.
impl Deref for WorldRegion {
    type Target = Front;

    fn deref(&self) -> &Front {
        &self.front
    }
}

pub struct RegionParts {
    /// Such as `eu-west-1`.
    pub name: String,
    pub port: Port,
    pub publisher: WorldPublisher,
    pub catalogue: Arc<WorldCatalogue>,
    pub clock: Clock,
    /// How it behaves at first and after a reset.
    pub knobs: Knobs,
}

impl WorldRegion {
    /// A region that has everything in the catalogue, and does not listen yet.
    pub fn new(parts: RegionParts) -> Self {
        let (records, cursor) = parts.catalogue.snapshot();
        Self {
            front: Arc::new(Front::new(parts.name, parts.port, parts.clock, parts.knobs)),
            publisher: parts.publisher,
            catalogue: parts.catalogue,
            records: RwLock::new(records),
            cursor: AtomicU64::new(cursor),
            scripts: Mutex::default(),
        }
    }

    /// Answers GET and HEAD of `path` with this reply, whatever the records say; `None` ends that.
    /// Returns `false` if there is no room.
    pub fn script(&self, path: &str, reply: Option<ScriptedReply>) -> bool {
        let mut scripts = self.scripts.lock().unwrap_or_else(PoisonError::into_inner);
        match reply {
            None => scripts.remove(path).is_some(),
            Some(_) if scripts.len() >= limits::WORLD_SCRIPTS => false,
            Some(reply) => {
                scripts.insert(path.to_owned(), reply);
                true
            }
        }
    }

    /// The record as this region has it.
    pub fn read(&self, key: &str) -> Option<StoredRecord> {
        self.records.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// How far it has ingested and announced the catalogue's log.
    pub fn cursor(&self) -> u64 {
        self.cursor.load(Ordering::Acquire)
    }

    /// Records that it has announced everything before `cursor`.
    pub fn announced(&self, cursor: u64) {
        self.cursor.store(cursor, Ordering::Release);
    }

    pub fn ingest(&self, key: Arc<str>, stored: StoredRecord) {
        self.records.write().unwrap_or_else(PoisonError::into_inner).insert(key, stored);
    }

    /// Replaces all records with those of the catalogue.
    pub fn reload(&self, records: HashMap<Arc<str>, StoredRecord>) {
        *self.records.write().unwrap_or_else(PoisonError::into_inner) = records;
    }

    /// Answers until the tasks stop.
    pub async fn run(self: Arc<Self>, listener: TcpListener, tasks: Tasks) {
        let region = self.clone();
        let reply = move |request| {
            let region = region.clone();
            async move { region.reply(request).await }
        };
        self.front.clone().run(listener, tasks, reply).await;
    }

    /// The reply as of now.
    async fn reply(&self, request: Request<Incoming>) -> ScriptedReply {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        if head.method == Method::GET || head.method == Method::HEAD {
            let scripts = self.scripts.lock().unwrap_or_else(PoisonError::into_inner);
            let scripted = scripts.get(path).cloned();
            return scripted.unwrap_or_else(|| {
                reply::read(ScriptedRequest::read(path), |key| self.read(key), &head.headers, self.knobs().habits)
            });
        }
        let ScriptedRequest::Context(key, None) = ScriptedRequest::read(path) else {
            return reply::problem(StatusCode::METHOD_NOT_ALLOWED, "only /v1/contexts/{key} can be written");
        };
        let written = match head.method {
            Method::PUT => match Limited::new(body, limits::WORLD_VALUE_BYTES).collect().await {
                Ok(body) => self.catalogue.put(key, body.to_bytes()),
                Err(_) => Err(PutRefused::Value),
            },
            Method::DELETE => self.catalogue.delete(key),
            _ => return reply::problem(StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD, PUT or DELETE"),
        };
        match written {
            Ok(version) => reply::written(version),
            Err(refused) => reply::problem(StatusCode::UNPROCESSABLE_ENTITY, &refused.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
