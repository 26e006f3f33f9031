//! What is stored of a path, and what each region says of it at this moment: for an operator who
//! asks why an answer is old. Regions are asked what they would be asked for a caller's own
//! request, by the way that answers. It is no race, and nothing is kept or counted.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::caller::Caller;
use super::fill::Of;
use super::fill::ask::dressed;
use super::fill::comparison::by_meaning;
use super::foreign::{self, HeaderFate, fate};
use super::pass::whole_read;
use super::race::region::Regions;
use super::router::Matched;
use super::{Core, limits, lookup, way};
use crate::cache::entry::Entry;
use crate::cache::key::Key;
use crate::config::overrides::overrides;
use crate::http::admission::{Admitted, Head};
use crate::http::exchange::{Failure, Outgoing, Reply};
use crate::model::ids::{RecordId, RegionId};
use crate::payload::compare::{Compared, Differences};
use crate::payload::schema::Schema;
use crate::protocol::standing::Sent;

/// One path, for one caller.
pub(crate) struct Beside {
    pub(crate) stored: Option<(Key, Arc<Entry>)>,
    pub(crate) records: Vec<RecordId>,
    /// The caller's headers that make its requests be passed on: nothing that is stored is for it.
    pub(crate) passed_for: Vec<HeaderName>,
    /// The second way of its route answers.
    pub(crate) is_second: bool,
    request: Outgoing,
    regions: Arc<Regions>,
    schema: Option<Arc<Schema>>,
}

/// Why there is nothing to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotBeside {
    /// No route names the path, or the sidecar itself refuses the request.
    Refused,
    /// A range or a condition, with which a request is passed on.
    Part,
    /// A header that may make another request of it.
    Override(HeaderName),
}

/// `head` says `no-cache`.
///
/// # Errors
/// See [`NotBeside`].
pub(crate) fn beside(core: &Arc<Core>, head: Head<'_>) -> Result<Beside, NotBeside> {
    let mut matched = core.router.find(head.path()).ok_or(NotBeside::Refused)?;
    way::choose(&mut matched);
    let caller = Caller::of(head.headers);
    if !caller.is_cached && !core.is_ranged_shape(&caller, head, &matched) {
        return Err(NotBeside::Part);
    }
    let is_sent = |name: &&HeaderName| fate(matched.route, name) == HeaderFate::Foreign;
    if let Some(name) = overrides(head.headers).find(is_sent) {
        return Err(NotBeside::Override(name.clone()));
    }
    let found = match caller.is_foreign(core, head.headers, &matched) {
        false => filled(core, head, &matched),
        true => passed(core, head, &matched),
    };
    let mut found = found.ok_or(NotBeside::Refused)?;
    found.request.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(found)
}

/// As the first reader of an entry asks.
fn filled(core: &Arc<Core>, head: Head<'_>, matched: &Matched<'_>) -> Option<Beside> {
    let ask = lookup::would_ask(core, head, matched)?;
    let Of::Route(routing) = &ask.of else { return None };
    let sent = Sent { at: core.clock.now(), horizon: core.freshness.horizon().clone(), fence: routing.snapshots() };
    let request = Outgoing::clone(&*dressed(core, &ask, routing, &sent, false, None)?);
    let second = core.second(matched.id);
    Some(Beside {
        stored: core.store.get(ask.key.as_ref()).map(|entry| (ask.key.clone(), entry)),
        records: routing.records().iter().map(|(id, _)| *id).collect(),
        passed_for: Vec::new(),
        is_second: second.is_some(),
        request,
        regions: second.map_or(&core.regions, |(.., second)| &second.regions).clone(),
        schema: core.schema_at(matched.place),
    })
}

/// As one is passed on.
fn passed(core: &Core, head: Head<'_>, matched: &Matched<'_>) -> Option<Beside> {
    let admitted = Admitted {
        method: head.method.clone(),
        path_and_query: head.path_and_query.to_owned(),
        path_len: head.path_len,
        headers: head.headers.clone(),
        body: Bytes::new(),
    };
    let (regions, request) = whole_read(core, &admitted, matched).ok()?;
    Some(Beside {
        stored: None,
        records: core.on_route(matched).records,
        passed_for: foreign::names(matched.route, head.headers).cloned().collect(),
        is_second: core.second(matched.id).is_some(),
        request,
        regions: regions.clone(),
        schema: core.schema_at(matched.place),
    })
}

impl Beside {
    /// Asks every region that is not drained, and keeps of each reply what `read` makes of it.
    pub(crate) async fn ask<T>(&self, read: impl Fn(Result<Reply, Failure>) -> T) -> Vec<(RegionId, T)> {
        let request = Arc::new(self.request.clone());
        let drained = self.regions.drained();
        let read = &read;
        let one = |id: u8| {
            let (region, request) = (RegionId(id), request.clone());
            async move {
                let reply = match drained.contains(region) {
                    true => Err(Failure::Drained),
                    false => self.regions.origin().ask(region, request, self.regions.deadline()).await,
                };
                (region, read(reply))
            }
        };
        stream::iter((0..self.regions.count() as u8).map(one)).buffered(limits::BESIDE_AT_ONCE).collect().await
    }

    /// Places where a reply means something else than what is stored; `None` where nobody can tell.
    pub(crate) fn differences(&self, stored: (&HeaderMap, &Bytes), reply: &Reply) -> Option<Differences> {
        match by_meaning(stored, (&reply.headers, &reply.body), self.schema.as_deref()) {
            Compared::Differs(differences) => Some(differences),
            Compared::Same | Compared::Unreadable => None,
        }
    }
}

impl Core {
    /// The message that replies of the route at this index are.
    fn schema_at(&self, place: usize) -> Option<Arc<Schema>> {
        self.shapes[place].as_ref()?.schema().cloned()
    }
}
