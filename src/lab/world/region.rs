//! One region: a small read service over its own copy of the records, and everything that can go
//! wrong with it. [`super::ingest`] brings the catalogue's changes, late by the region's lag. A
//! request sees the records as they were when it arrived, however long the reply is held. A change
//! of the knobs also applies to requests and connections that are already there.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use super::catalogue::{PutRefused, StoredRecord, WorldCatalogue};
use super::chaos::{ChaosOrder, Mode};
use super::knobs::Knobs;
use super::payload::{self, Payload};
use super::port::{self, Port, Wreck};
use super::publisher::WorldPublisher;
use super::reply::{self, ScriptedReply, ScriptedRequest};
use super::traffic::{Answered, Traffic};
use crate::lab::limits;
use crate::model::time::{Clock, Moment};
use crate::tasks::Tasks;

#[derive(Debug)]
pub struct WorldRegion {
    /// Such as `eu-west-1`.
    pub name: String,
    pub traffic: Traffic,
    pub publisher: WorldPublisher,
    /// The source of truth that it follows.
    pub catalogue: Arc<WorldCatalogue>,
    clock: Clock,
    port: Port,
    at_start: Knobs,
    knobs: watch::Sender<Knobs>,
    records: RwLock<HashMap<Arc<str>, StoredRecord>>,
    cursor: AtomicU64,
    scripts: Mutex<HashMap<String, ScriptedReply>>,
    waiting: watch::Sender<usize>,
    connections: AtomicUsize,
    listening: AtomicBool,
    settled: watch::Sender<bool>,
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
            name: parts.name,
            traffic: Traffic::default(),
            publisher: parts.publisher,
            catalogue: parts.catalogue,
            clock: parts.clock,
            port: parts.port,
            at_start: parts.knobs,
            knobs: watch::Sender::new(parts.knobs),
            records: RwLock::new(records),
            cursor: AtomicU64::new(cursor),
            scripts: Mutex::default(),
            waiting: watch::Sender::new(0),
            connections: AtomicUsize::new(0),
            listening: AtomicBool::new(false),
            settled: watch::Sender::new(true),
        }
    }

    pub fn address(&self) -> std::net::SocketAddr {
        self.port.address()
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    pub fn knobs(&self) -> Knobs {
        *self.knobs.borrow()
    }

    pub fn watch(&self) -> watch::Receiver<Knobs> {
        self.knobs.subscribe()
    }

    /// Changes how it behaves; returns once its port obeys (closed and reset, or listening again).
    pub async fn turn(&self, change: impl FnOnce(&mut Knobs)) {
        let mut settled = self.settled.subscribe();
        self.knobs.send_modify(|knobs| {
            let before = knobs.mode == Mode::Off;
            change(knobs);
            if before != (knobs.mode == Mode::Off) {
                self.settled.send_replace(false);
            }
        });
        // An error means that the world is gone, and then nothing listens any more.
        let _ = settled.wait_for(|settled| *settled).await;
    }

    /// From now on, answers as `mode` says.
    pub async fn set(&self, mode: Mode) {
        self.turn(|knobs| knobs.mode = mode).await;
    }

    /// Carries out the part of `order` that concerns the region itself.
    pub async fn obey(&self, order: ChaosOrder) {
        let start = self.at_start;
        self.turn(|knobs| match order {
            ChaosOrder::Mode(mode) => knobs.mode = mode,
            ChaosOrder::Lag(lag) => knobs.lag = lag,
            ChaosOrder::Latency(latency) => knobs.latency = latency,
            ChaosOrder::Reset => *knobs = start,
            ChaosOrder::Mute(_) | ChaosOrder::Delay(_) | ChaosOrder::Duplicate(_) => {}
        })
        .await;
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

    /// Releases held replies.
    pub fn release(&self) {
        self.knobs.send_modify(|knobs| knobs.held = false);
    }

    /// Resolves once at least `count` requests are held.
    pub async fn until_held(&self, count: usize) {
        // An error means that the world is gone.
        let _ = self.waiting.subscribe().wait_for(|waiting| *waiting >= count).await;
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

    pub fn open(&self) -> io::Result<TcpListener> {
        self.port.listen()
    }

    /// Answers until the tasks stop, starting with `listener`; closes and reopens it as the knobs
    /// say.
    pub async fn run(self: Arc<Self>, listener: TcpListener, tasks: Tasks) {
        let permits = Arc::new(Semaphore::new(limits::WORLD_CONNECTIONS));
        let stopping = tasks.stopping();
        let mut listener = Some(listener);
        let mut knobs = self.watch();
        while !stopping.is_cancelled() {
            if knobs.borrow_and_update().mode == Mode::Off {
                listener = None;
            } else if listener.is_none() {
                listener = self.open().inspect_err(|error| tracing::warn!(%error, "a region could not reopen")).ok();
            }
            self.listening.store(listener.is_some(), Ordering::Release);
            self.settle();
            let next = async {
                match &listener {
                    Some(listener) => port::accept(listener, &stopping).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stopping.cancelled() => {}
                _ = knobs.changed() => {}
                stream = next => {
                    if let (Some(stream), Ok(permit)) = (stream, permits.clone().try_acquire_owned()) {
                        // Counted here, so that no switch can be settled without this connection.
                        self.connections.fetch_add(1, Ordering::AcqRel);
                        let connection = self.clone().connection(stream, tasks.clone());
                        tasks.spawn("region-connection", async move { connection.await; drop(permit) });
                    }
                }
            }
        }
        self.settled.send_replace(true);
    }

    /// Tells whoever waits in [`Self::turn`] once the port does as it was told.
    fn settle(&self) {
        // Held while it sends, so that the knobs cannot change in between.
        let knobs = self.knobs.borrow();
        let listening = self.listening.load(Ordering::Acquire);
        let closed = !listening && self.connections.load(Ordering::Acquire) == 0;
        if if knobs.mode == Mode::Off { closed } else { listening } {
            self.settled.send_replace(true);
        }
    }

    async fn connection(self: Arc<Self>, stream: tokio::net::TcpStream, tasks: Tasks) {
        let wreck = Wreck::default();
        let mut knobs = self.watch();
        let (region, broken) = (self.clone(), wreck.clone());
        let answer = move |request| region.clone().answer(request, broken.clone());
        let stopping = tasks.stopping();
        tokio::select! {
            () = port::connection(stream, wreck.clone(), answer) => {}
            _ = knobs.wait_for(|knobs| knobs.mode == Mode::Off) => wreck.reset(),
            () = stopping.cancelled() => {}
        }
        self.connections.fetch_sub(1, Ordering::AcqRel);
        self.settle();
    }

    /// One request, from arrival to reply.
    async fn answer(self: Arc<Self>, request: Request<Incoming>, wreck: Wreck) -> Response<Payload> {
        let arrived = self.clock.now();
        let path = request.uri().path().to_owned();
        self.traffic.arrived(&path);
        let reply = self.reply(request, &path).await;
        let mut knobs = self.watch();
        let mode = self.wait(arrived, &mut knobs).await;
        let reply = match mode {
            Mode::Status(status) => reply::problem(status, "this region was told to answer so"),
            _ => reply,
        };
        if mode == Mode::Garbage {
            wreck.garble();
        }
        self.traffic.answered(Answered {
            path,
            arrived,
            answered: self.clock.now(),
            status: reply.status,
            version: reply.version,
        });
        payload::send(reply, mode, knobs)
    }

    /// Waits as long as the knobs say, even if they change meanwhile; returns how to answer.
    async fn wait(&self, arrived: Moment, knobs: &mut watch::Receiver<Knobs>) -> Mode {
        let dice = fastrand::f64();
        loop {
            let now = *knobs.borrow_and_update();
            let _held = now.held.then(|| Held::new(&self.waiting));
            let until = match now.mode {
                _ if now.held => None,
                Mode::Silent | Mode::Off => None,
                Mode::Slow(span) => Some(arrived + now.latency.draw(dice) + span),
                _ => Some(arrived + now.latency.draw(dice)),
            };
            let due = async {
                match until {
                    Some(until) => tokio::time::sleep(until - self.clock.now()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = due => return now.mode,
                _ = knobs.changed() => {}
            }
        }
    }

    /// The reply as of now.
    async fn reply(&self, request: Request<Incoming>, path: &str) -> ScriptedReply {
        let (head, body) = request.into_parts();
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

/// Counts a request as held while this lives.
struct Held<'a>(&'a watch::Sender<usize>);

impl<'a> Held<'a> {
    fn new(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|waiting| *waiting += 1);
        Self(waiting)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

#[cfg(test)]
mod tests;
