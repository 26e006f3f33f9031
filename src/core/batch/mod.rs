//! Many keys of one route in one request. Each is looked up, asked for and labelled as a GET of its
//! path with the same head would be; the answer is always 200 and has one part for each key, in
//! their order.
//!
//! What is stored is answered at once. The rest is asked for in waves of bounded size, which share
//! a bounded part of the regions' permits with all other batches; a wave's keys travel to a region
//! in one request where regions take that ([`gather`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use http::{HeaderMap, HeaderName, Method, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use self::gather::{Gatherer, Outside, Unable};
use self::request::{BatchRequest, RECORD_FLOOR, Refused, Wanted};
use super::Core;
use super::answer::{Bound, Detail, Outcome, Shown};
use super::caller::Caller;
use super::lookup::{Found, lookup, lookup_on};
use super::router::Matched;
use crate::cache::key::AcceptEncoding;
use crate::config::Config;
use crate::config::overrides::overrides;
use crate::http::admission::{Admitted, Head};
use crate::model::time::Moment;
use crate::protocol::label::Label;

mod answering;
pub(crate) mod gather;
mod limits;
mod part;
pub mod request;
pub mod upstream;

/// Carries out what a lookup found ([`super::serve::carry_out`], which stands above).
pub(super) type CarryOut = fn(Arc<Core>, Found, Admitted) -> BoxFuture<'static, Outcome>;

/// What all batches share.
pub struct Batches {
    /// Permits for keys that are asked for.
    turns: Arc<Semaphore>,
    /// How many of them there are.
    most: usize,
    unable: Arc<Unable>,
}

impl Batches {
    /// At most `races` at once, and a share of what each region is asked.
    pub(super) fn new(config: &Config, races: usize) -> Self {
        let most = (config.race.permits.min(races) / limits::PERMITS_SHARE).max(1);
        Self { turns: Arc::new(Semaphore::new(most)), most, unable: Arc::default() }
    }
}

/// A batch under way.
struct Batch {
    core: Arc<Core>,
    /// The route's index in the configuration.
    place: usize,
    /// What a key's path has before and after it, the latter with the query.
    around: (String, String),
    query_bytes: usize,
    /// Where regions take the same batch: path and query.
    upstream: Option<String>,
    /// The head of each key's request.
    headers: HeaderMap,
    request: BatchRequest,
    carry_out: CarryOut,
    /// Bytes of bodies that wait to be written.
    held: AtomicUsize,
    /// Whether the answer may be compressed.
    takes_zstd: bool,
}

/// What a segment of a path may hold as it is, whoever encodes it (RFC 3986, 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What the head of a batch says about the batch alone: its own body, and conditions and ranges,
/// which no part can meet for all.
const OF_THE_BATCH: [HeaderName; 14] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::TRANSFER_ENCODING,
    header::EXPECT,
    header::ACCEPT_ENCODING,
    header::RANGE,
    header::IF_RANGE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
    header::CONTENT_LANGUAGE,
    RECORD_FLOOR,
];

/// Answers a batch for the route at this index.
pub(super) async fn answer(core: &Arc<Core>, place: usize, admitted: Admitted, carry_out: CarryOut) -> Outcome {
    let request = match request::read(&admitted.headers, &admitted.body) {
        Ok(request) => request,
        Err(refused) => return refuse(core, refused),
    };
    let keys = request.keys.len() as u64;
    let parts = (keys as usize * limits::PART_BYTES).min(limits::HELD_BYTES) as u64;
    let held = admitted.body.len() as u64 + 2 * limits::CHUNK_BYTES as u64 + keys * limits::HELD_PER_KEY + parts;
    let Some(reserved) = core.bodies.reserve(held) else {
        core.metrics.over_budget("batches");
        return refuse(core, Refused::NoRoom);
    };
    core.metrics.batch();
    answering::begin(Arc::new(Batch::of(core, place, admitted, request, carry_out)), reserved).await
}

fn refuse(core: &Core, refused: Refused) -> Outcome {
    core.metrics.refused(refused.word());
    Outcome::RefusedBatch(refused)
}

impl Batch {
    fn of(core: &Arc<Core>, place: usize, admitted: Admitted, request: BatchRequest, carry_out: CarryOut) -> Self {
        let route = &core.config.service.routes[place];
        let (path, query) = admitted.path_and_query.split_at(admitted.path_len);
        let batch = route.batch.as_ref().expect("the router found it by its batch path");
        let left_out = route.path.left_out_by(batch).expect("the configuration was checked");
        let captures = batch.captures(path).expect("what fits can be captured");
        // No path has a space: it marks where the key goes.
        let filled =
            route.path.filled(|name| if name == left_out { " " } else { captures.written(name).unwrap_or_default() });
        let (before, after) = filled.split_once(' ').unwrap_or((&filled, ""));
        let around = (before.to_owned(), format!("{after}{query}"));
        let upstream = route.upstream_batch.as_ref();
        // The fields that a caller wants are cut out here.
        let shapes = core.shapes[place].as_ref();
        let asked = shapes.map_or_else(|| query.to_owned(), |shapes| shapes.without_fields(query));
        let upstream = upstream.map(|path| path.filled(|name| captures.written(name).unwrap_or_default()) + &asked);
        let query_bytes = query.len();
        let takes_zstd = route.payload.zstd && AcceptEncoding::of(&admitted.headers).has_zstd();
        let mut headers = admitted.headers;
        // What makes another request of the batch says nothing about a read of one key.
        let others: Vec<_> = overrides(&headers).cloned().collect();
        OF_THE_BATCH.iter().chain(&others).for_each(|name| drop(headers.remove(name)));
        Self {
            core: core.clone(),
            place,
            around,
            query_bytes,
            upstream,
            headers,
            request,
            carry_out,
            held: AtomicUsize::new(0),
            takes_zstd,
        }
    }

