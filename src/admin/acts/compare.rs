//! `compare`: what is stored of a path beside what each region says of it now. It shows versions,
//! digests, sizes and where contents differ; no content, no key and no credentials.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ActRefused;
use super::inspect::Look;
use super::target::{Pattern, Target};
use crate::admin::limits;
use crate::core::Core;
use crate::core::beside::beside;
use crate::http::admission::Head;
use crate::http::exchange::{Failure, Reply};
use crate::model::ids::Version;
use crate::payload::digest::digest;

/// What is asked for, as a caller would.
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
    /// What that means, in sentences.
    pub says: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredSeen {
    pub answered_by: String,
    pub age_s: u64,
    /// What it is good for now ([`super::inspect::EntrySeen::now`]).
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
    /// One for each record; empty where none is stated.
    pub versions: Vec<u64>,
    pub etag: Option<String>,
    pub bytes: u64,
    /// The digest of the decoded content, in hexadecimal.
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
    /// What that means, as a sentence.
    pub says: String,
}

impl WrittenPath {
    /// What it is about, without its query.
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
    let held = found.stored.as_ref().map(|entry| (entry.body(), digest(&entry.body(), &entry.headers())));
    let regions = found
        .ask(core, |reply| match reply {
            Ok(reply) => {
                let own = digest(&reply.body, &reply.headers);
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
            versions: seen.versions.iter().filter_map(|version| *version).collect(),
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
    let regions: Vec<RegionSays> = regions
        .into_iter()
        .map(|(id, reply)| region(core.regions.name(id).to_owned(), reply, stored.as_ref(), &floors))
        .collect();
    let says = verdict(stored.as_ref(), &regions);
    Ok(ComparedPath { stored, regions, says })
}

type Answered = (ContentSeen, Option<String>, Vec<String>);

fn answer(reply: &Reply, digest: u128) -> ContentSeen {
    let credible = |version: &&Version| **version != Version::NONE;
    ContentSeen {
        status: reply.status.as_u16(),
        versions: reply.versions.iter().filter(credible).map(|version| version.0).collect(),
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

fn region(name: String, reply: Result<Answered, Failure>, stored: Option<&StoredSeen>, floors: &[u64]) -> RegionSays {
    let (content, age, differs_at) = match reply {
        Ok(answered) => answered,
        Err(failure) => {
            let says = format!("it did not answer: {failure}");
            let failure = Some(failure.word().to_owned());
            return RegionSays { region: name, failure, content: None, age: None, differs_at: Vec::new(), says };
        }
    };
    let says = meaning(&content, stored.map(|stored| &stored.content), floors);
    RegionSays { region: name, failure: None, content: Some(content), age, differs_at, says }
}

/// What one region's reply means beside what is stored and what was announced or served.
fn meaning(content: &ContentSeen, stored: Option<&ContentSeen>, floors: &[u64]) -> String {
    let below = |versions: &[u64], floors: &[u64]| versions.iter().zip(floors).any(|(shown, floor)| shown < floor);
    if content.versions.len() == floors.len() && below(&content.versions, floors) {
        return "it lags: something newer was announced or served".to_owned();
    }
    let Some(stored) = stored else { return "nothing is stored to compare it with".to_owned() };
    if content.status != stored.status {
        return format!("it says {}, and {} is stored", content.status, stored.status);
    }
    let is_versioned = !content.versions.is_empty() && content.versions.len() == stored.versions.len();
    let is_same = content.digest == stored.digest;
    match is_versioned {
        true if below(&stored.versions, &content.versions) => {
            "it has a newer version, and nobody announced it here: what is stored is old".to_owned()
        }
        true if below(&content.versions, &stored.versions) => "it lags: what is stored is newer".to_owned(),
        true if is_same => "the same version and content".to_owned(),
        true => {
            "the same version with other content: a version has to cover everything that a reply shows".to_owned()
        }
        false if is_same => "the same content".to_owned(),
        false => "other content, and no version says which of them is newer".to_owned(),
    }
}

/// What to do next.
fn verdict(stored: Option<&StoredSeen>, regions: &[RegionSays]) -> Vec<String> {
    if stored.is_none() {
        return vec![
            "nothing is stored for this caller: the next read asks the regions; give --header what callers send, Accept \
             and credentials included (nearside ctl inspect --path shows whatever is stored of the path)"
                .to_owned(),
        ];
    }
    let any = |what: &str| regions.iter().any(|region| region.says.contains(what));
    if any("nobody announced it here") || any("with other content") || any("other content, and no version") {
        let advice = "`nearside ctl refresh --path PATH` mends this one now; the findings in /status and `nearside \
                      doctor --path PATH` say why it was not noticed";
        return vec![advice.to_owned()];
    }
    if any("it lags") {
        return vec![
            "what is stored is the newest that is known: the data is old in the region, not here".to_owned(),
        ];
    }
    vec!["what is stored is what the regions say: if it is old, it is old at the source".to_owned()]
}

/// Where two JSON documents differ; empty if one of them is none.
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

    fn content(version: u64, digest: &str) -> ContentSeen {
        let versions = if version == 0 { vec![] } else { vec![version] };
        ContentSeen { status: 200, versions, etag: None, bytes: 1, digest: digest.to_owned() }
    }

    #[test]
    fn each_region_is_told_by_version_then_content() {
        let says = |content: &ContentSeen, floor| meaning(content, Some(&self::content(5, "a")), &[floor]);
        assert_eq!(says(&content(5, "a"), 5), "the same version and content");
        assert!(says(&content(5, "b"), 5).contains("with other content"));
        assert!(says(&content(6, "b"), 5).contains("what is stored is old"));
        assert!(says(&content(4, "b"), 5).starts_with("it lags: something newer was announced"));
        assert!(says(&content(4, "b"), 0).starts_with("it lags: what is stored"));
        assert!(says(&content(0, "b"), 0).contains("no version says"));
        assert!(says(&ContentSeen { status: 404, ..content(0, "b") }, 0).contains("it says 404, and 200 is stored"));
    }

    #[test]
    fn pointers_say_where_and_never_what() {
        let at = |one: &str, other: &str| pointers(one.as_bytes(), other.as_bytes());
        assert_eq!(at(r#"{"a":1,"b":{"c/d":[1,2]}}"#, r#"{"a":1,"b":{"c/d":[1,3]},"e":1}"#), ["/b/c~1d/1", "/e"]);
        assert_eq!(at("[1]", "[1,2]"), ["(all of it)"]);
        assert_eq!(at("no json", "{}"), [""; 0]);
    }
}
