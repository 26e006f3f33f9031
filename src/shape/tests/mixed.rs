//! Regions of which not all have Protobuf.

use super::forms::{BINARY, Forms, PROTOBUF, RECORD};
use super::*;
use crate::model::ids::RegionId;
use crate::request::scripted::{B, C, SECOND, status};
use crate::shape::limits::JSON_ALONE;

fn protobuf(tag: &str) -> Say {
    body(BINARY).with("content-type", "application/x-protobuf").with("etag", tag)
}

/// Regions `a` and `b` have both forms, and `c` answers requests for Protobuf like this.
fn mixed(to_protobuf: Say) -> Forms {
    let forms = Forms::with("form = \"protobuf\"", json(RECORD));
    for (region, after) in [(A, 10), (B, 20)] {
        forms.world.set(region, after, Act::Either(protobuf("\"v1-p\""), json(RECORD)));
    }
    forms.world.set(C, 15, Act::Either(to_protobuf, json(RECORD)));
    forms
}

/// Which region was asked for what, in order.
fn asked(forms: &Forms) -> Vec<(RegionId, String)> {
    let requests = forms.world.requests();
    let accepts = requests.iter().map(|(region, _, request)| (*region, &request.headers["accept"]));
    accepts.map(|(region, accept)| (region, accept.to_str().unwrap().to_owned())).collect()
}

const ANY: &str = "application/x-protobuf, application/json;q=0.5";

#[tokio::test(start_paused = true)]
async fn protobuf_refusal_falls_back_to_json() {
    let forms = mixed(status(406));
    forms.world.set(A, 0, Act::Fail(crate::http::exchange::Failure::Connect));
    forms.world.set(B, 0, Act::Fail(crate::http::exchange::Failure::Connect));
    let answer = forms.get("/v1/forms/one", &[PROTOBUF]).await;
    assert_eq!((answer.status, &answer.bytes[..]), (200, BINARY), "of the JSON that the region has");
    let names = [(A, ANY), (B, ANY), (C, ANY), (C, "application/json")];
    assert_eq!(asked(&forms), names.map(|(region, accept)| (region, accept.to_owned())));
    forms.world.set(A, 10, Act::Either(protobuf("\"v1-p\""), json(RECORD)));
    forms.get("/v1/forms/two", &[]).await;
    forms.world.pass(SECOND).await;
    assert!(asked(&forms).iter().all(|(_, accept)| accept == "application/json"));
    forms.world.pass(JSON_ALONE).await;
    forms.get("/v1/forms/three", &[]).await;
    assert!(asked(&forms).contains(&(C, ANY.to_owned())), "perhaps it has Protobuf now");
    forms.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn mixed_forms_agree_without_versions() {
    for to_protobuf in [status(406), json(RECORD), json(RECORD).with("content-encoding", "gzip")] {
        let forms = mixed(to_protobuf);
        forms.world.live().await;
        assert_eq!(forms.get("/v1/forms/one", &[PROTOBUF]).await.bytes, BINARY);
        forms.world.pass(60 * SECOND).await;
        asked(&forms);
        let again = forms.get("/v1/forms/one", &[PROTOBUF]).await;
        assert_eq!((again.is_hit(), &again.bytes[..]), (true, BINARY));
        forms.world.pass(60 * SECOND).await;
        assert_eq!(asked(&forms), vec![], "what all agree on is not asked for again");
        forms.world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn audit_skips_entries_in_other_form() {
    let forms = Forms::with("form = \"protobuf\"\n[freshness]\naudit_period = \"5m\"", json(RECORD));
    for (region, after) in [(A, 10), (B, 20), (C, 30)] {
        forms.world.set(region, after, Act::Either(protobuf("\"v1-p\""), json(RECORD)));
    }
    forms.world.live().await;
    assert_eq!(forms.get("/v1/forms/one", &[PROTOBUF]).await.bytes, BINARY);
    forms.world.set(C, 15, Act::Either(status(406), json(RECORD)));
    crate::fill::audit::start(&forms.world.sidecar.fill);
    forms.world.pass(SECOND * 900).await;
    let ends: Vec<_> =
        forms.world.sidecar.fill.shared.metrics.audits.audits().filter(|(_, count)| *count > 0).collect();
    assert!(ends.iter().any(|(word, _)| *word == "fresh"), "{ends:?}");
    assert!(ends.iter().all(|(word, _)| ["fresh", "undecided"].contains(word)), "{ends:?}");
    forms.world.stop().await;
}
