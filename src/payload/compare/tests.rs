//! Bodies that are the same by meaning, and where others differ.

use std::sync::OnceLock;

use prost::Message;

use super::*;
use crate::payload::limits::COMPARED_POINTERS;

fn json(body: &str) -> Side<'_> {
    Side { format: Format::Json, body: body.as_bytes() }
}

fn schema() -> &'static Schema {
    static SET: OnceLock<Schema> = OnceLock::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/payload");
    SET.get_or_init(|| {
        let set = protox::compile(["kinds.proto"], [folder]).unwrap().encode_to_vec();
        Schema::read(&set, "nearside.test.Kinds").unwrap()
    })
}

/// The pointers at which two JSON bodies differ.
fn pointers(one: &str, other: &str, schema: Option<&Schema>) -> Vec<String> {
    let found = compare(json(one), json(other), schema);
    let back = compare(json(other), json(one), schema);
    assert_eq!(found, back, "from either side");
    match found {
        Compared::Same => Vec::new(),
        Compared::Differs(differences) => differences.pointers().map(str::to_owned).collect(),
        Compared::Unreadable => vec!["unreadable".to_owned()],
    }
}

#[test]
fn json_is_compared_by_value() {
    let one = r#"{"a":1,"b":[1.50,"\u0041"],"c":{"x":null,"y":true}}"#;
    let other = r#" { "c": {"y":true, "x":null}, "b": [15e-1, "A"], "a": 0, "a": 1.0 } "#;
    assert_eq!(pointers(one, other, None), Vec::<String>::new());
    for other in ["{\"a\":2}", "{\"a\":\"1\"}", "{\"a\":null}", "{}", "{\"a\":[1]}", "{\"a\":true}"] {
        assert_eq!(pointers("{\"a\":1}", other, None), ["/a"], "{other}");
    }
    assert_eq!(pointers("{\"a\":null}", "{}", None), ["/a"], "without a schema nobody knows what absence means");
}

#[test]
fn pointers_hide_keys_and_indices() {
    let one = r#"{"plan":{"seats":1},"list":[{"id":1},{"id":2}],"people":{"a@b.c":{"age":3},"10024":{"age":4}}}"#;
    let other = r#"{"plan":{"seats":2},"list":[{"id":1},{"id":3}],"people":{"a@b.c":{"age":5},"10025":{"age":4}}}"#;
    assert_eq!(pointers(one, other, None), ["/list/*/id", "/people/*", "/people/*/age", "/plan/seats"]);
    assert_eq!(pointers("{\"l\":[1]}", "{\"l\":[1,2]}", None), ["/l"], "not which one was added");
    assert_eq!(pointers("[1]", "{}", None), ["(record)"]);
    let [one, other] = [0, 1].map(|value| object((0..200).map(|n| format!("\"k{n}x\":{value}"))));
    assert_eq!(pointers(&one, &other, None), ["/*"], "so many names are a map's");
}

