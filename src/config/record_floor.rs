//! `X-Record-Floor`, the header in which a sidecar states a version of each record: only the
//! sidecar itself writes it, so no route may name it and no caller's reaches a region.

use http::HeaderName;

/// As rules about names spell it.
pub(crate) const RECORD_FLOOR_NAME: &str = "x-record-floor";

/// One version per record, in the order of the route; 0 for one of which nothing is known.
pub(crate) const RECORD_FLOOR: HeaderName = HeaderName::from_static(RECORD_FLOOR_NAME);
