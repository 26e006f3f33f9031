//! Compares what the current upstream of a route brought with what the candidate says, for a
//! sampled share of the fills that stored something. It comes after everything else in the
//! background, and touches neither store nor floors: what it reads is compared, counted and
//! dropped.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use tokio::sync::Semaphore;

use super::candidate::Upstreams;
use super::limits;
use super::tally::{Ending, Tally};
use crate::cache::entry::Entry;
use crate::cache::key::Key;
use crate::cache::limits::COPIED_BODY_BYTES;
use crate::cache::store::Store;
use crate::config::{Candidate, Form, MigrationMode};
use crate::http::bodies::Reserved;
use crate::http::exchange::{Failure, Outgoing, Reply};
use crate::model::ids::{RegionId, RouteId, Version};
use crate::model::time::Clock;
use crate::payload::coding::{Coding, decode};
use crate::payload::compare::{Compared, Differences, Format, Side, compare};
use crate::payload::schema::Schema;
use crate::race::upstream::{Additions, Upstream, prepare_request};
use crate::race::verdict::is_worthless;
use crate::shape::form::{accept_of, form_sent};
use crate::shape::limits::INLINE_DERIVE_BYTES;
use crate::tasks::{Tasks, on_blocking_pool};

/// Findings of comparisons, and how many may wait or be under way.
#[derive(Debug)]
pub struct Comparisons {
    pub tally: Tally,
    room: Arc<Semaphore>,
    /// Held while something is asked and compared.
    at_once: Semaphore,
}

impl Default for Comparisons {
    fn default() -> Self {
        let room = Arc::new(Semaphore::new(limits::CHECKS));
        Self { tally: Tally::default(), room, at_once: Semaphore::new(limits::CHECKS_AT_ONCE) }
    }
}

/// One reading of a record.
pub(crate) struct Reading {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    /// Versions of all records of the route, or none.
    versions: Vec<Version>,
    /// Its part of the budget for bodies, if it is large.
    _reserved: Option<Reserved>,
}

/// Dependencies of a comparison beside the upstreams.
#[derive(Clone)]
pub(crate) struct ComparisonDeps {
    pub(crate) store: Arc<Store>,
    pub(crate) comparisons: Arc<Comparisons>,
    pub(crate) clock: Clock,
}

/// The two upstreams of one record, in the region that answered.
pub(crate) struct Pair {
    pub(crate) deps: ComparisonDeps,
    pub(crate) upstreams: Arc<Upstreams>,
    /// Form that the current one is asked for, where it has a message.
    pub(crate) form: Option<Form>,
    pub(crate) schema: Option<Arc<Schema>>,
    /// Key under which the current upstream's reply is stored. Nothing of that is held while this
    /// waits.
    pub(crate) key: Key,
    pub(crate) region: RegionId,
    /// As a fill asks, before an upstream adds its own lines.
    pub(crate) request: Arc<Outgoing>,
    /// Number of records that the path shows.
    pub(crate) records: usize,
}

/// Compares the two upstreams in a task of its own, if there is room; `candidate` is the id of what
/// the candidate brings.
pub(crate) fn begin(pair: Pair, candidate: RouteId, tasks: &Tasks) {
    let comparisons = pair.deps.comparisons.clone();
    let Ok(room) = comparisons.room.clone().try_acquire_owned() else {
        return comparisons.tally.note(candidate, &Ending::Skipped, pair.deps.clock.now());
    };
    let stopping = tasks.stopping();
    tasks.spawn("compare", async move {
        let _room = room;
        let ending = stopping.run_until_cancelled(pair.compare()).await;
        if let Some(ending) = ending {
            comparisons.tally.note(candidate, &ending, pair.deps.clock.now());
        }
    });
}

/// Returns whether chance takes a fill that stored something.
pub(crate) fn is_sampled(candidate: &Candidate) -> bool {
    candidate.mode == MigrationMode::Check && candidate.check_share.takes(fastrand::u64(..))
}

/// Result of two readings.
pub(crate) enum Found {
    /// Nothing a later reading could change.
    Ended(Ending),
    /// They differ, and the record may have changed between.
    Differs(Differences),
    OtherVersion,
}