    fn key(&self, at: usize) -> &Wanted {
        &self.request.keys[at]
    }

    /// Writes the target of a key's request into `target`; returns the length of its path.
    fn target(&self, at: usize, target: &mut String) -> usize {
        let (before, after) = &self.around;
        target.clear();
        target.push_str(before);
        target.extend(utf8_percent_encode(&self.key(at).key, ENCODED));
        target.push_str(after);
        target.len() - self.query_bytes
    }

    /// What is there for each key now, as far as it may be held.
    fn look(&self) -> Vec<Slot> {
        let (mut caller, mut target) = (Caller::of(&self.headers), String::new());
        let now = self.core.clock.now();
        let slot = |at| match self.look_at(at, &mut caller, &mut target) {
            None => Slot::Missing,
            Some(outcome) => self.held(outcome).map_or(Slot::Later, |outcome| Slot::There(outcome, now)),
        };
        (0..self.request.keys.len()).map(slot).collect()
    }

    /// An outcome to be written when its turn comes; `None` if it is too much to hold until then, and
    /// is looked up or asked for again. A caller who reads slowly would keep it from the store, which may have
    /// given it up, and from everybody else.
    fn held(&self, outcome: Outcome) -> Option<Outcome> {
        let bytes = match &outcome {
            Outcome::Shown(shown) => shown.content().body_len(),
            // The others of its wave took the room that it needs.
            Outcome::Streamed { .. } => return None,
            _ => return Some(outcome),
        };
        let fits = |held: usize| Some(held + bytes).filter(|held| *held <= limits::HELD_BYTES);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok().then_some(outcome)
    }

    /// It has been written.
    fn written(&self, shown: &Shown) {
        let bytes = shown.content().body_len();
        let left = |held: usize| Some(held.saturating_sub(bytes));
        // It never refuses.
        let _ = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
    }

    /// What is said of an answer below the floor that cannot wait for a better one.
    fn below_floor(&self, outcome: Outcome) -> Outcome {
        let Outcome::Shown(mut shown) = outcome else { return outcome };
        if self.core.config.freshness.strict {
            self.written(&shown);
            return Outcome::BelowFloor(Vec::new());
        }
        self.core.metrics.stale(Label::BelowFloor);
        shown.line.bound = shown.line.bound.map(|_| Bound::None);
        shown.line.detail = Some(Detail::Label(Label::BelowFloor));
        Outcome::Shown(shown)
    }

    /// What is there for one key now; `None` if it must be asked for.
    fn look_at(&self, at: usize, caller: &mut Caller, target: &mut String) -> Option<Outcome> {
        let now = self.core.clock.now();
        let path_len = self.target(at, target);
        let head = Head { method: &Method::GET, path_and_query: target, path_len, headers: &self.headers };
        let Some(matched) = self.matched(head.path()) else { return Some(Outcome::BadKey) };
        if self.key(at).is_plain() {
            return self.at_once(lookup_on(&self.core, caller, head, Some(matched), false, now));
        }
        let mut headers = self.headers.clone();
        self.key(at).put(&mut headers);
        let mut caller = Caller::of(&headers);
        let head = Head { headers: &headers, ..head };
        self.at_once(lookup_on(&self.core, &mut caller, head, Some(matched), false, now))
    }

    /// The route, if a GET of this path would be on it.
    fn matched<'p>(&'p self, path: &'p str) -> Option<Matched<'p>> {
        let fits = path.len() + self.query_bytes <= crate::http::limits::REQUEST_TARGET_BYTES;
        self.core.router.find(path).filter(|matched| fits && matched.place == self.place)
    }

    fn at_once(&self, found: Found) -> Option<Outcome> {
        match found {
            Found::Answer(shown, refresh) => {
                refresh.into_iter().for_each(|refresh| refresh.begin(&self.core));
                Some(Outcome::Shown(shown))
            }
            Found::NotStored => Some(Outcome::NotStored),
            Found::Refused(refused) => Some(Outcome::Unshaped(refused)),
            Found::Ask(_) | Found::Shape(..) | Found::Pass(_) | Found::Many(_) => None,
        }
    }

