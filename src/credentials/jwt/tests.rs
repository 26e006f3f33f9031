//! Tokens that regions verify, by keys in each PEM form.

use std::path::PathBuf;
use std::time::Duration;

use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der, Pkcs8V1Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::*;
use crate::access;
use crate::access::token::Expectations;
use crate::lab::issuer::encoded;

fn pem(kind: &str, der: &[u8]) -> String {
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der))
}

fn minting(folder: &tempfile::TempDir, pem: &str) -> JwtMinting {
    let key_file = folder.path().join("key.pem");
    std::fs::write(&key_file, pem).unwrap();
    JwtMinting {
        key_file,
        kid: "one".to_owned(),
        iss: "https://issuer.example".to_owned(),
        sub: "jira".to_owned(),
        audience: "regions".to_owned(),
        lifetime: Duration::from_mins(15),
    }
}

const NOW: Wall = Wall::from_millis(1_800_000_000_500);

/// Header and claims of a token, and whether `verify` takes what was signed and the signature.
fn read(text: &str, verify: impl Fn(&[u8], &[u8]) -> bool) -> (Value, Value, bool) {
    let (signed, signature) = text.rsplit_once('.').unwrap();
    let [header, claims, signature] =
        [signed.split('.').next().unwrap(), signed.split('.').nth(1).unwrap(), signature]
            .map(|part| URL_SAFE_NO_PAD.decode(part).unwrap());
    let [header, claims] = [header, claims].map(|part| serde_json::from_slice(&part).unwrap());
    (header, claims, verify(signed.as_bytes(), &signature))
}

#[test]
fn tokens_verify_by_public_key() {
    let folder = tempfile::tempdir().unwrap();
    let p256 = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let rsa = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let sec1: EcPrivateKeyRfc5915Der<'_> = p256.private_key().as_der().unwrap();
    let rsa_der: Pkcs8V1Der<'_> = rsa.as_der().unwrap();
    let p256_der = p256.to_pkcs8v1().unwrap();
    for (pem, alg) in [
        (pem("EC PRIVATE KEY", sec1.as_ref()), "ES256"),
        (pem("PRIVATE KEY", p256_der.as_ref()), "ES256"),
        (pem("PRIVATE KEY", rsa_der.as_ref()), "RS256"),
    ] {
        let token = mint(&minting(&folder, &pem), NOW).ok().unwrap();
        let public = if alg == "ES256" { p256.public_key().as_ref() } else { rsa.public_key().as_ref() };
        let (header, claims, verifies) = read(token.text(), |signed, signature| match alg {
            "ES256" => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public).verify(signed, signature).is_ok(),
            _ => UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public).verify(signed, signature).is_ok(),
        });
        assert!(verifies, "{alg}");
        assert_eq!(header, json!({"alg": alg, "typ": "JWT", "kid": "one"}));
        let (iat, exp) = (1_800_000_000 - 120, 1_800_000_900);
        let expected =
            json!({"iss": "https://issuer.example", "sub": "jira", "aud": "regions", "iat": iat, "exp": exp});
        assert_eq!(claims, expected);
        assert_eq!(token.life, Duration::from_mins(15));
    }
}

/// Regions compare a token with their own clocks.
#[test]
fn clocks_may_be_90_seconds_off() {
    let folder = tempfile::tempdir().unwrap();
    let p256 = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let minting = minting(&folder, &pem("PRIVATE KEY", p256.to_pkcs8v1().unwrap().as_ref()));
    let (audience, max_lifetime) = ("regions".to_owned(), Duration::from_hours(24));
    let (iss, subject, own_audiences) = (minting.iss.clone(), "sub".to_owned(), vec![audience.clone()]);
    let expected = Expectations { iss, audience, own_audiences, subject, max_lifetime };
    for off in [-90, 0, 90] {
        let own = Wall::from_millis(NOW.as_millis().checked_add_signed(off * 1_000).unwrap());
        let token = mint(&minting, own).ok().unwrap();
        let read = access::token::unverified(token.text().as_bytes()).unwrap();
        // From the first use until the latest renewal.
        for used in [Duration::ZERO, token.life.mul_f64(0.55)] {
            let taken = access::token::check_claims(&read, &expected, NOW + used);
            assert!(taken.is_ok(), "{off} s off, after {used:?}: {taken:?}");
        }
    }
}

#[test]
fn unfit_keys_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let p384 = EcdsaKeyPair::generate(&aws_lc_rs::signature::ECDSA_P384_SHA384_FIXED_SIGNING).unwrap();
    let p384 = pem("PRIVATE KEY", p384.to_pkcs8v1().unwrap().as_ref());
    for text in [p384, "no key".to_owned(), String::new(), pem("PRIVATE KEY", b"junk"), "x".repeat(20_000)] {
        let refused = mint(&minting(&folder, &text), NOW).err().unwrap();
        assert!(matches!(refused, MintError::Key(_)), "{refused}");
    }
    assert!(matches!(key(&PathBuf::from("/nowhere")), Err(MintError::KeyUnreadable(..))));
}

#[test]
fn long_names_make_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let p256 = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let minting = minting(&folder, &pem("PRIVATE KEY", p256.to_pkcs8v1().unwrap().as_ref()));
    let long = JwtMinting { sub: encoded(&[0; 8_192]), ..minting };
    assert!(matches!(mint(&long, NOW), Err(MintError::Long)));
}
