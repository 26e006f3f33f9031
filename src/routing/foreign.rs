//! Foreign headers: those of a caller that a route neither sends to its regions nor ignores, and that
//! are not known to change nothing ([`crate::http::inert`]). The answer to a request without them may
//! be another one, so a read with one is passed on whole and nothing of it is shared.
//!
//! Where the sidecar asks with its own credentials, headers by which a caller could have them ask
//! for something else, or speak for somebody else, stay here.

use http::{HeaderMap, HeaderName, Method, header};

use crate::config::overrides::{impersonates, is_override, passes_for, taken_as};
use crate::config::{Route, Service};
use crate::http::inert::{self, Inert};
use crate::model::time::Moment;
use crate::telemetry::observed::Observed;

/// Destination of a caller's header on a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFate {
    /// Part of the key and of the request to regions.
    Keyed,
    /// Part of the request to regions, whose answer is a permit for its sender (R22).
    Permitted,
    /// The sidecar's own credentials go instead of the caller's.
    Replaced,
    Inert(Inert),
    /// The route's `ignore` names it.
    Ignored,
    /// The request is passed on.
    Foreign,
    /// The request is passed on without it, for the sidecar's own credentials go with it.
    Withheld,
}

impl HeaderFate {
    pub const fn is_passed_on(self) -> bool {
        matches!(self, Self::Foreign | Self::Withheld)
    }
}

pub fn fate(route: &Route, name: &HeaderName) -> HeaderFate {
    if route.forward.contains(name) || route.identity.keyed().contains(name) {
        return HeaderFate::Keyed;
    }
    if route.identity.headers().contains(name) {
        return HeaderFate::Permitted;
    }
    if is_replaced(route, name) {
        return HeaderFate::Replaced;
    }
    if route.ignore.iter().any(|pattern| pattern.fits(name)) {
        return HeaderFate::Ignored;
    }
    match inert::why(name) {
        Some(why) => HeaderFate::Inert(why),
        None if may_misuse(route, name) => HeaderFate::Withheld,
        None => HeaderFate::Foreign,
    }
}

/// Returns whether a caller could have the sidecar's own credentials ask for something else by this
/// header, or speak for somebody else.
pub fn may_misuse(route: &Route, name: &HeaderName) -> bool {
    route
        .identity
        .own()
        .is_some_and(|own| is_override(name) || impersonates(name) || passes_for(name, own.header.as_str()))
}

/// A caller's own credentials where the sidecar asks with its own.
fn is_replaced(route: &Route, name: &HeaderName) -> bool {
    let own = route.identity.own();
    own.is_some_and(|own| [&header::AUTHORIZATION, &header::COOKIE, &own.header].contains(&name))
}

/// The foreign ones among a caller's headers.
pub fn names<'h>(route: &Route, headers: &'h HeaderMap) -> impl Iterator<Item = &'h HeaderName> {
    inert::that_matter(headers).filter(|name| fate(route, name).is_passed_on())
}

/// Takes out what never reaches a region through this route.
pub(crate) fn withhold(route: &Route, headers: &mut HeaderMap) {
    if let Some(own) = route.identity.own() {
        [&header::AUTHORIZATION, &header::COOKIE, &own.header]
            .into_iter()
            .for_each(|name| drop(headers.remove(name)));
    }
    let names: Vec<_> = headers
        .keys()
        .filter(|name| match fate(route, name) {
            HeaderFate::Withheld => true,
            // A route that ignores it says that it makes no other request of this one.
            HeaderFate::Ignored => is_override(name) || may_misuse(route, name),
            _ => false,
        })
        .cloned()
        .collect();
    names.into_iter().for_each(|name| drop(headers.remove(name)));
}

/// Returns whether a read of this route with these headers is passed on whole. A region's node reads a
/// table, which no header changes.
pub fn has_foreign(service: &Service, route: &Route, headers: &HeaderMap) -> bool {
    !service.authoritative && names(route, headers).next().is_some()
}

/// The method that a region may take a request for. On a path of no `route` all headers reach it.
pub(crate) fn method_taken(service: &Service, route: Option<&Route>, method: &Method, headers: &HeaderMap) -> Method {
    taken_as(method, headers, |name| {
        !service.authoritative && route.is_none_or(|route| fate(route, name) == HeaderFate::Foreign)
    })
}

/// Notes a read that was passed on for its headers; `requests` were made of its route so far.
pub(crate) fn note_foreign(observed: &Observed, route: &Route, headers: &HeaderMap, requests: u64, now: Moment) {
    observed.route(&route.path.text, |notes| {
        notes.passed.note(names(route, headers).map(HeaderName::as_str), requests, now);
    });
}

#[cfg(test)]
mod tests;
