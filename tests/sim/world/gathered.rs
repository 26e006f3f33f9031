//! Owns how a region answers for many keys in one request: each as in a request of its own, all of
//! them at once.
//!
//! Before it: what a sidecar sends to a batch path. After it: one reply with a part for each key,
//! or the failure of all. Invariant: a key counts as an attempt, and the attempts of one race have one
//! number whatever they travel with.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use nearside::http::exchange::{Failure, Outgoing, Reply};
use nearside::model::ids::RegionId;
use serde_json::{Value, json};

use super::reply::{Attempt, Sent, within};
use super::{Gathered, World};

const BATCH: &str = "/v1/batch/";
const VERSION: &str = "x-record-version";
/// Settings of a single key: member and header line.
const OWN: [(&str, HeaderName); 2] =
    [("cacheControl", header::CACHE_CONTROL), ("ifNoneMatch", header::IF_NONE_MATCH)];
/// The attempts of one race leave within this of each other, where they are gathered.
const TOGETHER: Duration = Duration::from_millis(25);

/// True if it asks for many keys.
pub(super) fn is_batch(request: &Outgoing) -> bool {
    request.method == Method::POST && request.path_and_query.starts_with(BATCH)
}

impl World {
    /// One request to one region for many keys.
    pub(super) fn batch(
        self: Arc<Self>,
        region: usize,
        request: &Outgoing,
        until: Duration,
    ) -> BoxFuture<'static, Result<Reply, Failure>> {
        let items = items(request);
        let (at, wall) = (self.clock.now(), self.clock.wall());
        let since = at - self.start;
        let latency = self.latency(region, since);
        let attempts = items.iter().map(|(_, single)| {
            self.noticed().attempts[region].push(since);
            let sent = Sent { race: self.race_of_part(single, region, since), at, wall };
            self.clone().answered(region, single.clone(), Attempt { sent, latency, within: until, streamed: false })
        });
        let attempts = join_all(attempts.collect::<Vec<_>>());
        let reply = async move {
            let mut parts = Vec::new();
            for ((key, _), reply) in items.iter().zip(attempts.await) {
                let reply = reply?;
                if matches!(reply.status.as_u16(), 401 | 403) {
                    // It refuses the request, not a key.
                    return Ok(reply);
                }
                parts.push(part(key, &reply));
            }
            let headers =
                HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
            let (region, body) = (RegionId(region as u8), json!({ "parts": parts, "bound": 0 }).to_string().into());
            let (status, received) = (StatusCode::OK, self.clock.now());
            Ok(Reply {
                region,
                status,
                headers,
                body,
                versions: Vec::new(),
                sent: at,
                sent_wall: wall,
                received,
                grants: None,
            })
        };
        within(until, reply.boxed())
    }

    /// The number of the race that this part of a request belongs to. The attempts of a race leave
    /// together, one to each region: a second one to a region is of another race. What leaves later
    /// is numbered as if it were another; then the checker knows less of the race.
    fn race_of_part(&self, request: &Outgoing, region: usize, at: Duration) -> u64 {
        let place = (request.path_and_query.clone(), who(request).to_owned());
        let mut noticed = self.noticed();
        let next = noticed.race.0 + 1;
        let gathered = noticed.gathered.entry(place).or_default();
        if gathered.race == 0 || gathered.asked[region] || gathered.first + TOGETHER < at {
            *gathered = Gathered { race: next, first: at, asked: Default::default() };
        }
        gathered.asked[region] = true;
        let race = gathered.race;
        noticed.race.0 = noticed.race.0.max(race);
        race
    }
}

/// Who asks, where that tells readers apart.
pub(super) fn who(request: &Outgoing) -> &str {
    request.headers.get(header::AUTHORIZATION).and_then(|who| who.to_str().ok()).unwrap_or_default()
}

/// Each key with the request that it would be by itself.
fn items(request: &Outgoing) -> Vec<(String, Arc<Outgoing>)> {
    let body: Value = serde_json::from_slice(&request.body).expect("a sidecar sends JSON");
    let view = &request.path_and_query[BATCH.len()..];
    body["keys"]
        .as_array()
        .expect("a list of keys")
        .iter()
        .map(|item| {
            let key = item["key"].as_str().expect("each has a key").to_owned();
            let mut headers = request.headers.clone();
            for (member, name) in OWN {
                let said = item[member].as_str().map(|value| HeaderValue::from_str(value).expect("it was one"));
                headers.extend(said.map(|value| (name, value)));
            }
            let path_and_query = format!("/v1/contexts/{key}/{view}");
            (key, Arc::new(Outgoing { method: Method::GET, path_and_query, headers, body: Bytes::new() }))
        })
        .collect()
}

/// One key's part, as Nearside's own regions write it.
fn part(key: &str, reply: &Reply) -> Value {
    let mut lines: Vec<Value> =
        reply.headers.iter().map(|(name, value)| json!([name.as_str(), value.to_str().expect("visible")])).collect();
    if !reply.versions.is_empty() {
        let versions: Vec<String> = reply.versions.iter().map(|version| version.0.to_string()).collect();
        lines.push(json!([VERSION, versions.join(",")]));
    }
    let mut part = json!({ "key": key, "status": reply.status.as_u16(), "headers": lines });
    if !reply.body.is_empty() {
        part["encoding"] = "base64".into();
        part["body"] = STANDARD.encode(&reply.body).into();
    }
    part
}
