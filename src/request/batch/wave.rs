//! A batch under way: what is there for each of its keys, and the waves in which the others are
//! asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use http::{HeaderMap, HeaderName, Method, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::limits;
use crate::access::denial::Denial;
use crate::cache::key::AcceptEncoding;
use crate::config::grants_version::GRANTS_VERSION;
use crate::config::overrides::overrides;
use crate::config::record_floor::RECORD_FLOOR;
use crate::http::admission::{Admitted, Head};
use crate::model::ids::RouteIndex;
use crate::model::time::Moment;
use crate::protocol::label::Label;
use crate::race::gather::request::{BatchRequest, Wanted};
use crate::race::gather::{Gatherer, Outside};
use crate::request::answer::Outcome;
use crate::request::caller::Caller;
use crate::request::claimant::is_unproven;
use crate::request::found::Found;
use crate::request::lookup::{lookup, lookup_on};
use crate::request::settings::Settings;
use crate::routing::foreign::has_foreign;
use crate::routing::router::Matched;
use crate::shape::cache_status::{Bound, Detail};
use crate::shape::shown::Shown;

/// Executes the plan that a lookup found ([`crate::request::serve::execute_plan`], which stands above).
pub(crate) type ExecutePlan = fn(Arc<Settings>, Found, Admitted) -> BoxFuture<'static, Outcome>;

/// A batch under way.
pub(super) struct Batch {
    pub(super) settings: Arc<Settings>,
    pub(super) index: RouteIndex,
    /// Parts of a key's path before and after the key, the latter with the query.
    pub(super) around: (String, String),
    pub(super) query_bytes: usize,
    /// Path and query at which regions take the same batch.
    pub(super) upstream: Option<String>,
    /// The head of each key's request.
    pub(super) headers: HeaderMap,
    pub(super) request: BatchRequest,
    pub(super) execute_plan: ExecutePlan,
    /// Bytes of bodies that wait to be written.
    held: AtomicUsize,
    /// True if the answer may be compressed.
    pub(super) takes_zstd: bool,
}

/// Characters to encode in a segment of a path: all but the unreserved ones (RFC 3986, 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Header fields about the batch alone: its own body, and conditions and ranges, which no part can
/// meet for all.
const OF_THE_BATCH: [HeaderName; 15] = [
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
    GRANTS_VERSION,
];

impl Batch {
    pub(super) fn of(
        settings: &Arc<Settings>,
        index: RouteIndex,
        admitted: Admitted,
        request: BatchRequest,
        execute_plan: ExecutePlan,
    ) -> Self {
        let route = &settings.fill.config.service.routes[index.0];
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
        let shapes = settings.fill.shapes[index.0].as_ref();
        let asked = shapes.map_or_else(|| query.to_owned(), |shapes| shapes.without_fields(query));
        let upstream = upstream.map(|path| path.filled(|name| captures.written(name).unwrap_or_default()) + &asked);
        let query_bytes = query.len();
        let takes_zstd = route.payload.zstd && AcceptEncoding::of(&admitted.headers).has_zstd();
        let mut headers = admitted.headers;
        // What makes another request of the batch says nothing about a read of one key.
        let others: Vec<_> = overrides(&headers).cloned().collect();
        OF_THE_BATCH.iter().chain(&others).for_each(|name| drop(headers.remove(name)));
        Self {
            settings: settings.clone(),
            index,
            around,
            query_bytes,
            upstream,
            headers,
            request,
            execute_plan,
            held: AtomicUsize::new(0),
            takes_zstd,
        }
    }

