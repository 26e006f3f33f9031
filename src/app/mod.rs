//! Wiring and ordered shutdown. At the start: bind what callers reach, so that an error is clear
//! and early; then the regions; then the subscriptions, which proceed on their own and hold up
//! nothing. At the end: linger, close, then unsubscribe and drain together, under one deadline.
//!
//! When [`App::stop`] returns, no task of this process's sidecar runs and its sockets are closed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use http::Request;
use hyper::body::Incoming;

use crate::admin::acts::Acts;
use crate::admin::acts::access::Access;
use crate::admin::{self, Pages};
use crate::aws::certificate::fetch::{Fetcher, Unfetched};
use crate::aws::clients::Sdk;
use crate::cache::capacity::Memory;
use crate::cache::key::HashKey;
use crate::config::scope::Origins;
use crate::config::{Config, Drain, Transport};
use crate::core::fill::audit;
use crate::core::{Beyond, Core, CoreError, Current, Parts, serve};
use crate::http::bodies::ByteBudget;
use crate::http::client::attempt::HttpOrigin;
use crate::http::connection::{ConnectionContext, Shutdown, Via};
use crate::http::exchange::Origin;
use crate::http::listener::{self, ListenError};
use crate::http::service::Listener;
use crate::model::time::Clock;
use crate::protocol::event::{Action, Event};
use crate::sidecar::announcements::intake::VerifyingIntake;
use crate::sidecar::announcements::subscription::{self, CannotListen, Pace, Subscriptions};
use crate::tasks::Tasks;
use crate::tasks::permits::Permits;

pub(crate) mod bounds;
pub mod doctor;
mod findings;
mod limits;
mod memory;
mod operators;
mod overview;
pub(crate) mod process;
pub(crate) mod reload;
pub mod services;
mod sockets;
mod ticker;
mod watch;

use bounds::Bounds;
use operators::Operators;
use reload::{Reloader, Source};
use sockets::Sockets;

/// Why a sidecar could not start. The operator has to fix it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The endpoint that SNS posts to.
    #[error(transparent)]
    Announcements(#[from] CannotListen),
    /// A route's credentials, or the port's token.
    #[error(transparent)]
    Sidecar(#[from] CoreError),
    #[error(transparent)]
    AdminToken(#[from] crate::http::token::TokenError),
    /// The client for the regions.
    #[error("the HTTP client for the regions could not be built: {0}")]
    Client(#[from] crate::http::client::attempt::UnusableClient),
    /// The client that fetches signing certificates.
    #[error(
        "the HTTP client for signing certificates could not be built: {0}; the image needs trusted CA certificates \
         (ca-certificates, or SSL_CERT_FILE)"
    )]
    Fetcher(reqwest::Error),
}

/// What a test or a demonstration replaces of the machine's.
#[derive(Default)]
pub struct Instead {
    pub clock: Clock,
    pub origin: Option<Arc<dyn Origin>>,
    pub pace: Option<Pace>,
    /// What a reload reads again; without it there are no reloads.
    pub source: Option<Source>,
}

pub struct App {
    pub tcp: Option<SocketAddr>,
    pub unix: Option<PathBuf>,
    pub admin: SocketAddr,
    pub sidecar: Arc<Core>,
    pub acts: Arc<Acts>,
    pub reloader: Arc<Reloader>,
    topics: Topics,
    current: Arc<Current>,
    shutdown: Shutdown,
}

/// The regions' subscriptions, once there are any.
type Topics = Arc<OnceLock<Subscriptions>>;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Tasks that had to be dropped at the deadline.
    pub late: Vec<&'static str>,
    /// Subscriptions and queues that could not be removed; the janitor will remove them.
    pub left_behind: usize,
}

/// Starts a sidecar on the current runtime.
pub async fn start(config: Config) -> Result<App, StartError> {
    start_with(config, Instead::default()).await
}