impl Found {
    /// Returns the ending, where this was found first and both were read again after a while.
    pub(crate) fn again(self, now: Self) -> Ending {
        match (self, now) {
            (_, Self::Ended(ending)) => ending,
            (_, Self::OtherVersion) => Ending::VersionDiffers,
            (Self::Differs(before), Self::Differs(now)) => {
                Some(before.and(&now)).filter(|both| !both.is_empty()).map_or(Ending::Same, Ending::Differs)
            }
            (_, Self::Differs(now)) => Ending::Differs(now),
        }
    }
}

impl Pair {
    async fn compare(&self) -> Ending {
        let before = match self.read(false).await {
            Ok(Found::Ended(ending)) | Err(ending) => return ending,
            Ok(before) => before,
        };
        tokio::time::sleep(limits::CHECK_AGAIN).await;
        match self.read(true).await {
            Ok(now) => before.again(now),
            Err(ending) => ending,
        }
    }

    /// Reads both upstreams, the current one out of the store unless `anew` or it has a coding that
    /// nobody here can take off.
    async fn read(&self, anew: bool) -> Result<Found, Ending> {
        self.turn().await?;
        if anew {
            self.turn().await?;
        }
        let comparisons = &self.deps.comparisons;
        let _at_once = comparisons.at_once.acquire().await.map_err(|_| Ending::Skipped)?;
        let current = match self.stored().filter(|stored| !anew && Coding::of(&stored.headers()).is_ok()) {
            Some(entry) => {
                let stated = entry.shows().iter().map(|shown| shown.version);
                let versions = stated.filter(|version| version.is_credible()).collect();
                self.reading(entry.status, entry.headers(), entry.body(), versions)?
            }
            None => self.current().await?,
        };
        let candidate = self.candidate(anew).await?;
        Ok(self.found(current, candidate).await)
    }

    fn stored(&self) -> Option<Arc<Entry>> {
        self.deps.store.get(self.key.as_ref())
    }

    /// Keeps a reading within the budget for bodies, with what it takes to compare it.
    fn reading(
        &self,
        status: StatusCode,
        headers: HeaderMap,
        body: Bytes,
        versions: Vec<Version>,
    ) -> Result<Reading, Ending> {
        let _reserved = match body.len() {
            ..=COPIED_BODY_BYTES => None,
            bytes if bytes > limits::COMPARED_BYTES => return Err(Ending::Unreadable),
            bytes => Some(
                self.upstreams
                    .current
                    .direct
                    .bodies()
                    .reserve((bytes * limits::COMPARED_WEIGHT) as u64)
                    .ok_or(Ending::Skipped)?,
            ),
        };
        Ok(Reading { status, headers, body, versions, _reserved })
    }

    /// Waits until nothing else wants the background's budget.
    async fn turn(&self) -> Result<(), Ending> {
        let (every, longest) = limits::CHECK_TURN;
        let regions = &self.upstreams.current.direct;
        let until = self.deps.clock.now() + longest;
        while !regions.admit_check(self.region) {
            if self.deps.clock.now() >= until || regions.drained().contains(self.region) {
                return Err(Ending::Skipped);
            }
            tokio::time::sleep(every).await;
        }
        Ok(())
    }

    /// Reads the current upstream now.
    pub(crate) async fn current(&self) -> Result<Reading, Ending> {
        let upstream = &self.upstreams.current;
        let with = Additions { no_cache: true, is_uncoded: true, ..Additions::default() };
        let reading = self.ask(upstream, prepare_request(upstream, self.request.clone(), with)).await;
        reading.map_err(|ending| if ending == Ending::Refused { Ending::Failed } else { ending })
    }

    /// Reads the candidate; `anew` past any cache in front of it.
    pub(crate) async fn candidate(&self, anew: bool) -> Result<Reading, Ending> {
        let upstream = self.upstreams.candidate.as_ref().ok_or(Ending::Skipped)?;
        let form = upstream.form.filter(|_| {
            self.form
                .as_ref()
                .is_some_and(|current| self.request.headers.get(header::ACCEPT) == Some(&accept_of(*current)))
        });
        let with = Additions { no_cache: anew, is_uncoded: true, form, ..Additions::default() };
        let reading = self.ask(upstream, prepare_request(upstream, self.request.clone(), with)).await?;
        // Nobody asked for it, and callers would get it under `new`.
        if Coding::of(&reading.headers) == Ok(Coding::Identity) { Ok(reading) } else { Err(Ending::Unreadable) }
    }

