//! Descriptor sets that are no schema, and what a schema calls its fields.

use prost::Message;

use super::*;

fn set() -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/payload");
    protox::compile(["kinds.proto"], [folder]).unwrap().encode_to_vec()
}

fn read(set: &[u8], message: &str) -> Result<Schema, SchemaError> {
    Schema::read(set, message, Printing::default())
}

#[test]
fn a_mistake_says_what_to_do() {
    let said = |set: &[u8], message: &str| read(set, message).unwrap_err().to_string();
    for no_set in [&b"syntax = \"proto3\";"[..], b"", b"{}"] {
        let said = said(no_set, "acme.v1.Context");
        assert!(said.contains("is no descriptor set") && said.contains("--descriptor_set_out"), "{said}");
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/payload");
    let mut compiler = protox::Compiler::new([folder]).unwrap();
    compiler.open_file("kinds.proto").unwrap();
    let alone = said(&compiler.file_descriptor_set().encode_to_vec(), "nearside.test.Kinds");
    assert!(alone.starts_with("lacks google.protobuf.") && alone.contains("--include_imports"), "{alone}");
    assert!(said(&vec![0; limits::SCHEMA_BYTES + 1], "a").contains("leave out"));
}

#[test]
fn of_a_message_that_is_not_there_the_nearest_is_named() {
    let said = |message: &str| read(&set(), message).unwrap_err().to_string();
    for near in ["nearside.test.Kind", "acme.v1.Kinds", "Kinds", "nearside.test.kinds"] {
        let expected = format!("has no message {near:?}; did you mean \"nearside.test.Kinds\"?");
        assert_eq!(said(near), expected);
    }
    assert!(said("nearside.test.Kinds.ByStringEntry").contains("did you mean"), "an entry of a map is no message");
}

#[test]
fn an_id_is_the_same_everywhere_and_another_for_each_part_of_it() {
    let set = include_bytes!("../../../tests/payload/editions.binpb");
    let id = |message: &str, names, defaults| Schema::read(set, message, Printing { names, defaults }).unwrap().id();
    let first = id("nearside.editions.Edition", Names::Camel, false);
    assert_eq!(first, 4_161_858_802_618_594_516, "another number here makes every derived ETag of today another one");
    let others =
        [id("nearside.editions.Edition", Names::Proto, false), id("nearside.editions.Edition", Names::Camel, true)];
    assert!(others[0] != first && others[1] != first && others[0] != others[1]);
    let kinds = super::tests::set();
    let of = |message: &str| read(&kinds, message).unwrap().id();
    assert_ne!(of("nearside.test.Kinds"), of("nearside.test.Legacy"));
}

#[test]
fn a_path_becomes_the_names_that_json_prints() {
    let camel = read(&set(), "nearside.test.Kinds").unwrap();
    let proto =
        Schema::read(&set(), "nearside.test.Kinds", Printing { names: Names::Proto, defaults: false }).unwrap();
    let of =
        |schema: &Schema, path: &str| schema.json_names(&path.split('/').collect::<Vec<_>>()).map(|it| it.join("/"));
    for (path, in_camel, in_proto) in [
        ("an_int32", "anInt32", "an_int32"),
        ("anInt32", "anInt32", "an_int32"),
        ("messages/a_message/anInt64", "messages/aMessage/anInt64", "messages/a_message/an_int64"),
        ("by_string/some_key/anInt32", "byString/some_key/anInt32", "by_string/some_key/an_int32"),
        ("byString", "byString", "by_string"),
        ("byInt32/7", "byInt32/7", "by_int32/7"),
        ("renamed", "@odd/name", "renamed"),
        ("object/some_key/deeper", "object/some_key/deeper", "object/some_key/deeper"),
        ("any/some_field", "any/some_field", "any/some_field"),
        ("one_message/one_value/a_b", "oneMessage/oneValue/a_b", "one_message/one_value/a_b"),
        ("legacy/inner/depth", "legacy/inner/depth", "legacy/inner/depth"),
        ("legacy/[nearside.test.nickname]", "legacy/[nearside.test.nickname]", "legacy/[nearside.test.nickname]"),
    ] {
        assert_eq!(of(&camel, path).as_deref(), Some(in_camel));
        assert_eq!(of(&proto, path).as_deref(), Some(in_proto));
    }
    for unknown in
        ["nothing", "anInt32/x", "int32s/0", "timestamp/seconds", "wrappedInt64/value", "aMessage/x", "byInt32/7/x"]
    {
        assert_eq!(of(&camel, unknown), None, "{unknown}");
    }
    assert_eq!(camel.json_names(&[]), Some(Vec::new()));
}
