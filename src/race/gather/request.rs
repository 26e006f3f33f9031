//! Body of a request to a batch path: `{"keys": ["a", "b"]}`. A sidecar sends it to a region's node
//! too, which then says for each key what a GET would have said in its head, and wants the head of
//! each answer (`"headers": true`).

use crate::telemetry::metrics::requests::RefusalReason;
use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde::de::{DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::limits::{BATCH_BODY_BYTES, BATCH_KEYS};
use crate::config::record_floor::RECORD_FLOOR;

/// A batch, as it was asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct BatchRequest {
    /// Keys in the caller's order, duplicates included.
    pub keys: Vec<Wanted>,
    /// True if each part carries the header lines that a GET's answer would have.
    pub headers: bool,
}

/// One key, and what a GET of it would say in its head.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Wanted {
    pub key: String,
    /// `X-Record-Floor`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<String>,
    /// `Cache-Control`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<String>,
    /// `If-None-Match`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_none_match: Option<String>,
}

impl Wanted {
    pub fn of(key: &str) -> Self {
        Self { key: key.to_owned(), floor: None, cache_control: None, if_none_match: None }
    }

    /// True if it has nothing but its key.
    pub fn is_plain(&self) -> bool {
        let Self { key: _, floor, cache_control, if_none_match } = self;
        floor.is_none() && cache_control.is_none() && if_none_match.is_none()
    }

    /// Writes what it says into the head of its request.
    pub(crate) fn put(&self, headers: &mut HeaderMap) {
        for (name, value) in self.own() {
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                headers.insert(name, value);
            }
        }
    }

    fn own(&self) -> impl Iterator<Item = (HeaderName, Option<&str>)> {
        let values = [&self.floor, &self.cache_control, &self.if_none_match];
        OWN.into_iter().zip(values.map(Option::as_deref))
    }
}

/// The header lines that each key of a batch has for itself.
pub(super) const OWN: [HeaderName; 3] = [RECORD_FLOOR, header::CACHE_CONTROL, header::IF_NONE_MATCH];

/// Why a batch is refused. The caller has to fix it, unless said otherwise.
/// `request::answer` chooses the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("a batch is JSON; send Content-Type: application/json, without a content coding")]
    NotJson,
    /// The position tells what is wrong without repeating it.
    #[error("the body is no batch (line {line}, column {column}); write {{\"keys\": [\"a\", \"b\"]}}")]
    Malformed { line: usize, column: usize },
    #[error("more than {BATCH_KEYS} keys; send several batches")]
    ManyKeys,
    #[error("the body of a batch exceeds {BATCH_BODY_BYTES} bytes; send several batches")]
    Large,
    /// A retry may find room.
    #[error("the sidecar holds too many bytes of bodies; retry shortly")]
    NoRoom,
}

impl Refused {
    /// The reason, in metrics and problem types.
    pub const fn reason(self) -> RefusalReason {
        match self {
            Self::NotJson => RefusalReason::NotJson,
            Self::Malformed { .. } => RefusalReason::BadBatch,
            Self::ManyKeys => RefusalReason::ManyKeys,
            Self::Large => RefusalReason::LargeBatch,
            Self::NoRoom => RefusalReason::NoRoom,
        }
    }
}

/// Reads the body of a batch request that has these header lines.
///
/// # Errors
/// See [`Refused`].
pub fn read(headers: &HeaderMap, body: &[u8]) -> Result<BatchRequest, Refused> {
    if !is_json(headers) {
        return Err(Refused::NotJson);
    }
    if body.len() > BATCH_BODY_BYTES {
        return Err(Refused::Large);
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Written {
        keys: Keys,
        #[serde(default)]
        headers: bool,
    }
    let written: Written = serde_json::from_slice(body)
        .map_err(|error| Refused::Malformed { line: error.line(), column: error.column() })?;
    match written.keys {
        Keys::TooMany => Err(Refused::ManyKeys),
        Keys::These(keys) => Ok(BatchRequest { keys, headers: written.headers }),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut stated = headers.get_all(header::CONTENT_TYPE).iter();
    let coded = headers.get_all(header::CONTENT_ENCODING).iter();
    stated.next().is_some_and(|value| {
        let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
        essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
    }) && stated.next().is_none()
        && coded.into_iter().all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// At most [`BATCH_KEYS`] of them are held.
enum Keys {
    These(Vec<Wanted>),
    TooMany,
}

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Keys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of keys")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Keys, A::Error> {
                let mut keys = Vec::new();
                while let Some(key) = list.next_element_seed(OneKey)? {
                    if keys.len() == BATCH_KEYS {
                        // The rest need not be keys: it is too much in any case.
                        while list.next_element::<serde::de::IgnoredAny>()?.is_some() {}
                        return Ok(Keys::TooMany);
                    }
                    keys.push(key);
                }
                Ok(Keys::These(keys))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// `"a"`, or `{"key": "a", ...}`.
struct OneKey;

impl<'de> DeserializeSeed<'de> for OneKey {
    type Value = Wanted;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Wanted, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for OneKey {
    type Value = Wanted;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Wanted, E> {
        Ok(Wanted::of(key))
    }

    fn visit_string<E>(self, key: String) -> Result<Wanted, E> {
        Ok(Wanted { key, floor: None, cache_control: None, if_none_match: None })
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Wanted, A::Error> {
        let wanted = Wanted::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        let are_values =
            wanted.own().all(|(_, value)| value.is_none_or(|value| HeaderValue::from_str(value).is_ok()));
        if are_values { Ok(wanted) } else { Err(A::Error::custom("not a header's value")) }
    }
}
