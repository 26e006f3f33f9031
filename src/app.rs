//! Wiring and ordered shutdown. At the start: bind what callers reach, so that an error is clear
//! and early; then the regions; then the subscriptions, which proceed on their own and hold up
//! nothing. At the end: linger, close, then unsubscribe and drain together, under one deadline.
//!
//! When [`App::stop`] returns, no task of this process's sidecar runs and its sockets are closed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use http::Request;
use hyper::body::Incoming;

use crate::access::gate::Gate;
use crate::admin::commands::Commands;
use crate::admin::commands::access::Access;
use crate::admin::{self, Pages};
use crate::aws::certificate::fetch::{Fetcher, Unfetched};
use crate::aws::clients::Sdk;
use crate::cache::capacity::Memory;
use crate::cache::key::HashKey;
use crate::config::scope::Origins;
use crate::config::{Config, Drain, Transport};
use crate::fill::audit;
use crate::fill::effects::apply_actions;
use crate::fill::files::SettingsError;
use crate::fill::settings::{Effects, Parts};
use crate::http::bodies::ByteBudget;
use crate::http::client::attempt::HttpOrigin;
use crate::http::connection::{ConnectionContext, Shutdown, Via};
use crate::http::exchange::Origin;
use crate::http::listener::{self, ListenError};
use crate::http::server_tls::{Offers, PortTls, ServerTls};
use crate::http::service::Listener;
use crate::model::time::Clock;
use crate::protocol::event::{Action, Event};
use crate::request::current::Current;
use crate::request::serve;
use crate::request::settings::Settings;
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
pub mod process;
pub(crate) mod reload;
pub mod services;
mod sockets;
mod ticker;
mod topics;
mod warm;
mod watch;