fn object(members: impl Iterator<Item = String>) -> String {
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

#[test]
fn schema_comparison_ignores_defaults_and_naming() {
    let one =
        r#"{"a_string":"","anInt64":"7","a_message":{},"byInt64":{"5":"v"},"aColour":"COLOUR_RED","strings":[]}"#;
    let other = r#"{"an_int64":7,"aMessage":{"a_bool":false},"by_int64":{"5":"v"},"aColour":1}"#;
    assert_eq!(pointers(one, other, Some(schema())), Vec::<String>::new());
    assert_eq!(pointers("{\"mayInt32\":0}", "{}", Some(schema())), ["/mayInt32"], "it has presence");
    let (one, other) = (r#"{"byInt64":{"5":"v","6":"w"}}"#, r#"{"by_int64":{"5":"x","7":"w"}}"#);
    assert_eq!(pointers(one, other, Some(schema())), ["/byInt64/*"]);
    let (one, other) = (r#"{"messages":[{"aString":"a"}]}"#, r#"{"messages":[{"a_string":"b"}]}"#);
    assert_eq!(pointers(one, other, Some(schema())), ["/messages/*/aString"]);
    let (one, other) = (r#"{"byFixed64":{"1":{"secret":1}}}"#, r#"{"byFixed64":{"1":{"secret":2}}}"#);
    assert_eq!(pointers(one, other, Some(schema())), ["/byFixed64/*/*"], "a Value's names may be anything");
    assert_eq!(pointers("{\"surely\":1}", "{}", Some(schema())), ["(unknown fields)"]);
}

#[test]
fn integers_are_compared_exactly() {
    let (one, other) = (an_int64("9007199254740993.0"), an_int64("9007199254740992.0"));
    for schema in [None, Some(schema())] {
        assert_eq!(pointers(&one, &other, schema), ["/anInt64"]);
        assert_eq!(pointers(&one, &an_int64("9007199254740993e0"), schema), Vec::<String>::new());
    }
    for same in ["\"9007199254740993\"", "\"9007199254740993.0\"", "9007199254740993"] {
        assert_eq!(pointers(&one, &an_int64(same), Some(schema())), Vec::<String>::new(), "{same}");
    }
}

fn an_int64(value: &str) -> String {
    format!("{{\"anInt64\":{value}}}")
}

#[test]
fn protobuf_compares_across_forms_and_order() {
    let body = protobuf(r#"{"aString":"v","anInt64":"7"}"#);
    let side = Side { format: Format::Protobuf, body: &body };
    let same = compare(json(r#"{"an_int64":7,"a_string":"v","a_bool":false}"#), side, Some(schema()));
    assert_eq!(same, Compared::Same);
    let turned = [protobuf(r#"{"anInt64":"7"}"#), protobuf(r#"{"aString":"v"}"#)].concat();
    let turned = Side { format: Format::Protobuf, body: &turned };
    assert_eq!(compare(side, turned, Some(schema())), Compared::Same);
    assert_eq!(compare(json("{}"), side, None), Compared::Unreadable, "nobody can read it without a schema");
}

fn protobuf(json: &str) -> Vec<u8> {
    schema().to_protobuf(json.as_bytes()).unwrap().body
}

#[test]
fn other_media_types_compare_by_bytes() {
    for body in ["", "{", "{\"a\":1}x", "{\"a\":01}"] {
        assert_eq!(pointers("{}", body, None), ["unreadable"], "{body}");
    }
    assert_eq!(pointers("{}", "{\"aBool\":7}", Some(schema())), ["unreadable"]);
    assert_eq!(pointers("{}", &format!("{}1{}", "[".repeat(200), "]".repeat(200)), None), ["unreadable"]);
    assert_eq!(compare(text("a"), text("a"), None), Compared::Same);
    assert_eq!(compare(text("a"), text("b"), None), Compared::Differs(Differences::of_the_whole()));
    assert_eq!(compare(text("{}"), json("{}"), None), Compared::Unreadable);
}

fn text(body: &str) -> Side<'_> {
    Side { format: Format::Otherwise, body: body.as_bytes() }
}

#[test]
fn places_are_bounded_and_reread_intersects() {
    let Compared::Differs(many) = compare(json(&nested(0)), json(&nested(1)), None) else { panic!() };
    assert_eq!((many.pointers().count(), many.has_more()), (COMPARED_POINTERS, true));
    let Compared::Differs(one) = compare(json("{\"a\":{\"a\":1},\"z\":1}"), json("{\"a\":{\"a\":2}}"), None) else {
        panic!()
    };
    assert_eq!(one.and(&many).pointers().collect::<Vec<_>>(), ["/a/a"]);
    assert!(one.and(&Differences::default()).is_empty());
}

/// Five objects of 26 members each.
fn nested(value: u8) -> String {
    let inner = object(('a'..='z').map(|name| format!("\"{name}\":{value}")));
    object(('a'..='e').map(|name| format!("\"{name}\":{inner}")))
}
