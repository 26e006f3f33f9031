//! The targets of access: a token, a set of keys, and the document of grants.

use std::collections::BTreeSet;
use std::time::Duration;

use nearside::access::editing;
use nearside::access::grants::{Grants, changes};
use nearside::access::keys::KeySet;
use nearside::access::strict_json;
use nearside::access::token::{self, Expectations};
use nearside::model::time::Wall;
use serde_json::Value;

/// Time at which tokens are compared: that of the seeds.
const NOW: Wall = Wall::from_millis(1_800_000_000_000);

fn expectations() -> Expectations {
    let audience = "https://regions.example".to_owned();
    Expectations {
        iss: "https://issuer.example".to_owned(),
        own_audiences: vec![audience.clone(), "https://catalogue.example".to_owned()],
        audience,
        subject: "sub".to_owned(),
        max_lifetime: Duration::from_secs(86_400),
    }
}

/// Claims that are taken are those that a lenient reader finds too, and no key that is in the token
/// verifies it.
pub(crate) fn token(data: &[u8]) {
    let Ok(token) = token::unverified(data) else { return };
    let keys = KeySet::default();
    assert!(keys.find(token.kid(), token.algorithm()).is_err());
    let Ok(claimed) = token::check_claims(&token, &expectations(), NOW) else { return };
    assert!(claimed.until > NOW && !claimed.sub.is_empty());
    assert!(data.starts_with(token.signed()) && data.ends_with(token.signature().as_bytes()));
    assert_eq!(token.iss(), Some("https://issuer.example"));
}

/// Keys that are taken are public, and a set differs from itself in nothing.
pub(crate) fn jwks(data: &[u8]) {
    let Ok(keys) = KeySet::read(data) else { return };
    assert!(!KeySet::removed(&keys, &keys));
    assert!(KeySet::removed(&keys, &KeySet::default()));
}

/// A document that is read means the same once it is written anew, with whom it stops, and is JSON to
/// serde_json too.
pub(crate) fn grants(data: &[u8]) {
    let Ok(grants) = Grants::read(data, 7) else { return };
    let lenient: Value = serde_json::from_slice(data).expect("what is read strictly is JSON");
    assert_eq!(strict_json::object(data, 8).map(Value::Object), Ok(lenient.clone()));
    assert!(changes(Some(&grants), &grants).is_empty());
    let stopped = editing::stopped(data);
    let alone = serde_json::json!({"consumers": lenient["consumers"]}).to_string().into_bytes();
    let written = editing::merged(&[("a.json".to_owned(), alone)], &stopped).expect("it was read");
    let again = Grants::read(&written, 8).expect("what is written can be read");
    assert!(changes(Some(&grants), &again).is_empty());
    let without = editing::merged(&[("a.json".to_owned(), written.clone())], &BTreeSet::new());
    assert!(without.is_err(), "a file of a repository stops nobody");
}
