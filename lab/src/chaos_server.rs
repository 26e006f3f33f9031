//! Port of a region: it accepts connections, lets something answer, and does to the replies all
//! that can go wrong on the way. What answers is a real node ([`crate::dev`]) or a test's own
//! table. The reply is as of the request's arrival, however long it is held. A change of the knobs
//! also applies to requests and connections that are already there.

pub mod chaos;
pub mod knobs;
mod payload;
pub mod port;
pub mod reply;
pub mod traffic;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use chaos::{ChaosOrder, Mode};
use http::{Request, Response};
use hyper::body::Incoming;
use knobs::Knobs;
use nearside::model::time::{Clock, Moment};
use nearside::tasks::Tasks;
use payload::Payload;
use port::{Port, Wreck};
use reply::ScriptedReply;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use traffic::{Answered, Traffic};

use crate::limits;

#[derive(Debug)]
pub struct ChaosServer {
    /// Such as `eu-west-1`.
    pub name: String,
    pub traffic: Traffic,
    clock: Clock,
    port: Port,
    at_start: Knobs,
    knobs: watch::Sender<Knobs>,
    waiting: watch::Sender<usize>,
    connections: AtomicUsize,
    listening: AtomicBool,
    settled: watch::Sender<bool>,
}

impl ChaosServer {
    /// It does not listen yet. `knobs` are how it behaves at first and after a reset.
    pub fn new(name: String, port: Port, clock: Clock, knobs: Knobs) -> Self {
        Self {
            name,
            traffic: Traffic::default(),
            clock,
            port,
            at_start: knobs,
            knobs: watch::Sender::new(knobs),
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
        // An error means that the region is gone, and then nothing listens any more.
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

    /// Releases held replies.
    pub fn release(&self) {
        self.knobs.send_modify(|knobs| knobs.held = false);
    }

    /// Resolves once at least `count` requests are held.
    pub async fn until_held(&self, count: usize) {
        // An error means that the region is gone.
        let _ = self.waiting.subscribe().wait_for(|waiting| *waiting >= count).await;
    }

    pub fn open(&self) -> io::Result<TcpListener> {
        self.port.listen()
    }

    /// Lets `reply` answer until the tasks stop, starting with `listener`; closes and reopens it as
    /// the knobs say.
    pub async fn run<R, F>(self: Arc<Self>, listener: TcpListener, tasks: Tasks, reply: R)
    where
        R: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = ScriptedReply> + Send + 'static,
    {
        let permits = Arc::new(Semaphore::new(limits::LAB_CONNECTIONS));
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
                        let connection = self.clone().connection(stream, tasks.clone(), reply.clone());
                        tasks.spawn("region-connection", async move { connection.await; drop(permit) });
                    }
                }
            }
        }
        self.settled.send_replace(true);
    }

    /// Wakes the callers of [`Self::turn`] once the port does as it was ordered.
    fn settle(&self) {
        // Held while it sends, so that the knobs cannot change in between.
        let knobs = self.knobs.borrow();
        let listening = self.listening.load(Ordering::Acquire);
        let closed = !listening && self.connections.load(Ordering::Acquire) == 0;
        if if knobs.mode == Mode::Off { closed } else { listening } {
            self.settled.send_replace(true);
        }
    }

    async fn connection<R, F>(self: Arc<Self>, stream: tokio::net::TcpStream, tasks: Tasks, reply: R)
    where
        R: Fn(Request<Incoming>) -> F + Clone,
        F: Future<Output = ScriptedReply>,
    {
        let wreck = Wreck::default();
        let mut knobs = self.watch();
        let (server, broken) = (self.clone(), wreck.clone());
        let serving = port::connection(stream, wreck.clone(), move |request| {
            server.clone().answer(request, reply.clone(), broken.clone())
        });
        let stopping = tasks.stopping();
        tokio::select! {
            () = serving => {}
            _ = knobs.wait_for(|knobs| knobs.mode == Mode::Off) => wreck.reset(),
            () = stopping.cancelled() => {}
        }
        self.connections.fetch_sub(1, Ordering::AcqRel);
        self.settle();
    }

    /// One request, from arrival to reply.
    async fn answer<R, F>(self: Arc<Self>, request: Request<Incoming>, reply: R, wreck: Wreck) -> Response<Payload>
    where
        R: Fn(Request<Incoming>) -> F,
        F: Future<Output = ScriptedReply>,
    {
        let arrived = self.clock.now();
        let path = request.uri().path().to_owned();
        self.traffic.arrived(&path);
        let reply = reply(request).await;
        let mut knobs = self.watch();
        let mode = self.wait(arrived, &mut knobs).await;
        let reply = match mode {
            Mode::Status(status) => reply::problem(status, "this region was asked to answer so"),
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
