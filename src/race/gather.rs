//! Gathers the attempts of one batch: those to one region travel in one request, and each gets its
//! part of the answer as a [`Reply`] of its own. So verdicts, floors, refills, budgets and hedging
//! know nothing of batches.
//!
//! A region's attempts leave together as soon as every fill of the batch has begun its race, or will
//! not because another fill answers it; after a short while even if some have not. Attempts that come
//! later (hedges, refills) are gathered for a moment.

pub(crate) mod limits;
pub mod request;
pub mod upstream;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join_all};
use futures_util::stream::{self, StreamExt};
use http::{HeaderName, StatusCode};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use self::limits::{
    BATCH_KEYS, BATCH_REPLY_BYTES, GATHER_WAIT, INLINE_BYTES, PART_BYTES, PART_OVERHEAD_BYTES, SINGLES, UNABLE_FOR,
};
use self::upstream::PartReply;
use super::verdict::is_worthless;
use crate::http::exchange::{Failure, Origin, Outgoing, Reply};
use crate::model::ids::RegionId;
use crate::model::time::{Clock, Moment};
use crate::protocol::limits::REGIONS;
use crate::tasks::{Tasks, on_blocking_pool};
use crate::telemetry::metrics::Metrics;

type Untils = [Option<Moment>; REGIONS];

/// Until when each region is asked for one key at a time, because it took no batch: for each
/// `upstream_batch`, of which there are no more than routes.
#[derive(Default)]
pub(crate) struct Unable(Mutex<HashMap<String, Untils>>);

impl Unable {
    fn is(&self, path: &str, region: RegionId, now: Moment) -> bool {
        self.known().get(path).is_some_and(|untils| untils[region.index()].is_some_and(|until| now < until))
    }

    fn note(&self, path: &str, region: RegionId, now: Moment) {
        let mut known = self.known();
        // Those of paths that a reload took away go too.
        known.retain(|_, untils| untils.iter().flatten().any(|until| now < *until));
        known.entry(path.to_owned()).or_default()[region.index()] = Some(now + UNABLE_FOR);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Untils>> {
        // Each change is one plain store, insertion or removal.
        self.0.lock()
    }
}

/// Environment of a gatherer.
#[derive(Clone)]
pub(crate) struct Outside {
    pub(crate) origin: Arc<dyn Origin>,
    pub(crate) clock: Clock,
    pub(crate) tasks: Tasks,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) unable: Arc<Unable>,
    /// The route's `upstream_batch`, as written.
    pub(crate) path: String,
    pub(crate) version_header: HeaderName,
}

/// The attempts of one batch, by region, that have not left.
pub(crate) struct Gatherer {
    outside: Outside,
    /// Path and query at which regions take batches.
    target: String,
    waiting: Mutex<[Vec<Handed>; REGIONS]>,
    /// Number of the batch's fills that may still begin.
    missing: AtomicUsize,
    all_began: CancellationToken,
    /// True if an attempt to the region came to its deadline: one silence is one failure.
    late: [AtomicBool; REGIONS],
}

/// An attempt that was handed in.
struct Handed {
    key: Arc<str>,
    request: Arc<Outgoing>,
    /// Bytes that its part may take.
    expected: usize,
    until: Moment,
    reply: oneshot::Sender<AttemptEnd>,
}

pub(crate) struct AttemptEnd {
    pub(crate) reply: Result<Reply, Failure>,
    /// True if no other attempt of the same request reports the same of its region: one request that
    /// fails is one failure, however many keys it carried.
    pub(crate) counts: bool,
}

impl Handed {
    fn end(self, reply: Result<Reply, Failure>, counts: bool) {
        // The receiver may be gone.
        let _ = self.reply.send(AttemptEnd { reply, counts });
    }
}

/// One key's place in its batch. It counts as begun at the latest when nobody asks for it any more.
pub(crate) struct InBatch {
    batch: Arc<Gatherer>,
    key: Arc<str>,
    /// The size of what is stored of it, in bytes.
    stored: Option<usize>,
    began: AtomicBool,
}

impl Gatherer {
    /// For `members` keys, of which each needs its [`Gatherer::member`].
    pub(crate) fn new(outside: Outside, target: String, members: usize) -> Arc<Self> {
        let (missing, all_began) = (AtomicUsize::new(members), CancellationToken::new());
        Arc::new(Self { outside, target, waiting: Mutex::default(), missing, all_began, late: Default::default() })
    }

