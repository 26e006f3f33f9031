//! `X-Grants-Version`, the header in which a node states the grants by which it decided, and a
//! sidecar the newest that it knows of: only Nearside itself writes it, so no route may name it, and
//! no caller's reaches a region.

use http::HeaderName;

/// As rules about names spell it.
pub(crate) const GRANTS_VERSION_NAME: &str = "x-grants-version";

/// A version, and in an answer the view that was decided about ([`crate::model::stated_grants`]).
pub(crate) const GRANTS_VERSION: HeaderName = HeaderName::from_static(GRANTS_VERSION_NAME);
