//! Request of a fill: the representation's key, the request as regions get it, and the entry that
//! is stored already.

use std::sync::Arc;

use http::HeaderName;

use super::permits::PermitKey;
use crate::cache::entry::Entry;
use crate::cache::key::Key;
use crate::http::exchange::Outgoing;
use crate::model::ids::{Generation, RecordId, RouteId, Version};
use crate::model::time::Moment;
use crate::protocol::Freshness;
use crate::protocol::record::{Record, Snapshot};
use crate::race::gather::InBatch;
use crate::race::question::Purpose;
use crate::switch::{Rule, is_on};

/// One representation to ask for.
#[derive(Clone)]
pub struct Ask {
    pub key: Key,
    /// The request, without validators and without the sidecar's own credentials.
    pub request: Arc<Outgoing>,
    pub of: Of,
    /// Entry that is stored under the key now.
    pub previous: Option<Arc<Entry>>,
    /// Purpose of the fill: foreground if a reader waits for it.
    pub purpose: Purpose,
    /// Ask end to end, in a fill that begins after the reader came: it said `no-cache`.
    pub no_cache: bool,
    /// Versions that its reader knows of: a fill that began earlier will do if it brought them.
    /// Only where the origin is authoritative.
    pub floor: Option<Arc<[Version]>>,
    /// Share with nobody and store nothing: the caller said `no-store`.
    pub alone: bool,
    /// Headers of the caller that do not reach the regions and might matter to them.
    pub dropped: Arc<[HeaderName]>,
    /// The permit that its reader needs for what is stored (R22); `None` where nobody reads for it.
    pub(crate) permit: Option<AskedPermit>,
    /// Its batch's: what is asked for together travels in one request per region.
    pub(crate) through: Option<Arc<InBatch>>,
}

/// The permit of a caller for a view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedPermit {
    pub(crate) key: PermitKey,
    /// Distinguishes the credentials that have it in common, by their claims; 0 if one has it alone.
    pub(crate) credential: u32,
    /// True if what is stored would do, but for the permit.
    pub(crate) is_missing: bool,
    /// True if nothing is shared without it: regions answer each caller by its own credentials.
    pub(crate) is_needed: bool,
}

/// Which rules apply.
#[derive(Clone)]
pub enum Of {
    /// On a route: announcements.
    Route(Routing),
    /// On no route: RFC 9111; with when the path was last invalidated.
    Path(Moment),
}

#[derive(Clone)]
pub struct Routing {
    /// The route's id ([`crate::routing::router`]).
    pub route: RouteId,
    pinned: Arc<Pinned>,
}

/// Live cells, given back to freshness when the last fill or reader drops them, so that a fill that
/// stored nothing leaves none behind.
struct Pinned {
    freshness: Arc<Freshness>,
    records: Vec<(RecordId, Arc<Record>)>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        for (id, record) in self.records.drain(..) {
            drop(record);
            self.freshness.release(id);
        }
    }
}

impl Routing {
    /// `records` in the route's order.
    pub fn new(freshness: &Arc<Freshness>, route: RouteId, records: Vec<(RecordId, Arc<Record>)>) -> Self {
        Self { route, pinned: Arc::new(Pinned { freshness: freshness.clone(), records }) }
    }

    /// Records in the route's order.
    pub fn records(&self) -> &[(RecordId, Arc<Record>)] {
        &self.pinned.records
    }

    /// Notes a reader of each record.
    pub fn note_read(&self, now: Moment) {
        self.records().iter().for_each(|(_, record)| record.note_read(now));
    }

    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.records().iter().map(|(_, record)| record.snapshot()).collect()
    }

    /// The newest generation of the records. They are drawn from one sequence, so it moves whenever
    /// that of any record does.
    pub fn generation(&self) -> Generation {
        self.records().iter().map(|(_, record)| record.snapshot().generation).max().unwrap_or_default()
    }
}

impl Ask {
    /// An ask for a stored representation of a route, past any cache and for nobody's sake: no reader
    /// waits for it, and none of what its first reader said holds.
    pub(crate) fn again(key: Key, request: Arc<Outgoing>, routing: Routing) -> Self {
        Self {
            key,
            request,
            of: Of::Route(routing),
            previous: None,
            purpose: Purpose::Background,
            no_cache: true,
            floor: None,
            alone: false,
            dropped: Arc::default(),
            permit: None,
            through: None,
        }
    }

    /// The generation that its fill belongs to (R3).
    pub fn generation(&self) -> Generation {
        match &self.of {
            Of::Route(routing) if is_on(Rule::R3) => routing.generation(),
            Of::Route(_) => Generation::default(),
            Of::Path(invalidated) => Generation(invalidated.as_nanos()),
        }
    }

    /// Key under which what failed for its reader alone is remembered; `None` where no answer is for one
    /// reader alone.
    pub(crate) fn own_key(&self) -> Option<Key> {
        let permit = self.permit.filter(|permit| permit.is_needed)?;
        let mut own = permit.key.to_bytes();
        own.iter_mut().zip(permit.credential.to_be_bytes()).for_each(|(byte, more)| *byte ^= more);
        Some(self.key.extended(&own))
    }

    /// True if its permit is also that of other credentials, whose ends are compared at each request.
    pub(crate) fn is_shared_by_tokens(&self) -> bool {
        self.permit.is_some_and(|permit| permit.credential != 0)
    }

    /// Its batch does not wait for it: another fill answers it.
    pub(crate) fn withdraw(&self) {
        self.through.iter().for_each(|batch| batch.began());
    }

    /// True if its reader accepts no reply to a request from before it came.
    pub fn insists(&self) -> bool {
        self.no_cache && self.purpose == Purpose::Foreground
    }

    /// True if regions are asked past any cache in front of them, because the caller wants that or
    /// something was announced (R8).
    pub fn is_end_to_end(&self) -> bool {
        if self.no_cache {
            return true;
        }
        let Of::Route(routing) = &self.of else { return false };
        is_on(Rule::R8) && routing.records().iter().any(|(_, it)| it.snapshot().marker.is_some())
    }
}
