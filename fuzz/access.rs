//! The targets of access: a token, a set of keys, the document of grants, and the file beside it of
//! those who are denied everything.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use nearside::access::deny_file::DenyList;
use nearside::access::editing;
use nearside::access::grants::Grants;
use nearside::access::grants::changes::changes;
use nearside::access::keys::KeySet;
use nearside::access::principal::Principal;
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

/// A list that is read denies whom it names, and nobody whom it could not name.
pub(crate) fn deny(data: &[u8]) {
    let Ok(list) = DenyList::read(Path::new("deny"), data) else { return };
    let nobody = Principal::token("https://nobody.example", "nobody-in-particular-at-all");
    let named = named(data);
    assert!(named.len() <= list.entries(), "each has an entry");
    for consumer in &named {
        assert!(list.denies(&nobody, Some(consumer)), "{consumer:?} is named");
    }
    assert!(!list.denies(&nobody, None) && !list.denies(&nobody, Some("no name of a consumer")));
}

/// Consumers that a lenient reader finds in a list.
fn named(data: &[u8]) -> BTreeSet<String> {
    if let Ok(read) = serde_json::from_slice::<Value>(data) {
        assert_eq!(strict_json::object(data, 8).map(Value::Object), Ok(read.clone()));
        let consumers = read["consumers"].as_array().cloned().unwrap_or_default();
        return consumers.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    }
    let text = String::from_utf8_lossy(data);
    let lines = text.split('\n').filter_map(|line| line.split('#').next()?.trim().strip_prefix("consumer"));
    lines.map(|name| name.trim().to_owned()).collect()
}

/// Keys that are taken are public, and a set differs from itself in nothing; what is read strictly is
/// what all readers read.
pub(crate) fn jwks(data: &[u8]) {
    if let Ok(strict) = strict_json::object(data, 8) {
        let lenient: Value = serde_json::from_slice(data).expect("what is read strictly is JSON");
        assert_eq!(Value::Object(strict), lenient);
    }
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
    assert_eq!(without.is_err(), !stopped.is_empty(), "a file of a repository stops nobody");
}
