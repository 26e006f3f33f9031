//! Tokens: signed JWTs (RFC 7519, 7515), read strictly and compared with what is expected of them
//! (RFC 8725), all of which needs no key.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde_json::{Map, Value};

use super::claims::TokenClaims;
use super::limits::{CLAIMS_DEPTH, KEY_ID_BYTES, SKEW, TOKEN_BYTES};
use super::strict_json;
use crate::model::identities::{IDENTITY_BYTES, is_unprintable};
use crate::model::time::Wall;

/// Why a token is refused. The caller has to send another one. It quotes nothing of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("it is longer than {TOKEN_BYTES} bytes")]
    Long,
    #[error("it is no signed JWT of three parts in base64url (RFC 7515, section 3.1)")]
    Malformed,
    #[error("its header or its claims are no JSON object that all readers read alike")]
    Json,
    #[error("its `alg` is not accepted; sign it by RS256, ES256 or ES384")]
    Algorithm,
    #[error("its header has `crit`, and no extension is understood here (RFC 7515, section 4.1.11)")]
    Critical,
    #[error("its `typ` is that of another kind of token (RFC 8725, section 3.11)")]
    Type,
    #[error("its `kid` is no text of at most {KEY_ID_BYTES} bytes")]
    KeyId,
    #[error("its `iss` is none whose tokens are believed here")]
    Issuer,
    #[error("its `aud` does not name this service, or names another one of ours too")]
    Audience,
    #[error("it has no `exp`, or a time in it is no number of seconds")]
    Time,
    #[error("it has expired")]
    Expired,
    #[error("its `nbf` or `iat` lies in the future")]
    NotYet,
    #[error("it is valid for too long; get one that expires sooner")]
    Lifetime,
    #[error("the claim that says who the caller is, is no text of 1 to {IDENTITY_BYTES} printable bytes")]
    Subject,
    #[error("the key that it names is none for its `alg`")]
    Key,
    #[error("its issuer has no key of the name in its `kid`, and was asked after it was made")]
    UnknownKey,
    #[error("its signature does not hold")]
    Signature,
}

/// A token of which nothing has been verified.
#[derive(Clone, Debug)]
pub struct Unverified<'t> {
    algorithm: Algorithm,
    kid: Option<String>,
    typ: Option<String>,
    claims: Map<String, Value>,
    /// Header and claims as they were signed.
    signed: &'t [u8],
    signature: &'t str,
}

impl Unverified<'_> {
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    #[must_use]
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    #[must_use]
    pub fn iss(&self) -> Option<&str> {
        self.claims.get("iss")?.as_str()
    }

    /// Time at which it says that it was made.
    #[must_use]
    pub fn issued(&self) -> Option<Wall> {
        time(&self.claims, "iat").ok().flatten()
    }

    /// Bytes that the signature is over.
    #[must_use]
    pub const fn signed(&self) -> &[u8] {
        self.signed
    }

    /// Signature in base64url.
    #[must_use]
    pub const fn signature(&self) -> &str {
        self.signature
    }
}

/// Demands on tokens of an issuer at a port.
#[derive(Clone, Debug, Default)]
pub struct Expectations {
    pub iss: String,
    /// Audience of this port.
    pub audience: String,
    /// Audiences of all our ports: a token for two of them could be used by one at the other.
    pub own_audiences: Vec<String>,
    /// The claim that says who the caller is.
    pub subject: String,
    pub max_lifetime: Duration,
}

/// Claims of a token, if its signature holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    pub sub: Arc<str>,
    /// Its `exp` and the skew.
    pub until: Wall,
}

/// The token of `Authorization: Bearer` (RFC 6750, section 2.1).
#[must_use]
pub fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked("Bearer".len())?;
    let token = rest.strip_prefix(b" ")?.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"Bearer") && !token.is_empty()).then_some(token)
}

