//! The two forms of a record, from bytes that nobody would write, and what differs between two
//! readings of it.

use std::sync::OnceLock;

use nearside::payload::compare::{Compared, Format, Side, compare};
use nearside::payload::schema::Schema;
use prost::Message;

fn schemas() -> &'static [Schema; 2] {
    static READ: OnceLock<[Schema; 2]> = OnceLock::new();
    READ.get_or_init(|| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/payload");
        let set = protox::compile(["kinds.proto"], [folder]).expect("the tests' schema compiles").encode_to_vec();
        ["Kinds", "Legacy"]
            .map(|message| Schema::read(&set, &format!("nearside.test.{message}")).expect("it has the message"))
    })
}

/// The first byte says the schema and the form, the rest is the record. What converts converts back
/// without anything unknown, and from then on both forms stay as they are, and are the same to who
/// compares them.
pub(crate) fn reflection(data: &[u8]) {
    let Some((first, record)) = data.split_first() else { return };
    let schema = &schemas()[usize::from(first >> 1) % 2];
    differences(record, schema);
    let protobuf = match first & 1 {
        0 => record.to_vec(),
        _ => match schema.to_protobuf(record) {
            Ok(made) => made.body,
            Err(error) => return assert!(!error.to_string().is_empty()),
        },
    };
    let json = match schema.to_json(&protobuf) {
        Ok(made) => made,
        Err(error) => return assert!(first & 1 == 0, "what was made of JSON is JSON: {error}"),
    };
    assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&json.body).is_ok(), "it is JSON to others too");
    let back = schema.to_protobuf(&json.body).expect("what converts converts back");
    assert_eq!(back.unknown_fields, 0);
    let again = schema.to_json(&back.body).expect("and forth again");
    assert_eq!((again.unknown_fields, &again.body), (0, &json.body));
    let (one, other) = (side(Format::Json, &json.body), side(Format::Protobuf, &back.body));
    assert_eq!(compare(one, other, Some(schema)), Compared::Same, "two forms of one record");
}

fn side(format: Format, body: &[u8]) -> Side<'_> {
    Side { format, body }
}

/// Any two bodies can be compared, in any formats, and it is the same from the other side.
fn differences(record: &[u8], schema: &Schema) {
    let formats = [Format::Json, Format::Protobuf, Format::Otherwise];
    let (first, second) = record.split_at(record.len() / 2);
    for (one, other) in formats.iter().flat_map(|one| formats.map(|other| (*one, other))) {
        for schema in [None, Some(schema)] {
            let (there, back) = (side(one, first), side(other, second));
            let (there, back) = (compare(there, back, schema), compare(back, there, schema));
            assert_eq!(there == Compared::Same, back == Compared::Same);
            assert_eq!(there == Compared::Unreadable, back == Compared::Unreadable);
        }
    }
}
