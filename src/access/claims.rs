//! Claims of a verified token, which tell callers apart, without what they say.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Map, Value};

use super::limits::CLAIMS;

/// Digest of a claim's value.
pub type ClaimDigest = [u8; 32];

/// Failure of a token's claims to tell its caller from others. The caller has to send another one, or the
/// operator to name other claims.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimsError {
    #[error("the token has more than {CLAIMS} claims")]
    Many,
    #[error("the token has no claim `{0}`")]
    Missing(String),
    #[error(
        "the token's claim `{0}` has a number that is no whole one of 64 bits, which readers may take for another"
    )]
    Inexact(String),
}

/// Names of claims, in their order, and a digest of each value as JSON; `None` for one with numbers that
/// readers may take for others.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenClaims(Box<[(Box<str>, Option<ClaimDigest>)]>);

impl TokenClaims {
    /// Claims of a token; `None` for more than are remembered.
    pub(super) fn of(claims: &Map<String, Value>) -> Option<Self> {
        if claims.len() > CLAIMS {
            return None;
        }
        let mut all: Vec<_> = claims.iter().map(|(name, value)| (name.as_str().into(), digested(value))).collect();
        all.sort_unstable();
        Some(Self(all.into()))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    /// Digest of one claim.
    ///
    /// # Errors
    /// [`ClaimsError`], if there is none.
    pub fn digest(&self, name: &str) -> Result<&ClaimDigest, ClaimsError> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(name));
        let (_, value) = at.map(|at| &self.0[at]).map_err(|_| ClaimsError::Missing(name.to_owned()))?;
        value.as_ref().ok_or_else(|| ClaimsError::Inexact(name.to_owned()))
    }
}

/// Values may be guessed by their digests: none is shown.
impl fmt::Debug for TokenClaims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenClaims({})", self.0.len())
    }
}

fn digested(value: &Value) -> Option<ClaimDigest> {
    let mut shown = ClaimDigest::default();
    shown.copy_from_slice(digest(&SHA256, value.to_string().as_bytes()).as_ref());
    is_exact(value).then_some(shown)
}

fn is_exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => !number.is_f64(),
        Value::Array(all) => all.iter().all(is_exact),
        Value::Object(all) => all.values().all(is_exact),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}
