//! Result of a lookup.

use super::settings::Settings;
use crate::access::verifier::NewToken;
use crate::fill::ask::{Ask, Routing};
use crate::fill::background::Refresh;
use crate::fill::permits::PermitKey;
use crate::model::ids::{RecordId, RouteId, RouteIndex};
use crate::routing::router::Matched;
use crate::shape::cache_status::Fwd;
use crate::shape::shapes::{Shape, ShapeRefused};
use crate::shape::show::Unshaped;
use crate::shape::shown::Shown;

pub enum Found {
    /// An answer that may be served now, and the refresh that it triggers.
    Answer(Shown, Option<Box<Refresh>>),
    /// Regions must be asked, in a fill that others may share.
    Ask(Box<Plan>),
    /// One region must be asked, for this caller alone; with the route that the path is on, if any.
    Pass(Option<OnRoute>),
    /// An answer that is not yet in the shape its caller asked for, and the refresh that it
    /// triggers.
    Shape(Box<Unshaped>, Option<Box<Refresh>>),
    /// The caller asked for a shape that cannot be had.
    Refused(ShapeRefused),
    /// Its caller's token has yet to be verified.
    Unproven(Box<Unproven>),
    /// It asks for many of the paths of the route at this index.
    Many(RouteIndex),
    /// Something is stored, and regions did not say whether this caller may still have it (R22).
    Withheld,
    /// Nothing usable is stored, and the caller accepts nothing else (`only-if-cached`).
    NotStored,
}

/// A caller's token whose signature has yet to be verified.
pub struct Unproven {
    pub(super) token: NewToken,
    /// As [`OnRoute::is_held`], should it prove nothing.
    pub(super) is_held: bool,
}

/// Request for a fill, and the entry that was stored at the time of the lookup. For a routed path
/// it holds no floor, generation or epoch: the fill takes its own fence (R3).
pub struct Plan {
    /// Says whether it is routed or unrouted ([`Ask::of`]).
    pub(super) ask: Ask,
    pub(super) fwd: Fwd,
    pub(super) shape: Option<Shape>,
}

impl Plan {
    /// Permit that is missing, where what is stored would do (R22).
    pub(super) fn missing_permit(&self) -> Option<PermitKey> {
        self.ask.permit.filter(|permit| permit.is_missing).map(|permit| permit.key)
    }
}

/// The route that a path is on, and the records that the path shows.
pub struct OnRoute {
    pub(super) index: RouteIndex,
    pub(super) records: Vec<RecordId>,
    /// The id of the upstream that answers for them.
    pub(super) id: RouteId,
    /// Its reply is needed whole: it becomes part of another answer.
    pub(super) is_held: bool,
    /// True if the read is passed on because nothing tells whose it is.
    pub(super) is_unproven: bool,
}

pub(super) fn on_route(settings: &Settings, matched: &Matched<'_>) -> OnRoute {
    let records = matched
        .records()
        .filter_map(|(record_type, key)| settings.fill.shared.keyed_hashes.record(record_type, &key));
    OnRoute { index: matched.index, records: records.collect(), id: matched.id, is_held: false, is_unproven: false }
}

/// The live cells of these records, which a path of this route shows.
pub(super) fn routing(settings: &Settings, route: RouteId, records: impl Iterator<Item = RecordId>) -> Routing {
    Routing::new(
        &settings.fill.shared.freshness,
        route,
        records.map(|id| (id, settings.fill.shared.freshness.pin(id))).collect(),
    )
}