    /// Asks outside of any race: a failure says nothing about the record, and health and tokens of
    /// the region are not changed by it.
    async fn ask(&self, upstream: &Upstream, request: Arc<Outgoing>) -> Result<Reading, Ending> {
        let regions = &upstream.direct;
        let reply = regions.origin().ask(self.region, request, regions.deadline()).await;
        let Reply { status, headers, body, versions, .. } = reply.map_err(|failure| match failure {
            Failure::Coding { .. } => Ending::Unreadable,
            _ => Ending::Failed,
        })?;
        let says = status.is_success() && status != StatusCode::PARTIAL_CONTENT || is_absent(status);
        let is_refused = (status.is_redirection() || status.is_client_error()) && !is_worthless(status);
        if says {
            self.reading(status, headers, body, versions)
        } else {
            Err(if is_refused { Ending::Refused } else { Ending::Failed })
        }
    }

    pub(crate) async fn found(&self, current: Reading, candidate: Reading) -> Found {
        let are_stated = [&current, &candidate].iter().all(|reading| reading.versions.len() == self.records);
        let versions = are_stated.then(|| current.versions == candidate.versions);
        if versions == Some(false) {
            return Found::OtherVersion;
        }
        let compared = match (is_absent(current.status), is_absent(candidate.status)) {
            (true, true) => Some(Compared::Same),
            (false, false) => self.compared(current, candidate).await,
            _ => Some(Compared::Differs(Differences::of_the_whole())),
        };
        match compared {
            Some(Compared::Same) => Found::Ended(Ending::Same),
            Some(Compared::Unreadable) => Found::Ended(Ending::Unreadable),
            Some(Compared::Differs(differences)) if versions.is_some() => Found::Ended(Ending::Differs(differences)),
            Some(Compared::Differs(differences)) => Found::Differs(differences),
            None => Found::Ended(Ending::Failed),
        }
    }

    /// `None` if the work panicked.
    async fn compared(&self, current: Reading, candidate: Reading) -> Option<Compared> {
        let schema = self.schema.clone();
        let is_small = current.body.len() + candidate.body.len() <= INLINE_DERIVE_BYTES;
        if is_small {
            return Some(meant(&current, &candidate, schema.as_deref()));
        }
        on_blocking_pool(move || meant(&current, &candidate, schema.as_deref())).await
    }
}

fn is_absent(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE)
}

fn meant(current: &Reading, candidate: &Reading, schema: Option<&Schema>) -> Compared {
    let [current, candidate] =
        [current, candidate].map(|reading| Coded { headers: &reading.headers, body: &reading.body });
    by_meaning(current, candidate, schema)
}

/// A body as it came, with the header lines that state its coding and its form.
#[derive(Clone, Copy)]
pub(crate) struct Coded<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a Bytes,
}

/// Compares two bodies by what they mean.
pub(crate) fn by_meaning(first: Coded<'_>, second: Coded<'_>, schema: Option<&Schema>) -> Compared {
    let [one, other] = [first, second].map(|it| decoded(it.headers, it.body));
    let (Some(one), Some(other)) = (one, other) else { return Compared::Unreadable };
    let [first, second] = [first, second].map(|it| format_of(it.headers));
    compare(Side { format: first, body: &one }, Side { format: second, body: &other }, schema)
}

fn decoded(headers: &HeaderMap, body: &Bytes) -> Option<Bytes> {
    let coding = Coding::of(headers).ok()?;
    decode(coding, body, limits::COMPARED_BYTES, None).ok()
}

fn format_of(headers: &HeaderMap) -> Format {
    match form_sent(headers) {
        Some(Form::Json) => Format::Json,
        Some(Form::Protobuf) => Format::Protobuf,
        None => Format::Otherwise,
    }
}

#[cfg(test)]
mod tests;
