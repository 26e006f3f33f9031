//! Owns how regions answer: the [`Origin`] of the sidecar under test, and what its replies look
//! like.
//!
//! Before it: a request. After it: a reply that says what it shows, or a failure. Invariant: an attempt
//! takes its draws when it is sent, and is noticed whatever becomes of it.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use nearside::http::exchange::{Failure, Origin, Outgoing, Reply, Streamed};
use nearside::model::ids::{RegionId, Version};
use nearside::model::time::{Moment, Wall};

use super::super::content;
use super::super::faults::Fault;
use super::super::plan::Style;
use super::gathered::{is_batch, who};
use super::{Fate, NotedReply, SHOWS, Shown, World};

/// Lead of the versions of another environment.
const ELSEWHERE: u64 = 500_000;

impl World {
    /// ETag of the records in a reply: identical at all regions, unless their tags are their own.
    fn tag(&self, region: usize, path: &str, shown: &Shown) -> Option<HeaderValue> {
        let own = self.plan.windows.iter().any(|window| window.fault == Fault::RegionEtags);
        let tagged = match self.plan.style {
            Style::Etags => true,
            Style::Versions => self.plan.tags_too,
            Style::Bare => false,
        };
        let salt = if own { region } else { 9 };
        if own {
            self.fired(Fault::RegionEtags);
        }
        tagged.then(|| {
            let mut text = String::with_capacity(64);
            // Writing to a string cannot fail.
            let _ = write!(text, "\"{salt}:{path}");
            for (key, position) in shown {
                let _ = write!(text, ":{key}={}", self.plan.truth.face(*key, *position));
            }
            text.push('"');
            HeaderValue::from_maybe_shared(Bytes::from(text)).expect("visible")
        })
    }

    fn reply(
        &self,
        region: usize,
        path: &str,
        request: &Outgoing,
        age: Option<Duration>,
        shown: &Shown,
        sent: Sent,
    ) -> Reply {
        let truth = &self.plan.truth;
        let mut headers = HeaderMap::new();
        let (asked, now) = (sent.at - self.start, self.elapsed());
        let generated = age.map_or(asked, |age| now.saturating_sub(age));
        let (asked_ns, generated_ns) = (asked.as_nanos() as u64, generated.as_nanos() as u64);
        let mut says = String::with_capacity(96);
        let _ = write!(says, "n={};r={region};q={asked_ns};g={generated_ns};", sent.race);
        for (number, (key, position)) in shown.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            let _ = write!(says, "{comma}{key}={position}");
        }
        headers.insert(SHOWS, HeaderValue::from_maybe_shared(Bytes::from(says)).expect("visible"));
        if let Some(age) = age {
            headers.insert(header::AGE, HeaderValue::from(age.as_secs()));
        }
        let absent = shown.iter().all(|(key, position)| !truth.is_present(*key, *position));
        let tag = self.tag(region, path, shown);
        if let Some(tag) = &tag {
            headers.insert(header::ETAG, tag.clone());
        }
        let known = request.headers.get(header::IF_NONE_MATCH).is_some_and(|known| Some(known) == tag.as_ref());
        let part = request.headers.contains_key(header::RANGE);
        let status = match (absent, known) {
            (true, _) => StatusCode::NOT_FOUND,
            (false, true) => StatusCode::NOT_MODIFIED,
            (false, false) if part => StatusCode::PARTIAL_CONTENT,
            (false, false) => StatusCode::OK,
        };
        let behind = shown.iter().any(|(key, position)| *position < truth.newest(*key, now));
        if status == StatusCode::NOT_MODIFIED && behind {
            self.fired(Fault::OldNotModified);
        }
        let bare = status == StatusCode::NOT_MODIFIED && self.plan.bare_304;
        let states = self.plan.style == Style::Versions && (!absent || self.plan.tombstones) && !bare;
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = if status == StatusCode::NOT_MODIFIED {
            Bytes::new()
        } else {
            content::body(truth, shown, who(request), path == content::LARGE)
        };
        let stated = shown.iter().filter(|_| states);
        Reply {
            region: RegionId(region as u8),
            status,
            headers,
            body,
            versions: stated.map(|(key, position)| self.stated_version(region, *key, *position, now)).collect(),
            sent: sent.at,
            sent_wall: sent.wall,
            received: self.clock.now(),
            grants: None,
        }
    }

    /// Version that a region's reply states of a record.
    fn stated_version(&self, region: usize, key: usize, position: usize, now: Duration) -> Version {
        let mut windows = self.plan.windows.iter();
        let max = windows.find(|w| w.fault == Fault::MaxInReply && w.is_at(region) && w.key == key && w.holds(now));
        if let Some(window) = max {
            self.fired(Fault::MaxInReply);
            // Less than what messages may state: two regions that make up the same are two
            // regions (R15).
            return Version(if window.strength < 0.5 { u64::MAX } else { 1 << 60 });
        }
        // Who states no versions of what is gone states none of it beside others either.
        if !self.plan.tombstones && !self.plan.truth.is_present(key, position) {
            return Version::NONE;
        }
        let version = self.plan.truth.version(key, position);
        if self.is_on(Fault::Elsewhere, region, now) {
            self.fired(Fault::Elsewhere);
            return Version(version + ELSEWHERE);
        }
        Version(version)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub(super) race: u64,
    pub(super) at: Moment,
    pub(super) wall: Wall,
}

