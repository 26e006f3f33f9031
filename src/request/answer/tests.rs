//! Tests of what callers read: `Cache-Status`, problem documents, 304 and HEAD.

use super::*;
use crate::access::denial::Denial;
use crate::http::host::BadHost;
use crate::http::problem::page::{self, every};
use crate::model::ids::RegionId;
use crate::payload::mask::MaskError;
use crate::shape::cache_status::{Bound, Detail, Fwd};

fn names() -> Vec<String> {
    vec!["eu-west-1".into(), "9 odd \"name".into()]
}

#[test]
fn cache_status_follows_rfc_9211() {
    let hit = CacheLine { hit: true, ttl: Some(3312), bound: Some(Bound::Seconds(2)), ..CacheLine::default() };
    assert_eq!(hit.value(&names()), "nearside; hit; ttl=3312; bound=2");
    let miss = CacheLine {
        fwd: Some(Fwd::UriMiss),
        fwd_status: Some(200),
        stored: true,
        collapsed: true,
        detail: Some(Detail::Region(RegionId(0))),
        ..CacheLine::default()
    };
    assert_eq!(miss.value(&names()), "nearside; fwd=uri-miss; fwd-status=200; stored; collapsed; detail=eu-west-1");
    let stale = CacheLine {
        hit: true,
        ttl: Some(-7),
        bound: Some(Bound::None),
        detail: Some(Detail::Label(Label::StaleIfError)),
        ..CacheLine::default()
    };
    assert_eq!(stale.value(&names()), "nearside; hit; ttl=-7; bound=none; detail=stale-if-error");
    let odd = CacheLine { detail: Some(Detail::Region(RegionId(1))), ..CacheLine::default() };
    assert_eq!(odd.value(&names()), "nearside; detail=\"9 odd name\"");
}

#[test]
fn refusals_have_status_and_problem_document() {
    let expected = [
        (Refusal::Tunnel, 501),
        (Refusal::BadHost(BadHost::Differ), 400),
        (Refusal::ForeignHost, 421),
        (Refusal::CrossSite, 403),
        (Refusal::Token, 401),
        (Refusal::BadTarget, 400),
        (Refusal::LongTarget, 414),
        (Refusal::LargeHead, 431),
        (Refusal::LargeBody, 413),
        (Refusal::SlowBody, 408),
        (Refusal::BadBody, 400),
        (Refusal::Coding, 501),
        (Refusal::Crowded, 503),
        (Refusal::NoRoom, 503),
    ];
    for (refusal, status) in expected {
        let response = respond(Outcome::Refused(refusal), &names());
        assert_eq!(response.status().as_u16(), status, "{refusal:?}");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let document = document(response);
        assert_eq!(document["type"], format!("urn:nearside:problem:{}", refusal.reason().into_str()));
        assert_eq!(document["status"], status);
    }
}

fn document(response: Response<Body>) -> serde_json::Value {
    match response.into_body() {
        Body::Whole(Some(bytes)) => serde_json::from_slice(&bytes).unwrap(),
        _ => panic!("a problem has a body"),
    }
}

fn refused_as(protobuf: Option<&'static str>) -> Outcome {
    Outcome::Refused(Refusal::BadTarget).negotiated(Some(ByAccept { protobuf }))
}

#[test]
fn negotiated_error_varies_by_accept() {
    for (protobuf, media_type) in
        [(None, "application/problem+json"), (Some("application/x-protobuf"), "application/x-protobuf")]
    {
        let response = respond(refused_as(protobuf), &names());
        assert_eq!(
            (&response.headers()["vary"], &response.headers()["content-type"]),
            (&"accept".parse().unwrap(), &media_type.parse().unwrap())
        );
        let Body::Whole(Some(body)) = response.into_body() else { panic!("it has a body") };
        let head = without_body(respond(refused_as(protobuf), &names()));
        assert_eq!(head.headers()["content-length"], body.len().to_string());
        assert!(matches!(head.into_body(), Body::Whole(None)));
    }
    let nobody_chose = respond(Outcome::Refused(Refusal::BadTarget).negotiated(None), &names());
    assert!(!nobody_chose.headers().contains_key("vary"));
}

