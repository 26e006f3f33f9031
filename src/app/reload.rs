//! Rereads the configuration and the files that it names while the process runs. Everything is read
//! and checked before anything changes. Then a new [`Core`] replaces the running one: a request
//! that has begun finishes with the old one, and the next begins with the new one.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use arc_swap::{ArcSwap, ArcSwapOption};
use futures_util::FutureExt;

use super::bounds::Bounds;
use super::operators::Operators;
use crate::admin::Admits;
use crate::admin::acts::{ActRefused, Acts, ReloadFn};
use crate::admin::status::ReloadStatus;
use crate::app::limits;
use crate::config::error::{ConfigError, ConfigProblem, Place};
use crate::config::scope::Origins;
use crate::config::{Config, Route, Transport, change};
use crate::core::fill::audit;
use crate::core::{Core, Current, shape};
use crate::http::client::attempt::HttpOrigin;
use crate::http::connection::Shutdown;
use crate::http::exchange::Origin;
use crate::http::token;
use crate::tasks::permits::Permits;
use crate::telemetry::log;

/// Reads the configuration, or reports everything that is wrong with it.
pub(crate) type Read = Box<dyn Fn() -> Found + Send + Sync>;

type Found = Result<(Config, Origins), Vec<ConfigError>>;

/// How to read the configuration again, and where each setting of the running process came from.
pub struct Source {
    pub read: Read,
    /// As read at the start.
    pub origins: Origins,
}

/// What a reload changed, one line each, without secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Reloaded {
    pub changed: Vec<String>,
    /// Settings that differ in the file but take effect only after a restart.
    pub needs_restart: Vec<String>,
    /// What is allowed but probably not meant.
    pub warnings: Vec<String>,
}

/// Why a reload changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// All of them at once. The operator has to fix them.
    #[error("nothing was changed: {}", told(.0))]
    Mistakes(Vec<ConfigError>),
    #[error("the reload broke: a defect, of which the log says more; what held before goes on")]
    Broke,
    /// A file could not be read in time.
    #[error(
        "nothing was changed yet: reading the configuration takes longer than {}; see whether the mount that it is on \
         stalls. It is taken up when it has been read",
        humantime::format_duration(limits::RELOAD_WITHIN)
    )]
    Slow,
    #[error("nothing was changed: the process is stopping")]
    Stopping,
    /// It was started by a program with settings of its own.
    #[error("nothing was changed: this sidecar was not started from a configuration that could be read again")]
    NoSource,
}

