//! Request to a region for many keys at once, and the parts of its answer.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::limits::BATCH_KEYS;
use super::request::{OWN, Wanted};
use crate::config::grants_version::GRANTS_VERSION;
use crate::http::client::incoming;
use crate::http::exchange::Outgoing;
use crate::http::fields::into_end_to_end;
use crate::model::ids::Version;

/// True if two requests may share a batch: they differ only in what each key says for itself.
pub(super) fn go_together(one: &HeaderMap, other: &HeaderMap) -> bool {
    common_headers(one) == common_headers(other)
        && one.keys().all(|name| OWN.contains(name) || one.get_all(name).iter().eq(other.get_all(name).iter()))
}

/// Number of headers that apply to all keys of a batch.
fn common_headers(headers: &HeaderMap) -> usize {
    headers.keys().filter(|name| !OWN.contains(name)).count()
}

/// One request for all these keys, whose own requests have these header lines.
pub(super) fn request(target: &str, items: &[(&str, &HeaderMap)]) -> Outgoing {
    let mut headers = items.first().map(|(_, headers)| HeaderMap::clone(headers)).unwrap_or_default();
    OWN.iter().for_each(|name| drop(headers.remove(name)));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let [floor, cache_control, if_none_match] = &OWN;
    let keys: Vec<_> = items
        .iter()
        .map(|(key, headers)| Wanted {
            key: (*key).to_owned(),
            floor: text_of(headers, floor),
            cache_control: text_of(headers, cache_control),
            if_none_match: text_of(headers, if_none_match),
        })
        .collect();
    let body = serde_json::json!({ "keys": keys, "headers": true }).to_string().into();
    Outgoing { method: Method::POST, path_and_query: target.to_owned(), headers, body }
}

fn text_of(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// One key's part of a region's answer.
#[derive(Debug)]
pub struct PartReply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub versions: Vec<Version>,
}

/// The parts of a region's answer for these keys, in their order. One that is missing, is of
/// another key or cannot be read is `None`.
pub fn parts(body: &[u8], keys: &[Arc<str>], version_header: &HeaderName) -> Vec<Option<PartReply>> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        parts: Parts<'a>,
    }
    let Ok(Answer { parts }) = serde_json::from_slice(body) else { return Vec::new() };
    keys.iter().zip(parts.0).map(|(key, part)| read(part, key, version_header)).collect()
}

/// At most [`BATCH_KEYS`] of them are held.
struct Parts<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Parts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Parts<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of parts")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Parts<'de>, A::Error> {
                let mut parts = Vec::new();
                while parts.len() < BATCH_KEYS {
                    match list.next_element()? {
                        Some(part) => parts.push(part),
                        None => return Ok(Parts(parts)),
                    }
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Parts(parts))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

fn read(part: &RawValue, key: &str, version_header: &HeaderName) -> Option<PartReply> {
    #[derive(Deserialize)]
    struct Stated<'a> {
        #[serde(borrow)]
        key: Cow<'a, str>,
        status: u16,
        headers: Vec<(String, String)>,
        #[serde(borrow, default)]
        encoding: Option<Cow<'a, str>>,
        #[serde(borrow, default, deserialize_with = "there")]
        body: Option<&'a RawValue>,
    }
    let stated: Stated<'_> = serde_json::from_str(part.get()).ok().filter(|stated: &Stated<'_>| stated.key == key)?;
    let mut headers = HeaderMap::with_capacity(stated.headers.len());
    for (name, value) in &stated.headers {
        // Each character stands for a byte, as in the other direction.
        let value: Vec<u8> = value.chars().map(u8::try_from).collect::<Result<_, _>>().ok()?;
        headers.append(HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(&value).ok()?);
    }
    let body = match (stated.body, stated.encoding.as_deref()) {
        // A copy: the answer as a whole is not kept for one of its parts.
        (Some(body), None) => Bytes::copy_from_slice(body.get().as_bytes()),
        (Some(body), Some("base64")) => {
            STANDARD.decode(serde_json::from_str::<Cow<'_, str>>(body.get()).ok()?.as_bytes()).ok()?.into()
        }
        (Some(_), Some(_)) => return None,
        (None, _) => Bytes::new(),
    };
    let status = StatusCode::from_u16(stated.status).ok()?;
    let length = headers.get(header::CONTENT_LENGTH).filter(|_| status != StatusCode::NOT_MODIFIED);
    if length.is_some_and(|length| length.as_bytes() != body.len().to_string().as_bytes()) {
        return None;
    }
    let versions = incoming::versions(&headers, version_header);
    // The answer around the parts states it.
    headers.remove(&GRANTS_VERSION);
    Some(PartReply { status, headers: into_end_to_end(headers), body, versions })
}

/// A body that is `null` is a body.
fn there<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}
