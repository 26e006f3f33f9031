//! Tests of identities and record ids.

use super::*;
use serde_json::{Value, json};

use crate::access::token::stated_claims;
use crate::config::{RecordTemplate, Route};
use crate::lab::issuer::Issuer;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
}

fn keyed_hashes(types: &[&str]) -> KeyedHashes {
    KeyedHashes::new(&service(types), HashKey::random())
}

fn service(types: &[&str]) -> Service {
    let records = types.iter().map(|kind| RecordTemplate { record_type: (*kind).into(), key: Vec::new() }).collect();
    let route = Route {
        path: crate::config::PathTemplate { text: "/".into(), segments: Vec::new() },
        records,
        identity: IdentityMode::Exact(Vec::new()),
        ..Default::default()
    };
    Service { name: "test".into(), routes: vec![route], ..Default::default() }
}

#[test]
fn new_type_heeds_announcements_from_reload() {
    let ring = keyed_hashes(&["context"]);
    let (context, later) = (ring.type_id("context").unwrap(), Moment::from_nanos(1_000));
    ring.learn(&service(&["tenant"]), later).unwrap();
    let tenant = ring.type_id("tenant").unwrap();
    assert_ne!(context, tenant);
    assert!(ring.heeded(context, Moment::ZERO) && !ring.heeded(tenant, Moment::ZERO) && ring.heeded(tenant, later));
    assert_eq!(ring.type_id("context"), Some(context), "gone from the routes, and not forgotten");
    ring.learn(&service(&["context"]), Moment::from_nanos(2_000)).unwrap();
    assert!(ring.heeded(context, Moment::ZERO), "it was heeded all along");
    let many: Vec<String> =
        (0..=crate::routing::limits::RECORD_TYPES).map(|number| format!("type-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(ring.learn(&service(&many), later).is_err() && ring.type_id("type-0").is_none(), "nothing has changed");
}

#[test]
fn callers_differ_by_any_named_header() {
    let ring = keyed_hashes(&["context"]);
    let mode = IdentityMode::Exact(vec![http::header::AUTHORIZATION, http::header::COOKIE]);
    let same = [[("authorization", "a"), ("accept", "x")], [("authorization", "a"), ("accept", "y")]];
    let [one, other] = same.map(|pairs| ring.owner(&mode, &headers(&pairs)));
    assert_eq!(one, other);
    let different: [&[(&'static str, &str)]; 7] = [
        &[],
        &[("authorization", "a")],
        &[("authorization", "b")],
        &[("cookie", "a")],
        &[("cookie", "ab")],
        &[("cookie", "a"), ("cookie", "b")],
        &[("cookie", "")],
    ];
    let identities = different.map(|pairs| ring.owner(&mode, &headers(pairs)));
    for (number, identity) in identities.iter().enumerate() {
        assert!(!identities[..number].contains(identity), "{:?}", different[number]);
    }
    assert_ne!(identities[0], Identity::SHARED);
}

#[test]
fn unrouted_record_type_has_no_id() {
    let ring = keyed_hashes(&["context", "tenant"]);
    assert_eq!(ring.record("other", "k"), None);
    let (context, tenant) = (ring.record("context", "k").unwrap(), ring.record("tenant", "k").unwrap());
    assert_ne!(context.hash, tenant.hash);
    assert_eq!(ring.record("context", "k"), Some(context));
}

#[test]
fn claims_tell_callers_apart() {
    let (hashes, issuer) = (keyed_hashes(&["context"]), Issuer::new("unused", "one"));
    let named = Claims::Named(vec!["tenant".to_owned()]);
    for (claims, more, is_same) in [
        (&named, json!({"sub": "t", "exp": 2, "scope": "w"}), true),
        (&named, json!({"tenant": "globex"}), false),
        (&named, json!({"tenant": ["acme"]}), false),
        (&named, json!({"tenant": null}), false),
        (&named, json!({"tenant": 7}), false),
        // Two issuers may mean different things by one name.
        (&named, json!({"iss": "https://b.example"}), false),
        (&Claims::All, json!({"exp": 2, "iat": 1, "nbf": 1, "jti": "2"}), true),
        (&Claims::All, json!({"sub": "t"}), false),
        (&Claims::All, json!({"scope": "w"}), false),
    ] {
        let [own, other] = [json!({}), more.clone()].map(|more| {
            let mut all = json!({"iss": "https://a.example", "sub": "s", "tenant": "acme", "exp": 1, "jti": "1"});
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            hashes.claimed(claims, &stated_claims(issuer.of_claims(&all).as_bytes()).unwrap())
        });
        assert_eq!(own == other, is_same, "{claims}: {more}");
    }
    let lacking = stated_claims(issuer.of_claims(&json!({"iss": "i", "tenant": 1.5})).as_bytes()).unwrap();
    for (claims, why) in [
        (Claims::Named(vec!["scope".to_owned()]), ClaimsError::Missing("scope".to_owned())),
        (named, ClaimsError::Inexact("tenant".to_owned())),
        (Claims::All, ClaimsError::Inexact("tenant".to_owned())),
    ] {
        assert_eq!(hashes.claimed(&claims, &lacking), Err(why));
    }
    let many: serde_json::Map<_, _> = (0..100).map(|at| (format!("c{at}"), json!(at))).collect();
    assert_eq!(stated_claims(issuer.of_claims(&Value::Object(many)).as_bytes()), None, "too many to remember");
}
