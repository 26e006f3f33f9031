//! Each way in which a token is wrong (RFC 8725), and what is read of one that is right.

use serde_json::json;

use super::*;
use crate::access::keys::{KeyMissing, KeySet};
use crate::lab::issuer::{Issuer, encoded};

const ISS: &str = "https://issuer.example";
const REGIONS: &str = "https://regions.example";
const CATALOGUE: &str = "https://catalogue.example";
const NOW: u64 = 1_800_000_000;

fn expectations() -> Expectations {
    Expectations {
        iss: ISS.to_owned(),
        audience: REGIONS.to_owned(),
        own_audiences: vec![CATALOGUE.to_owned(), REGIONS.to_owned()],
        subject: "sub".to_owned(),
        max_lifetime: Duration::from_secs(86_400),
    }
}

fn now() -> Wall {
    Wall::from_millis(NOW * 1_000)
}

/// Claims that are right but for these.
fn claims(other: &Value) -> Value {
    let mut claims = json!({"iss": ISS, "sub": "jira", "aud": REGIONS, "iat": NOW, "exp": NOW + 600});
    for (name, value) in other.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

/// Result for a token with a header and claims.
fn said(header: &str, claims: &str) -> Result<Claimed, TokenError> {
    let token = format!("{}.{}.{}", encoded(header.as_bytes()), encoded(claims.as_bytes()), encoded(b"signature"));
    check_claims(&unverified(token.as_bytes())?, &expectations(), now())
}

fn of_claims(other: &Value) -> Result<Claimed, TokenError> {
    said(r#"{"alg":"RS256","kid":"k"}"#, &claims(other).to_string())
}

fn of_header(header: &Value) -> Result<Claimed, TokenError> {
    said(&header.to_string(), &claims(&json!({})).to_string())
}

#[test]
fn right_token_names_subject_and_end() {
    let until = Wall::from_millis((NOW + 600) * 1_000) + SKEW;
    assert_eq!(of_claims(&json!({})), Ok(Claimed { sub: "jira".into(), until }));
    let fraction = of_claims(&json!({"exp": 1_800_000_000.5, "aud": ["x", REGIONS], "iat": null})).unwrap();
    assert_eq!(fraction.until, Wall::from_millis(NOW * 1_000 + 500) + SKEW);
}

#[test]
fn wrong_claims_are_refused() {
    for (other, why) in [
        (json!({"iss": "https://issuer.example/"}), TokenError::Issuer),
        (json!({"iss": null}), TokenError::Issuer),
        (json!({"aud": CATALOGUE}), TokenError::Audience),
        (json!({"aud": null}), TokenError::Audience),
        (json!({"aud": [REGIONS, CATALOGUE]}), TokenError::Audience),
        (json!({"aud": [REGIONS, 1]}), TokenError::Audience),
        (json!({"aud": []}), TokenError::Audience),
        (json!({"exp": null}), TokenError::Time),
        (json!({"exp": "1800000600"}), TokenError::Time),
        (json!({"exp": 1e300}), TokenError::Time),
        (json!({"exp": -1}), TokenError::Time),
        (json!({"exp": NOW - 31}), TokenError::Expired),
        (json!({"exp": NOW + 365 * 86_400}), TokenError::Lifetime),
        (json!({"nbf": NOW + 31}), TokenError::NotYet),
        (json!({"iat": NOW + 31}), TokenError::NotYet),
        (json!({"iat": {}}), TokenError::Time),
        (json!({"sub": null}), TokenError::Subject),
        (json!({"sub": ""}), TokenError::Subject),
        (json!({"sub": "a\nb"}), TokenError::Subject),
        (json!({"sub": "a\u{202e}b"}), TokenError::Subject),
        (json!({"sub": "x".repeat(513)}), TokenError::Subject),
        (json!({"sub": 7}), TokenError::Subject),
    ] {
        assert_eq!(of_claims(&other), Err(why), "{other}");
    }
    for other in [json!({"exp": NOW - 29}), json!({"nbf": NOW + 29}), json!({"exp": NOW + 86_400})] {
        assert!(of_claims(&other).is_ok(), "{other}");
    }
}

#[test]
fn wrong_headers_are_refused() {
    for alg in ["none", "None", "HS256", "HS512", "RS512", "PS256", "EdDSA", "", "rs256"] {
        assert_eq!(of_header(&json!({"alg": alg})), Err(TokenError::Algorithm), "{alg}");
    }
    for (header, why) in [
        (json!({}), TokenError::Algorithm),
        (json!({"alg": ["RS256"]}), TokenError::Algorithm),
        (json!({"alg": "RS256", "crit": ["b64"], "b64": false}), TokenError::Critical),
        (json!({"alg": "RS256", "crit": []}), TokenError::Critical),
        (json!({"alg": "RS256", "typ": "secevent+jwt"}), TokenError::Type),
        (json!({"alg": "RS256", "typ": 1}), TokenError::Type),
        (json!({"alg": "RS256", "kid": 1}), TokenError::KeyId),
        (json!({"alg": "RS256", "kid": "k".repeat(257)}), TokenError::KeyId),
    ] {
        assert_eq!(of_header(&header), Err(why), "{header}");
    }
    for typ in ["JWT", "jwt", "at+jwt", "application/at+jwt", "Application/JWT"] {
        assert!(of_header(&json!({"alg": "RS256", "typ": typ})).is_ok(), "{typ}");
    }
    // What tells where keys are, is not looked at (RFC 8725, section 3.10).
    let elsewhere = json!({"alg": "RS256", "jku": "https://evil.example", "jwk": {}, "x5u": "x", "x5c": []});
    assert!(of_header(&elsewhere).is_ok());
}

#[test]
fn malformed_tokens_are_refused() {
    let claims = claims(&json!({})).to_string();
    let twice = format!(r#"{{"sub":"root",{}"#, &claims[1..]);
    assert_eq!(said(r#"{"alg":"RS256"}"#, &twice), Err(TokenError::Json));
    assert_eq!(said(r#"{"alg":"RS256","alg":"ES256"}"#, &claims), Err(TokenError::Json));
    assert_eq!(said("[]", &claims), Err(TokenError::Json));
    let [header, body] = [r#"{"alg":"RS256"}"#, claims.as_str()].map(|part| encoded(part.as_bytes()));
    for (token, why) in [
        (format!("{header}.{body}"), TokenError::Malformed),
        (format!("{header}.{body}.x.y"), TokenError::Malformed),
        (format!("{header}=.{body}.x"), TokenError::Malformed),
        (format!("{header}.{body} .x"), TokenError::Malformed),
        (String::new(), TokenError::Malformed),
        (format!("{header}.{body}.{}", "x".repeat(TOKEN_BYTES)), TokenError::Long),
    ] {
        assert_eq!(unverified(token.as_bytes()).err(), Some(why), "{}", token.len());
    }
    assert_eq!(unverified(b"\xff.\xff.\xff").err(), Some(TokenError::Malformed));
}

#[test]
fn bearer_is_one_token() {
    for line in ["Bearer abc", "bearer abc", "BEARER  abc "] {
        assert_eq!(bearer(line.as_bytes()), Some(&b"abc"[..]), "{line}");
    }
    for line in ["Basic abc", "Bearer", "Bearer ", "Bearerabc", "abc"] {
        assert_eq!(bearer(line.as_bytes()), None, "{line}");
    }
}

/// The signature and the key of its `kid`, as a port verifies them.
fn holds(keys: &KeySet, token: &str) -> Result<bool, KeyMissing> {
    let token = unverified(token.as_bytes()).unwrap();
    keys.find(token.kid(), token.algorithm()).map(|key| key.verify(&token))
}

#[test]
fn only_its_key_verifies_a_token() {
    let (p256, rsa, foreign) = (Issuer::new(ISS, "one"), Issuer::rsa(ISS, "two"), Issuer::new(ISS, "one"));
    let keys = KeySet::read(json!({"keys": [p256.jwk(), rsa.jwk()]}).to_string().as_bytes()).unwrap();
    let claims = claims(&json!({}));
    for issuer in [&p256, &rsa] {
        let token = issuer.of_claims(&claims);
        assert_eq!(holds(&keys, &token), Ok(true));
        // Another payload under the same signature.
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let (header, _) = signed.split_once('.').unwrap();
        let forged = format!("{header}.{}.{signature}", encoded(br#"{"sub":"root"}"#));
        assert_eq!(holds(&keys, &forged), Ok(false));
        assert_eq!(holds(&keys, &format!("{signed}.{}", encoded(b""))), Ok(false));
    }
    assert_eq!(holds(&keys, &foreign.of_claims(&claims)), Ok(false));
    assert_eq!(holds(&keys, &Issuer::new(ISS, "three").of_claims(&claims)), Err(KeyMissing::Unknown));
    // The header names the other algorithm for a key that is there.
    let confused = p256.signed(r#"{"alg":"RS256","kid":"one"}"#, &claims.to_string());
    assert_eq!(holds(&keys, &confused), Err(KeyMissing::Algorithm));
    let unnamed = p256.signed(r#"{"alg":"ES256"}"#, &claims.to_string());
    assert_eq!(holds(&keys, &unnamed), Ok(true));
}
