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
use crate::payload::limits::{FORM_DEPTH, FORM_FIELDS};

pub(super) fn descriptor_set() -> &'static [u8] {
    static SET: OnceLock<Vec<u8>> = OnceLock::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/payload");
    SET.get_or_init(|| protox::compile(["kinds.proto"], [folder]).unwrap().encode_to_vec())
}

pub(super) fn schema(message: &str) -> Schema {
    Schema::read(descriptor_set(), &format!("nearside.test.{message}")).unwrap()
}

fn kinds() -> Schema {
    schema("Kinds")
}

fn legacy() -> Schema {
    schema("Legacy")
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
fn default_message_is_empty_in_both() {
    both(&kinds(), b"", &json!({}));
    let defaults = json!({"anInt32": 0, "aString": "", "aBool": false, "aColour": "COLOUR_UNSPECIFIED", "int32s": [],
        "byString": {}, "aMessage": null, "aDouble": 0.0, "aBytes": ""});
    assert!(protobuf_of(&kinds(), &defaults).is_empty());
    assert_eq!(text_of(&kinds(), &[varint(3, 0), bytes(14, ""), varint(16, 0)].concat()), "{}");
}

#[test]
fn only_presence_distinguishes_default_from_absence() {
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
fn unknown_fields_are_dropped_and_counted() {
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
fn both_namings_are_read_json_printed() {
    let body = [varint(3, 1), bytes(201, "x"), bytes(202, "y")].concat();
    assert_eq!(json_of(&kinds(), &body), json!({"anInt32": 1, "@odd/name": "x", "underScored2x": "y"}));
    for text in [
        r#"{"an_int32": 1, "@odd/name": "x", "underScored2x": "y"}"#,
        r#"{"anInt32": 1, "renamed": "x", "under__scored_2x": "y"}"#,
    ] {
        assert_eq!(kinds().to_protobuf(text.as_bytes()).unwrap().body, body);
    }
}

#[test]
fn int64_is_lossless_text() {
    let large = [varint(4, i64::MIN as u64), varint(6, u64::MAX)].concat();
    both(&kinds(), &large, &json!({"anInt64": "-9223372036854775808", "aUint64": "18446744073709551615"}));
    let bare = br#"{"anInt64":-9223372036854775808,"aUint64":18446744073709551615}"#;
    assert_eq!(kinds().to_protobuf(bare).unwrap().body, large);
    for same in [r#"{"anInt32":3}"#, r#"{"anInt32":3.0}"#, r#"{"anInt32":"3"}"#, r#"{"anInt32":0.3e1}"#] {
        assert_eq!(kinds().to_protobuf(same.as_bytes()).unwrap().body, varint(3, 3), "{same}");
    }
}

#[test]
fn floats_round_trip_exactly() {
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
fn last_value_wins_messages_merge() {
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
fn last_oneof_member_clears_earlier() {
    assert_eq!(json_of(&kinds(), &[varint(81, 5), bytes(82, "x")].concat()), json!({"oneString": "x"}));
    assert_eq!(json_of(&kinds(), &[bytes(82, "x"), varint(81, 5)].concat()), json!({"oneInt32": 5}));
    let merged = json!({"oneMessage": {"anInt32": 1, "anInt64": "1"}});
    assert_eq!(json_of(&kinds(), &[one_message(3), one_message(4)].concat()), merged);
    let broken = json!({"oneMessage": {"anInt64": "1"}});
    assert_eq!(json_of(&kinds(), &[one_message(3), bytes(82, "x"), one_message(4)].concat()), broken);
    let mixed = [varint(89, 1), varint(81, 2), double(91, 0.5), bytes(88, "a")].concat();
    assert_eq!(json_of(&kinds(), &mixed), json!({"oneBytes": "YQ==", "otherDouble": 0.5}));
}

/// The oneof's message, in which this field is 1.
fn one_message(field: u32) -> Vec<u8> {
    bytes(83, varint(field, 1))
}

#[test]
fn lists_read_packed_unpacked_and_scattered() {
    let packed = [bytes(43, [1, 2]), varint(3, 7), varint(43, 3), bytes(43, [])].concat();
    assert_eq!(json_of(&kinds(), &packed), json!({"anInt32": 7, "int32s": [1, 2, 3]}));
    both(&kinds(), &bytes(43, [1, 2, 3]), &json!({"int32s": [1, 2, 3]}));
    both(&kinds(), &[varint(58, 1), varint(58, 2)].concat(), &json!({"loose": [1, 2]}));
    assert_eq!(text_of(&kinds(), &bytes(58, [1, 2])), r#"{"loose":[1,2]}"#);
    assert_eq!(text_of(&kinds(), &bytes(43, [])), "{}");
}

#[test]
fn maps_sort_keys_last_entry_wins() {
    let entries = [[varint(1, 9), varint(2, 1)], [varint(1, 2), varint(2, 2)], [varint(2, 3), varint(1, 9)]];
    let twice = entries.map(|entry| bytes(61, entry.concat())).concat();
    assert_eq!(text_of(&kinds(), &twice), r#"{"byInt32":{"2":2,"9":3}}"#);
    assert_eq!(text_of(&kinds(), &bytes(71, "")), r#"{"byBool":{"false":"0"}}"#);
    assert_eq!(text_of(&kinds(), &bytes(72, "")), r#"{"byString":{"":{}}}"#);
    let json = json!({"byInt64": {"-9223372036854775808": "a"}, "byUint64": {"18446744073709551615": "AA=="},
        "bySint32": {"-1": "COLOUR_RED"}, "byFixed64": {"3": null}, "bySfixed32": {"-4": "1970-01-01T00:00:00Z"},
        "byBool": {"false": "1", "true": "2"}, "byString": {"": {}, "\u{20ac}\"": {"anInt32": 1}}});
    assert_eq!(json_of(&kinds(), &protobuf_of(&kinds(), &json)), json);
}

#[test]
fn open_enums_keep_unknown_numbers() {
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
fn bytes_accept_both_base64_alphabets() {
    both(&kinds(), &bytes(15, [0xfb, 0xff]), &json!({"aBytes": "+/8="}));
    for same in ["+/8=", "-_8=", "+/8", "-_8"] {
        assert_eq!(protobuf_of(&kinds(), &json!({"aBytes": same})), bytes(15, [0xfb, 0xff]));
    }
}

#[test]
fn null_is_absence_except_nullable_types() {
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
fn well_known_types_use_defined_json() {
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
fn opaque_json_keeps_numbers_verbatim() {
    let text = r#"{"object":{"a":[1,-1.5,9007199254740994,1e300,null,{}],"b":{"c":"d"}},"value":[true],"list":[]}"#;
    let protobuf = kinds().to_protobuf(text.as_bytes()).unwrap().body;
    let again: Value = json_of(&kinds(), &protobuf);
    assert_eq!(again["object"]["a"][0], json!(1), "1 and not 1.0");
    let value = bytes(106, double(2, 9_007_199_254_740_991.0));
    assert_eq!(text_of(&kinds(), &value), r#"{"value":9007199254740991}"#);
    assert_eq!(kinds().to_protobuf(&kinds().to_json(&protobuf).unwrap().body).unwrap().body, protobuf);
    let value = bytes(106, double(2, 9_007_199_254_740_994.0));
    assert_eq!(kinds().to_protobuf(br#"{"value":9007199254740994}"#).unwrap().body, value);
}

#[test]
fn any_holds_message_wherever_type_stands() {
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
fn proto2_supports_groups_extensions_and_oneofs() {
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
fn edition_features_are_honoured() {
    let set = include_bytes!("../../../tests/payload/editions.binpb");
    let schema = Schema::read(set, "nearside.editions.Edition").unwrap();
    let body = [varint(2, 0), bytes(3, [1]), varint(4, 1), group(5, &varint(1, 3)), varint(6, 9)].concat();
    let json = json!({"explicit": 0, "packed": [1], "expanded": [1], "delimited": {"implicit": 3}, "open": 9});
    both(&schema, &body, &json);
    let made = schema.to_json(&[varint(7, 9), bytes(5, varint(1, 3)), varint(1, 0)].concat()).unwrap();
    assert_eq!((made.unknown_fields, &*made.body), (2, &b"{}"[..]));
}

/// A file may have its messages between tags: entries of maps and what is in them never are.
#[test]
fn delimited_file_maps_are_length_prefixed() {
    let inner = [bytes(1, "Inner"), field_descriptor("a", 1, 1, 5, None)].concat();
    let outer = [
        bytes(1, "M"),
        field_descriptor("m", 1, 3, 11, Some(".t.M.MEntry")),
        field_descriptor("n", 2, 3, 11, Some(".t.M.NEntry")),
        field_descriptor("one", 3, 1, 11, Some(".t.Inner")),
        field_descriptor("list", 4, 3, 11, Some(".t.Inner")),
        entry_descriptor("MEntry", 11, Some(".t.Inner")),
        entry_descriptor("NEntry", 9, None),
    ];
    let options = bytes(8, bytes(50, varint(5, 2)));
    let file = [bytes(1, "t.proto"), bytes(2, "t"), bytes(4, outer.concat()), bytes(4, inner), options];
    let file = [file.concat(), bytes(12, "editions"), varint(14, 1000)].concat();
    let schema = Schema::read(&bytes(1, file), "t.M").unwrap();
    let seven = varint(1, 7);
    let body = [
        bytes(1, [bytes(1, "k"), bytes(2, &seven)].concat()),
        bytes(2, [bytes(1, "k"), bytes(2, "v")].concat()),
        group(3, &seven),
        group(4, &seven),
    ];
    both(
        &schema,
        &body.concat(),
        &json!({"m": {"k": {"a": 7}}, "n": {"k": "v"}, "one": {"a": 7}, "list": [{"a": 7}]}),
    );
}

/// A field of a message's descriptor; `of`: name of the type that it is of.
fn field_descriptor(name: &str, number: u64, label: u64, kind: u64, of: Option<&str>) -> Vec<u8> {
    let of = of.map(|of| bytes(6, of)).unwrap_or_default();
    bytes(2, [bytes(1, name), varint(3, number), varint(4, label), varint(5, kind), of].concat())
}

/// A map's entry in a message's descriptor.
fn entry_descriptor(name: &str, kind: u64, of: Option<&str>) -> Vec<u8> {
    let (key, value) = (field_descriptor("key", 1, 1, 9, None), field_descriptor("value", 2, 1, kind, of));
    bytes(3, [bytes(1, name), key, value, bytes(7, varint(7, 1))].concat())
}
