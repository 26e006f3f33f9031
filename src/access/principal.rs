//! Who a verified credential says its sender is.

use std::fmt;
use std::sync::Arc;

use crate::config::services::AdminIdentity;

/// A name that somebody else vouches for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Principal {
    /// Subject of a token, as its issuer calls it.
    Token { iss: Arc<str>, sub: Arc<str> },
    /// SPIFFE ID of a client certificate.
    Spiffe(Arc<str>),
    /// The only DNS name of a client certificate without a SPIFFE ID.
    Dns(Arc<str>),
}

impl Principal {
    #[must_use]
    pub fn token(iss: &str, sub: &str) -> Self {
        Self::Token { iss: iss.into(), sub: sub.into() }
    }
}

impl From<&AdminIdentity> for Principal {
    fn from(admin: &AdminIdentity) -> Self {
        match admin {
            AdminIdentity::Token { iss, sub } => Self::token(iss, sub),
            AdminIdentity::Spiffe(id) => Self::Spiffe(id.as_str().into()),
            AdminIdentity::Dns(name) => Self::Dns(name.as_str().into()),
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token { iss, sub } => write!(f, "{sub} of {iss}"),
            Self::Spiffe(name) | Self::Dns(name) => f.write_str(name),
        }
    }
}
