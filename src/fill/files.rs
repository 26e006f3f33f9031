//! Files that the configuration names: credentials, schemas, dictionaries.

use std::sync::Arc;

use crate::access::key_file::KeysUnread;
use crate::config::{Config, Route};
use crate::credentials::{CredentialsError, HeldCredentials, Minters};
use crate::http::token::TokenError;
use crate::migration::candidate;
use crate::payload::coding::Codings;
use crate::race::compression::{self, CompressionError};
use crate::routing::keyed_hashes::TooManyTypes;
use crate::shape::shapes::{ShapeError, Shapes};

/// Why a reading of the configuration cannot be used. The operator has to fix it.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error("access.issuer: {0}")]
    Keys(#[from] KeysUnread),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Shape(#[from] ShapeError),
    #[error(transparent)]
    Compression(#[from] CompressionError),
    /// A reload brought more record types than a process can tell apart.
    #[error("service.route: {0}; restart to use these routes")]
    Types(#[from] TooManyTypes),
    /// Reloads brought more routes than a process can tell apart.
    #[error("service.route: more than 65535 routes since the start; restart to use these")]
    Routes,
}

/// Contents of these files, by route.
pub(crate) struct Files {
    pub(crate) credentials: Vec<Option<HeldCredentials>>,
    /// Those of the routes' candidates.
    pub(crate) candidates: Vec<Option<HeldCredentials>>,
    pub(crate) shapes: Vec<Option<Arc<Shapes>>>,
    pub(crate) codings: Vec<Option<Codings>>,
    pub(crate) minters: Arc<Minters>,
}

impl Files {
    /// Reads them all.
    ///
    /// # Errors
    /// When one cannot be used.
    pub(crate) fn read(config: &Config, minters: &Arc<Minters>) -> Result<Self, SettingsError> {
        let routes = &config.service.routes;
        Ok(Self {
            credentials: routes.iter().map(|route| own_credentials(route, minters)).collect::<Result<_, _>>()?,
            shapes: routes.iter().map(Shapes::of).collect::<Result<_, _>>()?,
            codings: routes.iter().map(compression::codings).collect::<Result<_, _>>()?,
            candidates: candidate::credentials(config, minters)?,
            minters: minters.clone(),
        })
    }
}

fn own_credentials(route: &Route, minters: &Minters) -> Result<Option<HeldCredentials>, CredentialsError> {
    route.identity.own().map(|credentials| HeldCredentials::read(credentials, minters)).transpose()
}