use bounds::{Bounds, bound_connections};
use operators::Operators;
use reload::{Reloader, Source};
use sockets::Sockets;
use topics::Topics;
use warm::keep_warm;

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
    Sidecar(#[from] SettingsError),
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

/// Parts of the machine that a test or a demonstration replaces.
#[derive(Default)]
pub struct Overrides {
    pub clock: Clock,
    pub origin: Option<Arc<dyn Origin>>,
    pub pace: Option<Pace>,
    /// Decides who may read, at a region's node.
    pub gate: Option<Arc<Gate>>,
    /// TLS of its TCP ports, at a region's node.
    pub tls: Option<Arc<ServerTls>>,
    /// Source that a reload reads again; without it there are no reloads.
    pub source: Option<Source>,
}

pub struct App {
    pub tcp: Option<SocketAddr>,
    pub unix: Option<PathBuf>,
    pub admin: SocketAddr,
    pub sidecar: Arc<Settings>,
    pub commands: Arc<Commands>,
    pub reloader: Arc<Reloader>,
    topics: Topics,
    current: Arc<Current<Settings>>,
    shutdown: Shutdown,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Tasks that had to be dropped at the deadline.
    pub late: Vec<&'static str>,
    /// Subscriptions and queues that could not be removed; the janitor will remove them.
    pub left_behind: usize,
}

/// Starts a sidecar on the current runtime.
pub async fn start(config: Config) -> Result<App, StartError> {
    start_with(config, Overrides::default()).await
}

/// Starts with parts that a test or a demonstration replaces.
pub async fn start_with(config: Config, instead: Overrides) -> Result<App, StartError> {
    let sockets = Sockets::bind(&config)?;
    let access = Access::new(&config.admin)?;
    let memory = Memory::of_the_machine();
    let (sidecar, http) = build(config, &instead, memory)?;
    sockets.bound_buffers(memory);
    let app = open(sockets, access, sidecar, http, instead.tls, instead.source);
    if let Err(error) = subscribe(&app.sidecar, &app.topics, instead.pace.unwrap_or_default()) {
        // Nothing of a sidecar that did not start keeps running.
        app.sidecar.fill.shared.tasks.drain(Duration::ZERO).await;
        return Err(error);
    }
    watch::start(&app.sidecar, &app.reloader);
    findings::start(&app.sidecar, &app.topics);
    // With an origin of its own, the region logs where its node serves, in a line of its own.
    if instead.origin.is_none() {
        tracing::info!(
            service = %app.sidecar.fill.config.service.name,
            regions = app.sidecar.fill.shared.names.len(),
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
    instead: &Overrides,
    memory: Memory,
) -> Result<(Arc<Settings>, Option<Arc<HttpOrigin>>), StartError> {
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
    let (hash_key, floor_slots) = (HashKey::random(), memory.floor_slots());
    let parts = Parts { clock, origin, tasks, hash_key, floor_slots, memory, bodies };
    Ok((Settings::behind(config, parts, instead.gate.clone())?, http))
}

fn open(
    sockets: Sockets,
    access: Access,
    sidecar: Arc<Settings>,
    http: Option<Arc<HttpOrigin>>,
    tls: Option<Arc<ServerTls>>,
    source: Option<Source>,
) -> App {
    let (shutdown, topics) = (Shutdown::default(), Topics::default());
    let tasks = &sidecar.fill.shared.tasks;
    let current = sidecar.clone().into_current();
    let bounds = Bounds::of_the_machine(sidecar.fill.shared.memory.memory).over(tls.as_ref());
    let connections = Permits::new(bound_connections(bounds, &sidecar.fill.config));
    let permits = bounds.permits(&sidecar.fill.config);
    sidecar.fill.permit(permits);
    let last_reload = Arc::new(ArcSwapOption::empty());
    let remarks = Arc::new(ArcSwap::from_pointee(remarks_of(source.as_ref().map(|source| &source.origins))));
    let context = ConnectionContext {
        tasks: tasks.clone(),
        clock: sidecar.fill.shared.clock.clone(),
        permits: connections.clone(),
        peers: sidecar.shared.peers.clone(),
        shutdown: shutdown.clone(),
        fast_path: Some(current.clone()),
    };
    let newest = current.clone();
    let handler = move |request: Request<Incoming>, via: Via| serve::answer(&newest.load(), request, via);
    // A listener that was bound has an address.
    let addr = |listener: &tokio::net::TcpListener| listener.local_addr().ok();
    let tcp = sockets.tcp.first().and_then(addr);
    let admin = sockets.admin.first().and_then(addr).unwrap_or(sidecar.fill.config.admin.listen);
    for listener in sockets.tcp {
        let (listener, context, handler) = (Arc::new(listener), context.clone(), handler.clone());
        let port = PortTls::of(tls.as_ref(), Offers::Both);
        let accept = move || listener::accept(listener.clone(), port.clone(), context.clone(), handler.clone());
        tasks.spawn_service("accept", accept);
    }
    let unix = sidecar.fill.config.listen.unix.as_ref();
    if let (Some(listener), Some(socket)) = (sockets.unix, unix) {
        let (listener, uids) = (Arc::new(listener), socket.uids.clone());
        let accept = move || listener::accept_unix(listener.clone(), uids.clone(), context.clone(), handler.clone());
        tasks.spawn_service("accept", accept);
    }
    let unix = unix.map(|socket| socket.path.clone());
    let pages = Pages {
        status: overview::source(&sidecar, &topics, &shutdown, &connections, &last_reload, &remarks),
        metrics: sidecar.fill.shared.metrics.clone(),
        admits: Arc::new(ArcSwap::from_pointee(admin::Admits::of(&sidecar.fill.config.listen))),
        commands: Commands::new(sidecar.clone(), access),
    };
    let (commands, admits) = (pages.commands.clone(), pages.admits.clone());
    let mut operators = Operators::new(pages.clone(), tasks);
    operators.serve(sidecar.fill.config.admin.unix.as_ref(), sockets.operators);
    let permits = admin::port_connections(bounds.admin());
    admin::start(
        Listener::over(PortTls::of(tls.as_ref(), Offers::Pages).as_ref(), sockets.admin),
        permits,
        pages,
        tasks,
        tasks.stopping(),
    );
    let reloader = Reloader::new(reload::ReloaderParts {
        current: current.clone(),
        bounds,
        connections,
        shutdown: shutdown.clone(),
        last: last_reload,
        remarks,
        http,
        source,
        commands: commands.clone(),
        admits,
        operators,
    });
    commands.set_reload(reload::command(&reloader));
    App { tcp, unix, admin, sidecar, commands, reloader, topics, current, shutdown }
}

/// Remarks on settings that are allowed but probably not meant, one line each.
fn remarks_of(origins: Option<&Origins>) -> Vec<String> {
    origins.iter().flat_map(|origins| &origins.warnings).map(ToString::to_string).collect()
}

/// Starts to listen to the regions' topics, and to keep time.
fn subscribe(sidecar: &Arc<Settings>, topics: &Topics, pace: Pace) -> Result<(), StartError> {
    let config = &sidecar.fill.config;
    memory::recall(sidecar);
    if let Some(signer) = &config.announcements.insecure_sns_signer {
        tracing::warn!(%signer, "insecure_sns_signer: signing certificates from this origin are trusted as they are");
    }
    let listener = sidecar.clone();
    let step = move |event: Event| {
        let actions = listener.fill.shared.freshness.step(
            listener.fill.shared.clock.now(),
            listener.fill.shared.clock.wall(),
            event,
        );
        apply_actions(&listener.fill.newest(), actions);
    };
    let fetcher = if config.announcements.transport == Transport::Off {
        // Nothing arrives that needs a certificate, and an image may have no trust roots.
        Fetcher::given(|_| Err(Unfetched::Unreachable))
    } else {
        Fetcher::network(config.announcements.insecure_sns_signer.is_some()).map_err(StartError::Fetcher)?
    };
    let deps = subscription::SubscriptionDeps {
        tasks: sidecar.fill.shared.tasks.clone(),
        clock: sidecar.fill.shared.clock.clone(),
        events: Arc::new(step),
        speaks: {
            let sidecar = sidecar.clone();
            Arc::new(move |region| sidecar.fill.shared.freshness.speaks(region, sidecar.fill.shared.clock.now()))
        },
        is_live: {
            let sidecar = sidecar.clone();
            Arc::new(move |region| {
                sidecar.fill.shared.freshness.region_views().live(sidecar.fill.shared.clock.now()).contains(region)
            })
        },
        intake: Arc::new(VerifyingIntake::new(sidecar, fetcher)),
        metrics: sidecar.fill.shared.metrics.clone(),
        sdk: Sdk::new(config.announcements.endpoint_url.clone()),
    };
    // One sidecar has one set of subscriptions.
    let _ = sidecar.fill.shared.set_effects(effects(sidecar, topics.clone()));
    let _ = topics.set(Subscriptions::start(config, pace, &deps)?);
    ticker::start(sidecar);
    if config.announcements.transport != Transport::Off {
        // Where nothing is announced, there is nothing to measure.
        audit::start(&sidecar.fill);
    }
    Ok(())
}

/// Carries out the actions that are outside the request path.
fn effects(sidecar: &Settings, topics: Topics) -> Effects {
    let (config, tasks) = (&sidecar.fill.config, sidecar.fill.shared.tasks.clone());
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

    /// Address where the http transport listens for announcements.
    pub fn announcements(&self) -> Option<SocketAddr> {
        self.topics.get().and_then(Subscriptions::listening)
    }

    /// Lingers, closes, unsubscribes and drains; afterwards nothing runs.
    pub async fn stop(self) -> Stopped {
        let drain = self.current.load().fill.config.drain;
        linger(&self.shutdown, drain, || {
            let current = self.current.load_full();
            let operators = current.fill.config.admin.unix.as_ref().map(|unix| &unix.path);
            for path in self.unix.iter().chain(operators) {
                // It is fine if it is gone already.
                let _ = std::fs::remove_file(path);
            }
        })
        .await;
        let unsubscribed = async {
            match self.topics.get() {
                Some(subscriptions) => subscriptions.shutdown(drain.deadline).await.len(),
                None => 0,
            }
        };
        let (late, left_behind) = tokio::join!(self.sidecar.fill.shared.tasks.drain(drain.deadline), unsubscribed);
        tracing::info!(?late, left_behind, "stopped");
        Stopped { late, left_behind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;

    #[tokio::test]
    async fn failed_start_leaves_nothing_running() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let free = nearside_lab::loopback::address().unwrap();
        let listen = taken.local_addr().unwrap();
        let text = format!(
            "[[service.region]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n\
             topic = \"arn:aws:sns:eu-west-1:000000000000:contexts\"\n\
             [service]\nname = \"contexts\"\n[listen]\ntcp = \"{free}\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
             [announcements]\ntransport = \"http\"\nhttp_listen = \"{listen}\"\n\
             http_public_url = \"http://{listen}\"\nendpoint_url = \"http://127.0.0.1:1\"\n"
        );
        let Err(error) = start(read::from_toml(&text).unwrap()).await else { panic!("the port is taken") };
        let reported = error.to_string();
        assert!(
            reported.contains(&listen.to_string()) && reported.contains("announcements.http_listen"),
            "{reported}"
        );
        std::net::TcpListener::bind(free).expect("the sidecar's own port is free again");
    }
}