    pub(crate) fn member(self: &Arc<Self>, key: &str, stored: Option<usize>) -> Arc<InBatch> {
        Arc::new(InBatch { batch: self.clone(), key: key.into(), stored, began: AtomicBool::new(false) })
    }

    fn waiting(&self) -> MutexGuard<'_, [Vec<Handed>; REGIONS]> {
        // An attempt is added or taken whole: a panic elsewhere cannot leave half of one.
        self.waiting.lock()
    }

    fn hand_in(self: &Arc<Self>, region: RegionId, attempt: Handed) {
        let first = {
            let attempts = &mut self.waiting()[region.index()];
            attempts.push(attempt);
            attempts.len() == 1
        };
        if !first {
            return;
        }
        let own = self.clone();
        self.outside.tasks.spawn("batch", async move {
            let (for_all, for_more) = GATHER_WAIT;
            if own.all_began.is_cancelled() {
                tokio::time::sleep(for_more).await;
            } else {
                // Elapsed: a fill waits for its turn, and the others are not held up by it.
                let _ = tokio::time::timeout(for_all, own.all_began.cancelled()).await;
            }
            let attempts = std::mem::take(&mut own.waiting()[region.index()]);
            let calls = calls(attempts).into_iter().map(|attempts| own.send(region, attempts));
            join_all(calls).await;
        });
    }

    async fn send(&self, region: RegionId, attempts: Vec<Handed>) {
        let Outside { origin, clock, unable, path, metrics, .. } = &self.outside;
        if attempts.len() == 1 || unable.is(path, region, clock.now()) {
            return self.send_one_by_one(region, attempts).await;
        }
        let items: Vec<_> = attempts.iter().map(|attempt| (&*attempt.key, &attempt.request.headers)).collect();
        let request = Arc::new(upstream::request(&self.target, &items));
        let until = attempts.iter().map(|attempt| attempt.until).max().unwrap_or_default();
        metrics.batches.batch_sent();
        let mut reply = origin.ask(region, request.clone(), until - clock.now()).await;
        // Its server closed an idle connection. Reading twice does no harm.
        if reply.as_ref().is_err_and(|failure| *failure == Failure::Truncated) {
            reply = origin.ask(region, request, until - clock.now()).await;
        }
        match reply {
            Ok(reply) if reply.status == StatusCode::OK => match self.parts(&reply, &attempts).await {
                Some(parts) => hand_out(&reply, parts, attempts),
                None => self.is_unable(region, attempts).await,
            },
            Ok(reply) if refuses_all(reply.status) => end_all(attempts, &Ok(self.of_no_record(reply))),
            Ok(_) => self.is_unable(region, attempts).await,
            Err(Failure::Oversized { .. }) => self.send_one_by_one(region, attempts).await,
            Err(failure) => end_all(attempts, &Err(failure)),
        }
    }

    /// Handles a region whose batch path takes no batch.
    async fn is_unable(&self, region: RegionId, attempts: Vec<Handed>) {
        let Outside { clock, unable, path, .. } = &self.outside;
        unable.note(path, region, clock.now());
        self.send_one_by_one(region, attempts).await;
    }

    /// A version in it is of no key that was asked for.
    fn of_no_record(&self, mut reply: Reply) -> Reply {
        reply.versions.clear();
        reply.headers.remove(&self.outside.version_header);
        reply
    }

    async fn send_one_by_one(&self, region: RegionId, attempts: Vec<Handed>) {
        stream::iter(attempts)
            .for_each_concurrent(SINGLES, |attempt| async move {
                let Outside { origin, clock, .. } = &self.outside;
                let reply = origin.ask(region, attempt.request.clone(), attempt.until - clock.now()).await;
                attempt.end(reply, true);
            })
            .await;
    }

    /// The parts for these attempts; `None` if the answer has none that can be read.
    async fn parts(&self, reply: &Reply, attempts: &[Handed]) -> Option<Vec<Option<PartReply>>> {
        let keys: Vec<Arc<str>> = attempts.iter().map(|attempt| attempt.key.clone()).collect();
        let (body, version_header) = (reply.body.clone(), self.outside.version_header.clone());
        let parts = if reply.body.len() <= INLINE_BYTES {
            upstream::parts(&body, &keys, &version_header)
        } else {
            on_blocking_pool(move || upstream::parts(&body, &keys, &version_header)).await.unwrap_or_default()
        };
        parts.iter().any(Option::is_some).then_some(parts)
    }
}

