//! An issuer's keys: a JWK Set (RFC 7517), of which only public keys that we can use are taken.

use std::fmt;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ParsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::{Map, Value};

use super::limits::{KEYS_BYTES, KEYS_DEPTH};
use super::strict_json;
use super::token::Unverified;

/// Type of a key: that of its algorithm, and the curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyType {
    Rsa,
    P256,
    P384,
}

impl KeyType {
    const fn of(algorithm: Algorithm) -> Option<Self> {
        match algorithm {
            Algorithm::RS256 => Some(Self::Rsa),
            Algorithm::ES256 => Some(Self::P256),
            Algorithm::ES384 => Some(Self::P384),
            _ => None,
        }
    }

    /// The only algorithm that keys of this type are used by.
    const fn algorithm(self) -> &'static str {
        match self {
            Self::Rsa => "RS256",
            Self::P256 => "ES256",
            Self::P384 => "ES384",
        }
    }
}

/// A public key that verifies by one algorithm.
#[derive(Clone)]
pub struct VerifyingKey {
    kid: Option<String>,
    of: KeyType,
    /// Its public members, to see whether another one is the same key.
    public: Vec<u8>,
    key: DecodingKey,
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyingKey({:?}, {})", self.kid, self.of.algorithm())
    }
}

impl VerifyingKey {
    /// True if the token's signature is by this key.
    #[must_use]
    pub fn verify(&self, token: &Unverified<'_>) -> bool {
        let algorithm = token.algorithm();
        KeyType::of(algorithm) == Some(self.of)
            && jsonwebtoken::crypto::verify(token.signature(), token.signed(), &self.key, algorithm).unwrap_or(false)
    }

    fn is_same(&self, other: &Self) -> bool {
        (&self.kid, self.of, &self.public) == (&other.kid, other.of, &other.public)
    }
}

/// Keys of one issuer.
#[derive(Clone, Debug, Default)]
pub struct KeySet {
    keys: Vec<VerifyingKey>,
    /// Keys that are not used, and why.
    unused: Vec<UnusedKey>,
}

/// A set that cannot be used. The issuer, or who copied it, has to mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    #[error("it is larger than {KEYS_BYTES} bytes")]
    Large,
    #[error("it is no JSON object with a list `keys`")]
    Malformed,
    #[error("none of its keys can be used: an RSA key of 2048 to 8192 bits, or one on P-256 or P-384, is needed")]
    NoKey,
    #[error("two of its keys for {algorithm} are called {kid}: nobody knows which one a token means")]
    Ambiguous { kid: String, algorithm: &'static str },
}

/// A key that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedKey {
    pub kid: Option<String>,
    pub why: Unused,
}

/// Why a key is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unused {
    #[error("it is not for signatures")]
    Use,
    #[error("its type or curve is none that is accepted")]
    Type,
    #[error("its numbers are malformed, or have the wrong length")]
    Numbers,
    #[error("it holds a private key, which everybody who reads the set can use")]
    Private,
}

/// Why there is no key for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyMissing {
    /// None is called so; it may be a new one.
    Unknown,
    /// The token names none, and several would do.
    Ambiguous,
    /// The key of that name is of another type.
    Algorithm,
}

impl KeySet {
    /// Reads a JWK Set.
    ///
    /// # Errors
    /// [`KeySetError`].
    pub fn read(bytes: &[u8]) -> Result<Self, KeySetError> {
        if bytes.len() as u64 > KEYS_BYTES {
            return Err(KeySetError::Large);
        }
        let set = strict_json::object(bytes, KEYS_DEPTH).map_err(|_| KeySetError::Malformed)?;
        let listed = set.get("keys").and_then(Value::as_array).ok_or(KeySetError::Malformed)?;
        let mut own = Self::default();
        for jwk in listed {
            let jwk = jwk.as_object().ok_or(KeySetError::Malformed)?;
            let kid = jwk.get("kid").and_then(Value::as_str).map(str::to_owned);
            match usable(jwk, kid.clone()) {
                Ok(key) => own.keys.push(key),
                Err(why) => own.unused.push(UnusedKey { kid, why }),
            }
        }
        // Not before: some issuers publish two keys of one name, for two uses.
        for (at, key) in own.keys.iter().enumerate() {
            let Some(kid) = &key.kid else { continue };
            if own.keys[..at].iter().any(|other| other.of == key.of && other.kid.as_ref() == Some(kid)) {
                return Err(KeySetError::Ambiguous { kid: kid.clone(), algorithm: key.of.algorithm() });
            }
        }
        if own.keys.is_empty() { Err(KeySetError::NoKey) } else { Ok(own) }
    }