    /// One key, now that its turn has come.
    async fn again(self: &Arc<Self>, at: usize) -> (Outcome, Moment) {
        let found = self.look_at(at, &mut Caller::of(&self.headers), &mut String::new());
        let outcome = match found {
            Some(outcome) => Some(outcome),
            None => self.ask_for(vec![at], true).recv().await.and_then(|asked| asked.outcome),
        };
        if let Some(Outcome::Shown(shown)) = &outcome {
            self.held.fetch_add(shown.content().body_len(), Ordering::Relaxed);
        }
        (outcome.unwrap_or_else(|| Outcome::NoneAnswered(Vec::new())), self.core.clock.now())
    }

    /// Asks for the keys at these places, in a task of its own: a caller who reads slowly keeps no
    /// permits, and one who hangs up stops no fill. If its turn `is_now`, what comes is written at
    /// once, however large.
    fn ask_for(self: &Arc<Self>, places: Vec<usize>, is_now: bool) -> mpsc::Receiver<Asked> {
        // Room for all: what has ended waits for nobody.
        let (send, receive) = mpsc::channel(places.len().max(1));
        let batch = self.clone();
        self.core.tasks.spawn("batch", async move {
            let wave = batch.wave(places, &send, is_now);
            tokio::select! {
                // In order: with the same seed a simulation repeats itself.
                biased;
                () = wave => {}
                () = send.closed() => {}
            }
        });
        receive
    }

    async fn wave(&self, places: Vec<usize>, send: &mpsc::Sender<Asked>, is_now: bool) {
        let core = &self.core;
        let at_once = if self.gathers() { places.len() } else { places.len().min(limits::SINGLES) };
        let turns = self.turns(at_once.min(core.batches.most)).await;
        let gatherer = self.upstream.clone().map(|target| Gatherer::new(self.outside(), target, places.len()));
        let ask = |at: usize| {
            let (gatherer, has_turn) = (gatherer.clone(), turns.is_some());
            async move {
                let outcome = if has_turn { self.asked(at, gatherer).await } else { Outcome::Busy };
                let outcome = if is_now { Some(outcome) } else { self.held(outcome) };
                // The reader may be gone.
                let _ = send.try_send(Asked { at, outcome, when: core.clock.now() });
            }
        };
        stream::iter(places).for_each_concurrent(at_once, ask).await;
    }

    /// Returns whether keys travel to a region in one request. What is passed on for its headers goes by
    /// itself, key by key.
    fn gathers(&self) -> bool {
        let route = &self.core.config.service.routes[self.place];
        self.upstream.is_some() && !self.core.has_foreign(route, &self.headers)
    }

    /// Waits until so many keys may be asked for, no longer than two races may take.
    async fn turns(&self, count: usize) -> Option<OwnedSemaphorePermit> {
        let turns = self.core.batches.turns.clone().acquire_many_owned(count as u32);
        tokio::time::timeout(2 * self.core.regions.deadline(), turns).await.ok()?.ok()
    }

    /// Asks for one key as for any other request.
    async fn asked(&self, at: usize, gatherer: Option<Arc<Gatherer>>) -> Outcome {
        let mut path_and_query = String::new();
        let path_len = self.target(at, &mut path_and_query);
        let mut headers = self.headers.clone();
        self.key(at).put(&mut headers);
        let (method, body) = (Method::GET, bytes::Bytes::new());
        let admitted = Admitted { method, path_and_query, path_len, headers, body };
        // Something may have been stored since, and only a plan of now has the right generation.
        let mut found = lookup(&self.core, &mut Caller::of(&admitted.headers), admitted.head(), false);
        if let Found::Pass(Some(on_route)) = &mut found {
            on_route.is_held = true;
        }
        if let (Found::Ask(plan), Some(gatherer)) = (&mut found, gatherer) {
            let stored = plan.ask.previous.as_ref().map(|entry| entry.content.body_len());
            plan.ask.through = Some(gatherer.member(&self.key(at).key, stored));
        }
        (self.carry_out)(self.core.clone(), found, admitted).await
    }

    fn outside(&self) -> Outside {
        let core = &self.core;
        let upstream = core.config.service.routes[self.place].upstream_batch.as_ref();
        Outside {
            origin: core.regions_of(core.router.id(self.place)).origin().clone(),
            clock: core.clock.clone(),
            tasks: core.tasks.clone(),
            metrics: core.metrics.clone(),
            unable: core.batches.unable.clone(),
            path: upstream.map_or_else(String::new, |path| path.text.clone()),
            version_header: core.config.service.version_header.clone(),
        }
    }
}

/// One part on its way into the answer.
enum Slot {
    /// Since when it is there.
    There(Outcome, Moment),
    /// To be asked for, or being asked for.
    Missing,
    /// Stored, and looked up again when its turn comes.
    Later,
    Written,
}

/// What came of asking for one key.
struct Asked {
    at: usize,
    /// `None` if it is looked up again when its turn comes.
    outcome: Option<Outcome>,
    when: Moment,
}

impl Asked {
    fn slot(self) -> Slot {
        self.outcome.map_or(Slot::Later, |outcome| Slot::There(outcome, self.when))
    }
}

#[cfg(test)]
mod tests;
