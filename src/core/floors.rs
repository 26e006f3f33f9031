//! `X-Record-Floor`: with what it asks for, a sidecar states the version of each record that it has
//! heard of, and whoever has a store of its own may answer from it at or above that.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::cache::entry::Entry;
use crate::config::Route;
use crate::http::client::incoming::versions;
use crate::model::ids::Version;
use crate::protocol::record::Snapshot;

/// One version per record, in the order of the route; 0 for one of which nothing is known.
pub(crate) const RECORD_FLOOR: HeaderName = HeaderName::from_static("x-record-floor");

/// What a caller states for a path of `route`; `None` unless it is a version for each record, and
/// known for one at least.
pub(crate) fn asked(headers: &HeaderMap, route: &Route) -> Option<Box<[Version]>> {
    let versions = versions(headers, &RECORD_FLOOR);
    let known = versions.iter().any(|version| *version > Version::NONE);
    (known && versions.len() == route.records.len()).then(|| versions.into())
}

/// Whether `entry` shows each record at the version that was asked for, or a newer one.
pub(crate) fn are_met(floor: &[Version], entry: &Entry) -> bool {
    let shows = entry.shows();
    shows.len() == floor.len() && shows.iter().zip(floor).all(|(shown, floor)| shown.version >= *floor)
}

/// What a request states, from the fence that was taken before (R3). `None` where no floor is known,
/// or where one does not speak for the newest that was said of its record: then a version at or
/// above it proves nothing, and an older copy of it would be refused (R8).
pub(crate) fn stated(fence: &[Snapshot]) -> Option<HeaderValue> {
    let speaks = |record: &Snapshot| !record.escaped && (record.marker.is_none() || record.is_stated());
    let is_known = fence.iter().any(|record| record.floor.is_credible());
    if !is_known || !fence.iter().all(speaks) {
        return None;
    }
    let versions: Vec<String> =
        fence.iter().map(|Snapshot { floor: Version(floor), .. }| floor.to_string()).collect();
    // Digits and commas fit into any header.
    HeaderValue::try_from(versions.join(", ")).ok()
}
