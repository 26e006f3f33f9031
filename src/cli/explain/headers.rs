//! Fates of the headers that no region gets through the store.

use http::{HeaderMap, HeaderName, Method};

use crate::cache::rfc9111::{self, Handling};
use crate::config::Route;
use crate::config::overrides::{is_override, taken_as};
use crate::routing::foreign::{self, HeaderFate, fate};

/// A line for each fate that some of `headers` have; `sent` are those that go along with a fill.
/// Where the reply is made here, a range is made here too.
pub(super) fn lines(route: &Route, headers: &HeaderMap, sent: &HeaderMap, is_made: bool) -> Vec<String> {
    let is_part = rfc9111::handling_of(&Method::GET, headers) == Handling::Passed;
    let is_part = is_part && !(is_made && rfc9111::is_only_ranged(headers));
    let foreign: Vec<_> =
        foreign::names(route, headers).filter(|name| fate(route, name) == HeaderFate::Foreign).collect();
    let is_written = !taken_as(&Method::GET, headers, |name| foreign.contains(&name)).is_safe();
    let unsent: Vec<_> = headers.keys().filter(|name| !sent.contains_key(*name)).collect();
    let (part, whole): (Vec<_>, Vec<_>) =
        unsent.iter().copied().partition(|name| is_part && rfc9111::ORIGIN_ONLY.contains(name));
    let lines = [
        named(&unsent, |name| foreign.contains(&name) && !is_override(name)).map(|names| {
            format!(
                "PASSED ON   for {names}: a request with it goes to one region whole and nothing is stored, until the \
                 route's forward or ignore names it"
            )
        }),
        named(&unsent, |name| foreign.contains(&name) && is_override(name)).map(|names| {
            if is_written {
            format!(
                "A WRITE     by {names}: a request with it goes to one region, once, unless the route's ignore names \
                 it"
            )
        } else {
            format!(
                "PASSED ON   for {names}: it may lead elsewhere, so a request with it goes to one region whole and nothing is \
                 stored, unless the route's ignore names it"
            )
        }}),
        named(&part, |_| true)
            .map(|names| format!("PASSED ON   for {names}: one region answers, and nothing is stored")),
        named(&unsent, |name| fate(route, name) == HeaderFate::Withheld).map(|names| {
            format!(
                "WITHHELD    {names}: goes to no region beside the sidecar's own credentials; a request with it is passed on \
                 without it and nothing is stored, unless the route's ignore names it"
            )
        }),
        named(&unsent, |name| fate(route, name) == HeaderFate::Ignored)
            .map(|names| format!("ignored     {names}: no region gets it (ignore)")),
        named(&unsent, |name| fate(route, name) == HeaderFate::Replaced)
            .map(|names| format!("stays here  {names}: the sidecar sends its own credentials")),
        named(&whole, |name| matches!(fate(route, name), HeaderFate::Inert(_)))
            .map(|names| format!("stays here  {names}: known to change no answer")),
    ];
    lines.into_iter().flatten().collect()
}

/// The names of the header fields that are meant, if there are any.
fn named(fields: &[&HeaderName], is_meant: impl Fn(&HeaderName) -> bool) -> Option<String> {
    Some(names(fields.iter().copied().filter(|name| is_meant(name)))).filter(|names| !names.is_empty())
}

pub(super) fn names<'a>(names: impl Iterator<Item = &'a HeaderName>) -> String {
    names.map(HeaderName::as_str).collect::<Vec<_>>().join(", ")
}
