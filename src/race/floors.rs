//! `X-Record-Floor`: with what it asks for, a sidecar states the version of each record that it has
//! received, and a node that has a store of its own may answer from it at or above that.

use http::{HeaderMap, HeaderValue, header};

use crate::cache::entry::Entry;
use crate::config::Route;
use crate::config::record_floor::RECORD_FLOOR;
use crate::http::client::incoming::versions;
use crate::model::ids::Version;
use crate::model::time::Moment;
use crate::protocol::record::Snapshot;

/// Floors that a caller states for a path of `route`; `None` unless it is a version for each
/// record, and known for one at least.
pub(crate) fn asked(headers: &HeaderMap, route: &Route) -> Option<Box<[Version]>> {
    let versions = versions(headers, &RECORD_FLOOR);
    let known = versions.iter().any(|version| *version > Version::NONE);
    (known && versions.len() == route.records.len()).then(|| versions.into())
}

/// True if `entry` shows each record at the version that was asked for, or a newer one.
pub(crate) fn are_met(floor: &[Version], entry: &Entry) -> bool {
    let shows = entry.shows();
    shows.len() == floor.len() && shows.iter().zip(floor).all(|(shown, floor)| shown.version >= *floor)
}

/// Floors that a request states for its records.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stated {
    versions: HeaderValue,
    /// The `Cache-Control` beside it, where something was said without a version: only what was made
    /// after that may be answered out of a store.
    made_since: Option<HeaderValue>,
}

/// Writes into a request whether regions are asked past any cache, and the floor that it states.
pub(crate) fn insert(headers: &mut HeaderMap, no_cache: bool, floor: Option<Stated>) {
    let (versions, made_since) = floor.map_or((None, None), |floor| (Some(floor.versions), floor.made_since));
    if no_cache {
        headers.insert(header::CACHE_CONTROL, made_since.unwrap_or(HeaderValue::from_static("no-cache")));
    }
    if let Some(versions) = versions {
        headers.insert(RECORD_FLOOR, versions);
    }
}

/// Floors for a request that is sent `now`, from the fence that was taken before (R3). `None` where
/// no floor is known, where one is doubted (R15), and for two seconds after a change was announced
/// without a version: no copy could prove to be from after that (R8).
pub(crate) fn stated(fence: &[Snapshot], now: Moment) -> Option<Stated> {
    let is_known = fence.iter().any(|record| record.floor.is_credible());
    if !is_known || fence.iter().any(|record| record.escaped) {
        return None;
    }
    let announced = fence.iter().filter(|record| record.marker.is_some());
    let since = announced.map(Snapshot::stated_since).collect::<Option<Vec<_>>>()?.into_iter().max();
    let most = match since.filter(|since| *since > Moment::ZERO) {
        // An `Age` of whole seconds may stand for one more.
        Some(since) => Some(now.since(since).as_secs().checked_sub(1).filter(|most| *most > 0)?),
        None => None,
    };
    let versions: Vec<String> =
        fence.iter().map(|Snapshot { floor: Version(floor), .. }| floor.to_string()).collect();
    Some(Stated {
        // Digits and commas fit into any header.
        versions: HeaderValue::try_from(versions.join(", ")).ok()?,
        made_since: match most {
            Some(most) => Some(HeaderValue::try_from(format!("no-cache, max-age={most}")).ok()?),
            None => None,
        },
    })
}
