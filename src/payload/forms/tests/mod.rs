//! Sentence by sentence what the forms mean; `tests/it/payload_forms.rs` compares them with
//! Google's own.

mod integers;
mod random;
mod refused;

use std::sync::OnceLock;

use prost::Message;
use serde_json::{Value, json};

use super::wire::{put_tag, put_varint};
use super::*;
use crate::payload::limits::FORM_FIELDS;
use crate::payload::schema::{Names, Printing};

pub(super) fn descriptor_set() -> &'static [u8] {
    static SET: OnceLock<Vec<u8>> = OnceLock::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/payload");
    SET.get_or_init(|| protox::compile(["kinds.proto"], [folder]).unwrap().encode_to_vec())
}

pub(super) fn schema(message: &str, printing: Printing) -> Schema {
    Schema::read(descriptor_set(), &format!("nearside.test.{message}"), printing).unwrap()
}

fn kinds() -> Schema {
    schema("Kinds", Printing::default())
}

fn legacy() -> Schema {
    schema("Legacy", Printing::default())
}

fn varint(number: u32, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_tag(&mut out, number, 0);
    put_varint(&mut out, value);
    out
}

fn bytes(number: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    put_tag(&mut out, number, 2);
    put_varint(&mut out, value.as_ref().len() as u64);
    out.extend_from_slice(value.as_ref());
    out
}

fn double(number: u32, value: f64) -> Vec<u8> {
    let mut out = Vec::new();
    put_tag(&mut out, number, 1);
    out.extend(value.to_le_bytes());
    out
}

fn group(number: u32, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_tag(&mut out, number, 3);
    out.extend_from_slice(content);
    put_tag(&mut out, number, 4);
    out
}

fn text_of(schema: &Schema, protobuf: &[u8]) -> String {
    String::from_utf8(schema.to_json(protobuf).unwrap().body).unwrap()
}

fn json_of(schema: &Schema, protobuf: &[u8]) -> Value {
    serde_json::from_str(&text_of(schema, protobuf)).unwrap()
}

fn protobuf_of(schema: &Schema, json: &Value) -> Vec<u8> {
    schema.to_protobuf(json.to_string().as_bytes()).unwrap().body
}

/// Both ways, with the same bytes again.
fn both(schema: &Schema, protobuf: &[u8], json: &Value) {
    let text = text_of(schema, protobuf);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), *json);
    assert_eq!(schema.to_protobuf(text.as_bytes()).unwrap().body, protobuf, "{text}");
    // Whatever the order of the names.
    assert_eq!(text_of(schema, &protobuf_of(schema, json)), text);
}

#[test]
fn a_message_of_defaults_is_no_bytes_and_an_empty_object() {
    both(&kinds(), b"", &json!({}));
    let defaults = json!({"anInt32": 0, "aString": "", "aBool": false, "aColour": "COLOUR_UNSPECIFIED", "int32s": [],
        "byString": {}, "aMessage": null, "aDouble": 0.0, "aBytes": ""});
    assert!(protobuf_of(&kinds(), &defaults).is_empty());
    assert_eq!(text_of(&kinds(), &[varint(3, 0), bytes(14, ""), varint(16, 0)].concat()), "{}");
}

#[test]
fn fields_with_presence_keep_it_and_without_it_the_default_is_the_same_as_absence() {
    let present = [varint(23, 0), varint(33, 0), bytes(34, ""), varint(36, 0)].concat();
    both(
        &kinds(),
        &present,
        &json!({"mayInt32": 0, "mayBool": false, "mayString": "", "mayColour": "COLOUR_UNSPECIFIED"}),
    );
    both(&kinds(), &varint(81, 0), &json!({"oneInt32": 0}));
    both(&kinds(), &bytes(18, ""), &json!({"aMessage": {}}));
    both(&kinds(), &[bytes(113, ""), bytes(118, "")].concat(), &json!({"wrappedInt64": "0", "wrappedString": ""}));
    both(&legacy(), &varint(1, 0), &json!({"number": 0}));
}

