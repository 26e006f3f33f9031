//! Documents that are read, and those that are not.

use serde_json::json;

use super::changes::changes;
use super::*;

const ISS: &str = "https://issuer.example";

fn read(document: &Value) -> Result<Grants, Vec<String>> {
    let read = Grants::read(document.to_string().as_bytes(), 7);
    read.map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

fn jira() -> Value {
    json!({
        "who": [{"iss": ISS, "sub": "system:serviceaccount:jira:*"}, {"spiffe": "spiffe://corp/jira/*"}],
        "views": ["limits", "profile"], "write": ["tenant"], "may": ["announcements"],
    })
}

fn document(consumers: &Value) -> Value {
    json!({"format": 1, "stopped": [], "consumers": consumers})
}

#[test]
fn rights_are_found_by_principal() {
    let grants = read(&document(&json!({"jira": jira()}))).unwrap();
    let rights = grants.rights_of(&Principal::token(ISS, "system:serviceaccount:jira:api")).unwrap();
    assert_eq!((grants.version(), rights.consumer()), (7, "jira"));
    assert!(rights.reads("limits") && rights.writes("tenant") && rights.may(May::Announcements));
    assert!(!rights.reads("tenant") && !rights.writes("limits") && !rights.may(May::Operate));
    assert_eq!(grants.rights_of(&Principal::token(ISS, "system:serviceaccount:other:api")), None);
    assert_eq!(grants.rights_of(&Principal::Spiffe("spiffe://corp/jira/pod".into())), Some(rights));
}

#[test]
fn stopped_consumer_may_do_nothing() {
    let mut document = document(&json!({"jira": jira()}));
    document["stopped"] = json!(["jira"]);
    let grants = read(&document).unwrap();
    let rights = grants.rights_of(&Principal::token(ISS, "system:serviceaccount:jira:api")).unwrap();
    assert!(rights.is_stopped() && !rights.writes_anything());
}

#[test]
fn stopped_name_needs_no_consumer() {
    let mut document = document(&json!({"jira": jira()}));
    document["stopped"] = json!(["gone"]);
    let grants = read(&document).unwrap();
    let rights = grants.rights_of(&Principal::token(ISS, "system:serviceaccount:jira:api")).unwrap();
    assert!(!rights.is_stopped());
}

#[test]
fn every_problem_is_named_with_its_place() {
    let mut wrong = document(&json!({
        "Jira": jira(),
        "a": {"who": [], "views": ["_grants"], "may": ["metrics", "read"], "reads": []},
        "b": {"who": [{"iss": ISS}, {"iss": ISS, "sub": "x*"}, {"spiffe": 1}], "views": "limits"},
        "c": [],
        "d": {"who": [{"dns": "d.example"}], "write": ["t", "t"]},
    }));
    wrong["stopped"] = json!(["E"]);
    wrong["more"] = json!(1);
    let errors = read(&wrong).unwrap_err().join("\n");
    for place in [
        "more: ",
        "stopped[0]: ",
        "consumers.`Jira`: ",
        "consumers.a.who: ",
        "consumers.a.views[0]: ",
        "consumers.a.reads: ",
        "consumers.b.who[0]: ",
        "consumers.b.who[1]: ",
        "consumers.b.who[2]: ",
        "consumers.b.views: ",
        "consumers.c: ",
        "consumers.d.write[1]: ",
    ] {
        assert!(errors.lines().any(|line| line.starts_with(place)), "{place}\n{errors}");
    }
}

#[test]
fn newer_rights_hide_no_others() {
    let with = |may: Value| {
        let mut consumer = jira();
        consumer["may"] = may;
        read(&document(&json!({"jira": consumer}))).unwrap()
    };
    let (newer, old) = (with(json!(["levitate", "metrics"])), with(json!(["metrics"])));
    let rights = newer.rights_of(&Principal::token(ISS, "system:serviceaccount:jira:api")).unwrap();
    assert!(rights.reads("limits") && rights.may(May::Metrics));
    let unknown = |old: Option<&Grants>| -> Vec<String> {
        newer.unknown_rights(old).iter().map(|error| error.place.clone()).collect()
    };
    assert_eq!(unknown(None), ["consumers.jira.may: levitate"]);
    assert_eq!(unknown(Some(&old)), ["consumers.jira.may: levitate"], "it did not have it");
    assert_eq!(changes(Some(&old), &newer)[0].to_string(), "+ jira may levitate");
    assert_eq!(unknown(Some(&newer)), [""; 0], "it was there before");
    assert!(old.unknown_rights(None).is_empty());
}

#[test]
fn duplicate_consumer_is_refused() {
    let consumer = jira();
    let text = format!(r#"{{"format":1,"consumers":{{"jira":{consumer},"jira":{consumer}}}}}"#);
    let errors = Grants::read(text.as_bytes(), 7).unwrap_err();
    assert_eq!(errors[0].why, GrantsProblem::Json(NotStrict::Duplicate));
}

#[test]
fn overlap_names_both_places() {
    let other = json!({"who": [{"iss": ISS, "sub": "system:serviceaccount:jira:api"}]});
    let errors = read(&document(&json!({"jira": jira(), "other": other}))).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].contains("consumers.other.who[0]") && errors[0].contains("consumers.jira.who[0]"),
        "{errors:?}"
    );
}

