//! Tokens that the sidecar signs (RFC 7519), for an issuer whose key it holds.

use std::path::Path;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;

use super::error::MintError;
use super::limits::DATED_BACK;
use super::token::Token;
use crate::config::limits::SIGNING_KEY_BYTES;
use crate::config::{JwtMinting, read_regular};
use crate::model::time::Wall;

/// A key that signs. It has no `Debug`.
pub(super) enum SigningKey {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
}

/// The key in this PEM file: PKCS#8, PKCS#1 or SEC 1.
pub(super) fn key(file: &Path) -> Result<SigningKey, MintError> {
    let unreadable = |error| MintError::KeyUnreadable(file.to_owned(), error);
    let pem = read_regular(file, SIGNING_KEY_BYTES).map_err(unreadable)?;
    let found = (pem.len() as u64 <= SIGNING_KEY_BYTES).then(|| of_pem(&pem)).flatten();
    found.ok_or_else(|| MintError::Key(file.to_owned()))
}

fn of_pem(pem: &[u8]) -> Option<SigningKey> {
    let p256 = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let key = match PrivateKeyDer::from_pem_slice(pem).ok()? {
        PrivateKeyDer::Pkcs1(der) => SigningKey::Rsa(RsaKeyPair::from_der(der.secret_pkcs1_der()).ok()?),
        PrivateKeyDer::Sec1(der) => {
            SigningKey::P256(EcdsaKeyPair::from_private_key_der(p256, der.secret_sec1_der()).ok()?)
        }
        PrivateKeyDer::Pkcs8(der) => match RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()) {
            Ok(rsa) => SigningKey::Rsa(rsa),
            Err(_) => SigningKey::P256(EcdsaKeyPair::from_pkcs8(p256, der.secret_pkcs8_der()).ok()?),
        },
        _ => return None,
    };
    match &key {
        SigningKey::Rsa(rsa) if !(256..=1024).contains(&rsa.public_modulus_len()) => None,
        _ => Some(key),
    }
}

/// Reads the key and signs a token that is of use from `now` on. It is dated back a little: regions take
/// none of the future, and this machine's clock may be ahead.
pub(super) fn mint(minting: &JwtMinting, now: Wall) -> Result<Token, MintError> {
    let JwtMinting { key_file, kid, iss, sub, audience, lifetime } = minting;
    let key = key(key_file)?;
    let alg = match key {
        SigningKey::Rsa(_) => "RS256",
        SigningKey::P256(_) => "ES256",
    };
    let now = now.as_millis() / 1_000;
    let (iat, exp) = (now.saturating_sub(DATED_BACK.as_secs()), now + lifetime.as_secs());
    let header = json!({"alg": alg, "typ": "JWT", "kid": kid});
    let claims = json!({"iss": iss, "sub": sub, "aud": audience, "iat": iat, "exp": exp});
    let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
    let signed = format!("{header}.{claims}");
    let signature = signature(&key, signed.as_bytes()).ok_or_else(|| MintError::Key(key_file.clone()))?;
    let token = Token::new(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)), Some(*lifetime));
    token.ok_or(MintError::Long)
}

fn signature(key: &SigningKey, message: &[u8]) -> Option<Vec<u8>> {
    let random = SystemRandom::new();
    match key {
        SigningKey::P256(pair) => Some(pair.sign(&random, message).ok()?.as_ref().to_vec()),
        SigningKey::Rsa(pair) => {
            let mut signature = vec![0; pair.public_modulus_len()];
            pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).ok()?;
            Some(signature)
        }
    }
}

#[cfg(test)]
mod tests;