#[test]
fn minus_zero_is_no_default() {
    let minus = double(1, -0.0);
    assert_eq!(text_of(&kinds(), &minus), r#"{"aDouble":-0.0}"#);
    assert_eq!(kinds().to_protobuf(br#"{"aDouble":-0.0}"#).unwrap().body, minus);
    assert!(kinds().to_protobuf(br#"{"aDouble":0.0}"#).unwrap().body.is_empty());
}

#[test]
fn unknown_fields_are_dropped_and_counted_wherever_they_stand() {
    let inner = [varint(3, 1), varint(1000, 7)].concat();
    let whole = [bytes(1000, "new"), bytes(18, &inner), group(1001, &varint(1, 1)), bytes(57, &inner)].concat();
    let made = kinds().to_json(&whole).unwrap();
    assert_eq!(made.unknown_fields, 4);
    assert_eq!(made.body, br#"{"aMessage":{"anInt32":1},"messages":[{"anInt32":1}]}"#);
    let json = json!({"new": [{"a": 1}], "aMessage": {"newer": null, "anInt32": 1}, "byString": {"a": {"b": 1}}});
    let made = kinds().to_protobuf(json.to_string().as_bytes()).unwrap();
    assert_eq!(made.unknown_fields, 3);
    // A value of another wire type than the schema's is one too.
    let made = kinds().to_json(&[bytes(3, "text"), varint(14, 1), varint(3, 5)].concat()).unwrap();
    assert_eq!((made.unknown_fields, &*made.body), (2, &br#"{"anInt32":5}"#[..]));
}

#[test]
fn both_namings_are_understood_and_the_one_that_is_wanted_is_printed() {
    let proto = schema("Kinds", Printing { names: Names::Proto, defaults: false });
    let body = [varint(3, 1), bytes(201, "x"), bytes(202, "y")].concat();
    assert_eq!(json_of(&kinds(), &body), json!({"anInt32": 1, "@odd/name": "x", "underScored2x": "y"}));
    assert_eq!(json_of(&proto, &body), json!({"an_int32": 1, "renamed": "x", "under__scored_2x": "y"}));
    for schema in [kinds(), proto] {
        for text in [
            r#"{"an_int32": 1, "@odd/name": "x", "underScored2x": "y"}"#,
            r#"{"anInt32": 1, "renamed": "x", "under__scored_2x": "y"}"#,
        ] {
            assert_eq!(schema.to_protobuf(text.as_bytes()).unwrap().body, body);
        }
    }
}

#[test]
fn defaults_are_printed_where_it_is_wanted_and_only_for_fields_without_presence() {
    let all = schema("Kinds", Printing { names: Names::Camel, defaults: true });
    let json = json_of(&all, &varint(5, 9));
    assert_eq!((&json["anInt32"], &json["anInt64"], &json["aUint32"]), (&json!(0), &json!("0"), &json!(9)));
    assert_eq!(
        (&json["int32s"], &json["byBool"], &json["aColour"]),
        (&json!([]), &json!({}), &json!("COLOUR_UNSPECIFIED"))
    );
    for absent in ["mayInt32", "aMessage", "oneInt32", "wrappedInt64", "timestamp"] {
        assert!(json.get(absent).is_none(), "{absent}");
    }
    assert_eq!(protobuf_of(&all, &json), varint(5, 9));
}

#[test]
fn integers_of_64_bits_are_text_and_lose_nothing() {
    let large = [varint(4, i64::MIN as u64), varint(6, u64::MAX)].concat();
    both(&kinds(), &large, &json!({"anInt64": "-9223372036854775808", "aUint64": "18446744073709551615"}));
    let bare = br#"{"anInt64":-9223372036854775808,"aUint64":18446744073709551615}"#;
    assert_eq!(kinds().to_protobuf(bare).unwrap().body, large);
    for same in [r#"{"anInt32":3}"#, r#"{"anInt32":3.0}"#, r#"{"anInt32":"3"}"#, r#"{"anInt32":0.3e1}"#] {
        assert_eq!(kinds().to_protobuf(same.as_bytes()).unwrap().body, varint(3, 3), "{same}");
    }
}

#[test]
fn floats_say_all_that_they_are() {
    for (text, value) in
        [("\"NaN\"", f64::NAN), ("\"Infinity\"", f64::INFINITY), ("\"-Infinity\"", f64::NEG_INFINITY)]
    {
        let json = format!("{{\"aDouble\":{text}}}");
        assert_eq!(text_of(&kinds(), &double(1, value)), json);
        assert_eq!(kinds().to_protobuf(json.as_bytes()).unwrap().body, double(1, value));
        // Within wrappers too, where a number would become null.
        let json = format!("{{\"wrappedDouble\":{text}}}");
        assert_eq!(text_of(&kinds(), &bytes(111, double(1, value))), json);
        assert_eq!(kinds().to_protobuf(json.as_bytes()).unwrap().body, bytes(111, double(1, value)));
    }
    // What serde_json would read one bit off.
    for value in [5e-324, f64::MAX, 0.1 + 0.2, 1.0 / 3.0, 9_007_199_254_740_994.0, 122.416_294_033_786_58] {
        let json = text_of(&kinds(), &double(1, value));
        assert_eq!(kinds().to_protobuf(json.as_bytes()).unwrap().body, double(1, value), "{json}");
    }
    let mut single = Vec::new();
    put_tag(&mut single, 2, 5);
    single.extend(0.1_f32.to_le_bytes());
    assert_eq!(text_of(&kinds(), &single), r#"{"aFloat":0.1}"#);
    assert_eq!(text_of(&kinds(), &double(1, 3.0)), r#"{"aDouble":3}"#);
}

#[test]
fn the_last_one_on_the_wire_wins_and_pieces_of_a_message_count_together() {
    assert_eq!(
        json_of(&kinds(), &[varint(3, 1), varint(5, 2), varint(3, 9)].concat()),
        json!({"anInt32": 9, "aUint32": 2})
    );
    assert_eq!(text_of(&kinds(), &[varint(3, 1), varint(3, 0)].concat()), "{}");
    let one = bytes(18, [varint(3, 1), varint(43, 1)].concat());
    let other = bytes(18, [varint(5, 2), varint(43, 2)].concat());
    let merged = json!({"aMessage": {"anInt32": 1, "aUint32": 2, "int32s": [1, 2]}, "anInt64": "4"});
    assert_eq!(json_of(&kinds(), &[one, varint(4, 4), other].concat()), merged);
}

#[test]
fn of_a_oneof_the_last_member_counts_and_what_came_before_another_is_gone() {
    let part = |number| bytes(83, varint(number, 1));
    assert_eq!(json_of(&kinds(), &[varint(81, 5), bytes(82, "x")].concat()), json!({"oneString": "x"}));
    assert_eq!(json_of(&kinds(), &[bytes(82, "x"), varint(81, 5)].concat()), json!({"oneInt32": 5}));
    let merged = json!({"oneMessage": {"anInt32": 1, "anInt64": "1"}});
    assert_eq!(json_of(&kinds(), &[part(3), part(4)].concat()), merged);
    let broken = json!({"oneMessage": {"anInt64": "1"}});
    assert_eq!(json_of(&kinds(), &[part(3), bytes(82, "x"), part(4)].concat()), broken);
    let mixed = [varint(89, 1), varint(81, 2), double(91, 0.5), bytes(88, "a")].concat();
    assert_eq!(json_of(&kinds(), &mixed), json!({"oneBytes": "YQ==", "otherDouble": 0.5}));
}

#[test]
fn lists_are_read_packed_unpacked_and_scattered() {
    let packed = [bytes(43, [1, 2]), varint(3, 7), varint(43, 3), bytes(43, [])].concat();
    assert_eq!(json_of(&kinds(), &packed), json!({"anInt32": 7, "int32s": [1, 2, 3]}));
    both(&kinds(), &bytes(43, [1, 2, 3]), &json!({"int32s": [1, 2, 3]}));
    both(&kinds(), &[varint(58, 1), varint(58, 2)].concat(), &json!({"loose": [1, 2]}));
    assert_eq!(text_of(&kinds(), &bytes(58, [1, 2])), r#"{"loose":[1,2]}"#);
    assert_eq!(text_of(&kinds(), &bytes(43, [])), "{}");
}

#[test]
fn maps_have_keys_of_every_kind_in_their_order_and_the_last_entry_of_a_key() {
    let entry = |key: &[u8], value: &[u8]| [key, value].concat();
    let twice =
        [bytes(61, entry(&varint(1, 9), &varint(2, 1))), bytes(61, entry(&varint(1, 2), &varint(2, 2)))].concat();
    let twice = [twice, bytes(61, entry(&varint(2, 3), &varint(1, 9)))].concat();
    assert_eq!(text_of(&kinds(), &twice), r#"{"byInt32":{"2":2,"9":3}}"#);
    assert_eq!(text_of(&kinds(), &bytes(71, "")), r#"{"byBool":{"false":"0"}}"#);
    assert_eq!(text_of(&kinds(), &bytes(72, "")), r#"{"byString":{"":{}}}"#);
    let json = json!({"byInt64": {"-9223372036854775808": "a"}, "byUint64": {"18446744073709551615": "AA=="},
        "bySint32": {"-1": "COLOUR_RED"}, "byFixed64": {"3": null}, "bySfixed32": {"-4": "1970-01-01T00:00:00Z"},
        "byBool": {"false": "1", "true": "2"}, "byString": {"": {}, "\u{20ac}\"": {"anInt32": 1}}});
    assert_eq!(json_of(&kinds(), &protobuf_of(&kinds(), &json)), json);
}

#[test]
fn enums_are_names_and_unknown_numbers_stay_where_the_enum_is_open() {
    both(&kinds(), &varint(16, 2), &json!({"aColour": "COLOUR_GREEN"}));
    both(&kinds(), &varint(16, 77), &json!({"aColour": 77}));
    both(&kinds(), &varint(16, u64::MAX), &json!({"aColour": "COLOUR_BELOW"}));
    assert_eq!(text_of(&kinds(), &varint(17, 1)), r#"{"anAlias":"ALIAS_ONE"}"#);
    for same in [json!({"aColour": 2}), json!({"aColour": "2"}), json!({"aColour": 2.0})] {
        assert_eq!(protobuf_of(&kinds(), &same), varint(16, 2));
    }
    // A name that the schema does not have is unknown, as its number is in a closed enum.
    let json =
        json!({"aColour": "COLOUR_NEW", "colours": ["COLOUR_RED", "COLOUR_NEW"], "bySint32": {"1": "COLOUR_NEW"}});
    let made = kinds().to_protobuf(json.to_string().as_bytes()).unwrap();
    assert_eq!((made.unknown_fields, made.body), (3, bytes(56, [1])));
    let entry = bytes(9, [bytes(1, "a"), varint(2, 9)].concat()); // a number that the map's enum lacks
    let closed = [varint(3, 1), varint(3, 9), varint(4, 9), varint(4, 2), bytes(5, [9, 1, 9]), entry].concat();
    let made = legacy().to_json(&closed).unwrap();
    assert_eq!(made.unknown_fields, 5);
    assert_eq!(made.body, br#"{"closed":"CLOSED_ONE","closeds":["CLOSED_TWO"],"packedCloseds":["CLOSED_ONE"]}"#);
}

#[test]
fn bytes_are_base64_and_base64url_with_or_without_padding() {
    both(&kinds(), &bytes(15, [0xfb, 0xff]), &json!({"aBytes": "+/8="}));
    for same in ["+/8=", "-_8=", "+/8", "-_8"] {
        assert_eq!(protobuf_of(&kinds(), &json!({"aBytes": same})), bytes(15, [0xfb, 0xff]));
    }
}

#[test]
fn null_is_absence_but_for_the_types_that_have_one() {
    assert!(
        protobuf_of(&kinds(), &json!({"anInt32": null, "messages": null, "wrappedBool": null, "oneString": null}))
            .is_empty()
    );
    both(&kinds(), &bytes(106, varint(1, 0)), &json!({"value": null}));
    both(&kinds(), &varint(37, 0), &json!({"mayNull": null}));
    both(&kinds(), &varint(85, 0), &json!({"oneNull": null}));
    both(&kinds(), &bytes(126, varint(1, 0)), &json!({"values": [null]}));
    assert_eq!(protobuf_of(&kinds(), &json!({"oneString": null, "oneInt32": 1})), varint(81, 1));
}

#[test]
fn well_known_types_have_the_json_that_is_defined_for_them() {
    for (json, seconds, nanos) in [
        ("1970-01-01T00:00:00Z", 0, 0),
        ("0001-01-01T00:00:00Z", -62_135_596_800, 0),
        ("9999-12-31T23:59:59.999999999Z", 253_402_300_799, 999_999_999),
        ("2000-02-29T12:34:56.120Z", 951_827_696, 120_000_000),
        ("1969-12-31T23:59:59.000001Z", -1, 1_000),
    ] {
        assert_eq!(well_known::print_timestamp(seconds, nanos).unwrap(), json);
        assert_eq!(well_known::parse_timestamp(json), Some((seconds, nanos)), "{json}");
    }
    assert_eq!(well_known::parse_timestamp("1970-01-01T01:00:00+01:00"), Some((0, 0)));
    for (json, seconds, nanos) in
        [("0s", 0, 0), ("-0.500s", 0, -500_000_000), ("3.000001s", 3, 1_000), ("-1s", -1, 0)]
    {
        assert_eq!(well_known::print_duration(seconds, nanos).unwrap(), json);
        assert_eq!(well_known::parse_duration(json), Some((seconds, nanos)), "{json}");
    }
    both(&kinds(), &bytes(104, [bytes(1, "foo_bar.b"), bytes(1, "c")].concat()), &json!({"mask": "fooBar.b,c"}));
    both(&kinds(), &[bytes(104, ""), bytes(108, "")].concat(), &json!({"mask": "", "empty": {}}));
}

#[test]
fn opaque_json_keeps_its_numbers_as_they_were() {
    let text = r#"{"object":{"a":[1,-1.5,9007199254740994,1e300,null,{}],"b":{"c":"d"}},"value":[true],"list":[]}"#;
    let protobuf = kinds().to_protobuf(text.as_bytes()).unwrap().body;
    let again: Value = json_of(&kinds(), &protobuf);
    assert_eq!(again["object"]["a"][0], json!(1), "1 and not 1.0");
    let value = |value: f64| bytes(106, double(2, value));
    assert_eq!(text_of(&kinds(), &value(9_007_199_254_740_991.0)), r#"{"value":9007199254740991}"#);
    assert_eq!(kinds().to_protobuf(&kinds().to_json(&protobuf).unwrap().body).unwrap().body, protobuf);
    assert_eq!(kinds().to_protobuf(br#"{"value":9007199254740994}"#).unwrap().body, value(9_007_199_254_740_994.0));
}

#[test]
fn an_any_is_the_message_that_it_holds_wherever_its_type_stands() {
    let url = "type.googleapis.com/nearside.test.Kinds";
    let any = bytes(101, [bytes(1, url), bytes(2, [varint(3, 1), varint(5, 2)].concat())].concat());
    both(&kinds(), &any, &json!({"any": {"@type": url, "anInt32": 1, "aUint32": 2}}));
    let last = format!(r#"{{"any":{{"anInt32":1,"aUint32":2,"@type":"{url}"}}}}"#);
    assert_eq!(kinds().to_protobuf(last.as_bytes()).unwrap().body, any);
    let url = "a/b/google.protobuf.Duration";
    let any = bytes(101, [bytes(1, url), bytes(2, varint(1, 3))].concat());
    both(&kinds(), &any, &json!({"any": {"@type": url, "value": "3s"}}));
    both(&kinds(), &bytes(101, ""), &json!({"any": {}}));
    let inside = bytes(101, [bytes(1, "x/nearside.test.Kinds"), bytes(2, varint(1000, 1))].concat());
    assert_eq!(kinds().to_json(&inside).unwrap().unknown_fields, 1);
}

#[test]
fn proto2_has_groups_extensions_and_oneofs_of_groups() {
    let body = [
        group(7, &[varint(1, 1), bytes(2, varint(1, 5))].concat()),
        group(8, &bytes(1, "a")),
        group(8, &bytes(1, "b")),
        group(10, &varint(1, 1)),
        bytes(100, "nick"),
        bytes(101, varint(1, 6)),
    ]
    .concat();
    let json = json!({"inner": {"depth": 1, "legacy": {"number": 5}}, "each": [{"name": "a"}, {"name": "b"}],
        "chosen": {"yes": true}, "[nearside.test.nickname]": "nick", "[nearside.test.friends]": [{"number": 6}]});
    assert_eq!(json_of(&legacy(), &body), json);
    assert_eq!(json_of(&legacy(), &protobuf_of(&legacy(), &json)), json);
}

#[test]
fn an_edition_means_what_its_features_say() {
    let set = include_bytes!("../../../../tests/payload/editions.binpb");
    let schema = Schema::read(set, "nearside.editions.Edition", Printing::default()).unwrap();
    let body = [varint(2, 0), bytes(3, [1]), varint(4, 1), group(5, &varint(1, 3)), varint(6, 9)].concat();
    let json = json!({"explicit": 0, "packed": [1], "expanded": [1], "delimited": {"implicit": 3}, "open": 9});
    both(&schema, &body, &json);
    let made = schema.to_json(&[varint(7, 9), bytes(5, varint(1, 3)), varint(1, 0)].concat()).unwrap();
    assert_eq!((made.unknown_fields, &*made.body), (2, &b"{}"[..]));
}

/// A file may have its messages between tags: entries of maps and what is in them never are.
#[test]
fn maps_of_a_delimited_file_lie_behind_lengths() {
    let text = |number, text: &str| bytes(number, text.as_bytes());
    let field = |name: &str, number, label, kind, of: Option<&str>| {
        let of = of.map(|of| text(6, of)).unwrap_or_default();
        [text(1, name), varint(3, number), varint(4, label), varint(5, kind), of].concat()
    };
    let inner = [text(1, "Inner"), bytes(2, field("a", 1, 1, 5, None))].concat();
    let entry = |name: &str, kind, of| {
        let fields = [bytes(2, field("key", 1, 1, 9, None)), bytes(2, field("value", 2, 1, kind, of))].concat();
        [text(1, name), fields, bytes(7, varint(7, 1))].concat()
    };
    let outer = [
        text(1, "M"),
        bytes(2, field("m", 1, 3, 11, Some(".t.M.MEntry"))),
        bytes(2, field("n", 2, 3, 11, Some(".t.M.NEntry"))),
        bytes(2, field("one", 3, 1, 11, Some(".t.Inner"))),
        bytes(2, field("list", 4, 3, 11, Some(".t.Inner"))),
        bytes(3, entry("MEntry", 11, Some(".t.Inner"))),
        bytes(3, entry("NEntry", 9, None)),
    ];
    let options = bytes(8, bytes(50, varint(5, 2)));
    let file = [text(1, "t.proto"), text(2, "t"), bytes(4, outer.concat()), bytes(4, inner), options];
    let file = [file.concat(), text(12, "editions"), varint(14, 1000)].concat();
    let schema = Schema::read(&bytes(1, file), "t.M", Printing::default()).unwrap();
    let seven = varint(1, 7);
    let body = [
        bytes(1, [text(1, "k"), bytes(2, &seven)].concat()),
        bytes(2, [text(1, "k"), text(2, "v")].concat()),
        group(3, &seven),
        group(4, &seven),
    ];
    both(
        &schema,
        &body.concat(),
        &json!({"m": {"k": {"a": 7}}, "n": {"k": "v"}, "one": {"a": 7}, "list": [{"a": 7}]}),
    );
}