#[test]
fn newer_format_is_distinguished() {
    let errors = Grants::read(br#"{"format": 2, "consumers": 1, "rules": []}"#, 7).unwrap_err();
    assert_eq!(errors.iter().map(|error| &error.why).collect::<Vec<_>>(), [&GrantsProblem::Newer]);
    assert!(read(&json!({"consumers": {}})).is_err());
    let large = vec![b' '; DOCUMENT_BYTES + 1];
    assert_eq!(Grants::read(&large, 7).unwrap_err()[0].why, GrantsProblem::Large);
}

#[test]
fn thousand_consumers_fit() {
    let consumers: Map<String, Value> = (0..1_000)
        .map(|number| {
            let sub = format!("system:serviceaccount:team-{number}:*");
            (format!("team-{number}"), json!({"who": [{"iss": ISS, "sub": sub}], "views": ["limits", "profile"]}))
        })
        .collect();
    let grants = read(&document(&Value::Object(consumers))).unwrap();
    let rights = grants.rights_of(&Principal::token(ISS, "system:serviceaccount:team-512:api")).unwrap();
    assert_eq!(rights.consumer(), "team-512");
}

#[test]
fn changes_say_who_gains_and_loses() {
    let old =
        read(&document(&json!({"jira": jira(), "gone": {"who": [{"dns": "g.example"}], "views": ["v"]}}))).unwrap();
    let mut changed = document(&json!({"jira": jira(), "new": {"who": [{"dns": "n.example"}], "write": ["t"]}}));
    changed["consumers"]["jira"]["views"] = json!(["limits", "plans"]);
    let said: Vec<String> = changes(Some(&old), &read(&changed).unwrap()).iter().map(ToString::to_string).collect();
    let expected = [
        "- gone is g.example",
        "- gone reads v",
        "- jira reads profile",
        "+ jira reads plans",
        "+ new is n.example",
        "+ new writes t",
    ];
    assert_eq!(said, expected);
    changed["stopped"] = json!(["new"]);
    let stopped = changes(Some(&old), &read(&changed).unwrap());
    assert!(stopped.iter().all(|change| &*change.consumer != "new"));
}

#[test]
fn errors_and_texts_are_bounded() {
    let long = "x".repeat(10_000);
    let errors = read(&document(&json!({ &long: jira(), "a\nb": jira() }))).unwrap_err();
    assert!(errors.iter().all(|error| error.len() < 300 && !error.contains('\n')), "{errors:?}");
    let consumers: Map<String, Value> = (0..500).map(|number| (format!("c-{number}"), json!([]))).collect();
    let errors = read(&document(&Value::Object(consumers))).unwrap_err();
    assert_eq!(errors.len(), 101);
    assert_eq!(errors[100], "the document: 400 more errors are not listed; correct these first");
}

#[test]
fn cluster_wide_patterns_have_their_places() {
    let wide = json!({"who": [{"dns": "a.example"}, {"iss": ISS, "sub": "system:serviceaccount:*"}]});
    let grants = read(&document(&json!({ "all": wide }))).unwrap();
    assert_eq!(grants.cluster_wide(), [format!("consumers.all.who[1]: system:serviceaccount:* of {ISS}")]);
    assert!(read(&document(&json!({"jira": jira()}))).unwrap().cluster_wide().is_empty());
}