/// The same, with parts that a test or a demonstration replaces.
pub async fn start_with(config: Config, instead: Instead) -> Result<App, StartError> {
    let sockets = Sockets::bind(&config)?;
    let access = Access::new(&config.admin)?;
    let memory = Memory::of_the_machine();
    let (sidecar, http) = build(config, &instead, memory)?;
    sockets.bound_buffers(memory);
    let app = open(sockets, access, sidecar, http, instead.source);
    if let Err(error) = subscribe(&app.sidecar, &app.topics, instead.pace.unwrap_or_default()) {
        // Nothing of a sidecar that did not start keeps running.
        app.sidecar.tasks.drain(Duration::ZERO).await;
        return Err(error);
    }
    watch::start(&app.sidecar, &app.reloader);
    findings::start(&app.sidecar, &app.topics);
    // Whoever gave it another origin has a line of its own: a region says where its node serves.
    if instead.origin.is_none() {
        tracing::info!(
            service = %app.sidecar.config.service.name,
            regions = app.sidecar.names.len(),
            tcp = app.tcp.map(tracing::field::display),
            unix = app.unix.as_ref().map(|path| tracing::field::display(path.display())),
            admin = %app.admin,
            "serving"
        );
    }
    Ok(app)
}

/// Everything that a request needs, before anything is served.
fn build(
    config: Config,
    instead: &Instead,
    memory: Memory,
) -> Result<(Arc<Core>, Option<Arc<HttpOrigin>>), StartError> {
    let bodies = ByteBudget::new(memory.bodies());
    let (clock, tasks) = (instead.clock.clone(), Tasks::new());
    let (origin, http) = match &instead.origin {
        Some(origin) => (origin.clone(), None),
        None => {
            let origin = Arc::new(HttpOrigin::new(&config, clock.clone(), &bodies)?);
            keep_warm(&origin, &tasks);
            (origin.clone() as Arc<dyn Origin>, Some(origin))
        }
    };
    let (seed, floor_slots) = (HashKey::random(), memory.floor_slots());
    let parts = Parts { clock, origin, tasks, seed, floor_slots, memory, bodies };
    Ok((Core::new(config, parts)?, http))
}

/// Keeps connections to those regions for which nobody does so yet.
fn keep_warm(origin: &Arc<HttpOrigin>, tasks: &Tasks) {
    let (warm, stopping) = (origin.clone(), tasks.stopping());
    tasks.spawn_service("warm", move || {
        let (warm, stopping) = (warm.clone(), stopping.clone());
        async move { stopping.run_until_cancelled(warm.keep_warm()).await }
    });
}

