//! Compares what the first way of a route brought with what the second one says, for a sampled share
//! of the fills that stored something. It comes after everything else in the background, and touches
//! neither store nor floors: what it reads is compared, counted and dropped.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio::sync::Semaphore;

use super::{Ask, Routing};
use crate::cache::entry::Entry;
use crate::cache::key::Key;
use crate::cache::limits::COPIED_BODY_BYTES;
use crate::config::{Form, Way};
use crate::core::race::region::Regions;
use crate::core::race::verdict::is_worthless;
use crate::core::way::ledger::{Ending, Ledger};
use crate::core::{Core, floors, limits, shape, way};
use crate::http::bodies::Reserved;
use crate::http::exchange::{Failure, Outgoing, Reply};
use crate::model::ids::{RegionId, Version};
use crate::payload::coding::{Coding, decode};
use crate::payload::compare::{Compared, Differences, Format, Side, compare};
use crate::payload::schema::Schema;
use crate::protocol::standing::Sent;
use crate::tasks::on_blocking_pool;

/// What comparisons have found, and how many may wait or be under way.
#[derive(Debug)]
pub struct Comparisons {
    pub ledger: Ledger,
    room: Arc<Semaphore>,
    /// Held while something is asked and compared.
    at_once: Semaphore,
}

impl Default for Comparisons {
    fn default() -> Self {
        let room = Arc::new(Semaphore::new(limits::CHECKS));
        Self { ledger: Ledger::default(), room, at_once: Semaphore::new(limits::CHECKS_AT_ONCE) }
    }
}

/// One reading of a record.
pub(in crate::core) struct Reading {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    /// Of all records of the route, or none.
    versions: Vec<Version>,
    /// Its part of the budget for bodies, if it is large.
    _reserved: Option<Reserved>,
}

/// Begins a comparison, if this fill of a first way stored something and chance takes it.
pub(super) fn begin(core: &Arc<Core>, ask: &Ask, routing: &Routing, sent: &Sent) {
    let Some(place) = core.router.place(routing.route) else { return };
    let Some((_, second, _)) = core.second_at(place) else { return };
    let id = core.router.second_id(place).filter(|id| *id != routing.route);
    let Some(id) = id.filter(|_| second.way == Way::Check && second.check_share.takes(fastrand::u64(..))) else {
        return;
    };
    let stored = core.store.get(ask.key.as_ref()).filter(|entry| entry.sent == sent.at);
    let Some(entry) = stored else { return };
    if core.sheds.load(std::sync::atomic::Ordering::Relaxed) {
        return;
    }
    let Ok(room) = core.comparisons.room.clone().try_acquire_owned() else {
        return core.comparisons.ledger.note(id, &Ending::Skipped, core.clock.now());
    };
    let (core, key, region, request) = (core.clone(), ask.key.clone(), entry.region, ask.request.clone());
    let pair = Pair { core, place, key, region, request, of: routing.clone() };
    let (tasks, stopping) = (pair.core.tasks.clone(), pair.core.tasks.stopping());
    tasks.spawn("compare", async move {
        let _room = room;
        let ending = stopping.run_until_cancelled(pair.compare()).await;
        if let Some(ending) = ending {
            pair.core.comparisons.ledger.note(id, &ending, pair.core.clock.now());
        }
    });
}

/// The two ways to one record, in the region that answered.
pub(in crate::core) struct Pair {
    pub(in crate::core) core: Arc<Core>,
    pub(in crate::core) place: usize,
    /// What the first way stored is under it. Nothing of that is held while this waits.
    pub(in crate::core) key: Key,
    pub(in crate::core) region: RegionId,
    /// As a fill of the first way asks.
    pub(in crate::core) request: Arc<Outgoing>,
    pub(in crate::core) of: Routing,
}

/// What comes of two readings.
pub(in crate::core) enum Found {
    /// Nothing a later reading could change.
    Ended(Ending),
    /// They differ, and the record may have changed between.
    Differs(Differences),
    OtherVersion,
}

impl Found {
    /// What counts, where this was found first and the ways were read again after a while.
    pub(in crate::core) fn again(self, now: Self) -> Ending {
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

    /// Reads both ways, the first one out of the store unless `anew` or it has a coding that nobody
    /// here can take off.
    async fn read(&self, anew: bool) -> Result<Found, Ending> {
        self.turn().await?;
        if anew {
            self.turn().await?;
        }
        let comparisons = &self.core.comparisons;
        let _at_once = comparisons.at_once.acquire().await.map_err(|_| Ending::Skipped)?;
        let first = match self.stored().filter(|stored| !anew && Coding::of(&stored.headers()).is_ok()) {
            Some(entry) => {
                let stated = entry.shows().iter().map(|shown| shown.version);
                let versions = stated.filter(|version| version.is_credible()).collect();
                self.reading(entry.status, entry.headers(), entry.body(), versions)?
            }
            None => self.first().await?,
        };
        let second = self.second(anew).await?;
        Ok(self.found(first, second).await)
    }

    fn stored(&self) -> Option<Arc<Entry>> {
        self.core.store.get(self.key.as_ref())
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
            bytes => Some(self.core.bodies.reserve((bytes * limits::COMPARED_WEIGHT) as u64).ok_or(Ending::Skipped)?),
        };
        Ok(Reading { status, headers, body, versions, _reserved })
    }

