//! Records without another form, and their errors.

use super::*;

fn refused(schema: &Schema, json: &str) -> String {
    schema.to_protobuf(json.as_bytes()).map(|made| made.body.len()).expect_err(json).to_string()
}

fn refused_bytes(schema: &Schema, protobuf: &[u8]) -> String {
    schema.to_json(protobuf).map(|made| made.body.len()).expect_err("it does not fit").to_string()
}

#[test]
fn duplicate_name_does_not_fit() {
    for (json, place) in [
        (r#"{"anInt32":1,"anInt32":1}"#, "/anInt32"),
        (r#"{"anInt32":1,"an_int32":1}"#, "/anInt32"),
        (r#"{"anInt32":1,"an\u0049nt32":null}"#, "/anInt32"),
        (r#"{"new":1,"new":1}"#, ""),
        (r#"{"byString":{"a":{},"\u0061":{}}}"#, "/byString/*"),
        (r#"{"byInt32":{"1":1,"1":1}}"#, "/byInt32/*"),
        (r#"{"object":{"a":1,"a":1}}"#, "/object/*"),
        (r#"{"any":{"@type":"x/nearside.test.Kinds","@type":"x/nearside.test.Kinds"}}"#, "/any"),
    ] {
        assert_eq!(refused(&kinds(), json), format!("at `{place}`: a name that is there twice"), "{json}");
    }
}

#[test]
fn two_oneof_members_do_not_fit() {
    let said = refused(&kinds(), r#"{"oneInt32":1,"oneString":"a"}"#);
    assert_eq!(said, "at `/oneString`: a second member of a oneof");
    assert!(kinds().to_protobuf(br#"{"oneInt32":1,"otherBool":true}"#).is_ok());
}

#[test]
fn unresolvable_any_does_not_fit() {
    for json in
        [r#"{"any":{"@type":"x/acme.Secret"}}"#, r#"{"any":{"a":1}}"#, r#"{"any":{"@type":"nearside.test.Kinds"}}"#]
    {
        assert_eq!(refused(&kinds(), json), "at `/any`: an Any whose type the schema does not have");
    }
    for any in [bytes(1, "x/acme.Secret"), bytes(2, "a")] {
        assert_eq!(
            refused_bytes(&kinds(), &bytes(101, any)),
            "at `/any`: an Any whose type the schema does not have"
        );
    }
}

#[test]
fn wrongly_typed_value_does_not_fit() {
    for json in [
        r#"{"anInt32":"secret"}"#,
        r#"{"anInt32":2147483648}"#,
        r#"{"anInt32":1.5}"#,
        r#"{"anInt32":true}"#,
        r#"{"anInt32":[]}"#,
        r#"{"aUint32":-1}"#,
        r#"{"anInt64":"9223372036854775808"}"#,
        r#"{"anInt64":" 1"}"#,
        r#"{"aUint64":18446744073709551616}"#,
        r#"{"aFloat":1e39}"#,
        r#"{"aDouble":"1e999"}"#,
        r#"{"aDouble":"inf"}"#,
        r#"{"aBool":"true"}"#,
        r#"{"aBool":1}"#,
        r#"{"aString":1}"#,
        r#"{"aBytes":"!"}"#,
        r#"{"aColour":true}"#,
        r#"{"aColour":2147483648}"#,
        r#"{"aMessage":[]}"#,
        r#"{"int32s":1}"#,
        r#"{"int32s":[null]}"#,
        r#"{"messages":[null]}"#,
        r#"{"byString":{"a":null}}"#,
        r#"{"byString":[]}"#,
        r#"{"byInt32":{"a":1}}"#,
        r#"{"byBool":{"True":1}}"#,
        r#"{"object":[]}"#,
        r#"{"list":{}}"#,
        r#"{"wrappedInt32":{"value":1}}"#,
        r#"{"timestamp":"1970-01-01"}"#,
        r#"{"timestamp":"1970-01-01t00:00:00Z"}"#,
        r#"{"timestamp":"1970-02-30T00:00:00Z"}"#,
        r#"{"timestamp":"1970-01-01T00:00:00.Z"}"#,
        r#"{"timestamp":"1970-01-01T00:00:00"}"#,
        r#"{"timestamp":"0001-01-01T00:00:00+01:00"}"#,
        r#"{"timestamp":"1970-01-01T24:00:00Z"}"#,
        r#"{"duration":"1"}"#,
        r#"{"duration":"s"}"#,
        r#"{"duration":"1.s"}"#,
        r#"{"duration":"315576000001s"}"#,
        r#"{"mask":"foo_bar"}"#,
        r#"{"mask":"a,"}"#,
        r#"{"any":{"@type":1}}"#,
        r#"{"any":{"@type":"x/google.protobuf.Duration"}}"#,
        "[]",
        "null",
        "1",
    ] {
        let said = refused(&kinds(), json);
        assert!(said.starts_with("at `/") || said.starts_with("at ``"), "{json}: {said}");
        assert!(!said.contains("well-formed"), "{json}: {said}");
    }
    for (number, bytes_) in [
        (102, varint(2, 1_000_000_000)),
        (102, varint(1, 253_402_300_800)),
        (103, [varint(1, 1), varint(2, u64::MAX)].concat()),
        (104, bytes(1, "fooBar")),
        (106, double(2, f64::NAN)),
        (106, Vec::new()),
        (14, vec![0xff]),
    ] {
        refused_bytes(&kinds(), &bytes(number, bytes_));
    }
}

#[test]
fn malformed_json_or_protobuf_never_fits() {
    for json in [
        "",
        " ",
        "{",
        "{]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{} {}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":.5}",
        "{\"a\":+1}",
        "{\"a\":-}",
        "{\"a\":1e}",
        "{\"a\":nul}",
        "{\"a\":\"\u{1}\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\\udc00\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"",
        "{'a':1}",
        "{a:1}",
        "{\"a\":[1 2]}",
        "{\"a\":NaN}",
        "\u{feff}{}",
    ] {
        assert_eq!(refused(&kinds(), json), "at ``: not well-formed JSON", "{json}");
    }
    assert_eq!(kinds().to_protobuf(b"{\"\xff\":1}").unwrap_err().to_string(), "at ``: text that is not UTF-8");
    let cut = [0x0a, 5, 1];
    for protobuf in [&cut[..], &[0x0a], &[0x18], &[0x00], &[0x06], &[0x0c], &[0x0b], &[0x0b, 0x14], &[0x18, 0xff]] {
        assert_eq!(refused_bytes(&kinds(), protobuf), "at ``: not well-formed Protobuf", "{protobuf:?}");
    }
    assert_eq!(
        refused_bytes(&kinds(), &[0x18; 1].iter().copied().chain([0xff; 11]).collect::<Vec<_>>()),
        "at ``: not well-formed Protobuf"
    );
}

#[test]
fn missing_required_field_does_not_fit() {
    let strict = schema("Strict");
    both(&strict, &[bytes(1, "a"), bytes(3, bytes(1, ""))].concat(), &json!({"name": "a", "below": [{"name": ""}]}));
    assert_eq!(refused(&strict, r#"{"name":null}"#), r#"at ``: the required field "name" is missing"#);
    let said = r#"at `/below/*`: the required field "name" is missing"#;
    assert_eq!(refused(&strict, r#"{"name":"a","below":[{"number":1}]}"#), said);
    assert_eq!(refused_bytes(&strict, &[bytes(1, "a"), bytes(3, varint(2, 1))].concat()), said);
}

#[test]
fn both_forms_share_depth_bound() {
    assert_eq!(text_of(&kinds(), &nested_bytes(FORM_DEPTH)), nested_text(FORM_DEPTH));
    assert_eq!(kinds().to_protobuf(nested_text(FORM_DEPTH).as_bytes()).unwrap().body, nested_bytes(FORM_DEPTH));
    assert!(refused_bytes(&kinds(), &nested_bytes(FORM_DEPTH + 1)).contains("deep"));
    assert!(refused(&kinds(), &nested_text(FORM_DEPTH + 1)).contains("deep"));
    // What prost and Google's readers take is not deeper.
    protox::prost_reflect::DynamicMessage::decode(descriptor(), &*nested_bytes(FORM_DEPTH)).unwrap();
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        assert!(refused(&kinds(), &nested_value(open, close, 50_000)).contains("deep"));
        let mut fitting = (1..FORM_DEPTH).rev().map(|levels| nested_value(open, close, levels));
        let deepest = fitting.find(|json| kinds().to_protobuf(json.as_bytes()).is_ok()).unwrap();
        let protobuf = kinds().to_protobuf(deepest.as_bytes()).unwrap().body;
        assert_eq!(text_of(&kinds(), &protobuf), deepest);
        protox::prost_reflect::DynamicMessage::decode(descriptor(), &*protobuf).unwrap();
    }
    // What nobody knows, and an Any in an Any: a few bytes a level.
    assert!(refused(&kinds(), &format!("{{\"new\":{}", "[".repeat(100_000))).contains("deep"));
    assert!(refused_bytes(&kinds(), &[0x0b; 100_000]).contains("deep"));
    let anys = (0..5_000).fold(Vec::new(), |inner, _| [bytes(1, "x/google.protobuf.Any"), bytes(2, inner)].concat());
    assert!(refused_bytes(&kinds(), &bytes(101, anys)).contains("deep"));
    let any = "{\"@type\":\"x/google.protobuf.Any\",\"value\":";
    assert!(refused(&kinds(), &format!("{{\"any\":{}", any.repeat(5_000))).contains("deep"));
}

/// A message in a message, so deep.
fn nested_bytes(levels: usize) -> Vec<u8> {
    (0..levels).fold(Vec::new(), |inner, _| bytes(18, inner))
}

/// That nesting in JSON.
fn nested_text(levels: usize) -> String {
    r#"{"aMessage":"#.repeat(levels) + "{}" + &"}".repeat(levels)
}

/// A `Value` in brackets, so deep.
fn nested_value(open: &str, close: &str, levels: usize) -> String {
    format!("{{\"value\":{}1{}}}", open.repeat(levels), close.repeat(levels))
}

fn descriptor() -> protox::prost_reflect::MessageDescriptor {
    let pool = protox::prost_reflect::DescriptorPool::decode(descriptor_set()).unwrap();
    pool.get_message_by_name("nearside.test.Kinds").unwrap()
}

#[test]
fn no_form_outgrows_its_bound() {
    // A byte becomes the six of its escape.
    let many = bytes(14, "\u{1}".repeat(FORM_BYTES / 3));
    assert!(refused_bytes(&kinds(), &many).contains("more than"));
    let fields = varint(58, 1).repeat(FORM_FIELDS);
    assert_eq!(refused_bytes(&kinds(), &fields), "at ``: too many fields and elements");
    assert!(refused_bytes(&kinds(), &vec![0; FORM_BYTES + 1]).contains("more than"));
    assert!(refused(&kinds(), &" ".repeat(FORM_BYTES + 1)).contains("more than"));
}

#[test]
fn error_names_fields_but_no_values() {
    let canary = "s3cr3t";
    for json in [
        format!(r#"{{"byString":{{"{canary}":{{"anInt32":"{canary}"}}}}}}"#),
        format!(r#"{{"object":{{"{canary}":1,"{canary}":2}}}}"#),
        format!(r#"{{"{canary}":1,"{canary}":2}}"#),
        format!(r#"{{"any":{{"@type":"{canary}/{canary}"}}}}"#),
        format!(r#"{{"timestamp":"{canary}"}}"#),
        format!(r#"{{"a":{canary}}}"#),
    ] {
        let error = kinds().to_protobuf(json.as_bytes()).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(canary), "{error:?}");
    }
    let said = refused(&kinds(), r#"{"messages":[{"byString":{"k":{"@odd/name":1}}}]}"#);
    assert_eq!(said, "at `/messages/*/byString/*/@odd~1name`: not text");
    let entry = [bytes(1, canary), bytes(2, bytes(101, bytes(1, canary)))].concat();
    let error = kinds().to_json(&bytes(72, entry)).unwrap_err();
    assert!(!format!("{error} {error:?}").contains(canary), "{error:?}");
}