impl InBatch {
    /// Its race has begun, or another fill answers it.
    pub(crate) fn began(&self) {
        if !self.began.swap(true, Ordering::AcqRel) && self.batch.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.batch.all_began.cancel();
        }
    }

    /// Hands in one attempt at once; resolves with its part, `within` at the latest.
    pub(crate) fn ask(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, AttemptEnd> {
        let (reply, answered) = oneshot::channel();
        let until = self.batch.outside.clock.now() + within;
        let expected = self.stored.unwrap_or(PART_BYTES) + PART_OVERHEAD_BYTES;
        self.batch.hand_in(region, Handed { key: self.key.clone(), request, expected, until, reply });
        let batch = self.batch.clone();
        async move {
            match tokio::time::timeout(within, answered).await {
                Ok(Ok(AttemptEnd { reply: Err(Failure::Deadline { .. }), .. })) | Err(_) => {
                    let counts = !batch.late[region.index()].swap(true, Ordering::Relaxed);
                    AttemptEnd { reply: Err(Failure::Deadline { within, head: false }), counts }
                }
                Ok(end) => end.unwrap_or(AttemptEnd { reply: Err(Failure::Truncated), counts: true }),
            }
        }
        .boxed()
    }
}

impl Drop for InBatch {
    fn drop(&mut self) {
        self.began();
    }
}

/// Splits attempts into requests: those of one differ in nothing that a key cannot say for itself, and
/// neither keys nor expected bytes exceed the limits.
fn calls(attempts: Vec<Handed>) -> Vec<Vec<Handed>> {
    let mut calls: Vec<(usize, Vec<Handed>)> = Vec::new();
    for attempt in attempts {
        let with_room = calls.iter_mut().find(|(bytes, attempts)| {
            attempts.len() < BATCH_KEYS
                && *bytes + attempt.expected <= BATCH_REPLY_BYTES
                && attempts
                    .first()
                    .is_none_or(|first| upstream::go_together(&first.request.headers, &attempt.request.headers))
        });
        match with_room {
            Some((bytes, attempts)) => {
                *bytes += attempt.expected;
                attempts.push(attempt);
            }
            None => calls.push((attempt.expected, vec![attempt])),
        }
    }
    calls.into_iter().map(|(_, attempts)| attempts).collect()
}

/// True for a status about the caller or the moment, which each key would get too. Any other status
/// but 200 is about the batch path, and says nothing about the keys.
fn refuses_all(status: StatusCode) -> bool {
    let is_refused = matches!(status.as_u16(), 401 | 403 | 406 | 408);
    is_refused || is_worthless(status) && status != StatusCode::NOT_IMPLEMENTED
}

/// Gives each attempt its part. One that is missing or cannot be read is that attempt's failure alone.
fn hand_out(reply: &Reply, parts: Vec<Option<PartReply>>, attempts: Vec<Handed>) {
    let (mut parts, mut is_first_lost) = (parts.into_iter(), true);
    for attempt in attempts {
        let part = parts.next().flatten().map(|part| Reply {
            region: reply.region,
            status: part.status,
            headers: part.headers,
            body: part.body,
            versions: part.versions,
            sent: reply.sent,
            sent_wall: reply.sent_wall,
            received: reply.received,
            // A region decided about the batch, which is of one view.
            grants: reply.grants.clone(),
        });
        let counts = part.is_some() || std::mem::take(&mut is_first_lost);
        attempt.end(part.ok_or(Failure::Garbage), counts);
    }
}

/// One request that ended is one word of its region.
fn end_all(attempts: Vec<Handed>, reply: &Result<Reply, Failure>) {
    attempts.into_iter().enumerate().for_each(|(at, attempt)| attempt.end(reply.clone(), at == 0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_refusal_counts_per_route() {
        let (unable, now) = (Unable::default(), Moment::default());
        unable.note("/v1/many/{view}", RegionId(1), now);
        assert!(unable.is("/v1/many/{view}", RegionId(1), now));
        assert!(!unable.is("/v1/many/{view}", RegionId(0), now));
        assert!(!unable.is("/v2/many", RegionId(1), now));
        unable.note("/v2/many", RegionId(0), now + UNABLE_FOR);
        assert!(!unable.is("/v1/many/{view}", RegionId(1), now + UNABLE_FOR));
        assert_eq!(unable.known().len(), 1, "what is over is forgotten");
    }
}