    /// Waits until nothing else wants the background's budget.
    async fn turn(&self) -> Result<(), Ending> {
        let (every, longest) = limits::CHECK_TURN;
        let until = self.core.clock.now() + longest;
        while !self.core.regions.admit_check(self.region) {
            if self.core.clock.now() >= until || self.core.regions.drained().contains(self.region) {
                return Err(Ending::Skipped);
            }
            tokio::time::sleep(every).await;
        }
        Ok(())
    }

    /// What the first way says now.
    pub(in crate::core) async fn first(&self) -> Result<Reading, Ending> {
        let mut request = Outgoing::clone(&self.request);
        if let Some(held) = &self.core.credentials[self.place] {
            request.headers.insert(held.header.clone(), held.value());
        }
        floors::insert(&mut request.headers, true, None);
        let of_the_second = |ending| if ending == Ending::Refused { Ending::Failed } else { ending };
        self.ask(&self.core.regions, request).await.map_err(of_the_second)
    }

    /// What the second way says; `anew` past any cache in front of it.
    pub(in crate::core) async fn second(&self, anew: bool) -> Result<Reading, Ending> {
        let (route, second, held) = self.core.second_at(self.place).ok_or(Ending::Skipped)?;
        let mut request = Outgoing::clone(&self.request);
        request.path_and_query = way::target(route, second, &request.path_and_query).into_owned();
        let asked = route.payload.message.as_ref().map(|message| message.form);
        if let Some((first, other)) = asked.zip(second.form)
            && request.headers.get(header::ACCEPT) == Some(&shape::accept_of(first))
        {
            request.headers.insert(header::ACCEPT, shape::accept_of(other));
        }
        if let Some(held) = self.core.second_credentials(self.place) {
            request.headers.insert(held.header.clone(), held.value());
        }
        floors::insert(&mut request.headers, anew, None);
        let reading = self.ask(&held.regions, request).await?;
        // Nobody asked for it, and callers would get it under `new`.
        if Coding::of(&reading.headers) == Ok(Coding::Identity) { Ok(reading) } else { Err(Ending::Unreadable) }
    }

    /// What says nothing about the record has failed. It is no race: health and tokens of the region
    /// hear nothing of it.
    async fn ask(&self, regions: &Regions, mut request: Outgoing) -> Result<Reading, Ending> {
        request.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let reply = regions.origin().ask(self.region, Arc::new(request), regions.deadline()).await;
        let Reply { status, headers, body, versions, .. } = reply.map_err(|failure| match failure {
            Failure::Coding { .. } => Ending::Unreadable,
            _ => Ending::Failed,
        })?;
        let says = status.is_success() && status != StatusCode::PARTIAL_CONTENT || is_absent(status);
        let is_refused = (status.is_redirection() || status.is_client_error()) && !is_worthless(status);
        match says {
            true => self.reading(status, headers, body, versions),
            false if is_refused => Err(Ending::Refused),
            false => Err(Ending::Failed),
        }
    }

    pub(in crate::core) async fn found(&self, first: Reading, second: Reading) -> Found {
        let records = self.of.records().len();
        let stated = |reading: &Reading| reading.versions.len() == records;
        let versions = (stated(&first) && stated(&second)).then(|| first.versions == second.versions);
        if versions == Some(false) {
            return Found::OtherVersion;
        }
        let compared = match (is_absent(first.status), is_absent(second.status)) {
            (true, true) => Some(Compared::Same),
            (false, false) => self.compared(first, second).await,
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
    async fn compared(&self, first: Reading, second: Reading) -> Option<Compared> {
        let schema = self.core.shapes[self.place].as_ref().and_then(|shapes| shapes.schema().cloned());
        let is_small = first.body.len() + second.body.len() <= limits::INLINE_DERIVE_BYTES;
        let work = move || meant(&first, &second, schema.as_deref());
        if is_small { Some(work()) } else { on_blocking_pool(work).await }
    }
}

fn is_absent(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE)
}

fn meant(first: &Reading, second: &Reading, schema: Option<&Schema>) -> Compared {
    by_meaning((&first.headers, &first.body), (&second.headers, &second.body), schema)
}

/// Compares two bodies with their header lines by what they mean.
pub(in crate::core) fn by_meaning(
    first: (&HeaderMap, &Bytes),
    second: (&HeaderMap, &Bytes),
    schema: Option<&Schema>,
) -> Compared {
    let content = |(headers, body): (&HeaderMap, &Bytes)| {
        let coding = Coding::of(headers).ok()?;
        decode(coding, body, limits::COMPARED_BYTES, None).ok()
    };
    let (Some(one), Some(other)) = (content(first), content(second)) else { return Compared::Unreadable };
    let format = |(headers, _): (&HeaderMap, _)| match shape::form_sent(headers) {
        Some(Form::Json) => Format::Json,
        Some(Form::Protobuf) => Format::Protobuf,
        None => Format::Otherwise,
    };
    let (first, second) = (format(first), format(second));
    compare(Side { format: first, body: &one }, Side { format: second, body: &other }, schema)
}

#[cfg(test)]
mod tests;
