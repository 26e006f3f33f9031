//! What is stored of a path, and what each region says of it at this moment: for an operator who
//! asks why an answer is old. It is no race, and nothing is kept or counted.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use http::{HeaderValue, header};

use super::fill::Of;
use super::{Core, floors, limits, lookup};
use crate::cache::entry::Entry;
use crate::cache::key::Key;
use crate::http::admission::Head;
use crate::http::exchange::{Failure, Outgoing, Reply};
use crate::model::ids::{RecordId, RegionId};

/// One path, for one caller.
pub(crate) struct Beside {
    pub(crate) key: Key,
    pub(crate) stored: Option<Arc<Entry>>,
    pub(crate) records: Vec<RecordId>,
    request: Outgoing,
}

/// `None` if no route names the path, or the sidecar itself refuses the request. `head` says
/// `no-cache`.
pub(crate) fn beside(core: &Arc<Core>, head: Head<'_>) -> Option<Beside> {
    let matched = core.router.find(head.path())?;
    let ask = lookup::by_first_way(core, head, &matched)?;
    let Of::Route(routing) = &ask.of else { return None };
    let mut request = Outgoing::clone(&ask.request);
    if let Some(held) = &core.credentials[matched.place] {
        request.headers.insert(held.header.clone(), held.value());
    }
    floors::insert(&mut request.headers, true, None);
    request.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let records = routing.records().iter().map(|(id, _)| *id).collect();
    Some(Beside { stored: core.store.get(ask.key.as_ref()), key: ask.key, records, request })
}

impl Beside {
    /// Asks every region that is not drained, and keeps of each reply what `read` makes of it.
    pub(crate) async fn ask<T>(
        &self,
        core: &Arc<Core>,
        read: impl Fn(Result<Reply, Failure>) -> T,
    ) -> Vec<(RegionId, T)> {
        let request = Arc::new(self.request.clone());
        let drained = core.regions.drained();
        let read = &read;
        let one = |id: u8| {
            let (region, request) = (RegionId(id), request.clone());
            async move {
                let reply = match drained.contains(region) {
                    true => Err(Failure::Drained),
                    false => core.regions.origin().ask(region, request, core.regions.deadline()).await,
                };
                (region, read(reply))
            }
        };
        stream::iter((0..core.regions.count() as u8).map(one)).buffered(limits::BESIDE_AT_ONCE).collect().await
    }
}
