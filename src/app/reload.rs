//! Rereads the configuration and the files that it names while the process runs. Everything is read
//! and checked before anything changes. Then new [`Settings`] replace the running ones: a request
//! that has begun finishes with the old one, and the next begins with the new one.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use futures_util::FutureExt;
use parking_lot::Mutex;

use self::changed_files::changed_files;
use super::bounds::{Bounds, bound_connections};
use super::operators::Operators;
use super::warm::keep_warm;
use crate::admin::Admits;
use crate::admin::commands::{CommandRefused, Commands, ReloadFn};
use crate::admin::status::ReloadStatus;
use crate::app::limits;
use crate::config::error::{ConfigError, ConfigProblem, Place};
use crate::config::scope::Origins;
use crate::config::{Config, Transport, change};
use crate::fill::audit;
use crate::fill::purge::purge_removed_routes;
use crate::http::client::attempt::HttpOrigin;
use crate::http::connection::Shutdown;
use crate::http::exchange::Origin;
use crate::http::token;
use crate::request::current::Current;
use crate::request::settings::Settings;
use crate::shape::shapes::unusable_schemas;
use crate::tasks::permits::Permits;
use crate::telemetry::log;
use crate::telemetry::metrics::operations::ReloadOutcome;

mod changed_files;

/// Reads the configuration, or reports everything that is wrong with it.
pub(crate) type Read = Box<dyn Fn() -> Found + Send + Sync>;

type Found = Result<(Config, Origins), Vec<ConfigError>>;

/// Reader of the configuration, and the origin of each setting of the running process.
pub struct Source {
    pub read: Read,
    /// As read at the start.
    pub origins: Origins,
}

/// Changes of a reload, one line each, without secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Reloaded {
    pub changed: Vec<String>,
    /// Settings that differ in the file but take effect only after a restart.
    pub needs_restart: Vec<String>,
    /// Warnings of what is allowed but probably not meant.
    pub warnings: Vec<String>,
}

/// Why a reload changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// All of them at once. The operator has to fix them.
    #[error("nothing was changed: {}", reported(.0))]
    Config(Vec<ConfigError>),
    #[error("the reload failed because of a bug (see the log); the previous settings stay")]
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