fn open(
    sockets: Sockets,
    access: Access,
    sidecar: Arc<Core>,
    http: Option<Arc<HttpOrigin>>,
    source: Option<Source>,
) -> App {
    let (shutdown, topics) = (Shutdown::default(), Topics::default());
    let tasks = &sidecar.tasks;
    let current = sidecar.clone().into_current();
    let bounds = Bounds::of_the_machine(sidecar.memory);
    let connections = Permits::new(bound_connections(bounds, &sidecar.config));
    let permits = bounds.permits(&sidecar.config);
    sidecar.regions.permit(permits, tasks);
    sidecar.seconds.iter().flatten().for_each(|second| second.regions.permit(permits, tasks));
    let last_reload = Arc::new(ArcSwapOption::empty());
    let remarks = Arc::new(ArcSwap::from_pointee(remarks_of(source.as_ref().map(|source| &source.origins))));
    let context = ConnectionContext {
        tasks: tasks.clone(),
        clock: sidecar.clock.clone(),
        permits: connections.clone(),
        peers: sidecar.peers.clone(),
        shutdown: shutdown.clone(),
        fast_path: Some(current.clone()),
    };
    let newest = current.clone();
    let handler = move |request: Request<Incoming>, via: Via| serve::answer(&newest.load(), request, via);
    // A listener that was bound has an address.
    let addr = |listener: &tokio::net::TcpListener| listener.local_addr().ok();
    let tcp = sockets.tcp.first().and_then(addr);
    let admin = sockets.admin.first().and_then(addr).unwrap_or(sidecar.config.admin.listen);
    for listener in sockets.tcp {
        let (listener, context, handler) = (Arc::new(listener), context.clone(), handler.clone());
        let accept = move || listener::accept_tcp(listener.clone(), context.clone(), handler.clone());
        tasks.spawn_service("accept", accept);
    }
    let unix = sidecar.config.listen.unix.as_ref();
    if let (Some(listener), Some(socket)) = (sockets.unix, unix) {
        let (listener, uids) = (Arc::new(listener), socket.uids.clone());
        let accept = move || listener::accept_unix(listener.clone(), uids.clone(), context.clone(), handler.clone());
        tasks.spawn_service("accept", accept);
    }
    let unix = unix.map(|socket| socket.path.clone());
    let pages = Pages {
        status: overview::source(&sidecar, &topics, &shutdown, &connections, &last_reload, &remarks),
        metrics: sidecar.metrics.clone(),
        admits: Arc::new(ArcSwap::from_pointee(admin::Admits::of(&sidecar.config.listen))),
        acts: Acts::new(sidecar.clone(), access),
    };
    let (acts, admits) = (pages.acts.clone(), pages.admits.clone());
    let mut operators = Operators::new(pages.clone(), tasks);
    operators.serve(sidecar.config.admin.unix.as_ref(), sockets.operators);
    let permits = admin::port_connections(bounds.admin());
    admin::start(sockets.admin.into_iter().map(Listener::Tcp), permits, pages, tasks, tasks.stopping());
    let reloader = Reloader::new(reload::ReloaderParts {
        current: current.clone(),
        bounds,
        connections,
        shutdown: shutdown.clone(),
        last: last_reload,
        remarks,
        http,
        source,
        acts: acts.clone(),
        admits,
        operators,
    });
    acts.set_reload(reload::act(&reloader));
    App { tcp, unix, admin, sidecar, acts, reloader, topics, current, shutdown }
}

/// How many callers may be connected; says so if it is fewer than the settings ask for.
fn bound_connections(bounds: Bounds, config: &Config) -> usize {
    let asked = config.listen.max_connections;
    let (connections, by) = bounds.connections(asked);
    if let Some(by) = by {
        tracing::info!(connections, asked, by, "fewer connections than listen.max_connections are accepted at once");
    }
    connections
}

/// What is allowed in the settings but probably not meant, one line each.
fn remarks_of(origins: Option<&Origins>) -> Vec<String> {
    origins.iter().flat_map(|origins| &origins.warnings).map(ToString::to_string).collect()
}

/// Starts to listen to the regions' topics, and to keep time.
fn subscribe(sidecar: &Arc<Core>, topics: &Topics, pace: Pace) -> Result<(), StartError> {
    let config = &sidecar.config;
    memory::recall(sidecar);
    if let Some(signer) = &config.announcements.insecure_sns_signer {
        tracing::warn!(%signer, "insecure_sns_signer: signing certificates from this origin are trusted as they are");
    }
    let listener = sidecar.clone();
    let step = move |event: Event| {
        let actions = listener.freshness.step(listener.clock.now(), listener.clock.wall(), event);
        listener.newest().carry_out(actions);
    };
    let fetcher = if config.announcements.transport == Transport::Off {
        // Nothing arrives that needs a certificate, and an image may have no trust roots.
        Fetcher::given(|_| Err(Unfetched::Unreachable))
    } else {
        Fetcher::network(config.announcements.insecure_sns_signer.is_some()).map_err(StartError::Fetcher)?
    };
    let edges = subscription::Edges {
        tasks: sidecar.tasks.clone(),
        clock: sidecar.clock.clone(),
        events: Arc::new(step),
        speaks: {
            let sidecar = sidecar.clone();
            Arc::new(move |region| sidecar.freshness.speaks(region, sidecar.clock.now()))
        },
        is_live: {
            let sidecar = sidecar.clone();
            Arc::new(move |region| sidecar.freshness.horizon().live(sidecar.clock.now()).contains(region))
        },
        intake: Arc::new(VerifyingIntake::new(sidecar, fetcher)),
        metrics: sidecar.metrics.clone(),
        sdk: Sdk::new(config.announcements.endpoint_url.clone()),
    };
    let _ = sidecar.beyond.set(beyond(sidecar, topics.clone()));
    let _ = topics.set(Subscriptions::start(config, pace, &edges)?);
    ticker::start(sidecar);
    if config.announcements.transport != Transport::Off {
        // Where nothing is announced, there is nothing to measure.
        audit::start(sidecar);
    }
    Ok(())
}