/// Fate of an attempt, as far as it is known when it is sent.
pub(super) struct Attempt {
    pub(super) sent: Sent,
    pub(super) latency: Duration,
    pub(super) within: Duration,
    /// Nobody has to hold its reply.
    pub(super) streamed: bool,
}

/// Nothing takes longer.
pub(super) fn within(
    within: Duration,
    reply: BoxFuture<'static, Result<Reply, Failure>>,
) -> BoxFuture<'static, Result<Reply, Failure>> {
    let late = Err(Failure::Deadline { within, head: false });
    tokio::time::timeout(within, reply).map(|reply| reply.unwrap_or(late)).boxed()
}

/// Regions that answer as planned.
pub(crate) struct Regions(pub(crate) Arc<World>);

impl Origin for Regions {
    fn ask(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Reply, Failure>> {
        self.0.clone().attempt(region.index(), request, within, false)
    }

    fn open(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Streamed, Failure>> {
        let reply = self.0.clone().attempt(region.index(), request, within, true);
        async move { reply.await.map(Streamed::from) }.boxed()
    }
}

impl World {
    /// One request to one region; a reply that nobody has to hold may be of any size.
    fn attempt(
        self: Arc<Self>,
        region: usize,
        request: Arc<Outgoing>,
        within: Duration,
        streamed: bool,
    ) -> BoxFuture<'static, Result<Reply, Failure>> {
        let world = self;
        // No two attempts are sent at the same moment.
        world.clock.suspend(Duration::from_nanos(100));
        if is_batch(&request) {
            return world.batch(region, &request, within);
        }
        let sent = Sent { race: world.race_of(&request), at: world.clock.now(), wall: world.clock.wall() };
        let at = sent.at - world.start;
        world.noticed().attempts[region].push(at);
        let latency = world.latency(region, at);
        self::within(within, world.answered(region, request, Attempt { sent, latency, within, streamed }))
    }

    /// Answer of one region to one request.
    pub(super) fn answered(
        self: Arc<Self>,
        region: usize,
        request: Arc<Outgoing>,
        Attempt { sent, latency, within, streamed }: Attempt,
    ) -> BoxFuture<'static, Result<Reply, Failure>> {
        let (world, at) = (self.clone(), sent.at - self.start);
        let reply = async move {
            let path = request.path_and_query.as_str();
            let no_cache = request.headers.contains_key(header::CACHE_CONTROL);
            let keys = world.records(path);
            let fate = world.fate(region, path, &keys, no_cache, at + latency / 2);
            let outcome = match fate {
                Fate::Fails(Failure::Connect) => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    Err(Failure::Connect)
                }
                Fate::Fails(failure) => {
                    let wait = if matches!(failure, Failure::Deadline { .. }) { within } else { latency };
                    tokio::time::sleep(wait).await;
                    Err(failure)
                }
                Fate::Refused => {
                    tokio::time::sleep(latency).await;
                    let status = if world.plan.seed.is_multiple_of(2) { 401 } else { 403 };
                    Ok(world.plain(region, status, Vec::new(), sent))
                }
                Fate::Answered { .. } if !request.method.is_safe() => {
                    tokio::time::sleep(latency).await;
                    world.written(region, &request, sent)
                }
                Fate::Answered { shown, .. } if !streamed && world.is_large(&shown) => {
                    tokio::time::sleep(latency).await;
                    world.fired(Fault::TooLarge);
                    Err(Failure::Oversized { limit: 8 << 20, announced: true })
                }
                Fate::Answered { age, shown } => {
                    tokio::time::sleep(latency).await;
                    if shown.iter().any(|(key, position)| *position < world.plan.truth.newest(*key, at)) {
                        world.note_late_winner(region);
                    }
                    let noted = NotedReply { region, race: sent.race, done: world.elapsed(), shown: shown.clone() };
                    world.note_reply(path, noted);
                    Ok(world.reply(region, path, &request, age, &shown, sent))
                }
            };
            world.tell(&keys, || {
                let what = match &outcome {
                    Ok(reply) => {
                        format!("{} {:?} v{:?}", reply.status.as_u16(), reply.headers.get(SHOWS), reply.versions)
                    }
                    Err(failure) => failure.to_string(),
                };
                format!("region {region} answers {path}, asked at {:.3}: {what}", at.as_secs_f64())
            });
            outcome
        };
        reply.boxed()
    }

    /// True if the reply is too large to hold; none is that says that there is nothing.
    fn is_large(&self, shown: &Shown) -> bool {
        shown
            .first()
            .is_some_and(|(key, position)| self.plan.is_large(*key) && self.plan.truth.is_present(*key, *position))
    }

    /// A write was passed on by this region; it is named in the request's body.
    fn written(&self, region: usize, request: &Outgoing, sent: Sent) -> Result<Reply, Failure> {
        let index: Option<usize> = std::str::from_utf8(&request.body).ok().and_then(|text| text.parse().ok());
        let put = index.and_then(|index| self.plan.puts.get(index));
        let version = put.filter(|put| put.states).map(|put| Version(self.plan.truth.writes[put.write].version));
        self.fired(Fault::WriteThrough);
        // Of the even ones nobody learns what became.
        let lost = index.filter(|index| index.is_multiple_of(2) && self.plan.window(Fault::LostAnswer).is_some());
        if let Some(index) = lost {
            self.fired(Fault::LostAnswer);
            self.noticed().lost.insert(index, region);
            return Err(Failure::Truncated);
        }
        Ok(self.plain(region, 204, version.into_iter().collect(), sent))
    }

    /// A reply without content.
    fn plain(&self, region: usize, status: u16, versions: Vec<Version>, sent: Sent) -> Reply {
        Reply {
            region: RegionId(region as u8),
            status: StatusCode::from_u16(status).expect("a status"),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            versions,
            sent: sent.at,
            sent_wall: sent.wall,
            received: self.clock.now(),
            grants: None,
        }
    }
}

/// Replies that are remembered of a path: of a few races.
const REPLIES: usize = 12;

impl World {
    /// The attempts of a race share their request.
    fn race_of(&self, request: &Arc<Outgoing>) -> u64 {
        let (number, latest) = &mut self.noticed().race;
        if !latest.as_ref().is_some_and(|latest| Arc::ptr_eq(latest, request)) {
            *number += 1;
            *latest = Some(request.clone());
        }
        *number
    }

    fn note_reply(&self, path: &str, noted: NotedReply) {
        let replies = &mut self.noticed().replies;
        match replies.get_mut(path) {
            Some(of_path) => {
                if of_path.len() == REPLIES {
                    of_path.pop_front();
                }
                of_path.push_back(noted);
            }
            None => _ = replies.insert(path.to_owned(), VecDeque::from([noted])),
        }
    }

    fn note_late_winner(&self, region: usize) {
        for fault in [Fault::LateWinner, Fault::OneLiveOneBehind] {
            if self.plan.windows.iter().any(|w| w.fault == fault && w.region == region) {
                self.fired(fault);
            }
        }
    }
}