    pub(super) fn key(&self, at: usize) -> &Wanted {
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

    /// Looks up each key, as far as answers may be held.
    pub(super) fn look(&self) -> Vec<Slot> {
        let (mut caller, mut target) = (Caller::of(&self.headers), String::new());
        let now = self.settings.fill.shared.clock.now();
        (0..self.request.keys.len())
            .map(|at| match self.look_at(at, &mut caller, &mut target) {
                None => Slot::Missing,
                Some(outcome) => self.held(outcome).map_or(Slot::Later, |outcome| Slot::There(outcome, now)),
            })
            .collect()
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
        self.held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
                Some(held + bytes).filter(|held| *held <= limits::HELD_BYTES)
            })
            .is_ok()
            .then_some(outcome)
    }

    /// It has been written.
    pub(super) fn written(&self, shown: &Shown) {
        let bytes = shown.content().body_len();
        // It never refuses.
        let _ = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| Some(held.saturating_sub(bytes)));
    }

    /// Outcome for an answer below the floor that cannot wait for a better one.
    pub(super) fn below_floor(&self, outcome: Outcome) -> Outcome {
        let Outcome::Shown(mut shown) = outcome else { return outcome };
        if self.settings.fill.config.freshness.strict {
            self.written(&shown);
            return Outcome::BelowFloor(Vec::new());
        }
        self.settings.fill.shared.metrics.requests.stale(Label::BelowFloor);
        shown.line.bound = shown.line.bound.map(|_| Bound::None);
        shown.line.detail = Some(Detail::Label(Label::BelowFloor));
        Outcome::Shown(shown)
    }

    /// Stored outcome for one key; `None` if regions must be asked.
    fn look_at(&self, at: usize, caller: &mut Caller, target: &mut String) -> Option<Outcome> {
        let now = self.settings.fill.shared.clock.now();
        let path_len = self.target(at, target);
        let head = Head { method: &Method::GET, path_and_query: target, path_len, headers: &self.headers };
        let Some(matched) = self.matched(head.path()) else { return Some(Outcome::BadKey) };
        if self.key(at).is_plain() {
            return self.at_once(lookup_on(&self.settings, caller, head, Some(matched), false, now));
        }
        let mut headers = self.headers.clone();
        self.key(at).put(&mut headers);
        let mut caller = Caller::of(&headers);
        let head = Head { headers: &headers, ..head };
        self.at_once(lookup_on(&self.settings, &mut caller, head, Some(matched), false, now))
    }

    /// The route, if a GET of this path would be on it.
    fn matched<'p>(&'p self, path: &'p str) -> Option<Matched<'p>> {
        let fits = path.len() + self.query_bytes <= crate::http::limits::REQUEST_TARGET_BYTES;
        self.settings.fill.router.find(path).filter(|matched| fits && matched.index == self.index)
    }

    fn at_once(&self, found: Found) -> Option<Outcome> {
        match found {
            Found::Answer(shown, refresh) => {
                refresh.into_iter().for_each(|refresh| refresh.begin(&self.settings.fill));
                Some(Outcome::Shown(shown))
            }
            Found::NotStored => Some(Outcome::NotStored),
            Found::Refused(refused) => Some(Outcome::Unshaped(refused)),
            Found::Withheld => Some(Outcome::Denied(Denial::GrantsUnknown)),
            Found::Ask(_) | Found::Shape(..) | Found::Pass(_) | Found::Many(_) | Found::Unproven(_) => None,
        }
    }

    /// One key, now that its turn has come.
    pub(super) async fn again(self: &Arc<Self>, at: usize) -> (Outcome, Moment) {
        let found = self.look_at(at, &mut Caller::of(&self.headers), &mut String::new());
        let outcome = match found {
            Some(outcome) => Some(outcome),
            None => self.ask_for(vec![at], true).recv().await.and_then(|asked| asked.outcome),
        };
        if let Some(Outcome::Shown(shown)) = &outcome {
            self.held.fetch_add(shown.content().body_len(), Ordering::Relaxed);
        }
        (outcome.unwrap_or_else(|| Outcome::NoneAnswered(Vec::new())), self.settings.fill.shared.clock.now())
    }

    /// Asks for the keys at these places, in a task of its own: a caller who reads slowly keeps no
    /// permits, and one who hangs up stops no fill. If its turn `is_now`, what comes is written at
    /// once, however large.
    pub(super) fn ask_for(self: &Arc<Self>, places: Vec<usize>, is_now: bool) -> mpsc::Receiver<Asked> {
        // Room for all: what has ended waits for nobody.
        let (send, receive) = mpsc::channel(places.len().max(1));
        let batch = self.clone();
        self.settings.fill.shared.tasks.spawn("batch", async move {
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
        let settings = &self.settings;
        let at_once = if self.gathers() { places.len() } else { places.len().min(limits::SINGLES) };
        let turns = self.turns(at_once.min(settings.shared.batches.most)).await;
        let gatherer = self.upstream.clone().map(|target| Gatherer::new(self.outside(), target, places.len()));
        stream::iter(places)
            .for_each_concurrent(at_once, |at| {
                let (gatherer, has_turn) = (gatherer.clone(), turns.is_some());
                async move {
                    let outcome = if has_turn { self.asked(at, gatherer).await } else { Outcome::Busy };
                    let outcome = if is_now { Some(outcome) } else { self.held(outcome) };
                    // The reader may be gone.
                    let _ = send.try_send(Asked { at, outcome, when: settings.fill.shared.clock.now() });
                }
            })
            .await;
    }

    /// Returns whether keys travel to a region in one request. What is passed on for its headers, or for its caller's, goes by itself, key by key.
    fn gathers(&self) -> bool {
        let route = &self.settings.fill.config.service.routes[self.index.0];
        self.upstream.is_some()
            && !has_foreign(&self.settings.fill.config.service, route, &self.headers)
            && !is_unproven(&self.settings, &self.headers, self.index)
    }

    /// Waits until so many keys may be asked for, no longer than two races may take.
    async fn turns(&self, count: usize) -> Option<OwnedSemaphorePermit> {
        let turns = self.settings.shared.batches.turns.clone().acquire_many_owned(count as u32);
        tokio::time::timeout(2 * self.settings.fill.regions.deadline(), turns).await.ok()?.ok()
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
        let mut found = lookup(&self.settings, &mut Caller::of(&admitted.headers), admitted.head(), false);
        match &mut found {
            Found::Pass(Some(on_route)) => on_route.is_held = true,
            Found::Unproven(unproven) => unproven.is_held = true,
            _ => {}
        }
        if let (Found::Ask(plan), Some(gatherer)) = (&mut found, gatherer) {
            let stored = plan.ask.previous.as_ref().map(|entry| entry.content.body_len());
            plan.ask.through = Some(gatherer.member(&self.key(at).key, stored));
        }
        (self.execute_plan)(self.settings.clone(), found, admitted).await
    }

    fn outside(&self) -> Outside {
        let settings = &self.settings;
        let upstream = settings.fill.config.service.routes[self.index.0].upstream_batch.as_ref();
        Outside {
            origin: settings.fill.upstreams[self.index.0].current.regions.origin().clone(),
            clock: settings.fill.shared.clock.clone(),
            tasks: settings.fill.shared.tasks.clone(),
            metrics: settings.fill.shared.metrics.clone(),
            unable: settings.shared.batches.unable.clone(),
            path: upstream.map_or_else(String::new, |path| path.text.clone()),
            version_header: settings.fill.config.service.version_header.clone(),
        }
    }
}

/// One part on its way into the answer.
pub(super) enum Slot {
    /// Since when it is there.
    There(Outcome, Moment),
    /// To be asked for, or being asked for.
    Missing,
    /// Stored, and looked up again when its turn comes.
    Later,
    Written,
}

/// Outcome of asking for one key.
pub(super) struct Asked {
    pub(super) at: usize,
    /// `None` if it is looked up again when its turn comes.
    pub(super) outcome: Option<Outcome>,
    pub(super) when: Moment,
}

impl Asked {
    pub(super) fn slot(self) -> Slot {
        self.outcome.map_or(Slot::Later, |outcome| Slot::There(outcome, self.when))
    }
}
