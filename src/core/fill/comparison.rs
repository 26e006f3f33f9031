//! Compares what the first way of a route brought with what the second one says, for a sampled share
//! of the fills that stored something. It comes after everything else in the background, and touches
//! neither store nor floors: what it reads is compared, counted and dropped.

use std::sync::Arc;

use http::{HeaderMap, StatusCode, header};
use tokio::sync::Semaphore;

use super::{Ask, Routing};
use crate::config::{Form, Way};
use crate::core::race::region::Regions;
use crate::core::race::verdict::is_worthless;
use crate::core::way::ledger::{Ending, Ledger};
use crate::core::{Core, floors, limits, shape, way};
use crate::http::exchange::{Outgoing, Reply};
use crate::model::ids::{RegionId, Version};
use crate::payload::coding::{Coding, decode};
use crate::payload::compare::{Compared, Differences, Side, Written, compare};
use crate::payload::schema::Schema;
use crate::protocol::standing::Sent;
use crate::tasks::on_blocking_pool;

/// What comparisons have found, and how many may wait or be under way.
#[derive(Debug)]
pub struct Comparisons {
    pub ledger: Ledger,
    room: Arc<Semaphore>,
}

impl Default for Comparisons {
    fn default() -> Self {
        Self { ledger: Ledger::default(), room: Arc::new(Semaphore::new(limits::CHECKS)) }
    }
}

/// One reading of a record.
#[derive(Clone)]
struct Reading {
    status: StatusCode,
    headers: HeaderMap,
    body: bytes::Bytes,
    /// Of all records of the route, or none.
    versions: Vec<Version>,
}

impl From<Reply> for Reading {
    fn from(reply: Reply) -> Self {
        let Reply { status, headers, body, versions, .. } = reply;
        Self { status, headers, body, versions }
    }
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
    let versions = entry.shows().iter().map(|shown| shown.version).filter(|version| version.is_credible()).collect();
    let first = Reading { status: entry.status, headers: entry.headers(), body: entry.body(), versions };
    let pair =
        Pair { core: core.clone(), place, region: entry.region, request: ask.request.clone(), of: routing.clone() };
    let stopping = core.tasks.stopping();
    core.tasks.spawn("compare", async move {
        let _room = room;
        let ending = stopping.run_until_cancelled(pair.compare(first)).await;
        if let Some(ending) = ending {
            pair.core.comparisons.ledger.note(id, &ending, pair.core.clock.now());
        }
    });
}

/// The two ways to one record, in the region that answered.
struct Pair {
    core: Arc<Core>,
    place: usize,
    region: RegionId,
    /// As a fill of the first way asks.
    request: Arc<Outgoing>,
    of: Routing,
}

/// What comes of two readings.
enum Found {
    /// Nothing a later reading could change.
    Ended(Ending),
    /// They differ, and the record may have changed between.
    Differs(Differences),
    OtherVersion,
}

impl Pair {
    async fn compare(&self, first: Reading) -> Ending {
        if !self.turn().await {
            return Ending::Skipped;
        }
        let Some(second) = self.second(false).await else { return Ending::Failed };
        let before = match self.found(first, second).await {
            Found::Ended(ending) => return ending,
            before => before,
        };
        tokio::time::sleep(limits::CHECK_AGAIN).await;
        if !(self.turn().await && self.turn().await) {
            return Ending::Skipped;
        }
        let (Some(first), Some(second)) = (self.first().await, self.second(true).await) else {
            return Ending::Failed;
        };
        match (before, self.found(first, second).await) {
            (_, Found::Ended(ending)) => ending,
            (_, Found::OtherVersion) => Ending::VersionDiffers,
            (Found::Differs(before), Found::Differs(now)) => {
                Some(before.and(&now)).filter(|both| !both.is_empty()).map_or(Ending::Same, Ending::Differs)
            }
            (_, Found::Differs(now)) => Ending::Differs(now),
        }
    }

    /// Waits until nothing else wants the background's budget; false if that does not come.
    async fn turn(&self) -> bool {
        let (every, longest) = limits::CHECK_TURN;
        let until = self.core.clock.now() + longest;
        while !self.core.regions.admit_check(self.region) {
            if self.core.clock.now() >= until || self.core.regions.drained().contains(self.region) {
                return false;
            }
            tokio::time::sleep(every).await;
        }
        true
    }

    /// What the first way says now.
    async fn first(&self) -> Option<Reading> {
        let mut request = Outgoing::clone(&self.request);
        if let Some(held) = &self.core.credentials[self.place] {
            request.headers.insert(held.header.clone(), held.value());
        }
        floors::insert(&mut request.headers, true, None);
        self.ask(&self.core.regions, request).await
    }

    /// What the second way says; `anew` past any cache in front of it.
    async fn second(&self, anew: bool) -> Option<Reading> {
        let (route, second, held) = self.core.second_at(self.place)?;
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
        self.ask(&held.regions, request).await
    }

    /// `None` for what says nothing about the record. It is no race: health and tokens of the region
    /// hear nothing of it.
    async fn ask(&self, regions: &Regions, request: Outgoing) -> Option<Reading> {
        let reply = regions.origin().ask(self.region, Arc::new(request), regions.deadline()).await.ok()?;
        let says =
            reply.status.is_success() && reply.status != StatusCode::PARTIAL_CONTENT || is_absent(reply.status);
        (says && !is_worthless(reply.status)).then(|| reply.into())
    }

    async fn found(&self, first: Reading, second: Reading) -> Found {
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
    let content = |reading: &Reading| {
        let coding = Coding::of(&reading.headers).ok()?;
        decode(coding, &reading.body, limits::COMPARED_BYTES, None).ok()
    };
    let (Some(one), Some(other)) = (content(first), content(second)) else { return Compared::Unreadable };
    let side = |reading: &Reading| {
        let media_type = reading.headers.get(header::CONTENT_TYPE);
        match media_type.and_then(|value| shape::form_named(value.as_bytes())) {
            Some(Form::Json) => Written::Json,
            Some(Form::Protobuf) => Written::Protobuf,
            None => Written::Otherwise,
        }
    };
    let (written, there) = (side(first), side(second));
    compare(Side { written, body: &one }, Side { written: there, body: &other }, schema)
}

#[cfg(test)]
mod tests;
