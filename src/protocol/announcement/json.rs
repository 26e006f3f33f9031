//! Proto3 JSON of `nearside.v1.Announcement`: what `pbjson` would generate, for one flat message.
//! Names are in lowerCamel or as in the .proto file, 64-bit integers are strings or numbers, enums
//! are names or numbers, null is the default, and unknown fields are ignored (the Protobuf guide,
//! "ProtoJSON format").

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use prost_types::Timestamp;
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::undecodable::Undecodable;
use super::wire;
use crate::model::decimal;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Read {
    #[serde(rename = "recordType", alias = "record_type")]
    record_type: Option<String>,
    key: Option<String>,
    version: Option<Int64>,
    kind: Option<KindOf>,
    publisher: Option<String>,
    sequence: Option<Int64>,
    #[serde(rename = "ingestedAt", alias = "ingested_at")]
    ingested_at: Option<Time>,
    #[serde(rename = "ingestedThrough", alias = "ingested_through")]
    ingested_through: Option<Time>,
    #[serde(rename = "signingOff", alias = "signing_off")]
    signing_off: Option<bool>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    record_type: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    publisher: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ingested_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ingested_through: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    signing_off: bool,
}

/// The names of [`Read`]'s fields, as they are written.
pub(crate) const NAMES: [&str; 9] =
    ["recordType", "key", "version", "kind", "publisher", "sequence", "ingestedAt", "ingestedThrough", "signingOff"];

/// The names in the .proto file, where they differ.
const ALIASES: [&str; 4] = ["record_type", "ingested_at", "ingested_through", "signing_off"];

/// Reads one JSON object. serde's own message may quote the content, so only its class and the
/// field's name are kept.
pub(crate) fn read(text: &str) -> Result<wire::Announcement, Undecodable> {
    let read: Read = serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Undecodable::WrongType(wrong_one(text)),
        _ => Undecodable::NotJson,
    })?;
    let kind = match read.kind {
        None => wire::Kind::Unspecified.into(),
        Some(KindOf::Number(number)) => number,
        Some(KindOf::Unknown) => return Err(Undecodable::UnknownKind),
    };
    Ok(wire::Announcement {
        record_type: read.record_type.unwrap_or_default(),
        key: read.key.unwrap_or_default(),
        version: read.version.map_or(0, |version| version.0),
        kind,
        publisher: read.publisher.unwrap_or_default(),
        sequence: read.sequence.map_or(0, |sequence| sequence.0),
        ingested_at: read.ingested_at.map(|time| time.0),
        ingested_through: read.ingested_through.map(|time| time.0),
        signing_off: read.signing_off.unwrap_or_default(),
    })
}

/// The fields of a message, still as text. A parsed value may take many times the memory of its
/// text, so none is made.
type Fields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// The first field that cannot be read on its own.
fn wrong_one(text: &str) -> &'static str {
    let all: Fields<'_> = serde_json::from_str(text).unwrap_or_default();
    NAMES
        .into_iter()
        .chain(ALIASES)
        .find(|name| {
            all.get(*name)
                .is_some_and(|value| serde_json::from_str::<Read>(&format!("{{\"{name}\":{value}}}")).is_err())
        })
        .unwrap_or("a field")
}

pub(crate) fn unknown_names(text: &str) -> Vec<String> {
    let all: Fields<'_> = serde_json::from_str(text).unwrap_or_default();
    all.into_keys().filter(|name| !is_known(name)).map(Cow::into_owned).collect()
}

fn is_known(name: &str) -> bool {
    NAMES.iter().chain(&ALIASES).any(|known| *known == name)
}

/// Writes one JSON object: lowerCamel names, 64-bit integers as strings, defaults left out.
pub(crate) fn write(wire: &wire::Announcement) -> String {
    let written = Written {
        record_type: &wire.record_type,
        key: &wire.key,
        version: nonzero(wire.version),
        kind: wire.kind().as_str_name(),
        publisher: &wire.publisher,
        sequence: nonzero(wire.sequence),
        ingested_at: wire.ingested_at.map(|time| time.to_string()),
        ingested_through: wire.ingested_through.map(|time| time.to_string()),
        signing_off: wire.signing_off,
    };
    serde_json::to_string(&written).expect("strings and booleans always serialise")
}

fn nonzero(number: i64) -> Option<String> {
    (number != 0).then(|| number.to_string())
}

/// A 64-bit integer: a JSON number without a fraction, or a string that holds one.
struct Int64(i64);

impl<'de> Deserialize<'de> for Int64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As it is written: serde_json makes a double of a number with a point or an exponent.
        let text = <&RawValue>::deserialize(deserializer)?.get();
        let number = match text.as_bytes().first() {
            Some(b'"') => text.trim_matches('"').parse().ok().or_else(|| unescaped(text)?.parse().ok()),
            Some(b'-' | b'0'..=b'9') => decimal::integer(text).and_then(|number| number.try_into().ok()),
            _ => None,
        };
        number.map(Self).ok_or_else(|| D::Error::custom("not a 64-bit integer, nor a string that holds one"))
    }
}

fn unescaped(text: &str) -> Option<String> {
    serde_json::from_str(text).ok()
}

/// An enum by name or number.
enum KindOf {
    Number(i32),
    Unknown,
}

impl<'de> Deserialize<'de> for KindOf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KindVisitor)
    }
}

struct KindVisitor;

impl Visitor<'_> for KindVisitor {
    type Value = KindOf;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a kind's name or number")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<KindOf, E> {
        Ok(i32::try_from(number).map_or(KindOf::Unknown, KindOf::Number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<KindOf, E> {
        Ok(i32::try_from(number).map_or(KindOf::Unknown, KindOf::Number))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<KindOf, E> {
        Ok(wire::Kind::from_str_name(name).map_or(KindOf::Unknown, |kind| KindOf::Number(kind.into())))
    }
}

/// An RFC 3339 time.
struct Time(Timestamp);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|_| D::Error::custom("not an RFC 3339 time"))
    }
}
