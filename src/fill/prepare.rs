//! The request of a fill as it is sent.

use std::sync::Arc;

use http::header;

use super::ask::Ask;
use super::limits;
use crate::http::exchange::Outgoing;
use crate::protocol::standing::Sent;
use crate::race::floors::Stated;
use crate::race::upstream::{Additions, Upstream, prepare_request};
use crate::switch::{Rule, is_on};

/// Request to `upstream` for a routed ask: with validators if it is `conditional`, `no-cache` after
/// an announcement (R8), and the floors that it states: of records, and of the grants (R22).
pub(crate) fn fill_request(
    upstream: &Upstream,
    ask: &Ask,
    sent: &Sent,
    conditional: bool,
    floor: Option<Stated>,
) -> Arc<Outgoing> {
    let previous = ask.previous.as_ref();
    // What came out of an intermediary's cache is not asked for there again, because it earns
    // little (R5).
    let aged = previous.is_some_and(|previous| previous.age_at_receipt.get() >= limits::AGED);
    let marked = sent.fence.iter().any(|record| record.marker.is_some());
    let with = Additions {
        if_none_match: previous.filter(|_| conditional).and_then(|previous| previous.header(&header::ETAG)),
        no_cache: ask.no_cache || is_on(Rule::R8) && (marked || aged),
        floor,
        grants: sent.grants,
        negotiated: Some(sent.at),
        ..Additions::default()
    };
    prepare_request(upstream, ask.request.clone(), with)
}