#[test]
fn unanswered_request_lists_each_region() {
    let attempt =
        |region: &str, outcome: &str, blame| Attempted { region: region.into(), outcome: outcome.into(), blame };
    let asked = vec![attempt("eu", "connect", Blame::Unusable), attempt("us", "deadline", Blame::Late)];
    let response = respond(Outcome::NoneAnswered(asked), &names());
    assert_eq!(response.status(), 504);
    let document = document(response);
    assert_eq!(document["regions"][1], serde_json::json!({"region": "us", "outcome": "deadline"}));
    let unusable = vec![attempt("eu", "connect", Blame::Unusable)];
    assert_eq!(respond(Outcome::NoneAnswered(unusable), &names()).status(), 502);
    let response = respond(Outcome::NoneAnswered(vec![attempt("eu", "held-off", Blame::NotAsked)]), &names());
    assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (503, &"1".parse().unwrap()));
}

/// Every way in which the sidecar itself answers.
fn own_outcomes() -> Vec<Outcome> {
    let refusals = every!(
        Refusal: [Tunnel, Coding, ForeignHost, CrossSite, Token, BadTarget, LongTarget, LargeHead, LargeBody,
            SlowBody, BadBody, Crowded, NoRoom],
        Refusal::BadHost(_) => [Refusal::BadHost(BadHost::Missing)],
    );
    let unshaped = every!(
        ShapeRefused: [NoRoom, Mismatch],
        ShapeRefused::Mask(_) => [ShapeRefused::Mask(MaskError::NotUtf8)],
    );
    let batches = every!(
        Refused: [NotJson, ManyKeys, Large, NoRoom],
        Refused::Malformed { .. } => [Refused::Malformed { line: 1, column: 1 }],
    );
    let [unusable, late, not_asked] = [Blame::Unusable, Blame::Late, Blame::NotAsked]
        .map(|blame| vec![Attempted { region: "eu".into(), outcome: "a word".into(), blame }]);
    let outcome = AttemptOutcome::NoCredential.into_str().to_owned();
    let uncredentialed = vec![Attempted { region: "eu".into(), outcome, blame: Blame::NotAsked }];
    let own = every!(
        Outcome: [BadKey, LargePart, NotStored, Busy],
        Outcome::BelowFloor(_) => [Outcome::BelowFloor(unusable.clone())],
        Outcome::NoneAnswered(_) => [
            Outcome::NoneAnswered(unusable),
            Outcome::NoneAnswered(late),
            Outcome::NoneAnswered(not_asked),
            Outcome::NoneAnswered(uncredentialed)
        ],
        Outcome::Refused(_) | Outcome::Unshaped(_) | Outcome::RefusedBatch(_) => [],
        // The others are a node's own.
        Outcome::Denied(_) => [Outcome::Denied(Denial::GrantsUnknown)],
        Outcome::Shown(_) | Outcome::Streamed { .. } | Outcome::Many { .. } => [],
        Outcome::ByAccept(..) | Outcome::Stated(..) => [],
    );
    let refused = refusals.into_iter().map(Outcome::Refused);
    let refused = refused.chain(unshaped.into_iter().map(Outcome::Unshaped));
    refused.chain(batches.into_iter().map(Outcome::RefusedBatch)).chain(own).collect()
}

#[test]
fn problems_page_shows_the_sidecars() {
    let said = own_outcomes().into_iter().map(|outcome| match respond(outcome, &names()).into_body() {
        Body::Whole(Some(bytes)) => page::row(&bytes),
        _ => panic!("a problem has a body"),
    });
    assert_eq!(page::chapter("The sidecar"), said.collect());
}

#[test]
fn every_label_is_in_both_tables() {
    let labels = every!(
        Label: [BelowFloor, FloorEscaped, Grace, StaleIfError, MaxStale, Unproven, Unwired, Provisional, GrantsUnproven]
    );
    let (freshness, operations) =
        (include_str!("../../../docs/freshness.md"), include_str!("../../../docs/operations.md"));
    for label in labels {
        for page in [freshness, operations] {
            let row = format!("`detail={}` |", label.into_str());
            assert!(page.lines().any(|line| line.starts_with('|') && line.contains(&row)), "no row has {row}");
        }
    }
}
