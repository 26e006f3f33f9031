//! `compare`: what is stored of a path beside what each region says of it now. It shows versions,
//! digests, sizes and where contents differ; no content, no key and no credentials.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod verdict;

use self::verdict::Meaning;
use super::ActRefused;
use super::inspect::Look;
use super::target::{Pattern, Target};
use crate::admin::limits;
use crate::core::Core;
use crate::core::beside::beside;
use crate::http::admission::Head;
use crate::http::exchange::{Failure, Reply};
use crate::model::ids::Version;
use crate::payload::digest::{digest, digest_of_meaning};

/// A request as a caller would send it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenPath {
    pub path: String,
    /// Names and values.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ComparedPath {
    /// Why it counts as it does, as `inspect` says it; `None` if nothing is stored.
    pub stored: Option<StoredSeen>,
    pub regions: Vec<RegionSays>,
    /// Meaning of all that, and what to do, in sentences.
    pub says: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredSeen {
    pub answered_by: String,
    pub age_s: u64,
    /// Its use now ([`super::inspect::EntrySeen::now`]).
    pub now: String,
    /// For how many more seconds it holds; negative once its time is over.
    pub holds_s: Option<i64>,
    pub bound_s: Option<u64>,
    pub content: ContentSeen,
    /// Why it counts as it does.
    pub says: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContentSeen {
    pub status: u16,
    /// One for each record, 0 where none is stated; empty where none is stated at all.
    pub versions: Vec<u64>,
    pub etag: Option<String>,
    pub bytes: u64,
    /// The digest of the decoded content, of JSON by what it means, in hexadecimal.
    pub digest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RegionSays {
    pub region: String,
    /// Why there is no reply.
    pub failure: Option<String>,
    pub content: Option<ContentSeen>,
    /// The `Age` that it states.
    pub age: Option<String>,
    /// JSON pointers to where its content differs from what is stored, at most
    /// `COMPARED_POINTERS`.
    pub differs_at: Vec<String>,
    /// Meaning of the reply, as a sentence.
    pub says: String,
}

impl WrittenPath {
    /// Paths that it is about, without its query.
    pub(super) fn target(&self) -> Result<Target, ActRefused> {
        let path = self.path.split('?').next().unwrap_or_default();
        Pattern::read(path).map(Target::Paths)
    }

    pub(super) fn headers(&self) -> Result<HeaderMap, ActRefused> {
        if !self.path.starts_with('/') || self.path.parse::<http::uri::PathAndQuery>().is_err() {
            return Err(ActRefused::Malformed(
                "write the path from its first slash, with its query, such as \"/v1/contexts/acme\"".to_owned(),
            ));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let read = name.parse::<HeaderName>().ok().zip(value.parse::<HeaderValue>().ok());
            let (name, value) = read.ok_or_else(|| {
                ActRefused::Malformed("write a header as a name and a value: [\"X-Tenant\", \"acme\"]".to_owned())
            })?;
            headers.append(name, value);
        }
        // As curl and most clients do: `Accept` tells entries apart.
        headers.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        // What is stored must not be the answer.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(headers)
    }
}

pub(super) async fn compare(core: &Arc<Core>, written: &WrittenPath) -> Result<ComparedPath, ActRefused> {
    let headers = written.headers()?;
    let path = written.path.as_str();
    let path_len = path.find('?').unwrap_or(path.len());
    let head = Head { method: &Method::GET, path_and_query: path, path_len, headers: &headers };
    let found = beside(core, head).ok_or_else(|| {
        ActRefused::Malformed(
            "no route names this path, or the sidecar refuses it by itself: nearside explain PATH".to_owned(),
        )
    })?;
    let held = found.stored.as_ref().map(|entry| (entry.body(), digest_of(&entry.body(), &entry.headers())));
    let regions = found
        .ask(core, |reply| match reply {
            Ok(reply) => {
                let own = digest_of(&reply.body, &reply.headers);
                let differs = held.as_ref().filter(|(_, stored)| *stored != own);
                let at = differs.map(|(body, _)| pointers(body, &reply.body)).unwrap_or_default();
                Ok((answer(&reply, own), age(&reply.headers), at))
            }
            Err(failure) => Err(failure),
        })
        .await;
    let horizon = core.freshness.horizon();
    let look = Look { sidecar: core, horizon: &horizon, now: core.clock.now() };
    let floors: Vec<u64> = found.records.iter().map(|id| look.floor(*id).0).collect();
    let stored = found.stored.as_ref().map(|entry| {
        let seen = look.entry(&found.key, entry);
        let age = entry.age(look.now);
        let (body, digest) = held.as_ref().expect("what is stored was read above");
        let content = ContentSeen {
            status: seen.status,
            versions: stated(seen.versions.iter().copied()),
            etag: text(&entry.headers(), &header::ETAG),
            bytes: body.len() as u64,
            digest: format!("{digest:032x}"),
        };
        let bound_s = entry.hold.routed().and_then(|routed| {
            let worst_lag = core.config.freshness.worst_lag;
            crate::protocol::standing::bound(routed, age, &horizon, look.now, worst_lag)
        });
        StoredSeen {
            answered_by: seen.answered_by,
            age_s: age.as_secs(),
            now: seen.now,
            holds_s: seen.holds_s,
            bound_s,
            content,
            says: seen.says,
        }
    });
    let beside = stored.as_ref().map(|stored| &stored.content);
    let (regions, meanings): (Vec<_>, Vec<_>) = regions
        .into_iter()
        .map(|(id, reply)| region(core.regions.name(id).to_owned(), reply, beside, &floors))
        .unzip();
    let says = verdict::verdict(beside, &floors, &meanings).into_iter().map(str::to_owned).collect();
    Ok(ComparedPath { stored, regions, says })
}

/// As R23 compares contents: JSON by what it means.
fn digest_of(body: &Bytes, headers: &HeaderMap) -> u128 {
    digest_of_meaning(body, headers).unwrap_or_else(|| digest(body, headers))
}

type Answered = (ContentSeen, Option<String>, Vec<String>);

fn answer(reply: &Reply, digest: u128) -> ContentSeen {
    let credible = |version: &Version| Some(version.0).filter(|_| version.is_credible());
    ContentSeen {
        status: reply.status.as_u16(),
        versions: stated(reply.versions.iter().map(credible)),
        etag: text(&reply.headers, &header::ETAG),
        bytes: reply.body.len() as u64,
        digest: format!("{digest:032x}"),
    }
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

fn age(headers: &HeaderMap) -> Option<String> {
    text(headers, &header::AGE)
}

fn region(
    name: String,
    reply: Result<Answered, Failure>,
    stored: Option<&ContentSeen>,
    floors: &[u64],
) -> (RegionSays, Meaning) {
    let status = stored.map(|stored| stored.status);
    let (content, age, differs_at) = match reply {
        Ok(answered) => answered,
        Err(failure) => {
            let says = format!("{}: {failure}", Meaning::Unanswered.text(0, status));
            let failure = Some(failure.word().to_owned());
            let says = RegionSays { region: name, failure, content: None, age: None, differs_at: Vec::new(), says };
            return (says, Meaning::Unanswered);
        }
    };
    let meaning = verdict::meaning(&content, stored, floors);
    let says = meaning.text(content.status, status);
    (RegionSays { region: name, failure: None, content: Some(content), age, differs_at, says }, meaning)
}

/// One for each record, 0 where none is stated; empty where none is stated at all.
fn stated(versions: impl Iterator<Item = Option<u64>>) -> Vec<u64> {
    let versions: Vec<_> = versions.map(Option::unwrap_or_default).collect();
    if versions.iter().all(|version| *version == 0) { Vec::new() } else { versions }
}

/// Places where two JSON documents differ; empty if one of them is none.
fn pointers(stored: &[u8], other: &[u8]) -> Vec<String> {
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
    let mut found = Vec::new();
    if let Some((stored, other)) = read(stored).zip(read(other)) {
        differ(&stored, &other, &mut String::new(), &mut found);
    }
    found
}

/// serde_json reads at most 128 levels, and this follows no more.
fn differ(one: &Value, other: &Value, at: &mut String, found: &mut Vec<String>) {
    if found.len() >= limits::COMPARED_POINTERS || one == other {
        return;
    }
    let whole = at.len();
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for name in one.keys().chain(other.keys().filter(|name| !one.contains_key(*name))) {
                at.push('/');
                at.push_str(&name.replace('~', "~0").replace('/', "~1"));
                differ(one.get(name).unwrap_or(&Value::Null), other.get(name).unwrap_or(&Value::Null), at, found);
                at.truncate(whole);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (place, (one, other)) in one.iter().zip(other).enumerate() {
                at.push_str(&format!("/{place}"));
                differ(one, other, at, found);
                at.truncate(whole);
            }
        }
        _ => found.push(if at.is_empty() { "(all of it)".to_owned() } else { at.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_say_where_and_never_what() {
        let at = |one: &str, other: &str| pointers(one.as_bytes(), other.as_bytes());
        assert_eq!(at(r#"{"a":1,"b":{"c/d":[1,2]}}"#, r#"{"a":1,"b":{"c/d":[1,3]},"e":1}"#), ["/b/c~1d/1", "/e"]);
        assert_eq!(at("[1]", "[1,2]"), ["(all of it)"]);
        assert_eq!(at("no json", "{}"), [""; 0]);
    }
}