/// Reads a token's parts.
///
/// # Errors
/// [`TokenError`].
pub fn unverified(token: &[u8]) -> Result<Unverified<'_>, TokenError> {
    if token.len() > TOKEN_BYTES {
        return Err(TokenError::Long);
    }
    let text = std::str::from_utf8(token).map_err(|_| TokenError::Malformed)?;
    let mut parts = text.split('.');
    let (Some(header), Some(claims), Some(signature), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(TokenError::Malformed);
    };
    let signed = &token[..header.len() + 1 + claims.len()];
    let header = object(header)?;
    if header.contains_key("crit") {
        return Err(TokenError::Critical);
    }
    let algorithm = match header.get("alg").and_then(Value::as_str) {
        Some("RS256") => Algorithm::RS256,
        Some("ES256") => Algorithm::ES256,
        Some("ES384") => Algorithm::ES384,
        // Never `none` (RFC 8725, section 3.2), and never an HMAC, for which a public key would do.
        _ => return Err(TokenError::Algorithm),
    };
    let kid = match header.get("kid") {
        None => None,
        Some(Value::String(kid)) if kid.len() <= KEY_ID_BYTES => Some(kid.clone()),
        Some(_) => return Err(TokenError::KeyId),
    };
    let typ = match header.get("typ") {
        None => None,
        Some(Value::String(typ)) => Some(typ.clone()),
        Some(_) => return Err(TokenError::Type),
    };
    Ok(Unverified { algorithm, kid, typ, claims: object(claims)?, signed, signature })
}

/// The `exp` that a token states, of which nothing is verified; `None` if it cannot be read.
#[must_use]
pub fn stated_end(token: &[u8]) -> Option<Wall> {
    time(&unverified(token).ok()?.claims, "exp").ok()?
}

/// Claims of a token, of which nothing is verified; `None` if they cannot be read or are too many.
#[must_use]
pub fn stated_claims(token: &[u8]) -> Option<TokenClaims> {
    TokenClaims::of(&unverified(token).ok()?.claims)
}

fn object(part: &str) -> Result<Map<String, Value>, TokenError> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)?;
    strict_json::object(&bytes, CLAIMS_DEPTH).map_err(|_| TokenError::Json)
}

/// Compares the claims with what is expected, at `now`.
///
/// # Errors
/// [`TokenError`].
pub fn check_claims(token: &Unverified<'_>, expected: &Expectations, now: Wall) -> Result<Claimed, TokenError> {
    check_type(token.typ.as_deref())?;
    if token.iss() != Some(expected.iss.as_str()) {
        return Err(TokenError::Issuer);
    }
    check_audience(token.claims.get("aud"), expected)?;
    let exp = time(&token.claims, "exp")?.ok_or(TokenError::Time)?;
    let until = exp + SKEW;
    if until <= now {
        return Err(TokenError::Expired);
    }
    if exp > now + SKEW + expected.max_lifetime {
        return Err(TokenError::Lifetime);
    }
    for name in ["nbf", "iat"] {
        if time(&token.claims, name)?.is_some_and(|time| time > now + SKEW) {
            return Err(TokenError::NotYet);
        }
    }
    let sub = token.claims.get(&expected.subject).and_then(Value::as_str).ok_or(TokenError::Subject)?;
    if sub.is_empty() || sub.len() > IDENTITY_BYTES || sub.chars().any(is_unprintable) {
        return Err(TokenError::Subject);
    }
    Ok(Claimed { sub: sub.into(), until })
}

/// `typ`, without letter case, and with or without `application/` (RFC 7515, section 4.1.9).
fn check_type(typ: Option<&str>) -> Result<(), TokenError> {
    const PREFIX: &str = "application/";
    let Some(typ) = typ else { return Ok(()) };
    let bare = match typ.get(..PREFIX.len()) {
        Some(prefix) if prefix.eq_ignore_ascii_case(PREFIX) => &typ[PREFIX.len()..],
        _ => typ,
    };
    let is_known = ["JWT", "at+jwt"].iter().any(|known| bare.eq_ignore_ascii_case(known));
    if is_known { Ok(()) } else { Err(TokenError::Type) }
}

fn check_audience(aud: Option<&Value>, expected: &Expectations) -> Result<(), TokenError> {
    let named: Vec<&str> = match aud {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => {
            let texts: Option<Vec<&str>> = several.iter().map(Value::as_str).collect();
            texts.ok_or(TokenError::Audience)?
        }
        _ => return Err(TokenError::Audience),
    };
    let other = expected.own_audiences.iter().filter(|own| **own != expected.audience);
    let is_for_another = other.into_iter().any(|own| named.contains(&own.as_str()));
    if named.contains(&expected.audience.as_str()) && !is_for_another { Ok(()) } else { Err(TokenError::Audience) }
}

/// A time in seconds since the epoch (RFC 7519, section 2), which may have a fraction.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<Wall>, TokenError> {
    /// The year 9999.
    const LAST: f64 = 253_402_300_799.0;
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| (0.0..=LAST).contains(seconds)).ok_or(TokenError::Time)?;
    let span = Duration::try_from_secs_f64(seconds).map_err(|_| TokenError::Time)?;
    Ok(Some(Wall::default() + span))
}

#[cfg(test)]
mod tests;
