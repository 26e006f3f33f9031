//! Sets of keys that issuers publish, and what must not be taken from them.

use serde_json::json;

use super::*;
use crate::lab::issuer::Issuer;

const ISS: &str = "https://issuer.example";

fn read(keys: &[Value]) -> Result<KeySet, KeySetError> {
    KeySet::read(json!({ "keys": keys }).to_string().as_bytes())
}

/// The key with another member; without it where that is null.
fn with(mut jwk: Value, name: &str, value: Value) -> Value {
    jwk[name] = value;
    jwk.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    jwk
}

#[test]
fn unusable_keys_are_left_out() {
    let (one, other) = (Issuer::new(ISS, "one").jwk(), Issuer::rsa(ISS, "two").jwk());
    for (jwk, why) in [
        (with(one.clone(), "d", json!("secret")), Unused::Private),
        (json!({"kty": "oct", "k": "c2VjcmV0"}), Unused::Private),
        (with(one.clone(), "use", json!("enc")), Unused::Use),
        (with(one.clone(), "key_ops", json!(["sign"])), Unused::Use),
        (with(one.clone(), "crv", json!("P-521")), Unused::Type),
        (with(one.clone(), "crv", json!("P-384")), Unused::Type),
        (with(one.clone(), "alg", json!("HS256")), Unused::Type),
        (with(one.clone(), "kty", json!("OKP")), Unused::Type),
        (with(one.clone(), "x", json!("AAAA")), Unused::Numbers),
        (with(one.clone(), "y", Value::Null), Unused::Numbers),
        // A point beside the curve.
        (with(one.clone(), "x", one["y"].clone()), Unused::Numbers),
        (with(other.clone(), "n", json!(URL_SAFE_NO_PAD.encode([1; 128]))), Unused::Numbers),
        (with(other.clone(), "n", json!(URL_SAFE_NO_PAD.encode([0; 256]))), Unused::Numbers),
        (with(other.clone(), "n", json!(URL_SAFE_NO_PAD.encode([1; 1025]))), Unused::Numbers),
    ] {
        assert_eq!(read(std::slice::from_ref(&jwk)).err(), Some(KeySetError::NoKey), "{jwk}");
        let set = read(&[jwk.clone(), Issuer::new(ISS, "good").jwk()]).unwrap();
        assert_eq!(set.unused().iter().map(|unused| unused.why).collect::<Vec<_>>(), [why], "{jwk}");
        assert_eq!(set.find(None, Algorithm::ES256).unwrap().kid.as_deref(), Some("good"));
    }
}

#[test]
fn two_keys_of_one_name_are_refused() {
    let twins = [Issuer::new(ISS, "one").jwk(), Issuer::new(ISS, "one").jwk()];
    assert_eq!(read(&twins).err(), Some(KeySetError::Ambiguous { kid: "one".to_owned(), algorithm: "ES256" }));
    // One for each type of key can be distinguished, and so can one that is not for signatures.
    assert!(read(&[Issuer::new(ISS, "one").jwk(), Issuer::rsa(ISS, "one").jwk()]).is_ok());
    let [first, second] = twins;
    assert!(read(&[first, with(second, "use", json!("enc"))]).is_ok());
    let unnamed =
        [Issuer::new(ISS, "one"), Issuer::new(ISS, "two")].map(|issuer| with(issuer.jwk(), "kid", Value::Null));
    assert_eq!(read(&unnamed).unwrap().find(None, Algorithm::ES256).err(), Some(KeyMissing::Ambiguous));
}

#[test]
fn malformed_sets_are_refused() {
    for text in ["", "{}", "[]", r#"{"keys":{}}"#, r#"{"keys":["x"]}"#, r#"{"keys":[],"keys":[]}"#] {
        assert_eq!(KeySet::read(text.as_bytes()).err(), Some(KeySetError::Malformed), "{text}");
    }
    assert_eq!(read(&[]).err(), Some(KeySetError::NoKey));
    let large = vec![b' '; usize::try_from(KEYS_BYTES).unwrap() + 1];
    assert_eq!(KeySet::read(&large).err(), Some(KeySetError::Large));
}

#[test]
fn gone_and_changed_keys_are_removed() {
    let (one, two) = (Issuer::new(ISS, "one").jwk(), Issuer::new(ISS, "two").jwk());
    let [of_one, of_both] = [read(std::slice::from_ref(&one)).unwrap(), read(&[two, one]).unwrap()];
    assert!(!KeySet::removed(&of_one, &of_both) && KeySet::removed(&of_both, &of_one));
    let renewed = read(&[Issuer::new(ISS, "one").jwk()]).unwrap();
    assert!(KeySet::removed(&of_one, &renewed));
}
