//! Rules for projections, sentence by sentence, and against a projection of parsed values.

use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;

use super::*;
use crate::model::size::{KIB, MIB};

fn mask(text: &str) -> Mask {
    Mask::literal(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Without an index, with one of every container, and from what an index remembers: all the same.
fn projected(body: &str, fields: &str) -> Result<String, ProjectionError> {
    let (body, mask) = (body.as_bytes(), mask(fields));
    let scanned = project(body, None, &mask);
    if let Ok(places) = containers::places(body, body.len(), 1) {
        let indexed = cut::cut(body, Containers::new(&places), &Tree::of(&mask)).map(|cut| Projected(cut.into()));
        assert_eq!(indexed, scanned, "with the places of all containers");
        let index = Index { places, answers: Recent::new(MIB), len: body.len(), weight: 0 };
        for time in ["first", "second"] {
            assert_eq!(project(body, Some(&index), &mask), scanned, "the {time} time with an index");
        }
    }
    scanned.map(|kept| String::from_utf8(kept.into_bytes().into()).expect("text in, text out"))
}

fn kept(body: &str, fields: &str) -> String {
    projected(body, fields).unwrap_or_else(|error| panic!("{body}: {error}"))
}

#[test]
fn object_keeps_named_members_in_order() {
    assert_eq!(kept(r#"{"c":1,"a":2,"b":3}"#, "b,c"), r#"{"c":1,"b":3}"#);
}

#[test]
fn a_missing_member_stays_missing() {
    assert_eq!(kept(r#"{"a":1}"#, "a,b,c.d"), r#"{"a":1}"#);
    assert_eq!(kept(r#"{"a":1}"#, "b"), "{}");
    assert_eq!(kept("{}", "b"), "{}");
}

#[test]
fn kept_members_are_byte_identical() {
    let value = "{ \"n\" : 1.50E+03,\n\t\"s\":\"\\u00e9\\/\\\"}\", \"big\":123456789012345678901234567890 }";
    assert_eq!(kept(&format!("{{ \"a\"  :\t{value} , \"b\" : 1 }}"), "a"), format!("{{\"a\"  :\t{value}}}"));
    assert_eq!(kept(r#"{"a":{"x":-0.0,"y":1e5},"b":0}"#, "a.x"), r#"{"a":{"x":-0.0}}"#);
}

#[test]
fn path_descends_into_list_elements() {
    let body = r#"{"items":[{"id":1,"x":0},{"x":0},{"id":3}],"x":0}"#;
    assert_eq!(kept(body, "items.id"), r#"{"items":[{"id":1},{},{"id":3}]}"#);
    assert_eq!(kept(r#"{"m":[[{"a":1,"b":2}],[],[[{"a":3}]]]}"#, "m.a"), r#"{"m":[[{"a":1}],[],[[{"a":3}]]]}"#);
    assert_eq!(kept(r#" [ {"a":1,"b":2} , {"b":3} ] "#, "a"), r#"[{"a":1},{}]"#, "at the top too");
}

#[test]
fn path_descends_into_map_by_key() {
    let body = r#"{"labels":{"app.io/name":"x","team":"y"}}"#;
    assert_eq!(kept(body, "labels.`app.io/name`"), r#"{"labels":{"app.io/name":"x"}}"#);
}

#[test]
fn scalar_is_omitted_where_path_continues() {
    for scalar in ["1", "\"b\"", "null", "true", "-1.5e3"] {
        assert_eq!(kept(&format!(r#"{{"a":{scalar},"c":1}}"#), "a.b,c"), r#"{"c":1}"#);
        assert_eq!(kept(&format!(r#"{{"a":[{scalar},{{"b":1}},{scalar}]}}"#), "a.b"), r#"{"a":[{"b":1}]}"#);
    }
    assert_eq!(kept(r#"{"a":{"x":1},"b":[1,{"x":2}]}"#, "a.b,b.b"), r#"{"a":{},"b":[{}]}"#, "containers stay");
}

#[test]
fn last_duplicate_member_wins() {
    assert_eq!(kept(r#"{"a":1,"b":2,"a":3}"#, "a,b"), r#"{"b":2,"a":3}"#);
    assert_eq!(kept(r#"{"a":{"b":1},"a":2}"#, "a.b"), "{}");
    assert_eq!(kept(r#"{"a":2,"a":{"b":1,"b":[]}}"#, "a.b"), r#"{"a":{"b":[]}}"#);
    assert_eq!(kept(r#"{"a":1,"\u0061":2}"#, "a"), r#"{"\u0061":2}"#);
}

#[test]
fn names_are_compared_unescaped() {
    assert_eq!(kept(r#"{"\u0061\n\/":1,"b":2}"#, "`a\n/`"), r#"{"\u0061\n\/":1}"#);
    assert_eq!(kept(r#"{"\ud83d\ude00":1}"#, "😀"), r#"{"\ud83d\ude00":1}"#);
    assert_eq!(kept(r#"{"\ud83d":1,"a":2}"#, "a"), r#"{"a":2}"#, "no mask can mean half a pair");
    assert_eq!(kept(r#"{"":1,"a":2}"#, "``"), r#"{"":1}"#);
    assert_eq!(kept(r#"{"é":1}"#, "é"), r#"{"é":1}"#);
}

#[test]
fn strings_may_contain_brackets_and_quotes() {
    let body = r#"{"a":"}]\"{[","b":{"x":"]}\\","y":[",\"b\":1"]},"c":1}"#;
    assert_eq!(kept(body, "c"), r#"{"c":1}"#);
    assert_eq!(kept(body, "b.x"), r#"{"b":{"x":"]}\\"}}"#);
}

#[test]
fn projection_leaves_whole_body_to_caller() {
    assert_eq!(project(b"{}", None, &mask("*")), Err(ProjectionError::Everything));
    for scalar in ["1", "\"a\"", "null", " true "] {
        assert_eq!(projected(scalar, "a"), Err(ProjectionError::Scalar));
    }
}

#[test]
fn malformed_json_where_read_is_error() {
    let bad = [
        "",
        " ",
        "{",
        "[",
        "{\"a",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":}",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{,}",
        "{\"a\" 1}",
        "{a:1}",
        "{\"a\":1}x",
        "{}{}",
        "[1,]",
        "[,]",
        "[1 2]",
        "[{]",
        "{\"a\":[}",
        "{\"a\":\"\\\"}",
    ];
    for body in bad {
        assert_eq!(projected(body, "a.b"), Err(ProjectionError::Malformed), "{body}");
    }
    for body in ["{\"a\":[", "}", "{}}", "{\"a"] {
        assert_eq!(Index::of(body.as_bytes()).err(), Some(ProjectionError::Malformed), "{body}");
    }
}

#[test]
fn depth_is_bounded_only_where_followed() {
    let most = crate::payload::limits::NESTING;
    assert!(projected(&lists(most - 1), "deep.a").is_ok());
    assert_eq!(projected(&lists(most), "deep.a"), Err(ProjectionError::TooDeep));
    assert_eq!(kept(&lists(100 * KIB), "a"), r#"{"a":1}"#);
}

/// A record with lists this deep beside its `a`.
fn lists(depth: usize) -> String {
    format!("{{\"deep\":{}{},\"a\":1}}", "[".repeat(depth), "]".repeat(depth))
}

/// A megabyte, or what is asked for, in many objects of many sizes.
fn large(bytes: usize) -> String {
    let mut body = String::from("{\"first\":1");
    for number in 0.. {
        if body.len() > bytes {
            break;
        }
        let list = format!("{{\"id\":{number},\"note\":\"x\"}},").repeat(number % 40);
        body.push_str(&format!(",\"m{number}\":{{\"id\":{number},\"list\":[{}0]}}", list));
    }
    body + ",\"last\":2}"
}

#[test]
fn index_weighs_at_most_five_percent() {
    for bytes in [INDEXED_BODY_BYTES, 20 * KIB, 100 * KIB, MIB] {
        let body = large(bytes);
        let index = Index::of(body.as_bytes()).expect("it is JSON");
        assert!(index.weight() * INDEX_SHARE <= body.len(), "{} of {}", index.weight(), body.len());
        assert!(!index.places.is_empty() && size_of_val(&*index.places) * CONTAINERS_SHARE <= index.weight());
        assert!(Index::pays_for(body.as_bytes()));
    }
    assert!(!Index::pays_for(&[b' '; INDEXED_BODY_BYTES - 1]));
}

#[test]
fn places_mark_largest_containers() {
    let body = format!("{}[{}7]{}", "[{\"a\":".repeat(80), "7,".repeat(40), "}]".repeat(80));
    let all = containers::places(body.as_bytes(), 1000, 1).expect("brackets are in pairs");
    assert_eq!(all.len(), crate::payload::limits::NESTING, "what lies deeper is never entered");
    for place in &all {
        let text = &body[place.span()];
        serde_json::from_str::<&RawValue>(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    assert_eq!(all[0].span(), 0..body.len());
    for most in 0..=all.len() {
        let some = spans(&body, most, 1);
        assert!(some.len() <= most, "{} of {most}", some.len());
        assert!(spans(&body, 1000, 1).starts_with(&some), "the largest, and they are the outermost here");
    }
    assert!(spans(&body, 100, 1).len() > 50, "room is not wasted");
    assert!(spans(&body, 1000, 300).iter().all(|span| *span >= 300));
}

/// Lengths of the containers that are marked: at most `most`, of at least `least` bytes.
fn spans(body: &str, most: usize, least: usize) -> Vec<usize> {
    let places = containers::places(body.as_bytes(), most, least).expect("brackets are in pairs");
    places.iter().map(|place| place.span().len()).collect()
}

#[test]
fn index_agrees_with_full_scan() {
    let body = large(200 * KIB);
    let index = Index::of(body.as_bytes()).expect("it is JSON");
    for fields in ["first", "last", "m7", "m39.list.id,m5.id,last", "m100.list.note,first.x", "none"] {
        let scanned = project(body.as_bytes(), None, &mask(fields));
        assert!(scanned.is_ok());
        for _ in 0..2 {
            assert_eq!(project(body.as_bytes(), Some(&index), &mask(fields)), scanned, "{fields}");
        }
    }
}

#[test]
fn index_is_shared_per_body_only() {
    let body = large(20 * KIB);
    let index = Index::of(body.as_bytes()).expect("it is JSON");
    assert_eq!(index.remembered(&mask("last,first")), None);
    let first = project(body.as_bytes(), Some(&index), &mask("last,first")).expect("it is JSON");
    assert_eq!(index.remembered(&mask("first,last")).as_ref(), Some(&first));
    let second = project(body.as_bytes(), Some(&index), &mask("first,last")).expect("it is JSON");
    assert_eq!(first.as_ref().as_ptr(), second.as_ref().as_ptr(), "not cut again");
    let other = project(br#"{"first":7}"#, Some(&index), &mask("first,last")).expect("it is JSON");
    assert_eq!(other.as_ref(), br#"{"first":7}"#);
}

#[test]
fn an_index_is_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&Index::of(b"{}").expect("it is JSON"));
}

/// The projection of a parsed value, in the simplest way.
fn naive(value: &Value, paths: &[&[String]]) -> Option<Value> {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter_map(|(name, value)| {
                let below: Vec<_> = paths.iter().filter(|path| path[0] == *name).map(|path| &path[1..]).collect();
                let value = match below.as_slice() {
                    [] => None,
                    below if below.iter().any(|path| path.is_empty()) => Some(value.clone()),
                    below => naive(value, below),
                };
                Some((name.clone(), value?))
            });
            Some(Value::Object(members.collect()))
        }
        Value::Array(elements) => Some(elements.iter().filter_map(|it| naive(it, paths)).collect()),
        _ => None,
    }
}

/// Every scalar of a text, as it is written.
fn scalars(text: &str, found: &mut Vec<String>) {
    if let Ok(members) = serde_json::from_str::<std::collections::BTreeMap<String, Box<RawValue>>>(text) {
        members.values().for_each(|value| scalars(value.get(), found));
    } else if let Ok(elements) = serde_json::from_str::<Vec<Box<RawValue>>>(text) {
        elements.iter().for_each(|value| scalars(value.get(), found));
    } else {
        found.push(text.to_owned());
    }
}

/// Few names, so that masks meet members and members each other; one of them in many spellings.
const NAMES: [(&str, &str); 8] = [
    ("a", "a"),
    ("a", "\\u0061"),
    ("b", "b"),
    ("b.c", "b.c"),
    ("`", "`"),
    ("\"}", "\\\"}"),
    ("", ""),
    ("name_that_is_longer", "name_that_is_longer"),
];

fn space() -> impl Strategy<Value = &'static str> {
    prop_oneof![8 => Just(""), 1 => Just(" "), 1 => Just("\r\n\t ")]
}

fn json() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("null".to_owned()),
        Just("-1.50e+2".to_owned()),
        Just("12345678901234567890".to_owned()),
        r#"[\[\]{}:,a ]{0,6}"#.prop_map(|text| format!("\"{text}\"")),
        Just(r#""\\\"\u00e9""#.to_owned()),
    ];
    scalar.prop_recursive(6, 48, 6, |inner| {
        let spaced = (space(), inner.clone(), space())
            .prop_map(|(left, value, right)| format!("{left}{value}{right}"))
            .boxed();
        let member = (0..NAMES.len(), space(), space(), spaced.clone())
            .prop_map(|(name, left, right, value)| format!("{left}\"{}\"{right}:{value}", NAMES[name].1));
        prop_oneof![
            1 => prop::collection::vec(spaced, 0..5).prop_map(|all| format!("[{}]", all.join(","))),
            3 => prop::collection::vec(member, 0..7).prop_map(|all| format!("{{{}}}", all.join(","))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn projection_matches_parser_byte_for_byte(
        body in json(),
        paths in prop::collection::vec(prop::collection::vec(0..NAMES.len(), 1..5), 1..5),
    ) {
        let paths: Vec<Vec<String>> =
            paths.iter().map(|path| path.iter().map(|at| NAMES[*at].0.to_owned()).collect()).collect();
        let fields = paths.iter().map(|path| path.iter().map(|name| format!("`{}`", name.replace('`', "``"))).collect::<Vec<_>>().join(".")).collect::<Vec<_>>().join(",");
        let value: Value = serde_json::from_str(&body).expect("it is JSON");
        let paths: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
        match (projected(&body, &fields), naive(&value, &paths)) {
            (Ok(kept), Some(expected)) => {
                let value: Value = serde_json::from_str(&kept).expect("JSON in, JSON out");
                prop_assert_eq!(value, expected);
                let mut found = Vec::new();
                scalars(&kept, &mut found);
                prop_assert!(found.iter().all(|scalar| body.contains(scalar)));
            }
            (Err(ProjectionError::Scalar), None) => {}
            (ours, expected) => prop_assert!(false, "{:?} instead of {:?}", ours, expected),
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic_index_agrees(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", "\"", "\\", ":", ",", "a", "\"a\"", "\"a\":", "1", " ", "{\"a\":[", "]}", "\u{e9}",
        ]), 0..40),
    ) {
        let _ = projected(&pieces.concat(), "a,b.c");
        let _ = projected(&pieces.concat(), "a.a.a");
    }
}
