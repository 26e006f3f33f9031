//! The caller in the story: an application that asks the sidecar over loopback TCP and notes what
//! it got and when. A latency counts from sending the request to the last byte of the reply.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use http::header::{ACCEPT, CONTENT_TYPE};
use nearside::model::time::Clock;

use super::contents::{LIMITS, batch_path};
use crate::chaos_server::reply::VERSION_HEADER;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The reply's status; `None` if there was no complete reply.
    pub status: Option<u16>,
    /// The version that the reply stated.
    pub version: Option<u64>,
    /// `Cache-Status` of the reply (RFC 9211); empty if none.
    pub label: String,
    /// The length of its body.
    pub bytes: usize,
    /// From the request to the last byte.
    pub took: Duration,
    /// Last word of the type of a problem (RFC 9457); empty of anything else.
    pub problem: String,
}

impl Seen {
    /// True if it is what the caller asked for.
    pub fn is_good(&self) -> bool {
        self.status == Some(200)
    }

    /// True if it came from the store.
    pub fn is_hit(&self) -> bool {
        self.label.split([';', ',']).any(|part| part.trim() == "hit")
    }

    /// The `detail` parameter of the label: a region's name, or why the reply is what it is.
    pub fn detail(&self) -> Option<&str> {
        self.label
            .split(';')
            .find_map(|part| part.trim().strip_prefix("detail="))
            .map(|detail| detail.trim_matches('"'))
    }
}

#[derive(Clone, Debug)]
pub struct WorldReader {
    http: reqwest::Client,
    base: String,
    clock: Clock,
    token: Option<String>,
}

impl WorldReader {
    pub fn new(sidecar: SocketAddr, clock: Clock) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tls_certs_only([])
            .timeout(Duration::from_secs(10))
            .build()?;
        Ok(Self { http, base: format!("http://{sidecar}"), clock, token: None })
    }

    /// Returns a reader that sends this token.
    pub fn with_token(&self, token: String) -> Self {
        Self { token: Some(token), ..self.clone() }
    }

    /// Path of the view that is made of two records.
    pub fn path(key: &str) -> String {
        format!("/v1/contexts/{key}/{LIMITS}")
    }

    pub async fn get(&self, key: &str) -> Seen {
        self.get_view(LIMITS, key).await
    }

    pub async fn get_view(&self, view: &str, key: &str) -> Seen {
        self.seen(self.http.get(format!("{}/v1/contexts/{key}/{view}", self.base))).await
    }

    /// As Protobuf.
    pub async fn get_protobuf(&self, key: &str) -> Seen {
        let asked = self.http.get(format!("{}{}", self.base, Self::path(key)));
        self.seen(asked.header(ACCEPT, "application/x-protobuf")).await
    }

    /// These fields alone, with commas between.
    pub async fn get_fields(&self, key: &str, fields: &str) -> Seen {
        self.seen(self.http.get(format!("{}{}?fields={fields}", self.base, Self::path(key)))).await
    }

    /// All of them in one request.
    pub async fn get_batch(&self, keys: &[String]) -> Seen {
        let asked = self.http.post(format!("{}{}", self.base, batch_path(LIMITS)));
        let keys = serde_json::json!({ "keys": keys }).to_string();
        self.seen(asked.header(CONTENT_TYPE, "application/json").body(keys)).await
    }

    async fn seen(&self, asked: reqwest::RequestBuilder) -> Seen {
        let asked = match &self.token {
            Some(token) => asked.bearer_auth(token),
            None => asked,
        };
        let sent = self.clock.now();
        let Ok(response) = asked.send().await else {
            let took = self.clock.now() - sent;
            return Seen {
                status: None,
                version: None,
                label: String::new(),
                bytes: 0,
                took,
                problem: String::new(),
            };
        };
        let version = response.headers().get(VERSION_HEADER.as_str()).and_then(|version| version.to_str().ok());
        let version = version.and_then(|version| version.parse().ok());
        // Each on the way has added its own behind those before it, the region's node too.
        let mut labels = response.headers().get_all("cache-status").iter();
        let label = labels.next_back().and_then(|label| label.to_str().ok()).unwrap_or_default().to_owned();
        let status = response.status().as_u16();
        let whole = response.bytes().await.ok();
        let bytes = whole.as_ref().map_or(0, |body| body.len());
        let took = self.clock.now() - sent;
        let problem = whole.as_deref().filter(|_| status >= 400).map(problem).unwrap_or_default();
        Seen { status: whole.map(|_| status), version, label, bytes, took, problem }
    }

    /// Asks for all of `keys`, `at_once` at a time; calls `done` with the number of replies after
    /// each one.
    pub async fn get_all(&self, keys: &[String], at_once: usize, mut done: impl AsyncFnMut(usize)) -> Vec<Seen> {
        let mut asked = std::pin::pin!(stream::iter(keys).map(|key| self.get(key)).buffer_unordered(at_once));
        let mut seen = Vec::with_capacity(keys.len());
        while let Some(one) = asked.next().await {
            seen.push(one);
            done(seen.len()).await;
        }
        seen
    }

    /// Asks for `key` every millisecond until `test` holds for a reply, which it returns; `None` if
    /// `within` passes first.
    pub async fn until(&self, key: &str, within: Duration, test: impl Fn(&Seen) -> bool) -> Option<Seen> {
        let end = self.clock.now() + within;
        loop {
            let seen = self.get(key).await;
            if test(&seen) {
                return Some(seen);
            }
            if self.clock.now() >= end {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Last word of the type that a problem document states.
fn problem(document: &[u8]) -> String {
    let document: serde_json::Value = serde_json::from_slice(document).unwrap_or_default();
    let stated = document["type"].as_str().unwrap_or_default();
    stated.rsplit([':', '/']).next().unwrap_or_default().to_owned()
}

/// Spread of a set of latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Half of them are at most this.
    pub p50: Duration,
    /// 99 of 100 are at most this.
    pub p99: Duration,
}

impl Spread {
    /// The spread of `seen`; zero if it is empty.
    pub fn of(seen: &[Seen]) -> Self {
        let mut took: Vec<Duration> = seen.iter().map(|one| one.took).collect();
        took.sort_unstable();
        Self { p50: percentile(&took, 50), p99: percentile(&took, 99) }
    }
}

/// The nearest rank: the smallest value that at least this share does not exceed.
fn percentile(sorted: &[Duration], hundredths: usize) -> Duration {
    let rank = (sorted.len() * hundredths).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(label: &str) -> Seen {
        Seen {
            status: Some(200),
            version: None,
            label: label.to_owned(),
            bytes: 0,
            took: Duration::ZERO,
            problem: String::new(),
        }
    }

    #[test]
    fn label_states_hit_and_detail() {
        assert!(labelled("nearside; hit; ttl=3312; bound=2").is_hit());
        let miss = labelled("nearside; fwd=miss; fwd-status=200; detail=eu-west-1");
        assert_eq!((miss.is_hit(), miss.detail()), (false, Some("eu-west-1")));
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let seen: Vec<Seen> = (1..=200).map(|ms| Seen { took: Duration::from_millis(ms), ..labelled("") }).collect();
        let spread = Spread::of(&seen);
        assert_eq!((spread.p50.as_millis(), spread.p99.as_millis()), (100, 198));
        assert_eq!(Spread::of(&[]), Spread::default());
    }
}
