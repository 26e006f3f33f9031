//! Stored entry of a path beside the current reply of each region: for an operator who asks why an
//! answer is old. Regions are sent the request that a caller's own would cause, by the upstream that
//! answers. It is no race, and nothing is kept or counted.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::{HeaderName, HeaderValue, header};

use super::caller::Caller;
use super::found::on_route;
use super::limits;
use super::lookup::{is_ranged_shape, route_of, would_ask};
use super::pass::foreign::whole_read;
use super::settings::Settings;
use crate::cache::entry::Entry;
use crate::cache::key::Key;
use crate::config::overrides::overrides;
use crate::fill::ask::Of;
use crate::fill::prepare::fill_request;
use crate::http::admission::{Admitted, Head};
use crate::http::exchange::{Failure, Outgoing, Reply};
use crate::migration::comparison::{Coded, by_meaning};
use crate::model::ids::{RecordId, RegionId, RouteIndex};
use crate::payload::compare::{Compared, Differences};
use crate::payload::schema::Schema;
use crate::protocol::standing::Sent;
use crate::race::region::Regions;
use crate::routing::foreign::{self, HeaderFate, fate};
use crate::routing::router::Matched;

/// One path, for one caller.
pub(crate) struct Beside {
    pub(crate) stored: Option<(Key, Arc<Entry>)>,
    pub(crate) records: Vec<RecordId>,
    /// The caller's headers that make its requests be passed on: nothing that is stored is for it.
    pub(crate) passed_for: Vec<HeaderName>,
    /// The candidate of its route answers.
    pub(crate) is_candidate: bool,
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
pub(crate) fn beside(settings: &Arc<Settings>, head: Head<'_>) -> Result<Beside, NotBeside> {
    let matched = route_of(settings, head.path()).ok_or(NotBeside::Refused)?;
    let caller = Caller::of(head.headers);
    if !caller.is_cached && !is_ranged_shape(settings, &caller, head, &matched) {
        return Err(NotBeside::Part);
    }
    let mut overrides = overrides(head.headers);
    if let Some(name) = overrides.find(|name| fate(matched.route, name) == HeaderFate::Foreign) {
        return Err(NotBeside::Override(name.clone()));
    }
    let found = if caller.is_foreign(settings, head.headers, &matched) {
        passed(settings, head, &matched)
    } else {
        filled(settings, head, &matched)
    };
    let mut found = found.ok_or(NotBeside::Refused)?;
    found.request.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(found)
}

/// As the first reader of an entry asks.
fn filled(settings: &Arc<Settings>, head: Head<'_>, matched: &Matched<'_>) -> Option<Beside> {
    let ask = would_ask(settings, head, matched)?;
    let Of::Route(routing) = &ask.of else { return None };
    let sent = Sent {
        at: settings.fill.shared.clock.now(),
        region_views: settings.fill.shared.freshness.region_views().clone(),
        fence: routing.snapshots(),
        grants: settings.fill.shared.freshness.grants().floor(),
    };
    let upstream = settings.fill.upstream(matched.id)?;
    let request = Outgoing::clone(&*fill_request(upstream, &ask, &sent, false, None));
    Some(Beside {
        stored: settings.fill.shared.store.get(ask.key.as_ref()).map(|entry| (ask.key.clone(), entry)),
        records: routing.records().iter().map(|(id, _)| *id).collect(),
        passed_for: Vec::new(),
        is_candidate: settings.fill.is_candidate(matched.id),
        request,
        regions: upstream.direct.clone(),
        schema: schema_at(settings, matched.index),
    })
}

/// As one is passed on.
fn passed(settings: &Settings, head: Head<'_>, matched: &Matched<'_>) -> Option<Beside> {
    let admitted = Admitted {
        method: head.method.clone(),
        path_and_query: head.path_and_query.to_owned(),
        path_len: head.path_len,
        headers: head.headers.clone(),
        body: Bytes::new(),
    };
    let (regions, request) = whole_read(settings, &admitted, matched).ok()?;
    Some(Beside {
        stored: None,
        records: on_route(settings, matched).records,
        passed_for: foreign::names(matched.route, head.headers).cloned().collect(),
        is_candidate: settings.fill.is_candidate(matched.id),
        request,
        regions: regions.clone(),
        schema: schema_at(settings, matched.index),
    })
}

impl Beside {
    /// Asks every region that is not drained, and keeps of each reply what `read` makes of it.
    pub(crate) async fn ask<T>(&self, read: impl Fn(Result<Reply, Failure>) -> T) -> Vec<(RegionId, T)> {
        let request = Arc::new(self.request.clone());
        let drained = self.regions.drained();
        let read = &read;
        stream::iter((0..self.regions.count() as u8).map(|id| {
            let (region, request) = (RegionId(id), request.clone());
            async move {
                let reply = if drained.contains(region) {
                    Err(Failure::Drained)
                } else {
                    self.regions.origin().ask(region, request, self.regions.deadline()).await
                };
                (region, read(reply))
            }
        }))
        .buffered(limits::BESIDE_AT_ONCE)
        .collect()
        .await
    }

    /// Places where a reply means something else than what is stored; `None` where nobody can tell.
    pub(crate) fn differences(&self, stored: Coded<'_>, reply: &Reply) -> Option<Differences> {
        let said = Coded { headers: &reply.headers, body: &reply.body };
        match by_meaning(stored, said, self.schema.as_deref()) {
            Compared::Differs(differences) => Some(differences),
            Compared::Same | Compared::Unreadable => None,
        }
    }
}

/// The message that replies of the route at this index are.
fn schema_at(settings: &Settings, index: RouteIndex) -> Option<Arc<Schema>> {
    settings.fill.shapes[index.0].as_ref()?.schema().cloned()
}
