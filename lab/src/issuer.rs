//! An issuer of tokens: keys that it made for itself, the JWK Set that shows them, and whatever it is
//! asked to sign.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize, PublicKeyComponents};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// Signs by one key.
#[derive(Debug)]
pub struct Issuer {
    iss: String,
    kid: String,
    key: Key,
}

#[derive(Debug)]
enum Key {
    P256(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl Issuer {
    /// One that signs by ES256.
    pub fn new(iss: &str, kid: &str) -> Self {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key can be made");
        Self { iss: iss.to_owned(), kid: kid.to_owned(), key: Key::P256(key) }
    }

    /// One that signs by RS256.
    pub fn rsa(iss: &str, kid: &str) -> Self {
        let key = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key can be made");
        Self { iss: iss.to_owned(), kid: kid.to_owned(), key: Key::Rsa(key) }
    }

    /// One that signs by the ES256 key of this PEM file (PKCS#8); `None` if there is none in it.
    pub fn of_pem(iss: &str, kid: &str, pem: &str) -> Option<Self> {
        let base64: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &STANDARD.decode(base64).ok()?).ok()?;
        Some(Self { iss: iss.to_owned(), kid: kid.to_owned(), key: Key::P256(key) })
    }

    /// Its private key as a PEM file; `None` of one that signs by RS256.
    pub fn pem(&self) -> Option<String> {
        let Key::P256(key) = &self.key else { return None };
        let base64 = STANDARD.encode(key.to_pkcs8v1().ok()?);
        Some(format!("-----BEGIN PRIVATE KEY-----\n{base64}\n-----END PRIVATE KEY-----\n"))
    }

    pub const fn algorithm(&self) -> &'static str {
        match self.key {
            Key::P256(_) => "ES256",
            Key::Rsa(_) => "RS256",
        }
    }

    /// Its public key.
    pub fn jwk(&self) -> Value {
        let (kid, alg) = (&self.kid, self.algorithm());
        match &self.key {
            Key::P256(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (encoded(&point[1..33]), encoded(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "kid": kid, "alg": alg, "use": "sig", "x": x, "y": y})
            }
            Key::Rsa(pair) => {
                let public = PublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                let (n, e) = (encoded(&public.n), encoded(&public.e));
                json!({"kty": "RSA", "kid": kid, "alg": alg, "use": "sig", "n": n, "e": e})
            }
        }
    }

    /// A JWK Set with this key alone.
    pub fn jwks(&self) -> String {
        json!({"keys": [self.jwk()]}).to_string()
    }

    /// A token for `audience` that holds from `now` on, in seconds, for ten minutes.
    pub fn token(&self, sub: &str, audience: &str, now: u64) -> String {
        self.of_claims(&json!({"iss": self.iss, "sub": sub, "aud": audience, "iat": now, "exp": now + 600}))
    }

    /// A token of these claims.
    pub fn of_claims(&self, claims: &Value) -> String {
        let header = json!({"alg": self.algorithm(), "typ": "JWT", "kid": self.kid});
        self.signed(&header.to_string(), &claims.to_string())
    }

    /// Header and claims as they are, signed.
    pub fn signed(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", encoded(header.as_bytes()), encoded(claims.as_bytes()));
        let signature = self.signature(signed.as_bytes());
        format!("{signed}.{}", encoded(&signature))
    }

    fn signature(&self, message: &[u8]) -> Vec<u8> {
        match &self.key {
            Key::P256(pair) => pair.sign(&SystemRandom::new(), message).expect("it signs").as_ref().to_vec(),
            Key::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).expect("it signs");
                signature
            }
        }
    }
}

/// Base64url without padding, as JWTs are written.
pub fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
