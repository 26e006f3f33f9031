//! Descriptor sets that are no schema, and what a schema calls its fields.

use prost::Message;

use super::*;

fn set() -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/payload");
    protox::compile(["kinds.proto"], [folder]).unwrap().encode_to_vec()
}

fn read(set: &[u8], message: &str) -> Result<Schema, SchemaError> {
    Schema::read(set, message)
}

fn error(set: &[u8], message: &str) -> String {
    read(set, message).unwrap_err().to_string()
}

#[test]
fn error_says_what_to_do() {
    for no_set in [&b"syntax = \"proto3\";"[..], b"", b"{}"] {
        let said = error(no_set, "acme.v1.Context");
        assert!(said.contains("is no descriptor set") && said.contains("--descriptor_set_out"), "{said}");
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/payload");
    let mut compiler = protox::Compiler::new([folder]).unwrap();
    compiler.open_file("kinds.proto").unwrap();
    let alone = error(&compiler.file_descriptor_set().encode_to_vec(), "nearside.test.Kinds");
    assert!(alone.starts_with("lacks google.protobuf.") && alone.contains("--include_imports"), "{alone}");
    assert!(error(&vec![0; limits::SCHEMA_BYTES + 1], "a").contains("leave out"));
}

#[test]
fn missing_message_names_nearest_match() {
    for near in ["nearside.test.Kind", "acme.v1.Kinds", "Kinds", "nearside.test.kinds"] {
        let expected = format!("has no message {near:?}; did you mean \"nearside.test.Kinds\"?");
        assert_eq!(error(&set(), near), expected);
    }
    let entry = error(&set(), "nearside.test.Kinds.ByStringEntry");
    assert!(entry.contains("did you mean"), "an entry of a map is no message");
}

#[test]
fn schema_id_is_stable_and_distinct() {
    let set = include_bytes!("../../../tests/payload/editions.binpb");
    let id = read(set, "nearside.editions.Edition").unwrap().id();
    assert_eq!(id, 4_161_858_802_618_594_516, "another number here makes every derived ETag of today another one");
    let kinds = super::tests::set();
    let of = |message: &str| read(&kinds, message).unwrap().id();
    assert_ne!(of("nearside.test.Kinds"), of("nearside.test.Legacy"));
}

#[test]
fn path_resolves_to_printed_json_names() {
    let camel = read(&set(), "nearside.test.Kinds").unwrap();
    let of =
        |schema: &Schema, path: &str| schema.json_names(&path.split('/').collect::<Vec<_>>()).map(|it| it.join("/"));
    for (path, printed) in [
        ("an_int32", "anInt32"),
        ("anInt32", "anInt32"),
        ("messages/a_message/anInt64", "messages/aMessage/anInt64"),
        ("by_string/some_key/anInt32", "byString/some_key/anInt32"),
        ("byString", "byString"),
        ("byInt32/7", "byInt32/7"),
        ("renamed", "@odd/name"),
        ("object/some_key/deeper", "object/some_key/deeper"),
        ("any/some_field", "any/some_field"),
        ("one_message/one_value/a_b", "oneMessage/oneValue/a_b"),
        ("legacy/inner/depth", "legacy/inner/depth"),
        ("legacy/[nearside.test.nickname]", "legacy/[nearside.test.nickname]"),
    ] {
        assert_eq!(of(&camel, path).as_deref(), Some(printed));
    }
    for unknown in
        ["nothing", "anInt32/x", "int32s/0", "timestamp/seconds", "wrappedInt64/value", "aMessage/x", "byInt32/7/x"]
    {
        assert_eq!(of(&camel, unknown), None, "{unknown}");
    }
    assert_eq!(camel.json_names(&[]), Some(Vec::new()));
}
