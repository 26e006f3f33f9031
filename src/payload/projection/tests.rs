//! What a projection keeps, sentence by sentence, and against a projection of parsed values.

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
fn an_object_keeps_the_named_members_in_its_own_order() {
    assert_eq!(kept(r#"{"c":1,"a":2,"b":3}"#, "b,c"), r#"{"c":1,"b":3}"#);
}

#[test]
fn a_missing_member_stays_missing() {
    assert_eq!(kept(r#"{"a":1}"#, "a,b,c.d"), r#"{"a":1}"#);
    assert_eq!(kept(r#"{"a":1}"#, "b"), "{}");
    assert_eq!(kept("{}", "b"), "{}");
}

#[test]
fn what_is_kept_is_the_same_byte_for_byte() {
    let value = "{ \"n\" : 1.50E+03,\n\t\"s\":\"\\u00e9\\/\\\"}\", \"big\":123456789012345678901234567890 }";
    assert_eq!(kept(&format!("{{ \"a\"  :\t{value} , \"b\" : 1 }}"), "a"), format!("{{\"a\"  :\t{value}}}"));
    assert_eq!(kept(r#"{"a":{"x":-0.0,"y":1e5},"b":0}"#, "a.x"), r#"{"a":{"x":-0.0}}"#);
}

#[test]
fn a_path_goes_through_lists_element_by_element() {
    let body = r#"{"items":[{"id":1,"x":0},{"x":0},{"id":3}],"x":0}"#;
    assert_eq!(kept(body, "items.id"), r#"{"items":[{"id":1},{},{"id":3}]}"#);
    assert_eq!(kept(r#"{"m":[[{"a":1,"b":2}],[],[[{"a":3}]]]}"#, "m.a"), r#"{"m":[[{"a":1}],[],[[{"a":3}]]]}"#);
    assert_eq!(kept(r#" [ {"a":1,"b":2} , {"b":3} ] "#, "a"), r#"[{"a":1},{}]"#, "at the top too");
}

#[test]
fn a_path_goes_through_a_map_by_its_key() {
    let body = r#"{"labels":{"app.io/name":"x","team":"y"}}"#;
    assert_eq!(kept(body, "labels.`app.io/name`"), r#"{"labels":{"app.io/name":"x"}}"#);
}

#[test]
fn a_value_without_fields_is_left_out_where_the_path_goes_on() {
    for scalar in ["1", "\"b\"", "null", "true", "-1.5e3"] {
        assert_eq!(kept(&format!(r#"{{"a":{scalar},"c":1}}"#), "a.b,c"), r#"{"c":1}"#);
        assert_eq!(kept(&format!(r#"{{"a":[{scalar},{{"b":1}},{scalar}]}}"#), "a.b"), r#"{"a":[{"b":1}]}"#);
    }
    assert_eq!(kept(r#"{"a":{"x":1},"b":[1,{"x":2}]}"#, "a.b,b.b"), r#"{"a":{},"b":[{}]}"#, "containers stay");
}

#[test]
fn of_members_with_one_name_the_last_counts() {
    assert_eq!(kept(r#"{"a":1,"b":2,"a":3}"#, "a,b"), r#"{"b":2,"a":3}"#);
    assert_eq!(kept(r#"{"a":{"b":1},"a":2}"#, "a.b"), "{}");
    assert_eq!(kept(r#"{"a":2,"a":{"b":1,"b":[]}}"#, "a.b"), r#"{"a":{"b":[]}}"#);
    assert_eq!(kept(r#"{"a":1,"\u0061":2}"#, "a"), r#"{"\u0061":2}"#);
}

#[test]
fn names_are_compared_as_they_are_meant() {
    assert_eq!(kept(r#"{"\u0061\n\/":1,"b":2}"#, "`a\n/`"), r#"{"\u0061\n\/":1}"#);
    assert_eq!(kept(r#"{"\ud83d\ude00":1}"#, "😀"), r#"{"\ud83d\ude00":1}"#);
    assert_eq!(kept(r#"{"\ud83d":1,"a":2}"#, "a"), r#"{"a":2}"#, "no mask can mean half a pair");
    assert_eq!(kept(r#"{"":1,"a":2}"#, "``"), r#"{"":1}"#);
    assert_eq!(kept(r#"{"é":1}"#, "é"), r#"{"é":1}"#);
}

#[test]
fn brackets_and_quotes_in_strings_are_text() {
    let body = r#"{"a":"}]\"{[","b":{"x":"]}\\","y":[",\"b\":1"]},"c":1}"#;
    assert_eq!(kept(body, "c"), r#"{"c":1}"#);
    assert_eq!(kept(body, "b.x"), r#"{"b":{"x":"]}\\"}}"#);
}

#[test]
fn a_mask_that_leaves_nothing_out_and_a_body_without_fields_are_for_the_caller_to_serve_whole() {
    assert_eq!(project(b"{}", None, &mask("*")), Err(ProjectionError::Everything));
    for scalar in ["1", "\"a\"", "null", " true "] {
        assert_eq!(projected(scalar, "a"), Err(ProjectionError::Scalar));
    }
}

#[test]
fn a_body_that_is_no_json_where_it_is_read_is_an_error() {
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
fn a_mask_is_followed_to_a_bounded_depth_and_what_is_stepped_over_may_be_deeper() {
    let lists = |depth: usize| format!("{{\"deep\":{}{},\"a\":1}}", "[".repeat(depth), "]".repeat(depth));
    let most = crate::payload::limits::NESTING;
    assert!(projected(&lists(most - 1), "deep.a").is_ok());
    assert_eq!(projected(&lists(most), "deep.a"), Err(ProjectionError::TooDeep));
    assert_eq!(kept(&lists(100 * KIB), "a"), r#"{"a":1}"#);
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
fn an_index_weighs_five_percent_at_most_and_its_places_a_fifth_of_it() {
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
fn places_are_those_of_the_largest_containers() {
    let body = format!("{}[{}7]{}", "[{\"a\":".repeat(80), "7,".repeat(40), "}]".repeat(80));
    let of = |most, least| containers::places(body.as_bytes(), most, least).expect("brackets are in pairs");
    let spans = |places: &[Place]| -> Vec<usize> { places.iter().map(|place| place.span().len()).collect() };
    let all = of(1000, 1);
    assert_eq!(all.len(), crate::payload::limits::NESTING, "what lies deeper is never entered");
    for place in &all {
        let text = &body[place.span()];
        serde_json::from_str::<&RawValue>(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    assert_eq!(all[0].span(), 0..body.len());
    for most in 0..=all.len() {
        let some = spans(&of(most, 1));
        assert!(some.len() <= most, "{} of {most}", some.len());
        assert!(spans(&all).starts_with(&some), "the largest, and they are the outermost here");
    }
    assert!(spans(&of(100, 1)).len() > 50, "room is not wasted");
    assert!(spans(&of(1000, 300)).iter().all(|span| *span >= 300));
}

#[test]
fn an_index_and_a_scan_say_the_same_of_a_large_body() {
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
fn what_is_remembered_is_shared_and_an_index_of_another_body_is_not_used() {
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
    let below = |name: &str| -> Vec<&[String]> {
        paths.iter().filter(|path| path[0] == name).map(|path| &path[1..]).collect()
    };
    match value {
        Value::Object(members) => {
            let members = members.iter().filter_map(|(name, value)| {
                let below = below(name);
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
    fn a_projection_is_what_a_parser_would_make_and_its_bytes_are_the_bodys(
        body in json(),
        paths in prop::collection::vec(prop::collection::vec(0..NAMES.len(), 1..5), 1..5),
    ) {
        let paths: Vec<Vec<String>> =
            paths.iter().map(|path| path.iter().map(|at| NAMES[*at].0.to_owned()).collect()).collect();
        let quoted = |name: &String| format!("`{}`", name.replace('`', "``"));
        let text = |path: &Vec<String>| path.iter().map(quoted).collect::<Vec<_>>().join(".");
        let fields = paths.iter().map(text).collect::<Vec<_>>().join(",");
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
    fn no_bytes_make_it_panic_and_an_index_changes_nothing(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", "\"", "\\", ":", ",", "a", "\"a\"", "\"a\":", "1", " ", "{\"a\":[", "]}", "\u{e9}",
        ]), 0..40),
    ) {
        let _ = projected(&pieces.concat(), "a,b.c");
        let _ = projected(&pieces.concat(), "a.a.a");
    }
}
