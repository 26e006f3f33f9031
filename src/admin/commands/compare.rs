//! `compare`: what is stored of a path beside what each region says of it now. It shows versions,
//! digests, sizes and where contents differ, in names of fields; no content, no key and no
//! credentials.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde::{Deserialize, Serialize};

mod content;
mod verdict;

pub(crate) use self::content::ContentSeen;
use self::verdict::Meaning;
use super::inspect::Look;
use super::refused::CommandRefused;
use super::target::{Pattern, Target};
use crate::admin::limits;
use crate::http::admission::Head;
use crate::http::exchange::{Failure, Reply};
use crate::migration::comparison::Coded;
use crate::payload::compare::Differences;
use crate::payload::digest::{digest, digest_of_meaning};
use crate::request::beside::{NotBeside, beside};
use crate::request::settings::Settings;

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
    /// The caller's headers that make its requests be passed on: nothing that is stored is for it.
    #[serde(default)]
    pub passed_for: Vec<String>,
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
pub(crate) struct RegionSays {
    pub region: String,
    /// Why there is no reply.
    pub failure: Option<String>,
    pub content: Option<ContentSeen>,
    /// The `Age` that it states.
    pub age: Option<String>,
    /// JSON pointers to where its content differs from what is stored, with `*` for indices and for
    /// keys of maps; at most `COMPARED_POINTERS`.
    pub differs_at: Vec<String>,
    /// Meaning of the reply, as a sentence.
    pub says: String,
}

impl WrittenPath {
    /// Paths that it is about, without its query.
    pub(super) fn target(&self) -> Result<Target, CommandRefused> {
        let path = self.path.split('?').next().unwrap_or_default();
        Pattern::read(path).map(Target::Paths)
    }

    pub(super) fn headers(&self) -> Result<HeaderMap, CommandRefused> {
        if !self.path.starts_with('/') || self.path.parse::<http::uri::PathAndQuery>().is_err() {
            return Err(CommandRefused::Malformed(
                "write the path from its first slash, with its query, such as \"/v1/contexts/acme\"".to_owned(),
            ));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let read = name.parse::<HeaderName>().ok().zip(value.parse::<HeaderValue>().ok());
            let (name, value) = read.ok_or_else(|| {
                CommandRefused::Malformed("write a header as a name and a value: [\"X-Tenant\", \"acme\"]".to_owned())
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

pub(super) async fn compare(settings: &Arc<Settings>, written: &WrittenPath) -> Result<ComparedPath, CommandRefused> {
    let headers = written.headers()?;
    let path = written.path.as_str();
    let path_len = path.find('?').unwrap_or(path.len());
    let head = Head { method: &Method::GET, path_and_query: path, path_len, headers: &headers };
    let found = beside(settings, head).map_err(refused)?;
    let held = found.stored.as_ref().map(|(_, entry)| {
        let (headers, body) = (entry.headers(), entry.body());
        let digest = digest_of(&body, &headers);
        (headers, body, digest)
    });
    let regions = found
        .ask(|reply| {
            reply.map(|reply| {
                let own = digest_of(&reply.body, &reply.headers);
                let differs = held.as_ref().filter(|(.., stored)| *stored != own);
                let at = differs.and_then(|(headers, body, _)| found.differences(Coded { headers, body }, &reply));
                (answer(&reply, own), age(&reply.headers), at.map(|at| pointers(&at)).unwrap_or_default())
            })
        })
        .await;
    let region_views = settings.fill.shared.freshness.region_views();
    let look = Look { sidecar: settings, region_views: &region_views, now: settings.fill.shared.clock.now() };
    let floors: Vec<u64> = found.records.iter().map(|id| look.floor(*id).0).collect();
    let stored = found.stored.as_ref().map(|(key, entry)| {
        let seen = look.entry(key, entry);
        let age = entry.age(look.now);
        let (_, body, digest) = held.as_ref().expect("what is stored was read above");
        let content = ContentSeen {
            status: seen.status,
            versions: stated(seen.versions.iter().copied()),
            etag: text(&entry.headers(), &header::ETAG),
            bytes: body.len() as u64,
            digest: format!("{digest:032x}"),
        };
        let worst_lag = settings.fill.config.freshness.worst_lag;
        let bound_s = entry.assess(&region_views, look.now).and_then(|found| found.bound(age, worst_lag));
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
        .map(|(id, reply)| region(settings.fill.regions.name(id).to_owned(), reply, beside, &floors))
        .unzip();
    let passed_for: Vec<String> = found.passed_for.iter().map(HeaderName::to_string).collect();
    let mut says = verdict::verdict(beside, &passed_for, &floors, &meanings);
    if found.is_candidate {
        says.insert(
            0,
            "its route's candidate answers for this record, and was asked: `nearside explain PATH`".into(),
        );
    }
    Ok(ComparedPath { stored, regions, passed_for, says })
}

fn refused(why: NotBeside) -> CommandRefused {
    CommandRefused::Malformed(match why {
        NotBeside::Refused => {
            "no route names this path, or the sidecar refuses it by itself: nearside explain PATH".to_owned()
        }
        NotBeside::Part => {
            "a request with a range, or with a condition that only a region can judge, is passed on to one \
                            region; leave Range, If-Range, If-Match and If-Unmodified-Since out to compare the whole"
                .to_owned()
        }
        NotBeside::Override(name) => format!(
            "with {name} a region may do something else than read this path, and compare asks them all; leave it out, and \
             compare the path that is meant"
        ),
    })
}

/// As R23 compares contents: JSON by what it means.
fn digest_of(body: &Bytes, headers: &HeaderMap) -> u128 {
    digest_of_meaning(body, headers).unwrap_or_else(|| digest(body, headers))
}

type Answered = (ContentSeen, Option<String>, Vec<String>);

fn answer(reply: &Reply, digest: u128) -> ContentSeen {
    ContentSeen {
        status: reply.status.as_u16(),
        versions: stated(reply.versions.iter().map(|version| Some(version.0).filter(|_| version.is_credible()))),
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
            let failure = Some(failure.outcome().into_str().to_owned());
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

/// The places by name; a last one says that there are more.
fn pointers(differences: &Differences) -> Vec<String> {
    let mut found: Vec<_> = differences.pointers().map(str::to_owned).collect();
    let has_more = differences.has_more() || found.len() > limits::COMPARED_POINTERS;
    found.truncate(limits::COMPARED_POINTERS);
    found.extend(has_more.then(|| "and more".to_owned()));
    found
}

#[cfg(test)]
mod tests;