fn told(mistakes: &[ConfigError]) -> String {
    mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// What a reload needs of the running process.
pub struct Reloader {
    current: Arc<Current>,
    bounds: Bounds,
    connections: Permits,
    shutdown: Shutdown,
    last: Arc<ArcSwapOption<ReloadStatus>>,
    remarks: Arc<ArcSwap<Vec<String>>>,
    acts: Arc<Acts>,
    admits: Arc<ArcSwap<Admits>>,
    read: Option<Read>,
    /// Locked for the whole of a reload, including its reading: one at a time, in the order of the
    /// requests.
    turn: Mutex<()>,
    /// Locked while something is put in place.
    state: Mutex<State>,
}

struct State {
    origins: Origins,
    /// `None` when a test's replies stand in for the regions.
    http: Option<Arc<HttpOrigin>>,
    operators: Operators,
}

/// The parts of a [`Reloader`] that `app` makes.
pub(super) struct ReloaderParts {
    pub(super) current: Arc<Current>,
    pub(super) bounds: Bounds,
    pub(super) connections: Permits,
    pub(super) shutdown: Shutdown,
    pub(super) last: Arc<ArcSwapOption<ReloadStatus>>,
    pub(super) remarks: Arc<ArcSwap<Vec<String>>>,
    pub(super) http: Option<Arc<HttpOrigin>>,
    pub(super) source: Option<Source>,
    pub(super) acts: Arc<Acts>,
    pub(super) admits: Arc<ArcSwap<Admits>>,
    pub(super) operators: Operators,
}

impl Reloader {
    pub(super) fn new(parts: ReloaderParts) -> Arc<Self> {
        let ReloaderParts {
            current,
            bounds,
            connections,
            shutdown,
            last,
            remarks,
            http,
            source,
            acts,
            admits,
            operators,
        } = parts;
        let (read, origins) = source.map(|source| (source.read, source.origins)).unzip();
        let state = Mutex::new(State { origins: origins.unwrap_or_default(), http, operators });
        let turn = Mutex::new(());
        Arc::new(Self { current, bounds, connections, shutdown, last, remarks, acts, admits, read, turn, state })
    }

    /// Rereads everything and applies what can change; waits for a reload that is under way. A file
    /// on a mount that stalls holds up only reloads.
    ///
    /// # Errors
    /// See [`ReloadError`]; then nothing has changed.
    pub async fn reload(self: &Arc<Self>) -> Result<Reloaded, ReloadError> {
        let own = self.clone();
        let reading = tokio::task::spawn_blocking(move || {
            // After a panic, which is a defect, the state is what the last finished reload left.
            let _turn = own.turn.lock().unwrap_or_else(PoisonError::into_inner);
            let read = own.read.as_ref().map(|read| read());
            let mut state = own.state.lock().unwrap_or_else(PoisonError::into_inner);
            let done = own.take_up(&mut state, read);
            own.tell(&done);
            done
        });
        let failed = match tokio::time::timeout(limits::RELOAD_WITHIN, reading).await {
            Ok(Ok(done)) => return done,
            Ok(Err(_)) => ReloadError::Broke,
            Err(_) => ReloadError::Slow,
        };
        tracing::error!("{failed}");
        Err(failed)
    }

    /// Applies what the files that the settings name contain now, and returns whether they could be used;
    /// `None` while a reload is under way. It reads files, so do not call it on a thread that others wait
    /// for.
    pub(super) fn reload_files(&self) -> Option<bool> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(left)) => left.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if self.shutdown.lingering.is_cancelled() {
            return Some(true);
        }
        let (running, origins) = (self.current.load_full(), state.origins.clone());
        let done = self.apply(&mut state, running.config.clone(), origins).map_err(ReloadError::Mistakes);
        if done.as_ref().map_or(true, |reloaded| !reloaded.changed.is_empty()) {
            self.tell(&done);
        }
        Some(done.is_ok())
    }

    fn take_up(&self, state: &mut State, read: Option<Found>) -> Result<Reloaded, ReloadError> {
        let read = read.ok_or(ReloadError::NoSource)?;
        if self.shutdown.lingering.is_cancelled() {
            return Err(ReloadError::Stopping);
        }
        let (wanted, origins) = read.map_err(ReloadError::Mistakes)?;
        let filter = wanted.log.filter.clone();
        let reloaded = self.apply(state, wanted, origins).map_err(ReloadError::Mistakes)?;
        // An operator may have changed it since. That lasts only until now.
        if log::filter().is_ok_and(|held| held != filter)
            && let Err(error) = log::change(&filter)
        {
            tracing::warn!(%error, "log.filter stays as it is");
        }
        Ok(reloaded)
    }

    /// Builds everything new, which may fail, and then puts it in place, which cannot.
    fn apply(&self, state: &mut State, wanted: Config, origins: Origins) -> Result<Reloaded, Vec<ConfigError>> {
        let mistakes = shape::unusable_schemas(&wanted, &origins);
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let running = self.current.load_full();
        let config = change::merged(&running.config, &wanted);
        let (changes, holds) = change::compare(&state.origins, &origins);
        let renewed = |http: &Arc<HttpOrigin>| http.renewed_for(&config.service).map(Arc::new);
        let http = state.http.as_ref().map(renewed).transpose().map_err(unusable)?;
        let origin = match &http {
            Some(http) => http.clone() as Arc<dyn Origin>,
            None => running.regions.origin().clone(),
        };
        let admin_token = token::read("admin.token_file", config.admin.token_file.as_deref()).map_err(unusable)?;
        let sidecar = running.renewed(config, origin).map_err(unusable)?;
        // Last, since it takes the place of whatever is at its path.
        let unix = sidecar.config.admin.unix.as_ref();
        // A stop takes the sockets' names away, and what is there then may be a successor's.
        let stops = self.shutdown.lingering.is_cancelled();
        let operators = if stops { None } else { state.operators.bind(unix).map_err(unusable)? };
        let mut reloaded = Reloaded {
            changed: changes.live,
            needs_restart: changes.restart,
            warnings: origins.warnings.iter().map(ToString::to_string).collect(),
        };
        reloaded.changed.extend(other_content(&running, &sidecar, state.http.as_deref().zip(http.as_deref())));
        let same_file = running.config.admin.token_file == sidecar.config.admin.token_file;
        if self.acts.access.replace_token(admin_token) && same_file {
            reloaded.changed.push("admin.token_file: another token".to_owned());
        }
        self.acts.access.replace_socket(&sidecar.config.admin);
        if !stops {
            state.operators.serve(unix, operators);
        }
        self.put_in_place(&running, &sidecar);
        self.remarks.store(Arc::new(reloaded.warnings.clone()));
        if let (Some(before), Some(http)) = (&state.http, &http) {
            before.give_way(http);
            super::keep_warm(http, &sidecar.tasks);
        }
        (state.origins, state.http) = (holds, http);
        Ok(reloaded)
    }

    fn put_in_place(&self, running: &Arc<Core>, sidecar: &Arc<Core>) {
        let (before, config, tasks) = (&running.config, &sidecar.config, &sidecar.tasks);
        sidecar.freshness.tune(&config.freshness.protocol());
        self.current.replace(sidecar.clone());
        sidecar.fills.forget_errors();
        self.admits.store(Arc::new(Admits::of(&config.listen)));
        sidecar.watch_credentials();
        self.connections.resize(super::bound_connections(self.bounds, config), tasks);
        let permits = self.bounds.permits(config);
        sidecar.regions.permit(permits, tasks);
        sidecar.seconds.iter().flatten().for_each(|second| second.regions.permit(permits, tasks));
        if sidecar.capacity() != running.capacity() {
            let (store, capacity, stopping) = (sidecar.store.clone(), sidecar.capacity(), tasks.stopping());
            tasks.spawn("resize", async move { stopping.run_until_cancelled(store.resize(capacity)).await });
        }
        if !sidecar.router.has_all_of(&running.router) {
            sidecar.freshness.rewired();
            let (own, stopping) = (sidecar.clone(), tasks.stopping());
            tasks.spawn("forget", async move { stopping.run_until_cancelled(own.forget_unrouted()).await });
        }
        if config.announcements.transport != Transport::Off && before.freshness.audit_period.is_zero() {
            audit::start(sidecar);
        }
    }

    /// Logs, counts and remembers how a reload ended.
    fn tell(&self, done: &Result<Reloaded, ReloadError>) {
        let sidecar = self.current.load();
        let (outcome, mistakes) = match done {
            Ok(Reloaded { changed, needs_restart, warnings }) => {
                warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                changed.iter().for_each(|change| tracing::info!(change, "changed by a reload"));
                for setting in needs_restart {
                    tracing::warn!(setting, "cannot change while the process runs: restart to apply it");
                }
                tracing::info!(changed = changed.len(), needs_restart = needs_restart.len(), "reloaded");
                ("applied", Vec::new())
            }
            Err(ReloadError::Mistakes(mistakes)) => {
                mistakes.iter().for_each(|mistake| tracing::error!("{mistake}"));
                tracing::error!(mistakes = mistakes.len(), "not reloaded: nothing was changed");
                ("refused", mistakes.iter().map(ToString::to_string).collect())
            }
            Err(error) => {
                tracing::warn!(%error, "not reloaded");
                ("refused", vec![error.to_string()])
            }
        };
        sidecar.metrics.reloaded(outcome);
        let Reloaded { changed, needs_restart, .. } = done.as_ref().cloned().unwrap_or_default();
        let at = humantime::format_rfc3339_millis(sidecar.clock.wall().to_system_time()).to_string();
        self.last.store(Some(Arc::new(ReloadStatus { at, outcome, changed, needs_restart, mistakes })));
    }
}