/// Carries out the actions that are outside the core.
fn beyond(sidecar: &Core, topics: Topics) -> Beyond {
    let (config, tasks) = (&sidecar.config, sidecar.tasks.clone());
    let file = config.freshness.state_file.clone();
    let arns = config.service.regions.iter().map(|region| region.topic.as_ref().map(|topic| topic.arn.clone()));
    let arns: Vec<_> = arns.collect();
    Box::new(move |action| match action {
        Action::Resubscribe(region, after) => {
            if let Some(subscriptions) = topics.get() {
                subscriptions.resubscribe(region, after);
            }
        }
        Action::HeartbeatSeen(region) => {
            if let (Some(file), Some(arn)) = (file.clone(), arns[region.index()].clone()) {
                let stopping = tasks.stopping();
                tasks.spawn("state-file", async move {
                    stopping.run_until_cancelled(memory::note(file, arn)).await;
                });
            }
        }
        _ => {}
    })
}

/// Still answers everything for as long as it takes callers to go elsewhere.
///
/// `unname` takes away names of sockets while this process still listens on them: later they may be
/// another's, who came after it.
async fn linger(shutdown: &Shutdown, drain: Drain, unname: impl FnOnce()) {
    shutdown.lingering.cancel();
    tracing::info!(linger = ?drain.linger, "stopping: everything is still answered until the linger ends");
    tokio::time::sleep(drain.linger).await;
    unname();
    shutdown.closing.cancel();
}

impl App {
    /// The regions' subscriptions; `None` while there are none.
    pub fn subscriptions(&self) -> Option<&Subscriptions> {
        self.topics.get()
    }

    /// Where the http transport listens for announcements.
    pub fn announcements(&self) -> Option<SocketAddr> {
        self.topics.get().and_then(Subscriptions::listening)
    }

    /// Lingers, closes, unsubscribes and drains; afterwards nothing runs.
    pub async fn stop(self) -> Stopped {
        let drain = self.current.load().config.drain;
        let unname = || {
            let current = self.current.load_full();
            let operators = current.config.admin.unix.as_ref().map(|unix| &unix.path);
            for path in self.unix.iter().chain(operators) {
                // It is fine if it is gone already.
                let _ = std::fs::remove_file(path);
            }
        };
        linger(&self.shutdown, drain, unname).await;
        let unsubscribed = async {
            match self.topics.get() {
                Some(subscriptions) => subscriptions.shutdown(drain.deadline).await.len(),
                None => 0,
            }
        };
        let (late, left_behind) = tokio::join!(self.sidecar.tasks.drain(drain.deadline), unsubscribed);
        tracing::info!(?late, left_behind, "stopped");
        Stopped { late, left_behind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;

    #[tokio::test]
    async fn a_start_that_fails_says_what_to_change_and_leaves_nothing_running() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listen = taken.local_addr().unwrap();
        let text = format!(
            "[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n\
             topic = \"arn:aws:sns:eu-west-1:000000000000:contexts\"\n\
             [service]\nname = \"contexts\"\n[listen]\ntcp = \"{free}\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
             [announcements]\ntransport = \"http\"\nhttp_listen = \"{listen}\"\n\
             http_public_url = \"http://{listen}\"\nendpoint_url = \"http://127.0.0.1:1\"\n"
        );
        let Err(error) = start(read::from_toml(&text).unwrap()).await else { panic!("the port is taken") };
        let told = error.to_string();
        assert!(told.contains(&listen.to_string()) && told.contains("announcements.http_listen"), "{told}");
        std::net::TcpListener::bind(free).expect("the sidecar's own port is free again");
    }
}