fn reported(errors: &[ConfigError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Parts of the running process that a reload needs.
pub struct Reloader {
    current: Arc<Current<Settings>>,
    bounds: Bounds,
    connections: Permits,
    shutdown: Shutdown,
    last: Arc<ArcSwapOption<ReloadStatus>>,
    remarks: Arc<ArcSwap<Vec<String>>>,
    commands: Arc<Commands>,
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
    pub(super) current: Arc<Current<Settings>>,
    pub(super) bounds: Bounds,
    pub(super) connections: Permits,
    pub(super) shutdown: Shutdown,
    pub(super) last: Arc<ArcSwapOption<ReloadStatus>>,
    pub(super) remarks: Arc<ArcSwap<Vec<String>>>,
    pub(super) http: Option<Arc<HttpOrigin>>,
    pub(super) source: Option<Source>,
    pub(super) commands: Arc<Commands>,
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
            commands,
            admits,
            operators,
        } = parts;
        let (read, origins) = source.map(|source| (source.read, source.origins)).unzip();
        let state = Mutex::new(State { origins: origins.unwrap_or_default(), http, operators });
        let turn = Mutex::new(());
        Arc::new(Self { current, bounds, connections, shutdown, last, remarks, commands, admits, read, turn, state })
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
            let _turn = own.turn.lock();
            let read = own.read.as_ref().map(|read| read());
            let mut state = own.state.lock();
            let done = own.apply_read(&mut state, read);
            own.report(&done);
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
        let mut state = self.state.try_lock()?;
        if self.shutdown.lingering.is_cancelled() {
            return Some(true);
        }
        let (running, origins) = (self.current.load_full(), state.origins.clone());
        let done = self.apply(&mut state, running.fill.config.clone(), origins).map_err(ReloadError::Config);
        if done.as_ref().map_or(true, |reloaded| !reloaded.changed.is_empty()) {
            self.report(&done);
        }
        Some(done.is_ok())
    }

    fn apply_read(&self, state: &mut State, read: Option<Found>) -> Result<Reloaded, ReloadError> {
        let read = read.ok_or(ReloadError::NoSource)?;
        if self.shutdown.lingering.is_cancelled() {
            return Err(ReloadError::Stopping);
        }
        let (wanted, origins) = read.map_err(ReloadError::Config)?;
        let filter = wanted.log.filter.clone();
        let reloaded = self.apply(state, wanted, origins).map_err(ReloadError::Config)?;
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
        let errors = unusable_schemas(&wanted, &origins);
        if !errors.is_empty() {
            return Err(errors);
        }
        let running = self.current.load_full();
        let config = change::merged(&running.fill.config, &wanted);
        let (changes, new_origins) = change::compare(&state.origins, &origins);
        let http = state
            .http
            .as_ref()
            .map(|http| http.renewed_for(&config.service).map(Arc::new))
            .transpose()
            .map_err(unusable)?;
        let origin = match &http {
            Some(http) => http.clone() as Arc<dyn Origin>,
            None => running.fill.regions.origin().clone(),
        };
        let admin_token = token::read("admin.token_file", config.admin.token_file.as_deref()).map_err(unusable)?;
        let sidecar = running.renewed(config, origin).map_err(unusable)?;
        // Last, since it takes the place of whatever is at its path.
        let unix = sidecar.fill.config.admin.unix.as_ref();
        // On stop the socket files are removed; a file there now may belong to the next process.
        let stops = self.shutdown.lingering.is_cancelled();
        let operators = if stops { None } else { state.operators.bind(unix).map_err(unusable)? };
        let mut reloaded = Reloaded {
            changed: changes.live,
            needs_restart: changes.restart,
            warnings: origins.warnings.iter().map(ToString::to_string).collect(),
        };
        reloaded.changed.extend(changed_files(&running, &sidecar, state.http.as_deref().zip(http.as_deref())));
        let same_file = running.fill.config.admin.token_file == sidecar.fill.config.admin.token_file;
        if self.commands.access.replace_token(admin_token) && same_file {
            reloaded.changed.push("admin.token_file: another token".to_owned());
        }
        self.commands.access.replace_socket(&sidecar.fill.config.admin);
        if !stops {
            state.operators.serve(unix, operators);
        }
        self.put_in_place(&running, &sidecar);
        self.remarks.store(Arc::new(reloaded.warnings.clone()));
        if let (Some(before), Some(http)) = (&state.http, &http) {
            before.give_way(http);
            keep_warm(http, &sidecar.fill.shared.tasks);
        }
        (state.origins, state.http) = (new_origins, http);
        Ok(reloaded)
    }

    fn put_in_place(&self, running: &Arc<Settings>, sidecar: &Arc<Settings>) {
        let (before, config, tasks) = (&running.fill.config, &sidecar.fill.config, &sidecar.fill.shared.tasks);
        sidecar.fill.shared.freshness.tune(&config.freshness.protocol());
        self.current.replace(sidecar.clone());
        sidecar.fill.shared.fills.forget_errors();
        self.admits.store(Arc::new(Admits::of(&config.listen)));
        sidecar.fill.watch_credentials();
        self.connections.resize(bound_connections(self.bounds, config), tasks);
        let permits = self.bounds.permits(config);
        sidecar.fill.permit(permits);
        if sidecar.fill.capacity() != running.fill.capacity() {
            let (store, capacity, stopping) =
                (sidecar.fill.shared.store.clone(), sidecar.fill.capacity(), tasks.stopping());
            tasks.spawn("resize", async move { stopping.run_until_cancelled(store.resize(capacity)).await });
        }
        if !sidecar.fill.router.has_all_of(&running.fill.router) {
            sidecar.fill.shared.freshness.rewired();
            let (own, stopping) = (sidecar.clone(), tasks.stopping());
            tasks.spawn("forget", async move { stopping.run_until_cancelled(purge_removed_routes(&own.fill)).await });
        }
        if config.announcements.transport != Transport::Off && before.freshness.audit_period.is_zero() {
            audit::start(&sidecar.fill);
        }
    }

    /// Logs, counts and remembers how a reload ended.
    fn report(&self, done: &Result<Reloaded, ReloadError>) {
        let sidecar = self.current.load();
        let (outcome, errors) = match done {
            Ok(Reloaded { changed, needs_restart, warnings }) => {
                warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                changed.iter().for_each(|change| tracing::info!(change, "changed by a reload"));
                for setting in needs_restart {
                    tracing::warn!(setting, "cannot change while the process runs: restart to apply it");
                }
                tracing::info!(changed = changed.len(), needs_restart = needs_restart.len(), "reloaded");
                (ReloadOutcome::Applied, Vec::new())
            }
            Err(ReloadError::Config(errors)) => {
                errors.iter().for_each(|error| tracing::error!("{error}"));
                tracing::error!(errors = errors.len(), "not reloaded: nothing was changed");
                (ReloadOutcome::Refused, errors.iter().map(ToString::to_string).collect())
            }
            Err(error) => {
                tracing::warn!(%error, "not reloaded");
                (ReloadOutcome::Refused, vec![error.to_string()])
            }
        };
        sidecar.fill.shared.metrics.operations.reloaded(outcome);
        let Reloaded { changed, needs_restart, .. } = done.as_ref().cloned().unwrap_or_default();
        let at = humantime::format_rfc3339_millis(sidecar.fill.shared.clock.wall().to_system_time()).to_string();
        self.last.store(Some(Arc::new(ReloadStatus {
            at,
            outcome: outcome.into_str(),
            changed,
            needs_restart,
            errors,
        })));
    }
}

/// A reload as operators ask for it.
pub(super) fn command(reloader: &Arc<Reloader>) -> ReloadFn {
    let reloader = Arc::downgrade(reloader);
    Box::new(move || {
        let reloader = reloader.upgrade();
        async move {
            let done = match reloader {
                Some(reloader) => reloader.reload().await,
                None => Err(ReloadError::Stopping),
            };
            let reloaded = done.map_err(|error| CommandRefused::NotReloaded(error.to_string()))?;
            serde_json::to_value(reloaded).map_err(|error| CommandRefused::Failed(error.to_string()))
        }
        .boxed()
    })
}

/// A file that was good when it was checked and is not any more, or something that only a restart
/// can change.
fn unusable(error: impl std::fmt::Display) -> Vec<ConfigError> {
    let wrong = ConfigProblem::new(error.to_string(), "mend it and reload again");
    vec![ConfigError::new(Place::Environment, "", wrong)]
}