/// A reload as operators ask for it.
pub(super) fn act(reloader: &Arc<Reloader>) -> ReloadFn {
    let reloader = Arc::downgrade(reloader);
    Box::new(move || {
        let reloader = reloader.upgrade();
        async move {
            let done = match reloader {
                Some(reloader) => reloader.reload().await,
                None => Err(ReloadError::Stopping),
            };
            let reloaded = done.map_err(|error| ActRefused::NotReloaded(error.to_string()))?;
            serde_json::to_value(reloaded).map_err(|error| ActRefused::Failed(error.to_string()))
        }
        .boxed()
    })
}

/// What changed even if every setting is as before: the files that they name were rewritten.
fn other_content(running: &Core, sidecar: &Core, http: Option<(&HttpOrigin, &HttpOrigin)>) -> Vec<String> {
    let mut changed = Vec::new();
    let same_file = running.config.listen.token_file == sidecar.config.listen.token_file;
    if same_file && !running.admission.asks_for_the_same_token(&sidecar.admission) {
        changed.push("listen.token_file: another token".to_owned());
    }
    for (route, held) in sidecar.config.service.routes.iter().zip(&sidecar.credentials) {
        let before = running.config.service.routes.iter().position(|known| known.identity == route.identity);
        let before = before.and_then(|place| running.credentials[place].as_ref());
        if let (Some(held), Some(before)) = (held, before)
            && held.value() != before.value()
        {
            changed.push(format!("service.route[{}].credentials.file: another value", route.path.text));
        }
    }
    changed.extend(other_schemas(running, sidecar));
    let regions = |sidecar: &Core, place: usize| sidecar.config.service.regions[place].clone();
    for place in http.map(|(before, http)| http.differ(before)).unwrap_or_default() {
        let (before, region) = (regions(running, place), regions(sidecar, place));
        if (before.url, before.tls) == (region.url, region.tls) {
            changed.push(format!("service.region[{}].tls: other certificates", region.name));
        }
    }
    changed
}

/// The routes whose schema is another although every setting of it is as before.
fn other_schemas(running: &Core, sidecar: &Core) -> Vec<String> {
    let before = &running.config.service.routes;
    let of = |core: &Core, place: usize| Some(core.shapes[place].as_ref()?.schema()?.id());
    let told = |(place, route): (usize, &Route)| {
        let was = before.iter().position(|known| known.path == route.path)?;
        let same_settings = before[was].payload.message == route.payload.message;
        let is_other = same_settings && of(running, was) != of(sidecar, place);
        is_other.then(|| format!("service.route[{}].schema: other content", route.path.text))
    };
    sidecar.config.service.routes.iter().enumerate().filter_map(told).collect()
}

/// A file that was good when it was checked and is not any more, or something that only a restart
/// can change.
fn unusable(error: impl std::fmt::Display) -> Vec<ConfigError> {
    let wrong = ConfigProblem::new(error.to_string(), "mend it and reload again");
    vec![ConfigError::new(Place::Environment, "", wrong)]
}