    /// The key that a token means, by its `kid` and its algorithm's type of key.
    ///
    /// # Errors
    /// [`KeyMissing`].
    pub fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Result<&VerifyingKey, KeyMissing> {
        let of = KeyType::of(algorithm).ok_or(KeyMissing::Algorithm)?;
        let mut fitting = self.keys.iter().filter(|key| key.of == of && (kid.is_none() || key.kid.as_deref() == kid));
        match (fitting.next(), fitting.next()) {
            (Some(only), None) => Ok(only),
            (Some(_), Some(_)) => Err(KeyMissing::Ambiguous),
            (None, _) if kid.is_some() && self.keys.iter().any(|key| key.kid.as_deref() == kid) => {
                Err(KeyMissing::Algorithm)
            }
            (None, _) => Err(KeyMissing::Unknown),
        }
    }

    /// Keys that are left out, with the reasons.
    #[must_use]
    pub fn unused(&self) -> &[UnusedKey] {
        &self.unused
    }

    /// True if a key of `old` is not in `new`: what it signed must not be believed any longer.
    #[must_use]
    pub fn removed(old: &Self, new: &Self) -> bool {
        old.keys.iter().any(|key| new.keys.iter().all(|other| !other.is_same(key)))
    }
}

fn usable(jwk: &Map<String, Value>, kid: Option<String>) -> Result<VerifyingKey, Unused> {
    // Symmetric keys have `k`, private ones `d` or, for RSA, the primes.
    if ["d", "p", "q", "dp", "dq", "qi", "oth", "k"].iter().any(|name| jwk.contains_key(*name)) {
        return Err(Unused::Private);
    }
    if jwk.get("use").is_some_and(|usage| usage != "sig") {
        return Err(Unused::Use);
    }
    if let Some(operations) = jwk.get("key_ops") {
        let verifies = operations.as_array().is_some_and(|listed| listed.iter().any(|one| one == "verify"));
        if !verifies {
            return Err(Unused::Use);
        }
    }
    let of = match (text(jwk, "kty"), text(jwk, "crv")) {
        (Some("RSA"), None) => KeyType::Rsa,
        (Some("EC"), Some("P-256")) => KeyType::P256,
        (Some("EC"), Some("P-384")) => KeyType::P384,
        _ => return Err(Unused::Type),
    };
    if jwk.get("alg").is_some_and(|alg| alg != of.algorithm()) {
        return Err(Unused::Type);
    }
    let (key, public) = match of {
        KeyType::Rsa => {
            let (modulus, exponent) = (number(jwk, "n")?, number(jwk, "e")?);
            let bits = modulus.len() * 8;
            let is_sound = (2048..=8192).contains(&bits) && modulus.first() != Some(&0) && exponent.len() <= 8;
            if !is_sound {
                return Err(Unused::Numbers);
            }
            (DecodingKey::from_rsa_raw_components(&modulus, &exponent), [modulus, exponent].concat())
        }
        KeyType::P256 | KeyType::P384 => {
            let is_short = of == KeyType::P256;
            let (curve, length) =
                if is_short { (&ECDSA_P256_SHA256_FIXED, 32) } else { (&ECDSA_P384_SHA384_FIXED, 48) };
            let (x, y) = (number(jwk, "x")?, number(jwk, "y")?);
            if x.len() != length || y.len() != length {
                return Err(Unused::Numbers);
            }
            // A point beside the curve would verify nothing.
            let point = [&[0x04][..], &x, &y].concat();
            ParsedPublicKey::new(curve, point).map_err(|_| Unused::Numbers)?;
            let [x, y] = [&x, &y].map(|number| URL_SAFE_NO_PAD.encode(number));
            let key = DecodingKey::from_ec_components(&x, &y).map_err(|_| Unused::Numbers)?;
            (key, [x, y].concat().into_bytes())
        }
    };
    Ok(VerifyingKey { kid, of, public, key })
}

fn text<'j>(jwk: &'j Map<String, Value>, name: &str) -> Option<&'j str> {
    jwk.get(name)?.as_str()
}

fn number(jwk: &Map<String, Value>, name: &str) -> Result<Vec<u8>, Unused> {
    URL_SAFE_NO_PAD.decode(text(jwk, name).ok_or(Unused::Numbers)?).map_err(|_| Unused::Numbers)
}

#[cfg(test)]
mod tests;
