//! A change as DynamoDB's streaming to Kinesis writes it down: JSON with the attributes in
//! DynamoDB's own JSON, where bytes are base64.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::super::Change;
use super::attributes::{self, Attributes};
use crate::model::time::Wall;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StreamedRecord {
    event_name: String,
    dynamodb: StreamedItem,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StreamedItem {
    approximate_creation_date_time: f64,
    keys: HashMap<String, Value>,
    new_image: Option<HashMap<String, Value>>,
}

/// `None` if it is not the change of an item of ours.
pub(super) fn decode(data: &[u8]) -> Option<Change> {
    let record: StreamedRecord = serde_json::from_slice(data).ok()?;
    let key = attributes::to_key(&mut of_json(record.dynamodb.keys))?;
    let item = match (record.event_name.as_str(), record.dynamodb.new_image) {
        ("REMOVE", _) => None,
        ("INSERT" | "MODIFY", Some(image)) => Some(attributes::to_item(of_json(image))?),
        _ => return None,
    };
    let written = millis(record.dynamodb.approximate_creation_date_time);
    Some(Change { key, item, written: Wall::from_millis(written) })
}

/// The record is in milliseconds or microseconds as the destination was set up, and in seconds from
/// the emulator. No two of them are near each other between 1974 and 5138.
fn millis(time: f64) -> u64 {
    let millis = match time {
        seconds if seconds < 1e11 => seconds * 1e3,
        micros if micros > 1e14 => micros / 1e3,
        millis => millis,
    };
    millis as u64
}

fn of_json(attributes: HashMap<String, Value>) -> Attributes {
    attributes.into_iter().map(|(name, value)| (name, attribute(value))).collect()
}

/// Converts a value; what cannot be read becomes a null, which no attribute of ours may be: left
/// out, a body would be a tombstone.
fn attribute(mut value: Value) -> AttributeValue {
    let only = value.as_object_mut().and_then(|object| std::mem::take(object).into_iter().next());
    let read = match only {
        Some((kind, Value::String(text))) => match kind.as_str() {
            "S" => Some(AttributeValue::S(text)),
            "N" => Some(AttributeValue::N(text)),
            "B" => STANDARD.decode(text).ok().map(|bytes| AttributeValue::B(Blob::new(bytes))),
            _ => None,
        },
        _ => None,
    };
    read.unwrap_or(AttributeValue::Null(true))
}

#[cfg(test)]
mod tests {
    use super::super::super::{Item, ItemKey};
    use super::*;

    /// As AWS documents it, with the fields that are not read.
    fn record(event: &str, time: &str, image: &str) -> String {
        format!(
            r#"{{"awsRegion":"eu-west-1","eventID":"1","eventName":"{event}","userIdentity":null,
            "recordFormat":"application/json","tableName":"p-records","dynamodb":{{
            "ApproximateCreationDateTime":{time},"ApproximateCreationDateTimePrecision":"MILLISECOND",
            "Keys":{{"p":{{"S":"t#00"}},"s":{{"S":"k"}}}},{image}"SizeBytes":59}},"eventSource":"aws:dynamodb"}}"#
        )
    }

    const IMAGE: &str = r#""NewImage":{"p":{"S":"t#00"},"s":{"S":"k"},"version":{"N":"7"},"body":{"B":"AP97fQ=="},
        "note":{"S":"{}"},"expires":{"N":"12"},"somebody's":{"BOOL":true}},"#;

    #[test]
    fn put_change_carries_its_new_image() {
        let change = decode(record("MODIFY", "1640276115236", IMAGE).as_bytes()).unwrap();
        let item = Item::new(ItemKey::new("t#00", "k"), 7)
            .with_body(&b"\x00\xff{}"[..])
            .with_note("{}")
            .expiring(Wall::from_millis(12_000));
        let written = Wall::from_millis(1_640_276_115_236);
        assert_eq!(change, Change { key: item.key.clone(), item: Some(item), written });
    }

    #[test]
    fn a_removal_has_no_item() {
        let change = decode(record("REMOVE", "1640276115236", "").as_bytes()).unwrap();
        assert_eq!((change.key, change.item), (ItemKey::new("t#00", "k"), None));
    }

    #[test]
    fn time_is_read_in_every_unit() {
        for time in ["1640276115", "1640276115000", "1640276115000000", "1640276115.0"] {
            let change = decode(record("INSERT", time, IMAGE).as_bytes()).unwrap();
            assert_eq!(change.written, Wall::from_millis(1_640_276_115_000), "{time}");
        }
    }

    #[test]
    fn malformed_records_are_no_change() {
        let good = record("INSERT", "1640276115236", IMAGE);
        for (from, to) in [
            ("INSERT", "UPSERT"),
            (r#""s":{"S":"k"}}"#, r#""s":{"N":"1"}}"#),
            ("AP97fQ==", "not base64"),
            (r#"{"B":"AP97fQ=="}"#, r#"{"BOOL":true}"#),
            (r#"{"S":"{}"}"#, "{}"),
            (r#""N":"7""#, r#""N":"-7""#),
            ("NewImage", "OldImage"),
            ("awsRegion\":", "awsRegion\""),
        ] {
            assert!(good.contains(from), "{from}");
            assert_eq!(decode(good.replace(from, to).as_bytes()), None, "{from}");
        }
        assert_eq!(decode(b"\x00\xff"), None);
    }
}
