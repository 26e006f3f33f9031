//! Foreign headers: those of a caller that a route neither sends to its regions nor ignores, and that
//! are not known to change nothing ([`crate::http::inert`]). The answer to a request without them may
//! be another one, so a read with one is passed on whole and nothing of it is shared.

use http::{HeaderMap, HeaderName, header};

use super::Core;
use crate::config::{IdentityMode, Route};
use crate::http::inert::{self, Inert};
use crate::model::time::Moment;

/// Destination of a caller's header on a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFate {
    /// Part of the key and of the request to regions.
    Keyed,
    /// The sidecar's own credentials go instead of the caller's.
    Replaced,
    Inert(Inert),
    /// The route's `ignore` names it.
    Ignored,
    /// The request is passed on.
    Foreign,
}

pub fn fate(route: &Route, name: &HeaderName) -> HeaderFate {
    let told_apart = match &route.identity {
        IdentityMode::Exact(names) => &names[..],
        IdentityMode::Sidecar(_) => &[],
    };
    if route.forward.contains(name) || told_apart.contains(name) {
        return HeaderFate::Keyed;
    }
    if is_replaced(route, name) {
        return HeaderFate::Replaced;
    }
    if route.ignore.iter().any(|pattern| pattern.fits(name)) {
        return HeaderFate::Ignored;
    }
    inert::why(name).map_or(HeaderFate::Foreign, HeaderFate::Inert)
}

/// A caller's own credentials where the sidecar asks with its own.
fn is_replaced(route: &Route, name: &HeaderName) -> bool {
    match &route.identity {
        IdentityMode::Exact(_) => false,
        IdentityMode::Sidecar(own) => [&header::AUTHORIZATION, &header::COOKIE, &own.header].contains(&name),
    }
}

/// The foreign ones among a caller's headers.
pub fn names<'h>(route: &Route, headers: &'h HeaderMap) -> impl Iterator<Item = &'h HeaderName> {
    inert::that_matter(headers).filter(|name| fate(route, name) == HeaderFate::Foreign)
}

/// Headers by which frameworks take a read for another request: a write, or one of another path. A
/// read may be sent to several regions and with the sidecar's own credentials, so they go nowhere.
const OVERRIDES: [&str; 7] = [
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-method",
    "x-original-uri",
    "x-original-url",
    "x-rewrite-url",
];

/// Begins the headers by which Kubernetes' API lets one user speak for another.
const IMPERSONATE: &str = "impersonate-";

/// Takes out what never reaches a region through this route.
pub(super) fn withhold(route: &Route, headers: &mut HeaderMap) {
    headers.remove("x-record-floor");
    OVERRIDES.iter().for_each(|name| drop(headers.remove(*name)));
    if let IdentityMode::Sidecar(own) = &route.identity {
        [&header::AUTHORIZATION, &header::COOKIE, &own.header]
            .into_iter()
            .for_each(|name| drop(headers.remove(name)));
        // With them the sidecar's credentials would speak for whom the caller names.
        let impersonates = |name: &&HeaderName| name.as_str().starts_with(IMPERSONATE);
        let names: Vec<_> = headers.keys().filter(impersonates).cloned().collect();
        names.into_iter().for_each(|name| drop(headers.remove(name)));
    }
}

impl Core {
    /// Returns whether a read of this route with these headers is passed on whole. A region's node reads a
    /// table, which no header changes.
    pub(super) fn has_foreign(&self, route: &Route, headers: &HeaderMap) -> bool {
        !self.config.service.authoritative && names(route, headers).next().is_some()
    }

    /// Notes a read that was passed on for its headers; `requests` were made of its route so far.
    pub(super) fn note_foreign(&self, route: &Route, headers: &HeaderMap, requests: u64, now: Moment) {
        self.observed.route(&route.path.text, |notes| {
            notes.passed.note(names(route, headers).map(HeaderName::as_str), requests, now);
        });
    }
}

#[cfg(test)]
mod tests;
