//! State that requests share: [`Shared`] for as long as the process runs, [`Settings`] under one
//! reading of the configuration, both over those of fills.
//!
//! A reload makes new settings over the same shared state. A request finishes with the settings it
//! began with and sees nothing of the others. Whatever lives longer than a request asks for
//! [`Settings::newest`].

use std::sync::{Arc, OnceLock, Weak};

use super::batch::batches::Batches;
use super::churn::Churn;
use super::current::Current;
use crate::access::gate::Gate;
use crate::access::issuers::Issuers;
use crate::access::verifier::Verifier;
use crate::cache::capacity::Pressure;
use crate::config::Config;
use crate::credentials::Minters;
use crate::fill::files::{Files, SettingsError};
use crate::fill::settings::{Newest, Parts};
use crate::fill::{self, background};
use crate::http::admission::Admission;
use crate::http::bodies::ByteBudget;
use crate::http::exchange::Origin;
use crate::http::peers::Peers;
use crate::http::token;
use crate::shape::derive::Deriver;

/// State of requests that outlives every reading of the configuration.
pub struct Shared {
    pub(crate) deriver: Arc<Deriver>,
    pub(crate) batches: Batches,
    /// Notices callers that mint a token per request.
    pub churn: Churn,
    /// Limits the bytes of bodies held at once, of requests and of replies.
    pub bodies: Arc<ByteBudget>,
    /// The open connections of callers, and the memory that they may take besides bodies.
    pub peers: Arc<Peers>,
    /// A sidecar's that tells callers apart by their tokens.
    pub verifier: Option<Arc<Verifier>>,
    /// A node's: decides who may read.
    pub gate: Option<Arc<Gate>>,
    current: OnceLock<Weak<Current<Settings>>>,
}

/// One reading of the configuration, as requests need it.
pub struct Settings {
    pub fill: Arc<fill::settings::Settings>,
    pub shared: Arc<Shared>,
    pub admission: Arc<Admission>,
    /// Some route's replies are a message.
    pub(super) has_messages: bool,
}

impl Newest for Current<Settings> {
    fn newest(&self) -> Arc<fill::settings::Settings> {
        self.load().fill.clone()
    }
}

fn has_messages(config: &Config) -> bool {
    config.service.routes.iter().any(|route| route.payload.message.is_some())
}

fn admission(config: &Config, bodies: &Arc<ByteBudget>, peers: &Arc<Peers>) -> Result<Arc<Admission>, SettingsError> {
    let token = token::read("listen.token_file", config.listen.token_file.as_deref())?;
    Ok(Arc::new(Admission::new(&config.listen, token).holding(bodies.clone(), peers.clone())))
}

/// Verifier of callers' tokens, if the file names issuers. It watches their keys.
fn verifier(config: &Config, parts: &Parts) -> Result<Option<Arc<Verifier>>, SettingsError> {
    let Some(trusted) = config.access.trusted() else { return Ok(None) };
    let issuers = Issuers::trusting(&trusted, &parts.clock)?;
    issuers.watch(&parts.tasks);
    Ok(Some(Arc::new(Verifier::of_sidecar(issuers, parts.clock.clone()))))
}

impl Settings {
    /// Reads the files that the configuration names, and starts the watch over credentials.
    ///
    /// # Errors
    /// When the credentials of a route, or the port's token, cannot be read.
    pub fn new(config: Config, parts: Parts) -> Result<Arc<Self>, SettingsError> {
        Self::behind(config, parts, None)
    }

    /// [`Settings::new`] behind a gate.
    ///
    /// # Errors
    /// As [`Settings::new`].
    pub fn behind(config: Config, parts: Parts, gate: Option<Arc<Gate>>) -> Result<Arc<Self>, SettingsError> {
        let minters = Arc::new(Minters::new(config.announcements.endpoint_url.clone()));
        let files = Files::read(&config, &minters)?;
        let (memory, bodies) = (parts.memory, parts.bodies.clone());
        let batches = Batches::new(&config, memory.permits());
        let verifier = verifier(&config, &parts)?;
        let fill = fill::settings::Settings::first(config, parts, files, background::begin);
        let counted = fill.shared.metrics.clone();
        let peers = Peers::new(memory.requests(), move |budget| counted.operations.over_budget(budget));
        let admission = admission(&fill.config, &bodies, &peers)?;
        let fills = &fill.shared;
        let deriver = Deriver::new(
            fills.store.clone(),
            bodies.clone(),
            fills.clock.clone(),
            fills.metrics.clone(),
            fills.tasks.clone(),
        );
        let (deriver, churn, current) = (Arc::new(deriver), Churn::default(), OnceLock::new());
        let shared = Arc::new(Shared { deriver, batches, churn, bodies, peers, verifier, gate, current });
        fill.watch_credentials();
        Ok(Arc::new(Self { has_messages: has_messages(&fill.config), fill, shared, admission }))
    }

    /// Other settings over the same shared state, their files read again. The regions are asked
    /// through `origin`; they are the same, in the same order.
    ///
    /// # Errors
    /// When the credentials of a route, or the port's token, cannot be read, or when only a restart
    /// helps. Then nothing has changed.
    pub fn renewed(&self, config: Config, origin: Arc<dyn Origin>) -> Result<Arc<Self>, SettingsError> {
        let files = Files::read(&config, &self.fill.minters)?;
        let shared = self.shared.clone();
        let admission = admission(&config, &shared.bodies, &shared.peers)?;
        let fill = self.fill.renewed(config, origin, files)?;
        Ok(Arc::new(Self { has_messages: has_messages(&fill.config), fill, shared, admission }))
    }

    /// Keeps them as the newest.
    pub fn into_current(self: Arc<Self>) -> Arc<Current<Self>> {
        let (shared, fills) = (self.shared.clone(), self.fill.shared.clone());
        let current = Arc::new(Current::new(self));
        // Set once: they are the newest of one process only.
        let _ = shared.current.set(Arc::downgrade(&current));
        let newest: Weak<Current<Self>> = Arc::downgrade(&current);
        let _ = fills.links.newest.set(newest);
        current
    }

    /// The settings of the newest configuration; these where nobody keeps any.
    pub fn newest(self: &Arc<Self>) -> Arc<Self> {
        let current = self.shared.current.get().and_then(Weak::upgrade);
        current.map_or_else(|| self.clone(), |current| current.load_full())
    }

    /// Frees memory when the process holds `resident` bytes and that is too much: first it stops
    /// background work, then it evicts entries. Call it every [`crate::fill::limits::MEMORY_TICK`].
    pub fn relieve_memory(&self, resident: u64) {
        let fills = &self.fill.shared;
        if fills.memory.note(resident, &fills.store, fills.clock.now()) == Pressure::Evict {
            fills.store.give_up();
            self.shared.peers.relieve();
        }
    }
}
